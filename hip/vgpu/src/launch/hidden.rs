//! The arguments that a runtime passes beside the caller's.

use crate::exec::machine::{PRIVATE_APERTURE, SHARED_APERTURE};
use crate::object::Kernel;

impl Kernel {
    /// Fills the hidden arguments of a launch into the block of arguments, by the kinds that the metadata name. What a driver
    /// would have to provide and nothing here does (a queue, a heap, the host's ear for `printf`) stays 0.
    pub fn fill_hidden(&self, arguments: &mut [u8], grid: [u32; 3], block: [u32; 3], dynamic_lds: u32) {
        for argument in self.info().arguments.iter().filter(|argument| argument.is_hidden()) {
            let name = argument.kind.trim_start_matches("hidden_");
            let dimension = match name.as_bytes().last() {
                Some(b'y') => 1,
                Some(b'z') => 2,
                _ => 0,
            };
            let value = match name {
                "block_count_x" | "block_count_y" | "block_count_z" => u64::from(grid[dimension]),
                "group_size_x" | "group_size_y" | "group_size_z" => u64::from(block[dimension]),
                "grid_dims" => {
                    let used = |n: usize| grid[n] > 1 || block[n] > 1;
                    if used(2) {
                        3
                    } else {
                        1 + u64::from(used(1))
                    }
                }
                "dynamic_lds_size" => u64::from(dynamic_lds),
                "private_base" => u64::from(PRIVATE_APERTURE),
                "shared_base" => u64::from(SHARED_APERTURE),
                // Remainders, offsets, and what there is not.
                _ => 0,
            };
            let end = argument.offset.saturating_add(argument.size.min(8));
            if let Some(target) = arguments.get_mut(argument.offset..end) {
                target.copy_from_slice(&value.to_le_bytes()[..argument.size.min(8)]);
            }
        }
    }
}
