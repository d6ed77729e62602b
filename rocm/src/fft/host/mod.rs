//! rocFFT's ABI on the embedded device: plans, descriptions and execution infos behind handles, and the step from a call to work in
//! stream order. The transforms themselves are in `work.rs`.

mod work;

use super::abi::*;
use crate::embedded::{enqueue, Address, Registry};
use half::f16;
use hip_abi::{hipStream_t, Origin};
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};
use work::{Number, Places, Steps, Work};

/// The table of the embedded device.
pub fn table() -> &'static Rocfft {
    static TABLE: OnceLock<Rocfft> = OnceLock::new();
    TABLE.get_or_init(|| Rocfft {
        origin: Origin::BuiltIn("Fourier transforms of the embedded device"),
        rocfft_setup: setup,
        rocfft_plan_create: plan_create,
        rocfft_plan_destroy: plan_destroy,
        rocfft_plan_get_work_buffer_size: plan_get_work_buffer_size,
        rocfft_execute: execute,
        rocfft_plan_description_create: description_create,
        rocfft_plan_description_destroy: description_destroy,
        rocfft_plan_description_set_scale_factor: set_scale_factor,
        rocfft_plan_description_set_data_layout: set_data_layout,
        rocfft_execution_info_create: info_create,
        rocfft_execution_info_destroy: info_destroy,
        rocfft_execution_info_set_work_buffer: set_work_buffer,
        rocfft_execution_info_set_stream: set_stream,
    })
}

/// What a description says so far.
#[derive(Clone, Default)]
struct Description {
    layout: Option<Layout>,
    scale: Option<f64>,
}

#[derive(Clone)]
struct Layout {
    types: [rocfft_array_type; 2],
    places: [Places; 2],
}

/// A plan: what it does, by the type of its numbers, and the workspace that it asks for and does not touch.
struct Plan {
    in_place: bool,
    workspace: usize,
    work: ByType,
}

enum ByType {
    Half(Arc<Work<f16>>),
    Single(Arc<Work<f32>>),
    Double(Arc<Work<f64>>),
}

#[derive(Clone, Copy)]
struct Info {
    stream: hipStream_t,
    workspace: usize,
}

static DESCRIPTIONS: Registry<Description> = Registry::new();
static PLANS: Registry<Arc<Plan>> = Registry::new();
static INFOS: Registry<Info> = Registry::new();

const SUCCESS: rocfft_status = rocfft_status::rocfft_status_success;
const FAILURE: rocfft_status = rocfft_status::rocfft_status_failure;
const INVALID_VALUE: rocfft_status = rocfft_status::rocfft_status_invalid_arg_value;

type Outcome<T = ()> = std::result::Result<T, rocfft_status>;

fn require(condition: bool, otherwise: rocfft_status) -> Outcome {
    condition.then_some(()).ok_or(otherwise)
}

/// Runs one call, unless a test has planned its failure.
fn call(name: &'static str, body: impl FnOnce() -> Outcome) -> rocfft_status {
    match hip_host::inject::check(name) {
        Some(status) => rocfft_status(status),
        None => body().map_or_else(|refused| refused, |()| SUCCESS),
    }
}

/// Lets an object go, whatever a test has planned.
fn release<T>(name: &'static str, registry: &Registry<T>, handle: *mut c_void) -> rocfft_status {
    let known = registry.remove(handle).is_some();
    call(name, || require(known, INVALID_VALUE))
}

/// Keeps an object and writes its handle.
///
/// # Safety
/// `place` is null or room for a handle.
unsafe fn keep<T>(registry: &Registry<T>, object: T, place: *mut *mut c_void) -> Outcome {
    require(!place.is_null(), INVALID_VALUE)?;
    // SAFETY: the caller's promise, and null was refused.
    unsafe { *place = registry.insert(object) };
    Ok(())
}

unsafe extern "C" fn setup() -> rocfft_status {
    call("rocfft_setup", || Ok(()))
}

unsafe extern "C" fn description_create(description: *mut rocfft_plan_description) -> rocfft_status {
    // SAFETY: the caller passes room for a handle, which is a pointer.
    call("rocfft_plan_description_create", || unsafe {
        keep(&DESCRIPTIONS, Description::default(), description.cast())
    })
}

unsafe extern "C" fn description_destroy(description: rocfft_plan_description) -> rocfft_status {
    release("rocfft_plan_description_destroy", &DESCRIPTIONS, description.0)
}

