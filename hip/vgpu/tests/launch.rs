//! Launches as such: from an AQL packet, on several threads, with hidden arguments; what is counted.

mod common;

use common::{clang, hip, hip_with};
use std::sync::Arc;
use vgpu::{Arch, Buffers, Class, CodeCache, Launch, Memory, Object, Options, Span, Worker};

const ADD: &str = r#"
extern "C" __global__ void add(const u32* in, u32* out, u32 n) {
    u32 i = BLOCK * 64 + THREAD;
    if (i < n) out[i] = in[i] + BLOCK;
}"#;

/// Buffers and an object's segments, as a runtime that loads objects itself would have them.
struct Everything<'a> {
    buffers: &'a Buffers,
    object: &'a Object,
}

// SAFETY: both live as long as this, and promise what is asked for.
unsafe impl Memory for Everything<'_> {
    fn find(&self, address: u64) -> Option<Span> {
        let own = self.object.spans().iter().find(|span| span.contains(address, 1)).copied();
        own.or_else(|| self.buffers.find(address))
    }
}

#[test]
fn a_packet_in_memory_is_enough() {
    if clang().is_none() {
        return;
    }
    for arch in Arch::ALL {
        let object = Object::load(&hip(arch, ADD)).unwrap();
        let kernel = object.kernel("add").unwrap();
        let mut buffers = Buffers::new();
        let (input, output) = (buffers.from_slice(&[5u32; 150]), buffers.alloc(600));
        let arguments = buffers.from_slice(&[input, output, 150]);
        let mut packet = [0u8; 64];
        packet[4..6].copy_from_slice(&64u16.to_le_bytes());
        packet[6] = 1;
        packet[8] = 1;
        // Work-items, not blocks: the last block is a partial one.
        packet[12..16].copy_from_slice(&150u32.to_le_bytes());
        packet[16] = 1;
        packet[20] = 1;
        packet[32..40].copy_from_slice(&kernel.descriptor_address().to_le_bytes());
        packet[40..48].copy_from_slice(&arguments.to_le_bytes());
        let memory = Everything { buffers: &buffers, object: &object };
        let launch = Launch::from_packet(arch, &packet, Arc::new(CodeCache::new()), &memory).unwrap();
        assert_eq!(launch.blocks(), [3, 1, 1]);
        launch.run(&mut Worker::new(), &memory).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        let out = buffers.read::<u32>(output, 150).unwrap();
        assert!(out.iter().enumerate().all(|(i, &value)| value == 5 + i as u32 / 64), "{arch}: {out:?}");
        // An address without a descriptor is refused.
        packet[32..40].copy_from_slice(&0x1000u64.to_le_bytes());
        assert!(Launch::from_packet(arch, &packet, Arc::new(CodeCache::new()), &memory).is_err());
    }
}

#[test]
fn blocks_run_on_several_threads_at_once() {
    if clang().is_none() {
        return;
    }
    let object = Object::load(&hip(Arch::Gfx1100, ADD)).unwrap();
    let kernel = object.kernel("add").unwrap();
    let mut memory = Buffers::new();
    let (input, output) = (memory.from_slice(&[1u32; 6400]), memory.alloc(25600));
    let arguments = memory.from_slice(&[input, output, 6400]);
    let launch = Launch::new(&kernel, [100, 1, 1], [64, 1, 1], 0, arguments).unwrap();
    let next = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut worker = Worker::new();
                loop {
                    let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if n >= launch.block_count() {
                        break;
                    }
                    launch.run_block(launch.block_at(n), &mut worker, &memory).unwrap();
                }
            });
        }
    });
    let out = memory.read::<u32>(output, 6400).unwrap();
    assert!(out.iter().enumerate().all(|(i, &value)| value == 1 + i as u32 / 64));
}

