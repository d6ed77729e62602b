//! Single instructions, assembled by clang, against a line of Rust each: on every target and in both wave sizes.

// Lanes are numbers here, and expectations read like the manuals.
#![allow(clippy::needless_range_loop, clippy::precedence, clippy::cloned_ref_to_slice_refs)]

mod common;

use common::{clang, f, half, to_half, Asm};
use vgpu::{Arch, Options};

/// A line of assembly whose result goes to `$d`, and what it gives for the lanes of v2, v3 and v4.
struct Case {
    text: &'static str,
    /// Targets that have it.
    on: fn(Arch) -> bool,
    expected: fn(u32, u32, u32) -> u32,
}

const fn all(_: Arch) -> bool {
    true
}
fn rdna(arch: Arch) -> bool {
    !arch.is_cdna()
}
fn rdna3(arch: Arch) -> bool {
    arch.generation() >= 11
}
fn before12(arch: Arch) -> bool {
    arch.generation() < 12
}
fn only12(arch: Arch) -> bool {
    arch.generation() >= 12
}
fn has_sdwa(arch: Arch) -> bool {
    arch.generation() < 11
}
fn cdna(arch: Arch) -> bool {
    arch.is_cdna()
}

const CASES: &[Case] = &[
    Case { text: "v_mov_b32 $d, v2", on: all, expected: |a, _, _| a },
    Case { text: "v_not_b32 $d, v2", on: all, expected: |a, _, _| !a },
    Case { text: "v_bfrev_b32 $d, v2", on: all, expected: |a, _, _| a.reverse_bits() },
    Case { text: "v_add_f32 $d, v2, v3", on: all, expected: |a, b, _| (f(a) + f(b)).to_bits() },
    Case { text: "v_sub_f32 $d, v2, v3", on: all, expected: |a, b, _| (f(a) - f(b)).to_bits() },
    Case { text: "v_subrev_f32 $d, v2, v3", on: all, expected: |a, b, _| (f(b) - f(a)).to_bits() },
    Case { text: "v_mul_f32 $d, v2, v3", on: all, expected: |a, b, _| (f(a) * f(b)).to_bits() },
    Case { text: "v_mul_f32 $d, -v2, |v3|", on: all, expected: |a, b, _| (-f(a) * f(b).abs()).to_bits() },
    Case { text: "v_mul_f32 $d, 0.5, v2", on: all, expected: |a, _, _| (f(a) * 0.5).to_bits() },
    Case { text: "v_mul_f32 $d, 0x40490fdb, v2", on: all, expected: |a, _, _| (f(a) * f(0x4049_0fdb)).to_bits() },
    Case { text: "v_fma_f32 $d, v2, v3, v4", on: all, expected: |a, b, c| f(a).mul_add(f(b), f(c)).to_bits() },
    Case { text: "v_fma_f32 $d, v2, -v3, |v4|", on: all, expected: |a, b, c| f(a).mul_add(-f(b), f(c).abs()).to_bits() },
    Case {
        text: "v_add_f32_e64 $d, v2, v3 clamp",
        on: all,
        expected: |a, b, _| {
            let sum = f(a) + f(b);
            if sum.is_nan() { 0 } else { (if sum > 0.0 { sum.min(1.0) } else { 0.0 }).to_bits() }
        },
    },
    // Where denormals are kept there are no output modifiers.
    Case { text: "v_add_f32_e64 $d, v2, v3 mul:4", on: all, expected: |a, b, _| (f(a) + f(b)).to_bits() },
    Case {
        text: "v_mullit_f32 $d, v2, v3, v4",
        on: rdna,
        expected: |a, b, c| if f(c) > 0.0 && f(b) > f32::MIN { (f(a) * f(b)).to_bits() } else { f32::MIN.to_bits() },
    },
    Case { text: "v_trunc_f32 $d, v2", on: all, expected: |a, _, _| f(a).trunc().to_bits() },
    Case { text: "v_floor_f32 $d, v2", on: all, expected: |a, _, _| f(a).floor().to_bits() },
    Case { text: "v_ceil_f32 $d, v2", on: all, expected: |a, _, _| f(a).ceil().to_bits() },
    Case { text: "v_rndne_f32 $d, v2", on: all, expected: |a, _, _| f(a).round_ties_even().to_bits() },
    Case { text: "v_cvt_i32_f32 $d, v2", on: all, expected: |a, _, _| f(a) as i32 as u32 },
    Case { text: "v_cvt_u32_f32 $d, v2", on: all, expected: |a, _, _| f(a) as u32 },
    Case { text: "v_cvt_f32_i32 $d, v2", on: all, expected: |a, _, _| (a as i32 as f32).to_bits() },
    Case { text: "v_cvt_f32_u32 $d, v2", on: all, expected: |a, _, _| (a as f32).to_bits() },
    Case { text: "v_cvt_f32_ubyte2 $d, v2", on: all, expected: |a, _, _| ((a >> 16 & 255) as f32).to_bits() },
    Case { text: "v_cvt_f32_f16 $d, v2", on: all, expected: |a, _, _| half(a).to_bits() },
    Case { text: "v_ldexp_f32 $d, v2, 5", on: all, expected: |a, _, _| (f(a) * 32.0).to_bits() },
    Case { text: "v_and_b32 $d, v2, v3", on: all, expected: |a, b, _| a & b },
    Case { text: "v_or_b32 $d, v2, v3", on: all, expected: |a, b, _| a | b },
    Case { text: "v_xor_b32 $d, v2, v3", on: all, expected: |a, b, _| a ^ b },
    Case { text: "v_lshlrev_b32 $d, v2, v3", on: all, expected: |a, b, _| b << (a & 31) },
    Case { text: "v_lshrrev_b32 $d, v2, v3", on: all, expected: |a, b, _| b >> (a & 31) },
    Case { text: "v_ashrrev_i32 $d, v2, v3", on: all, expected: |a, b, _| (b as i32 >> (a & 31)) as u32 },
    Case { text: "v_mul_lo_u32 $d, v2, v3", on: all, expected: |a, b, _| a.wrapping_mul(b) },
    Case { text: "v_mul_hi_u32 $d, v2, v3", on: all, expected: |a, b, _| (u64::from(a) * u64::from(b) >> 32) as u32 },
    Case {
        text: "v_mul_hi_i32 $d, v2, v3",
        on: all,
        expected: |a, b, _| (i64::from(a as i32) * i64::from(b as i32) >> 32) as u32,
    },
    Case {
        text: "v_mul_u32_u24 $d, v2, v3",
        on: all,
        expected: |a, b, _| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff),
    },
    Case {
        text: "v_mad_u32_u24 $d, v2, v3, v4",
        on: all,
        expected: |a, b, c| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c),
    },
    Case { text: "v_add3_u32 $d, v2, v3, v4", on: all, expected: |a, b, c| a.wrapping_add(b).wrapping_add(c) },
    Case { text: "v_lshl_add_u32 $d, v2, 3, v4", on: all, expected: |a, _, c| (a << 3).wrapping_add(c) },
    Case { text: "v_add_lshl_u32 $d, v2, v3, 2", on: all, expected: |a, b, _| a.wrapping_add(b) << 2 },
    Case { text: "v_lshl_or_b32 $d, v2, 7, v4", on: all, expected: |a, _, c| a << 7 | c },
    Case { text: "v_and_or_b32 $d, v2, v3, v4", on: all, expected: |a, b, c| a & b | c },
    Case { text: "v_or3_b32 $d, v2, v3, v4", on: all, expected: |a, b, c| a | b | c },
    Case { text: "v_xor3_b32 $d, v2, v3, v4", on: rdna, expected: |a, b, c| a ^ b ^ c },
    Case { text: "v_xad_u32 $d, v2, v3, v4", on: all, expected: |a, b, c| (a ^ b).wrapping_add(c) },
    Case { text: "v_bfe_u32 $d, v2, 5, 9", on: all, expected: |a, _, _| a >> 5 & 0x1ff },
    Case { text: "v_bfe_i32 $d, v2, 5, 9", on: all, expected: |a, _, _| ((a >> 5 << 23) as i32 >> 23) as u32 },
    Case { text: "v_bfi_b32 $d, v2, v3, v4", on: all, expected: |a, b, c| a & b | !a & c },
    Case {
        text: "v_alignbit_b32 $d, v2, v3, 13",
        on: all,
        expected: |a, b, _| ((u64::from(a) << 32 | u64::from(b)) >> 13) as u32,
    },
    Case {
        text: "v_perm_b32 $d, v2, v3, 0x0c010705",
        on: rdna,
        expected: |a, b, _| (b >> 8 & 255) << 16 | a >> 24 << 8 | a >> 8 & 255,
    },
    Case {
        text: "s_mov_b32 s20, 0x0602ff05\n  v_perm_b32 $d, v2, v3, s20",
        on: all,
        expected: |a, b, _| picked(a, b, 0x0602_ff05),
    },
    Case {
        text: "s_mov_b32 s20, 0x03080c0b\n  v_perm_b32 $d, v2, v3, s20",
        on: all,
        expected: |a, b, _| picked(a, b, 0x0308_0c0b),
    },
    Case {
        text: "v_and_b32 $d, 0x0f0f0f0f, v4\n  v_perm_b32 $d, v2, v3, $d",
        on: all,
        expected: |a, b, c| picked(a, b, c & 0x0f0f_0f0f),
    },
    Case { text: "v_perm_b32 $d, v2, v3, v4", on: all, expected: picked },
    Case { text: "v_max_u32 $d, v2, v3", on: all, expected: |a, b, _| a.max(b) },
    Case { text: "v_min_i32 $d, v2, v3", on: all, expected: |a, b, _| (a as i32).min(b as i32) as u32 },
    Case {
        text: "v_med3_u32 $d, v2, v3, v4",
        on: all,
        expected: |a, b, c| {
            let mut all = [a, b, c];
            all.sort_unstable();
            all[1]
        },
    },
    Case { text: "v_bcnt_u32_b32 $d, v2, v3", on: all, expected: |a, b, _| a.count_ones().wrapping_add(b) },
    Case { text: "v_add_u32 $d, v2, v3", on: cdna, expected: |a, b, _| a.wrapping_add(b) },
    Case { text: "v_add_nc_u32 $d, v2, v3", on: rdna, expected: |a, b, _| a.wrapping_add(b) },
    Case { text: "v_add_nc_u32_e64 $d, v2, v3 clamp", on: rdna, expected: |a, b, _| a.saturating_add(b) },
    Case { text: "v_subrev_u32 $d, v2, v3", on: cdna, expected: |a, b, _| b.wrapping_sub(a) },
    Case { text: "v_sub_nc_u32 $d, v2, v3", on: rdna, expected: |a, b, _| a.wrapping_sub(b) },
    // Carries: the sum of two 64-bit numbers made of v2:v3 and v3:v4, its high half.
    Case {
        text: "v_add_co_u32 $d, vcc, v2, v3\n  v_addc_co_u32 $d, vcc, v3, v4, vcc",
        on: cdna,
        expected: |a, b, c| b.wrapping_add(c).wrapping_add(u32::from(a.checked_add(b).is_none())),
    },
    Case {
        text: "v_sub_co_u32 $d, vcc, v2, v3\n  v_subb_co_u32 $d, vcc, v3, v4, vcc",
        on: cdna,
        expected: |a, b, c| b.wrapping_sub(c).wrapping_sub(u32::from(a < b)),
    },
    Case {
        text: "v_mad_u64_u32 v[40:41], vcc, v2, v3, v[2:3]\n  v_mov_b32 $d, v41",
        on: cdna,
        expected: |a, b, _| {
            ((u64::from(a) * u64::from(b)).wrapping_add(u64::from(a) | u64::from(b) << 32) >> 32) as u32
        },
    },
    // Sixteen bits: results clear the upper half on gfx9 and keep it later.
    Case {
        text: "v_mov_b32 $d, v4\n  v_add_f16 $d, v2, v3",
        on: only_gfx1030,
        expected: |a, b, c| to_half(half(a) + half(b)) | c & 0xffff_0000,
    },
    Case {
        text: "v_mov_b32 $d, v4\n  v_cvt_f16_f32 $d, v2",
        on: only_gfx1030,
        expected: |a, _, c| to_half(f(a)) | c & 0xffff_0000,
    },
    Case {
        text: "v_pk_add_u16 $d, v2, v3",
        on: all,
        expected: |a, b, _| a.wrapping_add(b) & 0xffff | (a >> 16).wrapping_add(b >> 16) << 16,
    },
    Case {
        text: "v_pk_add_u16 $d, v2, v3 op_sel:[1,0] op_sel_hi:[0,1]",
        on: all,
        expected: |a, b, _| (a >> 16).wrapping_add(b) & 0xffff | a.wrapping_add(b >> 16) << 16,
    },
    Case {
        text: "v_pk_mul_f16 $d, v2, v3 neg_lo:[1,0]",
        on: all,
        expected: |a, b, _| to_half(-half(a) * half(b)) | to_half(half(a >> 16) * half(b >> 16)) << 16,
    },
    Case {
        text: "v_fma_mix_f32 $d, v2, v3, v4 op_sel:[1,0,0] op_sel_hi:[1,0,0]",
        on: all,
        expected: |a, b, c| half(a >> 16).mul_add(f(b), f(c)).to_bits(),
    },
    Case {
        text: "v_dot4_i32_iu8 $d, v2, v3, v4 neg_lo:[1,0,0]",
        on: rdna3,
        expected: |a, b, c| {
            (0..4).fold(c, |sum, n| {
                sum.wrapping_add((i32::from((a >> (8 * n)) as i8) * i32::from((b >> (8 * n)) as u8)) as u32)
            })
        },
    },
    Case {
        text: "v_dot4_i32_i8 $d, v2, v3, v4",
        on: has_sdwa,
        expected: |a, b, c| {
            (0..4).fold(c, |sum, n| {
                sum.wrapping_add((i32::from((a >> (8 * n)) as i8) * i32::from((b >> (8 * n)) as i8)) as u32)
            })
        },
    },
    Case {
        text: "v_add_u32_sdwa $d, v2, sext(v3) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1",
        on: cdna,
        expected: |a, b, _| (a >> 8 & 255).wrapping_add((b as i32 >> 16) as u32),
    },
    Case {
        text: "v_mov_b32 $d, v4\n  v_and_b32_sdwa $d, v2, v3 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_3 src1_sel:DWORD",
        on: has_sdwa,
        expected: |a, b, c| c & !0xff00 | (a >> 24 & b & 255) << 8,
    },
    Case {
        text: "v_cmp_lt_u32 vcc, v2, v3\n  v_cndmask_b32 $d, v2, v4, vcc",
        on: cdna,
        expected: |a, b, c| if a < b { c } else { a },
    },
    Case {
        text: "v_rcp_f32 $d, 4.0",
        on: all,
        expected: |_, _, _| 0.25f32.to_bits(),
    },
    Case { text: "v_exp_f32 $d, 4.0", on: all, expected: |_, _, _| 16.0f32.to_bits() },
    Case { text: "v_max_f32 $d, v2, v3", on: before12, expected: |a, b, _| max(f(a), f(b)).to_bits() },
    Case { text: "v_max_num_f32 $d, v2, v3", on: only12, expected: |a, b, _| max(f(a), f(b)).to_bits() },
    Case {
        text: "v_dual_add_f32 v40, v2, v3 :: v_dual_mul_f32 v41, v4, v2\n  v_xor_b32 $d, v40, v41",
        on: rdna3,
        expected: |a, b, c| (f(a) + f(b)).to_bits() ^ (f(c) * f(a)).to_bits(),
    },
    // Both halves read before either writes.
    Case {
        text: "v_mov_b32 v40, v2\n  v_mov_b32 v41, v3\n  v_dual_mov_b32 v40, v41 :: v_dual_mov_b32 v41, v40\n  v_sub_nc_u32 $d, v40, v41",
        on: rdna3,
        expected: |a, b, _| b.wrapping_sub(a),
    },
];