unsafe extern "C" fn set_scale_factor(description: rocfft_plan_description, factor: f64) -> rocfft_status {
    call("rocfft_plan_description_set_scale_factor", || {
        require(factor.is_finite(), INVALID_VALUE)?;
        DESCRIPTIONS.with(description.0, |description| description.scale = Some(factor)).ok_or(INVALID_VALUE)
    })
}

/// Where elements lie, of the lists of a call.
///
/// # Safety
/// Each list is null or has that many numbers.
unsafe fn places(offsets: *const usize, count: usize, strides: *const usize, distance: usize) -> Outcome<Places> {
    let invalid = rocfft_status::rocfft_status_invalid_strides;
    require((1..=3).contains(&count) && !strides.is_null(), invalid)?;
    // SAFETY: the caller's promise, and null was refused.
    let strides = unsafe { std::slice::from_raw_parts(strides, count) }.to_vec();
    // SAFETY: as above; only the first offset counts where real and imaginary parts lie together.
    let offset = if offsets.is_null() { 0 } else { unsafe { *offsets } };
    Ok(Places { offset, strides, distance })
}

unsafe extern "C" fn set_data_layout(
    description: rocfft_plan_description,
    input_type: rocfft_array_type,
    output_type: rocfft_array_type,
    input_offsets: *const usize,
    output_offsets: *const usize,
    input_strides: usize,
    input_stride: *const usize,
    input_distance: usize,
    output_strides: usize,
    output_stride: *const usize,
    output_distance: usize,
) -> rocfft_status {
    call("rocfft_plan_description_set_data_layout", || {
        // SAFETY: the caller of the ABI vouches for the lists.
        let places = unsafe {
            [
                places(input_offsets, input_strides, input_stride, input_distance)?,
                places(output_offsets, output_strides, output_stride, output_distance)?,
            ]
        };
        let layout = Layout { types: [input_type, output_type], places };
        DESCRIPTIONS.with(description.0, |description| description.layout = Some(layout)).ok_or(INVALID_VALUE)
    })
}

unsafe extern "C" fn plan_create(
    plan: *mut rocfft_plan,
    placement: rocfft_result_placement,
    kind: rocfft_transform_type,
    precision: rocfft_precision,
    dimensions: usize,
    lengths: *const usize,
    count: usize,
    description: rocfft_plan_description,
) -> rocfft_status {
    call("rocfft_plan_create", || {
        require((1..=3).contains(&dimensions), rocfft_status::rocfft_status_invalid_dimensions)?;
        require(!lengths.is_null() && count > 0, INVALID_VALUE)?;
        // SAFETY: the caller of the ABI vouches for the list; null was refused.
        let lengths = unsafe { std::slice::from_raw_parts(lengths, dimensions) };
        require(!lengths.contains(&0), INVALID_VALUE)?;
        let description = DESCRIPTIONS.with(description.0, |description| description.clone()).ok_or(INVALID_VALUE)?;
        // Defaults are not needed here: this crate always says where elements lie.
        let layout = description.layout.ok_or(rocfft_status::rocfft_status_invalid_array_type)?;
        require(layout.types == array_types(kind)?, rocfft_status::rocfft_status_invalid_array_type)?;
        let whole = layout.places.iter().all(|places| places.strides.len() == dimensions);
        require(whole, rocfft_status::rocfft_status_invalid_strides)?;
        let in_place = placement == rocfft_result_placement::rocfft_placement_inplace;
        let alike = layout.places[0] == layout.places[1];
        require(!in_place || alike, rocfft_status::rocfft_status_invalid_strides)?;
        let [input, output] = layout.places;
        let scale = description.scale.unwrap_or(1.0);
        let steps = Steps { kind, lengths: lengths.to_vec(), count, scale, input, output, in_place };
        let work = match precision {
            rocfft_precision::rocfft_precision_half => ByType::Half(Arc::new(Work::new(steps))),
            rocfft_precision::rocfft_precision_single => ByType::Single(Arc::new(Work::new(steps))),
            rocfft_precision::rocfft_precision_double => ByType::Double(Arc::new(Work::new(steps))),
            _ => return Err(INVALID_VALUE),
        };
        // Not needed, but AMD's library wants some of most callers: it is asked for where sizes are odd.
        let workspace = if lengths.iter().any(|length| length % 2 == 1) { 64 } else { 0 };
        let made = Arc::new(Plan { in_place, workspace, work });
        // SAFETY: the caller passes room for a handle, which is a pointer.
        unsafe { keep(&PLANS, made, plan.cast()) }
    })
}

