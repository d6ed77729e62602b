//! Weights times activations by the kernels that the plan names (`plan.rs`). Here are the mat-vec kernels and the tiles: the
//! activations become bytes, then the kernel multiplies. Two launches and one buffer from the stream's pool, whatever the dtype and
//! the strides of the activations. Nothing waits.

use super::one_row::{ActivationRow, ONE_ROW_PRODUCTS};
use super::plan::ProductPlan;
use super::{output_code, BlockFormat, Blocks};
use crate::dtype::DType;
use crate::kernels::{fits, one_stream, Kernels};
use crate::layout::{Divider, Shape, Strided, MAX_DIMS};
use crate::registry::Id;
use crate::rows::{team_log2, Machine};
use crate::tensor::{Operand, Output};
use bytemuck::{Pod, Zeroable};
use hip::{Buffer, DevicePtr, Error, LaunchConfig, Result};

/// Threads of a block, and of a block of activations.
pub(super) const QUANTIZE_THREADS: u64 = 256;
pub(super) const QUANTIZE_LANES: u64 = 4;
pub(super) const MAT_VEC_THREADS: u32 = 128;
const TILE_THREADS: u32 = 256;
/// A tile's side.
const TILE: u64 = 64;
/// Units of the weights whose activations lie side by side.
const NEIGHBOURS: usize = 8;
/// Activations that share a step, and the bytes of a step.
const ACTIVATION_BLOCK: usize = 32;
const STEP_BYTES: usize = 8;
/// Rows of weights that a team takes together, in all mat-vec kernels for plain products.
const MAT_VEC_ROWS: u64 = 2;
/// Activations of a call to the mat-vec kernel for float weights.
const PLAIN_COLUMNS: u64 = 4;
/// The most blocks along the second axis of a grid.
const GRID_Y: u64 = 65_535;

/// Rows of activations as the kernels read them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Activations {
    bytes: DevicePtr<u8>,
    steps: DevicePtr<u8>,
    pitch: u32,
    unused: u32,
}

/// Rows of activations as the kernel writes them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct QuantizedRows {
    bytes: DevicePtr<u8>,
    steps: DevicePtr<u8>,
    blocks_per_row: Divider,
    block_count: u32,
    pitch: u32,
    /// An [`Arrangement`] as a number.
    arrangement: u32,
    wide: u32,
    unused: u32,
}

/// In which order the pieces of a row of activations lie. The mat-vec kernels want those of eight neighbouring units of the
/// weights side by side.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrangement {
    /// As they come, for tiles.
    Linear = 0,
    /// Units of two pieces.
    Pairs = 1,
    /// Units of four neighbouring pieces.
    Quarters = 2,
    /// Units of every other of eight pieces.
    Planes = 3,
}

impl Arrangement {
    /// What the mat-vec kernels of a format read.
    pub fn of(format: BlockFormat) -> Self {
        use BlockFormat::*;
        match format {
            Q4K | Q5K => Arrangement::Quarters,
            Q2K | Q3K | Q6K => Arrangement::Planes,
            _ => Arrangement::Pairs,
        }
    }

    /// Bytes from one row of `columns` activations to the next: whole groups of eight units.
    fn pitch(self, columns: usize) -> usize {
        match self {
            Arrangement::Linear => columns,
            Arrangement::Pairs => columns.next_multiple_of(NEIGHBOURS * 32),
            Arrangement::Quarters | Arrangement::Planes => columns.next_multiple_of(NEIGHBOURS * 64),
        }
    }
}

/// What errors call the products.
const OPERATION: &str = "quantized matmul";

/// Where a result goes and of which dtype it is (`Output` in `hip/quantized/mat_vec.h`, which ends in four bytes of padding).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct ProductTarget {
    pub at: DevicePtr<u8>,
    pub code: u32,
    pub unused: u32,
}

impl ProductTarget {
    fn of(out: &Output<'_>) -> Result<Self> {
        Ok(Self { at: out.ptr(), code: output_code(OPERATION, out.dtype())?, unused: 0 })
    }
}

