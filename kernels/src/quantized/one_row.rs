//! The product with one row of activations on a GPU: one launch and no buffer, whatever the dtype and the stride of the row. How
//! its threads and its shared memory are shared out is decided here; the kernels are in `hip/quantized/one_row.h`.

use super::product::ProductTarget;
use super::{BlockFormat, Blocks};
use crate::kernels::Kernels;
use crate::rows::Machine;
use bytemuck::{Pod, Zeroable};
use hip::{DevicePtr, LaunchConfig, Result, Stream};

/// Threads of a block, those that take rows together from shared memory, and the units of a record of activations.
const ONE_ROW_THREADS: u32 = 512;
const STAGE_TEAM: u32 = 32;
const RECORD_UNITS: usize = 32;
/// The most activations that the kernels have room for.
pub(super) const ONE_ROW_LONGEST: usize = 16_384;

/// Blocks of a compute unit. Each makes the activations bytes for itself, so there are few. One that stages needs all the shared
/// memory there is, and has copies in flight whatever its threads do; loads into registers need more threads.
const STAGED_BLOCKS: u32 = 1;
const LOADED_BLOCKS: u32 = 2;

/// The row of activations as the kernels take it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct ActivationRow {
    pub at: DevicePtr<u8>,
    pub stride: u64,
    pub code: u32,
    pub unused: u32,
}

/// One of the products of a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct OneRowProduct {
    weights: DevicePtr<u8>,
    out: ProductTarget,
    rows: u32,
    blocks: u32,
}

/// The products that one launch has room for.
pub(super) const ONE_ROW_PRODUCTS: usize = 3;

