//! `selftest`: a whole quick run on the embedded device, one beside an emulated GPU, and faults that are put into cases, each of which
//! the report must name while the cases behind it still run.

use crate::support::*;
use serde_json::Value;
use std::path::Path;

/// Runs the command with a report in a folder of its own.
fn report(platform: &str, arguments: &[&str]) -> (Option<i32>, Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, page) = (folder.path().join("report.json"), folder.path().join("report.md"));
    let mut command = program();
    command.env("CANDLE_ROCM_PLATFORM", platform).arg("selftest").args(arguments);
    command.arg("--json").arg(&file).arg("--markdown").arg(&page);
    let output = command.output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{error}: {errors}"));
    let page = read(&page);
    assert_eq!(page, String::from_utf8_lossy(&output.stdout), "the page is what is printed: {errors}");
    (output.status.code(), serde_json::from_str(&read(&file)).expect("JSON"), page)
}

fn case<'a>(report: &'a Value, name: &str) -> &'a Value {
    let cases = report["cases"].as_array().expect("cases");
    cases.iter().find(|case| case["name"] == name).unwrap_or_else(|| panic!("{name} is not in {report:#}"))
}

#[test]
fn a_quick_run_passes_on_the_embedded_device() {
    let (code, report, page) = report("host", &["--quick"]);
    assert_eq!(code, Some(0), "{page}");
    assert_eq!(report["state"], "complete");
    assert_eq!((&report["summary"]["failed"], &report["summary"]["not run"]), (&0.into(), &0.into()), "{page}");
    assert!(report["summary"]["passed"].as_u64().is_some_and(|passed| passed > 180), "{page}");
    for (name, fact) in [
        ("runtime/graphs::replay_with_changed_inputs", ""),
        ("module/quantized", "origin"),
        ("kernel/unary/uexp", "trials"),
        ("kernel/attention/causal", "trials"),
        ("candle/quantized matmul Q4K", ""),
    ] {
        let case = case(&report, name);
        assert_eq!(case["outcome"], "passed", "{case}");
        assert!(fact.is_empty() || !case["facts"][fact].is_null(), "{case}");
    }
    let cases = report["cases"].as_array().expect("cases");
    let kernels = cases.iter().filter(|case| case["name"].as_str().is_some_and(|name| name.starts_with("kernel/")));
    kernels.for_each(|case| assert_eq!(case["outcome"], "passed", "a comparison compares something: {case}"));
    assert!(cases.iter().any(|case| case["facts"]["us"].as_f64().is_some_and(|time| time > 0.)), "a speed");
    for part in ["## Code objects", "## Speed", "## Machine", "Platform: host", "seed 1"] {
        assert!(page.contains(part), "{part:?} is not in:\n{page}");
    }
    assert!(report["info"]["devices"].is_array() && report["doctor"]["lines"].is_array());
}

/// A wrong result, a failing HIP call, a process that dies of a signal, a case that hangs: all in one run.
#[test]
fn faults_are_found_named_and_survived() {
    let arguments = ["--quick", "--limit", "6", "--seed", "5", "--only", "kernel/fill", "--only", "candle/cat"];
    let faults = [
        "--inject=wrong=kernel/fill/fill",
        "--inject=error=kernel/fill/const_set",
        "--inject=abort=kernel/fill/copy2d",
        "--inject=hang=kernel/fill/concat",
    ];
    let (code, report, page) = report("host", &[&arguments[..], &faults].concat());
    assert_eq!(code, Some(1), "{page}");
    for (name, outcome, words) in [
        ("kernel/fill/fill", "failed", &["elements are wrong", "fill ", "element 0 is", "the oracle has"][..]),
        ("kernel/fill/const_set", "failed", &["hipErrorLaunchFailure", "set "]),
        ("kernel/fill/copy2d", "crashed", &["SIGABRT", "a test ends this process"]),
        ("kernel/fill/concat", "hung", &["within 6 s"]),
    ] {
        let case = case(&report, name);
        assert_eq!(case["outcome"], outcome, "{case}");
        let detail = case["detail"].as_str().expect("a detail");
        words.iter().for_each(|word| assert!(detail.contains(word), "{word:?} is not in {detail}"));
        assert!(page.contains(&format!("## {name} {outcome}")), "{page}");
        let repeat = case["repeat"].as_str().expect("a command");
        let command = "CANDLE_ROCM_PLATFORM=host candle-rocm selftest --device rocm:0 --seed 5 --quick --only";
        assert_eq!(repeat, format!("{command} \"{name}\""));
    }
    assert_eq!(case(&report, "candle/cat")["outcome"], "passed", "what comes behind them runs");
    assert_eq!(report["state"], "complete");
}

#[test]
fn an_emulated_gpu_is_compared_with_the_embedded_device() {
    if let Err(why) = hip_host::Clang::find() {
        assert!(std::env::var_os("CI").is_none(), "{why}");
        return println!("skipped: no clang for emulated GPUs");
    }
    let only = ["--only", "module/fill", "--only", "kernel/fill", "--only", "runtime/copies::rows", "--only", "speed"];
    let (code, report, page) = report("gfx1100", &[&["--quick"][..], &only].concat());
    assert_eq!(code, Some(0), "{page}");
    assert_eq!((&report["device"]["arch"], &report["device"]["emulated"]), (&"gfx1100".into(), &true.into()));
    assert!(report["oracle"].as_str().is_some_and(|oracle| oracle.starts_with("the embedded device")), "{page}");
    assert!(case(&report, "module/fill")["facts"]["vgprs"].as_u64().is_some_and(|vgprs| vgprs > 0), "{page}");
    assert_eq!(case(&report, "kernel/fill/concat")["outcome"], "passed");
    assert_eq!(case(&report, "runtime/copies::rows")["outcome"], "passed");
    assert_eq!(case(&report, "speed")["outcome"], "not here");
}

#[test]
fn bad_arguments_are_sentences() {
    assert_fails(&run(&["selftest", "--device", "cpu"]), 2, &["selftest is for ROCm devices"]);
    assert_fails(&run(&["selftest", "--only", "no such case"]), 2, &["no case matches --only"]);
    assert_fails(&run(&["selftest", "--json", "/no/such/folder/file"]), 3, &["/no/such/folder/file cannot be written"]);
    assert_fails(&run(&["selftest", "--device", "rocm:7"]), 1, &["does not start", "there is no device 7"]);
}
