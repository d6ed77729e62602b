//! Operations as a program of Candle asks for them, against Candle's CPU backend: that backend, the math libraries and the choice
//! between kernels are under test here, and the oracle shares no code with the kernels.

use super::number::{draw, value, Random, Values};
use crate::failure::sentence;
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor};
use std::sync::Arc;

/// An operation: its name, and the function that does it on a device with operands that are the same on all.
pub struct Operation {
    pub name: &'static str,
    run: fn(&mut Inputs<'_>) -> Result<Tensor>,
    /// How far an element may be off, relative to the largest of the result, in f32.
    off: f64,
}

/// Random operands, the same for each device.
struct Inputs<'a> {
    random: Random,
    device: &'a Device,
}

impl Inputs<'_> {
    fn floats(&mut self, dims: &[usize]) -> Result<Tensor> {
        let mut one = || {
            value(
                candle_rocm_kernels::DType::F32,
                draw(&mut self.random, candle_rocm_kernels::DType::F32, Values::Plain),
            )
        };
        let numbers: Vec<f32> = (0..dims.iter().product()).map(|_| one() as f32).collect();
        Tensor::from_vec(numbers, dims, self.device)
    }

    fn ids(&mut self, dims: &[usize], below: usize) -> Result<Tensor> {
        let numbers: Vec<u32> = (0..dims.iter().product()).map(|_| self.random.below(below) as u32).collect();
        Tensor::from_vec(numbers, dims, self.device)
    }
}

/// What a BLAS or a convolution library may round otherwise, and sums in another order.
const SUMS: f64 = 1e-4;
/// Activations that both sides round to bytes, each in its way.
const QUANTIZED: f64 = 2e-2;

/// All of them.
pub static OPERATIONS: [Operation; 18] = [
    Operation { name: "matmul", run: |x| x.floats(&[67, 130])?.matmul(&x.floats(&[130, 90])?), off: SUMS },
    Operation { name: "matmul of a few rows", run: |x| x.floats(&[2, 300])?.matmul(&x.floats(&[300, 90])?), off: SUMS },
    Operation {
        name: "matmul of batches",
        run: |x| x.floats(&[3, 20, 40])?.matmul(&x.floats(&[3, 40, 9])?),
        off: SUMS,
    },
    Operation {
        name: "matmul transposed",
        run: |x| x.floats(&[40, 20])?.t()?.matmul(&x.floats(&[30, 40])?.t()?),
        off: SUMS,
    },
    Operation { name: "matmul f16", run: |x| halves(x, DType::F16), off: 4e-3 },
    Operation { name: "matmul bf16", run: |x| halves(x, DType::BF16), off: 3e-2 },
    Operation {
        name: "conv2d",
        run: |x| x.floats(&[2, 8, 17, 15])?.conv2d(&x.floats(&[10, 8, 3, 3])?, 1, 1, 1, 1),
        off: SUMS,
    },
    Operation {
        name: "conv1d",
        run: |x| x.floats(&[2, 8, 40])?.conv1d(&x.floats(&[10, 8, 3])?, 1, 2, 1, 1),
        off: SUMS,
    },
    Operation {
        name: "conv_transpose2d",
        run: |x| x.floats(&[1, 8, 9, 9])?.conv_transpose2d(&x.floats(&[8, 10, 4, 4])?, 1, 0, 2, 1),
        off: SUMS,
    },
    Operation { name: "softmax", run: |x| candle_nn::ops::softmax_last_dim(&x.floats(&[9, 300])?), off: SUMS },
    Operation {
        name: "rms_norm",
        run: |x| candle_nn::ops::rms_norm(&x.floats(&[9, 128])?, &x.floats(&[128])?, 1e-3),
        off: SUMS,
    },
    Operation {
        name: "layer_norm",
        run: |x| candle_nn::ops::layer_norm(&x.floats(&[9, 128])?, &x.floats(&[128])?, &x.floats(&[128])?, 1e-3),
        off: SUMS,
    },
    Operation { name: "sum", run: |x| x.floats(&[30, 41, 7])?.sum(1), off: SUMS },
    Operation { name: "cat", run: |x| Tensor::cat(&[x.floats(&[5, 9])?, x.floats(&[5, 14])?], 1), off: 0.0 },
    Operation { name: "index_select", run: |x| x.floats(&[30, 20])?.index_select(&x.ids(&[50], 30)?, 0), off: 0.0 },
    Operation { name: "gather", run: |x| x.floats(&[30, 20])?.gather(&x.ids(&[30, 6], 20)?, 1), off: 0.0 },
    Operation { name: "quantized matmul Q4_0", run: |x| quantized(x, GgmlDType::Q4_0), off: QUANTIZED },
    Operation { name: "quantized matmul Q4K", run: |x| quantized(x, GgmlDType::Q4K), off: QUANTIZED },
];

fn halves(x: &mut Inputs<'_>, dtype: DType) -> Result<Tensor> {
    x.floats(&[67, 130])?.to_dtype(dtype)?.matmul(&x.floats(&[130, 90])?.to_dtype(dtype)?)
}

fn quantized(x: &mut Inputs<'_>, format: GgmlDType) -> Result<Tensor> {
    // Made on the CPU on both sides, so that the weights are the same.
    let weights = Inputs { random: x.random.clone(), device: &Device::Cpu }.floats(&[64, 512])?;
    let weights = QTensor::quantize_onto(&weights, format, x.device)?;
    QMatMul::from_arc(Arc::new(weights))?.forward(&x.floats(&[3, 512])?)
}

impl Operation {
    /// Compares a device with the CPU. The error is a sentence.
    pub fn compare(&self, device: &Device, random: &Random, spoil: bool) -> std::result::Result<(), String> {
        let on = |device: &Device| -> Result<(Vec<usize>, Vec<f32>)> {
            let result = (self.run)(&mut Inputs { random: random.clone(), device })?;
            let dims = result.dims().to_vec();
            Ok((dims, result.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?))
        };
        let (dims, mut got) = on(device).map_err(|error| format!("it fails: {}", sentence(&error)))?;
        let (right_dims, want) =
            on(&Device::Cpu).map_err(|error| format!("Candle's CPU backend fails: {}", sentence(&error)))?;
        if dims != right_dims {
            return Err(format!("the result has shape {dims:?}, on the CPU {right_dims:?}"));
        }
        if spoil {
            got[0] += 1e3;
        }
        let largest = want.iter().fold(0.0f64, |most, x| most.max(f64::from(x.abs())));
        let wrong = |(_, (got, want)): &(usize, (&f32, &f32))| {
            let off = (f64::from(**got) - f64::from(**want)).abs();
            // What is no number is wrong as well.
            off.is_nan() || off > self.off * largest
        };
        let all: Vec<_> = got.iter().zip(&want).enumerate().filter(wrong).collect();
        match all.first() {
            None => Ok(()),
            Some((at, (got, want))) => Err(format!(
                "{} of {} elements of the result {dims:?} are wrong; element {at} is {got}, Candle's CPU backend has {want}, \
                 within {:.3e}",
                all.len(),
                right_dims.iter().product::<usize>(),
                self.off * largest
            )),
        }
    }
}
