//! Results as they are kept: a file of JSON with the device, the method and one entry a case. Written by `--json`, by
//! `benches/pytorch.py` and by hand for figures measured elsewhere; read by `--against` and `--read`.

use super::case::Case;
use super::clock::Times;
use crate::failure::{Failure, Result};
use serde_json::{json, Value};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What came of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The case's family.
    pub family: String,
    /// The case's name.
    pub name: String,
    /// Bytes that it must move.
    pub bytes: u64,
    /// Operations that it must do.
    pub flops: u64,
    /// The times, or why there are none.
    pub outcome: std::result::Result<Times, String>,
}

impl Entry {
    /// An entry for a case.
    pub fn new(case: &Case, outcome: candle_core::Result<Times>) -> Self {
        let sentence = |error: candle_core::Error| error.to_string().lines().next().unwrap_or("it failed").to_owned();
        Self {
            family: case.family.to_owned(),
            name: case.name.clone(),
            bytes: case.work.bytes,
            flops: case.work.flops,
            outcome: outcome.map_err(sentence),
        }
    }

    /// Microseconds, if it ran.
    pub fn micros(&self) -> Option<f64> {
        self.outcome.as_ref().ok().map(|times| times.median)
    }

    /// Gigabytes a second.
    pub fn bandwidth(&self) -> Option<f64> {
        self.micros().filter(|_| self.bytes > 0).map(|micros| self.bytes as f64 / micros / 1e3)
    }

    /// Teraflops.
    pub fn rate(&self) -> Option<f64> {
        self.micros().filter(|_| self.flops > 0).map(|micros| self.flops as f64 / micros / 1e6)
    }

    /// Operations for each byte.
    pub fn intensity(&self) -> Option<f64> {
        (self.bytes > 0 && self.flops > 0).then(|| self.flops as f64 / self.bytes as f64)
    }
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Whose results these are, in few words: the head of a column.
    pub title: String,
    /// The device and what drives it.
    pub device: String,
    /// The day.
    pub date: String,
    /// How it was measured.
    pub method: String,
    /// The entries, in the order of the table.
    pub entries: Vec<Entry>,
}

impl Report {
    /// The entry of that name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The bandwidth of a plain copy, by which others are measured.
    pub fn copy_bandwidth(&self) -> Option<f64> {
        self.entries.iter().find(|entry| entry.family == "copy").and_then(Entry::bandwidth)
    }

    /// How many times faster this report is than another in a case: above 1, this one wins.
    pub fn speedup(&self, other: &Report, name: &str) -> Option<f64> {
        Some(other.entry(name)?.micros()? / self.entry(name)?.micros()?)
    }

    /// The geometric mean of the speed-ups, and over how many cases.
    pub fn mean_speedup(&self, other: &Report) -> Option<(f64, usize)> {
        let logs: Vec<f64> =
            self.entries.iter().filter_map(|entry| self.speedup(other, &entry.name)).map(f64::ln).collect();
        (!logs.is_empty()).then(|| ((logs.iter().sum::<f64>() / logs.len() as f64).exp(), logs.len()))
    }

    /// As a file.
    pub fn to_json(&self) -> Value {
        let entry = |entry: &Entry| {
            let mut value = json!({ "family": entry.family, "name": entry.name });
            match &entry.outcome {
                Ok(times) => {
                    value["us"] = times.median.into();
                    value["low"] = times.low.into();
                    value["high"] = times.high.into();
                }
                Err(error) => value["error"] = error.clone().into(),
            }
            value["bytes"] = entry.bytes.into();
            value["flops"] = entry.flops.into();
            value
        };
        json!({
            "title": self.title,
            "device": self.device,
            "date": self.date,
            "method": self.method,
            "results": self.entries.iter().map(entry).collect::<Vec<_>>(),
        })
    }

