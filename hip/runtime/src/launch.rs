//! How a kernel is launched: its geometry, and its arguments as HIP's `kernelParams` wants them, an array of pointers to
//! values. The array lives on the stack; nothing is allocated and nothing is uploaded.

use crate::buffer::Buffer;
use crate::driver::call;
use crate::element::DeviceCopy;
use crate::error::{Error, Result};
use crate::module::Function;
use crate::stream::Stream;
use crate::view::{View, ViewMut};
use std::ffi::c_void;
use std::fmt;

/// Extents along x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// Along x, the dimension in which neighbours are adjacent.
    pub x: u32,
    /// Along y.
    pub y: u32,
    /// Along z.
    pub z: u32,
}

impl Dim3 {
    /// All of it: the product of the three.
    pub const fn total(self) -> u64 {
        (self.x as u64).saturating_mul(self.y as u64).saturating_mul(self.z as u64)
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self { x, y: 1, z: 1 }
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self { x, y, z: 1 }
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self { x, y, z }
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.x, self.y, self.z)
    }
}

/// The geometry of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks of the grid.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
}

impl LaunchConfig {
    /// A grid of blocks, without dynamic shared memory.
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Self {
        Self { grid: grid.into(), block: block.into(), shared_bytes: 0 }
    }

    /// Enough blocks of `block` threads for one thread an element; at least one block. The kernel must check its bounds.
    pub fn for_elements(elements: usize, block: u32) -> Self {
        let blocks = elements.div_ceil(block.max(1) as usize).clamp(1, u32::MAX as usize);
        Self::new(blocks as u32, block)
    }

    /// The same with dynamic shared memory.
    pub fn shared(self, shared_bytes: u32) -> Self {
        Self { shared_bytes, ..self }
    }
}

/// One argument of a kernel, passed by value.
///
/// Every [`DeviceCopy`] value is one, structures included; so are references to buffers and views, which pass the
/// address of their first element.
///
/// # Safety
/// `argument` must point to a value with the size and layout of the kernel's parameter, valid as long as `self` is
/// borrowed.
pub unsafe trait KernelArg {
    /// Where the bytes of the argument are.
    fn argument(&self) -> *const c_void;

    /// How many bytes it has.
    fn size(&self) -> usize;
}

// SAFETY: the value itself is the argument.
unsafe impl<T: DeviceCopy> KernelArg for T {
    #[inline]
    fn argument(&self) -> *const c_void {
        std::ptr::from_ref(self).cast()
    }

    fn size(&self) -> usize {
        size_of::<T>()
    }
}

macro_rules! passes_its_address {
    ($($type:ty),*) => {$(
        // SAFETY: points to the field that holds the address of the first element, eight bytes as a kernel's pointer.
        unsafe impl<T: DeviceCopy> KernelArg for $type {
            #[inline]
            fn argument(&self) -> *const c_void {
                self.address_field().cast()
            }

            fn size(&self) -> usize {
                size_of::<u64>()
            }
        }
    )*};
}
passes_its_address!(
    &Buffer<T>,
    &mut Buffer<T>,
    View<'_, T>,
    &View<'_, T>,
    ViewMut<'_, T>,
    &ViewMut<'_, T>,
    &mut ViewMut<'_, T>
);

/// All arguments of a kernel: a tuple of [`KernelArg`]s.
///
/// # Safety
/// The pointers handed out must be valid while the closure runs, one for each argument, in order.
pub unsafe trait KernelArgs {
    /// Calls `launch` with an array of pointers to the arguments.
    fn with_pointers<R>(&self, launch: impl FnOnce(&mut [*mut c_void]) -> R) -> R;

    /// How many bytes each argument has. Only asked for where a device can tell what the kernel expects.
    fn sizes(&self) -> Vec<usize>;
}

macro_rules! tuples {
    ($($name:ident)*) => {
        // SAFETY: one pointer for each field, in order; each is valid while `self` is borrowed.
        #[allow(non_snake_case)]
        unsafe impl<$($name: KernelArg),*> KernelArgs for ($($name,)*) {
            #[inline]
            fn with_pointers<R>(&self, launch: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
                let ($($name,)*) = self;
                launch(&mut [$($name.argument().cast_mut(),)*])
            }

            fn sizes(&self) -> Vec<usize> {
                let ($($name,)*) = self;
                vec![$($name.size(),)*]
            }
        }
    };
}

tuples!();
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);
tuples!(A B C D E F G H I J K L M);
tuples!(A B C D E F G H I J K L M N);
tuples!(A B C D E F G H I J K L M N O);
tuples!(A B C D E F G H I J K L M N O P);
tuples!(A B C D E F G H I J K L M N O P Q);
tuples!(A B C D E F G H I J K L M N O P Q S);
tuples!(A B C D E F G H I J K L M N O P Q S U);
tuples!(A B C D E F G H I J K L M N O P Q S U V);

/// Arguments known only at run time: one pointer to each value.
///
/// Built by [`DynamicArgs::push`]; the values must outlive it, which the lifetime sees to.
#[derive(Default)]
pub struct DynamicArgs<'a> {
    pointers: Vec<*mut c_void>,
    sizes: Vec<usize>,
    marker: std::marker::PhantomData<&'a ()>,
}

