//! How a grid is executed: its blocks spread over threads (`pool`), the threads of a block as a plain loop until one of them has to wait
//! for the others (`block`), then as fibers (`fiber`) that meet at barriers and wave operations (`meet`).
//!
//! A kernel must not rely on what HIP does not promise either: a thread that spins until another thread of its block, or a block that
//! has not started yet, writes something will spin forever, because threads give way at barriers and wave operations only.

mod block;
mod fiber;
mod jump;
mod meet;
mod order;
mod pool;
mod services;

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
    if let Some(arena) = checked::arena().filter(|_| !launch.function.module.image.checked()) {
        arena.give_up_on_arguments(launch);
    }
    launch.function.note_launch();
    pool::run_grid(&pool::Grid::new(launch, wave, Order::of_launch()))
}
