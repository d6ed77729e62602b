//! LLVM's disassembler as the judge of ours: how it is called, and how the two are compared.

use std::io::Write;
use std::process::{Command, Stdio};
use vgpu::decode::decode;
use vgpu::disasm::text;
use vgpu::target::Arch;

/// Whether a program of LLVM 19 is there. Without it a test is left out, with a word; on CI that is an error.
pub fn found(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{program} is not there; install llvm-19");
        eprintln!("left out: {program} is not there (Debian and Ubuntu: llvm-19)");
    }
    found
}

/// What llvm-mc prints for each of the byte strings: the instructions that it finds, one after the other.
pub fn disassemble(arch: Arch, samples: &[Vec<u8>]) -> Vec<Vec<String>> {
    let mut input = String::new();
    for (number, sample) in samples.iter().enumerate() {
        for byte in sample {
            input.push_str(&format!("{byte:#04x} "));
        }
        input.push('\n');
        // A marker between two samples.
        let [low, high] = marker(number).to_le_bytes();
        input.push_str(&format!("{low:#04x} {high:#04x} 0x80 0xbf\n"));
    }
    let mut child = Command::new("llvm-mc-19")
        .args(["--disassemble", "--triple=amdgcn-amd-amdhsa", &format!("-mcpu={}", arch.name())])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("llvm-mc-19 starts");
    let mut pipe = child.stdin.take().expect("a pipe was asked for");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || pipe.write_all(input.as_bytes()));
        child.wait_with_output().expect("llvm-mc-19 ends")
    });
    let output = String::from_utf8(output.stdout).expect("llvm-mc-19 prints text");
    let mut found = vec![Vec::new()];
    for line in output.lines().skip_while(|line| line.trim() != ".text").skip(1) {
        let line = line.trim();
        let number = found.len() - 1;
        if line == format!("s_nop {}", spelled(marker(number))) {
            found.push(Vec::new());
        } else if !line.is_empty() {
            found[number].push(line.to_owned());
        }
    }
    found.truncate(samples.len());
    assert_eq!(found.len(), samples.len(), "llvm-mc-19 printed something else than instructions");
    found
}

fn marker(number: usize) -> u16 {
    0x4000 + (number % 0x2000) as u16
}

fn spelled(value: u16) -> String {
    format!("{value:#x}")
}

/// What ours finds in the bytes: an instruction that is none is skipped as four bytes, as LLVM does.
pub fn ours(arch: Arch, bytes: &[u8]) -> Vec<String> {
    let wave = arch.wave_size();
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

/// Whether two texts are the same. Images are known by name only.
pub fn same(one: &str, other: &str) -> bool {
    let is_image = |text: &str| text.starts_with("image_");
    if is_image(one) && is_image(other) {
        return one.split(' ').next() == other.split(' ').next();
    }
    one == other
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
