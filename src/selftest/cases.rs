//! The cases in the order in which they run: what the runtime promises, the kernels' code objects, the kernels against the oracle,
//! Candle's operations against its CPU backend, and how fast a few things are. Each has a name that `--only` finds.

use super::compare::Comparison;
use super::number::Random;
use super::operand::Side;
use super::{candle, families};
use crate::bench::case::{Case as Timed, Size};
use crate::bench::cases as timed;
use crate::bench::clock::Clock;
use crate::failure::sentence;
use candle_rocm_kernels::metadata::{self, Summary};
use candle_rocm_kernels::{objects, Id, ALL_IDS};
use hip::conformance::{self, Done};
use hip::{Device, Platform, PlatformKind, Result};
use serde_json::{json, Value};
use std::cell::OnceCell;

/// How a case ended.
pub enum Outcome {
    /// Well, with what is worth keeping.
    Passed(Value),
    /// It cannot be tried here, and why.
    NotHere(String),
    /// Badly.
    Failed {
        /// What is wrong, with all that is needed to repeat it.
        sentence: String,
        /// A HIP call failed: what follows in this process would say nothing.
        device_is_lost: bool,
    },
}

impl Outcome {
    fn failed(sentence: impl Into<String>) -> Self {
        Self::Failed { sentence: sentence.into(), device_is_lost: false }
    }

    fn of(error: &hip::Error) -> Self {
        Self::Failed { sentence: error.to_string(), device_is_lost: error.code().is_some() }
    }
}

/// What cases run on. The sides are made when the first case wants them: what comes before should find the device untouched.
pub struct Context {
    pub device: Device,
    pub oracle: Device,
    ordinal: usize,
    sides: OnceCell<[Side; 2]>,
    candle: OnceCell<candle_core::Device>,
    pub seed: u64,
    pub quick: bool,
    /// Whether a test wants the next result spoiled.
    pub spoil: bool,
}

impl Context {
    /// The device of that ordinal, and the embedded device as the oracle.
    ///
    /// Beside a GPU the embedded device is a platform of its own. Emulated GPUs are devices of the embedded platform, and the oracle is
    /// the one of them that runs kernels on the CPU. The embedded device itself is compared with the plans that it has for itself.
    pub fn new(ordinal: usize, seed: u64, quick: bool) -> Result<Self> {
        let platform = Platform::detect()?;
        let device = platform.device(ordinal)?;
        let oracle = match platform.kind() {
            PlatformKind::Host if device.base_arch() == "host" => device.clone(),
            PlatformKind::Host => {
                let all = platform.devices()?;
                all.into_iter().find(|device| device.base_arch() == "host").ok_or_else(|| {
                    hip::Error::refused(
                        "there is no embedded device beside the emulated GPU: add it to CANDLE_ROCM_PLATFORM, as in host,gfx1100",
                    )
                })?
            }
            PlatformKind::Amd | PlatformKind::Cuda => {
                // Whatever hides GPUs must not hide the oracle.
                hip_host::configure(hip_host::Options::default()).map_err(hip::Error::refused)?;
                Platform::named("host")?.device(0)?
            }
        };
        Ok(Self { device, oracle, ordinal, sides: OnceCell::new(), candle: OnceCell::new(), seed, quick, spoil: false })
    }

    /// Whether device and oracle are one.
    pub fn is_embedded(&self) -> bool {
        self.device.base_arch() == "host"
    }

    fn sides(&self) -> Result<&[Side; 2]> {
        if let Some(sides) = self.sides.get() {
            return Ok(sides);
        }
        let sides = [Side::new(&self.device, self.is_embedded())?, Side::new(&self.oracle, false)?];
        Ok(self.sides.get_or_init(|| sides))
    }

    fn candle(&self) -> candle_core::Result<&candle_core::Device> {
        if let Some(device) = self.candle.get() {
            return Ok(device);
        }
        let device = candle_core::Device::new_rocm(self.ordinal)?;
        Ok(self.candle.get_or_init(|| device))
    }

    /// Random trials of each kind.
    fn turns(&self) -> usize {
        if self.quick {
            1
        } else {
            20
        }
    }
}

/// A case: its name, and what it does.
pub struct Case {
    pub name: String,
    pub run: Box<dyn Fn(&Context) -> Outcome>,
}

impl Case {
    fn new(name: String, run: impl Fn(&Context) -> Outcome + 'static) -> Self {
        Self { name, run: Box::new(run) }
    }

    /// Whether one of the patterns is part of the name, in any case of letters. Without patterns every case is wanted.
    pub fn matches(&self, patterns: &[String]) -> bool {
        let name = self.name.to_lowercase();
        patterns.is_empty() || patterns.iter().any(|pattern| name.contains(&pattern.to_lowercase()))
    }
}

