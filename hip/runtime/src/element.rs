//! Which Rust values may live in device memory and travel into kernels. Only markers live here; `launch.rs` packs.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

/// A value that may be copied to and from device memory byte by byte.
///
/// # Safety
/// Every bit pattern must be a valid value (so no `bool`, no `enum`, no reference), and the type must have no padding
/// that matters and the layout that the kernels expect: `#[repr(C)]` for structures.
pub unsafe trait DeviceCopy: Copy + Send + Sync + 'static {}

macro_rules! device_copy {
    ($($type:ty),*) => {$(
        // SAFETY: a plain number: every bit pattern is a value.
        unsafe impl DeviceCopy for $type {}
    )*};
}

device_copy!(u8, i8, u16, i16, u32, i32, u64, i64, u128, i128, usize, isize, f32, f64);
#[cfg(feature = "half")]
device_copy!(half::f16, half::bf16);

// SAFETY: an array of plain values is a plain value, laid out as in C.
unsafe impl<T: DeviceCopy, const N: usize> DeviceCopy for [T; N] {}

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

// SAFETY: a number, eight bytes as in the kernels' pointers.
unsafe impl<T: 'static> DeviceCopy for DevicePtr<T> {}
