//! MIOpen's ABI on the embedded device: everything runs in stream order on CPU threads and computes in f32, whatever the tensors hold.
//! Handles, descriptors and tensors are here, convolutions in `convolution.rs`, batch normalisation in `batch.rs`, the rest in `layers.rs`.

mod batch;
mod convolution;
mod layers;

use super::abi::*;
use crate::embedded::{enqueue, Address, Registry};
use half::{bf16, f16};
use hip_abi::{hipStream_t, Origin};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// The table of the embedded device.
pub fn table() -> &'static MiopenTable {
    static TABLE: OnceLock<MiopenTable> = OnceLock::new();
    TABLE.get_or_init(|| MiopenTable {
        origin: Origin::BuiltIn("layers of the embedded device"),
        miopenGetVersion: version,
        miopenCreateWithStream: create_with_stream,
        miopenDestroy: destroy,
        miopenCreateTensorDescriptor: tensor::create,
        miopenSetTensorDescriptor: set_tensor,
        miopenDestroyTensorDescriptor: tensor::destroy,
        miopenCreateConvolutionDescriptor: convolution_descriptor::create,
        miopenInitConvolutionNdDescriptor: convolution::init,
        miopenSetConvolutionGroupCount: convolution::set_groups,
        miopenDestroyConvolutionDescriptor: convolution_descriptor::destroy,
        miopenCreatePoolingDescriptor: pooling::create,
        miopenSetNdPoolingDescriptor: layers::set_pooling,
        miopenSetPoolingIndexType: layers::set_pooling_index,
        miopenDestroyPoolingDescriptor: pooling::destroy,
        miopenCreateActivationDescriptor: activation::create,
        miopenSetActivationDescriptor: layers::set_activation,
        miopenDestroyActivationDescriptor: activation::destroy,
        miopenConvolutionForwardGetWorkSpaceSize: convolution::workspace,
        miopenFindConvolutionForwardAlgorithm: convolution::find,
        miopenConvolutionForward: convolution::run_forward,
        miopenConvolutionBackwardDataGetWorkSpaceSize: convolution::workspace,
        miopenFindConvolutionBackwardDataAlgorithm: convolution::find,
        miopenConvolutionBackwardData: convolution::run_backward_data,
        miopenConvolutionBackwardWeightsGetWorkSpaceSize: convolution::workspace,
        miopenFindConvolutionBackwardWeightsAlgorithm: convolution::find,
        miopenConvolutionBackwardWeights: convolution::run_backward_weights,
        miopenPoolingGetWorkSpaceSizeV2: layers::pooling_workspace,
        miopenPoolingForward: layers::pooling_forward,
        miopenPoolingBackward: layers::pooling_backward,
        miopenActivationForward: layers::activation_forward,
        miopenActivationBackward: layers::activation_backward,
        miopenBatchNormalizationForwardTraining: batch::training,
        miopenBatchNormalizationForwardInference: batch::inference,
        miopenBatchNormalizationBackward: batch::backward,
        miopenSoftmaxForward_V2: layers::softmax_forward,
        miopenSoftmaxBackward_V2: layers::softmax_backward,
    })
}

const SUCCESS: miopenStatus_t = miopenStatus_t::miopenStatusSuccess;
const BAD_PARAMETER: miopenStatus_t = miopenStatus_t::miopenStatusBadParm;
const NOT_IMPLEMENTED: miopenStatus_t = miopenStatus_t::miopenStatusNotImplemented;

type Outcome<T = ()> = Result<T, miopenStatus_t>;

fn answer(outcome: Outcome) -> miopenStatus_t {
    outcome.map_or_else(|refused| refused, |()| SUCCESS)
}

fn require(condition: bool) -> Outcome {
    condition.then_some(()).ok_or(BAD_PARAMETER)
}

static STREAMS: Registry<hipStream_t> = Registry::new();

unsafe extern "C" fn version(major: *mut usize, minor: *mut usize, patch: *mut usize) -> miopenStatus_t {
    for part in [major, minor, patch] {
        if part.is_null() {
            return BAD_PARAMETER;
        }
        // SAFETY: null was refused. Not a release of AMD's.
        unsafe { *part = 0 };
    }
    SUCCESS
}

