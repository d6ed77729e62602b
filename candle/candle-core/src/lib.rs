#![doc = include_str!(concat!(env!("OUT_DIR"), "/src/lib.md"))]
#![allow(clippy::all, rustdoc::all, unused_imports)] // Upstream's code is upstream's; what is ours asks for lints again.
include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));

#[cfg(feature = "cutile")]
compile_error!("the feature `cutile` is NVIDIA's tile compiler, which has no AMD target; build without it, or with upstream's Candle on an NVIDIA GPU");

#[cfg(all(feature = "ug", feature = "cuda"))]
compile_error!("the feature `ug` generates code for CUDA and Metal, and has no AMD target; build without it, or with upstream's Candle on an NVIDIA GPU");
