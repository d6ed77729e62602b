//! Matrix products through rocBLAS, where it can be had.
//!
//! ```
//! use rocm::blas::{Blas, Element, Gemm, Matrix};
//! let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
//! let (a, b) = (stream.upload(&[1f32, 2.0, 3.0, 4.0])?, stream.upload(&[5f32, 6.0, 7.0, 8.0])?);
//! let c = stream.alloc::<f32>(4)?;
//! let matrix = |address| Matrix { address, row_stride: 2, column_stride: 1, batch_stride: 0 };
//! let product = Gemm {
//!     element: Element::F32,
//!     result: Element::F32,
//!     m: 2,
//!     n: 2,
//!     k: 2,
//!     batch: 1,
//!     a: matrix(a.ptr().address()),
//!     b: matrix(b.ptr().address()),
//!     c: matrix(c.ptr().address()),
//! };
//! let blas = Blas::new(&stream)?.expect("the embedded device has one built in");
//! // SAFETY: all three buffers hold 2 x 2 elements and outlive the product.
//! unsafe { blas.gemm(&product)? };
//! assert_eq!(c.to_vec()?, [19.0, 22.0, 43.0, 50.0]);
//! # Ok::<(), hip::Error>(())
//! ```

mod abi;
mod cuda;
mod gemm;
mod host;
mod matrix;
mod product;
pub mod tensile;
mod vector;

pub use abi::{
    rocblas_datatype, rocblas_gemm_algo, rocblas_handle, rocblas_operation, rocblas_pointer_mode, rocblas_status, Real,
    Rocblas,
};
pub use gemm::{Element, Gemm, Matrix};
pub use matrix::{Banded, Factor, MatrixView, MatrixViewMut};
pub use vector::{Vector, VectorMut};

use gemm::Operand;
use hip::{Error, PlatformKind, Result, Stream};
use hip_abi::{Origin, Search};
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

/// rocBLAS bound to a stream.
pub struct Blas {
    table: &'static Rocblas,
    // rocBLAS allows one thread at a time in a handle.
    handle: Mutex<rocblas_handle>,
    stream: Stream,
}

impl Blas {
    /// rocBLAS for this stream's device; `None`, with one line in the log for each reason, where there is no library or it has no
    /// kernels for the device.
    pub fn new(stream: &Stream) -> Result<Option<Self>> {
        let Some(table) = table_for(stream) else { return Ok(None) };
        stream.device().make_current()?;
        let mut handle = rocblas_handle::NULL;
        // SAFETY: the pointer is to a live handle, and the device is current.
        stream.device().with_memory_retry(|| match unsafe { (table.rocblas_create_handle)(&mut handle) } {
            rocblas_status::rocblas_status_memory_error => Err(Error::hip(
                hip::hipError_t::hipErrorOutOfMemory,
                "rocblas_create_handle",
                "starting rocBLAS, which needs device memory for its workspace",
            )),
            status => check("rocblas_create_handle", status),
        })?;
        // rocBLAS has no switch against sums in half precision and needs none: where operands are shorter than the type it is asked to
        // compute in, which is f32 here, Tensile adds in that type, over split products too, and rounds once (`tensile_host.cpp` sets
        // high-precision accumulation by comparing the two sizes). Its math mode (`rocblas_set_math_mode`, since 5.6) is about f32 on
        // units for xf32, and off unless asked for; its atomics mode is about the order of sums; `rocblas_gemm_flags` (none here) would
        // put bf16 in the place of f16 on gfx90a.
        let blas = Self { table, handle: Mutex::new(handle), stream: stream.clone() };
        // SAFETY: both handles are alive; the stream is kept alive by `blas`.
        check("rocblas_set_stream", unsafe { (table.rocblas_set_stream)(handle, stream.handle()) })?;
        Ok(Some(blas))
    }

    /// Where the library comes from.
    pub fn origin(&self) -> &Origin {
        self.table.origin()
    }

