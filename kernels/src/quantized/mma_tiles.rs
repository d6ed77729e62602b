//! Products of a few activations on matrix units: sixteen rows of weights, a tile, by eight activations in one instruction.
//! How weights pass through shared memory where they are copied in bulk is decided here; the kernels are in
//! `hip/quantized/mma_tiles.h` and the three headers beside it.

use super::product::{ActivationRows, ProductTarget, QUANTIZE_THREADS};
use super::{BlockFormat, Blocks};
use crate::kernels::Kernels;
use crate::layout::Divider;
use crate::registry::Id;
use crate::tensor::{Operand, Output};
use bytemuck::{Pod, Zeroable};
use hip::{DevicePtr, LaunchConfig, Result};

/// Rows and columns of a tile, activations that share a step, and weights of a row that are multiplied together.
const MMA_ROWS: u64 = 16;
const MMA_COLUMNS: usize = 8;
const ACTIVATION_BLOCK: usize = 32;
const CHUNK: usize = 256;
/// Values of a thread that makes them bytes.
const QUANTIZE_EACH: u64 = 8;
/// Bytes of the marks beside the 32 bytes of a block of activations.
const MARK_BYTES: usize = 16;

/// Threads of a block where threads load their weights themselves.
const LOADED_THREADS: u32 = 128;

/// Where weights are copied in bulk: teams of 32 threads that multiply, and tiles whose sums are in shared memory at a time.
const STAGED_TEAMS: usize = 16;
pub(super) const fn together(format: BlockFormat, groups: usize) -> usize {
    match folded_zero(format) {
        Some(_) => 8 / groups,
        None => 4,
    }
}

/// The most chunks of a stage, one for each team, and shared memory for stages if that is two or more: what is left of it is a cache, and has the
/// activations. As measured on an H200.
const SEGMENT: usize = STAGED_TEAMS;
const STAGED_BYTES: usize = 130 << 10;

/// Whole stages that may be on their way at a time. With more of them, the first comes hardly earlier than the last. As measured.
const fn ahead(format: BlockFormat) -> usize {
    use BlockFormat::*;
    match format {
        Q2K => 3,
        Q5_0 | Q5_1 | Q5K | Q6K => 1,
        _ => 2,
    }
}

/// The longest rows of weights, whose bytes the kernels count in 32 bits for sixteen rows.
pub(super) const MMA_TILES_LONGEST: usize = 1 << 26;

/// What is added to the bytes of weights whose scales fold into bytes (`hip/quantized/mma_tiles_folded.h`). Activations have one step
/// for 256 of them there, as in Candle's products on the CPU, and not for 32.
pub(super) const fn folded_zero(format: BlockFormat) -> Option<f32> {
    match format {
        BlockFormat::Q2K => Some(0.0),
        BlockFormat::Q3K => Some(128.0),
        _ => None,
    }
}

/// How a block goes through its tiles (`hip/quantized/mma_tiles_staged.h`). Nothing, where threads load their weights themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stages {
    /// Chunks of a row in a stage.
    segment: u32,
    /// In shared memory.
    count: u32,
    /// On their way at a time.
    ahead: u32,
    shared_bytes: u32,
}

impl Stages {
    /// For rows of `columns` weights and `groups` times eight activations, within `room` bytes: stages of as many chunks as two
    /// of them fit.
    fn within(format: BlockFormat, columns: usize, groups: usize, room: usize) -> Self {
        let chunks = columns.div_ceil(CHUNK);
        let sums = together(format, groups) * groups * STAGED_TEAMS * MMA_ROWS as usize * MMA_COLUMNS * 4;
        let room = room.saturating_sub(sums);
        let mut most = SEGMENT;
        let (segment, place) = loop {
            let segment = chunks.div_ceil(chunks.div_ceil(most));
            let place = place_bytes(format, segment);
            if 2 * place <= room || most == 1 {
                break (segment, place);
            }
            most -= 1;
        };
        let count = (room.min(STAGED_BYTES) / place).clamp(2, 24);
        Self {
            segment: segment as u32,
            count: count as u32,
            ahead: (ahead(format) * SEGMENT / segment).min(count) as u32,
            shared_bytes: (sums + count * place) as u32,
        }
    }
}

/// Shared memory for `segment` chunks of the rows of a tile, with two barriers.
fn place_bytes(format: BlockFormat, segment: usize) -> usize {
    let bytes = segment * CHUNK / format.block_size() * format.block_bytes();
    // Rows begin anywhere in 16 bytes if blocks do, and are an odd number of 16 bytes apart.
    let skew = match format.block_bytes() {
        bytes if bytes.is_multiple_of(16) => 0,
        bytes if bytes.is_multiple_of(4) => 12,
        _ => 14,
    };
    MMA_ROWS as usize * 16 * ((bytes + skew).div_ceil(16) | 1) + 16
}

