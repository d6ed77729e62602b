//! The disassembler against LLVM's, on the byte strings of LLVM's own tests: `VGPU_VECTORS=llvm/test/MC/Disassembler/AMDGPU
//! cargo test -p vgpu --test disasm vectors -- --ignored --nocapture` (or `llvm/test/MC/AMDGPU`). Each is tried on every target, whatever it was written
//! for.

use crate::llvm::{found, Score, Target};
use std::collections::BTreeSet;

/// The byte strings of a test file: lines of `0x..` with commas or spaces, or what stands behind `encoding:` in brackets.
fn strings(text: &str) -> impl Iterator<Item = Vec<u8>> + '_ {
    text.lines().filter_map(|line| {
        let bytes = match line.split_once("encoding: [") {
            Some((_, bytes)) => bytes.split(']').next()?,
            None if line.starts_with("0x") => line.split(['#', ';']).next()?,
            None => return None,
        };
        let bytes = bytes.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        bytes.map(|byte| u8::from_str_radix(byte.strip_prefix("0x")?, 16).ok()).collect()
    })
}

#[test]
#[ignore = "needs the folder of LLVM's tests: VGPU_VECTORS"]
fn vectors_of_llvm() {
    assert!(found("llvm-mc-19"), "llvm-mc-19 is not there");
    let folder = std::env::var("VGPU_VECTORS").expect("VGPU_VECTORS names llvm/test/MC/Disassembler/AMDGPU");
    let mut all = BTreeSet::new();
    for file in std::fs::read_dir(folder).expect("the folder can be read").flatten() {
        if let Ok(text) = std::fs::read_to_string(file.path()) {
            all.extend(strings(&text).filter(|bytes| bytes.len() % 4 == 0));
        }
    }
    assert!(!all.is_empty(), "no byte string was found");
    let all: Vec<Vec<u8>> = all.into_iter().collect();
    let mut differ = 0;
    for target in Target::all() {
        let mut score = Score::default();
        for batch in all.chunks(8_000) {
            score.take(target, batch);
        }
        let Score { instructions, differ: here, fallen } = score;
        println!(
            "{target}: {} strings, {instructions} instructions, {here} differ, LLVM fell over {fallen}",
            all.len()
        );
        differ += here;
    }
    assert_eq!(differ, 0, "{differ} strings differ");
}
