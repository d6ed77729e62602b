//! Every kernel, on the embedded device with its memory checked, on waves of 32 and of 64, against plain Rust.
//!
//! A family is a set of kernels that one function tests; it runs once in this process, whichever test asks for it first.
//! The last test runs all of them and then fails for every kernel of the registry that none has launched. A new module
//! adds a file beside this one and a line to `FAMILIES`.

mod bench;
mod blocks;
mod element;
mod layouts;
mod sums;

mod accuracy;
mod affine;
mod attention;
mod binary;
mod cast;
mod conv;
mod fill;
mod gemm;
mod image;
mod indexing;
mod mutations;
mod norms;
mod quantized;
mod random;
mod reduce;
mod rope;
mod softmax;
mod sort;
mod ternary;
mod unary;
mod winograd;

use bench::Bench;
use candle_rocm_kernels::ALL_IDS;
use std::sync::{Mutex, OnceLock, PoisonError};

/// What a family is called, and the function that tests it on one device.
type Family = (&'static str, fn(&Bench));

macro_rules! families {
    ($($name:ident)*) => {
        const FAMILIES: &[Family] = &[$((stringify!($name), $name::family)),*];
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*
    };
}

families! {
    accuracy
    affine
    attention
    binary
    cast
    conv
    fill
    gemm
    image
    indexing
    norms
    quantized
    random
    reduce
    rope
    softmax
    sort
    ternary
    unary
    winograd
}

/// Runs a family unless it has run. A second caller waits for the first.
fn run(name: &str) {
    static DONE: OnceLock<Vec<Mutex<bool>>> = OnceLock::new();
    let done = DONE.get_or_init(|| FAMILIES.iter().map(|_| Mutex::new(false)).collect());
    let position = FAMILIES.iter().position(|(family, _)| *family == name).expect("a family of the table");
    let mut done = done[position].lock().unwrap_or_else(PoisonError::into_inner);
    if !*done {
        // Set before, so that a failure is reported once and not again by every test that needs the family.
        *done = true;
        bench::all().iter().for_each(|bench| FAMILIES[position].1(&bench.apart()));
    }
}

#[test]
fn every_kernel_of_the_registry_is_tested() {
    FAMILIES.iter().for_each(|(name, _)| run(name));
    for bench in bench::all() {
        // A launch counts when it runs; that a kernel was looked up says nothing.
        let launched = |id, kernel: &str| {
            let function =
                bench.kernels.store().function(id, kernel).expect("a loaded module").expect("a kernel of it");
            hip_host::launches(function.handle()).map(|count| count > 0)
        };
        bench.stream.synchronize().expect("all has run");
        let mut idle: Vec<&str> = Vec::new();
        for &id in ALL_IDS {
            // A GPU does not count.
            idle.extend(id.module().kernels.iter().filter(|kernel| launched(id, kernel) == Some(false)));
        }
        let wave = bench.kernels.device().wave_size();
        assert!(idle.is_empty(), "{} kernels were not launched by any test on waves of {wave}: {idle:?}", idle.len());
    }
}
