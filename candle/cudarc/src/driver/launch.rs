//! Launches: the geometry as cudarc writes it, and arguments added one by one.

use super::{CudaFunction, CudaSlice, CudaView, CudaViewMut, DeviceRepr, DriverError};
use hip::{DeviceCopy, KernelArg, KernelArgs, Stream, View};
use std::ffi::c_void;
use std::marker::PhantomData;

/// The geometry of a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Blocks of the grid along x, y and z.
    pub grid_dim: (u32, u32, u32),
    /// Threads of a block along x, y and z.
    pub block_dim: (u32, u32, u32),
    /// Dynamic shared memory of a block.
    pub shared_mem_bytes: u32,
}

impl LaunchConfig {
    /// One thread an element, in blocks of 1024.
    pub fn for_num_elems(n: u32) -> Self {
        Self { grid_dim: (n.div_ceil(1024), 1, 1), block_dim: (1024, 1, 1), shared_mem_bytes: 0 }
    }
}

impl From<LaunchConfig> for hip::LaunchConfig {
    fn from(config: LaunchConfig) -> Self {
        hip::LaunchConfig::new(config.grid_dim, config.block_dim).shared(config.shared_mem_bytes)
    }
}

/// A launch in the making: a kernel, a stream, and arguments that outlive it.
#[derive(Debug)]
pub struct LaunchArgs<'a> {
    stream: &'a Stream,
    function: &'a CudaFunction,
    pointers: Vec<*mut c_void>,
    sizes: Vec<usize>,
    /// Other streams that arguments belong to.
    others: Vec<Stream>,
    borrows: PhantomData<&'a ()>,
}

impl<'a> LaunchArgs<'a> {
    /// A launch without arguments yet.
    pub fn new(stream: &'a Stream, function: &'a CudaFunction) -> Self {
        Self { stream, function, pointers: Vec::new(), sizes: Vec::new(), others: Vec::new(), borrows: PhantomData }
    }

    /// Launches the kernel. Returns when it is submitted, not when it is done. Where memory belongs to another stream, the launch waits
    /// for the work that stream was given so far, and later work there waits for the launch.
    ///
    /// # Safety
    /// As for [`hip::Function::launch`]: the arguments must be the kernel's, and what it touches must stay valid.
    pub unsafe fn launch(&mut self, config: LaunchConfig) -> Result<(), DriverError> {
        for other in &self.others {
            self.stream.wait_for(other)?;
        }
        // SAFETY: the caller's promise.
        unsafe { self.function.launch(self.stream, config.into(), &*self) }?;
        self.others.iter().try_for_each(|other| other.wait_for(self.stream))
    }

    fn push(&mut self, argument: &impl KernelArg) -> &mut Self {
        self.pointers.push(argument.argument().cast_mut());
        self.sizes.push(argument.size());
        self
    }

    fn push_memory<T: DeviceCopy>(&mut self, view: View<'_, T>, argument: &impl KernelArg) -> &mut Self {
        view.keep_in_capture();
        // A kernel may write to what it was given.
        view.stream().abandon_readers(view.memory_id());
        if view.stream() != self.stream && !self.others.contains(view.stream()) {
            self.others.push(view.stream().clone());
        }
        self.push(argument)
    }
}

// SAFETY: each pointer came from an argument that is borrowed for longer than `self` lives.
unsafe impl KernelArgs for LaunchArgs<'_> {
    fn with_pointers<R>(&self, launch: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
        launch(&mut self.pointers.clone())
    }

    fn sizes(&self) -> Vec<usize> {
        self.sizes.clone()
    }
}

/// What a launch takes as an argument: references to plain values, and to memory, of which the address is passed.
///
/// # Safety
/// The argument must have the kernel's size and layout, and live as long as the launch is being made.
pub unsafe trait PushKernelArg<T> {
    /// Adds the next argument.
    fn arg(&mut self, arg: T) -> &mut Self;
}

// SAFETY: the value outlives the launch, and is the argument.
unsafe impl<'a, 'b: 'a, T: DeviceRepr> PushKernelArg<&'b T> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'b T) -> &mut Self {
        self.push(arg)
    }
}

// SAFETY: as above; the memory's address lies inside of what is borrowed.
unsafe impl<'a, 'b: 'a, T: DeviceCopy> PushKernelArg<&'b CudaSlice<T>> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'b CudaSlice<T>) -> &mut Self {
        let buffer: &hip::Buffer<T> = arg;
        self.push_memory(buffer.view(), &buffer)
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, T: DeviceCopy> PushKernelArg<&'b mut CudaSlice<T>> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'b mut CudaSlice<T>) -> &mut Self {
        let buffer: &'b hip::Buffer<T> = std::ops::DerefMut::deref_mut(arg);
        self.push_memory(buffer.view(), &buffer)
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, 'c: 'b, T: DeviceCopy> PushKernelArg<&'b CudaView<'c, T>> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'b CudaView<'c, T>) -> &mut Self {
        self.push_memory(arg.0, &&arg.0)
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, 'c: 'b, T: DeviceCopy> PushKernelArg<&'b CudaViewMut<'c, T>> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'b CudaViewMut<'c, T>) -> &mut Self {
        self.push_memory(arg.0.as_view(), &&arg.0)
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, 'c: 'b, T: DeviceCopy> PushKernelArg<&'b mut CudaViewMut<'c, T>> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'b mut CudaViewMut<'c, T>) -> &mut Self {
        self.push_memory(arg.0.as_view(), &&arg.0)
    }
}

// SAFETY: the field that is pointed to holds the address of the first element.
unsafe impl<T: DeviceCopy> KernelArg for &CudaSlice<T> {
    fn argument(&self) -> *const c_void {
        let buffer: &hip::Buffer<T> = self;
        buffer.argument()
    }

    fn size(&self) -> usize {
        size_of::<u64>()
    }
}

// SAFETY: as above.
unsafe impl<T: DeviceCopy> KernelArg for &mut CudaSlice<T> {
    fn argument(&self) -> *const c_void {
        let buffer: &hip::Buffer<T> = self;
        buffer.stream().abandon_readers(buffer.memory_id());
        buffer.argument()
    }

    fn size(&self) -> usize {
        size_of::<u64>()
    }
}
