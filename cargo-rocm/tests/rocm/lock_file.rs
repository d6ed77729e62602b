//! The project's own lock file stays as it is: after a command that works, that fails, that is ended by a signal, that is killed.

use crate::support::*;
use std::process::{Child, Stdio};

#[test]
fn the_packages_are_replaced_and_the_lock_file_is_not() {
    let project = Project::of_candle();
    let own = project.read("Cargo.lock");
    let date = std::fs::metadata(project.root().join("Cargo.lock")).unwrap().modified().unwrap();
    for _ in 0..2 {
        let tree = succeeds(project.command("rocm", &["tree", "--features", "cuda"]).output());
        let unpacked = project.cache.join("packages");
        assert!(tree.contains(&format!("candle-core v0.11.1 ({}", unpacked.display())), "{tree}");
        assert!(tree.contains("candle-rocm-kernels v") && !tree.contains("candle-kernels v0.11.1\n"), "{tree}");
        assert_eq!(tree.matches("Grafting candle-core 0.11.1 for AMD GPUs").count(), 1, "{tree}");
        assert!(!tree.contains("patch"), "cargo complains: {tree}");
        assert_eq!(project.read("Cargo.lock"), own);
    }
    let now = std::fs::metadata(project.root().join("Cargo.lock")).unwrap().modified().unwrap();
    assert_eq!(now, date, "a build script that watches the file would run again");
    assert_eq!(std::fs::read_dir(project.root()).unwrap().count(), 3, "something is left in the project's folder");
}

#[test]
fn a_project_without_a_lock_file_gets_none() {
    let project = Project::new(MANIFEST);
    let tree = succeeds(project.command("rocm", &["tree", "--depth", "1"]).output());
    assert!(tree.contains("Grafting candle-core 0.11.1"), "{tree}");
    assert!(!project.root().join("Cargo.lock").exists());
    let error = fails(project.rocm(&["tree", "--locked"]), 101);
    assert!(error.contains("--locked"), "{error}");
    assert!(!project.root().join("Cargo.lock").exists());
}

#[test]
fn what_the_packages_depend_on_is_what_they_were_tested_with() {
    let project = Project::of_candle();
    let tree = succeeds(project.command("rocm", &["tree", "--features", "cuda"]).output());
    let tested: toml::Table = std::fs::read_to_string(clone().join("Cargo.lock")).unwrap().parse().unwrap();
    for name in ["lzma-rust2", "rmpv"] {
        let mut all = tested["package"].as_array().unwrap().iter();
        let version = all.find(|package| package["name"].as_str() == Some(name)).unwrap()["version"].as_str().unwrap();
        assert!(tree.contains(&format!("{name} v{version}")), "not {name} {version}: {tree}");
    }
}

#[test]
fn locked_is_about_the_projects_own_lock_file() {
    let project = Project::of_candle();
    succeeds(project.command("rocm", &["tree", "--locked"]).output());
    let own = project.read("Cargo.lock");
    project.write("Cargo.toml", &MANIFEST.replace("[features]", "candle-nn = \"0.11.1\"\n\n[features]"));
    for _ in 0..2 {
        let error = fails(project.rocm(&["tree", "--locked"]), 101);
        assert!(error.contains("--locked"), "{error}");
        assert_eq!(project.read("Cargo.lock"), own);
    }
    // Without it, cargo may choose what the lock file lacks; it is kept beside, not written down.
    let tree = succeeds(project.command("rocm", &["tree"]).output());
    assert!(tree.contains("Grafting candle-core 0.11.1, candle-nn 0.11.1"), "{tree}");
    let error = fails(project.rocm(&["tree", "--locked"]), 101);
    assert!(error.contains("--locked"), "{error}");
    assert_eq!(project.read("Cargo.lock"), own);
}

#[test]
fn a_member_is_built_with_the_lock_file_of_its_workspace() {
    let project = Project::of_candle();
    let own = project.read("Cargo.lock").replace("name = \"app\"", "name = \"member\"");
    project.write("Cargo.lock", &own);
    project.write("Cargo.toml", "[workspace]\nmembers = [\"inner/member\"]\nresolver = \"2\"\n");
    project.write(
        "inner/member/Cargo.toml",
        &MANIFEST
            .replace("[workspace]\n", "")
            .replace("\"app\"", "\"member\"")
            .replace("[profile.dev]\nopt-level = 1\n", ""),
    );
    project.write("inner/member/src/main.rs", "fn main() {}\n");
    let inside = project
        .command("rocm", &["tree", "--depth", "1"])
        .current_dir(project.root().join("inner/member/src"))
        .output();
    let named = project
        .command("rocm", &["tree", "--depth", "1", "--manifest-path", "project/inner/member/Cargo.toml"])
        .current_dir(project.root().parent().unwrap())
        .output();
    for output in [inside, named] {
        let tree = succeeds(output);
        assert!(tree.contains("member v0.1.0") && tree.contains("Grafting"), "{tree}");
        assert_eq!(project.read("Cargo.lock"), own);
        assert!(!project.root().join("inner/member/Cargo.lock").exists());
    }
}

