//! The way of a GGUF tensor from its file to the device: piece by piece through pinned memory. Sizes around those pieces arrive byte for
//! byte, the host holds no copy of a tensor, and a file or a device that fails in the middle leaves nothing behind.

use super::bench::{PLAIN, QUANTIZED};
use candle_core::quantized::gguf_file::TensorInfo;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Result, Tensor};
use hip_host::inject;
use std::io::{Error, Read, Seek, SeekFrom};
use std::process::Command;

/// A file of which nothing is in memory: each byte follows from its place.
struct Made {
    at: u64,
    length: u64,
    /// Reading at or behind this place fails.
    breaks_at: u64,
}

impl Made {
    fn new(length: usize) -> Self {
        Self { at: 0, length: length as u64, breaks_at: u64::MAX }
    }

    fn byte(at: u64) -> u8 {
        (at * 31 + at / 253 + at / 65_521) as u8
    }
}

impl Read for Made {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at >= self.breaks_at {
            return Err(Error::other("the disk is gone"));
        }
        // Short reads now and then, as a file may give.
        let end = self.length.min(self.at + 300_007).min(self.breaks_at.max(self.at + 1));
        let count = buffer.len().min((end - self.at.min(end)) as usize);
        for (index, byte) in buffer[..count].iter_mut().enumerate() {
            *byte = Self::byte(self.at + index as u64);
        }
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Made {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(back) => self.length.saturating_add_signed(back),
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
        };
        Ok(self.at)
    }
}

/// A tensor of so many blocks, somewhere in a file.
fn info(format: GgmlDType, blocks: usize, offset: u64) -> TensorInfo {
    TensorInfo { ggml_dtype: format, shape: (blocks * format.block_size()).into(), offset }
}

fn works(device: &Device) -> Result<()> {
    let sum = Tensor::ones(10, DType::F32, device)?.sum_all()?.to_scalar::<f32>()?;
    assert_eq!(sum, 10., "the device works on");
    Ok(())
}

#[test]
fn every_format_and_size_arrives_byte_for_byte() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let piece = 1 << 20;
    for (index, format) in PLAIN.into_iter().chain(QUANTIZED).enumerate() {
        // Less than a piece, a piece as nearly as blocks allow, and a little more than one; in one format more than all pieces.
        let mut sizes = vec![1, 77, piece / format.type_size(), piece / format.type_size() + 1];
        if format == GgmlDType::Q4K {
            sizes.push(19 * piece / format.type_size() + 3);
        }
        // All at once, so that one is read while others are on their way.
        let place = |position: usize| 7 + 13 * index as u64 + position as u64;
        let mut file = Made::new(21 * piece);
        let load =
            |(position, &blocks): (usize, &usize)| info(format, blocks, place(position)).read(&mut file, 5, &device);
        let tensors = sizes.iter().enumerate().map(load).collect::<Result<Vec<QTensor>>>()?;
        for (position, (tensor, &blocks)) in tensors.iter().zip(&sizes).enumerate() {
            let start = 5 + place(position);
            let expected = (start..start + (blocks * format.type_size()) as u64).map(Made::byte);
            assert!(tensor.data()?.iter().copied().eq(expected), "{blocks} blocks of {format:?}");
        }
    }
    Ok(())
}

#[test]
fn a_file_that_fails_in_the_middle_is_an_error_that_names_the_tensor() -> Result<()> {
    let device = Device::new_rocm(0)?;
    for breaks_at in [100, 1 << 20, (5 << 20) + 3, (18 << 20) + 7] {
        let mut file = Made { breaks_at, ..Made::new(20 << 20) };
        let tensor = info(GgmlDType::F32, (19 << 20) / 4, 64);
        let error = tensor.read(&mut file, 32, &device).expect_err("a broken disk").to_string();
        assert!(error.contains("F32") && error.contains("at offset 96"), "{error}");
        assert!(error.contains("cannot be read: the disk is gone"), "{error}");
        works(&device)?;
    }
    Ok(())
}

/// Every call that loading makes fails once.
#[test]
fn a_device_that_fails_in_the_middle_leaves_nothing_behind() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let load = || info(GgmlDType::Q8_0, (3 << 20) / 34, 0).read(&mut Made::new(4 << 20), 0, &device);
    load()?;
    device.synchronize()?;
    let (loaded, calls) = inject::record(load);
    let expected = loaded?.data()?.into_owned();
    let mut failed = 0;
    for (function, count) in calls {
        for nth in 1..=count {
            let armed = inject::fail(function, nth, hip_abi_error());
            let outcome = load();
            // What a device that works on makes of it: fewer waits, if it was quicker this time.
            let fired = armed.fired();
            drop(armed);
            match outcome {
                Err(error) => {
                    assert!(fired, "{function}, call {nth}: {error}");
                    failed += 1;
                }
                Ok(tensor) => assert!(!fired && tensor.data()?.as_ref() == expected, "{function}, call {nth}"),
            }
            works(&device)?;
            assert!(load()?.data()?.as_ref() == expected, "after {function}, call {nth}");
        }
    }
    assert!(failed >= 4, "{failed} calls failed");
    Ok(())
}

fn hip_abi_error() -> candle_core::rocm_backend::hip::hipError_t {
    candle_core::rocm_backend::hip::hipError_t::hipErrorECCNotCorrectable
}

const CHILD: &str = "CANDLE_ROCM_TEST_LOADS_ALONE";

/// The most memory that this process has had, in megabytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says how large a process is");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") >> 10
}

/// The embedded device's memory is the host's, so a tensor is there once. A second copy would show.
#[test]
fn the_host_holds_no_copy_of_what_it_loads() -> Result<()> {
    const MEGABYTES: usize = 256;
    if std::env::var_os(CHILD).is_none() {
        // In a process of its own: the peak is that of everything a process has done.
        let mut again = Command::new(std::env::current_exe().expect("a test program knows its own path"));
        again.args(["--exact", "loading::the_host_holds_no_copy_of_what_it_loads", "--nocapture"]).env(CHILD, "1");
        let output = again.env("CANDLE_ROCM_PLATFORM", "host").output().expect("it runs again");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return Ok(());
    }
    let device = Device::new_rocm(0)?;
    // Everything that a first time needs.
    info(GgmlDType::F32, 1000, 0).read(&mut Made::new(4000), 0, &device)?.data()?;
    works(&device)?;
    let before = peak();
    let tensor = info(GgmlDType::F32, MEGABYTES << 18, 0).read(&mut Made::new(MEGABYTES << 20), 0, &device)?;
    device.synchronize()?;
    let more = peak() - before;
    println!("{more} MB more for a tensor of {MEGABYTES} MB");
    assert!(more >= MEGABYTES as u64, "the tensor is nowhere: {more} MB");
    // The pinned pieces are 16 MB.
    assert!(more < MEGABYTES as u64 + 32, "{more} MB for a tensor of {MEGABYTES} MB");
    drop(tensor);
    Ok(())
}
