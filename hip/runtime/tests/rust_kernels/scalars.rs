//! Programs on one pair of numbers. Each is a device function, which the host calls as the Rust function that it is: the same for every pair of
//! a list with the edges of its type.

use crate::streams;
use hip::LaunchConfig;

/// Device functions of two numbers, and a kernel that runs the one with a number for all pairs.
macro_rules! programs {
    ($module:ident: $from:ty => $to:ty; $($number:literal $name:ident($a:ident, $b:ident) $body:block)*) => {
        #[hip::kernels]
        mod $module {
            $(#[device]
            pub fn $name($a: $from, $b: $from) -> $to $body)*

            #[kernel]
            pub fn run(which: u32, a: &[$from], b: &[$from], out: &mut GlobalMut<$to>) {
                let i = global_x();
                if i < out.len() {
                    out[i] = match which {
                        $($number => $name(a[i], b[i]),)*
                        _ => <$to>::ZERO,
                    };
                }
            }

            pub const ALL: &[(&str, u32, fn($from, $from) -> $to)] = &[$((stringify!($name), $number, $name)),*];
        }
    };
}

/// Runs all programs of a module for every pair of the numbers.
macro_rules! compare {
    ($module:ident, $numbers:expr, $alike:expr) => {{
        let numbers = $numbers;
        let a: Vec<_> = numbers.iter().flat_map(|a| numbers.iter().map(move |_| *a)).collect();
        let b: Vec<_> = numbers.iter().flat_map(|_| numbers.iter().copied()).collect();
        let mut wrong = Vec::new();
        for stream in streams() {
            let (x, y) = (stream.upload(&a).unwrap(), stream.upload(&b).unwrap());
            for (name, which, program) in $module::ALL {
                let mut out = stream.zeros(a.len()).unwrap();
                let config = LaunchConfig::for_elements(a.len(), 64);
                $module::run(&stream, config, *which, &x, &y, &mut out).unwrap();
                for ((got, a), b) in out.to_vec().unwrap().into_iter().zip(&a).zip(&b) {
                    let expected = program(*a, *b);
                    if !$alike(got, expected) {
                        wrong.push(format!("{name}({a:?}, {b:?}) is {got:?}, not {expected:?}"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    }};
}

programs! {
    signed: i32 => i32;
    0 wrapping(a, b) { a.wrapping_add(b).wrapping_mul(3).wrapping_sub(b) }
    1 divided(a, b) { if b == 0 || b == -1 { 0 } else { a / b - a % b } }
    2 shifted(a, b) { (a << (b & 31)) ^ (a >> (b & 7)) }
    3 bits(a, b) { (a & b) | (!a ^ b) }
    4 clamped(a, b) { a.clamp(-100, 100).min(b).max(-b.saturating_add(1).max(-9)) }
    5 saturated(a, b) { a.saturating_add(b) ^ a.saturating_sub(b) }
    6 counted(a, b) { (a.count_ones() + a.leading_zeros() * 64 + b.trailing_zeros() * 4096 + b.count_zeros()) as i32 }
    7 rotated(a, b) { a.rotate_left(5) ^ b.rotate_right(33 & 31) }
    8 narrowed(a, b) { (a as i8) as i32 + (b as u8) as i32 + (a as u16) as i32 - (b as i16) as i32 }
    9 compared(a, b) { (a < b) as i32 + (a <= b) as i32 * 2 + (a == b) as i32 * 4 + (a != b && a > 3) as i32 * 8 }
    10 matched(a, b) {
        match a {
            i32::MIN..=-1000 => 1,
            -1 => 2,
            0 | 1 => b,
            n if n > 5 && b > 0 => n.wrapping_add(1),
            n @ 2..=5 => n * 7,
            _ => -1,
        }
    }
    11 looped(a, b) {
        let mut sum = 0i32;
        for i in 0..(b & 15) {
            if i == 7 { continue; }
            if i == 12 { break; }
            sum = sum.wrapping_add(i ^ a);
        }
        sum
    }
    12 labelled(a, b) {
        let mut steps = 0;
        'outer: for i in 0..10 {
            for j in (0..10).rev() {
                steps += 1;
                if i * j == (a & 63) { break 'outer; }
                if j == (b & 7) { continue 'outer; }
            }
        }
        steps
    }
    13 loop_value(a, b) {
        let mut n = (a & 1023) as u32 + 1;
        let mut steps = 0;
        let last = loop {
            if n == 1 { break steps; }
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        };
        last + (b & 1)
    }
    14 ranges(a, b) {
        let mut sum = 0i64;
        for i in (a & 7)..=9 { sum += i as i64; }
        for i in (0..=(b & 7)).rev() { sum = sum * 3 + i as i64; }
        for i in (0..20usize).step_by(6) { sum = sum * 5 + i as i64; }
        for _ in 250u8..=255 { sum += 1; }
        for i in (120i8..127).step_by(5) { sum += i as i64; }
        for i in (-128i8..=-126).rev() { sum -= i as i64; }
        for _ in 5..1 { sum += 1000; }
        sum as i32
    }
    15 while_loop(a, b) {
        let (mut x, mut y) = ((a & 255) + 1, (b & 255) + 1);
        while x != y && x > 0 {
            if x > y { x -= y; } else { y -= x; }
        }
        x
    }
    16 blocks(a, b) {
        let c = { let a = a & 7; let b = b & 7; a * 8 + b };
        let d = if c > 20 { c } else if c > 10 { let c = c * 2; c } else { return c; };
        d + 1
    }
    17 in_order(a, b) {
        let mut n = a & 15;
        let first = n + { n += 1; n } * 100;
        let mut v = [0i32; 4];
        v[{ n += 1; (n & 3) as usize }] = { n *= 2; n };
        first + v[0] + v[1] * 3 + v[2] * 5 + v[3] * 7 + (b & 1)
    }
    18 lazily(a, b) {
        let mut n = 0;
        if a > 0 && { n += 1; b > 0 } || { n += 10; a == b } { n += 100; }
        n
    }
    19 tuples(a, b) {
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        let mut pair = (low & 15, high & 15, 3);
        (pair.0, pair.1) = (pair.1, pair.0);
        pair.0 * 100 + pair.1 * pair.2
    }
    20 arrays(a, b) {
        let mut table = [[0i32; 3]; 2];
        for i in 0..2 { for j in 0..table[i].len() { table[i][j] = (i * 3 + j) as i32 + (a & 1); } }
        let copy = table;
        table[1][2] = 1000;
        copy[1][(b & 1) as usize] + table[1][2] + [5, 6, 7][(a & 1) as usize]
    }
    21 constants(a, b) {
        const STEP: i32 = 1 << 4;
        let v = [STEP - 1; SIZE];
        const SIZE: usize = 2 * 3;
        v[5] + (a & STEP) + i32::MAX / (2 + (b & 3)) + v.len() as i32
    }
    22 late(a, b) {
        let c;
        if a > b { c = 1; } else { c = 2; }
        let mut d: i32;
        d = c;
        d += c;
        d
    }
    23 magnitude(a, b) { (a.abs_diff(b) & 0xffff) as i32 + a.signum() * 3 + (a.max(-5)).min(5).pow(3).abs() }
}

programs! {
    unsigned: u32 => u32;
    0 wrapping(a, b) { a.wrapping_add(b).wrapping_mul(0x9e37_79b9).wrapping_sub(b.wrapping_neg()) }
    1 divided(a, b) { if b == 0 { 7 } else { a / b + a % b } }
    2 shifted(a, b) { (a << (b % 32)) | (a >> (b % 32)) }
    3 saturated(a, b) { a.saturating_sub(b) ^ a.saturating_add(b) }
    4 distance(a, b) { a.abs_diff(b) }
    5 power(a, b) { (a & 7).pow(b & 7) + u32::from(a.is_power_of_two()) }
    6 narrowed(a, b) { u32::from(a as u8) + u32::from(b as u16) + (a as i8 as u32 & 0xff) }
    7 hashed(a, b) {
        let mut h = 0x811c_9dc5u32;
        for shift in [0u32; 4].len() as u32..8 { h = (h ^ (a >> shift & 0xff)).wrapping_mul(0x0100_0193); }
        h ^= b;
        h ^= h >> 16;
        h
    }
    8 compound(a, b) {
        let mut n = a;
        n |= 1; n &= 0xffff; n ^= b & 0xff; n <<= 3; n >>= 1; n /= 3; n %= 1000; n *= 2; n -= n / 2; n += 1;
        n
    }
    9 early(a, b) {
        if a == 0 { return b; }
        let mut n = a;
        loop {
            if n & 1 == 1 { return n; }
            n >>= 1;
        }
    }
}

programs! {
    wide: i64 => i64;
    0 wrapping(a, b) { a.wrapping_mul(b).wrapping_add(i64::MIN) }
    1 mixed(a, b) { (a as i32 as i64) ^ (b as u32 as i64) ^ (a as usize >> 60) as i64 }
    2 saturated(a, b) { a.saturating_add(b).saturating_sub(1) }
    3 to_float(a, b) { (a as f64 * 0.5) as i64 ^ (b as f32) as i64 }
    4 counted(a, b) { (a.count_ones() as i64) * 64 + b.leading_zeros() as i64 + (b.trailing_zeros() as i64) * 4096 }
}

programs! {
    floats: f32 => f32;
    0 arithmetic(a, b) { a * b + a - b / (a + 0.1) }
    1 remainder(a, b) { a % b }
    2 least(a, b) { a.min(b) + f32::max(a, b) + 0.0 }
    3 rounded(a, b) { a.floor() + a.ceil() * 3.0 + b.round() * 5.0 + b.trunc() * 7.0 + a.round_ties_even() }
    4 rooted(a, b) { a.abs().sqrt() + b.abs().sqrt().recip() }
    5 fused(a, b) { a.mul_add(b, -a) }
    6 not_fused(a, b) { let c = a * b; c - a }
    7 to_integers(a, b) { a as i32 as f32 + b as u8 as f32 + (a as i64 as f32) + (b as u32 as f32) + (a as i8) as f32 }
    8 through_bits(a, b) { f32::from_bits(a.to_bits() ^ (b.to_bits() & 0xff)) }
    9 signs(a, b) { a.signum() + b.copysign(a) + (-a).abs() }
    10 limits(a, b) { if a > b { f32::MAX } else if a < b { f32::MIN_POSITIVE } else { f32::EPSILON } }
    11 classified(a, b) { u32::from(a.is_nan()) as f32 + if b.is_infinite() { 2.0 } else if b.is_finite() { 4.0 } else { 8.0 } }
    12 clamped(a, b) { a.clamp(-1.5, 2.5) + b.fract() }
    13 widened(a, b) { (f64::from(a) * b as f64) as f32 }
    14 horner(a, b) {
        let coefficients = [1.0, 0.5, 0.25, -0.125];
        let mut sum = 0.0;
        for i in (0..coefficients.len()).rev() { sum = sum * a + coefficients[i]; }
        sum * b
    }
    15 newton(a, b) {
        let target = a.abs() + 1.0;
        let mut x = target;
        let mut steps = 0;
        while (x * x - target).abs() > 1e-3 * target && steps < 40 { x = 0.5 * (x + target / x); steps += 1; }
        x + b * 0.0
    }
}

programs! {
    functions: f32 => f32;
    0 exponentials(a, b) { a.exp() + b.exp2() }
    1 logarithms(a, b) { (a.abs() + 1.0).ln() + (b.abs() + 1.0).log2() + (a.abs() + 2.0).log10() }
}

programs! {
    halves: f16 => f16;
    0 arithmetic(a, b) { a * b + a - b }
    1 divided(a, b) { a / (b * b + f16::ONE) }
    2 through_f32(a, b) { f16::from_f32(a.to_f32() * 0.3 + f32::from(b)) }
    3 compared(a, b) { if a < b { a } else { -b } }
}

programs! {
    brains: bf16 => bf16;
    0 arithmetic(a, b) { a * b + a - b }
    1 through_f32(a, b) { bf16::from_f32(a.to_f32() * 0.3 + b.to_f32()) }
}

const SIGNED: [i32; 14] = [i32::MIN, i32::MIN + 1, -65_537, -1000, -7, -1, 0, 1, 2, 5, 31, 255, 65_536, i32::MAX];
const FLOATS: [f32; 18] = [
    f32::NEG_INFINITY,
    f32::MIN,
    -3e9,
    -129.5,
    -2.5,
    -1.0,
    -0.5,
    -0.0,
    0.0,
    1e-40,
    0.1,
    0.5,
    1.5,
    255.9,
    65_504.0,
    3e9,
    f32::MAX,
    f32::INFINITY,
];

#[test]
fn signed_integers() {
    compare!(signed, SIGNED, |a, b| a == b);
}

#[test]
fn unsigned_integers() {
    compare!(unsigned, SIGNED.map(|n| n as u32), |a, b| a == b);
}

#[test]
fn wide_integers() {
    compare!(wide, SIGNED.map(|n| i64::from(n) * 3_000_000_019), |a, b| a == b);
}

/// The same bits, but for what is no number.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn floats_to_the_last_bit() {
    compare!(floats, FLOATS, same);
}

#[test]
fn functions_of_floats() {
    let close = |a: f32, b: f32| same(a, b) || (a - b).abs() <= 4e-6 * b.abs();
    compare!(functions, [-10.0f32, -1.0, -0.1, 0.0, 0.3, 1.0, 2.5, 20.0], close);
}

#[test]
fn half_precision_to_the_last_bit() {
    use half::{bf16, f16};
    let near =
        [0x0000u16, 0x0001, 0x03ff, 0x0400, 0x3c00, 0x3c01, 0x3555, 0x7bff, 0x7c00, 0x8001, 0xb800, 0xfbff, 0xfc00];
    compare!(halves, near.map(f16::from_bits), |a: f16, b: f16| same(a.to_f32(), b.to_f32()));
    compare!(brains, near.map(bf16::from_bits), |a: bf16, b: bf16| same(a.to_f32(), b.to_f32()));
}
