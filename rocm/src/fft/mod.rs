//! Fast Fourier transforms through rocFFT, where it can be had.
//!
//! ```
//! # #[cfg(feature = "fft")] {
//! use rocm::fft::{Kind, Plan, Transform};
//! let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
//! // Two rows of four real numbers; of each spectrum the first three complex numbers.
//! let plan = Plan::<f32>::new(&stream, &Transform::new(Kind::RealForward, &[4]).batch(2))?;
//! let mut rows = stream.upload(&[1f32, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])?;
//! let mut spectra = stream.alloc::<f32>(plan.output_len())?;
//! plan.execute(&mut rows, &mut spectra)?;
//! assert_eq!(spectra.to_vec()?, [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
//! # }
//! # Ok::<(), hip::Error>(())
//! ```
//!
//! What a transform is stands in `transform.rs`. On the embedded device rustfft does the work, where this crate is built with its
//! feature `fft`.

mod abi;
#[cfg(feature = "fft")]
mod host;
mod transform;

pub use abi::*;
pub use transform::{Kind, Transform};

use hip::{hipError_t, Error, PlatformKind, Result, Stream, ViewMut};
use hip_abi::{Origin, Search};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use transform::Side;

/// A transform made ready for a stream. It can be run any number of times; what it needs of memory beside its operands it takes from the
/// stream's pool while it runs.
pub struct Plan<T> {
    transform: Transform,
    /// Nothing where there are no transforms to do.
    library: Option<Shared>,
    /// In the stream's keeping, so that whoever drops this need not wait.
    is_kept: bool,
    stream: Stream,
    element: PhantomData<fn(T)>,
}

/// The library's part of a plan. An execution changes it, so that one thread at a time may run it.
type Shared = Arc<Mutex<LibraryPlan>>;

impl<T: Real> Plan<T> {
    /// Makes a plan. That may take long, since the library may compile kernels: keep the plan where the transform is done often.
    pub fn new(stream: &Stream, transform: &Transform) -> Result<Self> {
        transform.check()?;
        let make = || LibraryPlan::new::<T>(stream, transform);
        let library = (transform.batch > 0).then(make).transpose()?.map(|plan| Arc::new(Mutex::new(plan)));
        Ok(Self::with(stream, transform, library, false))
    }

    /// The plan that the stream keeps for this transform, made when it is asked for the first time. A stream keeps the [`KEPT`] plans that
    /// were used last.
    pub fn kept(stream: &Stream, transform: &Transform) -> Result<Self> {
        transform.check()?;
        if transform.batch == 0 {
            return Self::new(stream, transform);
        }
        let kept = stream.state(|| Ok(Kept::default()))?;
        let mut plans = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = plans.iter().position(|(other, precision, _)| other == transform && *precision == T::PRECISION);
        let entry = match known {
            Some(position) => plans.remove(position),
            None => {
                let plan = LibraryPlan::new::<T>(stream, transform)?;
                make_room(stream, &mut plans)?;
                (transform.clone(), T::PRECISION, Arc::new(Mutex::new(plan)))
            }
        };
        let library = entry.2.clone();
        plans.push(entry);
        Ok(Self::with(stream, transform, Some(library), true))
    }

    fn with(stream: &Stream, transform: &Transform, library: Option<Shared>, is_kept: bool) -> Self {
        Self { transform: transform.clone(), library, is_kept, stream: stream.clone(), element: PhantomData }
    }

    /// The number of elements that go in, all transforms together; a complex one counts twice.
    pub fn input_len(&self) -> usize {
        self.transform.input_len()
    }

    /// The number of elements that come out.
    pub fn output_len(&self) -> usize {
        self.transform.output_len()
    }

    /// Queues the transforms. The library may use the input's memory for what it has on the way, so what is in it afterwards is anything.
    pub fn execute<'i, 'o>(&self, input: impl Into<ViewMut<'i, T>>, output: impl Into<ViewMut<'o, T>>) -> Result<()> {
        let (input, output) = (input.into(), output.into());
        if self.transform.in_place {
            return Err(Error::refused("the plan was made to work in place; run it with `execute_in_place`"));
        }
        self.takes("goes in", &input, self.input_len())?;
        self.takes("comes out", &output, self.output_len())?;
        self.run(&input, &output)
    }

