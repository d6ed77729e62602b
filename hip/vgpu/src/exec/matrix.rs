//! Matrix operations: MFMA of CDNA, WMMA of RDNA 3 and 4. Where an element lies (lane, register, bits) is a formula of its row,
//! column and depth; the product itself is plain. Sums go in the order of the depth, each step fused, which is one of the orders
//! a card may take.

use crate::exec::float::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, fp8_to_f32};
use crate::exec::lanes::{has_vectors, pick, Run};
use crate::exec::machine::Machine;
use crate::failure::Cause;
use crate::inst::Op as Name;
use crate::wave::{flags, mods, Flow, Handler, Kind, Op, Slot, Wave};

/// The format of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    F16,
    Bf16,
    F32,
    /// An f32 of which ten mantissa bits are used.
    Xf32,
    F64,
    I8,
    Iu8,
    Iu4,
    Fp8,
    Bf8,
    I32,
}

impl Format {
    fn bits(self) -> usize {
        match self {
            Format::F64 => 64,
            Format::F32 | Format::Xf32 | Format::I32 => 32,
            Format::F16 | Format::Bf16 => 16,
            Format::Iu4 => 4,
            _ => 8,
        }
    }
}

/// A product: `M` by `M`, depth `k`, several blocks at once.
#[derive(Clone, Copy)]
struct Shape {
    m: usize,
    k: usize,
    blocks: usize,
    a: Format,
    b: Format,
    d: Format,
    wmma: bool,
}

/// Lane, word and shift of an element.
type Place = (usize, usize, usize);

/// An element of A by row and depth; B by column and depth lies alike.
fn source(shape: &Shape, format: Format, lanes: usize, generation: u32, block: usize, i: usize, k: usize) -> Place {
    let bits = format.bits();
    if !shape.wmma {
        let per_lane = shape.k * shape.m * shape.blocks / 64;
        let at = k % per_lane * bits;
        return (i + shape.m * (block + shape.blocks * (k / per_lane)), at / 32, at % 32);
    }
    if generation < 12 {
        // Every half of the wave has all of it; the first one is read.
        return (i, k * bits / 32, k * bits % 32);
    }
    let shift = k * bits % 32;
    match (bits, shape.k, lanes) {
        (16, _, 32) => (16 * (k / 4 % 2) + i, 2 * (k / 8) + k / 2 % 2, shift),
        (16, _, _) => (32 * (k / 8 % 2) + 16 * (k / 4 % 2) + i, k / 2 % 2, shift),
        (8, _, 32) => (16 * (k / 8) + i, k / 4 % 2, shift),
        (8, _, _) => (32 * (k / 4 % 2) + 16 * (k / 8 % 2) + i, 0, shift),
        (_, 16, _) => (16 * (k / 8) + i, 0, shift),
        (_, _, 32) => (16 * (k / 16) + i, k / 8 % 2, shift),
        _ => (32 * (k / 8 % 2) + 16 * (k / 16 % 2) + i, 0, shift),
    }
}

/// An element of C and D.
fn result(shape: &Shape, lanes: usize, generation: u32, block: usize, i: usize, j: usize) -> Place {
    let half = shape.d.bits() == 16;
    if !shape.wmma {
        return match (shape.d, shape.m) {
            (Format::F64, 16) => (16 * (i % 4) + j, 2 * (i / 4), 0),
            (Format::F64, _) => (16 * i + 4 * block + j, 0, 0),
            (_, 32) => (32 * (i / 4) % 64 + j, 16 * block + 4 * (i / 8) + i % 4, 0),
            (_, 16) => (16 * (i / 4) + j, 4 * block + i % 4, 0),
            _ => (4 * block + j, i, 0),
        };
    }
    match (generation < 12, lanes) {
        (true, _) => (16 * i % lanes + j, i / (lanes / 16), 0),
        (false, 32) if half => (16 * (i / 8) + j, i / 2 % 4, 16 * (i % 2)),
        (false, 32) => (16 * (i / 8) + j, i % 8, 0),
        (false, _) if half => (32 * (i / 4 % 2) + 16 * (i / 8) + j, i / 2 % 2, 16 * (i % 2)),
        (false, _) => (32 * (i / 4 % 2) + 16 * (i / 8) + j, i % 4, 0),
    }
}

