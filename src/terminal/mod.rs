//! How the program speaks: results on standard output as they come, everything else as notes on standard error, colour only
//! where a person looks, and a polite end on Ctrl-C or a closed pipe. What is said is not decided here.

mod progress;

pub use progress::{Bar, Counted};

use crate::failure::{Code, Failure, Result};
use crate::generate::End;
use std::io::{ErrorKind, IsTerminal, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static BUSY: AtomicBool = AtomicBool::new(false);

/// From now on notes and progress bars are left out.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Ctrl-C asks the work inside `busy` to stop instead of ending the process; pressed again, or when nobody is busy, it ends the process.
pub fn catch_interrupts() -> Result<()> {
    let handler = || {
        if !BUSY.load(Ordering::SeqCst) || INTERRUPTED.swap(true, Ordering::SeqCst) {
            // The cursor may stand behind a prompt or half a sentence.
            let _ = std::io::stderr().write_all(b"\n");
            std::process::exit(Code::Interrupted as i32);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::new(Code::Device, format!("Ctrl-C cannot be caught: {error}")))
}

/// Runs work that watches [`interrupted`].
pub fn busy<T>(work: impl FnOnce() -> T) -> T {
    INTERRUPTED.store(false, Ordering::SeqCst);
    BUSY.store(true, Ordering::SeqCst);
    let done = work();
    BUSY.store(false, Ordering::SeqCst);
    done
}

/// Whether Ctrl-C was pressed since [`busy`] began.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Writes a piece of text at once, and says when no more is wanted: Ctrl-C was pressed or the reader is gone.
pub fn stream(piece: &str) -> Result<ControlFlow<End>> {
    let mut out = std::io::stdout().lock();
    match out.write_all(piece.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) if interrupted() => Ok(ControlFlow::Break(End::Interrupted)),
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(End::Closed)),
        Err(error) => Err(Failure::new(Code::Device, format!("standard output cannot be written: {error}"))),
    }
}

/// Writes a result that is complete. A reader that is gone is no failure.
pub fn print(text: &str) -> Result<()> {
    stream(text).map(|_| ())
}

/// A line that is not the result, dimmed on a terminal.
pub fn note(line: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        complain(&paint("2", line));
    }
}

/// The last line of a program that failed; not even `--quiet` hides it.
pub fn fail(sentence: &str) {
    complain(&format!("{} {sentence}", paint("1;31", "candle-rocm:")));
}

// Standard error may be closed too, and then nobody is left to tell.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// What a person is asked, on a line that their answer continues.
pub fn ask(prompt: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(paint("1", prompt).as_bytes()).and_then(|()| out.flush());
}

/// Text that came from outside.
pub fn utf8(bytes: Vec<u8>, source: &str) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::input(format!("{source} is not text in UTF-8: byte {at} is where it stops being so"))
    })
}

/// Whether a person may be asked and shown things that move.
pub fn is_interactive() -> bool {
    std::io::stderr().is_terminal() && !QUIET.load(Ordering::Relaxed)
}

/// Standard error in a colour, where it is a terminal that wants colours.
fn paint(style: &str, text: &str) -> String {
    let unwanted = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_plain = !std::io::stderr().is_terminal()
        || unwanted("NO_COLOR")
        || std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    if is_plain {
        text.to_owned()
    } else {
        format!("\x1b[{style}m{text}\x1b[0m")
    }
}
