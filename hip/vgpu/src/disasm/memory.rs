//! Offsets, cache policy and buffer formats.

use super::Printer;
use crate::inst::Encoding;
use crate::tables::flags;
use crate::target::Arch;

impl Printer<'_> {
    /// Prints the part of that name; `false` where it is not one of these.
    pub(super) fn memory(&mut self, name: &str) -> bool {
        let inst = self.inst;
        match name {
            "offset" | "flat_offset" => {
                if inst.offset != 0 {
                    self.put(format_args!(" offset:{}", inst.offset));
                }
            }
            "offset0" => self.number(" offset0:", inst.offset as u8),
            "offset1" => self.number(" offset1:", inst.offset1),
            "smem_offset" => self.hex(inst.offset),
            "smem_offset_mod" => {
                self.out.push_str(" offset:");
                self.hex(inst.offset);
            }
            "cpol" if self.arch == Arch::Gfx1201 => {
                self.temporal_hint();
                self.out.push_str(["", " scope:SCOPE_SE", " scope:SCOPE_DEV", " scope:SCOPE_SYS"][self.scope()]);
            }
            "cpol" => self.cache_bits(),
            "format" => self.format(),
            _ => return false,
        }
        true
    }

    fn hex(&mut self, value: i32) {
        if value < 0 {
            self.put(format_args!("-{:#x}", value.unsigned_abs()));
        } else {
            self.put(format_args!("{value:#x}"));
        }
    }

    fn cache_bits(&mut self) {
        let bits = self.inst.cache;
        let cdna3 = self.arch == Arch::Gfx942;
        let scalar = self.inst.encoding == Encoding::Smem;
        if bits & 1 != 0 {
            self.out.push_str(if cdna3 && !scalar { " sc0" } else { " glc" });
        }
        if bits & 2 != 0 {
            self.out.push_str(if cdna3 { " nt" } else { " slc" });
        }
        if bits & 4 != 0 && !self.arch.is_cdna() {
            self.out.push_str(" dlc");
        }
        if bits & 16 != 0 && self.arch.is_cdna() {
            self.out.push_str(if cdna3 { " sc1" } else { " scc" });
        }
    }

    fn scope(&self) -> usize {
        usize::from(self.inst.cache >> 3 & 3)
    }

    /// gfx12's hint of how long data will be wanted.
    fn temporal_hint(&mut self) {
        let hint = self.inst.cache & 7;
        if hint == 0 {
            return;
        }
        self.out.push_str(" th:");
        let scope = self.scope();
        let group = self.inst.group;
        if group.has(flags::ATOMIC) {
            self.out.push_str("TH_ATOMIC_");
            match hint {
                4.. if scope >= 2 => self.out.push_str(if hint & 2 != 0 { "CASCADE_NT" } else { "CASCADE_RT" }),
                4.. => self.put(format_args!("{hint:#x}")),
                3 => self.out.push_str("NT_RETURN"),
                2 => self.out.push_str("NT"),
                _ => self.out.push_str("RETURN"),
            }
            return;
        }
        let store = group.has(flags::STORE);
        if hint == 7 && !store {
            return self.put(format_args!("{hint:#x}"));
        }
        self.out.push_str(if store { "TH_STORE_" } else { "TH_LOAD_" });
        self.out.push_str(match hint {
            1 => "NT",
            2 => "HT",
            3 if scope == 3 => "BYPASS",
            3 if store => "RT_WB",
            3 => "LU",
            4 => "NT_RT",
            5 => "RT_NT",
            6 => "NT_HT",
            _ => "NT_WB",
        });
    }

    fn format(&mut self) {
        let format = usize::from(self.inst.format);
        if format == 1 {
            return;
        }
        if self.arch.is_cdna() {
            let (data, number) = (format & 15, format >> 4 & 7);
            self.out.push_str(" format:[");
            if data != 1 {
                self.put(format_args!("BUF_DATA_FORMAT_{}", DATA[data]));
            }
            if data != 1 && number != 0 {
                self.out.push(',');
            }
            if number != 0 {
                self.put(format_args!("BUF_NUM_FORMAT_{}", NUMBER[number]));
            }
            return self.out.push(']');
        }
        match unified(self.arch).nth(format) {
            Some(name) => self.put(format_args!(" format:[BUF_FMT_{name}]")),
            None => self.put(format_args!(" format:{format}")),
        }
    }
}

const DATA: [&str; 16] = [
    "INVALID",
    "8",
    "16",
    "8_8",
    "32",
    "16_16",
    "10_11_11",
    "11_11_10",
    "10_10_10_2",
    "2_10_10_10",
    "8_8_8_8",
    "32_32",
    "16_16_16_16",
    "32_32_32",
    "32_32_32_32",
    "RESERVED_15",
];

const NUMBER: [&str; 8] = ["UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "RESERVED_6", "FLOAT"];

/// The formats of gfx10 and later are numbered through: for each layout the number types that it comes in.
fn unified(arch: Arch) -> impl Iterator<Item = String> {
    let old = arch == Arch::Gfx1030;
    let layouts = (1..15).flat_map(move |data: usize| {
        let types: &[usize] = match data {
            1 | 3 | 9 | 10 => &[0, 1, 2, 3, 4, 5],
            8 if old => &[0, 1, 2, 3, 4, 5],
            8 => &[0, 1, 4, 5],
            2 | 5 | 12 => &[0, 1, 2, 3, 4, 5, 7],
            6 | 7 if old => &[0, 1, 2, 3, 4, 5, 7],
            6 | 7 => &[7],
            _ => &[4, 5, 7],
        };
        types.iter().map(move |&number| format!("{}_{}", DATA[data], NUMBER[number]))
    });
    std::iter::once("INVALID".to_owned()).chain(layouts)
}
