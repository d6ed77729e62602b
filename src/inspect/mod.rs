//! `candle-rocm inspect`: what makes the kernels of `bench` fast or slow on AMD GPUs, counted while emulated GPUs run their machine
//! code; no GPU is needed. Cases are counted at a size that takes seconds, and planned at the full size of `bench` as well, to
//! see that the same kernels would run there.

mod cards;
mod count;
mod figures;
mod gate;
mod record;
mod table;

use crate::bench::case::{Case, Size};
use crate::bench::cases;
use crate::failure::{Code, Failure, Result};
use crate::terminal;
use clap::Args;
use record::Report;
use std::path::{Path, PathBuf};
use vgpu::Arch;

/// The command line of `inspect`.
#[derive(Args)]
#[group(skip)]
pub struct Arguments {
    /// Architectures: gfx1030, gfx1100, gfx1201, gfx90a, gfx942
    #[arg(long, value_name = "LIST", value_delimiter = ',', required_unless_present = "read")]
    arch: Vec<String>,
    /// Only cases of `bench` whose family or name contains this; a comma separates alternatives
    #[arg(long, value_name = "PATTERN")]
    ops: Option<String>,
    /// Compare with stored counts, and fail where a figure is worse by more than 5%
    #[arg(long, value_name = "FILE.json")]
    against: Option<PathBuf>,
    /// Count nothing: show the counts in a file
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["arch", "ops"])]
    read: Option<PathBuf>,
    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE.md")]
    markdown: Option<PathBuf>,
    /// Print the counts as JSON, which --against and --read take
    #[arg(long)]
    json: bool,
}

/// Families in which no kernel of ours decides (a copy is the driver's), or whose kernels other families have.
const LEFT_OUT: [&str; 4] = ["copy", "launch", "transfer", "model"];

/// Counts, compares and shows.
pub fn run(arguments: Arguments) -> Result<()> {
    let archs = arguments.arch.iter().map(|name| arch(name)).collect::<Result<Vec<Arch>>>()?;
    // A wrong name of a file should not cost minutes.
    let read = |path| record::read(path).map(|stored| (path, stored));
    let stored = arguments.against.as_deref().map(read).transpose()?;
    let reports = match &arguments.read {
        Some(path) => record::read(path)?,
        None => count::count(&archs, &chosen(arguments.ops.as_deref())?)?,
    };
    let all = arguments.ops.is_none();
    if arguments.json {
        terminal::print(&record::to_text(&reports))?;
    } else if stored.is_none() {
        let tables: Vec<String> = reports.iter().map(table::text).collect();
        terminal::print(&format!("{}\n{}.\n", tables.join("\n"), table::LEGEND))?;
    }
    if let Some(path) = &arguments.markdown {
        std::fs::write(path, table::markdown(&reports))
            .map_err(|error| Failure::input(format!("{} cannot be written: {error}", path.display())))?;
    }
    if let Some((path, stored)) = stored {
        let worse = judge(path, &reports, &stored, all)?;
        return refuse(path, &worse, arguments.json);
    }
    match reports.iter().flat_map(|report| &report.entries).filter(|entry| entry.outcome.is_err()).count() {
        0 => Ok(()),
        failed => Err(Failure::new(Code::Device, format!("{failed} cases failed; the table says which and why"))),
    }
}

fn arch(name: &str) -> Result<Arch> {
    Arch::ALL.into_iter().find(|arch| arch.name() == name).ok_or_else(|| {
        let known: Vec<&str> = Arch::ALL.iter().map(|arch| arch.name()).collect();
        Failure::usage(format!("{name:?} cannot be inspected; {} can", known.join(", ")))
    })
}

/// The cases to count, each with the one of full size.
fn chosen(pattern: Option<&str>) -> Result<Vec<(Case, Case)>> {
    let pairs = cases::all(Size::Counted).into_iter().zip(cases::all(Size::Full));
    let mut pairs: Vec<(Case, Case)> = pairs.filter(|(case, _)| !LEFT_OUT.contains(&case.family)).collect();
    let mut families: Vec<&str> = pairs.iter().map(|(case, _)| case.family).collect();
    families.dedup();
    let families = families.join(", ");
    if let Some(pattern) = pattern {
        pairs.retain(|(counted, full)| full.matches(pattern) || counted.matches(pattern));
        if pairs.is_empty() {
            return Err(Failure::usage(format!("no case matches --ops {pattern:?}; the families are {families}")));
        }
    }
    Ok(pairs)
}

/// What got worse, a line a figure; notes on the rest.
fn judge(path: &Path, reports: &[Report], stored: &[Report], all: bool) -> Result<Vec<String>> {
    let mut worse = Vec::new();
    for report in reports {
        let arch = report.card.arch;
        let Some(before) = stored.iter().find(|stored| stored.card.arch == arch) else {
            return Err(Failure::input(format!("{} has no counts of {arch}", path.display())));
        };
        let verdict = gate::compare(report, before, all);
        verdict.unmatched.iter().for_each(|line| terminal::note(line));
        if before.compiler != report.compiler {
            let (then, now) = (&before.compiler, &report.compiler);
            terminal::note(&format!("the stored counts of {arch} are of code by {then}, these by {now}"));
        }
        let (compared, worse_here, better) = (verdict.compared, verdict.worse.len(), verdict.better);
        let share = gate::TOLERANCE * 100.;
        terminal::note(&format!(
            "{arch}: {compared} figures compared, {worse_here} worse and {better} better by more than {share:.0}%"
        ));
        worse.extend(verdict.worse);
    }
    Ok(worse)
}

/// Fails where something is worse, and lists it.
fn refuse(path: &Path, worse: &[String], json: bool) -> Result<()> {
    if worse.is_empty() {
        return Ok(());
    }
    // Standard output is the JSON's, where that was asked for.
    match json {
        true => terminal::note(&worse.join("\n")),
        false => terminal::print(&(worse.join("\n") + "\n"))?,
    }
    let sentence = format!(
        "{} figures are worse than in {} by more than {:.0}%; where that is meant, write the file anew with --json",
        worse.len(),
        path.display(),
        gate::TOLERANCE * 100.
    );
    Err(Failure::new(Code::Device, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_one_of_full_size_and_elements() {
        let pairs = chosen(None).unwrap();
        assert!(pairs.len() > 100);
        for (counted, full) in pairs {
            assert_eq!(counted.family, full.family);
            let first = |case: &Case| case.name.split(' ').next().unwrap_or_default().to_owned();
            assert_eq!(first(&counted), first(&full), "{} and {}", counted.name, full.name);
            assert!(counted.work.elements > 0 && counted.work.elements <= full.work.elements, "{}", full.name);
        }
    }

    #[test]
    fn a_pattern_that_matches_nothing_names_the_families() {
        let failure = chosen(Some("no such case")).err().unwrap();
        assert_eq!(failure.code, Code::Usage);
        assert!(failure.sentence.contains("elementwise") && !failure.sentence.contains("transfer"), "{failure}");
        assert!(arch("gfx906").unwrap_err().sentence.contains("gfx1100"));
    }
}
