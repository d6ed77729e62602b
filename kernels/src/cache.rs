//! Code objects compiled on first use, kept on disk for the next start. An entry is written under another name and
//! renamed, so that no reader ever sees half of one; it carries a checksum, so that a damaged one is compiled anew.

use hip_abi::stable_hash::StableHash;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What an entry begins with; the number changes with the format.
const MAGIC: &[u8; 8] = b"crocm\x00\x00\x02";

/// A folder of compiled modules.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    /// A folder that cannot be written to still serves what is in it, as in a container with a cache that was filled before.
    writable: bool,
}

impl Cache {
    /// The user's cache, in [`Cache::folder_of_user`]. `None` when there is no such place or it cannot be used, which costs
    /// a compilation at every start and nothing else.
    pub fn open() -> Option<Self> {
        let folder = Self::folder_of_user()?;
        match Self::at(&folder) {
            Ok(cache) => {
                if !cache.writable {
                    log::warn!("{} cannot be written to: what is compiled now is not kept", folder.display());
                }
                Some(cache)
            }
            Err(reason) => {
                log::warn!("compiled kernels are not kept: {}: {reason}", folder.display());
                None
            }
        }
    }

    /// `CANDLE_ROCM_CACHE`, or `candle-rocm` in `XDG_CACHE_HOME` or `~/.cache`.
    pub fn folder_of_user() -> Option<PathBuf> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        variable("CANDLE_ROCM_CACHE").or_else(|| {
            variable("XDG_CACHE_HOME")
                .or_else(|| variable("HOME").map(|home| home.join(".cache")))
                .map(|base| base.join("candle-rocm"))
        })
    }

    /// A cache in `folder`, which is made if need be. What lies there is loaded as code, so a folder that
    /// somebody else owns or can write to is refused.
    pub fn at(folder: &Path) -> Result<Self, String> {
        create_private(folder).map_err(|error| format!("it cannot be made ({error})"))?;
        check_private(folder)?;
        Ok(Self { folder: folder.to_path_buf(), writable: can_write(folder) })
    }

    /// False when the folder only serves what is in it.
    pub fn is_writable(&self) -> bool {
        self.writable
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
        if !self.writable {
            return make();
        }
        // The system gives the lock back when its holder dies, whatever the reason. Without one, two make it; no harm.
        let lock = lock(&self.path(name, parts).with_extension("lock"));
        if let Some(object) = self.load(name, parts) {
            return Ok(object);
        }
        if lock.is_some() {
            self.sweep(name, parts);
        }
        let object = make()?;
        self.store(name, parts, &object);
        Ok(object)
    }

    /// Removes what a process that was killed while it wrote this entry left behind. For whoever holds the lock.
    fn sweep(&self, name: &str, parts: &[&str]) {
        let path = self.path(name, parts);
        let Some(stem) = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()) else { return };
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".part") && name.starts_with(&stem) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The object made from exactly these parts, if there is an undamaged one.
    pub fn load(&self, name: &str, parts: &[&str]) -> Option<Vec<u8>> {
        let path = self.path(name, parts);
        let bytes = fs::read(&path).ok()?;
        let valid = bytes
            .strip_prefix(MAGIC)
            .and_then(|rest| rest.split_at_checked(16))
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
        let begin = StableHash::new().part(env!("CARGO_PKG_VERSION"));
        let hash = parts.iter().fold(begin, |hash, part| hash.part(part));
        self.folder.join(format!("{name}-{:032x}.object", hash.value()))
    }
}

/// Holds the file's lock until it is dropped.
#[cfg(unix)]
fn lock(path: &Path) -> Option<fs::File> {
    use std::os::fd::AsRawFd;
    let file = fs::File::create(path).ok()?;
    // SAFETY: the descriptor belongs to `file`, which is alive.
    let take = |how| unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | how) } == 0;
    let taken = take(libc::LOCK_NB) || {
        log::info!("waiting for whoever compiles the same kernels, who holds {}", path.display());
        take(0)
    };
    taken.then_some(file)
}

#[cfg(not(unix))]
fn lock(_: &Path) -> Option<fs::File> {
    None
}

/// Against damage, not against malice: the folder is the user's own.
fn checksum(object: &[u8]) -> [u8; 16] {
    StableHash::new().bytes(object).value().to_le_bytes()
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
    // SAFETY: the call takes nothing and cannot fail.
    let owner = unsafe { libc::geteuid() };
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

/// Tried, and not read from the mode: a file system may be read-only, or full.
fn can_write(folder: &Path) -> bool {
    let probe = folder.join(format!(".probe.{}.{:?}", std::process::id(), std::thread::current().id()));
    let made = fs::write(&probe, b"probe").is_ok();
    let _ = fs::remove_file(&probe);
    made
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
    fn names_are_the_same_forever() {
        // A cache filled by an earlier program serves this one; the version of the package is part of the hash.
        let cache = Cache { folder: PathBuf::from("kept"), writable: false };
        let expected = if env!("CARGO_PKG_VERSION") == "0.1.0" {
            "kept/unary-eb257bbe2e05cb803acdda2449ecc8e8.object"
        } else {
            return;
        };
        assert_eq!(cache.path("unary", &["source", "gfx1100"]), Path::new(expected));
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

    #[test]
    fn a_folder_that_cannot_be_written_to_serves_what_is_in_it() {
        let folder = fresh("frozen");
        Cache::at(&folder).unwrap().store("unary", &["source"], b"object");
        let frozen = Cache { folder: folder.clone(), writable: false };
        let never = || Err("made again");
        assert_eq!(frozen.get_or_make("unary", &["source"], never).as_deref(), Ok(&b"object"[..]));
        let other = frozen.get_or_make("unary", &["other"], || Ok::<_, ()>(b"new".to_vec()));
        assert_eq!(other.as_deref(), Ok(&b"new"[..]));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing was written, not even a lock");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn of_several_who_want_an_entry_one_makes_it() {
        let folder = fresh("several");
        let cache = Cache::at(&folder).unwrap();
        let made = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let object = cache.get_or_make("unary", &["source"], || {
                        made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(50));
                        Ok::<_, ()>(b"object".to_vec())
                    });
                    assert_eq!(object.as_deref(), Ok(&b"object"[..]));
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn leftovers_of_a_killed_process_are_swept() {
        let folder = fresh("leftovers");
        let cache = Cache::at(&folder).unwrap();
        let path = cache.path("unary", &["source"]);
        let (left, other) = (path.with_extension("1.ThreadId(1).part"), folder.join("binary-0.1.part"));
        fs::write(&left, b"half").unwrap();
        fs::write(&other, b"somebody is writing this").unwrap();
        cache.get_or_make("unary", &["source"], || Ok::<_, ()>(b"object".to_vec())).unwrap();
        assert!(!left.exists() && other.exists());
        assert_eq!(cache.load("unary", &["source"]).as_deref(), Some(&b"object"[..]));
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_new_folder_is_private() {
        use std::os::unix::fs::MetadataExt;
        let folder = fresh("private").join("below");
        assert!(Cache::at(&folder).unwrap().is_writable());
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        fs::remove_dir_all(folder.parent().unwrap()).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_own_is_refused() {
        // Only root can give a folder away; others find one of root's.
        let folder = fresh("foreign");
        fs::create_dir_all(&folder).unwrap();
        let given = std::os::unix::fs::chown(&folder, Some(54321), None).is_ok();
        let foreign = if given { folder.as_path() } else { Path::new("/usr") };
        assert!(Cache::at(foreign).unwrap_err().contains("belongs to another user"));
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
