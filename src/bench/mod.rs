//! `candle-rocm bench`: how fast the device is, case by case, beside the CPU or the results in a file; as a table, as JSON, as
//! Markdown and as a picture. The cases are in `cases/`, the way they are timed in `clock.rs`.

pub mod case;
pub mod cases;
pub mod clock;
mod plot;
pub mod record;
mod table;

use crate::device::Choice;
use crate::failure::{Code, Failure, Result};
use crate::terminal;
use case::{Case, Size};
use clap::Args;
use clock::Clock;
use record::{Entry, Report};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// The command line of `bench`.
#[derive(Args)]
pub struct Arguments {
    /// Only cases whose family or name contains this; a comma separates alternatives
    #[arg(long, value_name = "PATTERN")]
    ops: Option<String>,
    /// Compare with Candle's CPU backend ("cpu") or with a file of results; may be given several times
    #[arg(long, value_name = "cpu|FILE.json")]
    against: Vec<String>,
    /// How large the operands are; without it, full on a GPU and small elsewhere
    #[arg(long)]
    size: Option<Size>,
    /// Where to run: rocm, rocm:1, ... or cpu
    #[arg(long, default_value = "rocm")]
    device: Choice,
    /// Measure nothing: show the results of an earlier run
    #[arg(long, value_name = "FILE.json")]
    read: Option<PathBuf>,
    /// Draw a picture
    #[arg(long, value_name = "FILE.svg|FILE.html")]
    plot: Option<PathBuf>,
    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE.md")]
    markdown: Option<PathBuf>,
    /// Print the results as JSON, which --against and --read take
    #[arg(long)]
    json: bool,
}

/// Measures and shows.
pub fn run(arguments: Arguments) -> Result<()> {
    if let Some(path) = &arguments.plot {
        picture_kind(path)?;
    }
    // Files are read before anything is measured: a wrong name should not cost minutes.
    let files: Vec<Option<Report>> = arguments
        .against
        .iter()
        .map(|other| if other == "cpu" { Ok(None) } else { Report::read(Path::new(other)).map(Some) })
        .collect::<Result<_>>()?;
    let (report, size) = match &arguments.read {
        Some(path) => (Report::read(path)?, arguments.size.unwrap_or(Size::Small)),
        None => measured(&arguments)?,
    };
    let mut others = Vec::new();
    for file in files {
        others.push(match file {
            Some(report) => report,
            None => {
                let chosen: Vec<Case> =
                    cases::all(size).into_iter().filter(|case| report.entry(&case.name).is_some()).collect();
                measure(&chosen, Choice::Cpu, size)?
            }
        });
    }
    if arguments.json {
        terminal::print(&format!("{:#}\n", report.to_json()))?;
    } else {
        terminal::print(&format!("{} on {}\n{}\n\n", report.title, report.device, report.method))?;
        terminal::print(&table::text(&report, &others))?;
    }
    if let Some(path) = &arguments.plot {
        write(path, &picture_kind(path)?(&report, &others))?;
    }
    if let Some(path) = &arguments.markdown {
        let picture = arguments.plot.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        write(path, &table::markdown(&report, &others, picture.as_deref()))?;
    }
    match report.entries.iter().filter(|entry| entry.outcome.is_err()).count() {
        0 => Ok(()),
        failed => Err(Failure::new(Code::Device, format!("{failed} cases failed; the table says which and why"))),
    }
}

fn measured(arguments: &Arguments) -> Result<(Report, Size)> {
    let size = match (arguments.size, arguments.device) {
        (Some(size), _) => size,
        (None, Choice::Cpu) => Size::Small,
        (None, Choice::Rocm(ordinal)) if hip::Device::new(ordinal)?.platform().is_gpu() => Size::Full,
        (None, Choice::Rocm(_)) => Size::Small,
    };
    let all = cases::all(size);
    let mut families: Vec<&str> = all.iter().map(|case| case.family).collect();
    families.dedup();
    let families = families.join(", ");
    // The copy is what the others are compared with.
    let wanted = |case: &Case| arguments.ops.as_ref().is_none_or(|pattern| case.matches(pattern));
    if let (Some(pattern), false) = (&arguments.ops, all.iter().any(wanted)) {
        let sentence = format!("no case matches --ops {pattern:?}; the families are {families}");
        return Err(Failure::new(Code::Usage, sentence));
    }
    let chosen: Vec<Case> = all.into_iter().filter(|case| case.family == "copy" || wanted(case)).collect();
    Ok((measure(&chosen, arguments.device, size)?, size))
}

/// Times the cases on a device. One that fails leaves its sentence and the others run.
fn measure(cases: &[Case], device: Choice, size: Size) -> Result<Report> {
    let (on, line) = device.open()?;
    let clock = Clock::new(size);
    let progress = std::io::stderr().is_terminal();
    let mut entries = Vec::with_capacity(cases.len());
    for (index, case) in cases.iter().enumerate() {
        if progress {
            eprint!("\r\x1b[K{}/{} {}", index + 1, cases.len(), case.name);
        }
        entries.push(Entry::new(case, clock.time(case, &on)));
    }
    if progress {
        eprint!("\r\x1b[K");
    }
    let title = if device == Choice::Cpu { "Candle CPU" } else { "candle-rocm" };
    Ok(Report { title: title.into(), device: line, date: record::today(), method: clock.method(), entries })
}

type Picture = fn(&Report, &[Report]) -> String;

fn picture_kind(path: &Path) -> Result<Picture> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => Ok(plot::svg),
        Some("html") => Ok(plot::html),
        _ => {
            let sentence = format!("--plot {}: the name must end in .svg or .html", path.display());
            Err(Failure::new(Code::Usage, sentence))
        }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Failure::input(format!("{} cannot be written: {error}", path.display())))
}

#[cfg(test)]
mod tests;
