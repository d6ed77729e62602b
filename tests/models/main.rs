//! Whole models of candle-transformers, unmodified, on the ROCm device against the CPU: the same weights and the same inputs
//! on both, and the answers compared within a tolerance that each file states. Weights that are not in this repository are
//! named by environment variables (`downloads.rs`); all others are the repository's small model or random numbers.

mod bert;
mod diffusion;
mod downloads;
mod gguf;
mod greedy;
mod llama;
mod novelist;
mod quantized;
mod random;
mod smollm;
mod vit;
mod whisper;

use candle_core::{DType, Device, Result, Tensor};

/// How much larger than the CPU's an error of the ROCm device may be where both round in ways of their own: errors of one size
/// scatter, and those of a wrong kernel are larger by orders of magnitude.
const AS_CLOSE: f64 = 1.3;

fn rocm() -> Device {
    Device::new_rocm(0).expect("a ROCm device")
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

/// Asserts that no element differs by more than `tolerance` times the spread (the standard deviation) of the CPU's answer,
/// which must have one: a model that answers the same number everywhere would prove nothing.
fn assert_close(what: &str, on_cpu: &Tensor, on_rocm: &Tensor, tolerance: f64) -> Result<()> {
    assert_eq!(on_cpu.shape(), on_rocm.shape(), "{what}: shape");
    assert!(on_rocm.device().is_rocm(), "{what}: the answer is not on the ROCm device");
    let (expected, got) = (numbers(on_cpu)?, numbers(on_rocm)?);
    let mean = expected.iter().sum::<f64>() / expected.len() as f64;
    let spread = (expected.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / expected.len() as f64).sqrt();
    assert!(spread.is_finite() && spread > 1e-6, "{what}: the CPU's answers have a spread of {spread}");
    let difference = largest_difference(&expected, &got) / spread;
    println!("{what}: the largest difference is {difference:.1e} of the answers' spread, allowed {tolerance:.0e}");
    assert!(difference <= tolerance, "{what}: differs by {difference} of the spread, more than {tolerance}");
    Ok(())
}

/// NaN where one of them is: no comparison with a bound holds for it.
fn largest_difference(expected: &[f64], got: &[f64]) -> f64 {
    let differences = expected.iter().zip(got).map(|(expected, got)| (expected - got).abs());
    differences.fold(0., |most, difference| if difference.is_nan() { f64::NAN } else { difference.max(most) })
}
