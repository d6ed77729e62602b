//! rocRAND's ABI on the embedded device: the distributions, in stream order. Each element takes a fixed number of words (one; two for
//! f64), so a later call begins where the words of the earlier ones end, whatever they drew.

use super::abi::*;
use super::engines::Engine;
use crate::embedded::{enqueue, Address, Registry};
use hip_abi::{hipStream_t, Origin};
use std::ffi::c_int;
use std::sync::OnceLock;

/// The table of the embedded device.
pub fn table() -> &'static Rocrand {
    static TABLE: OnceLock<Rocrand> = OnceLock::new();
    TABLE.get_or_init(|| Rocrand {
        origin: Origin::BuiltIn("random numbers of the embedded device"),
        rocrand_create_generator: create,
        rocrand_destroy_generator: destroy,
        rocrand_set_stream: set_stream,
        rocrand_set_seed: set_seed,
        rocrand_set_offset: set_offset,
        rocrand_generate: generate,
        rocrand_generate_uniform: uniform::<f32>,
        rocrand_generate_uniform_double: uniform::<f64>,
        rocrand_generate_normal: normal::<f32>,
        rocrand_generate_normal_double: normal::<f64>,
        rocrand_generate_log_normal: log_normal::<f32>,
        rocrand_generate_log_normal_double: log_normal::<f64>,
        rocrand_generate_poisson: poisson,
        rocrand_get_version: version,
    })
}

#[derive(Clone, Copy)]
struct State {
    start: fn(u64, u64) -> Engine,
    seed: u64,
    /// Words taken since the seed was set.
    position: u64,
    stream: hipStream_t,
}

static GENERATORS: Registry<State> = Registry::new();

const SUCCESS: rocrand_status = rocrand_status::ROCRAND_STATUS_SUCCESS;
const NOT_CREATED: rocrand_status = rocrand_status::ROCRAND_STATUS_NOT_CREATED;

unsafe extern "C" fn create(generator: *mut rocrand_generator, kind: rocrand_rng_type) -> rocrand_status {
    if let Some(status) = hip_host::inject::check("rocrand_create_generator") {
        return rocrand_status(status as _);
    }
    let start = match kind {
        rocrand_rng_type::ROCRAND_RNG_PSEUDO_PHILOX4_32_10 => Engine::philox,
        rocrand_rng_type::ROCRAND_RNG_PSEUDO_MRG32K3A => Engine::mrg32k3a,
        _ => return rocrand_status::ROCRAND_STATUS_TYPE_ERROR,
    };
    if generator.is_null() {
        return rocrand_status::ROCRAND_STATUS_OUT_OF_RANGE;
    }
    let id = GENERATORS.insert(State { start, seed: 0, position: 0, stream: hipStream_t::NULL });
    // SAFETY: the caller passes a place for a generator; null was refused.
    unsafe { *generator = rocrand_generator(id) };
    SUCCESS
}

unsafe extern "C" fn destroy(generator: rocrand_generator) -> rocrand_status {
    GENERATORS.remove(generator.0).map_or(NOT_CREATED, |_| SUCCESS)
}

fn change(generator: rocrand_generator, act: impl FnOnce(&mut State)) -> rocrand_status {
    GENERATORS.with(generator.0, act).map_or(NOT_CREATED, |()| SUCCESS)
}

unsafe extern "C" fn set_stream(generator: rocrand_generator, stream: hipStream_t) -> rocrand_status {
    change(generator, |state| state.stream = stream)
}

unsafe extern "C" fn set_seed(generator: rocrand_generator, seed: u64) -> rocrand_status {
    change(generator, |state| (state.seed, state.position) = (seed, 0))
}

unsafe extern "C" fn set_offset(generator: rocrand_generator, offset: u64) -> rocrand_status {
    change(generator, |state| state.position = offset)
}

unsafe extern "C" fn version(version: *mut c_int) -> rocrand_status {
    if version.is_null() {
        return rocrand_status::ROCRAND_STATUS_OUT_OF_RANGE;
    }
    // SAFETY: null was refused. Not a release of AMD's.
    unsafe { *version = 0 };
    SUCCESS
}

/// Queues `count` elements of `words` words each; `fill` makes them.
fn draw<T: Copy + Send + Sync + 'static>(
    generator: rocrand_generator,
    output: *mut T,
    count: usize,
    words: u64,
    fill: impl Fn(&mut Engine, &mut dyn Iterator<Item = &mut T>) + Send + Sync + 'static,
) -> rocrand_status {
    if output.is_null() && count > 0 {
        return rocrand_status::ROCRAND_STATUS_OUT_OF_RANGE;
    }
    // An odd count of normal numbers throws the second of the last pair away.
    let taken = (count as u64).next_multiple_of(2).wrapping_mul(words);
    let state = GENERATORS.with(generator.0, |state| {
        let before = *state;
        state.position = state.position.wrapping_add(taken);
        before
    });
    let Some(State { start, seed, position, stream }) = state else { return NOT_CREATED };
    let at = Address::of(output);
    let run = move || {
        // SAFETY: whoever queued the work vouches for the memory until it has run.
        let places = (0..count).map(|index| unsafe { &mut *at.pointer::<T>().add(index) });
        fill(&mut start(seed, position), &mut { places });
    };
    match enqueue(stream, &[(at, count * size_of::<T>())], run) {
        true => SUCCESS,
        false => rocrand_status::ROCRAND_STATUS_LAUNCH_FAILURE,
    }
}

