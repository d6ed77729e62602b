//! Devices and streams.

use super::{
    sys, CudaFunction, CudaSlice, DevicePtr, DevicePtrMut, DeviceRepr, DriverError, HostSlice, LaunchArgs,
    ValidAsZeroBits,
};
use hip::{Device, Stream};
use std::sync::Arc;

/// A device.
#[derive(Clone, Debug, PartialEq)]
#[repr(transparent)]
pub struct CudaContext(Device);

impl CudaContext {
    /// The same device under this name.
    pub(super) fn of(device: &Device) -> &Self {
        // SAFETY: a transparent wrapper has the layout of what it wraps, and the borrow stays what it was.
        unsafe { &*std::ptr::from_ref(device).cast() }
    }

    /// The device of that number.
    pub fn new(ordinal: usize) -> Result<Arc<Self>, DriverError> {
        Device::new(ordinal).map(|device| Arc::new(Self(device)))
    }

    /// How many devices there are.
    pub fn device_count() -> Result<i32, DriverError> {
        Ok(i32::try_from(hip::Platform::detect()?.device_count()).unwrap_or(i32::MAX))
    }

    /// The number of the device.
    pub fn ordinal(&self) -> usize {
        self.0.ordinal()
    }

    /// The name of the device.
    pub fn name(&self) -> Result<String, DriverError> {
        Ok(self.0.name().to_string())
    }

    /// Free and total bytes of memory.
    pub fn mem_get_info(&self) -> Result<(usize, usize), DriverError> {
        self.0.memory().map(|memory| (memory.free, memory.total))
    }

    /// Bytes of memory.
    pub fn total_mem(&self) -> Result<usize, DriverError> {
        self.mem_get_info().map(|(_, total)| total)
    }

    /// The device as raw calls name it.
    pub fn cu_device(&self) -> sys::CUdevice {
        sys::CUdevice::try_from(self.0.ordinal()).unwrap_or(-1)
    }

    /// Waits for all work of the device.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.0.synchronize()
    }

    /// A stream of its own.
    pub fn new_stream(self: &Arc<Self>) -> Result<Arc<CudaStream>, DriverError> {
        self.0.new_stream().map(|stream| Arc::new(CudaStream(stream)))
    }

    /// The device of the HIP runtime.
    pub fn hip_device(&self) -> &Device {
        &self.0
    }
}

/// A stream: work given to it runs in order.
#[derive(Clone, Debug, PartialEq)]
#[repr(transparent)]
pub struct CudaStream(Stream);

impl From<Stream> for CudaStream {
    fn from(stream: Stream) -> Self {
        Self(stream)
    }
}

impl CudaStream {
    /// The same stream under this name.
    pub fn of(stream: &Stream) -> &Self {
        // SAFETY: a transparent wrapper has the layout of what it wraps, and the borrow stays what it was.
        unsafe { &*std::ptr::from_ref(stream).cast() }
    }

    /// The stream of the HIP runtime.
    pub fn hip_stream(&self) -> &Stream {
        &self.0
    }

    /// The device.
    pub fn context(&self) -> &CudaContext {
        CudaContext::of(self.0.device())
    }

    /// The stream as raw calls name it: HIP's handle.
    pub fn cu_stream(&self) -> sys::CUstream {
        self.0.handle().0.cast()
    }

