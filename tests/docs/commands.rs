//! `sh` blocks: what they tell a reader to type. Commands of the program run here, on the embedded device, with the binary
//! that cargo built for this test, and a `text` block that follows must be what they print. Commands of cargo would build
//! everything once more inside `cargo test`: their packages and targets are looked up instead, and `.ci/run` runs the ones
//! that matter. Blocks marked `amd-gpu` or `network` need what a test machine lacks, `slow` ones take minutes; of those only the
//! program's flags are checked. `exit-1` names the exit code that is expected, `exit-0-1` says that it depends on the machine. A `text` block marked
//! `drawing` is no output.

use crate::pages::{self, Block};
use std::path::Path;
use std::process::{Command, Stdio};

/// Commands that only blocks marked `amd-gpu` or `network` may show, because they ask about or change the machine.
const OUTSIDE: &[&str] = &["apt", "cd", "git", "groups", "ls", "rocminfo", "sudo", "mdbook"];

/// What the program says where a block marked `clang` cannot run. CI has a compiler, and there it must run.
const NO_CLANG: &str = "no clang 19 or newer with the AMDGPU target was found";

/// A line of a block, taken apart.
struct Line<'a> {
    /// The command and what follows it, up to a comment or a pipe; without the `NAME=value` in front.
    words: Vec<&'a str>,
    /// All of it.
    text: &'a str,
}

impl<'a> Line<'a> {
    fn parse(text: &'a str) -> Self {
        let words = text.split_whitespace().take_while(|word| !["#", "|", ">", "&&"].contains(word));
        Self { words: words.skip_while(|word| word.contains('=')).collect(), text }
    }
}

fn lines(block: &Block) -> impl Iterator<Item = Line<'_>> {
    block.text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).map(Line::parse)
}

/// The folder with the program that cargo built for this test.
fn program_folder() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_candle-rocm")).parent().expect("the program is in a folder")
}

/// Runs a line in a shell, in the repository, and returns what it prints on both streams and its exit code.
fn run(line: &str) -> (String, i32) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [program_folder().to_path_buf()].into_iter().chain(std::env::split_paths(&path));
    let output = Command::new("sh")
        .args(["-c", &format!("{{ {line}\n}} 2>&1")])
        .current_dir(pages::root())
        .env("PATH", std::env::join_paths(folders).expect("folders of PATH"))
        .env("CANDLE_ROCM_PLATFORM", "host")
        .stdin(Stdio::null())
        .output()
        .expect("there is a shell");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code().unwrap_or(-1))
}

/// Whether a line of output is what the page shows; `...` stands for anything.
fn fits(shown: &str, printed: &str) -> bool {
    let mut parts = shown.trim().split("...");
    let Some(rest) = printed.trim().strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut rest = Some(rest);
    let mut last = None;
    for part in parts {
        rest = rest.and_then(|rest| rest.find(part).map(|at| &rest[at + part.len()..]));
        last = Some(part);
    }
    match (rest, last) {
        (Some(rest), Some(last)) => rest.is_empty() || last.is_empty() || printed.trim().ends_with(last),
        (Some(rest), None) => rest.is_empty(),
        (None, _) => false,
    }
}

/// All lines that a page shows are printed, in that order; a line of `...` alone says that others lie between.
fn assert_shown(block: &Block, output: &str) {
    let mut printed = output.lines();
    for shown in block.text.lines().filter(|line| !["", "..."].contains(&line.trim())) {
        assert!(printed.any(|line| fits(shown, line)), "{}: {shown:?} is not in the output:\n{output}", block.place);
    }
}

/// Whether a block needs what a test machine lacks.
fn elsewhere(block: &Block) -> bool {
    block.attribute("amd-gpu").is_some() || block.attribute("network").is_some()
}

