//! The report: what came of each case, kept in files as it comes, so that nothing is lost by whatever happens later. The JSON is for
//! whoever mends what it found, the page for people.

use super::page;
use crate::bench::record::today;
use crate::failure::{Failure, Result};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How far a run has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    Complete,
    Interrupted,
    /// It could not go on, and why.
    Broken(String),
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: String,
    /// `passed`, `failed`, `crashed`, `hung` or `not here`.
    pub outcome: String,
    pub milliseconds: f64,
    /// What is wrong, or why it was not tried.
    pub detail: String,
    /// What is worth keeping of one that passed.
    pub facts: Value,
}

impl Entry {
    pub fn is_bad(&self) -> bool {
        !matches!(self.outcome.as_str(), "passed" | "not here")
    }

    pub fn took_its_process_down(&self) -> bool {
        matches!(self.outcome.as_str(), "crashed" | "hung")
    }

    /// `kernel` of `kernel/unary/uexp`.
    pub fn stage(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}

/// The report while it grows.
pub struct Report {
    /// The command line and the variables that choose the device, to repeat a case; `--only` comes behind them.
    pub repeat: String,
    pub seed: u64,
    pub state: State,
    /// Device, oracle, machine.
    pub about: Value,
    /// The names of all cases.
    pub names: Vec<String>,
    pub entries: Vec<Entry>,
    files: Vec<(PathBuf, Kind)>,
    written: Option<Instant>,
}

#[derive(Clone, Copy)]
enum Kind {
    Json,
    Page,
}

/// Files are written no more often than this, unless something failed.
const PAUSE: Duration = Duration::from_secs(1);

impl Report {
    /// A report for these files. That one cannot be written comes out now and not after minutes.
    pub fn new(json: Option<&Path>, page: Option<&Path>, repeat: String, seed: u64) -> Result<Self> {
        let files = json.map(|path| (path.to_owned(), Kind::Json)).into_iter();
        let files = files.chain(page.map(|path| (path.to_owned(), Kind::Page))).collect();
        let mut report = Self {
            repeat,
            seed,
            state: State::Running,
            about: Value::Null,
            names: Vec::new(),
            entries: Vec::new(),
            files,
            written: None,
        };
        report.write()?;
        Ok(report)
    }

    /// The case that comes next.
    pub fn next_name(&self) -> &str {
        self.names.get(self.entries.len()).map_or("", String::as_str)
    }

    /// Adds what came of the next case.
    pub fn add(&mut self, outcome: &str, milliseconds: f64, detail: &str, facts: Value) -> Result<()> {
        let name = self.next_name().to_owned();
        let entry = Entry { name, outcome: outcome.to_owned(), milliseconds, detail: detail.to_owned(), facts };
        let bad = entry.is_bad();
        self.entries.push(entry);
        match self.written {
            Some(written) if !bad && written.elapsed() < PAUSE => Ok(()),
            _ => self.write(),
        }
    }

    pub fn count(&self, outcome: &str) -> usize {
        self.entries.iter().filter(|entry| entry.outcome == outcome).count()
    }

    pub fn bad(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_bad())
    }

    /// Cases that were not run.
    pub fn left(&self) -> &[String] {
        self.names.get(self.entries.len()..).unwrap_or_default()
    }

    /// How far it came, as a sentence without its end.
    pub fn state_text(&self) -> String {
        match &self.state {
            State::Running => "still running".to_owned(),
            State::Complete => "complete".to_owned(),
            State::Interrupted => "interrupted".to_owned(),
            State::Broken(why) => why.clone(),
        }
    }

    /// Writes the files.
    pub fn write(&mut self) -> Result<()> {
        for (path, kind) in &self.files {
            let text = match kind {
                Kind::Json => format!("{:#}\n", self.to_json()),
                Kind::Page => page::markdown(self),
            };
            replace(path, &text)?;
        }
        self.written = Some(Instant::now());
        Ok(())
    }

    pub fn to_json(&self) -> Value {
        let case = |entry: &Entry| {
            let mut value = json!({
                "name": entry.name,
                "outcome": entry.outcome,
                "ms": (entry.milliseconds * 10.0).round() / 10.0,
            });
            if !entry.detail.is_empty() {
                value["detail"] = entry.detail.clone().into();
            }
            if !entry.facts.is_null() {
                value["facts"] = entry.facts.clone();
            }
            if entry.is_bad() {
                value["repeat"] = self.repeat_of(entry).into();
            }
            value
        };
        json!({
            "report": "candle-rocm selftest",
            "candle_rocm": env!("CARGO_PKG_VERSION"),
            "date": today(),
            "state": self.state_text(),
            "seed": self.seed,
            "summary": {
                "passed": self.count("passed"),
                "failed": self.count("failed"),
                "crashed": self.count("crashed"),
                "hung": self.count("hung"),
                "not here": self.count("not here"),
                "not run": self.left().len(),
            },
            "device": self.about["device"],
            "oracle": self.about["oracle"],
            "cases": self.entries.iter().map(case).collect::<Vec<_>>(),
            "not run": self.left(),
            "info": self.about["info"],
            "doctor": self.about["doctor"],
        })
    }

    /// The command that runs a case alone, with the same operands.
    pub fn repeat_of(&self, entry: &Entry) -> String {
        format!("{} --only \"{}\"", self.repeat, entry.name)
    }
}

/// Writes a file so that a reader finds the old one or the new one and never half of it. What is no plain file (a terminal, a pipe) is
/// written to.
fn replace(path: &Path, text: &str) -> Result<()> {
    let failed = |error: std::io::Error| Failure::input(format!("{} cannot be written: {error}", path.display()));
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return std::fs::write(path, text).map_err(failed);
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".part");
    std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, path)).map_err(failed)
}
