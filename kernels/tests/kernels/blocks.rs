//! The block formats once more, in plain Rust and weight by weight, from GGML's definition: what the kernels are compared
//! with. And the rule by which Candle's CPU quantizer makes the bytes of the simple formats.

use crate::element::Random;
use candle_rocm_kernels::BlockFormat::{self, *};
use half::{bf16, f16};

/// The formats that are made of blocks.
pub const QUANTIZED: [BlockFormat; 12] = [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1, Q2K, Q3K, Q4K, Q5K, Q6K, Q8K];

fn half_at(block: &[u8], at: usize) -> f64 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f64()
}

/// Weight `i` of a block. Exact, since every factor has few bits; factor by factor, since a zero has a sign.
pub fn weight(format: BlockFormat, block: &[u8], i: usize) -> f64 {
    let nibble = |from: usize| f64::from(block[from + i % 16] >> (4 * (i / 16)) & 15);
    let fifth = |from: usize| f64::from((block[from + i / 8] >> (i % 8) & 1) << 4);
    // Places of a weight in the formats of 256: which half, which 32 of it, which of those.
    let (half, group, l) = (i / 128, i % 128 / 32, i % 32);
    match format {
        F32 => f64::from(f32::from_le_bytes([block[0], block[1], block[2], block[3]])),
        F16 => half_at(block, 0),
        BF16 => bf16::from_le_bytes([block[0], block[1]]).to_f64(),
        Q4_0 => half_at(block, 0) * (nibble(2) - 8.0),
        Q4_1 => half_at(block, 0) * nibble(4) + half_at(block, 2),
        Q5_0 => half_at(block, 0) * (nibble(6) + fifth(2) - 16.0),
        Q5_1 => half_at(block, 0) * (nibble(8) + fifth(4)) + half_at(block, 2),
        Q8_0 => half_at(block, 0) * f64::from(block[2 + i] as i8),
        Q8_1 => half_at(block, 0) * f64::from(block[4 + i] as i8),
        Q2K => {
            let q = block[16 + 32 * half + l] >> (2 * group) & 3;
            let both = block[i / 16];
            half_at(block, 80) * f64::from(both & 15) * f64::from(q) - half_at(block, 82) * f64::from(both >> 4)
        }
        Q3K => {
            let q = i32::from(block[32 + 32 * half + l] >> (2 * group) & 3);
            let high = i32::from(block[l] >> (4 * half + group) & 1);
            let piece = i / 16;
            let low = block[96 + piece % 8] >> (4 * (piece / 8)) & 15;
            let top = block[104 + piece % 4] >> (2 * (piece / 4)) & 3;
            half_at(block, 108) * f64::from(i32::from(low | top << 4) - 32) * f64::from(q + 4 * high - 4)
        }
        Q4K | Q5K => {
            let (group, nibbles) = (i / 32, if format == Q4K { 16 } else { 48 });
            let q = block[nibbles + 32 * (group / 2) + l] >> (4 * (group % 2)) & 15;
            let high = if format == Q5K { (block[16 + l] >> group & 1) << 4 } else { 0 };
            let s = &block[4..16];
            let (scale, minimum) = match group {
                0..=3 => (s[group] & 63, s[group + 4] & 63),
                _ => ((s[group + 4] & 15) | (s[group - 4] >> 6) << 4, (s[group + 4] >> 4) | (s[group] >> 6) << 4),
            };
            half_at(block, 0) * f64::from(scale) * f64::from(q | high) - half_at(block, 2) * f64::from(minimum)
        }
        Q6K => {
            let low = block[64 * half + 32 * (group % 2) + l] >> (4 * (group / 2)) & 15;
            let high = block[128 + 32 * half + l] >> (2 * group) & 3;
            let scale = block[192 + i / 16] as i8;
            half_at(block, 208) * f64::from(scale) * (f64::from(low | high << 4) - 32.0)
        }
        Q8K => f64::from(f32::from_le_bytes([block[0], block[1], block[2], block[3]])) * f64::from(block[4 + i] as i8),
    }
}

/// All weights of a run of blocks.
pub fn weights(format: BlockFormat, bytes: &[u8]) -> Vec<f64> {
    let each = |block: &[u8]| (0..format.block_size()).map(|i| weight(format, block, i)).collect::<Vec<_>>();
    bytes.chunks_exact(format.block_bytes()).flat_map(each).collect()
}

