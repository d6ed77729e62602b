//! From HIP source to a host code object: runs the system's C++ compiler twice (preprocess, then compile what the
//! scanner made of it). Used by build scripts for kernels compiled ahead of time and by `rtc.rs` at run time.

use std::fmt;

/// One translation unit to compile.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompileRequest<'a> {
    /// The name diagnostics give to the source, such as `reduce.hip`.
    pub name: &'a str,
    /// HIP C++: ordinary `__global__` functions, no registration.
    pub source: &'a str,
    /// Headers the source may include, as (name, text).
    pub headers: &'a [(&'a str, &'a str)],
    /// hipRTC's options: `-D`, `-U`, `-I`, `-O…`, `-std=`, `-ffast-math`, …
    pub options: &'a [&'a str],
    /// Compile every load and store with a check against the shadow of device memory.
    pub checked: bool,
    /// Expressions such as `my::kernel<float>` that shall become entry points.
    pub name_expressions: &'a [&'a str],
}

/// A compiled translation unit.
#[derive(Clone, Debug)]
pub struct Object {
    /// The code object: an ELF shared object, to be loaded from memory.
    pub image: Vec<u8>,
    /// The names of its kernels.
    pub kernels: Vec<String>,
    /// For each name expression, the name of its kernel in `kernels`.
    pub lowered: Vec<(String, String)>,
    /// What the compiler said although it succeeded.
    pub log: String,
}

/// Why there is no object.
#[derive(Clone, Debug)]
pub struct CompileError {
    /// One sentence: what failed and what to do.
    pub message: String,
    /// The compiler's diagnostics, with the names and lines of the source as it was given; may be empty.
    pub log: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.log.is_empty() {
            write!(f, "\n{}", self.log.trim_end())?;
        }
        Ok(())
    }
}

impl std::error::Error for CompileError {}

/// Compiles one translation unit.
pub fn compile(request: &CompileRequest) -> Result<Object, CompileError> {
    let _ = request;
    Err(CompileError { message: "the compiler of the embedded device is being written".into(), log: String::new() })
}
