//! Copies that need no `unsafe`: each is ordered on the stream of the buffer it touches, and none lets the host's memory
//! go away before the device has read or written it. Small uploads return at once, by way of pinned memory.

use crate::buffer::Buffer;
use crate::driver::call;
use crate::element::DeviceCopy;
use crate::error::{human_bytes, Error, Result};
use crate::stream::Stream;
use crate::view::{View, ViewMut};
use crate::{large_copy, upload_ring};
use hip_abi::{hipDeviceptr_t, hipMemcpyKind};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// A rectangle for a copy of rows: all counts are in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Elements of a row that are copied.
    pub width: usize,
    /// Rows.
    pub count: usize,
    /// From one row to the next where they are written.
    pub target_pitch: usize,
    /// From one row to the next where they are read.
    pub source_pitch: usize,
}

impl Rows {
    /// Refuses a rectangle that does not lie within `target` and `source` elements.
    fn check(&self, target: usize, source: usize) -> Result<()> {
        for (what, pitch, len) in [("written", self.target_pitch, target), ("read", self.source_pitch, source)] {
            let extent = match self.count {
                0 => Some(0),
                count => pitch.checked_mul(count - 1).and_then(|start| start.checked_add(self.width)),
            };
            if pitch < self.width || extent.is_none_or(|extent| extent > len) {
                return Err(Error::refused(format!(
                    "{} rows of {} elements, {pitch} apart, do not lie within the {len} elements to be {what}",
                    self.count, self.width
                )));
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.count == 0 || self.width == 0
    }
}

fn same_length(target: usize, source: usize) -> Result<()> {
    if target == source {
        return Ok(());
    }
    Err(Error::refused(format!("{source} elements cannot be copied to {target}: the lengths must be equal")))
}

impl<T: DeviceCopy> View<'_, T> {
    /// A copy of the elements in host memory. Waits for the work on the buffer's stream.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut data = large_copy::room_for(self.len())?;
        large_copy::download(self.stream(), self.ptr().as_raw(), &mut data.spare_capacity_mut()[..self.len()])?;
        // SAFETY: all elements were written, and every bit pattern is a value of T.
        unsafe { data.set_len(self.len()) };
        self.stream().report()?;
        Ok(data)
    }

    /// Copies the elements into `data`, of the same length. Waits for the work on the buffer's stream.
    pub fn read_into(&self, data: &mut [T]) -> Result<()> {
        same_length(data.len(), self.len())?;
        // SAFETY: nothing but values of T is written there, and a failed copy leaves bytes, each of which is one.
        let data = unsafe { &mut *(std::ptr::from_mut(data) as *mut [MaybeUninit<T>]) };
        large_copy::download(self.stream(), self.ptr().as_raw(), data)?;
        self.stream().report()
    }

    /// Copies rows into `data`, which is laid out with its own pitch. Waits for the work on the buffer's stream.
    pub fn read_rows_into(&self, data: &mut [T], rows: Rows) -> Result<()> {
        rows.check(data.len(), self.len())?;
        let stream = self.stream();
        stream.refuse_in_capture("reading a buffer")?;
        if rows.is_empty() {
            return Ok(());
        }
        // SAFETY: `check` saw that the rectangle lies within both; the target is borrowed until the synchronisation.
        unsafe {
            copy_rows(stream, data.as_mut_ptr(), self.ptr().as_raw().cast(), rows, hipMemcpyKind::hipMemcpyDeviceToHost)
        }?;
        stream.0.drain()?;
        stream.report()
    }
}