    /// The stream that everything is queued on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Calls the library with the device current and the handle to itself; scalars lie where `scalars` says.
    fn call(
        &self,
        what: &str,
        scalars: rocblas_pointer_mode,
        call: impl FnOnce(&Rocblas, rocblas_handle) -> rocblas_status,
    ) -> Result<()> {
        self.stream.device().make_current()?;
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the handle is alive and locked.
        check("rocblas_set_pointer_mode", unsafe { (self.table.rocblas_set_pointer_mode)(*handle, scalars) })?;
        check(what, call(self.table, *handle))
    }

    /// Queues a product on the stream: `c = a * b`.
    ///
    /// # Safety
    /// The addresses are device memory of the sizes that the strides imply, which stays allocated until the product is done; nobody
    /// else writes to the operands or touches the result meanwhile.
    pub unsafe fn gemm(&self, product: &Gemm) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.gemm_scaled(product, 1.0, 0.0) }
    }

    /// Queues a product on the stream: `c = alpha * a * b + beta * c`. With beta zero, c is not read.
    ///
    /// # Safety
    /// As for [`gemm`](Self::gemm).
    pub unsafe fn gemm_scaled(&self, product: &Gemm, alpha: f64, beta: f64) -> Result<()> {
        let Gemm { batch, a, b, c, .. } = *product;
        if product.is_empty() {
            return Ok(());
        }
        let (call, scalars) = (Call::new(product)?, product.element.scalars(alpha, beta)?);
        let Call { right, left, out, types: [of, to, compute], sizes: [n, m, k] } = call;
        let [alpha, beta] = scalars.pointers();
        let [a_at, b_at, c_at] = [a, b, c].map(|matrix| pointer(matrix.address));
        let standard = rocblas_gemm_algo::rocblas_gemm_algo_standard;
        // SAFETY: operands and result are the caller's promise.
        let multiply = |table: &Rocblas, handle| unsafe {
            if batch == 1 {
                // The plain call has the better heuristics.
                (table.rocblas_gemm_ex)(
                    handle,
                    right.operation,
                    left.operation,
                    n,
                    m,
                    k,
                    alpha,
                    b_at,
                    of,
                    right.leading,
                    a_at,
                    of,
                    left.leading,
                    beta,
                    c_at,
                    to,
                    out.leading,
                    c_at,
                    to,
                    out.leading,
                    compute,
                    standard,
                    0,
                    0,
                )
            } else {
                let [a_stride, b_stride, c_stride] = [a, b, c].map(|matrix| matrix.batch_stride as i64);
                (table.rocblas_gemm_strided_batched_ex)(
                    handle,
                    right.operation,
                    left.operation,
                    n,
                    m,
                    k,
                    alpha,
                    b_at,
                    of,
                    right.leading,
                    b_stride,
                    a_at,
                    of,
                    left.leading,
                    a_stride,
                    beta,
                    c_at,
                    to,
                    out.leading,
                    c_stride,
                    c_at,
                    to,
                    out.leading,
                    c_stride,
                    batch as i32,
                    compute,
                    standard,
                    0,
                    0,
                )
            }
        };
        self.call("rocblas_gemm_ex", HOST_SCALARS, multiply).map_err(|error| error.with_detail(format!("{product:?}")))
    }

    /// Queues `count` products of the sizes and strides of `product`, whose matrices lie at the addresses in three lists.
    ///
    /// # Safety
    /// The lists are device memory with `count` addresses each; for every triple, as for [`gemm`](Self::gemm).
    unsafe fn gemm_listed(&self, product: &Gemm, count: usize, lists: [u64; 3], alpha: f64, beta: f64) -> Result<()> {
        if product.is_empty() {
            return Ok(());
        }
        let (call, scalars) = (Call::new(product)?, product.element.scalars(alpha, beta)?);
        let Call { right, left, out, types: [of, to, compute], sizes: [n, m, k] } = call;
        let ([alpha, beta], [a, b, c]) = (scalars.pointers(), lists.map(pointer));
        let count =
            i32::try_from(count).map_err(|_| Error::refused(format!("{count} products are too many for one call")))?;
        // SAFETY: the lists and what they name are the caller's promise.
        let multiply = |table: &Rocblas, handle| unsafe {
            (table.rocblas_gemm_batched_ex)(
                handle,
                right.operation,
                left.operation,
                n,
                m,
                k,
                alpha,
                b,
                of,
                right.leading,
                a,
                of,
                left.leading,
                beta,
                c,
                to,
                out.leading,
                c,
                to,
                out.leading,
                count,
                compute,
                rocblas_gemm_algo::rocblas_gemm_algo_standard,
                0,
                0,
            )
        };
        self.call("rocblas_gemm_batched_ex", HOST_SCALARS, multiply)
            .map_err(|error| error.with_detail(format!("{count} times {product:?}")))
    }
}