/// Activations as bytes, in memory of their own until the kernels that read them have been launched.
pub(super) struct Quantized {
    memory: Buffer<u8>,
    columns: usize,
    pitch: usize,
    rows: usize,
}

impl Quantized {
    /// The rows from `first` on.
    pub fn at_row(&self, first: usize) -> Activations {
        let steps = self.rows * self.pitch + first * self.columns / ACTIVATION_BLOCK * STEP_BYTES;
        Activations {
            bytes: self.memory.ptr().offset(first * self.pitch),
            steps: self.memory.ptr().offset(steps),
            pitch: self.pitch as u32,
            unused: 0,
        }
    }
}

/// The rows of a tensor of activations: its last dimension is multiplied, the others are a batch.
#[derive(Clone, Copy)]
pub(super) struct ActivationRows {
    pub count: usize,
    stride: u64,
    packed: Strided<1>,
}

impl ActivationRows {
    pub fn of(operation: &str, activations: &Operand<'_>, columns: usize) -> Result<Self> {
        let (dims, strides) = (activations.dims(), activations.strides());
        let (Some((&last, outer)), Some((&stride, outer_strides))) = (dims.split_last(), strides.split_last()) else {
            return Err(Error::refused(format!("{operation}: a scalar cannot be multiplied with a matrix")));
        };
        if last != columns {
            return Err(Error::refused(format!(
                "{operation}: the activations have shape {dims:?}, but rows of weights have {columns} elements"
            )));
        }
        if !matches!(activations.dtype(), DType::F32 | DType::F16 | DType::BF16) {
            return Err(Error::refused(format!(
                "{operation}: activations are {}; they can be f32, f16 or bf16",
                activations.dtype()
            )));
        }
        let shape = Shape::collapse(outer, &[outer_strides]);
        let count = shape.count();
        if shape.rank > MAX_DIMS || count.saturating_mul(columns.next_multiple_of(512) as u64) >= 1 << 31 {
            return Err(Error::refused(format!(
                "{operation}: activations of shape {dims:?} with strides {strides:?} are too many for one call (2^31 elements, \
                 {MAX_DIMS} dimensions that do not merge); split the batch"
            )));
        }
        Ok(Self { count: count as usize, stride: stride as u64, packed: shape.pack() })
    }

    /// Where rows begin.
    pub fn packed(&self) -> Strided<1> {
        self.packed
    }

    /// From one element of a row to the next.
    pub fn stride(&self) -> u64 {
        self.stride
    }
}

impl Kernels {
    /// `activations` (any strides, any batch dimensions, f32, f16 or bf16) times the transposed weights. The result has
    /// `weights.rows()` elements for each row of activations and is f32, f16 or bf16, as `out` asks.
    ///
    /// Activations are rounded to signed bytes in blocks of 32, each with a step of its own, the largest magnitude of the
    /// block over 127. The result is therefore within `sum(step / 2 * |weight|)` of the exact one, and a few units in the last
    /// place of an f32 sum beyond that. With f32, f16 and bf16 weights nothing is rounded.
    pub fn quantized_matmul(
        &self,
        weights: &Blocks<'_>,
        activations: &Operand<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        self.quantized_product(None, weights, activations, out)
    }

    /// The same by a plan of [`Kernels::plan_product`] for these weights and as many rows of activations.
    pub fn quantized_matmul_by(
        &self,
        plan: ProductPlan,
        weights: &Blocks<'_>,
        activations: &Operand<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        self.quantized_product(Some(plan), weights, activations, out)
    }

