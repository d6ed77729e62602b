//! Reports as tables: text for a terminal, and Markdown for `docs/`. Both are written from the same rows.

use super::record::{Entry, Report};

/// Above so many operations a byte, arithmetic is the limit and not memory.
const COMPUTE_BOUND: f64 = 20.;

/// A case's line, as text.
struct Row {
    family: String,
    cells: Vec<String>,
}

/// Microseconds in three digits and the unit a person would choose.
pub fn duration(micros: f64) -> String {
    match micros {
        t if t < 1e3 => format!("{} us", digits(t)),
        t if t < 1e6 => format!("{} ms", digits(t / 1e3)),
        t => format!("{} s", digits(t / 1e6)),
    }
}

fn digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn rate(entry: &Entry) -> String {
    let one_token = entry.family == "model" && entry.name.contains("decode");
    if let (true, Some(micros)) = (one_token, entry.micros()) {
        return format!("{} tokens/s", digits(1e6 / micros));
    }
    match (entry.intensity(), entry.rate(), entry.bandwidth()) {
        (Some(intensity), Some(rate), _) if intensity > COMPUTE_BOUND && rate >= 1. => {
            format!("{} TFLOP/s", digits(rate))
        }
        (Some(intensity), Some(rate), _) if intensity > COMPUTE_BOUND => format!("{} GFLOP/s", digits(rate * 1e3)),
        (_, _, Some(bandwidth)) => format!("{} GB/s", digits(bandwidth)),
        _ => String::new(),
    }
}

/// The share of a copy's bandwidth, where memory is the limit.
pub fn share(entry: &Entry, report: &Report) -> Option<f64> {
    let on_device = !matches!(entry.family.as_str(), "transfer" | "launch");
    let memory_bound = entry.intensity().is_none_or(|intensity| intensity <= COMPUTE_BOUND);
    let copy = report.copy_bandwidth()?;
    entry.bandwidth().filter(|_| on_device && memory_bound).map(|bandwidth| bandwidth / copy)
}

fn head(others: &[Report]) -> Vec<String> {
    let mut head = vec!["case".to_owned(), "time".into(), "rate".into(), "of copy".into()];
    head.extend(others.iter().map(|other| other.title.clone()));
    head
}

fn rows(report: &Report, others: &[Report]) -> Vec<Row> {
    let row = |entry: &Entry| {
        let time = match &entry.outcome {
            Ok(times) => duration(times.median),
            Err(_) => "fails".to_owned(),
        };
        let share = share(entry, report).map_or(String::new(), |share| format!("{:.0}%", share * 100.));
        let mut cells = vec![entry.name.clone(), time, rate(entry), share];
        cells.extend(others.iter().map(|other| beside(report, other, entry)));
        Row { family: entry.family.clone(), cells }
    };
    report.entries.iter().map(row).collect()
}

/// The other's time, and how many times faster we are.
fn beside(report: &Report, other: &Report, entry: &Entry) -> String {
    let Some(theirs) = other.entry(&entry.name) else { return "-".to_owned() };
    match (&theirs.outcome, report.speedup(other, &entry.name)) {
        (Err(_), _) => "fails".to_owned(),
        (Ok(times), None) => duration(times.median),
        (Ok(times), Some(speedup)) => format!("{} ({}x)", duration(times.median), digits(speedup)),
    }
}

fn summaries(report: &Report, others: &[Report]) -> Vec<String> {
    let summary = |other: &Report| {
        let (mean, count) = report.mean_speedup(other)?;
        let behind = report
            .entries
            .iter()
            .filter(|entry| report.speedup(other, &entry.name).is_some_and(|speedup| speedup < 1.))
            .count();
        let title = &other.title;
        Some(format!(
            "{}x as fast as {title} in the geometric mean of {count} cases; behind it in {behind}",
            digits(mean)
        ))
    };
    others.iter().filter_map(summary).collect()
}

fn failures(report: &Report) -> impl Iterator<Item = String> + '_ {
    report.entries.iter().filter_map(|entry| Some(format!("{} fails: {}", entry.name, entry.outcome.as_ref().err()?)))
}

