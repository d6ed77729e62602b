//! What can go wrong while grafting. Every message is a sentence for the person whose build just stopped: it names the
//! file, and says what to do about it.

use std::path::{Path, PathBuf};

/// The result of a graft step.
pub type Result<T> = std::result::Result<T, Error>;

/// A graft that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A source file is not Rust that this tool understands.
    #[error("cannot parse {file}:{line}: {reason}; is this folder a Candle crate?")]
    Parse {
        /// The file, relative to the crate.
        file: String,
        /// The line the parser stopped at.
        line: usize,
        /// What the parser said.
        reason: String,
    },
    /// Operations of CUDA's that the overlay lacks and no waiver excuses.
    #[error("{}", missing_sentence(.0))]
    MissingHooks(Vec<Mention>),
    /// Waivers that excuse nothing in the release they were written for.
    #[error("{}", stale_sentence(.0))]
    StaleWaivers(Vec<String>),
    /// A fix whose place is not in the release it was written for, or is there twice.
    #[error("{file} does not have exactly one statement that begins with `{before}`, in front of which a fault is fixed ({why}); remove the fix or move it to the new place")]
    StaleFix {
        /// The file, relative to the crate.
        file: String,
        /// The place that was looked for.
        before: String,
        /// What the fix is for.
        why: String,
    },
    /// The overlay lacks a file that the graft must mount.
    #[error("the overlay has neither {0}.rs nor {0}/mod.rs, which would be mounted where Candle has its CUDA counterpart; add the file or waive the mount")]
    MissingMount(String),
    /// The crate root carries an attribute that cannot travel through `include!`.
    #[error("{file} has the crate attribute `{attribute}`, which an included file cannot carry; write it into the package's own src/lib.rs and waive it here")]
    CrateAttribute {
        /// The crate root.
        file: String,
        /// The attribute as written.
        attribute: String,
    },
    /// An exported macro whose body names itself: the graft gives it another name and would break it.
    #[error("{file} exports the macro `{name}`, which calls itself; the graft would rename it and break that call")]
    RecursiveMacro {
        /// The defining file.
        file: String,
        /// The macro.
        name: String,
    },
    /// Upstream's sources could not be found.
    #[error("{0}")]
    Upstream(String),
}

/// One operation in a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The file, relative to the crate.
    pub file: String,
    /// The line, counted from one.
    pub line: usize,
    /// The operation, and what it lacks.
    pub what: String,
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { action, path, source }
    }
}

fn missing_sentence(mentions: &[Mention]) -> String {
    let mut text = format!(
        "{} operation(s) that Candle implements for CUDA alone; write the hooks, or waive them with a reason:",
        mentions.len()
    );
    for Mention { file, line, what } in mentions {
        text.push_str(&format!("\n  {file}:{line}: {what}"));
    }
    text
}

fn stale_sentence(waivers: &[String]) -> String {
    format!("these waivers excuse nothing in this release of Candle; remove them: {}", waivers.join("; "))
}
