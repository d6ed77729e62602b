//! Instructions that the manual promises to an accuracy only: what a setting may move, and what must not depend on it.

mod common;

use common::{clang, f, Asm};
use vgpu::{Accuracy, Arch, Options};

#[test]
fn accuracy_settings_move_what_the_manual_leaves_open() {
    if clang().is_none() {
        return;
    }
    let values: Vec<u32> = (0..64).map(|i| (1.37f32 + i as f32 * 0.713).to_bits()).collect();
    for arch in [Arch::Gfx1100, Arch::Gfx90a] {
        let asm = Asm::new(arch);
        let at = |accuracy| {
            let options = Options { accuracy, ..Options::default() };
            asm.run_with("  v_rcp_f32 v1, v2\n  v_sqrt_f32 v50, v2", std::slice::from_ref(&values), 2, options).unwrap()
        };
        let exact = at(Accuracy::Exact);
        let (up, down, coarse) = (at(Accuracy::Up), at(Accuracy::Down), at(Accuracy::Coarse));
        let mut moved = 0;
        for lane in 0..asm.wave_size {
            let value = f(values[lane]);
            assert_eq!(exact[0][lane], (1.0 / value).to_bits());
            assert_eq!(exact[1][lane], value.sqrt().to_bits());
            // The two values around the exact result, one of them the nearest: both are within one ulp, and no other is.
            let truth = 1.0 / f64::from(value);
            assert_eq!(up[0][lane], down[0][lane] + 1);
            assert!(f64::from(f(down[0][lane])) < truth && truth < f64::from(f(up[0][lane])));
            assert!([up[0][lane], down[0][lane]].contains(&exact[0][lane]));
            assert!(coarse[0][lane].abs_diff(exact[0][lane]) <= 1);
            moved += u32::from(coarse[0][lane] != exact[0][lane]);
        }
        assert!(moved > 4 && moved < asm.wave_size as u32, "{arch}: {moved} moved");
    }
}

#[test]
fn division_of_integers_does_not_depend_on_accuracy() {
    if clang().is_none() {
        return;
    }
    let source = r#"
extern "C" __global__ void k(const u64* in, u64* out) {
    u64 a = in[2 * THREAD], b = in[2 * THREAD + 1];
    out[4 * THREAD] = u32(a) / u32(b);
    out[4 * THREAD + 1] = u64(long(int(a)) % int(b));
    out[4 * THREAD + 2] = a / b;
    out[4 * THREAD + 3] = u64(u8(a) / u8(b | 1)) << 32 | u16(a) % u16(b | 1);
}"#;
    let mut state = 5u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let value = state ^ state >> 31;
        value >> (value >> 58)
    };
    let pairs: Vec<[u64; 2]> = (0..4096u64)
        .map(|i| match i {
            0..=255 => [1 + i % 16, 1 + i / 16],
            _ => [random(), (random() & !0xffff_ffff) | (random() & 0xffff_ffff).max(3)],
        })
        .collect();
    let flat: Vec<u64> = pairs.iter().flatten().copied().collect();
    for arch in Arch::ALL {
        let object = vgpu::Object::load(&common::hip(arch, source)).unwrap();
        let kernel = object.kernel("k").unwrap();
        for accuracy in [Accuracy::Exact, Accuracy::Coarse, Accuracy::Up, Accuracy::Down] {
            for (part, pairs) in flat.chunks(128).zip(pairs.chunks(64)) {
                let mut memory = vgpu::Buffers::new();
                let (input, output) = (memory.from_slice(part), memory.alloc(64 * 32));
                let arguments = memory.from_slice(&[input, output]);
                let launch = vgpu::Launch::new(&kernel, [1, 1, 1], [64, 1, 1], 0, arguments).unwrap();
                let options = Options { accuracy, ..Options::default() };
                launch.with_options(options).run(&mut vgpu::Worker::new(), &memory).unwrap();
                let out = memory.read::<u64>(output, 256).unwrap();
                for (&[a, b], out) in pairs.iter().zip(out.chunks(4)) {
                    let small = u64::from(a as u8 / (b as u8 | 1)) << 32 | u64::from(a as u16 % (b as u16 | 1));
                    let signed = i64::from((a as i32).wrapping_rem(b as i32)) as u64;
                    let want = [u64::from(a as u32 / b as u32), signed, a / b, small];
                    assert_eq!(out, want, "{arch}, {accuracy:?}: {a:#x} and {b:#x}");
                }
            }
        }
    }
}
