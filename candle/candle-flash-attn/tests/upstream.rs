//! Candle's own tests of flash attention, as its release carries them, on the ROCm device. Nothing of them is stored here.

#![allow(clippy::all)] // Upstream's code is upstream's.

mod flash_attn_tests {
    include!(concat!(env!("OUT_DIR"), "/flash_attn_tests.rs"));
}

#[allow(dead_code)] // Each program uses a part.
#[path = "../../candle-core/tests/suite/mod.rs"]
mod suite;

fn upstreams() -> Vec<String> {
    suite::tests(|name| name.starts_with("flash_attn_tests::"))
}

#[test]
fn all_of_upstreams_tests_are_here() {
    assert_eq!(upstreams().len(), suite::by_release(env!("CARGO_PKG_VERSION"), [3, 3, 6]));
}

#[test]
fn waves_of_64() {
    suite::run_again(&upstreams(), &[("HIP_HOST_WAVE", "64")]);
}
