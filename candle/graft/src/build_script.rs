//! The whole of a package's build script: find upstream's release of the package being built, graft it into `OUT_DIR`, and
//! tell cargo what a change would have to touch to make that necessary again.

use crate::upstream::{self, SOURCE_VARIABLE};
use crate::{graft, waivers, Error, Job, Report, Result};
use std::path::{Path, PathBuf};

/// Runs the build script; an error is shown by cargo as a sentence and stops the build.
pub fn main() {
    let Err(error) = run() else { return };
    for line in error.to_string().lines() {
        println!("cargo::error={line}");
    }
    std::process::exit(1);
}

fn run() -> Result<()> {
    println!("cargo::rerun-if-env-changed={SOURCE_VARIABLE}");
    let name = variable("CARGO_PKG_NAME")?;
    let version = variable("CARGO_PKG_VERSION")?;
    let output = PathBuf::from(variable("OUT_DIR")?);
    release_flags(&version).iter().for_each(|flag| println!("{flag}"));
    let overlay = overlay(&PathBuf::from(variable("CARGO_MANIFEST_DIR")?), &name);

    let source = upstream::locate(&name, &version, &output.join("upstream"))?;
    if std::env::var_os(SOURCE_VARIABLE).is_some_and(|folder| !folder.is_empty()) {
        // Only a folder of somebody's own can change; a release in cargo's cache cannot.
        println!("cargo::rerun-if-changed={}", source.display());
    }
    let waivers = waivers::for_crate(&name);
    let job = Job { source: &source, version: &version, overlay: &overlay, output: &output, waivers };
    let report = graft(&job)?;
    watch(&overlay, &report);
    let log = output.join("graft.txt");
    std::fs::write(&log, report.to_string()).map_err(Error::file("write", &log))
}

/// ROCm's own sources. The package of an older release, `candle/0.10.2/candle-core`, is a manifest, and shares those of
/// `candle/candle-core`.
fn overlay(package: &Path, name: &str) -> PathBuf {
    let own = package.join("rocm");
    if own.is_dir() {
        return own;
    }
    package.join("../..").join(name).join("rocm")
}

/// What tells the backend which release it is built for: `cfg(candle = "0.10")`. Where releases differ, the backend asks, for
/// features too that only some of them have.
pub fn release_flags(release: &str) -> [String; 3] {
    let minor = release.rsplit_once('.').map_or(release, |(minor, _)| minor);
    [
        "cargo::rustc-check-cfg=cfg(candle, values(any()))".to_string(),
        "cargo::rustc-check-cfg=cfg(feature, values(\"cutile\", \"ug\"))".to_string(),
        format!("cargo::rustc-cfg=candle={minor:?}"),
    ]
}

/// What the compiler reads it watches itself; the graft's own inputs are the names of the overlay's modules and hooks.
fn watch(overlay: &Path, report: &Report) {
    for mount in &report.mounts {
        println!("cargo::rerun-if-changed={}", overlay.join(&mount.overlay).display());
    }
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).map_err(|_| {
        Error::Upstream(format!("the environment lacks {name}; this program is a build script and is run by cargo"))
    })
}
