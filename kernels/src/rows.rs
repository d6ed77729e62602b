//! Which threads work on which row: how large the team of a row is and into how many pieces a long row is cut, for the
//! reductions, the softmaxes and the norms (`hip/rows.h`). What they compute is not known here.

use crate::dtype::DType;
use crate::kernels::{fits, one_stream, Kernels};
use crate::layout::{Divider, INDEX_LIMIT, MAX_BLOCKS};
use crate::profile::Profile;
use crate::registry::Id;
use crate::resident;
use crate::tensor::{Operand, Output};
use bytemuck::{Pod, Zeroable};
use hip::{DevicePtr, Error, Function, LaunchConfig, Result, Stream};

/// Threads of a block.
pub(crate) const ROW_THREADS: u32 = 256;

/// 16-byte pieces a thread keeps in registers.
const KEPT: u64 = 4;

/// 16-byte pieces a thread has in flight, for the tiles that pieces of a row are made of. `hip/reduce.hip` has twice as many, and
/// so half as many tiles.
const AHEAD: u64 = 4;

/// Rows and how they are mapped, as the kernels take them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RowShape {
    rows: u32,
    columns: u32,
    vectors: u32,
    team_log2: u32,
    kept: u32,
    pieces: Divider,
}

/// One launch of a map over rows. Whatever the variant, a kernel takes source, target, states, shape, and what is its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowStep {
    /// The variant of the kernel: `""` maps whole rows, `"_gather"` makes a state for each piece of a row, `"_map"` maps the pieces.
    pub variant: &'static str,
    /// Bytes to add to the addresses of source and target.
    pub start: usize,
    /// A state for each piece; null for whole rows.
    pub states: DevicePtr<u8>,
    pub shape: RowShape,
    pub config: LaunchConfig,
}

/// Steps from which on a row is cut where most units would have none, and where they have: the second launch and what it reads again
/// cost as much as a block needs for the rest of a row. Measured on an H200: from four tiles on, and from twelve.
const LONG: u64 = 4 * AHEAD * ROW_THREADS as u64;
const LONG_FOR_MANY: u64 = 3 * LONG;

/// Pieces that rows want each where they are few: half of the units, with four blocks at a time, would have no row.
const FEW: u64 = 8;

/// Bytes that the state of a piece takes at most: two f64.
const STATE_BYTES: usize = 16;

/// What geometry depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Whether neighbouring threads run side by side. On the embedded device they take turns, and every exchange between
    /// them costs a change of stacks.
    pub side_by_side: bool,
    /// Threads that keep the device busy.
    pub threads: u64,
}

impl Machine {
    /// The same with as many threads as kernels need that have 64 bytes or more in flight, 1024 a compute unit: 64 KiB. Memory
    /// answers within a microsecond, in which the share of a compute unit is 36 KiB on an H200 (4.8 TB/s, 132 of them), 17 KiB on
    /// an MI300X (5.3 TB/s, 304) and 10 KiB on an RX 7900 XTX (0.96 TB/s, 96 in 48 work-group processors).
    pub fn reading_ahead(self) -> Self {
        Self { threads: self.threads / 2, ..self }
    }
}

/// 16-byte pieces for each thread of a row that is only read: an exchange between threads costs as much as several loads.
pub(crate) const READ_STEPS: u64 = 16;

/// Neighbouring threads that read neighbouring pieces where a row has so many: 64 bytes, the least that memory moves well.
const LEAST_TEAM: u64 = 4;

/// The exponent of the team for each of `rows` rows of `steps` steps of work: a thread gets up to `each` steps while the
/// rows keep the device busy, and fewer when they do not.
pub(crate) fn team_log2(machine: Machine, rows: u64, steps: u64, each: u64) -> u32 {
    if !machine.side_by_side {
        return 0;
    }
    let most = u64::from(ROW_THREADS);
    let mut team = steps.div_ceil(each).max(steps.min(LEAST_TEAM)).next_power_of_two().min(most);
    // A device that is nearly full is done sooner than one whose threads have half as much to do each.
    while team < most && team < steps && rows.saturating_mul(team) < machine.threads * 3 / 4 {
        team *= 2;
    }
    team.trailing_zeros()
}

