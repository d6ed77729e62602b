//! Launches of the module indexing. Every operation is a box of left x ids x right elements, in which an id stands for the
//! row of one operand. Ids are checked by the kernels; what they find comes out of [`Kernels::check`].

use crate::dtype::DType;
use crate::kernels::{fits, one_stream, Kernels};
use crate::layout::{Divider, Shape, MAX_OPERANDS};
use crate::registry::Id;
use crate::tensor::{Operand, OperandMut, Output, MAX_RANK};
use bytemuck::{Pod, Zeroable};
use hip::{Buffer, DevicePtr, Error, LaunchConfig, Result, Stream};

const THREADS: u32 = 256;
const BATCH: u64 = 4;

/// The root of the one operation that takes two launches.
const SCATTER: &str = "s";

/// The box as the kernels take it (`hip/indexing.hip`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct IndexGeometry {
    count: u32,
    unused: u32,
    right: Divider,
    row: Divider,
    bound: u64,
    none: u64,
    dense_left: u64,
    dense_row: u64,
    indexed_left: u64,
    indexed_row: u64,
    ids_left: u64,
    ids_row: u64,
    ids_right: u64,
}

/// The sizes of a tensor around one of its dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexDims {
    /// The product of the dimensions before.
    pub left: usize,
    /// The dimension itself.
    pub size: usize,
    /// The product of the dimensions after.
    pub right: usize,
}

impl IndexDims {
    /// Splits `dims` at `dim`.
    pub fn split(root: &str, dims: &[usize], dim: usize) -> Result<Self> {
        match dims.get(dim) {
            Some(&size) => {
                Ok(Self { left: dims[..dim].iter().product(), size, right: dims[dim + 1..].iter().product() })
            }
            None => {
                Err(Error::refused(format!("{root}: dimension {dim} of a tensor of shape {dims:?} does not exist")))
            }
        }
    }
}

/// Everything about one launch but the pointers.
struct IndexPlan<'a> {
    root: &'a str,
    ids: &'a Operand<'a>,
    /// The id that stands for no row.
    none: u64,
    /// The strides of an id along left, rows and right.
    ids_strides: [usize; 3],
    /// Left, ids and right.
    sizes: [usize; 3],
    /// The tensor in which ids stand for rows.
    indexed: IndexDims,
    access: Access,
}

/// What a kernel does through ids.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Reads whole rows, which can be done in pieces of 16 bytes.
    ReadRows,
    /// Reads single elements.
    Read,
    /// Writes.
    Write,
}

impl Kernels {
    /// Rows of `src` along `dim`, one for each of the ids, which have one dimension.
    pub fn index_select(&self, src: &Operand<'_>, ids: &Operand<'_>, dim: usize, out: &mut Output<'_>) -> Result<()> {
        let indexed = IndexDims::split("index-select", src.dims(), dim)?;
        let (count, stride) = one_dimension("index-select", ids)?;
        contiguous("index-select", "the source", src.is_contiguous())?;
        let sizes = [indexed.left, count, indexed.right];
        fits("index-select", "the result", out.count(), sizes.iter().product(), out.dtype(), src.dtype())?;
        one_stream(out.stream(), &[src, ids])?;
        let (none, ids_strides) = (none(ids.dtype()), [0, stride, 0]);
        let plan = IndexPlan { root: "is", ids, none, ids_strides, sizes, indexed, access: Access::ReadRows };
        self.indexed(&plan, out.dtype(), out.ptr(), src.ptr(), out.stream())
    }

    /// For each id, the element of `src` at its own position but with the id in place of `dim`. There may be fewer ids than elements
    /// of `src` along the first dimension, and along the one behind `dim`.
    pub fn gather(&self, src: &Operand<'_>, ids: &Operand<'_>, dim: usize, out: &mut Output<'_>) -> Result<()> {
        let indexed = IndexDims::split("gather", src.dims(), dim)?;
        let of_ids = IndexDims::split("gather", ids.dims(), dim)?;
        contiguous("gather", "the source", src.is_contiguous())?;
        contiguous("gather", "the tensor of ids", ids.is_contiguous())?;
        around("gather", ids.dims(), src.dims(), dim, &[0, dim + 1])?;
        fits("gather", "the result", out.count(), ids.count(), out.dtype(), src.dtype())?;
        one_stream(out.stream(), &[src, ids])?;
        let plan = IndexPlan::dense("gather", ids, none(ids.dtype()), of_ids, indexed, Access::Read);
        self.indexed(&plan, out.dtype(), out.ptr(), src.ptr(), out.stream())
    }

    /// Writes each element of `src` to `dst`, at its own position but with its id in place of `dim`. Where several have one
    /// destination, the last of them along `dim` is written.
    pub fn scatter(&self, dst: &mut OperandMut<'_>, ids: &Operand<'_>, src: &Operand<'_>, dim: usize) -> Result<()> {
        self.scatter_by("scatter", SCATTER, dst, ids, src, dim)
    }

