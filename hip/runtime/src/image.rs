//! A look at a code object before the runtime gets it: HIP takes an address without a length, so a file cut short would be
//! read past its end. Only extents are checked here; what is in the file is the runtime's business.

use crate::error::{human_bytes, Error, Result};

const ELF: &[u8] = b"\x7fELF";
const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// Refuses an image whose headers promise more bytes than there are.
pub(crate) fn check_extent(image: &[u8]) -> Result<()> {
    let needed = if image.starts_with(ELF) {
        elf_extent(image)
    } else if image.starts_with(BUNDLE) {
        bundle_extent(image)
    } else {
        // A compressed bundle, or text for another compiler: the runtime knows them by more than we do.
        Some(16)
    };
    match needed {
        Some(needed) if needed <= image.len() as u64 => Ok(()),
        needed => Err(Error::refused(format!(
            "the code object is cut short: it has {}, and its headers {}",
            human_bytes(image.len()),
            match needed {
                Some(needed) => format!("speak of {}", human_bytes(usize::try_from(needed).unwrap_or(usize::MAX))),
                None => "are not whole".to_owned(),
            }
        ))),
    }
}

fn number(image: &[u8], at: u64, bytes: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let field = image.get(at..at.checked_add(bytes)?)?;
    Some(field.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// The end of the furthest part that an ELF64 file's program and section headers name.
fn elf_extent(image: &[u8]) -> Option<u64> {
    let field = |at, bytes| number(image, at, bytes);
    let mut extent = 64;
    // Both tables: where they start, how large an entry is, how many there are; then where in an entry the part's place and
    // size stand, and its type, because a part of type 8 in the section table takes no room in the file.
    let tables = [(32, 54, 56, 8, 32, None), (40, 58, 60, 24, 32, Some(4))];
    for (start, entry_bytes, count, place, size, kind) in tables {
        let (start, entry_bytes, count) = (field(start, 8)?, field(entry_bytes, 2)?, field(count, 2)?);
        extent = extent.max(start.checked_add(entry_bytes * count)?);
        for entry in (0..count).map(|index| start + index * entry_bytes) {
            let takes_no_room = match kind {
                Some(kind) => field(entry + kind, 4)? == 8,
                None => false,
            };
            if !takes_no_room {
                extent = extent.max(field(entry + place, 8)?.checked_add(field(entry + size, 8)?)?);
            }
        }
    }
    Some(extent)
}

/// The end of the furthest code object in a bundle.
fn bundle_extent(image: &[u8]) -> Option<u64> {
    let mut at = BUNDLE.len() as u64;
    let count = number(image, at, 8)?;
    at += 8;
    let mut extent = at;
    for _ in 0..count {
        let (offset, bytes, name) = (number(image, at, 8)?, number(image, at + 8, 8)?, number(image, at + 16, 8)?);
        extent = extent.max(offset.checked_add(bytes)?);
        at = at.checked_add(24)?.checked_add(name)?;
    }
    Some(extent.max(at))
}

#[cfg(test)]
mod tests {
    use super::check_extent;

    /// A file with one segment and one section, whose tables stand at its end.
    fn small_elf() -> Vec<u8> {
        let mut file = vec![0u8; 64 + 100 + 56 + 64];
        let mut put =
            |at: usize, value: u64, bytes: usize| file[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        put(0, u64::from_le_bytes(*b"\x7fELF\x02\x01\x01\x00"), 8);
        for (at, value, bytes) in [(32, 164, 8), (40, 220, 8), (54, 56, 2), (56, 1, 2), (58, 64, 2), (60, 1, 2)] {
            put(at, value, bytes);
        }
        for (at, value) in [(164 + 8, 64), (164 + 32, 100), (220 + 24, 64), (220 + 32, 100)] {
            put(at, value, 8);
        }
        file
    }

    #[test]
    fn a_file_cut_short_anywhere_is_refused() {
        let whole = small_elf();
        assert!(check_extent(&whole).is_ok());
        for len in 4..whole.len() {
            assert!(check_extent(&whole[..len]).is_err(), "cut to {len} of {} bytes", whole.len());
        }
        let mut lying = whole.clone();
        lying[220 + 32..220 + 40].fill(0xff);
        assert!(check_extent(&lying).is_err(), "a section that never ends");
    }

    #[test]
    fn a_bundle_cut_short_is_refused() {
        let mut bundle = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
        for value in [1u64, 24 + 8 + 24 + 4, 10, 4] {
            bundle.extend(value.to_le_bytes());
        }
        bundle.extend(b"gfx9");
        bundle.extend([7; 10]);
        assert!(check_extent(&bundle).is_ok());
        for len in 24..bundle.len() {
            assert!(check_extent(&bundle[..len]).is_err(), "cut to {len} bytes");
        }
    }
}
