//! Damaged code objects: whatever the bytes say, loading and running them ends with a result or with an error. `VGPU_DAMAGE=1000000` tries
//! that many objects, and `VGPU_DAMAGE_FROM=200000` others: those from that round on, five to a round. Damage is the same on every machine.

mod common;

use common::{clang, hip_with};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use vgpu::{Accuracy, Arch, Buffers, Checks, Launch, Object, Options, Schedule, Worker};

/// Kernels that between them use scalar and vector memory, local memory, barriers, shuffles, atomics, all widths of numbers, private
/// memory, and tables.
const KERNELS: &str = r#"
extern "C" __global__ void add(const u32* in, u32* out, u32 n) {
    u32 i = BLOCK * 64 + THREAD;
    if (i < n) out[i] = in[i] + BLOCK;
}
extern "C" __global__ void local(const u32* in, u32* out, u32 n) {
    __shared__ u32 words[128];
    words[THREAD] = in[THREAD % n] * 3;
    BARRIER;
    u32 sum = 0;
    for (u32 i = 0; i < 8; i++) sum += words[(THREAD + i) & 63];
    __atomic_fetch_add(out + (THREAD & 7), sum, __ATOMIC_RELAXED);
    out[8 + THREAD % 32] = __builtin_amdgcn_ds_bpermute(int(THREAD * 4), int(sum));
}
extern "C" __global__ void numbers(const float* in, float* out, u32 n) {
    float x = in[THREAD % n];
    double y = double(x) / 3.0 + double(n);
    _Float16 h = _Float16(x) * _Float16(0.5f) + _Float16(1);
    float z = x / float(n) + __builtin_sqrtf(x) + __builtin_amdgcn_rcpf(x) + __builtin_amdgcn_exp2f(x);
    u64 q = u64(THREAD) * 0x123456789abcul / (n + 1) % 1000003ul;
    out[THREAD] = z + float(h) + float(y) + float(q);
}
extern "C" __global__ void table(const u8* in, u16* out, u32 n) {
    static __attribute__((constant)) const u32 primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
    volatile u32 own[4] = {1, 2, 3, 4};
    own[in[THREAD % n] & 3] += primes[in[THREAD % n] & 7];
    u32 i = THREAD;
    while (i > 3) { i = i * 7 / 11; own[i & 3] ^= i; }
    out[THREAD] = u16(own[0] + own[1] + own[2] + own[3]);
}"#;

/// Numbers that are the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 ^ self.0 >> 29).wrapping_mul(0x94d0_49bb_1331_11eb) >> 20
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound.max(1)
    }

    fn place(&mut self, range: &Range<usize>) -> usize {
        range.start + self.below(range.len())
    }
}

fn number(bytes: &[u8], at: usize, size: usize) -> usize {
    bytes[at..at + size].iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte))
}

/// An object, and where its parts lie in the file.
struct Whole {
    bytes: Vec<u8>,
    kernels: Vec<Place>,
    note: Range<usize>,
    headers: Vec<Range<usize>>,
}

/// Where the parts of a kernel lie.
struct Place {
    name: String,
    code: Range<usize>,
    descriptor: Range<usize>,
}

impl Whole {
    fn new(arch: Arch) -> Self {
        // Private memory and tables stay what they are when nothing is optimised away.
        let bytes = hip_with(arch, KERNELS, &["-O2"]);
        let (programs, sections) = (number(&bytes, 32, 8), number(&bytes, 40, 8));
        let (mut note, mut segments) = (0..0, Vec::new());
        for n in 0..number(&bytes, 56, 2) {
            let field = |at| number(&bytes, programs + 56 * n + at, if at < 8 { 4 } else { 8 });
            let (offset, address, size) = (field(8), field(16), field(32));
            match field(0) {
                1 => segments.push((address..address + size, offset)),
                4 => note = offset..offset + size,
                _ => {}
            }
        }
        // The place in the file of an address, and the end of its segment there.
        let place = |address: usize| {
            let (range, offset) = segments.iter().find(|(range, _)| range.contains(&address)).expect("a segment");
            (address - range.start + offset, range.end - range.start + offset)
        };
        let object = Object::load(&bytes).expect("an object");
        let entries: Vec<_> = object.kernels().map(|kernel| (kernel.entry() - kernel.base()) as usize).collect();
        let kernels = object.kernels().map(|kernel| {
            let descriptor = place((kernel.descriptor_address() - kernel.base()) as usize).0;
            let entry = (kernel.entry() - kernel.base()) as usize;
            let (start, end) = place(entry);
            let next = entries.iter().filter(|&&other| other > entry).map(|&other| place(other).0).min();
            let code = start..next.unwrap_or(end);
            Place { name: kernel.name().to_owned(), code, descriptor: descriptor..descriptor + 64 }
        });
        let kernels: Vec<_> = kernels.collect();
        assert!(!note.is_empty() && kernels.len() == 4);
        let headers = vec![0..64, programs..programs + 56 * number(&bytes, 56, 2), sections..bytes.len()];
        Self { bytes, kernels, note, headers }
    }

