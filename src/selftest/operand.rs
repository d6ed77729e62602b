//! Operands of a trial, as bytes with a layout, and the two sides that get the same: the device under test and the oracle.

use super::number::{draw, Random, Values};
use candle_rocm_kernels::{DType, Kernels, Operand, OperandMut, Output, Planning};
use hip::{Buffer, Device, Result, Stream};
use std::fmt;

/// Where the elements of a tensor lie.
#[derive(Clone, PartialEq, Eq)]
pub struct Layout {
    pub start: usize,
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
}

impl Layout {
    /// One element after the other.
    pub fn contiguous(dims: &[usize]) -> Self {
        let mut strides = vec![1; dims.len()];
        for d in (1..dims.len()).rev() {
            strides[d - 1] = strides[d] * dims[d];
        }
        Self { start: 0, dims: dims.to_vec(), strides }
    }

    /// Any layout of these dimensions: in order, permuted, broadcast, with gaps, from an odd place on.
    pub fn random(random: &mut Random, dims: &[usize]) -> Self {
        if random.once_in(3) {
            return Self::contiguous(dims);
        }
        let mut order: Vec<usize> = (0..dims.len()).collect();
        for i in (1..dims.len()).rev() {
            if random.once_in(2) {
                order.swap(i, random.below(i + 1));
            }
        }
        let mut strides = vec![0; dims.len()];
        let mut stride = if random.once_in(8) { 2 } else { 1 };
        for &d in order.iter().rev() {
            if random.once_in(8) {
                continue;
            }
            strides[d] = stride;
            stride *= dims[d] + if random.once_in(4) { random.below(3) } else { 0 };
        }
        Self { start: if random.once_in(3) { random.below(5) } else { 0 }, dims: dims.to_vec(), strides }
    }

    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Elements of the memory.
    pub fn span(&self) -> usize {
        let last: usize = self.dims.iter().zip(&self.strides).map(|(dim, stride)| dim.saturating_sub(1) * stride).sum();
        self.start + last + 1
    }
}

impl fmt::Display for Layout {
    /// What one needs to repeat it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims)?;
        if *self != Self::contiguous(&self.dims) {
            write!(f, " strides {:?} from element {}", self.strides, self.start)?;
        }
        Ok(())
    }
}

/// Random dimensions: up to four, and about so many elements at most.
pub fn dims(random: &mut Random, most: usize) -> Vec<usize> {
    let rank = random.between(1, 4);
    let side = [most, 45, 12, 6][rank - 1].min(most);
    (0..rank).map(|_| if random.once_in(6) { 1 } else { random.between(1, side) }).collect()
}

/// A tensor as bytes.
pub struct Tensor {
    pub bytes: Vec<u8>,
    pub dtype: DType,
    pub layout: Layout,
}

impl Tensor {
    pub fn random(random: &mut Random, dtype: DType, values: Values, layout: Layout) -> Self {
        let mut bytes = Vec::with_capacity(layout.span() * dtype.size());
        for _ in 0..layout.span() {
            bytes.extend_from_slice(&draw(random, dtype, values).to_le_bytes()[..dtype.size()]);
        }
        Self { bytes, dtype, layout }
    }

    /// With contiguous elements.
    pub fn dense(random: &mut Random, dtype: DType, values: Values, dims: &[usize]) -> Self {
        Self::random(random, dtype, values, Layout::contiguous(dims))
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dtype, self.layout)
    }
}

/// A tensor in a device's memory.
pub struct Held<'a> {
    pub memory: Buffer<u8>,
    tensor: &'a Tensor,
}

impl Held<'_> {
    pub fn operand(&self) -> Result<Operand<'_>> {
        let Layout { start, dims, strides } = &self.tensor.layout;
        Operand::new(&self.memory, self.tensor.dtype, *start, dims, strides)
    }

    pub fn operand_mut(&mut self) -> Result<OperandMut<'_>> {
        let Layout { start, dims, strides } = &self.tensor.layout;
        OperandMut::new(&mut self.memory, self.tensor.dtype, *start, dims, strides)
    }
}

/// A device with its kernels and a stream.
pub struct Side {
    pub stream: Stream,
    pub kernels: Kernels,
}

/// What memory holds where no kernel may write.
pub const UNTOUCHED: u8 = 0xa5;
/// So many elements behind a result are looked at too.
pub const BEHIND: usize = 16;

impl Side {
    /// `as_on_a_gpu`: the embedded device plans as a GPU does.
    pub fn new(device: &Device, as_on_a_gpu: bool) -> Result<Self> {
        let stream = device.new_stream()?;
        let kernels = Kernels::new(&stream)?;
        let kernels =
            if as_on_a_gpu { kernels.planned(Planning { as_on_a_gpu, ..Default::default() }) } else { kernels };
        Ok(Self { stream, kernels })
    }

    pub fn put<'a>(&self, tensor: &'a Tensor) -> Result<Held<'a>> {
        Ok(Held { memory: self.stream.upload(&tensor.bytes)?, tensor })
    }

    /// The memory around a result, after `kernel` has written it.
    pub fn written(
        &self,
        dtype: DType,
        start: usize,
        count: usize,
        kernel: impl FnOnce(&mut Output<'_>) -> Result<()>,
    ) -> Result<Vec<u8>> {
        let mut memory = self.stream.upload(&vec![UNTOUCHED; (start + count + BEHIND) * dtype.size()])?;
        kernel(&mut Output::new(&mut memory, dtype, start, count)?)?;
        self.kernels.check(&self.stream)?;
        memory.to_vec()
    }

    /// All memory of a tensor, after `kernel` has changed it.
    pub fn changed(&self, tensor: &Tensor, kernel: impl FnOnce(&mut OperandMut<'_>) -> Result<()>) -> Result<Vec<u8>> {
        let mut held = self.put(tensor)?;
        kernel(&mut held.operand_mut()?)?;
        self.kernels.check(&self.stream)?;
        held.memory.to_vec()
    }
}
