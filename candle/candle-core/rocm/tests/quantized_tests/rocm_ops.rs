//! Upstream's tests that cannot apply to the ROCm device, replaced by ones that check more. There are two:
//!
//! - `quantized_matmul` and `quantized_matmul_neg` compare with numbers that one device's rounding of the activations happens
//!   to give (CUDA's, Metal's and the CPU's all differ, in the third digit). Here the result is compared with the exact
//!   product of the dequantized weights, in f64, and must lie within the error that rounding activations to bytes can
//!   cause; in five formats and not in one; and the blocks must be, byte for byte, those that the CPU makes.

use super::{quantized, GgmlDType};
use candle_core::{Device, IndexOp, Module, Result, Tensor};

const FORMATS: [GgmlDType; 5] = [GgmlDType::Q4_0, GgmlDType::Q4_1, GgmlDType::Q5_0, GgmlDType::Q5_1, GgmlDType::Q8_0];

/// Upstream's operands: 0, 1, 2, ... on both sides.
pub fn rocm_quantized_matmul(device: &Device) -> Result<()> {
    let lhs = ramp(3, 64, 0., device)?;
    let rhs = ramp(4, 64, 0., device)?;
    let product = lhs.matmul(&rhs.t()?)?.to_vec2::<f32>()?;
    assert_eq!(
        product,
        [
            [85344.0, 214368.0, 343392.0, 472416.0],
            [214368.0, 605536.0, 996704.0, 1387872.0],
            [343392.0, 996704.0, 1650016.0, 2303328.0]
        ]
    );
    within_rounding(&lhs, &rhs)
}

/// The same with both signs, and a batch of two.
pub fn rocm_quantized_matmul_neg(device: &Device) -> Result<()> {
    let lhs = ramp(3, 64, 96., device)?;
    let rhs = ramp(4, 64, 256. / 3., device)?;
    within_rounding(&lhs, &rhs)?;
    let weights = quantized::QMatMul::from_qtensor(quantized::QTensor::quantize(&rhs, GgmlDType::Q4_0)?)?;
    let alone = weights.forward(&lhs)?.to_vec2::<f32>()?;
    let batch = weights.forward(&Tensor::stack(&[&lhs, &lhs], 0)?)?;
    assert_eq!(alone, batch.i(0)?.to_vec2::<f32>()?);
    assert_eq!(alone, batch.i(1)?.to_vec2::<f32>()?);
    Ok(())
}

fn ramp(rows: usize, columns: usize, below: f32, device: &Device) -> Result<Tensor> {
    let values: Vec<f32> = (0..rows * columns).map(|value| value as f32 - below).collect();
    Tensor::from_vec(values, (rows, columns), device)
}

fn within_rounding(lhs: &Tensor, rhs: &Tensor) -> Result<()> {
    let activations = lhs.to_vec2::<f32>()?;
    for format in FORMATS {
        let weights = quantized::QTensor::quantize(rhs, format)?;
        let on_cpu = quantized::QTensor::quantize(&rhs.to_device(&Device::Cpu)?, format)?;
        assert_eq!(weights.data()?, on_cpu.data()?, "{format:?}: the blocks are the CPU's");
        let exact_weights = on_cpu.dequantize(&Device::Cpu)?.to_vec2::<f32>()?;
        let result = quantized::QMatMul::from_qtensor(weights)?.forward(lhs)?.to_vec2::<f32>()?;
        for (row, result) in activations.iter().zip(&result) {
            for (weights, &result) in exact_weights.iter().zip(result) {
                let (exact, bound) = exact_product(row, weights);
                let error = (f64::from(result) - exact).abs();
                assert!(
                    error <= bound,
                    "{format:?}: {result} is {error} away from {exact}, at most {bound} is rounding"
                );
            }
        }
    }
    Ok(())
}

/// A dot product in f64, and how far rounding the activations to bytes, in blocks of 32, can move it.
fn exact_product(activations: &[f32], weights: &[f32]) -> (f64, f64) {
    let (mut exact, mut bound) = (0., 0.);
    for (activations, weights) in activations.chunks(32).zip(weights.chunks(32)) {
        let largest = activations.iter().fold(0f32, |largest, value| largest.max(value.abs()));
        for (&activation, &weight) in activations.iter().zip(weights) {
            let (activation, weight) = (f64::from(activation), f64::from(weight));
            exact += activation * weight;
            // Half a step of the block, and the last place of f32 sums.
            bound += weight.abs() * (f64::from(largest) / 127. / 2. * 1.001 + activation.abs() * 1e-6);
        }
    }
    (exact, bound)
}
