//! How a grid is executed: its blocks spread over threads (`pool`), the threads of a block as a plain loop until one of them has to wait
//! for the others (`block`), then as fibers (`fiber`) that meet at barriers and wave operations (`meet`).
//!
//! A kernel must not rely on what HIP does not promise either: a thread that spins until another thread of its block, or a block that
//! has not started yet, writes something will spin forever, because threads give way at barriers and wave operations only.

mod block;
#[cfg(feature = "emulator")]
mod emulated;
mod fiber;
mod jump;
mod meet;
mod order;
mod pool;
mod services;

#[cfg(feature = "emulator")]
use crate::code::Entry;
use crate::command::Launch;
#[cfg(feature = "emulator")]
use crate::launch_log::{self, LaunchLog};
use crate::{checked, device};
use hip_abi::hipError_t;

pub(crate) use block::active;
pub(crate) use fiber::page_bytes;
pub(crate) use jump::redirect;
pub use order::Order;
pub(crate) use services::services;

/// Runs a launch to its end on this thread and the pool's.
pub(crate) fn run(device: usize, launch: &Launch) -> Result<(), hipError_t> {
    let wave = device::get(device as i32)?.wave;
    if let Some(arena) = checked::arena().filter(|_| !launch.function.module.code.checked()) {
        arena.give_up_on_arguments(launch);
    }
    launch.function.note_launch();
    let order = Order::of_launch();
    #[cfg(feature = "emulator")]
    if let Entry::Amd(entry) = &launch.function.entry {
        let log = launch_log::mode();
        if log == LaunchLog::Plan {
            launch_log::note(entry, launch, vgpu::Counters::default());
            return Ok(());
        }
        let emulated = emulated::Emulated::new(entry, launch, order, log == LaunchLog::Count)?;
        pool::run_grid(&pool::Grid::new(launch, wave, order, Some(&emulated)))?;
        if log == LaunchLog::Count {
            launch_log::note(entry, launch, emulated.counters());
        }
        return Ok(());
    }
    pool::run_grid(&pool::Grid::new(launch, wave, order, None))
}

/// How an emulated launch runs: what the variables ask for, and the order of this launch.
#[cfg(feature = "emulator")]
fn emulator_options(order: Order) -> vgpu::Options {
    let Ok(options) = crate::config::options() else { return vgpu::Options::default() };
    let mut emulator = options.emulator;
    if options.checked {
        emulator.checks = vgpu::Checks::ALL;
    }
    emulator.schedule = match order {
        Order::Ascending => vgpu::Schedule::Ascending,
        Order::Descending => vgpu::Schedule::Descending,
        Order::Random(seed) => vgpu::Schedule::Random(seed),
    };
    // Waves that run from barrier to barrier show little of what another order would.
    if options.checked && matches!(order, Order::Random(_)) && emulator.switch_every == 0 {
        emulator.switch_every = 100;
    }
    emulator
}