fn only_gfx1030(arch: Arch) -> bool {
    arch == Arch::Gfx1030
}

/// What `v_perm_b32` picks.
fn picked(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = (u64::from(a) << 32 | u64::from(b)).to_le_bytes();
    let signs = [1, 3, 5, 7].map(|n: usize| if bytes[n] > 127 { 0xff } else { 0 });
    u32::from_le_bytes(selector.to_le_bytes().map(|pick| match pick {
        0..=7 => bytes[usize::from(pick)],
        8..=11 => signs[usize::from(pick) - 8],
        12 => 0,
        _ => 0xff,
    }))
}

fn max(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else if a == b {
        f32::from_bits(a.to_bits() & b.to_bits())
    } else {
        a.max(b)
    }
}

fn inputs() -> Vec<[Vec<u32>; 3]> {
    let special: Vec<u32> = [
        0.0f32,
        -0.0,
        1.0,
        -1.0,
        1.5,
        2.5,
        -2.5,
        1e-40,
        -1e-42,
        3.4e38,
        -3.4e38,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.1,
        16777217.0,
        -7.3,
    ]
    .into_iter()
    .map(f32::to_bits)
    .chain([
        0,
        1,
        31,
        32,
        0xffff_ffff,
        0x8000_0000,
        0x7fff_ffff,
        0x1234_5678,
        0x3c00_4200,
        0xbc00_0001,
        0x0400_03ff,
        0x7bff_7bff,
    ])
    .collect();
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };
    let mut sets = Vec::new();
    for round in 0..3 {
        let mut row = |shift: usize| -> Vec<u32> {
            (0..64)
                .map(|i| if round == 0 { special[(i + shift * (i / 28 + 1)) % special.len()] } else { random() })
                .collect()
        };
        sets.push([row(0), row(5), row(11)]);
    }
    sets
}

