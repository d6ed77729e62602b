//! How the program fails: one sentence on standard error and an exit code that scripts can rely on. Everything that can go
//! wrong outside the program's control ends up here; nothing panics for it.

use std::fmt;

/// The exit codes, as `--help` says them.
pub const EXIT_CODES: &str = "Exit codes: 0 done, 1 the device failed, 2 the command line makes no sense, \
3 an input cannot be used, 130 interrupted.";

/// What the process exits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The device or a computation on it failed.
    Device = 1,
    /// The command line makes no sense. (clap itself exits with 2 as well.)
    Usage = 2,
    /// A file or a text is missing, unreadable, or not what it should be.
    Input = 3,
    /// Ctrl-C; shells give the same to what a signal ends.
    Interrupted = 130,
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

    /// Something about an input.
    pub fn input(sentence: impl Into<String>) -> Self {
        Self::new(Code::Input, sentence)
    }

    /// Something about the command line.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self::new(Code::Usage, sentence)
    }

    /// Candle could not make a model of `source`. That is the file's fault unless the device says otherwise.
    pub fn loading(source: &str, what: &str, error: &candle_core::Error) -> Self {
        if is_of_device(error) {
            return Self::new(Code::Device, format!("{source} does not load onto the device: {}", sentence(error)));
        }
        Self::input(format!("{source} cannot be loaded as a {what} model: {}", sentence(error)))
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
        Self::new(Code::Device, sentence(&error))
    }
}

/// Candle appends a backtrace when one is enabled; a person wants the sentence.
pub fn sentence(error: &candle_core::Error) -> String {
    error.to_string().lines().next().unwrap_or("the device failed").to_owned()
}

fn is_of_device(error: &candle_core::Error) -> bool {
    use candle_core::Error;
    match error {
        Error::Cuda(_) => true,
        Error::WithBacktrace { inner, .. } | Error::WithPath { inner, .. } | Error::Context { inner, .. } => {
            is_of_device(inner)
        }
        _ => false,
    }
}
