//! The geometry of operations that slide a window over an image, packed as the kernels take it (`hip/window.h`).
//! One-dimensional tensors (batch, channel, length) are images of height 1.

use crate::dtype::DType;
use crate::layout::{Divider, INDEX_LIMIT, PART_LIMIT};
use crate::tensor::Operand;
use bytemuck::{Pod, Zeroable};
use hip::{DevicePtr, Error, Result};

/// Threads of a block.
pub(crate) const WINDOW_THREADS: u32 = 256;

/// A window over an image as the kernels take it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct Window {
    batches: u32,
    channels: u32,
    height: u32,
    width: u32,
    kernel_height: u32,
    kernel_width: u32,
    step_y: u32,
    step_x: u32,
    padding_y: u32,
    padding_x: u32,
    spread_y: u32,
    spread_x: u32,
    groups: u32,
    count: u32,
    out_width: Divider,
    out_height: Divider,
    out_channels: Divider,
    kernel_width_by: Divider,
    kernel_area: Divider,
    channels_by: Divider,
    across: u32,
    unused: u32,
    batch_stride: u64,
    channel_stride: u64,
    row_stride: u64,
    column_stride: u64,
}

/// Neighbouring elements of `size` bytes that a thread makes where it can: up to four, no more than 16 bytes.
fn across(size: usize) -> usize {
    (16 / size).min(4)
}

impl Window {
    pub fn batches(&self) -> u32 {
        self.batches
    }

    /// Threads this launch needs, where each makes one element, or its share of them.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The same with several neighbours for each thread, where rows of the result at `to` fall into such groups evenly.
    pub fn across(mut self, dtype: DType, out_width: usize, to: DevicePtr<u8>) -> Self {
        let across = across(dtype.size());
        if out_width.is_multiple_of(across) && to.address().is_multiple_of((across * dtype.size()) as u64) {
            self.across = across as u32;
            self.count /= across as u32;
        }
        self
    }
}

/// A height and a width, or whatever else there is one of along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub y: usize,
    pub x: usize,
}

impl Pair {
    pub const ONE: Pair = Pair { y: 1, x: 1 };
    pub const ZERO: Pair = Pair { y: 0, x: 0 };

    /// Along the axis that tensors of one dimension have.
    pub fn flat(x: usize) -> Self {
        Self { y: 1, x }
    }

    /// The product, which cannot overflow for sizes of a tensor that exists.
    pub fn area(self) -> u64 {
        (self.y as u64).saturating_mul(self.x as u64)
    }
}

/// A tensor of three or four dimensions as an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    pub batches: usize,
    pub channels: usize,
    pub size: Pair,
    pub strides: [u64; 4],
}

impl Image {
    pub fn of(root: &str, operand: &Operand<'_>) -> Result<Self> {
        let s = operand.strides();
        match *operand.dims() {
            [batches, channels, x] => {
                let strides = [s[0] as u64, s[1] as u64, 0, s[2] as u64];
                Ok(Self { batches, channels, size: Pair { y: 1, x }, strides })
            }
            [batches, channels, y, x] => {
                let strides = [s[0] as u64, s[1] as u64, s[2] as u64, s[3] as u64];
                Ok(Self { batches, channels, size: Pair { y, x }, strides })
            }
            _ => Err(Error::refused(format!(
                "{root}: a tensor of shape {:?} is no image; it must have the dimensions (batch, channel, height, width) or \
                 (batch, channel, length)",
                operand.dims()
            ))),
        }
    }
}

/// A window sliding over an image, and the size of what it makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slide {
    pub image: Image,
    pub kernel: Pair,
    pub step: Pair,
    pub padding: Pair,
    pub spread: Pair,
    pub groups: usize,
    /// Channels of the result, of all groups.
    pub out_channels: usize,
    pub out: Pair,
}

impl Slide {
    /// Elements of the result of one batch.
    pub fn out_per_batch(&self) -> u64 {
        (self.out_channels as u64).saturating_mul(self.out.area())
    }

