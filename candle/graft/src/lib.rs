//! Grafting ROCm onto Candle. [`graft`] takes the source folder of a Candle crate and an overlay folder with ROCm's own
//! sources, writes a tree in which the ROCm backend stands in the place of CUDA's, and reports what it did. Nothing of
//! Candle is stored here: the rules find the places by what the code says, in release after release.
//!
//! The device answers to CUDA's names, `Device::Cuda` and all: programs written for CUDA then need no change, and a match
//! over all of Candle's devices stays complete, which a further variant would break. ROCm's names are there as well.

pub mod build_script;
mod error;
mod gate;
mod naming;
mod overlay;
mod patch;
mod report;
mod rules;
mod survey;
mod tree;
pub mod upstream;
mod upstream_fixes;
pub mod waivers;

pub use error::{Error, Mention, Result};
pub use report::{Hook, Mount, Report, Rule, Site};
pub use waivers::Waiver;

use crate::gate::{gate, Gate};
use crate::overlay::Overlay;
use crate::patch::Patch;
use crate::survey::Survey;
use crate::tree::Output;
use crate::waivers::Waivers;
use std::path::Path;

/// The documentation of the crate root, which an included file cannot carry, lies here in the grafted tree.
pub const DOCUMENTATION: &str = "src/lib.md";

/// What to graft, and where.
pub struct Job<'a> {
    /// The folder of the Candle crate.
    pub source: &'a Path,
    /// The version of that crate, which decides the waivers that must be needed.
    pub version: &'a str,
    /// ROCm's own sources, in a folder that mirrors the crate's `src/`.
    pub overlay: &'a Path,
    /// The folder to write the grafted tree into.
    pub output: &'a Path,
    /// Operations of CUDA's that need no hook.
    pub waivers: &'a [Waiver],
}

/// Grafts one crate.
///
/// # Errors
/// Every failure is a sentence: a file that cannot be read or parsed, a waiver that excuses nothing, a hook or a module that
/// the overlay lacks.
pub fn graft(job: &Job) -> Result<Report> {
    let overlay = Overlay::open(job.overlay)?;
    let files = tree::list(job.source)?;
    let survey = Survey::of(job.source, &files)?;
    let mut waivers = Waivers::new(job.waivers, job.version);
    let mut output = Output::new(job.output);
    let mut report = Report::default();
    let mut missing = Vec::new();
    for file in files.iter().filter(|file| !survey.is_implementation(file)) {
        if !file.ends_with(".rs") {
            let path = job.source.join(file);
            let contents = std::fs::read(&path).map_err(Error::file("read", &path))?;
            output.write(file, &contents)?;
            continue;
        }
        let text = tree::read(job.source, file)?;
        let syntax = survey::parse(file, &text)?;
        let mut patch = Patch::new(file, &text);
        if file.starts_with("src/") {
            upstream_fixes::apply(&mut patch, job.version)?;
            let passing = survey.reexports.get(file).map(Vec::as_slice).unwrap_or_default();
            rules::root::route_macros(&mut patch, &syntax.items, passing)?;
        }
        if file == "src/lib.rs" {
            let documentation = rules::root::strip_inner_attributes(&mut patch, &syntax.attrs)?;
            output.write(DOCUMENTATION, documentation.as_bytes())?;
        } else if file.starts_with("tests/") {
            rules::root::strip_lint_levels(&mut patch, &syntax.attrs);
        }
        if !survey.is_stand_in(file) && gate(&syntax.attrs) != Gate::Library {
            let findings = rules::apply(&mut patch, &syntax, &overlay, &mut waivers)?;
            missing.extend(findings.missing);
            report.mounts.extend(findings.mounts);
            report.hooks.extend(findings.hooks);
        }
        let (text, sites) = patch.finish();
        report.sites.extend(sites);
        output.write(file, text.as_bytes())?;
    }
    if !missing.is_empty() {
        return Err(Error::MissingHooks(missing));
    }
    if !waivers.stale().is_empty() {
        return Err(Error::StaleWaivers(waivers.stale()));
    }
    report.waivers = waivers.needed();
    report.files = output.finish()?;
    Ok(report)
}
