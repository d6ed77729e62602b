//! What atomics do to a word, for global, flat, buffer and local memory alike.

use crate::exec::float::{bf16_to_f32, double, f16_to_f32, f32_to_bf16, f32_to_f16, single};

/// An atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub(crate) enum Atomic {
    Swap,
    CmpSwap,
    CmpSwapFloat,
    Add,
    Sub,
    RSub,
    SubClamp,
    CondSub,
    MinI,
    MinU,
    MaxI,
    MaxU,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    AddFloat,
    MinFloat,
    MaxFloat,
    PkAddF16,
    PkAddBf16,
    MskOr,
    Wrap,
}

impl Atomic {
    const ALL: [Atomic; 24] = [
        Atomic::Swap,
        Atomic::CmpSwap,
        Atomic::CmpSwapFloat,
        Atomic::Add,
        Atomic::Sub,
        Atomic::RSub,
        Atomic::SubClamp,
        Atomic::CondSub,
        Atomic::MinI,
        Atomic::MinU,
        Atomic::MaxI,
        Atomic::MaxU,
        Atomic::And,
        Atomic::Or,
        Atomic::Xor,
        Atomic::Inc,
        Atomic::Dec,
        Atomic::AddFloat,
        Atomic::MinFloat,
        Atomic::MaxFloat,
        Atomic::PkAddF16,
        Atomic::PkAddBf16,
        Atomic::MskOr,
        Atomic::Wrap,
    ];

    /// The operation of that number.
    pub fn from_number(number: u32) -> Self {
        Self::ALL[number as usize % Self::ALL.len()]
    }

    /// The operation that the end of a mnemonic names, such as `add_u32` or `cmpswap_b64`, and whether it is 64 bits wide.
    pub fn parse(name: &str) -> Option<(Self, bool)> {
        if let Some(base) = name.strip_suffix("_x2") {
            return (base == "fcmpswap").then_some((Atomic::CmpSwapFloat, true));
        }
        let (what, kind) = name.rsplit_once('_')?;
        let wide = kind.ends_with("64");
        let float = kind.starts_with('f');
        Some((
            match (what, kind) {
                ("pk_add", "f16") => Atomic::PkAddF16,
                ("pk_add", "bf16") => Atomic::PkAddBf16,
                ("swap" | "storexchg", _) => Atomic::Swap,
                ("cmpswap" | "cmpstore" | "cmpst", _) if float => Atomic::CmpSwapFloat,
                ("cmpswap" | "cmpstore" | "cmpst", _) => Atomic::CmpSwap,
                ("add", _) if float => Atomic::AddFloat,
                ("add", _) => Atomic::Add,
                ("sub", _) => Atomic::Sub,
                ("rsub", _) => Atomic::RSub,
                ("sub_clamp" | "csub", _) => Atomic::SubClamp,
                ("cond_sub", _) => Atomic::CondSub,
                ("min" | "min_num", _) if float => Atomic::MinFloat,
                ("max" | "max_num", _) if float => Atomic::MaxFloat,
                ("min", _) if kind.starts_with('i') => Atomic::MinI,
                ("max", _) if kind.starts_with('i') => Atomic::MaxI,
                ("min", _) => Atomic::MinU,
                ("max", _) => Atomic::MaxU,
                ("and", _) => Atomic::And,
                ("or", _) => Atomic::Or,
                ("xor", _) => Atomic::Xor,
                ("inc", _) => Atomic::Inc,
                ("dec", _) => Atomic::Dec,
                ("mskor", _) => Atomic::MskOr,
                ("wrap", _) => Atomic::Wrap,
                _ => return None,
            },
            wide,
        ))
    }

    /// Whether it has a second data operand.
    pub fn has_two(self) -> bool {
        matches!(self, Atomic::CmpSwap | Atomic::CmpSwapFloat | Atomic::MskOr | Atomic::Wrap)
    }

