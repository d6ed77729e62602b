//! `cargo rocm new NAME`: what `cargo new` makes, with Candle among its dependencies and a program that uses the GPU.

use crate::arguments::Arguments;
use crate::failure::{Failure, Result};
use crate::packages::Packages;
use crate::project::Cargo;
use crate::{child, plainly};
use std::path::Path;

const PROGRAM: &str = include_str!("new/program.rs");

/// Makes the project.
pub fn run(arguments: &Arguments, packages: &Packages) -> Result<i32> {
    let [name] = arguments.names()[..] else {
        return Err(Failure::usage("a new project has one name: cargo rocm new NAME"));
    };
    if arguments.has(&["--lib"]) {
        return Err(Failure::usage(
            "cargo rocm new makes a program; call `cargo new --lib`, and `cargo add candle-core`",
        ));
    }
    let mut call = Cargo::of(arguments).command();
    call.args(&arguments.front).arg("new").args(&arguments.rest);
    let code = plainly(call)?;
    if code != 0 || child::ended().is_some() {
        return Ok(code);
    }
    let folder = Path::new(name);
    let manifest = folder.join("Cargo.toml");
    let mut text = std::fs::read_to_string(&manifest).map_err(Failure::file("read", &manifest))?;
    if !text.contains("\n[dependencies]") {
        text += "\n[dependencies]\n";
    }
    let version = packages.versions("candle-core").last().copied().unwrap_or_default().to_owned();
    let dependencies = format!("\n[dependencies]\ncandle-core = \"{version}\"\n");
    text = text.replacen("\n[dependencies]\n", &dependencies, 1);
    text = format!("{}\n\n[features]\ncuda = [\"candle-core/cuda\"]\n", text.trim_end());
    std::fs::write(&manifest, text).map_err(Failure::file("written", &manifest))?;
    let program = folder.join("src").join("main.rs");
    std::fs::write(&program, PROGRAM).map_err(Failure::file("written", &program))?;
    if !arguments.has(&["-q", "--quiet"]) {
        eprintln!("cargo rocm: in {}, `cargo rocm run --features cuda` runs it on the GPU", folder.display());
    }
    Ok(0)
}
