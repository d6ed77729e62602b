//! Convolutions and transposed convolutions in one and two dimensions, and their column forms.
//! A tensor of three dimensions (batch, channel, length) is convolved along its length.

use crate::dtype::DType;
use crate::gemm::{prefers_small, tile_lanes, tile_sides, Walk, GRID_LIMIT};
use crate::kernels::{fits, one_stream, Kernels};
use crate::layout::Divider;
use crate::registry::Id;
use crate::rows::contiguous;
use crate::tensor::{Operand, Output};
use crate::window::{places, reach, Image, Pair, Slide, WINDOW_THREADS};
use hip::{Error, LaunchConfig, Result};

/// How a kernel moves over its input; the same along both axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// Elements from one place to the next.
    pub stride: usize,
    /// Zeros around the input; of a transposed convolution, elements cut off around the result.
    pub padding: usize,
    /// Elements from one tap of the kernel to the next.
    pub dilation: usize,
    /// Groups of channels that have nothing to do with each other.
    pub groups: usize,
    /// Elements added at the end of the result of a transposed convolution; otherwise 0.
    pub output_padding: usize,
}

impl Default for Convolution {
    fn default() -> Self {
        Self { stride: 1, padding: 0, dilation: 1, groups: 1, output_padding: 0 }
    }
}

impl Convolution {
    /// The size of the result along an axis of `size` elements with a kernel of `kernel`.
    pub fn places(&self, size: usize, kernel: usize) -> Result<usize> {
        places("conv2d", size, kernel, self.stride, self.padding, self.dilation)
    }

    /// The size of the result of a transposed convolution along an axis.
    pub fn places_transposed(&self, size: usize, kernel: usize) -> Result<usize> {
        reach("conv_transpose2d", size, kernel, self.stride, self.padding, self.dilation, self.output_padding)
    }

    /// The slide over `image`; tensors of one dimension have nothing to slide along the other.
    fn slide(
        &self,
        root: &str,
        image: Image,
        flat: bool,
        kernel: Pair,
        out_channels: usize,
        back: bool,
    ) -> Result<Slide> {
        if self.groups == 0 || !image.channels.is_multiple_of(self.groups) || !out_channels.is_multiple_of(self.groups)
        {
            return Err(Error::refused(format!(
                "{root}: {} channels into {out_channels} do not fall into {} groups",
                image.channels, self.groups
            )));
        }
        let along = |size: usize, kernel: usize| {
            if back {
                self.places_transposed(size, kernel)
            } else {
                self.places(size, kernel)
            }
        };
        let x = along(image.size.x, kernel.x)?;
        let y = if flat { 1 } else { along(image.size.y, kernel.y)? };
        let pair = |value: usize, neutral: usize| Pair { y: if flat { neutral } else { value }, x: value };
        Ok(Slide {
            image,
            kernel,
            step: pair(self.stride, 1),
            padding: pair(self.padding, 0),
            spread: pair(self.dilation, 1),
            groups: self.groups,
            out_channels,
            out: Pair { y, x },
        })
    }
}

/// A convolution that has been checked: its slide and the dtype.
struct Checked {
    slide: Slide,
    dtype: DType,
}

fn check(
    root: &str,
    params: &Convolution,
    input: &Operand<'_>,
    kernel: &Operand<'_>,
    out: &Output<'_>,
    back: bool,
) -> Result<Checked> {
    let image = Image::of(root, input)?;
    let weights = Image::of(root, kernel)?;
    let dtype = input.dtype();
    // (out, in / groups, ...) forwards, (in, out / groups, ...) backwards.
    let (into, from) = (weights.batches, weights.channels);
    let (out_channels, matches) = if back {
        (from * params.groups, into == image.channels)
    } else {
        (into, from * params.groups == image.channels)
    };
    if !matches || kernel.dims().len() != input.dims().len() || kernel.dtype() != dtype {
        return Err(Error::refused(format!(
            "{root}: a kernel of {} {:?} does not go with an input of {dtype} {:?} in {} groups",
            kernel.dtype(),
            kernel.dims(),
            input.dims(),
            params.groups
        )));
    }
    contiguous(root, "the kernel", kernel)?;
    let slide = params.slide(root, image, input.dims().len() == 3, weights.size, out_channels, back)?;
    let count = slide.out_per_batch() as usize * image.batches;
    fits(root, "the result", out.count(), count, out.dtype(), dtype)?;
    one_stream(out.stream(), &[input, kernel])?;
    Ok(Checked { slide, dtype })
}

