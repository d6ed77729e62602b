//! Layers of neural networks through MIOpen, where it can be had.
//!
//! ```
//! use rocm::miopen::{Convolution, Miopen, Tensor, TensorMut};
//! let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
//! let miopen = Miopen::new(&stream)?.expect("the embedded device has one built in");
//! let (image, taps) = (stream.upload(&[1f32, 2.0, 3.0, 4.0])?, stream.upload(&[10f32, 1.0])?);
//! let mut out = stream.alloc::<f32>(3)?;
//! let (x, w) = (Tensor::new(&image, &[1, 1, 1, 4])?, Tensor::new(&taps, &[1, 1, 1, 2])?);
//! miopen.convolution_forward(&Convolution::default(), &x, &w, &mut TensorMut::new(&mut out, &[1, 1, 1, 3])?)?;
//! assert_eq!(out.to_vec()?, [12.0, 23.0, 34.0]);
//! # Ok::<(), hip::Error>(())
//! ```
//!
//! Tensors are contiguous and have four dimensions: batch, channels, height, width. Handles and tensors are here, convolutions in
//! `convolution.rs`, batch normalisation in `batch.rs`, everything else in `layers.rs`.

mod abi;
mod batch;
mod convolution;
mod host;
mod layers;

pub use abi::*;
pub use batch::{BatchNormalization, BatchStatistics};
pub use convolution::Convolution;
pub use layers::{Activation, Pooling, Softmax, Window};

use half::{bf16, f16};
use hip::{DeviceCopy, Error, PlatformKind, Result, Stream, View, ViewMut};
use hip_abi::{Origin, Search};
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The element types that MIOpen computes with.
pub trait Element: DeviceCopy {
    /// MIOpen's name of the type.
    const TYPE: miopenDataType_t;
}

impl Element for f16 {
    const TYPE: miopenDataType_t = miopenDataType_t::miopenHalf;
}

impl Element for bf16 {
    const TYPE: miopenDataType_t = miopenDataType_t::miopenBFloat16;
}

impl Element for f32 {
    const TYPE: miopenDataType_t = miopenDataType_t::miopenFloat;
}

/// Batch, channels, height, width.
pub type Sizes = [usize; 4];

/// A contiguous tensor, to read.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a, T> {
    view: View<'a, T>,
    sizes: Sizes,
}

/// A contiguous tensor, to write.
#[derive(Debug)]
pub struct TensorMut<'a, T> {
    view: ViewMut<'a, T>,
    sizes: Sizes,
}

/// What both kinds of tensor have in common.
macro_rules! common {
    ($tensor:ident, $view:ident) => {
        impl<'a, T: Element> $tensor<'a, T> {
            /// A tensor of these sizes at the beginning of some memory.
            pub fn new(view: impl Into<$view<'a, T>>, sizes: &Sizes) -> Result<Self> {
                let view = view.into();
                let elements = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
                let counted = elements.is_some_and(|count| count <= view.len() && i32::try_from(count).is_ok());
                if !counted || sizes.contains(&0) {
                    return Err(Error::refused(format!(
                        "a tensor of sizes {sizes:?} needs at least one element, at most {} of them and 2^31; MIOpen has no empty ones",
                        view.len()
                    )));
                }
                Ok(Self { view, sizes: *sizes })
            }

            /// Batch, channels, height, width.
            pub fn sizes(&self) -> &Sizes {
                &self.sizes
            }
        }
    };
}
common!(Tensor, View);
common!(TensorMut, ViewMut);

/// A tensor as a call takes it.
struct Argument {
    is: Descriptor<miopenTensorDescriptor_t>,
    at: *mut c_void,
}

/// A descriptor that goes with its owner.
struct Descriptor<D: Copy> {
    handle: D,
    destroy: unsafe extern "C" fn(D) -> miopenStatus_t,
}

impl<D: Copy> Descriptor<D> {
    fn new(
        none: D,
        create: unsafe extern "C" fn(*mut D) -> miopenStatus_t,
        destroy: unsafe extern "C" fn(D) -> miopenStatus_t,
    ) -> Result<Self> {
        let mut handle = none;
        // SAFETY: the pointer is to a live handle.
        check("creating a descriptor", unsafe { create(&mut handle) })?;
        Ok(Self { handle, destroy })
    }
}

impl<D: Copy> Drop for Descriptor<D> {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this one's own, and calls have copied what they need of it.
        if let Err(error) = check("destroying a descriptor", unsafe { (self.destroy)(self.handle) }) {
            log::warn!("{error}");
        }
    }
}

/// MIOpen bound to a stream.
pub struct Miopen {
    table: &'static MiopenTable,
    // MIOpen allows one thread at a time in a handle.
    handle: Mutex<miopenHandle_t>,
    stream: Stream,
}

