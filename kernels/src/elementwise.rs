//! Launches of elementwise kernels: which variant of a kernel serves a set of layouts is decided here and nowhere else.
//! The kernels, and what each variant is for, are in `hip/elementwise.h`.

use crate::dtype::DType;
use crate::kernels::{fits, one_stream, same_dims, Kernels};
use crate::layout::{row_major, Shape, MAX_BLOCKS, MAX_OPERANDS};
use crate::registry::Id;
use crate::tensor::{Operand, Output};
use bytemuck::{Pod, Zeroable};
use hip::{DeviceCopy, DevicePtr, Error, Function, KernelArg, KernelArgs, LaunchConfig, Result};
use std::ffi::c_void;

const THREADS: u32 = 256;

/// What a kernel takes beside its operands.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Params {
    first: f64,
    second: f64,
    fault: DevicePtr<u64>,
}

/// How many elements make 16 bytes of the widest operand, and how many such pieces a thread takes, by variant.
struct Work {
    width: u64,
    batch: u64,
    tile_side: u64,
}
const ROWS_BATCH: u64 = 2;
const STRIDED_BATCH: u64 = 4;

impl Work {
    fn new(widest: usize) -> Self {
        let width = 16 / widest as u64;
        Self {
            width,
            batch: match width {
                16 => 1,
                8 => 2,
                _ => 4,
            },
            tile_side: if widest <= 2 { 64 } else { 32 },
        }
    }
}

/// The variants of an elementwise kernel, as the suffixes of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Every operand contiguous and aligned.
    Contiguous,
    /// The innermost dimension contiguous or broadcast everywhere, in aligned pieces of 16 bytes.
    Rows,
    /// Some input lies in memory along this other dimension.
    Tile(usize),
    /// Anything else.
    Strided,
}

impl Variant {
    fn suffix(self) -> &'static str {
        match self {
            Variant::Contiguous => "",
            Variant::Rows => "_rows",
            Variant::Tile(_) => "_tile",
            Variant::Strided => "_strided",
        }
    }

    /// `addresses` and `sizes` (of an element, in bytes) are those of the operands of `shape`, the output last.
    fn choose(shape: &Shape, addresses: &[u64], sizes: &[usize], width: u64) -> Self {
        let operands = 0..shape.operands;
        let inputs = shape.operands - 1;
        let aligned = |k: usize| addresses[k].is_multiple_of(width * sizes[k] as u64);
        if operands.clone().all(|k| shape.is_contiguous(k)) {
            return if operands.clone().all(aligned) { Variant::Contiguous } else { Variant::Strided };
        }
        let splits = |k: usize| {
            let outer = &shape.stride[k][1..shape.rank];
            match shape.stride[k][0] {
                0 => true,
                1 => aligned(k) && outer.iter().all(|stride| stride % width == 0),
                _ => false,
            }
        };
        if shape.size[0].is_multiple_of(width) && operands.clone().all(splits) {
            return Variant::Rows;
        }
        match (0..inputs).find_map(|k| shape.swapped_dimension(k)) {
            Some(row) => Variant::Tile(row),
            None => Variant::Strided,
        }
    }
}

/// An elementwise operation: the module, the root of the kernel's name, the dtypes in it, and its parameters.
struct Op<'a> {
    id: Id,
    root: &'a str,
    dtypes: &'a [DType],
    first: f64,
    second: f64,
    /// Whether the kernel may report a fault.
    reports: bool,
}

/// The arguments of every elementwise kernel.
struct Arguments<G, const INPUTS: usize> {
    geometry: G,
    params: Params,
    out: DevicePtr<u8>,
    inputs: [DevicePtr<u8>; INPUTS],
}

// SAFETY: one pointer for each parameter of the kernels in `hip/elementwise.h`, in their order, into `self`.
unsafe impl<G: DeviceCopy, const INPUTS: usize> KernelArgs for Arguments<G, INPUTS> {
    fn with_pointers<R>(&self, launch: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
        let mut pointers = [std::ptr::null_mut(); 3 + MAX_OPERANDS];
        pointers[0] = self.geometry.argument().cast_mut();
        pointers[1] = self.params.argument().cast_mut();
        pointers[2] = self.out.argument().cast_mut();
        for (pointer, input) in pointers[3..].iter_mut().zip(&self.inputs) {
            *pointer = input.argument().cast_mut();
        }
        launch(&mut pointers[..3 + INPUTS])
    }