impl<'a> DynamicArgs<'a> {
    /// No arguments yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next argument.
    pub fn push(&mut self, argument: &'a impl KernelArg) -> &mut Self {
        self.pointers.push(argument.argument().cast_mut());
        self.sizes.push(argument.size());
        self
    }
}

// SAFETY: each pointer came from a `KernelArg` borrowed for `'a`, which outlives `self`.
unsafe impl KernelArgs for DynamicArgs<'_> {
    fn with_pointers<R>(&self, launch: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
        launch(&mut self.pointers.clone())
    }

    fn sizes(&self) -> Vec<usize> {
        self.sizes.clone()
    }
}

impl Function {
    /// Launches the kernel on `stream`. Returns when it is submitted, not when it is done.
    ///
    /// # Safety
    /// - The arguments must be those of the kernel, in number, order, size and layout.
    /// - Whatever memory the kernel touches must be valid until it has run, and nothing else may use it meanwhile in a
    ///   way that conflicts. A buffer of another stream is not ordered with this one: see [`Stream::wait_for`].
    /// - Inside a capture this holds for every launch of the graph.
    #[inline]
    pub unsafe fn launch(&self, stream: &Stream, config: LaunchConfig, args: &impl KernelArgs) -> Result<()> {
        let device = stream.device();
        if device != self.device() {
            return Err(self.wrong_device(stream));
        }
        if device.is_checked() {
            self.check_arguments(&args.sizes())?;
        }
        if let Some(session) = stream.session() {
            stream.refuse_other_threads()?;
            session.keep_module(self.module());
        }
        device.0.bind()?;
        let LaunchConfig { grid, block, shared_bytes } = config;
        args.with_pointers(|pointers| {
            // SAFETY: the handles are alive as their owners are borrowed; the pointers are valid during the call, which
            // copies the arguments; what they mean is the caller's promise.
            unsafe {
                call!(
                    device.platform(),
                    hipModuleLaunchKernel(
                        self.handle(),
                        grid.x,
                        grid.y,
                        grid.z,
                        block.x,
                        block.y,
                        block.z,
                        shared_bytes,
                        stream.handle(),
                        pointers.as_mut_ptr(),
                        std::ptr::null_mut(),
                    ),
                    || format!(
                        "launching kernel {} with grid {grid}, block {block}, {shared_bytes} bytes of dynamic shared memory, {} arguments",
                        self.name(),
                        pointers.len()
                    )
                )
            }
        })
        .map_err(|error| explain_limits(error, stream, config))
    }

    /// The embedded device knows the kernel's parameters; a GPU would read whatever lies behind a pointer.
    #[cold]
    fn check_arguments(&self, given: &[usize]) -> Result<()> {
        match hip_host::argument_sizes(self.handle()) {
            Some(expected) if expected != given => Err(Error::refused(format!(
                "kernel {} takes {} arguments of {expected:?} bytes, but the launch passes {} of {given:?}",
                self.name(),
                expected.len(),
                given.len()
            ))),
            _ => Ok(()),
        }
    }

    #[cold]
    fn wrong_device(&self, stream: &Stream) -> Error {
        Error::refused(format!(
            "kernel {} is loaded on device {} and cannot be launched on a stream of device {}; load its module there too",
            self.name(),
            self.device().ordinal(),
            stream.device().ordinal()
        ))
    }
}

/// Adds which of the device's limits a failed launch exceeds, if it exceeds one.
#[cold]
fn explain_limits(error: Error, stream: &Stream, config: LaunchConfig) -> Error {
    let limits = stream.device().limits();
    let mut broken = Vec::new();
    for (what, extent, limit) in [("grid", config.grid, limits.grid), ("block", config.block, limits.block)] {
        for (axis, value, limit) in [("x", extent.x, limit[0]), ("y", extent.y, limit[1]), ("z", extent.z, limit[2])] {
            if value == 0 {
                broken.push(format!("{what}.{axis} is zero"));
            } else if value > limit {
                broken.push(format!("{what}.{axis} is {value}, the device allows {limit}"));
            }
        }
    }
    let axes = [
        ("x", config.grid.x, config.block.x),
        ("y", config.grid.y, config.block.y),
        ("z", config.grid.z, config.block.z),
    ];
    for (axis, blocks, threads) in axes {
        // AMD's runtime counts the threads of a dimension in 32 bits.
        let total = u64::from(blocks) * u64::from(threads);
        if total > u64::from(u32::MAX) {
            broken.push(format!("along {axis} there are {total} threads in all, more than {}", u32::MAX));
        }
    }
    if config.block.total() > limits.threads_per_block as u64 {
        broken.push(format!(
            "a block has {} threads, the device allows {}",
            config.block.total(),
            limits.threads_per_block
        ));
    }
    if config.shared_bytes > limits.shared_bytes_per_block {
        broken.push(format!(
            "{} bytes of shared memory are asked for, a block can have {}",
            config.shared_bytes, limits.shared_bytes_per_block
        ));
    }
    if broken.is_empty() {
        error
    } else {
        error.with_detail(broken.join("; "))
    }
}