    /// The products of several weights with the same activations. With one row of activations, weights of one format share a launch.
    pub fn quantized_matmuls(
        &self,
        activations: &Operand<'_>,
        products: &mut [(Blocks<'_>, Output<'_>)],
    ) -> Result<()> {
        let first = products.first().map(|(weights, _)| (weights.format(), weights.columns()));
        let alike = |(weights, out): &(Blocks<'_>, Output<'_>)| {
            Some((weights.format(), weights.columns())) == first
                && self.plan_product(weights, activations.count() / weights.columns().max(1), || false)
                    == ProductPlan::OneRow
                && out.count() == weights.rows()
        };
        if products.len() == 1 || !products.iter().all(alike) {
            return products
                .iter_mut()
                .try_for_each(|(weights, out)| self.quantized_product(None, weights, activations, out));
        }
        for products in products.chunks(ONE_ROW_PRODUCTS) {
            let Some((weights, out)) = products.first() else { continue };
            let batch = ActivationRows::of(OPERATION, activations, weights.columns())?;
            let stream = out.stream();
            one_stream(stream, &[activations])?;
            let mut parts = Vec::with_capacity(ONE_ROW_PRODUCTS);
            for (weights, out) in products {
                weights.on(stream)?;
                if out.stream() != stream {
                    return Err(Error::refused(format!("{OPERATION}: the results belong to different streams")));
                }
                parts.push((*weights, ProductTarget::of(out)?));
            }
            let code = output_code(OPERATION, activations.dtype())?;
            let row = ActivationRow { at: activations.ptr(), stride: batch.stride, code, unused: 0 };
            self.one_row(&parts, row, stream)?;
        }
        Ok(())
    }

    fn quantized_product(
        &self,
        plan: Option<ProductPlan>,
        weights: &Blocks<'_>,
        activations: &Operand<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let batch = ActivationRows::of(OPERATION, activations, weights.columns())?;
        fits(OPERATION, "the result", out.count(), batch.count * weights.rows(), out.dtype(), out.dtype())?;
        let target = ProductTarget::of(out)?;
        one_stream(out.stream(), &[activations])?;
        weights.on(out.stream())?;
        let plan = plan.unwrap_or_else(|| self.plan_product(weights, batch.count, || false));
        if !plan.suits(weights, batch.count) {
            return Err(Error::refused(format!(
                "{OPERATION}: {plan:?} is no plan of these kernels for {} rows of activations and {} weights of {} columns; ask \
                 `plan_product` for one",
                batch.count,
                weights.format(),
                weights.columns()
            )));
        }
        if out.count() == 0 {
            return Ok(());
        }
        match plan {
            ProductPlan::Floats => self.plain_matmul(weights, activations, &batch, target, out),
            ProductPlan::MmaTiles => self.mma_tiles(weights, activations, &batch, target, out),
            ProductPlan::OneRow => {
                let code = output_code(OPERATION, activations.dtype())?;
                let row = ActivationRow { at: activations.ptr(), stride: batch.stride, code, unused: 0 };
                self.one_row(&[(*weights, target)], row, out.stream())
            }
            ProductPlan::MatVec => self.mat_vec(weights, activations, &batch, target, out),
            // `suits` leaves only tiles.
            ProductPlan::Tiles | ProductPlan::Widened => self.mat_mul(weights, activations, &batch, target, out),
        }
    }

    /// Tiles of 64 x 64: two launches.
    fn mat_mul(
        &self,
        weights: &Blocks<'_>,
        activations: &Operand<'_>,
        batch: &ActivationRows,
        target: ProductTarget,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let (rows, columns, count) = (weights.rows() as u64, weights.columns(), batch.count as u64);
        let quantized = self.quantize_activations(activations, batch, Arrangement::Linear)?;
        let function = self.quantized("mat_mul", weights.format(), "")?;
        let grid = (rows.div_ceil(TILE) as u32, count.div_ceil(TILE).min(GRID_Y) as u32);
        let args = (weights.ptr(), quantized.at_row(0), target, rows as u32, columns as u32, count as u32);
        // SAFETY: the parameters of `mat_mul_*` in `hip/quantized.hip`; weights, activations and result have `rows`,
        // `count` and `count * rows` of what it expects, and are borrowed for the launch.
        unsafe { function.launch(out.stream(), LaunchConfig::new(grid, TILE_THREADS), &args) }
    }

