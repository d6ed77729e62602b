//! Code objects compiled on first use, kept on disk for the next start. An entry is written under another name and
//! renamed, so that no reader ever sees half of one; it carries a checksum, so that a damaged one is compiled anew.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What an entry begins with; the number changes with the format.
const MAGIC: &[u8; 8] = b"crocm\x00\x00\x01";

/// A folder of compiled modules.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The user's cache: `CANDLE_ROCM_CACHE`, or `candle-rocm` in `XDG_CACHE_HOME` or `~/.cache`. `None` when there is no
    /// such place or it cannot be used, which costs a compilation at every start and nothing else.
    pub fn open() -> Option<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = variable("CANDLE_ROCM_CACHE").or_else(|| {
            variable("XDG_CACHE_HOME")
                .or_else(|| variable("HOME").map(|home| home.join(".cache")))
                .map(|base| base.join("candle-rocm"))
        })?;
        match Self::at(&folder) {
            Ok(cache) => Some(cache),
            Err(reason) => {
                log::warn!("compiled kernels are not kept: {}: {reason}", folder.display());
                None
            }
        }
    }

    /// A cache in `folder`, which is made if need be. What lies there is loaded as code, so a folder that
    /// somebody else owns or can write to is refused.
    pub fn at(folder: &Path) -> Result<Self, String> {
        create_private(folder).map_err(|error| error.to_string())?;
        check_private(folder)?;
        Ok(Self { folder: folder.to_path_buf() })
    }

    /// The object made from exactly these parts: the one that is kept, or else what `make` makes, which is then kept.
    /// Of several processes that want it at once, one makes it and the others wait.
    pub fn get_or_make<E>(
        &self,
        name: &str,
        parts: &[&str],
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        if let Some(object) = self.load(name, parts) {
            return Ok(object);
        }
        // The system gives the lock back when its holder dies, whatever the reason. Without one, two make it; no harm.
        let _lock = lock(&self.path(name, parts).with_extension("lock"));
        if let Some(object) = self.load(name, parts) {
            return Ok(object);
        }
        let object = make()?;
        self.store(name, parts, &object);
        Ok(object)
    }

    /// The object made from exactly these parts, if there is an undamaged one.
    pub fn load(&self, name: &str, parts: &[&str]) -> Option<Vec<u8>> {
        let path = self.path(name, parts);
        let bytes = fs::read(&path).ok()?;
        let valid = bytes
            .strip_prefix(MAGIC)
            .and_then(|rest| rest.split_at_checked(8))
            .filter(|(sum, object)| **sum == checksum(object));
        if valid.is_none() {
            log::warn!("{} is damaged and will be made anew", path.display());
        }
        valid.map(|(_, object)| object.to_vec())
    }

    /// Keeps an object. A failure is logged: the object is in memory and can be used.
    pub fn store(&self, name: &str, parts: &[&str], object: &[u8]) {
        let path = self.path(name, parts);
        let unfinished = path.with_extension(format!("{}.{:?}.part", std::process::id(), std::thread::current().id()));
        let written = fs::File::create(&unfinished).and_then(|mut file| {
            file.write_all(MAGIC)?;
            file.write_all(&checksum(object))?;
            file.write_all(object)?;
            file.sync_data()?;
            fs::rename(&unfinished, &path)
        });
        if let Err(error) = written {
            let _ = fs::remove_file(&unfinished);
            log::warn!("{} could not be kept: {error}", path.display());
        }
    }

    /// The name, for a person, and a hash of everything the object depends on.
    fn path(&self, name: &str, parts: &[&str]) -> PathBuf {
        let hash = |seed: u8| {
            let mut hasher = DefaultHasher::new();
            (seed, env!("CARGO_PKG_VERSION"), parts).hash(&mut hasher);
            hasher.finish()
        };
        self.folder.join(format!("{name}-{:016x}{:016x}.object", hash(0), hash(1)))
    }
}

/// Holds the file's lock until it is dropped.
#[cfg(unix)]
fn lock(path: &Path) -> Option<fs::File> {
    use std::os::fd::AsRawFd;
    let file = fs::File::create(path).ok()?;
    // SAFETY: the descriptor belongs to `file`, which is alive.
    (unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0).then_some(file)
}

#[cfg(not(unix))]
fn lock(_: &Path) -> Option<fs::File> {
    None
}

fn checksum(object: &[u8]) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    object.hash(&mut hasher);
    hasher.finish().to_le_bytes()
}

#[cfg(unix)]
fn create_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(unix)]
fn check_private(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(folder).map_err(|error| error.to_string())?;
    // A file made by this process shows who it runs as, without asking the C library.
    let probe = folder.join(format!(".probe.{}.{:?}", std::process::id(), std::thread::current().id()));
    let owner = fs::File::create(&probe).and_then(|file| file.metadata()).map(|probe| probe.uid());
    let _ = fs::remove_file(&probe);
    let owner = owner.map_err(|error| format!("it cannot be written to ({error})"))?;
    if metadata.uid() != owner {
        return Err(
            "it belongs to another user, whose files would run as code; choose another with CANDLE_ROCM_CACHE".into()
        );
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(
            "others can write to it, and their files would run as code; take that right away with chmod go-w".into()
        );
    }
    Ok(())
}

#[cfg(not(unix))]
fn create_private(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(not(unix))]
fn check_private(_: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("candle-rocm-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn an_entry_comes_back_for_the_same_parts_only() {
        let folder = fresh("entry");
        let cache = Cache::at(&folder).unwrap();
        cache.store("unary", &["source", "gfx1100"], b"object");
        assert_eq!(cache.load("unary", &["source", "gfx1100"]).as_deref(), Some(&b"object"[..]));
        assert_eq!(cache.load("unary", &["source", "gfx1030"]), None);
        assert_eq!(cache.load("unary", &["sourcegfx1100", ""]), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_damaged_entry_is_no_entry() {
        let folder = fresh("damage");
        let cache = Cache::at(&folder).unwrap();
        cache.store("unary", &["source"], b"object");
        let path = cache.path("unary", &["source"]);
        for damage in [&b""[..], b"crocm", b"crocm\x00\x00\x0112345678objecT"] {
            fs::write(&path, damage).unwrap();
            assert_eq!(cache.load("unary", &["source"]), None);
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = fresh("open");
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Cache::at(&folder).unwrap_err().contains("others can write"));
        fs::remove_dir_all(folder).unwrap();
    }
}
