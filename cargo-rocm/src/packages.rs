//! Where the grafted packages come from: a clone that the caller names, or the ones inside this program, which are unpacked into
//! the user's cache. The folder there is named by a hash of what is in it and appears in one step, so it is whole or not there.

use crate::failure::{Failure, Result};
use crate::{archive, cache::Cache, grafted};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Names a clone whose packages are used instead of the ones inside the program.
pub const VARIABLE: &str = "CANDLE_ROCM_PACKAGES";

static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/packages.lzma"));
const HASH: &str = env!("PACKAGES_HASH");

/// A package that stands in for one of the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grafted {
    pub name: String,
    pub version: String,
    pub path: PathBuf,
}

/// The grafted packages of all releases.
#[derive(Debug)]
pub struct Packages {
    pub root: PathBuf,
    /// By version, the newest at the end.
    pub all: Vec<Grafted>,
}

impl Packages {
    /// Those of a clone, or those inside the program.
    pub fn find(named: Option<PathBuf>, cache: &Path) -> Result<Self> {
        let named = named.or_else(|| std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from));
        match named {
            Some(path) => {
                let root = path.canonicalize().map_err(Failure::file("opened", &path))?;
                Self::at(root, "name a clone of candle-rocm with --packages or CANDLE_ROCM_PACKAGES")
            }
            None => {
                let root = unpacked(cache)?;
                let advice = "remove the folder, and it is made anew";
                Self::at(root, advice)
            }
        }
    }

    fn at(root: PathBuf, advice: &str) -> Result<Self> {
        let folders = grafted::folders(&root).unwrap_or_default();
        let read = |folder: &String| {
            let path = root.join(folder);
            let (name, version) = grafted::package(&std::fs::read_to_string(path.join("Cargo.toml")).ok()?)?;
            Some(Grafted { name, version, path })
        };
        let mut all: Vec<Grafted> = folders.iter().filter_map(read).collect();
        all.sort_by_key(|package| numbers(&package.version));
        if all.iter().any(|package| package.name == "candle-core") {
            return Ok(Self { root, all });
        }
        Err(Failure::input(format!("{} has no grafted candle-core: {advice}", root.display())))
    }

    /// The package that stands in for this one.
    pub fn get(&self, name: &str, version: &str) -> Option<&Grafted> {
        self.all.iter().find(|package| package.name == name && package.version == version)
    }

    /// The versions of a package that are here, the newest at the end.
    pub fn versions(&self, name: &str) -> Vec<&str> {
        self.all.iter().filter(|package| package.name == name).map(|package| package.version.as_str()).collect()
    }
}

/// `0.10.2` in its parts, which can be compared.
fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map(|part| part.parse().unwrap_or_default()).collect()
}

/// The user's cache. What lies there is built and run, so it has to be the user's own.
pub fn cache() -> Result<PathBuf> {
    let folder = Cache::folder_of_user().ok_or_else(|| {
        Failure::input("there is no place for a cache: set HOME, XDG_CACHE_HOME or CANDLE_ROCM_CACHE to a folder")
    })?;
    let folder = std::path::absolute(&folder).map_err(Failure::file("named in full", &folder))?;
    Cache::at(&folder)
        .map_err(|reason| Failure::input(format!("the cache {} cannot be used: {reason}", folder.display())))?;
    Ok(folder)
}

/// The folder in the cache with the packages of this program.
fn unpacked(cache: &Path) -> Result<PathBuf> {
    let all = cache.join("packages");
    let folder = all.join(HASH);
    if folder.is_dir() {
        return Ok(folder);
    }
    let part = all.join(format!("{HASH}.{}.part", std::process::id()));
    let unpacked = unpack(&part).and_then(|()| match std::fs::rename(&part, &folder) {
        // Another process was faster, with the same files.
        Err(_) if folder.is_dir() => std::fs::remove_dir_all(&part),
        other => other,
    });
    unpacked.map_err(|error| {
        let _ = std::fs::remove_dir_all(&part);
        Failure::input(format!("the packages cannot be unpacked into {}: {error}", folder.display()))
    })?;
    Ok(folder)
}

fn unpack(folder: &Path) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    lzma_rust2::LzmaReader::new_mem_limit(PACKED, 64 << 10, None)?.read_to_end(&mut bytes)?;
    let files =
        archive::unpack(&bytes).ok_or_else(|| std::io::Error::other("the program is damaged; install it again"))?;
    for file in files {
        let path = folder.join(&file.path);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(&path, &file.contents)?;
    }
    Ok(())
}
