//! Operands of a decoded instruction: what they name, how wide they are, how their constants are widened, their modifiers.

/// What an operand names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Operand {
    /// There is none.
    #[default]
    None,
    /// Scalar register, the first of `dwords`.
    Sgpr(u8),
    /// Trap temporary; on gfx12 some hold the block's ids.
    Ttmp(u8),
    /// Vector register, the first of `dwords`.
    Vgpr(u8),
    /// Accumulation register (gfx90a, gfx942), the first of `dwords`.
    Agpr(u8),
    /// VCC's low word, or with two dwords all of it.
    VccLo,
    /// VCC's high word.
    VccHi,
    /// EXEC's low word, or with two dwords all of it.
    ExecLo,
    /// EXEC's high word.
    ExecHi,
    /// M0.
    M0,
    /// Reads 0, swallows writes.
    Null,
    /// FLAT_SCRATCH (gfx9), its low word or all of it.
    FlatScratchLo,
    /// FLAT_SCRATCH's high word.
    FlatScratchHi,
    /// XNACK_MASK (gfx9), its low word or all of it.
    XnackMaskLo,
    /// XNACK_MASK's high word.
    XnackMaskHi,
    /// An inline integer, -16 to 64.
    Int(i8),
    /// An inline float.
    Float(Inline),
    /// A 32-bit literal that follows the instruction (or is part of it: `v_fmaak`).
    Literal(u32),
    /// Base of the LDS aperture: its high word, or with two dwords 0 and the high word.
    SharedBase,
    /// Limit of the LDS aperture.
    SharedLimit,
    /// Base of the scratch aperture.
    PrivateBase,
    /// Limit of the scratch aperture.
    PrivateLimit,
    /// Of graphics.
    PopsExitingWaveId,
    /// 1 where VCC is 0.
    Vccz,
    /// 1 where EXEC is 0.
    Execz,
    /// The scalar condition code.
    Scc,
    /// A dword of LDS at M0, the same for all lanes (gfx9, gfx10).
    LdsDirect,
}

/// The inline floats, in the order of their codes from 240 on.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inline {
    Half,
    MinusHalf,
    One,
    MinusOne,
    Two,
    MinusTwo,
    Four,
    MinusFour,
    /// 1 / (2 pi).
    InvTwoPi,
}

impl Inline {
    /// All of them; the index is the code less 240.
    pub const ALL: [Self; 9] = [
        Self::Half,
        Self::MinusHalf,
        Self::One,
        Self::MinusOne,
        Self::Two,
        Self::MinusTwo,
        Self::Four,
        Self::MinusFour,
        Self::InvTwoPi,
    ];

    /// The bits as an f16.
    pub fn f16(self) -> u16 {
        [0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118][self as usize]
    }

    /// The bits as a bf16.
    pub fn bf16(self) -> u16 {
        [0x3f00, 0xbf00, 0x3f80, 0xbf80, 0x4000, 0xc000, 0x4080, 0xc080, 0x3e22][self as usize]
    }

    /// The bits as an f32.
    pub fn f32(self) -> u32 {
        [
            0x3f00_0000,
            0xbf00_0000,
            0x3f80_0000,
            0xbf80_0000,
            0x4000_0000,
            0xc000_0000,
            0x4080_0000,
            0xc080_0000,
            0x3e22_f983,
        ][self as usize]
    }

    /// The bits as an f64.
    pub fn f64(self) -> u64 {
        [
            0x3fe0_0000_0000_0000,
            0xbfe0_0000_0000_0000,
            0x3ff0_0000_0000_0000,
            0xbff0_0000_0000_0000,
            0x4000_0000_0000_0000,
            0xc000_0000_0000_0000,
            0x4010_0000_0000_0000,
            0xc010_0000_0000_0000,
            0x3fc4_5f30_6dc9_c882,
        ][self as usize]
    }
}

/// The type of an operand, as far as constants need it: how a code or a literal becomes bits.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Ty {
    /// 32 bits, an integer or plain bits.
    #[default]
    B32,
    F32,
    B16,
    F16,
    Bf16,
    B64,
    F64,
    /// Two 16-bit integers in a dword.
    V2B16,
    V2F16,
    V2Bf16,
    /// Two dwords, the packed operations of gfx90a and gfx942.
    V2B32,
    V2F32,
}

/// Which part of a dword SDWA reads or writes.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Sel {
    Byte0,
    Byte1,
    Byte2,
    Byte3,
    Word0,
    Word1,
    #[default]
    Dword,
}

/// What SDWA does with the bits of the destination that `Sel` leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Unused {
    /// They become 0.
    #[default]
    Pad,
    /// They become the sign.
    Sext,
    /// They stay.
    Preserve,
}

/// An operand with its width and its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Arg {
    /// What it names.
    pub operand: Operand,
    /// How constants are widened.
    pub ty: Ty,
    /// Width in dwords; 16-bit operands have 1, what is not there has 0.
    pub dwords: u8,
    /// Negated (packed: the low half).
    pub neg: bool,
    /// Without its sign.
    pub abs: bool,
    /// Packed: the high half negated. `v_fma_mix`: without its sign (there `abs` is set as well).
    pub neg_hi: bool,
    /// VOP3: the high half is meant. Packed: the low result reads the high half.
    pub op_sel: bool,
    /// Packed: the high result reads the high half. `v_fma_mix`: the source is an f16.
    pub op_sel_hi: bool,
    /// SDWA: the part that is meant.
    pub sel: Sel,
    /// SDWA: sign-extended.
    pub sext: bool,
    /// Half a VGPR (gfx11, gfx12): `op_sel` says which, whatever the encoding.
    pub half: bool,
}

impl Arg {
    /// An operand without modifiers.
    pub fn new(operand: Operand, ty: Ty, dwords: u8) -> Self {
        Self { operand, ty, dwords, ..Self::default() }
    }

    /// There is such an operand.
    pub fn is_some(&self) -> bool {
        self.operand != Operand::None
    }

    /// The bits of a constant or a literal as this operand sees them, before modifiers; `None` for a register. 16-bit
    /// operands have theirs in the low half; packed ones as the hardware delivers them: an inline float is in the low half
    /// only, an inline integer is sign-extended to 32 bits. Of two dwords, the low one is the low half of the result.
    pub fn constant(&self) -> Option<u64> {
        Some(match (self.operand, self.ty) {
            (Operand::Int(value), Ty::B64 | Ty::F64) => i64::from(value) as u64,
            (Operand::Int(value), Ty::B16 | Ty::F16 | Ty::Bf16) => u64::from(i16::from(value) as u16),
            (Operand::Int(value), _) => u64::from(i32::from(value) as u32),
            (Operand::Float(value), Ty::B64 | Ty::F64) => value.f64(),
            (Operand::Float(value), Ty::F16 | Ty::B16 | Ty::V2F16) => u64::from(value.f16()),
            (Operand::Float(value), Ty::Bf16 | Ty::V2Bf16) => u64::from(value.bf16()),
            (Operand::Float(value), _) => u64::from(value.f32()),
            (Operand::Literal(value), Ty::F64) => u64::from(value) << 32,
            (Operand::Literal(value), Ty::B16 | Ty::F16 | Ty::Bf16) => u64::from(value & 0xffff),
            (Operand::Literal(value), _) => u64::from(value),
            _ => return None,
        })
    }
}
