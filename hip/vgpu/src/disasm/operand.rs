//! Registers, constants, and a source's modifiers.

use super::Printer;
use crate::inst::{Arg, Inline, Operand, Ty};
use crate::tables::{How, Name};

impl Printer<'_> {
    /// A register or a constant.
    pub(super) fn operand(&mut self, arg: &Arg, name: Name) {
        match arg.operand {
            Operand::None => self.out.push_str("off"),
            Operand::Int(_) | Operand::Float(_) | Operand::Literal(_) => {
                let kind = self.kind(name);
                if kind.is_some_and(|kind| is_register_only(kind.how)) {
                    self.constant(&Arg { ty: Ty::B32, ..*arg });
                    self.out.push_str("/*Invalid immediate*/");
                } else {
                    self.constant(&Arg { ty: kind.map_or(arg.ty, |kind| kind.ty), ..*arg });
                }
            }
            _ => {
                self.register(arg);
                if let Some(kind) = self.kind(name) {
                    if !belongs(arg, kind.class) {
                        let class = kind.class;
                        self.put(format_args!("/*Invalid register, operand has '{class}' register class*/"));
                    }
                }
            }
        }
    }

    fn register(&mut self, arg: &Arg) {
        let wide = arg.dwords >= 2;
        let name = match arg.operand {
            Operand::Vgpr(number) if arg.half => {
                let half = if arg.op_sel { 'h' } else { 'l' };
                return self.put(format_args!("v{number}.{half}"));
            }
            Operand::Vgpr(number) => return self.range("v", number, arg.dwords),
            Operand::Agpr(number) => return self.range("a", number, arg.dwords),
            Operand::Sgpr(number) => return self.range("s", number, arg.dwords),
            Operand::Ttmp(number) => return self.range("ttmp", number, arg.dwords),
            Operand::VccLo if wide => "vcc",
            Operand::VccLo => "vcc_lo",
            Operand::VccHi => "vcc_hi",
            Operand::ExecLo if wide => "exec",
            Operand::ExecLo => "exec_lo",
            Operand::ExecHi => "exec_hi",
            Operand::M0 => "m0",
            Operand::Null => "null",
            Operand::FlatScratchLo if wide => "flat_scratch",
            Operand::FlatScratchLo => "flat_scratch_lo",
            Operand::FlatScratchHi => "flat_scratch_hi",
            Operand::XnackMaskLo if wide => "xnack_mask",
            Operand::XnackMaskLo => "xnack_mask_lo",
            Operand::XnackMaskHi => "xnack_mask_hi",
            Operand::SharedBase => "src_shared_base",
            Operand::SharedLimit => "src_shared_limit",
            Operand::PrivateBase => "src_private_base",
            Operand::PrivateLimit => "src_private_limit",
            Operand::PopsExitingWaveId => "src_pops_exiting_wave_id",
            Operand::Vccz => "src_vccz",
            Operand::Execz => "src_execz",
            Operand::Scc => "src_scc",
            Operand::LdsDirect => "src_lds_direct",
            Operand::None | Operand::Int(_) | Operand::Float(_) | Operand::Literal(_) => "",
        };
        self.out.push_str(name);
    }

    fn range(&mut self, prefix: &str, first: u8, dwords: u8) {
        if dwords <= 1 {
            self.put(format_args!("{prefix}{first}"));
        } else {
            let last = u32::from(first) + u32::from(dwords) - 1;
            self.put(format_args!("{prefix}[{first}:{last}]"));
        }
    }

    /// A constant is printed by its value, so that a literal that could have been inline looks like one.
    fn constant(&mut self, arg: &Arg) {
        let Some(bits) = raw(arg) else { return };
        let value = match arg.ty {
            Ty::F16 | Ty::Bf16 => i64::from(bits as u16 as i16),
            Ty::B64 | Ty::F64 => bits as i64,
            _ => i64::from(bits as u32 as i32),
        };
        if (-16..=64).contains(&value) {
            return self.put(format_args!("{value}"));
        }
        let float = Inline::ALL.into_iter().find(|inline| match arg.ty {
            Ty::F16 => u64::from(inline.f16()) == bits & 0xffff,
            Ty::Bf16 => u64::from(inline.bf16()) == bits & 0xffff,
            Ty::V2F16 => u64::from(inline.f16()) == bits,
            Ty::V2Bf16 => u64::from(inline.bf16()) == bits,
            Ty::B64 | Ty::F64 => inline.f64() == bits,
            _ => u64::from(inline.f32()) == bits,
        });
        match (float, arg.ty) {
            (Some(Inline::InvTwoPi), Ty::B64 | Ty::F64) => self.out.push_str("0.15915494309189532"),
            (Some(inline), _) => self.out.push_str(FLOATS[inline as usize]),
            (None, Ty::B16 | Ty::F16) => self.put(format_args!("{:#x}", bits & 0xffff)),
            (None, Ty::F64) => self.put(format_args!("{:#x}", bits >> 32)),
            (None, _) => self.put(format_args!("{bits:#x}")),
        }
    }

    /// A constant that lies within the instruction: always in hexadecimal digits.
    pub(super) fn literal(&mut self, arg: &Arg, mask: u32) {
        if let Operand::Literal(value) = arg.operand {
            let value = if value <= mask { value & mask } else { value };
            self.put(format_args!("{value:#x}"));
        }
    }

    /// A source with the modifiers of floats, and what LLVM prints before it closes them.
    pub(super) fn float(&mut self, number: usize, name: Name, tail: &str) {
        let inst = self.inst;
        let arg = &inst.src[number];
        let is_constant = matches!(arg.operand, Operand::Int(_) | Operand::Float(_) | Operand::Literal(_));
        let in_words = arg.neg && !arg.abs && is_constant;
        let (before, after) = match (arg.neg, arg.abs) {
            (true, true) => ("-|", "|"),
            (true, false) if in_words => ("neg(", ")"),
            (true, false) => ("-", ""),
            (false, true) => ("|", "|"),
            (false, false) => ("", ""),
        };
        self.out.push_str(before);
        self.operand(arg, name);
        self.out.push_str(tail);
        self.out.push_str(after);
    }

    /// A source with the modifier of integers.
    pub(super) fn integer(&mut self, number: usize, name: Name) {
        let inst = self.inst;
        let arg = &inst.src[number];
        if arg.sext {
            self.out.push_str("sext(");
        }
        self.operand(arg, name);
        if arg.sext {
            self.out.push(')');
        }
    }
}