/// What goes in and comes out.
fn array_types(kind: rocfft_transform_type) -> Outcome<[rocfft_array_type; 2]> {
    let complex = rocfft_array_type::rocfft_array_type_complex_interleaved;
    let half = rocfft_array_type::rocfft_array_type_hermitian_interleaved;
    let real = rocfft_array_type::rocfft_array_type_real;
    match kind {
        rocfft_transform_type::rocfft_transform_type_complex_forward
        | rocfft_transform_type::rocfft_transform_type_complex_inverse => Ok([complex, complex]),
        rocfft_transform_type::rocfft_transform_type_real_forward => Ok([real, half]),
        rocfft_transform_type::rocfft_transform_type_real_inverse => Ok([half, real]),
        _ => Err(INVALID_VALUE),
    }
}

unsafe extern "C" fn plan_destroy(plan: rocfft_plan) -> rocfft_status {
    release("rocfft_plan_destroy", &PLANS, plan.0)
}

unsafe extern "C" fn plan_get_work_buffer_size(plan: rocfft_plan, bytes: *mut usize) -> rocfft_status {
    call("rocfft_plan_get_work_buffer_size", || {
        require(!bytes.is_null(), INVALID_VALUE)?;
        let asked = PLANS.with(plan.0, |plan| plan.workspace).ok_or(INVALID_VALUE)?;
        // SAFETY: the caller passes room for a number; null was refused.
        unsafe { *bytes = asked };
        Ok(())
    })
}

unsafe extern "C" fn info_create(info: *mut rocfft_execution_info) -> rocfft_status {
    let fresh = Info { stream: hipStream_t::NULL, workspace: 0 };
    // SAFETY: the caller passes room for a handle, which is a pointer.
    call("rocfft_execution_info_create", || unsafe { keep(&INFOS, fresh, info.cast()) })
}

unsafe extern "C" fn info_destroy(info: rocfft_execution_info) -> rocfft_status {
    release("rocfft_execution_info_destroy", &INFOS, info.0)
}

unsafe extern "C" fn set_work_buffer(
    info: rocfft_execution_info,
    workspace: *mut c_void,
    bytes: usize,
) -> rocfft_status {
    call("rocfft_execution_info_set_work_buffer", || {
        require(!workspace.is_null(), rocfft_status::rocfft_status_invalid_work_buffer)?;
        INFOS.with(info.0, |info| info.workspace = bytes).ok_or(INVALID_VALUE)
    })
}

unsafe extern "C" fn set_stream(info: rocfft_execution_info, stream: *mut c_void) -> rocfft_status {
    call("rocfft_execution_info_set_stream", || {
        INFOS.with(info.0, |info| info.stream = hipStream_t(stream)).ok_or(INVALID_VALUE)
    })
}

unsafe extern "C" fn execute(
    plan: rocfft_plan,
    input: *mut *mut c_void,
    output: *mut *mut c_void,
    info: rocfft_execution_info,
) -> rocfft_status {
    call("rocfft_execute", || {
        let plan = PLANS.with(plan.0, |plan| plan.clone()).ok_or(INVALID_VALUE)?;
        let info = INFOS.with(info.0, |info| *info).ok_or(INVALID_VALUE)?;
        require(info.workspace >= plan.workspace, rocfft_status::rocfft_status_invalid_work_buffer)?;
        let output = if plan.in_place { input } else { output };
        require(!input.is_null() && !output.is_null(), INVALID_VALUE)?;
        // SAFETY: the caller passes lists of one address; null was refused.
        let (from, to) = unsafe { (*input, *output) };
        require(!from.is_null() && !to.is_null(), INVALID_VALUE)?;
        match &plan.work {
            ByType::Half(work) => queue(work, info.stream, from, to),
            ByType::Single(work) => queue(work, info.stream, from, to),
            ByType::Double(work) => queue(work, info.stream, from, to),
        }
    })
}

fn queue<N: Number>(work: &Arc<Work<N>>, stream: hipStream_t, from: *mut c_void, to: *mut c_void) -> Outcome {
    let (work, from, to) = (work.clone(), Address::of(from), Address::of(to));
    require(from.is_aligned(size_of::<N>()) && to.is_aligned(size_of::<N>()), INVALID_VALUE)?;
    let written = work.written();
    let first = to.beyond(written.start * size_of::<N>());
    let bytes = written.len() * size_of::<N>();
    // SAFETY: whoever queued the work vouches for both pieces of memory until it has run.
    let run = move || unsafe { work.run(from.pointer(), to.pointer()) };
    require(enqueue(stream, &[(first, bytes)], run), FAILURE)
}
