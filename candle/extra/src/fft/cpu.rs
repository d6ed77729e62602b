//! The transforms on Candle's CPU device: rustfft, rows beside one another.

use super::operation::{Kind, Operation};
use rayon::prelude::*;
use realfft::num_complex::Complex;
use realfft::num_traits::Zero;
use realfft::{FftNum, RealFftPlanner};
use rustfft::FftPlanner;

/// Transforms rows that lie one behind the other.
pub fn transform<T: FftNum>(operation: &Operation, data: &[T]) -> Vec<T> {
    let Operation { kind, length, scale } = *operation;
    let half = length / 2 + 1;
    let factor = T::from_f64(scale).unwrap_or_else(T::zero);
    match kind {
        Kind::Forward | Kind::Inverse => {
            let fft = match kind {
                Kind::Forward => FftPlanner::new().plan_fft_forward(length),
                _ => FftPlanner::new().plan_fft_inverse(length),
            };
            by_row(data, 2 * length, 2 * length, |row, out| {
                let mut row = complex(row);
                fft.process(&mut row);
                write(out, &row, factor);
            })
        }
        Kind::RealForward => {
            let fft = RealFftPlanner::new().plan_fft_forward(length);
            by_row(data, length, 2 * half, |row, out| {
                let (mut row, mut spectrum) = (row.to_vec(), vec![Complex::zero(); half]);
                // Lengths are the plan's, which is all that could be wrong.
                let done = fft.process(&mut row, &mut spectrum);
                debug_assert!(done.is_ok(), "{done:?}");
                write(out, &spectrum, factor);
            })
        }
        Kind::RealInverse => {
            let fft = RealFftPlanner::new().plan_fft_inverse(length);
            by_row(data, 2 * half, length, |row, out| {
                let mut spectrum = complex(row);
                // A number without a conjugate is real.
                for (k, value) in spectrum.iter_mut().enumerate() {
                    if k == 0 || 2 * k == length {
                        value.im = T::zero();
                    }
                }
                let done = fft.process(&mut spectrum, out);
                debug_assert!(done.is_ok(), "{done:?}");
                out.iter_mut().for_each(|value| *value = *value * factor);
            })
        }
    }
}

/// Makes `wide` numbers of every `long` ones.
fn by_row<T: FftNum>(data: &[T], long: usize, wide: usize, row: impl Fn(&[T], &mut [T]) + Sync) -> Vec<T> {
    let mut results = vec![T::zero(); data.len() / long * wide];
    data.par_chunks_exact(long).zip(results.par_chunks_exact_mut(wide)).for_each(|(from, to)| row(from, to));
    results
}

fn complex<T: FftNum>(row: &[T]) -> Vec<Complex<T>> {
    row.chunks_exact(2).map(|pair| Complex::new(pair[0], pair[1])).collect()
}

fn write<T: FftNum>(out: &mut [T], row: &[Complex<T>], factor: T) {
    for (pair, value) in out.chunks_exact_mut(2).zip(row) {
        (pair[0], pair[1]) = (value.re * factor, value.im * factor);
    }
}
