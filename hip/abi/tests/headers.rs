//! Our C signatures against AMD's own headers, from `/usr/include` (Debian's `libamdhip64-dev`) and from the include folders that
//! `$ROCM_HEADERS` lists (for example of an unpacked ROCm release). Without any, the test says so and checks nothing.

#![cfg(target_os = "linux")]

use hip_abi::headers::{folders, read, Assertions};
use hip_abi::{
    hipDeviceAttribute_t, hipError_t, hipFunction_attribute, hipMemcpyKind, hipStreamCaptureMode,
    hipStreamCaptureStatus, Hip, Hiprtc,
};
use std::mem::offset_of;

#[test]
fn every_signature_and_constant_agrees_with_the_headers() {
    let folders = folders(&["/usr/include"], "ROCM_HEADERS", "hip/hip_runtime_api.h");
    if folders.is_empty() {
        eprintln!("no HIP headers here: install libamdhip64-dev or set ROCM_HEADERS; nothing was checked");
    }
    for include in folders {
        let header = read(&include, &["hip/hip_runtime_api.h", "hip/hiprtc.h"]);
        // Since ROCm 6 the property structure has a suffix, and macros give the plain names to the suffixed ones.
        let six = header.contains("hipDeviceProp_tR0600");
        let (plain, size, offset) = if six {
            use hip_abi::hipDeviceProp_tR0600 as Properties;
            ("", size_of::<Properties>(), offset_of!(Properties, gcnArchName))
        } else {
            use hip_abi::hipDeviceProp_tR0000 as Properties;
            (
                "#define hipDeviceProp_tR0000 hipDeviceProp_t",
                size_of::<Properties>(),
                offset_of!(Properties, gcnArchName),
            )
        };
        let prelude = format!("{plain}\n#include <hip/hip_runtime_api.h>\n#include <hip/hiprtc.h>");
        let mut assertions = Assertions::new(&prelude, header);
        let renamed = |name: &str| six && name == "hipGetDeviceProperties";
        assertions.functions(Hip::FUNCTIONS.iter().filter(|function| !renamed(function.name)));
        assertions.functions(Hiprtc::FUNCTIONS);
        for named in [
            hipMemcpyKind::NAMED,
            hipDeviceAttribute_t::NAMED,
            hipFunction_attribute::NAMED,
            hipStreamCaptureMode::NAMED,
            hipStreamCaptureStatus::NAMED,
        ] {
            assertions.constants(named);
        }
        let flags = [
            ("hipStreamNonBlocking", hip_abi::hipStreamNonBlocking.into()),
            ("hipEventDisableTiming", hip_abi::hipEventDisableTiming.into()),
            ("hipHostMallocDefault", hip_abi::hipHostMallocDefault.into()),
        ];
        assertions.constants(&flags);
        assertions.constants(&hipError_t::ALL.iter().map(|error| (error.name(), error.0.into())).collect::<Vec<_>>());
        assertions.condition(&format!("sizeof(hipDeviceProp_t) == {size}"), "size of hipDeviceProp_t");
        assertions.condition(&format!("offsetof(hipDeviceProp_t, gcnArchName) == {offset}"), "place of gcnArchName");
        assertions.condition("sizeof(hipError_t) == 4 && sizeof(hipMemcpyKind) == 4", "size of enums");
        assertions.check(
            &[include],
            &["-D__HIP_PLATFORM_AMD__=1"],
            &[
                ("hipMemcpyDefault) == 4L", "hipMemcpyDefault) == 5L"),
                ("<hipError_t(*)(void**, size_t)>(&hipMalloc)", "<hipError_t(*)(void**, int)>(&hipMalloc)"),
            ],
        );
    }
}