/// Into how many pieces each row is cut, so that `rows` rows with teams of `team` threads keep the device busy. A piece
/// is about four tiles at least: more blocks would begin and merge for longer than they read.
pub(crate) fn pieces(machine: Machine, rows: u64, team: u64, steps: u64) -> u64 {
    let busy = if machine.side_by_side { machine.threads } else { machine.threads / u64::from(ROW_THREADS) };
    // Rounded down: a device that is nearly full is done sooner than one with a few blocks too many.
    let wanted = busy / rows.saturating_mul(team).max(1);
    let room = steps.div_ceil(team.saturating_mul(4 * AHEAD));
    // More than this would only lengthen the merging.
    wanted.min(room).clamp(1, 2048)
}

/// Into how many pieces each of `rows` rows of `steps` steps is cut for two launches, one that gathers and one that maps, or
/// nothing where a row is better left to a block. All pieces have as many tiles, if only one, but for the last.
fn shares(machine: Machine, rows: u64, steps: u64) -> Option<u64> {
    let wanted = machine.threads / rows.saturating_mul(u64::from(ROW_THREADS)).max(1);
    let long = if wanted >= FEW { LONG } else { LONG_FOR_MANY };
    // Where threads take turns, a row is a single one's.
    if !machine.side_by_side || wanted < 2 || steps < long {
        return None;
    }
    let tiles = steps.div_ceil(AHEAD * u64::from(ROW_THREADS));
    // More than this would only lengthen the merging.
    let each = tiles.div_ceil(wanted.min(2048));
    Some(tiles.div_ceil(each))
}

/// Blocks for the teams of `rows` rows, which are fewer than 2^31.
pub(crate) fn blocks(rows: u64, team_log2: u32) -> u32 {
    rows.div_ceil(u64::from(ROW_THREADS >> team_log2)) as u32
}

/// Contiguous rows of a tensor, for the kernels that map rows (`hip/rows.h`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowMatrix {
    pub rows: u64,
    pub columns: u64,
}

impl RowMatrix {
    /// The rows along the last dimension of a contiguous `input`, as large as `out` and on its stream.
    pub fn of(root: &str, input: &Operand<'_>, out: &Output<'_>) -> Result<Self> {
        let Some(&columns) = input.dims().last() else {
            return Err(Error::refused(format!("{root}: a scalar has no last dimension; give it one first")));
        };
        contiguous(root, "the input", input)?;
        fits(root, "the result", out.count(), input.count(), out.dtype(), input.dtype())?;
        one_stream(out.stream(), &[input])?;
        if columns as u64 >= INDEX_LIMIT {
            return Err(Error::refused(format!("{root}: rows of {columns} elements are longer than 2^31")));
        }
        Ok(Self { rows: input.count().checked_div(columns).unwrap_or(0) as u64, columns: columns as u64 })
    }

    /// How the rows are mapped: decided here, once. `addresses` are all that the kernel reads and writes in vectors; `residents`
    /// says whether there are kernels that keep a row on the chip.
    pub fn plan(self, profile: &Profile, dtype: DType, addresses: &[DevicePtr<u8>], residents: bool) -> RowPlan {
        let (size, lanes) = (dtype.size() as u64, 16 / dtype.size() as u64);
        let vectors = self.columns.is_multiple_of(lanes) && addresses.iter().all(|at| at.address() % 16 == 0);
        if residents && vectors {
            if let Some(plan) = resident::ResidentPlan::of(profile, self.rows, self.columns * size, dtype) {
                return RowPlan::Resident(plan);
            }
        }
        let steps = if vectors { self.columns / lanes } else { self.columns };
        let machine = profile.machine().reading_ahead();
        let team_log2 = team_log2(machine, self.rows, steps, KEPT);
        let pieces = shares(machine, self.rows, steps);
        let kept = match steps.div_ceil(1 << team_log2) {
            0..=1 => 1,
            2..=KEPT => KEPT,
            _ => 0,
        };
        let shape = RowShape {
            rows: 0,
            columns: self.columns as u32,
            vectors: u32::from(vectors),
            team_log2,
            kept: kept as u32,
            pieces: Divider::new(pieces.unwrap_or(1)),
        };
        match pieces {
            Some(pieces) => RowPlan::Pieces { pieces, shape },
            None => RowPlan::Teams { shape, row_bytes: self.columns * size },
        }
    }
}

