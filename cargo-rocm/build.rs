//! Packs the grafted packages and everything of this repository that they are built from, so that the installed program needs no
//! clone: their sources and manifests without tests, a manifest of the workspace around them, and the versions of the lock file.

use hip_abi::stable_hash::StableHash;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

#[allow(dead_code)]
#[path = "src/archive.rs"]
mod archive;
#[path = "src/grafted.rs"]
mod grafted;

/// What a package needs only for itself, and what names files that are left behind.
const OF_TESTS: [&str; 4] = ["dev-dependencies", "test", "bench", "example"];
/// Folders of a package that are left behind.
const FOLDERS_OF_TESTS: [&str; 4] = ["tests", "benches", "examples", "target"];

fn main() {
    if let Err(message) = run() {
        println!("cargo::error={}", message.replace('\n', "\ncargo::error="));
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set: cargo runs this program"));
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let root = here.parent().ok_or("the package lies in no folder")?;
    println!("cargo::rerun-if-changed=build.rs");
    for file in ["Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(file).display());
    }

    let mut workspace = read_manifest(&root.join("Cargo.toml"))?;
    let folders = packages(root, &workspace)?;
    let mut files = BTreeMap::new();
    for folder in &folders {
        let from = root.join(folder);
        println!("cargo::rerun-if-changed={}", from.display());
        collect(root, &from, true, &mut files)?;
        let mut manifest = read_manifest(&from.join("Cargo.toml"))?;
        OF_TESTS.iter().for_each(|section| drop(manifest.remove(*section)));
        files.insert(format!("{folder}/Cargo.toml"), text(&manifest)?);
    }
    // A workspace has each name once: the packages of other releases stand outside.
    let of_release = |folder: &String| folder.starts_with("candle/") && folder.split('/').count() > 2;
    let members: Vec<Value> = folders.into_iter().filter(|folder| !of_release(folder)).map(Value::from).collect();
    let inner = workspace.get_mut("workspace").and_then(Value::as_table_mut).ok_or("the root is no workspace")?;
    inner.insert("members".into(), members.into());
    inner.remove("default-members");
    workspace.retain(|section, _| section == "workspace");
    files.insert("Cargo.toml".into(), text(&workspace)?);
    for file in ["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"] {
        files.insert(file.into(), read(&root.join(file))?);
    }

    let files: Vec<_> = files.into_iter().map(|(path, contents)| archive::File { path, contents }).collect();
    let packed = archive::pack(&files);
    println!("cargo::rustc-env=PACKAGES_HASH={:032x}", StableHash::new().bytes(&packed).value());
    let out = PathBuf::from(variable("OUT_DIR")?).join("packages.lzma");
    // A build script is not optimised in a debug build; there, the smaller file is not worth the wait.
    let preset = if variable("PROFILE")? == "release" { 6 } else { 0 };
    let compressed = compress(&packed, preset).map_err(|error| format!("the packages cannot be packed: {error}"))?;
    std::fs::write(&out, compressed).map_err(|error| format!("writing {}: {error}", out.display()))
}

fn compress(bytes: &[u8], preset: u32) -> std::io::Result<Vec<u8>> {
    let options = lzma_rust2::LzmaOptions::with_preset(preset);
    let mut writer = lzma_rust2::LzmaWriter::new_use_header(Vec::new(), &options, Some(bytes.len() as u64))?;
    writer.write_all(bytes)?;
    writer.finish()
}

/// The folders of the grafted packages and of every package that they need, from the root.
fn packages(root: &Path, workspace: &Table) -> Result<BTreeSet<String>, String> {
    let mut open = grafted::folders(root)?;
    if open.is_empty() {
        return Err(format!("{} has no grafted packages: cargo-rocm is built from a clone", root.display()));
    }
    let mut found = BTreeSet::new();
    while let Some(folder) = open.pop() {
        let manifest = read_manifest(&root.join(&folder).join("Cargo.toml"))?;
        if !found.insert(folder.clone()) {
            continue;
        }
        let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(|all| all.values());
        let tables = targets.filter_map(Value::as_table).chain([&manifest]);
        let lists = tables.flat_map(|table| [table.get("dependencies"), table.get("build-dependencies")]);
        for (name, needed) in lists.flatten().filter_map(Value::as_table).flatten() {
            let inherited = needed.get("workspace").and_then(Value::as_bool) == Some(true);
            let (base, needed) = match inherited {
                true => ("", workspace["workspace"].get("dependencies").and_then(|all| all.get(name))),
                false => (folder.as_str(), Some(needed)),
            };
            let path = needed.and_then(|needed| needed.get("path")).and_then(Value::as_str);
            open.extend(path.map(|path| join(base, path)));
        }
    }
    Ok(found)
}

/// `join("candle/candle-core", "../../rocm")` is `rocm`.
fn join(base: &str, path: &str) -> String {
    let mut parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "" | "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// All files below a folder, by their path from the root.
fn collect(root: &Path, folder: &Path, top: bool, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("reading {}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || (top && FOLDERS_OF_TESTS.contains(&name.as_str())) {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, false, files)?;
        } else {
            let inside = path.strip_prefix(root).map_err(|error| error.to_string())?;
            let inside = inside.to_str().ok_or_else(|| format!("{} is not in UTF-8", path.display()))?;
            files.insert(inside.to_owned(), read(&path)?);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("reading {}: {error}", path.display()))
}

fn read_manifest(path: &Path) -> Result<Table, String> {
    let text = String::from_utf8(read(path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    text.parse().map_err(|error| format!("{}: {error}", path.display()))
}

fn text(manifest: &Table) -> Result<Vec<u8>, String> {
    toml::to_string(manifest).map(String::into_bytes).map_err(|error| error.to_string())
}
