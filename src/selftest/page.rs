//! The report as a page for people, in Markdown: what it ran on, what failed and how to repeat it, and the tables behind.

use super::report::{Entry, Report};
use serde_json::Value;

/// The whole page.
pub fn markdown(report: &Report) -> String {
    let mut lines = vec!["# candle-rocm selftest".to_owned(), String::new()];
    lines.extend(head(report));
    lines.push(String::new());
    lines.extend(stages(report));
    lines.extend(failures(report));
    lines.extend(untried(report));
    lines.extend(modules(report));
    lines.extend(speeds(report));
    lines.extend(machine(report));
    lines.join("\n") + "\n"
}

/// A JSON value as a person reads it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn head(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let device = &report.about["device"];
    if !device.is_null() {
        let emulated = if device["emulated"] == true { ", emulated" } else { "" };
        let (name, arch, platform) = (plain(&device["name"]), plain(&device["arch"]), plain(&device["platform"]));
        lines.push(format!("- device: {name} ({arch}{emulated}), platform {platform}"));
        lines.push(format!("- HIP {}", plain(&report.about["info"]["platform"]["version"])));
        lines.push(format!("- oracle of the kernels: {}", plain(&report.about["oracle"])));
    }
    lines.push(format!(
        "- candle-rocm {}, {}, seed {}",
        env!("CARGO_PKG_VERSION"),
        crate::bench::record::today(),
        report.seed
    ));
    let bad = report.bad().count();
    let passed = report.count("passed");
    lines.push(format!(
        "- {}: {passed} cases passed, **{bad} failed**, {} cannot be tried here, {} were not run",
        report.state_text(),
        report.count("not here"),
        report.left().len()
    ));
    lines
}

fn seconds(entries: &[&Entry]) -> f64 {
    entries.iter().map(|entry| entry.milliseconds).sum::<f64>() / 1e3
}

/// What the first part of a name stands for.
const STAGES: [(&str, &str); 5] = [
    ("runtime", "what the runtime promises"),
    ("module", "code objects of the kernels"),
    ("kernel", "kernels against the oracle"),
    ("candle", "Candle's operations against its CPU backend"),
    ("speed", "how fast a few things are"),
];

fn stages(report: &Report) -> Vec<String> {
    let mut lines =
        vec!["| | passed | failed | not here | seconds |".to_owned(), "| --- | ---: | ---: | ---: | ---: |".to_owned()];
    for (stage, what) in STAGES {
        let all: Vec<&Entry> = report.entries.iter().filter(|entry| entry.stage() == stage).collect();
        if all.is_empty() {
            continue;
        }
        let count = |wanted: fn(&Entry) -> bool| all.iter().filter(|entry| wanted(entry)).count();
        lines.push(format!(
            "| {stage}: {what} | {} | {} | {} | {:.1} |",
            count(|entry| entry.outcome == "passed"),
            count(Entry::is_bad),
            count(|entry| entry.outcome == "not here"),
            seconds(&all)
        ));
    }
    lines
}

fn failures(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in report.bad() {
        lines.extend([
            String::new(),
            format!("## {} {}", entry.name, entry.outcome),
            String::new(),
            "```text".to_owned(),
        ]);
        lines.extend(entry.detail.lines().map(str::to_owned));
        lines.extend(["```".to_owned(), String::new(), format!("To repeat it: `{}`", report.repeat_of(entry))]);
    }
    lines
}

/// The reasons why cases were not tried, each once.
fn untried(report: &Report) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for entry in report.entries.iter().filter(|entry| entry.outcome == "not here") {
        match reasons.iter_mut().find(|(why, _)| *why == entry.detail) {
            Some((_, names)) => names.push(&entry.name),
            None => reasons.push((&entry.detail, vec![&entry.name])),
        }
    }
    let mut lines = Vec::new();
    if !reasons.is_empty() {
        lines.extend([String::new(), "## Not tried here".to_owned(), String::new()]);
    }
    for (why, names) in reasons {
        let which =
            if names.len() > 3 { format!("{} cases, {} the first", names.len(), names[0]) } else { names.join(", ") };
        lines.push(format!("- {which}: {}", why.replace('\n', " ")));
    }
    lines
}

fn modules(report: &Report) -> Vec<String> {
    let all: Vec<&Entry> =
        report.entries.iter().filter(|entry| entry.stage() == "module" && !entry.facts.is_null()).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        "## Code objects".to_owned(),
        String::new(),
        "| module | where from | kernels | KiB | seconds | most VGPRs | spills |".to_owned(),
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |".to_owned(),
    ];
    let number = |value: &Value| value.as_u64().map_or_else(String::new, |number| number.to_string());
    for entry in all {
        let facts = &entry.facts;
        lines.push(format!(
            "| {} | {} | {} | {} | {:.1} | {} | {} |",
            entry.name.trim_start_matches("module/"),
            plain(&facts["origin"]),
            number(&facts["kernels"]),
            facts["bytes"].as_u64().unwrap_or_default().div_ceil(1024),
            entry.milliseconds / 1e3,
            number(&facts["vgprs"]),
            number(&facts["spills"])
        ));
    }
    lines
}

fn speeds(report: &Report) -> Vec<String> {
    let all: Vec<&Entry> =
        report.entries.iter().filter(|entry| entry.stage() == "speed" && !entry.facts.is_null()).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        "## Speed".to_owned(),
        String::new(),
        "| case | microseconds | GB/s | TFLOP/s |".to_owned(),
        "| --- | ---: | ---: | ---: |".to_owned(),
    ];
    for entry in all {
        let number = |key: &str| entry.facts[key].as_f64().unwrap_or_default();
        let micros = number("us");
        let rate = |of: f64, unit: f64| {
            if of > 0.0 && micros > 0.0 {
                format!("{:.3}", of / micros / unit)
            } else {
                String::new()
            }
        };
        lines.push(format!(
            "| {} | {micros:.2} | {} | {} |",
            entry.name.trim_start_matches("speed/"),
            rate(number("bytes"), 1e3),
            rate(number("flops"), 1e6)
        ));
    }
    lines
}

fn machine(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let (info, doctor) = (&report.about["info"], &report.about["doctor"]);
    if info.is_null() {
        return lines;
    }
    lines.extend([String::new(), "## Machine".to_owned(), String::new(), "```text".to_owned()]);
    lines.extend(crate::info::text(info).lines().map(str::to_owned));
    lines.push(String::new());
    for line in doctor["lines"].as_array().into_iter().flatten() {
        let (level, check) = (plain(&line["level"]), plain(&line["check"]));
        lines.push(format!("{level:<8} {check:<12} {}", plain(&line["found"])));
    }
    lines.push("```".to_owned());
    lines
}
