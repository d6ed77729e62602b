//! One project is built and run, in the folder where CI builds the project from outside: most of it is built once for both.

use crate::support::*;

pub const PROGRAM: &str = include_str!("../../src/new/program.rs");

#[test]
fn a_program_for_cuda_runs_with_no_file_changed() {
    let project = Project::of_candle();
    project.write("src/main.rs", PROGRAM);
    let own = project.read("Cargo.lock");
    let clone = clone();
    // The user's own cache has the kernels; what this project leaves there is removed.
    let run = || {
        let mut call = project.command("rocm", &["run", "--features", "cuda"]);
        call.env_remove("CANDLE_ROCM_CACHE").env("CANDLE_ROCM_PACKAGES", &clone).env("CANDLE_ROCM_PLATFORM", "host");
        if let Some(cache) = std::env::var_os("CANDLE_ROCM_CACHE") {
            call.env("CANDLE_ROCM_CACHE", cache);
        }
        succeeds(call.env("CARGO_TARGET_DIR", clone.join("target/outside")).output())
    };
    let first = run();
    assert!(first.contains("on Cuda { gpu_id: 0 }:") && first.contains("Tensor[[2, 2], f32, cuda:0]"), "{first}");
    let second = run();
    assert!(second.contains("on Cuda { gpu_id: 0 }:") && !second.contains("Compiling"), "{second}");
    assert_eq!(project.read("Cargo.lock"), own);
}
