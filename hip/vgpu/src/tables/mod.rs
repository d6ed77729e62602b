//! What the targets' instructions look like: opcodes, field positions, operand types, mnemonics. The files beside this one are
//! written by `tools/generate.py`.
//!
//! A [`Group`] is a set of instructions that differ in nothing but their opcode: the same bits are fixed, the same [`Layout`]
//! says where the operands lie, what they are and how they are printed. The text of a layout is printed as it stands, with
//! `$name` replaced by what the disassembler knows under that name.

use crate::inst::{Encoding, Ty};

pub mod gfx1030;
pub mod gfx1100;
pub mod gfx1201;
pub mod gfx90a;
pub mod gfx942;
pub mod layouts;
pub mod op;

/// What is true of all instructions of a group.
pub mod flags {
    /// Sources are pairs.
    pub const PACKED: u32 = 1;
    /// A WMMA operation.
    pub const WMMA: u32 = 1 << 1;
    /// VOP3 with a choice of the destination's half.
    pub const OPSEL: u32 = 1 << 2;
    /// An atomic.
    pub const ATOMIC: u32 = 1 << 3;
    /// An atomic that returns the old value.
    pub const RETURNS: u32 = 1 << 4;
    /// Writes memory.
    pub const STORE: u32 = 1 << 5;
    /// SDWA form.
    pub const SDWA: u32 = 1 << 6;
    /// DPP form.
    pub const DPP: u32 = 1 << 7;
    /// VOP3P modifiers.
    pub const VOP3P: u32 = 1 << 8;
    /// MUBUF: index register.
    pub const IDXEN: u32 = 1 << 9;
    /// MUBUF: offset register.
    pub const OFFEN: u32 = 1 << 10;
    /// A status dword is returned.
    pub const TFE: u32 = 1 << 11;
    /// The data goes to LDS.
    pub const LDS: u32 = 1 << 12;
    /// Always on the global data share.
    pub const GDS: u32 = 1 << 13;
    /// A DPP form with 64-bit operands.
    pub const DPALU: u32 = 1 << 14;
}

/// How the bits of a field become an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A number.
    Imm,
    /// A 32-bit constant within the instruction.
    Literal,
    /// The offset of SMEM, signed.
    SmemOffset,
    /// DPP8's code in place of src0.
    Dpp8Fi,
    /// A VGPR.
    Vgpr,
    /// One of the first 128 VGPRs.
    VgprLow,
    /// An AGPR.
    Agpr,
    /// A scalar register.
    Sreg,
    /// Nine bits: a register of any kind or a constant.
    Src,
    /// As `Src`; the literal is the one within the instruction.
    Deferred,
    /// Nine bits, registers only.
    SrcReg,
    /// Nine bits: an AGPR or a constant.
    SrcA,
    /// Nine bits: an AGPR.
    SrcRegA,
    /// Ten bits: a register, the tenth for AGPRs.
    SrcAv,
    /// Ten bits: a VGPR or, with the tenth, an AGPR.
    Av,
    /// Data of a memory instruction: a VGPR or, with the tenth bit, an AGPR.
    AvLdSt,
    /// A lane mask.
    Bool,
    /// SDWA's source: a VGPR or, with the ninth bit, a scalar.
    Sdwa,
    /// SDWA's destination of a compare.
    SdwaDst,
    /// VOPD's second destination.
    OtherDst,
    /// Half a VGPR.
    Half,
    /// Nine bits: half a VGPR, a scalar or a constant.
    SrcHalf,
}

/// What an operand is.
#[derive(Debug)]
pub struct Kind {
    pub how: How,
    /// Width; 0 for lane masks, whose width is the wave's.
    pub dwords: u8,
    pub ty: Ty,
    /// The register class that the disassembler names when a register does not belong there.
    pub class: &'static str,
}

