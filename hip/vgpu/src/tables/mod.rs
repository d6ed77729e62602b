//! What the targets' instructions look like: opcodes, field positions, mnemonics. The files beside this one are written by
//! `tools/generate.py`.

/// Makes [`op::Op`] of a list of names.
macro_rules! operations {
    ($($op:ident $name:literal)*) => {
        /// An operation, one name over all targets and encodings.
        #[allow(non_camel_case_types, missing_docs, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Op { $($op),* }

        impl Op {
            /// All operations; the index is the number.
            pub const ALL: &'static [Self] = &[$(Self::$op),*];

            const NAMES: &'static [&'static str] = &[$($name),*];

            /// The name as the newest assembler that knows the operation spells it.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }
    };
}
pub(crate) use operations;

pub mod op;
