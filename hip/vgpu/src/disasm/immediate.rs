//! Immediates that have a language of their own: wait counters, messages, hardware registers, swizzles.

use super::Printer;
use crate::inst::{Inline, Operand};
use crate::target::Arch;

impl Printer<'_> {
    /// Prints the part of that name; `false` where it is not one of these.
    pub(super) fn immediate(&mut self, name: &str) -> bool {
        let inst = self.inst;
        let bits = inst.imm as u16;
        match name {
            "hex" => self.put(format_args!("{bits:#x}")),
            "dec" => self.put(format_args!("{bits}")),
            "imm" => self.plain(u32::from(bits)),
            "imm0" => {
                if let Operand::Literal(value) = inst.src[0].operand {
                    self.plain(value);
                }
            }
            "endpgm" => {
                if bits != 0 {
                    self.put(format_args!(" {bits}"));
                }
            }
            "waitcnt" => self.waitcnt(bits),
            "depctr" => self.depctr(bits),
            "delay" => self.delay(bits),
            "sendmsg" => self.sendmsg(bits),
            "hwreg" => self.hwreg(bits),
            "gpr_idx" => self.gpr_idx(bits),
            "version" => self.version(bits),
            "swizzle" => self.swizzle(inst.offset as u16),
            _ => return self.graphics(name),
        }
        true
    }

    /// A number: small ones in decimal, floats that could be inline as such, others in hexadecimal digits.
    fn plain(&mut self, value: u32) {
        let signed = value as i32;
        if (-16..=64).contains(&signed) {
            return self.put(format_args!("{signed}"));
        }
        let names = ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494"];
        match Inline::ALL.into_iter().find(|inline| inline.f32() == value) {
            Some(inline) => self.out.push_str(names[inline as usize]),
            None => self.put(format_args!("{value:#x}")),
        }
    }

    fn waitcnt(&mut self, bits: u16) {
        let (vector, export, scalar, scalar_all) = match self.arch {
            Arch::Gfx90a | Arch::Gfx942 => (bits & 15 | bits >> 14 << 4, bits >> 4 & 7, bits >> 8 & 15, 15),
            Arch::Gfx1030 => (bits & 15 | bits >> 14 << 4, bits >> 4 & 7, bits >> 8 & 63, 63),
            _ => (bits >> 10, bits & 7, bits >> 4 & 63, 63),
        };
        let counters = [("vmcnt", vector, 63), ("expcnt", export, 7), ("lgkmcnt", scalar, scalar_all)];
        let all = counters.iter().all(|(_, count, most)| count == most);
        let shown = counters.iter().filter(|(_, count, most)| all || count != most);
        let words: Vec<String> = shown.map(|(name, count, _)| format!("{name}({count})")).collect();
        self.out.push_str(&words.join(" "));
    }

    fn depctr(&mut self, bits: u16) {
        let parts = [
            ("hold_cnt", 7, 1),
            ("sa_sdst", 0, 1),
            ("va_vdst", 12, 15),
            ("va_sdst", 9, 7),
            ("va_ssrc", 8, 1),
            ("va_vcc", 1, 1),
            ("vm_vsrc", 2, 7),
        ];
        let used = parts.iter().fold(0, |used, (_, shift, most)| used | most << shift);
        if bits & !used != 0 {
            return self.put(format_args!("{bits:#x}"));
        }
        let values = parts.map(|(name, shift, most)| (name, bits >> shift & most, most));
        let all = values.iter().all(|(_, value, most)| value == most);
        let shown = values.iter().filter(|(_, value, most)| all || value != most);
        let words: Vec<String> = shown.map(|(name, value, _)| format!("depctr_{name}({value})")).collect();
        self.out.push_str(&words.join(" "));
    }

    fn delay(&mut self, bits: u16) {
        const IDS: [&str; 12] = [
            "NO_DEP",
            "VALU_DEP_1",
            "VALU_DEP_2",
            "VALU_DEP_3",
            "VALU_DEP_4",
            "TRANS32_DEP_1",
            "TRANS32_DEP_2",
            "TRANS32_DEP_3",
            "FMA_ACCUM_CYCLE_1",
            "SALU_CYCLE_1",
            "SALU_CYCLE_2",
            "SALU_CYCLE_3",
        ];
        const SKIPS: [&str; 6] = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];
        let id = |value: u16| IDS.get(usize::from(value)).copied().unwrap_or("/* invalid instid value */");
        let skip = |value: u16| SKIPS.get(usize::from(value)).copied().unwrap_or("/* invalid instskip value */");
        let (first, between, second) = (bits & 15, bits >> 4 & 7, bits >> 7 & 15);
        let mut words = Vec::new();
        if first != 0 {
            words.push(format!("instid0({})", id(first)));
        }
        if between != 0 {
            words.push(format!("instskip({})", skip(between)));
        }
        if second != 0 {
            words.push(format!("instid1({})", id(second)));
        }
        self.out.push_str(if words.is_empty() { "0" } else { "" });
        self.out.push_str(&words.join(" | "));
    }

    fn sendmsg(&mut self, bits: u16) {
        let new = self.arch.generation() >= 11;
        let (message, operation, stream) =
            if new { (bits & 0xff, 0, 0) } else { (bits & 15, bits >> 4 & 7, bits >> 8 & 3) };
        let geometry = !new && matches!(message, 2 | 3);
        let operation_name = match (message, operation) {
            (15, 1) => "SYSMSG_OP_ECC_ERR_INTERRUPT",
            (15, 2) => "SYSMSG_OP_REG_RD",
            (15, 4) => "SYSMSG_OP_TTRACE_PC",
            (2 | 3, 0..=3) if geometry => {
                ["GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT"][usize::from(operation)]
            }
            _ => "",
        };
        let operation_fits = match message {
            2 if geometry => operation != 0 && !operation_name.is_empty(),
            15 => !operation_name.is_empty(),
            3 if geometry => !operation_name.is_empty(),
            _ => operation == 0,
        };
        let with_stream = geometry && operation != 0;
        let stream_fits = with_stream || stream == 0;
        match message_name(message, self.arch.generation()) {
            Some(name) if operation_fits && stream_fits => {
                self.put(format_args!("sendmsg({name}"));
                if geometry || message == 15 {
                    self.put(format_args!(", {operation_name}"));
                }
                if with_stream {
                    self.put(format_args!(", {stream}"));
                }
                self.out.push(')');
            }
            _ if message | operation << 4 | stream << 8 == bits => {
                self.put(format_args!("sendmsg({message}, {operation}, {stream})"));
            }
            _ => self.put(format_args!("{bits}")),
        }
    }

    fn hwreg(&mut self, bits: u16) {
        let (id, offset, width) = (bits & 63, bits >> 6 & 31, (bits >> 11) + 1);
        match hwreg_name(id, self.arch) {
            Some(name) => self.put(format_args!("hwreg({name}")),
            None => self.put(format_args!("hwreg({id}")),
        }
        if offset != 0 || width != 32 {
            self.put(format_args!(", {offset}, {width}"));
        }
        self.out.push(')');
    }

    fn gpr_idx(&mut self, bits: u16) {
        if bits > 15 {
            return self.put(format_args!("{bits:#x}"));
        }
        let names = ["SRC0", "SRC1", "SRC2", "DST"];
        let on: Vec<&str> = (0..4).filter(|bit| bits >> bit & 1 != 0).map(|bit| names[bit]).collect();
        self.put(format_args!("gpr_idx({})", on.join(",")));
    }

    fn version(&mut self, bits: u16) {
        if bits & 0x1f00 != 0 {
            return self.put(format_args!("{bits:#x}"));
        }
        let mut words = vec![match bits & 0xff {
            0 => "UC_VERSION_GFX7".to_owned(),
            4 => "UC_VERSION_GFX10".to_owned(),
            6 => "UC_VERSION_GFX11".to_owned(),
            9 => "UC_VERSION_GFX12".to_owned(),
            other => other.to_string(),
        }];
        for (bit, name) in [(13, "W64"), (14, "W32"), (15, "MDP")] {
            if bits >> bit & 1 != 0 {
                words.push(format!("UC_VERSION_{name}_BIT"));
            }
        }
        // As an expression is printed: what was joined first is in parentheses.
        let last = words.len() - 1;
        let text = words.iter().enumerate().fold(String::new(), |text, (at, word)| match at {
            0 => word.clone(),
            at if at < last => format!("({text}|{word})"),
            _ => format!("{text}|{word}"),
        });
        self.out.push_str(&text);
    }

    fn swizzle(&mut self, bits: u16) {
        if bits == 0 {
            return;
        }
        self.out.push_str(" offset:");
        if bits & 0xff00 == 0x8000 {
            let lane = |number: u32| bits >> (2 * number) & 3;
            return self.put(format_args!("swizzle(QUAD_PERM,{},{},{},{})", lane(0), lane(1), lane(2), lane(3)));
        }
        if bits & 0x8000 != 0 {
            return self.put(format_args!("{bits}"));
        }
        let (and, or, xor) = (bits & 31, bits >> 5 & 31, bits >> 10 & 31);
        let group = 32 - and;
        if and == 31 && or == 0 && xor.count_ones() == 1 {
            self.put(format_args!("swizzle(SWAP,{xor})"));
        } else if and == 31 && or == 0 && xor > 0 && (xor + 1).is_power_of_two() {
            self.put(format_args!("swizzle(REVERSE,{})", xor + 1));
        } else if group > 1 && group.is_power_of_two() && or < group && xor == 0 {
            self.put(format_args!("swizzle(BROADCAST,{group},{or})"));
        } else {
            let letter = |bit: u16| {
                let of = |lane: u16| ((lane & and | or) ^ xor) >> bit & 1;
                match (of(0), of(31)) {
                    (0, 0) => '0',
                    (1, 1) => '1',
                    (0, _) => 'p',
                    _ => 'i',
                }
            };
            let letters: String = (0..5).rev().map(letter).collect();
            self.put(format_args!("swizzle(BITMASK_PERM,\"{letters}\")"));
        }
    }
}

