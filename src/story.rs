//! What `candle-rocm` does when nobody says what: a story by the small model inside the program, on whatever device there is.

use crate::device::Choice;
use crate::failure::Result;
use crate::generate::{generate, Model, Options};
use crate::terminal;

const BEGINNING: &str = "It was a dark and stormy night";

/// Tells a story.
pub fn run(device: Choice) -> Result<()> {
    let (device, line) = device.open()?;
    terminal::note(&format!("device: {line}"));
    let mut model = Model::novelist(&device)?;
    terminal::catch_interrupts()?;
    let options =
        Options { temperature: 0.8, top_p: Some(0.95), top_k: None, repeat_penalty: 1.1, seed: 1812, max_tokens: 200 };
    let tokens = model.encode(BEGINNING)?;
    let statistics = terminal::busy(|| {
        terminal::print(BEGINNING)?;
        generate(&mut model, &device, tokens, &options, terminal::stream)
    })?;
    terminal::print("\n")?;
    terminal::note(&statistics.to_string());
    statistics.end.outcome()
}