    /// Queues the transforms of a plan whose results take the elements' places.
    pub fn execute_in_place<'d>(&self, data: impl Into<ViewMut<'d, T>>) -> Result<()> {
        let data = data.into();
        if !self.transform.in_place {
            return Err(Error::refused(
                "the plan was made for results of their own; run it with `execute`, or ask for `Transform::in_place`",
            ));
        }
        self.takes("goes in", &data, self.input_len())?;
        self.run(&data, &data)
    }

    fn takes(&self, what: &str, memory: &ViewMut<'_, T>, len: usize) -> Result<()> {
        if memory.len() != len {
            return Err(Error::refused(format!(
                "{}: what {what} has {len} elements of {} (a complex one counts twice), not {}",
                self.transform,
                T::NAME,
                memory.len()
            )));
        }
        self.stream.uses(memory)
    }

    fn run(&self, input: &ViewMut<'_, T>, output: &ViewMut<'_, T>) -> Result<()> {
        let Some(shared) = &self.library else { return Ok(()) };
        let library = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let (table, plan, info, bytes) = (library.table, library.plan, library.info, library.workspace);
        // Dropped at the end of this call: the memory goes back to the stream's pool, behind the work queued here.
        let workspace = self.stream.alloc::<u8>(bytes)?;
        self.stream.device().make_current()?;
        if bytes > 0 {
            let at = workspace.ptr().as_raw();
            // SAFETY: the handle is alive and locked; the memory has the length that the plan asked for.
            let set = unsafe { (table.rocfft_execution_info_set_work_buffer)(info, at, bytes) };
            check("rocfft_execution_info_set_work_buffer", set)?;
        }
        let mut places = [input.ptr().as_raw(), output.ptr().as_raw()];
        let [from, to] = &mut places;
        // SAFETY: the handles are alive and locked; each list names one piece of memory of the stream, whose length was checked.
        let queued = unsafe { (table.rocfft_execute)(plan, from, to, info) };
        check("rocfft_execute", queued).map_err(|error| error.with_detail(self.transform.to_string()))?;
        self.stream.keep_in_capture(shared.clone());
        Ok(())
    }
}

impl<T> Plan<T> {
    /// Where the library comes from; `None` where there are no transforms to do.
    pub fn origin(&self) -> Option<&'static Origin> {
        self.library.as_ref().map(|library| library.lock().unwrap_or_else(PoisonError::into_inner).table.origin())
    }
}

impl<T> Drop for Plan<T> {
    fn drop(&mut self) {
        let Some(library) = self.library.as_ref().filter(|_| !self.is_kept) else { return };
        // The library's kernels read tables of the plan until they are done.
        if self.stream.is_capturing() {
            self.stream.keep_in_capture(library.clone());
        } else if let Err(error) = self.stream.synchronize() {
            log::warn!("before a plan of rocFFT goes: {error}");
        }
    }
}

impl<T> std::fmt::Debug for Plan<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plan({})", self.transform)
    }
}

/// How many plans a stream keeps.
pub const KEPT: usize = 64;

/// The plans that a stream keeps, from the one that was used longest ago. They end with the stream, after its last work.
#[derive(Default)]
struct Kept(Mutex<Vec<(Transform, rocfft_precision, Shared)>>);

/// Lets plans go until there is room for one more. Those that somebody holds stay: a graph, or whoever is about to run one.
fn make_room(stream: &Stream, plans: &mut Vec<(Transform, rocfft_precision, Shared)>) -> Result<()> {
    if plans.len() < KEPT {
        return Ok(());
    }
    let free = |entry: &(_, _, Shared)| Arc::strong_count(&entry.2) == 1;
    if let Some(position) = plans.iter().position(free) {
        // Nobody but this list has it, and nobody can get it meanwhile: what it has queued is what is waited for.
        stream.synchronize()?;
        plans.remove(position);
    }
    Ok(())
}