/// Activations as the kernels for matrix units take them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct MmaRows {
    words: DevicePtr<u8>,
    marks: DevicePtr<u8>,
    blocks_per_row: Divider,
    block_count: u32,
    count: u32,
    zero: f32,
    has_offset: u32,
    unused: u32,
}

impl Kernels {
    /// The product on matrix units, two launches. What it needs has been checked.
    pub(super) fn mma_tiles(
        &self,
        weights: &Blocks<'_>,
        activations: &Operand<'_>,
        batch: &ActivationRows,
        target: ProductTarget,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let (rows, columns, format) = (weights.rows() as u64, weights.columns(), weights.format());
        let (ending, each) = if batch.count <= MMA_COLUMNS { ("_1", MMA_COLUMNS) } else { ("_2", 2 * MMA_COLUMNS) };
        // Whole groups of activations.
        let groups = batch.count.div_ceil(each);
        let values = groups * each * columns;
        let memory = out.stream().alloc::<u8>(values / ACTIVATION_BLOCK * (ACTIVATION_BLOCK + MARK_BYTES))?;
        let (words, marks) = (memory.ptr(), memory.ptr().offset(values));
        let (zero, has_offset) = format.zero();
        let (kernel, block, zero) = match folded_zero(format) {
            Some(zero) => ("quantize_folded", CHUNK, zero),
            None => ("quantize_mma", ACTIVATION_BLOCK, zero),
        };
        let to = MmaRows {
            words,
            marks,
            blocks_per_row: Divider::new((columns / block) as u64),
            block_count: (values / block) as u32,
            count: batch.count as u32,
            zero,
            has_offset: u32::from(has_offset),
            unused: 0,
        };
        let function = self.function(Id::Quantized, kernel, &[activations.dtype()], "")?;
        let threads = values as u64 / QUANTIZE_EACH;
        let config = LaunchConfig::new(threads.div_ceil(QUANTIZE_THREADS) as u32, QUANTIZE_THREADS as u32);
        let args = (activations.ptr(), batch.packed(), batch.stride(), to);
        // SAFETY: the parameters of `quantize_mma_*` and `quantize_folded_*` in `hip/quantized.hip`; the layout stays inside
        // memory that is borrowed, and the bytes and marks of all rows fit into the fresh buffer.
        unsafe { function.launch(out.stream(), config, &args)? };
        let function = self.quantized("mma_tiles", format, ending)?;
        let profile = self.profile();
        let tiles = rows.div_ceil(MMA_ROWS) as u32;
        let (stages, config) = if profile.bulk_copies() {
            let stages = Stages::within(format, columns, each / MMA_COLUMNS, profile.shared_room());
            let grid = (tiles.min(profile.blocks(1)), groups as u32);
            (stages, LaunchConfig::new(grid, (STAGED_TEAMS as u32 + 1) * 32).shared(stages.shared_bytes))
        } else {
            (Stages::default(), LaunchConfig::new((tiles, groups as u32), LOADED_THREADS))
        };
        let (rows, columns, count) = (rows as u32, columns as u32, batch.count as u32);
        let Stages { segment, count: places, ahead, .. } = stages;
        let args = (weights.ptr(), words, marks, target, rows, columns, count, segment, places, ahead);
        // SAFETY: the parameters of `mma_tiles_*` in `hip/quantized.hip`; weights, activations and result have `rows`, whole groups
        // and `count * rows` of what it expects, and are borrowed for the launch.
        unsafe { function.launch(out.stream(), config, &args) }
    }
}

crate::shared::shared! {
    [
        "MMA_ROWS": MMA_ROWS,
        "MMA_COLUMNS": MMA_COLUMNS,
        "CHUNK": CHUNK,
        "MARKS": MARK_BYTES / 4,
        "MMA_THREADS": LOADED_THREADS,
        "MMA_TEAMS": STAGED_TEAMS,
    ]
    "MmaRows": MmaRows { words, marks, blocks_per_row, block_count, count, zero, has_offset }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_fit_into_shared_memory() {
        // Of an H200, and of a GPU with less.
        for room in [226 << 10, 98 << 10] {
            for format in BlockFormat::ALL.into_iter().filter(|format| !format.is_plain()) {
                for (columns, groups) in (256..=65_536).step_by(256).flat_map(|columns| [(columns, 1), (columns, 2)]) {
                    let stages = Stages::within(format, columns, groups, room);
                    assert!(stages.shared_bytes as usize <= room, "{format} {columns}: {stages:?}");
                    assert!((1..=SEGMENT).contains(&(stages.segment as usize)), "{format} {columns}: {stages:?}");
                    assert!((1..=stages.count).contains(&stages.ahead), "{format} {columns}: {stages:?}");
                }
            }
        }
        // Whole rows of 4096 weights, whatever the format.
        let all = BlockFormat::ALL.into_iter().filter(|format| !format.is_plain());
        assert!(all.into_iter().all(|format| Stages::within(format, 4096, 2, 226 << 10).segment == 16));
    }
}