#[test]
fn several_runs_at_once_leave_it_alone() {
    let project = Project::of_candle();
    let own = project.read("Cargo.lock");
    let start =
        |_| project.command("rocm", &["tree", "--depth", "1"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let all: Vec<Child> = (0..4).map(|number: u32| start(number).unwrap()).collect();
    for child in all {
        let tree = succeeds(child.wait_with_output());
        assert!(tree.contains("candle-core v0.11.1 (/"), "{tree}");
    }
    assert_eq!(project.read("Cargo.lock"), own);
}

#[test]
fn arguments_and_the_exit_code_are_cargos() {
    let project = Project::of_candle();
    let own = project.read("Cargo.lock");
    let cargo = project.cargo_with_tree("for word in \"$@\"; do echo \"<$word>\"; done; exit 42");
    let words = ["--quiet", "tree", "-p", "a b", "--", "--locked", "$HOME"];
    let mut call = project.command("rocm", &words[1..]);
    let said = fails(call.env("CARGO", cargo).output().unwrap(), 42);
    assert!(said.starts_with("<tree>\n<--config>\n<patch.crates-io.candle-core"), "{said}");
    assert!(said.contains("\n<-p>\n<a b>\n<-->\n<--locked>\n<$HOME>\n"), "{said}");
    assert_eq!(project.read("Cargo.lock"), own, "after a command that fails");
}

/// Starts a `tree` that lasts until it is ended, and waits until it runs.
fn lasting(project: &Project) -> Child {
    let runs = project.root().join("runs");
    let cargo = project.cargo_with_tree("echo $$ > runs.part; mv runs.part runs; exec sleep 600");
    let child = project.command("rocm", &["tree"]).env("CARGO", cargo).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(runs);
    child
}

fn send(signal: &str, process: &str) {
    succeeds(std::process::Command::new("kill").args([signal, process]).output());
}

#[test]
fn a_signal_ends_cargo_and_the_lock_file_comes_back() {
    let project = Project::of_candle();
    let own = project.read("Cargo.lock");
    for (signal, code) in [("-TERM", 143), ("-INT", 130)] {
        let mut child = lasting(&project);
        send(signal, &child.id().to_string());
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(project.read("Cargo.lock"), own, "after {signal}");
        let left = std::process::Command::new("kill").args(["-0", project.read("runs").trim()]).output().unwrap();
        assert!(!left.status.success(), "cargo lives on");
        std::fs::remove_file(project.root().join("runs")).unwrap();
    }
}

#[test]
fn what_was_killed_is_repaired_by_the_next_run() {
    let project = Project::of_candle();
    let own = project.read("Cargo.lock");
    let mut child = lasting(&project);
    let exchanged = project.read("Cargo.lock") != own;
    send("-KILL", &child.id().to_string());
    child.wait().unwrap();
    send("-KILL", project.read("runs").trim());
    assert_eq!(project.read("Cargo.lock") != own, exchanged, "nobody is left to put it back");
    let said = succeeds(project.command("rocm", &["tree", "--depth", "1"]).output());
    assert_eq!(said.contains("an earlier run was killed"), exchanged, "{said}");
    assert_eq!(project.read("Cargo.lock"), own);
}

#[test]
fn a_lock_file_that_was_written_after_the_kill_is_kept() {
    let project = Project::of_candle();
    let mut child = lasting(&project);
    send("-KILL", &child.id().to_string());
    child.wait().unwrap();
    send("-KILL", project.read("runs").trim());
    // As after `git checkout` of another state.
    let newer = Project::of_candle().read("Cargo.lock").replace("# This file", "# Newer: this file");
    project.write("Cargo.lock", &newer);
    succeeds(project.command("rocm", &["tree", "--depth", "1"]).output());
    assert_eq!(project.read("Cargo.lock"), newer);
}
