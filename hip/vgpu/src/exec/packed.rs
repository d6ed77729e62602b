//! Packed operations: two results in one register or register pair, mixed precision, dot products.

use crate::exec::float::{self, bf16_to_f32, f16_to_f32, f32_to_bf16, single};
use crate::exec::lanes::{
    compute, each_lane, fetch, handlers, row, store, words, Buffer, Elem, F16Wide, Source, Two, F16, F32, I16, U16, U32,
};
use crate::wave::{flags, mods, Flow, Kind, Op, Row, Slot, Wave};

/// A packed source: where its words are, and for each of the two results how the half that it reads is made of them.
#[derive(Clone, Copy)]
struct Halves<const L: usize> {
    words: Source<L>,
    shift: [u32; 2],
    flip: [u32; 2],
}

impl<const L: usize> Halves<L> {
    #[inline(always)]
    fn new(w: &Wave<L>, slot: Slot, buffer: &mut Buffer<L>) -> Self {
        let on = |bit: u8, value: u32| if slot.mods & bit != 0 { value } else { 0 };
        Self {
            words: words(w, slot, 0, buffer),
            shift: [on(mods::HIGH, 16), on(mods::HIGH_HI, 16)],
            flip: [on(mods::NEG, 0x8000), on(mods::NEG_HI, 0x8000)],
        }
    }

    /// What one of the two results reads, in the low sixteen bits.
    #[inline(always)]
    fn at(&self, lane: usize, result: usize) -> u32 {
        self.words.at::<U32>(lane) >> self.shift[result] ^ self.flip[result]
    }
}

#[inline(always)]
fn packed<E: Elem, const N: usize, const L: usize>(w: &mut Wave<L>, op: &Op<L>, f: impl Fn([E::T; 3]) -> E::T) -> Flow {
    let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
    let (a, b) = (Halves::new(w, op.src[0], &mut a), Halves::new(w, op.src[1], &mut b));
    let c = if N > 2 { Halves::new(w, op.src[2], &mut c) } else { b };
    let (clamps, mode) = (op.flags & flags::CLAMP != 0, w.mode);
    compute::<U32, L>(
        w,
        op,
        #[inline(always)]
        |i| {
            let result = |n: usize| {
                let [a, b, c] = [E::get(a.at(i, n), 0), E::get(b.at(i, n), 0), E::get(c.at(i, n), 0)];
                let bits = E::put(f([a, b, c])).0 & 0xffff;
                if clamps {
                    E::finish((bits, 0), flags::CLAMP, mode).0
                } else {
                    bits
                }
            };
            result(0) | result(1) << 16
        },
    );
    Flow::Next
}

/// Two f32 in a pair of registers; the modifiers pick the word that each result reads.
#[inline(always)]
fn packed32<const N: usize, const L: usize>(w: &mut Wave<L>, op: &Op<L>, f: impl Fn([f32; 3]) -> f32) -> Flow {
    let mut room: [[Buffer<L>; 2]; 3] = [const { [const { Buffer::new() }; 2] }; 3];
    let mut flips = [[0; 2]; 3];
    let mut source = |n: usize, result: usize| {
        let slot = op.src[n];
        let (pick, negate) = [(mods::HIGH, mods::NEG), (mods::HIGH_HI, mods::NEG_HI)][result];
        flips[n][result] = if slot.mods & negate != 0 { 0x8000_0000 } else { 0 };
        words(w, slot, u16::from(slot.mods & pick != 0), &mut room[n][result])
    };
    let (a, b) = ([source(0, 0), source(0, 1)], [source(1, 0), source(1, 1)]);
    let c = if N > 2 { [source(2, 0), source(2, 1)] } else { b };
    compute::<Two, L>(
        w,
        op,
        #[inline(always)]
        |i| {
            let value = |source: &[Source<L>; 2], n: usize, result: usize| {
                f32::from_bits(source[result].at::<U32>(i) ^ flips[n][result])
            };
            let result = |n: usize| f([value(&a, 0, n), value(&b, 1, n), value(&c, N - 1, n)]);
            (result(0), result(1))
        },
    );
    Flow::Next
}