impl Miopen {
    /// MIOpen for this stream's device; `None`, with one line in the log, where there is no library.
    pub fn new(stream: &Stream) -> Result<Option<Self>> {
        let Some(table) = table_for(stream) else { return Ok(None) };
        stream.device().make_current()?;
        let mut handle = miopenHandle_t::NULL;
        stream.device().with_memory_retry(|| {
            // SAFETY: the pointer is to a live handle, the device is current, and `stream` is kept alive below.
            check("miopenCreateWithStream", unsafe { (table.miopenCreateWithStream)(&mut handle, stream.handle()) })
        })?;
        Ok(Some(Self { table, handle: Mutex::new(handle), stream: stream.clone() }))
    }

    /// Where the library comes from.
    pub fn origin(&self) -> &Origin {
        self.table.origin()
    }

    /// The stream that everything is queued on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Calls the library with the device current and the handle to itself.
    fn call(
        &self,
        what: &'static str,
        call: impl FnOnce(&MiopenTable, miopenHandle_t) -> miopenStatus_t,
    ) -> Result<()> {
        self.stream.device().make_current()?;
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        check(what, call(self.table, *handle))
    }

    fn describe(&self, of: miopenDataType_t, sizes: &Sizes) -> Result<Descriptor<miopenTensorDescriptor_t>> {
        let (create, destroy) = (self.table.miopenCreateTensorDescriptor, self.table.miopenDestroyTensorDescriptor);
        let descriptor = Descriptor::new(miopenTensorDescriptor_t::NULL, create, destroy)?;
        let [_, c, h, w] = *sizes;
        let (sizes, strides) = (ints(sizes), ints(&[c * h * w, h * w, w, 1]));
        // SAFETY: the descriptor is alive, and both lists have four numbers.
        check("miopenSetTensorDescriptor", unsafe {
            (self.table.miopenSetTensorDescriptor)(descriptor.handle, of, 4, sizes.as_ptr(), strides.as_ptr())
        })?;
        Ok(descriptor)
    }

    /// A tensor to read, checked to belong to the stream.
    fn input<T: Element>(&self, tensor: &Tensor<'_, T>) -> Result<Argument> {
        self.stream.uses(tensor.view)?;
        Ok(Argument { is: self.describe(T::TYPE, &tensor.sizes)?, at: tensor.view.ptr().as_raw() })
    }

    /// A tensor to write, checked to belong to the stream.
    fn output<T: Element>(&self, tensor: &TensorMut<'_, T>) -> Result<Argument> {
        self.stream.uses(tensor.view.as_view())?;
        Ok(Argument { is: self.describe(T::TYPE, &tensor.sizes)?, at: tensor.view.ptr().as_raw() })
    }
}

impl Drop for Miopen {
    fn drop(&mut self) {
        let handle = *self.handle.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nobody else holds the handle.
        if let Err(error) = check("miopenDestroy", unsafe { (self.table.miopenDestroy)(handle) }) {
            log::warn!("{error}");
        }
    }
}

/// Sizes as C takes them; tensors were checked to have fewer than 2^31 elements.
fn ints<const N: usize>(values: &[usize; N]) -> [c_int; N] {
    values.map(|value| c_int::try_from(value).unwrap_or(c_int::MAX))
}

/// One and zero, which results are multiplied with and added to.
const ONE: f32 = 1.0;
const ZERO: f32 = 0.0;

fn scalar(value: &f32) -> *const c_void {
    std::ptr::from_ref(value).cast()
}

/// Refuses tensors that do not go together.
fn same_sizes(op: &str, one: &Sizes, other: &Sizes) -> Result<()> {
    match one == other {
        true => Ok(()),
        false => Err(Error::refused(format!("{op} takes tensors of the same sizes, not {one:?} and {other:?}"))),
    }
}

fn check(call: &'static str, status: miopenStatus_t) -> Result<()> {
    match status {
        miopenStatus_t::miopenStatusSuccess => Ok(()),
        miopenStatus_t::miopenStatusAllocFailed => Err(Error::hip(
            hip::hipError_t::hipErrorOutOfMemory,
            call,
            "using MIOpen, which needs device memory of its own",
        )),
        _ => Err(Error::refused(format!("{call} returned {} ({})", status.name(), status.0))),
    }
}

fn table_for(stream: &Stream) -> Option<&'static MiopenTable> {
    static LIBRARY: OnceLock<Option<MiopenTable>> = OnceLock::new();
    match stream.device().platform().kind() {
        PlatformKind::Host if stream.device().is_emulated() => None,
        PlatformKind::Host => Some(host::table()),
        PlatformKind::Amd => {
            let load = || MiopenTable::load(&Search::default());
            let found =
                LIBRARY.get_or_init(|| load().map_err(|why| log::warn!("{why}; our own kernels are used")).ok());
            found.as_ref()
        }
        PlatformKind::Cuda => {
            static SAID: OnceLock<()> = OnceLock::new();
            SAID.get_or_init(|| log::warn!("HIP's NVIDIA platform has no MIOpen; our own kernels are used"));
            None
        }
    }
}