impl Kernels {
    /// Convolves `input` (batch, channel, height, width) or (batch, channel, length), of any strides, with a contiguous
    /// `kernel` (out, channel / groups, ...) into (batch, out, ...).
    pub fn conv(
        &self,
        params: &Convolution,
        input: &Operand<'_>,
        kernel: &Operand<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let root = "conv2d";
        let Checked { slide, dtype } = check(root, params, input, kernel, out, false)?;
        let stream = out.stream();
        let rows = (slide.out_channels / slide.groups) as u64;
        let depth = (slide.image.channels / slide.groups) as u64 * slide.kernel.area();
        let columns = slide.out.area() * slide.image.batches as u64;
        // A tile with few channels in it, or a sum too short to share, is faster with a thread for each output.
        if rows < 8 || depth < 8 {
            let function = self.function(Id::Conv, root, &[dtype], "_direct")?;
            return slide.launches(root, slide.out_per_batch(), |window, first| {
                let arguments = (
                    input.ptr().offset(slide.image_bytes(first, dtype)),
                    kernel.ptr(),
                    out.ptr().offset(slide.out_bytes(first, dtype)),
                    *window,
                );
                let config = LaunchConfig::for_elements(window.count() as usize, WINDOW_THREADS);
                // SAFETY: the parameters of the kernel in `hip/conv.hip`; the sizes of all three tensors were checked.
                unsafe { function.launch(stream, config, &arguments) }
            });
        }
        let (large, small) = tile_sides(dtype);
        let small_tiles = prefers_small(self.profile(), dtype, rows, columns, slide.groups as u64);
        let (variant, side) = if small_tiles { ("_small", small) } else { ("", large) };
        let function = self.function(Id::Conv, root, &[dtype], variant)?;
        let lanes = tile_lanes(dtype);
        let aligned = depth.is_multiple_of(lanes) && kernel.ptr().address().is_multiple_of(lanes * dtype.size() as u64);
        let walk = if aligned { Walk::DepthVectors } else { Walk::Depth };
        let grid_y = rows.div_ceil(side);
        if grid_y > GRID_LIMIT || slide.groups as u64 > GRID_LIMIT {
            return Err(Error::refused(format!(
                "{root}: {} channels in {} groups are too many",
                slide.out_channels, slide.groups
            )));
        }
        slide.launches(root, slide.out_per_batch(), |window, first| {
            let places = slide.out.area() * window.batches() as u64;
            let config =
                LaunchConfig::new((places.div_ceil(side) as u32, grid_y as u32, slide.groups as u32), WINDOW_THREADS);
            let arguments = (
                input.ptr().offset(slide.image_bytes(first, dtype)),
                kernel.ptr(),
                out.ptr().offset(slide.out_bytes(first, dtype)),
                *window,
                Divider::new(slide.out.area()),
                walk as u32,
            );
            // SAFETY: as above.
            unsafe { function.launch(stream, config, &arguments) }
        })
    }

    /// The transposed convolution of `input` with a contiguous `kernel` (channel, out / groups, ...) into (batch, out, ...).
    pub fn conv_transpose(
        &self,
        params: &Convolution,
        input: &Operand<'_>,
        kernel: &Operand<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let root = "conv_transpose2d";
        let Checked { slide, dtype } = check(root, params, input, kernel, out, true)?;
        let stream = out.stream();
        let rows = (slide.out_channels / slide.groups) as u64;
        let phases = (slide.step.y * slide.step.x * slide.groups) as u64;
        let floats = [DType::BF16, DType::F16, DType::F32, DType::F64];
        let tiled = floats.contains(&dtype) && rows >= 8 && phases <= GRID_LIMIT;
        let function = self.function(Id::Conv, root, &[dtype], if tiled { "" } else { "_direct" })?;
        slide.launches(root, slide.out_per_batch(), |window, first| {
            let config = if tiled {
                let (_, side) = tile_sides(dtype);
                let phase = Pair { y: slide.out.y.div_ceil(slide.step.y), x: slide.out.x.div_ceil(slide.step.x) };
                let places = phase.area() * window.batches() as u64;
                LaunchConfig::new(
                    (places.div_ceil(side) as u32, rows.div_ceil(side) as u32, phases as u32),
                    WINDOW_THREADS,
                )
            } else {
                LaunchConfig::for_elements(window.count() as usize, WINDOW_THREADS)
            };
            let arguments = (
                input.ptr().offset(slide.image_bytes(first, dtype)),
                kernel.ptr(),
                out.ptr().offset(slide.out_bytes(first, dtype)),
                *window,
            );
            // SAFETY: the parameters of both kernels in `hip/conv.hip`; the sizes of all three tensors were checked.
            unsafe { function.launch(stream, config, &arguments) }
        })
    }