impl ViewMut<'_, u8> {
    /// Lets `read` fill the elements, front to back, in parts of its own memory that the device reaches directly: a file gets to the device
    /// without a copy of it in the host's memory, and is read while earlier parts are being copied. When this returns, all was
    /// read, and the last parts are on their way. After an error the elements that were not yet read are what they were.
    ///
    /// ```
    /// use std::io::Read;
    /// let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
    /// let mut file = std::io::repeat(7).take(5_000_000);
    /// let mut buffer = stream.zeros::<u8>(5_000_000)?;
    /// buffer.view_mut().write_from(|part| file.read_exact(part).map_err(|error| hip::Error::refused(error.to_string())))?;
    /// assert!(buffer.to_vec()?.iter().all(|&byte| byte == 7));
    /// # Ok::<(), hip::Error>(())
    /// ```
    pub fn write_from<E: From<Error>>(
        &mut self,
        mut read: impl FnMut(&mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.device().0.report_deferred()?;
        self.stream().refuse_other_threads()?;
        self.keep_in_capture();
        if self.stream().session().is_some() {
            // The graph keeps the bytes and writes them at every launch.
            let mut all = large_copy::room_for(self.bytes())?;
            all.resize(self.bytes(), 0);
            read(&mut all)?;
            return Ok(upload_ring::upload(self.stream(), self.ptr().as_raw(), &all)?);
        }
        large_copy::upload_from(self.stream(), self.ptr().as_raw(), self.bytes(), read)
    }
}

