//! Candle's own tests of its neural-network operations, on the ROCm device; see candle-core's `tests/upstream.rs`.

#![allow(clippy::all)] // Upstream's code is upstream's.

mod ops {
    include!(concat!(env!("OUT_DIR"), "/tests/ops.rs"));
}

#[allow(dead_code)] // Each program uses a part.
#[path = "../../candle-core/tests/suite/mod.rs"]
mod suite;

#[test]
fn all_of_upstreams_device_tests_are_here() {
    assert_eq!(suite::gpu_tests().len(), suite::by_release(env!("CARGO_PKG_VERSION"), [9, 9, 10]));
}

#[test]
fn waves_of_64() {
    suite::run_again_with_waves_of_64();
}