#[test]
fn commands_of_the_program_run_and_print_what_the_pages_show() {
    let mut ran = 0;
    for page in pages::all() {
        let mut output = None;
        for block in &page.blocks {
            match block.language() {
                "text" if block.attribute("drawing").is_some() => output = None,
                "text" => {
                    let output: String =
                        output.take().unwrap_or_else(|| panic!("{}: output of which command?", block.place));
                    assert_shown(block, &output);
                }
                "sh" if !elsewhere(block) && block.attribute("slow").is_none() => {
                    let expected: Vec<&str> = block.attribute("exit-").unwrap_or("0").split('-').collect();
                    let mut all = String::new();
                    for line in lines(block).filter(|line| line.words.first() == Some(&"candle-rocm")) {
                        let (text, code) = run(line.text);
                        if block.attribute("clang").is_some()
                            && text.contains(NO_CLANG)
                            && std::env::var_os("CI").is_none()
                        {
                            println!("skipped, because there is no clang: {}", line.text);
                            continue;
                        }
                        let fits = expected.contains(&code.to_string().as_str());
                        assert!(fits, "{}: {} ended with {code}:\n{text}", block.place, line.text);
                        all.push_str(&text);
                        ran += 1;
                    }
                    output = Some(all);
                }
                _ => output = None,
            }
        }
    }
    assert!(ran >= 10, "only {ran} commands were found; has the form of the pages changed?");
}

#[test]
fn commands_that_do_not_run_here_name_what_exists() {
    for page in pages::all() {
        for block in page.blocks.iter().filter(|block| block.language() == "sh") {
            let elsewhere = elsewhere(block);
            for line in lines(block) {
                match line.words.first().copied() {
                    Some("candle-rocm") => check_flags(&line, &block.place),
                    Some("cargo") => check_cargo(&line, &block.place),
                    Some(command) => {
                        let known = elsewhere && OUTSIDE.contains(&command);
                        assert!(known, "{}: nothing tests {command:?}; see tests/docs/commands.rs", block.place);
                    }
                    None => panic!("{}: {:?} is no command", block.place, line.text),
                }
            }
        }
    }
}

/// The subcommand exists, and its help has every flag that is shown.
fn check_flags(line: &Line<'_>, place: &str) {
    let subcommand = line.words.get(1).filter(|word| !word.starts_with('-')).copied().unwrap_or_default();
    let (help, code) = run(&format!("candle-rocm {subcommand} --help"));
    assert_eq!(code, 0, "{place}: candle-rocm has no {subcommand:?}: {help}");
    for flag in line.words.iter().filter(|word| word.starts_with("--")) {
        let known = help.split_whitespace().any(|word| word.trim_end_matches([',', ']', '.']) == *flag);
        assert!(known, "{place}: candle-rocm {subcommand} has no {flag}:\n{help}");
    }
}

/// Packages and targets that a cargo command names are in the repository.
fn check_cargo(line: &Line<'_>, place: &str) {
    let subcommand = line.words.get(1).copied().unwrap_or_default();
    let known = ["add", "bench", "build", "clippy", "doc", "fmt", "install", "new", "rocm", "run", "test"];
    assert!(known.contains(&subcommand), "{place}: nothing tests `cargo {subcommand}`");
    let root = pages::root();
    if subcommand == "rocm" {
        let source =
            std::fs::read_to_string(root.join("cargo-rocm/src/arguments.rs")).expect("the commands of cargo rocm");
        let command = line.words[2..].iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
        let known = command == "new" || source.contains(&format!("{command:?}, "));
        assert!(known, "{place}: cargo rocm has no {command:?}");
        return;
    }
    let value = |flag: &str| {
        let at = line.words.iter().position(|word| *word == flag)?;
        Some(*line.words.get(at + 1).unwrap_or_else(|| panic!("{place}: {flag} of what?")))
    };
    let mut folder = root.to_path_buf();
    if let Some(package) = value("-p") {
        let manifest = format!("name = \"{package}\"");
        let workspace: toml::Table =
            std::fs::read_to_string(root.join("Cargo.toml")).expect("a manifest").parse().expect("TOML");
        let members =
            workspace["workspace"]["members"].as_array().expect("members").iter().filter_map(toml::Value::as_str);
        let found = members.chain(["."]).map(|member| root.join(member)).find(|member| {
            std::fs::read_to_string(member.join("Cargo.toml"))
                .is_ok_and(|text| text.lines().any(|line| line == manifest))
        });
        folder = found.unwrap_or_else(|| panic!("{place}: there is no package {package}"));
    }
    for (flag, targets) in [("--test", "tests"), ("--bench", "benches"), ("--example", "examples")] {
        if let Some(name) = value(flag) {
            let (file, group) = (folder.join(targets).join(format!("{name}.rs")), folder.join(targets).join(name));
            assert!(file.exists() || group.is_dir(), "{place}: {} has no {targets}/{name}", folder.display());
        }
    }
    if let Some(path) = value("--manifest-path") {
        assert!(root.join(path).exists(), "{place}: there is no {path}");
    }
}

