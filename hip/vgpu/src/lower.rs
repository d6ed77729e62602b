//! Lowering: a decoded instruction becomes an operation with a handler and operand slots, or a sentence that says why it cannot.

use crate::descriptor::Descriptor;
use crate::exec::{compare, cross, forms, lanes, lds, matrix, packed, salu, smem, trans, valu, vmem};
use crate::inst::{Arg, Dpp, Encoding, Inst, Op as Name, Operand, Sel, Ty};
use crate::wave::{flags, mods, scalar, Handler, Inner, Kind, Op, Slot, SPARE_ROWS};

/// What lowering needs to know besides the instruction.
pub(crate) struct Facts<'a> {
    pub descriptor: &'a Descriptor,
    pub fast: bool,
}

/// An operation with a handler and nothing else.
pub(crate) fn blank<const L: usize>(run: Handler<L>) -> Op<L> {
    Op { run, inner: None, dst: Slot::default(), sdst: Slot::default(), src: [Slot::default(); 3], imm: 0, flags: 0 }
}

pub(crate) fn is_vector(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::Vop1 | Encoding::Vop2 | Encoding::Vop3 | Encoding::Vopc | Encoding::Vop3p)
}

/// Wraps an operation whose registers are counted from M0.
pub(crate) fn index<const L: usize>(facts: &Facts<'_>, first: Op<L>, inst: &Inst, mode: i32) -> Op<L> {
    let mut op = blank(lanes::pick::<forms::Indexed, L>(facts.fast));
    op.imm = mode;
    op.inner = Some(Box::new(Inner { first, second: None, inst: Box::new(inst.clone()) }));
    op
}

pub(crate) fn is_memory(encoding: Encoding) -> bool {
    matches!(
        encoding,
        Encoding::Smem | Encoding::Flat | Encoding::Global | Encoding::Scratch | Encoding::Mubuf | Encoding::Mtbuf
    )
}

/// An operand as a slot. The error says what is wrong with it.
fn slot(facts: &Facts<'_>, arg: &Arg, is_dst: bool) -> Result<Slot, String> {
    let descriptor = facts.descriptor;
    let mut result = Slot::default();
    let mut set = |kind, index: usize| {
        result.kind = kind;
        result.index = index as u16;
    };
    let dwords = usize::from(arg.dwords.max(1));
    match arg.operand {
        Operand::None => {}
        Operand::Vgpr(n) => {
            let limit = if descriptor.arch.is_cdna() {
                descriptor.accum_offset.min(descriptor.vgprs)
            } else {
                descriptor.vgprs
            };
            if usize::from(n) + dwords > limit {
                return Err(format!(
                    "v{} does not exist: the kernel has {limit} vector registers",
                    usize::from(n) + dwords - 1
                ));
            }
            set(Kind::Row, usize::from(n));
        }
        Operand::Agpr(n) => {
            let row = descriptor.accum_offset + usize::from(n);
            if row + dwords > descriptor.vgprs {
                return Err(format!("a{n} does not exist: the kernel has {} vector registers", descriptor.vgprs));
            }
            set(Kind::Row, row);
        }
        Operand::Sgpr(n) => {
            if usize::from(n) + dwords > usize::from(scalar::VCC) {
                return Err(format!("s{n} does not exist"));
            }
            set(Kind::Scalar, usize::from(n));
        }
        Operand::Ttmp(n) => {
            if usize::from(n) + dwords > 16 {
                return Err(format!("ttmp{n} does not exist"));
            }
            set(Kind::Scalar, usize::from(scalar::TTMP) + usize::from(n));
        }
        Operand::VccLo => set(Kind::Scalar, usize::from(scalar::VCC)),
        Operand::VccHi => set(Kind::Scalar, usize::from(scalar::VCC) + 1),
        Operand::ExecLo => set(Kind::Scalar, usize::from(scalar::EXEC)),
        Operand::ExecHi => set(Kind::Scalar, usize::from(scalar::EXEC) + 1),
        Operand::M0 => set(Kind::Scalar, usize::from(scalar::M0)),
        Operand::Null if is_dst => set(Kind::Scalar, usize::from(scalar::NULL)),
        Operand::Null => set(Kind::Const, 0),
        Operand::FlatScratchLo => set(Kind::Scalar, usize::from(scalar::FLAT_SCRATCH)),
        Operand::FlatScratchHi => set(Kind::Scalar, usize::from(scalar::FLAT_SCRATCH) + 1),
        Operand::XnackMaskLo => set(Kind::Scalar, usize::from(scalar::XNACK_MASK)),
        Operand::XnackMaskHi => set(Kind::Scalar, usize::from(scalar::XNACK_MASK) + 1),
        Operand::Scc => set(Kind::Scc, 0),
        Operand::Vccz => set(Kind::Vccz, 0),
        Operand::Execz => set(Kind::Execz, 0),
        Operand::SharedBase | Operand::PrivateBase => {
            let shared = arg.operand == Operand::SharedBase;
            let aperture =
                if shared { crate::exec::machine::SHARED_APERTURE } else { crate::exec::machine::PRIVATE_APERTURE };
            set(if dwords == 2 { Kind::High } else { Kind::Const }, 0);
            result.value = aperture;
        }
        Operand::SharedLimit | Operand::PrivateLimit | Operand::PopsExitingWaveId | Operand::LdsDirect => {
            return Err(format!("the operand {:?} is not emulated", arg.operand));
        }
        Operand::Int(_) | Operand::Float(_) | Operand::Literal(_) => {
            let Some(bits) = arg.constant() else { return Err("a constant has no value".to_owned()) };
            let (low, high) = (bits as u32, (bits >> 32) as u32);
            let wide = matches!(arg.ty, Ty::B64 | Ty::F64);
            result.value = low;
            result.kind = if !wide || high == 0 {
                Kind::Const
            } else if high == (low as i32 >> 31) as u32 {
                Kind::Signed
            } else if low == 0 {
                result.value = high;
                Kind::High
            } else if bits == 0x3fc4_5f30_6dc9_c882 {
                Kind::InvTwoPi
            } else {
                return Err("a constant of 64 bits cannot be represented".to_owned());
            };
        }
    }
    if result.kind == Kind::Scalar && usize::from(result.index) + dwords > 128 {
        return Err("a scalar operand reaches past the last register".to_owned());
    }
    if !is_dst {
        let mut bit = |on: bool, mask: u8| result.mods |= if on { mask } else { 0 };
        bit(arg.neg, mods::NEG);
        bit(arg.abs, mods::ABS);
        bit(arg.op_sel, mods::HIGH);
        bit(arg.neg_hi, mods::NEG_HI);
        bit(arg.op_sel_hi, mods::HIGH_HI);
    }
    Ok(result)
}

