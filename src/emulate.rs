//! `candle-rocm emulate`: runs any program of ROCm on GPUs that are not there. The program gets a library preloaded that answers
//! for AMD's kernel driver (`hip/kfd`) and runs kernels in software (`hip/vgpu`).

use crate::failure::{Code, Failure, Result};
use crate::terminal;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The GPUs, and the program that shall find them.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Architectures of the emulated GPUs: gfx1030, gfx1100, gfx1201, gfx90a, gfx942
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
    arch: Vec<String>,
    /// Memory of each GPU in MiB; otherwise the card's, at most three quarters of this machine's
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
    /// Seconds that a kernel may run before it counts as hung; 0 is no limit
    #[arg(long, value_name = "SECONDS")]
    time_limit: Option<u64>,
    /// Threads that run a kernel's blocks; otherwise one a core
    #[arg(long, value_name = "COUNT")]
    threads: Option<u64>,
    /// Let kernels complete without running, to measure what the host does
    #[arg(long)]
    without_kernels: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// The library's name as cargo makes it.
const LIBRARY: &str = "libkfd.so";
/// Names another place for it.
const LIBRARY_VARIABLE: &str = "CANDLE_ROCM_KFD";

/// Becomes the program.
pub fn run(arguments: Arguments) -> Result<()> {
    for name in &arguments.arch {
        if !vgpu::Arch::ALL.iter().any(|arch| arch.name() == name) {
            let known: Vec<&str> = vgpu::Arch::ALL.iter().map(|arch| arch.name()).collect();
            return Err(Failure::usage(format!("{name:?} cannot be emulated; {} can", known.join(", "))));
        }
    }
    let library = library()?;
    let Some((program, rest)) = arguments.program.split_first() else {
        return Err(Failure::usage("name a program behind --"));
    };
    let archs = arguments.arch.join(",");
    terminal::note(&format!("emulating {archs} for {}", program.to_string_lossy()));
    let mut command = Command::new(program);
    command.args(rest).env("KFD_ARCH", archs);
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env("LD_PRELOAD", preload);
    let numbers = [
        ("KFD_MEMORY", arguments.memory),
        ("KFD_TIME_LIMIT", arguments.time_limit),
        ("KFD_THREADS", arguments.threads),
        ("KFD_KERNELS", arguments.without_kernels.then_some(0)),
    ];
    for (variable, value) in numbers {
        if let Some(value) = value {
            command.env(variable, value.to_string());
        }
    }
    let error = command.exec();
    Err(Failure::input(format!("{} does not start: {error}", program.to_string_lossy())))
}

/// The library to preload: where the environment says, beside this program, or where cargo left it.
fn library() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE) {
        let path = PathBuf::from(path);
        return if path.is_file() {
            usable(path)
        } else {
            Err(Failure::input(format!("{LIBRARY_VARIABLE} names {}, which is no file", path.display())))
        };
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(Code::Device, format!("this program does not know its own place: {error}")))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("deps").join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    match places.into_iter().find(|place| place.is_file()) {
        Some(place) => usable(place),
        None => Err(Failure::input(format!(
            "{LIBRARY} is not beside this program. `cargo build --release -p kfd` makes it; {LIBRARY_VARIABLE} may name it"
        ))),
    }
}

/// The loader takes a list by spaces and colons, so a path cannot have any.
fn usable(path: PathBuf) -> Result<PathBuf> {
    let path = path.canonicalize().unwrap_or(path);
    if path.to_string_lossy().contains([' ', ':']) {
        let path = path.display();
        return Err(Failure::input(format!("{path} cannot be preloaded: its path has a space or a colon. Move it")));
    }
    Ok(path)
}
