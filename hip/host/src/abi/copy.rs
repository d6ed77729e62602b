//! Copies and fills. Everything that can be wrong with a range is found at submission.

use super::{hip_functions, present, Outcome};
use crate::command::{Address, Command, Copy, Fill, Pattern};
use crate::memory::{self, Place};
use crate::{device, graph, stream};
use hip_abi::{hipDeviceptr_t, hipError_t, hipMemcpyKind, hipStream_t};
use std::ffi::{c_int, c_void};

hip_functions! {
    fn hipMemcpy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: hipMemcpyKind) {
        graph::forbid_unsafe_call()?;
        let Some(copy) = checked_copy(Copy::row(dst, src, bytes), kind)? else { return Ok(()) };
        let null = device::current()?.null_stream();
        if let Some(ticket) = null.submit(Command::Copy(copy))? {
            null.wait_for(ticket);
        }
        null.take_failure()
    }

    fn hipMemcpyAsync(dst: *mut c_void, src: *const c_void, bytes: usize, kind: hipMemcpyKind, stream: hipStream_t) {
        submit_copy(Copy::row(dst, src, bytes), kind, stream)
    }

    fn hipMemcpy2DAsync(
        dst: *mut c_void,
        dst_pitch: usize,
        src: *const c_void,
        src_pitch: usize,
        width: usize,
        height: usize,
        kind: hipMemcpyKind,
        stream: hipStream_t,
    ) {
        if height > 1 && (dst_pitch < width || src_pitch < width) {
            return Err(hipError_t::hipErrorInvalidPitchValue);
        }
        let (dst, src) = (Address(dst), Address(src.cast_mut()));
        let expected = (Place::Host, Place::Host);
        submit_copy(Copy { dst, dst_pitch, src, src_pitch, row_bytes: width, rows: height, expected }, kind, stream)
    }

    fn hipMemcpyPeerAsync(dst: *mut c_void, dst_device: c_int, src: *const c_void, src_device: c_int, bytes: usize, stream: hipStream_t) {
        for (address, device) in [(dst.cast_const(), dst_device), (src, src_device)] {
            let device = device::get(device)?;
            let found = memory::find(address as usize);
            if bytes > 0 && found.is_none_or(|found| found.device != device.ordinal) {
                return Err(hipError_t::hipErrorInvalidValue);
            }
        }
        submit_copy(Copy::row(dst, src, bytes), hipMemcpyKind::hipMemcpyDeviceToDevice, stream)
    }

    fn hipMemsetAsync(dst: *mut c_void, value: c_int, bytes: usize, stream: hipStream_t) {
        // C's memset takes the low byte too.
        submit_fill(dst, Pattern::Byte(value as u8), bytes, stream)
    }

    fn hipMemsetD8Async(dst: hipDeviceptr_t, value: u8, count: usize, stream: hipStream_t) {
        submit_fill(dst.0, Pattern::Byte(value), count, stream)
    }

    fn hipMemsetD16Async(dst: hipDeviceptr_t, value: u16, count: usize, stream: hipStream_t) {
        submit_fill(dst.0, Pattern::Half(value), count, stream)
    }

    fn hipMemsetD32Async(dst: hipDeviceptr_t, value: c_int, count: usize, stream: hipStream_t) {
        submit_fill(dst.0, Pattern::Word(value as u32), count, stream)
    }
}

impl Copy {
    /// One row; what its ends are is found out by `checked_copy`.
    fn row(dst: *mut c_void, src: *const c_void, bytes: usize) -> Self {
        let (dst, src, expected) = (Address(dst), Address(src.cast_mut()), (Place::Host, Place::Host));
        Self { dst, dst_pitch: bytes, src, src_pitch: bytes, row_bytes: bytes, rows: 1, expected }
    }
}

/// The copy, if it is allowed and there is anything to do.
fn checked_copy(copy: Copy, kind: hipMemcpyKind) -> Outcome<Option<Copy>> {
    if kind.0 > hipMemcpyKind::hipMemcpyDefault.0 {
        return Err(hipError_t::hipErrorInvalidMemcpyDirection);
    }
    if copy.rows == 0 || copy.row_bytes == 0 {
        return Ok(None);
    }
    present(copy.dst.0)?;
    present(copy.src.0)?;
    let expected = copy.places()?;
    memory::check_direction(kind, expected.0, expected.1)?;
    Ok(Some(Copy { expected, ..copy }))
}

fn submit_copy(copy: Copy, kind: hipMemcpyKind, stream: hipStream_t) -> Outcome {
    let stream = stream::resolve(stream)?;
    match checked_copy(copy, kind)? {
        Some(copy) => stream.submit(Command::Copy(copy)).map(drop),
        None => Ok(()),
    }
}

fn submit_fill(dst: *mut c_void, pattern: Pattern, count: usize, stream: hipStream_t) -> Outcome {
    let stream = stream::resolve(stream)?;
    if count == 0 {
        return Ok(());
    }
    present(dst)?;
    let bytes = count.checked_mul(pattern.bytes()).ok_or(hipError_t::hipErrorInvalidValue)?;
    if !(dst as usize).is_multiple_of(pattern.bytes()) || memory::place(dst as usize, bytes)? == Place::Host {
        return Err(hipError_t::hipErrorInvalidValue);
    }
    stream.submit(Command::Fill(Fill { dst: Address(dst), pattern, count })).map(drop)
}
