//! Device memory, borrowed, and the traits by which cudarc's functions take it.

use super::{sys, CudaStream};
use hip::{DeviceCopy, Stream, View, ViewMut};
use std::marker::PhantomData;
use std::ops::RangeBounds;

/// A type whose values may be in device memory or be passed to a kernel.
///
/// # Safety
/// The kernel must see the bytes that the host has.
pub unsafe trait DeviceRepr: DeviceCopy {}

/// A type of which all zeros are a value. Every [`DeviceRepr`] here is.
///
/// # Safety
/// Zeros must be a value.
pub unsafe trait ValidAsZeroBits {}

macro_rules! plain_values {
    ($($type:ty),*) => {$(
        // SAFETY: a plain value; both sides have the same bytes for it.
        unsafe impl DeviceRepr for $type {}
        // SAFETY: zero.
        unsafe impl ValidAsZeroBits for $type {}
    )*};
}
plain_values!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64, half::f16, half::bf16);

/// Elements of a slice, to read.
#[derive(Debug)]
pub struct CudaView<'a, T>(pub(super) View<'a, T>);

impl<T> Clone for CudaView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for CudaView<'_, T> {}

/// Elements of a slice, to write.
#[derive(Debug)]
pub struct CudaViewMut<'a, T>(pub(super) ViewMut<'a, T>);

impl<'a, T: DeviceCopy> CudaView<'a, T> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Some of these elements.
    ///
    /// # Panics
    /// When the range goes beyond the end; [`CudaView::try_slice`] does not.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        Self(self.0.slice(range).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Some of these elements, unless the range goes beyond the end.
    pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Option<Self> {
        self.0.slice(range).ok().map(Self)
    }

    fn as_view(&self) -> Self {
        Self(self.0)
    }
}

impl<T: DeviceCopy> CudaViewMut<'_, T> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same elements, to read.
    pub fn as_view(&self) -> CudaView<'_, T> {
        CudaView(self.0.as_view())
    }

    fn as_view_mut(&mut self) -> CudaViewMut<'_, T> {
        CudaViewMut(self.0.reborrow())
    }
}

/// What keeps an address valid. When it is dropped, the memory's own stream waits for the one that used the address.
#[derive(Debug)]
pub struct SyncOnDrop<'a> {
    /// The memory's own stream, and the one that uses it; nothing where both are one.
    streams: Option<(Stream, Stream)>,
    borrows: PhantomData<&'a CudaStream>,
}

impl SyncOnDrop<'_> {
    /// A guard that waits for nothing.
    pub fn none() -> Self {
        Self { streams: None, borrows: PhantomData }
    }
}

impl Drop for SyncOnDrop<'_> {
    fn drop(&mut self) {
        if let Some((own, used)) = &self.streams {
            // A failure comes out at the next call on the device: nothing can be returned here.
            own.device().defer(own.wait_for(used));
        }
    }
}

/// Memory with a length and a stream.
pub trait DeviceSlice<T> {
    /// The number of elements.
    fn len(&self) -> usize;

    /// True when there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of bytes.
    fn num_bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }

    /// The stream that the memory belongs to.
    fn stream(&self) -> &CudaStream;
}

/// Memory that can be read.
pub trait DevicePtr<T>: DeviceSlice<T> {
    /// The elements.
    fn view(&self) -> View<'_, T>;

    /// The address of the first element, for a kernel on `stream`, which from here on waits for what the memory's own
    /// stream has been given.
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>);
}

/// Memory that can be written.
pub trait DevicePtrMut<T>: DeviceSlice<T> {
    /// The elements.
    fn view_mut(&mut self) -> ViewMut<'_, T>;

    /// The address of the first element, as [`DevicePtr::device_ptr`] gives it.
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>);
}

/// The address of a view, for work on a stream. Where the stream cannot be made to wait for the memory's own, the next call on the device
/// says so: cudarc's signature has no place for an error.
pub(super) fn address<'a, T: DeviceCopy>(view: View<'_, T>, stream: &CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
    view.keep_in_capture();
    let (own, used) = (view.stream(), stream.hip_stream());
    used.device().defer(used.wait_for(own));
    let streams = (own != used).then(|| (own.clone(), used.clone()));
    (view.ptr().address(), SyncOnDrop { streams, borrows: PhantomData })
}

macro_rules! memory {
    ($($type:ty),*) => {$(
        impl<T: DeviceCopy> DeviceSlice<T> for $type {
            fn len(&self) -> usize {
                self.0.len()
            }

            fn stream(&self) -> &CudaStream {
                CudaStream::of(self.0.stream())
            }
        }

        impl<T: DeviceCopy> DevicePtr<T> for $type {
            fn view(&self) -> View<'_, T> {
                self.as_view().0
            }

            fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
                address(self.as_view().0, stream)
            }
        }
    )*};
}
memory!(CudaView<'_, T>, CudaViewMut<'_, T>);

macro_rules! writable {
    ($($type:ty),*) => {$(
        impl<T: DeviceCopy> DevicePtrMut<T> for $type {
            fn view_mut(&mut self) -> ViewMut<'_, T> {
                self.as_view_mut().0
            }

            fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
                address(self.as_view().0, stream)
            }
        }
    )*};
}
writable!(CudaViewMut<'_, T>);

/// Memory of the host, to copy from and to.
pub trait HostSlice<T> {
    /// The elements, to read.
    fn host(&self) -> &[T];

    /// The elements, to write.
    fn host_mut(&mut self) -> &mut [T];
}

macro_rules! host_memory {
    ($([$($generics:tt)*] $type:ty),*) => {$(
        impl<T, $($generics)*> HostSlice<T> for $type {
            fn host(&self) -> &[T] {
                self
            }

            fn host_mut(&mut self) -> &mut [T] {
                self
            }
        }
    )*};
}
host_memory!([] [T], [] Vec<T>, [const N: usize] [T; N]);
