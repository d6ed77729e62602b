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
mod tensile;

pub use abi::{rocblas_datatype, rocblas_gemm_algo, rocblas_operation, rocblas_status, Rocblas};
pub use gemm::{Element, Gemm, Matrix};

use abi::rocblas_handle;
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

// SAFETY: the handle is only used under its lock, and rocBLAS does not tie it to a thread.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    /// rocBLAS for this stream's device; `None`, with one line in the log for each reason, where there is no library or it has no
    /// kernels for the device.
    pub fn new(stream: &Stream) -> Result<Option<Self>> {
        let Some(table) = table_for(stream) else { return Ok(None) };
        stream.device().make_current()?;
        let mut handle = rocblas_handle(std::ptr::null_mut());
        // SAFETY: the pointer is to a live handle, and the device is current.
        check("rocblas_create_handle", unsafe { (table.rocblas_create_handle)(&mut handle) })?;
        let blas = Self { table, handle: Mutex::new(handle), stream: stream.clone() };
        // SAFETY: both handles are alive; the stream is kept alive by `blas`.
        check("rocblas_set_stream", unsafe { (table.rocblas_set_stream)(handle, stream.handle()) })?;
        Ok(Some(blas))
    }

    /// Where the library comes from.
    pub fn origin(&self) -> &Origin {
        self.table.origin()
    }

    /// Queues a product on the stream.
    ///
    /// # Safety
    /// The addresses are device memory of the sizes that the strides imply, which stays allocated until the product is done; nobody
    /// else writes to the operands or touches the result meanwhile.
    pub unsafe fn gemm(&self, product: &Gemm) -> Result<()> {
        let Gemm { element, m, n, k, batch, a, b, c } = *product;
        if m == 0 || n == 0 || batch == 0 {
            return Ok(());
        }
        let operands = product
            .fits_blas()
            .then(|| Some((a.operand(m, k)?, b.operand(k, n)?, c.operand(m, n)?)))
            .flatten()
            .ok_or_else(|| {
                Error::refused(format!(
                    "rocBLAS cannot multiply these matrices as they lie ({product:?}): each needs a stride of one; ask `fits_blas` first"
                ))
            })?;
        let (left, right, out) = operands;
        // rocBLAS refuses null operands even when k is zero, where it does not read them.
        let (one, zero) = ((1f32, 1f64), (0f32, 0f64));
        let scalar = |pair: &(f32, f64)| -> *const c_void {
            match element {
                Element::F64 => (&raw const pair.1).cast(),
                _ => (&raw const pair.0).cast(),
            }
        };
        let pointer = |address: u64| std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
        self.stream.device().make_current()?;
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        // The column-major product of the transposes: b comes first.
        // SAFETY: the handle is alive and locked; operands and result are the caller's promise.
        let status = unsafe {
            (self.table.rocblas_gemm_strided_batched_ex)(
                *handle,
                right.operation,
                left.operation,
                n as i32,
                m as i32,
                k as i32,
                scalar(&one),
                pointer(b.address),
                element.datatype(),
                right.leading,
                b.batch_stride as i64,
                pointer(a.address),
                element.datatype(),
                left.leading,
                a.batch_stride as i64,
                scalar(&zero),
                pointer(c.address),
                element.datatype(),
                out.leading,
                c.batch_stride as i64,
                pointer(c.address),
                element.datatype(),
                out.leading,
                c.batch_stride as i64,
                batch as i32,
                element.compute(),
                rocblas_gemm_algo::rocblas_gemm_algo_standard,
                0,
                0,
            )
        };
        check("rocblas_gemm_strided_batched_ex", status).map_err(|error| error.with_detail(format!("{product:?}")))
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
    match tensile::check(&tensile::folders(path, override_folder), arch) {
        Ok(_) => Some(table),
        Err(why) => {
            warn_once(arch, &why);
            None
        }
    }
}

/// One line for each architecture: a machine may have a supported and an unsupported GPU.
fn warn_once(arch: &str, why: &str) {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !said.iter().any(|other| other == arch) {
        said.push(arch.to_owned());
        log::warn!("{why}");
    }
}
