//! The process that runs the cases. Whatever it dies of, the process that started it goes on: it reads a line of JSON for each case
//! that begins and for each that ends. What else appears on standard output is no message and is passed over.

use super::cases::{self, Case, Context, Outcome};
use super::{Arguments, Injection};
use crate::failure::{Code, Failure, Result};
use crate::{doctor, info};
use serde_json::{json, Value};
use std::io::Write;
use std::panic::AssertUnwindSafe;

/// What a message begins with.
pub const MARK: &str = "selftest\t";

/// A line for the other process. That it is gone ends this one.
fn say(message: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{MARK}{message}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::new(Code::Device, format!("nobody reads the results: {error}")))
}

/// Runs the cases from a given one on, to the last or to one after which the device is lost.
pub fn run(arguments: &Arguments, ordinal: usize, from: usize) -> Result<()> {
    // A panic is an outcome, and its place is in the report.
    std::panic::set_hook(Box::new(|_| {}));
    let mut context = Context::new(ordinal, arguments.seed, arguments.quick)?;
    let all: Vec<Case> = cases::all(&context).into_iter().filter(|case| case.matches(&arguments.only)).collect();
    if from == 0 {
        say(&about(&context))?;
        let names: Vec<&str> = all.iter().map(|case| case.name.as_str()).collect();
        say(&json!({ "cases": names }))?;
    }
    for (index, case) in all.iter().enumerate().skip(from) {
        say(&json!({ "begin": index }))?;
        let injected = arguments.inject.iter().find(|injection| injection.case == case.name);
        let outcome = with(injected, &mut context, case);
        let (outcome, detail, facts, lost) = match outcome {
            Outcome::Passed(facts) => ("passed", String::new(), facts, false),
            Outcome::NotHere(why) => ("not here", why, Value::Null, false),
            Outcome::Failed { sentence, device_is_lost } => ("failed", sentence, Value::Null, device_is_lost),
        };
        say(&json!({ "end": index, "outcome": outcome, "detail": detail, "facts": facts }))?;
        if lost {
            // The rest gets a process whose device knows nothing of this.
            return Ok(());
        }
    }
    say(&json!({ "done": true }))
}

/// What the report says of machine, device and oracle.
fn about(context: &Context) -> Value {
    let device = &context.device;
    let oracle = match context.is_embedded() {
        true => "the embedded device's plans for itself; the plans under test are those for a GPU".to_owned(),
        false => format!("the embedded device: {}", context.oracle.name()),
    };
    json!({ "about": {
        "device": {
            "name": device.name(),
            "arch": device.arch(),
            "emulated": device.is_emulated(),
            "platform": device.platform().name(),
        },
        "oracle": oracle,
        "info": info::facts(),
        "doctor": doctor::facts(),
    }})
}

/// Runs a case, with the fault that a test wants in it.
fn with(injected: Option<&Injection>, context: &mut Context, case: &Case) -> Outcome {
    let kind = injected.map(|injection| injection.kind.as_str());
    match kind {
        Some("hang") => loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        },
        Some("abort") => {
            eprintln!("a test ends this process");
            std::process::abort();
        }
        _ => {}
    }
    context.spoil = kind == Some("wrong");
    let failure = hip::hipError_t::hipErrorLaunchFailure;
    let armed = (kind == Some("error")).then(|| hip_host::inject::fail("hipModuleLaunchKernel", 1, failure));
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| (case.run)(context)));
    drop(armed);
    context.spoil = false;
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let sentence = format!("it panicked: {}", text.unwrap_or_else(|| "without a word".to_owned()));
        Outcome::Failed { sentence, device_is_lost: true }
    })
}
