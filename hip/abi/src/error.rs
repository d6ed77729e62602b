//! HIP's error codes by name. One table gives the constants, the names and the short explanations, so that a code
//! never reaches a person as a bare number, even when no runtime library is loaded to ask.

/// A status code of the HIP runtime. `hipError_t::hipSuccess` is zero.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct hipError_t(pub u32);

macro_rules! errors {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        #[allow(non_upper_case_globals, missing_docs)]
        impl hipError_t {
            $(pub const $name: Self = Self($code);)*

            /// Every code this table knows, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// HIP's name of this code, such as `hipErrorOutOfMemory`.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($code => stringify!($name),)*
                    _ => "hipErrorUnlisted",
                }
            }

            /// What the code means, in a few words.
            pub const fn explanation(self) -> &'static str {
                match self.0 {
                    $($code => $text,)*
                    _ => "a code newer than this program",
                }
            }
        }
    };
}

errors! {
    hipSuccess = 0, "no error";
    hipErrorInvalidValue = 1, "an argument is null or out of range";
    hipErrorOutOfMemory = 2, "the device has not enough free memory";
    hipErrorNotInitialized = 3, "the runtime is not initialised";
    hipErrorDeinitialized = 4, "the runtime is shutting down";
    hipErrorInvalidConfiguration = 9, "the launch configuration exceeds the device's limits";
    hipErrorInvalidPitchValue = 12, "a row pitch is smaller than the row or larger than the device allows";
    hipErrorInvalidSymbol = 13, "no such symbol";
    hipErrorInvalidDevicePointer = 17, "a pointer is not device memory";
    hipErrorInvalidMemcpyDirection = 21, "the direction of the copy does not fit its pointers";
    hipErrorInsufficientDriver = 35, "the kernel driver is older than the runtime needs";
    hipErrorMissingConfiguration = 52, "no launch configuration was given";
    hipErrorPriorLaunchFailure = 53, "an earlier launch failed";
    hipErrorInvalidDeviceFunction = 98, "the kernel was not built for this device";
    hipErrorNoDevice = 100, "no GPU was found";
    hipErrorInvalidDevice = 101, "the device ordinal is out of range";
    hipErrorInvalidImage = 200, "the code object is not one this runtime can read";
    hipErrorInvalidContext = 201, "the context is invalid";
    hipErrorMapFailed = 205, "memory could not be mapped";
    hipErrorUnmapFailed = 206, "memory could not be unmapped";
    hipErrorNoBinaryForGpu = 209, "the code object has no code for this GPU";
    hipErrorECCNotCorrectable = 214, "an uncorrectable memory error occurred";
    hipErrorUnsupportedLimit = 215, "the device does not support this limit";
    hipErrorPeerAccessUnsupported = 217, "these devices cannot access each other's memory";
    hipErrorInvalidKernelFile = 218, "the kernel file is invalid";
    hipErrorInvalidSource = 300, "the kernel source is invalid";
    hipErrorFileNotFound = 301, "a file was not found";
    hipErrorSharedObjectSymbolNotFound = 302, "a symbol is missing from a shared object";
    hipErrorSharedObjectInitFailed = 303, "a shared object could not be initialised";
    hipErrorOperatingSystem = 304, "the operating system refused a call";
    hipErrorInvalidHandle = 400, "a stream, event, module or graph handle is invalid";
    hipErrorIllegalState = 401, "the object is not in a state that allows this";
    hipErrorNotFound = 500, "no kernel or symbol of that name";
    hipErrorNotReady = 600, "the work is not finished yet";
    hipErrorIllegalAddress = 700, "a kernel accessed memory it must not";
    hipErrorLaunchOutOfResources = 701, "the launch needs more registers, threads or shared memory than there are";
    hipErrorLaunchTimeOut = 702, "a kernel ran longer than allowed";
    hipErrorPeerAccessAlreadyEnabled = 704, "peer access is enabled already";
    hipErrorPeerAccessNotEnabled = 705, "peer access is not enabled";
    hipErrorSetOnActiveProcess = 708, "the setting cannot change while the device is in use";
    hipErrorContextIsDestroyed = 709, "the context is gone";
    hipErrorAssert = 710, "an assertion failed inside a kernel";
    hipErrorHostMemoryAlreadyRegistered = 712, "the host memory is registered already";
    hipErrorHostMemoryNotRegistered = 713, "the host memory is not registered";
    hipErrorLaunchFailure = 719, "a kernel failed while running";
    hipErrorCooperativeLaunchTooLarge = 720, "the cooperative grid does not fit on the device";
    hipErrorNotSupported = 801, "this runtime or device does not support the call";
    hipErrorStreamCaptureUnsupported = 900, "the call is not allowed while a stream is being captured";
    hipErrorStreamCaptureInvalidated = 901, "an earlier error invalidated the capture";
    hipErrorStreamCaptureMerge = 902, "two separate captures would have been merged";
    hipErrorStreamCaptureUnmatched = 903, "the capture was not begun on this stream";
    hipErrorStreamCaptureUnjoined = 904, "a forked stream was not joined before the capture ended";
    hipErrorStreamCaptureIsolation = 905, "a dependency would cross the border of the capture";
    hipErrorStreamCaptureImplicit = 906, "the null stream cannot be used during a capture";
    hipErrorCapturedEvent = 907, "the event was last recorded in a capture";
    hipErrorStreamCaptureWrongThread = 908, "the capture was begun by another thread";
    hipErrorGraphExecUpdateFailure = 910, "the graph changed too much for an update";
    hipErrorUnknown = 999, "the runtime does not say why";
    hipErrorRuntimeMemory = 1052, "the ROCr runtime failed on memory";
    hipErrorRuntimeOther = 1053, "the ROCr runtime failed";
}

impl hipError_t {
    /// True for `hipSuccess`.
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Debug for hipError_t {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl std::fmt::Display for hipError_t {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::hipError_t;

    #[test]
    fn codes_ascend_and_have_distinct_names() {
        for pair in hipError_t::ALL.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} is not below {}", pair[0], pair[1]);
        }
        assert_eq!(hipError_t(2).to_string(), "hipErrorOutOfMemory (2)");
        assert_eq!(hipError_t(4242).to_string(), "hipErrorUnlisted (4242)");
    }
}