    /// Calls `launch` with the window of each range of batches whose threads 32-bit indices can count, `per_batch` of them a
    /// batch, and with the first batch of the range.
    pub fn launches(
        &self,
        root: &str,
        per_batch: u64,
        mut launch: impl FnMut(&Window, usize) -> Result<()>,
    ) -> Result<()> {
        let sizes = [
            self.image.channels as u64,
            self.image.size.area(),
            self.kernel.area(),
            self.out.area(),
            (self.step.y as u64).max(self.step.x as u64),
            // The farthest place a window looks at, in either direction.
            self.out.y.max(self.image.size.y) as u64 * self.step.y as u64
                + (self.kernel.y * self.spread.y + self.padding.y) as u64,
            self.out.x.max(self.image.size.x) as u64 * self.step.x as u64
                + (self.kernel.x * self.spread.x + self.padding.x) as u64,
            (self.image.channels / self.groups.max(1)) as u64 * self.kernel.area(),
            per_batch,
        ];
        if sizes.iter().any(|&size| size >= INDEX_LIMIT) {
            return Err(Error::refused(format!(
                "{root}: {self:?} is larger than 2^31 along some way; cut the tensor first"
            )));
        }
        if per_batch == 0 || self.image.batches == 0 {
            return Ok(());
        }
        // Places of a range, over all batches, are counted in 32 bits too.
        let largest = per_batch.max(self.out.area());
        let step = (((PART_LIMIT - 1) / largest).max(1) as usize).min(self.image.batches);
        for first in (0..self.image.batches).step_by(step) {
            let batches = step.min(self.image.batches - first);
            launch(&self.pack(batches, per_batch * batches as u64), first)?;
        }
        Ok(())
    }

    fn pack(&self, batches: usize, count: u64) -> Window {
        let groups = self.groups.max(1);
        let channels = self.image.channels / groups;
        Window {
            batches: batches as u32,
            channels: channels as u32,
            height: self.image.size.y as u32,
            width: self.image.size.x as u32,
            kernel_height: self.kernel.y as u32,
            kernel_width: self.kernel.x as u32,
            step_y: self.step.y as u32,
            step_x: self.step.x as u32,
            padding_y: self.padding.y as u32,
            padding_x: self.padding.x as u32,
            spread_y: self.spread.y as u32,
            spread_x: self.spread.x as u32,
            groups: groups as u32,
            count: count as u32,
            out_width: Divider::new(self.out.x as u64),
            out_height: Divider::new(self.out.y as u64),
            out_channels: Divider::new((self.out_channels / groups) as u64),
            kernel_width_by: Divider::new(self.kernel.x as u64),
            kernel_area: Divider::new(self.kernel.area()),
            channels_by: Divider::new(channels as u64),
            across: 1,
            unused: 0,
            batch_stride: self.image.strides[0],
            channel_stride: self.image.strides[1],
            row_stride: self.image.strides[2],
            column_stride: self.image.strides[3],
        }
    }

    /// Bytes from the first element of the image to the first one of `batch`.
    pub fn image_bytes(&self, batch: usize, dtype: DType) -> usize {
        batch * self.image.strides[0] as usize * dtype.size()
    }

    /// Bytes from the first element of the result to the first one of `batch`.
    pub fn out_bytes(&self, batch: usize, dtype: DType) -> usize {
        batch * self.out_per_batch() as usize * dtype.size()
    }
}

/// How many places a window finds along one axis: of a forward convolution, or of a pool (no padding, no spread).
pub(crate) fn places(
    root: &str,
    size: usize,
    kernel: usize,
    step: usize,
    padding: usize,
    spread: usize,
) -> Result<usize> {
    let reach = kernel.checked_sub(1).and_then(|taps| taps.checked_mul(spread)).and_then(|reach| reach.checked_add(1));
    let padded = padding.checked_mul(2).and_then(|padding| padding.checked_add(size));
    match (padded, reach) {
        (Some(padded), Some(reach)) if step > 0 && spread > 0 && reach <= padded => Ok((padded - reach) / step + 1),
        _ => Err(Error::refused(format!(
            "{root}: a window of {kernel} (dilation {spread}, stride {step}) does not fit into {size} elements with a padding of {padding}"
        ))),
    }
}

/// How many elements a transposed convolution makes along one axis.
pub(crate) fn reach(
    root: &str,
    size: usize,
    kernel: usize,
    step: usize,
    padding: usize,
    spread: usize,
    extra: usize,
) -> Result<usize> {
    let whole = || {
        let span = size.checked_sub(1)?.checked_mul(step)?;
        let taps = kernel.checked_sub(1)?.checked_mul(spread)?;
        span.checked_add(taps)?.checked_add(extra)?.checked_add(1)?.checked_sub(padding.checked_mul(2)?)
    };
    match whole() {
        Some(count) if count > 0 && step > 0 && spread > 0 => Ok(count),
        _ => Err(Error::refused(format!(
            "{root}: a window of {kernel} (dilation {spread}, stride {step}) over {size} elements leaves nothing of a padding of {padding}"
        ))),
    }
}

crate::shared::shared! {
    ["WINDOW_THREADS": WINDOW_THREADS, "Across<f32>": across(4), "Across<f64>": across(8)]
    "Window": Window {
        batches, channels, height, width, kernel_height, kernel_width, step_y, step_x, padding_y, padding_x, spread_y, spread_x,
        groups, count, out_width, out_height, out_channels, kernel_width_by, kernel_area, channels_by, across, batch_stride,
        channel_stride, row_stride, column_stride,
    }
}
