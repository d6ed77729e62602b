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
        let emulated = emulated::Emulated::new(entry, launch, order)?;
        return pool::run_grid(&pool::Grid::new(launch, wave, order, Some(&emulated)));
    }
    pool::run_grid(&pool::Grid::new(launch, wave, order, None))
}

/// How emulated launches run: what `HIP_HOST_CHECKS` and `HIP_HOST_ACCURACY` ask for.
#[cfg(feature = "emulator")]
fn emulator_options() -> vgpu::Options {
    crate::config::options().map_or_else(|_| vgpu::Options::default(), |options| options.emulator)
}
