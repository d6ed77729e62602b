//! Which Rust values may live in device memory and travel into kernels. Only markers live here; `launch.rs` packs.

use bytemuck::{Pod, Zeroable};
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

/// A value that may be copied to and from device memory byte by byte, and passed to a kernel by value.
///
/// That is every [`bytemuck::Pod`]: a plain value without padding of which every bit pattern is valid, so no `bool`, no `enum`, no
/// reference. A structure derives it, and the derive checks all of that:
///
/// ```
/// #[repr(C)]
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// struct Scale {
///     factor: f32,
///     count: u32,
/// }
/// fn passes(_: impl hip::DeviceCopy) {}
/// passes(Scale { factor: 2.0, count: 3 });
/// ```
///
/// Padding and enums are compile errors:
///
/// ```compile_fail
/// #[repr(C)]
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// struct Padded {
///     small: u8,
///     large: u64,
/// }
/// ```
///
/// ```compile_fail
/// #[repr(u32)]
/// #[derive(Clone, Copy)]
/// enum Kind { A = 0, B = 1 }
/// #[repr(C)]
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// struct Holds {
///     kind: Kind,
/// }
/// ```
pub trait DeviceCopy: Pod + Send + Sync {}

impl<T: Pod + Send + Sync> DeviceCopy for T {}

/// An address in device memory, as a kernel takes it. It owns nothing and says nothing about how long it is valid.
#[repr(transparent)]
pub struct DevicePtr<T> {
    address: u64,
    marker: PhantomData<fn() -> T>,
}

impl<T> DevicePtr<T> {
    /// The null address.
    pub const NULL: Self = Self::from_address(0);

    /// An address as a number.
    pub const fn from_address(address: u64) -> Self {
        Self { address, marker: PhantomData }
    }

    /// The address as a number.
    pub const fn address(self) -> u64 {
        self.address
    }

    /// True for the null address.
    pub const fn is_null(self) -> bool {
        self.address == 0
    }

    /// The address of the element `count` further on. It is only a number; nothing is checked.
    pub const fn offset(self, count: usize) -> Self {
        Self::from_address(self.address.wrapping_add((count as u64).wrapping_mul(size_of::<T>() as u64)))
    }

    /// The same address, with elements of another type.
    pub const fn cast<U>(self) -> DevicePtr<U> {
        DevicePtr::from_address(self.address)
    }

    /// The address as the C calls take it.
    pub const fn as_raw(self) -> *mut c_void {
        self.address as usize as *mut c_void
    }
}

impl<T> Clone for DevicePtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DevicePtr<T> {}

impl<T> PartialEq for DevicePtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl<T> Eq for DevicePtr<T> {}

impl<T> fmt::Debug for DevicePtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.address)
    }
}

// SAFETY: a number, eight bytes as in the kernels' pointers; zero is the null address.
unsafe impl<T> Zeroable for DevicePtr<T> {}
// SAFETY: as above: every bit pattern is an address, which says nothing about what lies there.
unsafe impl<T: 'static> Pod for DevicePtr<T> {}
