//! Fields to [`Inst`]: each field of a row's layout goes where the decoded form has its place for it.

use crate::inst::{Arg, Ctrl, Dpp, Encoding, Graphics, Inst, Op, Operand, Sel, Ty, Unused};
use crate::tables::{flags, layouts, Field, Group, How, Implied, Name};
use crate::target::Arch;

/// A row that the bits agree with.
pub(super) struct Place<'a> {
    pub arch: Arch,
    pub wave_size: usize,
    pub bytes: &'a [u8],
    pub bits: u128,
    pub group: &'static Group,
    pub mnemonic: &'static str,
    pub op: u16,
}

/// Reads one instruction.
pub(super) struct Reader<'a> {
    pub place: &'a Place<'a>,
    /// Bytes read so far.
    pub size: usize,
    /// The literal, once it was met.
    pub literal: Option<u32>,
    /// The constant that lies within the instruction.
    pub constant: Option<u32>,
    inst: Inst,
    dpp: Controls,
}

/// The parts of a DPP control word.
#[derive(Default)]
struct Controls {
    ctrl: u32,
    row_mask: u8,
    bank_mask: u8,
    bound_ctrl: bool,
    fi: bool,
    lanes: Option<u32>,
}

/// The instruction, or `None` where an operand's code names nothing.
pub(super) fn read(place: &Place<'_>) -> Option<Inst> {
    let group = place.group;
    let layout = group.layout();
    let mut inst = empty(place, *Op::ALL.get(usize::from(place.op))?);
    if let Some(second) = place.mnemonic.split(' ').nth(1) {
        let (_, op) = layouts::DUAL.iter().find(|(name, _)| *name == second)?;
        let mut half = empty(place, *Op::ALL.get(usize::from(*op))?);
        half.mnemonic = second;
        inst.second = Some(Box::new(half));
    }
    let constant = layout.fields().find(|field| field.kind().how == How::Literal).map(|field| field.value(place.bits));
    let size = usize::from(group.size);
    let mut reader = Reader { place, size, literal: None, constant, inst, dpp: Controls::default() };
    for field in layout.fields() {
        reader.field(field)?;
    }
    reader.implied();
    reader.finish()
}

/// An instruction without operands.
fn empty(place: &Place<'_>, op: Op) -> Inst {
    let group = place.group;
    let has = |flag| group.has(flag);
    Inst {
        op,
        encoding: group.encoding,
        size: group.size,
        mnemonic: place.mnemonic,
        group,
        dst: Arg::default(),
        sdst: Arg::default(),
        src: [Arg::default(); 4],
        imm: 0,
        clamp: false,
        omod: 0,
        sdwa: has(flags::SDWA),
        unused: Unused::Pad,
        dpp: None,
        offset: 0,
        offset1: 0,
        cache: u8::from(has(flags::RETURNS) && group.encoding != Encoding::Ds),
        returns: has(flags::RETURNS),
        gds: has(flags::GDS),
        idxen: has(flags::IDXEN),
        offen: has(flags::OFFEN),
        tfe: has(flags::TFE),
        lds: has(flags::LDS),
        format: 0,
        cbsz: 0,
        abid: 0,
        blgp: 0,
        byte_sel: 0,
        index_key: 0,
        graphics: Graphics::default(),
        second: None,
    }
}