impl Kernels {
    /// The products of up to [`ONE_ROW_PRODUCTS`] weights, of one format and one length of rows, with a single row of activations, on a GPU.
    pub(super) fn one_row(
        &self,
        products: &[(Blocks<'_>, ProductTarget)],
        row: ActivationRow,
        stream: &Stream,
    ) -> Result<()> {
        let Some((weights, _)) = products.first() else { return Ok(()) };
        let (columns, format) = (weights.columns(), weights.format());
        let units = columns / format.unit();
        let staged = self.profile().bulk_copies();
        let groups_of = |weights: &Blocks<'_>| (weights.rows() as u64).div_ceil(together(format, staged));
        let groups = products.iter().map(|(weights, _)| groups_of(weights)).sum::<u64>();
        if groups == 0 {
            return Ok(());
        }
        let (stage, team_log2, blocks) = if staged {
            // Where rows are few, they go to different compute units before they go to teams of one.
            let room = self.profile().shared_room();
            (Stage::within(format, units, room), STAGE_TEAM.trailing_zeros(), groups)
        } else {
            let team_log2 = team_log2(self.profile().machine(), groups, units as u64);
            (Stage::default(), team_log2, groups.div_ceil(u64::from(ONE_ROW_THREADS >> team_log2)))
        };
        let most = u64::from(self.profile().blocks(if staged { STAGED_BLOCKS } else { LOADED_BLOCKS }));
        let blocks = blocks.min(most);
        // Each product has its share of the blocks, and one at least.
        let mut parts = [OneRowProduct::zeroed(); ONE_ROW_PRODUCTS];
        for (part, (weights, out)) in parts.iter_mut().zip(products) {
            let share = (blocks * groups_of(weights)).div_ceil(groups).clamp(1, u64::from(u16::MAX));
            *part =
                OneRowProduct { weights: weights.ptr(), out: *out, rows: weights.rows() as u32, blocks: share as u32 };
        }
        let config = LaunchConfig::new(parts.iter().map(|part| part.blocks).sum::<u32>(), ONE_ROW_THREADS);
        let function = self.quantized("mat_vec", format, "_one_row")?;
        let args = (parts, row, columns as u32, stage.chunk, team_log2);
        // SAFETY: the parameters of `mat_vec_*_one_row` in `hip/quantized.hip`; the row has `columns` activations, which fit the
        // kernel's shared memory, and each result has as many rows as its weights.
        unsafe { function.launch(stream, config.shared(stage.shared_bytes), &args) }
    }
}

/// The rows of weights that a team takes together (`ONE_ROW_ROWS` in `hip/quantized/one_row.h`). As measured on an H200.
pub(super) const fn together(format: BlockFormat, staged: bool) -> u64 {
    use BlockFormat::*;
    match (format, staged) {
        (Q2K | Q3K, true) => 4,
        (Q5_0 | Q8_0 | Q8_1 | Q8K, false) => 1,
        _ => 2,
    }
}

/// The bytes of a record: the activations of 32 units with their marks (`Record` in `hip/quantized/one_row.h`).
pub(super) const fn record_bytes(format: BlockFormat) -> usize {
    use BlockFormat::*;
    let lines = match format {
        Q2K | Q3K | Q6K => 4 + 2,
        Q4K | Q5K => 4 + 1,
        _ => 2 + 1,
    };
    16 * RECORD_UNITS * lines
}

/// What of a row is in shared memory at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stage {
    /// In units of the format, a multiple of 32; 0 where rows are not staged.
    chunk: u32,
    shared_bytes: u32,
}

impl Stage {
    /// Whole rows of `units` units, or equal parts of them as large as fit into `room` bytes.
    fn within(format: BlockFormat, units: usize, room: usize) -> Self {
        let teams = (ONE_ROW_THREADS / STAGE_TEAM) as usize;
        let records = units.div_ceil(RECORD_UNITS);
        let fixed = records * record_bytes(format) + 8 * teams;
        // Bytes of a row of 32 units, and 16 more for a row that does not begin at a multiple of 16.
        let bytes = RECORD_UNITS * format.unit() / format.block_size() * format.block_bytes();
        let places = teams * together(format, true) as usize;
        let most = (room.saturating_sub(fixed) / places).saturating_sub(16) / bytes;
        let parts = records.div_ceil(most.max(1)).max(1);
        let chunk = records.div_ceil(parts).max(1);
        Self { chunk: (chunk * RECORD_UNITS) as u32, shared_bytes: (fixed + places * (chunk * bytes + 16)) as u32 }
    }
}

/// The exponent of the team for each of `groups` groups of rows of `units` steps of work where rows are not staged: four steps for
/// a thread, or fewer where there are not enough rows to keep a quarter of the device busy.
fn team_log2(machine: Machine, groups: u64, units: u64) -> u32 {
    let most = u64::from(ONE_ROW_THREADS).min(units.next_power_of_two());
    let mut team = units.div_ceil(4).next_power_of_two().min(most);
    while team < most && groups * team < machine.threads / 4 {
        team *= 2;
    }
    team.trailing_zeros()
}

crate::shared::shared! {
    ["ONE_ROW_THREADS": ONE_ROW_THREADS, "ONE_ROW_LONGEST": ONE_ROW_LONGEST, "STAGE_TEAM": STAGE_TEAM, "ONE_ROW_PRODUCTS": ONE_ROW_PRODUCTS]
    "ActivationRow": ActivationRow { at, stride, code }
    "OneRowProduct": OneRowProduct { weights, out, rows, blocks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_long_rows_have_large_teams() {
        let gpu = Machine { side_by_side: true, threads: 132 * 1024 };
        assert_eq!(team_log2(gpu, 14336, 128), 5);
        assert_eq!(team_log2(gpu, 7168, 64), 4);
        assert_eq!(team_log2(gpu, 2048, 32), 5);
        assert_eq!(team_log2(gpu, 2048, 256), 6);
        assert_eq!(team_log2(gpu, 1, 1 << 20), 9);
        assert_eq!(team_log2(gpu, 1, 1), 0);
        assert_eq!(team_log2(gpu, 100_000, 8), 1);
    }

    #[test]
    fn stages_fit_into_shared_memory() {
        let room = 226 * 1024; // of an H200
        for format in BlockFormat::ALL.into_iter().filter(|format| !format.is_plain()) {
            for columns in (256..=ONE_ROW_LONGEST).step_by(256) {
                let units = columns / format.unit();
                let stage = Stage::within(format, units, room);
                assert!(stage.shared_bytes as usize <= room, "{format} {columns}: {stage:?}");
                assert!(stage.chunk > 0 && stage.chunk.is_multiple_of(32), "{format} {columns}: {stage:?}");
                assert!((stage.chunk as usize) < units + 32, "{format} {columns}: {stage:?}");
                // Whole rows of 4096 weights, whatever the format.
                assert!(columns > 4096 || stage.chunk as usize >= units, "{format} {columns}: {stage:?}");
            }
        }
    }
}
