//! Fourier transforms against sums in f64 as the definition has them: kinds, sizes, dimensions, batches and types, in place and not;
//! round trips, the sum of squares, graphs, plans that a stream keeps, and what happens where a call of the library fails.

mod common;

use common::{stream, Random};
use half::f16;
use hip::Stream;
use rocm::fft::{Kind, Plan, Real, Rocfft, Transform, KEPT};
use std::f64::consts::TAU;

/// A complex number of the reference.
type Pair = [f64; 2];

trait Number: Real {
    /// What the error may be, relative to the size of the results.
    const BOUND: f64;
    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
}

impl Number for f16 {
    const BOUND: f64 = 4e-3;
    fn from_f64(value: f64) -> Self {
        f16::from_f64(value)
    }
    fn to_f64(self) -> f64 {
        f16::to_f64(self)
    }
}

impl Number for f32 {
    const BOUND: f64 = 3e-6;
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Number for f64 {
    const BOUND: f64 = 1e-13;
    fn from_f64(value: f64) -> Self {
        value
    }
    fn to_f64(self) -> f64 {
        self
    }
}

/// The definition, dimension by dimension: `sign` is -1 going forward and 1 for the inverse.
fn transformed(mut data: Vec<Pair>, sizes: &[usize], sign: f64) -> Vec<Pair> {
    let mut stride = 1;
    for &size in sizes.iter().rev() {
        let before = data.clone();
        for (at, value) in data.iter_mut().enumerate() {
            let (k, first) = (at / stride % size, at - at / stride % size * stride);
            let term = |j: usize| {
                let ([re, im], angle) = (before[first + j * stride], sign * TAU * (j * k % size) as f64 / size as f64);
                let (sine, cosine) = angle.sin_cos();
                [re * cosine - im * sine, re * sine + im * cosine]
            };
            *value = (0..size).map(term).fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d]);
        }
        stride *= size;
    }
    data
}

/// The half of a spectrum that the other follows from.
fn half(data: &[Pair], last: usize) -> Vec<Pair> {
    data.chunks_exact(last).flat_map(|row| row[..last / 2 + 1].to_vec()).collect()
}

/// What goes in and what comes out of one transform, by the definition.
fn example(kind: Kind, sizes: &[usize], random: &mut Random) -> (Vec<f64>, Vec<f64>) {
    let (count, last) = (sizes.iter().product::<usize>(), sizes[sizes.len() - 1]);
    let mut values = |count: usize| (0..count).map(|_| random.value()).collect::<Vec<f64>>();
    let pairs = |values: &[f64]| values.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<Pair>>();
    match kind {
        Kind::Forward | Kind::Inverse => {
            let data = values(2 * count);
            let sign = if kind == Kind::Forward { -1.0 } else { 1.0 };
            let spectrum = transformed(pairs(&data), sizes, sign);
            (data, spectrum.concat())
        }
        Kind::RealForward | Kind::RealInverse => {
            let reals = values(count);
            let spectrum = transformed(reals.iter().map(|&real| [real, 0.0]).collect(), sizes, -1.0);
            let (half, times) = (half(&spectrum, last).concat(), count as f64);
            match kind {
                Kind::RealForward => (reals, half),
                _ => (half, reals.into_iter().map(|real| real * times).collect()),
            }
        }
    }
}

fn compare<T: Number>(
    stream: &Stream,
    transform: Transform,
    kind: Kind,
    sizes: &[usize],
    batch: usize,
) -> hip::Result<()> {
    let mut random = Random(batch as u64 + sizes.iter().sum::<usize>() as u64);
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..batch {
        let (one, result) = example(kind, sizes, &mut random);
        input.extend(one);
        expected.extend(result);
    }
    let scale = 0.25;
    let plan = Plan::<T>::new(stream, &transform.scale(scale))?;
    assert_eq!((plan.input_len(), plan.output_len()), (input.len(), expected.len()), "{plan:?}");
    let input: Vec<T> = input.into_iter().map(T::from_f64).collect();
    let mut data = stream.upload(&input)?;
    let got = match format!("{plan:?}").contains("in place") {
        true => {
            plan.execute_in_place(&mut data)?;
            data.to_vec()?
        }
        false => {
            let mut output = stream.alloc::<T>(expected.len())?;
            plan.execute(&mut data, &mut output)?;
            output.to_vec()?
        }
    };
    let largest = expected.iter().fold(1.0f64, |most, value| most.max(value.abs()));
    for (at, (got, expected)) in got.into_iter().zip(expected).enumerate() {
        let (got, expected) = (got.to_f64(), expected * scale);
        let close = (got - expected).abs() <= T::BOUND * largest;
        assert!(close, "{plan:?} of {}: element {at} is {got}, not {expected}", std::any::type_name::<T>());
    }
    Ok(())
}

const KINDS: [Kind; 4] = [Kind::Forward, Kind::Inverse, Kind::RealForward, Kind::RealInverse];