fn wave_sizes(arch: Arch) -> Vec<usize> {
    if arch.is_cdna() {
        vec![64]
    } else {
        vec![32, 64]
    }
}

#[test]
fn vector_instructions_give_what_one_line_of_rust_gives() {
    if clang().is_none() {
        return;
    }
    let sets = inputs();
    for arch in Arch::ALL {
        for wave_size in wave_sizes(arch) {
            // Dual instructions are for waves of 32 only.
            let fits = |case: &&Case| (case.on)(arch) && (wave_size == 32 || !case.text.contains("v_dual"));
            let cases: Vec<&Case> = CASES.iter().filter(fits).collect();
            // Forty at a time: that is how many registers are free.
            for chunk in cases.chunks(40) {
                for [a, b, c] in &sets {
                    let mut body = String::new();
                    for (n, case) in chunk.iter().enumerate() {
                        let register = if n == 0 { 1 } else { 49 + n };
                        body += &format!("  {}\n", case.text.replace("$d", &format!("v{register}")));
                    }
                    let asm = Asm { wave_size, ..Asm::new(arch) };
                    let inputs = [a.clone(), b.clone(), c.clone()];
                    let out =
                        asm.run(&body, &inputs, chunk.len()).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
                    // The handlers for every CPU may make other NaNs, and nothing else.
                    let mut runs = vec![out];
                    if cfg!(feature = "portable") {
                        let options = Options { portable: true, ..Options::default() };
                        runs.push(asm.run_with(&body, &inputs, chunk.len(), options).unwrap());
                    }
                    let rows = runs.iter().flat_map(|out| chunk.iter().zip(out));
                    for (case, row) in rows {
                        for (lane, &got) in row.iter().enumerate() {
                            let expected = (case.expected)(a[lane], b[lane], c[lane]);
                            let nan = f(expected).is_nan() && f(got).is_nan() && case.text.contains("_f32");
                            let half_nan = case.text.contains("f16") && nan_halves(expected, got);
                            assert!(
                                got == expected || nan || half_nan,
                                "{arch}, wave {wave_size}, {}: {:#x}, {:#x}, {:#x} gives {got:#x}, not {expected:#x}",
                                case.text,
                                a[lane],
                                b[lane],
                                c[lane]
                            );
                        }
                    }
                }
            }
        }
    }
}