/// An instruction as an operation, or why it cannot be one.
pub(crate) fn lower<const L: usize>(facts: &Facts<'_>, inst: &Inst) -> Result<Op<L>, String> {
    if inst.encoding == Encoding::Vopd || inst.second.is_some() {
        return lower_dual(facts, inst);
    }
    if inst.sdwa || inst.dpp.is_some() {
        return lower_wrapped(facts, inst);
    }
    // `v_movrel` is a move whose source, destination or both are counted from M0.
    let relative = match inst.op {
        Name::V_MOVRELS_B32 => 1,
        Name::V_MOVRELD_B32 => 8,
        Name::V_MOVRELSD_B32 => 9,
        _ => 0,
    };
    if relative != 0 {
        let moved = Inst { op: Name::V_MOV_B32, ..inst.clone() };
        return Ok(index(facts, lower(facts, &moved)?, inst, relative));
    }
    let unknown = || format!("{} is not emulated", inst.op.name());
    let (run, more) = handler::<L>(facts, inst).ok_or_else(unknown)?;
    let mut op = blank(run);
    op.flags = more;
    op.imm = inst.imm;
    op.dst = slot(facts, &inst.dst, true)?;
    op.sdst = slot(facts, &inst.sdst, true)?;
    for n in 0..3 {
        op.src[n] = slot(facts, &inst.src[n], false)?;
        if inst.encoding != Encoding::Vop3p {
            op.src[n].mods &= mods::NEG | mods::ABS | mods::HIGH;
        }
    }
    let mut flag = |on: bool, bit: u32| op.flags |= if on { bit } else { 0 };
    match inst.encoding {
        Encoding::Vop1 | Encoding::Vop2 | Encoding::Vop3 | Encoding::Vop3p | Encoding::Vopc => {
            flag(inst.clamp, flags::CLAMP);
            flag(inst.dst.op_sel, flags::DST_HIGH);
            flag(facts.descriptor.arch.is_cdna() && clears_high(inst.op), flags::CLEAR_HIGH);
            // IEEE mode has no output modifiers; gfx12 does not have that mode.
            if facts.descriptor.mode & 1 << 9 == 0 || facts.descriptor.arch.generation() >= 12 {
                op.flags |= u32::from(inst.omod & 3) << 1;
            }
            let name = inst.op.name();
            if name.starts_with("v_cmpx") && facts.descriptor.arch.is_cdna() {
                op.flags |= flags::ALSO_EXEC;
            }
            if name.starts_with("v_mfma") {
                op.imm = i32::from(inst.cbsz & 7) | i32::from(inst.abid & 31) << 3 | i32::from(inst.blgp & 7) << 8;
                return Ok(op);
            }
            // The accumulating form in VOP2 has no modifiers.
            op.imm = i32::from(inst.op == Name::V_DOT2ACC_F32_F16 && inst.encoding != Encoding::Vop3p);
        }
        Encoding::Sop1 => {
            if matches!(inst.op, Name::S_BARRIER_SIGNAL) {
                op.imm = match op.src[0].kind {
                    Kind::Const => op.src[0].value as i32,
                    _ => return Err("a barrier whose number is in a register is not emulated".to_owned()),
                };
            }
        }
        Encoding::Smem | Encoding::Flat | Encoding::Global | Encoding::Scratch => {
            op.imm = inst.offset;
            flag(inst.returns && inst.dst.is_some(), flags::RETURNS);
        }
        Encoding::Mubuf => {
            op.imm = inst.offset;
            flag(inst.returns && inst.dst.is_some(), flags::RETURNS);
            flag(inst.idxen, flags::IDXEN);
            flag(inst.offen, flags::OFFEN);
            op.sdst = slot(facts, &inst.src[3], false)?;
            if inst.tfe || inst.lds {
                return Err(format!("{} with tfe or lds is not emulated", inst.op.name()));
            }
        }
        Encoding::Ds => lower_ds(facts, inst, &mut op)?,
        _ => {}
    }
    if is_memory(inst.encoding) || inst.encoding == Encoding::Ds {
        for slot in &mut op.src {
            slot.mods = 0;
        }
    }
    check_rows(facts, inst, &op)?;
    Ok(op)
}

