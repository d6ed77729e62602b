//! Copies in every direction, of every kind of size, flat and by rows.

use super::{Bench, Done, LONG_TICKS, PATIENCE_TICKS};
use crate::{LaunchConfig, PinnedBuffer, Result, Rows};

fn pattern(len: usize, seed: u32) -> Vec<u32> {
    (0..len as u32).map(|i| i.wrapping_mul(2_654_435_761).wrapping_add(seed)).collect()
}

pub(super) fn round_trips(bench: &Bench) -> Result<Done> {
    // Around the size up to which uploads are staged, around that from which on reading back goes in pieces, and far from both.
    let (staged, piece, large) = ((64 << 10) / 4, (1 << 20) / 4, (4 << 20) / 4);
    for len in [0, 1, 3, 1000, staged, staged + 1, piece, piece + 1, large, large + 1, 5 * large + 12_345] {
        let data = pattern(len, 7);
        let buffer = bench.upload(&data)?;
        assert_eq!(buffer.to_vec()?, data, "{len} elements came back changed");
        let clone = buffer.try_clone()?;
        drop(buffer);
        let mut back = vec![0; len];
        clone.read_into(&mut back)?;
        assert_eq!(back, data);
    }
    let mut buffer = bench.stream.zeros::<u8>(1000)?;
    buffer.slice_mut(13..17)?.write(&[1, 2, 3, 4])?;
    let (left, right) = buffer.view_mut().split_at(500)?;
    left.slice(400..404)?.copy_from(right.as_view().slice(0..4)?)?;
    buffer.slice_mut(501..505)?.write(&[5, 6, 7, 8])?;
    let all = buffer.to_vec()?;
    assert_eq!(all[12..18], [0, 1, 2, 3, 4, 0]);
    assert_eq!(all[500..506], [0, 5, 6, 7, 8, 0]);
    assert_eq!(buffer.slice(14..16)?.to_vec()?, [2, 3]);
    // A large part from the middle, into memory that begins anywhere.
    let bytes: Vec<u8> = (0..21usize << 20).map(|i| (i * 7 + i / 251) as u8).collect();
    let buffer = bench.upload(&bytes)?;
    let mut back = vec![0; 18 << 20];
    buffer.slice(3..3 + (17 << 20))?.read_into(&mut back[5..5 + (17 << 20)])?;
    assert!(back[5..5 + (17 << 20)] == bytes[3..3 + (17 << 20)], "a large part came back changed");
    assert!(back[..5].iter().chain(&back[5 + (17 << 20)..]).all(|&byte| byte == 0), "more was written than asked for");
    Ok(Done::Passed)
}

pub(super) fn between_streams(bench: &Bench) -> Result<Done> {
    let other = bench.device.new_stream()?;
    let mut slow = bench.stream.zeros::<i32>(1)?;
    bench.launch("sleep_then_write", LaunchConfig::new(1, 1), &(&mut slow, 5i32, LONG_TICKS))?;
    // The copy waits for the kernel on the other stream; the next write waits for the copy.
    let copy = slow.to_stream(&other)?;
    slow.write(&[6])?;
    assert_eq!(copy.to_vec()?, [5]);
    assert_eq!(slow.to_vec()?, [6]);
    // A source that is dropped at once: its memory must not be reused before the copy has read it.
    let data = pattern(1 << 18, 3);
    let source = bench.upload(&data)?;
    let copy = source.to_stream(&other)?;
    drop(source);
    let _reused = bench.upload(&pattern(1 << 18, 4))?;
    assert_eq!(copy.to_vec()?, data);
    Ok(Done::Passed)
}

pub(super) fn rows(bench: &Bench) -> Result<Done> {
    let rows = Rows { width: 3, count: 4, target_pitch: 5, source_pitch: 7 };
    let data = pattern(28, 0);
    let expected: Vec<u32> = (0..20).map(|i| if i % 5 < 3 { data[i / 5 * 7 + i % 5] } else { 0 }).collect();
    let source = bench.upload(&data)?;
    let mut target = bench.stream.zeros::<u32>(20)?;
    target.view_mut().copy_rows_from(&source, rows)?;
    assert_eq!(target.to_vec()?, expected, "device to device");
    let mut target = bench.stream.zeros::<u32>(20)?;
    target.view_mut().write_rows(&data, rows)?;
    assert_eq!(target.to_vec()?, expected, "host to device");
    let mut back = vec![0; 20];
    source.view().read_rows_into(&mut back, rows)?;
    assert_eq!(back, expected, "device to host");
    // Many rows of one element: a column.
    let column = Rows { width: 1, count: 1000, target_pitch: 1, source_pitch: 1000 };
    let matrix = pattern(1_000_000, 1);
    let source = bench.upload(&matrix)?;
    let mut target = bench.stream.zeros::<u32>(1000)?;
    target.view_mut().copy_rows_from(source.slice(5..)?, column)?;
    let expected: Vec<u32> = (0..1000).map(|row| matrix[row * 1000 + 5]).collect();
    assert_eq!(target.to_vec()?, expected);
    Ok(Done::Passed)
}

