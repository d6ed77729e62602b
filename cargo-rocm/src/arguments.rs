//! The command line: `cargo rocm [--packages PATH] [OPTIONS OF CARGO] COMMAND [ARGUMENTS OF THE COMMAND]`. What is not ours is
//! handed on as it is; what cargo calls mean for a lock file (`--locked`, `--manifest-path`) is looked up on the way.

use crate::failure::{Failure, Result};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Cargo's commands that build or look at a project, with their short names.
pub const COMMANDS: &[&str] = &[
    "bench", "build", "b", "check", "c", "clippy", "doc", "d", "fetch", "install", "metadata", "run", "r", "rustc",
    "rustdoc", "test", "t", "tree",
];

/// Options of cargo whose value is the next word.
const WITH_VALUE: &[&str] = &[
    "--bench",
    "--bin",
    "--color",
    "--config",
    "--depth",
    "--edges",
    "--example",
    "--exclude",
    "--features",
    "--filter-platform",
    "--format",
    "--format-version",
    "--git",
    "--index",
    "--invert",
    "--jobs",
    "--manifest-path",
    "--message-format",
    "--package",
    "--path",
    "--profile",
    "--registry",
    "--root",
    "--target",
    "--target-dir",
    "--test",
    "--version",
    "-C",
    "-F",
    "-Z",
    "-e",
    "-i",
    "-j",
    "-p",
];

/// A command line, taken apart.
#[derive(Debug, Default)]
pub struct Arguments {
    /// `--packages PATH`, or the variable of that meaning.
    pub packages: Option<PathBuf>,
    /// Cargo's options in front of the command.
    pub front: Vec<OsString>,
    pub command: String,
    /// Everything behind the command.
    pub rest: Vec<OsString>,
}

impl Arguments {
    /// `words` are what follows `cargo rocm`. `None` when help is asked for.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Self>> {
        let mut parsed = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word.to_str() {
                Some("--help" | "-h" | "help") => return Ok(None),
                Some("--packages") => {
                    let path =
                        words.next().ok_or_else(|| Failure::usage("--packages of which folder? Name a clone"))?;
                    parsed.packages = Some(path.into());
                }
                Some(text) if text.starts_with("--packages=") => {
                    parsed.packages = text.strip_prefix("--packages=").map(PathBuf::from);
                }
                Some(text) if text.starts_with('-') => {
                    let value = WITH_VALUE.contains(&text);
                    parsed.front.push(word);
                    parsed.front.extend(value.then(|| words.next()).flatten());
                }
                Some(command) => {
                    parsed.command = command.to_owned();
                    parsed.rest = words.collect();
                    return Ok(Some(parsed));
                }
                None => return Err(Failure::usage(format!("{} is no command of cargo", word.display()))),
            }
        }
        Ok(None)
    }

    /// The words that are cargo's: up to `--`, and with `run` up to the first one that goes to the program.
    fn options(&self) -> &[OsString] {
        let to_program = matches!(self.command.as_str(), "run" | "r");
        let mut at = 0;
        while let Some(word) = self.rest.get(at) {
            if word == "--" || (to_program && !word.as_encoded_bytes().starts_with(b"-")) {
                break;
            }
            at += if word.to_str().is_some_and(|word| WITH_VALUE.contains(&word)) { 2 } else { 1 };
        }
        &self.rest[..at.min(self.rest.len())]
    }

    /// Whether cargo gets this option.
    pub fn has(&self, names: &[&str]) -> bool {
        self.front.iter().chain(self.options()).any(|word| names.iter().any(|name| word == name))
    }

    /// The values of an option, as in `--config KEY=VALUE` and `--config=KEY=VALUE`.
    pub fn values(&self, name: &str) -> Vec<OsString> {
        let mut found = Vec::new();
        for words in [&self.front[..], self.options()] {
            let mut words = words.iter();
            while let Some(word) = words.next() {
                let behind = word.to_str().and_then(|word| word.strip_prefix(name)?.strip_prefix('='));
                match behind {
                    Some(value) => found.push(OsString::from(value)),
                    None if word == OsStr::new(name) => found.extend(words.next().cloned()),
                    None => {}
                }
            }
        }
        found
    }

    /// The words that are no option and no option's value: the packages of `install`, the name of `new`.
    pub fn names(&self) -> Vec<&OsStr> {
        let mut found = Vec::new();
        let mut words = self.options().iter();
        while let Some(word) = words.next() {
            match word.to_str() {
                Some(text)
                    if WITH_VALUE.contains(&text) || text == "--vcs" || text == "--edition" || text == "--name" =>
                {
                    words.next();
                }
                Some(text) if text.starts_with('-') => {}
                _ => found.push(word.as_os_str()),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Arguments {
        Arguments::parse(line.split_whitespace().map(OsString::from)).unwrap().unwrap()
    }

    #[test]
    fn what_is_behind_two_dashes_is_the_programs() {
        let line = parse("-v --packages ../clone run --locked --bin --x -- --offline --manifest-path y");
        assert_eq!((line.command.as_str(), line.packages), ("run", Some("../clone".into())));
        let line = parse("-v run --locked --bin x -- --offline --manifest-path y");
        assert!(line.has(&["--locked"]) && line.has(&["-v"]) && !line.has(&["--offline"]));
        assert_eq!(line.rest.len(), 7);
        assert!(line.values("--manifest-path").is_empty());
    }

    #[test]
    fn the_first_name_behind_run_is_the_programs() {
        assert!(!parse("run --bin tool name --frozen").has(&["--frozen"]));
        assert!(parse("test name --frozen").has(&["--frozen"]));
    }

    #[test]
    fn values_are_found_in_both_forms() {
        let line = parse("--config a=1 build --manifest-path=p/Cargo.toml --config b=2");
        assert_eq!(line.values("--config"), ["a=1", "b=2"]);
        assert_eq!(line.values("--manifest-path"), ["p/Cargo.toml"]);
        assert_eq!(parse("install --root /r tool --features x other").names(), ["tool", "other"]);
    }

    #[test]
    fn nothing_and_help_are_help() {
        for line in ["", "--help", "-v", "help"] {
            let words = line.split_whitespace().map(OsString::from);
            assert!(Arguments::parse(words).unwrap().is_none(), "{line}");
        }
    }
}