/// The same, but for NaNs of which any will do.
fn nan_halves(a: u32, b: u32) -> bool {
    [0, 16].into_iter().all(|shift| {
        let (a, b) = (a >> shift & 0xffff, b >> shift & 0xffff);
        a == b || half(a).is_nan() && half(b).is_nan()
    })
}

#[test]
fn lanes_that_are_off_keep_their_values() {
    if clang().is_none() {
        return;
    }
    for arch in Arch::ALL {
        for wave_size in wave_sizes(arch) {
            let asm = Asm { wave_size, ..Asm::new(arch) };
            let body = if wave_size == 64 {
                "  v_mov_b32 v1, 7\n  s_mov_b64 s[20:21], exec\n  s_mov_b64 exec, 0x5555\n  v_mov_b32 v1, v2\n  s_mov_b64 exec, s[20:21]"
            } else {
                "  v_mov_b32 v1, 7\n  s_mov_b32 s20, exec_lo\n  s_mov_b32 exec_lo, 0x5555\n  v_mov_b32 v1, v2\n  s_mov_b32 exec_lo, s20"
            };
            let out = asm.run(body, &[vec![9]], 1).unwrap();
            for lane in 0..wave_size {
                let on = lane < 16 && lane % 2 == 0;
                assert_eq!(out[0][lane], if on { 9 } else { 7 }, "{arch} {wave_size} {lane}");
            }
        }
    }
}