pub(super) fn pinned_memory(bench: &Bench) -> Result<Done> {
    let data = pattern(1 << 18, 9);
    let mut pinned = PinnedBuffer::<u32>::zeros(&bench.device, data.len())?;
    assert!(pinned.iter().all(|&value| value == 0));
    pinned.copy_from_slice(&data);
    let mut buffer = bench.stream.alloc::<u32>(data.len())?;
    let pending = buffer.write_pinned(pinned)?;
    let mut pinned = pending.wait()?;
    pinned.fill(0);
    let back = buffer.read_pinned(pinned)?.wait()?;
    assert_eq!(*back, data);
    // Dropping a copy that is under way waits for it.
    let mut slow = bench.stream.zeros::<i32>(1)?;
    bench.launch("sleep_then_write", LaunchConfig::new(1, 1), &(&mut slow, 5i32, LONG_TICKS))?;
    drop(slow.read_pinned(PinnedBuffer::zeros(&bench.device, 1)?)?);
    assert!(bench.stream.is_idle()?);
    assert!(slow.read_pinned(PinnedBuffer::zeros(&bench.device, 2)?).is_err());
    Ok(Done::Passed)
}

pub(super) fn fills(bench: &Bench) -> Result<Done> {
    fn check<T: crate::DeviceCopy + PartialEq + std::fmt::Debug>(bench: &Bench, before: T, value: T) -> Result<()> {
        for len in [1, 5, 255, 256, 257, 10_000] {
            let mut buffer = bench.upload(&vec![before; len + 3])?;
            buffer.slice_mut(1..len + 1)?.fill(value)?;
            let mut expected = vec![value; len + 3];
            for kept in [0, len + 1, len + 2] {
                expected[kept] = before;
            }
            assert_eq!(buffer.to_vec()?, expected, "{len} elements of {} bytes", size_of::<T>());
        }
        Ok(())
    }
    check(bench, 1u8, 0xab)?;
    check(bench, 1u16, 0x1234)?;
    check(bench, 1i32, -2)?;
    check(bench, 1f32, 1.5)?;
    check(bench, 1f64, std::f64::consts::PI)?;
    check(bench, 1u64, 0x0102_0304_0506_0708)?;
    check(bench, [1u8; 3], [1, 2, 3])?;
    check(bench, [1u8; 2], [3, 4])?;
    let mut buffer = bench.upload(&[1.0f32; 100])?;
    buffer.zero()?;
    assert_eq!(buffer.to_vec()?, [0.0; 100]);
    Ok(Done::Passed)
}

pub(super) fn small_uploads_outrun_the_device(bench: &Bench) -> Result<Done> {
    // The device is asleep while more is uploaded than the upload ring holds: none of it may be overwritten early.
    let mut slow = bench.stream.zeros::<i32>(1)?;
    bench.launch("sleep_then_write", LaunchConfig::new(1, 1), &(&mut slow, 1i32, LONG_TICKS))?;
    let mut buffers = Vec::new();
    for index in 0..100 {
        buffers.push(bench.upload(&vec![index; 15_000])?);
    }
    for (index, buffer) in buffers.iter().enumerate() {
        assert!(buffer.to_vec()?.iter().all(|&value| value == index), "upload {index} was overwritten");
    }
    Ok(Done::Passed)
}