const HOST_SCALARS: rocblas_pointer_mode = rocblas_pointer_mode::rocblas_pointer_mode_host;

fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// A product in BLAS's words: the column-major product of the transposes, in which b comes first.
struct Call {
    right: Operand,
    left: Operand,
    out: Operand,
    types: [rocblas_datatype; 3],
    sizes: [i32; 3],
}

impl Call {
    fn new(product: &Gemm) -> Result<Self> {
        let Gemm { element, result, m, n, k, a, b, c, .. } = *product;
        let described = || {
            Some(Self {
                right: b.operand(k, n)?,
                left: a.operand(m, k)?,
                out: c.operand(m, n)?,
                types: [element.datatype(), result.datatype(), element.compute()],
                sizes: [n as i32, m as i32, k as i32],
            })
        };
        product.fits_blas().then(described).flatten().ok_or_else(|| {
            Error::refused(format!(
                "rocBLAS cannot multiply these matrices as they lie ({product:?}): each needs a stride of one; ask `fits_blas` first"
            ))
        })
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        let handle = *self.handle.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nobody else holds the handle.
        let status = unsafe { (self.table.rocblas_destroy_handle)(handle) };
        if status != rocblas_status::rocblas_status_success {
            log::warn!("rocblas_destroy_handle returned {}", status.name());
        }
    }
}

fn check(call: &str, status: rocblas_status) -> Result<()> {
    match status {
        rocblas_status::rocblas_status_success => Ok(()),
        _ => Err(Error::refused(format!("{call} returned {} ({})", status.name(), status.0))),
    }
}

fn table_for(stream: &Stream) -> Option<&'static Rocblas> {
    match stream.device().platform().kind() {
        // rocBLAS's kernels are not ours to run, so our own do the work of an emulated GPU.
        PlatformKind::Host if stream.device().is_emulated() => None,
        PlatformKind::Host => Some(host::table()),
        PlatformKind::Amd => amd_table(stream.device().arch()),
        PlatformKind::Cuda => cuda::table().map_err(|why| warn_once(stream.device().arch(), &why)).ok(),
    }
}

/// AMD's library, where it is installed and has kernels for the architecture.
fn amd_table(arch: &str) -> Option<&'static Rocblas> {
    static LIBRARY: OnceLock<Option<Rocblas>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| match Rocblas::load(&Search::default()) {
        Ok(table) => Some(table),
        Err(why) => {
            log::warn!("{why}; matrix products use our own kernels");
            None
        }
    });
    let table = library.as_ref()?;
    let Origin::Library(path) = table.origin() else { return Some(table) };
    let override_folder = std::env::var_os("ROCBLAS_TENSILE_LIBPATH").map(PathBuf::from);
    has_kernels(&tensile::folders(path, override_folder), arch).then_some(table)
}

/// Whether rocBLAS has kernels for an architecture in one of these folders; a line in the log where it has none.
fn has_kernels(folders: &[PathBuf], arch: &str) -> bool {
    tensile::check(folders, arch).map_err(|why| warn_once(arch, &why)).is_ok()
}

/// One line for each architecture: a machine may have a supported and an unsupported GPU. True where the line was not said before.
fn warn_once(arch: &str, why: &str) -> bool {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let new = !said.iter().any(|other| other == arch);
    if new {
        said.push(arch.to_owned());
        log::warn!("{why}");
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_without_tensile_files_is_passed_over_with_one_warning() {
        let nowhere = [PathBuf::from("/nowhere/rocblas/library")];
        assert!(!has_kernels(&nowhere, "gfx0000"));
        assert!(!warn_once("gfx0000", "said already"), "the first look has warned");
        assert!(!has_kernels(&nowhere, "gfx0000"), "and the next look does not find any either");
        assert!(warn_once("gfx0001", "another architecture has a line of its own"));
    }
}
