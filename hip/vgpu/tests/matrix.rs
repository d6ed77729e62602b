//! Matrix products (MFMA, WMMA) and conversions of eight-bit floats, against plain sums in Rust.

// Lanes are numbers here.
#![allow(clippy::needless_range_loop, clippy::precedence, clippy::cloned_ref_to_slice_refs)]

mod common;

use common::{clang, f, to_half, Asm};
use vgpu::Arch;

#[test]
fn matrix_products_agree_with_the_plain_sum() {
    if clang().is_none() {
        return;
    }
    // Intrinsics take fragments; the fragments are filled by the published layouts, here for a product of 16 by 16.
    let wmma = r#"
typedef _Float16 h16 __attribute__((ext_vector_type(16)));
typedef float f8 __attribute__((ext_vector_type(8)));
extern "C" __global__ void k(const _Float16* a, const _Float16* b, float* d) {
    u32 lane = THREAD;
    h16 x, y; f8 c = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int k = 0; k < 16; k++) { x[k] = a[(lane % 16) * 16 + k]; y[k] = b[k * 16 + lane % 16]; }
    c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, c);
    for (int i = 0; i < 8; i++) d[(2 * i + lane / 16) * 16 + lane % 16] = c[i];
}"#;
    let mfma = r#"
typedef _Float16 h4 __attribute__((ext_vector_type(4)));
typedef float f4 __attribute__((ext_vector_type(4)));
extern "C" __global__ void k(const _Float16* a, const _Float16* b, float* d) {
    u32 lane = THREAD;
    h4 x, y; f4 c = {0, 0, 0, 0};
    for (int k = 0; k < 4; k++) { x[k] = a[(lane % 16) * 16 + 4 * (lane / 16) + k]; y[k] = b[(4 * (lane / 16) + k) * 16 + lane % 16]; }
    c = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, c, 0, 0, 0);
    for (int i = 0; i < 4; i++) d[(4 * (lane / 16) + i) * 16 + lane % 16] = c[i];
}"#;
    for (arch, source) in [(Arch::Gfx1100, wmma), (Arch::Gfx90a, mfma), (Arch::Gfx942, mfma)] {
        let object = vgpu::Object::load(&common::hip(arch, source)).unwrap();
        let kernel = object.kernel("k").unwrap();
        let mut memory = vgpu::Buffers::new();
        // Small integers: exact in any order.
        let small = |i: usize, by: usize| (i * by % 11) as f32 - 5.0;
        let a: Vec<f32> = (0..256).map(|i| small(i, 7)).collect();
        let b: Vec<f32> = (0..256).map(|i| small(i, 5)).collect();
        let halves = |values: &[f32]| values.iter().map(|&value| to_half(value) as u16).collect::<Vec<u16>>();
        let (da, db, dd) = (memory.from_slice(&halves(&a)), memory.from_slice(&halves(&b)), memory.alloc(1024));
        let arguments = memory.from_slice(&[da, db, dd]);
        let launch = vgpu::Launch::new(&kernel, [1, 1, 1], [arch.wave_size() as u32, 1, 1], 0, arguments).unwrap();
        launch.run(&mut vgpu::Worker::new(), &memory).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        let got = memory.read::<f32>(dd, 256).unwrap();
        for i in 0..16 {
            for j in 0..16 {
                let expected: f32 = (0..16).map(|k| a[i * 16 + k] * b[k * 16 + j]).sum();
                assert_eq!(got[i * 16 + j], expected, "{arch}: {i}, {j}");
            }
        }
    }
}

/// A product of fragments that are filled and stored by the published layouts, on small integers, which are exact in any order.
fn product(arch: Arch, source: &str, (m, depth): (usize, usize), bits: usize) {
    let object = vgpu::Object::load(&common::hip(arch, source)).unwrap();
    let kernel = object.kernel("k").unwrap();
    let mut memory = vgpu::Buffers::new();
    let small = |i: usize, by: usize| (i * by % 11) as f64 - 5.0;
    let a: Vec<f64> = (0..m * depth).map(|i| small(i, 7)).collect();
    let b: Vec<f64> = (0..m * depth).map(|i| small(i, 5)).collect();
    let bytes = |values: &[f64]| -> Vec<u8> {
        let one = |value: f64| match bits {
            8 => (value as i8).to_le_bytes().to_vec(),
            16 => (to_half(value as f32) as u16).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        };
        values.iter().flat_map(|&value| one(value)).collect()
    };
    let (da, db) = (memory.from_slice(&bytes(&a)), memory.from_slice(&bytes(&b)));
    let dd = memory.alloc(8 * m * m);
    let arguments = memory.from_slice(&[da, db, dd]);
    let launch = vgpu::Launch::new(&kernel, [1, 1, 1], [arch.wave_size() as u32, 1, 1], 0, arguments).unwrap();
    launch.run(&mut vgpu::Worker::new(), &memory).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
    let got: Vec<f64> = memory.read::<f64>(dd, m * m).unwrap();
    for i in 0..m {
        for j in 0..m {
            let expected: f64 = (0..depth).map(|k| a[i * depth + k] * b[k * m + j]).sum();
            assert_eq!(got[i * m + j], expected, "{arch}: {i}, {j}");
        }
    }
}

