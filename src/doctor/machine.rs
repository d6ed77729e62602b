//! What the checks look at: a file system from its root, the environment, the user, and what runtime and compilers said.
//! Tests make up trees in a temporary folder; nothing below reads the real machine but [`Machine::this`].

use candle_rocm_kernels::{objects, registry, Cache};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A machine to examine.
pub struct Machine {
    /// Where its file system begins.
    pub root: PathBuf,
    /// Its environment variables.
    pub environment: BTreeMap<String, String>,
    /// The user's number.
    pub user: u32,
    /// The numbers of the user's groups.
    pub groups: Vec<u32>,
    /// Where compiled kernels are kept.
    pub cache: Option<PathBuf>,
    /// The devices that AMD's runtime reports, or why it does not.
    pub devices: Result<Vec<Seen>, String>,
    /// The release of AMD's run-time compiler, or why there is none.
    pub run_time: Result<(u32, u32), String>,
    /// A clang for AMD's targets: what it is, and the targets it knows; or why there is none.
    pub clang: Result<(String, Vec<String>), String>,
    /// Targets that the program has code objects for.
    pub embedded: Vec<String>,
}

/// A device as the runtime reports it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub name: String,
    pub arch: String,
    pub free: usize,
    pub total: usize,
}

impl Machine {
    /// The machine this program runs on.
    pub fn this() -> Self {
        let (user, groups) = user();
        Self {
            root: PathBuf::from("/"),
            environment: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            user,
            groups,
            cache: Cache::folder_of_user(),
            devices: devices().map_err(|error| error.to_string()),
            run_time: hip::Compiler::amd().map(|compiler| compiler.version()).map_err(|error| error.to_string()),
            clang: objects::clang()
                .map(|clang| (format!("{} ({})", clang.version(), clang.program().display()), clang.archs().to_vec()))
                .map_err(Clone::clone),
            embedded: registry::targets().into_iter().filter(|target| *target != "host").map(str::to_owned).collect(),
        }
    }

    /// A path of this machine.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        self.root.join(absolute.as_ref().strip_prefix("/").unwrap_or(absolute.as_ref()))
    }

    /// The text of a file, without the line's end.
    pub fn read(&self, absolute: &str) -> Option<String> {
        std::fs::read_to_string(self.path(absolute)).ok().map(|text| text.trim().to_owned())
    }

    /// The names in a folder, sorted.
    pub fn list(&self, absolute: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(absolute)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// A variable that is set to something.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// True inside a container, where devices and groups come from outside.
    pub fn in_container(&self) -> bool {
        self.path("/.dockerenv").exists()
            || self.path("/run/.containerenv").exists()
            || self.variable("container").is_some()
            || self
                .read("/proc/1/cgroup")
                .is_some_and(|text| ["docker", "kubepods", "lxc", "containerd"].iter().any(|word| text.contains(word)))
    }

    /// The name of a group.
    pub fn group_name(&self, number: u32) -> Option<String> {
        self.read("/etc/group")?.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
        })
    }
}

fn devices() -> hip::Result<Vec<Seen>> {
    let platform = hip::Platform::named("amd")?;
    let see = |device: hip::Device| {
        let memory = device.memory()?;
        Ok(Seen {
            name: device.name().to_owned(),
            arch: device.arch().to_owned(),
            free: memory.free,
            total: memory.total,
        })
    };
    platform.devices()?.into_iter().map(see).collect()
}

#[cfg(unix)]
fn user() -> (u32, Vec<u32>) {
    let mut groups = vec![0; 256];
    // SAFETY: the buffer has as many places as we say.
    let count = unsafe { libc::getgroups(groups.len() as libc::c_int, groups.as_mut_ptr()) };
    groups.truncate(count.max(0) as usize);
    // SAFETY: these calls take nothing and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    groups.push(group);
    (user, groups)
}

#[cfg(not(unix))]
fn user() -> (u32, Vec<u32>) {
    (0, Vec::new())
}
