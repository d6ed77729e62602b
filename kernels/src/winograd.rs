//! Convolutions of three taps in tiles (`hip/winograd.h`): the ways into tiles and back. Between them stand products, one for
//! each plane, which are the caller's: (plane, row, channel) times (plane, channel, place) makes (plane, row, place), where
//! rows are the channels of the result, of each phase of a transposed convolution.
//!
//! An element of the result is a sum over all planes of sums over all channels, and whatever a tile sees takes part in it: errors
//! are about twice those of adding up all terms in turn where signs are mixed, and half of them where they are not
//! ([`Winograd::ERROR`]). An infinity or NaN in the image reaches the whole tile that sees it.

use crate::conv::Convolution;
use crate::dtype::DType;
use crate::kernels::{fits, one_stream, Kernels};
use crate::layout::{Divider, INDEX_LIMIT};
use crate::profile::{Architecture, Profile};
use crate::registry::Id;
use crate::rows::contiguous;
use crate::tensor::{Operand, Output};
use crate::window::{places, Image, Pair, WINDOW_THREADS};
use bytemuck::{Pod, Zeroable};
use hip::{DeviceCopy, Error, LaunchConfig, Result};

/// Results of a tile along an axis, and the taps of a kernel.
const TILE: usize = 4;
const TAPS: usize = 3;
/// Values a tile has along an axis.
const POINTS: usize = TILE + TAPS - 1;

/// Channels below which the products are nothing but memory.
const LEAST: usize = 16;

/// Tiles of an image or a result as the kernels take them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Tiles {
    across: Divider,
    down: Divider,
    places: Divider,
    channels: Divider,
    count: u32,
    height: u32,
    width: u32,
    padding: i32,
    step: u32,
    vectors: u32,
    batch_stride: u64,
    channel_stride: u64,
    row_stride: u64,
    column_stride: u64,
}

/// Taps of a transposed convolution as the kernels take them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Phases {
    channels: Divider,
    out: Divider,
    count: u32,
    step: u32,
    kernel: u32,
    last: i32,
}