pub(super) fn files_are_read_in(bench: &Bench) -> Result<Done> {
    // Around a piece of pinned memory, around all of them, and twice all of them.
    let piece = 1 << 20;
    for bytes in [0, 1, 1000, piece - 1, piece, piece + 1, 16 * piece, 16 * piece + 1, 33 * piece + 12_345] {
        let file: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 251 + bytes) as u8).collect();
        let mut buffer = bench.stream.zeros::<u8>(bytes + 10)?;
        let mut rest = file.as_slice();
        buffer.slice_mut(3..3 + bytes)?.write_from(|part| {
            let (now, later) = rest.split_at(part.len());
            part.copy_from_slice(now);
            rest = later;
            // Nothing is locked meanwhile: a reader may use the stream.
            assert_eq!(bench.upload(&[5u8])?.to_vec()?, [5]);
            Ok::<_, crate::Error>(())
        })?;
        assert!(rest.is_empty(), "{} bytes of {bytes} were not asked for", rest.len());
        let back = buffer.to_vec()?;
        assert!(back[3..3 + bytes] == file, "{bytes} bytes arrived changed");
        assert!(back[..3].iter().chain(&back[3 + bytes..]).all(|&byte| byte == 0), "more was written than asked for");
    }
    // A reader that gives up, or panics, leaves everything usable; its own error comes out.
    #[derive(Debug)]
    enum Failure {
        File(usize),
        Device,
    }
    impl From<crate::Error> for Failure {
        fn from(_: crate::Error) -> Self {
            Self::Device
        }
    }
    for last in [0, 1, 5, 20] {
        let mut buffer = bench.stream.zeros::<u8>(24 * piece)?;
        let mut count = 0;
        let outcome = buffer.view_mut().write_from(|part| {
            part.fill(9);
            count += 1;
            if count > last {
                return Err(Failure::File(last));
            }
            Ok(())
        });
        assert!(matches!(outcome, Err(Failure::File(at)) if at == last), "{outcome:?}");
        let back = buffer.to_vec()?;
        assert!(
            back[..last * piece].iter().all(|&byte| byte == 9) && back[last * piece..].iter().all(|&byte| byte == 0)
        );
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            buffer.view_mut().write_from(|_| -> Result<()> { std::panic::resume_unwind(Box::new("a reader gives up")) })
        }));
        assert!(panicked.is_err());
    }
    Ok(Done::Passed)
}

pub(super) fn reading_a_file_outruns_the_device(bench: &Bench) -> Result<Done> {
    let one = || LaunchConfig::new(1, 1);
    let other = bench.device.new_stream()?;
    let mut told = other.zeros::<i32>(1)?;
    let mut value = bench.stream.zeros::<i32>(1)?;
    let mut buffers = [bench.stream.zeros::<u8>(3 << 20)?, bench.stream.zeros::<u8>(12 << 20)?];
    bench.device.synchronize()?;
    // The stream stands still until it is told to go on. Two files are read all the same, as far as there is pinned memory.
    bench.launch("write_when_told", one(), &(&mut told, &mut value, 3i32, PATIENCE_TICKS))?;
    let mut next = 0u8;
    for buffer in &mut buffers {
        buffer.view_mut().write_from(|part| {
            next += 1;
            part.fill(next);
            Ok::<_, crate::Error>(())
        })?;
    }
    assert!(!bench.stream.is_idle()?, "reading a file waits for the device");
    bench.launch_on(&other, "tell", one(), &(&mut told,))?;
    let back: Vec<u8> = buffers.iter().map(|buffer| buffer.to_vec()).collect::<Result<Vec<_>>>()?.concat();
    assert_eq!(value.to_vec()?, [3]);
    for (index, part) in back.chunks(1 << 20).enumerate() {
        assert!(part.iter().all(|&byte| usize::from(byte) == index + 1), "part {index} was overwritten");
    }
    Ok(Done::Passed)
}

pub(super) fn refused_copies(bench: &Bench) -> Result<Done> {
    let mut buffer = bench.stream.zeros::<u32>(4)?;
    for error in [
        buffer.write(&[1, 2, 3]).unwrap_err(),
        buffer.read_into(&mut [0; 5]).unwrap_err(),
        buffer.slice(2..5).map(|_| ()).unwrap_err(),
        buffer
            .view_mut()
            .write_rows(&[0; 9], Rows { width: 3, count: 2, target_pitch: 3, source_pitch: 3 })
            .unwrap_err(),
        buffer
            .view_mut()
            .write_rows(&[0; 9], Rows { width: 3, count: 1, target_pitch: 2, source_pitch: 3 })
            .unwrap_err(),
        bench.stream.alloc::<u64>(usize::MAX / 4).map(|_| ()).unwrap_err(),
    ] {
        assert!(error.code().is_none(), "the crate itself must refuse this: {error}");
    }
    buffer.write(&[1, 2, 3, 4])?;
    assert_eq!(buffer.to_vec()?, [1, 2, 3, 4]);
    Ok(Done::Passed)
}