/// A word of an operand in a lane; a constant is the same in every register.
fn word<const L: usize>(w: &Wave<L>, slot: Slot, lane: usize, word: usize) -> u32 {
    if slot.kind != Kind::Row {
        return w.word(slot, 0);
    }
    w.v.get(usize::from(slot.index) + word).map_or(0, |row| row[lane % L])
}

fn wide<const L: usize>(w: &Wave<L>, slot: Slot, lane: usize, at: usize) -> u64 {
    if slot.kind != Kind::Row {
        return w.s64(slot);
    }
    u64::from(word(w, slot, lane, at)) | u64::from(word(w, slot, lane, at + 1)) << 32
}

/// A small float as an f32.
fn number(format: Format, bits: u32, ocp: bool) -> f32 {
    match format {
        Format::F16 => f16_to_f32(bits as u16),
        Format::Bf16 => bf16_to_f32(bits as u16),
        Format::Xf32 => f32::from_bits(bits & !0x1fff),
        Format::Fp8 => fp8_to_f32(bits as u8, false, ocp),
        Format::Bf8 => fp8_to_f32(bits as u8, true, ocp),
        _ => f32::from_bits(bits),
    }
}

fn integer(format: Format, bits: u32, signed: bool) -> i64 {
    match (format, signed || format == Format::I8) {
        (Format::Iu4, true) => i64::from((bits << 28) as i32 >> 28),
        (Format::Iu4, false) => i64::from(bits & 15),
        (_, true) => i64::from(bits as i8),
        (_, false) => i64::from(bits & 0xff),
    }
}

/// Elements of the largest factor, and of the largest result of one block.
const MOST: usize = 32 * 32;

/// The sums of a block in f32 or a smaller float. Factors are widened once and not for each of their products: a product on the
/// matrix units runs few other instructions.
fn multiply_floats<const L: usize>(
    w: &Wave<L>,
    op: &Op<L>,
    generation: u32,
    shape: &Shape,
    [block, from]: [usize; 2],
    out: &mut Vec<(Place, u64)>,
) {
    let [a, b, c] = op.src;
    let ocp = generation >= 12;
    let Shape { m, k: depth, wmma, .. } = *shape;
    let signed = |slot: Slot, k: usize, value: f32| {
        let bit = if k.is_multiple_of(2) { mods::NEG } else { mods::NEG_HI };
        if wmma && slot.mods & bit != 0 {
            -value
        } else {
            value
        }
    };
    let (mut left, mut right, mut sums) = ([0f32; MOST], [0f32; MOST], [0f32; MOST]);
    for i in 0..m {
        for k in 0..depth {
            let x = source(shape, shape.a, L, generation, from, i, k);
            let y = source(shape, shape.b, L, generation, block, i, k);
            left[i * depth + k] = signed(a, k, number(shape.a, word(w, a, x.0, x.1) >> x.2, ocp));
            right[k * m + i] = signed(b, k, number(shape.b, word(w, b, y.0, y.1) >> y.2, ocp));
        }
    }
    let half = c.kind == Kind::Row && shape.d.bits() == 16;
    for i in 0..m {
        for j in 0..m {
            let (lane, at, shift) = result(shape, L, generation, block, i, j);
            let bits = word(w, c, lane, at);
            // gfx11: the operation picks the half that C and D have.
            let shift = if generation < 12 && c.mods & mods::HIGH != 0 { 16 } else { shift };
            let mut start = match shape.d {
                Format::F32 => f32::from_bits(bits),
                _ => number(shape.d, if half { bits >> shift } else { bits }, ocp),
            };
            if wmma && c.mods & mods::NEG_HI != 0 {
                start = start.abs();
            }
            if wmma && c.mods & mods::NEG != 0 {
                start = -start;
            }
            sums[i * m + j] = start;
        }
    }
    add_products(&left[..m * depth], &right[..depth * m], &mut sums[..m * m], m);
    for i in 0..m {
        for j in 0..m {
            let sum = sums[i * m + j];
            let value = match shape.d {
                Format::F16 => u64::from(f32_to_f16(sum)),
                Format::Bf16 => u64::from(f32_to_bf16(sum)),
                _ => u64::from(sum.to_bits()),
            };
            out.push((result(shape, L, generation, block, i, j), value));
        }
    }
}

