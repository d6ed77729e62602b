//! Operand codes: what the numbers 0 to 511 in a field of an instruction name.

use super::fields::Reader;
use crate::inst::{Arg, Inline, Operand};
use crate::tables::{How, Kind};

impl Reader<'_> {
    /// The operand of that kind with that code; `None` where the code names nothing.
    pub(super) fn operand(&mut self, kind: &Kind, code: u32) -> Option<Arg> {
        let dwords = kind.dwords;
        let mut arg = Arg::new(Operand::None, kind.ty, dwords);
        arg.operand = match kind.how {
            How::Vgpr => vgpr(code, dwords)?,
            How::VgprLow if code < 128 => vgpr(code, dwords)?,
            How::Agpr => agpr(code, dwords)?,
            How::Sreg | How::Src | How::SrcReg | How::SrcAv => self.source(code, dwords)?,
            How::Deferred if code == LITERAL => Operand::Literal(self.constant?),
            How::Deferred => self.source(code, dwords)?,
            How::SrcA | How::SrcRegA => self.source(code | ACC, dwords)?,
            How::Av | How::AvLdSt => self.source(code | VGPR, dwords)?,
            How::Bool => {
                arg.dwords = self.mask_dwords();
                self.source(code, arg.dwords)?
            }
            How::Sdwa if code & VGPR == 0 => vgpr(code, dwords)?,
            How::Sdwa if code & 255 == LITERAL => return None,
            How::Sdwa => self.source(code & 255, dwords)?,
            How::SdwaDst => {
                arg.dwords = self.mask_dwords();
                if code & 128 == 0 {
                    Operand::VccLo
                } else {
                    self.source(code & 127, arg.dwords)?
                }
            }
            How::OtherDst => vgpr(code | (!self.first_dst() & 1), dwords)?,
            How::Half => {
                (arg.half, arg.op_sel) = (true, code & 128 != 0);
                vgpr(code & 127, dwords)?
            }
            How::SrcHalf if code & VGPR != 0 => {
                (arg.half, arg.op_sel) = (true, code & 128 != 0);
                vgpr(code & 127, dwords)?
            }
            How::SrcHalf => self.source(code & 255, dwords)?,
            How::Literal => {
                if self.literal.is_some_and(|literal| literal != code) {
                    return None;
                }
                self.literal = Some(code);
                Operand::Literal(code)
            }
            How::VgprLow | How::Imm | How::SmemOffset | How::Dpp8Fi => return None,
        };
        // There are no scalar registers of that width: what is left is the first.
        arg.dwords = match arg.operand {
            Operand::Sgpr(_) if arg.dwords == 32 => 1,
            Operand::Ttmp(_) if arg.dwords == 32 || arg.dwords == 3 => 1,
            _ => arg.dwords,
        };
        Some(arg)
    }

    /// The width of a lane mask.
    fn mask_dwords(&self) -> u8 {
        if self.place.wave_size == 64 {
            2
        } else {
            1
        }
    }

    /// A nine-bit source with a tenth bit for AGPRs.
    fn source(&mut self, code: u32, dwords: u8) -> Option<Operand> {
        if code & VGPR != 0 {
            let number = code & 255;
            return if code & ACC != 0 { agpr(number, dwords) } else { vgpr(number, dwords) };
        }
        let dwords = if dwords == 32 { 1 } else { dwords };
        let generation = self.place.arch.generation();
        let code = code & 255;
        let last_sgpr = if generation == 9 { 101 } else { 105 };
        Some(match code {
            _ if code <= last_sgpr => Operand::Sgpr(aligned(code, dwords, 106)?),
            108..=123 if dwords == 3 => Operand::Ttmp((code - 108) as u8),
            108..=123 => Operand::Ttmp(aligned(code - 108, dwords, 16)?),
            128..=192 => Operand::Int((code - 128) as i8),
            193..=208 => Operand::Int((192 - code as i32) as i8),
            240..=248 => Operand::Float(Inline::ALL[code as usize - 240]),
            LITERAL => {
                if self.literal.is_none() {
                    self.literal = Some(super::word(self.place.bytes, self.size)?);
                    self.size += 4;
                }
                Operand::Literal(self.literal?)
            }
            _ => special(code, dwords, generation)?,
        })
    }
}

/// The code of a literal.
const LITERAL: u32 = 255;
/// The bit of a vector register.
const VGPR: u32 = 256;
/// The bit of an accumulation register.
const ACC: u32 = 512;

fn vgpr(number: u32, dwords: u8) -> Option<Operand> {
    fits(number, dwords).map(Operand::Vgpr)
}

fn agpr(number: u32, dwords: u8) -> Option<Operand> {
    fits(number, dwords).map(Operand::Agpr)
}

fn fits(number: u32, dwords: u8) -> Option<u8> {
    (number + u32::from(dwords) <= 256).then_some(number as u8)
}

/// Scalar registers of two dwords start at an even number, wider ones at a multiple of four: lower bits are ignored.
fn aligned(number: u32, dwords: u8, count: u32) -> Option<u8> {
    let mask = match dwords {
        0 | 1 => 0,
        2 => 1,
        _ => 3,
    };
    let number = number & !mask;
    (number + u32::from(dwords) <= count).then_some(number as u8)
}

fn special(code: u32, dwords: u8, generation: u32) -> Option<Operand> {
    let newer = generation >= 11;
    let wide = dwords >= 2;
    Some(match code {
        102 => Operand::FlatScratchLo,
        103 if !wide => Operand::FlatScratchHi,
        104 => Operand::XnackMaskLo,
        105 if !wide => Operand::XnackMaskHi,
        106 => Operand::VccLo,
        107 if !wide => Operand::VccHi,
        124 if newer => Operand::Null,
        125 if !newer => Operand::Null,
        124 | 125 if !wide => Operand::M0,
        126 => Operand::ExecLo,
        127 if !wide => Operand::ExecHi,
        235 => Operand::SharedBase,
        236 => Operand::SharedLimit,
        237 => Operand::PrivateBase,
        238 => Operand::PrivateLimit,
        239 => Operand::PopsExitingWaveId,
        251 => Operand::Vccz,
        252 => Operand::Execz,
        253 => Operand::Scc,
        254 if !wide => Operand::LdsDirect,
        _ => return None,
    })
}
