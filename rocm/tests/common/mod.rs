//! What the tests of this crate share: numbers that can be repeated, a stream, and comparison with a bound.
#![allow(dead_code)] // Each test file is a program of its own and uses a part.

use hip::{Platform, Stream};

/// A small generator, so that a failure can be repeated.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }

    /// From -1 to 1.
    pub fn value(&mut self) -> f64 {
        self.next() as f64 / (1u64 << 30) as f64 - 1.0
    }

    /// That many values, rounded to f32.
    pub fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.value() as f32).collect()
    }
}

/// A stream of the embedded device, or of the platform that `CANDLE_ROCM_PLATFORM` names: `amd` tests AMD's own libraries.
pub fn stream() -> hip::Result<Stream> {
    let name = std::env::var(hip::PLATFORM_VARIABLE).unwrap_or_else(|_| "host".to_owned());
    Platform::named(&name)?.device(0)?.new_stream()
}

/// Compares with a reference; the bound is relative to the reference's own size and at least that much absolutely.
pub fn assert_close(got: &[f32], expected: &[f64], bound: f64, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (f64::from(*got) - expected).abs();
        assert!(error <= bound * expected.abs().max(1.0), "{what}: element {at} is {got}, not {expected}");
    }
}
