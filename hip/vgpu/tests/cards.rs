//! What cards do where manuals say nothing or something else. tinygrad's tests, which were run on an RDNA 3 card, show it.

mod common;

use common::{clang, f, Asm};
use vgpu::{Arch, Options};

const SMALLEST: f32 = f32::MIN_POSITIVE;

/// Denominator, numerator; the scaled numerator (0 is not a number) and the flag, where denormals are kept and where they are flushed.
type Division = (f32, f32, [(f32, u32); 2]);

#[test]
fn the_first_step_of_a_division_sets_its_flag_for_zeros_and_near_denormal_quotients() {
    if clang().is_none() {
        return;
    }
    let denormal = f32::from_bits(1);
    let up = SMALLEST * 2f32.powi(64);
    let cases: &[Division] = &[
        (4.0, 1.0, [(1.0, 0); 2]),
        (0.0, 1.0, [(0.0, 1); 2]),
        (1.0, 0.0, [(0.0, 1); 2]),
        (1.0, f32::MAX, [(f32::MAX, 1); 2]),
        (denormal, 1.0, [(1.0, 1), (0.0, 1)]),
        (1.0, SMALLEST, [(up, 1); 2]),
        (1.0, 8.0 * SMALLEST, [(8.0 * up, 0); 2]),
        (1.5, 1.75 * SMALLEST, [(1.75 * up, 1); 2]),
        (2f32.powi(127), 1.0, [(1.0, 1); 2]),
    ];
    let row = |pick: fn(&Division) -> f32| cases.iter().map(|case| pick(case).to_bits()).collect();
    let inputs: [Vec<u32>; 2] = [row(|case| case.0), row(|case| case.1)];
    for arch in Arch::ALL {
        for flush in [false, true] {
            let asm = Asm { flush, ..Asm::new(arch) };
            let vcc = if asm.wave_size == 32 { "vcc_lo" } else { "vcc" };
            let body = format!(
                "  v_mov_b32 v5, 0\n  v_mov_b32 v6, 1
  v_div_scale_f32 v1, {vcc}, v3, v2, v3
  v_cndmask_b32 v50, v5, v6, {vcc}"
            );
            let out = asm.run(&body, &inputs, 2).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
            for (lane, (denominator, numerator, expected)) in cases.iter().enumerate() {
                let (value, flag) = expected[usize::from(flush)];
                let what = format!("{arch}, flush {flush}: {numerator:e} / {denominator:e}");
                let got = f(out[0][lane]);
                assert!(got == value || value == 0.0 && got.is_nan(), "{what} gives {got:e}, not {value:e}");
                assert_eq!(out[1][lane], flag, "{what}: the flag");
            }
        }
    }
}

#[test]
fn output_modifiers_work_only_without_denormals_and_without_ieee_mode() {
    if clang().is_none() {
        return;
    }
    for arch in Arch::ALL {
        for flush in [false, true] {
            let asm = Asm { flush, ..Asm::new(arch) };
            let body = "  v_mul_f32_e64 v1, v2, 1.0 mul:2\n  v_mul_f32_e64 v50, v2, 1.0 div:2\n  v_mul_f16_e64 v51, v3, 1.0 mul:2";
            let inputs = [vec![3f32.to_bits(), (-0f32).to_bits(), SMALLEST.to_bits()], vec![0x4200]];
            let out = asm.run(body, &inputs, 3).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
            let got: [Vec<f32>; 2] = [0, 1].map(|n| out[n][..3].iter().map(|&bits| f(bits)).collect());
            let expected = if flush {
                [[6.0, 0.0, 2.0 * SMALLEST], [1.5, 0.0, 0.0]]
            } else {
                [[3.0, -0.0, SMALLEST], [3.0, -0.0, SMALLEST]]
            };
            assert_eq!(format!("{got:?}"), format!("{expected:?}"), "{arch}, flush {flush}");
            // The denormals of f16 are kept in both modes.
            assert_eq!(out[2][0] & 0xffff, 0x4200, "{arch}, flush {flush}");
        }
    }
}

