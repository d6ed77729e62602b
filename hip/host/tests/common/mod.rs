//! What the tests of the bare table share: calls that must succeed, buffers, kernels from source. No wrapper hides what is called; the
//! safe crate has its own tests.

#![allow(dead_code)] // each test program uses its part

use hip_abi::{hipError_t, hipFunction_t, hipMemcpyKind, hipModule_t, hipStream_t, Hip};
use std::ffi::{c_void, CString};

/// Calls a function of the table and panics, with its name, unless it succeeds.
macro_rules! hip {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: pointers are to live variables and buffers of the sizes given.
        let status = unsafe { (hip_host::table().$function)($($argument),*) };
        assert!(status.is_success(), "{}: {status}", stringify!($function));
    }};
}

/// Calls a function of the table and gives its status.
macro_rules! status {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: pointers are null on purpose, or to live variables and buffers of the sizes given.
        unsafe { (hip_host::table().$function)($($argument),*) }
    }};
}
pub(crate) use {hip, status};

pub fn table() -> &'static Hip {
    hip_host::table()
}

/// Device memory holding numbers.
pub struct Buffer<T> {
    pub address: *mut c_void,
    pub count: usize,
    kind: std::marker::PhantomData<T>,
}

impl<T: Copy + Default> Buffer<T> {
    pub fn new(count: usize) -> Self {
        let mut address = std::ptr::null_mut();
        hip!(hipMalloc(&mut address, count * size_of::<T>()));
        Self { address, count, kind: std::marker::PhantomData }
    }

    pub fn from(values: &[T]) -> Self {
        let buffer = Self::new(values.len());
        hip!(hipMemcpy(
            buffer.address,
            values.as_ptr().cast(),
            size_of_val(values),
            hipMemcpyKind::hipMemcpyHostToDevice
        ));
        buffer
    }

    pub fn read(&self) -> Vec<T> {
        let mut values = vec![T::default(); self.count];
        let bytes = size_of_val(&values[..]);
        hip!(hipMemcpy(values.as_mut_ptr().cast(), self.address, bytes, hipMemcpyKind::hipMemcpyDeviceToHost));
        values
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            hip!(hipFree(self.address));
        }
    }
}

/// A loaded module.
pub struct Module(pub hipModule_t);

impl Module {
    /// Compiles and loads HIP source for the current device.
    pub fn new(source: &str) -> Self {
        let checked = hip_host::options().expect("good options").checked;
        let request = hip_host::CompileRequest { name: "test.hip", source, checked, ..Default::default() };
        let object = hip_host::compile(&request).unwrap_or_else(|why| panic!("{why}"));
        Self::load(&object.image)
    }

    pub fn load(image: &[u8]) -> Self {
        let mut module = hipModule_t::NULL;
        hip!(hipModuleLoadData(&mut module, image.as_ptr().cast()));
        Self(module)
    }

    pub fn function(&self, name: &str) -> hipFunction_t {
        let (name, mut function) = (CString::new(name).expect("a name"), hipFunction_t::NULL);
        hip!(hipModuleGetFunction(&mut function, self.0, name.as_ptr()));
        function
    }

    /// Launches with one dimension and no dynamic shared memory.
    pub fn launch(&self, name: &str, blocks: u32, threads: u32, stream: hipStream_t, arguments: &[Argument]) {
        let status = launch(self.function(name), [blocks, 1, 1], [threads, 1, 1], 0, stream, arguments);
        assert!(status.is_success(), "{name}: {status}");
    }

    /// As above on the null stream, and waits.
    pub fn run(&self, name: &str, blocks: u32, threads: u32, arguments: &[Argument]) {
        self.launch(name, blocks, threads, hipStream_t::NULL, arguments);
        hip!(hipStreamSynchronize(hipStream_t::NULL));
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            hip!(hipModuleUnload(self.0));
        }
    }
}

/// A kernel argument of eight bytes or less.
#[derive(Clone, Copy)]
pub struct Argument(u64);

impl<T> From<&Buffer<T>> for Argument {
    fn from(buffer: &Buffer<T>) -> Self {
        Self(buffer.address as u64)
    }
}

impl From<*mut c_void> for Argument {
    fn from(address: *mut c_void) -> Self {
        Self(address as u64)
    }
}

impl From<i32> for Argument {
    fn from(number: i32) -> Self {
        Self(u64::from(number as u32))
    }
}

impl From<f32> for Argument {
    fn from(number: f32) -> Self {
        Self(u64::from(number.to_bits()))
    }
}

pub fn launch(
    function: hipFunction_t,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: hipStream_t,
    arguments: &[Argument],
) -> hipError_t {
    let mut pointers: Vec<*mut c_void> =
        arguments.iter().map(|argument| (&raw const argument.0).cast_mut().cast()).collect();
    let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
    status!(hipModuleLaunchKernel(
        function,
        gx,
        gy,
        gz,
        bx,
        by,
        bz,
        shared_bytes,
        stream,
        pointers.as_mut_ptr(),
        std::ptr::null_mut()
    ))
}

/// A stream that does not wait for the null stream.
pub struct Stream(pub hipStream_t);

impl Stream {
    pub fn new() -> Self {
        Self::with_flags(hip_abi::hipStreamNonBlocking)
    }

    pub fn with_flags(flags: u32) -> Self {
        let mut stream = hipStream_t::NULL;
        hip!(hipStreamCreateWithFlags(&mut stream, flags));
        Self(stream)
    }

    pub fn wait(&self) {
        hip!(hipStreamSynchronize(self.0));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            hip!(hipStreamDestroy(self.0));
        }
    }
}

/// A kernel that keeps its stream busy for so many milliseconds, then writes.
pub const SLEEPER: &str = r#"
extern "C" __global__ void sleep_then_write(int *out, int milliseconds, int value) {
    long long end = wall_clock64() + 100000ll * milliseconds;
    while (wall_clock64() < end) {}
    *out = value;
}
// Waits until the gate is open, or for a minute, so that a test that fails meanwhile does not hang.
extern "C" __global__ void wait_then_write(int *out, volatile int *gate, int value) {
    long long end = wall_clock64() + 100000ll * 60000;
    while (!*gate && wall_clock64() < end) {}
    *out = value;
}
"#;

/// What `wait_then_write` waits for: work that is certainly not done, however busy the machine is, until the test says so.
pub struct Gate(Buffer<i32>);

impl Gate {
    pub fn closed() -> Self {
        Self(Buffer::from(&[0]))
    }

    /// Queues work on the stream that writes `value` once the gate is open.
    pub fn write_behind(&self, module: &Module, stream: hipStream_t, out: &Buffer<i32>, value: i32) {
        module.launch("wait_then_write", 1, 1, stream, &[out.into(), (&self.0).into(), value.into()]);
    }

    /// The embedded device's memory is the process's.
    pub fn open(&self) {
        // SAFETY: the buffer holds one aligned number, and kernels read it as volatile.
        unsafe { self.0.address.cast::<i32>().write_volatile(1) };
    }
}