impl<T: DeviceCopy> ViewMut<'_, T> {
    /// Copies `data`, of the same length, to the device. Small data is on its way when this returns; large data is there.
    /// In a capture the graph keeps the data and writes it at every launch.
    pub fn write(&mut self, data: &[T]) -> Result<()> {
        same_length(self.len(), data.len())?;
        if data.is_empty() {
            return self.device().0.report_deferred();
        }
        self.stream().refuse_other_threads()?;
        self.keep_in_capture();
        upload_ring::upload(self.stream(), self.ptr().as_raw(), bytemuck::cast_slice(data))
    }

    /// Copies rows of `data` to the device.
    pub fn write_rows(&mut self, data: &[T], rows: Rows) -> Result<()> {
        rows.check(self.len(), data.len())?;
        let stream = self.stream();
        stream.refuse_in_capture("writing rows from host memory")?;
        if rows.is_empty() {
            return Ok(());
        }
        // SAFETY: `check` saw that the rectangle lies within both; the source is borrowed until the synchronisation.
        unsafe {
            copy_rows(stream, self.ptr().as_raw().cast(), data.as_ptr(), rows, hipMemcpyKind::hipMemcpyHostToDevice)
        }?;
        stream.0.drain()?;
        stream.report()
    }

    /// Copies the elements of `source`, of the same length, which may belong to another stream or another device.
    ///
    /// The copy runs on this buffer's stream, after the work submitted so far to both streams; work submitted to the
    /// source's stream later waits for it.
    pub fn copy_from<'b>(&mut self, source: impl Into<View<'b, T>>) -> Result<()> {
        let source = source.into();
        same_length(self.len(), source.len())?;
        if self.is_empty() {
            return self.device().0.report_deferred();
        }
        let (target, bytes) = (self.ptr().as_raw(), self.bytes());
        self.ordered_with(&source, |stream| {
            let from = source.device();
            let doing = || {
                format!(
                    "copying {} from device {} to device {}",
                    human_bytes(bytes),
                    from.ordinal(),
                    stream.device().ordinal()
                )
            };
            let platform = stream.device().platform();
            // SAFETY: both ranges lie within live buffers, whose memory outlasts the copy: what is freed is reused only in
            // the order of streams, and `ordered_with` orders both.
            unsafe {
                if from == stream.device() {
                    let kind = hipMemcpyKind::hipMemcpyDeviceToDevice;
                    call!(platform, hipMemcpyAsync(target, source.ptr().as_raw(), bytes, kind, stream.handle()), doing)
                } else {
                    let (to_device, from_device) = (stream.device().0.ordinal, from.0.ordinal);
                    call!(
                        platform,
                        hipMemcpyPeerAsync(
                            target,
                            to_device,
                            source.ptr().as_raw(),
                            from_device,
                            bytes,
                            stream.handle()
                        ),
                        doing
                    )
                }
            }
        })
    }

    /// Copies rows of `source`, a buffer of the same device.
    pub fn copy_rows_from<'b>(&mut self, source: impl Into<View<'b, T>>, rows: Rows) -> Result<()> {
        let source = source.into();
        rows.check(self.len(), source.len())?;
        if self.device() != source.device() {
            return Err(Error::refused("rows can only be copied within one device; copy the buffer there first"));
        }
        if rows.is_empty() {
            return Ok(());
        }
        let target = self.ptr().as_raw().cast::<T>();
        self.ordered_with(&source, |stream| {
            let kind = hipMemcpyKind::hipMemcpyDeviceToDevice;
            // SAFETY: `check` saw that the rectangle lies within both live buffers; `ordered_with` orders the streams.
            unsafe { copy_rows(stream, target, source.ptr().as_raw().cast(), rows, kind) }
        })
    }

    /// Sets all bytes to zero.
    pub fn zero(&mut self) -> Result<()> {
        self.set_bytes(0, T::zeroed())
    }

    /// Sets every byte; `element` is what an element then is.
    fn set_bytes(&mut self, value: u8, element: T) -> Result<()> {
        self.stream().refuse_other_threads()?;
        self.device().0.bind()?;
        if self.is_empty() {
            return Ok(());
        }
        if self.ends_before_a_boundary() {
            return self.fill_by_doubling(element);
        }
        self.keep_in_capture();
        // SAFETY: the range lies within a live buffer.
        unsafe {
            call!(
                self.device().platform(),
                hipMemsetAsync(self.ptr().as_raw(), i32::from(value), self.bytes(), self.stream().handle()),
                || format!("setting {} to {value:#04x}", human_bytes(self.bytes()))
            )
        }
    }

    /// Sets every element to `value`.
    pub fn fill(&mut self, value: T) -> Result<()> {
        let pattern = bytemuck::bytes_of(&value);
        if pattern.iter().all(|&byte| byte == pattern[0]) {
            return self.set_bytes(pattern.first().copied().unwrap_or_default(), value);
        }
        if self.is_empty() {
            return self.device().0.report_deferred();
        }
        let (stream, count) = (self.stream(), self.len());
        stream.refuse_other_threads()?;
        let doing = || format!("filling {count} elements of {} bytes", size_of::<T>());
        let target = hipDeviceptr_t(self.ptr().as_raw());
        // Memory sets need their value's alignment; a type such as [u8; 2] does not promise it.
        let aligned = self.ptr().address().is_multiple_of(size_of::<T>() as u64) && !self.ends_before_a_boundary();
        match *pattern {
            [a, b] if aligned => {
                self.device().0.bind()?;
                self.keep_in_capture();
                let value = u16::from_ne_bytes([a, b]);
                // SAFETY: the range lies within a live buffer and is aligned.
                unsafe {
                    call!(stream.device().platform(), hipMemsetD16Async(target, value, count, stream.handle()), doing)
                }
            }
            [a, b, c, d] if aligned => {
                self.device().0.bind()?;
                self.keep_in_capture();
                let value = i32::from_ne_bytes([a, b, c, d]);
                // SAFETY: the range lies within a live buffer and is aligned.
                unsafe {
                    call!(stream.device().platform(), hipMemsetD32Async(target, value, count, stream.handle()), doing)
                }
            }
            _ => self.fill_by_doubling(value),
        }
    }

    /// Whether the buffer ends before the first multiple of eight bytes behind its start. HIP 5.2's memory sets take their size for
    /// a negative one there and write over the memory behind.
    fn ends_before_a_boundary(&self) -> bool {
        let address = self.ptr().address();
        address + (self.bytes() as u64) < address.next_multiple_of(8)
    }

    /// For elements that no memory set takes: a start from the host, then copies of twice the size each.
    fn fill_by_doubling(&mut self, value: T) -> Result<()> {
        let mut done = self.len().min(256);
        self.reborrow().slice(..done)?.write(&vec![value; done])?;
        while done < self.len() {
            let next = done.min(self.len() - done);
            let (source, target) = (self.ptr(), self.ptr().offset(done));
            self.device().0.bind()?;
            let (stream, bytes) = (self.stream(), next * size_of::<T>());
            // SAFETY: both ranges lie within this buffer and do not overlap, since next <= done.
            unsafe {
                call!(
                    stream.device().platform(),
                    hipMemcpyAsync(
                        target.as_raw(),
                        source.as_raw(),
                        bytes,
                        hipMemcpyKind::hipMemcpyDeviceToDevice,
                        stream.handle()
                    ),
                    || format!("filling {} elements of {} bytes", self.len(), size_of::<T>())
                )
            }?;
            done += next;
        }
        Ok(())
    }

    /// Runs a copy on this buffer's stream with both streams in order: ours waits for the source's before, and the
    /// source's waits for ours after, so that neither buffer can be reused too early.
    fn ordered_with(&self, source: &View<'_, T>, copy: impl FnOnce(&Stream) -> Result<()>) -> Result<()> {
        if !std::sync::Arc::ptr_eq(&self.device().platform().0, &source.device().platform().0) {
            return Err(Error::refused(format!(
                "a buffer of the platform {} cannot be copied to the platform {} directly; copy it through the host",
                source.device().platform().name(),
                self.device().platform().name()
            )));
        }
        let (ours, theirs) = (self.stream(), source.stream());
        ours.refuse_other_threads()?;
        ours.follow(theirs)?;
        self.keep_in_capture();
        if let Some(session) = ours.session() {
            session.keep_block(source.block());
        }
        ours.device().0.bind()?;
        copy(ours)?;
        theirs.follow(ours)
    }
}