/// The README's first two commands are what `.ci/run` runs from a fresh clone.
#[test]
fn ci_runs_the_commands_of_the_readme() {
    let script = std::fs::read_to_string(pages::root().join(".ci/run")).expect("the script of CI");
    let readme = pages::all().into_iter().find(|page| page.path == "README.md").expect("a README");
    let block = readme.blocks.iter().find(|block| block.language() == "sh").expect("commands");
    for line in lines(block) {
        let runs = |step: &str| Line::parse(step).words == line.words;
        assert!(script.lines().any(runs), ".ci/run does not run {:?}", line.text);
    }
}

/// Variables of ours that a page names are read somewhere, and every one that is read is explained on a page.
#[test]
fn environment_variables_are_documented() {
    let ours = |text: &str| {
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        let ours = |word: &&str| {
            ["HIP_HOST_", "CANDLE_ROCM_", "CANDLE_UPSTREAM_"]
                .iter()
                .any(|start| word.starts_with(start) && word != start)
        };
        words.filter(ours).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut read = Vec::new();
    for folder in ["src", "hip", "kernels", "rocm", "candle", "cargo-rocm"] {
        sources(&pages::root().join(folder), &mut |text| {
            // As in `variable("NAME")`.
            read.extend(
                text.split('"')
                    .skip(1)
                    .step_by(1)
                    .filter(|part| ours(part).first().is_some_and(|name| name == part))
                    .map(str::to_owned),
            );
        });
    }
    read.sort();
    read.dedup();
    assert!(read.len() > 8, "the variables are not found in the sources: {read:?}");
    let pages = pages::all();
    for name in pages.iter().flat_map(|page| ours(&page.text)) {
        assert!(read.contains(&name), "{name} is on a page, but nothing reads it");
    }
    for name in read {
        assert!(pages.iter().any(|page| ours(&page.text).contains(&name)), "no page explains {name}");
    }
}

/// Calls `with` for every Rust file below a `src` folder, and every build script.
fn sources(folder: &Path, with: &mut impl FnMut(&str)) {
    for entry in std::fs::read_dir(folder).expect("a folder of the repository").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && !["target", "tests", "outside"].contains(&name.to_string_lossy().as_ref()) {
            sources(&path, with);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            with(&std::fs::read_to_string(path).expect("a source can be read"));
        }
    }
}

#[test]
fn three_dots_stand_for_anything() {
    for (shown, printed, fit) in [
        ("a b", "a b", true),
        ("a b", "a b c", false),
        ("a ...", "a b c", true),
        ("a ... c", "a b c", true),
        ("a ... c", "a b d", false),
        ("... c", "a b c", true),
        ("a ... b ... d", "a x b y d", true),
        ("a ... c", "a c d", false),
    ] {
        assert_eq!(fits(shown, printed), fit, "{shown:?} and {printed:?}");
    }
}