unsafe extern "C" fn generate(generator: rocrand_generator, output: *mut u32, count: usize) -> rocrand_status {
    draw(generator, output, count, 1, |engine, places| places.for_each(|place| *place = engine.word()))
}

/// Real numbers of some width, made of words.
trait Width: Copy + Send + Sync + 'static {
    /// Words that one element takes.
    const WORDS: u64;
    /// From above zero up to one.
    fn unit(engine: &mut Engine) -> f64;
    fn narrow(value: f64) -> Self;
    fn wide(self) -> f64;
}

impl Width for f32 {
    const WORDS: u64 = 1;
    fn unit(engine: &mut Engine) -> f64 {
        (f64::from(engine.word()) + 1.0) / 4294967296.0
    }
    fn narrow(value: f64) -> Self {
        value as f32
    }
    fn wide(self) -> f64 {
        self.into()
    }
}

impl Width for f64 {
    const WORDS: u64 = 2;
    fn unit(engine: &mut Engine) -> f64 {
        let (low, high) = (u64::from(engine.word()), u64::from(engine.word()));
        // 53 bits are what an f64 holds exactly.
        (((high >> 11 << 32 | low) + 1) as f64) / (1u64 << 53) as f64
    }
    fn narrow(value: f64) -> Self {
        value
    }
    fn wide(self) -> f64 {
        self
    }
}

unsafe extern "C" fn uniform<T: Width>(generator: rocrand_generator, output: *mut T, count: usize) -> rocrand_status {
    draw(generator, output, count, T::WORDS, |engine, places| {
        places.for_each(|place| *place = T::narrow(T::unit(engine)));
    })
}

/// Queues normal numbers by the transform of Box and Muller, made into elements by `shape`; `T` says how many bits go into one.
fn gaussian<T: Width, R: Copy + Send + Sync + 'static>(
    generator: rocrand_generator,
    output: *mut R,
    count: usize,
    (mean, deviation): (f64, f64),
    shape: fn(f64) -> R,
) -> rocrand_status {
    draw(generator, output, count, T::WORDS, move |engine, places| {
        while let Some(first) = places.next() {
            let (radius, turn) = ((-2.0 * T::unit(engine).ln()).sqrt(), T::unit(engine) * std::f64::consts::TAU);
            let (sine, cosine) = turn.sin_cos();
            *first = shape(mean + deviation * radius * sine);
            if let Some(second) = places.next() {
                *second = shape(mean + deviation * radius * cosine);
            }
        }
    })
}

unsafe extern "C" fn normal<T: Width>(
    generator: rocrand_generator,
    output: *mut T,
    count: usize,
    mean: T,
    deviation: T,
) -> rocrand_status {
    gaussian::<T, T>(generator, output, count, (mean.wide(), deviation.wide()), T::narrow)
}

unsafe extern "C" fn log_normal<T: Width>(
    generator: rocrand_generator,
    output: *mut T,
    count: usize,
    mean: T,
    deviation: T,
) -> rocrand_status {
    gaussian::<T, T>(generator, output, count, (mean.wide(), deviation.wide()), |value| T::narrow(value.exp()))
}

/// Above this mean a Poisson number is a rounded normal one: the table would be long, and nobody could tell.
const LARGE: f64 = 4000.0;

unsafe extern "C" fn poisson(
    generator: rocrand_generator,
    output: *mut u32,
    count: usize,
    lambda: f64,
) -> rocrand_status {
    if !(lambda > 0.0 && lambda < 4294967296.0) {
        return rocrand_status::ROCRAND_STATUS_OUT_OF_RANGE;
    }
    if lambda >= LARGE {
        return gaussian::<f32, u32>(generator, output, count, (lambda, lambda.sqrt()), |value| value.round() as u32);
    }
    let below = cumulative(lambda);
    draw(generator, output, count, 1, move |engine, places| {
        for place in places {
            let unit = f32::unit(engine);
            *place = below.partition_point(|&sum| sum < unit) as u32;
        }
    })
}

/// The probabilities of at most 0, 1, 2, ... events, until nothing more is left of what 32 bits can tell.
fn cumulative(lambda: f64) -> Vec<f64> {
    let (mut sums, mut sum, mut logarithm) = (Vec::new(), 0.0, -lambda);
    while sum < 1.0 - 1e-11 {
        sum += logarithm.exp();
        sums.push(sum);
        logarithm += (lambda / sums.len() as f64).ln();
        // Rounding may keep the sum a little below one.
        if sums.len() as f64 > lambda + 12.0 * lambda.sqrt() + 40.0 {
            break;
        }
    }
    sums
}
