//! Reads and writes through a tensor of ids. An id out of range is found by the kernel, which touches nothing outside its
//! tensors; the error comes out where the host next waits for the device.

use super::{RocmStorage, WrapErr};
use crate::{Error, Layout, Result};

/// These operations take whole rows of memory, as on the other devices.
fn contiguous(layout: &Layout, op: &'static str) -> Result<()> {
    if layout.is_contiguous() {
        return Ok(());
    }
    Err(Error::RequiresContiguous { op }.bt())
}

/// Rows along `dim`, one for each id.
pub(super) fn index_select(
    source: &RocmStorage,
    layout: &Layout,
    ids: &RocmStorage,
    ids_l: &Layout,
    dim: usize,
) -> Result<RocmStorage> {
    let op = "index-select";
    contiguous(layout, op)?;
    let device = &source.device;
    let ids = ids.on(device)?;
    let (from, ids) = (source.operand(layout, op)?, ids.operand(ids_l, op)?);
    let rows = ids_l.shape().elem_count();
    let count = layout.dims().iter().enumerate().map(|(at, &extent)| if at == dim { rows } else { extent }).product();
    RocmStorage::filled(device, source.slice.dtype(), count, op, |out| {
        device.kernels().index_select(&from, &ids, dim, out)
    })
}

/// For each id, the element at its own position but with the id in place of `dim`. Along the other dimensions there may be fewer ids
/// than elements. The kernel takes that along the first one and the one behind `dim`, where the distance from row to row stays the
/// same; what is left over along others is cut off before, by a copy.
pub(super) fn gather(
    source: &RocmStorage,
    layout: &Layout,
    ids: &RocmStorage,
    ids_l: &Layout,
    dim: usize,
) -> Result<RocmStorage> {
    let op = "gather";
    contiguous(layout, op)?;
    contiguous(ids_l, op)?;
    let device = &source.device;
    let ids = ids.on(device)?;
    let mut part = layout.clone();
    for (d, &count) in ids_l.dims().iter().enumerate() {
        if ![0, dim, dim + 1].contains(&d) && count < layout.dims()[d] {
            part = part.narrow(d, 0, count)?;
        }
    }
    let cut = if part.dims() == layout.dims() { None } else { Some(super::elementwise::copy(source, &part)?) };
    let (source, layout) = match &cut {
        Some(cut) => (cut, &Layout::contiguous(part.shape())),
        None => (source, layout),
    };
    let (from, ids) = (source.operand(layout, op)?, ids.operand(ids_l, op)?);
    RocmStorage::filled(device, source.slice.dtype(), ids_l.shape().elem_count(), op, |out| {
        device.kernels().gather(&from, &ids, dim, out)
    })
}

/// The three operations that write through ids.
#[derive(Clone, Copy)]
enum Write {
    Scatter,
    ScatterAdd,
    IndexAdd,
}

impl Write {
    fn name(self) -> &'static str {
        match self {
            Write::Scatter => "scatter",
            Write::ScatterAdd => "scatter-add",
            Write::IndexAdd => "index-add",
        }
    }
}

fn write(
    how: Write,
    target: &mut RocmStorage,
    layout: &Layout,
    (ids, ids_l): (&RocmStorage, &Layout),
    (source, source_l): (&RocmStorage, &Layout),
    dim: usize,
) -> Result<()> {
    let op = how.name();
    for layout in [layout, source_l] {
        contiguous(layout, op)?;
    }
    if !matches!(how, Write::IndexAdd) {
        contiguous(ids_l, op)?;
    }
    let device = target.device.clone();
    let (ids, source) = (ids.on(&device)?, source.on(&device)?);
    let (ids, from) = (ids.operand(ids_l, op)?, source.operand(source_l, op)?);
    let mut to = target.operand_mut(layout, op)?;
    let kernels = device.kernels();
    match how {
        Write::Scatter => kernels.scatter(&mut to, &ids, &from, dim),
        Write::ScatterAdd => kernels.scatter_add(&mut to, &ids, &from, dim),
        Write::IndexAdd => kernels.index_add(&mut to, &ids, &from, dim),
    }
    .w()
}

/// Writes each element of the source to the target, with its id in place of `dim`.
pub(super) fn scatter(
    target: &mut RocmStorage,
    layout: &Layout,
    ids: &RocmStorage,
    ids_l: &Layout,
    source: &RocmStorage,
    source_l: &Layout,
    dim: usize,
) -> Result<()> {
    write(Write::Scatter, target, layout, (ids, ids_l), (source, source_l), dim)
}

/// As `scatter`, but adds.
pub(super) fn scatter_add(
    target: &mut RocmStorage,
    layout: &Layout,
    ids: &RocmStorage,
    ids_l: &Layout,
    source: &RocmStorage,
    source_l: &Layout,
    dim: usize,
) -> Result<()> {
    write(Write::ScatterAdd, target, layout, (ids, ids_l), (source, source_l), dim)
}

/// A copy of the storage to which each row of the source is added, at the row its id names.
pub(super) fn index_add(
    storage: &RocmStorage,
    layout: &Layout,
    ids: &RocmStorage,
    ids_l: &Layout,
    source: &RocmStorage,
    source_l: &Layout,
    dim: usize,
) -> Result<RocmStorage> {
    let mut sum = super::elementwise::copy(storage, layout)?;
    let sum_l = Layout::contiguous(layout.shape());
    write(Write::IndexAdd, &mut sum, &sum_l, (ids, ids_l), (source, source_l), dim)?;
    Ok(sum)
}
