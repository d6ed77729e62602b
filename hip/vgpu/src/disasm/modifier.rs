//! op_sel and its kin, output modifiers, SDWA and DPP.

use super::Printer;
use crate::inst::{Arg, Ctrl, Dpp, Operand, Sel, Unused};
use crate::tables::{flags, Implied, Name};

impl Printer<'_> {
    /// Prints the part of that name; `false` where it is not one of these.
    pub(super) fn modifier(&mut self, name: &str) -> bool {
        let inst = self.inst;
        match name {
            "omod" => self.out.push_str(["", " mul:2", " mul:4", " div:2"][usize::from(inst.omod & 3)]),
            "op_sel" => self.op_sel(),
            "op_sel_hi" => {
                self.per_source(" op_sel_hi:[", |arg| arg.op_sel_hi, self.inst.group.has(flags::PACKED), None)
            }
            "neg_lo" => self.per_source(" neg_lo:[", |arg| arg.neg, false, None),
            "neg_hi" => self.per_source(" neg_hi:[", |arg| arg.neg_hi, false, None),
            "cbsz" => self.number(" cbsz:", inst.cbsz),
            "abid" => self.number(" abid:", inst.abid),
            "blgp" => self.blgp(),
            "byte_sel" => self.number(" byte_sel:", inst.byte_sel),
            "index_key" => self.number(" index_key:", inst.index_key),
            "dst_sel" => self.put(format_args!("dst_sel:{}", sel(inst.dst.sel))),
            "src0_sel" => self.put(format_args!("src0_sel:{}", sel(inst.src[0].sel))),
            "src1_sel" => self.put(format_args!("src1_sel:{}", sel(inst.src[1].sel))),
            "dst_unused" => self.out.push_str(match inst.unused {
                Unused::Pad => "dst_unused:UNUSED_PAD",
                Unused::Sext => "dst_unused:UNUSED_SEXT",
                Unused::Preserve => "dst_unused:UNUSED_PRESERVE",
            }),
            _ => return self.dpp(name),
        }
        true
    }

    pub(super) fn number(&mut self, prefix: &str, value: u8) {
        if value != 0 {
            self.put(format_args!("{prefix}{value}"));
        }
    }

    fn blgp(&mut self) {
        let bits = self.inst.blgp;
        // gfx942's f64 products have the sources' signs there.
        if self.arch == crate::target::Arch::Gfx942 && self.inst.mnemonic.starts_with("v_mfma_f64") {
            if bits != 0 {
                self.put(format_args!(" neg:[{},{},{}]", bits & 1, bits >> 1 & 1, bits >> 2 & 1));
            }
        } else {
            self.number(" blgp:", bits);
        }
    }

    fn op_sel(&mut self) {
        let inst = self.inst;
        let source = &inst.src;
        let name = inst.op.name();
        let pair = if name.starts_with("v_permlane") {
            Some((source[0].op_sel, source[1].op_sel))
        } else if ["v_cvt_f32_fp8", "v_cvt_f32_bf8"].contains(&name) {
            Some((source[0].op_sel, source[0].op_sel_hi))
        } else {
            None
        };
        match pair {
            Some((false, false)) => {}
            Some((one, other)) => self.put(format_args!(" op_sel:[{},{}]", u8::from(one), u8::from(other))),
            None => {
                let of_dst = inst.group.has(flags::OPSEL).then_some(inst.dst.op_sel);
                self.per_source(" op_sel:[", |arg| arg.op_sel, false, of_dst);
            }
        }
    }

    /// One digit a source, and one for the destination where it has one; nothing where all are as usual.
    fn per_source(&mut self, prefix: &str, pick: fn(&Arg) -> bool, usual: bool, of_dst: Option<bool>) {
        let inst = self.inst;
        let count = if inst.group.has(flags::WMMA) { 3 } else { self.sources() };
        let digits: Vec<bool> = inst.src.iter().take(count).map(pick).chain(of_dst).collect();
        let is_usual = |(at, &digit): (usize, &bool)| digit == (usual && at < count);
        if digits.iter().enumerate().all(is_usual) {
            return;
        }
        let digits: Vec<&str> = digits.iter().map(|&digit| if digit { "1" } else { "0" }).collect();
        self.put(format_args!("{prefix}{}]", digits.join(",")));
    }

    /// How many of the first three sources the instruction has, tied ones too.
    fn sources(&self) -> usize {
        let layout = self.inst.group.layout();
        let names = [Name::Src0, Name::Src1, Name::Src2];
        let has = |name: &Name| {
            layout.fields().any(|field| field.name == *name)
                || layout.implied.iter().any(|hint| matches!(hint, Implied::Tied(tied, ..) if tied == name))
        };
        names.iter().take_while(|name| has(name)).count()
    }

    fn dpp(&mut self, name: &str) -> bool {
        let inst = self.inst;
        let (mask, bank, bound, free) = match inst.dpp {
            Some(Dpp::Rule { row_mask, bank_mask, bound_ctrl, fi, .. }) => (row_mask, bank_mask, bound_ctrl, fi),
            Some(Dpp::Eight { fi, .. }) => (0, 0, false, fi),
            None => return false,
        };
        match (name, &inst.dpp) {
            ("dpp8", Some(Dpp::Eight { lanes, .. })) => {
                let lanes: Vec<String> = lanes.iter().map(u8::to_string).collect();
                self.put(format_args!("dpp8:[{}]", lanes.join(",")));
            }
            ("dpp_ctrl", Some(Dpp::Rule { ctrl, .. })) => self.ctrl(*ctrl),
            ("row_mask", _) => self.put(format_args!(" row_mask:{mask:#x}")),
            ("bank_mask", _) => self.put(format_args!(" bank_mask:{bank:#x}")),
            ("bound_ctrl", _) => self.out.push_str(if bound { " bound_ctrl:1" } else { "" }),
            ("fi", _) => self.out.push_str(if free { " fi:1" } else { "" }),
            _ => return false,
        }
        true
    }

    fn ctrl(&mut self, ctrl: Ctrl) {
        let new = !self.arch.is_cdna();
        if self.inst.group.has(flags::DPALU) && !matches!(ctrl, Ctrl::RowNewBcast(_) | Ctrl::RowShare(_)) {
            return self.out.push_str(" /* DP ALU dpp only supports row_newbcast */");
        }
        let gone = |what: &str| format!("/* {what} is not supported starting from GFX10 */");
        let text = match ctrl {
            Ctrl::QuadPerm([a, b, c, d]) => format!("quad_perm:[{a},{b},{c},{d}]"),
            Ctrl::RowShl(by) => format!("row_shl:{by}"),
            Ctrl::RowShr(by) => format!("row_shr:{by}"),
            Ctrl::RowRor(by) => format!("row_ror:{by}"),
            Ctrl::WaveShl1 if new => gone("wave_shl"),
            Ctrl::WaveRol1 if new => gone("wave_rol"),
            Ctrl::WaveShr1 if new => gone("wave_shr"),
            Ctrl::WaveRor1 if new => gone("wave_ror"),
            Ctrl::RowBcast15 | Ctrl::RowBcast31 if new => gone("row_bcast"),
            Ctrl::WaveShl1 => "wave_shl:1".into(),
            Ctrl::WaveRol1 => "wave_rol:1".into(),
            Ctrl::WaveShr1 => "wave_shr:1".into(),
            Ctrl::WaveRor1 => "wave_ror:1".into(),
            Ctrl::RowMirror => "row_mirror".into(),
            Ctrl::RowHalfMirror => "row_half_mirror".into(),
            Ctrl::RowBcast15 => "row_bcast:15".into(),
            Ctrl::RowBcast31 => "row_bcast:31".into(),
            Ctrl::RowNewBcast(lane) => format!("row_newbcast:{lane}"),
            Ctrl::RowShare(lane) => format!("row_share:{lane}"),
            Ctrl::RowXmask(_) if !new => "/* row_xmask is not supported on ASICs earlier than GFX10 */".into(),
            Ctrl::RowXmask(mask) => format!("row_xmask:{mask}"),
            Ctrl::Reserved(_) => "/* Invalid dpp_ctrl value */".into(),
        };
        self.out.push_str(&text);
    }

    /// The sources and the target of an export, and what interpolation instructions carry.
    pub(super) fn graphics(&mut self, name: &str) -> bool {
        let inst = self.inst;
        let fields = inst.graphics;
        match name {
            "exp0" => self.export(0),
            "exp1" => self.export(1),
            "exp2" => self.export(2),
            "exp3" => self.export(3),
            "tgt" => self.target(fields.tgt & 63),
            "attr" => self.put(format_args!("attr{}", fields.attr)),
            "attrchan" => self.put(format_args!(".{}", ["x", "y", "z", "w"][usize::from(fields.attrchan & 3)])),
            "waitexp" => self.put(format_args!(" wait_exp:{}", fields.waitexp)),
            "waitvdst" => self.put(format_args!(" wait_vdst:{}", fields.waitvdst)),
            "waitvavdst" => self.put(format_args!(" wait_va_vdst:{}", fields.waitvdst)),
            "waitvsrc" => self.put(format_args!(" wait_vm_vsrc:{}", fields.waitvsrc)),
            "slot" => match inst.src[0].operand {
                Operand::Literal(slot @ 0..=2) => self.out.push_str(["p10", "p20", "p0"][slot as usize]),
                Operand::Literal(slot) => self.put(format_args!("invalid_param_{slot}")),
                _ => {}
            },
            _ => return false,
        }
        true
    }

    fn export(&mut self, number: usize) {
        let inst = self.inst;
        let fields = inst.graphics;
        if fields.en >> number & 1 == 0 {
            return self.out.push_str("off");
        }
        let number = if fields.compr { number / 2 } else { number };
        self.operand(&inst.src[number], [Name::Src0, Name::Src1, Name::Src2, Name::Src3][number]);
    }

    fn target(&mut self, id: u8) {
        let new = self.arch.generation() >= 11;
        match id {
            0..=7 => self.put(format_args!(" mrt{id}")),
            8 => self.out.push_str(" mrtz"),
            9 if !new => self.out.push_str(" null"),
            12..=15 => self.put(format_args!(" pos{}", id - 12)),
            16 if self.arch.generation() >= 10 => self.out.push_str(" pos4"),
            20 if self.arch.generation() >= 10 => self.out.push_str(" prim"),
            21 | 22 if new => self.put(format_args!(" dual_src_blend{}", id - 21)),
            32..=63 if !new => self.put(format_args!(" param{}", id - 32)),
            _ => self.put(format_args!(" invalid_target_{id}")),
        }
    }
}

fn sel(sel: Sel) -> &'static str {
    ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"][sel as usize]
}
