//! The lock file that cargo works with in the place of the project's own, which stays as it is, byte by byte.
//!
//! From 1.97 on cargo takes its path (`resolver.lockfile-path`), and the project's file is not touched. An older cargo knows one
//! place only: there, the file is exchanged while cargo resolves, and put back as soon as it builds, or has ended. What is put
//! back lies in the project's folder of the cache before anything is exchanged, so that the next run can do it where this one was
//! killed. One run at a time exchanges: it holds a lock that the system takes back when its holder dies.

use crate::child;
use crate::failure::{Failure, Result};
use crate::lock;
use crate::project::{Cargo, Project};
use hip_abi::stable_hash::StableHash;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The date of the first nightly that is known to take the path without being asked twice.
const NIGHTLY: &str = "2026-05-15";

/// The project's folder in the cache, for one run at a time.
pub struct State {
    folder: PathBuf,
    /// Cargo takes the path of a lock file.
    path_is_taken: bool,
    guard: File,
}

impl State {
    /// Waits for other runs, and puts back what one that was killed has left.
    pub fn open(cargo: &Cargo, project: &Project, cache: &Path) -> Result<Self> {
        let root = project.root.canonicalize().map_err(Failure::file("opened", &project.root))?;
        let hash = StableHash::new().part(root.as_os_str().as_encoded_bytes()).value();
        let folder = cache.join("projects").join(format!("{hash:032x}"));
        fs::create_dir_all(&folder).map_err(Failure::file("made", &folder))?;
        let guard = folder.join("guard");
        let guard = File::create(&guard).map_err(Failure::file("made", &guard))?;
        flock(&guard, libc::LOCK_EX).map_err(Failure::file("locked", &folder))?;
        // For a person who looks into the cache.
        write(&folder.join("project"), root.as_os_str().as_encoded_bytes())?;
        let ((major, minor), date) = cargo.release()?;
        let path_is_taken = (major, minor) >= (1, 98)
            || ((major, minor) == (1, 97) && date.is_none_or(|date| date.as_str() >= NIGHTLY));
        let state = Self { folder, path_is_taken, guard };
        state.repair(project)?;
        Ok(state)
    }

    /// A file of the project's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A lock file there; cargo wants it to be called Cargo.lock.
    pub fn lock_file(&self, name: &str) -> PathBuf {
        self.folder.join(name).join("Cargo.lock")
    }

    /// Writes one of these lock files; `None` removes it.
    pub fn set_lock(&self, name: &str, contents: Option<&[u8]>) -> Result<()> {
        let path = self.lock_file(name);
        match contents {
            Some(contents) => write(&path, contents),
            None if path.exists() => fs::remove_file(&path).map_err(Failure::file("removed", &path)),
            None => Ok(()),
        }
    }

    /// Runs a call of our own with a lock file of this folder, which cargo reads and writes, and returns what it prints.
    pub fn output(&self, project: &Project, name: &str, mut call: Command) -> Result<String> {
        call.arg("--manifest-path").arg(project.root.join("Cargo.toml"));
        if self.path_is_taken {
            call.args(self.setting(name));
            return Cargo::output(&mut call);
        }
        self.exchange(project, name)?;
        let output = Cargo::output(&mut call);
        self.put_back(project, Some(name))?;
        output
    }

    /// Runs the caller's command with a lock file of this folder. Other runs go on as soon as cargo builds.
    pub fn run(self, project: &Project, name: &str, mut call: Command) -> Result<i32> {
        let taken = self.path_is_taken;
        if !taken {
            self.exchange(project, name)?;
        }
        let mut back = Ok(());
        let state = self;
        let ended = child::run(&mut call, || {
            if !taken {
                back = state.put_back(project, Some(name));
            }
            let _ = flock(&state.guard, libc::LOCK_UN);
        });
        back?;
        ended.map_err(|error| Failure::input(format!("cargo cannot be called: {error}")))
    }

    /// What a command line needs so that cargo takes a lock file of this folder; nothing where files are exchanged.
    pub fn setting(&self, name: &str) -> Vec<String> {
        let path = toml::Value::from(self.lock_file(name).to_string_lossy().into_owned());
        let words = ["--config".to_owned(), format!("resolver.lockfile-path={path}")];
        self.path_is_taken.then_some(words).into_iter().flatten().collect()
    }

