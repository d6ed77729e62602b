//! What the device says about itself, about kernels and about errors.

mod common;
use common::{hip, status, Buffer, Module};
use hip_abi::{hipDeviceAttribute_t as Attribute, hipDeviceptr_t, hipError_t, hipFunction_attribute, hipMemcpyKind};
use std::ffi::{c_char, CStr};

fn attribute(attribute: Attribute) -> i32 {
    let mut value = -1;
    hip!(hipDeviceGetAttribute(&mut value, attribute, 0));
    value
}

#[test]
fn the_device_describes_itself() {
    hip!(hipInit(0));
    assert_eq!(status!(hipInit(1)), hipError_t::hipErrorInvalidValue);
    let (mut count, mut current, mut version, mut total) = (0, -1, 0, 0);
    hip!(hipGetDeviceCount(&mut count));
    hip!(hipGetDevice(&mut current));
    hip!(hipRuntimeGetVersion(&mut version));
    hip!(hipDeviceTotalMem(&mut total, 0));
    assert!(count >= 1 && current == 0 && version / 10_000_000 == 6 && total > 1 << 20);
    assert!([32, 64].contains(&attribute(Attribute::hipDeviceAttributeWarpSize)));
    assert_eq!(attribute(Attribute::hipDeviceAttributeMaxThreadsPerBlock), 1024);
    assert_eq!(attribute(Attribute::hipDeviceAttributeMaxSharedMemoryPerBlock), 64 << 10);
    assert!(attribute(Attribute::hipDeviceAttributeMultiprocessorCount) >= 1);
    let mut value = 0;
    assert_eq!(status!(hipDeviceGetAttribute(&mut value, Attribute(99_999), 0)), hipError_t::hipErrorInvalidValue);
    assert_eq!(status!(hipDeviceGetAttribute(&mut value, Attribute(87), count)), hipError_t::hipErrorInvalidDevice);
    let mut name = [1 as c_char; 12];
    hip!(hipDeviceGetName(name.as_mut_ptr(), 12, 0));
    // SAFETY: the call ended it with a zero, although it did not fit.
    assert_eq!(unsafe { CStr::from_ptr(name.as_ptr()) }, c"Embedded de");
}

#[test]
fn kernels_and_globals_describe_themselves() {
    let module = Module::new(
        r#"__constant__ float weights[4];
        extern "C" __global__ void weigh(float *out) { out[threadIdx.x] = weights[threadIdx.x]; }"#,
    );
    let weigh = module.function("weigh");
    let (mut value, mut grid, mut blocks) = (0, 0, -1);
    let attribute = hipFunction_attribute::HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    hip!(hipFuncGetAttribute(&mut value, attribute, weigh));
    assert_eq!(value, 1024);
    hip!(hipModuleOccupancyMaxPotentialBlockSize(&mut grid, &mut value, weigh, 0, 256));
    assert!(grid >= 1 && value == 256);
    hip!(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, weigh, 256, 0));
    assert_eq!(blocks, 1);
    hip!(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, weigh, 2048, 0));
    assert_eq!(blocks, 0);

    let (mut address, mut bytes) = (hipDeviceptr_t::NULL, 0);
    hip!(hipModuleGetGlobal(&mut address, &mut bytes, module.0, c"weights".as_ptr()));
    assert_eq!(bytes, 16);
    let values = [1f32, 2.0, 3.0, 4.0];
    hip!(hipMemcpy(address.0, values.as_ptr().cast(), 16, hipMemcpyKind::hipMemcpyHostToDevice));
    let out = Buffer::<f32>::new(4);
    module.run("weigh", 1, 4, &[(&out).into()]);
    assert_eq!(out.read(), values);
    let missing = status!(hipModuleGetGlobal(&mut address, &mut bytes, module.0, c"nothing".as_ptr()));
    assert_eq!(missing, hipError_t::hipErrorNotFound);
    drop(module);
    let stale = status!(hipMemcpy(address.0, values.as_ptr().cast(), 16, hipMemcpyKind::hipMemcpyHostToDevice));
    assert_eq!(stale, hipError_t::hipErrorInvalidValue, "the variable went with its module");
}

#[test]
fn host_memory_can_be_registered_once() {
    let mut memory = [0u32; 256];
    let pointer = memory.as_mut_ptr().cast();
    hip!(hipHostRegister(pointer, 1024, 0));
    assert_eq!(status!(hipHostRegister(pointer, 16, 0)), hipError_t::hipErrorHostMemoryAlreadyRegistered);
    let buffer = Buffer::from(&[7u32; 256]);
    hip!(hipMemcpy(pointer, buffer.address, 1024, hipMemcpyKind::hipMemcpyDefault));
    hip!(hipHostUnregister(pointer));
    assert_eq!(status!(hipHostUnregister(pointer)), hipError_t::hipErrorHostMemoryNotRegistered);
    assert_eq!(memory, [7; 256]);
}

#[test]
fn errors_have_names_and_sentences() {
    for error in hipError_t::ALL.iter().copied().chain([hipError_t(123_456)]) {
        // SAFETY: the table gives C strings that live as long as the process.
        let (name, text) = unsafe {
            let table = common::table();
            (CStr::from_ptr((table.hipGetErrorName)(error)), CStr::from_ptr((table.hipGetErrorString)(error)))
        };
        assert_eq!(name.to_str(), Ok(error.name()));
        assert!(!text.is_empty());
    }
}
