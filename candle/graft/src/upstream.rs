//! Finding a release of Candle on this machine. Cargo itself is asked: a small manifest that depends on exactly that
//! release is written into a scratch folder, and `cargo metadata` says where the source lies. What is in cargo's cache
//! is used without the network; what is not is fetched the way cargo fetches everything else.

use crate::error::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names a folder with Candle's sources, for builds that may not ask cargo: either the crate itself, or a folder that
/// holds `candle-core` (or `candle-core-0.11.1`) and its siblings.
pub const SOURCE_VARIABLE: &str = "CANDLE_UPSTREAM_SRC";

/// The folder with the sources of a crate of Candle at exactly this version. `scratch` is a folder to write a manifest into.
pub fn locate(name: &str, version: &str, scratch: &Path) -> Result<PathBuf> {
    match std::env::var_os(SOURCE_VARIABLE) {
        Some(folder) if !folder.is_empty() => locate_in(Path::new(&folder), name, version),
        _ => locate_with_cargo(name, version, scratch),
    }
}

/// The same in a folder that somebody has named: the crate's own, or one that holds it. Cargo's network stays untouched.
pub fn locate_in(folder: &Path, name: &str, version: &str) -> Result<PathBuf> {
    let folder = folder.canonicalize().map_err(|error| {
        Error::Upstream(format!("{SOURCE_VARIABLE} names {}, which cannot be opened: {error}", folder.display()))
    })?;
    let candidates = [folder.join(format!("{name}-{version}")), folder.join(name), folder.clone()];
    let mut seen = Vec::new();
    for candidate in candidates {
        let manifest = candidate.join("Cargo.toml");
        if !manifest.is_file() {
            continue;
        }
        let metadata = metadata(&manifest, &["--no-deps", "--offline"], &folder)?;
        let wanted = packages(&metadata).find(|package| {
            package["name"] == name
                && Path::new(package["manifest_path"].as_str().unwrap_or_default()).parent() == Some(&candidate)
        });
        match wanted {
            Some(package) if package["version"] == version => return Ok(candidate),
            Some(package) => seen.push(format!("{name} {}", package["version"].as_str().unwrap_or("?"))),
            None => {}
        }
    }
    let found = if seen.is_empty() { "nothing of that name".to_string() } else { seen.join(", ") };
    Err(Error::Upstream(format!(
        "{SOURCE_VARIABLE} names {}, where {name} {version} was looked for and {found} was found; point it at a folder with {name} {version}, or unset it to let cargo find the release",
        folder.display()
    )))
}

fn locate_with_cargo(name: &str, version: &str, scratch: &Path) -> Result<PathBuf> {
    let source = scratch.join("src");
    std::fs::create_dir_all(&source).map_err(Error::file("create", &source))?;
    let manifest = scratch.join("Cargo.toml");
    // A workspace of its own: the patches of the workspace around it must not lead back to the patched package.
    let text = format!(
        "[package]\nname = \"find-{name}\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\n{name} = \"={version}\"\n"
    );
    std::fs::write(&manifest, text).map_err(Error::file("write", &manifest))?;
    let library = source.join("lib.rs");
    std::fs::write(&library, "").map_err(Error::file("write", &library))?;

    // Packages for other platforms are not needed to find this one, and may not be in the cache.
    let target = std::env::var("TARGET").ok();
    let mut options: Vec<&str> = target.iter().flat_map(|target| ["--filter-platform", target]).collect();
    options.push("--offline");
    let metadata = match metadata(&manifest, &options, scratch) {
        Ok(metadata) => metadata,
        Err(_) => {
            options.pop();
            metadata(&manifest, &options, scratch)?
        }
    };
    let package = packages(&metadata).find(|package| package["name"] == name && package["version"] == version);
    let Some(package) = package else {
        return Err(Error::Upstream(format!("cargo resolved {name} ={version} without naming it; update cargo")));
    };
    if package["source"].is_null() {
        return Err(Error::Upstream(format!(
            "cargo resolves {name} {version} to {}, not to a registry; move the [patch] out of .cargo/config.toml into Cargo.toml, or name upstream's folder in {SOURCE_VARIABLE}",
            package["manifest_path"]
        )));
    }
    let folder = package["manifest_path"].as_str().and_then(|path| Path::new(path).parent());
    folder.map(Path::to_path_buf).ok_or_else(|| Error::Upstream(format!("cargo names no folder for {name} {version}")))
}

fn packages(metadata: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

fn metadata(manifest: &Path, options: &[&str], folder: &Path) -> Result<serde_json::Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(&cargo);
    command
        .current_dir(folder)
        .args(["metadata", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .args(options);
    let output = command
        .output()
        .map_err(|error| Error::Upstream(format!("cannot run {}: {error}", Path::new(&cargo).display())))?;
    if !output.status.success() {
        return Err(Error::Upstream(format!(
            "cargo could not find Candle's sources (is the network down and the release not in cargo's cache? {SOURCE_VARIABLE} can name a folder instead):\n{}",
            String::from_utf8_lossy(&output.stderr).trim()
        )));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::Upstream(format!("cargo metadata printed something that is not JSON: {error}")))
}