unsafe extern "C" fn create_with_stream(handle: *mut miopenHandle_t, stream: hipStream_t) -> miopenStatus_t {
    if handle.is_null() {
        return BAD_PARAMETER;
    }
    if let Some(status) = hip_host::inject::check("miopenCreateWithStream") {
        return miopenStatus_t(status as _);
    }
    // SAFETY: the caller passes a place for a handle; null was refused.
    unsafe { *handle = miopenHandle_t(STREAMS.insert(stream)) };
    SUCCESS
}

unsafe extern "C" fn destroy(handle: miopenHandle_t) -> miopenStatus_t {
    STREAMS.remove(handle.0).map_or(BAD_PARAMETER, |_| SUCCESS)
}

/// A registry of descriptors, with the functions that make and destroy them.
macro_rules! descriptors {
    ($($module:ident: $handle:ty => $object:ty;)*) => {$(
        mod $module {
            use super::*;

            pub static OBJECTS: Registry<$object> = Registry::new();

            pub unsafe extern "C" fn create(place: *mut $handle) -> miopenStatus_t {
                if place.is_null() {
                    return BAD_PARAMETER;
                }
                // SAFETY: the caller passes a place for a descriptor; null was refused.
                unsafe { (*place).0 = OBJECTS.insert(<$object>::default()) };
                SUCCESS
            }

            pub unsafe extern "C" fn destroy(handle: $handle) -> miopenStatus_t {
                OBJECTS.remove(handle.0).map_or(BAD_PARAMETER, |_| SUCCESS)
            }

            /// A copy of what a descriptor says.
            pub fn get(handle: $handle) -> Outcome<$object> {
                OBJECTS.with(handle.0, |object| *object).ok_or(BAD_PARAMETER)
            }
        }
    )*};
}

descriptors! {
    tensor: miopenTensorDescriptor_t => Shape;
    convolution_descriptor: miopenConvolutionDescriptor_t => convolution::Geometry;
    pooling: miopenPoolingDescriptor_t => layers::Pool;
    activation: miopenActivationDescriptor_t => layers::Activated;
}

/// What a tensor's descriptor says; always four dimensions.
#[derive(Clone, Copy, Debug)]
struct Shape {
    of: miopenDataType_t,
    sizes: [usize; 4],
    strides: [usize; 4],
}

impl Default for Shape {
    fn default() -> Self {
        Self { of: miopenDataType_t::miopenFloat, sizes: [0; 4], strides: [0; 4] }
    }
}

/// Some numbers from a list that a caller passes.
///
/// # Safety
/// The list has `N` numbers.
unsafe fn numbers<const N: usize>(list: *const c_int) -> Outcome<[usize; N]> {
    require(!list.is_null())?;
    // SAFETY: the caller's promise, and null was refused.
    let values = unsafe { list.cast::<[c_int; N]>().read_unaligned() };
    require(values.iter().all(|&value| value >= 0))?;
    Ok(values.map(|value| value as usize))
}

unsafe extern "C" fn set_tensor(
    descriptor: miopenTensorDescriptor_t,
    of: miopenDataType_t,
    rank: c_int,
    sizes: *const c_int,
    strides: *const c_int,
) -> miopenStatus_t {
    let act = || {
        require(rank == 4)?;
        // SAFETY: both lists have `rank` numbers.
        let (sizes, strides) = unsafe { (numbers(sizes)?, numbers(strides)?) };
        tensor::OBJECTS.with(descriptor.0, |shape| *shape = Shape { of, sizes, strides }).ok_or(BAD_PARAMETER)
    };
    answer(act())
}

/// A tensor as it is queued.
#[derive(Clone, Copy)]
struct Placed {
    shape: Shape,
    address: Address,
}

impl Placed {
    fn new<T>(descriptor: miopenTensorDescriptor_t, at: *const T) -> Outcome<Self> {
        require(!at.is_null())?;
        Ok(Self { shape: tensor::get(descriptor)?, address: Address::of(at) })
    }

