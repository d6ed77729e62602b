//! Halves of registers on RDNA 3, as ROCm's compilers from 6.4 on use them. LLVM 19 cannot assemble most of these, so the words stand here:
//! what clang 22 makes of the line beside each.

mod common;

use common::{clang, half, to_half, Asm};
use vgpu::Arch;

fn low(x: u32) -> u32 {
    x & 0xffff
}
fn high(x: u32) -> u32 {
    x >> 16
}
/// `low` in the lower half, what was in `before` in the upper one.
fn into_low(before: u32, low: u32) -> u32 {
    before & 0xffff_0000 | low & 0xffff
}
fn into_high(before: u32, high: u32) -> u32 {
    before & 0xffff | high << 16
}
fn sum(a: u32, b: u32) -> u32 {
    to_half(half(a) + half(b))
}

/// Words of an instruction on v1 (all 0x1234_5678 before), v2 and v3, and what v1 is then.
struct Case {
    text: &'static str,
    words: &'static [u32],
    expected: fn(u32, u32) -> u32,
}

const BEFORE: u32 = 0x1234_5678;

const CASES: &[Case] = &[
    Case {
        text: "v_mul_lo_u16 v1.h, v2.h, 3",
        words: &[0xd705_4801, 0x0001_0702],
        expected: |a, _| into_high(BEFORE, low(high(a) * 3)),
    },
    Case {
        text: "v_sub_nc_u16 v1.l, v2.l, v3.h",
        words: &[0xd704_1001, 0x0002_0702],
        expected: |a, b| into_low(BEFORE, low(a).wrapping_sub(high(b))),
    },
    Case {
        text: "v_mul_lo_u16 v1.l, v2.l, v3.l",
        words: &[0xd705_0001, 0x0002_0702],
        expected: |a, b| into_low(BEFORE, low(a) * low(b)),
    },
    Case {
        text: "v_add_f16_e32 v1.h, v2.l, v3.h",
        words: &[0x6503_0702],
        expected: |a, b| into_high(BEFORE, sum(a, high(b))),
    },
    Case {
        text: "v_add_f16_e32 v1.l, v2.h, v3.l",
        words: &[0x6402_0782],
        expected: |a, b| into_low(BEFORE, sum(high(a), b)),
    },
    Case { text: "v_cvt_f32_f16_e32 v1, v2.h", words: &[0x7e02_1782], expected: |a, _| half(high(a)).to_bits() },
    Case {
        text: "v_cvt_f16_f32_e32 v1.h, v2",
        words: &[0x7f02_1502],
        expected: |a, _| into_high(BEFORE, to_half(f32::from_bits(a))),
    },
    Case {
        text: "v_fmac_f16_e32 v1.h, v2.l, v3.l",
        words: &[0x6d02_0702],
        expected: |a, b| {
            let exact = f64::from(half(a)).mul_add(f64::from(half(b)), f64::from(half(high(BEFORE))));
            into_high(BEFORE, to_half(exact as f32))
        },
    },
    Case {
        text: "v_fmamk_f16 v1.h, v2.l, 2.0, v3.h",
        words: &[0x6f03_0702, 0x0000_4000],
        expected: |a, b| into_high(BEFORE, to_half(half(a) * 2.0 + half(high(b)))),
    },
    Case {
        text: "v_fmaak_f16 v1.l, v2.h, v3.h, 2.0",
        words: &[0x7003_0782, 0x0000_4000],
        expected: |a, b| into_low(BEFORE, to_half(half(high(a)) * half(high(b)) + 2.0)),
    },
    Case {
        text: "v_add_f32_e32 v1, v2, v3",
        words: &[0x0602_0702],
        expected: |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits(),
    },
];

#[test]
fn each_half_is_read_and_written_by_itself() {
    if clang().is_none() {
        return;
    }
    let halves: Vec<u32> = [1.0f32, -2.0, 0.5, 3.0, 100.0, -0.25, 7.0, 12.0].map(to_half).into();
    let rows = |shift: usize| -> Vec<u32> {
        (0..32).map(|lane| halves[(lane + shift) % 8] | halves[(3 * lane + shift) % 8] << 16).collect()
    };
    let (a, b) = (rows(1), rows(2));
    for case in CASES {
        let words: Vec<String> = case.words.iter().map(|word| format!("{word:#x}")).collect();
        let body = format!("  v_mov_b32 v1, {BEFORE:#x}\n  .long {}", words.join(", "));
        let out = Asm::new(Arch::Gfx1100).run(&body, &[a.clone(), b.clone()], 1);
        let out = out.unwrap_or_else(|failure| panic!("{}: {failure}", case.text));
        for lane in 0..32 {
            let want = (case.expected)(a[lane], b[lane]);
            assert_eq!(out[0][lane], want, "{}: lane {lane}, {:#x} and {:#x}", case.text, a[lane], b[lane]);
        }
    }
}

#[test]
fn a_compare_reads_the_half_that_it_names() {
    if clang().is_none() {
        return;
    }
    // v_cmp_lt_u16_e32 vcc_lo, v2.h, v3.l
    let body = "  .long 0x7c720782\n  v_cndmask_b32 v1, 0, 1, vcc_lo";
    let a: Vec<u32> = (0..32).map(|lane| lane << 16 | 40).collect();
    let out = Asm::new(Arch::Gfx1100).run(body, &[a, vec![0xffff_0010; 32]], 1).expect("it runs");
    assert_eq!(out[0], (0..32).map(|lane| u32::from(lane < 16)).collect::<Vec<_>>());
}