fn sizes_and_batches<T: Number>(all: &[&[usize]]) -> hip::Result<()> {
    let stream = stream()?;
    for &sizes in all {
        for kind in KINDS {
            for batch in [1, 3] {
                let transform = Transform::new(kind, sizes).batch(batch);
                compare::<T>(&stream, transform.clone(), kind, sizes, batch)?;
                if matches!(kind, Kind::Forward | Kind::Inverse) {
                    compare::<T>(&stream, transform.in_place(), kind, sizes, batch)?;
                }
            }
        }
    }
    Ok(())
}

/// One, primes, powers of two and of other numbers, products; an odd and an even last dimension; dimensions of one.
const ALL: &[&[usize]] = &[
    &[1],
    &[2],
    &[3],
    &[4],
    &[5],
    &[7],
    &[8],
    &[9],
    &[12],
    &[17],
    &[31],
    &[45],
    &[64],
    &[97],
    &[100],
    &[128],
    &[211],
    &[256],
    &[1, 1],
    &[2, 3],
    &[5, 4],
    &[1, 8],
    &[8, 1],
    &[7, 16],
    &[12, 10],
    &[1, 1, 1],
    &[2, 3, 5],
    &[4, 1, 6],
    &[3, 4, 8],
];

#[test]
fn double_precision_is_the_definition() -> hip::Result<()> {
    sizes_and_batches::<f64>(ALL)
}

#[test]
fn single_precision_is_the_definition() -> hip::Result<()> {
    sizes_and_batches::<f32>(ALL)
}

#[test]
fn half_precision_is_the_definition_for_powers_of_two() -> hip::Result<()> {
    // AMD's library has others in some releases.
    sizes_and_batches::<f16>(&[&[2], &[4], &[16], &[128], &[4, 8], &[2, 4, 8]])
}

