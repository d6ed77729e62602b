//! Where a thread is, and what threads do together. In a kernel these names become HIP's; here they are what they are for a grid of one thread.

use super::number::Number;

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident $value:literal)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name() -> usize {
            $value
        }
    )*};
}

places! {
    /// The thread's place in its block, along x.
    thread_x 0
    /// The thread's place in its block, along y.
    thread_y 0
    /// The thread's place in its block, along z.
    thread_z 0
    /// The block's place in the grid, along x.
    block_x 0
    /// The block's place in the grid, along y.
    block_y 0
    /// The block's place in the grid, along z.
    block_z 0
    /// Threads of a block, along x.
    block_dim_x 1
    /// Threads of a block, along y.
    block_dim_y 1
    /// Threads of a block, along z.
    block_dim_z 1
    /// Blocks of the grid, along x.
    grid_dim_x 1
    /// Blocks of the grid, along y.
    grid_dim_y 1
    /// Blocks of the grid, along z.
    grid_dim_z 1
    /// The thread's place in the grid, along x: `block_x() * block_dim_x() + thread_x()`.
    global_x 0
    /// The thread's place in the grid, along y.
    global_y 0
    /// The thread's place in the grid, along z.
    global_z 0
    /// Threads of the grid, along x.
    threads_x 1
    /// Lanes of a wave: 32 or 64.
    wave_size 1
    /// The thread's place in its wave.
    lane 0
}

/// Waits until all threads of the block are here, and lets each see what the others wrote. All of them must come: a barrier that some
/// threads of a block do not reach is a mistake that the embedded device reports and a GPU waits at.
pub fn barrier() {}

/// Lets the other threads of the device see what this one wrote before what it writes from now on.
pub fn fence() {}

/// The same for the other threads of the block.
pub fn block_fence() {}

/// The value of lane `from`. Every lane of the wave that is read must take part.
pub fn shuffle<T: Number>(value: T, _from: usize) -> T {
    value
}

/// The value of the lane whose number differs from this one's in the bits of `mask`.
pub fn shuffle_xor<T: Number>(value: T, _mask: usize) -> T {
    value
}

/// The value of the lane `delta` below; its own where there is none.
pub fn shuffle_up<T: Number>(value: T, _delta: usize) -> T {
    value
}

/// The value of the lane `delta` above; its own where there is none.
pub fn shuffle_down<T: Number>(value: T, _delta: usize) -> T {
    value
}

/// A bit for each lane that says yes.
pub fn ballot(yes: bool) -> u64 {
    yes.into()
}

/// Whether any lane says yes.
pub fn any(yes: bool) -> bool {
    yes
}

/// Whether all lanes say yes.
pub fn all(yes: bool) -> bool {
    yes
}

/// A bit for each lane that is here.
pub fn active_lanes() -> u64 {
    1
}