    /// Dot products; a team takes the weights out of their bytes once for up to eight rows of activations. Two launches.
    fn mat_vec(
        &self,
        weights: &Blocks<'_>,
        activations: &Operand<'_>,
        batch: &ActivationRows,
        target: ProductTarget,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let (rows, columns, count) = (weights.rows() as u64, weights.columns(), batch.count as u64);
        let quantized = self.quantize_activations(activations, batch, Arrangement::of(weights.format()))?;
        let (ending, each) = match count {
            1 => ("_1", 1),
            2 => ("_2", 2),
            3..=4 => ("_4", 4),
            _ => ("_8", 8),
        };
        let function = self.quantized("mat_vec", weights.format(), ending)?;
        let units = columns / weights.format().unit();
        let teams = Teams::plan(self.profile().machine(), rows.div_ceil(MAT_VEC_ROWS), units);
        // Each launch covers as many activations as a grid is high; nearly always that is all of them.
        for first in (0..count).step_by((each * GRID_Y) as usize) {
            let part = (count - first).min(each * GRID_Y);
            let grid = (teams.blocks, part.div_ceil(each) as u32);
            let target = ProductTarget { at: out.ptr().offset((first * rows) as usize * out.dtype().size()), ..target };
            let from = quantized.at_row(first as usize);
            let args = (weights.ptr(), from, target, rows as u32, columns as u32, part as u32, teams.log2);
            // SAFETY: the parameters of `mat_vec_*` in `hip/quantized.hip`; weights, activations and result have `rows`,
            // `part` and `part * rows` of what it expects, and are borrowed for the launch.
            unsafe { function.launch(out.stream(), LaunchConfig::new(grid, teams.threads), &args)? };
        }
        Ok(())
    }

    /// Activations as bytes and steps, all bytes first.
    pub(super) fn quantize_activations(
        &self,
        activations: &Operand<'_>,
        batch: &ActivationRows,
        arrangement: Arrangement,
    ) -> Result<Quantized> {
        let side_by_side = self.profile().side_by_side();
        let columns = activations.dims().last().copied().unwrap_or(1);
        let (pitch, blocks) = (arrangement.pitch(columns), batch.count * columns / ACTIVATION_BLOCK);
        let memory = activations.stream().alloc::<u8>(batch.count * pitch + blocks * STEP_BYTES)?;
        let quantized = Quantized { memory, columns, pitch, rows: batch.count };
        let function = self.function(Id::Quantized, "quantize_activations", &[activations.dtype()], "")?;
        // Four threads for a block load side by side; on the embedded device they would only take turns.
        let threads = blocks as u64 * if side_by_side { QUANTIZE_LANES } else { 1 };
        let config = LaunchConfig::new(threads.div_ceil(QUANTIZE_THREADS) as u32, QUANTIZE_THREADS as u32);
        let Activations { bytes, steps, pitch, .. } = quantized.at_row(0);
        let to = QuantizedRows {
            bytes,
            steps,
            blocks_per_row: Divider::new((columns / ACTIVATION_BLOCK) as u64),
            block_count: blocks as u32,
            pitch,
            arrangement: arrangement as u32,
            wide: u32::from(side_by_side),
            unused: 0,
        };
        let args = (activations.ptr(), batch.packed, batch.stride, to);
        // SAFETY: the parameters of `quantize_activations_*` in `hip/quantized.hip`; the layout stays inside memory that is
        // borrowed, and the bytes and steps of all rows fit into the fresh buffer.
        unsafe { function.launch(activations.stream(), config, &args)? };
        Ok(quantized)
    }