#[test]
fn the_inverse_undoes_the_transform_and_squares_keep_their_sum() -> hip::Result<()> {
    let stream = stream()?;
    let mut random = Random(5);
    for size in [1000usize, 1021, 4096] {
        let (batch, factor) = (2, 1.0 / (size as f64).sqrt());
        let values: Vec<f64> = (0..2 * size * batch).map(|_| random.value()).collect();
        let mut data = stream.upload(&values)?;
        let transform = |kind| Transform::new(kind, &[size]).batch(batch).scale(factor).in_place();
        Plan::<f64>::new(&stream, &transform(Kind::Forward))?.execute_in_place(&mut data)?;
        let squares = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
        let (before, after) = (squares(&values), squares(&data.to_vec()?));
        assert!((before - after).abs() < 1e-12 * before, "{size}: {before} became {after}");
        Plan::<f64>::new(&stream, &transform(Kind::Inverse))?.execute_in_place(&mut data)?;
        for (got, expected) in data.to_vec()?.iter().zip(&values) {
            assert!((got - expected).abs() < 1e-12, "{size}: {got} and not {expected}");
        }
        // Real numbers too.
        let reals = &values[..size * batch];
        let mut data = stream.upload(reals)?;
        let forward = Plan::<f64>::new(&stream, &Transform::new(Kind::RealForward, &[size]).batch(batch))?;
        let mut spectra = stream.alloc(forward.output_len())?;
        forward.execute(&mut data, &mut spectra)?;
        let back = Transform::new(Kind::RealInverse, &[size]).batch(batch).scale(1.0 / size as f64);
        Plan::<f64>::new(&stream, &back)?.execute(&mut spectra, &mut data)?;
        for (got, expected) in data.to_vec()?.iter().zip(reals) {
            assert!((got - expected).abs() < 1e-12, "{size}: {got} and not {expected}");
        }
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_with_a_sentence() -> hip::Result<()> {
    let stream = stream()?;
    let four = Transform::new(Kind::Forward, &[4]);
    let (plan, within) = (Plan::<f32>::new(&stream, &four)?, Plan::<f32>::new(&stream, &four.clone().in_place())?);
    let (mut eight, mut seven) = (stream.zeros::<f32>(8)?, stream.zeros::<f32>(7)?);
    let mut other = stream.zeros::<f32>(8)?;
    let mut foreign = stream.device().new_stream()?.zeros::<f32>(8)?;
    let refusals = [
        (plan.execute(&mut eight, &mut seven), "8 elements of f32"),
        (plan.execute(&mut seven, &mut other), "goes in"),
        (plan.execute(&mut eight, &mut foreign), "another stream"),
        (plan.execute_in_place(&mut eight), "results of their own"),
        (within.execute(&mut eight, &mut other), "execute_in_place"),
        (Plan::<f32>::new(&stream, &Transform::new(Kind::Forward, &[0])).map(drop), "at least 1"),
        (Plan::<f32>::kept(&stream, &Transform::new(Kind::RealInverse, &[4]).in_place()).map(drop), "in place"),
    ];
    for (outcome, words) in refusals {
        let error = outcome.expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    // No transforms are nothing to do.
    for none in [Plan::<f32>::new(&stream, &four.clone().batch(0))?, Plan::kept(&stream, &four.batch(0))?] {
        none.execute(&mut stream.alloc(0)?, &mut stream.alloc(0)?)?;
        assert!(none.origin().is_none());
    }
    assert!(plan.origin().is_some());
    plan.execute(&mut eight, &mut other)
}

#[test]
fn a_stream_keeps_its_plans() -> hip::Result<()> {
    let stream = stream()?;
    // 64 of them are kept, and the first one goes again and again.
    for round in 0..3 {
        for size in 1..KEPT + 3 {
            let transform = Transform::new(Kind::Forward, &[size]).in_place();
            let mut data = stream.upload(&[1f32, 0.0].repeat(size))?;
            Plan::kept(&stream, &transform)?.execute_in_place(&mut data)?;
            assert!((data.to_vec()?[0] - size as f32).abs() < 1e-4 * size as f32, "round {round}, size {size}");
        }
    }
    // The type is part of what is kept.
    let transform = Transform::new(Kind::Forward, &[KEPT]).in_place();
    let mut data = stream.upload(&[1f64, 0.0].repeat(KEPT))?;
    Plan::kept(&stream, &transform)?.execute_in_place(&mut data)?;
    assert_eq!(data.to_vec()?[0], KEPT as f64);
    Ok(())
}

#[test]
fn a_graph_keeps_the_plan() -> hip::Result<()> {
    let stream = stream()?;
    let transform = Transform::new(Kind::Forward, &[3]).in_place();
    let plan = Plan::<f32>::new(&stream, &transform)?;
    let mut data = stream.zeros::<f32>(6)?;
    let graph = stream.capture(|_| {
        let refused = Plan::<f32>::new(&stream, &transform).expect_err("a plan in a capture").to_string();
        assert!(refused.contains("before"), "{refused}");
        plan.execute_in_place(&mut data)?;
        drop(plan);
        Ok(())
    })?;
    for factor in [1.0, 2.0] {
        data.write(&[factor, 0.0, factor, 0.0, factor, 0.0])?;
        graph.launch(&stream)?;
        assert_eq!(data.to_vec()?[..2], [3.0 * factor, 0.0]);
    }
    Ok(())
}

#[test]
fn every_call_of_the_library_may_fail() -> hip::Result<()> {
    // Failures are planned in the embedded device's implementation.
    let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
    let work = || -> hip::Result<()> {
        let mut data = stream.upload(&[1f32; 10])?;
        Plan::new(&stream, &Transform::new(Kind::Forward, &[5]).in_place())?.execute_in_place(&mut data)?;
        let [re, im] = [data.to_vec()?[0], data.to_vec()?[1]];
        assert!((re - 5.0).abs() + (im - 5.0).abs() < 1e-5, "{re} {im}");
        Ok(())
    };
    let (done, calls) = hip_host::inject::record(work);
    done?;
    let calls: Vec<_> = calls.into_iter().filter(|(name, _)| name.starts_with("rocfft")).collect();
    for name in Rocfft::FUNCTIONS.iter().map(|function| function.name) {
        // AMD's library is set up when it is loaded.
        assert!(calls.iter().any(|(called, _)| *called == name) || name == "rocfft_setup", "{name} is not tried");
    }
    for (name, count) in calls {
        for nth in 1..=count {
            let armed = hip_host::inject::fail(name, nth, 2);
            let done = work();
            assert!(armed.fired(), "{name} {nth}");
            // What is dropped has nobody to tell.
            if !name.ends_with("destroy") {
                let error = done.expect_err(name).to_string();
                assert!(error.contains(name) && error.contains("rocfft_status_invalid_arg_value (2)"), "{error}");
            }
            drop(armed);
            work()?;
        }
    }
    Ok(())
}

#[test]
fn a_plan_that_finds_no_memory_gets_what_the_pools_keep() -> hip::Result<()> {
    let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
    drop(stream.alloc::<u8>(64 << 20)?);
    let kept = stream.pool_stats().reserved_bytes;
    assert!(kept >= 64 << 20);
    let armed = hip_host::inject::fail("rocfft_plan_create", 1, 1);
    let plan = Plan::<f32>::new(&stream, &Transform::new(Kind::Forward, &[8]).in_place())?;
    assert!(armed.fired() && stream.pool_stats().reserved_bytes < kept, "the pool gave back what it kept");
    plan.execute_in_place(&mut stream.zeros::<f32>(16)?)
}

#[test]
fn amds_library_has_every_function_of_the_table() {
    match Rocfft::load(&hip_abi::Search::default()) {
        Ok(table) => eprintln!("rocFFT at {}", table.origin()),
        Err(why) => {
            eprintln!("no rocFFT here: {why}");
            assert!(why.to_string().contains("librocfft.so.0"));
        }
    }
}