/// A plan of the library's, and how it is run. Whoever drops it has waited for its work.
struct LibraryPlan {
    table: &'static Rocfft,
    plan: rocfft_plan,
    info: rocfft_execution_info,
    /// Bytes that an execution needs beside its operands.
    workspace: usize,
}

impl LibraryPlan {
    fn new<T: Real>(stream: &Stream, transform: &Transform) -> Result<Self> {
        if stream.is_capturing() {
            return Err(Error::refused(format!(
                "{transform}: a plan cannot be made while the stream is being captured; make it before, or do the transform once"
            )));
        }
        let table = table_for(stream)?;
        stream.device().make_current()?;
        let description = Description::new(table, transform)?;
        let lengths: Vec<usize> = transform.sizes.iter().rev().copied().collect();
        let (placement, kind) = (placement(transform), kind(transform.kind));
        let (dimensions, count, of) = (lengths.len(), transform.batch, description.handle);
        let mut made = Self { table, plan: rocfft_plan::NULL, info: rocfft_execution_info::NULL, workspace: 0 };
        let mut status = rocfft_status::rocfft_status_success;
        let created = stream.device().with_memory_retry(|| {
            // SAFETY: the pointers are to a live handle and as many lengths as said; the description is alive.
            status = unsafe {
                let (plan, lengths) = (&mut made.plan, lengths.as_ptr());
                (table.rocfft_plan_create)(plan, placement, kind, T::PRECISION, dimensions, lengths, count, of)
            };
            match status {
                // All that rocFFT says where its tables find no room.
                rocfft_status::rocfft_status_failure => Err(Error::hip(
                    hipError_t::hipErrorOutOfMemory,
                    "rocfft_plan_create",
                    "making a plan of rocFFT, whose tables need device memory",
                )),
                status => check("rocfft_plan_create", status),
            }
        });
        created.map_err(|error| match status {
            rocfft_status::rocfft_status_success => error,
            _ => Error::refused(format!(
                "rocFFT makes no plan for {transform} of {}: rocfft_plan_create returned {} ({}); it does not say why: free device memory where that is short, and see whether this release of ROCm knows the type and the GPU",
                T::NAME,
                status.name(),
                status.0
            )),
        })?;
        // SAFETY: the plan is alive, and the pointer is to a live number.
        let asked = unsafe { (table.rocfft_plan_get_work_buffer_size)(made.plan, &mut made.workspace) };
        check("rocfft_plan_get_work_buffer_size", asked)?;
        // SAFETY: the pointer is to a live handle.
        check("rocfft_execution_info_create", unsafe { (table.rocfft_execution_info_create)(&mut made.info) })?;
        // SAFETY: both handles are alive. Whoever runs the plan holds the stream, or the stream holds the plan.
        let bound = unsafe { (table.rocfft_execution_info_set_stream)(made.info, stream.handle().0) };
        check("rocfft_execution_info_set_stream", bound)?;
        Ok(made)
    }
}

impl Drop for LibraryPlan {
    fn drop(&mut self) {
        let mut outcomes = [Ok(()), Ok(())];
        if !self.info.is_null() {
            // SAFETY: nobody else holds the handle.
            let status = unsafe { (self.table.rocfft_execution_info_destroy)(self.info) };
            outcomes[0] = check("rocfft_execution_info_destroy", status);
        }
        if !self.plan.is_null() {
            // SAFETY: as above, and what it had queued is done.
            outcomes[1] = check("rocfft_plan_destroy", unsafe { (self.table.rocfft_plan_destroy)(self.plan) });
        }
        outcomes.into_iter().filter_map(Result::err).for_each(|error| log::warn!("{error}"));
    }
}

/// What a plan is made from; the plan copies it.
struct Description {
    table: &'static Rocfft,
    handle: rocfft_plan_description,
}

