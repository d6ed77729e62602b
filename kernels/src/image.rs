//! Pools and upsampling of images (batch, channel, height, width), and of rows (batch, channel, length).

use crate::kernels::{fits, one_stream, Kernels};
use crate::registry::Id;
use crate::tensor::{Operand, Output};
use crate::window::{places, Image, Pair, Slide, WINDOW_THREADS};
use hip::{Error, KernelArgs, LaunchConfig, Result};

/// What a pool makes of the elements under its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pool {
    /// Their mean. For integers, as on the CPU, that is 0 unless the window has a single element.
    Average,
    /// The greatest. A NaN counts only when it is the first element.
    Max,
}

/// Where the elements of a bilinear result stand in the image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bilinear {
    /// The corners of both images coincide, and not their outer edges.
    pub align_corners: bool,
    /// Results per element along the height and along the width, where that is not the ratio of the sizes.
    pub scale: (Option<f64>, Option<f64>),
}

impl Kernels {
    /// Pools `kernel` elements every `stride` elements, without padding.
    pub fn pool2d(
        &self,
        pool: Pool,
        kernel: (usize, usize),
        stride: (usize, usize),
        input: &Operand<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let root = match pool {
            Pool::Average => "avg_pool2d",
            Pool::Max => "max_pool2d",
        };
        let image = Image::of(root, input)?;
        let size = Pair {
            y: places(root, image.size.y, kernel.0, stride.0, 0, 1)?,
            x: places(root, image.size.x, kernel.1, stride.1, 0, 1)?,
        };
        let mut slide = whole(image, size);
        slide.kernel = Pair { y: kernel.0, x: kernel.1 };
        slide.step = Pair { y: stride.0, x: stride.1 };
        self.slide_over(root, slide, input, out, |window, from, to| (from, to, window))
    }

    /// Each element of the result, `size` along the height and the width (or along the length alone), is the one it
    /// stands on.
    pub fn upsample_nearest(&self, size: &[usize], input: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        let (root, size) = match (size, input.dims().len()) {
            (&[x], 3) => ("upsample_nearest1d", Pair::flat(x)),
            (&[y, x], 4) => ("upsample_nearest2d", Pair { y, x }),
            _ => {
                return Err(Error::refused(format!(
                    "upsample_nearest: {size:?} is no size for a tensor of shape {:?}",
                    input.dims()
                )))
            }
        };
        let image = Image::of(root, input)?;
        let scale = (ratio(image.size.y, size.y), ratio(image.size.x, size.x));
        self.slide_over(root, whole(image, size), input, out, |window, from, to| (from, to, window, scale.0, scale.1))
    }

    /// Each element of the result is blended from the four around the point where it stands.
    pub fn upsample_bilinear2d(
        &self,
        size: (usize, usize),
        params: Bilinear,
        input: &Operand<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let root = "upsample_bilinear2d";
        let image = Image::of(root, input)?;
        let size = Pair { y: size.0, x: size.1 };
        // As in PyTorch: the scale is only looked at when the size changes.
        if size == image.size && input.dims().len() == 4 {
            return self.upsample_nearest(&[size.y, size.x], input, out);
        }
        let along = |from: usize, to: usize, scale: Option<f64>| match scale {
            _ if params.align_corners => {
                if to > 1 {
                    (from as f64 - 1.0) / (to as f64 - 1.0)
                } else {
                    0.0
                }
            }
            Some(scale) => 1.0 / scale,
            None => ratio(from, to),
        };
        let scale = (along(image.size.y, size.y, params.scale.0), along(image.size.x, size.x, params.scale.1));
        let align = u32::from(params.align_corners);
        self.slide_over(root, whole(image, size), input, out, |window, from, to| {
            (from, to, window, scale.0, scale.1, align)
        })
    }

    /// Checks and launches; `arguments` puts them in the kernel's order.
    fn slide_over<A: KernelArgs>(
        &self,
        root: &str,
        slide: Slide,
        input: &Operand<'_>,
        out: &mut Output<'_>,
        arguments: impl Fn(crate::window::Window, hip::DevicePtr<u8>, hip::DevicePtr<u8>) -> A,
    ) -> Result<()> {
        let dtype = input.dtype();
        fits(
            root,
            "the result",
            out.count(),
            slide.out_per_batch() as usize * slide.image.batches,
            out.dtype(),
            dtype,
        )?;
        one_stream(out.stream(), &[input])?;
        if out.count() > 0 && slide.image.size.area() == 0 {
            return Err(Error::refused(format!(
                "{root}: an image of shape {:?} has nothing to make results of",
                input.dims()
            )));
        }
        let function = self.function(Id::Conv, root, &[dtype], "")?;
        slide.launches(root, slide.out_per_batch(), |window, first| {
            let from = input.ptr().offset(slide.image_bytes(first, dtype));
            let to = out.ptr().offset(slide.out_bytes(first, dtype));
            let window = window.across(dtype, slide.out.x, to);
            let config = LaunchConfig::for_elements(window.count() as usize, WINDOW_THREADS);
            // SAFETY: the parameters of the kernels in `hip/conv.hip`, put together by the three callers above; the window
            // stays inside the image, and both sizes were checked.
            unsafe { function.launch(out.stream(), config, &arguments(window, from, to)) }
        })
    }
}

/// A result of `size` whose elements each look at the whole plane of their channel.
fn whole(image: Image, size: Pair) -> Slide {
    Slide {
        image,
        kernel: Pair::ONE,
        step: Pair::ONE,
        padding: Pair::ZERO,
        spread: Pair::ONE,
        groups: 1,
        out_channels: image.channels,
        out: size,
    }
}

/// Elements of the image for one of the result.
fn ratio(from: usize, to: usize) -> f64 {
    from as f64 / to as f64
}
