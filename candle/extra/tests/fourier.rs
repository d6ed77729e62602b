//! Fourier transforms of tensors on the CPU and on the ROCm device: against sums as the definition has them, gradients by differences
//! and by formula, and what is refused.

use candle_core::{DType, Device, Result, Tensor, Var, D};
use candle_rocm_extra::fft::{fft, ifft, irfft, rfft};
use std::f64::consts::TAU;

fn devices() -> Result<[Device; 2]> {
    Ok([Device::Cpu, Device::new_rocm(0)?])
}

/// Numbers that can be repeated, from -1 to 1.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 30) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn tensor(shape: &[usize], seed: u64, device: &Device) -> Result<Tensor> {
    Tensor::from_vec(numbers(shape.iter().product(), seed), shape, device)
}

/// The definition along a dimension of pairs, by a product with the matrix of roots as pairs of reals.
fn defined(x: &Tensor, dim: usize, sign: f64) -> Result<Tensor> {
    let (x, last) = (x.to_device(&Device::Cpu)?.to_dtype(DType::F64)?, x.rank() - 2);
    let n = x.dim(dim)?;
    let angles: Vec<f64> = (0..n * n).map(|at| sign * TAU * (at / n * (at % n) % n) as f64 / n as f64).collect();
    let matrix = |part: fn(f64) -> f64| {
        Tensor::from_vec(angles.iter().map(|&angle| part(angle)).collect::<Vec<f64>>(), (n, n), &Device::Cpu)
    };
    let (cosines, sines) = (matrix(f64::cos)?, matrix(f64::sin)?);
    let rows = x.transpose(dim, last)?;
    let (re, im) =
        (rows.narrow(D::Minus1, 0, 1)?.squeeze(D::Minus1)?, rows.narrow(D::Minus1, 1, 1)?.squeeze(D::Minus1)?);
    let times = |rows: &Tensor, matrix: &Tensor| {
        let flat = rows.contiguous()?.reshape(((), n))?;
        flat.matmul(matrix)?.reshape(rows.shape())
    };
    let new_re = (times(&re, &cosines)? - times(&im, &sines)?)?;
    let new_im = (times(&re, &sines)? + times(&im, &cosines)?)?;
    Tensor::stack(&[new_re, new_im], last + 1)?.transpose(dim, last)
}

fn assert_close(got: &Tensor, expected: &Tensor, bound: f64, what: &str) -> Result<()> {
    assert_eq!(got.dims(), expected.dims(), "{what}");
    let flat = |tensor: &Tensor| tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>();
    for (at, (got, expected)) in flat(got)?.into_iter().zip(flat(expected)?).enumerate() {
        let error = (got - expected).abs();
        assert!(error <= bound * expected.abs().max(1.0), "{what}: element {at} is {got}, not {expected}");
    }
    Ok(())
}

#[test]
fn every_dimension_is_transformed_as_defined() -> Result<()> {
    for device in devices()? {
        for (dtype, bound) in [(DType::F64, 1e-11), (DType::F32, 1e-4)] {
            let x = tensor(&[2, 5, 4, 2], 1, &device)?.to_dtype(dtype)?;
            let reals = tensor(&[3, 7, 6], 2, &device)?.to_dtype(dtype)?;
            for dim in 0..3 {
                let what = format!("{device:?}, {dtype:?}, dimension {dim}");
                assert_close(&fft(&x, dim)?, &defined(&x, dim, -1.0)?, bound, &what)?;
                let n = x.dim(dim)? as f64;
                assert_close(&ifft(&x, dim)?, &(defined(&x, dim, 1.0)? / n)?, bound, &what)?;
                assert_close(&ifft(&fft(&x, dim)?, dim)?, &x, bound, &what)?;
                let pairs = Tensor::stack(&[&reals, &reals.zeros_like()?], 3)?;
                let n = reals.dim(dim)?;
                let half = defined(&pairs, dim, -1.0)?.narrow(dim, 0, n / 2 + 1)?;
                assert_close(&rfft(&reals, dim)?, &half, bound, &what)?;
                assert_close(&irfft(&rfft(&reals, dim)?, n, dim)?, &reals, bound, &what)?;
            }
            // Dimensions from the end do not count the pairs; a transposed view is as good as a tensor.
            assert_close(&fft(&x, D::Minus1)?, &defined(&x, 2, -1.0)?, bound, "the last dimension")?;
            let turned = x.transpose(0, 1)?;
            assert_close(&fft(&turned, 1)?, &defined(&turned, 1, -1.0)?, bound, "a view")?;
        }
    }
    Ok(())
}

