//! Initialisation, devices, their attributes and properties, peers, and the names of errors.

use crate::calls::{calls, forward, put};
use crate::context::{current, position, Driver};
use crate::launch;
use hip_abi::*;
use std::ffi::{c_char, c_int, c_uint, CStr};
use std::sync::OnceLock;

/// `CU_DEVICE_ATTRIBUTE_*`, by number: no name of the driver's enum is needed anywhere else.
const COMPUTE_CAPABILITY_MAJOR: c_uint = 75;
const COMPUTE_CAPABILITY_MINOR: c_uint = 76;
/// What a block may use at most, once a kernel has been allowed more than the 48 KiB of old; launches here see to that.
pub(crate) const SHARED_MEMORY_PER_BLOCK_OPTIN: c_uint = 97;

macro_rules! attributes {
    ($($hip:ident = $cuda:expr;)*) => {
        /// The driver's number of a HIP attribute.
        fn cuda_attribute(attribute: hipDeviceAttribute_t) -> Option<c_uint> {
            match attribute {
                $(hipDeviceAttribute_t::$hip => Some($cuda),)*
                _ => None,
            }
        }
    };
}

attributes! {
    hipDeviceAttributeMaxThreadsPerBlock = 1;
    hipDeviceAttributeMaxBlockDimX = 2;
    hipDeviceAttributeMaxBlockDimY = 3;
    hipDeviceAttributeMaxBlockDimZ = 4;
    hipDeviceAttributeMaxGridDimX = 5;
    hipDeviceAttributeMaxGridDimY = 6;
    hipDeviceAttributeMaxGridDimZ = 7;
    hipDeviceAttributeWarpSize = 10;
    hipDeviceAttributeClockRate = 13;
    hipDeviceAttributeMultiprocessorCount = 16;
    hipDeviceAttributeIntegrated = 18;
    hipDeviceAttributeConcurrentKernels = 31;
    hipDeviceAttributePciBusId = 33;
    hipDeviceAttributePciDeviceId = 34;
    hipDeviceAttributeMemoryClockRate = 36;
    hipDeviceAttributeMemoryBusWidth = 37;
    hipDeviceAttributeL2CacheSize = 38;
    hipDeviceAttributeMaxThreadsPerMultiProcessor = 39;
    hipDeviceAttributePciDomainID = 50;
    hipDeviceAttributeManagedMemory = 83;
    hipDeviceAttributeCooperativeLaunch = 95;
    hipDeviceAttributeMaxSharedMemoryPerBlock = SHARED_MEMORY_PER_BLOCK_OPTIN;
}

/// The architecture as nvrtc names it, such as `sm_90`.
pub(crate) fn architecture(driver: &Driver, ordinal: c_int) -> Result<String, hipError_t> {
    let major = driver.attribute(COMPUTE_CAPABILITY_MAJOR, ordinal)?;
    let minor = driver.attribute(COMPUTE_CAPABILITY_MINOR, ordinal)?;
    Ok(format!("sm_{major}{minor}"))
}

/// The driver's CUDA version the way HIP writes versions: 13.0 is 13000 to CUDA and 130000000 to HIP.
fn hip_version(driver: &Driver) -> Result<c_int, hipError_t> {
    let mut version = 0;
    // SAFETY: `version` is ours to write.
    unsafe { (driver.cuda.cuDriverGetVersion)(&mut version) }.check()?;
    Ok(version / 1000 * 10_000_000 + version % 1000 / 10 * 100_000)
}

/// Fills the one named field of either property structure; the rest is zero.
fn named<P>(mut properties: P, field: fn(&mut P) -> &mut [c_char; 256], arch: &str) -> P {
    for (to, from) in field(&mut properties).iter_mut().zip(arch.bytes()) {
        *to = from as c_char;
    }
    properties
}

