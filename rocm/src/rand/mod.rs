//! Random numbers through rocRAND, where it can be had.
//!
//! ```
//! use rocm::rand::{Generator, Kind};
//! let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
//! let mut generator = Generator::new(&stream, Kind::Philox, 42)?;
//! let mut numbers = stream.alloc::<f32>(1000)?;
//! generator.normal(&mut numbers, 5.0, 2.0)?;
//! let mean = numbers.to_vec()?.iter().sum::<f32>() / 1000.0;
//! assert!((mean - 5.0).abs() < 0.5);
//! # Ok::<(), hip::Error>(())
//! ```

mod abi;
mod engines;
mod host;

pub use abi::{rocrand_generator, rocrand_rng_type, rocrand_status, Real, Rocrand};

use hip::{DeviceCopy, Error, PlatformKind, Result, Stream, ViewMut};
use hip_abi::{Origin, Search};
use std::sync::OnceLock;

/// Kinds of generators. The embedded device has Philox and MRG32k3a; its Philox gives the words that AMD's gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Philox 4x32-10, counter based.
    Philox,
    /// MRG32k3a, a combined recurrence.
    Mrg32k3a,
    /// XORWOW, rocRAND's default.
    Xorwow,
}

/// A generator bound to a stream.
pub struct Generator {
    table: &'static Rocrand,
    handle: rocrand_generator,
    stream: Stream,
}

impl Generator {
    /// A generator for this stream's device.
    pub fn new(stream: &Stream, kind: Kind, seed: u64) -> Result<Self> {
        let table = table_for(stream)?;
        stream.device().make_current()?;
        let number = match kind {
            Kind::Philox => rocrand_rng_type::ROCRAND_RNG_PSEUDO_PHILOX4_32_10,
            Kind::Mrg32k3a => rocrand_rng_type::ROCRAND_RNG_PSEUDO_MRG32K3A,
            Kind::Xorwow => rocrand_rng_type::ROCRAND_RNG_PSEUDO_XORWOW,
        };
        let mut handle = rocrand_generator::NULL;
        stream.device().with_memory_retry(|| {
            // SAFETY: the pointer is to a live handle, and the device is current.
            match unsafe { (table.rocrand_create_generator)(&mut handle, number) } {
                rocrand_status::ROCRAND_STATUS_TYPE_ERROR => Err(Error::refused(format!(
                    "{} has no generator of kind {kind:?}; Philox is everywhere",
                    table.origin()
                ))),
                created => check("rocrand_create_generator", created),
            }
        })?;
        let mut generator = Self { table, handle, stream: stream.clone() };
        // SAFETY: both handles are alive; the stream is kept alive by `generator`.
        check("rocrand_set_stream", unsafe { (table.rocrand_set_stream)(handle, stream.handle()) })?;
        generator.set_seed(seed)?;
        Ok(generator)
    }

    /// Where the library comes from.
    pub fn origin(&self) -> &Origin {
        self.table.origin()
    }

    /// Begins again with another seed.
    pub fn set_seed(&mut self, seed: u64) -> Result<()> {
        // SAFETY: the generator is alive, and borrowed for this call alone.
        check("rocrand_set_seed", unsafe { (self.table.rocrand_set_seed)(self.handle, seed) })
    }

    /// Goes to a place in the seed's sequence, counted in 32-bit words.
    pub fn set_offset(&mut self, offset: u64) -> Result<()> {
        // SAFETY: the generator is alive, and borrowed for this call alone.
        check("rocrand_set_offset", unsafe { (self.table.rocrand_set_offset)(self.handle, offset) })
    }

    /// Queues a call that fills `output`.
    fn fill<T: DeviceCopy>(
        &mut self,
        call: &'static str,
        output: ViewMut<'_, T>,
        fill: impl Fn(&Rocrand, rocrand_generator, *mut T, usize) -> rocrand_status,
    ) -> Result<()> {
        self.stream.uses(output.as_view())?;
        self.stream.device().make_current()?;
        // The first call makes the generator's states, which need memory.
        self.stream.device().with_memory_retry(|| {
            check(call, fill(self.table, self.handle, output.ptr().as_raw().cast(), output.len()))
        })
    }

