//! The driver's result codes and the HIP codes they become. One table holds both names; HIP took most of its numbers
//! from CUDA, so a row that merely repeats the number is left to the fallback only where both names mean the same.

use hip_abi::hipError_t;

/// A result code of the CUDA driver; zero is success.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CUresult(pub u32);

macro_rules! results {
    ($($cuda:ident = $code:literal => $hip:ident;)*) => {
        #[allow(missing_docs)]
        impl CUresult {
            $(pub const $cuda: Self = Self($code);)*

            /// Every code of the table, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$cuda),*];

            /// The driver's name of this code.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($code => stringify!($cuda),)*
                    _ => "CUDA_ERROR_UNLISTED",
                }
            }

            /// The HIP code with the same meaning, or the nearest; `hipErrorUnknown` for a code newer than the table.
            pub const fn hip(self) -> hipError_t {
                match self.0 {
                    $($code => hipError_t::$hip,)*
                    _ => hipError_t::hipErrorUnknown,
                }
            }
        }
    };
}

results! {
    CUDA_SUCCESS = 0 => hipSuccess;
    CUDA_ERROR_INVALID_VALUE = 1 => hipErrorInvalidValue;
    CUDA_ERROR_OUT_OF_MEMORY = 2 => hipErrorOutOfMemory;
    CUDA_ERROR_NOT_INITIALIZED = 3 => hipErrorNotInitialized;
    CUDA_ERROR_DEINITIALIZED = 4 => hipErrorDeinitialized;
    CUDA_ERROR_STUB_LIBRARY = 34 => hipErrorInsufficientDriver;
    CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER = 36 => hipErrorInsufficientDriver;
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46 => hipErrorNoDevice;
    CUDA_ERROR_NO_DEVICE = 100 => hipErrorNoDevice;
    CUDA_ERROR_INVALID_DEVICE = 101 => hipErrorInvalidDevice;
    CUDA_ERROR_DEVICE_NOT_LICENSED = 102 => hipErrorNoDevice;
    CUDA_ERROR_INVALID_IMAGE = 200 => hipErrorInvalidImage;
    CUDA_ERROR_INVALID_CONTEXT = 201 => hipErrorInvalidContext;
    CUDA_ERROR_MAP_FAILED = 205 => hipErrorMapFailed;
    CUDA_ERROR_UNMAP_FAILED = 206 => hipErrorUnmapFailed;
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209 => hipErrorNoBinaryForGpu;
    CUDA_ERROR_ECC_UNCORRECTABLE = 214 => hipErrorECCNotCorrectable;
    CUDA_ERROR_UNSUPPORTED_LIMIT = 215 => hipErrorUnsupportedLimit;
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217 => hipErrorPeerAccessUnsupported;
    CUDA_ERROR_INVALID_PTX = 218 => hipErrorInvalidKernelFile;
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220 => hipErrorECCNotCorrectable;
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221 => hipErrorSharedObjectInitFailed;
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222 => hipErrorInvalidKernelFile;
    CUDA_ERROR_JIT_COMPILATION_DISABLED = 223 => hipErrorNotSupported;
    CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 225 => hipErrorNotSupported;
    CUDA_ERROR_INVALID_SOURCE = 300 => hipErrorInvalidSource;
    CUDA_ERROR_FILE_NOT_FOUND = 301 => hipErrorFileNotFound;
    CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302 => hipErrorSharedObjectSymbolNotFound;
    CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303 => hipErrorSharedObjectInitFailed;
    CUDA_ERROR_OPERATING_SYSTEM = 304 => hipErrorOperatingSystem;
    CUDA_ERROR_INVALID_HANDLE = 400 => hipErrorInvalidHandle;
    CUDA_ERROR_ILLEGAL_STATE = 401 => hipErrorIllegalState;
    CUDA_ERROR_NOT_FOUND = 500 => hipErrorNotFound;
    CUDA_ERROR_NOT_READY = 600 => hipErrorNotReady;
    CUDA_ERROR_ILLEGAL_ADDRESS = 700 => hipErrorIllegalAddress;
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701 => hipErrorLaunchOutOfResources;
    CUDA_ERROR_LAUNCH_TIMEOUT = 702 => hipErrorLaunchTimeOut;
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704 => hipErrorPeerAccessAlreadyEnabled;
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705 => hipErrorPeerAccessNotEnabled;
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708 => hipErrorSetOnActiveProcess;
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709 => hipErrorContextIsDestroyed;
    CUDA_ERROR_ASSERT = 710 => hipErrorAssert;
    CUDA_ERROR_TOO_MANY_PEERS = 711 => hipErrorPeerAccessUnsupported;
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712 => hipErrorHostMemoryAlreadyRegistered;
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713 => hipErrorHostMemoryNotRegistered;
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714 => hipErrorLaunchFailure;
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715 => hipErrorLaunchFailure;
    CUDA_ERROR_MISALIGNED_ADDRESS = 716 => hipErrorIllegalAddress;
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717 => hipErrorIllegalAddress;
    CUDA_ERROR_INVALID_PC = 718 => hipErrorLaunchFailure;
    CUDA_ERROR_LAUNCH_FAILED = 719 => hipErrorLaunchFailure;
    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720 => hipErrorCooperativeLaunchTooLarge;
    CUDA_ERROR_NOT_PERMITTED = 800 => hipErrorNotSupported;
    CUDA_ERROR_NOT_SUPPORTED = 801 => hipErrorNotSupported;
    CUDA_ERROR_SYSTEM_NOT_READY = 802 => hipErrorNotInitialized;
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803 => hipErrorInsufficientDriver;
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804 => hipErrorInsufficientDriver;
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900 => hipErrorStreamCaptureUnsupported;
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901 => hipErrorStreamCaptureInvalidated;
    CUDA_ERROR_STREAM_CAPTURE_MERGE = 902 => hipErrorStreamCaptureMerge;
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903 => hipErrorStreamCaptureUnmatched;
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904 => hipErrorStreamCaptureUnjoined;
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905 => hipErrorStreamCaptureIsolation;
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906 => hipErrorStreamCaptureImplicit;
    CUDA_ERROR_CAPTURED_EVENT = 907 => hipErrorCapturedEvent;
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908 => hipErrorStreamCaptureWrongThread;
    CUDA_ERROR_TIMEOUT = 909 => hipErrorLaunchTimeOut;
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910 => hipErrorGraphExecUpdateFailure;
    CUDA_ERROR_INVALID_CLUSTER_SIZE = 912 => hipErrorInvalidConfiguration;
    CUDA_ERROR_UNKNOWN = 999 => hipErrorUnknown;
}