impl Reader<'_> {
    fn field(&mut self, field: &Field) -> Option<()> {
        let kind = field.kind();
        let value = field.value(self.place.bits);
        let low = value as u8;
        let generation = self.place.arch.generation();
        match field.name {
            Name::Src0Modifiers => self.modify(0, value),
            Name::Src1Modifiers => self.modify(1, value),
            Name::Src2Modifiers => self.modify(2, value),
            Name::Src0Sel => self.inst.src[0].sel = sel(value)?,
            Name::Src1Sel => self.inst.src[1].sel = sel(value)?,
            Name::DstSel => self.inst.dst.sel = sel(value)?,
            Name::DstUnused => {
                // The fourth code is reserved.
                self.inst.unused = [Unused::Pad, Unused::Sext, Unused::Preserve, Unused::Pad][value as usize & 3];
            }
            Name::Clamp => self.inst.clamp = value != 0,
            Name::Omod => self.inst.omod = low,
            Name::Simm16 => self.inst.imm = i32::from(value as u16 as i16),
            Name::Offset if kind.how == How::SmemOffset => {
                self.inst.offset = signed(value, if generation == 12 { 24 } else { 21 });
            }
            Name::Offset => self.inst.offset = self.offset(value),
            Name::Offset0 => self.inst.offset = value as i32,
            Name::Offset1 => self.inst.offset1 = low,
            Name::Cpol => self.inst.cache |= low,
            // CDNA has no global data share; the bit means nothing there.
            Name::Gds => self.inst.gds = value != 0 && !self.place.arch.is_cdna(),
            Name::Format => self.inst.format = low,
            Name::DppCtrl => self.dpp.ctrl = value,
            Name::RowMask => self.dpp.row_mask = low,
            Name::BankMask => self.dpp.bank_mask = low,
            Name::BoundCtrl => self.dpp.bound_ctrl = value != 0,
            Name::Fi if kind.how == How::Dpp8Fi => match value {
                233 => {}
                234 => self.dpp.fi = true,
                _ => return None,
            },
            Name::Fi => self.dpp.fi = value != 0,
            Name::Dpp8 => self.dpp.lanes = Some(value),
            Name::Cbsz => self.inst.cbsz = low,
            Name::Abid => self.inst.abid = low,
            Name::Blgp => self.inst.blgp = low,
            Name::ByteSel => self.inst.byte_sel = low,
            Name::IndexKey8bit | Name::IndexKey16bit => self.inst.index_key = low,
            Name::Attr => self.inst.graphics.attr = low,
            Name::Attrchan => self.inst.graphics.attrchan = low,
            Name::High => self.inst.graphics.high = value != 0,
            Name::Waitexp => self.inst.graphics.waitexp = low,
            Name::Waitvdst => self.inst.graphics.waitvdst = low,
            Name::Waitvsrc => self.inst.graphics.waitvsrc = low,
            Name::Tgt => self.inst.graphics.tgt = low,
            Name::En => self.inst.graphics.en = low,
            Name::Compr => self.inst.graphics.compr = value != 0,
            Name::Vm => self.inst.graphics.vm = value != 0,
            name => {
                let code = if kind.how == How::AvLdSt { self.with_acc(name, value) } else { value };
                let read = self.operand(kind, code)?;
                let slot = slot(&mut self.inst, name)?;
                // Modifiers come before the source they belong to.
                *slot = Arg {
                    neg: slot.neg,
                    abs: slot.abs,
                    neg_hi: slot.neg_hi,
                    op_sel: slot.op_sel | read.op_sel,
                    op_sel_hi: slot.op_sel_hi,
                    sext: slot.sext,
                    ..read
                };
            }
        }
        Some(())
    }

    /// Data registers of one memory instruction are all VGPRs or all AGPRs; one of them has the bit.
    fn with_acc(&self, name: Name, code: u32) -> u32 {
        let is_acc = |arg: &Arg| matches!(arg.operand, Operand::Agpr(_));
        let first = match name {
            Name::Src1 => &self.inst.dst,
            Name::Src2 => &self.inst.src[1],
            _ => return code,
        };
        code | u32::from(is_acc(first)) << 9
    }

    /// The number of VOPD's first destination.
    pub(super) fn first_dst(&self) -> u32 {
        match self.inst.dst.operand {
            Operand::Vgpr(number) => u32::from(number),
            _ => 0,
        }
    }

    /// The four bits of a source's modifiers mean what the instruction makes of them, which its text tells.
    fn modify(&mut self, number: usize, bits: u32) {
        let text = self.place.group.layout().text;
        let printed = |prefix: &str| {
            let mut rest = text;
            while let Some(at) = rest.find(prefix) {
                rest = &rest[at + prefix.len()..];
                if rest.starts_with((b'0' + number as u8) as char) {
                    return true;
                }
            }
            false
        };
        let bit = |number: u32| bits >> number & 1 != 0;
        let is_pair = self.place.group.has(flags::VOP3P);
        let floats = printed("$fp");
        let source = &mut self.inst.src[number];
        if printed("$int") {
            source.sext = bit(0);
        } else {
            source.neg = bit(0);
        }
        if floats {
            source.abs = bit(1);
            source.neg_hi = is_pair && bit(1);
        } else {
            source.neg_hi = bit(1);
        }
        source.op_sel = bit(2);
        if is_pair || !self.place.group.has(flags::OPSEL) {
            source.op_sel_hi = bit(3);
        } else if number == 0 {
            self.inst.dst.op_sel = bit(3);
        }
    }

    /// Offsets are signed on gfx12 and, before, for global and scratch memory.
    fn offset(&self, value: u32) -> i32 {
        use Encoding::{Flat, Global, Mtbuf, Mubuf, Scratch};
        let generation = self.place.arch.generation();
        match self.place.group.encoding {
            Flat | Global | Scratch | Mubuf | Mtbuf if generation == 12 => signed(value, 24),
            Global | Scratch => signed(value, if generation == 10 { 12 } else { 13 }),
            _ => value as i32,
        }
    }

    /// Operands that no field holds.
    fn implied(&mut self) {
        let dwords = if self.place.wave_size == 64 { 2 } else { 1 };
        for hint in self.place.group.layout().implied {
            let (name, arg) = match *hint {
                Implied::Vcc(name) => (name, Arg::new(Operand::VccLo, Ty::B32, dwords)),
                Implied::Exec(name) => (name, Arg::new(Operand::ExecLo, Ty::B32, dwords)),
                Implied::Tied(name, source, ty) => {
                    let Some(source) = slot(&mut self.inst, source).map(|source| *source) else { continue };
                    (name, Arg { operand: source.operand, dwords: source.dwords, ty, ..Arg::default() })
                }
            };
            if let Some(slot) = slot(&mut self.inst, name) {
                let (neg, abs, neg_hi) = (slot.neg, slot.abs, slot.neg_hi);
                let (op_sel, op_sel_hi) = (slot.op_sel, slot.op_sel_hi);
                *slot = Arg { neg, abs, neg_hi, op_sel, op_sel_hi, ..arg };
            }
        }
    }

    fn finish(mut self) -> Option<Inst> {
        let group = self.place.group;
        if group.has(flags::WMMA) {
            // The tables have another type for the accumulator than its constants are.
            let kind = self.inst.op.name().split('_').nth(2).unwrap_or_default();
            self.inst.src[2].ty = match kind {
                "f32" => Ty::F32,
                "f16" => Ty::F16,
                "bf16" => Ty::Bf16,
                _ => Ty::B32,
            };
        }
        if group.addresses > 0 {
            self.size += usize::from(group.addresses).div_ceil(4) * 4;
            self.place.bytes.get(..self.size)?;
        }
        if group.has(flags::DPP) {
            let controls = &self.dpp;
            self.inst.dpp = Some(match controls.lanes {
                Some(lanes) => {
                    Dpp::Eight { lanes: std::array::from_fn(|lane| (lanes >> (3 * lane) & 7) as u8), fi: controls.fi }
                }
                None => Dpp::Rule {
                    ctrl: ctrl(controls.ctrl, self.place.arch),
                    row_mask: controls.row_mask,
                    bank_mask: controls.bank_mask,
                    bound_ctrl: controls.bound_ctrl,
                    fi: controls.fi,
                },
            });
        }
        self.inst.size = self.size as u8;
        if let Some(second) = &mut self.inst.second {
            second.size = self.size as u8;
        }
        Some(self.inst)
    }
}

