//! LLVM's disassembler as the judge of ours: how it is called, and how the two are compared.

use std::io::Write;
use std::process::{Command, Stdio};
use vgpu::decode::decode;
use vgpu::disasm::text;
use vgpu::target::Arch;

/// A target with its wave size.
#[derive(Clone, Copy)]
pub struct Target {
    pub arch: Arch,
    pub wave_size: usize,
}

impl Target {
    /// With the wave size that is usual there.
    pub fn usual(arch: Arch) -> Self {
        Self { arch, wave_size: arch.wave_size() }
    }

    /// All targets, RDNA with both wave sizes.
    pub fn all() -> Vec<Self> {
        let wide = Arch::ALL.into_iter().filter(|arch| !arch.is_cdna()).map(|arch| Self { arch, wave_size: 64 });
        Arch::ALL.into_iter().map(Self::usual).chain(wide).collect()
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} wave{}", self.arch.name(), self.wave_size)
    }
}

/// How many samples differ; the first are shown. `None` of LLVM's is left out and counted.
#[derive(Default)]
pub struct Score {
    pub instructions: usize,
    pub differ: usize,
    pub fallen: usize,
}

impl Score {
    /// Compares the two on each sample.
    pub fn take(&mut self, target: Target, samples: &[Vec<u8>]) {
        for (number, (bytes, theirs)) in samples.iter().zip(disassemble(target, samples, 0)).enumerate() {
            let Some(theirs) = theirs else {
                self.fallen += 1;
                continue;
            };
            let found = ours_marked(target, bytes, number);
            self.instructions += theirs.len();
            if found.len() != theirs.len() || !found.iter().zip(&theirs).all(|(one, other)| same(one, other)) {
                self.differ += 1;
                if self.differ <= 40 {
                    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    println!("{target}: {hex}\n  LLVM {theirs:?}\n  ours {found:?}");
                }
            }
        }
    }
}

/// Whether two texts are the same. Images are known by name only.
fn same(one: &str, other: &str) -> bool {
    let is_image = |text: &str| text.starts_with("image_");
    if is_image(one) && is_image(other) {
        return one.split(' ').next() == other.split(' ').next();
    }
    one == other
}

/// Whether a program of LLVM 19 is there. Without it a test is left out, with a word; on CI that is an error.
pub fn found(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{program} is not there; install llvm-19");
        eprintln!("left out: {program} is not there (Debian and Ubuntu: llvm-19)");
    }
    found
}

/// What llvm-mc prints for each of the byte strings, which are numbered from `first` on: the instructions that it finds, one after the other. `None` where it
/// fell over: some words take it to places that its authors hold unreachable.
pub fn disassemble(target: Target, samples: &[Vec<u8>], first: usize) -> Vec<Option<Vec<String>>> {
    let found = run(target, samples, first);
    if found.len() == samples.len() {
        return found.into_iter().map(Some).collect();
    }
    if samples.len() == 1 {
        return vec![None];
    }
    let (one, other) = samples.split_at(samples.len() / 2);
    [disassemble(target, one, first), disassemble(target, other, first + one.len())].concat()
}

/// The same; fewer where llvm-mc did not live to print all.
fn run(target: Target, samples: &[Vec<u8>], first: usize) -> Vec<Vec<String>> {
    let mut input = String::new();
    for (number, sample) in samples.iter().enumerate() {
        for byte in sample.iter().chain(&marker(first + number)) {
            input.push_str(&format!("{byte:#04x} "));
        }
        input.push('\n');
    }
    let mut child = Command::new("llvm-mc-19")
        .args(["--disassemble", "--triple=amdgcn-amd-amdhsa", &format!("-mcpu={}", target.arch.name())])
        .args((target.wave_size == 64).then_some("-mattr=+wavefrontsize64"))
        .env("LLVM_DISABLE_SYMBOLIZATION", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("llvm-mc-19 starts");
    let mut pipe = child.stdin.take().expect("a pipe was asked for");
    let output = std::thread::scope(|scope| {
        // It reads all before it prints; a pipe that breaks means that it ended early.
        scope.spawn(move || pipe.write_all(input.as_bytes()));
        child.wait_with_output().expect("llvm-mc-19 ends")
    });
    let output = String::from_utf8(output.stdout).expect("llvm-mc-19 prints text");
    let (mut found, mut open, mut closed) = (Vec::new(), Vec::new(), false);
    for line in output.lines().map(str::trim).skip_while(|line| *line != ".text").skip(1) {
        if closed && line != spelled(first + found.len()) {
            found.push(std::mem::take(&mut open));
            closed = false;
        }
        if line == spelled(first + found.len()) {
            closed = true;
        } else if !line.is_empty() {
            open.push(line.to_owned());
        }
    }
    if closed {
        found.push(open);
    }
    found
}

/// What follows a sample: so many `s_nop` that an instruction that wants more bytes finds them.
pub fn marker(number: usize) -> Vec<u8> {
    (0xbf80_4000 + (number % 0x2000) as u32).to_le_bytes().repeat(5)
}

fn spelled(number: usize) -> String {
    format!("s_nop {:#x}", 0x4000 + number % 0x2000)
}

/// What ours finds in a sample that is followed by its marker.
pub fn ours_marked(target: Target, sample: &[u8], number: usize) -> Vec<String> {
    let mut found = ours(target, &[sample, &marker(number)].concat());
    while found.last() == Some(&spelled(number)) {
        found.pop();
    }
    found
}

/// What ours finds in the bytes: an instruction that is none is skipped as four bytes, as LLVM does.
pub fn ours(target: Target, bytes: &[u8]) -> Vec<String> {
    let Target { arch, wave_size: wave } = target;
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        match decode(arch, wave, &bytes[at..]) {
            Ok(inst) => {
                found.push(text(arch, wave, &inst));
                at += usize::from(inst.size);
            }
            Err(_) => at += 4,
        }
    }
    found
}

/// Numbers by a seed (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }

    pub fn below(&mut self, end: u32) -> u32 {
        self.next() % end
    }
}
