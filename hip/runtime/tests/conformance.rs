//! Runs the conformance suite on a platform: the embedded device with a wave of 32, of 64, and once more in checked mode,
//! where correct programs must stay silent; then the embedded device and two emulated GPUs in one process; or, with
//! `CANDLE_ROCM_PLATFORM=amd`, every GPU of the machine.
//!
//! `cargo test -p hip --test conformance -- graphs` runs the cases whose names contain `graphs`.

use hip::conformance::{run, Case, Done, CASES};
use hip::Platform;
use std::process::{Command, ExitCode};

/// Set in a child that repeats the suite in another mode.
const CHILD: &str = "HIP_CONFORMANCE_CHILD";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        CASES.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let chosen: Vec<&Case> = CASES
        .iter()
        .filter(|case| filters.is_empty() || filters.iter().any(|filter| case.name.contains(filter.as_str())))
        .collect();
    let name = std::env::var(hip::PLATFORM_VARIABLE).unwrap_or_else(|_| "host".to_owned());
    // Two devices, one of each wave size. Nothing else runs yet, so the environment may change.
    for (variable, value) in [("HIP_HOST_DEVICES", "2"), ("HIP_HOST_WAVE", "32,64")] {
        if std::env::var_os(variable).is_none() {
            std::env::set_var(variable, value);
        }
    }
    let failures = match Platform::named(&name) {
        Ok(platform) => on_platform(&platform, &chosen),
        Err(error) => {
            eprintln!("the platform {name} does not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let alone = name != "host" || std::env::var_os(CHILD).is_some();
    let again = alone || again("in checked mode", &filters, &[("HIP_HOST_CHECKED", "1")]) & emulated(&filters);
    if failures == 0 && again {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs the cases on every device. Returns how many failed.
fn on_platform(platform: &Platform, cases: &[&Case]) -> usize {
    let mut failures = 0;
    for ordinal in 0..platform.device_count() {
        let device = match platform.device(ordinal) {
            Ok(device) => device,
            Err(error) => {
                println!("device {ordinal}: {error}");
                failures += 1;
                continue;
            }
        };
        println!(
            "\n{} device {ordinal}: {}, {}, wave {}",
            platform.name(),
            device.name(),
            device.arch(),
            device.wave_size()
        );
        for case in cases {
            let start = std::time::Instant::now();
            let outcome = run(case, &device);
            let milliseconds = start.elapsed().as_millis();
            match outcome {
                Ok(Done::Passed) => println!("test {} ... ok ({milliseconds} ms)", case.name),
                Ok(Done::NotHere(why)) => println!("test {} ... not here: {why}", case.name),
                Err(why) => {
                    failures += 1;
                    println!("test {} ... FAILED\n    {}", case.name, why.replace('\n', "\n    "));
                }
            }
        }
        let live = device.pool_stats().live_bytes;
        if live > 0 {
            failures += 1;
            println!("{live} bytes are still in use after the last case");
        }
    }
    println!("\n{} cases on {} devices, {failures} failed", cases.len(), platform.device_count());
    failures
}

/// Repeats the suite in another mode in a process of its own: it must pass, and must not have anything to report.
fn again(mode: &str, filters: &[&String], variables: &[(&str, &str)]) -> bool {
    let Ok(this) = std::env::current_exe() else { return false };
    let output = Command::new(this).args(filters).env(CHILD, "1").envs(variables.iter().copied()).output();
    match output {
        Ok(output) => {
            let report = String::from_utf8_lossy(&output.stderr);
            print!("\n{mode}:\n{}", String::from_utf8_lossy(&output.stdout));
            let silent = report.lines().all(|line| line.trim().is_empty());
            if !silent {
                println!("correct programs must stay silent {mode}, but it said:\n{report}");
            }
            output.status.success() && silent
        }
        Err(error) => {
            println!("the pass {mode} does not start: {error}");
            false
        }
    }
}

/// The embedded device, an emulated GPU with waves of 32 and one with waves of 64, in one process. Needs a clang.
fn emulated(filters: &[&String]) -> bool {
    match hip_host::Clang::find() {
        Ok(_) => again("with emulated GPUs", filters, &[(hip::PLATFORM_VARIABLE, "host,gfx1100,gfx90a")]),
        Err(why) => {
            println!("\nno emulated GPUs: {why}");
            std::env::var_os("CI").is_none()
        }
    }
}