/// How rows are mapped.
#[derive(Debug)]
pub(crate) enum RowPlan {
    /// By a team of threads each, in one launch, or some where a grid is too small for all.
    Teams { shape: RowShape, row_bytes: u64 },
    /// By several blocks each, in two launches.
    Pieces { shape: RowShape, pieces: u64 },
    /// By blocks that keep a row on the chip, in one launch.
    Resident(resident::ResidentPlan),
}

impl RowPlan {
    /// Whether a team keeps its row in registers, so that the row is read once.
    pub fn fits_registers(&self) -> bool {
        matches!(self, RowPlan::Teams { shape, .. } if shape.kept > 0)
    }
}

impl RowMatrix {
    /// Calls `launch` with each step of mapping whole rows or pieces of them.
    fn steps(self, plan: RowPlan, stream: &Stream, mut launch: impl FnMut(RowStep) -> Result<()>) -> Result<()> {
        match plan {
            RowPlan::Pieces { shape, pieces } => {
                let units = self.rows * pieces;
                let states = stream.alloc::<u8>(units as usize * STATE_BYTES)?;
                let shape = RowShape { rows: self.rows as u32, ..shape };
                let config = LaunchConfig::new(units as u32, ROW_THREADS);
                let step = RowStep { variant: "_gather", start: 0, states: states.ptr(), shape, config };
                launch(step)?;
                // The states go back to the stream's pool, behind both launches.
                launch(RowStep { variant: "_map", ..step })
            }
            RowPlan::Teams { shape, row_bytes } => {
                let mut first = 0;
                // Also when there is no row, so that a dtype that is not served is refused then too.
                loop {
                    let rows = (self.rows - first).min(MAX_BLOCKS * u64::from(ROW_THREADS >> shape.team_log2));
                    let config = LaunchConfig::new(blocks(rows, shape.team_log2), ROW_THREADS);
                    let shape = RowShape { rows: rows as u32, ..shape };
                    let start = (first * row_bytes) as usize;
                    launch(RowStep { variant: "", start, states: DevicePtr::NULL, shape, config })?;
                    first += rows;
                    if first >= self.rows {
                        return Ok(());
                    }
                }
            }
            RowPlan::Resident(_) => Err(Error::refused("rows that stay on the chip have a launch of their own")),
        }
    }
}

impl Kernels {
    /// Maps rows by the kernels `root_dtype` of a module and their variants: `launch` gets the function and the step, for source,
    /// target, states, shape and what else the kernel takes.
    pub(crate) fn map_rows(
        &self,
        (id, root, dtype): (Id, &str, DType),
        (rows, plan): (RowMatrix, RowPlan),
        stream: &Stream,
        launch: impl Fn(&Function, RowStep) -> Result<()>,
    ) -> Result<()> {
        rows.steps(plan, stream, |step| {
            let function = self.function(id, root, &[dtype], step.variant)?;
            if step.shape.rows == 0 {
                return Ok(());
            }
            launch(function, step)
        })
    }
}

/// Kernels that walk memory in order need it in order.
pub(crate) fn contiguous(root: &str, what: &str, operand: &Operand<'_>) -> Result<()> {
    if operand.is_contiguous() {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{root}: {what}, of shape {:?} with strides {:?}, must be contiguous; copy it first",
        operand.dims(),
        operand.strides()
    )))
}

