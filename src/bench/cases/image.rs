//! Convolutions forwards and transposed, pooling, resampling. A convolution's bytes are image, taps and result, its
//! operations the products of the receptive fields.

use super::super::case::{label, random, Cases, Work};
use candle_core::{DType, Result, Tensor};

type Unary = fn(&Tensor) -> Result<Tensor>;

pub fn add_to(cases: &mut Cases) {
    convolutions(cases);
    windows(cases);
}

fn convolutions(cases: &mut Cases) {
    let (channels, side) = cases.size.choose((128, 128), (16, 32), (128, 32));
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let dims = [1, channels, side, side];
        let name = format!("conv2d 3x3 {} to {channels}", label(dtype, &dims));
        let places = channels * side * side;
        let work = work(dtype, 2 * places + 9 * channels * channels, places * channels * 9);
        cases.op("conv", name, work, move |device| {
            let image = random(device, dtype, dims.as_slice())?;
            let taps = random(device, dtype, (channels, channels, 3, 3))?;
            Ok(move || image.conv2d(&taps, 1, 1, 1, 1))
        });
    }
    let (batch, channels, side) = cases.size.choose((8, 64, 128), (1, 16, 32), (1, 64, 64));
    for dtype in [DType::F32, DType::F16] {
        let (dims, more) = ([batch, channels, side, side], 2 * channels);
        let name = format!("conv2d 3x3 stride 2 {} to {more}", label(dtype, &dims));
        let out = batch * more * (side / 2) * (side / 2);
        let work = work(dtype, batch * channels * side * side + out + 9 * channels * more, out * channels * 9);
        cases.op("conv", name, work, move |device| {
            let image = random(device, dtype, dims.as_slice())?;
            let taps = random(device, dtype, (more, channels, 3, 3))?;
            Ok(move || image.conv2d(&taps, 1, 2, 1, 1))
        });
    }
    let (channels, length) = cases.size.choose((384, 3000), (32, 256), (384, 500));
    for dtype in [DType::F32, DType::F16] {
        let dims = [1, channels, length];
        let name = format!("conv1d k3 {} to {channels}", label(dtype, &dims));
        let places = channels * length;
        let work = work(dtype, 2 * places + 3 * channels * channels, places * channels * 3);
        cases.op("conv", name, work, move |device| {
            let image = random(device, dtype, dims.as_slice())?;
            let taps = random(device, dtype, (channels, channels, 3))?;
            Ok(move || image.conv1d(&taps, 1, 1, 1, 1))
        });
    }
    let (channels, side) = cases.size.choose((128, 64), (16, 16), (128, 24));
    for dtype in [DType::F32, DType::F16] {
        let dims = [1, channels, side, side];
        let name = format!("conv_transpose2d k4s2 {} to {channels}", label(dtype, &dims));
        let places = channels * side * side;
        let work = work(dtype, 5 * places + 16 * channels * channels, places * channels * 16);
        cases.op("conv", name, work, move |device| {
            let image = random(device, dtype, dims.as_slice())?;
            let taps = random(device, dtype, (channels, channels, 4, 4))?;
            Ok(move || image.conv_transpose2d(&taps, 1, 0, 2, 1))
        });
    }
}

/// From elements moved and multiply-adds done.
fn work(dtype: DType, elements: usize, multiply_adds: usize) -> Work {
    Work::new(elements * dtype.size_in_bytes(), 2 * multiply_adds).over(multiply_adds)
}

fn windows(cases: &mut Cases) {
    let [batch, channels, side] = cases.size.choose([8, 64, 256], [1, 16, 64], [1, 16, 256]);
    let large = [batch, channels, side, side];
    let small = [batch, channels, side / 2, side / 2];
    // Each case reads one of the two sizes and writes the other.
    let elements = batch * channels * (side * side + side * side / 4);
    for (what, dtype, dims, op) in [
        ("max_pool2d k2", DType::F16, large, (|x| x.max_pool2d(2)) as Unary),
        ("max_pool2d k2", DType::F32, large, |x| x.max_pool2d(2)),
        ("avg_pool2d k2", DType::F16, large, |x| x.avg_pool2d(2)),
        ("upsample_nearest2d x2", DType::F16, small, |x| x.upsample_nearest2d(2 * x.dim(2)?, 2 * x.dim(3)?)),
        ("upsample_nearest2d x2", DType::F32, small, |x| x.upsample_nearest2d(2 * x.dim(2)?, 2 * x.dim(3)?)),
        ("upsample_bilinear2d x2", DType::F16, small, |x| x.upsample_bilinear2d(2 * x.dim(2)?, 2 * x.dim(3)?, false)),
    ] {
        let work = Work::new(elements * dtype.size_in_bytes(), 0).over(batch * channels * side * side);
        cases.op("pool and resample", format!("{what} {}", label(dtype, &dims)), work, move |device| {
            let x = random(device, dtype, dims.as_slice())?;
            Ok(move || op(&x))
        });
    }
}