#[test]
fn lengths_of_one_primes_and_half_precision() -> Result<()> {
    let [cpu, rocm] = devices()?;
    for n in [1usize, 2, 3, 17, 64, 101] {
        for device in [&cpu, &rocm] {
            let x = tensor(&[2, n, 2], n as u64, device)?;
            assert_close(&fft(&x, 1)?, &defined(&x, 1, -1.0)?, 1e-11, "complex")?;
            let reals = tensor(&[2, n], n as u64, device)?;
            assert_close(&irfft(&rfft(&reals, 1)?, n, 1)?, &reals, 1e-11, "real")?;
            // Imaginary parts that no real tensor has count as zero, on both devices.
            let half = tensor(&[1, n / 2 + 1, 2], 3, device)?;
            let on_cpu = irfft(&half.to_device(&cpu)?, n, 1)?;
            assert_close(&irfft(&half, n, 1)?, &on_cpu, 1e-11, "half a spectrum")?;
        }
    }
    let x = tensor(&[16, 2], 4, &rocm)?.to_dtype(DType::F16)?;
    assert_close(&fft(&x, 0)?, &defined(&x, 0, -1.0)?, 2e-2, "f16")?;
    let none = Tensor::zeros((0, 4, 2), DType::F32, &rocm)?;
    assert_eq!(fft(&none, 1)?.dims(), [0, 4, 2]);
    Ok(())
}

type Transform = fn(&Tensor) -> Result<Tensor>;

/// The four transforms of a tensor, along its first dimension and along the last; of even and of odd length.
const TRANSFORMS: &[(&str, &[usize], Transform)] = &[
    ("fft", &[3, 4, 2], |x| fft(x, 0)),
    ("ifft", &[2, 5, 2], |x| ifft(x, D::Minus1)),
    ("rfft, even", &[2, 6], |x| rfft(x, 1)),
    ("rfft, odd", &[5, 2], |x| rfft(x, 0)),
    ("irfft, even", &[2, 4, 2], |x| irfft(x, 6, 1)),
    ("irfft, odd", &[3, 2, 2], |x| irfft(x, 5, 0)),
];

#[test]
fn gradients_are_those_of_differences() -> Result<()> {
    for device in devices()? {
        for &(name, shape, transform) in TRANSFORMS {
            let start = numbers(shape.iter().product(), 7);
            // Not linear, so that the gradient depends on the result.
            let loss = |x: &Tensor| {
                let y = transform(x)?;
                let weights = tensor(y.dims(), 8, &device)?;
                (y.sqr()? * weights)?.sum_all()
            };
            let x = Var::from_vec(start.clone(), shape, &device)?;
            let gradients = loss(x.as_tensor())?.backward()?;
            let got = gradients.get(&x).expect("a gradient").flatten_all()?.to_vec1::<f64>()?;
            for at in 0..start.len() {
                let step = 1e-5;
                let moved = |by: f64| {
                    let mut values = start.clone();
                    values[at] += by;
                    loss(&Tensor::from_vec(values, shape, &device)?)?.to_scalar::<f64>()
                };
                let expected = (moved(step)? - moved(-step)?) / (2.0 * step);
                let error = (got[at] - expected).abs();
                assert!(error < 1e-7 * expected.abs().max(1.0), "{name}, {device:?}: {at}: {} not {expected}", got[at]);
            }
        }
    }
    Ok(())
}

#[test]
fn the_gradient_of_squares_is_their_formula() -> Result<()> {
    for device in devices()? {
        // Parseval: the squares of a spectrum sum to n times those of the tensor, so the gradient is 2 n x.
        let x = Var::from_tensor(&tensor(&[3, 8, 2], 9, &device)?)?;
        let gradients = fft(&x, 1)?.sqr()?.sum_all()?.backward()?;
        let expected = (x.as_tensor() * 16.0)?;
        assert_close(gradients.get(&x).expect("a gradient"), &expected, 1e-11, "squares")?;
        // There and back is nothing, so the gradient of a weighted sum is the weights.
        let (x, weights) = (Var::from_tensor(&tensor(&[3, 9], 10, &device)?)?, tensor(&[3, 9], 11, &device)?);
        let back = irfft(&rfft(&x, 1)?, 9, 1)?;
        let gradients = (back * &weights)?.sum_all()?.backward()?;
        assert_close(gradients.get(&x).expect("a gradient"), &weights, 1e-11, "there and back")?;
    }
    Ok(())
}

#[test]
fn the_input_stays_what_it_was_and_the_next_call_works_after_a_refusal() -> Result<()> {
    for device in devices()? {
        let reals = tensor(&[2, 6], 12, &device)?;
        let before = reals.to_vec2::<f64>()?;
        let spectrum = rfft(&reals, 1)?.contiguous()?;
        let spectrum_before = spectrum.to_vec3::<f64>()?;
        irfft(&spectrum, 6, 1)?;
        fft(&spectrum, 1)?;
        assert_eq!((reals.to_vec2::<f64>()?, spectrum.to_vec3::<f64>()?), (before, spectrum_before));
        let (whole, bf16) = (Tensor::zeros((4, 2), DType::U32, &device)?, reals.to_dtype(DType::BF16)?);
        let refusals = [
            (fft(&reals, 0), "last dimension of 2"),
            (irfft(&spectrum, 9, 1), "5 complex ones"),
            (irfft(&spectrum, 0, 1), "at least one element"),
            (fft(&Tensor::zeros((0, 2), DType::F32, &device)?, 0), "at least one element"),
            (fft(&whole, 0), "cast the tensor"),
            (rfft(&bf16, 1), "cast the tensor"),
            (rfft(&reals, 2), "out of range"),
            (fft(&spectrum, 2), "out of range"),
        ];
        for (outcome, words) in refusals {
            let error = outcome.expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_close(&irfft(&spectrum, 6, 1)?, &reals, 1e-11, "after refusals")?;
    }
    Ok(())
}