calls! {
    any fn hipInit(flags: c_uint) |_| if flags == 0 { Ok(()) } else { Err(hipError_t::hipErrorInvalidValue) };
    any fn hipDriverGetVersion(version: *mut c_int) |driver| put(version, hip_version(driver)?);
    any fn hipRuntimeGetVersion(version: *mut c_int) |driver| put(version, hip_version(driver)?);
    any fn hipGetDevice(device: *mut c_int) |_| put(device, current() as c_int);
    any fn hipSetDevice(device: c_int) |driver| driver.enter(position(device)?);
    any fn hipDeviceReset() |driver| {
        launch::drain();
        driver.reset()
    };
    any fn hipDeviceGetName(name: *mut c_char, len: c_int, device: hipDevice_t) |driver|
        (driver.cuda.cuDeviceGetName)(name, len, driver.id(device)?);
    any fn hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t) |driver|
        (driver.cuda.cuDeviceTotalMem_v2)(bytes, driver.id(device)?);
    any fn hipDeviceGetAttribute(value: *mut c_int, attribute: hipDeviceAttribute_t, device: c_int) |driver| {
        let attribute = cuda_attribute(attribute).ok_or(hipError_t::hipErrorInvalidValue)?;
        put(value, driver.attribute(attribute, device)?)
    };
    any fn hipGetDevicePropertiesR0600(properties: *mut hipDeviceProp_tR0600, device: c_int) |driver|
        put(properties, named(hipDeviceProp_tR0600::zeroed(), |p| &mut p.gcnArchName, &architecture(driver, device)?));
    any fn hipGetDeviceProperties(properties: *mut hipDeviceProp_tR0000, device: c_int) |driver|
        put(properties, named(hipDeviceProp_tR0000::zeroed(), |p| &mut p.gcnArchName, &architecture(driver, device)?));
    bound fn hipDeviceSynchronize() |driver| {
        (driver.cuda.cuCtxSynchronize)().check()?;
        launch::outcome()
    };
    any fn hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) |driver|
        (driver.cuda.cuDeviceCanAccessPeer)(can, driver.id(device)?, driver.id(peer)?);
}

forward! {
    hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint) = cuCtxEnablePeerAccess(crate::context::any()?.context(peer)?, flags);
    hipDeviceDisablePeerAccess(peer: c_int) = cuCtxDisablePeerAccess(crate::context::any()?.context(peer)?);
}

/// The count is written whatever happened: no device is a count of zero as well as an error, as on AMD.
pub(crate) unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> hipError_t {
    let driver = crate::context::any();
    // SAFETY: the caller's pointer is null or may be written to.
    let written = unsafe { put(count, driver.map_or(0, Driver::count) as c_int) };
    crate::calls::remember(written.and(driver.and_then(|driver| match driver.count() {
        0 => Err(hipError_t::hipErrorNoDevice),
        _ => Ok(()),
    })))
}

/// Every known code with its name and explanation as C strings, made once.
fn words(error: hipError_t) -> (&'static CStr, &'static CStr) {
    type Words = (std::ffi::CString, std::ffi::CString);
    static WORDS: OnceLock<Vec<(hipError_t, Words)>> = OnceLock::new();
    let c_string = |text: &str| std::ffi::CString::new(text).unwrap_or_default();
    let known = WORDS.get_or_init(|| {
        let all = hipError_t::ALL.iter();
        all.map(|code| (*code, (c_string(code.name()), c_string(code.explanation())))).collect()
    });
    match known.iter().find(|(code, _)| *code == error) {
        Some((_, (name, explanation))) => (name, explanation),
        None => (c"hipErrorUnlisted", c"a code that is not one of HIP's"),
    }
}

pub(crate) unsafe extern "C" fn hipGetErrorName(error: hipError_t) -> *const c_char {
    words(error).0.as_ptr()
}

pub(crate) unsafe extern "C" fn hipGetErrorString(error: hipError_t) -> *const c_char {
    words(error).1.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_of_the_table_has_a_number_of_its_own() {
        let mut seen = Vec::new();
        for (name, value) in hipDeviceAttribute_t::NAMED {
            let cuda = cuda_attribute(hipDeviceAttribute_t(*value as c_uint)).unwrap_or_else(|| panic!("{name}"));
            assert!(!seen.contains(&cuda), "{name} has the number of another");
            seen.push(cuda);
        }
        assert_eq!(cuda_attribute(hipDeviceAttribute_t(9999)), None);
    }

    #[test]
    fn every_error_has_its_name_as_a_c_string() {
        for code in hipError_t::ALL {
            assert_eq!(words(*code).0.to_str(), Ok(code.name()));
            assert_eq!(words(*code).1.to_str(), Ok(code.explanation()));
        }
        assert_eq!(words(hipError_t(4242)).0, c"hipErrorUnlisted");
    }
}
