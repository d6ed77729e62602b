//! Convolutions of three taps in tiles (`hip/winograd.h`): the ways into tiles and back. Between them stand products, one for
//! each plane, which are the caller's: (plane, out, channel) times (plane, channel, place) makes (plane, out, place).
//!
//! An element of the result is a sum over all planes of sums over all channels, and whatever a tile sees takes part in it: errors
//! are about twice those of adding up all terms in turn where signs are mixed, and half of them where they are not
//! ([`Winograd::ERROR`]). An infinity or NaN in the image reaches the whole tile that sees it.

use crate::conv::Convolution;
use crate::dtype::DType;
use crate::kernels::{fits, one_stream, Kernels};
use crate::layout::{Divider, INDEX_LIMIT};
use crate::registry::Id;
use crate::rows::contiguous;
use crate::sheet::Sheet;
use crate::tensor::{Operand, Output};
use crate::window::{places, Image, Pair, WINDOW_THREADS};
use hip::{Device, DeviceCopy, Error, LaunchConfig, Result};

/// Results of a tile along an axis, and the taps of a kernel.
const TILE: usize = 4;
const TAPS: usize = 3;
/// Values a tile has along an axis.
const POINTS: usize = TILE + TAPS - 1;

/// Channels below which the products are nothing but memory.
const LEAST: usize = 16;

/// `hip/winograd.h` has the same.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Tiles {
    across: Divider,
    down: Divider,
    places: Divider,
    count: u32,
    height: u32,
    width: u32,
    padding: u32,
    vectors: u32,
    batch_stride: u64,
    channel_stride: u64,
    row_stride: u64,
    column_stride: u64,
}

// SAFETY: integers with no padding (14 of four bytes, then eight-byte ones), laid out as in C.
unsafe impl DeviceCopy for Tiles {}

/// A convolution in tiles: its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Winograd {
    flat: bool,
    batches: usize,
    channels: usize,
    out_channels: usize,
    padding: usize,
    size: Pair,
    out: Pair,
}

impl Winograd {
    /// What elements of the result may be off by, in units of rounding (2^-24 for f32, 2^-53 for f64) of the largest magnitude in
    /// the tile times those of the taps, summed over the channels. Random terms were seen to reach half of it. If all
    /// roundings fell the same way it would be 211 times that of a sum over the channels: that is what the magnitudes of
    /// the three transforms multiply to.
    pub const ERROR: f64 = 32.0;

    /// The convolution of an image of (batch, channel, ...) with a kernel of (out, channel, ...), where it can be done in tiles:
    /// three taps along each axis, no step, no spread, no groups.
    pub fn of(params: &Convolution, image: &[usize], kernel: &[usize]) -> Option<Self> {
        let plain = params.stride == 1 && params.dilation == 1 && params.groups == 1;
        let (flat, size) = match (image, kernel) {
            (&[_, _, x], &[_, _, TAPS]) => (true, Pair::flat(x)),
            (&[_, _, y, x], &[_, _, TAPS, TAPS]) => (false, Pair { y, x }),
            _ => return None,
        };
        let along = |size| places("conv2d", size, TAPS, 1, params.padding, 1).ok();
        let out = Pair { y: if flat { 1 } else { along(size.y)? }, x: along(size.x)? };
        let it = Self {
            flat,
            batches: image[0],
            channels: image[1],
            out_channels: kernel[0],
            padding: params.padding,
            size,
            out,
        };
        let indices = [image[1].max(kernel[0]).checked_mul(it.places())?, image[1].checked_mul(kernel[0])?];
        let reach = [out.y, out.x].map(|size| size + params.padding + POINTS);
        let counted = indices.into_iter().chain(reach).all(|count| (count as u64) < INDEX_LIMIT);
        (plain && image[1] == kernel[1] && counted).then_some(it)
    }

    /// Whether tiles are faster than a product with all taps, on a device and in a dtype: there are kernels for f32 and f64, as
    /// the short floats would lose too much on the way. With `columns` that product writes down what the taps see first.
    pub fn pays(&self, device: &Device, dtype: DType, columns: bool) -> bool {
        self.pays_by(Sheet::of(device), dtype, columns)
    }

    fn pays_by(&self, sheet: Sheet, dtype: DType, columns: bool) -> bool {
        let [channels, out, places] = [self.channels, self.out_channels, self.places()].map(|size| size as f64);
        let (planes, results) = (self.planes() as f64, self.batches as f64 * self.out.area() as f64);
        let taps = if self.flat { TAPS } else { TAPS * TAPS } as f64;
        let (size, pair) = (dtype.size() as f64, channels * out);
        // Everything in between is written and read once.
        let seen = if columns { channels * taps * results } else { 0.0 };
        let whole = sheet.time(1 + usize::from(columns), dtype, 2.0 * pair * taps * results, 2.0 * size * seen);
        let between = planes * (pair + (channels + out) * places);
        let tiled = sheet.time(4, dtype, 2.0 * planes * pair * places, 2.0 * size * between);
        let enough = self.channels >= LEAST && self.out_channels >= LEAST;
        matches!(dtype, DType::F32 | DType::F64) && enough && tiled < whole
    }

    /// Planes that tiles have.
    pub fn planes(&self) -> usize {
        if self.flat {
            POINTS
        } else {
            POINTS * POINTS
        }
    }

    /// Tiles of a channel, of all batches.
    pub fn places(&self) -> usize {
        let tiles = |size: usize| size.div_ceil(TILE);
        self.batches * if self.flat { 1 } else { tiles(self.out.y) } * tiles(self.out.x)
    }

