//! What AMD's own libraries rely on in loads: ends of buffer resources, and which half of a register a 16-bit load keeps.

mod common;

use common::{clang, Asm};
use vgpu::Arch;

/// Architectures whose buffer instructions the assembler writes as here.
const ARCHS: [Arch; 4] = [Arch::Gfx90a, Arch::Gfx942, Arch::Gfx1030, Arch::Gfx1100];

/// A buffer resource over the rows of inputs at s[4:5], with this many bytes, in s[8:11].
fn resource(arch: Arch, bytes: u32) -> String {
    // Raw, 32-bit elements; RDNA wants the kind of range check too.
    let word = match arch.generation() {
        9 => 0x0002_0000u32,
        10 => 0x3101_4fac,
        _ => 0x3100_4000,
    };
    format!("  s_mov_b64 s[8:9], s[4:5]\n  s_mov_b32 s10, {bytes}\n  s_mov_b32 s11, {word:#x}\n")
}

#[test]
fn both_offsets_count_at_the_end_of_a_buffer() {
    if clang().is_none() {
        return;
    }
    for arch in ARCHS {
        let asm = Asm::new(arch);
        let load = if arch.generation() >= 11 { "buffer_load_b32" } else { "buffer_load_dword" };
        // 40 bytes, from 16 on: six words, and zeros behind.
        let body = resource(arch, 40)
            + &format!(
                "  v_lshlrev_b32 v6, 2, v0\n  s_mov_b32 s12, 12\n  {load} v1, v6, s[8:11], s12 offen offset:4\n"
            );
        let values: Vec<u32> = (100..164).collect();
        let result = asm.run(&body, &[values], 1).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        for (lane, &value) in result[0].iter().enumerate() {
            assert_eq!(value, if lane < 6 { 104 + lane as u32 } else { 0 }, "{arch}, lane {lane}");
        }
    }
}

#[test]
fn words_of_a_wide_load_end_one_by_one() {
    if clang().is_none() {
        return;
    }
    for arch in ARCHS {
        let asm = Asm::new(arch);
        let load = if arch.generation() >= 11 { "buffer_load_b128" } else { "buffer_load_dwordx4" };
        let wait = "  s_waitcnt vmcnt(0)\n";
        let moves = "  v_mov_b32 v1, v20\n  v_mov_b32 v50, v21\n  v_mov_b32 v51, v22\n  v_mov_b32 v52, v23\n";
        let body = resource(arch, 24)
            + &format!("  v_lshlrev_b32 v6, 4, v0\n  {load} v[20:23], v6, s[8:11], 0 offen\n{wait}{moves}");
        let values: Vec<u32> = (100..164).collect();
        let result = asm.run(&body, &[values], 4).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        let lane = |n: usize| [result[0][n], result[1][n], result[2][n], result[3][n]];
        assert_eq!([lane(0), lane(1), lane(2)], [[100, 101, 102, 103], [104, 105, 0, 0], [0; 4]], "{arch}");
    }
}

#[test]
fn a_load_into_half_a_register_clears_the_other_half_where_registers_are_corrected() {
    if clang().is_none() {
        return;
    }
    for arch in ARCHS {
        let asm = Asm::new(arch);
        let names = if arch.generation() >= 11 {
            ["global_load_d16_b16", "global_load_d16_hi_b16"]
        } else {
            ["global_load_short_d16", "global_load_short_d16_hi"]
        };
        for (name, shift) in names.into_iter().zip([0, 16]) {
            let body = format!("  v_mov_b32 v1, 0x77777777\n  v_lshlrev_b32 v6, 2, v0\n  {name} v1, v6, s[4:5]\n");
            let result = asm.run(&body, &[vec![0x1234_abcd]], 1).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
            let kept = if arch.is_cdna() { 0 } else { 0x7777_7777u32 & !(0xffff << shift) };
            assert_eq!(result[0], vec![0xabcd << shift | kept; asm.wave_size], "{name} on {arch}");
        }
    }
}