#[test]
fn values_move_between_lanes() {
    if clang().is_none() {
        return;
    }
    let numbers: Vec<u32> = (0..64).map(|i| 100 + i).collect();
    for arch in Arch::ALL {
        for wave_size in wave_sizes(arch) {
            let asm = Asm { wave_size, ..Asm::new(arch) };
            let run = |body: &str| {
                asm.run(body, &[numbers.clone()], 1).unwrap_or_else(|failure| panic!("{arch}: {failure}"))[0].clone()
            };
            let wait = if arch.generation() >= 12 { "s_wait_dscnt 0" } else { "s_waitcnt lgkmcnt(0)" };
            // Each lane reads its neighbour, around the wave.
            let rotate = run(&format!(
                "  v_lshlrev_b32 v8, 2, v0\n  v_add_u32 v8, 4, v8\n  ds_bpermute_b32 v1, v8, v2\n  {wait}"
            )
            .replace("v_add_u32", if arch.is_cdna() { "v_add_u32" } else { "v_add_nc_u32" }));
            for lane in 0..wave_size {
                assert_eq!(rotate[lane], 100 + ((lane + 1) % wave_size) as u32, "{arch} bpermute {lane}");
            }
            let first = run("  v_readfirstlane_b32 s20, v2\n  v_mov_b32 v1, s20");
            assert_eq!(first[5], 100, "{arch}");
            let lane = run("  v_readlane_b32 s20, v2, 17\n  v_mov_b32 v1, s20");
            assert_eq!(lane[5], 117, "{arch}");
            let write = run("  v_mov_b32 v1, v2\n  s_movk_i32 s20, 0x7b\n  v_writelane_b32 v1, s20, 9");
            assert_eq!((write[8], write[9]), (108, 123), "{arch}");
            let swizzle = run(&format!("  ds_swizzle_b32 v1, v2 offset:0x041f\n  {wait}"));
            for lane in 0..wave_size {
                assert_eq!(swizzle[lane], 100 + (lane ^ 1) as u32, "{arch} swizzle {lane}");
            }
            let mirror = run("  v_mov_b32_dpp v1, v2 row_mirror row_mask:0xf bank_mask:0xf");
            for lane in 0..wave_size {
                assert_eq!(mirror[lane], 100 + (lane & !15 | 15 - lane % 16) as u32, "{arch} mirror {lane}");
            }
            let quad = run("  v_add_f32 v9, v2, v2\n  v_mov_b32 v1, v2\n  v_mov_b32_dpp v1, v2 quad_perm:[3,2,1,0] row_mask:0x1 bank_mask:0xf");
            for lane in 0..wave_size {
                let from = if lane < 16 { lane & !3 | 3 - lane % 4 } else { lane };
                assert_eq!(quad[lane], 100 + from as u32, "{arch} quad {lane}");
            }
            // Shifted in from outside: zero with bound_ctrl, the old value without.
            let zero =
                run("  v_mov_b32 v1, 5\n  v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1");
            let kept = run("  v_mov_b32 v1, 5\n  v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf");
            assert_eq!((zero[16], zero[17], kept[16], kept[17]), (0, 116, 5, 116), "{arch}");
            if !arch.is_cdna() {
                let eight = run("  v_mov_b32_dpp v1, v2 dpp8:[7,6,5,4,3,2,1,0]");
                assert_eq!(eight[9], 100 + 14, "{arch}");
                let x16 = run(
                    "  s_mov_b32 s20, 0x76543210\n  s_mov_b32 s21, 0xfedcba98\n  v_permlanex16_b32 v1, v2, s20, s21",
                );
                for lane in 0..wave_size {
                    assert_eq!(x16[lane], 100 + (lane ^ 16) as u32, "{arch} permlanex16 {lane}");
                }
            }
        }
    }
}