/// `sums[i][j] += left[i][k] * right[k][j]`, in the order of k, with `m` columns.
fn add_products(left: &[f32], right: &[f32], sums: &mut [f32], m: usize) {
    #[cfg(target_arch = "x86_64")]
    if has_vectors() {
        // SAFETY: the CPU has been asked.
        return unsafe { add_products_by_vectors(left, right, sums, m) };
    }
    add_products_anywhere(left, right, sums, m);
}

/// # Safety
/// The CPU must have AVX2 and FMA: see `has_vectors`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn add_products_by_vectors(left: &[f32], right: &[f32], sums: &mut [f32], m: usize) {
    add_products_anywhere(left, right, sums, m);
}

#[inline(always)]
fn add_products_anywhere(left: &[f32], right: &[f32], sums: &mut [f32], m: usize) {
    let depth = left.len() / m;
    for (row, sums) in left.chunks_exact(depth).zip(sums.chunks_exact_mut(m)) {
        for (x, column) in row.iter().zip(right.chunks_exact(m)) {
            for (sum, y) in sums.iter_mut().zip(column) {
                *sum = x.mul_add(*y, *sum);
            }
        }
    }
}

fn multiply<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>, shape: &Shape) -> Flow {
    let generation = m.arch.generation();
    let (cbsz, abid, blgp) = (op.imm & 7, op.imm >> 3 & 31, op.imm >> 8 & 7);
    if blgp != 0 && shape.d != Format::F64 {
        return m.fail(Cause::Instruction, None, "lane groups of B (blgp) are not emulated".to_owned());
    }
    if shape.wmma && w.exec != Wave::<L>::ALL {
        return m.fail(Cause::Instruction, None, "a matrix operation needs all lanes on".to_owned());
    }
    let [a, b, c] = op.src;
    let mut out: Vec<(Place, u64)> = Vec::with_capacity(shape.blocks * shape.m * shape.m);
    for block in 0..shape.blocks {
        // Blocks of A may be broadcast to their neighbours.
        let from = if cbsz > 0 { block >> cbsz << cbsz | abid as usize & ((1 << cbsz) - 1) } else { block };
        if !matches!(shape.d, Format::F64 | Format::I32) {
            multiply_floats(w, op, generation, shape, [block, from], &mut out);
            continue;
        }
        for i in 0..shape.m {
            for j in 0..shape.m {
                let place = result(shape, L, generation, block, i, j);
                let (lane, at, _) = place;
                let pairs = (0..shape.k).map(|k| {
                    let x = source(shape, shape.a, L, generation, from, i, k);
                    let y = source(shape, shape.b, L, generation, block, j, k);
                    (x, y)
                });
                let value = if shape.d == Format::F64 {
                    let start = f64::from_bits(wide(w, c, lane, at));
                    let signs = [blgp & 1 != 0, blgp & 2 != 0, blgp & 4 != 0];
                    let flip = |value: f64, negate: bool| if negate { -value } else { value };
                    let sum = pairs.fold(flip(start, signs[2]), |sum, (x, y)| {
                        let (x, y) = (wide(w, a, x.0, x.1), wide(w, b, y.0, y.1));
                        flip(f64::from_bits(x), signs[0]).mul_add(flip(f64::from_bits(y), signs[1]), sum)
                    });
                    sum.to_bits()
                } else {
                    let signed = [a.mods & mods::NEG != 0, b.mods & mods::NEG != 0];
                    let start = i64::from(word(w, c, lane, at) as i32);
                    let sum = pairs.fold(start, |sum, (x, y)| {
                        let x = integer(shape.a, word(w, a, x.0, x.1) >> x.2, signed[0]);
                        let y = integer(shape.b, word(w, b, y.0, y.1) >> y.2, signed[1]);
                        sum + x * y
                    });
                    if op.flags & flags::CLAMP != 0 {
                        sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u64
                    } else {
                        sum as u64
                    }
                };
                out.push((place, value));
            }
        }
    }
    // D may be A, B or C: written last. Matrix operations do not look at EXEC.
    let high = generation < 12 && op.src[2].mods & mods::HIGH != 0;
    for ((lane, at, shift), value) in out {
        let Some(row) = w.v.get_mut(usize::from(op.dst.index) + at) else { continue };
        let target = &mut row[lane % L];
        *target = match shape.d.bits() {
            16 => {
                let shift = if high { 16 } else { shift };
                *target & !(0xffff << shift) | (value as u32) << shift
            }
            _ => value as u32,
        };
        if shape.d == Format::F64 {
            if let Some(row) = w.v.get_mut(usize::from(op.dst.index) + at + 1) {
                row[lane % L] = (value >> 32) as u32;
            }
        }
    }
    Flow::Next
}

