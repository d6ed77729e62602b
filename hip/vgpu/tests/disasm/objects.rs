//! The disassembler against LLVM's, on compiled objects: `VGPU_OBJECTS=folder cargo test -p vgpu --test disasm
//! objects -- --ignored` compares every instruction of `folder/<target>/*.hsaco`.

use crate::llvm::{found, ours, Target};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use vgpu::target::Arch;

/// The instructions of an object as llvm-objdump prints them: bytes and text.
fn instructions(object: &Path) -> Vec<(Vec<u8>, String)> {
    let output = Command::new("llvm-objdump-19").arg("-d").arg(object).output().expect("llvm-objdump-19 starts");
    let output = String::from_utf8(output.stdout).expect("llvm-objdump-19 prints text");
    let read = |line: &str| {
        let (text, rest) = line.strip_prefix('\t')?.split_once("// ")?;
        let words = rest.split_once(": ")?.1;
        let words = words.split(' ').map_while(|word| u32::from_str_radix(word, 16).ok().filter(|_| word.len() == 8));
        Some((words.flat_map(u32::to_le_bytes).collect(), text.trim_end().to_owned()))
    };
    output.lines().filter_map(read).collect()
}

#[test]
#[ignore = "needs a folder of objects: VGPU_OBJECTS"]
fn every_instruction_of_every_object() {
    assert!(found("llvm-objdump-19"), "llvm-objdump-19 is not there");
    let folder = std::env::var("VGPU_OBJECTS").expect("VGPU_OBJECTS names a folder of <target>/*.hsaco");
    let (mut total, mut wrong) = (0, 0);
    for arch in Arch::ALL {
        let Ok(files) = std::fs::read_dir(Path::new(&folder).join(arch.name())) else { continue };
        let mut differ: BTreeMap<String, (usize, String)> = BTreeMap::new();
        let mut count = 0;
        for file in files.flatten().filter(|file| file.path().extension().is_some_and(|name| name == "hsaco")) {
            for (bytes, theirs) in instructions(&file.path()) {
                count += 1;
                let found = ours(Target::usual(arch), &bytes);
                if found.len() != 1 || found[0] != theirs {
                    let key = theirs.split(' ').next().unwrap_or_default().to_owned();
                    let entry = differ.entry(key).or_insert_with(|| (0, format!("{theirs} | {found:?}")));
                    entry.0 += 1;
                }
            }
        }
        println!("{}: {count} instructions, {} mnemonics differ", arch.name(), differ.len());
        for (name, (times, example)) in differ.iter().take(60) {
            println!("  {name} {times} times: {example}");
        }
        wrong += differ.len();
        total += count;
    }
    assert!(total > 0, "no object was found");
    assert_eq!(wrong, 0, "{wrong} mnemonics differ");
}