/// For a terminal.
pub fn text(report: &Report, others: &[Report]) -> String {
    let (head, rows) = (head(others), rows(report, others));
    let width = |column: usize| {
        let cells = rows.iter().map(|row| &row.cells[column]).chain([&head[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let mut line = format!("  {:<width$}", cells[0], width = widths[0]);
        for (cell, width) in cells.iter().zip(&widths).skip(1) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        line.truncate(line.trim_end().len());
        line
    };
    let mut lines = vec![line(&head)];
    let mut family = "";
    for row in &rows {
        if row.family != family {
            family = &row.family;
            lines.push(format!("\n{family}"));
        }
        lines.push(line(&row.cells));
    }
    lines.push(String::new());
    lines.extend(summaries(report, others));
    lines.extend(failures(report));
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// For the documentation. `picture` is the file beside it.
pub fn markdown(report: &Report, others: &[Report], picture: Option<&str>) -> String {
    let mut lines = vec![
        "# Benchmarks".to_owned(),
        String::new(),
        "Written by `candle-rocm bench --markdown`; `candle-rocm bench` measures the same cases on your device. A time is what \
         one operation takes; behind each of the others' times is how many times faster we are. \"of copy\" is the share of \
         the bandwidth that a plain copy on the device reaches, counting every operand once; operands that fit into a \
         cache can exceed it. \"submit\" is the time after which the thread that asks can go on; what the driver needs too, if \
         more, is in the row of the chain. Rows that we lose stay."
            .to_owned(),
        String::new(),
        "| | device | date | method |".to_owned(),
        "| --- | --- | --- | --- |".to_owned(),
    ];
    for report in std::iter::once(report).chain(others) {
        lines.push(format!("| {} | {} | {} | {} |", report.title, report.device, report.date, report.method));
    }
    lines.push(String::new());
    lines.extend(summaries(report, others).into_iter().map(|summary| format!("- {summary}")));
    lines.extend(failures(report).map(|failure| format!("- {failure}")));
    if let Some(picture) = picture {
        lines.extend([String::new(), format!("![The cases as bars and in the roofline]({picture})")]);
    }
    let head = head(others);
    let mut family = String::new();
    for row in rows(report, others) {
        if row.family != family {
            family = row.family;
            let first = head[0].replace("case", &family);
            lines.push(String::new());
            lines.push(format!("| {first} | {} |", head[1..].join(" | ")));
            lines.push(format!("| --- |{}", " ---: |".repeat(head.len() - 1)));
        }
        lines.push(format!("| {} |", row.cells.join(" | ")));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::clock::Times;
    use super::*;

    fn report(title: &str, micros: f64) -> Report {
        let entry = |family: &str, name: &str, flops: u64| Entry {
            family: family.into(),
            name: name.into(),
            bytes: 2_000_000,
            flops,
            outcome: Ok(Times { median: micros, low: micros, high: micros }),
        };
        Report {
            title: title.into(),
            device: "a device".into(),
            date: "2026-11-15".into(),
            method: "by hand".into(),
            entries: vec![entry("copy", "copy", 0), entry("matmul", "product", 2_000_000_000)],
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration(3.456), "3.46 us");
        assert_eq!(duration(99.96), "100 us");
        assert_eq!(duration(18_200.), "18.2 ms");
        assert_eq!(duration(2_000_000.), "2.00 s");
    }

    #[test]
    fn a_line_has_time_rate_share_and_ratio() {
        let text = text(&report("ours", 2.), &[report("theirs", 3.)]);
        assert!(text.contains("copy     2.00 us     1000 GB/s     100%  3.00 us (1.50x)"), "{text}");
        assert!(text.contains("1000 TFLOP/s"), "{text}");
        assert!(text.contains("1.50x as fast as theirs in the geometric mean of 2 cases; behind it in 0"), "{text}");
    }

    #[test]
    fn markdown_has_a_table_a_family() {
        let text = markdown(&report("ours", 2.), &[report("theirs", 3.)], Some("benchmarks.svg"));
        assert!(text.contains("| copy | time | rate | of copy | theirs |"), "{text}");
        assert!(text.contains("| matmul | time |"), "{text}");
        assert!(text.contains("(benchmarks.svg)"), "{text}");
    }
}