#[test]
fn more_matrix_shapes_agree_with_the_plain_sum() {
    if clang().is_none() {
        return;
    }
    let rdna4 = r#"
typedef _Float16 h8 __attribute__((ext_vector_type(8)));
typedef float f8 __attribute__((ext_vector_type(8)));
extern "C" __global__ void k(const _Float16* a, const _Float16* b, double* d) {
    u32 lane = THREAD;
    h8 x, y; f8 c = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int e = 0; e < 8; e++) {
        u32 k = 8 * (e / 4) + 4 * (lane / 16) + e % 4;
        x[e] = a[(lane % 16) * 16 + k]; y[e] = b[k * 16 + lane % 16];
    }
    c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, c);
    for (int e = 0; e < 8; e++) d[(8 * (lane / 16) + e) * 16 + lane % 16] = c[e];
}"#;
    product(Arch::Gfx1201, rdna4, (16, 16), 16);
    let wide = r#"
typedef _Float16 h4 __attribute__((ext_vector_type(4)));
typedef float f16v __attribute__((ext_vector_type(16)));
extern "C" __global__ void k(const _Float16* a, const _Float16* b, double* d) {
    u32 lane = THREAD;
    h4 x, y; f16v c = 0;
    for (int e = 0; e < 4; e++) {
        u32 k = 4 * (lane / 32) + e;
        x[e] = a[(lane % 32) * 8 + k]; y[e] = b[k * 32 + lane % 32];
    }
    c = __builtin_amdgcn_mfma_f32_32x32x8f16(x, y, c, 0, 0, 0);
    for (int r = 0; r < 16; r++) d[(8 * (r / 4) + 4 * (lane / 32) + r % 4) * 32 + lane % 32] = c[r];
}"#;
    let double = r#"
typedef double d4 __attribute__((ext_vector_type(4)));
extern "C" __global__ void k(const double* a, const double* b, double* d) {
    u32 lane = THREAD;
    d4 c = 0;
    c = __builtin_amdgcn_mfma_f64_16x16x4f64(a[(lane % 16) * 4 + lane / 16], b[(lane / 16) * 16 + lane % 16], c, 0, 0, 0);
    for (int r = 0; r < 4; r++) d[(4 * r + lane / 16) * 16 + lane % 16] = c[r];
}"#;
    for arch in [Arch::Gfx90a, Arch::Gfx942] {
        product(arch, wide, (32, 8), 16);
        product(arch, double, (16, 4), 64);
    }
    let bytes = r#"
typedef int i4 __attribute__((ext_vector_type(4)));
extern "C" __global__ void k(const signed char* a, const signed char* b, double* d) {
    u32 lane = THREAD;
    int x = 0, y = 0; i4 c = 0;
    for (int e = 0; e < 4; e++) {
        u32 k = 4 * (lane / 16) + e;
        x |= (int)(u8)a[(lane % 16) * 16 + k] << (8 * e); y |= (int)(u8)b[k * 16 + lane % 16] << (8 * e);
    }
    c = __builtin_amdgcn_mfma_i32_16x16x16i8(x, y, c, 0, 0, 0);
    for (int r = 0; r < 4; r++) d[(4 * (lane / 16) + r) * 16 + lane % 16] = c[r];
}"#;
    product(Arch::Gfx90a, bytes, (16, 16), 8);
}

#[test]
fn eight_bit_floats_convert_both_ways() {
    if clang().is_none() {
        return;
    }
    for (arch, ocp) in [(Arch::Gfx942, false), (Arch::Gfx1201, true)] {
        let asm = Asm::new(arch);
        for base in (0..256u32).step_by(asm.wave_size) {
            let codes: Vec<u32> = (0..64).map(|i| (base + i) & 255).collect();
            let body = "  v_cvt_f32_fp8 v1, v2\n  v_mov_b32 v50, 0\n  v_cvt_pk_fp8_f32 v50, v1, v1\n  v_cvt_f32_bf8 v51, v2\n  v_mov_b32 v52, 0\n  v_cvt_pk_bf8_f32 v52, v51, v51";
            let out = asm.run(body, &[codes.clone()], 4).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
            for lane in 0..asm.wave_size {
                let code = codes[lane];
                for (bits, bias, value, back) in
                    [(3, 7, out[0][lane], out[1][lane]), (2, 15, out[2][lane], out[3][lane])]
                {
                    let bias = bias + i32::from(!ocp);
                    let (exponent, mantissa) = ((code & 127) >> bits, code & ((1 << bits) - 1));
                    let special =
                        if ocp { bits == 3 && code & 127 == 127 || bits == 2 && exponent == 31 } else { code == 128 };
                    if special {
                        assert!(!f(value).is_finite(), "{arch}: {code:#x} is {}", f(value));
                        continue;
                    }
                    let one = if exponent == 0 { 0.0 } else { 1.0 };
                    let magnitude =
                        (one + mantissa as f64 / f64::from(1 << bits)) * 2f64.powi(exponent.max(1) as i32 - bias);
                    let expected = if code & 128 != 0 { -magnitude } else { magnitude };
                    assert_eq!(f64::from(f(value)), expected, "{arch}: {code:#x}");
                    assert_eq!(back & 0xffff, code * 0x101, "{arch}: {code:#x} and back");
                }
            }
        }
    }
}
