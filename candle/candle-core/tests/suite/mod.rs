//! What a test program can do with itself: list its tests, and run them again on another embedded device. The device
//! is settled at a process's first HIP call, so another one needs another process. Shared with candle-nn's tests and candle-flash-attn's.

use std::process::Command;

/// Set in the process that runs on another device, so that it does not start a third.
const AGAIN: &str = "CANDLE_ROCM_TESTS_AGAIN";

fn this_program() -> Command {
    Command::new(std::env::current_exe().expect("a test program knows its own path"))
}

/// The names of all tests of this program that are wanted.
pub fn tests(wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let output = this_program().args(["--list", "--format", "terse"]).output().expect("the test program starts");
    let listing = String::from_utf8_lossy(&output.stdout);
    let names = listing.lines().filter_map(|line| line.strip_suffix(": test"));
    names.filter(|name| wanted(name)).map(str::to_string).collect()
}

/// How many tests there are: in 0.9.2, in 0.10.2, and in the release of the repository's own workspace.
pub fn by_release(release: &str, [nine, ten, newest]: [usize; 3]) -> usize {
    match release {
        "0.9.2" => nine,
        "0.10.2" => ten,
        _ => newest,
    }
}

/// Those that upstream made for CUDA: those of `test_device!` end in `_gpu` or `_cuda`, and two are about moving tensors between
/// devices.
pub fn gpu_tests() -> Vec<String> {
    let ends = ["_gpu", "_cuda", "_to_device", "_to_same_device"];
    tests(|name| ends.iter().any(|end| name.ends_with(end)))
}

/// Runs the GPU's tests of this program on an embedded device with waves of 64 lanes.
pub fn run_again_with_waves_of_64() {
    run_again(&gpu_tests(), &[("HIP_HOST_WAVE", "64")]);
}

/// Whether this is the process that runs tests again.
pub fn is_again() -> bool {
    std::env::var_os(AGAIN).is_some()
}

/// Runs tests of this program on an embedded device with these settings.
pub fn run_again(tests: &[String], settings: &[(&str, &str)]) {
    if is_again() {
        return;
    }
    let mut again = this_program();
    again.env(AGAIN, "1").env("CANDLE_ROCM_PLATFORM", "host").envs(settings.iter().copied()).arg("--exact").args(tests);
    let output = again.output().expect("the test program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "with {settings:?}:\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("{} passed", tests.len())), "with {settings:?}:\n{said}");
}