/// A source of a mixed-precision operation: an f32, or one half as an f16.
#[inline(always)]
fn mixed<const L: usize>(w: &Wave<L>, slot: Slot) -> Row<L> {
    let mut values = row(w, slot, 0);
    let shift = if slot.mods & mods::HIGH != 0 { 16 } else { 0 };
    if slot.mods & mods::HIGH_HI != 0 {
        each_lane::<L>(|i| values[i] = f16_to_f32((values[i] >> shift) as u16).to_bits());
    }
    let (keep, flip) = (
        if slot.mods & mods::ABS != 0 { 0x7fff_ffff } else { u32::MAX },
        if slot.mods & mods::NEG != 0 { 0x8000_0000 } else { 0 },
    );
    if slot.mods & (mods::ABS | mods::NEG) != 0 {
        each_lane::<L>(|i| values[i] = values[i] & keep ^ flip);
    }
    values
}

/// The fused product and sum of mixed sources, a lane at a time.
#[inline(always)]
fn fma_mix<E: Elem, const L: usize>(w: &mut Wave<L>, op: &Op<L>, finish: impl Fn(f32) -> E::T) -> Flow {
    let (a, b, c) = (mixed(w, op.src[0]), mixed(w, op.src[1]), mixed(w, op.src[2]));
    compute::<E, L>(
        w,
        op,
        #[inline(always)]
        |i| finish(f32::from_bits(a[i]).mul_add(f32::from_bits(b[i]), f32::from_bits(c[i]))),
    );
    Flow::Next
}

/// A dot product of integers of `BITS` bits; signed where the flags say so.
#[inline(always)]
fn dot<const BITS: u32, const L: usize>(w: &mut Wave<L>, op: &Op<L>, signed: [bool; 2]) -> Flow {
    let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
    let (a, b) = (words(w, op.src[0], 0, &mut a), words(w, op.src[1], 0, &mut b));
    let c = words(w, op.src[2], 0, &mut c);
    if BITS == 8 && op.flags & flags::CLAMP == 0 {
        // The common one, in 32 bits so that it becomes vector code.
        let byte = |word: u32, n: u32, signed: bool| {
            let top = word << (24 - 8 * n);
            if signed {
                top as i32 >> 24
            } else {
                (top >> 24) as i32
            }
        };
        compute::<U32, L>(
            w,
            op,
            #[inline(always)]
            |i| {
                let (a, b) = (a.at::<U32>(i), b.at::<U32>(i));
                let product = |n: u32| (byte(a, n, signed[0]) * byte(b, n, signed[1])) as u32;
                let sum = product(0).wrapping_add(product(1)).wrapping_add(product(2)).wrapping_add(product(3));
                c.at::<U32>(i).wrapping_add(sum)
            },
        );
        return Flow::Next;
    }
    let part = |word: u32, n: u32, signed: bool| {
        let top = word << (32 - BITS * (n + 1));
        if signed {
            i64::from(top as i32 >> (32 - BITS))
        } else {
            i64::from(top >> (32 - BITS))
        }
    };
    let (any_signed, clamps) = (signed[0] || signed[1], op.flags & flags::CLAMP != 0);
    compute::<U32, L>(
        w,
        op,
        #[inline(always)]
        |i| {
            let (a, b, c) = (a.at::<U32>(i), b.at::<U32>(i), c.at::<U32>(i));
            let start = if any_signed { i64::from(c as i32) } else { i64::from(c) };
            let mut sum = start;
            for n in 0..32 / BITS {
                sum += part(a, n, signed[0]) * part(b, n, signed[1]);
            }
            match (clamps, any_signed) {
                (false, _) => sum as u32,
                (true, true) => sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32,
                (true, false) => sum.clamp(0, i64::from(u32::MAX)) as u32,
            }
        },
    );
    Flow::Next
}

/// A dot product of two pairs of sixteen-bit floats onto an f32.
#[inline(always)]
fn dot2<const L: usize>(w: &mut Wave<L>, op: &Op<L>, widen: impl Fn(u16) -> f32) -> Flow {
    // The two-operand form has no modifiers and reads the halves in their order.
    let ordered = |slot: Slot| Slot { mods: if op.imm == 1 { mods::HIGH_HI } else { slot.mods }, ..slot };
    let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
    let a = Halves::new(w, ordered(op.src[0]), &mut a);
    let b = Halves::new(w, ordered(op.src[1]), &mut b);
    let c = words(w, op.src[2], 0, &mut c);
    let flip = if op.src[2].mods & mods::NEG != 0 { 0x8000_0000 } else { 0 };
    compute::<F32, L>(
        w,
        op,
        #[inline(always)]
        |i| {
            let half = |source: &Halves<L>, n: usize| widen(source.at(i, n) as u16);
            let low = half(&a, 0).mul_add(half(&b, 0), f32::from_bits(c.at::<U32>(i) ^ flip));
            half(&a, 1).mul_add(half(&b, 1), low)
        },
    );
    Flow::Next
}