    /// From a file. `source` names it in errors.
    pub fn from_json(value: &Value, source: &str) -> Result<Self> {
        let refuse = |what: String| {
            Failure::input(format!("{source} is not a file of benchmark results: {what}. `bench --json` writes one"))
        };
        let text = |value: &Value, key: &str| {
            value[key].as_str().map(str::to_owned).ok_or_else(|| refuse(format!("it lacks {key:?}")))
        };
        let results = value["results"].as_array().ok_or_else(|| refuse("it lacks \"results\"".to_owned()))?;
        let entry = |entry: &Value| {
            let name = text(entry, "name")?;
            let outcome = match (entry["us"].as_f64(), entry["error"].as_str()) {
                (Some(median), _) if median > 0. && median.is_finite() => {
                    let or_median = |key: &str| entry[key].as_f64().unwrap_or(median);
                    Ok(Times { median, low: or_median("low"), high: or_median("high") })
                }
                (None, Some(error)) => Err(error.to_owned()),
                _ => return Err(refuse(format!("{name:?} has no positive time \"us\" and no \"error\""))),
            };
            // Figures from elsewhere may have nothing but a time.
            let number = |key: &str| entry[key].as_u64().unwrap_or(0);
            let family = entry["family"].as_str().unwrap_or_default().to_owned();
            Ok(Entry { family, name, bytes: number("bytes"), flops: number("flops"), outcome })
        };
        Ok(Self {
            title: text(value, "title")?,
            device: text(value, "device")?,
            date: text(value, "date")?,
            method: text(value, "method")?,
            entries: results.iter().map(entry).collect::<Result<_>>()?,
        })
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let source = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| Failure::input(format!("{source} cannot be read: {error}")))?;
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|error| Failure::input(format!("{source} is not JSON: {error}")))?;
        Self::from_json(&value, &source)
    }
}

/// Today in UTC, as 2025-01-31.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    date_of_day((seconds / 86_400) as i64)
}

/// The Gregorian date of a day counted from 1970-01-01. Years begin in March here, so that the leap day is their last.
fn date_of_day(day: i64) -> String {
    let shifted = day + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + i64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let times = |median: f64| Ok(Times { median, low: median / 2., high: median * 2. });
        let entry = |family: &str, name: &str, outcome| {
            let (family, name) = (family.to_owned(), name.to_owned());
            Entry { family, name, bytes: 8000, flops: 1000, outcome }
        };
        Report {
            title: "ours".into(),
            device: "a device".into(),
            date: "2026-11-15".into(),
            method: "by hand".into(),
            entries: vec![
                entry("copy", "copy f32 1K", times(4.)),
                entry("reduce", "sum", times(2.)),
                entry("sort", "arg_sort", Err("too long".into())),
            ],
        }
    }

    #[test]
    fn a_report_survives_its_file() {
        let text = report().to_json().to_string();
        let back = Report::from_json(&serde_json::from_str(&text).unwrap(), "memory").unwrap();
        assert_eq!(back, report());
    }

    #[test]
    fn figures() {
        let report = report();
        assert_eq!(report.copy_bandwidth(), Some(2.));
        assert_eq!(report.entries[1].bandwidth(), Some(4.));
        assert_eq!(report.entries[1].rate(), Some(0.0005));
        assert_eq!(report.entries[2].bandwidth(), None);
        let mut other = report.clone();
        other.entries[0].outcome = Ok(Times { median: 16., low: 1., high: 20. });
        assert_eq!(report.speedup(&other, "copy f32 1K"), Some(4.));
        assert_eq!(report.speedup(&other, "arg_sort"), None);
        assert_eq!(report.mean_speedup(&other), Some((2., 2)));
    }

    #[test]
    fn files_that_are_something_else_are_refused() {
        for wrong in [
            json!({}),
            json!({ "title": "", "device": "", "date": "", "method": "", "results": [{ "name": "x" }] }),
            json!({ "title": "", "device": "", "date": "", "method": "", "results": [{ "name": "x", "us": -1 }] }),
            json!({ "title": "", "device": "", "date": "", "method": "", "results": [{ "us": 1 }] }),
        ] {
            let error = Report::from_json(&wrong, "file.json").unwrap_err();
            assert!(error.sentence.contains("file.json is not a file of benchmark results"), "{}", error.sentence);
        }
    }

    #[test]
    fn dates() {
        for (day, date) in
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_772, "2026-11-15"), (-1, "1969-12-31")]
        {
            assert_eq!(date_of_day(day), date);
        }
    }
}