const FLOATS: [&str; 9] = ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494"];

/// The bits of a constant before they are cut to the operand's width: an inline integer has its sign, a literal all its bits.
fn raw(arg: &Arg) -> Option<u64> {
    match (arg.operand, arg.ty) {
        (Operand::Int(value), Ty::B64 | Ty::F64) => Some(i64::from(value) as u64),
        (Operand::Int(value), _) => Some(u64::from(i32::from(value) as u32)),
        (Operand::Literal(value), Ty::F64) => Some(u64::from(value) << 32),
        (Operand::Literal(value), _) => Some(u64::from(value)),
        _ => arg.constant(),
    }
}

fn is_register_only(how: How) -> bool {
    matches!(how, How::Sreg | How::SrcReg | How::SrcRegA | How::SrcAv | How::Av | How::Bool | How::Vgpr | How::Agpr)
}

/// Whether a register is in the class that its operand asks for. Codes name more than that: a scalar register can be encoded
/// where a vector register must be.
fn belongs(arg: &Arg, class: &str) -> bool {
    use Operand as O;
    // These read as constants and are taken everywhere.
    if matches!(
        arg.operand,
        O::SharedBase
            | O::SharedLimit
            | O::PrivateBase
            | O::PrivateLimit
            | O::PopsExitingWaveId
            | O::Vccz
            | O::Execz
            | O::Scc
            | O::Null
    ) {
        return true;
    }
    if class == "SReg_96" && arg.dwords == 1 {
        return false;
    }
    if matches!(arg.operand, O::VccLo | O::ExecLo | O::FlatScratchLo | O::XnackMaskLo) && arg.dwords > 2 {
        return false;
    }
    let is_vgpr = matches!(arg.operand, O::Vgpr(_));
    let is_agpr = matches!(arg.operand, O::Agpr(_));
    let is_scalar = !is_vgpr && !is_agpr && arg.operand != O::LdsDirect;
    let is_exec = matches!(arg.operand, O::ExecLo | O::ExecHi);
    match class {
        "" => true,
        "VS_32_Lo128" => is_scalar || matches!(arg.operand, O::Vgpr(0..=127)) || arg.operand == O::LdsDirect,
        "VGPR_32_Lo128" => matches!(arg.operand, O::Vgpr(0..=127)),
        "VRegOrLds_32" => is_vgpr || arg.operand == O::LdsDirect,
        "SRegOrLds_32" => is_scalar || arg.operand == O::LdsDirect,
        "SReg_32_XM0_XEXEC" => is_scalar && !is_exec && arg.operand != O::M0,
        "SReg_32_XEXEC" | "SReg_64_XEXEC" | "SReg_1_XEXEC" => is_scalar && !is_exec,
        "SReg_32_XEXEC_HI" => is_scalar && arg.operand != O::ExecHi,
        _ if class.starts_with("VS_") => is_scalar || is_vgpr || arg.operand == O::LdsDirect,
        _ if class.starts_with("SReg_") => is_scalar,
        _ if class.starts_with("VReg_") || class.starts_with("VGPR_") => is_vgpr,
        _ if class.starts_with("AReg_") || class.starts_with("AGPR_") => is_agpr,
        _ if class.starts_with("AV_") => is_vgpr || is_agpr,
        _ => true,
    }
}
