//! rocBLAS's ABI on the embedded device: everything runs in stream order on CPU threads. Handles and scalars are here, vectors
//! in `vectors.rs`, products in `products.rs`.

mod products;
mod vectors;

use super::abi::*;
use crate::embedded::{enqueue, Address, Registry};
use hip_abi::{hipStream_t, Origin};
use std::sync::OnceLock;

/// The table of the embedded device.
pub fn table() -> &'static Rocblas {
    static TABLE: OnceLock<Rocblas> = OnceLock::new();
    TABLE.get_or_init(|| Rocblas {
        origin: Origin::BuiltIn("BLAS of the embedded device"),
        rocblas_create_handle: create_handle,
        rocblas_destroy_handle: destroy_handle,
        rocblas_set_stream: set_stream,
        rocblas_set_pointer_mode: set_pointer_mode,
        rocblas_get_version_string: None,
        rocblas_saxpy: vectors::axpy,
        rocblas_sdot: vectors::dot,
        rocblas_snrm2: vectors::nrm2,
        rocblas_sasum: vectors::asum,
        rocblas_isamax: vectors::amax::<f32>,
        rocblas_isamin: vectors::amin::<f32>,
        rocblas_sscal: vectors::scal,
        rocblas_scopy: vectors::copy,
        rocblas_sswap: vectors::swap,
        rocblas_sgemv: vectors::gemv,
        rocblas_sgbmv: vectors::gbmv,
        rocblas_daxpy: vectors::axpy,
        rocblas_ddot: vectors::dot,
        rocblas_dnrm2: vectors::nrm2,
        rocblas_dasum: vectors::asum,
        rocblas_idamax: vectors::amax::<f64>,
        rocblas_idamin: vectors::amin::<f64>,
        rocblas_dscal: vectors::scal,
        rocblas_dcopy: vectors::copy,
        rocblas_dswap: vectors::swap,
        rocblas_dgemv: vectors::gemv,
        rocblas_dgbmv: vectors::gbmv,
        rocblas_gemm_ex: products::gemm_ex,
        rocblas_gemm_batched_ex: products::gemm_batched_ex,
        rocblas_gemm_strided_batched_ex: products::gemm_strided_batched_ex,
    })
}

/// What a handle holds.
#[derive(Clone, Copy)]
struct Context {
    stream: hipStream_t,
    scalars_on_device: bool,
}

static CONTEXTS: Registry<Context> = Registry::new();

const SUCCESS: rocblas_status = rocblas_status::rocblas_status_success;
const INVALID_HANDLE: rocblas_status = rocblas_status::rocblas_status_invalid_handle;
const INVALID_POINTER: rocblas_status = rocblas_status::rocblas_status_invalid_pointer;
const INVALID_SIZE: rocblas_status = rocblas_status::rocblas_status_invalid_size;
const NOT_IMPLEMENTED: rocblas_status = rocblas_status::rocblas_status_not_implemented;

/// The status of a call whose steps may each refuse.
fn answer(outcome: Result<(), rocblas_status>) -> rocblas_status {
    outcome.map_or_else(|refused| refused, |()| SUCCESS)
}

fn require(condition: bool, otherwise: rocblas_status) -> Result<(), rocblas_status> {
    condition.then_some(()).ok_or(otherwise)
}

impl Context {
    fn of(handle: rocblas_handle) -> Result<Self, rocblas_status> {
        CONTEXTS.with(handle.0, |context| *context).ok_or(INVALID_HANDLE)
    }

    /// A scalar argument: its value now, or where its value will be.
    ///
    /// # Safety
    /// `at` points to a value, on the host or the device as the handle's mode says.
    unsafe fn scalar<T: Copy>(&self, at: *const T) -> Result<Scalar<T>, rocblas_status> {
        require(!at.is_null(), INVALID_POINTER)?;
        Ok(match self.scalars_on_device {
            true => Scalar::At(Address::of(at)),
            // SAFETY: the caller's promise, and null was refused.
            false => Scalar::Value(unsafe { at.read_unaligned() }),
        })
    }

    /// Queues work that fills `bytes` at `target`.
    fn run<T>(
        &self,
        target: *mut T,
        bytes: usize,
        work: impl Fn() + Send + Sync + 'static,
    ) -> Result<(), rocblas_status> {
        require(
            enqueue(self.stream, &[(Address::of(target), bytes)], work),
            rocblas_status::rocblas_status_internal_error,
        )
    }

    /// Queues work whose result is one value, and waits for it where the result lies on the host.
    fn reduce<T: Copy + Send + Sync + 'static>(
        &self,
        result: *mut T,
        value: impl Fn() -> T + Send + Sync + 'static,
    ) -> Result<(), rocblas_status> {
        require(!result.is_null(), INVALID_POINTER)?;
        let at = Address::of(result);
        let bytes = if self.scalars_on_device { size_of::<T>() } else { 0 };
        // SAFETY: the caller of the ABI vouches for the place of the result until the work is done.
        self.run(result, bytes, move || unsafe { at.pointer::<T>().write_unaligned(value()) })?;
        if self.scalars_on_device {
            return Ok(());
        }
        // SAFETY: the stream is the handle's.
        let waited = unsafe { (hip_host::table().hipStreamSynchronize)(self.stream) };
        require(waited.is_success(), rocblas_status::rocblas_status_internal_error)
    }
}

/// A scalar argument of queued work.
#[derive(Clone, Copy)]
enum Scalar<T> {
    Value(T),
    At(Address),
}

impl<T: Copy> Scalar<T> {
    fn get(&self) -> T {
        match self {
            Self::Value(value) => *value,
            // SAFETY: whoever queued the work vouches for the scalar until it has run.
            Self::At(address) => unsafe { address.pointer::<T>().read_unaligned() },
        }
    }
}

unsafe extern "C" fn create_handle(handle: *mut rocblas_handle) -> rocblas_status {
    if handle.is_null() {
        return INVALID_POINTER;
    }
    if let Some(status) = hip_host::inject::check("rocblas_create_handle") {
        return rocblas_status(status as _);
    }
    let id = CONTEXTS.insert(Context { stream: hipStream_t::NULL, scalars_on_device: false });
    // SAFETY: the caller passes a place for a handle; null was refused above.
    unsafe { *handle = rocblas_handle(id) };
    SUCCESS
}

unsafe extern "C" fn destroy_handle(handle: rocblas_handle) -> rocblas_status {
    CONTEXTS.remove(handle.0).map_or(INVALID_HANDLE, |_| SUCCESS)
}

unsafe extern "C" fn set_stream(handle: rocblas_handle, stream: hipStream_t) -> rocblas_status {
    CONTEXTS.with(handle.0, |context| context.stream = stream).map_or(INVALID_HANDLE, |()| SUCCESS)
}

unsafe extern "C" fn set_pointer_mode(handle: rocblas_handle, mode: rocblas_pointer_mode) -> rocblas_status {
    let device = mode == rocblas_pointer_mode::rocblas_pointer_mode_device;
    CONTEXTS.with(handle.0, |context| context.scalars_on_device = device).map_or(INVALID_HANDLE, |()| SUCCESS)
}