    fn root(&self, two: &'static str, one: &'static str) -> &'static str {
        if self.flat {
            one
        } else {
            two
        }
    }

    /// Of the image that is read or the result that is written.
    fn tiles(&self, channels: usize, size: Pair, strides: [u64; 4], padding: usize, vectors: bool) -> Tiles {
        let tiles = |size: usize| Divider::new(size.div_ceil(TILE) as u64);
        let [batch_stride, channel_stride, row_stride, column_stride] = strides;
        Tiles {
            across: tiles(self.out.x),
            down: tiles(self.out.y),
            places: Divider::new(self.places() as u64),
            count: (channels * self.places()) as u32,
            height: size.y as u32,
            width: size.x as u32,
            padding: padding as u32,
            vectors: u32::from(vectors),
            batch_stride,
            channel_stride,
            row_stride,
            column_stride,
        }
    }
}

impl Kernels {
    /// The tiles of an image of any strides: (plane, channel, place).
    pub fn winograd_image(&self, plan: &Winograd, image: &Operand<'_>, tiles: &mut Output<'_>) -> Result<()> {
        let root = plan.root("winograd_image", "winograd_image1d");
        let Image { batches, channels, size, strides } = Image::of(root, image)?;
        if [batches, channels, size.y, size.x] != [plan.batches, plan.channels, plan.size.y, plan.size.x] {
            return Err(Error::refused(format!("{root}: an image of {:?} is not that of {plan:?}", image.dims())));
        }
        let shape = plan.tiles(channels, size, strides, plan.padding, false);
        let count = plan.planes() * channels * plan.places();
        fits(root, "the tiles", tiles.count(), count, tiles.dtype(), image.dtype())?;
        self.winograd(root, image, tiles, shape, shape.count)
    }

    /// The tiles of a contiguous kernel: (plane, out, channel).
    pub fn winograd_weights(&self, plan: &Winograd, kernel: &Operand<'_>, tiles: &mut Output<'_>) -> Result<()> {
        let root = plan.root("winograd_weights", "winograd_weights1d");
        contiguous(root, "the kernel", kernel)?;
        let taps = if plan.flat { TAPS } else { TAPS * TAPS };
        let count = plan.out_channels * plan.channels;
        fits(root, "the kernel", kernel.count(), count * taps, kernel.dtype(), tiles.dtype())?;
        fits(root, "the tiles", tiles.count(), count * plan.planes(), tiles.dtype(), kernel.dtype())?;
        self.winograd(root, kernel, tiles, count as u32, count as u32)
    }

    /// The result, (batch, out, ...), of contiguous tiles (plane, out, place).
    pub fn winograd_result(&self, plan: &Winograd, tiles: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        let root = plan.root("winograd_result", "winograd_result1d");
        contiguous(root, "the tiles", tiles)?;
        let (channels, dtype) = (plan.out_channels, tiles.dtype());
        let count = plan.planes() * channels * plan.places();
        fits(root, "the tiles", tiles.count(), count, dtype, out.dtype())?;
        let (width, area) = (plan.out.x as u64, plan.out.area());
        fits(root, "the result", out.count(), plan.batches * channels * area as usize, out.dtype(), dtype)?;
        let vectors = plan.out.x.is_multiple_of(TILE) && out.ptr().address().is_multiple_of(16);
        let shape = plan.tiles(channels, plan.out, [area * channels as u64, area, width, 1], 0, vectors);
        self.winograd(root, tiles, out, shape, shape.count)
    }

    /// One thread for each tile, `count` of them, from one tensor into the other.
    fn winograd<S: DeviceCopy>(
        &self,
        root: &str,
        from: &Operand<'_>,
        to: &mut Output<'_>,
        shape: S,
        count: u32,
    ) -> Result<()> {
        one_stream(to.stream(), &[from])?;
        let function = self.function(Id::Conv, root, &[from.dtype()], "")?;
        if count == 0 {
            return Ok(());
        }
        let config = LaunchConfig::for_elements(count as usize, WINDOW_THREADS);
        // SAFETY: the parameters of the kernels in `hip/conv.hip`; both tensors were checked to have the elements that the
        // shape speaks of.
        unsafe { function.launch(to.stream(), config, &(from.ptr(), to.ptr(), shape)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of (batch, channels, size, size) into as many channels.
    fn pays(arch: &str, dtype: DType, [batch, channels, size]: [usize; 3]) -> bool {
        let params = Convolution { padding: 1, ..Default::default() };
        let plan = Winograd::of(&params, &[batch, channels, size, size], &[channels, channels, 3, 3]).unwrap();
        plan.pays_by(Sheet::named(arch), dtype, true)
    }

    #[test]
    fn large_images_and_many_channels_pay() {
        for arch in ["sm_90", "gfx90a", "gfx942", "gfx1100", "gfx1030", "gfx1201", "host"] {
            assert!(pays(arch, DType::F32, [1, 128, 128]), "{arch}");
            assert!(pays(arch, DType::F32, [8, 64, 64]), "{arch}");
            assert!(pays(arch, DType::F64, [1, 128, 128]), "{arch}");
            assert!(!pays(arch, DType::F16, [1, 128, 128]), "{arch}");
            assert!(!pays(arch, DType::F32, [1, 8, 128]), "{arch}");
        }
        // The weights are more than the image, or the kernels are done before they are started.
        for arch in ["sm_90", "gfx942", "gfx1100"] {
            assert!(!pays(arch, DType::F32, [1, 512, 8]), "{arch}");
            assert!(!pays(arch, DType::F32, [1, 16, 30]), "{arch}");
        }
    }
}
