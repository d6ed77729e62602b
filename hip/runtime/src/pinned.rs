//! Pinned host memory: the device reaches it directly, so copies need no synchronisation on the host. While a copy is
//! under way its memory is inside a [`Pending`], out of reach.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::dispose::Resource;
use crate::driver::call;
use crate::element::DeviceCopy;
use crate::error::{human_bytes, Error, Result};
use crate::event::Event;
use hip_abi::{hipHostMallocDefault, hipMemcpyKind};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Elements in pinned host memory; it is used as a slice.
///
/// ```
/// let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
/// let mut pinned = hip::PinnedBuffer::<u32>::zeros(stream.device(), 4)?;
/// pinned.copy_from_slice(&[4, 3, 2, 1]);
/// let mut buffer = stream.alloc::<u32>(4)?;
/// let pending = buffer.write_pinned(pinned)?; // returns at once
/// let pinned = pending.wait()?;
/// assert_eq!(buffer.to_vec()?, *pinned);
/// # Ok::<(), hip::Error>(())
/// ```
pub struct PinnedBuffer<T> {
    device: Device,
    data: NonNull<T>,
    len: usize,
    // False for no memory at all, and for memory that a copy may still be using: that is leaked rather than freed.
    owned: bool,
}

// SAFETY: it owns its memory, as a Vec does, and T may move between threads.
unsafe impl<T: DeviceCopy> Send for PinnedBuffer<T> {}
// SAFETY: shared access only reads.
unsafe impl<T: DeviceCopy> Sync for PinnedBuffer<T> {}

impl<T: DeviceCopy> PinnedBuffer<T> {
    /// `len` elements with all bytes zero.
    pub fn zeros(device: &Device, len: usize) -> Result<Self> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize).ok_or_else(|| {
            Error::refused(format!(
                "pinned memory of {len} elements of {} bytes is larger than any memory",
                size_of::<T>()
            ))
        })?;
        device.0.bind()?;
        if bytes == 0 {
            return Ok(Self { device: device.clone(), data: NonNull::dangling(), len, owned: false });
        }
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the pointer is to a live pointer.
        unsafe {
            call!(device.platform(), hipHostMalloc(&mut pointer, bytes, hipHostMallocDefault), || format!(
                "allocating {} of pinned memory",
                human_bytes(bytes)
            ))
        }?;
        let Some(data) = NonNull::new(pointer.cast::<T>()) else {
            return Err(Error::refused("the runtime said that it allocated pinned memory, and returned none"));
        };
        // SAFETY: the runtime allocated that many bytes, page-aligned; zero is a valid value of every byte.
        unsafe { std::ptr::write_bytes(data.as_ptr().cast::<u8>(), 0, bytes) };
        Ok(Self { device: device.clone(), data, len, owned: true })
    }

    /// The device whose runtime pinned it.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl<T> Deref for PinnedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the memory is ours, initialised, and not in use by the device: a copy takes the whole value.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for PinnedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        if self.owned {
            self.device.0.dispose(Resource::Pinned(self.data.as_ptr() as u64));
        }
    }
}

impl<T> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({} x {})", self.len, std::any::type_name::<T>())
    }
}

/// Pinned memory that a copy is using. [`Pending::wait`] gives it back; dropping it waits too.
#[must_use = "dropping it waits for the copy"]
pub struct Pending<T: DeviceCopy> {
    pinned: ManuallyDrop<PinnedBuffer<T>>,
    reached: ManuallyDrop<Event>,
}

impl<T: DeviceCopy> Pending<T> {
    /// True when the copy is done and `wait` will not block.
    pub fn is_ready(&self) -> Result<bool> {
        self.reached.is_reached()
    }

    /// Waits for the copy and gives the memory back.
    pub fn wait(self) -> Result<PinnedBuffer<T>> {
        let mut this = ManuallyDrop::new(self);
        let outcome = this.settle();
        // SAFETY: `this` is never dropped, so each field is taken once.
        let (pinned, _reached) =
            unsafe { (ManuallyDrop::take(&mut this.pinned), ManuallyDrop::take(&mut this.reached)) };
        outcome.map(|()| pinned)
    }

    /// Waits for the copy. When that fails and the device cannot be waited for either, nobody knows whether the copy
    /// still runs, and its memory must stay.
    fn settle(&mut self) -> Result<()> {
        let outcome = self.reached.synchronize();
        if outcome.is_err() {
            self.pinned.owned &= self.pinned.device.synchronize().is_ok();
        }
        outcome
    }
}

impl<T: DeviceCopy> Drop for Pending<T> {
    fn drop(&mut self) {
        let device = self.pinned.device.clone();
        let outcome = self.settle();
        device.0.defer(outcome);
        // SAFETY: each field is dropped once, here.
        unsafe {
            ManuallyDrop::drop(&mut self.pinned);
            ManuallyDrop::drop(&mut self.reached);
        }
    }
}

impl<T: DeviceCopy> Buffer<T> {
    /// Copies pinned memory, of the same length, to the device, and returns at once.
    pub fn write_pinned(&mut self, source: PinnedBuffer<T>) -> Result<Pending<T>> {
        self.copy_pinned(source, hipMemcpyKind::hipMemcpyHostToDevice)
    }

    /// Copies the elements into pinned memory, of the same length, and returns at once.
    pub fn read_pinned(&self, target: PinnedBuffer<T>) -> Result<Pending<T>> {
        self.copy_pinned(target, hipMemcpyKind::hipMemcpyDeviceToHost)
    }

    fn copy_pinned(&self, pinned: PinnedBuffer<T>, kind: hipMemcpyKind) -> Result<Pending<T>> {
        if pinned.len != self.len() {
            return Err(Error::refused(format!(
                "a buffer of {} elements and pinned memory of {} cannot be copied: the lengths must be equal",
                self.len(),
                pinned.len
            )));
        }
        let stream = self.stream();
        stream.refuse_in_capture("copying pinned memory")?;
        // Made first: once the copy is submitted, nothing may fail that we could not wait after.
        let reached = Event::new(stream.device())?;
        if self.bytes() > 0 {
            stream.device().0.bind()?;
            let (device, host) = (self.ptr().as_raw(), pinned.data.as_ptr().cast());
            let to_device = kind == hipMemcpyKind::hipMemcpyHostToDevice;
            let (target, source) = if to_device { (device, host) } else { (host, device) };
            // SAFETY: both ranges are alive and of this length; `Pending` keeps the host's out of reach until the copy
            // has run, and the buffer's is reused only in the order of its stream.
            unsafe {
                call!(
                    stream.device().platform(),
                    hipMemcpyAsync(target, source, self.bytes(), kind, stream.handle()),
                    || format!("copying {} by way of pinned memory", human_bytes(self.bytes()))
                )
            }?;
        }
        if let Err(error) = reached.mark(stream) {
            // The copy runs with no event to wait for; the stream itself will do.
            return stream.0.drain().and(Err(error));
        }
        Ok(Pending { pinned: ManuallyDrop::new(pinned), reached: ManuallyDrop::new(reached) })
    }
}
