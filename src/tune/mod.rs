//! `candle-rocm tune`: measures on this card from which sizes on one kernel beats another, in place of what the table of architectures
//! argues, and keeps the result where programs look. What is measured, and on which operation, is a row of `choices.rs`; how two ways
//! are timed beside each other is in `race.rs`.

mod choices;
mod ground;
mod race;

use crate::bench::record::today;
use crate::device::Choice as On;
use crate::failure::{Code, Failure, Result};
use crate::terminal;
use candle_rocm_kernels::tuned::{self, Tuned};
use choices::{Choice, CHOICES};
use ground::Ground;
use race::{race, split, Way};
use std::path::PathBuf;
use std::time::Duration;

/// The command line of `tune`.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// The device to measure: rocm, rocm:1, ...
    #[arg(long, default_value = "rocm")]
    device: On,
    /// About how long measuring may take
    #[arg(long, value_name = "MINUTES", default_value_t = 3.0)]
    minutes: f64,
    /// Measure nothing: print what is kept for the device
    #[arg(long, conflicts_with_all = ["reset", "out"])]
    show: bool,
    /// Measure nothing: remove what is kept for the device
    #[arg(long, conflicts_with = "out")]
    reset: bool,
    /// Write the result to this file, and do not keep it where programs look
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Measures and keeps, or shows, or removes.
pub fn run(arguments: Arguments) -> Result<()> {
    let On::Rocm(ordinal) = arguments.device else {
        return Err(Failure::usage("tune is for ROCm devices, not for Candle's CPU backend: leave out --device cpu"));
    };
    if !(arguments.minutes > 0.0 && arguments.minutes <= 600.0) {
        return Err(Failure::usage(format!("--minutes {}: say a number above 0, up to 600", arguments.minutes)));
    }
    let device = hip::Device::new(ordinal)?;
    let (arch, card) = (device.base_arch().to_owned(), device.name());
    if arguments.show {
        return show(&arch, card);
    }
    if arguments.reset {
        return reset(&arch, card);
    }
    let is_card = device.platform().is_gpu();
    if !is_card && arguments.out.is_none() {
        terminal::note(
            "times on this device say nothing about a card: they are measured to see that it works, and not kept",
        );
    }
    let result = measure(&device, is_card, arguments.minutes)?;
    match (&arguments.out, is_card) {
        _ if result.values.is_empty() => {
            Err(Failure::new(Code::Device, "nothing could be measured, so nothing is kept; the lines above say why"))
        }
        (Some(path), _) => {
            result.write(path).map_err(Failure::input)?;
            terminal::print(&format!("written to {}\n", path.display()))
        }
        (None, true) => {
            let path = result.store().map_err(|why| Failure::new(Code::Device, why))?;
            let variable = tuned::VARIABLE;
            terminal::print(&format!(
                "kept in {}; programs that start from now on plan with it, unless {variable}=0 is set\n",
                path.display()
            ))
        }
        (None, false) => terminal::print("not kept: this is no card; --out FILE writes it to a file\n"),
    }
}

fn show(arch: &str, card: &str) -> Result<()> {
    match Tuned::load(arch, card).map_err(Failure::input)? {
        Some(tuned) => terminal::print(&tuned.to_text()),
        None => terminal::print(&format!("nothing is kept for {card} ({arch}): it is planned for by the table\n")),
    }
}

fn reset(arch: &str, card: &str) -> Result<()> {
    let Some(path) = Tuned::path(arch, card) else {
        return terminal::print("there is no folder in which something could be kept\n");
    };
    match std::fs::remove_file(&path) {
        Ok(()) => terminal::print(&format!("{} is removed\n", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            terminal::print(&format!("nothing is kept for {card} ({arch}): there is no {}\n", path.display()))
        }
        Err(error) => Err(Failure::input(format!("{} cannot be removed: {error}", path.display()))),
    }
}

/// Measures one choice after the other, each with what was found for those before it.
fn measure(device: &hip::Device, is_card: bool, minutes: f64) -> Result<Tuned> {
    let mut found = Tuned::new(device, today());
    let blas = Ground::new(device, &found)?.has_blas();
    let points: usize = CHOICES.iter().map(|choice| choice.ladder(is_card).len()).sum();
    let slice = match is_card {
        true => Duration::from_secs_f64(minutes * 60.0 / points.max(1) as f64),
        false => Duration::ZERO,
    };
    terminal::print(&format!("{} ({})\n", found.card, found.arch))?;
    for choice in &CHOICES {
        terminal::print(&format!("\n{} (so far {}): {}\n", choice.field, so_far(device, choice)?, choice.what))?;
        if choice.needs_blas && !blas {
            terminal::print("  not measured: there is no rocBLAS to compare with\n")?;
            continue;
        }
        let value = one(device, choice, &found, is_card, slice)?;
        if !found.set(choice.field, value) {
            return Err(Failure::new(Code::Device, format!("{}: {value:?} is no value for it", choice.field)));
        }
    }
    Ok(found)
}

/// A choice: both ways at each size, and the size at which to change from one to the other.
fn one(device: &hip::Device, choice: &Choice, found: &Tuned, is_card: bool, slice: Duration) -> Result<Option<u64>> {
    let with = |value: Option<u64>| -> hip::Result<Ground> {
        let mut tried = found.clone();
        for (name, value) in choice.fixed.iter().filter(|(name, _)| found.get(name).is_none()) {
            tried.set(name, *value);
        }
        tried.set(choice.field, value);
        Ground::new(device, &tried)
    };
    let (below, above) = (with(choice.below)?, with(choice.above)?);
    let mut times = Vec::new();
    for &size in choice.ladder(is_card) {
        let way = |ground| -> hip::Result<Way<'_>> {
            let ground: &Ground = ground;
            Ok(Way { turn: (choice.body)(ground, size, is_card)?, wait: Box::new(|| ground.wait()) })
        };
        let [first, second] = race([way(&below)?, way(&above)?], slice)?;
        terminal::print(&format!("  {size:>10} {}: {first:>9.1} us, {second:>9.1} us\n", choice.unit))?;
        times.push([first, second]);
    }
    let value = choice.threshold(choice.ladder(is_card), split(&times));
    terminal::print(&format!("  -> {}\n", value.map_or("never".to_owned(), |value| value.to_string())))?;
    Ok(value)
}

/// What the device plans with so far.
fn so_far(device: &hip::Device, choice: &Choice) -> Result<String> {
    let kernels = candle_rocm_kernels::Kernels::new(&device.new_stream()?)?;
    Ok(kernels.profile().value_of(choice.field).unwrap_or_else(|| "unknown".to_owned()))
}