    fn sizes(&self) -> Vec<usize> {
        let before = [self.geometry.size(), self.params.size(), self.out.size()];
        before.into_iter().chain(self.inputs.iter().map(KernelArg::size)).collect()
    }
}

impl Kernels {
    /// A function of one tensor, such as `uexp`, into a tensor of the same dtype.
    pub fn unary(&self, root: &str, input: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        self.unary_with(root, 0.0, input, out)
    }

    /// A function of one tensor with a parameter: `uelu` (alpha) and `upowf` (the exponent).
    pub fn unary_with(&self, root: &str, parameter: f64, input: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        let dtype = input.dtype();
        let op = Op { id: Id::Unary, root, dtypes: &[dtype], first: parameter, second: 0.0, reports: false };
        self.elementwise::<1, 2>(op, [input], dtype, out)
    }

    /// The elements in order, whatever the layout they come from.
    pub fn copy(&self, input: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        self.unary("ucopy", input, out)
    }

    /// `input * mul + add`.
    pub fn affine(&self, input: &Operand<'_>, mul: f64, add: f64, out: &mut Output<'_>) -> Result<()> {
        let dtype = input.dtype();
        let op = Op { id: Id::Affine, root: "affine", dtypes: &[dtype], first: mul, second: add, reports: false };
        self.elementwise::<1, 2>(op, [input], dtype, out)
    }

    /// The elements as another dtype, the one of `out`.
    pub fn cast(&self, input: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        let to = out.dtype();
        let op =
            Op { id: Id::Cast, root: "cast", dtypes: &[input.dtype(), to], first: 0.0, second: 0.0, reports: false };
        self.elementwise::<1, 2>(op, [input], to, out)
    }

    /// Arithmetic on two tensors of one dtype, such as `badd`.
    pub fn binary(&self, root: &str, lhs: &Operand<'_>, rhs: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        let dtype = lhs.dtype();
        self.pair(root, dtype, lhs, rhs, out)
    }

    /// An activation of one tensor times another: `gsilu` or `ggelu`. Rounds where the two operations by themselves would.
    pub fn gated(&self, root: &str, gate: &Operand<'_>, rhs: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        let dtype = gate.dtype();
        same_dtype(root, dtype, rhs.dtype())?;
        let op = Op { id: Id::Gated, root, dtypes: &[dtype], first: 0.0, second: 0.0, reports: false };
        self.elementwise::<2, 3>(op, [gate, rhs], dtype, out)
    }

    /// A comparison of two tensors of one dtype, such as `lt`, as u8: 1 where it holds.
    pub fn compare(&self, root: &str, lhs: &Operand<'_>, rhs: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        self.pair(root, DType::U8, lhs, rhs, out)
    }

    fn pair(&self, root: &str, to: DType, lhs: &Operand<'_>, rhs: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        let dtype = lhs.dtype();
        same_dtype(root, dtype, rhs.dtype())?;
        let reports = root == "bdiv" && !dtype.is_float();
        let op = Op { id: Id::Binary, root, dtypes: &[dtype], first: 0.0, second: 0.0, reports };
        self.elementwise::<2, 3>(op, [lhs, rhs], to, out)
    }

    /// `on_true` where `condition`, of an integer dtype, is not 0, and `on_false` elsewhere.
    pub fn where_cond(
        &self,
        condition: &Operand<'_>,
        on_true: &Operand<'_>,
        on_false: &Operand<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let dtype = on_true.dtype();
        same_dtype("where", dtype, on_false.dtype())?;
        let dtypes = [condition.dtype(), dtype];
        let op = Op { id: Id::Ternary, root: "where", dtypes: &dtypes, first: 0.0, second: 0.0, reports: false };
        self.elementwise::<3, 4>(op, [condition, on_true, on_false], dtype, out)
    }

