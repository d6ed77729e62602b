//! How a process ends: leaks are reported in checked mode, and work still queued neither holds it up nor crashes it. Each case is a
//! process of its own: this test program again, told by a variable which case to play.

mod common;
use common::{hip, Buffer, Module, Stream, SLEEPER};
use std::process::{Command, Output};

const CASE: &str = "HIP_HOST_TEST_CASE";

/// Plays a case in a process of its own, if this is not that process already.
fn elsewhere(case: &str, checked: bool, play: impl FnOnce()) -> Output {
    if std::env::var_os(CASE).is_some_and(|wanted| wanted == case) {
        play();
        std::process::exit(7);
    }
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command
        .args(["--exact", case, "--nocapture"])
        .env(CASE, case)
        .env("HIP_HOST_CHECKED", if checked { "1" } else { "0" });
    command.output().expect("this program runs")
}

#[test]
fn leaks_are_reported() {
    let output = elsewhere("leaks_are_reported", true, || {
        std::mem::forget(Buffer::<u8>::new(1000));
        std::mem::forget(Buffer::<u8>::new(234));
        drop(Buffer::<u8>::new(50));
    });
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(text.contains("2 allocations (1234 bytes) were never freed"), "{text}");
    assert!(text.contains("1000 bytes of device memory (device 0)"), "{text}");
}

#[test]
fn a_tidy_program_ends_silently() {
    let output = elsewhere("a_tidy_program_ends_silently", true, || {
        let (module, out) = (Module::new(SLEEPER), Buffer::from(&[0i32]));
        module.run("sleep_then_write", 1, 1, &[(&out).into(), 1.into(), 5.into()]);
        assert_eq!(out.read(), [5]);
    });
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn queued_work_does_not_hold_up_the_end() {
    let start = std::time::Instant::now();
    let output = elsewhere("queued_work_does_not_hold_up_the_end", false, || {
        let (module, stream, out) = (Module::new(SLEEPER), Stream::new(), Buffer::from(&[0i32]));
        for _ in 0..100 {
            module.launch("sleep_then_write", 64, 32, stream.0, &[(&out).into(), 1000.into(), 5.into()]);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::mem::forget((module, stream, out));
    });
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(start.elapsed().as_secs() < 60, "the queue alone takes longer than that");
}

#[test]
fn a_bad_variable_is_an_error_with_a_sentence() {
    let output = elsewhere("a_bad_variable_is_an_error_with_a_sentence", false, || {
        std::env::set_var("HIP_HOST_WAVE", "48");
        let mut count = 9;
        let status = common::status!(hipGetDeviceCount(&mut count));
        assert_eq!((status, count), (hip_abi::hipError_t::hipErrorNotInitialized, 0));
        let why = hip_host::options().expect_err("48 is no wave size");
        assert!(why.contains("HIP_HOST_WAVE"), "{why}");
    });
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_fault_outside_of_kernels_still_ends_the_process() {
    let output = elsewhere("a_fault_outside_of_kernels_still_ends_the_process", false, || {
        let (module, out) = (Module::new(SLEEPER), Buffer::from(&[0i32]));
        module.run("sleep_then_write", 1, 1, &[(&out).into(), 1.into(), 5.into()]);
        hip!(hipDeviceSynchronize());
        // SAFETY: it is not; that is the point.
        unsafe { std::ptr::without_provenance_mut::<u8>(16).write_volatile(1) };
    });
    assert_eq!(output.status.code(), None, "ended by a signal: {:?}", output.status);
}