/// A dot product of two pairs of sixteen-bit floats onto a third, which `op_sel` picks a half of.
#[inline(always)]
fn dot2_half<E: Elem, const L: usize>(
    w: &mut Wave<L>,
    op: &Op<L>,
    widen: impl Fn(u16) -> f32,
    finish: impl Fn(f32) -> E::T,
) -> Flow {
    let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
    let (a, b) = (words(w, op.src[0], 0, &mut a), words(w, op.src[1], 0, &mut b));
    let c = words(w, op.src[2], 0, &mut c);
    let shift = if op.src[2].mods & mods::HIGH != 0 { 16 } else { 0 };
    compute::<E, L>(
        w,
        op,
        #[inline(always)]
        |i| {
            let wide = |x: u32, shift: u32| widen((x >> shift) as u16);
            let (a, b) = (a.at::<U32>(i), b.at::<U32>(i));
            let low = wide(a, 0).mul_add(wide(b, 0), wide(c.at::<U32>(i), shift));
            finish(wide(a, 16).mul_add(wide(b, 16), low))
        },
    );
    Flow::Next
}

/// One of four bytes as an f32. The plain form has the first; two modifier bits pick another.
fn from_fp8<const L: usize>(w: &mut Wave<L>, op: &Op<L>, bf8: bool, ocp: bool) -> Flow {
    let byte = u32::from(op.src[0].mods & mods::HIGH != 0) | u32::from(op.src[1].mods & mods::HIGH != 0) << 1;
    let values = row(w, op.src[0], 0);
    let mut result = Row::ZERO;
    each_lane::<L>(|i| result[i] = float::fp8_to_f32((values[i] >> (8 * byte)) as u8, bf8, ocp).to_bits());
    store(w, op.dst.index, &result);
    Flow::Next
}

/// Two bytes of a half as two f32.
fn pair_from_fp8<const L: usize>(w: &mut Wave<L>, op: &Op<L>, bf8: bool, ocp: bool) -> Flow {
    let shift = if op.src[0].mods & mods::HIGH != 0 { 16 } else { 0 };
    let values = row(w, op.src[0], 0);
    for n in 0..2 {
        let mut result = Row::ZERO;
        each_lane::<L>(|i| {
            result[i] = float::fp8_to_f32((values[i] >> (shift + 8 * n)) as u8, bf8, ocp).to_bits();
        });
        store(w, op.dst.index + n as u16, &result);
    }
    Flow::Next
}

/// Two f32 as bytes of one half; the other half stays.
fn pair_to_fp8<const L: usize>(w: &mut Wave<L>, op: &Op<L>, bf8: bool, ocp: bool) -> Flow {
    let (mut a, mut b) = (Buffer::new(), Buffer::new());
    let (a, b) = (
        fetch::<F32, L>(w, Slot { mods: op.src[0].mods & 3, ..op.src[0] }, &mut a),
        fetch::<F32, L>(w, Slot { mods: op.src[1].mods & 3, ..op.src[1] }, &mut b),
    );
    let old = w.v[op.dst.index as usize];
    let saturate = op.flags & flags::CLAMP != 0;
    let mut result = Row::ZERO;
    each_lane::<L>(|i| {
        let low = float::f32_to_fp8(a.at::<F32>(i), bf8, ocp, saturate);
        let high = float::f32_to_fp8(b.at::<F32>(i), bf8, ocp, saturate);
        let pair = u32::from(low) | u32::from(high) << 8;
        result[i] =
            if op.flags & flags::DST_HIGH != 0 { old[i] & 0xffff | pair << 16 } else { old[i] & 0xffff_0000 | pair };
    });
    store(w, op.dst.index, &result);
    Flow::Next
}