/// Copies a rectangle.
///
/// # Safety
/// `Rows::check` must have passed for both ends, and both must stay valid until the copy has run.
unsafe fn copy_rows<T>(
    stream: &Stream,
    target: *mut T,
    source: *const T,
    rows: Rows,
    kind: hipMemcpyKind,
) -> Result<()> {
    stream.device().0.bind()?;
    let size = size_of::<T>();
    // SAFETY: the caller's promise.
    unsafe {
        call!(
            stream.device().platform(),
            hipMemcpy2DAsync(
                target.cast::<c_void>(),
                rows.target_pitch * size,
                source.cast::<c_void>(),
                rows.source_pitch * size,
                rows.width * size,
                rows.count,
                kind,
                stream.handle()
            ),
            || format!("copying {} rows of {}", rows.count, human_bytes(rows.width * size))
        )
    }
}

/// The same on whole buffers.
impl<T: DeviceCopy> Buffer<T> {
    /// A copy of the elements in host memory. Waits for the work on the buffer's stream.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.view().to_vec()
    }

    /// Copies the elements into `data`, of the same length. Waits for the work on the buffer's stream.
    pub fn read_into(&self, data: &mut [T]) -> Result<()> {
        self.view().read_into(data)
    }

    /// Copies `data`, of the same length, to the device; see [`ViewMut::write`].
    pub fn write(&mut self, data: &[T]) -> Result<()> {
        self.view_mut().write(data)
    }

    /// Copies the elements of `source`, of the same length; see [`ViewMut::copy_from`].
    pub fn copy_from<'b>(&mut self, source: impl Into<View<'b, T>>) -> Result<()> {
        self.view_mut().copy_from(source)
    }

    /// Sets all bytes to zero.
    pub fn zero(&mut self) -> Result<()> {
        self.view_mut().zero()
    }

    /// Sets every element to `value`.
    pub fn fill(&mut self, value: T) -> Result<()> {
        self.view_mut().fill(value)
    }

    /// A copy on the same stream.
    pub fn try_clone(&self) -> Result<Self> {
        self.to_stream(self.stream())
    }

    /// A copy that belongs to `stream`, of this device or another.
    pub fn to_stream(&self, stream: &Stream) -> Result<Self> {
        let mut copy = stream.alloc(self.len())?;
        copy.copy_from(self)?;
        Ok(copy)
    }
}