    /// A damaged copy; of code and descriptors, those of one kernel are.
    fn damaged(&self, kernel: &Place, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for _ in 0..1 + random.below(4) {
            match random.below(12) {
                // Words of code: any, or one whose upper half, which says what instruction it is, is there elsewhere in the code.
                0..=2 => {
                    let at = random.place(&kernel.code) & !3;
                    let word = (random.next() as u32).to_le_bytes();
                    bytes[at..at + 4].copy_from_slice(&word);
                }
                3 | 4 => {
                    let (at, from) = (random.place(&kernel.code) & !3, random.place(&kernel.code) & !3);
                    let word = [random.next() as u8, random.next() as u8, self.bytes[from + 2], self.bytes[from + 3]];
                    bytes[at..at + 4].copy_from_slice(&word);
                }
                5 => {
                    let at = random.place(&kernel.code);
                    bytes[at] ^= 1 << random.below(8);
                }
                6 => {
                    let at = random.place(&kernel.descriptor);
                    bytes[at] = random.next() as u8;
                }
                7 => {
                    let at = random.place(&self.note);
                    bytes[at] = random.next() as u8;
                }
                8 => {
                    let range = &self.headers[random.below(self.headers.len())];
                    let at = random.place(range);
                    bytes[at] = random.next() as u8;
                }
                // A number of eight bytes that is as large as they get.
                9 => {
                    let range = &self.headers[random.below(self.headers.len())];
                    let at = random.place(range) & !7;
                    let value = (u64::MAX >> random.below(64)).wrapping_sub(random.below(3) as u64);
                    if let Some(target) = bytes.get_mut(at..at + 8) {
                        target.copy_from_slice(&value.to_le_bytes());
                    }
                }
                10 if random.below(4) == 0 => bytes.truncate(random.below(self.bytes.len())),
                _ => {
                    let at = random.below(bytes.len());
                    bytes[at] = random.next() as u8;
                }
            }
            if bytes.len() < self.bytes.len() {
                break;
            }
        }
        bytes
    }
}

/// How a launch runs: any way there is.
fn options(random: &mut Random) -> Options {
    let checks = if random.below(3) == 0 { Checks::default() } else { Checks::ALL };
    Options {
        accuracy: [Accuracy::Exact, Accuracy::Coarse, Accuracy::Up, Accuracy::Down][random.below(4)],
        checks,
        strict_local: random.below(4) > 0,
        count: random.below(4) == 0,
        schedule: [Schedule::Ascending, Schedule::Descending, Schedule::Random(random.next())][random.below(3)],
        switch_every: [0, 7, 100][random.below(3)],
        limit: 2000,
        portable: false,
    }
}

/// How far a damaged object got.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Got {
    Refused,
    Loaded,
    Ended,
}

