//! How a C library's types become Rust's: `handles!` declares opaque pointers, `integers!` declares enums. Enums are integers with
//! constants, because a library newer than this program may return values that a Rust `enum` must not hold.

/// Declares opaque handles, one type each.
#[macro_export]
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name(pub *mut std::ffi::c_void);

        impl $name {
            /// The null handle.
            pub const NULL: Self = Self(std::ptr::null_mut());

            /// True for the null handle.
            pub fn is_null(self) -> bool {
                self.0.is_null()
            }
        }

        // SAFETY: a handle is an opaque number to us; the libraries let any thread pass it to them, and whoever keeps
        // one decides who may use it when.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )*};
}

/// Declares C enums as transparent integers with named constants.
#[macro_export]
macro_rules! integers {
    ($($(#[$doc:meta])* $name:ident: $repr:ty { $($constant:ident = $value:expr;)* })*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name(pub $repr);

        #[allow(non_upper_case_globals, missing_docs)]
        impl $name {
            $(pub const $constant: Self = Self($value);)*

            /// The constants by name, for messages and for checks against the vendor's headers.
            pub const NAMED: &'static [(&'static str, i64)] = &[$((stringify!($constant), $value as i64)),*];

            /// The library's name of this value.
            pub fn name(self) -> &'static str {
                Self::NAMED.iter().find(|(_, value)| *value == self.0 as i64).map_or("an unlisted value", |(name, _)| name)
            }
        }
    )*};
}
