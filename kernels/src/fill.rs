//! Launches of the module fill: constants into contiguous and strided tensors, copies of rows, and rows side by side.

use crate::dtype::DType;
use crate::kernels::{fits, one_stream, Kernels};
use crate::layout::{Divider, Shape, MAX_BLOCKS, PART_LIMIT};
use crate::registry::Id;
use crate::tensor::{Operand, OperandMut, Output};
use bytemuck::{Pod, Zeroable};
use hip::{DevicePtr, Error, LaunchConfig, Result};

const THREADS: u32 = 256;
const BATCH: u64 = 4;

/// Rows of pieces.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Copy2d {
    count: u32,
    pieces: Divider,
    from_stride: u64,
    to_stride: u64,
}

/// Matrices that one launch puts side by side.
const CONCAT_PARTS: usize = 8;

/// Matrices of one height side by side.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Concat {
    count: u32,
    pieces: Divider,
    to_stride: u64,
    used: u32,
    unused: u32,
    start: [u32; CONCAT_PARTS],
    stride: [u64; CONCAT_PARTS],
    from: [DevicePtr<u8>; CONCAT_PARTS],
}

/// Blocks for `pieces` pieces, each thread taking a batch of them.
fn blocks_for(pieces: u64) -> u32 {
    pieces.div_ceil(u64::from(THREADS) * BATCH) as u32
}

impl Kernels {
    /// Writes one value, given as the bits of an element, to every element.
    pub fn fill(&self, bits: u64, out: &mut Output<'_>) -> Result<()> {
        let function = self.function(Id::Fill, "fill", &[out.dtype()], "")?;
        let (count, width) = (out.count() as u64, 16 / out.dtype().size() as u64);
        if count == 0 {
            return Ok(());
        }
        if !out.ptr().address().is_multiple_of(16) {
            // The pieces would not be aligned; the strided kernel writes element by element.
            return self.fill_strided(
                bits,
                out.dtype(),
                out.ptr(),
                out.stream(),
                &Shape::collapse(&[out.count()], &[&[1]]),
            );
        }
        let most = MAX_BLOCKS * u64::from(THREADS) * BATCH * width;
        for first in (0..count).step_by(most as usize) {
            let part = (count - first).min(most);
            let config = LaunchConfig::new(blocks_for(part.div_ceil(width)), THREADS);
            let at = out.ptr().offset(first as usize * out.dtype().size());
            // SAFETY: the parameters of `fill_*` in `hip/fill.hip`; `out` holds `count` elements and is borrowed for writing.
            unsafe { function.launch(out.stream(), config, &(part, bits, at))? };
        }
        Ok(())
    }

    /// Writes one value, given as the bits of an element, to every element of a tensor of any layout.
    pub fn const_set(&self, bits: u64, out: &mut OperandMut<'_>) -> Result<()> {
        let shape = Shape::collapse(out.dims(), &[out.strides()]);
        self.fill_strided(bits, out.dtype(), out.ptr(), out.stream(), &shape)
    }

    fn fill_strided(
        &self,
        bits: u64,
        dtype: DType,
        out: DevicePtr<u8>,
        stream: &hip::Stream,
        shape: &Shape,
    ) -> Result<()> {
        let function = self.function(Id::Fill, "const_set", &[dtype], "")?;
        shape.cut(&mut |part, start| {
            let config = LaunchConfig::new(blocks_for(part.count()), THREADS);
            let out = out.offset(start[0] as usize * dtype.size());
            // SAFETY: the parameters of `const_set_*` in `hip/fill.hip`; the layout stays inside memory that is borrowed
            // for writing.
            unsafe { function.launch(stream, config, &(part.pack::<1>(), bits, out)) }
        })
    }

    /// Copies the rows of one matrix to the rows of another. Both have two dimensions and contiguous rows.
    pub fn copy2d(&self, from: &Operand<'_>, to: &mut OperandMut<'_>) -> Result<()> {
        let (&[rows, cols], &[from_stride, from_col]) = (from.dims(), from.strides()) else {
            return Err(Error::refused(format!(
                "copy2d: the source has shape {:?}, but must have two dimensions",
                from.dims()
            )));
        };
        let &[to_stride, to_col] = to.strides() else {
            return Err(Error::refused(format!(
                "copy2d: the target has shape {:?}, but must have two dimensions",
                to.dims()
            )));
        };
        if from.dims() != to.dims() || (cols > 1 && (from_col != 1 || to_col != 1)) {
            return Err(Error::refused(format!(
                "copy2d: shapes {:?} and {:?} with strides {:?} and {:?} are not two matrices of one shape with contiguous rows",
                from.dims(),
                to.dims(),
                from.strides(),
                to.strides()
            )));
        }
        let dtype = from.dtype();
        fits("copy2d", "the target", rows * cols, rows * cols, to.dtype(), dtype)?;
        one_stream(to.stream(), &[from])?;

        let width = 16 / dtype.size();
        let aligned = |address: u64, stride: usize| address.is_multiple_of(16) && stride.is_multiple_of(width);
        let whole =
            cols % width == 0 && aligned(from.ptr().address(), from_stride) && aligned(to.ptr().address(), to_stride);
        let width = if whole { width } else { 1 };
        let function = self.function(Id::Fill, "copy2d", &[dtype], if whole { "_rows" } else { "" })?;

        let pieces = (cols / width) as u64;
        if pieces == 0 || rows == 0 {
            return Ok(());
        }
        if pieces >= PART_LIMIT {
            return Err(Error::refused(format!(
                "copy2d: rows of {cols} elements are too long for one launch; copy them as buffers"
            )));
        }
        let step = ((PART_LIMIT - 1) / pieces) as usize;
        for first in (0..rows).step_by(step) {
            let part = step.min(rows - first) as u64;
            let shape = Copy2d {
                count: (part * pieces) as u32,
                pieces: Divider::new(pieces),
                from_stride: from_stride as u64,
                to_stride: to_stride as u64,
            };
            let at = |base: DevicePtr<u8>, stride: usize| base.offset(first * stride * dtype.size());
            let args = (shape, at(to.ptr(), to_stride), at(from.ptr(), from_stride));
            // SAFETY: the parameters of `copy2d_*` in `hip/fill.hip`; both layouts stay inside memory that is borrowed.
            unsafe {
                function.launch(to.stream(), LaunchConfig::new(blocks_for(u64::from(shape.count)), THREADS), &args)?
            };
        }
        Ok(())
    }

