//! `candle-rocm doctor`: what stands between this machine and its AMD GPU, line by line, with what to do about it. The checks
//! look at a [`Machine`], which is this one or one made up by a test; this file runs them and prints what they say.

mod access;
mod libraries;
mod machine;
mod resources;

use crate::failure::{Code, Failure, Result};
use machine::Machine;
use serde_json::{json, Value};

/// How bad a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// As it should be.
    Ok,
    /// Something is slower or less than it could be, or may surprise.
    Warning,
    /// No AMD GPU can be used until this is mended.
    Problem,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    check: &'static str,
    level: Level,
    found: String,
    /// What to do; empty where nothing needs to be done.
    advice: String,
}

impl Line {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, found: found.into(), advice: String::new() }
    }

    fn warning(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, level: Level::Warning, found: found.into(), advice: advice.into() }
    }

    fn problem(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, level: Level::Problem, found: found.into(), advice: advice.into() }
    }
}

/// All checks, in the order in which a person would mend things.
const CHECKS: &[fn(&Machine) -> Vec<Line>] = &[
    access::driver,
    access::devices,
    access::gpus,
    access::environment,
    libraries::runtime,
    libraries::kernels,
    libraries::blas,
    libraries::convolutions,
    libraries::transforms,
    resources::cache,
    resources::memory,
];

fn examine(machine: &Machine) -> Vec<Line> {
    CHECKS.iter().flat_map(|check| check(machine)).collect()
}

/// Prints the findings. A problem becomes the exit code for a failed device.
pub fn run(as_json: bool) -> Result<()> {
    let lines = examine(&Machine::this());
    crate::terminal::print(&if as_json { json_text(&lines) } else { text(&lines) })?;
    match lines.iter().filter(|line| line.level == Level::Problem).count() {
        0 => Ok(()),
        1 => Err(Failure::new(Code::Device, "there is a problem; until it is solved, kernels run on the CPU")),
        count => Err(Failure::new(
            Code::Device,
            format!("there are {count} problems; until they are solved, kernels run on the CPU"),
        )),
    }
}

fn text(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        text += &format!("{:<8} {:<12} {}\n", line.level.name(), line.check, line.found);
        if !line.advice.is_empty() {
            text += &format!("{:<8} {:<12} -> {}\n", "", "", line.advice);
        }
    }
    text
}

/// The findings on this machine, for a report.
pub fn facts() -> Value {
    as_json(&examine(&Machine::this()))
}

fn json_text(lines: &[Line]) -> String {
    format!("{:#}\n", as_json(lines))
}

fn as_json(lines: &[Line]) -> Value {
    let level = lines.iter().map(|line| line.level).max().unwrap_or(Level::Ok);
    let lines: Vec<_> = lines
        .iter()
        .map(|line| json!({ "check": line.check, "level": line.level.name(), "found": line.found, "advice": line.advice }))
        .collect();
    json!({ "level": level.name(), "lines": lines })
}

#[cfg(test)]
mod tests;
