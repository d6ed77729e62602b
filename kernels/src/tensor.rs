//! Tensors as the launch layer takes them: borrowed device memory with a dtype, and a layout that has been checked to
//! stay inside it. Because of that check the functions that launch are safe to call.

use crate::dtype::DType;
use hip::{DeviceCopy, DevicePtr, Error, Result, Stream, View, ViewMut};

/// Dimensions a tensor may have. Layouts are worked on in arrays of this size, so that a launch allocates nothing.
pub const MAX_RANK: usize = 16;

/// A tensor to read: any strides, 0 for a broadcast dimension included.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    memory: View<'a, u8>,
    address: u64,
    dtype: DType,
    dims: &'a [usize],
    strides: &'a [usize],
}

impl<'a> Operand<'a> {
    /// A tensor of `dims` whose element (i, j, ...) lies at `start + i * strides[0] + j * strides[1] + ...`, counted
    /// in elements of `dtype` from the beginning of `memory`.
    pub fn new<T: DeviceCopy>(
        memory: impl Into<View<'a, T>>,
        dtype: DType,
        start: usize,
        dims: &'a [usize],
        strides: &'a [usize],
    ) -> Result<Self> {
        let memory = memory.into().cast::<u8>()?;
        let address = locate(memory.ptr(), memory.len(), dtype, start, dims, strides)?;
        Ok(Self { memory, address, dtype, dims, strides })
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The sizes of the dimensions, outermost first.
    pub fn dims(&self) -> &'a [usize] {
        self.dims
    }

    /// The strides in elements, outermost first.
    pub fn strides(&self) -> &'a [usize] {
        self.strides
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// The address of the first element, for work on the memory's stream. While that stream is being captured, the graph
    /// keeps the memory from here on: a launch cannot name memory that its graph does not keep.
    #[inline]
    pub fn ptr(&self) -> DevicePtr<u8> {
        self.memory.keep_in_capture();
        DevicePtr::from_address(self.address)
    }

    /// The stream of the memory.
    pub fn stream(&self) -> &'a Stream {
        self.memory.stream()
    }

    /// True when the elements lie in memory one after the other, in order.
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(self.dims, self.strides)
    }
}

/// A tensor to write (or to update in place).
#[derive(Debug)]
pub struct OperandMut<'a> {
    memory: ViewMut<'a, u8>,
    address: u64,
    dtype: DType,
    dims: &'a [usize],
    strides: &'a [usize],
}

/// The memory of `count` contiguous elements to write.
#[derive(Debug)]
pub struct Output<'a> {
    memory: ViewMut<'a, u8>,
    address: u64,
    dtype: DType,
    count: usize,
}

impl<'a> Output<'a> {
    /// `count` elements of `dtype` from element `start` of `memory` on.
    pub fn new<T: DeviceCopy>(
        memory: impl Into<ViewMut<'a, T>>,
        dtype: DType,
        start: usize,
        count: usize,
    ) -> Result<Self> {
        let memory = memory.into().cast::<u8>()?;
        let address = locate(memory.ptr(), memory.len(), dtype, start, &[count], &[1])?;
        Ok(Self { memory, address, dtype, count })
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The address of the first element, for work on the memory's stream. While that stream is being captured, the graph
    /// keeps the memory from here on: a launch cannot name memory that its graph does not keep.
    #[inline]
    pub fn ptr(&self) -> DevicePtr<u8> {
        self.memory.keep_in_capture();
        DevicePtr::from_address(self.address)
    }

    /// The stream of the memory, on which whatever fills it runs.
    pub fn stream(&self) -> &'a Stream {
        self.memory.stream()
    }

    /// The elements as a kernel reads them that runs after they were written. `dims` and `strides` are those of a contiguous tensor.
    pub(crate) fn written<'b>(&'b self, dims: &'b [usize], strides: &'b [usize]) -> Operand<'b> {
        debug_assert!(is_contiguous(dims, strides) && dims.iter().product::<usize>() == self.count);
        Operand { memory: self.memory.as_view(), address: self.address, dtype: self.dtype, dims, strides }
    }
}

