//! The command line as a whole: help, completions, how loud it is, and no escape codes where nobody looks.

use crate::support::*;

const COMMANDS: &[&str] = &[
    "bench",
    "compile",
    "doctor",
    "embed",
    "generate",
    "info",
    "inspect",
    "launch",
    "selftest",
    "transcribe",
    "tune",
    "completions",
];

#[test]
fn help_names_every_command_and_the_exit_codes() {
    let help = printed(run(&["--help"]));
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command}")), "{command} is not in:\n{help}");
        let help = printed(run(&[command, "--help"]));
        for option in ["--quiet", "--verbose", "Usage: candle-rocm"] {
            assert!(help.contains(option), "{option} is not in the help of {command}:\n{help}");
        }
    }
    assert!(help.contains("130 interrupted"), "{help}");
}

#[test]
fn completions_for_each_shell_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(run(&["completions", shell]));
        for command in COMMANDS {
            assert!(script.contains(command), "{command} is not in the script for {shell}");
        }
    }
    assert_eq!(run(&["completions", "cmd.exe"]).status.code(), Some(2));
}

#[test]
fn bash_takes_its_completions() {
    let script = printed(run(&["completions", "bash"]));
    let checked = std::process::Command::new("bash").args(["-n", "-c", &script]).output().expect("bash");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn pipes_get_no_escape_codes() {
    let file = novelist_file().display().to_string();
    let output = run(&["generate", "--model", &file, "--prompt", "Once", "--max-tokens", "3"]);
    assert!(output.status.success());
    assert!(!output.stdout.contains(&0x1b), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(!output.stderr.contains(&0x1b), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!output.stderr.contains(&b'\r'), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_story_says_its_device_and_how_fast_it_was() {
    let output = run(&[]);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(printed(output).starts_with("It was a dark and stormy night"));
    let lines: Vec<&str> = notes.lines().collect();
    assert!(lines[0].starts_with("device: ") && lines[0].contains("CANDLE_ROCM_PLATFORM"), "{notes}");
    let last = lines.last().expect("a line");
    assert!(last.starts_with("prompt: ") && last.matches("tokens/s").count() == 2, "{notes}");
}

#[test]
fn quiet_and_verbose() {
    let arguments = ["generate", "--prompt", "Once", "--max-tokens", "3", "--device", "cpu"];
    let loud = |flag: &str| -> String {
        let output = run(&[&arguments[..], &[flag]].concat());
        assert!(output.status.success());
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    assert_eq!(loud("--quiet"), "");
    assert!(loud("-v").contains("loaded in"), "{}", loud("-v"));
    assert_eq!(run(&[&arguments[..], &["-q", "-v"]].concat()).status.code(), Some(2));
}
