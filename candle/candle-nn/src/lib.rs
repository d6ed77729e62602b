#![doc = include_str!(concat!(env!("OUT_DIR"), "/src/lib.md"))]
#![allow(clippy::all, unused_imports)] // Upstream's code is upstream's; what is ours asks for lints again in its own modules.
include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