impl<'a> OperandMut<'a> {
    /// As [`Operand::new`].
    pub fn new<T: DeviceCopy>(
        memory: impl Into<ViewMut<'a, T>>,
        dtype: DType,
        start: usize,
        dims: &'a [usize],
        strides: &'a [usize],
    ) -> Result<Self> {
        let memory = memory.into().cast::<u8>()?;
        let address = locate(memory.ptr(), memory.len(), dtype, start, dims, strides)?;
        Ok(Self { memory, address, dtype, dims, strides })
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The sizes of the dimensions, outermost first.
    pub fn dims(&self) -> &'a [usize] {
        self.dims
    }

    /// The strides in elements, outermost first.
    pub fn strides(&self) -> &'a [usize] {
        self.strides
    }

    /// The address of the first element, for work on the memory's stream. While that stream is being captured, the graph
    /// keeps the memory from here on: a launch cannot name memory that its graph does not keep.
    #[inline]
    pub fn ptr(&self) -> DevicePtr<u8> {
        self.memory.keep_in_capture();
        DevicePtr::from_address(self.address)
    }

    /// The stream of the memory.
    pub fn stream(&self) -> &'a Stream {
        self.memory.stream()
    }

    /// True when the elements lie in memory one after the other, in order.
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(self.dims, self.strides)
    }

    /// The last two dimensions, at `index` of the others. The index must be inside of them.
    pub(crate) fn matrix(&mut self, index: &[usize]) -> OperandMut<'_> {
        debug_assert!(index.len() + 2 == self.dims.len() && index.iter().zip(self.dims).all(|(i, dim)| i < dim));
        let start: usize = index.iter().zip(self.strides).map(|(i, stride)| i * stride).sum();
        let address = self.address + (start * self.dtype.size()) as u64;
        let (dims, strides) = (&self.dims[index.len()..], &self.strides[index.len()..]);
        OperandMut { memory: self.memory.reborrow(), address, dtype: self.dtype, dims, strides }
    }
}

fn is_contiguous(dims: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1;
    for (&size, &stride) in dims.iter().zip(strides).rev() {
        if size > 1 && stride != expected {
            return false;
        }
        expected *= size;
    }
    true
}

/// The address of the first element, when the layout stays within `bytes` bytes from `base` on.
fn locate(
    base: DevicePtr<u8>,
    bytes: usize,
    dtype: DType,
    start: usize,
    dims: &[usize],
    strides: &[usize],
) -> Result<u64> {
    if dims.len() != strides.len() || dims.len() > MAX_RANK {
        return Err(Error::refused(format!(
            "a layout has {} dimensions and {} strides; it needs as many of one as of the other, and at most {MAX_RANK}",
            dims.len(),
            strides.len()
        )));
    }
    let size = dtype.size();
    if !base.address().is_multiple_of(size as u64) {
        return Err(Error::refused(format!("memory at {base:?} is not aligned for {dtype}")));
    }
    // The last element, then one beyond; everything checked, since a layout may come from a file.
    let mut end = start;
    let mut empty = false;
    for (&dim, &stride) in dims.iter().zip(strides) {
        empty |= dim == 0;
        end = dim
            .saturating_sub(1)
            .checked_mul(stride)
            .and_then(|span| end.checked_add(span))
            .ok_or_else(|| Error::refused(format!("a layout of {dims:?} with strides {strides:?} overflows")))?;
    }
    if !empty && end.checked_add(1).and_then(|end| end.checked_mul(size)).is_none_or(|end| end > bytes) {
        return Err(Error::refused(format!(
            "a {dtype} tensor of {dims:?} with strides {strides:?} from element {start} on does not fit into {bytes} bytes"
        )));
    }
    if dims.iter().try_fold(1usize, |count, &dim| count.checked_mul(dim)).is_none() {
        return Err(Error::refused(format!("a tensor of {dims:?} has more elements than can be counted")));
    }
    Ok(base.offset(if empty { 0 } else { start * size }).address())
}
