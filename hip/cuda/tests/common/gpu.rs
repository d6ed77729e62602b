//! Small helpers over the raw table: memory that frees itself, a stream, a kernel, and a macro that wants success.

use hip_abi::*;
use std::ffi::{c_uint, c_void, CString};
use std::ptr::null_mut;

/// A call that must succeed.
macro_rules! ok {
    ($hip:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the test passes live pointers and handles of the right sizes.
        let status = unsafe { ($hip.$name)($($argument),*) };
        assert_eq!(status, hip_abi::hipError_t::hipSuccess, stringify!($name));
    }};
}

/// The status of a call.
macro_rules! status {
    ($hip:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the test passes pointers and handles that the call must accept or refuse without reading them.
        unsafe { ($hip.$name)($($argument),*) }
    }};
}

pub(crate) use {ok, status};

pub struct Memory<'a> {
    hip: &'a Hip,
    pub pointer: *mut c_void,
    bytes: usize,
}

impl<'a> Memory<'a> {
    pub fn new(hip: &'a Hip, bytes: usize) -> Self {
        let mut pointer = null_mut();
        ok!(hip, hipMalloc(&mut pointer, bytes));
        assert!(!pointer.is_null());
        Self { hip, pointer, bytes }
    }

    pub fn with(hip: &'a Hip, values: &[f32]) -> Self {
        let memory = Self::new(hip, size_of_val(values));
        let kind = hipMemcpyKind::hipMemcpyHostToDevice;
        ok!(hip, hipMemcpy(memory.pointer, values.as_ptr().cast(), memory.bytes, kind));
        memory
    }

    pub fn read<T: Copy + Default>(&self) -> Vec<T> {
        let mut values = vec![T::default(); self.bytes / size_of::<T>()];
        let kind = hipMemcpyKind::hipMemcpyDeviceToHost;
        ok!(self.hip, hipDeviceSynchronize());
        ok!(self.hip, hipMemcpy(values.as_mut_ptr().cast(), self.pointer, self.bytes, kind));
        values
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: the memory is ours and nothing uses it any more.
        unsafe { (self.hip.hipFree)(self.pointer) };
    }
}

pub struct Module<'a> {
    hip: &'a Hip,
    module: hipModule_t,
}

impl<'a> Module<'a> {
    /// Compiles for the thread's device, since no architecture is named, and loads.
    pub fn compile(hip: &'a Hip, source: &str) -> Self {
        let code = hip_cuda::compile("test.hip", source, &[], &[]).expect("nvrtc is there and it compiles").code;
        assert!(code.starts_with(b"\x7fELF"), "machine code for the device");
        let mut module = hipModule_t::NULL;
        ok!(hip, hipModuleLoadData(&mut module, code.as_ptr().cast()));
        Self { hip, module }
    }

    pub fn handle(&self) -> hipModule_t {
        self.module
    }

    pub fn kernel(&self, name: &str) -> hipFunction_t {
        let (mut function, name) = (hipFunction_t::NULL, CString::new(name).expect("a name"));
        ok!(self.hip, hipModuleGetFunction(&mut function, self.module, name.as_ptr()));
        function
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: the tests synchronise before a module goes.
        unsafe { (self.hip.hipModuleUnload)(self.module) };
    }
}

/// A launch in one dimension.
pub fn launch(
    hip: &Hip,
    kernel: hipFunction_t,
    (grid, block, shared): (c_uint, c_uint, c_uint),
    stream: hipStream_t,
    params: &mut [*mut c_void],
) -> hipError_t {
    status!(
        hip,
        hipModuleLaunchKernel(kernel, grid, 1, 1, block, 1, 1, shared, stream, params.as_mut_ptr(), null_mut())
    )
}

/// A pointer to an argument, for the list of parameters.
pub fn argument<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}

/// A stream that destroys itself.
pub struct Stream<'a>(pub &'a Hip, pub hipStream_t);

impl<'a> Stream<'a> {
    pub fn new(hip: &'a Hip) -> Self {
        let mut stream = hipStream_t::NULL;
        ok!(hip, hipStreamCreateWithFlags(&mut stream, hipStreamNonBlocking));
        Self(hip, stream)
    }

    pub fn wait(&self) {
        ok!(self.0, hipStreamSynchronize(self.1));
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        // SAFETY: the stream is ours.
        unsafe { (self.0.hipStreamDestroy)(self.1) };
    }
}