    /// As [`Kernels::scatter`], but adds to what is there. The order of floating sums is not fixed.
    pub fn scatter_add(
        &self,
        dst: &mut OperandMut<'_>,
        ids: &Operand<'_>,
        src: &Operand<'_>,
        dim: usize,
    ) -> Result<()> {
        self.scatter_by("scatter-add", "sa", dst, ids, src, dim)
    }

    fn scatter_by(
        &self,
        what: &str,
        root: &str,
        dst: &mut OperandMut<'_>,
        ids: &Operand<'_>,
        src: &Operand<'_>,
        dim: usize,
    ) -> Result<()> {
        let indexed = IndexDims::split(what, dst.dims(), dim)?;
        let of_ids = IndexDims::split(what, ids.dims(), dim)?;
        contiguous(what, "the target", dst.is_contiguous())?;
        contiguous(what, "the source", src.is_contiguous())?;
        contiguous(what, "the tensor of ids", ids.is_contiguous())?;
        around(what, ids.dims(), dst.dims(), dim, &[])?;
        fits(what, "the source", src.count(), ids.count(), src.dtype(), dst.dtype())?;
        one_stream(dst.stream(), &[src, ids])?;
        let wide = if root == SCATTER { None } else { self.widened(ids, dst.stream())? };
        let (none, strides) = (none(ids.dtype()), [of_ids.size * of_ids.right, of_ids.right, 1]);
        let shape = [of_ids.left, of_ids.size, of_ids.right];
        let wide = wide.as_ref().map(|wide| Operand::new(wide, DType::I64, 0, &shape, &strides)).transpose()?;
        let plan = IndexPlan::dense(root, wide.as_ref().unwrap_or(ids), none, of_ids, indexed, Access::Write);
        self.indexed(&plan, src.dtype(), src.ptr(), dst.ptr(), dst.stream())
    }

    /// Adds each row of `src` along `dim` to the row of `dst` that its id names. The ids have one dimension. The order of
    /// floating sums is not fixed.
    pub fn index_add(&self, dst: &mut OperandMut<'_>, ids: &Operand<'_>, src: &Operand<'_>, dim: usize) -> Result<()> {
        let indexed = IndexDims::split("index-add", dst.dims(), dim)?;
        let of_src = IndexDims::split("index-add", src.dims(), dim)?;
        let (count, stride) = one_dimension("index-add", ids)?;
        contiguous("index-add", "the target", dst.is_contiguous())?;
        contiguous("index-add", "the source", src.is_contiguous())?;
        around("index-add", src.dims(), dst.dims(), dim, &[])?;
        let sizes = [of_src.left, count, of_src.right];
        fits("index-add", "the source", src.count(), sizes.iter().product(), src.dtype(), dst.dtype())?;
        one_stream(dst.stream(), &[src, ids])?;
        let (none, wide) = (none(ids.dtype()), self.widened(ids, dst.stream())?);
        let (shape, stride) = ([count], [if wide.is_some() { 1 } else { stride }]);
        let wide = wide.as_ref().map(|wide| Operand::new(wide, DType::I64, 0, &shape, &stride)).transpose()?;
        let (ids, ids_strides) = (wide.as_ref().unwrap_or(ids), [0, stride[0], 0]);
        let plan = IndexPlan { root: "ia", ids, none, ids_strides, sizes, indexed, access: Access::Write };
        self.indexed(&plan, src.dtype(), src.ptr(), dst.ptr(), dst.stream())
    }

    /// Ids of 16 and 32 bits with a sign, as i64; `None` for those that the kernels take. A launch more for ids that are rare costs less
    /// than kernels for them in every code object.
    fn widened(&self, ids: &Operand<'_>, stream: &Stream) -> Result<Option<Buffer<i64>>> {
        if !matches!(ids.dtype(), DType::I16 | DType::I32) {
            return Ok(None);
        }
        let mut wide = stream.alloc::<i64>(ids.count())?;
        self.cast(ids, &mut Output::new(&mut wide, DType::I64, 0, ids.count())?)?;
        Ok(Some(wide))
    }