/// Handlers index rows by what the operation needs; the decoder's widths say the same, and this makes sure.
fn check_rows<const L: usize>(facts: &Facts<'_>, inst: &Inst, op: &Op<L>) -> Result<(), String> {
    let rows = facts.descriptor.vgprs + SPARE_ROWS;
    let fits =
        |slot: Slot, dwords: u8| slot.kind != Kind::Row || usize::from(slot.index) + usize::from(dwords.max(1)) <= rows;
    let vector = matches!(
        inst.encoding,
        Encoding::Vop1
            | Encoding::Vop2
            | Encoding::Vop3
            | Encoding::Vop3p
            | Encoding::Ds
            | Encoding::Flat
            | Encoding::Global
    );
    if vector && op.dst.kind == Kind::None && needs_destination(inst) {
        return Err(format!("{} has no destination", inst.op.name()));
    }
    let all = fits(op.dst, inst.dst.dwords) && (0..3).all(|n| fits(op.src[n], inst.src[n].dwords));
    if all {
        Ok(())
    } else {
        Err("an operand reaches past the last vector register".to_owned())
    }
}

fn needs_destination(inst: &Inst) -> bool {
    let name = inst.op.name();
    name.starts_with("v_") && !matches!(inst.op, Name::V_NOP | Name::V_PIPEFLUSH | Name::V_CLREXCP)
        || name.contains("_load_") && !inst.lds && !name.contains("_lds_")
}

/// gfx9: most sixteen-bit operations clear the upper half of the register, some do not.
fn clears_high(op: Name) -> bool {
    !matches!(
        op,
        Name::V_FMA_MIXLO_F16
            | Name::V_FMA_MIXHI_F16
            | Name::V_MAC_F16
            | Name::V_MADAK_F16
            | Name::V_MADMK_F16
            | Name::V_FMAC_F16
            | Name::V_FMAAK_F16
            | Name::V_FMAMK_F16
    )
}

fn lower_ds<const L: usize>(facts: &Facts<'_>, inst: &Inst, op: &mut Op<L>) -> Result<(), String> {
    if inst.gds {
        return Err("the global data share is not emulated".to_owned());
    }
    let name = inst.op.name();
    op.imm = inst.offset;
    if name.contains("2addr") {
        let element = if name.ends_with("64") { 8 } else { 4 } * if name.contains("stride64") { 64 } else { 1 };
        op.imm = (inst.offset & 0xff) * element;
        op.sdst = Slot { value: u32::from(inst.offset1) * element as u32, ..Slot::default() };
    }
    if inst.dst.is_some() {
        op.flags |= flags::RETURNS;
    }
    // Up to gfx10 the first operand is what is compared with.
    if name.starts_with("ds_cmpst_") {
        op.src.swap(1, 2);
    }
    let _ = facts;
    Ok(())
}

