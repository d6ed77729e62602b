//! Text of an instruction, letter for letter what LLVM's disassembler prints. It is made of the decoded form alone, so that
//! whoever compares the text has compared what the executor will see.

mod immediate;
mod memory;
mod modifier;
mod operand;

use crate::inst::{Arg, Inst};
use crate::tables::{Kind, Name};
use crate::target::Arch;
use std::fmt::Write;

/// The text of an instruction that was decoded for that target and wave size, such as `v_add_f32_e32 v0, s1, v2`.
pub fn text(arch: Arch, wave_size: usize, inst: &Inst) -> String {
    let mut printer = Printer { arch, wave_size, inst, out: String::new() };
    printer.print();
    printer.out
}

struct Printer<'a> {
    arch: Arch,
    wave_size: usize,
    inst: &'a Inst,
    out: String,
}

impl Printer<'_> {
    /// Follows the template of the instruction's layout.
    fn print(&mut self) {
        let mut names = self.inst.mnemonic.split(' ');
        self.out.push_str(names.next().unwrap_or_default());
        let mut rest = self.inst.group.layout().text;
        while let Some(at) = rest.find(['$', ':']) {
            let (plain, tail) = rest.split_at(at);
            self.out.push_str(plain);
            if let Some(after) = tail.strip_prefix("::") {
                // The second half of a VOPD instruction.
                self.put(format_args!(":: {}", names.next().unwrap_or_default()));
                rest = after;
                continue;
            }
            let tail = &tail[1..];
            let end = tail.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(tail.len());
            let (name, after) = tail.split_at(end);
            self.token(name);
            rest = after;
        }
        self.out.push_str(rest);
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(text);
    }

    fn token(&mut self, name: &str) {
        let inst = self.inst;
        match name {
            "dst" => self.operand(&inst.dst, Name::Dst),
            "sdst" => self.operand(&inst.sdst, Name::Sdst),
            "src0" => self.operand(&inst.src[0], Name::Src0),
            "src1" => self.operand(&inst.src[1], Name::Src1),
            "src2" => self.operand(&inst.src[2], Name::Src2),
            "src3" => self.operand(&inst.src[3], Name::Src3),
            "dstY" => self.second(|inst| &inst.dst, Name::DstY),
            "src0Y" => self.second(|inst| &inst.src[0], Name::Src0Y),
            "src1Y" => self.second(|inst| &inst.src[1], Name::Src1Y),
            "src2Y" => self.second(|inst| &inst.src[2], Name::Src2Y),
            "fp0" => self.float(0, Name::Src0, ""),
            "fp1" => self.float(1, Name::Src1, ""),
            "fp2" => self.float(2, Name::Src2, ""),
            "fp1vcc" => self.float(1, Name::Src1, if self.wave_size == 64 { ", vcc" } else { ", vcc_lo" }),
            "int0" => self.integer(0, Name::Src0),
            "int1" => self.integer(1, Name::Src1),
            "int2" => self.integer(2, Name::Src2),
            "vcc" => self.out.push_str(if self.wave_size == 64 { "vcc" } else { "vcc_lo" }),
            "word1" => self.literal(&inst.src[1], u32::MAX),
            "word2" => self.literal(&inst.src[2], u32::MAX),
            "half1" => self.literal(&inst.src[1], 0xffff),
            "half2" => self.literal(&inst.src[2], 0xffff),
            "word1Y" => self.second_literal(1),
            "word2Y" => self.second_literal(2),
            "clamp" | "gds" | "high" | "compr" | "vm" => self.flag(name),
            _ => {
                let known = self.modifier(name) || self.memory(name) || self.immediate(name);
                debug_assert!(known, "no such token: {name}");
            }
        }
    }

    fn flag(&mut self, name: &str) {
        let inst = self.inst;
        let set = match name {
            "clamp" => inst.clamp,
            "gds" => inst.gds,
            "high" => inst.graphics.high,
            "compr" => inst.graphics.compr,
            _ => inst.graphics.vm,
        };
        if set {
            self.put(format_args!(" {name}"));
        }
    }

    /// An operand of VOPD's second half.
    fn second(&mut self, pick: fn(&Inst) -> &Arg, name: Name) {
        let inst = self.inst;
        if let Some(second) = &inst.second {
            self.operand(pick(second), name);
        }
    }

    fn second_literal(&mut self, number: usize) {
        let inst = self.inst;
        if let Some(second) = &inst.second {
            self.literal(&second.src[number], u32::MAX);
        }
    }

    /// What the tables say about an operand.
    fn kind(&self, name: Name) -> Option<&'static Kind> {
        self.inst.group.layout().fields().find(|field| field.name == name).map(|field| field.kind())
    }
}
