//! From HIP source to a host code object: runs the system's C++ compiler twice (preprocess, then compile what the
//! scanner made of it). Used by build scripts for kernels compiled ahead of time and by `rtc.rs` at run time.
//!
//! Arithmetic is as written: no contraction into fused multiply-adds unless asked for (`-ffp-contract=fast`), which
//! HIP does by default, so that results can be compared with a reference bit for bit where that makes sense.

#[cfg(feature = "emulator")]
pub(crate) mod amd;
mod compiler;
mod options;
mod workspace;

pub(crate) use compiler::processor_has;

use crate::scan::{scan, Rules, Scanned};
use compiler::{Compiler, Family};
use hip_abi::stable_hash::StableHash;
use options::Options;
use std::fmt;
use workspace::Workspace;

/// One translation unit to compile.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompileRequest<'a> {
    /// The name diagnostics give to the source, such as `reduce.hip`.
    pub name: &'a str,
    /// HIP C++: ordinary `__global__` functions, no registration.
    pub source: &'a str,
    /// Headers the source may include, as (name, text).
    pub headers: &'a [(&'a str, &'a str)],
    /// hipRTC's options: `-D`, `-U`, `-I`, `-O…`, `-std=`, `-ffast-math`, … What only means something on a GPU
    /// is noted in the log and left out. `-march=` names the processor; without it `HIP_HOST_MARCH` does, and without
    /// that it is this machine's x86-64 level, but no more than x86-64-v3.
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
    /// What kind of failure it is.
    pub reason: CompileFailure,
}

/// Which part of a compilation went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileFailure {
    /// The source, or a name expression, is in error: see the log.
    Source,
    /// A header's name or an option is not acceptable.
    Request,
    /// There is no compiler, or it cannot be run.
    Compiler,
    /// Files could not be written or read.
    Files,
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

impl CompileError {
    fn new(reason: CompileFailure, message: impl Into<String>) -> Self {
        Self { message: message.into(), log: String::new(), reason }
    }
}

/// Folders inside the workspace: the caller's headers, and ours.
const HEADERS: &str = "headers";
const DEVICE: &str = "device";

/// Compiles one translation unit.
///
/// ```
/// let object = hip_host::compile(&hip_host::CompileRequest {
///     name: "fill.hip",
///     source: r#"extern "C" __global__ void fill(float *out, float value, int count) {
///         int i = blockIdx.x * blockDim.x + threadIdx.x;
///         if (i < count) out[i] = value;
///     }"#,
///     ..Default::default()
/// })?;
/// assert_eq!(object.kernels, ["fill"]);
/// # Ok::<(), hip_host::CompileError>(())
/// ```
pub fn compile(request: &CompileRequest) -> Result<Object, CompileError> {
    let compiler = Compiler::find()?;
    let options = Options::parse(request.options, request.checked)?;
    let workspace = Workspace::new()?;
    workspace.device_headers(DEVICE)?;
    for (name, text) in request.headers {
        workspace.header(HEADERS, name, text)?;
    }
    let (definitions, name) = (&options.definitions, quoted(request.name));
    let text =
        format!("# 1 \"the options\"\n{definitions}#include \"hip_host/assert.h\"\n# 1 {name}\n{}\n", request.source);
    workspace.write("source.hip", &text)?;

    let flags = options.flags(&compiler);
    let mut log = options.notes.clone();
    let mut run = |more: &[&str]| -> Result<(bool, Vec<u8>), CompileError> {
        let mut command = compiler.command(workspace.path());
        let output = command.args(&flags).args(more).output().map_err(|why| compiler.cannot_run(&why))?;
        // What the preprocessor itself complains about still carries the folder's name.
        log.push_str(&String::from_utf8_lossy(&output.stderr).replace(&format!("{HEADERS}/"), ""));
        Ok((output.status.success(), output.stdout))
    };

    let include = [format!("-I{HEADERS}"), format!("-I{DEVICE}")];
    let (done, text) = run(&["-E", "-x", "c++", &include[0], &include[1], "-include", "hip_host.h", "source.hip"])?;
    if !done {
        return Err(failed(request, "the embedded device", log));
    }
    let text = String::from_utf8_lossy(&text);

    // Passing large structs by reference is refused by a kernel that writes to its parameter; then they are copied.
    let before = log.len();
    for by_reference in [true, false] {
        let rules = Rules { gcc: compiler.family == Family::Gcc, by_reference, header_folder: HEADERS };
        let mut scanned = scan(&text, rules);
        let lowered = entries(&mut scanned, request, options.processor.as_deref());
        workspace.write("kernels.ii", &scanned.text)?;
        let mut run = |more: &[&str]| -> Result<bool, CompileError> {
            let mut command = compiler.command(workspace.path());
            let output = command.args(&flags).args(more).output().map_err(|why| compiler.cannot_run(&why))?;
            log.push_str(&String::from_utf8_lossy(&output.stderr));
            Ok(output.status.success())
        };
        if run(&["-shared", "-x", "c++-cpp-output", "kernels.ii", "-o", "object.so"])? {
            let kernels = scanned.kernels.into_iter().map(|kernel| kernel.name).collect();
            return Ok(Object { image: workspace.read("object.so")?, kernels, lowered, log });
        }
        if by_reference && scanned.text.contains("hip_host::Parameter<") {
            log.truncate(before);
        } else {
            break;
        }
    }
    Err(failed(request, "the embedded device", log))
}

