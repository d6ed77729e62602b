//! Transforms on CPU threads: rustfft for one dimension, dimensions one after the other, transforms beside one another.

use super::super::abi::*;
use half::f16;
use rayon::prelude::*;
use realfft::num_complex::Complex;
use realfft::num_traits::Zero;
use realfft::{ComplexToReal, FftNum, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};
use std::ops::Range;
use std::sync::Arc;

/// A number in device memory, and the type that it is computed in.
pub trait Number: Copy + Send + Sync + 'static {
    type Wide: FftNum;
    fn widen(self) -> Self::Wide;
    /// The number times a factor.
    fn narrow(wide: Self::Wide, factor: f64) -> Self;
}

impl Number for f16 {
    type Wide = f32;
    fn widen(self) -> f32 {
        self.to_f32()
    }
    fn narrow(wide: f32, factor: f64) -> Self {
        Self::from_f32(wide * factor as f32)
    }
}

impl Number for f32 {
    type Wide = f32;
    fn widen(self) -> f32 {
        self
    }
    fn narrow(wide: f32, factor: f64) -> Self {
        wide * factor as f32
    }
}

impl Number for f64 {
    type Wide = f64;
    fn widen(self) -> f64 {
        self
    }
    fn narrow(wide: f64, factor: f64) -> Self {
        wide * factor
    }
}

/// Where the elements of one side lie, counted in elements: reals or complex numbers.
#[derive(Clone, PartialEq)]
pub struct Places {
    pub offset: usize,
    /// From one element to the next, the innermost dimension first.
    pub strides: Vec<usize>,
    /// From one transform to the next.
    pub distance: usize,
}

/// What a plan does.
pub struct Steps {
    pub kind: rocfft_transform_type,
    /// The innermost dimension first; of the reals, where one side is real.
    pub lengths: Vec<usize>,
    pub count: usize,
    pub scale: f64,
    pub input: Places,
    pub output: Places,
    pub in_place: bool,
}

/// A plan with rustfft's algorithms for its lengths.
pub struct Work<N: Number> {
    steps: Steps,
    /// One for each dimension; none for the innermost of real transforms.
    complex: Vec<Option<Arc<dyn Fft<N::Wide>>>>,
    real: Innermost<N::Wide>,
}

enum Innermost<W> {
    Complex,
    RealForward(Arc<dyn RealToComplex<W>>),
    RealInverse(Arc<dyn ComplexToReal<W>>),
}

/// The places of one transform's elements in their order.
fn places<'a>(places: &'a Places, lengths: &'a [usize], index: usize) -> impl Iterator<Item = usize> + 'a {
    let along = |dimension: usize| lengths.get(dimension).copied().unwrap_or(1);
    let stride = |dimension: usize| places.strides.get(dimension).copied().unwrap_or(0);
    let (strides, lengths) = ([stride(0), stride(1), stride(2)], [along(0), along(1), along(2)]);
    let first = places.offset + index * places.distance;
    (0..lengths[2]).flat_map(move |z| {
        (0..lengths[1])
            .flat_map(move |y| (0..lengths[0]).map(move |x| first + x * strides[0] + y * strides[1] + z * strides[2]))
    })
}

/// The addresses of a transform, for the threads that share it.
struct Ends<N>(*mut N, *mut N);

// SAFETY: each transform reads and writes places of its own, as the caller of `run` promises.
unsafe impl<N> Send for Ends<N> {}
// SAFETY: as above.
unsafe impl<N> Sync for Ends<N> {}

impl<N: Number> Work<N> {
    pub fn new(steps: Steps) -> Self {
        let mut planner = FftPlanner::new();
        let innermost = steps.lengths[0];
        let (inverse, real) = match steps.kind {
            rocfft_transform_type::rocfft_transform_type_complex_forward => (false, Innermost::Complex),
            rocfft_transform_type::rocfft_transform_type_complex_inverse => (true, Innermost::Complex),
            rocfft_transform_type::rocfft_transform_type_real_forward => {
                (false, Innermost::RealForward(RealFftPlanner::new().plan_fft_forward(innermost)))
            }
            _ => (true, Innermost::RealInverse(RealFftPlanner::new().plan_fft_inverse(innermost))),
        };
        let is_complex = matches!(real, Innermost::Complex);
        let mut plan = |(dimension, &length): (usize, &usize)| match (dimension == 0 && !is_complex, inverse) {
            (true, _) => None,
            (false, false) => Some(planner.plan_fft_forward(length)),
            (false, true) => Some(planner.plan_fft_inverse(length)),
        };
        let complex = steps.lengths.iter().enumerate().map(&mut plan).collect();
        Self { steps, complex, real }
    }

    /// The lengths of the complex side.
    fn complex_lengths(&self) -> Vec<usize> {
        let mut lengths = self.steps.lengths.clone();
        if !matches!(self.real, Innermost::Complex) {
            lengths[0] = lengths[0] / 2 + 1;
        }
        lengths
    }

    /// The numbers that are written, from the first to the last.
    pub fn written(&self) -> Range<usize> {
        let Steps { output, count, .. } = &self.steps;
        let (lengths, width) = match self.real {
            Innermost::RealInverse(_) => (self.steps.lengths.clone(), 1),
            _ => (self.complex_lengths(), 2),
        };
        let within: usize = lengths.iter().zip(&output.strides).map(|(length, stride)| (length - 1) * stride).sum();
        let last = output.offset + (count - 1) * output.distance + within;
        output.offset * width..(last + 1) * width
    }