crate::shared::shared! {
    ["ROW_THREADS": ROW_THREADS, "ROW_KEPT": KEPT, "ROW_AHEAD": AHEAD]
    "RowShape": RowShape { rows, columns, vectors, team_log2, kept, pieces }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: Machine = Machine { side_by_side: true, threads: 100 * 1024 };

    #[test]
    fn teams_fit_rows() {
        // Many short rows: few threads each. Few rows: as many threads as there are steps.
        assert_eq!(team_log2(GPU, 1_000_000, 1, KEPT), 0);
        assert_eq!(team_log2(GPU, 1_000_000, 8, KEPT), 2);
        assert_eq!(team_log2(GPU, 1_000_000, 16, KEPT), 2);
        assert_eq!(team_log2(GPU, 1_000_000, 1024, KEPT), 8);
        assert_eq!(team_log2(GPU, 1_000_000, 1024, READ_STEPS), 6);
        assert_eq!(team_log2(GPU, 1, 64, KEPT), 6);
        assert_eq!(team_log2(GPU, 1, 1_000_000, KEPT), 8);
        assert_eq!(team_log2(Machine { side_by_side: false, ..GPU }, 1, 1_000_000, KEPT), 0);
    }

    #[test]
    fn maps_cut_rows_into_whole_tiles() {
        // A tile each where there are units enough, and as many each where there are not.
        assert_eq!(shares(GPU, 1, 32_064), Some(32));
        assert_eq!(shares(GPU, 16, 32_064), Some(16));
        assert_eq!(shares(GPU, 50, 12_288), Some(6));
        assert_eq!(shares(GPU, 1, 1 << 28), Some(400));
        // Rows that blocks are done with sooner, and rows for all units.
        assert_eq!(shares(GPU, 50, 4_095), None);
        assert_eq!(shares(GPU, 51, 12_287), None);
        assert_eq!(shares(GPU, 51, 12_288), Some(6));
        assert_eq!(shares(GPU, 201, 1 << 20), None);
        assert_eq!(shares(Machine { side_by_side: false, ..GPU }, 1, 1 << 20), None);
    }

    #[test]
    fn rows_have_one_plan() {
        let plan = |arch: &str, rows, columns, address, residents| {
            let addresses = [DevicePtr::from_address(256), DevicePtr::from_address(address)];
            let plan = RowMatrix { rows, columns }.plan(&Profile::example(arch), DType::F32, &addresses, residents);
            match plan {
                RowPlan::Resident(_) => "on the chip".to_owned(),
                RowPlan::Pieces { pieces, shape } => format!("{pieces} pieces, vectors {}", shape.vectors),
                RowPlan::Teams { shape, row_bytes } => {
                    assert_eq!(row_bytes, 4 * columns);
                    let RowShape { vectors, team_log2, kept, .. } = shape;
                    format!("teams of {}, vectors {vectors}, kept {kept}", 1 << team_log2)
                }
            }
        };
        assert_eq!(plan("sm_90", 512, 128_256, 256, true), "on the chip");
        assert_eq!(plan("sm_90", 512, 128_256, 256, false), "teams of 256, vectors 1, kept 0");
        assert_eq!(plan("gfx942", 512, 128_256, 256, true), "teams of 256, vectors 1, kept 0");
        assert_eq!(plan("sm_90", 1, 128_256, 256, true), "32 pieces, vectors 1");
        assert_eq!(plan("sm_90", 1, 128_256, 260, true), "126 pieces, vectors 0");
        // What a thread keeps: all of its row, one vector or four.
        assert_eq!(plan("sm_90", 100_000, 4, 256, true), "teams of 1, vectors 1, kept 1");
        assert_eq!(plan("sm_90", 100_000, 64, 256, true), "teams of 4, vectors 1, kept 4");
        assert_eq!(plan("sm_90", 100_000, 4096, 256, true), "teams of 256, vectors 1, kept 4");
        assert_eq!(plan("sm_90", 100_000, 4100, 256, true), "teams of 256, vectors 1, kept 0");
        assert_eq!(plan("sm_90", 0, 0, 256, true), "teams of 1, vectors 1, kept 1");
    }

    #[test]
    fn only_few_long_rows_are_cut() {
        assert_eq!(pieces(GPU, 1_000_000, 256, 1_000_000), 1);
        assert_eq!(pieces(GPU, 1, 256, 64), 1);
        assert_eq!(pieces(GPU, 1, 256, 1_000_000_000), 400);
        let embedded = Machine { side_by_side: false, threads: 2 * 1024 };
        assert_eq!(pieces(embedded, 1, 1, 1_000_000), 8);
        assert_eq!(pieces(embedded, 100, 1, 1_000_000), 1);
    }
}