#[test]
fn local_memory_holds_every_size() {
    if clang().is_none() {
        return;
    }
    for arch in Arch::ALL {
        let asm = Asm { lds: 4096, ..Asm::new(arch) };
        let old = arch.generation() < 11;
        let name = |new: &'static str, before: &'static str| if old { before } else { new };
        let wait = if arch.generation() >= 12 { "s_wait_dscnt 0" } else { "s_waitcnt lgkmcnt(0)" };
        let (b64, b128) = (name("ds_store_b64", "ds_write_b64"), name("ds_store_b128", "ds_write_b128"));
        let body = format!(
            "  v_lshlrev_b32 v9, 4, v0
  v_mov_b32 v10, v2
  v_mov_b32 v11, v3
  v_mov_b32 v12, v3
  v_mov_b32 v13, v2
  {b128} v9, v[10:13]
  {wait}
  {} v1, v9 offset:1
  {} v50, v9 offset:6
  {} v[14:15], v9 offset0:1 offset1:2
  {wait}
  v_mov_b32 v51, v14
  v_mov_b32 v52, v15
  {b64} v9, v[12:13]
  {wait}
  {} v53, v9
  v_mov_b32 v16, 3
  {} v54, v9, v16
  {wait}
  {} v55, v9
  {wait}",
            name("ds_load_u8", "ds_read_u8"),
            name("ds_load_i16", "ds_read_i16"),
            name("ds_load_2addr_b32", "ds_read2_b32"),
            name("ds_load_b32", "ds_read_b32"),
            name("ds_add_rtn_u32", "ds_add_rtn_u32"),
            name("ds_load_b32", "ds_read_b32"),
        );
        let (a, b): (Vec<u32>, Vec<u32>) =
            ((0..64).map(|i| i * 0x0101_0101).collect(), (0..64).map(|i| !i << 8).collect());
        let out = asm.run(&body, &[a.clone(), b.clone()], 7).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        for lane in 0..asm.wave_size {
            let (a, b) = (a[lane], b[lane]);
            assert_eq!(out[0][lane], a >> 8 & 255, "{arch}: a byte");
            assert_eq!(out[1][lane], (b as i32 >> 16) as u32, "{arch}: a signed half");
            assert_eq!((out[2][lane], out[3][lane]), (b, b), "{arch}: two words");
            assert_eq!(out[4][lane], b, "{arch}: a word of a pair");
            assert_eq!(out[5][lane], b, "{arch}: the old value");
            assert_eq!(out[6][lane], b.wrapping_add(3), "{arch}: the new value");
        }
    }
}