    /// Does the transforms.
    ///
    /// # Safety
    /// Both sides are memory that the places of the plan lie in; nobody else touches it meanwhile. Places of different transforms are
    /// different.
    pub unsafe fn run(&self, from: *mut N, to: *mut N) {
        let ends = Ends(from, to);
        (0..self.steps.count).into_par_iter().for_each(|index| {
            let Ends(from, to) = &ends;
            // SAFETY: the caller's promise.
            unsafe { self.one(index, *from, *to) };
        });
        if !self.steps.in_place {
            // AMD's library may use the input's memory for what it has on the way. Here nobody shall rely on the contrary.
            let nothing = N::narrow(N::Wide::zero(), f64::NAN);
            // SAFETY: the first transform's first element is part of the input.
            unsafe { from.add(self.steps.input.offset * self.input_width()).write(nothing) };
        }
    }

    fn input_width(&self) -> usize {
        if matches!(self.real, Innermost::RealForward(_)) {
            1
        } else {
            2
        }
    }

    /// # Safety
    /// As for `run`.
    unsafe fn one(&self, index: usize, from: *mut N, to: *mut N) {
        let Steps { lengths, input, output, .. } = &self.steps;
        let halved = self.complex_lengths();
        match &self.real {
            Innermost::Complex => {
                // SAFETY: the caller's promise.
                let mut data = unsafe { load_complex(places(input, lengths, index), from) };
                self.along(&mut data, lengths);
                // SAFETY: the caller's promise.
                unsafe { self.store_complex(&data, places(output, lengths, index), to) };
            }
            Innermost::RealForward(rows) => {
                let mut reals: Vec<N::Wide> = places(input, lengths, index)
                    // SAFETY: the caller's promise.
                    .map(|place| unsafe { from.add(place).read() }.widen())
                    .collect();
                let mut data = vec![Complex::new(N::Wide::zero(), N::Wide::zero()); halved.iter().product()];
                for (row, half) in reals.chunks_exact_mut(lengths[0]).zip(data.chunks_exact_mut(halved[0])) {
                    // Lengths are those of the plan, which is all that could be wrong.
                    let done = rows.process(row, half);
                    debug_assert!(done.is_ok(), "{done:?}");
                }
                self.along(&mut data, &halved);
                // SAFETY: the caller's promise.
                unsafe { self.store_complex(&data, places(output, &halved, index), to) };
            }
            Innermost::RealInverse(rows) => {
                // SAFETY: the caller's promise.
                let mut data = unsafe { load_complex(places(input, &halved, index), from) };
                self.along(&mut data, &halved);
                let mut reals = vec![N::Wide::zero(); lengths.iter().product()];
                for (half, row) in data.chunks_exact_mut(halved[0]).zip(reals.chunks_exact_mut(lengths[0])) {
                    half[0].im = N::Wide::zero();
                    if lengths[0] % 2 == 0 {
                        half[halved[0] - 1].im = N::Wide::zero();
                    }
                    let done = rows.process(half, row);
                    debug_assert!(done.is_ok(), "{done:?}");
                }
                for (value, place) in reals.into_iter().zip(places(output, lengths, index)) {
                    // SAFETY: the caller's promise.
                    unsafe { to.add(place).write(N::narrow(value, self.steps.scale)) };
                }
            }
        }
    }

    /// Transforms elements that lie close together along each dimension that rustfft does.
    fn along(&self, data: &mut [Complex<N::Wide>], lengths: &[usize]) {
        let mut stride = 1;
        for (&length, fft) in lengths.iter().zip(&self.complex) {
            match fft {
                None => {}
                Some(fft) if stride == 1 => fft.process(data),
                Some(fft) => {
                    let mut line = vec![Complex::new(N::Wide::zero(), N::Wide::zero()); length];
                    for block in data.chunks_exact_mut(stride * length) {
                        for start in 0..stride {
                            let places = (start..).step_by(stride);
                            line.iter_mut().zip(places.clone()).for_each(|(value, place)| *value = block[place]);
                            fft.process(&mut line);
                            line.iter().zip(places).for_each(|(value, place)| block[place] = *value);
                        }
                    }
                }
            }
            stride *= length;
        }
    }

    /// # Safety
    /// The places lie in the memory at `to`.
    unsafe fn store_complex(&self, data: &[Complex<N::Wide>], places: impl Iterator<Item = usize>, to: *mut N) {
        for (value, place) in data.iter().zip(places) {
            let parts = [value.re, value.im].map(|part| N::narrow(part, self.steps.scale));
            // SAFETY: the caller's promise.
            unsafe { to.add(2 * place).cast::<[N; 2]>().write(parts) };
        }
    }
}

/// # Safety
/// The places lie in the memory at `from`.
unsafe fn load_complex<N: Number>(places: impl Iterator<Item = usize>, from: *const N) -> Vec<Complex<N::Wide>> {
    places
        .map(|place| {
            // SAFETY: the caller's promise.
            let [re, im] = unsafe { from.add(2 * place).cast::<[N; 2]>().read() };
            Complex::new(re.widen(), im.widen())
        })
        .collect()
}
