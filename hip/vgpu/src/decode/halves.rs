//! Halves of registers on RDNA 3 and 4. There, a sixteen-bit operand names one half of a vector register: in VOP1, VOP2 and VOPC by bit 7 of
//! its number, in VOP3 by op_sel. LLVM up to 19 knows this of a few instructions only. It takes the others for no instruction, or
//! prints them without the half, and `decode` does as LLVM does. ROCm's compilers from 6.4 on, and clang from 20 on, use all of them: whatever runs code
//! asks here.

use super::{decode, word};
use crate::inst::{Arg, Encoding, Inst, Operand, Ty, Unknown};
use crate::target::Arch;

/// The upper seven bits of `v_fmamk_f16`.
const FMAMK_F16: u64 = 55;

/// Where a number of a vector register lies in VOP1, VOP2 and VOPC, and what it is the number of.
#[derive(Clone, Copy)]
struct Field {
    /// The bit that means the upper half, of the instruction's first eight bytes.
    bit: u32,
    which: Which,
}

#[derive(Clone, Copy, PartialEq)]
enum Which {
    Dst,
    Src(usize),
}

/// The instruction at the start of `bytes`, with every half that it names in `op_sel`.
pub(crate) fn decode_halves(arch: Arch, wave_size: usize, bytes: &[u8]) -> Result<Inst, Unknown> {
    let plain = decode(arch, wave_size, bytes);
    if arch.generation() < 11 {
        return plain;
    }
    let first = word(bytes, 0).unwrap_or(0);
    if first >> 31 == 0 {
        return short(arch, wave_size, bytes, plain);
    }
    let mut inst = plain?;
    // VOP3; the form with a second result has its register where op_sel would be.
    if inst.encoding == Encoding::Vop3 && first >> 26 == 0b110101 && inst.sdst.operand == Operand::None {
        for (n, source) in inst.src.iter_mut().take(3).enumerate() {
            source.op_sel |= is_half(source) && first >> (11 + n) & 1 != 0;
        }
        inst.dst.op_sel |= writes_half(&inst) && first >> 14 & 1 != 0;
        tie(&mut inst);
    }
    Ok(inst)
}

/// VOP1, VOP2 and VOPC.
fn short(arch: Arch, wave_size: usize, bytes: &[u8], plain: Result<Inst, Unknown>) -> Result<Inst, Unknown> {
    let bits = u64::from(word(bytes, 0).unwrap_or(0)) | u64::from(word(bytes, 4).unwrap_or(0)) << 32;
    let source = (bits & 511) as u32;
    // DPP has the register of the first source in the second word.
    let first = match source {
        233 | 234 | 250 => Some(39),
        256.. => Some(7),
        _ => None,
    };
    let (is_vop1, is_vopc) = (bits >> 25 & 127 == 0x3f, bits >> 25 & 127 == 0x3e);
    // v_fmamk has its constant between its registers.
    let second = if bits >> 25 & 127 == FMAMK_F16 { 2 } else { 1 };
    let fields = [
        first.map(|bit| Field { bit, which: Which::Src(0) }),
        (!is_vop1).then_some(Field { bit: 16, which: Which::Src(second) }),
        (!is_vopc).then_some(Field { bit: 24, which: Which::Dst }),
    ];
    let fields: Vec<Field> = fields.into_iter().flatten().filter(|field| bits >> field.bit & 1 != 0).collect();
    if fields.is_empty() {
        return plain;
    }
    // What it would be with all registers below 128 tells which of them are halves.
    let with = |bits: u64| {
        let mut changed = bytes.to_vec();
        for (byte, new) in changed.iter_mut().zip(bits.to_le_bytes()) {
            *byte = new;
        }
        decode(arch, wave_size, &changed)
    };
    let Ok(low) = with(fields.iter().fold(bits, |bits, field| bits & !(1 << field.bit))) else { return plain };
    let halves: Vec<Field> = fields
        .into_iter()
        .filter(|field| match field.which {
            Which::Dst => writes_half(&low) && !low.dst.half,
            Which::Src(n) => reads_half(&low, n) && !low.src[n].half,
        })
        .collect();
    if halves.is_empty() {
        return plain;
    }
    let Ok(mut inst) = with(halves.iter().fold(bits, |bits, field| bits & !(1 << field.bit))) else { return plain };
    for field in halves {
        match field.which {
            Which::Dst => inst.dst.op_sel = true,
            Which::Src(n) => inst.src[n].op_sel = true,
        }
    }
    tie(&mut inst);
    Ok(inst)
}

/// An operand of sixteen bits.
fn is_half(arg: &Arg) -> bool {
    arg.is_some() && matches!(arg.ty, Ty::B16 | Ty::F16 | Ty::Bf16)
}

/// Whether a source of VOP1, VOP2 or VOPC has sixteen bits. The tables do not say so of each: the last type in the name is that of the
/// sources.
fn reads_half(inst: &Inst, n: usize) -> bool {
    is_half(&inst.src[n]) || inst.src[n].is_some() && types(inst).next_back().is_some_and(|part| part.ends_with("16"))
}

/// Whether the result has sixteen bits: the first type in the name is that of the result.
fn writes_half(inst: &Inst) -> bool {
    let is_mask = inst.op.name().starts_with("v_cmp");
    inst.dst.is_some() && !is_mask && types(inst).next().is_some_and(|part| part.ends_with("16"))
}

/// The types in an instruction's name; none where they are those of pairs.
fn types(inst: &Inst) -> impl DoubleEndedIterator<Item = &'static str> {
    const TYPES: [&str; 13] =
        ["b16", "i16", "u16", "f16", "bf16", "b32", "i32", "u32", "f32", "b64", "i64", "u64", "f64"];
    let name = inst.op.name();
    let pairs = name.contains("_pk_") || name.starts_with("v_dot") || name.starts_with("v_sad_");
    name.split('_').filter(move |part| !pairs && TYPES.contains(part))
}

/// What is added to is the result's own half.
fn tie(inst: &mut Inst) {
    let is_added_to = inst.op.name().starts_with("v_fmac_") && inst.src[2].operand == inst.dst.operand;
    if is_added_to {
        inst.src[2].op_sel = inst.dst.op_sel;
    }
}
