//! The project that a command is about, as cargo sees it, and calling cargo.

use crate::arguments::Arguments;
use crate::failure::{Failure, Result};
use crate::{child, grafted};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Cargo, with what the caller told it about configuration.
pub struct Cargo {
    program: OsString,
    settings: Vec<OsString>,
    pub offline: bool,
    pub locked: bool,
}

impl Cargo {
    /// The one that called this program, as `cargo +nightly rocm` wants it; without it, the one in PATH.
    pub fn of(arguments: &Arguments) -> Self {
        let given = |name: &'static str| arguments.values(name).into_iter().flat_map(move |value| [name.into(), value]);
        Self {
            program: std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
            settings: given("--config").chain(given("-Z")).collect(),
            offline: arguments.has(&["--offline", "--frozen"]),
            locked: arguments.has(&["--locked", "--frozen"]),
        }
    }

    /// `--config` and `-Z` of the caller's command line.
    pub fn settings(&self) -> &[OsString] {
        &self.settings
    }

    /// A bare call, for a command line that has everything.
    pub fn command(&self) -> Command {
        Command::new(&self.program)
    }

    /// A call of our own: with the caller's settings, and what it prints is for us.
    pub fn quiet(&self, command: &str) -> Command {
        let mut call = self.command();
        call.arg(command).args(&self.settings).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if self.offline {
            call.arg("--offline");
        }
        call
    }

    /// What a call prints. The error is what cargo says about it.
    pub fn output(call: &mut Command) -> Result<String> {
        let output = call.output().map_err(|error| Failure::input(format!("cargo cannot be called: {error}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        // What it did before it failed is of no use.
        let said =
            said.find("error").filter(|at| said[..*at].ends_with('\n')).map_or(&*said, |at| &said[at..]).to_owned();
        Err(Failure { code: child::code(output.status), sentence: said })
    }

    /// Cargo's release, as in `(1, 95)`, and the date of its sources where it is a release to come.
    pub fn release(&self) -> Result<((u32, u32), Option<String>)> {
        let text = Self::output(self.command().arg("-V"))?;
        let unknown = || Failure::input(format!("cargo calls itself {:?}, which is no release", text.trim()));
        let mut words = text.split_whitespace().skip(1);
        let version = words.next().ok_or_else(unknown)?;
        let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
        let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) else { return Err(unknown()) };
        let date = version.contains('-').then(|| words.nth(1).unwrap_or_default().trim_end_matches(')').to_owned());
        Ok(((major, minor), date))
    }
}

/// A workspace, or a package that is its own.
pub struct Project {
    pub root: PathBuf,
    /// The manifests of the root and of all members.
    pub manifests: Vec<PathBuf>,
    /// Candle's packages that the project's own manifest patches, with what it puts there.
    pub patched: Vec<(String, String)>,
}

impl Project {
    /// The one around the working directory, or the one of a manifest.
    pub fn find(cargo: &Cargo, manifest: Option<&Path>) -> Result<Self> {
        let mut call = cargo.quiet("metadata");
        call.args(["--no-deps", "--format-version", "1"]);
        if let Some(manifest) = manifest {
            call.arg("--manifest-path").arg(manifest);
        }
        let text = Cargo::output(&mut call)?;
        let unclear = || Failure::input("cargo metadata does not name the workspace; update cargo");
        let metadata: serde_json::Value = serde_json::from_str(&text).map_err(|_| unclear())?;
        let root = PathBuf::from(metadata["workspace_root"].as_str().ok_or_else(unclear)?);
        let members = metadata["packages"].as_array().into_iter().flatten();
        let mut manifests: Vec<PathBuf> =
            members.filter_map(|member| member["manifest_path"].as_str()).map(PathBuf::from).collect();
        manifests.push(root.join("Cargo.toml"));
        manifests.sort();
        manifests.dedup();
        let patched = own_patches(&root.join("Cargo.toml"))?;
        Ok(Self { root, manifests, patched })
    }

    /// Where its lock file is, or would be.
    pub fn lock_file(&self) -> PathBuf {
        self.root.join("Cargo.lock")
    }

    /// What is in its lock file; `None` when there is none.
    pub fn lock(&self) -> Result<Option<Vec<u8>>> {
        let path = self.lock_file();
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::file("read", &path)(error)),
        }
    }
}

/// `[patch]` of a manifest, as far as it is about Candle.
fn own_patches(manifest: &Path) -> Result<Vec<(String, String)>> {
    let text = std::fs::read_to_string(manifest).map_err(Failure::file("read", manifest))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        Failure::input(format!("{} is no manifest: {}", manifest.display(), error.message()))
    })?;
    let sources = table.get("patch").and_then(toml::Value::as_table).into_iter().flat_map(|all| all.values());
    let mut found = Vec::new();
    for (key, patch) in sources.filter_map(toml::Value::as_table).flatten() {
        let text = |name: &str| patch.get(name).and_then(toml::Value::as_str);
        let name = text("package").unwrap_or(key);
        if grafted::NAMES.contains(&name) && name != grafted::CUDARC {
            found.push((name.to_owned(), text("path").or_else(|| text("git")).unwrap_or("another release").to_owned()));
        }
    }
    Ok(found)
}
