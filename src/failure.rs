//! How the program fails: one sentence on standard error and an exit code that scripts can rely on. Everything that can go
//! wrong outside the program's control ends up here; nothing panics for it.

use std::fmt;

/// Exit codes, as documented in `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The device or a computation on it failed.
    Device = 1,
    /// The command line makes no sense. (clap itself exits with 2 as well.)
    Usage = 2,
    /// A file is missing, unreadable, or not what it should be.
    Input = 3,
}

/// A failure with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// What the process exits with.
    pub code: Code,
    /// What is printed.
    pub sentence: String,
}

/// A result that carries its exit code.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure of that kind.
    pub fn new(code: Code, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into() }
    }

    /// Something about an input file.
    pub fn input(sentence: impl Into<String>) -> Self {
        Self::new(Code::Input, sentence)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<hip::Error> for Failure {
    fn from(error: hip::Error) -> Self {
        Self::new(Code::Device, error.to_string())
    }
}

impl From<candle_core::Error> for Failure {
    fn from(error: candle_core::Error) -> Self {
        // Candle appends a backtrace when one is enabled; a person wants the sentence.
        let text = error.to_string();
        Self::new(Code::Device, text.lines().next().unwrap_or("the device failed").to_string())
    }
}