fn message_name(message: u16, generation: u32) -> Option<&'static str> {
    Some(match (message, generation) {
        (1, _) => "MSG_INTERRUPT",
        (2, ..=10) => "MSG_GS",
        (3, ..=10) => "MSG_GS_DONE",
        (2, _) => "MSG_HS_TESSFACTOR",
        (3, _) => "MSG_DEALLOC_VGPRS",
        (4, ..=10) => "MSG_SAVEWAVE",
        (5, ..=11) => "MSG_STALL_WAVE_GEN",
        (6, ..=11) => "MSG_HALT_WAVES",
        (7, ..=10) => "MSG_ORDERED_PS_DONE",
        (8, ..=10) => "MSG_EARLY_PRIM_DEALLOC",
        (9, _) => "MSG_GS_ALLOC_REQ",
        (10, ..=10) => "MSG_GET_DOORBELL",
        (11, 10) => "MSG_GET_DDID",
        (15, _) => "MSG_SYSMSG",
        (128, 11..) => "MSG_RTN_GET_DOORBELL",
        (129, 11..) => "MSG_RTN_GET_DDID",
        (130, 11..) => "MSG_RTN_GET_TMA",
        (131, 11..) => "MSG_RTN_GET_REALTIME",
        (132, 11..) => "MSG_RTN_SAVE_WAVE",
        (133, 11..) => "MSG_RTN_GET_TBA",
        (134, 11..) => "MSG_RTN_GET_TBA_TO_PC",
        (135, 12..) => "MSG_RTN_GET_SE_AID_ID",
        _ => return None,
    })
}

