//! Reductions over any dimensions of a tensor: which kernel of `hip/reduce.hip` walks it, with how many threads for a row
//! and in how many pieces. A reduction is one launch: where long rows are cut, the last block to be done merges their pieces.

use crate::block_counters::BlockCounters;
use crate::dtype::DType;
use crate::kernels::{fits, one_stream, Kernels};
use crate::layout::{row_major, Shape, Strided};
use crate::registry::Id;
use crate::rows::{blocks, pieces, team_log2, Machine, READ_STEPS, ROW_THREADS};
use crate::tensor::{Operand, Output, MAX_RANK};
use bytemuck::{Pod, Zeroable};
use hip::{DevicePtr, Error, LaunchConfig, Result};

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// The sum; short floats are summed in f32, integers wrap around.
    Sum,
    /// The least element. A NaN counts only when it is the first element.
    Min,
    /// The greatest element. A NaN counts only when it is the first element.
    Max,
    /// The index of the first least element, as u32.
    ArgMin,
    /// The index of the first greatest element, as u32.
    ArgMax,
}

impl Reduce {
    /// All of them.
    pub const ALL: [Reduce; 5] = [Reduce::Sum, Reduce::Min, Reduce::Max, Reduce::ArgMin, Reduce::ArgMax];

    fn root(self) -> &'static str {
        match self {
            Reduce::Sum => "fast_sum",
            Reduce::Min => "fast_min",
            Reduce::Max => "fast_max",
            Reduce::ArgMin => "fast_argmin",
            Reduce::ArgMax => "fast_argmax",
        }
    }

    fn finds_index(self) -> bool {
        matches!(self, Reduce::ArgMin | Reduce::ArgMax)
    }

    /// The dtype of the result.
    pub fn output(self, dtype: DType) -> DType {
        if self.finds_index() {
            DType::U32
        } else {
            dtype
        }
    }

    /// Bytes of what a thread keeps while it reduces: `State` of the folds in `hip/reduce.hip`.
    fn state_bytes(self, dtype: DType) -> usize {
        let wide = dtype.size() == 8;
        match self {
            Reduce::Sum => {
                if wide {
                    8
                } else {
                    4
                }
            }
            Reduce::Min | Reduce::Max => match dtype {
                DType::BF16 | DType::F16 | DType::F8E4M3 => 4,
                _ => dtype.size(),
            },
            // A value and an index, padded to the value's alignment.
            Reduce::ArgMin | Reduce::ArgMax => {
                if wide {
                    16
                } else {
                    8
                }
            }
        }
    }
}

/// A reduction as the kernels take it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct ReduceShape {
    outputs: u32,
    count: u32,
    pieces: u32,
    first_piece: u32,
    first_index: u32,
    team_log2: u32,
    vectors: u32,
    unused: u32,
    start: u64,
    kept: Strided<1>,
    reduced: Strided<1>,
}

/// Neighbouring rows that a thread of the variant `_columns` takes.
fn column_lanes(dtype: DType) -> u64 {
    (16 / dtype.size() as u64).min(8)
}

/// Neighbouring threads of the variant `_columns` that read along the rows' neighbours, at most: half a kilobyte, and with the
/// lanes of each no more rows than a block has threads.
const COLUMN_THREADS: u64 = 32;

/// How the rows are walked.
struct ReducePlan {
    variant: &'static str,
    vectors: bool,
    team_log2: u32,
    /// Rows for each team.
    lanes: u64,
    /// Pieces of a row within one launch's part of it.
    pieces: u64,
    /// Elements that the start of a part of a row is a multiple of for vectors.
    grain: u64,
}