/// Loads an object and runs a kernel of it.
fn load_and_run(bytes: &[u8], name: &str, random: &mut Random, worker: &mut Worker) -> Got {
    let Ok(object) = Object::load(bytes) else { return Got::Refused };
    let Some(kernel) = object.kernel(name).or_else(|| object.kernels().next()) else { return Got::Refused };
    let mut memory = Buffers::new();
    let (input, output) = (memory.from_slice(&[5u32; 64]), memory.alloc(256));
    let arguments = memory.from_slice(&[input, output, 64, 0, 0, 0, 0, 0]);
    let (grid, block) = ([1 + random.below(2) as u32, 1, 1], [[64, 1, 1], [33, 1, 1], [8, 8, 1]][random.below(3)]);
    let mut packed = [0; 256];
    kernel.fill_hidden(&mut packed, grid, block, 64);
    kernel.lines(random.next() % 4096);
    let launch = Launch::new(&kernel, grid, block, 64 * random.below(3) as u32, arguments);
    let Ok(launch) = launch.map(|launch| launch.with_options(options(random))) else { return Got::Loaded };
    if random.below(8) == 0 {
        launch.refusals(&memory);
    }
    match launch.run(worker, &memory) {
        Ok(()) => Got::Ended,
        Err(failure) => {
            assert!(!failure.to_string().is_empty());
            Got::Loaded
        }
    }
}

#[test]
fn damaged_objects_neither_panic_nor_hang() {
    if clang().is_none() {
        return;
    }
    let asked = |name: &str| std::env::var(name).ok().map(|count| count.parse::<usize>().expect("a number"));
    let (all, from) = (asked("VGPU_DAMAGE").unwrap_or(20_000), asked("VGPU_DAMAGE_FROM").unwrap_or(0));
    let rounds = all.div_ceil(Arch::ALL.len());
    let tested = std::thread::scope(|scope| {
        let test = |arch: Arch| {
            let whole = Whole::new(arch);
            let mut worker = Worker::new();
            let (mut loaded, mut ended) = (0, 0);
            let mut panics = BTreeMap::new();
            for round in from..from + rounds {
                let mut random = Random(round as u64);
                let kernel = &whole.kernels[round % whole.kernels.len()];
                let bytes = whole.damaged(kernel, &mut random);
                match catch_unwind(AssertUnwindSafe(|| load_and_run(&bytes, &kernel.name, &mut random, &mut worker))) {
                    Ok(got) => {
                        loaded += usize::from(got >= Got::Loaded);
                        ended += usize::from(got == Got::Ended);
                    }
                    Err(said) => {
                        let said = said.downcast_ref::<String>().cloned();
                        panics.entry(said.unwrap_or_default()).or_insert(round);
                        worker = Worker::new();
                    }
                }
            }
            assert!(panics.is_empty(), "{arch}: what was said, and the first round that said it: {panics:#?}");
            (loaded, ended)
        };
        let threads: Vec<_> = Arch::ALL.map(|arch| scope.spawn(move || test(arch))).into();
        threads.into_iter().map(|thread| thread.join().expect("no panic but those above")).collect::<Vec<_>>()
    });
    for (loaded, ended) in tested {
        // The damage must not all be in the headers, nor all be harmless, nor all fatal.
        println!("of {rounds} objects {loaded} were loaded, {ended} ran to their end");
        assert!(loaded > rounds / 3 && loaded < rounds && ended > loaded / 20 && ended < loaded);
    }
}

#[test]
fn arguments_that_are_too_long_are_refused() {
    if clang().is_none() {
        return;
    }
    let whole = Whole::new(Arch::Gfx1100);
    let mut bytes = whole.bytes.clone();
    let at = whole.kernels[0].descriptor.start + 8;
    bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let why = Object::load(&bytes).err().expect("arguments of 4 GiB").to_string();
    assert!(why.contains(&whole.kernels[0].name) && why.contains("4294967295"), "{why}");
}

#[test]
fn segments_that_are_copied_over_and_over_are_refused() {
    if clang().is_none() {
        return;
    }
    // Each segment is small enough, and all of them together are not.
    let whole = Whole::new(Arch::Gfx90a);
    let mut bytes = whole.bytes.clone();
    let headers = bytes.len().next_multiple_of(8);
    bytes.resize(headers, 0);
    let mut header = [0u8; 56];
    header[0] = 1;
    header[40..48].copy_from_slice(&(900u64 << 20).to_le_bytes());
    bytes.extend([header; 4].concat());
    bytes[32..40].copy_from_slice(&(headers as u64).to_le_bytes());
    bytes[56..58].copy_from_slice(&4u16.to_le_bytes());
    let why = Object::load(&bytes).err().expect("four segments of 900 MiB").to_string();
    assert!(why.contains("do not fit"), "{why}");
}