    /// Writes what every channel and tap sees at each place: (batch, channel * taps, places), for a matrix product with a
    /// kernel of `kernel` taps along each axis of `input`.
    pub fn im2col(
        &self,
        params: &Convolution,
        kernel: &[usize],
        input: &Operand<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let (root, taps, flat) = taps("im2col", "im2col1d", kernel, input)?;
        let image = Image::of(root, input)?;
        let single = Convolution { groups: 1, ..*params };
        let slide = single.slide(root, image, flat, taps, image.channels, false)?;
        let per_batch = slide.out_per_batch();
        let bytes = slide.out_bytes(1, input.dtype()) * taps.area() as usize;
        fits(
            root,
            "the result",
            out.count(),
            per_batch as usize * taps.area() as usize * image.batches,
            out.dtype(),
            input.dtype(),
        )?;
        one_stream(out.stream(), &[input])?;
        let function = self.function(Id::Conv, root, &[input.dtype()], "")?;
        slide.launches(root, per_batch, |window, first| {
            let image = input.ptr().offset(slide.image_bytes(first, input.dtype()));
            let to = out.ptr().offset(first * bytes);
            let window = window.across(input.dtype(), slide.out.x, to);
            let config = LaunchConfig::for_elements(window.count() as usize, WINDOW_THREADS);
            // SAFETY: the parameters of the kernel in `hip/conv.hip`; both sizes were checked.
            unsafe { function.launch(out.stream(), config, &(image, to, window)) }
        })
    }

    /// Adds what taps contribute up into an image, the way back of [`Kernels::im2col`] and the second half of a transposed
    /// convolution: contiguous `columns` (batch, out, taps, places), with `places` and `kernel` along each axis, into
    /// (batch, out, ...).
    pub fn col2im(
        &self,
        params: &Convolution,
        places: &[usize],
        kernel: &[usize],
        columns: &Operand<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let (root, taps, from, flat) = match (kernel, places) {
            (&[x], &[from]) => ("col2im1d", Pair::flat(x), Pair::flat(from), true),
            (&[y, x], &[from_y, from_x]) => ("col2im", Pair { y, x }, Pair { y: from_y, x: from_x }, false),
            _ => {
                return Err(Error::refused(
                    "col2im: the places and the kernel must have one or two sizes, both as many",
                ))
            }
        };
        contiguous(root, "the columns", columns)?;
        let dtype = columns.dtype();
        let &[batches, channels, taps_given, rows] = columns.dims() else {
            return Err(Error::refused(format!(
                "{root}: columns of shape {:?} must have four dimensions",
                columns.dims()
            )));
        };
        if rows as u64 != from.area() || taps_given as u64 != taps.area() {
            return Err(Error::refused(format!(
                "{root}: columns of shape {:?} are not {places:?} places of {kernel:?}",
                columns.dims()
            )));
        }
        let image = Image { batches, channels, size: from, strides: [(rows * channels * taps_given) as u64, 0, 0, 0] };
        let single = Convolution { groups: 1, ..*params };
        let slide = single.slide(root, image, flat, taps, channels, true)?;
        fits(root, "the result", out.count(), slide.out_per_batch() as usize * batches, out.dtype(), dtype)?;
        one_stream(out.stream(), &[columns])?;
        let function = self.function(Id::Conv, root, &[dtype], "")?;
        slide.launches(root, slide.out_per_batch(), |window, first| {
            let from = columns.ptr().offset(slide.image_bytes(first, dtype));
            let to = out.ptr().offset(slide.out_bytes(first, dtype));
            let window = window.across(dtype, slide.out.x, to);
            let config = LaunchConfig::for_elements(window.count() as usize, WINDOW_THREADS);
            // SAFETY: the parameters of the kernel in `hip/conv.hip`; both sizes were checked.
            unsafe { function.launch(out.stream(), config, &(from, to, window)) }
        })
    }
}

/// The taps of a kernel that goes with `input`, and the name of the kernel for its rank.
fn taps<'a>(root: &'a str, flat_root: &'a str, kernel: &[usize], input: &Operand<'_>) -> Result<(&'a str, Pair, bool)> {
    match (kernel, input.dims().len()) {
        (&[x], 3) => Ok((flat_root, Pair::flat(x), true)),
        (&[y, x], 4) => Ok((root, Pair { y, x }, false)),
        _ => Err(Error::refused(format!(
            "{root}: a kernel of {kernel:?} taps does not go with a tensor of shape {:?}",
            input.dims()
        ))),
    }
}