    /// Puts a lock file of this folder into the project. Its own is kept here first.
    fn exchange(&self, project: &Project, name: &str) -> Result<()> {
        let own = project.lock()?;
        if let Some(own) = &own {
            let kept = self.lock_file("original");
            write(&kept, own)?;
            let changed = fs::metadata(project.lock_file()).and_then(|data| data.modified());
            changed.and_then(|time| set_time(&kept, time)).map_err(Failure::file("dated", &kept))?;
        }
        write(&self.file("exchanged"), if own.is_some() { b"file" } else { b"none" })?;
        let stand_in = self.lock_file(name);
        match fs::read(&stand_in) {
            Ok(contents) => place(&contents, &stand_in, &project.lock_file()),
            Err(_) if own.is_some() => {
                fs::remove_file(project.lock_file()).map_err(Failure::file("removed", &project.lock_file()))
            }
            Err(_) => Ok(()),
        }
    }

    /// The project's own lock file in its place again. What cargo made of the other one is kept under `name`.
    fn put_back(&self, project: &Project, name: Option<&str>) -> Result<()> {
        let path = project.lock_file();
        if let Some(name) = name {
            let used = fs::read(&path);
            if let Ok(used) = used {
                let kept = self.lock_file(name);
                if fs::read(&kept).ok().as_ref() != Some(&used) {
                    write(&kept, &used)?;
                }
            }
        }
        let original = self.lock_file("original");
        let lost = |failure: Failure| {
            Failure::input(format!("{failure}; the project's own lock file is kept as {}", original.display()))
        };
        match fs::read(self.file("exchanged")).as_deref() {
            Ok(b"file") => {
                let contents = fs::read(&original).map_err(Failure::file("read", &original))?;
                place(&contents, &original, &path).map_err(lost)?;
            }
            _ if path.exists() => fs::remove_file(&path).map_err(Failure::file("removed", &path))?,
            _ => {}
        }
        let note = self.file("exchanged");
        fs::remove_file(&note).map_err(Failure::file("removed", &note))
    }

    /// After a run that was killed. A lock file that somebody has written since is theirs.
    fn repair(&self, project: &Project) -> Result<()> {
        let note = self.file("exchanged");
        if !note.exists() {
            return Ok(());
        }
        let now = project.lock()?;
        let ours = match &now {
            Some(now) => {
                let packages = lock::read(&String::from_utf8_lossy(now)).unwrap_or_default();
                let placed = ["patched", "base"]
                    .iter()
                    .any(|name| fs::read(self.lock_file(name)).is_ok_and(|file| file == *now));
                placed || packages.iter().any(|package| package.name == "candle-graft" && package.source.is_none())
            }
            None => true,
        };
        if ours {
            eprintln!("cargo rocm: an earlier run was killed; the project's own Cargo.lock is put back");
            return self.put_back(project, None);
        }
        fs::remove_file(&note).map_err(Failure::file("removed", &note))
    }
}

fn flock(file: &File, how: libc::c_int) -> std::io::Result<()> {
    loop {
        // SAFETY: the descriptor belongs to `file`, which is alive.
        if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted || child::ended().is_some() {
            return Err(error);
        }
    }
}

/// Writes a file of the cache: whole or not at all, and on the disk when this returns.
pub fn write(path: &Path, contents: &[u8]) -> Result<()> {
    let part = path.with_extension("part");
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        let mut file = File::create(&part)?;
        file.write_all(contents)?;
        file.sync_data()?;
        fs::rename(&part, path)
    });
    written.map_err(Failure::file("written", path))
}

/// Puts contents into a project's lock file in one step, with the date that `dated` has: what watches the file by its date, as
/// build scripts do, then sees the same file each time. A link stays a link.
fn place(contents: &[u8], dated: &Path, path: &Path) -> Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let part = path.with_file_name(".Cargo.lock.cargo-rocm");
    let placed = fs::write(&part, contents).and_then(|()| {
        if let Ok(data) = fs::metadata(&path) {
            fs::set_permissions(&part, data.permissions())?;
        }
        set_time(&part, fs::metadata(dated)?.modified()?)?;
        fs::rename(&part, &path)
    });
    placed.map_err(|error| {
        let _ = fs::remove_file(&part);
        Failure::file("written", &path)(error)
    })
}

fn set_time(path: &Path, time: SystemTime) -> std::io::Result<()> {
    File::options().append(true).open(path)?.set_modified(time)
}
