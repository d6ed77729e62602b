//! What `candle-rocm` does when nobody says what: a story by the small model inside the program, on whatever device there is.

use crate::device::Choice;
use crate::failure::Result;
use crate::generate::{generate, Model, Options};
use crate::terminal;
use std::io::Cursor;

/// Seven million parameters, trained on public-domain novels; see assets/novelist-7m.
const NOVELIST: &[u8] = include_bytes!("../assets/novelist-7m/novelist-7m.Q8_0.gguf");
const BEGINNING: &str = "It was a dark and stormy night";

/// Tells a story.
pub fn run(device: Choice) -> Result<()> {
    let (device, line) = device.open()?;
    eprintln!("device: {line}");
    let mut model = Model::from_gguf(&mut Cursor::new(NOVELIST), "the model inside this program", &device)?;
    terminal::catch_interrupts()?;
    let options = Options {
        temperature: 0.8,
        top_p: Some(0.95),
        top_k: None,
        repeat_penalty: 1.1,
        repeat_last: 64,
        seed: 1812,
        max_tokens: 200,
    };
    terminal::stream(BEGINNING)?;
    let statistics = generate(&mut model, &device, BEGINNING, &options, terminal::stream)?;
    terminal::stream("\n")?;
    eprintln!("{}", terminal::summary(&statistics));
    Ok(())
}