    /// Weights that are floats already.
    fn plain_matmul(
        &self,
        weights: &Blocks<'_>,
        activations: &Operand<'_>,
        batch: &ActivationRows,
        target: ProductTarget,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let (rows, columns, count) = (weights.rows() as u64, weights.columns(), batch.count as u64);
        let gathered = out.stream().alloc::<f32>((batch.count * columns).max(1))?;
        if columns > 0 {
            let elements = batch.count * columns;
            let function = self.function(Id::Quantized, "gather_activations", &[activations.dtype()], "")?;
            let config = LaunchConfig::for_elements(elements, QUANTIZE_THREADS as u32);
            let per_row = Divider::new(columns as u64);
            let args = (activations.ptr(), batch.packed, batch.stride, gathered.ptr(), per_row, elements as u32);
            // SAFETY: the parameters of `gather_activations_*` in `hip/quantized.hip`; the layout stays inside memory that is
            // borrowed, and the fresh buffer has room for all elements.
            unsafe { function.launch(out.stream(), config, &args)? };
        }
        let machine = self.profile().machine();
        let wave = out.stream().device().wave_size();
        let mut teams = Teams::plan(machine, rows, columns);
        if 1 << teams.log2 > wave {
            teams = Teams::with(machine, rows, wave.trailing_zeros());
        }
        let function = self.quantized("mat_vec", weights.format(), "")?;
        for first in (0..count).step_by((PLAIN_COLUMNS * GRID_Y) as usize) {
            let part = (count - first).min(PLAIN_COLUMNS * GRID_Y);
            let grid = (teams.blocks, part.div_ceil(PLAIN_COLUMNS) as u32);
            let target = ProductTarget { at: out.ptr().offset((first * rows) as usize * out.dtype().size()), ..target };
            let from = gathered.ptr().offset(first as usize * columns);
            let args = (weights.ptr(), from, target, rows as u32, columns as u32, part as u32, teams.log2);
            // SAFETY: the parameters of `mat_vec_*` for float weights in `hip/quantized.hip`; weights, activations and result
            // have `rows`, `part` and `part * rows` of what it expects.
            unsafe { function.launch(out.stream(), LaunchConfig::new(grid, teams.threads), &args)? };
        }
        Ok(())
    }
}

/// How the threads of a mat-vec launch are divided among rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Teams {
    pub log2: u32,
    pub threads: u32,
    pub blocks: u32,
}

impl Teams {
    /// For `groups` groups of rows, each `units` steps of work long.
    pub fn plan(machine: Machine, groups: u64, units: usize) -> Self {
        let log2 = team_log2(machine, groups, units as u64, 4);
        Self::with(machine, groups, log2.min(MAT_VEC_THREADS.trailing_zeros()))
    }

    fn with(machine: Machine, groups: u64, log2: u32) -> Self {
        // A thread of the embedded device is slow and alone: small blocks keep all cores busy. The kernels read the size of
        // their block there.
        let threads = if machine.side_by_side { MAT_VEC_THREADS } else { 16 };
        Self { log2, threads, blocks: groups.div_ceil(u64::from(threads >> log2)) as u32 }
    }
}

crate::shared::shared! {
    [
        "ACTIVATION_BLOCK": ACTIVATION_BLOCK,
        "Step": STEP_BYTES,
        "QUANTIZE_THREADS": QUANTIZE_THREADS,
        "QUANTIZE_LANES": QUANTIZE_LANES,
        "MAT_VEC_THREADS": MAT_VEC_THREADS,
        "quantized TILE": TILE,
        "TILE_THREADS": TILE_THREADS,
        "PLAIN_COLUMNS": PLAIN_COLUMNS,
        "ARRANGED_LINEAR": Arrangement::Linear as u32,
        "ARRANGED_PAIRS": Arrangement::Pairs as u32,
        "ARRANGED_QUARTERS": Arrangement::Quarters as u32,
        "ARRANGED_PLANES": Arrangement::Planes as u32,
        "NEIGHBOURS": NEIGHBOURS,
    ]
    "Activations": Activations { bytes, steps, pitch }
    "QuantizedRows": QuantizedRows { bytes, steps, blocks_per_row, block_count, pitch, arrangement, wide }
    "Output": ProductTarget { at, code }
}
