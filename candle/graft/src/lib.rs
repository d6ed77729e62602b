//! Grafting ROCm onto Candle. [`graft`] takes the source folder of a Candle crate and an overlay folder with ROCm's own
//! sources, writes a tree in which every place that knows CUDA also knows ROCm, and reports what it did. Nothing of
//! Candle is stored here: the rules find the places by what the code says, in release after release, and an audit
//! names whatever they did not understand.

mod audit;
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
pub use report::{Derived, Hook, Kept, Mount, Report, Rule, Site};
pub use waivers::Waiver;

use crate::audit::Waivers;
use crate::gate::{gate, Gate};
use crate::naming::renamed;
use crate::overlay::Overlay;
use crate::patch::Patch;
use crate::survey::Survey;
use crate::tree::Output;
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
    /// Mentions of CUDA that need no sibling.
    pub waivers: &'a [Waiver],
}

/// Grafts one crate.
///
/// # Errors
/// Every failure is a sentence: a file that cannot be read or parsed, a mention of CUDA that no rule and no waiver accounts
/// for, a waiver that excuses nothing, a hook or a module that the overlay lacks.
pub fn graft(job: &Job) -> Result<Report> {
    let overlay = Overlay::open(job.overlay)?;
    let files = tree::list(job.source)?;
    let survey = Survey::of(job.source, &files)?;
    let mut waivers = Waivers::new(job.waivers, job.version);
    let mut output = Output::new(job.output);
    let mut report = Report::default();
    let mut unclaimed = Vec::new();
    for file in &files {
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
        let cuda_only = matches!(gate(&syntax.attrs), Gate::Cuda | Gate::Library);
        if !cuda_only && !survey.is_implementation(file) {
            let findings = rules::apply(&mut patch, &syntax, &overlay, &mut waivers)?;
            let tokens = text.parse().map_err(|error: proc_macro2::LexError| Error::Parse {
                file: file.clone(),
                line: error.span().start().line,
                reason: error.to_string(),
            })?;
            unclaimed.extend(findings.missing);
            unclaimed.extend(audit::unclaimed(&patch, tokens, &mut waivers));
            report.mounts.extend(findings.mounts);
            report.hooks.extend(findings.hooks);
            for module in findings.derived {
                report.derived.extend(derive(job.source, &files, &mut output, file, &module)?);
            }
        }
        let (text, sites, kept) = patch.finish();
        report.sites.extend(sites);
        report.kept.extend(kept);
        output.write(file, text.as_bytes())?;
    }
    if !unclaimed.is_empty() {
        return Err(Error::Unclaimed(unclaimed));
    }
    if !waivers.stale().is_empty() {
        return Err(Error::StaleWaivers(waivers.stale()));
    }
    report.waivers = waivers.needed();
    report.files = output.finish()?;
    Ok(report)
}

/// Writes the renamed copy of a stand-in module, a file or a folder of files.
fn derive(source: &Path, files: &[String], output: &mut Output, file: &str, module: &str) -> Result<Vec<Derived>> {
    let stem = tree::module_stem(file, module);
    let mut derived = Vec::new();
    for from in files {
        let Some(rest) = from.strip_prefix(&stem) else { continue };
        if rest != ".rs" && !rest.starts_with('/') {
            continue;
        }
        let to = renamed(from);
        output.write(&to, renamed(&tree::read(source, from)?).as_bytes())?;
        derived.push(Derived { from: from.clone(), to });
    }
    Ok(derived)
}