    /// Numbers of 32 random bits.
    pub fn bits<'a>(&mut self, output: impl Into<ViewMut<'a, u32>>) -> Result<()> {
        // SAFETY: `fill` checked the output, and this borrow is the only one of the generator.
        self.fill("rocrand_generate", output.into(), |table, handle, output, count| unsafe {
            (table.rocrand_generate)(handle, output, count)
        })
    }

    /// Numbers above zero, up to and including one.
    pub fn uniform<'a, T: Real>(&mut self, output: impl Into<ViewMut<'a, T>>) -> Result<()> {
        // SAFETY: as in `bits`.
        self.fill("rocrand_generate_uniform", output.into(), |table, handle, output, count| unsafe {
            (T::routines(table).uniform)(handle, output, count)
        })
    }

    /// Numbers with a mean and a standard deviation.
    pub fn normal<'a, T: Real>(&mut self, output: impl Into<ViewMut<'a, T>>, mean: T, deviation: T) -> Result<()> {
        // SAFETY: as in `bits`.
        self.fill("rocrand_generate_normal", output.into(), |table, handle, output, count| unsafe {
            (T::routines(table).normal)(handle, output, count, mean, deviation)
        })
    }

    /// Numbers whose logarithms have a mean and a standard deviation.
    pub fn log_normal<'a, T: Real>(&mut self, output: impl Into<ViewMut<'a, T>>, mean: T, deviation: T) -> Result<()> {
        // SAFETY: as in `bits`.
        self.fill("rocrand_generate_log_normal", output.into(), |table, handle, output, count| unsafe {
            (T::routines(table).log_normal)(handle, output, count, mean, deviation)
        })
    }

    /// Counts of events of which `lambda` are expected.
    pub fn poisson<'a>(&mut self, output: impl Into<ViewMut<'a, u32>>, lambda: f64) -> Result<()> {
        if !(lambda > 0.0 && lambda < 4294967296.0) {
            return Err(Error::refused(format!("the mean of Poisson numbers is above 0 and below 2^32, not {lambda}")));
        }
        // SAFETY: as in `bits`.
        self.fill("rocrand_generate_poisson", output.into(), |table, handle, output, count| unsafe {
            (table.rocrand_generate_poisson)(handle, output, count, lambda)
        })
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        // SAFETY: nobody else holds the handle.
        let destroyed = unsafe { (self.table.rocrand_destroy_generator)(self.handle) };
        if let Err(error) = check("rocrand_destroy_generator", destroyed) {
            log::warn!("{error}");
        }
    }
}

fn check(call: &'static str, status: rocrand_status) -> Result<()> {
    match status {
        rocrand_status::ROCRAND_STATUS_SUCCESS => Ok(()),
        rocrand_status::ROCRAND_STATUS_ALLOCATION_FAILED => Err(Error::hip(
            hip::hipError_t::hipErrorOutOfMemory,
            call,
            "using rocRAND, whose states need device memory",
        )),
        _ => Err(Error::refused(format!("{call} returned {} ({})", status.name(), status.0))),
    }
}

fn table_for(stream: &Stream) -> Result<&'static Rocrand> {
    static LIBRARY: OnceLock<Result<Rocrand>> = OnceLock::new();
    match stream.device().platform().kind() {
        PlatformKind::Host => Ok(host::table()),
        PlatformKind::Amd => {
            let library = LIBRARY.get_or_init(|| Rocrand::load(&Search::default()).map_err(Error::from));
            library.as_ref().map_err(Clone::clone)
        }
        PlatformKind::Cuda => {
            Err(Error::refused("HIP's NVIDIA platform has no rocRAND here; use an AMD GPU or the embedded device"))
        }
    }
}