/// A convolution in tiles: its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Winograd {
    flat: bool,
    transposed: bool,
    batches: usize,
    channels: usize,
    out_channels: usize,
    /// Taps along an axis, and of a transposed convolution the elements from one result of a phase to the next.
    kernel: usize,
    step: usize,
    /// Elements before the first that the first tile begins at, and the tap of the first phase that sees it.
    padding: i32,
    last: i32,
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
        let Convolution { stride: 1, dilation: 1, groups: 1, padding, .. } = *params else { return None };
        let (&[out_channels, channels, ref taps @ ..], Some(_)) = (kernel, i32::try_from(padding).ok()) else {
            return None;
        };
        let along = |size| places("conv2d", size, TAPS, 1, padding, 1).ok();
        let all = taps.iter().all(|&taps| taps == TAPS);
        Self::checked(image, channels, out_channels, taps, along, (1, padding as i32, 0)).filter(|_| all)
    }

    /// The transposed convolution with a kernel of (channel, out, ...), where it can: the same number of taps along each axis, no
    /// spread, no groups, and no more than three places that results from one to the next whole step see.
    pub fn transposed(params: &Convolution, image: &[usize], kernel: &[usize]) -> Option<Self> {
        let Convolution { stride, dilation: 1, groups: 1, .. } = *params else { return None };
        let &[channels, out_channels, ref taps @ ..] = kernel else { return None };
        let (&count, sizes) = (taps.first()?, [stride, params.padding, *taps.first()?]);
        let [step, padding, taps_along] = sizes.map(|size| i32::try_from(size).unwrap_or(i32::MAX));
        let small = stride > 0 && sizes.iter().all(|&size| size < 1 << 15);
        if !small || taps.iter().any(|&taps| taps != count) {
            return None;
        }
        // Tap r of phase p sees the place (p + padding - r) / step from its own on, if that is whole.
        let (first, end) = (-(taps_along - 1 - padding).div_euclid(step), (step - 1 + padding).div_euclid(step));
        let along = |size| params.places_transposed(size, count).ok();
        let plan = Self::checked(image, channels, out_channels, taps, along, (stride, -first, padding - step * first));
        plan.filter(|_| end - first < TAPS as i32).map(|plan| Self { transposed: true, ..plan })
    }

    /// What both have in common; nothing where the channels do not match or 32 bits do not count something.
    fn checked(
        image: &[usize],
        channels: usize,
        out_channels: usize,
        taps: &[usize],
        along: impl Fn(usize) -> Option<usize>,
        (step, padding, last): (usize, i32, i32),
    ) -> Option<Self> {
        let (flat, batches, given, size) = match (image, taps) {
            (&[batches, given, x], &[_]) => (true, batches, given, Pair::flat(x)),
            (&[batches, given, y, x], &[_, _]) => (false, batches, given, Pair { y, x }),
            _ => return None,
        };
        let out = Pair { y: if flat { 1 } else { along(size.y)? }, x: along(size.x)? };
        let kernel = taps[0];
        let it =
            Self { flat, transposed: false, batches, channels, out_channels, kernel, step, padding, last, size, out };
        let phases = if flat { step } else { step.checked_mul(step)? };
        let rows = out_channels.checked_mul(phases)?;
        let indices = [channels.max(rows).checked_mul(it.places())?, channels.checked_mul(rows)?];
        let more = padding.unsigned_abs() as usize + POINTS * step;
        let reach = [out.y, out.x, size.y, size.x].map(|size| size.saturating_add(more));
        let counted = indices.into_iter().chain(reach).all(|count| (count as u64) < INDEX_LIMIT);
        (given == channels && counted).then_some(it)
    }

    /// Whether tiles are faster than a product with all taps, on a device and in a dtype: there are kernels for f32 and f64, as
    /// the short floats would lose too much on the way. With `columns` that product writes down what the taps see first.
    pub fn pays(&self, profile: &Profile, dtype: DType, columns: bool) -> bool {
        self.pays_on(profile.arch, dtype, columns)
    }

    fn pays_on(&self, arch: &Architecture, dtype: DType, columns: bool) -> bool {
        let [channels, rows, places] = [self.channels, self.rows(), self.places()].map(|size| size as f64);
        let (planes, size, out) = (self.planes() as f64, dtype.size() as f64, self.out_channels as f64);
        // Columns are as wide as the image that the taps are moved over; a transposed convolution writes them for its result.
        let (over, seen) = if self.transposed { (self.size, out) } else { (self.out, channels) };
        let taps = self.taps() as f64 * self.batches as f64 * over.area() as f64;
        // Everything in between is written and read once.
        let seen = if columns { seen * taps } else { 0.0 };
        let whole = arch.time(1 + usize::from(columns), dtype, 2.0 * channels * out * taps, 2.0 * size * seen);
        let between = planes * (channels * rows + (channels + rows) * places);
        let tiled = arch.time(4, dtype, 2.0 * planes * channels * rows * places, 2.0 * size * between);
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
        let tiles = |size: usize| size.div_ceil(self.step).div_ceil(TILE);
        let down = if self.flat { 1 } else { tiles(self.out.y) };
        self.batches.saturating_mul(down).saturating_mul(tiles(self.out.x))
    }

    /// Channels of the result, of all phases.
    pub fn rows(&self) -> usize {
        self.out_channels * if self.flat { self.step } else { self.step * self.step }
    }

    fn taps(&self) -> usize {
        if self.flat {
            self.kernel
        } else {
            self.kernel * self.kernel
        }
    }

    fn root(&self, two: &'static str, one: &'static str) -> &'static str {
        if self.flat {
            one
        } else {
            two
        }
    }

    /// Of the image that is read or the result that is written.
    fn tiles(&self, channels: usize, size: Pair, strides: [u64; 4], vectors: bool) -> Tiles {
        let tiles = |size: usize| Divider::new(size.div_ceil(self.step).div_ceil(TILE) as u64);
        let [batch_stride, channel_stride, row_stride, column_stride] = strides;
        Tiles {
            across: tiles(self.out.x),
            down: tiles(self.out.y),
            places: Divider::new(self.places() as u64),
            channels: Divider::new(self.out_channels as u64),
            count: (channels * self.places()) as u32,
            height: size.y as u32,
            width: size.x as u32,
            padding: self.padding,
            step: self.step as u32,
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
        let shape = plan.tiles(channels, size, strides, false);
        let count = plan.planes() * channels * plan.places();
        fits(root, "the tiles", tiles.count(), count, tiles.dtype(), image.dtype())?;
        self.winograd(root, image, tiles, shape, shape.count)
    }

    /// The tiles of a contiguous kernel: (plane, row, channel).
    pub fn winograd_weights(&self, plan: &Winograd, kernel: &Operand<'_>, tiles: &mut Output<'_>) -> Result<()> {
        let root = match plan.transposed {
            false => plan.root("winograd_weights", "winograd_weights1d"),
            true => plan.root("winograd_phases", "winograd_phases1d"),
        };
        contiguous(root, "the kernel", kernel)?;
        let given = plan.out_channels * plan.channels * plan.taps();
        fits(root, "the kernel", kernel.count(), given, kernel.dtype(), tiles.dtype())?;
        let count = plan.rows() * plan.channels;
        fits(root, "the tiles", tiles.count(), count * plan.planes(), tiles.dtype(), kernel.dtype())?;
        let count = count as u32;
        if !plan.transposed {
            return self.winograd(root, kernel, tiles, count, count);
        }
        let shape = Phases {
            channels: Divider::new(plan.channels as u64),
            out: Divider::new(plan.out_channels as u64),
            count,
            step: plan.step as u32,
            kernel: plan.kernel as u32,
            last: plan.last,
        };
        self.winograd(root, kernel, tiles, shape, count)
    }

    /// The result, (batch, out, ...), of contiguous tiles (plane, row, place).
    pub fn winograd_result(&self, plan: &Winograd, tiles: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        let root = plan.root("winograd_result", "winograd_result1d");
        contiguous(root, "the tiles", tiles)?;
        let (channels, dtype) = (plan.out_channels, tiles.dtype());
        let count = plan.planes() * plan.rows() * plan.places();
        fits(root, "the tiles", tiles.count(), count, dtype, out.dtype())?;
        let (width, area) = (plan.out.x as u64, plan.out.area());
        fits(root, "the result", out.count(), plan.batches * channels * area as usize, out.dtype(), dtype)?;
        let whole = plan.step == 1 && plan.out.x.is_multiple_of(TILE);
        let vectors = whole && out.ptr().address().is_multiple_of(16);
        let shape = plan.tiles(plan.rows(), plan.out, [area * channels as u64, area, width, 1], vectors);
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

crate::shared::shared! {
    ["Winograd TILE": TILE, "Winograd TAPS": TAPS, "Winograd POINTS": POINTS]
    "Tiles": Tiles {
        across, down, places, channels, count, height, width, padding, step, vectors, batch_stride, channel_stride, row_stride,
        column_stride,
    }
    "Phases": Phases { channels, out, count, step, kernel, last }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::look_up;

    /// An image of (batch, channels, size, size) into as many channels.
    fn pays(arch: &str, dtype: DType, [batch, channels, size]: [usize; 3]) -> bool {
        let params = Convolution { padding: 1, ..Default::default() };
        let plan = Winograd::of(&params, &[batch, channels, size, size], &[channels, channels, 3, 3]).unwrap();
        plan.pays_on(look_up(arch).0, dtype, true)
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
        // A transposed one of 4 taps and step 2, and one whose phases are half empty.
        let step = Convolution { padding: 1, stride: 2, ..Default::default() };
        let turned = |arch, taps: usize| {
            let plan = Winograd::transposed(&step, &[1, 128, 64, 64], &[128, 128, taps, taps]).unwrap();
            plan.pays_on(look_up(arch).0, DType::F32, true)
        };
        assert!(["sm_90", "gfx942", "gfx1100", "host"].into_iter().all(|arch| turned(arch, 4) && !turned(arch, 3)));
        // The weights are more than the image, or the kernels are done before they are started.
        for arch in ["sm_90", "gfx942", "gfx1100"] {
            assert!(!pays(arch, DType::F32, [1, 512, 8]), "{arch}");
            assert!(!pays(arch, DType::F32, [1, 16, 30]), "{arch}");
        }
    }
}
