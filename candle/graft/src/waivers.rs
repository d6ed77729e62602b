//! Mentions of CUDA that need no ROCm sibling, each with its reason. The list is short on purpose: a waiver is written for
//! named releases, and in those it must excuse something, or the graft fails and asks for its removal.

/// An excuse for a mention of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiver {
    /// Releases of Candle the waiver was written for.
    pub releases: &'static [&'static str],
    /// The file, relative to the crate.
    pub file: &'static str,
    /// The identifier or literal (as written), `Type::function` for an operation without a hook, or `fn name` for a
    /// whole function.
    pub what: &'static str,
    /// Why no ROCm sibling is needed.
    pub why: &'static str,
}

const UP_TO_0_11_0: &[&str] = &["0.9.2", "0.10.2", "0.11.0"];
const ALL: &[&str] = &["0.9.2", "0.10.2", "0.11.0", "0.11.1"];

const CORE: &[Waiver] = &[
    Waiver {
        releases: UP_TO_0_11_0,
        file: "src/custom_op.rs",
        what: "\"ug ops are only supported on metal/cuda at the moment\"",
        why: "the ug code generator has no ROCm target, so the sentence stays true",
    },
    Waiver {
        releases: UP_TO_0_11_0,
        file: "src/custom_op.rs",
        what: "UgIOp1::cuda_fwd",
        why: "the ug code generator has no ROCm target; the trait's default says so",
    },
    Waiver {
        releases: UP_TO_0_11_0,
        file: "tests/custom_op_tests.rs",
        what: "fn ug_op",
        why: "tests the ug code generator, which has no ROCm target",
    },
    Waiver {
        releases: ALL,
        file: "src/quantized/dummy_metal.rs",
        what: "NotCompiledWithCudaSupport",
        why: "Metal's stand-in borrows CUDA's error in one place; it has nothing to do with ROCm",
    },
];

const NN: &[Waiver] = &[];

/// The waivers for a crate of Candle.
pub fn for_crate(name: &str) -> &'static [Waiver] {
    match name {
        "candle-core" => CORE,
        "candle-nn" => NN,
        _ => &[],
    }
}