    /// OPERANDS is INPUTS + 1.
    fn elementwise<const INPUTS: usize, const OPERANDS: usize>(
        &self,
        op: Op<'_>,
        inputs: [&Operand<'_>; INPUTS],
        to: DType,
        out: &mut Output<'_>,
    ) -> Result<()> {
        same_dims(op.root, &inputs)?;
        let dims = inputs[0].dims();
        fits(op.root, "the result", out.count(), inputs[0].count(), out.dtype(), to)?;
        one_stream(out.stream(), &inputs)?;

        let out_strides = row_major(dims);
        let strides: [&[usize]; OPERANDS] =
            std::array::from_fn(|k| inputs.get(k).map_or(&out_strides[..dims.len()], |input| input.strides()));
        let addresses: [u64; OPERANDS] =
            std::array::from_fn(|k| inputs.get(k).map_or(out.ptr(), |input| input.ptr()).address());
        let sizes: [usize; OPERANDS] = std::array::from_fn(|k| inputs.get(k).map_or(to, |input| input.dtype()).size());

        let shape = Shape::collapse(dims, &strides);
        let work = Work::new(sizes.iter().copied().max().unwrap_or(1));
        let variant = Variant::choose(&shape, &addresses, &sizes, work.width);
        // Also when there is nothing to do, so that an operation that is not defined is refused then too.
        let function = self.function(op.id, op.root, op.dtypes, variant.suffix())?;
        let fault = if op.reports { self.faults.arm(out.stream())? } else { self.faults.address(out.stream()) };
        let params = Params { first: op.first, second: op.second, fault };
        let stream = out.stream();
        let launch =
            |function: &Function, blocks: u64, start: [u64; MAX_OPERANDS], geometry: Geometry<INPUTS, OPERANDS>| {
                let config = LaunchConfig::new(blocks as u32, THREADS);
                let at = |k: usize| DevicePtr::from_address(addresses[k] + start[k] * sizes[k] as u64);
                let (out, inputs) = (at(INPUTS), std::array::from_fn::<_, INPUTS, _>(at));
                // SAFETY: the kernel was found by its name among those of `hip/elementwise.h`, whose parameters these are; the
                // geometry stays inside the operands, which were checked to lie inside their memory and are borrowed until
                // the launch is on the stream that this memory belongs to.
                unsafe {
                    match geometry {
                        Geometry::Count(geometry) => {
                            function.launch(stream, config, &Arguments { geometry, params, out, inputs })
                        }
                        Geometry::Strided(geometry) => {
                            function.launch(stream, config, &Arguments { geometry, params, out, inputs })
                        }
                        Geometry::Tiled(geometry) => {
                            function.launch(stream, config, &Arguments { geometry, params, out, inputs })
                        }
                    }
                }
            };
        let threads = u64::from(THREADS);
        match variant {
            Variant::Contiguous => {
                let per_block = threads * work.width * work.batch;
                for first in (0..shape.count()).step_by((per_block * MAX_BLOCKS) as usize) {
                    let count = (shape.count() - first).min(per_block * MAX_BLOCKS);
                    launch(function, count.div_ceil(per_block), [first; MAX_OPERANDS], Geometry::Count(count))?;
                }
                Ok(())
            }
            Variant::Rows => shape.in_pieces_of(work.width).cut(&mut |part, start| {
                launch(function, part.count().div_ceil(threads * ROWS_BATCH), start, Geometry::Strided(part.pack()))
            }),
            Variant::Strided => shape.cut(&mut |part, start| {
                launch(function, part.count().div_ceil(threads * STRIDED_BATCH), start, Geometry::Strided(part.pack()))
            }),
            Variant::Tile(row) => shape.cut(&mut |part, start| match part.tile(row, work.tile_side) {
                Some((tiled, blocks)) => launch(function, u64::from(blocks), start, Geometry::Tiled(tiled)),
                // The cut went through the rows and left none.
                None => {
                    let function = self.function(op.id, op.root, op.dtypes, Variant::Strided.suffix())?;
                    launch(
                        function,
                        part.count().div_ceil(threads * STRIDED_BATCH),
                        start,
                        Geometry::Strided(part.pack()),
                    )
                }
            }),
        }
    }
}

/// The first argument of an elementwise kernel, by variant.
#[allow(clippy::large_enum_variant)] // Lives for one call, on the stack; a box would be an allocation a launch.
enum Geometry<const INPUTS: usize, const OPERANDS: usize> {
    Count(u64),
    Strided(crate::layout::Strided<INPUTS>),
    Tiled(crate::layout::Tiled<OPERANDS>),
}

fn same_dtype(root: &str, left: DType, right: DType) -> Result<()> {
    if left == right {
        return Ok(());
    }
    Err(Error::refused(format!("{root}: the operands are of dtype {left} and {right}; convert one of them first")))
}

crate::shared::shared! {
    [
        "ELEMENTWISE_THREADS": THREADS,
        "ROWS_BATCH": ROWS_BATCH,
        "STRIDED_BATCH": STRIDED_BATCH,
        "Work<u8>::batch": Work::new(1).batch,
        "Work<f16>::batch": Work::new(2).batch,
        "Work<f32>::batch": Work::new(4).batch,
        "Work<f64>::batch": Work::new(8).batch,
    ]
    "Params": Params { first, second, fault }
}
