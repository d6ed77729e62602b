//! Counts as tables: text for a terminal, and Markdown for `docs/`.

use super::figures::{Figures, COLUMNS};
use super::record::{Entry, Report};

/// What the columns say, for whoever reads a table.
pub const LEGEND: &str = "instr/element: wave instructions an element (of a product: a multiply-add); lanes: share of lanes in use; \
lines: cache lines touched over the fewest possible; banks: cycles of local memory over the fewest without conflicts; regs and waves: \
vector registers and waves a SIMD of the kernel that issues longest; issue, local, memory: estimated microseconds at full size in \
which the card issues, is busy with local memory, and moves each line once";

fn head() -> Vec<&'static str> {
    let mut head = vec!["case"];
    head.extend(COLUMNS.iter().map(|column| column.head));
    head.push("bound");
    head
}

fn cells(entry: &Entry, figures: &Figures) -> Vec<String> {
    // The star leads to the sentence below the table.
    let star = if entry.planned.is_some() { " *" } else { "" };
    let mut cells = vec![format!("{}{star}", entry.name)];
    cells.extend(figures.cells());
    cells.push(figures.bound().to_owned());
    cells
}

fn rows(report: &Report) -> Vec<(&Entry, Vec<String>)> {
    let row = |entry: &'_ Entry| Some(cells(entry, entry.outcome.as_ref().ok()?));
    report.entries.iter().filter_map(|entry| Some((entry, row(entry)?))).collect()
}

fn title(report: &Report) -> String {
    let card = report.card;
    format!(
        "{} on the {}: {} compute units at {} GHz, {} GB/s; compiled by {}",
        card.arch, card.name, card.compute_units, card.clock, card.bandwidth, report.compiler
    )
}

/// Sentences below a table: what failed, and what is planned otherwise at full size.
fn notes(report: &Report) -> Vec<String> {
    let failed = report.entries.iter().filter_map(|entry| {
        let why = entry.outcome.as_ref().err()?;
        Some(format!("{} fails: {why}", entry.name))
    });
    let other = report.entries.iter().any(|entry| entry.planned.is_some());
    let star = other.then(|| {
        "* The full size uses other kernels on this card than the size at which was counted; `--json` names both."
            .to_owned()
    });
    failed.chain(star).collect()
}

/// For a terminal.
pub fn text(report: &Report) -> String {
    let (head, rows) = (head(), rows(report));
    let width = |column: usize| {
        let cells = rows.iter().map(|(_, cells)| cells[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let mut line = format!("  {:<width$}", cells[0], width = widths[0]);
        for (cell, width) in cells.iter().zip(&widths).skip(1) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        line
    };
    let mut lines = vec![title(report), line(&head)];
    let mut family = "";
    for (entry, cells) in &rows {
        if entry.family != family {
            family = &entry.family;
            lines.push(format!("\n{family}"));
        }
        lines.push(line(&cells.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    lines.push(String::new());
    lines.extend(notes(report));
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// For the documentation.
pub fn markdown(reports: &[Report]) -> String {
    let mut lines = vec![
        "# Counts".to_owned(),
        String::new(),
        "Written by `candle-rocm inspect --markdown`: what makes the kernels of `candle-rocm bench` fast or slow on AMD GPUs, counted \
         while emulated GPUs run their machine code. It is a proxy: caches, latencies and clocks that sink under load are not modelled, \
         and the three times are lower limits, each for itself. `docs/src/program.md` says how to read it."
            .to_owned(),
        String::new(),
        format!("{LEGEND}."),
        String::new(),
        "| architecture | card | compute units | GHz | GB/s | source |".to_owned(),
        "| --- | --- | ---: | ---: | ---: | --- |".to_owned(),
    ];
    for report in reports {
        let card = report.card;
        let (units, clock, bandwidth) = (card.compute_units, card.clock, card.bandwidth);
        let (arch, name, source) = (card.arch, card.name, card.source);
        lines.push(format!("| {arch} | {name} | {units} | {clock} | {bandwidth} | {source} |"));
    }
    for report in reports {
        lines.extend([String::new(), format!("## {}", report.card.arch), String::new(), title(report) + "."]);
        let mut family = "";
        for (entry, cells) in rows(report) {
            if entry.family != family {
                family = &entry.family;
                lines.push(String::new());
                lines.push(format!("| {family} | {} |", head()[1..].join(" | ")));
                lines.push(format!("| --- |{} --- |", " ---: |".repeat(COLUMNS.len())));
            }
            lines.push(format!("| {} |", cells.join(" | ")));
        }
        let notes = notes(report);
        if !notes.is_empty() {
            lines.push(String::new());
            lines.extend(notes.iter().map(|note| note.replace('*', "\\*")));
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::cards::card;
    use super::*;

    #[test]
    fn tables_have_families_figures_and_notes() {
        let entry = |name: &str, outcome, planned| Entry {
            family: "cast".into(),
            name: name.into(),
            counted: "less".into(),
            outcome,
            kernels: vec![],
            planned,
        };
        let figures =
            Figures([Some(0.25), Some(1.), Some(1.), None, Some(24.), Some(16.), Some(1.), Some(0.), Some(9.)]);
        let entries =
            vec![entry("a", Ok(figures), Some(vec!["other".into()])), entry("b", Err("it has no kernel".into()), None)];
        let report = Report { card: card(vgpu::Arch::Gfx1100).unwrap(), compiler: "a clang".into(), entries };
        let text = text(&report);
        assert!(text.contains("gfx1100 on the RX 7900 XTX: 96 compute units at 2.5 GHz, 960 GB/s"), "{text}");
        assert!(
            text.contains(
                "  a *           0.250   100%   1.00      -    24     16      1.00         0       9.00  memory"
            ),
            "{text}"
        );
        assert!(text.contains("b fails: it has no kernel\n* The full size"), "{text}");
        let page = markdown(&[report]);
        assert!(page.contains("| a * | 0.250 | 100% | 1.00 | - | 24 | 16 | 1.00 | 0 | 9.00 | memory |"), "{page}");
    }
}
