//! Projects in folders of their own, and `cargo rocm` in them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

pub const MANIFEST: &str = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
    [dependencies]\ncandle-core = \"0.11.1\"\n\n[features]\ncuda = [\"candle-core/cuda\"]\n\n[profile.dev]\nopt-level = 1\n";

pub fn clone() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the repository").to_owned()
}

/// A project, and a cache beside it.
pub struct Project {
    folder: TempDir,
    pub cache: PathBuf,
}

impl Project {
    /// With this manifest and no lock file.
    pub fn new(manifest: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("cache");
        let project = Self { folder, cache };
        project.write("Cargo.toml", manifest);
        project.write("src/main.rs", "fn main() {}\n");
        project
    }

    /// One that uses Candle, with a lock file.
    pub fn of_candle() -> Self {
        static LOCK: OnceLock<String> = OnceLock::new();
        let project = Self::new(MANIFEST);
        let lock = LOCK.get_or_init(|| {
            succeeds(project.command("cargo-of-the-test", &["generate-lockfile"]).output());
            project.read("Cargo.lock")
        });
        project.write("Cargo.lock", lock);
        project
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub fn write(&self, file: &str, text: &str) {
        let path = self.root().join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    pub fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.root().join(file)).expect("a file")
    }

    /// A call in the project's folder: of `cargo rocm`, or of plain cargo when `program` is not "rocm".
    pub fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = match program {
            "rocm" => Command::new(env!("CARGO_BIN_EXE_cargo-rocm")),
            _ => Command::new(cargo()),
        };
        command.args((program == "rocm").then_some("rocm")).args(words);
        command.current_dir(self.root()).env("CANDLE_ROCM_CACHE", &self.cache).stdin(Stdio::null());
        command.env_remove("CANDLE_ROCM_PACKAGES").env_remove("CARGO_TARGET_DIR").env("CARGO_TERM_COLOR", "never");
        command
    }

    pub fn rocm(&self, words: &[&str]) -> Output {
        self.command("rocm", words).output().expect("cargo-rocm runs")
    }

    /// A program that `cargo-rocm` takes for cargo: a shell's lines for the command `tree`, cargo itself for all others.
    pub fn cargo_with_tree(&self, lines: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let script = format!("#!/bin/sh\nif [ \"$1\" = tree ]; then\n{lines}\nfi\nexec {:?} \"$@\"\n", cargo());
        let path = self.folder.path().join("cargo-with-tree");
        std::fs::write(&path, script).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
        path
    }
}

/// The cargo that runs the tests.
pub fn cargo() -> String {
    std::env::var("CARGO").expect("cargo runs the tests")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Both streams of a call that must succeed.
#[track_caller]
pub fn succeeds(output: std::io::Result<Output>) -> String {
    let output = output.expect("it can be called");
    let all = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{}: {all}", output.status);
    all
}

/// What a call that must fail with this code says.
#[track_caller]
pub fn fails(output: Output, code: i32) -> String {
    let all = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{all}");
    all
}

/// Waits until a file is there.
pub fn wait_for(file: impl AsRef<OsStr>) {
    let file = Path::new(file.as_ref());
    // A machine that builds something else is slow, and cargo's calls wait for each other.
    for _ in 0..60_000 {
        if file.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} does not appear", file.display());
}