#[test]
fn controls_of_dpp_that_an_architecture_has_not_are_refused() {
    if clang().is_none() {
        return;
    }
    // v_mov_b32_dpp v1, v2 with a control that assemblers do not write for the architecture.
    let run = |arch: Arch, control: u32| {
        let words = format!("  v_mov_b32 v1, 7\n  .long 0x7e0202fa\n  .long {:#x}", 0xff00_0002 | control << 8);
        Asm::new(arch).run_with(&words, &[(0..64).collect()], 1, Options::default())
    };
    for (control, on) in [(0x142, true), (0x143, true), (0x138, true), (0x161, false), (0x1ff, false)] {
        for arch in Arch::ALL {
            let exists = control != 0x1ff && arch.is_cdna() == on;
            match run(arch, control) {
                Ok(_) => assert!(exists, "{arch}: {control:#x}"),
                Err(failure) => {
                    assert!(!exists && failure.to_string().contains("no such DPP control"), "{arch}: {failure}");
                }
            }
        }
    }
    // The last lane of each row goes to the next one.
    let out = run(Arch::Gfx90a, 0x142).unwrap();
    assert_eq!((out[0][0], out[0][16], out[0][31], out[0][63]), (7, 15, 15, 47));
}

#[test]
fn two_swaps_at_once_read_everything_before_they_write() {
    if clang().is_none() {
        return;
    }
    for arch in Arch::ALL {
        let asm = Asm { lds: 65536 / 2, ..Asm::new(arch) };
        let new = arch.generation() >= 11;
        let (store, load, swap) = if new {
            ("ds_store_2addr", "ds_load_2addr", "ds_storexchg_2addr")
        } else {
            ("ds_write2", "ds_read2", "ds_wrxchg2")
        };
        let stride = if new { "_stride64" } else { "st64" };
        let wait = if arch.generation() >= 12 { "s_wait_dscnt 0" } else { "s_waitcnt lgkmcnt(0)" };
        // The results are where the second data and the address were.
        let body = format!(
            "  v_lshlrev_b32 v9, 3, v0\n  v_mov_b32 v10, 11\n  v_mov_b32 v11, 22\n  v_mov_b32 v14, v9
  {store}_b32 v9, v10, v11 offset1:1\n  {wait}
  v_mov_b32 v13, v3
  {swap}_rtn_b32 v[12:13], v9, v2, v13 offset1:1\n  {wait}
  v_mov_b32 v1, v12\n  v_mov_b32 v50, v13
  {load}_b32 v[12:13], v9 offset1:1\n  {wait}
  v_mov_b32 v51, v12\n  v_mov_b32 v52, v13
  {store}{stride}_b64 v9, v[2:3], v[10:11] offset0:2 offset1:4\n  {wait}
  v_mov_b32 v20, 33\n  v_mov_b32 v21, 44
  {swap}{stride}_rtn_b64 v[22:25], v9, v[20:21], v[2:3] offset0:2 offset1:4\n  {wait}
  v_mov_b32 v53, v22\n  v_mov_b32 v54, v23\n  v_mov_b32 v55, v24\n  v_mov_b32 v56, v25
  {load}{stride}_b64 v[22:25], v9 offset0:2 offset1:4\n  {wait}
  v_mov_b32 v57, v22\n  v_mov_b32 v58, v23\n  v_mov_b32 v59, v24\n  v_mov_b32 v60, v25"
        );
        let (a, b): (Vec<u32>, Vec<u32>) = ((100..164).collect(), (500..564).collect());
        let options = Options { checks: vgpu::Checks::ALL, ..Options::default() };
        let out = asm
            .run_with(&body, &[a.clone(), b.clone()], 12, options)
            .unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        for lane in 0..asm.wave_size {
            let (a, b) = (a[lane], b[lane]);
            let got: Vec<u32> = out.iter().map(|row| row[lane]).collect();
            assert_eq!(got, [11, 22, a, b, a, b, 11, 22, 33, 44, a, b], "{arch}, lane {lane}");
        }
    }
}
