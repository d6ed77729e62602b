//! Writing into memory that is there already: a strided copy, rows of a matrix, a constant. And several tensors as one.

use super::{put_off, RocmDevice, RocmStorage, WrapErr};
use crate::backend::BackendStorage;
use crate::scalar::Scalar;
use crate::{Layout, Result, Shape};

/// Copies the elements of a layout, in order, to `target` from element `start` on.
pub(super) fn copy_strided(
    source: &RocmStorage,
    target: &mut RocmStorage,
    start: usize,
    layout: &Layout,
) -> Result<()> {
    let device = target.device.clone();
    let source = source.on(&device)?;
    let count = layout.shape().elem_count();
    if start == 0 && count == target.slice.len() && put_off::is_fresh(target) {
        if let Some(later) = put_off::repeated(&source, layout)? {
            *target = later;
            return Ok(());
        }
    }
    let input = source.operand(layout, "copy_strided_src")?;
    let mut out = target.output_at(start, count, "copy_strided_src")?;
    device.kernels().copy(&input, &mut out).w()
}

/// Copies rows to rows; both sides are given as the distance between rows and the start of the first.
pub(super) fn copy2d(
    source: &RocmStorage,
    target: &mut RocmStorage,
    extent: (usize, usize),
    (source_stride, source_start): (usize, usize),
    (target_stride, target_start): (usize, usize),
) -> Result<()> {
    let device = target.device.clone();
    let source = source.on(&device)?;
    let from = Layout::new(Shape::from(extent), vec![source_stride, 1], source_start);
    let to = Layout::new(Shape::from(extent), vec![target_stride, 1], target_start);
    let input = source.operand(&from, "copy2d")?;
    device.kernels().copy2d(&input, &mut target.operand_mut(&to, "copy2d")?).w()
}

/// Tensors of one dtype put together along a dimension, from which on each lies in memory without gaps; what is outside of it are
/// rows an even distance apart.
pub fn concat(device: &RocmDevice, parts: &[(&RocmStorage, &Layout)], dim: usize) -> Result<RocmStorage> {
    let op = "cat";
    let Some((first, first_l)) = parts.first() else { crate::bail!("{op}: there are no tensors") };
    if parts.iter().all(|(storage, layout)| std::ptr::eq(*storage, *first) && layout == first_l) {
        let (mut dims, mut strides) = (first_l.dims().to_vec(), first_l.stride().to_vec());
        dims.insert(dim, parts.len());
        strides.insert(dim, 0);
        let several = Layout::new(Shape::from(dims), strides, first_l.start_offset());
        if let Some(later) = put_off::repeated(first, &several)? {
            return Ok(later);
        }
    }
    let rows: usize = first_l.dims()[..dim].iter().product();
    let mut matrices = Vec::with_capacity(parts.len());
    for (storage, layout) in parts {
        let length = layout.dims()[dim..].iter().product();
        // Dimensions of one element have any stride.
        let outer = (0..dim).rev().find(|&d| layout.dims()[d] > 1);
        let stride = outer.map_or(length, |d| layout.stride()[d]);
        matrices.push((
            storage.on(device)?,
            Layout::new(Shape::from((rows, length)), vec![stride, 1], layout.start_offset()),
        ));
    }
    let columns: usize = matrices.iter().map(|(_, layout)| layout.dims()[1]).sum();
    let whole = Layout::contiguous((rows, columns));
    let mut result = RocmStorage::uninitialised(device, first.slice.dtype(), rows * columns)?;
    let operands: Vec<_> =
        matrices.iter().map(|(storage, layout)| storage.operand(layout, op)).collect::<Result<_>>()?;
    device.kernels().concat(&operands, &mut result.operand_mut(&whole, op)?).w()?;
    Ok(result)
}

/// Writes one value to every element of a layout. A value of another dtype is refused in the CPU's words.
pub(super) fn const_set(target: &mut RocmStorage, value: Scalar, layout: &Layout) -> Result<()> {
    if value.dtype() != target.dtype() {
        crate::bail!("const_set dtype mismatch, expected {:?} but got {value:?}", target.dtype());
    }
    let device = target.device.clone();
    device.kernels().const_set(bits(value), &mut target.operand_mut(layout, "const_set")?).w()
}

/// The bits of an element, at the low end.
fn bits(value: Scalar) -> u64 {
    match value {
        Scalar::U8(value) => value.into(),
        Scalar::U32(value) => value.into(),
        Scalar::I16(value) => (value as u16).into(),
        Scalar::I32(value) => (value as u32).into(),
        Scalar::I64(value) => value as u64,
        Scalar::BF16(value) => value.to_bits().into(),
        Scalar::F16(value) => value.to_bits().into(),
        Scalar::F32(value) => value.to_bits().into(),
        Scalar::F64(value) => value.to_bits(),
        Scalar::F8E4M3(value) => value.to_bits().into(),
    }
}
