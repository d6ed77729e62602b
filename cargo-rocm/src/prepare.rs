//! From a project to a lock file with the grafted packages in it. Done once; while the project's manifests and lock file stay as
//! they are, the next run finds it and calls cargo at once.

use crate::failure::{Failure, Result};
use crate::lock;
use crate::packages::{Grafted, Packages};
use crate::plan::{decide, moves, Plan};
use crate::project::{Cargo, Project};
use crate::stand_in::{write, State};
use hip_abi::stable_hash::StableHash;
use std::process::Command;

/// The lock file of the project as cargo makes it without us.
const BASE: &str = "base";
/// The one with the grafted packages.
pub const PATCHED: &str = "patched";

/// What to do, and the lock file for it, in the state's folder.
pub fn prepare(cargo: &Cargo, project: &Project, packages: &Packages, state: &State) -> Result<Plan> {
    let own = project.lock()?;
    let key = key(cargo, project, packages, own.as_deref())?;
    if let Some((plan, complete)) = remembered(state, &key) {
        if complete || !cargo.locked {
            return Ok(plan);
        }
    }

    // Somebody may have edited a manifest since the lock file was written, and there may be none.
    match &own {
        Some(own) => state.set_lock(BASE, Some(own))?,
        None if cargo.locked => state.set_lock(BASE, None)?,
        None => {}
    }
    let update = |more: &[&str]| {
        let mut call = cargo.quiet("update");
        // The caller may have asked for that; cargo takes it once.
        call.arg("--workspace").args(more.iter().filter(|option| !(cargo.offline && **option == "--offline")));
        call
    };
    let complete = own.is_some() && state.output(project, BASE, update(&["--locked", "--offline"])).is_ok();
    if !complete {
        if cargo.locked {
            state.output(project, BASE, update(&["--locked"]))?;
        } else if let Err(failure) = state.output(project, BASE, update(&[])) {
            // Without a network, what is in cargo's cache may be enough.
            let again = state.output(project, BASE, update(&["--offline"]));
            again.map_err(|_| failure)?;
        }
    }
    let base = state.lock_file(BASE);
    let locked_now = || {
        let text = std::fs::read_to_string(&base).map_err(Failure::file("read", &base))?;
        let locked = read(&text, &base)?;
        Ok::<_, Failure>((text, locked))
    };
    let (mut text, mut locked) = locked_now()?;
    let moves = if cargo.locked { vec![] } else { moves(&locked, packages, project) };
    let mut notes = Vec::new();
    for moved in &moves {
        let moving = |more: &[&str]| {
            let mut call = cargo.quiet("update");
            call.arg(format!("{}@{}", moved.name, moved.from)).args(["--precise", &moved.to]);
            call.args(more.iter().filter(|_| !cargo.offline));
            call
        };
        let offline = state.output(project, BASE, moving(&["--offline"]));
        // Where a manifest asks for that very release, nothing moves, and the plan's sentence says what is locked.
        if offline.or_else(|_| state.output(project, BASE, moving(&[]))).is_ok() {
            notes.push(format!(
                "{} {} stands in for {}; the project's Cargo.lock stays as it is",
                moved.name, moved.to, moved.from
            ));
        }
    }
    if !moves.is_empty() {
        (text, locked) = locked_now()?;
    }

    let mut plan = decide(&locked, packages, project)?;
    plan.notes.extend(notes);
    if !plan.patches.is_empty() {
        let tested = std::fs::read_to_string(packages.root.join("Cargo.lock")).unwrap_or_default();
        state.set_lock(PATCHED, Some(lock::with_preferences(&text, &tested).as_bytes()))?;
        let patched = |more: &[&str]| with_patches(update(more), &plan.patches);
        // The packages' own dependencies are mostly in cargo's cache; only where they are not is the registry asked.
        if state.output(project, PATCHED, patched(&["--offline"])).is_err() {
            state.output(project, PATCHED, patched(&[]))?;
        }
        check(state, &plan.patches)?;
    }
    // A lock file that must be kept to the letter is asked again.
    remember(state, &key, &plan, complete && moves.is_empty())?;
    Ok(plan)
}