macro_rules! products {
    ($($op:ident $m:literal x $k:literal x $blocks:literal $a:ident $b:ident $d:ident $wmma:literal;)*) => {
        /// The handler of a matrix operation.
        pub(crate) fn lookup<const L: usize>(op: Name, fast: bool) -> Option<Handler<L>> {
            Some(match op {
                $(Name::$op => {
                    struct Line;
                    impl Run for Line {
                        #[inline(always)]
                        fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
                            let shape = Shape {
                                m: $m,
                                k: $k,
                                blocks: $blocks,
                                a: Format::$a,
                                b: Format::$b,
                                d: Format::$d,
                                wmma: $wmma,
                            };
                            multiply(w, op, m, &shape)
                        }
                    }
                    pick::<Line, L>(fast)
                })*
                _ => return None,
            })
        }
    };
}

products! {
    V_MFMA_F32_32X32X1_2B_F32 32 x 1 x 2 F32 F32 F32 false;
    V_MFMA_F32_16X16X1_4B_F32 16 x 1 x 4 F32 F32 F32 false;
    V_MFMA_F32_4X4X1_16B_F32 4 x 1 x 16 F32 F32 F32 false;
    V_MFMA_F32_32X32X2_F32 32 x 2 x 1 F32 F32 F32 false;
    V_MFMA_F32_16X16X4_F32 16 x 4 x 1 F32 F32 F32 false;
    V_MFMA_F32_32X32X4_XF32 32 x 4 x 1 Xf32 Xf32 F32 false;
    V_MFMA_F32_16X16X8_XF32 16 x 8 x 1 Xf32 Xf32 F32 false;
    V_MFMA_F32_32X32X4_2B_F16 32 x 4 x 2 F16 F16 F32 false;
    V_MFMA_F32_16X16X4_4B_F16 16 x 4 x 4 F16 F16 F32 false;
    V_MFMA_F32_4X4X4_16B_F16 4 x 4 x 16 F16 F16 F32 false;
    V_MFMA_F32_32X32X8_F16 32 x 8 x 1 F16 F16 F32 false;
    V_MFMA_F32_16X16X16_F16 16 x 16 x 1 F16 F16 F32 false;
    V_MFMA_F32_32X32X2BF16 32 x 2 x 2 Bf16 Bf16 F32 false;
    V_MFMA_F32_16X16X2BF16 16 x 2 x 4 Bf16 Bf16 F32 false;
    V_MFMA_F32_4X4X2BF16 4 x 2 x 16 Bf16 Bf16 F32 false;
    V_MFMA_F32_32X32X4BF16 32 x 4 x 1 Bf16 Bf16 F32 false;
    V_MFMA_F32_16X16X8BF16 16 x 8 x 1 Bf16 Bf16 F32 false;
    V_MFMA_F32_32X32X4_2B_BF16 32 x 4 x 2 Bf16 Bf16 F32 false;
    V_MFMA_F32_16X16X4_4B_BF16 16 x 4 x 4 Bf16 Bf16 F32 false;
    V_MFMA_F32_4X4X4_16B_BF16 4 x 4 x 16 Bf16 Bf16 F32 false;
    V_MFMA_F32_32X32X8_BF16 32 x 8 x 1 Bf16 Bf16 F32 false;
    V_MFMA_F32_16X16X16_BF16 16 x 16 x 1 Bf16 Bf16 F32 false;
    V_MFMA_F32_16X16X32_BF8_BF8 16 x 32 x 1 Bf8 Bf8 F32 false;
    V_MFMA_F32_16X16X32_BF8_FP8 16 x 32 x 1 Bf8 Fp8 F32 false;
    V_MFMA_F32_16X16X32_FP8_BF8 16 x 32 x 1 Fp8 Bf8 F32 false;
    V_MFMA_F32_16X16X32_FP8_FP8 16 x 32 x 1 Fp8 Fp8 F32 false;
    V_MFMA_F32_32X32X16_BF8_BF8 32 x 16 x 1 Bf8 Bf8 F32 false;
    V_MFMA_F32_32X32X16_BF8_FP8 32 x 16 x 1 Bf8 Fp8 F32 false;
    V_MFMA_F32_32X32X16_FP8_BF8 32 x 16 x 1 Fp8 Bf8 F32 false;
    V_MFMA_F32_32X32X16_FP8_FP8 32 x 16 x 1 Fp8 Fp8 F32 false;
    V_MFMA_F64_16X16X4_F64 16 x 4 x 1 F64 F64 F64 false;
    V_MFMA_F64_4X4X4_4B_F64 4 x 4 x 4 F64 F64 F64 false;
    V_MFMA_I32_32X32X4_2B_I8 32 x 4 x 2 I8 I8 I32 false;
    V_MFMA_I32_16X16X4_4B_I8 16 x 4 x 4 I8 I8 I32 false;
    V_MFMA_I32_4X4X4_16B_I8 4 x 4 x 16 I8 I8 I32 false;
    V_MFMA_I32_32X32X8I8 32 x 8 x 1 I8 I8 I32 false;
    V_MFMA_I32_16X16X16I8 16 x 16 x 1 I8 I8 I32 false;
    V_MFMA_I32_32X32X16_I8 32 x 16 x 1 I8 I8 I32 false;
    V_MFMA_I32_16X16X32_I8 16 x 32 x 1 I8 I8 I32 false;
    V_WMMA_F32_16X16X16_F16 16 x 16 x 1 F16 F16 F32 true;
    V_WMMA_F32_16X16X16_BF16 16 x 16 x 1 Bf16 Bf16 F32 true;
    V_WMMA_F16_16X16X16_F16 16 x 16 x 1 F16 F16 F16 true;
    V_WMMA_BF16_16X16X16_BF16 16 x 16 x 1 Bf16 Bf16 Bf16 true;
    V_WMMA_I32_16X16X16_IU8 16 x 16 x 1 Iu8 Iu8 I32 true;
    V_WMMA_I32_16X16X16_IU4 16 x 16 x 1 Iu4 Iu4 I32 true;
    V_WMMA_I32_16X16X32_IU4 16 x 32 x 1 Iu4 Iu4 I32 true;
    V_WMMA_F32_16X16X16_FP8_FP8 16 x 16 x 1 Fp8 Fp8 F32 true;
    V_WMMA_F32_16X16X16_FP8_BF8 16 x 16 x 1 Fp8 Bf8 F32 true;
    V_WMMA_F32_16X16X16_BF8_FP8 16 x 16 x 1 Bf8 Fp8 F32 true;
    V_WMMA_F32_16X16X16_BF8_BF8 16 x 16 x 1 Bf8 Bf8 F32 true;
}