#[test]
fn hidden_arguments_are_filled_by_their_kind() {
    if clang().is_none() {
        return;
    }
    // Version 5 asks for the block size and count through the implicit arguments.
    let source = r#"
extern "C" __global__ void sizes(u32* out) {
    const u32 __attribute__((address_space(4)))* hidden = (const u32 __attribute__((address_space(4)))*)__builtin_amdgcn_implicitarg_ptr();
    out[THREAD] = hidden[0] * 1000 + (hidden[3] & 0xffff);
}"#;
    for arch in Arch::ALL {
        for version in ["-mcode-object-version=5", "-mcode-object-version=6"] {
            let object = Object::load(&hip_with(arch, source, &["-O3", version])).unwrap();
            let kernel = object.kernel("sizes").unwrap();
            let mut memory = Buffers::new();
            let output = memory.alloc(4 * 32);
            let mut arguments = vec![0u8; kernel.descriptor().kernarg_bytes as usize];
            arguments[..8].copy_from_slice(&output.to_le_bytes());
            kernel.fill_hidden(&mut arguments, [7, 1, 1], [32, 1, 1], 0);
            let arguments = memory.from_slice(&arguments);
            let launch = Launch::new(&kernel, [7, 1, 1], [32, 1, 1], 0, arguments).unwrap();
            launch.run(&mut Worker::new(), &memory).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
            assert_eq!(memory.read::<u32>(output, 32).unwrap(), [7032; 32], "{arch} {version}");
        }
    }
}

#[test]
fn both_wave_sizes_of_rdna_run() {
    if clang().is_none() {
        return;
    }
    for arch in [Arch::Gfx1030, Arch::Gfx1100, Arch::Gfx1201] {
        let object = Object::load(&hip_with(arch, ADD, &["-O3", "-mwavefrontsize64"])).unwrap();
        let kernel = object.kernel("add").unwrap();
        assert_eq!(kernel.descriptor().wave_size, 64);
        let mut memory = Buffers::new();
        let (input, output) = (memory.from_slice(&[3u32; 128]), memory.alloc(512));
        let arguments = memory.from_slice(&[input, output, 128]);
        let launch = Launch::new(&kernel, [2, 1, 1], [64, 1, 1], 0, arguments).unwrap();
        launch.run(&mut Worker::new(), &memory).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        let out = memory.read::<u32>(output, 128).unwrap();
        assert!(out.iter().enumerate().all(|(i, &value)| value == 3 + i as u32 / 64), "{arch}");
    }
}

#[test]
fn lines_lanes_and_bank_conflicts_are_counted() {
    if clang().is_none() {
        return;
    }
    let source = r#"
extern "C" __global__ void near(const u32* in, u32* out) { out[THREAD] = in[THREAD]; }
extern "C" __global__ void far(const u32* in, u32* out) { out[THREAD] = in[THREAD * 64]; }
extern "C" __global__ void half(const u32* in, u32* out) { if (THREAD % 2) out[THREAD] = in[THREAD]; }
extern "C" __global__ void banks(const u32* in, u32* out) {
    __shared__ u32 tile[64 * 32];
    tile[THREAD * 32] = in[THREAD];
    BARRIER;
    out[THREAD] = tile[(THREAD ^ 1) * 32];
}"#;
    for arch in Arch::ALL {
        let object = Object::load(&hip(arch, source)).unwrap();
        let count = |name: &str| {
            let kernel = object.kernel(name).unwrap();
            let mut memory = Buffers::new();
            let (input, output) = (memory.from_slice(&[0u32; 64 * 64]), memory.alloc(256));
            let arguments = memory.from_slice(&[input, output]);
            let options = Options { count: true, ..Options::default() };
            let launch = Launch::new(&kernel, [1, 1, 1], [64, 1, 1], 0, arguments).unwrap().with_options(options);
            let mut worker = Worker::new();
            launch.run(&mut worker, &memory).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
            worker.take_counters()
        };
        let lines = 2 * 256 / arch.line_bytes();
        let near = count("near");
        assert_eq!((near.lines, near.least_lines), (lines, lines), "{arch}");
        assert_eq!((near.bytes_loaded, near.bytes_stored), (256, 256), "{arch}");
        assert_eq!(near.waves as usize, 64 / arch.wave_size(), "{arch}");
        assert_eq!(near.instructions[Class::Load as usize], near.waves, "{arch}");
        let far = count("far");
        assert_eq!((far.lines, far.least_lines), (64 + lines / 2, lines), "{arch}");
        let half = count("half");
        assert!(half.active_lanes < half.lanes, "{arch}");
        // 32 lanes on one bank, twice for the store and twice for the load.
        let banks = count("banks");
        assert_eq!((banks.bank_cycles, banks.least_bank_cycles), (4 * 32, 4), "{arch}");
    }
}
