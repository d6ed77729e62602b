//! Files and folders: finding a crate's files, knowing which module a file is, and writing the grafted tree so that a
//! file whose text did not change keeps its time stamp and a second build has nothing to do.

use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of a Candle crate that are grafted. Examples and documentation stay with upstream.
const FOLDERS: [&str; 3] = ["src", "tests", "benches"];

/// All files of a crate that are grafted or copied, relative to it, sorted, with forward slashes.
pub fn list(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        if root.join(folder).is_dir() {
            walk(root, folder, &mut files)?;
        }
    }
    files.sort();
    Ok(files)
}

fn walk(root: &Path, folder: &str, files: &mut Vec<String>) -> Result<()> {
    let path = root.join(folder);
    for entry in fs::read_dir(&path).map_err(Error::file("list", &path))? {
        let entry = entry.map_err(Error::file("list", &path))?;
        // A name that is not Unicode cannot be a module of Candle's.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let relative = format!("{folder}/{name}");
        if entry.path().is_dir() {
            walk(root, &relative, files)?;
        } else {
            files.push(relative);
        }
    }
    Ok(())
}

/// Reads a file of a crate as text.
pub fn read(root: &Path, file: &str) -> Result<String> {
    let path = root.join(file);
    fs::read_to_string(&path).map_err(Error::file("read", &path))
}

/// The folder in which the submodules of a source file lie, relative to `src/`.
pub fn module_folder(file: &str) -> String {
    let stem = file.trim_start_matches("src/").trim_end_matches(".rs");
    match stem.rsplit_once('/') {
        Some((folder, "mod")) => folder.to_string(),
        None if stem == "lib" || stem == "mod" => String::new(),
        _ => stem.to_string(),
    }
}

/// The two places where the module `name`, declared in `file`, may lie: as a file, or as the stem of a folder.
pub fn module_stem(file: &str, name: &str) -> String {
    let folder = module_folder(file);
    if folder.is_empty() {
        format!("src/{name}")
    } else {
        format!("src/{folder}/{name}")
    }
}

/// The file that declares a source file's module, and the module's name. `None` for the crate root.
pub fn parent(file: &str, files: &[String]) -> Option<(String, String)> {
    let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let (folder, name) = stem.rsplit_once('/')?;
    if stem == "src/lib" {
        return None;
    }
    let candidates = if folder == "src" {
        vec!["src/lib.rs".to_string()]
    } else {
        vec![format!("{folder}/mod.rs"), format!("{folder}.rs")]
    };
    let parent = candidates.into_iter().find(|candidate| files.contains(candidate))?;
    Some((parent, name.to_string()))
}

/// The grafted tree being written.
pub struct Output {
    root: PathBuf,
    written: BTreeSet<String>,
}

impl Output {
    /// Starts writing into a folder.
    pub fn new(root: &Path) -> Self {
        Output { root: root.to_path_buf(), written: BTreeSet::new() }
    }

    /// Writes a file unless it already says exactly this.
    pub fn write(&mut self, file: &str, contents: &[u8]) -> Result<()> {
        let path = self.root.join(file);
        self.written.insert(file.to_string());
        if fs::read(&path).is_ok_and(|present| present == contents) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
        }
        fs::write(&path, contents).map_err(Error::file("write", &path))
    }

    /// Removes what an earlier graft wrote and this one did not, and lists what remains.
    pub fn finish(self) -> Result<Vec<String>> {
        for stale in list(&self.root)?.into_iter().filter(|file| !self.written.contains(file)) {
            let path = self.root.join(stale);
            fs::remove_file(&path).map_err(Error::file("remove", &path))?;
        }
        Ok(self.written.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_knows_where_its_submodules_lie() {
        for (file, folder) in [
            ("src/lib.rs", ""),
            ("src/sort.rs", "sort"),
            ("src/quantized/mod.rs", "quantized"),
            ("src/cuda_backend/device.rs", "cuda_backend/device"),
        ] {
            assert_eq!(module_folder(file), folder);
        }
        assert_eq!(module_stem("src/lib.rs", "sort"), "src/sort");
        assert_eq!(module_stem("src/quantized/mod.rs", "cuda"), "src/quantized/cuda");
    }

    #[test]
    fn a_file_knows_its_parent() {
        let files = ["src/lib.rs", "src/a.rs", "src/a/b.rs", "src/c/mod.rs", "src/c/d.rs"].map(String::from);
        let parent = |file: &str| parent(file, &files).map(|(file, name)| format!("{file} {name}"));
        assert_eq!(parent("src/lib.rs"), None);
        assert_eq!(parent("src/a.rs").as_deref(), Some("src/lib.rs a"));
        assert_eq!(parent("src/a/b.rs").as_deref(), Some("src/a.rs b"));
        assert_eq!(parent("src/c/mod.rs").as_deref(), Some("src/lib.rs c"));
        assert_eq!(parent("src/c/d.rs").as_deref(), Some("src/c/mod.rs d"));
    }
}
