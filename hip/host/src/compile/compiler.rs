//! Which C++ compiler there is, and what the processor can do.

use super::{CompileError, CompileFailure};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Gcc,
    Clang,
}

/// A compiler that has been run once.
#[derive(Clone, Debug)]
pub(super) struct Compiler {
    /// The program and the arguments it always gets (`ccache g++`).
    words: Vec<String>,
    pub family: Family,
    pub major: u32,
}

impl Compiler {
    /// `HIP_HOST_CXX`, else `CXX`, else the usual names. A variable that is set is believed: if what it names
    /// does not run, that is the error.
    pub fn find() -> Result<Self, CompileError> {
        Self::find_among(|name| std::env::var(name).ok(), &["c++", "g++", "clang++"])
    }

    pub(super) fn find_among(read: impl Fn(&str) -> Option<String>, usual: &[&str]) -> Result<Self, CompileError> {
        for variable in ["HIP_HOST_CXX", "CXX"] {
            if let Some(value) = read(variable).filter(|value| !value.trim().is_empty()) {
                return Self::ask(&value).map_err(|why| {
                    CompileError::new(
                        CompileFailure::Compiler,
                        format!("{variable} names the C++ compiler `{value}`, which {why}; correct the variable or unset it"),
                    )
                });
            }
        }
        usual.iter().find_map(|name| Self::ask(name).ok()).ok_or_else(|| {
            CompileError::new(
                CompileFailure::Compiler,
                format!(
                    "no C++ compiler was found (tried {}); the embedded device compiles kernels with one: install g++ 11 or \
                     newer (Debian: apt install g++), or name one in HIP_HOST_CXX",
                    usual.join(", ")
                ),
            )
        })
    }

    fn ask(value: &str) -> Result<Self, String> {
        static KNOWN: Mutex<Option<HashMap<String, Compiler>>> = Mutex::new(None);
        let mut known = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = known.get_or_insert_with(HashMap::new);
        if let Some(compiler) = known.get(value) {
            return Ok(compiler.clone());
        }
        let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        let output = Command::new(&words[0]).args(&words[1..]).arg("--version").output();
        let output = output.map_err(|why| format!("cannot be run ({why})"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let first = text.lines().next().unwrap_or_default();
        if !output.status.success() || first.is_empty() {
            return Err("does not answer to --version".into());
        }
        // The last number of the line: "g++ (Debian 12.2.0-14) 12.2.0", "Debian clang version 19.1.7 (3~deb12u1)".
        let mut numbers = first.split_whitespace().rev().filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        let major = numbers.next().and_then(|word| word.split('.').next()?.parse().ok()).unwrap_or(0);
        let family = if first.contains("clang") { Family::Clang } else { Family::Gcc };
        let compiler = Self { words, family, major };
        known.insert(value.to_owned(), compiler.clone());
        Ok(compiler)
    }

    /// The compiler, to be run inside `folder`; whatever it writes on its way stays there.
    pub fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).current_dir(folder).env("TMPDIR", folder).env("LC_ALL", "C");
        command.stdin(std::process::Stdio::null());
        command
    }

    pub fn cannot_run(&self, why: &std::io::Error) -> CompileError {
        CompileError::new(
            CompileFailure::Compiler,
            format!("the C++ compiler `{}` cannot be run: {why}", self.words.join(" ")),
        )
    }
}

/// The levels of x86-64, from the lowest.
pub(super) const LEVELS: [&str; 4] = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"];

/// Which of [`LEVELS`] this machine has.
#[cfg(target_arch = "x86_64")]
pub(super) fn level() -> usize {
    let v2 = is_x86_feature_detected!("sse4.2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("cmpxchg16b");
    let v3 = v2
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("movbe");
    let v4 = v3
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    usize::from(v2) + usize::from(v3) + usize::from(v4)
}

/// Whether code for the processor level `name` runs here. Of other names nothing is known, and they are believed.
pub(crate) fn processor_has(name: &str) -> bool {
    #[cfg(target_arch = "x86_64")]
    if let Some(wanted) = LEVELS.iter().position(|level| *level == name) {
        return wanted <= level();
    }
    // A level that is not in the table is a later one.
    !name.starts_with("x86-64")
}
