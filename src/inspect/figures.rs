//! The figures of a case, from the launches that were counted. Each is a quotient or is scaled to the full size, so that it says
//! the same whatever the size at which was counted. The table of columns here is the one that JSON, tables and the comparison
//! are made from.

use super::cards::Card;
use crate::bench::case::Work;
use hip_host::LoggedLaunch;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use vgpu::Counters;

/// When a figure is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worse {
    /// When it is higher.
    Higher,
    /// When it is lower.
    Lower,
    /// It only explains others.
    Neither,
}

/// One figure.
pub struct Column {
    /// Its name in JSON.
    pub key: &'static str,
    /// Its name in tables.
    pub head: &'static str,
    /// When it is worse.
    pub worse: Worse,
}

/// How many figures a case has.
pub const COUNT: usize = 9;

/// The figures, in their order.
pub const COLUMNS: [Column; COUNT] = [
    Column { key: "instructions", head: "instr/element", worse: Worse::Higher },
    Column { key: "lanes", head: "lanes", worse: Worse::Lower },
    Column { key: "lines", head: "lines", worse: Worse::Higher },
    Column { key: "banks", head: "banks", worse: Worse::Higher },
    Column { key: "registers", head: "regs", worse: Worse::Neither },
    Column { key: "occupancy", head: "waves", worse: Worse::Lower },
    Column { key: "issue_us", head: "issue us", worse: Worse::Higher },
    Column { key: "local_us", head: "local us", worse: Worse::Higher },
    Column { key: "memory_us", head: "memory us", worse: Worse::Higher },
];

/// Where the three times begin.
const TIMES: usize = 6;
/// What bounds a case, in the order of the times.
const BOUNDS: [&str; 3] = ["issue", "local", "memory"];

/// The figures of a case in the order of [`COLUMNS`]; none where there is nothing to divide by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(pub [Option<f64>; COUNT]);

impl Figures {
    /// The figures of what was counted for `counted`, with times of `full` on a card.
    pub fn new(launches: &[LoggedLaunch], counted: &Work, full: &Work, card: &Card) -> Self {
        let mut all = Counters::default();
        let (mut cycles, mut lines) = (0, 0);
        for launch in launches {
            all.add(&launch.counters);
            cycles += issue_cycles(launch);
            // A line that two launches touch is moved twice: operands of a full size do not stay in a cache.
            lines += launch.counters.loaded.lines() + launch.counters.stored.lines();
        }
        let larger = quotient(full.elements, counted.elements).unwrap_or(1.);
        let more_bytes = quotient(full.bytes, counted.bytes).unwrap_or(1.);
        // Scalar loads are not among the lines, so the least that the case has to move is taken where it is more.
        let bytes = ((lines * card.arch.line_bytes()) as f64 * more_bytes).max(full.bytes as f64);
        let main = launches.iter().max_by_key(|launch| issue_cycles(launch));
        Self([
            quotient(all.total(), counted.elements),
            quotient(all.active_lanes, all.lanes),
            quotient(all.lines, all.least_lines),
            quotient(all.bank_cycles, all.least_bank_cycles),
            main.map(|launch| launch.vgprs as f64),
            main.map(occupancy),
            Some(card.issue_micros(cycles as f64 * larger)),
            Some(card.local_micros(all.bank_cycles as f64 * larger)),
            Some(card.memory_micros(bytes)),
        ])
    }

    /// What takes the longest of issuing, local memory and memory.
    pub fn bound(&self) -> &'static str {
        let times = &self.0[TIMES..];
        let longest = (0..BOUNDS.len()).max_by(|&a, &b| times[a].unwrap_or(0.).total_cmp(&times[b].unwrap_or(0.)));
        BOUNDS[longest.unwrap_or(0)]
    }

    /// As a part of a case's JSON.
    pub fn to_json(&self) -> BTreeMap<String, Value> {
        let figures = COLUMNS.iter().zip(self.0);
        figures.map(|(column, figure)| (column.key.to_owned(), json!(figure.map(rounded)))).collect()
    }

    /// From a case's JSON.
    pub fn from_json(value: &Value) -> Self {
        Self(std::array::from_fn(|n| value[COLUMNS[n].key].as_f64()))
    }

    /// The figures as a table shows them.
    pub fn cells(&self) -> Vec<String> {
        let cell = |(n, figure): (usize, Option<f64>)| match (COLUMNS[n].key, figure) {
            (_, None) => "-".to_owned(),
            ("lanes", Some(share)) => format!("{:.0}%", share * 100.),
            ("registers", Some(count)) => format!("{count:.0}"),
            ("occupancy", Some(waves)) => format!("{waves:.1}").trim_end_matches(".0").to_owned(),
            (_, Some(value)) => digits(value),
        };
        self.0.into_iter().enumerate().map(cell).collect()
    }
}

/// What one kernel of a case did, over its launches.
pub fn kernels(launches: &[LoggedLaunch]) -> Vec<Value> {
    let describe = |name: &String| {
        let of_it: Vec<&LoggedLaunch> = launches.iter().filter(|launch| launch.kernel == *name).collect();
        let last = of_it[of_it.len() - 1];
        json!({
            "name": name,
            "launches": of_it.len(),
            "grid": last.grid,
            "block": last.block,
            "instructions": of_it.iter().map(|launch| launch.counters.total()).sum::<u64>(),
            "registers": last.vgprs,
            "scalar_registers": last.sgprs,
            "spills": last.spills,
            "lds_bytes": last.lds_bytes,
            "occupancy": occupancy(last),
        })
    };
    names(launches).iter().map(describe).collect()
}

/// The names of a plan's kernels, each once, in their order.
pub fn names(launches: &[LoggedLaunch]) -> Vec<String> {
    let mut names: Vec<String> = launches.iter().map(|launch| launch.kernel.clone()).collect();
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

fn issue_cycles(launch: &LoggedLaunch) -> u64 {
    launch.counters.issue_cycles(launch.arch, launch.wave_size)
}

fn occupancy(launch: &LoggedLaunch) -> f64 {
    let threads = launch.block.iter().product::<u32>() as usize;
    launch.arch.waves_of_blocks(launch.wave_size, launch.vgprs, threads, launch.lds_bytes as usize)
}

fn quotient(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

/// Four digits: more would only make files differ.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Three digits.
pub fn digits(value: f64) -> String {
    match value {
        0. => "0".to_owned(),
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.9995 => format!("{v:.2}"),
        v if v >= 0.0995 => format!("{v:.3}"),
        v => format!("{v:.4}"),
    }
}