impl Description {
    fn new(table: &'static Rocfft, transform: &Transform) -> Result<Self> {
        let mut handle = rocfft_plan_description::NULL;
        // SAFETY: the pointer is to a live handle.
        check("rocfft_plan_description_create", unsafe { (table.rocfft_plan_description_create)(&mut handle) })?;
        let description = Self { table, handle };
        let [input, output] = transform.sides();
        let none = std::ptr::null();
        // SAFETY: the handle is alive, and each list of strides is as long as said. Without offsets elements begin at once.
        let set = unsafe {
            (table.rocfft_plan_description_set_data_layout)(
                handle,
                array_type(&input),
                array_type(&output),
                none,
                none,
                input.strides.len(),
                input.strides.as_ptr(),
                input.distance,
                output.strides.len(),
                output.strides.as_ptr(),
                output.distance,
            )
        };
        check("rocfft_plan_description_set_data_layout", set)?;
        // SAFETY: the handle is alive.
        let set = unsafe { (table.rocfft_plan_description_set_scale_factor)(handle, transform.scale) };
        check("rocfft_plan_description_set_scale_factor", set)?;
        Ok(description)
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: nobody else holds the handle.
        let destroyed = unsafe { (self.table.rocfft_plan_description_destroy)(self.handle) };
        if let Err(error) = check("rocfft_plan_description_destroy", destroyed) {
            log::warn!("{error}");
        }
    }
}

fn placement(transform: &Transform) -> rocfft_result_placement {
    match transform.in_place {
        true => rocfft_result_placement::rocfft_placement_inplace,
        false => rocfft_result_placement::rocfft_placement_notinplace,
    }
}

fn kind(kind: Kind) -> rocfft_transform_type {
    match kind {
        Kind::Forward => rocfft_transform_type::rocfft_transform_type_complex_forward,
        Kind::Inverse => rocfft_transform_type::rocfft_transform_type_complex_inverse,
        Kind::RealForward => rocfft_transform_type::rocfft_transform_type_real_forward,
        Kind::RealInverse => rocfft_transform_type::rocfft_transform_type_real_inverse,
    }
}

fn array_type(side: &Side) -> rocfft_array_type {
    match (side.is_real, side.half) {
        (true, _) => rocfft_array_type::rocfft_array_type_real,
        (false, true) => rocfft_array_type::rocfft_array_type_hermitian_interleaved,
        (false, false) => rocfft_array_type::rocfft_array_type_complex_interleaved,
    }
}

fn check(call: &str, status: rocfft_status) -> Result<()> {
    match status {
        rocfft_status::rocfft_status_success => Ok(()),
        _ => Err(Error::refused(format!("{call} returned {} ({})", status.name(), status.0))),
    }
}

fn table_for(stream: &Stream) -> Result<&'static Rocfft> {
    static LIBRARY: OnceLock<Result<Rocfft>> = OnceLock::new();
    match stream.device().platform().kind() {
        PlatformKind::Host => embedded(),
        PlatformKind::Amd => {
            let table = LIBRARY.get_or_init(load).as_ref().map_err(Clone::clone)?;
            set_up(table, stream)?;
            Ok(table)
        }
        PlatformKind::Cuda => {
            Err(Error::refused("HIP's NVIDIA platform has no rocFFT here; use an AMD GPU or the embedded device"))
        }
    }
}

fn load() -> Result<Rocfft> {
    Rocfft::load(&Search::default()).map_err(|why| {
        Error::refused(format!(
            "Fourier transforms on an AMD GPU need rocFFT: install AMD's package rocfft, or Debian's librocfft0: {why}"
        ))
    })
}

/// Sets rocFFT up, once. Where that fails, the next plan tries again.
fn set_up(table: &Rocfft, stream: &Stream) -> Result<()> {
    static DONE: Mutex<bool> = Mutex::new(false);
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !*done {
        stream.device().make_current()?;
        // SAFETY: the call takes nothing, and only cleaning up must not come before it.
        check("rocfft_setup", unsafe { (table.rocfft_setup)() })?;
        *done = true;
    }
    Ok(())
}

#[cfg(feature = "fft")]
fn embedded() -> Result<&'static Rocfft> {
    Ok(host::table())
}

#[cfg(not(feature = "fft"))]
fn embedded() -> Result<&'static Rocfft> {
    Err(Error::refused(
        "this program was built without Fourier transforms for the embedded device; build the crate rocm with its feature `fft`",
    ))
}