impl ReducePlan {
    /// `kept` has the strides of the rows' starts, `reduced` those within a row.
    fn new(machine: Machine, dtype: DType, address: u64, kept: &Shape, reduced: &Shape) -> Self {
        let (rows, count) = (kept.count(), reduced.count());
        let all = u64::from(ROW_THREADS);
        // The stride of a dimension of one element is never taken.
        let multiples = |shape: &Shape, from: usize, of: u64| {
            (from..shape.rank).all(|d| shape.size[d] == 1 || shape.stride[0][d].is_multiple_of(of))
        };
        if reduced.is_contiguous(0) {
            let lanes = 16 / dtype.size() as u64;
            let vectors = address.is_multiple_of(16) && multiples(kept, 0, lanes);
            let grain = if vectors { lanes } else { 1 };
            let steps = count.div_ceil(grain);
            let team_log2 = team_log2(machine, rows, steps, READ_STEPS);
            let pieces = pieces(machine, rows, 1 << team_log2, steps);
            let variant = if team_log2 == ROW_THREADS.trailing_zeros() { "_long" } else { "" };
            return Self { variant, vectors, team_log2, lanes: 1, pieces, grain };
        }
        let lanes = column_lanes(dtype);
        if machine.side_by_side
            && kept.stride[0][0] == 1
            && kept.size[0].is_multiple_of(lanes)
            && address.is_multiple_of(lanes * dtype.size() as u64)
            && multiples(kept, 1, lanes)
            && multiples(reduced, 0, lanes)
        {
            let groups = rows / lanes;
            let team = all / groups.next_power_of_two().clamp(1, COLUMN_THREADS);
            let pieces = pieces(machine, groups, team, count);
            return Self {
                variant: "_columns",
                vectors: true,
                team_log2: team.trailing_zeros(),
                lanes,
                pieces,
                grain: 1,
            };
        }
        let team = if !machine.side_by_side {
            1
        } else if kept.stride[0][0] <= reduced.stride[0][0] {
            // Neighbouring rows lie closer than the elements of a row: whole waves of neighbouring rows, if there are.
            all / rows.next_power_of_two().clamp(1, 64)
        } else {
            count.next_power_of_two().clamp(1, all)
        };
        let pieces = pieces(machine, rows, team, count);
        Self { variant: "_strided", vectors: false, team_log2: team.trailing_zeros(), lanes: 1, pieces, grain: 1 }
    }
}

impl Kernels {
    /// Reduces `input` over `dims`, any set of its dimensions, into one element for each index of the others.
    ///
    /// A sum over nothing is 0. The other reductions of nothing are refused, as on the CPU; their index counts through the
    /// reduced dimensions in row-major order.
    pub fn reduce(&self, op: Reduce, input: &Operand<'_>, dims: &[usize], out: &mut Output<'_>) -> Result<()> {
        let root = op.root();
        let (kept, mut reduced) = split(root, input, dims)?;
        let outputs = kept.dims().iter().product::<usize>();
        fits(root, "the result", out.count(), outputs, out.dtype(), op.output(input.dtype()))?;
        one_stream(out.stream(), &[input])?;
        if op != Reduce::Sum && input.count() == 0 {
            return Err(Error::refused(format!(
                "{root}: a tensor of shape {:?} has no elements to choose from",
                input.dims()
            )));
        }
        if op == Reduce::Sum {
            // The order does not matter to a sum: nearest elements innermost.
            reduced.sort_by_stride();
        }
        let out_strides = row_major(kept.dims());
        let kept = Shape::collapse(kept.dims(), &[kept.strides(), &out_strides[..kept.rank]]);
        let reduced = Shape::collapse(reduced.dims(), &[reduced.strides()]);
        kept.cut(&mut |part, start| {
            let src = DevicePtr::from_address(input.ptr().address() + start[0] * input.dtype().size() as u64);
            let dst = DevicePtr::from_address(out.ptr().address() + start[1] * out.dtype().size() as u64);
            self.reduce_part(op, input.dtype(), src, part, &reduced, dst, out.stream())
        })
    }

    /// Fewer than 2^31 rows, of any length.
    #[allow(clippy::too_many_arguments)]
    fn reduce_part(
        &self,
        op: Reduce,
        dtype: DType,
        src: DevicePtr<u8>,
        kept: &Shape,
        reduced: &Shape,
        dst: DevicePtr<u8>,
        stream: &hip::Stream,
    ) -> Result<()> {
        let machine = self.profile().machine().reading_ahead();
        let plan = ReducePlan::new(machine, dtype, src.address(), kept, reduced);
        let rows = kept.count();

        let blocks = blocks(rows.div_ceil(plan.lanes), plan.team_log2);

        // A row may need several launches, each with pieces of its own.
        let mut parts = Vec::with_capacity(1);
        let mut total = 0;
        reduced.cut(&mut |part, start| {
            parts.push((*part, start[0], plan.pieces, total));
            total += plan.pieces;
            Ok::<(), Error>(())
        })?;
        if parts.is_empty() {
            // Nothing to add up: one piece of no elements.
            parts.push((Shape { size: [1; MAX_RANK], ..*reduced }, 0, 1, 0));
            total = 1;
        }
        let scratch = match total {
            1 => None,
            pieces => Some(stream.alloc::<u8>(rows as usize * pieces as usize * op.state_bytes(dtype))?),
        };
        let states = scratch.as_ref().map_or(DevicePtr::NULL, |scratch| scratch.ptr());
        let counters = match (total, parts.len()) {
            (1, _) => None,
            (_, 1) => Some(BlockCounters::new(stream, blocks)?),
            // The counters are not back at zero between these launches.
            _ => Some(BlockCounters::own(stream, blocks)?),
        };
        let arrivals = counters.as_ref().map_or(DevicePtr::NULL, |counters| counters.ptr());
        let function = self.function(Id::Reduce, op.root(), &[dtype], plan.variant)?;
        let mut first_index = 0u64;
        for (part, start, pieces, first_piece) in parts {
            let count = if reduced.count() == 0 { 0 } else { part.count() };
            let shape = ReduceShape {
                outputs: rows as u32,
                count: count as u32,
                pieces: total as u32,
                first_piece: first_piece as u32,
                first_index: first_index as u32,
                team_log2: plan.team_log2,
                vectors: u32::from(plan.vectors && start % plan.grain == 0),
                unused: 0,
                start,
                kept: kept.pack(),
                reduced: part.pack(),
            };
            first_index += count;
            let config = LaunchConfig::new((blocks, pieces as u32), ROW_THREADS);
            // SAFETY: the parameters of the kernels in `hip/reduce.hip`. The shapes stay inside the input, which was checked
            // to lie inside its memory; there is one output a row, scratch for every state and a counter for every block
            // along x; all of it is in the order of `stream`, to whose pool the scratch memory goes back.
            unsafe { function.launch(stream, config, &(src, dst, states, arrivals, shape))? };
        }
        Ok(())
    }
}