/// Blocks of random bits whose scales are of the magnitude `scale`, either sign.
pub fn random(random: &mut Random, format: BlockFormat, count: usize, scale: f64) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..count * format.block_bytes()).map(|_| random.next() as u8).collect();
    let halves: &[usize] = match format {
        F32 | Q8K => &[],
        Q4_1 | Q5_1 | Q8_1 | Q4K | Q5K => &[0, 2],
        Q2K => &[80, 82],
        Q3K => &[108],
        Q6K => &[208],
        F16 | BF16 | Q4_0 | Q5_0 | Q8_0 => &[0],
    };
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        for &at in halves {
            let value = random.between(-scale, scale);
            let value =
                if format == BF16 { bf16::from_f64(value).to_le_bytes() } else { f16::from_f64(value).to_le_bytes() };
            block[at..at + 2].copy_from_slice(&value);
        }
        if matches!(format, F32 | Q8K) {
            block[..4].copy_from_slice(&(random.between(-scale, scale) as f32).to_le_bytes());
        }
    }
    bytes
}

/// The first value of the largest magnitude.
fn extreme(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |most: f32, &x| if most.abs() < x.abs() { x } else { most })
}

/// The bytes of one block, for the formats that the device quantizes.
pub fn quantize(format: BlockFormat, values: &[f32]) -> Vec<u8> {
    let inverse = |d: f32| if d != 0.0 { 1.0 / d } else { 0.0 };
    let halves = |values: &[f32]| values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect::<Vec<u8>>();
    let low = values.iter().copied().fold(f32::INFINITY, f32::min);
    let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let pack = |q: &[u8]| (0..16).map(|i| (q[i] & 15) | (q[i + 16] & 15) << 4).collect::<Vec<u8>>();
    let fifths =
        |q: &[u8]| q.iter().enumerate().fold(0u32, |bits, (i, q)| bits | u32::from(q >> 4 & 1) << i).to_le_bytes();
    let integers = |f: &dyn Fn(f32) -> u8| values.iter().map(|&x| f(x)).collect::<Vec<u8>>();
    match format {
        Q4_0 => {
            let d = extreme(values) / -8.0;
            [halves(&[d]), pack(&integers(&|x| 15.min((x * inverse(d) + 8.5) as u8)))].concat()
        }
        Q4_1 => {
            let d = (high - low) / 15.0;
            [halves(&[d, low]), pack(&integers(&|x| 15.min(((x - low) * inverse(d) + 0.5) as u8)))].concat()
        }
        Q5_0 => {
            let d = extreme(values) / -16.0;
            let q = integers(&|x| 31.min((x * inverse(d) + 16.5) as i8) as u8);
            [halves(&[d]), fifths(&q).to_vec(), pack(&q)].concat()
        }
        Q5_1 => {
            let d = (high - low) / 31.0;
            let q = integers(&|x| ((x - low) * inverse(d) + 0.5) as u8);
            [halves(&[d, low]), fifths(&q).to_vec(), pack(&q)].concat()
        }
        Q8_0 | Q8_1 => {
            let d = extreme(values).abs() / 127.0;
            let q = integers(&|x| (x * inverse(d)).round() as i8 as u8);
            let sum: i32 = q.iter().map(|&q| i32::from(q as i8)).sum();
            let sum = (f16::from_f32(sum as f32) * f16::from_f32(d)).to_le_bytes();
            [halves(&[d]), if format == Q8_1 { sum.to_vec() } else { vec![] }, q].concat()
        }
        Q8K => {
            let most = extreme(values);
            let scale = if most == 0.0 { 0.0 } else { -127.0 / most };
            let d = if most == 0.0 { 0.0 } else { 1.0 / scale };
            let q = integers(&|x| (scale * x).round().clamp(-128.0, 127.0) as i8 as u8);
            let sums = q.chunks(16).flat_map(|q| q.iter().map(|&q| i16::from(q as i8)).sum::<i16>().to_le_bytes());
            [d.to_le_bytes().to_vec(), q.clone(), sums.collect()].concat()
        }
        other => panic!("{other} is not quantized on the device"),
    }
}
