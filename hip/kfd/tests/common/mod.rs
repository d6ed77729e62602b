//! How tests start programs on emulated GPUs.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The folder with what cargo built for this test.
fn folder() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    program.parent().expect("and a folder").to_path_buf()
}

/// The library, where cargo put it.
pub fn library() -> PathBuf {
    let places = [folder().join("libkfd.so"), folder().with_file_name("libkfd.so")];
    places.into_iter().find(|place| place.is_file()).expect("cargo builds the library before its tests")
}

/// A program with the library preloaded.
pub fn emulated(program: &Path, arch: Option<&str>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library()).stdin(Stdio::null());
    for variable in ["KFD_ARCH", "KFD_LOG", "KFD_MEMORY", "KFD_TIME_LIMIT", "KFD_KERNELS"] {
        command.env_remove(variable);
    }
    if let Some(arch) = arch {
        command.env("KFD_ARCH", arch);
    }
    command
}

/// An example of this package on an emulated GPU; `None` without AMD's runtime, unless CI=true.
pub fn example(name: &str, arch: &str) -> Option<Command> {
    if let Err(why) = hip::Compiler::amd() {
        assert!(std::env::var_os("CI").is_none(), "{why}");
        println!("skipped: {why}");
        return None;
    }
    let program = folder().with_file_name("examples").join(name);
    assert!(program.is_file(), "cargo builds examples before tests; {} is missing", program.display());
    Some(emulated(&program, Some(arch)))
}

/// Runs a program to its end.
pub fn finish(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"))
}