impl CUresult {
    /// Success, or the HIP code.
    pub(crate) fn check(self) -> Result<(), hipError_t> {
        match self {
            Self::CUDA_SUCCESS => Ok(()),
            failed => Err(failed.hip()),
        }
    }
}

impl std::fmt::Debug for CUresult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_and_only_success_is_success() {
        for pair in CUresult::ALL.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{:?} is not below {:?}", pair[0], pair[1]);
        }
        for code in CUresult::ALL {
            assert_eq!(code.hip().is_success(), code.0 == 0, "{code:?}");
        }
        assert_eq!(CUresult(4242).hip(), hipError_t::hipErrorUnknown);
    }

    #[test]
    fn a_number_both_sides_use_keeps_its_number() {
        // HIP's driver-style codes were numbered after CUDA's: a row that breaks this is a slip of the pen.
        for code in CUresult::ALL.iter().filter(|code| hipError_t::ALL.contains(&hipError_t(code.0))) {
            assert_eq!(code.hip().0, code.0, "{code:?} became {:?}", code.hip());
        }
        // And every driver-style HIP code can come out of the table.
        for hip in hipError_t::ALL.iter().filter(|hip| hip.0 >= 100 && hip.0 < 1000) {
            assert!(CUresult::ALL.iter().any(|code| code.hip() == *hip), "nothing becomes {hip:?}");
        }
    }
}
