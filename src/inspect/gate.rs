//! What got worse against stored counts: every figure of every case that both have, by more than [`TOLERANCE`].

use super::figures::{digits, Figures, Worse, COLUMNS};
use super::record::Report;

/// A figure may be this much worse, as a share: what another order of threads or another patch release of a compiler moves.
pub const TOLERANCE: f64 = 0.05;

/// What a comparison found.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    /// A line for each figure that is worse.
    pub worse: Vec<String>,
    /// Figures that are better by more than the tolerance.
    pub better: usize,
    /// Figures that were compared.
    pub compared: usize,
    /// Cases that only one of the two has.
    pub unmatched: Vec<String>,
}

/// Compares counts with stored ones. `all`: every case was counted, so that one which only the file has is gone.
pub fn compare(now: &Report, stored: &Report, all: bool) -> Verdict {
    let mut verdict = Verdict::default();
    let arch = now.card.arch;
    for entry in &now.entries {
        let Some(before) = stored.entry(&entry.name) else {
            verdict.unmatched.push(format!("{arch} {}: not in the file", entry.name));
            continue;
        };
        match (&entry.outcome, &before.outcome) {
            (Ok(now), Ok(before)) => figures(&mut verdict, &format!("{arch} {}", entry.name), now, before),
            (Err(why), Ok(_)) => verdict.worse.push(format!("{arch} {}: fails now: {why}", entry.name)),
            _ => {}
        }
    }
    if all {
        let gone = stored.entries.iter().filter(|entry| now.entry(&entry.name).is_none());
        verdict.unmatched.extend(gone.map(|entry| format!("{arch} {}: only in the file", entry.name)));
    }
    verdict
}

fn figures(verdict: &mut Verdict, case: &str, now: &Figures, before: &Figures) {
    for ((column, now), before) in COLUMNS.iter().zip(now.0).zip(before.0) {
        let (larger, smaller) = match column.worse {
            Worse::Higher => (now, before),
            Worse::Lower => (before, now),
            Worse::Neither => continue,
        };
        // A figure that there was not: conflicts of banks where no local memory was used, for example.
        let (Some(larger), Some(smaller)) = (larger, smaller) else { continue };
        verdict.compared += 1;
        if larger > smaller * (1. + TOLERANCE) {
            let (before, now) = (before.unwrap_or(0.), now.unwrap_or(0.));
            let by = if smaller > 0. { format!(" ({:+.0}%)", (now / before - 1.) * 100.) } else { String::new() };
            verdict.worse.push(format!("{case}: {} {} -> {}{by}", column.key, digits(before), digits(now)));
        } else if smaller > larger * (1. + TOLERANCE) {
            verdict.better += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cards::card;
    use super::super::record::Entry;
    use super::*;

    fn report(names: &[&str], change: impl Fn(&mut Figures)) -> Report {
        let entry = |name: &&str| {
            let mut figures = Figures(std::array::from_fn(|n| Some((n + 1) as f64)));
            change(&mut figures);
            Entry {
                family: "f".into(),
                name: (*name).into(),
                counted: "c".into(),
                outcome: Ok(figures),
                kernels: vec![],
                planned: None,
            }
        };
        let card = card(vgpu::Arch::Gfx1100).unwrap();
        Report { card, compiler: "clang".into(), entries: names.iter().map(entry).collect() }
    }

    #[test]
    fn five_percent_are_let_through_and_six_are_not() {
        let stored = report(&["a"], |_| {});
        assert_eq!(compare(&report(&["a"], |f| f.0[0] = Some(1.05)), &stored, true).worse, [""; 0]);
        let worse = compare(&report(&["a"], |f| f.0[0] = Some(1.06)), &stored, true).worse;
        assert_eq!(worse, ["gfx1100 a: instructions 1.00 -> 1.06 (+6%)"]);
    }

    #[test]
    fn fewer_lanes_and_waves_are_worse_and_registers_only_explain() {
        let stored = report(&["a"], |_| {});
        let verdict = compare(&report(&["a"], |f| f.0[1] = Some(1.)), &stored, true);
        assert_eq!(verdict.worse, ["gfx1100 a: lanes 2.00 -> 1.00 (-50%)"]);
        let verdict = compare(&report(&["a"], |f| f.0[4] = Some(99.)), &stored, true);
        assert_eq!((verdict.worse.len(), verdict.better, verdict.compared), (0, 0, 8));
        assert_eq!(compare(&report(&["a"], |f| f.0[5] = Some(16.)), &stored, true).better, 1);
    }

    #[test]
    fn cases_of_only_one_side_are_named() {
        let stored = report(&["a", "b"], |_| {});
        let verdict = compare(&report(&["a", "c"], |_| {}), &stored, true);
        assert_eq!(verdict.unmatched, ["gfx1100 c: not in the file", "gfx1100 b: only in the file"]);
        assert_eq!(compare(&report(&["a"], |_| {}), &stored, false).unmatched, [""; 0]);
    }
}