/// Some of the dimensions of a tensor.
struct Dims {
    rank: usize,
    size: [usize; MAX_RANK],
    stride: [usize; MAX_RANK],
}

impl Dims {
    fn push(&mut self, size: usize, stride: usize) {
        self.size[self.rank] = size;
        self.stride[self.rank] = stride;
        self.rank += 1;
    }

    fn dims(&self) -> &[usize] {
        &self.size[..self.rank]
    }

    fn strides(&self) -> &[usize] {
        &self.stride[..self.rank]
    }

    /// The largest stride first.
    fn sort_by_stride(&mut self) {
        for d in 1..self.rank {
            let mut at = d;
            while at > 0 && self.stride[at - 1] < self.stride[at] {
                self.stride.swap(at - 1, at);
                self.size.swap(at - 1, at);
                at -= 1;
            }
        }
    }
}

/// The dimensions that stay and those that are reduced.
fn split(root: &str, input: &Operand<'_>, dims: &[usize]) -> Result<(Dims, Dims)> {
    let rank = input.dims().len();
    let mut chosen = [false; MAX_RANK];
    for &dim in dims {
        if dim >= rank || chosen[dim] {
            return Err(Error::refused(format!(
                "{root}: {dims:?} are no distinct dimensions of a tensor of shape {:?}",
                input.dims()
            )));
        }
        chosen[dim] = true;
    }
    let empty = || Dims { rank: 0, size: [1; MAX_RANK], stride: [0; MAX_RANK] };
    let (mut kept, mut reduced) = (empty(), empty());
    for ((&size, &stride), chosen) in input.dims().iter().zip(input.strides()).zip(chosen) {
        let into = if chosen { &mut reduced } else { &mut kept };
        into.push(size, stride);
    }
    Ok((kept, reduced))
}

crate::shared::shared! {
    [
        "ColumnLanes<u8>": column_lanes(DType::U8),
        "ColumnLanes<f16>": column_lanes(DType::F16),
        "ColumnLanes<f32>": column_lanes(DType::F32),
        "ColumnLanes<f64>": column_lanes(DType::F64),
    ]
    "ReduceShape": ReduceShape {
        outputs, count, pieces, first_piece, first_index, team_log2, vectors, start, kept, reduced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bytes_are_read_at_once_wherever_they_lie_together() {
        let machine = Machine { side_by_side: true, threads: 100 * 1024 };
        let plan = |kept: (&[usize], &[usize]), reduced: (&[usize], &[usize])| {
            let shape = |(dims, strides): (&[usize], &[usize])| Shape::collapse(dims, &[strides]);
            let plan = ReducePlan::new(machine, DType::F32, 256, &shape(kept), &shape(reduced));
            (plan.variant, plan.vectors)
        };
        // Everything, rows, rows that start between vectors, columns, columns that are no vectors, every second element.
        assert_eq!(plan((&[], &[]), (&[8, 4096], &[4096, 1])), ("_long", true));
        assert_eq!(plan((&[8], &[4096]), (&[4096], &[1])), ("_long", true));
        assert_eq!(plan((&[8], &[4095]), (&[4095], &[1])), ("_long", false));
        assert_eq!(plan((&[4096], &[64]), (&[64], &[1])), ("", true));
        assert_eq!(plan((&[64], &[1]), (&[4096], &[64])), ("_columns", true));
        assert_eq!(plan((&[63], &[1]), (&[4096], &[63])), ("_strided", false));
        assert_eq!(plan((&[], &[]), (&[4096], &[2])), ("_strided", false));
    }
}
