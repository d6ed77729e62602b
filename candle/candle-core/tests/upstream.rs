//! Candle's own tests, as its release carries them: the tests that `test_device!` makes for CUDA run on the ROCm device. Nothing
//! of them is stored here.
//! `waves_of_64` runs all of them once more on an embedded device with the other wave size.

#![allow(clippy::all)] // Upstream's code is upstream's.

// Each of upstream's files is a crate root of its own there, and one of them names these from it.
use candle_core::quantized::{self, k_quants};

macro_rules! suites {
    ($($name:ident)*) => {
        $(mod $name {
            include!(concat!(env!("OUT_DIR"), "/tests/", stringify!($name), ".rs"));
        })*
    };
}
suites!(bilinear_tests conv_tests grad_tests layout_tests matmul_tests pool_tests quantized_tests tensor_tests);

#[allow(dead_code)] // Each program uses a part.
mod suite;

#[test]
fn all_of_upstreams_device_tests_are_here() {
    let there_are = suite::by_release(env!("CARGO_PKG_VERSION"), [97, 98, 110]);
    assert_eq!(suite::gpu_tests().len(), there_are);
}

#[test]
fn waves_of_64() {
    suite::run_again_with_waves_of_64();
}