/// What a field is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names)]
pub enum Name {
    Dst,
    DstY,
    Sdst,
    Src0,
    Src1,
    Src2,
    Src3,
    Src0Y,
    Src1Y,
    Src2Y,
    Src0Modifiers,
    Src1Modifiers,
    Src2Modifiers,
    Src0Sel,
    Src1Sel,
    DstSel,
    DstUnused,
    Clamp,
    Omod,
    Simm16,
    Offset,
    Offset0,
    Offset1,
    Cpol,
    Gds,
    Format,
    DppCtrl,
    RowMask,
    BankMask,
    BoundCtrl,
    Fi,
    Dpp8,
    Cbsz,
    Abid,
    Blgp,
    ByteSel,
    IndexKey8bit,
    IndexKey16bit,
    Attr,
    Attrchan,
    High,
    Waitexp,
    Waitvdst,
    Waitvsrc,
    Tgt,
    En,
    Compr,
    Vm,
}

/// A field: what it is for, the number of its [`Kind`], and where it lies: position, length, and the shift within the value.
#[derive(Debug)]
pub struct Field {
    pub name: Name,
    pub kind: u8,
    pub bits: &'static [(u8, u8, u8)],
}

/// An operand that no field holds.
#[derive(Debug)]
pub enum Implied {
    /// VCC.
    Vcc(Name),
    /// EXEC.
    Exec(Name),
    /// The same register as the second.
    Tied(Name, Name, Ty),
}

/// Operands and text. `fields` are numbers of [`layouts::FIELDS`].
#[derive(Debug)]
pub struct Layout {
    pub text: &'static str,
    pub fields: &'static [u16],
    pub implied: &'static [Implied],
}

/// Instructions that differ in their opcode only.
#[derive(Debug)]
pub struct Group {
    /// Bytes without a literal.
    pub size: u8,
    /// Groups of a smaller number are tried first, among those of one size.
    pub order: u8,
    /// Bit 0: known in wave32, bit 1: known in wave64.
    pub waves: u8,
    /// The bits that are fixed.
    pub mask: u128,
    /// Their value from bit 32 on.
    pub high: u64,
    pub encoding: Encoding,
    pub flags: u32,
    /// Number of the [`Layout`].
    pub layout: u16,
    /// Images: address registers that follow the instruction.
    pub addresses: u8,
    /// Value of the fixed bits of the first word, number of the name, number of the operation.
    pub rows: &'static [(u32, u16, u16)],
}

impl Group {
    pub fn layout(&self) -> &'static Layout {
        &layouts::LAYOUTS[usize::from(self.layout)]
    }

    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

// A group is itself and no other: instructions are compared by where they came from.
impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Group {}

impl std::hash::Hash for Group {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::hash(self, state);
    }
}

impl Layout {
    pub fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().map(|&number| &layouts::FIELDS[usize::from(number)])
    }
}

impl Field {
    pub fn kind(&self) -> &'static Kind {
        &layouts::KINDS[usize::from(self.kind)]
    }

    /// The field's value in an instruction's bits.
    pub fn value(&self, bits: u128) -> u32 {
        self.bits.iter().fold(0, |value, &(position, length, shift)| {
            let part = (bits >> position) & ((1 << length) - 1);
            value | ((part as u32) << shift)
        })
    }
}

const fn kind(how: How, dwords: u8, ty: Ty, class: &'static str) -> Kind {
    Kind { how, dwords, ty, class }
}

const fn field(name: Name, kind: u8, bits: &'static [(u8, u8, u8)]) -> Field {
    Field { name, kind, bits }
}

const fn layout(text: &'static str, fields: &'static [u16], implied: &'static [Implied]) -> Layout {
    Layout { text, fields, implied }
}

#[allow(clippy::too_many_arguments)]
const fn group(
    size: u8,
    order: u8,
    waves: u8,
    mask: u128,
    high: u64,
    encoding: Encoding,
    flags: u32,
    layout: u16,
    addresses: u8,
    rows: &'static [(u32, u16, u16)],
) -> Group {
    Group { size, order, waves, mask, high, encoding, flags, layout, addresses, rows }
}

/// Makes [`op::Op`] of a list of names.
macro_rules! operations {
    ($($op:ident $name:literal)*) => {
        /// An operation, one name over all targets and encodings.
        #[allow(non_camel_case_types, missing_docs, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Op { $($op),* }

        impl Op {
            /// All operations; the index is the number.
            pub const ALL: &'static [Self] = &[$(Self::$op),*];

            const NAMES: &'static [&'static str] = &[$($name),*];

            /// The name as the newest assembler that knows the operation spells it.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }
    };
}
pub(crate) use operations;
