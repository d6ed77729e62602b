//! How `cargo rocm` fails: with a sentence of its own, or as the cargo that it called did.

use std::fmt;

/// What the process exits with, and what is said before.
#[derive(Debug)]
pub struct Failure {
    pub code: i32,
    /// Empty when cargo has said it.
    pub sentence: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

/// The command line makes no sense.
pub const USAGE: i32 = 2;
/// The project, the packages or a file cannot be used.
pub const INPUT: i32 = 3;

impl Failure {
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self { code: USAGE, sentence: sentence.into() }
    }

    pub fn input(sentence: impl Into<String>) -> Self {
        Self { code: INPUT, sentence: sentence.into() }
    }

    /// For `map_err`: what could not be done with which file.
    pub fn file(what: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::input(format!("{} cannot be {what}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}
