//! The HIP table with this crate's functions in it. The compiler sees to it that none is missing; the list of names is
//! kept beside the table so that a test can say the same about the optional ones.

use crate::{calls, device, launch, memory, module, stream};
use hip_abi::{Hip, Origin};

macro_rules! table {
    (
        required { $($room:ident: $($name:ident),+;)* }
        optional { $($optional_room:ident: $($optional_name:ident),+;)* }
    ) => {
        /// The functions of the table by name.
        #[cfg(test)]
        const NAMES: &[&str] = &[$($(stringify!($name),)+)* $($(stringify!($optional_name),)+)*];

        /// The filled table.
        pub(crate) fn filled() -> Hip {
            Hip {
                origin: Origin::BuiltIn("HIP on NVIDIA"),
                $($($name: $room::$name,)+)*
                $($($optional_name: Some($optional_room::$optional_name),)+)*
            }
        }
    };
}

table! {
    required {
        device: hipInit, hipDriverGetVersion, hipRuntimeGetVersion, hipGetDeviceCount, hipGetDevice, hipSetDevice,
            hipDeviceSynchronize, hipDeviceReset, hipDeviceGetName, hipDeviceTotalMem, hipDeviceGetAttribute,
            hipDeviceCanAccessPeer, hipDeviceEnablePeerAccess, hipDeviceDisablePeerAccess, hipGetErrorName,
            hipGetErrorString;
        memory: hipMalloc, hipFree, hipHostMalloc, hipHostFree, hipHostRegister, hipHostUnregister, hipMemGetInfo,
            hipMemcpy, hipMemcpyAsync, hipMemcpy2DAsync, hipMemcpyPeerAsync, hipMemsetAsync, hipMemsetD8Async,
            hipMemsetD16Async, hipMemsetD32Async;
        stream: hipStreamCreateWithFlags, hipStreamCreateWithPriority, hipStreamDestroy, hipStreamQuery,
            hipStreamSynchronize, hipStreamWaitEvent, hipEventCreateWithFlags, hipEventDestroy, hipEventRecord,
            hipEventQuery, hipEventSynchronize, hipEventElapsedTime, hipStreamBeginCapture, hipStreamEndCapture,
            hipStreamIsCapturing, hipGraphCreate, hipGraphDestroy, hipGraphGetNodes, hipGraphInstantiate,
            hipGraphLaunch, hipGraphExecDestroy;
        module: hipModuleLoadData, hipModuleUnload, hipModuleGetFunction, hipModuleGetGlobal, hipFuncGetAttribute,
            hipModuleOccupancyMaxPotentialBlockSize, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor;
        launch: hipModuleLaunchKernel;
        calls: hipGetLastError, hipPeekAtLastError;
    }
    optional {
        device: hipGetDevicePropertiesR0600, hipGetDeviceProperties;
        stream: hipLaunchHostFunc;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_hip_is_filled_once() {
        let mut ours = NAMES.to_vec();
        let mut theirs: Vec<&str> = Hip::FUNCTIONS.iter().map(|function| function.name).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs);
        assert_eq!(filled().origin().to_string(), "HIP on NVIDIA, built in");
    }
}
