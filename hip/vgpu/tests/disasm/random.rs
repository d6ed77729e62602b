//! The disassembler against LLVM's, on random words: both must agree on what is an instruction, how long it is and how it is
//! spelled. `VGPU_FUZZ=1000000` tries that many words a target.

use crate::llvm::{found, Random, Score, Target};
use vgpu::decode::patterns;
use vgpu::target::Arch;

/// The upper bits of the encodings, so that the rare ones are met as often as the common ones.
const PREFIXES: [(u32, u32); 26] = [
    (0x0000_0000, 1),
    (0x8000_0000, 2),
    (0xb000_0000, 4),
    (0xbe80_0000, 9),
    (0xbf00_0000, 9),
    (0xbf80_0000, 9),
    (0x7c00_0000, 7),
    (0x7e00_0000, 7),
    (0xc000_0000, 6),
    (0xc400_0000, 6),
    (0xc800_0000, 6),
    (0xcc00_0000, 8),
    (0xd000_0000, 6),
    (0xd400_0000, 6),
    (0xd380_0000, 9),
    (0xd800_0000, 6),
    (0xdc00_0000, 6),
    (0xe000_0000, 6),
    (0xe800_0000, 6),
    (0xec00_0000, 8),
    (0xed00_0000, 8),
    (0xee00_0000, 8),
    (0xf000_0000, 6),
    (0xf400_0000, 6),
    (0xf800_0000, 6),
    (0xcd00_0000, 8),
];

fn sample(random: &mut Random) -> Vec<u8> {
    let mut words = [random.next(), random.next(), random.next(), random.next()];
    if random.below(4) != 0 {
        let (prefix, length) = PREFIXES[random.below(PREFIXES.len() as u32) as usize];
        words[0] = prefix | words[0] << 1 >> 1 & (u32::MAX >> length);
    }
    // SDWA, DPP and DPP8 are codes of the first source.
    if random.below(4) == 0 && words[0] >> 31 == 0 {
        words[0] = words[0] & !511 | [249, 250, 233, 234][random.below(4) as usize];
    }
    // Reserved bits are mostly zero: thin the words out.
    if random.below(2) == 0 {
        words[1] &= random.next();
    }
    if random.below(3) == 0 {
        words[1] &= random.next() & random.next();
        words[0] &= random.next() | 0xff80_0000;
    }
    tame(words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// SDWA's selectors have a code without meaning that llvm-mc does not survive.
fn tame(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes[0] == 249 && bytes[1] & 1 == 0 && bytes[3] < 128 {
        for byte in [5, 6, 7] {
            if bytes[byte] & 7 == 7 {
                bytes[byte] &= !1;
            }
        }
    }
    bytes
}

fn fuzz(target: Target) {
    if !found("llvm-mc-19") {
        return;
    }
    let count: usize = std::env::var("VGPU_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(20_000);
    // Each sample has four words.
    let samples = count.div_ceil(4);
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (target.arch as u64 * 2 + target.wave_size as u64 / 32));
    let mut score = Score::default();
    let mut left = samples;
    while left > 0 {
        let batch: Vec<Vec<u8>> = (0..left.min(8_000)).map(|_| sample(&mut random)).collect();
        left -= batch.len();
        score.take(target, &batch);
    }
    let Score { instructions, differ, fallen } = score;
    println!("{target}: {count} words, {instructions} instructions, {differ} samples differ, LLVM fell over {fallen}");
    assert_eq!(differ, 0, "{target}: {differ} of {samples} samples differ");
    assert!(fallen * 100 < samples, "{target}: llvm-mc-19 fell over {fallen} of {samples} samples");
}

#[test]
fn random_words_of_gfx90a() {
    fuzz(Target::usual(Arch::Gfx90a));
}

#[test]
fn random_words_of_gfx942() {
    fuzz(Target::usual(Arch::Gfx942));
}

#[test]
fn random_words_of_gfx1030() {
    fuzz(Target::usual(Arch::Gfx1030));
}

#[test]
fn random_words_of_gfx1100() {
    fuzz(Target::usual(Arch::Gfx1100));
}

#[test]
fn random_words_of_gfx1201() {
    fuzz(Target::usual(Arch::Gfx1201));
}

#[test]
fn random_words_of_wave64_on_rdna() {
    for arch in [Arch::Gfx1030, Arch::Gfx1100, Arch::Gfx1201] {
        fuzz(Target { arch, wave_size: 64 });
    }
}

/// Every instruction of the tables, with random operands.
#[test]
fn every_instruction_with_random_operands() {
    if !found("llvm-mc-19") {
        return;
    }
    let rounds: usize = std::env::var("VGPU_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    for target in Target::all() {
        let mut random = Random(11 + target.wave_size as u64);
        let mut score = Score::default();
        for _ in 0..rounds {
            let samples: Vec<Vec<u8>> = patterns(target.arch)
                .map(|pattern| {
                    let mut free = (0..4).fold(0, |bits: u128, _| bits << 32 | u128::from(random.next()));
                    // Registers and reserved bits are mostly small.
                    if random.below(2) == 0 {
                        free &= (0..4).fold(0, |bits: u128, _| bits << 32 | u128::from(random.next() & random.next()));
                    }
                    let bits = pattern.value | free & !pattern.mask;
                    tame(bits.to_le_bytes().to_vec())
                })
                .collect();
            for batch in samples.chunks(8_000) {
                score.take(target, batch);
            }
        }
        let Score { instructions, differ, fallen } = score;
        println!("{target}: {instructions} instructions, {differ} samples differ, LLVM fell over {fallen}");
        assert_eq!(differ, 0, "{target}: {differ} samples differ");
    }
}

/// Any bytes, of any length, are an instruction that fits or none: nothing panics, in the text neither.
#[test]
fn no_bytes_are_too_odd() {
    let mut random = Random(7);
    for round in 0..200_000 {
        let target = Target::all()[round % Target::all().len()];
        let mut bytes = sample(&mut random);
        bytes.truncate(random.below(17) as usize);
        if let Ok(inst) = vgpu::decode::decode(target.arch, target.wave_size, &bytes) {
            assert!(usize::from(inst.size) <= bytes.len(), "{target}: {bytes:02x?} is shorter than {}", inst.size);
            assert!(!vgpu::disasm::text(target.arch, target.wave_size, &inst).is_empty());
        }
    }
}
