//! Counts the cases on emulated GPUs. For each architecture there are two devices. One has eight compute units and runs a case at a
//! size that fills them as the full size fills a card. The other reports the compute units of the card and only plans the full size:
//! which kernels run depends on both, so a size that is counted with other kernels than the card would run says so.

use super::cards::{card, Card};
use super::figures::{kernels, names, Figures};
use super::record::{Entry, Report};
use crate::bench::case::Case;
use crate::failure::{sentence, Code, Failure, Result};
use candle_core::Device;
use candle_rocm_kernels::objects;
use hip_host::{log_launches, take_launch_log, LaunchLog, LoggedLaunch, Options, Target};
use std::io::IsTerminal;
use vgpu::Arch;

/// Compute units of the device that counts.
const UNITS: u32 = 8;
/// Random operands are the same in every run.
const SEED: u64 = 1;

/// Counts the cases, given at the counted and at the full size, on each architecture.
pub fn count(archs: &[Arch], cases: &[(Case, Case)]) -> Result<Vec<Report>> {
    let cards: Vec<&Card> = archs.iter().filter_map(|&arch| card(arch)).collect();
    start(&cards)?;
    let progress = std::io::stderr().is_terminal();
    let mut reports = Vec::with_capacity(cards.len());
    for (index, card) in cards.into_iter().enumerate() {
        let (counting, planning) = (Device::new_rocm(2 * index)?, Device::new_rocm(2 * index + 1)?);
        let mut entries = Vec::with_capacity(cases.len());
        for (place, (counted, full)) in cases.iter().enumerate() {
            if progress {
                eprint!("\r\x1b[K{} {}/{} {}", card.arch, place + 1, cases.len(), counted.name);
            }
            entries.push(entry(counted, full, card, &counting, &planning));
        }
        if progress {
            eprint!("\r\x1b[K");
        }
        let compiler = objects::clang().map_or_else(|_| "nobody here".to_owned(), |clang| clang.version().to_owned());
        reports.push(Report { card, compiler, entries });
    }
    Ok(reports)
}

/// Makes the embedded platform's devices the ones that are needed, whatever the environment says of checks, orders and devices:
/// counts are to be the same everywhere.
fn start(cards: &[&Card]) -> Result<()> {
    let from_env = Options::from_env().map_err(Failure::usage)?;
    let options = Options {
        devices: 2 * cards.len(),
        targets: cards.iter().flat_map(|card| [Target::Amd(card.arch); 2]).collect(),
        units: cards.iter().flat_map(|card| [UNITS, card.units()]).collect(),
        threads: from_env.threads,
        memory: from_env.memory,
        ..Options::default()
    };
    let refuse = |why| Failure::new(Code::Device, format!("the GPUs cannot be emulated: {why}"));
    hip_host::configure(options).map_err(refuse)?;
    std::env::set_var(hip::PLATFORM_VARIABLE, "host");
    Ok(())
}

fn entry(counted: &Case, full: &Case, card: &Card, counting: &Device, planning: &Device) -> Entry {
    let launches = launches(counted, counting, LaunchLog::Count);
    // A plan that fails is not the same plan.
    let planned = || match self::launches(full, planning, LaunchLog::Plan) {
        Ok(planned) => names(&planned),
        Err(error) => vec![format!("it cannot be planned: {}", sentence(&error))],
    };
    let (outcome, kernels, differs) = match launches {
        Ok(launches) if launches.is_empty() => (Err("no kernel ran on the device".to_owned()), Vec::new(), None),
        Ok(launches) => {
            let differs = Some(planned()).filter(|planned| *planned != names(&launches));
            (Ok(Figures::new(&launches, &counted.work, &full.work, card)), kernels(&launches), differs)
        }
        Err(error) => (Err(sentence(&error)), Vec::new(), None),
    };
    Entry {
        family: full.family.to_owned(),
        name: full.name.clone(),
        counted: counted.name.clone(),
        outcome,
        kernels,
        planned: differs,
    }
}

/// The launches of one turn of a case. Its operands are made first: by kernels that run, for counting, and by none, for a plan.
fn launches(case: &Case, device: &Device, mode: LaunchLog) -> candle_core::Result<Vec<LoggedLaunch>> {
    let outcome = (|| {
        device.set_seed(SEED)?;
        // A case is one operation, whose result nobody looks at.
        device.as_rocm_device()?.set_fusing(false)?;
        log_launches(if mode == LaunchLog::Plan { LaunchLog::Plan } else { LaunchLog::Off });
        let mut turn = (case.setup)(device)?;
        device.synchronize()?;
        // What only a first turn does (loading modules, memory for workspaces) is done by one that launches nothing.
        log_launches(LaunchLog::Plan);
        turn()?;
        device.synchronize()?;
        take_launch_log();
        log_launches(mode);
        turn()?;
        device.synchronize()
    })();
    log_launches(LaunchLog::Off);
    let launches = take_launch_log();
    outcome.map(|()| launches)
}