/// Every case for a device.
pub fn all(context: &Context) -> Vec<Case> {
    let mut list: Vec<Case> = conformance::CASES
        .iter()
        .map(|case| Case::new(format!("runtime/{}", case.name), move |context| promise(case, context)))
        .collect();
    list.extend(ALL_IDS.iter().map(|&id| Case::new(format!("module/{}", id.module().name), move |c| module(id, c))));
    list.extend(families::all().into_iter().map(|operation| {
        let name = format!("kernel/{}", operation.name);
        Case::new(name, move |context| compared(&operation, context))
    }));
    list.extend(candle::OPERATIONS.iter().map(|operation| {
        Case::new(format!("candle/{}", operation.name), move |context| of_candle(operation, context))
    }));
    list.extend(speeds(context));
    list
}

fn promise(case: &conformance::Case, context: &Context) -> Outcome {
    match hip::Compiler::new(context.device.platform()) {
        Ok(_) => {}
        Err(error) => return Outcome::NotHere(format!("no run-time compiler for its kernels: {error}")),
    }
    match conformance::run(case, &context.device) {
        Ok(Done::Passed) if context.spoil => Outcome::failed("spoiled by a test"),
        Ok(Done::Passed) => Outcome::Passed(Value::Null),
        Ok(Done::NotHere(why)) => Outcome::NotHere(why.to_owned()),
        // A text does not say whether a call failed, so what follows gets a process of its own.
        Err(sentence) => Outcome::Failed { sentence, device_is_lost: true },
    }
}

/// A module's code object: where it comes from, what the compiler made of it, and whether the device takes it.
fn module(id: Id, context: &Context) -> Outcome {
    let made = objects::for_device(&context.device, id.module());
    let object = match made {
        Ok(object) => object,
        Err(error) => return Outcome::of(&error),
    };
    let summary = metadata::kernels(&object.bytes).map(|kernels| Summary::of(&kernels)).ok();
    let facts = json!({
        "origin": object.origin.to_string(),
        "kernels": id.module().kernels.len(),
        "bytes": object.bytes.len(),
        "vgprs": summary.map(|summary| summary.most_vgprs),
        "shared_bytes": summary.map(|summary| summary.most_shared_bytes),
        "spills": summary.map(|summary| summary.spills),
    });
    // SAFETY: one of the project's own objects, as the launch layer takes them.
    match unsafe { hip::Module::load(&context.device, object.bytes) } {
        Ok(_) => Outcome::Passed(facts),
        Err(error) => Outcome::of(&error),
    }
}

fn compared(operation: &families::Operation, context: &Context) -> Outcome {
    let [device, oracle] = match context.sides() {
        Ok(sides) => sides,
        Err(error) => return Outcome::of(&error),
    };
    let random = Random::of(context.seed, &operation.name);
    let mut comparison =
        Comparison { spoil: context.spoil, ..Comparison::new(device, oracle, random, context.turns()) };
    (operation.run)(&mut comparison);
    let Comparison { trials, failed, sentences, device_is_lost, .. } = comparison;
    if failed > 0 {
        let more = if failed > sentences.len() { "\n..." } else { "" };
        let sentence = format!("{failed} of {trials} trials failed:\n{}{more}", sentences.join("\n"));
        return Outcome::Failed { sentence, device_is_lost };
    }
    match trials {
        0 => Outcome::NotHere("both the device and the oracle refuse every trial".to_owned()),
        _ => Outcome::Passed(json!({ "trials": trials })),
    }
}

fn of_candle(operation: &candle::Operation, context: &Context) -> Outcome {
    let device = match context.candle() {
        Ok(device) => device,
        Err(error) => return Outcome::Failed { sentence: sentence(&error), device_is_lost: true },
    };
    match operation.compare(device, &Random::of(context.seed, operation.name), context.spoil) {
        Ok(()) => Outcome::Passed(Value::Null),
        Err(sentence) => Outcome::Failed { sentence, device_is_lost: !context.spoil },
    }
}

/// Cases of `bench`; the first of each family where it is to be quick.
fn speeds(context: &Context) -> Vec<Case> {
    if context.device.is_emulated() {
        let why = "an emulated GPU says nothing about a card's speed";
        return vec![Case::new("speed".to_owned(), move |_| Outcome::NotHere(why.to_owned()))];
    }
    let size = if context.device.platform().is_gpu() { Size::Full } else { Size::Small };
    let mut cases = timed::all(size);
    if context.quick {
        cases.retain(|case| case.family != "model");
        cases.dedup_by_key(|case| case.family);
    }
    let speed = |case: Timed| Case::new(format!("speed/{}", case.name), move |context| time(&case, size, context));
    cases.into_iter().map(speed).collect()
}

fn time(case: &Timed, size: Size, context: &Context) -> Outcome {
    match context.candle().and_then(|device| Clock::new(size).time(case, device)) {
        Ok(_) if context.spoil => Outcome::failed("spoiled by a test"),
        Ok(times) => Outcome::Passed(json!({
            "family": case.family,
            "us": times.median,
            "low": times.low,
            "high": times.high,
            "bytes": case.work.bytes,
            "flops": case.work.flops,
        })),
        Err(error) => Outcome::Failed { sentence: sentence(&error), device_is_lost: true },
    }
}
