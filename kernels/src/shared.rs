//! Constants and layouts that the launch layer shares with the kernels. A file that counts on some lists them with `shared!` under
//! the names that the sources in `hip/` export (`hip/portable/shared.h`); the test below compares the two lists, both ways.

/// Lists constants, and structures with their fields, for the test. The name in quotes is the one in `hip/`.
macro_rules! shared {
    ([$($name:literal: $value:expr),* $(,)?] $($layout:literal: $type:ty { $($field:ident),* $(,)? })*) => {
        #[cfg(test)]
        pub(crate) fn shared() -> Vec<(String, u64)> {
            #[allow(unused_mut)] // where there are no structures
            let mut all: Vec<(String, u64)> = vec![$(($name.to_owned(), $value as u64)),*];
            $(
                all.push(($layout.to_owned(), size_of::<$type>() as u64));
                $(all.push((
                    concat!($layout, ".", stringify!($field)).to_owned(),
                    std::mem::offset_of!($type, $field) as u64,
                ));)*
            )*
            all
        }
    };
}
pub(crate) use shared;

#[cfg(test)]
mod tests {
    use crate::registry::ALL_IDS;
    use object::{Object, ObjectSection};
    use std::collections::BTreeMap;

    /// Bytes of a name and of an entry: a name and eight bytes.
    const NAME: usize = 56;
    const ENTRY: usize = 64;

    /// What the objects for the embedded device export.
    fn exported() -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for id in ALL_IDS {
            let module = id.module();
            let image = module.images.iter().find(|image| image.target == "host").expect("an object for the host");
            let file = object::File::parse(image.bytes).expect("an ELF file");
            let section =
                file.section_by_name("candle_shared").unwrap_or_else(|| panic!("{} exports nothing", module.name));
            let bytes = section.data().expect("the section");
            assert!(!bytes.is_empty() && bytes.len().is_multiple_of(ENTRY), "{}: {} bytes", module.name, bytes.len());
            for entry in bytes.chunks(ENTRY) {
                let name = entry[..NAME].split(|byte| *byte == 0).next().unwrap_or_default();
                let name = String::from_utf8(name.to_vec()).expect("a name");
                let value = u64::from_le_bytes(entry[NAME..].try_into().expect("eight bytes"));
                let before = *all.entry(name.clone()).or_insert(value);
                assert_eq!(before, value, "{name} is another in {} than in a module before", module.name);
            }
        }
        all
    }

    #[test]
    fn kernels_and_launch_layer_agree() {
        let exported = exported();
        let lists = [
            crate::attention::shared(),
            crate::elementwise::shared(),
            crate::fault::shared(),
            crate::fill::shared(),
            crate::gemm::shared(),
            crate::indexing::shared(),
            crate::layout::shared(),
            crate::quantized::shared(),
            crate::random::shared(),
            crate::reduce::shared(),
            crate::resident::shared(),
            crate::rope::shared(),
            crate::rows::shared(),
            crate::sort::shared(),
            crate::window::shared(),
            crate::winograd::shared(),
        ];
        let mut ours = BTreeMap::new();
        for (name, value) in lists.into_iter().flatten() {
            let before = *ours.entry(name.clone()).or_insert(value);
            assert_eq!(before, value, "{name} is listed twice, with different values");
        }
        for (name, value) in &ours {
            assert_eq!(exported.get(name), Some(value), "{name} of hip/ (left) and of src/ (right)");
        }
        let left: Vec<_> = exported.keys().filter(|name| !ours.contains_key(*name)).collect();
        assert!(left.is_empty(), "hip/ exports what no file in src/ lists: {left:?}");
    }
}
