#![doc = include_str!(concat!(env!("OUT_DIR"), "/src/lib.md"))]
#![allow(clippy::all, rustdoc::all, unused_imports)] // Upstream's code is upstream's; what is ours asks for lints again.
include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));
