//! What a test program can do with itself: list its tests for the GPU, and run them again on another embedded device. The device
//! is settled at a process's first HIP call, so another one needs another process. Shared with candle-nn's tests.

use std::process::Command;

/// Set in the process that runs on waves of 64, so that it does not start a third.
const AGAIN: &str = "CANDLE_ROCM_TESTS_AGAIN";

fn this_program() -> Command {
    Command::new(std::env::current_exe().expect("a test program knows its own path"))
}

/// The names of all tests of this program that upstream made for CUDA: those of `test_device!` end in `_gpu` or `_cuda`, and two
/// are about moving tensors between devices.
pub fn gpu_tests() -> Vec<String> {
    let output = this_program().args(["--list", "--format", "terse"]).output().expect("the test program starts");
    let listing = String::from_utf8_lossy(&output.stdout);
    let names = listing.lines().filter_map(|line| line.strip_suffix(": test"));
    let ends = ["_gpu", "_cuda", "_to_device", "_to_same_device"];
    names.filter(|name| ends.iter().any(|end| name.ends_with(end))).map(str::to_string).collect()
}

/// Runs the GPU's tests of this program on an embedded device with waves of 64 lanes.
pub fn run_again_with_waves_of_64() {
    if std::env::var_os(AGAIN).is_some() {
        return;
    }
    let mut again = this_program();
    let tests = gpu_tests();
    again.env(AGAIN, "1").env("CANDLE_ROCM_PLATFORM", "host").env("HIP_HOST_WAVE", "64").arg("--exact").args(&tests);
    let output = again.output().expect("the test program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "on waves of 64:\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("{} passed", tests.len())), "on waves of 64:\n{said}");
}