/// The operand of that name.
fn slot(inst: &mut Inst, name: Name) -> Option<&mut Arg> {
    Some(match name {
        Name::Dst => &mut inst.dst,
        Name::Sdst => &mut inst.sdst,
        Name::Src0 => &mut inst.src[0],
        Name::Src1 => &mut inst.src[1],
        Name::Src2 => &mut inst.src[2],
        Name::Src3 => &mut inst.src[3],
        Name::DstY => &mut inst.second.as_mut()?.dst,
        Name::Src0Y => &mut inst.second.as_mut()?.src[0],
        Name::Src1Y => &mut inst.second.as_mut()?.src[1],
        Name::Src2Y => &mut inst.second.as_mut()?.src[2],
        _ => return None,
    })
}

fn signed(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)) as i32 >> (32 - bits)
}

fn sel(value: u32) -> Option<Sel> {
    let all = [Sel::Byte0, Sel::Byte1, Sel::Byte2, Sel::Byte3, Sel::Word0, Sel::Word1, Sel::Dword];
    all.get(value as usize).copied()
}

fn ctrl(code: u32, arch: Arch) -> Ctrl {
    let low = (code & 15) as u8;
    let new = !arch.is_cdna();
    match code {
        0x000..=0x0ff => Ctrl::QuadPerm(std::array::from_fn(|lane| (code >> (2 * lane) & 3) as u8)),
        0x101..=0x10f => Ctrl::RowShl(low),
        0x111..=0x11f => Ctrl::RowShr(low),
        0x121..=0x12f => Ctrl::RowRor(low),
        0x130 => Ctrl::WaveShl1,
        0x134 => Ctrl::WaveRol1,
        0x138 => Ctrl::WaveShr1,
        0x13c => Ctrl::WaveRor1,
        0x140 => Ctrl::RowMirror,
        0x141 => Ctrl::RowHalfMirror,
        0x142 => Ctrl::RowBcast15,
        0x143 => Ctrl::RowBcast31,
        0x150..=0x15f if new => Ctrl::RowShare(low),
        0x150..=0x15f => Ctrl::RowNewBcast(low),
        0x160..=0x16f => Ctrl::RowXmask(low),
        _ => Ctrl::Reserved(code as u16),
    }
}
