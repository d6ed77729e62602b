//! Quantized products are at least as close to the exact ones as Candle's on the CPU. Exact is the product of the dequantized
//! weights with the activations in f64. Both devices round activations to bytes: the CPU in blocks of 32 with a step kept in
//! f16 (in blocks of 256 for the k formats), the ROCm device in blocks of 32 with a step kept in f32 (of 256 for a few rows
//! by Q2K or Q3K, on matrix units). So the errors have about one size for the simple formats and are mostly smaller on the
//! ROCm device for the k formats, and what is compared is their root mean square over at least a thousand products.

use super::bench::{PLAIN, QUANTIZED};
use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const ROWS: [usize; 7] = [1, 2, 7, 8, 9, 33, 512];
/// (rows, columns) of weights: odd and even, small and large. Columns are whole blocks of the k formats.
const WEIGHTS: [(usize, usize); 4] = [(5, 256), (8, 256), (67, 1280), (256, 1024)];
/// Products of a case at the least, for a root mean square that means something.
const PRODUCTS: usize = 1024;
/// How much of the CPU's error the ROCm device's may be. Where both round alike, their errors scatter: 1024 products leave a
/// few per cent of that in a root mean square.
const AS_CLOSE: f64 = 1.1;
/// Where nothing is rounded, both errors are those of f32 sums in another order.
const AS_CLOSE_PLAIN: f64 = 2.;

/// Sums of squared errors on the CPU and on the ROCm device, and of the exact products.
fn squared_errors(weights: QTensor, x: &Tensor, device: &Device) -> Result<[f64; 3]> {
    let exact = weights.dequantize(&Device::Cpu)?.to_dtype(DType::F64)?;
    let exact = x.to_dtype(DType::F64)?.matmul(&exact.t()?)?;
    let same_blocks = QStorage::from_data(weights.data()?, device, weights.dtype())?;
    let moved = QTensor::new(same_blocks, weights.shape().clone())?;
    let on_rocm = QMatMul::from_qtensor(moved)?.forward(&x.to_device(device)?)?.to_device(&Device::Cpu)?;
    let on_cpu = QMatMul::from_qtensor(weights)?.forward(x)?;
    let square = |tensor: &Tensor| tensor.sqr()?.sum_all()?.to_scalar::<f64>();
    let error = |product: &Tensor| square(&(product.to_dtype(DType::F64)? - &exact)?);
    Ok([error(&on_cpu)?, error(&on_rocm)?, square(&exact)?])
}

fn check(format: GgmlDType, as_close: f64, device: &Device) -> Result<()> {
    let mut rng = StdRng::seed_from_u64(format as u64);
    for (n, k) in WEIGHTS {
        for rows in ROWS {
            let mut sums = [0.; 3];
            for _ in 0..PRODUCTS.div_ceil(rows * n) {
                let mut numbers = |count: usize, scale: f32| -> Vec<f32> {
                    (0..count).map(|_| rng.random_range(-scale..scale)).collect()
                };
                let weights = Tensor::from_vec(numbers(n * k, 0.1), (n, k), &Device::Cpu)?;
                let x = Tensor::from_vec(numbers(rows * k, 3.), (rows, k), &Device::Cpu)?;
                let errors = squared_errors(QTensor::quantize(&weights, format)?, &x, device)?;
                sums.iter_mut().zip(errors).for_each(|(sum, error)| *sum += error);
            }
            let [cpu, rocm, exact] = sums.map(f64::sqrt);
            let what = format!("{format:?}, {rows} rows times weights of {n} x {k}");
            assert!(exact > 0. && rocm.is_finite(), "{what}: no products");
            // The last place of f32, below which nobody can be told apart.
            let noise = exact * 2e-7;
            assert!(
                rocm <= as_close * cpu + noise,
                "{what}: the error is {:.2e} of the product, the CPU's {:.2e}",
                rocm / exact,
                cpu / exact
            );
        }
    }
    Ok(())
}

#[test]
fn products_are_at_least_as_close_as_the_cpus() -> Result<()> {
    let device = Device::new_rocm(0)?;
    QUANTIZED.iter().try_for_each(|&format| check(format, AS_CLOSE, &device))?;
    PLAIN.iter().try_for_each(|&format| check(format, AS_CLOSE_PLAIN, &device))
}