/// The handler for an instruction, and flags that go with it.
fn handler<const L: usize>(facts: &Facts<'_>, inst: &Inst) -> Option<(Handler<L>, u32)> {
    let (op, fast, name) = (inst.op, facts.fast, inst.op.name());
    let plain = |found: Option<Handler<L>>| found.map(|handler| (handler, 0));
    match inst.encoding {
        Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopk | Encoding::Sopc | Encoding::Sopp => plain(
            salu::lookup::<L>(op, fast)
                .or_else(|| salu::compare::<L>(op, fast))
                .or_else(|| salu::special::<L>(op, fast))
                .or_else(|| smem::clocks::<L>(op, fast)),
        ),
        Encoding::Smem => smem::lookup::<L>(name, fast)
            .or_else(|| plain(smem::clocks::<L>(op, fast)))
            .or_else(|| plain(salu::special::<L>(op, fast))),
        Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc | Encoding::Vop3 | Encoding::Vop3p => {
            if inst.clamp && !name.starts_with("v_cmp") {
                if let Some(handler) = valu::saturating::<L>(op, fast) {
                    return Some((handler, 0));
                }
                // An integer result that would have to saturate, and no line that says how.
                if valu::integers::<L>(op, fast).is_some() || matches!(op, Name::V_MAD_CO_U64_U32 | Name::V_PERM_B32) {
                    return None;
                }
            }
            plain(
                valu::floats::<L>(op, fast)
                    .or_else(|| valu::integers::<L>(op, fast))
                    .or_else(|| valu::moves::<L>(op, fast))
                    .or_else(|| cross::lookup::<L>(op, fast))
                    .or_else(|| trans::lookup::<L>(op, fast))
                    .or_else(|| packed::lookup::<L>(op, fast))
                    .or_else(|| compare::lookup::<L>(name, fast))
                    .or_else(|| matrix::lookup::<L>(op, fast)),
            )
        }
        Encoding::Ds => plain(lds::shuffles::<L>(op, fast))
            .or_else(|| lds::lookup::<L>(name.strip_prefix("ds_")?, fast))
            .or_else(|| plain(salu::special::<L>(op, fast))),
        Encoding::Global => vmem::lookup::<{ vmem::GLOBAL }, L>(name.strip_prefix("global_")?, fast)
            .or_else(|| plain(salu::special::<L>(op, fast))),
        Encoding::Flat => vmem::lookup::<{ vmem::FLAT }, L>(name.strip_prefix("flat_")?, fast),
        Encoding::Scratch => vmem::lookup::<{ vmem::SCRATCH }, L>(name.strip_prefix("scratch_")?, fast),
        Encoding::Mubuf => vmem::lookup::<{ vmem::BUFFER }, L>(name.strip_prefix("buffer_")?, fast)
            .or_else(|| plain(salu::special::<L>(op, fast))),
        _ => None,
    }
}

/// SDWA and DPP: the plain instruction inside, on spare rows where operands are not what they are in the registers.
fn lower_wrapped<const L: usize>(facts: &Facts<'_>, inst: &Inst) -> Result<Op<L>, String> {
    let mut bare = inst.clone();
    bare.sdwa = false;
    bare.dpp = None;
    let mut first: Op<L> = lower(facts, &bare)?;
    let rows = facts.descriptor.vgprs as u16;
    let run = if inst.sdwa {
        lanes::pick::<forms::Sdwa, L>(facts.fast)
    } else {
        lanes::pick::<forms::DppForm, L>(facts.fast)
    };
    let mut op = blank(run);
    op.dst = first.dst;
    op.src = first.src;
    let spare = |slot: Slot, n: u16| Slot { kind: Kind::Row, index: rows + n, ..slot };
    if inst.sdwa {
        for n in 0..2 {
            if inst.src[n].sel != Sel::Dword {
                first.src[n] = spare(first.src[n], n as u16);
            }
        }
        first.flags |= flags::CLEAR_HIGH;
        if first.dst.kind == Kind::Row && inst.dst.sel != Sel::Dword {
            first.dst = spare(first.dst, 2);
        }
    } else {
        if inst.src[0].dwords > 2 {
            return Err(format!("{} with DPP is not emulated", inst.op.name()));
        }
        match inst.dpp {
            Some(Dpp::Rule { ctrl, .. }) if !ctrl.exists(facts.descriptor.arch) => {
                return Err(format!("{} has no such DPP control: {ctrl:?}", facts.descriptor.arch));
            }
            _ => {}
        }
        first.src[0] = spare(first.src[0], 0);
    }
    op.inner = Some(Box::new(Inner { first, second: None, inst: Box::new(inst.clone()) }));
    Ok(op)
}

fn lower_dual<const L: usize>(facts: &Facts<'_>, inst: &Inst) -> Result<Op<L>, String> {
    let Some(other) = &inst.second else { return Err("a dual instruction has one half only".to_owned()) };
    let half = |inst: &Inst| {
        let mut bare = inst.clone();
        bare.second = None;
        bare.encoding = Encoding::Vop3;
        lower::<L>(facts, &bare)
    };
    let (mut first, second) = (half(inst)?, half(other)?);
    let mut op = blank(lanes::pick::<forms::Dual, L>(facts.fast));
    op.dst = first.dst;
    first.dst.index = facts.descriptor.vgprs as u16 + 3;
    op.inner = Some(Box::new(Inner { first, second: Some(second), inst: Box::new(inst.clone()) }));
    Ok(op)
}