    /// The new word. `other` is what a compare-and-swap compares with, the second operand of the others that have one.
    pub fn apply32(self, old: u32, data: u32, other: u32) -> u32 {
        let float = |f: fn(f32, f32) -> f32| f(f32::from_bits(old), f32::from_bits(data)).to_bits();
        let halves = |f: &dyn Fn(u16, u16) -> u16| {
            u32::from(f(old as u16, data as u16)) | u32::from(f((old >> 16) as u16, (data >> 16) as u16)) << 16
        };
        match self {
            Atomic::Swap => data,
            Atomic::CmpSwap => {
                if old == other {
                    data
                } else {
                    old
                }
            }
            Atomic::CmpSwapFloat => {
                if f32::from_bits(old) == f32::from_bits(other) {
                    data
                } else {
                    old
                }
            }
            Atomic::Add => old.wrapping_add(data),
            Atomic::Sub => old.wrapping_sub(data),
            Atomic::RSub => data.wrapping_sub(old),
            Atomic::SubClamp => old.saturating_sub(data),
            Atomic::CondSub => {
                if old >= data {
                    old - data
                } else {
                    old
                }
            }
            Atomic::MinI => (old as i32).min(data as i32) as u32,
            Atomic::MinU => old.min(data),
            Atomic::MaxI => (old as i32).max(data as i32) as u32,
            Atomic::MaxU => old.max(data),
            Atomic::And => old & data,
            Atomic::Or => old | data,
            Atomic::Xor => old ^ data,
            Atomic::Inc => {
                if old >= data {
                    0
                } else {
                    old + 1
                }
            }
            Atomic::Dec => {
                if old == 0 || old > data {
                    data
                } else {
                    old - 1
                }
            }
            Atomic::AddFloat => float(|a, b| a + b),
            Atomic::MinFloat => float(single::min),
            Atomic::MaxFloat => float(single::max),
            Atomic::PkAddF16 => halves(&|a, b| f32_to_f16(f16_to_f32(a) + f16_to_f32(b))),
            Atomic::PkAddBf16 => halves(&|a, b| f32_to_bf16(bf16_to_f32(a) + bf16_to_f32(b))),
            Atomic::MskOr => old & !data | other,
            Atomic::Wrap => {
                if old >= data {
                    old - data
                } else {
                    old.wrapping_add(other)
                }
            }
        }
    }

    /// The same for 64 bits.
    pub fn apply64(self, old: u64, data: u64, other: u64) -> u64 {
        let float = |f: fn(f64, f64) -> f64| f(f64::from_bits(old), f64::from_bits(data)).to_bits();
        match self {
            Atomic::Swap => data,
            Atomic::CmpSwap => {
                if old == other {
                    data
                } else {
                    old
                }
            }
            Atomic::CmpSwapFloat => {
                if f64::from_bits(old) == f64::from_bits(other) {
                    data
                } else {
                    old
                }
            }
            Atomic::Add => old.wrapping_add(data),
            Atomic::Sub => old.wrapping_sub(data),
            Atomic::RSub => data.wrapping_sub(old),
            Atomic::SubClamp => old.saturating_sub(data),
            Atomic::CondSub => {
                if old >= data {
                    old - data
                } else {
                    old
                }
            }
            Atomic::MinI => (old as i64).min(data as i64) as u64,
            Atomic::MinU => old.min(data),
            Atomic::MaxI => (old as i64).max(data as i64) as u64,
            Atomic::MaxU => old.max(data),
            Atomic::And => old & data,
            Atomic::Or => old | data,
            Atomic::Xor => old ^ data,
            Atomic::Inc => {
                if old >= data {
                    0
                } else {
                    old + 1
                }
            }
            Atomic::Dec => {
                if old == 0 || old > data {
                    data
                } else {
                    old - 1
                }
            }
            Atomic::AddFloat => float(|a, b| a + b),
            Atomic::MinFloat => float(double::min),
            Atomic::MaxFloat => float(double::max),
            Atomic::MskOr => old & !data | other,
            Atomic::PkAddF16 | Atomic::PkAddBf16 | Atomic::Wrap => old,
        }
    }
}