    /// Waits for the work given so far.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.0.synchronize()
    }

    /// Another stream of the device, which waits for the work given here so far.
    pub fn fork(&self) -> Result<Arc<Self>, DriverError> {
        let fork = self.0.device().new_stream()?;
        fork.wait_for(&self.0)?;
        Ok(Arc::new(Self(fork)))
    }

    /// Lets later work here wait for the work given to another stream so far.
    pub fn join(&self, other: &Self) -> Result<(), DriverError> {
        self.0.wait_for(&other.0)
    }

    /// Memory without elements.
    pub fn null<T: DeviceRepr>(&self) -> Result<CudaSlice<T>, DriverError> {
        self.0.alloc(0).map(CudaSlice::from)
    }

    /// Memory whose contents are whatever was there before.
    ///
    /// # Safety
    /// The elements must be written before they are read.
    pub unsafe fn alloc<T: DeviceRepr>(&self, len: usize) -> Result<CudaSlice<T>, DriverError> {
        self.0.alloc(len).map(CudaSlice::from)
    }

    /// Memory of zeros.
    pub fn alloc_zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<CudaSlice<T>, DriverError> {
        self.0.zeros(len).map(CudaSlice::from)
    }

    /// Work on memory in the order of this stream: it runs on the memory's own stream, which waits for this one first, and later work
    /// here waits for it.
    fn in_order<R>(&self, memory: &Stream, work: impl FnOnce() -> Result<R, DriverError>) -> Result<R, DriverError> {
        memory.wait_for(&self.0)?;
        let done = work()?;
        self.0.wait_for(memory)?;
        Ok(done)
    }

    /// Sets all bytes to zero.
    pub fn memset_zeros<T: DeviceRepr, Dst: DevicePtrMut<T>>(&self, dst: &mut Dst) -> Result<(), DriverError> {
        let mut dst = dst.view_mut();
        self.in_order(dst.stream(), || dst.zero())
    }

    /// Memory with a copy of the host's.
    pub fn clone_htod<T: DeviceRepr, Src: HostSlice<T> + ?Sized>(
        &self,
        src: &Src,
    ) -> Result<CudaSlice<T>, DriverError> {
        self.0.upload(src.host()).map(CudaSlice::from)
    }

    /// Copies the host's memory into the beginning of a device's.
    pub fn memcpy_htod<T: DeviceRepr, Src: HostSlice<T> + ?Sized, Dst: DevicePtrMut<T>>(
        &self,
        src: &Src,
        dst: &mut Dst,
    ) -> Result<(), DriverError> {
        let src = src.host();
        let mut dst = dst.view_mut().slice(..src.len())?;
        self.in_order(dst.stream(), || dst.write(src))
    }

    /// A copy in the host's memory. Waits for the stream.
    pub fn clone_dtoh<T: DeviceRepr, Src: DevicePtr<T>>(&self, src: &Src) -> Result<Vec<T>, DriverError> {
        let view = src.view();
        view.stream().wait_for(&self.0)?;
        view.to_vec()
    }

    /// Copies a device's memory into the beginning of the host's, which must not be shorter. Waits for the stream.
    pub fn memcpy_dtoh<T: DeviceRepr, Src: DevicePtr<T>, Dst: HostSlice<T> + ?Sized>(
        &self,
        src: &Src,
        dst: &mut Dst,
    ) -> Result<(), DriverError> {
        let (view, dst) = (src.view(), dst.host_mut());
        let (wanted, there) = (view.len(), dst.len());
        let Some(dst) = dst.get_mut(..wanted) else {
            return Err(DriverError::refused(format!(
                "{wanted} elements of a device cannot be copied into {there} of the host; give memory for all, or copy a slice"
            )));
        };
        view.stream().wait_for(&self.0)?;
        view.read_into(dst)
    }

    /// Copies memory into the beginning of other memory.
    pub fn memcpy_dtod<T: DeviceRepr, Src: DevicePtr<T>, Dst: DevicePtrMut<T>>(
        &self,
        src: &Src,
        dst: &mut Dst,
    ) -> Result<(), DriverError> {
        let view = src.view();
        let mut dst = dst.view_mut().slice(..view.len())?;
        view.stream().wait_for(&self.0)?;
        self.in_order(dst.stream(), || dst.copy_from(view))
    }

    /// A second copy.
    pub fn clone_dtod<T: DeviceRepr, Src: DevicePtr<T>>(&self, src: &Src) -> Result<CudaSlice<T>, DriverError> {
        let view = src.view();
        view.stream().wait_for(&self.0)?;
        let mut copy = self.0.alloc(view.len())?;
        copy.copy_from(view)?;
        Ok(copy.into())
    }

    /// A launch of a kernel, whose arguments are added one by one.
    pub fn launch_builder<'a>(&'a self, function: &'a CudaFunction) -> LaunchArgs<'a> {
        LaunchArgs::new(&self.0, function)
    }
}