    /// `dense` is addressed by position, `through` by ids. A kernel that reads through ids writes the dense one.
    fn indexed(
        &self,
        plan: &IndexPlan<'_>,
        dtype: DType,
        dense: DevicePtr<u8>,
        through: DevicePtr<u8>,
        stream: &Stream,
    ) -> Result<()> {
        let [left, rows, right] = plan.sizes;
        let pieces = 16 / dtype.size();
        let whole = plan.access == Access::ReadRows
            && right % pieces == 0
            && dense.address().is_multiple_of(16)
            && through.address().is_multiple_of(16);
        let variant = if whole { "_rows" } else { "" };
        let function = self.function(Id::Indexing, plan.root, &[plan.ids.dtype(), dtype], variant)?;

        // Operands of the shape: dense, through, ids. Not collapsed, since the kernels need these three dimensions.
        let mut shape = Shape { rank: 3, size: [1; MAX_RANK], stride: [[0; MAX_RANK]; MAX_OPERANDS], operands: 3 };
        let dense_strides = [right * rows, right, 1];
        let through_strides = [plan.indexed.right * plan.indexed.size, 0, 1];
        for d in 0..3 {
            shape.size[d] = plan.sizes[2 - d] as u64;
            shape.stride[0][d] = dense_strides[2 - d] as u64;
            shape.stride[1][d] = through_strides[2 - d] as u64;
            shape.stride[2][d] = plan.ids_strides[2 - d] as u64;
        }
        debug_assert_eq!(shape.count(), (left * rows * right) as u64);
        if whole {
            shape = shape.in_pieces_of(pieces as u64);
        }
        let fault = self.faults.arm(stream)?;
        shape.cut(&mut |part, start| {
            let size = |d: usize| if d < part.rank { part.size[d] } else { 1 };
            let geometry = IndexGeometry {
                count: part.count() as u32,
                unused: 0,
                right: Divider::new(size(0)),
                row: Divider::new(size(1)),
                bound: plan.indexed.size as u64,
                none: plan.none,
                dense_left: shape.stride[0][2],
                dense_row: shape.stride[0][1],
                indexed_left: shape.stride[1][2],
                indexed_row: plan.indexed.right as u64,
                ids_left: shape.stride[2][2],
                ids_row: shape.stride[2][1],
                ids_right: plan.ids_strides[2] as u64,
            };
            let dense = dense.offset(start[0] as usize * dtype.size());
            let through = through.offset(start[1] as usize * dtype.size());
            let (to, from) = if plan.access == Access::Write { (through, dense) } else { (dense, through) };
            let ids = plan.ids.ptr().offset(start[2] as usize * plan.ids.dtype().size());
            let config = LaunchConfig::new(part.count().div_ceil(u64::from(THREADS) * BATCH) as u32, THREADS);
            // SAFETY: the parameters of the kernels in `hip/indexing.hip`; positions stay inside the checked layouts, and
            // the kernels themselves leave out every id that does not. There is a word for every element of the target,
            // whose memory goes back to the pool of this stream behind both launches.
            unsafe {
                if plan.root != SCATTER {
                    return function.launch(stream, config, &(geometry, to, from, ids, fault));
                }
                let last = stream.zeros::<u32>(plan.indexed.left * plan.indexed.size * plan.indexed.right)?;
                let mark = self.function(Id::Indexing, "smark", &[plan.ids.dtype()], "")?;
                mark.launch(stream, config, &(geometry, last.ptr(), ids, fault))?;
                function.launch(stream, config, &(geometry, to, from, ids, last.ptr(), fault))
            }
        })
    }
}

impl<'a> IndexPlan<'a> {
    /// Ids that lie as the dense operand does.
    fn dense(
        root: &'a str,
        ids: &'a Operand<'a>,
        none: u64,
        of_ids: IndexDims,
        indexed: IndexDims,
        access: Access,
    ) -> Self {
        let sizes = [of_ids.left, of_ids.size, of_ids.right];
        let ids_strides = [of_ids.size * of_ids.right, of_ids.right, 1];
        Self { root, ids, none, ids_strides, sizes, indexed, access }
    }
}

fn one_dimension(root: &str, ids: &Operand<'_>) -> Result<(usize, usize)> {
    match (ids.dims(), ids.strides()) {
        (&[count], &[stride]) => Ok((count, stride)),
        _ => Err(Error::refused(format!("{root}: the ids have shape {:?}, but must have one dimension", ids.dims()))),
    }
}

fn contiguous(root: &str, what: &str, is: bool) -> Result<()> {
    if is {
        return Ok(());
    }
    Err(Error::refused(format!("{root}: {what} must be contiguous; make it so first")))
}

/// The id of this dtype that stands for no row: the greatest.
fn none(ids: DType) -> u64 {
    match ids {
        DType::U8 => u8::MAX.into(),
        DType::U32 => u32::MAX.into(),
        DType::I16 => i16::MAX as u64,
        DType::I32 => i32::MAX as u64,
        _ => i64::MAX as u64,
    }
}

/// Beside `dim`, the positions of `inner` are those of `outer`, or the first of them along the dimensions named in `shorter`.
fn around(root: &str, inner: &[usize], outer: &[usize], dim: usize, shorter: &[usize]) -> Result<()> {
    let at = |d: usize| d == dim || inner[d] == outer[d] || (shorter.contains(&d) && inner[d] < outer[d]);
    let fits = inner.len() == outer.len() && (0..inner.len()).all(at);
    if fits {
        return Ok(());
    }
    Err(Error::refused(format!("{root}: shapes {inner:?} and {outer:?} differ in more than dimension {dim}")))
}

crate::shared::shared! {
    ["INDEXING_THREADS": THREADS, "INDEXING_BATCH": BATCH]
    "IndexGeometry": IndexGeometry {
        count, right, row, bound, dense_left, dense_row, indexed_left, indexed_row, ids_left, ids_row, ids_right,
    }
}
