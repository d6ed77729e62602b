//! MIOpen's C ABI as `miopen.h` declares it (MIOpen 2 and 3): descriptors, convolutions, pooling, activations, batch normalisation, softmax.

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

use hip_abi::hipStream_t;
use std::ffi::{c_int, c_void};

hip_abi::handles! {
    /// The library's state for one stream.
    miopenHandle_t;
    /// A tensor's element type, sizes and strides.
    miopenTensorDescriptor_t;
    /// A convolution's padding, strides, dilations and groups.
    miopenConvolutionDescriptor_t;
    /// A pooling window.
    miopenPoolingDescriptor_t;
    /// An activation with its parameters.
    miopenActivationDescriptor_t;
}

/// HIP's stream under MIOpen's name.
pub type miopenAcceleratorQueue_t = hipStream_t;

hip_abi::integers! {
    /// What a call came to.
    miopenStatus_t: u32 {
        miopenStatusSuccess = 0;
        miopenStatusNotInitialized = 1;
        miopenStatusInvalidValue = 2;
        miopenStatusBadParm = 3;
        miopenStatusAllocFailed = 4;
        miopenStatusInternalError = 5;
        miopenStatusNotImplemented = 6;
        miopenStatusUnknownError = 7;
        miopenStatusUnsupportedOp = 8;
    }

    /// Element types.
    miopenDataType_t: u32 {
        miopenHalf = 0;
        miopenFloat = 1;
        miopenBFloat16 = 5;
    }

    /// Kinds of convolutions.
    miopenConvolutionMode_t: u32 {
        miopenConvolution = 0;
        miopenTranspose = 1;
    }

    /// Ways to compute a convolution; the same numbers in all three directions.
    miopenConvAlgorithm_t: u32 {
        miopenConvolutionAlgoGEMM = 0;
        miopenConvolutionAlgoDirect = 1;
        miopenConvolutionAlgoFFT = 2;
        miopenConvolutionAlgoWinograd = 3;
        miopenConvolutionAlgoImplicitGEMM = 5;
    }

    /// What a pooling window makes of its elements.
    miopenPoolingMode_t: u32 {
        miopenPoolingMax = 0;
        miopenPoolingAverage = 1;
        miopenPoolingAverageInclusive = 2;
    }

    /// How the place of a maximum is kept.
    miopenIndexType_t: u32 {
        miopenIndexUint8 = 0;
        miopenIndexUint16 = 1;
        miopenIndexUint32 = 2;
    }

    /// Activations.
    miopenActivationMode_t: u32 {
        miopenActivationPASTHRU = 0;
        miopenActivationLOGISTIC = 1;
        miopenActivationTANH = 2;
        miopenActivationRELU = 3;
        miopenActivationSOFTRELU = 4;
        miopenActivationABS = 5;
        miopenActivationPOWER = 6;
        miopenActivationCLIPPEDRELU = 7;
        miopenActivationLEAKYRELU = 8;
        miopenActivationELU = 9;
    }

    /// What shares a mean and a variance.
    miopenBatchNormMode_t: u32 {
        miopenBNPerActivation = 0;
        miopenBNSpatial = 1;
    }

    /// Forms of softmax.
    miopenSoftmaxAlgorithm_t: u32 {
        MIOPEN_SOFTMAX_FAST = 0;
        MIOPEN_SOFTMAX_ACCURATE = 1;
        MIOPEN_SOFTMAX_LOG = 2;
    }

    /// What a softmax sums over.
    miopenSoftmaxMode_t: u32 {
        MIOPEN_SOFTMAX_MODE_INSTANCE = 0;
        MIOPEN_SOFTMAX_MODE_CHANNEL = 1;
    }
}

/// The algorithms under the name that each direction's functions have for them.
pub type miopenConvFwdAlgorithm_t = miopenConvAlgorithm_t;
/// As above.
pub type miopenConvBwdDataAlgorithm_t = miopenConvAlgorithm_t;
/// As above.
pub type miopenConvBwdWeightsAlgorithm_t = miopenConvAlgorithm_t;

