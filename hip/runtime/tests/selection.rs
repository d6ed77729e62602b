//! Choosing platforms and devices by the variables that AMD's users know, each in a process of its own because they are read
//! once.

use hip::Platform;
use std::process::Command;

/// What a program sees with these variables set: the wave size of each device, or the error.
fn seen_with(variables: &[(&str, &str)]) -> String {
    let this = std::env::current_exe().expect("a test has a path");
    let mut child = Command::new(this);
    child.args(["--exact", "child_that_looks", "--ignored", "--nocapture"]);
    for name in
        [hip::PLATFORM_VARIABLE, "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_HOST_DEVICES", "HIP_HOST_WAVE"]
    {
        child.env_remove(name);
    }
    let output = child.envs(variables.iter().copied()).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    let line = text.lines().find_map(|line| line.split_once("seen: ")).expect("the child says what it saw");
    line.1.to_owned()
}

#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn child_that_looks() {
    let look = || -> hip::Result<String> {
        let platform = Platform::detect()?;
        let waves: Vec<String> = platform.devices()?.iter().map(|device| device.wave_size().to_string()).collect();
        let beyond = platform.device(platform.device_count()).map(|_| ()).expect_err("there are no more");
        Ok(format!("{} {} | {beyond}", platform.name(), waves.join(",")))
    };
    println!("seen: {}", look().unwrap_or_else(|error| format!("error: {error}")).replace('\n', " "));
}

const HOST: (&str, &str) = (hip::PLATFORM_VARIABLE, "host");
const THREE: (&str, &str) = ("HIP_HOST_DEVICES", "3");
const WAVES: (&str, &str) = ("HIP_HOST_WAVE", "32,64");

#[test]
fn all_devices_are_seen_and_an_ordinal_beyond_them_says_how_many_there_are() {
    let seen = seen_with(&[HOST, THREE, WAVES]);
    assert!(seen.starts_with("host 32,64,32 | there is no device 3"), "{seen}");
    assert!(seen.contains("3 devices, with the ordinals 0 to 2"), "{seen}");
    let seen = seen_with(&[HOST]);
    assert!(seen.contains("one device, with the ordinal 0"), "{seen}");
}

#[test]
fn visible_devices_are_chosen_and_ordered_as_with_amd() {
    let seen = seen_with(&[HOST, THREE, WAVES, ("HIP_VISIBLE_DEVICES", "1")]);
    assert!(seen.starts_with("host 64 |") && seen.contains("HIP_VISIBLE_DEVICES may hide others"), "{seen}");
    let seen = seen_with(&[HOST, THREE, WAVES, ("HIP_VISIBLE_DEVICES", "1,0")]);
    assert!(seen.starts_with("host 64,32 |"), "{seen}");
    // The second variable counts what the first has left.
    let seen = seen_with(&[HOST, THREE, WAVES, ("ROCR_VISIBLE_DEVICES", "1,2"), ("HIP_VISIBLE_DEVICES", "0")]);
    assert!(seen.starts_with("host 64 |"), "{seen}");
}

#[test]
fn no_visible_device_and_bad_values_are_sentences() {
    let seen = seen_with(&[HOST, ("HIP_VISIBLE_DEVICES", "")]);
    assert!(
        seen.starts_with("error:") && seen.contains("hipErrorNoDevice") && seen.contains("HIP_VISIBLE_DEVICES"),
        "{seen}"
    );
    let seen = seen_with(&[(hip::PLATFORM_VARIABLE, "metal")]);
    assert!(seen.starts_with("error:") && seen.contains("metal") && seen.contains("amd, host and cuda"), "{seen}");
    let seen = seen_with(&[HOST, ("HIP_HOST_DEVICES", "many")]);
    assert!(seen.starts_with("error:") && seen.contains("HIP_HOST_DEVICES=many is not a number of devices"), "{seen}");
}

#[test]
fn a_program_whose_log_takes_no_warnings_says_on_standard_error_that_it_runs_on_the_cpu() {
    let run = |variables: &[(&str, &str)]| {
        let mut child = Command::new(std::env::current_exe().expect("a test has a path"));
        child
            .args(["--exact", "child_that_looks_twice", "--ignored", "--nocapture"])
            .env_remove(hip::PLATFORM_VARIABLE);
        // Whatever this machine has, no GPU is seen.
        child.env("HIP_VISIBLE_DEVICES", "").env("ROCR_VISIBLE_DEVICES", "");
        let output = child.envs(variables.iter().copied()).output().expect("it starts");
        String::from_utf8_lossy(&output.stderr).matches("no AMD GPU can be used").count()
    };
    assert_eq!(run(&[]), 1, "once, however often the platform is asked for");
    assert_eq!(run(&[("LISTEN", "warn")]), 0, "a logger listens: it is told");
    assert_eq!(run(&[("LISTEN", "error")]), 1, "a logger that takes errors only does not listen");
    assert_eq!(run(&[HOST]), 0, "the embedded device was asked for");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_that_looks_twice() {
    struct Listener;
    impl log::Log for Listener {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, _: &log::Record<'_>) {}
        fn flush(&self) {}
    }
    if let Ok(level) = std::env::var("LISTEN") {
        log::set_logger(&Listener).expect("the first logger");
        log::set_max_level(level.parse().expect("a level"));
    }
    // Without visible devices the embedded device does not start either; what is tested was said before.
    let _first = Platform::detect();
    let _second = Platform::detect();
}