handlers! { lookup;
    V_PK_ADD_F16 (w, op, _m) { packed::<F16, 2, L>(w, op, |[a, b, _]| a + b) }
    V_PK_MUL_F16 (w, op, _m) { packed::<F16, 2, L>(w, op, |[a, b, _]| a * b) }
    V_PK_MAX_NUM_F16 (w, op, _m) { packed::<F16, 2, L>(w, op, |[a, b, _]| single::max(a, b)) }
    V_PK_MIN_NUM_F16 (w, op, _m) { packed::<F16, 2, L>(w, op, |[a, b, _]| single::min(a, b)) }
    V_PK_MAXIMUM_F16 (w, op, _m) { packed::<F16, 2, L>(w, op, |[a, b, _]| single::maximum(a, b)) }
    V_PK_MINIMUM_F16 (w, op, _m) { packed::<F16, 2, L>(w, op, |[a, b, _]| single::minimum(a, b)) }
    V_PK_FMA_F16 (w, op, _m) { packed::<F16Wide, 3, L>(w, op, |[a, b, c]| a.mul_add(b, c)) }
    V_PK_FMAC_F16 (w, op, _m) {
        // Two operands and no modifiers: the halves in their order.
        let (mut a, mut b, mut c) = (Buffer::new(), Buffer::new(), Buffer::new());
        let (a, b) = (words(w, op.src[0], 0, &mut a), words(w, op.src[1], 0, &mut b));
        let c = words(w, Slot { kind: Kind::Row, ..op.dst }, 0, &mut c);
        compute::<U32, L>(
            w,
            op,
            #[inline(always)]
            |i| {
                let (a, b, c) = (a.at::<U32>(i), b.at::<U32>(i), c.at::<U32>(i));
                let result = |shift: u32| {
                    let wide = |x: u32| f64::from(f16_to_f32((x >> shift) as u16));
                    u32::from(float::f64_to_f16(wide(a).mul_add(wide(b), wide(c)))) << shift
                };
                result(0) | result(16)
            },
        );
        Flow::Next
    }
    V_PK_ADD_U16 (w, op, _m) {
        if op.flags & flags::CLAMP != 0 { packed::<U16, 2, L>(w, op, |[a, b, _]| a.saturating_add(b)) }
        else { packed::<U16, 2, L>(w, op, |[a, b, _]| a.wrapping_add(b)) }
    }
    V_PK_ADD_I16 (w, op, _m) {
        if op.flags & flags::CLAMP != 0 { packed::<I16, 2, L>(w, op, |[a, b, _]| a.saturating_add(b)) }
        else { packed::<I16, 2, L>(w, op, |[a, b, _]| a.wrapping_add(b)) }
    }
    V_PK_SUB_U16 (w, op, _m) {
        if op.flags & flags::CLAMP != 0 { packed::<U16, 2, L>(w, op, |[a, b, _]| a.saturating_sub(b)) }
        else { packed::<U16, 2, L>(w, op, |[a, b, _]| a.wrapping_sub(b)) }
    }
    V_PK_SUB_I16 (w, op, _m) {
        if op.flags & flags::CLAMP != 0 { packed::<I16, 2, L>(w, op, |[a, b, _]| a.saturating_sub(b)) }
        else { packed::<I16, 2, L>(w, op, |[a, b, _]| a.wrapping_sub(b)) }
    }
    V_PK_MUL_LO_U16 (w, op, _m) { packed::<U16, 2, L>(w, op, |[a, b, _]| a.wrapping_mul(b)) }
    V_PK_MAD_U16 (w, op, _m) {
        if op.flags & flags::CLAMP != 0 {
            packed::<U16, 3, L>(w, op, |[a, b, c]| (u32::from(a) * u32::from(b) + u32::from(c)).min(0xffff) as u16)
        } else {
            packed::<U16, 3, L>(w, op, |[a, b, c]| a.wrapping_mul(b).wrapping_add(c))
        }
    }
    V_PK_MAD_I16 (w, op, _m) {
        if op.flags & flags::CLAMP != 0 {
            packed::<I16, 3, L>(w, op, |[a, b, c]| (i32::from(a) * i32::from(b) + i32::from(c)).clamp(-32768, 32767) as i16)
        } else {
            packed::<I16, 3, L>(w, op, |[a, b, c]| a.wrapping_mul(b).wrapping_add(c))
        }
    }
    V_PK_MAX_U16 (w, op, _m) { packed::<U16, 2, L>(w, op, |[a, b, _]| a.max(b)) }
    V_PK_MIN_U16 (w, op, _m) { packed::<U16, 2, L>(w, op, |[a, b, _]| a.min(b)) }
    V_PK_MAX_I16 (w, op, _m) { packed::<I16, 2, L>(w, op, |[a, b, _]| a.max(b)) }
    V_PK_MIN_I16 (w, op, _m) { packed::<I16, 2, L>(w, op, |[a, b, _]| a.min(b)) }
    V_PK_LSHLREV_B16 (w, op, _m) { packed::<U16, 2, L>(w, op, |[a, b, _]| b << (a & 15)) }
    V_PK_LSHRREV_B16 (w, op, _m) { packed::<U16, 2, L>(w, op, |[a, b, _]| b >> (a & 15)) }
    V_PK_ASHRREV_I16 (w, op, _m) { packed::<I16, 2, L>(w, op, |[a, b, _]| b >> (a & 15)) }
    V_PK_ADD_F32 (w, op, _m) { packed32::<2, L>(w, op, |[a, b, _]| a + b) }
    V_PK_MUL_F32 (w, op, _m) { packed32::<2, L>(w, op, |[a, b, _]| a * b) }
    V_PK_FMA_F32 (w, op, _m) { packed32::<3, L>(w, op, |[a, b, c]| a.mul_add(b, c)) }
    V_PK_MOV_B32 (w, op, _m) {
        // The low result reads the first source, the high one the second, each the word that its op_sel names.
        let low = row(w, op.src[0], u16::from(op.src[0].mods & mods::HIGH != 0));
        let high = row(w, op.src[1], u16::from(op.src[1].mods & mods::HIGH != 0));
        store(w, op.dst.index, &low);
        store(w, op.dst.index + 1, &high);
        Flow::Next
    }
    V_FMA_MIX_F32 (w, op, _m) { fma_mix::<F32, L>(w, op, |value| value) }
    V_FMA_MIXLO_F16 (w, op, _m) { fma_mix::<F16, L>(w, op, |value| value) }
    V_FMA_MIXHI_F16 (w, op, _m) {
        let mode = w.mode;
        let clamps = op.flags & flags::CLAMP != 0;
        let old = w.v[op.dst.index as usize];
        let (a, b, c) = (mixed(w, op.src[0]), mixed(w, op.src[1]), mixed(w, op.src[2]));
        let mut merged = Row::ZERO;
        each_lane::<L>(|i| {
            let value = f32::from_bits(a[i]).mul_add(f32::from_bits(b[i]), f32::from_bits(c[i]));
            let mut half = u32::from(float::f32_to_f16(value));
            if clamps {
                half = F16::finish((half, 0), flags::CLAMP, mode).0;
            }
            merged[i] = half << 16 | old[i] & 0xffff;
        });
        store(w, op.dst.index, &merged);
        Flow::Next
    }
    V_CVT_F32_FP8 (w, op, m) { from_fp8(w, op, false, m.arch.generation() >= 12) }
    V_CVT_F32_BF8 (w, op, m) { from_fp8(w, op, true, m.arch.generation() >= 12) }
    V_CVT_PK_F32_FP8 (w, op, m) { pair_from_fp8(w, op, false, m.arch.generation() >= 12) }
    V_CVT_PK_F32_BF8 (w, op, m) { pair_from_fp8(w, op, true, m.arch.generation() >= 12) }
    V_CVT_PK_FP8_F32 (w, op, m) { pair_to_fp8(w, op, false, m.arch.generation() >= 12) }
    V_CVT_PK_BF8_F32 (w, op, m) { pair_to_fp8(w, op, true, m.arch.generation() >= 12) }
    V_DOT4_I32_I8 | V_DOT4C_I32_I8 (w, op, _m) { dot::<8, L>(w, op, [true, true]) }
    V_DOT4_U32_U8 (w, op, _m) { dot::<8, L>(w, op, [false, false]) }
    V_DOT4_I32_IU8 (w, op, _m) {
        let signed = [op.src[0].mods & mods::NEG != 0, op.src[1].mods & mods::NEG != 0];
        dot::<8, L>(w, op, signed)
    }
    V_DOT8_I32_I4 | V_DOT8C_I32_I4 (w, op, _m) { dot::<4, L>(w, op, [true, true]) }
    V_DOT8_U32_U4 (w, op, _m) { dot::<4, L>(w, op, [false, false]) }
    V_DOT8_I32_IU4 (w, op, _m) {
        let signed = [op.src[0].mods & mods::NEG != 0, op.src[1].mods & mods::NEG != 0];
        dot::<4, L>(w, op, signed)
    }
    V_DOT2_I32_I16 | V_DOT2C_I32_I16 (w, op, _m) { dot::<16, L>(w, op, [true, true]) }
    V_DOT2_U32_U16 (w, op, _m) { dot::<16, L>(w, op, [false, false]) }
    V_DOT2_F32_F16 | V_DOT2ACC_F32_F16 (w, op, _m) { dot2(w, op, f16_to_f32) }
    V_DOT2_F32_BF16 (w, op, _m) { dot2(w, op, bf16_to_f32) }
    V_DOT2_BF16_BF16 (w, op, _m) { dot2_half::<U16, L>(w, op, bf16_to_f32, f32_to_bf16) }
    V_DOT2_F16_F16 (w, op, _m) { dot2_half::<F16, L>(w, op, f16_to_f32, |value| value) }
}
