//! Products of a few activations on matrix units: sixteen rows of weights, a strip, by eight activations in one instruction.
//! Where that pays is a table; the kernels are in `hip/quantized/strips.h`.

use super::product::{ActivationRows, Target, QUANTIZE_LANES, QUANTIZE_THREADS};
use super::Blocks;
use crate::kernels::Kernels;
use crate::layout::Divider;
use crate::registry::Id;
use crate::rows::{without_matrix_units, Machine};
use crate::tensor::{Operand, Output};
use hip::{Device, DeviceCopy, DevicePtr, LaunchConfig, Result};

/// As in `hip/quantized/strips.h` and `activations.h`.
const STRIP_ROWS: u64 = 16;
const STRIP_COLUMNS: usize = 8;
const STRIP_THREADS: u32 = 128;
const ACTIVATION_BLOCK: usize = 32;
/// Bytes of the marks beside the 32 bytes of a block of activations.
const MARK_BYTES: usize = 16;

/// Architectures by how their names begin, and up to how many activations strips are the fastest way. NVIDIA has had the
/// instruction since Ampere. AMD's matrix units (gfx908 and later, RDNA 3 and later) take sixteen activations at least and other
/// shares of the operands from each lane; until those are written, and measured, dot products of four bytes do the work there.
///
/// For 14336 x 4096 on an H200, eight activations take 17 us (Q4_0) to 26 us (Q6K) and sixteen 22 to 31 us. The weights are read
/// again for every sixteen; from 49 on, widening them (`large`) takes less.
const STRIPS: [(&str, u64); 2] = [("sm_", 48), ("host", 16)];

/// The longest rows of weights, whose bytes the kernels count in 32 bits for sixteen rows.
const LONGEST: usize = 1 << 26;

/// The most activations of `columns` elements for which strips pay; 0 where they never do.
pub(super) fn most(device: &Device, machine: Machine, columns: usize) -> u64 {
    // On the embedded device they serve the tests, which plan as on a GPU.
    if machine.side_by_side && columns <= LONGEST && !without_matrix_units() {
        row_for(device.base_arch())
    } else {
        0
    }
}

fn row_for(arch: &str) -> u64 {
    let old = arch.strip_prefix("sm_").is_some_and(|version| version.parse().unwrap_or(80) < 80);
    STRIPS.iter().find(|(name, _)| arch.starts_with(name) && !old).map_or(0, |(_, most)| *most)
}

/// `hip/quantized/strips.h` has the same.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct StripRows {
    words: DevicePtr<u8>,
    marks: DevicePtr<u8>,
    blocks_per_row: Divider,
    block_count: u32,
    count: u32,
    zero: f32,
    has_offset: u32,
    unused: u32,
}

// SAFETY: addresses and numbers with no padding, laid out as in C (where it ends in four bytes of padding).
unsafe impl DeviceCopy for StripRows {}

impl Kernels {
    /// The product by strips, two launches. What it needs has been checked.
    pub(super) fn strips(
        &self,
        weights: &Blocks<'_>,
        activations: &Operand<'_>,
        batch: &ActivationRows,
        target: Target,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let (rows, columns, format) = (weights.rows() as u64, weights.columns(), weights.format());
        let (ending, each) =
            if batch.count <= STRIP_COLUMNS { ("_1", STRIP_COLUMNS) } else { ("_2", 2 * STRIP_COLUMNS) };
        // Whole groups of activations.
        let groups = batch.count.div_ceil(each);
        let blocks = columns / ACTIVATION_BLOCK;
        let room = groups * each * blocks;
        let memory = out.stream().alloc::<u8>(room * (ACTIVATION_BLOCK + MARK_BYTES))?;
        let (words, marks) = (memory.ptr(), memory.ptr().offset(room * ACTIVATION_BLOCK));
        let (zero, has_offset) = format.zero();
        let to = StripRows {
            words,
            marks,
            blocks_per_row: Divider::new(blocks as u64),
            block_count: room as u32,
            count: batch.count as u32,
            zero,
            has_offset: u32::from(has_offset),
            unused: 0,
        };
        let function = self.function(Id::Quantized, "quantize_strips", &[activations.dtype()], "")?;
        let threads = room as u64 * QUANTIZE_LANES;
        let config = LaunchConfig::new(threads.div_ceil(QUANTIZE_THREADS) as u32, QUANTIZE_THREADS as u32);
        let args = (activations.ptr(), batch.packed(), batch.stride(), to);
        // SAFETY: the parameters of `quantize_strips_*` in `hip/quantized.hip`; the layout stays inside memory that is borrowed,
        // and the bytes and marks of all rows fit into the fresh buffer.
        unsafe { function.launch(out.stream(), config, &args)? };
        let function = self.quantized("strips", format, ending)?;
        let grid = (rows.div_ceil(STRIP_ROWS) as u32, groups as u32);
        let args = (weights.ptr(), words, marks, target, rows as u32, columns as u32, batch.count as u32);
        // SAFETY: the parameters of `strips_*` in `hip/quantized.hip`; weights, activations and result have `rows`, whole groups
        // and `count * rows` of what it expects, and are borrowed for the launch.
        unsafe { function.launch(out.stream(), LaunchConfig::new(grid, STRIP_THREADS), &args) }
    }
}

#[cfg(test)]
mod tests {
    use super::row_for;

    #[test]
    fn the_instruction_decides() {
        assert_eq!(row_for("sm_90"), 48);
        assert_eq!(row_for("sm_75"), 0);
        assert_eq!(row_for("gfx942"), 0);
        assert_eq!(row_for("gfx1100"), 0);
    }
}
