//! Counts as they are kept: a file of JSON with a report for each architecture, one line a case, so that a change shows which
//! cases it moved.

use super::cards::{card, Card};
use super::figures::Figures;
use crate::failure::{Failure, Result};
use serde_json::{json, Value};
use std::path::Path;
use vgpu::Arch;

/// What came of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The case's family.
    pub family: String,
    /// The case's name at full size.
    pub name: String,
    /// Its name at the size at which was counted.
    pub counted: String,
    /// The figures, or why there are none.
    pub outcome: std::result::Result<Figures, String>,
    /// What each kernel did.
    pub kernels: Vec<Value>,
    /// The kernels of the full size, where they are others.
    pub planned: Option<Vec<String>>,
}

/// The counts of an architecture.
#[derive(Debug)]
pub struct Report {
    /// The card whose times are estimated.
    pub card: &'static Card,
    /// Who made the machine code.
    pub compiler: String,
    /// The cases.
    pub entries: Vec<Entry>,
}

impl Entry {
    fn to_json(&self) -> Value {
        let mut value = json!({ "family": self.family, "name": self.name, "counted": self.counted });
        match &self.outcome {
            Ok(figures) => {
                for (key, figure) in figures.to_json() {
                    value[key] = figure;
                }
                value["bound"] = figures.bound().into();
            }
            Err(error) => value["error"] = error.clone().into(),
        }
        if let Some(planned) = &self.planned {
            value["kernels_at_full_size"] = planned.clone().into();
        }
        value["kernels"] = self.kernels.clone().into();
        value
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let names = |list: &Vec<Value>| list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        Some(Self {
            family: text("family")?,
            name: text("name")?,
            counted: text("counted")?,
            outcome: text("error").map_or_else(|| Ok(Figures::from_json(value)), Err),
            kernels: value["kernels"].as_array()?.clone(),
            planned: value["kernels_at_full_size"].as_array().map(names),
        })
    }
}

impl Report {
    /// The entry of that name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    fn from_json(value: &Value) -> Option<Self> {
        let arch = Arch::parse(value["arch"].as_str()?)?;
        Some(Self {
            card: card(arch)?,
            compiler: value["compiler"].as_str()?.to_owned(),
            entries: value["cases"].as_array()?.iter().map(Entry::from_json).collect::<Option<_>>()?,
        })
    }
}

/// As a file.
pub fn to_text(reports: &[Report]) -> String {
    let report = |report: &Report| {
        let cases: Vec<String> = report.entries.iter().map(|entry| format!("    {}", entry.to_json())).collect();
        let (arch, name) = (json!(report.card.arch.name()), json!(report.card.name));
        let compiler = json!(report.compiler);
        let cases = cases.join(",\n");
        format!("  {{\"arch\": {arch}, \"card\": {name}, \"compiler\": {compiler}, \"cases\": [\n{cases}\n  ]}}")
    };
    let reports: Vec<String> = reports.iter().map(report).collect();
    format!("{{\"reports\": [\n{}\n]}}\n", reports.join(",\n"))
}

/// From a file.
pub fn read(path: &Path) -> Result<Vec<Report>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format!("{} cannot be read: {error}", path.display())))?;
    parse(&text).ok_or_else(|| {
        Failure::input(format!("{} is not a file of counts; `candle-rocm inspect --json` writes one", path.display()))
    })
}

fn parse(text: &str) -> Option<Vec<Report>> {
    let value: Value = serde_json::from_str(text).ok()?;
    value["reports"].as_array()?.iter().map(Report::from_json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_back_what_was_written() {
        let mut figures = Figures::default();
        figures.0[0] = Some(0.1234);
        let entry = |name: &str, outcome| Entry {
            family: "cast".into(),
            name: name.into(),
            counted: "less".into(),
            outcome,
            kernels: vec![json!({ "name": "k" })],
            planned: Some(vec!["other".into()]),
        };
        let entries = vec![entry("a", Ok(figures)), entry("b", Err("it failed".into()))];
        let reports = [Report { card: card(Arch::Gfx90a).unwrap(), compiler: "a clang".into(), entries }];
        let again = parse(&to_text(&reports)).unwrap();
        assert_eq!(again[0].entries, reports[0].entries);
        assert_eq!((again[0].card.arch, again[0].compiler.as_str()), (Arch::Gfx90a, "a clang"));
        assert!(parse("{}").is_none() && parse("no").is_none());
    }
}
