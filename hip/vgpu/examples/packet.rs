//! A C function that runs an AQL packet, for tests that others wrote in other languages and checked on cards: they bring instruction
//! words, vgpu brings the card. `cargo build -p vgpu --example packet` makes the library.

use std::ffi::{c_char, CStr};
use std::sync::Arc;
use vgpu::{Arch, CodeCache, Launch, Memory, Options, Span, Worker};

/// Where code, descriptors, arguments and buffers lie.
struct Ranges(Vec<Span>);

// SAFETY: whoever calls `vgpu_run_packet` promises it.
unsafe impl Memory for Ranges {
    fn find(&self, address: u64) -> Option<Span> {
        self.0.iter().find(|span| span.contains(address, 1)).copied()
    }
}

/// Runs all blocks of a packet on an architecture, by name. The addresses in the packet and in what it leads to are those of this
/// process, and `ranges` has a start and an end of each part of memory that may be touched. The result is 0, or 1 and a sentence.
///
/// # Safety
/// `arch` is a string; `packet` has 64 bytes, `ranges` 16 times `count`, `message` as many as `bytes` says. All memory in the ranges may
/// be read and written, and nobody else does so meanwhile.
#[no_mangle]
pub unsafe extern "C" fn vgpu_run_packet(
    arch: *const c_char,
    packet: *const [u8; 64],
    ranges: *const [u64; 2],
    count: usize,
    message: *mut u8,
    bytes: usize,
) -> i32 {
    // SAFETY: as the caller promises.
    let (arch, packet, ranges, message) = unsafe {
        let ranges = std::slice::from_raw_parts(ranges, count);
        (CStr::from_ptr(arch), packet.read(), ranges, std::slice::from_raw_parts_mut(message, bytes))
    };
    let Err(why) = run(&arch.to_string_lossy(), &packet, ranges) else { return 0 };
    message.fill(0);
    let length = why.len().min(bytes.saturating_sub(1));
    message[..length].copy_from_slice(&why.as_bytes()[..length]);
    1
}

fn run(name: &str, packet: &[u8; 64], ranges: &[[u64; 2]]) -> Result<(), String> {
    let arch = Arch::parse(name).ok_or_else(|| format!("{name} is not emulated"))?;
    let span = |&[start, end]: &[u64; 2]| Span { start, end, writable: true, shadow: std::ptr::null_mut() };
    let memory = Ranges(ranges.iter().map(span).collect());
    // Code that does not end is a failure soon, and no test waits for 2^32 instructions.
    let options = Options { limit: 1 << 24, ..Options::default() };
    Launch::from_packet(arch, packet, Arc::new(CodeCache::new()), &memory)
        .and_then(|launch| launch.with_options(options).run(&mut Worker::new(), &memory))
        .map_err(|failure| failure.to_string())
}
