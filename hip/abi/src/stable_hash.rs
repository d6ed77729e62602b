//! A hash that never changes: FNV-1a with 128 bits. File names in caches are made of it, so it must be the same with every
//! release of Rust and of every crate, which the standard library does not promise of its own.

const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// The hash of a list of byte strings. Their lengths count, so that neighbours stay apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StableHash(u128);

impl StableHash {
    /// Of nothing yet.
    pub const fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// Bare bytes, as FNV-1a is defined.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME)))
    }

    /// One more string of the list.
    pub fn part(self, part: impl AsRef<[u8]>) -> Self {
        let part = part.as_ref();
        self.bytes(&(part.len() as u64).to_le_bytes()).bytes(part)
    }

    /// The number.
    pub const fn value(self) -> u128 {
        self.0
    }
}

impl Default for StableHash {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fnv_1a() {
        // From the published test vectors.
        assert_eq!(StableHash::new().bytes(b"a").value(), 0xd228cb696f1a8caf78912b704e4a8964);
        assert_eq!(StableHash::new().bytes(b"foobar").value(), 0x343e1662793c64bf6f0d3597ba446f18);
    }

    #[test]
    fn neighbours_stay_apart() {
        let of = |parts: &[&str]| parts.iter().fold(StableHash::new(), |hash, part| hash.part(part));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab"]), of(&["ab", ""]));
    }
}