#[test]
fn private_memory_and_calls_work() {
    if clang().is_none() {
        return;
    }
    // An array that is indexed at run time, and a function that is not inlined.
    let source = r#"
__device__ __attribute__((noinline)) u32 twist(u32 x, u32 y) { return x * 31 + (y ^ x >> 3); }
extern "C" __global__ void k(const u32* in, u32* out, u32 n) {
    u32 held[16];
    for (u32 i = 0; i < 16; i++) held[i] = in[THREAD] * (i + 1);
    u32 sum = 0;
    for (u32 i = 0; i < n; i++) { u32 at = (in[THREAD] + i * 5) % 16; held[at] = twist(held[at], i); sum += held[(at + 3) % 16]; }
    out[THREAD] = sum;
}"#;
    for arch in Arch::ALL {
        for optimise in ["-O0", "-O1", "-O3"] {
            let object = vgpu::Object::load(&common::hip_with(arch, source, &[optimise])).unwrap();
            let kernel = object.kernel("k").unwrap();
            let mut memory = vgpu::Buffers::new();
            let values: Vec<u32> = (0..64).map(|i| i * 977 + 5).collect();
            let (input, output) = (memory.from_slice(&values), memory.alloc(256));
            let arguments = memory.from_slice(&[input, output, 9]);
            let launch = vgpu::Launch::new(&kernel, [1, 1, 1], [64, 1, 1], 0, arguments).unwrap();
            launch
                .run(&mut vgpu::Worker::new(), &memory)
                .unwrap_or_else(|failure| panic!("{arch} {optimise}: {failure}"));
            let got = memory.read::<u32>(output, 64).unwrap();
            for (lane, &value) in values.iter().enumerate() {
                let mut held: Vec<u32> = (1..=16).map(|i| value.wrapping_mul(i)).collect();
                let mut sum = 0u32;
                for i in 0..9u32 {
                    let at = (value.wrapping_add(i * 5) % 16) as usize;
                    let x = held[at];
                    held[at] = x.wrapping_mul(31).wrapping_add(i ^ x >> 3);
                    sum = sum.wrapping_add(held[(at + 3) % 16]);
                }
                assert_eq!(got[lane], sum, "{arch} {optimise}, lane {lane}");
            }
        }
    }
}

/// Compilers before 15 make generic pointers to local memory with the aperture in this register, newer ones with `src_shared_base`.
#[test]
fn both_ways_to_the_aperture_of_local_memory_agree() {
    if clang().is_none() {
        return;
    }
    for arch in [Arch::Gfx90a, Arch::Gfx942, Arch::Gfx1030, Arch::Gfx1100] {
        let body = "  s_getreg_b32 s10, hwreg(HW_REG_SH_MEM_BASES, 16, 16)\n  s_lshl_b32 s10, s10, 16\n  s_mov_b64 s[12:13], src_shared_base\n  s_xor_b32 s10, s10, s13\n  v_mov_b32 v1, s10";
        let out = Asm::new(arch).run(body, &[vec![0; 64]], 1).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        assert!(out[0].iter().all(|&difference| difference == 0), "{arch}: {out:?}");
    }
}
