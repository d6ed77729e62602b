//! `cargo rocm COMMAND`: cargo's command, in anybody's Candle project, with the packages of this repository in the place of
//! Candle's. No file of the project changes.

// Also a build script's and a library's; not all of it is used here.
#[allow(dead_code)]
mod archive;
mod arguments;
#[allow(dead_code)]
#[path = "../../kernels/src/cache.rs"]
mod cache;
mod child;
mod failure;
mod grafted;
mod install;
mod lock;
mod new;
mod packages;
mod plan;
mod prepare;
mod project;
mod stand_in;

use arguments::{Arguments, COMMANDS};
use failure::{Failure, Result};
use packages::Packages;
use plan::Plan;
use project::{Cargo, Project};
use stand_in::State;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::process::Command;

const HELP: &str = "\
Builds a Candle project for AMD GPUs. No file of the project changes.

Usage: cargo rocm [--packages PATH] [OPTIONS OF CARGO] COMMAND [ARGUMENTS]

Commands:
  build, check, run, test, bench, clippy, doc, tree, ...  cargo's command, with all of its arguments
  install CRATE | --path PATH                             installs a program that uses Candle
  new NAME                                                makes a small project that runs

Options:
  --packages PATH  the grafted packages of a clone, and not those inside this program (also CANDLE_ROCM_PACKAGES)
  -h, --help       this text
  -V, --version    the version, and the releases of Candle that it has packages for

For example: cargo rocm run --release --features cuda

Exit codes: cargo's; 2 the command line makes no sense, 3 the project cannot be built this way.";

fn main() {
    child::catch_signals();
    let code = match run() {
        Ok(code) => code,
        Err(failure) => {
            let interrupted = child::ended();
            if !failure.sentence.is_empty() && interrupted.is_none() {
                // Cargo's own words have their own prefix.
                let prefix = if failure.sentence.starts_with("error") { "" } else { "cargo rocm: " };
                eprintln!("{prefix}{failure}");
            }
            interrupted.unwrap_or(failure.code)
        }
    };
    std::process::exit(code);
}

fn run() -> Result<i32> {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Cargo names the subcommand again.
    if words.first().is_some_and(|word| word == "rocm") {
        words.remove(0);
    }
    if matches!(words.first().and_then(|word| word.to_str()), Some("--version" | "-V")) {
        let packages = Packages::find(None, &packages::cache()?)?;
        let releases = packages.versions("candle-core").join(", ");
        println!("cargo-rocm {} (Candle {releases})", env!("CARGO_PKG_VERSION"));
        return Ok(0);
    }
    let Some(mut arguments) = Arguments::parse(words)? else {
        println!("{HELP}");
        return Ok(0);
    };
    let cache = packages::cache()?;
    let packages = Packages::find(arguments.packages.take(), &cache)?;
    match arguments.command.as_str() {
        "new" => new::run(&arguments, &packages),
        "install" => install::run(&arguments, &packages, &cache),
        command if COMMANDS.contains(&command) => {
            let manifest = arguments.values("--manifest-path").pop();
            let locked = arguments.has(&["--locked", "--frozen"]);
            build(&arguments, &packages, &cache, manifest.as_deref().map(Path::new), locked)
        }
        command => Err(Failure::usage(format!(
            "`cargo {command}` has nothing to do with the GPU; call it without rocm. The commands of cargo rocm: new, {}",
            COMMANDS.join(", ")
        ))),
    }
}

/// The caller's command in the project of `manifest`. `locked`: the project's own lock file must be complete.
fn build(
    arguments: &Arguments,
    packages: &Packages,
    cache: &Path,
    manifest: Option<&Path>,
    locked: bool,
) -> Result<i32> {
    let mut cargo = Cargo::of(arguments);
    cargo.locked = locked;
    let project = Project::find(&cargo, manifest)?;
    let state = State::open(&cargo, &project, cache)?;
    let plan = prepare::prepare(&cargo, &project, packages, &state)?;
    if !arguments.has(&["-q", "--quiet"]) {
        say(&plan, packages);
    }
    let mut call = cargo.command();
    call.args(&arguments.front).arg(&arguments.command);
    if plan.patches.is_empty() {
        call.args(&arguments.rest);
        return plainly(call);
    }
    call.args(prepare::settings(&plan.patches)).args(state.setting(prepare::PATCHED)).args(&arguments.rest);
    state.run(&project, prepare::PATCHED, call)
}

/// Cargo without anything of ours.
fn plainly(mut call: Command) -> Result<i32> {
    child::run(&mut call, || ()).map_err(|error| Failure::input(format!("cargo cannot be called: {error}")))
}

/// One line about what is done, and one for each thing that the caller should know.
fn say(plan: &Plan, packages: &Packages) {
    for note in &plan.notes {
        eprintln!("cargo rocm: {note}");
    }
    if !plan.patches.is_empty() {
        let all: Vec<String> = plan.patches.iter().map(|patch| format!("{} {}", patch.name, patch.version)).collect();
        let (green, plain) = if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
            ("\x1b[1;32m", "\x1b[0m")
        } else {
            ("", "")
        };
        eprintln!("{green}    Grafting{plain} {} for AMD GPUs ({})", all.join(", "), packages.root.display());
    }
}