/// How one algorithm did in a search.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct miopenConvAlgoPerf_t {
    /// The algorithm; a union of the three directions' in C.
    pub algorithm: miopenConvAlgorithm_t,
    /// Milliseconds.
    pub time: f32,
    /// Bytes of workspace it needs.
    pub memory: usize,
}

hip_abi::library! {
    /// MIOpen.
    pub struct MiopenTable in ["MIOpen"] versions [1] {
        fn miopenGetVersion(major: *mut usize, minor: *mut usize, patch: *mut usize) -> miopenStatus_t;
        fn miopenCreateWithStream(handle: *mut miopenHandle_t, stream: miopenAcceleratorQueue_t) -> miopenStatus_t;
        fn miopenDestroy(handle: miopenHandle_t) -> miopenStatus_t;

        // Descriptors
        fn miopenCreateTensorDescriptor(tensor: *mut miopenTensorDescriptor_t) -> miopenStatus_t;
        fn miopenSetTensorDescriptor(tensor: miopenTensorDescriptor_t, of: miopenDataType_t, rank: c_int, sizes: *const c_int, strides: *const c_int) -> miopenStatus_t;
        fn miopenDestroyTensorDescriptor(tensor: miopenTensorDescriptor_t) -> miopenStatus_t;
        fn miopenCreateConvolutionDescriptor(convolution: *mut miopenConvolutionDescriptor_t) -> miopenStatus_t;
        fn miopenInitConvolutionNdDescriptor(convolution: miopenConvolutionDescriptor_t, dimensions: c_int, padding: *const c_int, strides: *const c_int, dilations: *const c_int, mode: miopenConvolutionMode_t) -> miopenStatus_t;
        fn miopenSetConvolutionGroupCount(convolution: miopenConvolutionDescriptor_t, groups: c_int) -> miopenStatus_t;
        fn miopenDestroyConvolutionDescriptor(convolution: miopenConvolutionDescriptor_t) -> miopenStatus_t;
        fn miopenCreatePoolingDescriptor(pooling: *mut miopenPoolingDescriptor_t) -> miopenStatus_t;
        fn miopenSetNdPoolingDescriptor(pooling: miopenPoolingDescriptor_t, mode: miopenPoolingMode_t, dimensions: c_int, window: *const c_int, padding: *const c_int, strides: *const c_int) -> miopenStatus_t;
        fn miopenSetPoolingIndexType(pooling: miopenPoolingDescriptor_t, index: miopenIndexType_t) -> miopenStatus_t;
        fn miopenDestroyPoolingDescriptor(pooling: miopenPoolingDescriptor_t) -> miopenStatus_t;
        fn miopenCreateActivationDescriptor(activation: *mut miopenActivationDescriptor_t) -> miopenStatus_t;
        fn miopenSetActivationDescriptor(activation: miopenActivationDescriptor_t, mode: miopenActivationMode_t, alpha: f64, beta: f64, gamma: f64) -> miopenStatus_t;
        fn miopenDestroyActivationDescriptor(activation: miopenActivationDescriptor_t) -> miopenStatus_t;

        // Convolutions
        fn miopenConvolutionForwardGetWorkSpaceSize(handle: miopenHandle_t, w: miopenTensorDescriptor_t, x: miopenTensorDescriptor_t, convolution: miopenConvolutionDescriptor_t, y: miopenTensorDescriptor_t, bytes: *mut usize) -> miopenStatus_t;
        fn miopenFindConvolutionForwardAlgorithm(handle: miopenHandle_t, x_is: miopenTensorDescriptor_t, x: *const c_void, w_is: miopenTensorDescriptor_t, w: *const c_void, convolution: miopenConvolutionDescriptor_t, y_is: miopenTensorDescriptor_t, y: *mut c_void, requested: c_int, returned: *mut c_int, results: *mut miopenConvAlgoPerf_t, workspace: *mut c_void, bytes: usize, exhaustive: bool) -> miopenStatus_t;
        fn miopenConvolutionForward(handle: miopenHandle_t, alpha: *const c_void, x_is: miopenTensorDescriptor_t, x: *const c_void, w_is: miopenTensorDescriptor_t, w: *const c_void, convolution: miopenConvolutionDescriptor_t, algorithm: miopenConvFwdAlgorithm_t, beta: *const c_void, y_is: miopenTensorDescriptor_t, y: *mut c_void, workspace: *mut c_void, bytes: usize) -> miopenStatus_t;
        fn miopenConvolutionBackwardDataGetWorkSpaceSize(handle: miopenHandle_t, dy: miopenTensorDescriptor_t, w: miopenTensorDescriptor_t, convolution: miopenConvolutionDescriptor_t, dx: miopenTensorDescriptor_t, bytes: *mut usize) -> miopenStatus_t;
        fn miopenFindConvolutionBackwardDataAlgorithm(handle: miopenHandle_t, dy_is: miopenTensorDescriptor_t, dy: *const c_void, w_is: miopenTensorDescriptor_t, w: *const c_void, convolution: miopenConvolutionDescriptor_t, dx_is: miopenTensorDescriptor_t, dx: *mut c_void, requested: c_int, returned: *mut c_int, results: *mut miopenConvAlgoPerf_t, workspace: *mut c_void, bytes: usize, exhaustive: bool) -> miopenStatus_t;
        fn miopenConvolutionBackwardData(handle: miopenHandle_t, alpha: *const c_void, dy_is: miopenTensorDescriptor_t, dy: *const c_void, w_is: miopenTensorDescriptor_t, w: *const c_void, convolution: miopenConvolutionDescriptor_t, algorithm: miopenConvBwdDataAlgorithm_t, beta: *const c_void, dx_is: miopenTensorDescriptor_t, dx: *mut c_void, workspace: *mut c_void, bytes: usize) -> miopenStatus_t;
        fn miopenConvolutionBackwardWeightsGetWorkSpaceSize(handle: miopenHandle_t, dy: miopenTensorDescriptor_t, x: miopenTensorDescriptor_t, convolution: miopenConvolutionDescriptor_t, dw: miopenTensorDescriptor_t, bytes: *mut usize) -> miopenStatus_t;
        fn miopenFindConvolutionBackwardWeightsAlgorithm(handle: miopenHandle_t, dy_is: miopenTensorDescriptor_t, dy: *const c_void, x_is: miopenTensorDescriptor_t, x: *const c_void, convolution: miopenConvolutionDescriptor_t, dw_is: miopenTensorDescriptor_t, dw: *mut c_void, requested: c_int, returned: *mut c_int, results: *mut miopenConvAlgoPerf_t, workspace: *mut c_void, bytes: usize, exhaustive: bool) -> miopenStatus_t;
        fn miopenConvolutionBackwardWeights(handle: miopenHandle_t, alpha: *const c_void, dy_is: miopenTensorDescriptor_t, dy: *const c_void, x_is: miopenTensorDescriptor_t, x: *const c_void, convolution: miopenConvolutionDescriptor_t, algorithm: miopenConvBwdWeightsAlgorithm_t, beta: *const c_void, dw_is: miopenTensorDescriptor_t, dw: *mut c_void, workspace: *mut c_void, bytes: usize) -> miopenStatus_t;

        // Pooling
        fn miopenPoolingGetWorkSpaceSizeV2(pooling: miopenPoolingDescriptor_t, y: miopenTensorDescriptor_t, bytes: *mut usize) -> miopenStatus_t;
        fn miopenPoolingForward(handle: miopenHandle_t, pooling: miopenPoolingDescriptor_t, alpha: *const c_void, x_is: miopenTensorDescriptor_t, x: *const c_void, beta: *const c_void, y_is: miopenTensorDescriptor_t, y: *mut c_void, for_backward: bool, workspace: *mut c_void, bytes: usize) -> miopenStatus_t;
        fn miopenPoolingBackward(handle: miopenHandle_t, pooling: miopenPoolingDescriptor_t, alpha: *const c_void, y_is: miopenTensorDescriptor_t, y: *const c_void, dy_is: miopenTensorDescriptor_t, dy: *const c_void, x_is: miopenTensorDescriptor_t, x: *const c_void, beta: *const c_void, dx_is: miopenTensorDescriptor_t, dx: *mut c_void, workspace: *mut c_void) -> miopenStatus_t;

        // Activations
        fn miopenActivationForward(handle: miopenHandle_t, activation: miopenActivationDescriptor_t, alpha: *const c_void, x_is: miopenTensorDescriptor_t, x: *const c_void, beta: *const c_void, y_is: miopenTensorDescriptor_t, y: *mut c_void) -> miopenStatus_t;
        fn miopenActivationBackward(handle: miopenHandle_t, activation: miopenActivationDescriptor_t, alpha: *const c_void, y_is: miopenTensorDescriptor_t, y: *const c_void, dy_is: miopenTensorDescriptor_t, dy: *const c_void, x_is: miopenTensorDescriptor_t, x: *const c_void, beta: *const c_void, dx_is: miopenTensorDescriptor_t, dx: *mut c_void) -> miopenStatus_t;

        // Batch normalisation
        fn miopenBatchNormalizationForwardTraining(handle: miopenHandle_t, mode: miopenBatchNormMode_t, alpha: *mut c_void, beta: *mut c_void, x_is: miopenTensorDescriptor_t, x: *const c_void, y_is: miopenTensorDescriptor_t, y: *mut c_void, parameters: miopenTensorDescriptor_t, scale: *mut c_void, bias: *mut c_void, factor: f64, running_mean: *mut c_void, running_variance: *mut c_void, epsilon: f64, mean: *mut c_void, inverse_deviation: *mut c_void) -> miopenStatus_t;
        fn miopenBatchNormalizationForwardInference(handle: miopenHandle_t, mode: miopenBatchNormMode_t, alpha: *mut c_void, beta: *mut c_void, x_is: miopenTensorDescriptor_t, x: *const c_void, y_is: miopenTensorDescriptor_t, y: *mut c_void, parameters: miopenTensorDescriptor_t, scale: *mut c_void, bias: *mut c_void, mean: *mut c_void, variance: *mut c_void, epsilon: f64) -> miopenStatus_t;
        fn miopenBatchNormalizationBackward(handle: miopenHandle_t, mode: miopenBatchNormMode_t, alpha_data: *const c_void, beta_data: *const c_void, alpha_parameters: *const c_void, beta_parameters: *const c_void, x_is: miopenTensorDescriptor_t, x: *const c_void, dy_is: miopenTensorDescriptor_t, dy: *const c_void, dx_is: miopenTensorDescriptor_t, dx: *mut c_void, parameters: miopenTensorDescriptor_t, scale: *const c_void, d_scale: *mut c_void, d_bias: *mut c_void, epsilon: f64, mean: *const c_void, inverse_deviation: *const c_void) -> miopenStatus_t;

        // Softmax
        fn miopenSoftmaxForward_V2(handle: miopenHandle_t, alpha: *const c_void, x_is: miopenTensorDescriptor_t, x: *const c_void, beta: *const c_void, y_is: miopenTensorDescriptor_t, y: *mut c_void, algorithm: miopenSoftmaxAlgorithm_t, mode: miopenSoftmaxMode_t) -> miopenStatus_t;
        fn miopenSoftmaxBackward_V2(handle: miopenHandle_t, alpha: *const c_void, y_is: miopenTensorDescriptor_t, y: *const c_void, dy_is: miopenTensorDescriptor_t, dy: *const c_void, beta: *const c_void, dx_is: miopenTensorDescriptor_t, dx: *mut c_void, algorithm: miopenSoftmaxAlgorithm_t, mode: miopenSoftmaxMode_t) -> miopenStatus_t;
    }
}