    /// A number for each channel, in f32.
    fn parameters<T>(count: usize, at: *const T) -> Outcome<Self> {
        require(!at.is_null())?;
        let shape = Shape { sizes: [1, count, 1, 1], strides: [count, 1, 1, 1], ..Shape::default() };
        Ok(Self { shape, address: Address::of(at) })
    }

    fn sizes(&self) -> [usize; 4] {
        self.shape.sizes
    }

    fn count(&self) -> usize {
        self.sizes().iter().product()
    }

    /// The place of each element, in row-major order.
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let ([n, c, h, w], s) = (self.sizes(), self.shape.strides);
        (0..n * c * h).flat_map(move |row| {
            let start = row / (c * h) * s[0] + row / h % c * s[1] + row % h * s[2];
            (0..w).map(move |x| start + x * s[3])
        })
    }

    /// All elements, in row-major order.
    fn read(&self) -> Vec<f32> {
        fn each<T: Copy>(tensor: &Placed, wide: impl Fn(T) -> f32) -> Vec<f32> {
            let first = tensor.address.pointer::<T>();
            // SAFETY: whoever queued the work vouches for the tensor until it has run.
            tensor.places().map(|at| wide(unsafe { *first.add(at) })).collect()
        }
        match self.shape.of {
            miopenDataType_t::miopenHalf => each(self, f16::to_f32),
            miopenDataType_t::miopenBFloat16 => each(self, bf16::to_f32),
            _ => each(self, std::convert::identity::<f32>),
        }
    }

    /// Writes `alpha` times the values, plus `beta` times what was there.
    fn write(&self, mut values: Vec<f32>, (alpha, beta): (f32, f32)) {
        fn each<T>(tensor: &Placed, values: Vec<f32>, narrow: impl Fn(f32) -> T) {
            let first = tensor.address.pointer::<T>();
            // SAFETY: whoever queued the work vouches for the tensor until it has run.
            tensor.places().zip(values).for_each(|(at, value)| unsafe { first.add(at).write(narrow(value)) });
        }
        if alpha != 1.0 || beta != 0.0 {
            let before = if beta == 0.0 { vec![0.0; values.len()] } else { self.read() };
            values.iter_mut().zip(before).for_each(|(value, before)| *value = alpha * *value + beta * before);
        }
        match self.shape.of {
            miopenDataType_t::miopenHalf => each(self, values, f16::from_f32),
            miopenDataType_t::miopenBFloat16 => each(self, values, bf16::from_f32),
            _ => each(self, values, std::convert::identity),
        }
    }

    /// The bytes from the first element to the last.
    fn bytes(&self) -> usize {
        let size = if self.shape.of == miopenDataType_t::miopenFloat { 4 } else { 2 };
        let last: usize =
            self.sizes().iter().zip(self.shape.strides).map(|(size, stride)| (size.max(&1) - 1) * stride).sum();
        if self.count() == 0 {
            0
        } else {
            (last + 1) * size
        }
    }
}

/// Alpha and beta of a call.
///
/// # Safety
/// Both point to a float on the host.
unsafe fn blend(alpha: *const c_void, beta: *const c_void) -> Outcome<(f32, f32)> {
    require(!alpha.is_null() && !beta.is_null())?;
    // SAFETY: the caller's promise, and null was refused.
    unsafe { Ok((alpha.cast::<f32>().read_unaligned(), beta.cast::<f32>().read_unaligned())) }
}

/// Queues work that fills `outputs`.
fn queue(handle: miopenHandle_t, outputs: &[&Placed], work: impl Fn() + Send + Sync + 'static) -> Outcome {
    let stream = STREAMS.with(handle.0, |stream| *stream).ok_or(BAD_PARAMETER)?;
    let known = [miopenDataType_t::miopenHalf, miopenDataType_t::miopenBFloat16, miopenDataType_t::miopenFloat];
    if outputs.iter().any(|output| !known.contains(&output.shape.of)) {
        return Err(NOT_IMPLEMENTED);
    }
    let writes: Vec<(Address, usize)> = outputs.iter().map(|output| (output.address, output.bytes())).collect();
    enqueue(stream, &writes, work).then_some(()).ok_or(miopenStatus_t::miopenStatusInternalError)
}
