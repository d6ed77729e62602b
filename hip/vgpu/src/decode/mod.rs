//! Machine code to [`Inst`]. The tables say which bits are fixed and where the operands lie; this module finds the row and
//! reads it. Any bytes are either an instruction or [`Unknown`]; nothing panics.

mod fields;
mod halves;
mod operand;

use crate::inst::{Inst, Unknown};
use crate::tables::{self, layouts, Group};
use crate::target::Arch;
pub(crate) use halves::decode_halves;
use std::sync::OnceLock;

/// The instruction at the start of `bytes`, for code of that wave size (32 or 64), as LLVM 19 decodes it.
pub fn decode(arch: Arch, wave_size: usize, bytes: &[u8]) -> Result<Inst, Unknown> {
    // On gfx9 an instruction of eight bytes has no literal.
    let longest = if arch.generation() == 9 { 8 } else { 20 };
    let bytes = &bytes[..bytes.len().min(longest)];
    let bits = word(bytes, 0).map(u128::from).unwrap_or(0)
        | word(bytes, 4).map_or(0, |word| u128::from(word) << 32)
        | word(bytes, 8).map_or(0, |word| u128::from(word) << 64);
    let unknown = Unknown { word: bits as u32 };
    if bytes.len() < 4 {
        return Err(unknown);
    }
    let waves = if wave_size == 64 { 2 } else { 1 };
    let bucket = &index(arch)[bits as usize >> SHIFT & (BUCKETS - 1)];
    // A row whose bits agree but whose operands do not ends the search among the rows of its size and order.
    let mut failed = None;
    for &Entry { mask, value, group, row } in bucket {
        if bits as u32 & mask != value || failed == Some((group.size, group.order)) {
            continue;
        }
        let (first, name, op) = group.rows[usize::from(row)];
        let value = u128::from(first) | u128::from(group.high) << 32;
        if usize::from(group.size) > bytes.len() || group.waves & waves == 0 || bits & group.mask != value {
            continue;
        }
        let mnemonic = layouts::NAMES[usize::from(name)];
        let place = fields::Place { arch, wave_size, bytes, bits, group, mnemonic, op };
        match fields::read(&place) {
            Some(inst) => return Ok(inst),
            None => failed = Some((group.size, group.order)),
        }
    }
    Err(unknown)
}

/// The bit pattern of one instruction of a target.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Bytes without a literal.
    pub size: usize,
    /// The bits that are fixed.
    pub mask: u128,
    /// Their values.
    pub value: u128,
}

/// All instructions that the tables have for a target, so that tests can meet each of them.
pub fn patterns(arch: Arch) -> impl Iterator<Item = Pattern> {
    groups(arch).iter().flat_map(|group| {
        group.rows.iter().map(|&(first, ..)| Pattern {
            size: usize::from(group.size),
            mask: group.mask,
            value: u128::from(first) | u128::from(group.high) << 32,
        })
    })
}

/// The little-endian word at a place, where there is one.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// A row of a group.
#[derive(Clone, Copy)]
struct Entry {
    /// The fixed bits of the first word, and their value: most rows are told apart by them.
    mask: u32,
    value: u32,
    group: &'static Group,
    row: u16,
}

/// Rows are found by the upper nine bits of the first word.
const SHIFT: u32 = 23;
const BUCKETS: usize = 1 << (32 - SHIFT);

type Index = Vec<Vec<Entry>>;

fn groups(arch: Arch) -> &'static [Group] {
    match arch {
        Arch::Gfx90a => tables::gfx90a::GROUPS,
        Arch::Gfx942 => tables::gfx942::GROUPS,
        Arch::Gfx1030 => tables::gfx1030::GROUPS,
        Arch::Gfx1100 => tables::gfx1100::GROUPS,
        Arch::Gfx1201 => tables::gfx1201::GROUPS,
    }
}

fn index(arch: Arch) -> &'static Index {
    static INDICES: [OnceLock<Index>; 5] = [const { OnceLock::new() }; 5];
    INDICES[arch as usize].get_or_init(|| build(groups(arch)))
}

/// Longer instructions are tried before shorter ones, then the tables in their order, then what fixes more bits.
fn build(groups: &'static [Group]) -> Index {
    let mut index = vec![Vec::new(); BUCKETS];
    for group in groups {
        let mask = group.mask as u32 >> SHIFT;
        for (row, &(first, ..)) in group.rows.iter().enumerate() {
            for (bucket, entries) in index.iter_mut().enumerate() {
                if bucket as u32 & mask == first >> SHIFT & mask {
                    entries.push(Entry { mask: group.mask as u32, value: first, group, row: row as u16 });
                }
            }
        }
    }
    for entries in &mut index {
        entries.sort_by_key(|entry| {
            let group = entry.group;
            (u8::MAX - group.size, group.order, u128::BITS - group.mask.count_ones())
        });
    }
    index
}