fn hwreg_name(id: u16, arch: Arch) -> Option<&'static str> {
    let cdna3 = arch == Arch::Gfx942;
    Some(match (id, arch.generation()) {
        (1, _) => "HW_REG_MODE",
        (2, _) => "HW_REG_STATUS",
        (3, ..=11) => "HW_REG_TRAPSTS",
        (4, ..=9) => "HW_REG_HW_ID",
        (4, 12) => "HW_REG_STATE_PRIV",
        (5, _) => "HW_REG_GPR_ALLOC",
        (6, _) => "HW_REG_LDS_ALLOC",
        (7, _) => "HW_REG_IB_STS",
        (10, 12) => "HW_REG_PERF_SNAPSHOT_DATA",
        (11, 12) => "HW_REG_PERF_SNAPSHOT_PC_LO",
        (12, 12) => "HW_REG_PERF_SNAPSHOT_PC_HI",
        (15, ..=11) => "HW_REG_SH_MEM_BASES",
        (15, _) => "HW_REG_PERF_SNAPSHOT_DATA1",
        (16, ..=10) => "HW_REG_TBA_LO",
        (16, 12) => "HW_REG_PERF_SNAPSHOT_DATA2",
        (17, ..=10) => "HW_REG_TBA_HI",
        (17, 12) => "HW_REG_EXCP_FLAG_PRIV",
        (18, ..=10) => "HW_REG_TMA_LO",
        (18, 11) => "HW_REG_PERF_SNAPSHOT_PC_LO",
        (18, _) => "HW_REG_EXCP_FLAG_USER",
        (19, ..=10) => "HW_REG_TMA_HI",
        (19, 11) => "HW_REG_PERF_SNAPSHOT_PC_HI",
        (19, _) => "HW_REG_TRAP_CTRL",
        (20, 9) if cdna3 => "HW_REG_XCC_ID",
        (21, 9) if cdna3 => "HW_REG_SQ_PERF_SNAPSHOT_DATA",
        (22, 9) if cdna3 => "HW_REG_SQ_PERF_SNAPSHOT_DATA1",
        (23, 9) if cdna3 => "HW_REG_SQ_PERF_SNAPSHOT_PC_LO",
        (24, 9) if cdna3 => "HW_REG_SQ_PERF_SNAPSHOT_PC_HI",
        (20, 10 | 11) => "HW_REG_FLAT_SCR_LO",
        (20, 12) => "HW_REG_SCRATCH_BASE_LO",
        (21, 10 | 11) => "HW_REG_FLAT_SCR_HI",
        (21, 12) => "HW_REG_SCRATCH_BASE_HI",
        (23, 10..) => "HW_REG_HW_ID1",
        (24, 10..) => "HW_REG_HW_ID2",
        (25, 10) => "HW_REG_POPS_PACKER",
        (27, 11) => "HW_REG_PERF_SNAPSHOT_DATA",
        (29, 10 | 11) => "HW_REG_SHADER_CYCLES",
        (29, 12) => "HW_REG_SHADER_CYCLES_LO",
        (30, 12) => "HW_REG_SHADER_CYCLES_HI",
        (31, 12) => "HW_REG_DVGPR_ALLOC_LO",
        (32, 12) => "HW_REG_DVGPR_ALLOC_HI",
        _ => return None,
    })
}
