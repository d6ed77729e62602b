//! Convolutions, in one and two dimensions, forwards and transposed: one shape of call, four rows of parameters. With the
//! feature `miopen` the forward ones go there first; then those of three taps are done in tiles where that pays (`winograd.rs`),
//! others are a product by rocBLAS where that does (`columns.rs`), and the rest goes through our own kernels. Groups never arrive here; Candle cuts the tensors into groups before.

use super::kernels::Convolution;
use super::{columns, elementwise, winograd, RocmStorage};
use crate::conv::{ParamsConv1D, ParamsConv2D, ParamsConvTranspose1D, ParamsConvTranspose2D};
use crate::{Layout, Result};

/// An operation over an image and a kernel.
struct Call<'a> {
    op: &'static str,
    transposed: bool,
    params: Convolution,
    image: (&'a RocmStorage, &'a Layout),
    kernel: (&'a RocmStorage, &'a Layout),
    out_dims: Vec<usize>,
}

impl Call<'_> {
    fn run(self) -> Result<RocmStorage> {
        let Call { op, transposed, params, image: (image, image_l), kernel: (kernel, kernel_l), out_dims } = self;
        let device = &image.device;
        let kernel = kernel.on(device)?;
        // A kernel is small and read many times: the products want it contiguous, and gradients bring it transposed.
        let (copied, copied_l);
        let (kernel, kernel_l) = if kernel_l.is_contiguous() {
            (&*kernel, kernel_l)
        } else {
            (copied, copied_l) = (elementwise::copy(&kernel, kernel_l)?, Layout::contiguous(kernel_l.shape()));
            (&copied, &copied_l)
        };
        #[cfg(feature = "miopen")]
        if !transposed {
            let Convolution { stride, padding, dilation, .. } = params;
            let steps = super::miopen::Steps { stride, padding, dilation };
            if let Some(out) = super::miopen::convolve(&steps, (image, image_l), (kernel, kernel_l), &out_dims)? {
                return Ok(out);
            }
        }
        type Way =
            fn(&Convolution, (&RocmStorage, &Layout), (&RocmStorage, &Layout), &[usize]) -> Result<Option<RocmStorage>>;
        let ways: [Way; 2] = if transposed {
            [winograd::backwards, columns::backwards]
        } else {
            [winograd::forwards, columns::forwards]
        };
        for way in ways {
            if let Some(result) = way(&params, (image, image_l), (kernel, kernel_l), &out_dims)? {
                return Ok(result);
            }
        }
        let (input, taps) = (image.operand(image_l, op)?, kernel.operand(kernel_l, op)?);
        RocmStorage::filled(device, image.slice.dtype(), out_dims.iter().product(), op, |out| {
            if transposed {
                device.kernels().conv_transpose(&params, &input, &taps, out)
            } else {
                device.kernels().conv(&params, &input, &taps, out)
            }
        })
    }
}

pub(super) fn conv1d(
    image: &RocmStorage,
    image_l: &Layout,
    kernel: &RocmStorage,
    kernel_l: &Layout,
    p: &ParamsConv1D,
) -> Result<RocmStorage> {
    let params = Convolution { stride: p.stride, padding: p.padding, dilation: p.dilation, ..Default::default() };
    let (image, kernel, out_dims) = ((image, image_l), (kernel, kernel_l), p.out_dims());
    Call { op: "conv1d", transposed: false, params, image, kernel, out_dims }.run()
}

pub(super) fn conv2d(
    image: &RocmStorage,
    image_l: &Layout,
    kernel: &RocmStorage,
    kernel_l: &Layout,
    p: &ParamsConv2D,
) -> Result<RocmStorage> {
    let params = Convolution { stride: p.stride, padding: p.padding, dilation: p.dilation, ..Default::default() };
    let (image, kernel, out_dims) = ((image, image_l), (kernel, kernel_l), p.out_dims());
    Call { op: "conv2d", transposed: false, params, image, kernel, out_dims }.run()
}

pub(super) fn conv_transpose1d(
    image: &RocmStorage,
    image_l: &Layout,
    kernel: &RocmStorage,
    kernel_l: &Layout,
    p: &ParamsConvTranspose1D,
) -> Result<RocmStorage> {
    let params = Convolution {
        stride: p.stride,
        padding: p.padding,
        dilation: p.dilation,
        groups: 1,
        output_padding: p.output_padding,
    };
    let (image, kernel, out_dims) = ((image, image_l), (kernel, kernel_l), p.out_dims());
    Call { op: "conv_transpose1d", transposed: true, params, image, kernel, out_dims }.run()
}

pub(super) fn conv_transpose2d(
    image: &RocmStorage,
    image_l: &Layout,
    kernel: &RocmStorage,
    kernel_l: &Layout,
    p: &ParamsConvTranspose2D,
) -> Result<RocmStorage> {
    let params = Convolution {
        stride: p.stride,
        padding: p.padding,
        dilation: p.dilation,
        groups: 1,
        output_padding: p.output_padding,
    };
    let (image, kernel, out_dims) = ((image, image_l), (kernel, kernel_l), p.out_dims());
    Call { op: "conv_transpose2d", transposed: true, params, image, kernel, out_dims }.run()
}
