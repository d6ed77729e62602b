//! `cargo rocm install`: a program of a folder, or one of the registry. Of the latter, the source is copied out of cargo's cache
//! and installed from there, so that its packages are known and replaced like those of any project.

use crate::arguments::Arguments;
use crate::failure::{Failure, Result};
use crate::packages::Packages;
use crate::project::Cargo;
use crate::{build, plainly};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Installs.
pub fn run(arguments: &Arguments, packages: &Packages, cache: &Path) -> Result<i32> {
    for option in ["--git", "--registry", "--index"] {
        if !arguments.values(option).is_empty() {
            return Err(Failure::usage(format!(
                "cargo rocm install takes crates of crates.io and folders: clone or download what {option} names, and install it with --path"
            )));
        }
    }
    if let Some(path) = arguments.values("--path").pop() {
        return install(arguments, packages, cache, Path::new(&path), arguments.rest.clone());
    }
    match arguments.names()[..] {
        // What is wrong with that, cargo says.
        [] => {
            let mut call = Cargo::of(arguments).command();
            call.args(&arguments.front).arg("install").args(&arguments.rest);
            plainly(call)
        }
        [name] => {
            let name = name.to_str().ok_or_else(|| Failure::usage(format!("{} is no crate's name", name.display())))?;
            of_registry(arguments, packages, cache, name)
        }
        _ => Err(Failure::usage("cargo rocm install takes one crate at a time")),
    }
}

/// Without `--locked` cargo would choose versions anew and not see which are replaced.
fn install(
    arguments: &Arguments,
    packages: &Packages,
    cache: &Path,
    folder: &Path,
    mut rest: Vec<OsString>,
) -> Result<i32> {
    let asked = arguments.has(&["--locked", "--frozen"]);
    if !asked {
        rest.insert(0, "--locked".into());
    }
    let line = Arguments { front: arguments.front.clone(), command: "install".into(), rest, packages: None };
    build(&line, packages, cache, Some(&folder.join("Cargo.toml")), asked)
}

/// A crate of crates.io: `NAME` or `NAME@VERSION`.
fn of_registry(arguments: &Arguments, packages: &Packages, cache: &Path, word: &str) -> Result<i32> {
    let (name, version) = match word.split_once('@') {
        Some((name, version)) => (name, Some(version.to_owned())),
        None => (word, arguments.values("--version").pop().map(|version| version.to_string_lossy().into_owned())),
    };
    // As cargo install has it, a version without a sign is exactly this one.
    let requirement = match version {
        Some(version) if version.starts_with(|c: char| c.is_ascii_digit()) => format!("={version}"),
        Some(version) => version,
        None => "*".into(),
    };
    let scratch = cache.join("installs").join(std::process::id().to_string());
    let outcome = copy_source(arguments, name, &requirement, &scratch).and_then(|()| {
        let mut rest = vec!["--path".into(), scratch.clone().into_os_string()];
        let mut words = arguments.rest.iter();
        while let Some(option) = words.next() {
            match option.to_str() {
                Some("--version") => drop(words.next()),
                Some(text) if text == word || text.starts_with("--version=") => {}
                _ => rest.push(option.clone()),
            }
        }
        install(arguments, packages, cache, &scratch, rest)
    });
    let _ = std::fs::remove_dir_all(&scratch);
    outcome
}

/// Puts the source of a crate into a folder, as a project of its own.
fn copy_source(arguments: &Arguments, name: &str, requirement: &str, folder: &Path) -> Result<()> {
    let make = |path: &Path, text: &str| {
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(path, text));
        made.map_err(Failure::file("written", path))
    };
    let _ = std::fs::remove_dir_all(folder);
    let manifest = folder.join("Cargo.toml");
    let value = |text: &str| toml::Value::from(text).to_string();
    make(
        &manifest,
        &format!(
            "[package]\nname = \"find-a-crate\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\n{} = {}\n",
            value(name),
            value(requirement)
        ),
    )?;
    make(&folder.join("src").join("lib.rs"), "")?;
    let mut call = Cargo::of(arguments).quiet("metadata");
    call.args(["--format-version", "1", "--manifest-path"]).arg(&manifest);
    let metadata: serde_json::Value = serde_json::from_str(&Cargo::output(&mut call)?)
        .map_err(|_| Failure::input("cargo metadata prints something that is not JSON; update cargo"))?;
    let mut all = metadata["packages"].as_array().into_iter().flatten();
    let package = all.find(|package| package["name"] == name && !package["source"].is_null());
    let source = package.and_then(|package| Path::new(package["manifest_path"].as_str()?).parent().map(PathBuf::from));
    let source = source.ok_or_else(|| Failure::input(format!("cargo does not say where the source of {name} lies")))?;

    std::fs::remove_dir_all(folder).map_err(Failure::file("removed", folder))?;
    copy(&source, folder).map_err(Failure::file("copied", &source))?;
    if !arguments.has(&["--locked", "--frozen"]) {
        // Cargo chooses versions anew too.
        let _ = std::fs::remove_file(folder.join("Cargo.lock"));
    }
    let mut text = std::fs::read_to_string(&manifest).map_err(Failure::file("read", &manifest))?;
    if !text.lines().any(|line| line.trim() == "[workspace]") {
        text += "\n[workspace]\n";
    }
    std::fs::write(&manifest, text).map_err(Failure::file("written", &manifest))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let (entry, target) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if entry.is_dir() {
            copy(&entry, &target)?;
        } else {
            std::fs::copy(&entry, &target)?;
        }
    }
    Ok(())
}