/// What an object depends on beside its request: the device's headers, the scanner, the flags, the compiler, the processor.
/// Two objects of one request and one fingerprint are alike, so whoever keeps objects makes this part of their key.
pub fn fingerprint() -> Result<String, CompileError> {
    let march = std::env::var("HIP_HOST_MARCH").ok();
    let hash = StableHash::new()
        .part(format!("{:?}", workspace::DEVICE_HEADERS))
        .part(include_str!("compile.rs"))
        .part(include_str!("compile/options.rs"))
        .part(include_str!("scan.rs"))
        .part(include_str!("scan/token.rs"))
        .part(format!("{:?}", Compiler::find()?))
        .part(format!("{march:?}"));
    let level = compiler::LEVELS.iter().filter(|level| processor_has(level)).count();
    Ok(format!("{:032x}-{level}", hash.value()))
}

fn failed(request: &CompileRequest, target: &str, log: String) -> CompileError {
    let message = format!("`{}` does not compile for {target}; the compiler's words follow", request.name);
    CompileError { message, log, reason: CompileFailure::Source }
}

/// Appends the module's table to the text; returns each name expression with the name it is launched by.
fn entries(scanned: &mut Scanned, request: &CompileRequest, processor: Option<&str>) -> Vec<(String, String)> {
    let mut lines = String::new();
    let mut add = |marker: &str, path: &str, name: &str| {
        lines.push_str(&format!("# 1 {}\nhip_host::kernel<{path}>({}),\n", quoted(marker), quoted(name)));
    };
    for kernel in &scanned.kernels {
        add("the table of kernels", &format!("&{}", kernel.path), &kernel.name);
    }
    let mut lowered = Vec::new();
    for expression in request.name_expressions {
        let bare = expression.trim().trim_start_matches('&').trim_start();
        let name = lowered_name(bare);
        let path = format!("::{}", name.trim_start_matches("::"));
        let known = scanned.kernels.iter().find(|kernel| kernel.name == name || kernel.path == path);
        let name = match known {
            Some(kernel) => kernel.name.clone(),
            None => {
                add(&format!("name expression {expression}"), &format!("&{bare}"), &name);
                scanned.kernels.push(crate::scan::Kernel { name: name.clone(), path: bare.to_owned() });
                name
            }
        };
        lowered.push(((*expression).to_owned(), name));
    }
    let count = scanned.kernels.len();
    let table = if count == 0 {
        "nullptr".to_owned()
    } else {
        scanned.text.push_str(&format!("\nstatic const hip_host_kernel hip_host_kernels[] = {{\n{lines}}};"));
        "hip_host_kernels".to_owned()
    };
    let checked = u8::from(request.checked);
    let exported = "extern __attribute__((visibility(\"default\"))) const";
    scanned.text.push_str(&format!(
        "\n# 1 \"the table of kernels\"\nextern \"C\" {{\n{exported} hip_host_module_table hip_host_module;\n\
         const hip_host_module_table hip_host_module = {{hip_host::ABI, {checked}, {count}, {table}, hip_host::bind}};\n"
    ));
    if let Some(processor) = processor {
        let processor = quoted(processor);
        scanned.text.push_str(&format!(
            "{exported} char hip_host_processor[];\nconst char hip_host_processor[] = {processor};\n"
        ));
    }
    scanned.text.push_str("}\n");
    lowered
}

/// The expression without the spaces that mean nothing.
fn lowered_name(expression: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    for piece in expression.split_whitespace() {
        if out.chars().last().is_some_and(is_word) && piece.chars().next().is_some_and(is_word) {
            out.push(' ');
        }
        out.push_str(piece);
    }
    out
}

/// A C string literal on one line.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