/// The patches, as cargo takes them on its command line.
pub fn settings(patches: &[Grafted]) -> Vec<String> {
    let mut words = Vec::new();
    for patch in patches {
        // A release in the key: a project can have two.
        let key = format!("patch.crates-io.{}-{}", patch.name, patch.version.replace('.', "-"));
        let text = |value: &str| toml::Value::from(value).to_string();
        for setting in [
            format!("{key}.package={}", text(&patch.name)),
            format!("{key}.path={}", text(&patch.path.to_string_lossy())),
        ] {
            words.extend(["--config".to_owned(), setting]);
        }
    }
    words
}

fn with_patches(mut call: Command, patches: &[Grafted]) -> Command {
    call.args(settings(patches));
    call
}

/// Cargo has taken every patch.
fn check(state: &State, patches: &[Grafted]) -> Result<()> {
    let path = state.lock_file(PATCHED);
    let text = std::fs::read_to_string(&path).map_err(Failure::file("read", &path))?;
    let locked = read(&text, &path)?;
    for patch in patches {
        let same = |package: &&lock::Locked| package.name == patch.name && package.version == patch.version;
        if locked.iter().filter(same).any(|package| package.of_registry()) {
            return Err(Failure::input(format!(
                "cargo did not take {} {} from {}: something in the project's manifests or in .cargo/config.toml replaces it",
                patch.name,
                patch.version,
                patch.path.display()
            )));
        }
    }
    Ok(())
}

fn read(text: &str, path: &std::path::Path) -> Result<Vec<lock::Locked>> {
    lock::read(text).map_err(|error| Failure::input(format!("{} is no lock file: {error}", path.display())))
}

/// Everything that the plan depends on.
fn key(cargo: &Cargo, project: &Project, packages: &Packages, own: Option<&[u8]>) -> Result<String> {
    let mut hash = StableHash::new().part(own.unwrap_or_default());
    for manifest in &project.manifests {
        hash = hash.part(manifest.as_os_str().as_encoded_bytes());
        hash = hash.part(std::fs::read(manifest).map_err(Failure::file("read", manifest))?);
    }
    for package in &packages.all {
        hash = hash.part(&package.version).part(package.path.as_os_str().as_encoded_bytes());
        hash = hash.part(std::fs::read(package.path.join("Cargo.toml")).unwrap_or_default());
    }
    for setting in cargo.settings() {
        hash = hash.part(setting.as_encoded_bytes());
    }
    Ok(format!("{:032x}", hash.value()))
}

/// The plan of an earlier run, and whether the project's own lock file was complete.
fn remembered(state: &State, key: &str) -> Option<(Plan, bool)> {
    let text = std::fs::read_to_string(state.file("plan.json")).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let patch = |value: &serde_json::Value| {
        Some(Grafted {
            name: text(&value["name"])?,
            version: text(&value["version"])?,
            path: text(&value["path"])?.into(),
        })
    };
    let patches = value["patches"].as_array()?.iter().map(patch).collect::<Option<Vec<_>>>()?;
    let usable = value["key"] == key && (patches.is_empty() || state.lock_file(PATCHED).is_file());
    let notes = value["notes"].as_array()?.iter().filter_map(text).collect();
    usable.then_some((Plan { patches, notes }, value["complete"].as_bool()?))
}

fn remember(state: &State, key: &str, plan: &Plan, complete: bool) -> Result<()> {
    let patch = |patch: &Grafted| serde_json::json!({ "name": patch.name, "version": patch.version, "path": patch.path.to_string_lossy() });
    let patches: Vec<_> = plan.patches.iter().map(patch).collect();
    let value = serde_json::json!({ "key": key, "complete": complete, "notes": plan.notes, "patches": patches });
    write(&state.file("plan.json"), value.to_string().as_bytes())
}
