//! What the program shows while it generates: text as it comes, statistics at the end, and a polite end on Ctrl-C or a closed pipe.

use crate::failure::{Code, Failure, Result};
use crate::generate::{End, Statistics};
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C asks generation to stop instead of ending the process.
pub fn catch_interrupts() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed))
        .map_err(|error| Failure::new(Code::Device, format!("Ctrl-C cannot be caught: {error}")))
}

/// Writes a piece of text at once. False when no more is wanted: Ctrl-C was pressed or the reader is gone.
pub fn stream(piece: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(piece.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(!INTERRUPTED.load(Ordering::Relaxed)),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(Code::Device, format!("the text cannot be written: {error}"))),
    }
}

/// The closing line.
pub fn summary(statistics: &Statistics) -> String {
    let end = match statistics.end {
        End::Model => "the model ended the text",
        End::Length => "as many tokens as asked for",
        End::Context => "the model's context is full",
        End::Interrupted => "interrupted",
    };
    format!(
        "prompt: {} tokens, {:.0} tokens/s; generated: {} tokens, {:.0} tokens/s ({end})",
        statistics.prompt_tokens,
        statistics.prompt_rate(),
        statistics.tokens,
        statistics.rate(),
    )
}