    /// Writes matrices side by side: row r of the result is row r of each of them, one after the other. All have two dimensions and
    /// contiguous rows, and as many rows as the result.
    pub fn concat(&self, parts: &[Operand<'_>], to: &mut OperandMut<'_>) -> Result<()> {
        let dtype = to.dtype();
        let (&[rows, cols], &[to_stride, to_col]) = (to.dims(), to.strides()) else {
            return Err(Error::refused(format!(
                "concat: the result has shape {:?}, but must have two dimensions",
                to.dims()
            )));
        };
        let mut width = 16 / dtype.size();
        let whole = |address: u64, stride: usize, cols: usize| {
            address.is_multiple_of(16) && (rows <= 1 || stride.is_multiple_of(width)) && cols.is_multiple_of(width)
        };
        let mut pieces_of_16_bytes = whole(to.ptr().address(), to_stride, cols);
        let mut given = 0;
        for part in parts {
            one_stream(to.stream(), &[part])?;
            match (part.dims(), part.strides()) {
                (&[part_rows, part_cols], &[stride, col])
                    if part_rows == rows && (part_cols <= 1 || (col == 1 && to_col == 1)) && part.dtype() == dtype =>
                {
                    given += part_cols;
                    pieces_of_16_bytes &= whole(part.ptr().address(), stride, part_cols);
                }
                (dims, strides) => {
                    return Err(Error::refused(format!(
                        "concat: a part of {} with shape {dims:?} and strides {strides:?} cannot be columns of {rows} rows of {dtype}",
                        part.dtype()
                    )))
                }
            }
        }
        fits("concat", "the result", rows * cols, rows * given, to.dtype(), dtype)?;
        width = if pieces_of_16_bytes { width } else { 1 };
        let variant = if pieces_of_16_bytes { "_rows" } else { "" };
        let function = self.function(Id::Fill, "concat", &[dtype], variant)?;
        let mut first_col = 0;
        for parts in parts.chunks(CONCAT_PARTS) {
            let cols: usize = parts.iter().map(|part| part.dims()[1]).sum();
            let pieces = (cols / width) as u64;
            if pieces == 0 || rows == 0 {
                continue;
            }
            if pieces >= PART_LIMIT {
                return Err(Error::refused(format!(
                    "concat: rows of {cols} elements are too long for one launch; copy the parts one by one"
                )));
            }
            let step = ((PART_LIMIT - 1) / pieces) as usize;
            for first_row in (0..rows).step_by(step) {
                let mut shape = Concat {
                    count: (step.min(rows - first_row) as u64 * pieces) as u32,
                    pieces: Divider::new(pieces),
                    to_stride: to_stride as u64,
                    used: 0,
                    unused: 0,
                    start: [0; CONCAT_PARTS],
                    stride: [0; CONCAT_PARTS],
                    from: [DevicePtr::from_address(0); CONCAT_PARTS],
                };
                let mut start = 0;
                // A part without columns would share its start with the next one.
                let parts = parts.iter().filter(|part| part.dims()[1] > 0);
                for (at, part) in parts.enumerate() {
                    let stride = part.strides()[0];
                    shape.used += 1;
                    shape.start[at] = start;
                    shape.stride[at] = stride as u64;
                    shape.from[at] = part.ptr().offset(first_row * stride * dtype.size());
                    start += (part.dims()[1] / width) as u32;
                }
                let at = to.ptr().offset((first_row * to_stride + first_col) * dtype.size());
                let config = LaunchConfig::new(blocks_for(u64::from(shape.count)), THREADS);
                // SAFETY: the parameters of `concat_*` in `hip/fill.hip`; all layouts stay inside memory that is borrowed.
                unsafe { function.launch(to.stream(), config, &(shape, at))? };
            }
            first_col += cols;
        }
        Ok(())
    }
}

crate::shared::shared! {
    ["FILL_THREADS": THREADS, "CONCAT_PARTS": CONCAT_PARTS]
    "Copy2d": Copy2d { count, pieces, from_stride, to_stride }
    "ConcatBytes": Concat { count, pieces, to_stride, used, start, stride, from }
}
