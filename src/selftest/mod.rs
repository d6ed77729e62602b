//! `candle-rocm selftest`: whether this machine's device does what it should, from the runtime's promises to Candle's operations, and
//! a report to attach to an issue. The cases run in a process of their own (`worker.rs`), because a fault of a GPU may end it; this one
//! watches (`watch.rs`) and writes the report (`report.rs`, `page.rs`).

mod candle;
mod cases;
mod compare;
mod families;
mod number;
mod operand;
mod page;
mod report;
mod watch;
mod worker;

use crate::device::Choice;
use crate::failure::{Code, Failure, Result};
use crate::terminal;
use report::{Report, State};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The command line of `selftest`.
#[derive(clap::Args, Clone)]
#[group(skip)]
pub struct Arguments {
    /// The device to test: rocm, rocm:1, ...
    #[arg(long, default_value = "rocm")]
    device: Choice,
    /// Fewer random trials, and the speed of a few cases only
    #[arg(long)]
    quick: bool,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE.json")]
    json: Option<PathBuf>,
    /// Write the report as a page
    #[arg(long, value_name = "FILE.md")]
    markdown: Option<PathBuf>,
    /// Only cases whose name contains this; may be given several times
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// What the random operands come from: the same seed gives the same operands
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds after which a case counts as hung; its process is ended, and the next cases run
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    limit: u64,
    /// For tests of this command: KIND=CASE puts a fault into a case (wrong, error, abort, hang)
    #[arg(long, hide = true)]
    inject: Vec<Injection>,
    /// For this command itself: run the cases from this one on, and say what comes of them
    #[arg(long, hide = true)]
    worker: Option<usize>,
}

/// A fault that a test wants in a case.
#[derive(Clone, Debug)]
struct Injection {
    kind: String,
    case: String,
}

impl FromStr for Injection {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once('=') {
            Some((kind @ ("wrong" | "error" | "abort" | "hang"), case)) => {
                Ok(Self { kind: kind.to_owned(), case: case.to_owned() })
            }
            _ => Err(format!("{text:?} is not wrong, error, abort or hang, =, and the name of a case")),
        }
    }
}

/// Tests, shows and keeps the report.
pub fn run(arguments: Arguments) -> Result<()> {
    let Choice::Rocm(ordinal) = arguments.device else {
        return Err(Failure::usage(
            "selftest is for ROCm devices, not for Candle's CPU backend: leave out --device cpu",
        ));
    };
    if let Some(from) = arguments.worker {
        return worker::run(&arguments, ordinal, from);
    }
    let place = Place::of(ordinal, std::env::var(hip::PLATFORM_VARIABLE).ok())?;
    let mut common = vec!["--seed".to_owned(), arguments.seed.to_string()];
    if arguments.quick {
        common.push("--quick".to_owned());
    }
    let repeat = format!("{}candle-rocm selftest --device rocm:{ordinal} {}", place.prefix, common.join(" "));
    let mut report = Report::new(arguments.json.as_deref(), arguments.markdown.as_deref(), repeat, arguments.seed)?;
    let mut worker = ["selftest".to_owned(), "--device".to_owned(), format!("rocm:{}", place.ordinal)].to_vec();
    worker.extend(common);
    worker.extend(arguments.only.iter().map(|pattern| format!("--only={pattern}")));
    worker.extend(arguments.inject.iter().map(|injection| format!("--inject={}={}", injection.kind, injection.case)));
    let limit = Duration::from_secs(arguments.limit.max(1));
    let workers = watch::Workers { arguments: worker, environment: place.environment, limit };
    terminal::catch_interrupts()?;
    let outcome = terminal::busy(|| workers.run(&mut report));
    if terminal::is_interactive() {
        eprint!("\r\x1b[K");
    }
    outcome?;
    terminal::print(&page::markdown(&report))?;
    verdict(&report)
}

/// The exit code.
fn verdict(report: &Report) -> Result<()> {
    if report.state == State::Interrupted {
        return Err(Failure::new(Code::Interrupted, "interrupted; the report has what was done until then"));
    }
    match report.bad().count() {
        0 if report.state == State::Complete => Ok(()),
        0 => Err(Failure::new(Code::Device, report.state_text())),
        failed => Err(Failure::new(
            Code::Device,
            format!(
                "{failed} of {} cases failed; the report says which, why, and how to repeat them",
                report.names.len()
            ),
        )),
    }
}

/// Where the processes for the cases find the device, and the oracle beside it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    ordinal: usize,
    environment: Vec<(String, String)>,
    /// What stands before the command that repeats a case.
    prefix: String,
}

impl Place {
    /// Emulated GPUs are devices of the embedded platform; the oracle becomes the first of them, where it is not among them.
    fn of(ordinal: usize, platform: Option<String>) -> Result<Self> {
        let name = platform.unwrap_or_default().trim().to_owned();
        let prefix = if name.is_empty() { String::new() } else { format!("{}={name} ", hip::PLATFORM_VARIABLE) };
        let parts: Vec<&str> = name.split([',', ';', ' ']).map(str::trim).filter(|part| !part.is_empty()).collect();
        let emulated = parts.iter().any(|part| part.starts_with("gfx"));
        if !emulated || parts.contains(&"host") {
            return Ok(Self { ordinal, environment: Vec::new(), prefix });
        }
        for hidden in ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"] {
            if std::env::var_os(hidden).is_some() {
                let sentence = format!("unset {hidden}: beside emulated GPUs it would hide the device that they are compared with; choose one with --device");
                return Err(Failure::usage(sentence));
            }
        }
        if ordinal >= parts.len() {
            let count = parts.len();
            let sentence = format!("there is no device {ordinal}: {}={name} makes {count}", hip::PLATFORM_VARIABLE);
            return Err(Failure::new(Code::Device, sentence));
        }
        let environment = vec![(hip::PLATFORM_VARIABLE.to_owned(), format!("host,{}", parts.join(",")))];
        Ok(Self { ordinal: ordinal + 1, environment, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracle_stands_beside_emulated_gpus() {
        let of = |ordinal, name: &str| Place::of(ordinal, Some(name.to_owned()).filter(|name| !name.is_empty()));
        let place = of(1, "gfx1100,gfx90a").unwrap();
        assert_eq!(place.ordinal, 2);
        assert_eq!(place.environment, [("CANDLE_ROCM_PLATFORM".to_owned(), "host,gfx1100,gfx90a".to_owned())]);
        assert_eq!(place.prefix, "CANDLE_ROCM_PLATFORM=gfx1100,gfx90a ");
        for as_it_is in ["", "host", "amd", "host,gfx1100"] {
            let place = of(1, as_it_is).unwrap();
            assert_eq!((place.ordinal, place.environment.len()), (1, 0), "{as_it_is}");
        }
        assert!(of(2, "gfx1100,gfx90a").unwrap_err().sentence.contains("there is no device 2"));
    }

    #[test]
    fn faults_for_tests_are_named() {
        assert_eq!("hang=kernel/a=b".parse::<Injection>().unwrap().case, "kernel/a=b");
        assert!("melt=kernel/a".parse::<Injection>().is_err() && "wrong".parse::<Injection>().is_err());
    }
}
