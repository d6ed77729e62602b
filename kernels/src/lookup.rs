//! Finding a kernel by its name at every launch: a table of hashes, which compares one name where a search among the sorted names of
//! a module would compare ten. Numbers made by the build script would not do away with it: which kernel serves is decided at run time,
//! from a root, dtypes and a variant, so some table has to lead from those to a kernel, and names keep it readable.

/// The positions of names in a list, by their hashes.
#[derive(Debug)]
pub(crate) struct Lookup {
    names: &'static [&'static str],
    /// One more than a position, or zero; more than half of them are zero.
    places: Box<[u32]>,
}

impl Lookup {
    /// A table of the names of a module.
    pub fn of(names: &'static [&'static str]) -> Self {
        let mut places = vec![0; (2 * names.len() + 1).next_power_of_two()].into_boxed_slice();
        for (position, name) in names.iter().enumerate() {
            let mut place = hash(name.as_bytes()) & (places.len() - 1);
            while places[place] != 0 {
                place = (place + 1) & (places.len() - 1);
            }
            places[place] = position as u32 + 1;
        }
        Self { names, places }
    }

    /// The position of a name.
    #[inline]
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        let mut place = hash(name) & (self.places.len() - 1);
        loop {
            let position = (self.places[place] as usize).checked_sub(1)?;
            if self.names[position].as_bytes() == name {
                return Some(position);
            }
            place = (place + 1) & (self.places.len() - 1);
        }
    }
}

/// Eight bytes at a time; the high bits of a product depend on all bits of its factors.
#[inline]
fn hash(name: &[u8]) -> usize {
    let mut state = name.len() as u64;
    for bytes in name.chunks(8) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        state = (state.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (state >> 40) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::ALL_IDS;

    #[test]
    fn every_kernel_is_found_and_nothing_else() {
        for id in ALL_IDS {
            let kernels = id.module().kernels;
            let lookup = Lookup::of(kernels);
            for (position, name) in kernels.iter().enumerate() {
                assert_eq!(lookup.position(name.as_bytes()), Some(position));
                assert_eq!(lookup.position(format!("{name}_").as_bytes()), None);
                assert_eq!(lookup.position(&name.as_bytes()[1..]), id.module().position(&name[1..]));
            }
            assert_eq!(lookup.position(b""), None);
        }
        assert_eq!(Lookup::of(&[]).position(b"badd_f32"), None);
    }
}
