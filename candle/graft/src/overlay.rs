//! The overlay: a folder of ROCm sources that mirrors Candle's `src/`. A module `rocm` of `src/quantized/mod.rs` lies at
//! `quantized/rocm.rs` or `quantized/rocm/mod.rs`; the hooks of `src/sort.rs` are the functions of `sort/rocm_ops.rs`:
//! `arg_sort` for the operation `ArgSort`, `rocm_name` for a free function `name` or `cuda_name`, `rocm_content_tensor` for
//! `Content::tensor`. Tests are replaced in the same way: `tests/some_tests/rocm_ops.rs` stands for functions of `tests/some_tests.rs`.

use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The module in which a file's hooks live.
pub const HOOK_MODULE: &str = "rocm_ops";

/// A folder of ROCm sources.
pub struct Overlay {
    root: PathBuf,
}

impl Overlay {
    /// Opens an overlay; the path is made absolute because the grafted tree refers to it from elsewhere.
    pub fn open(root: &Path) -> Result<Self> {
        let root = root.canonicalize().map_err(Error::file("open the overlay", root))?;
        Ok(Overlay { root })
    }

    /// The file of a module, relative to the overlay.
    pub fn module(&self, folder: &str, name: &str) -> Option<String> {
        let stem = if folder.is_empty() { name.to_string() } else { format!("{folder}/{name}") };
        let candidates = [format!("{stem}/mod.rs"), format!("{stem}.rs")];
        candidates.into_iter().find(|candidate| self.root.join(candidate).is_file())
    }

    /// The absolute path of a file of the overlay.
    pub fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// The public functions that the overlay offers to the file whose submodules lie in `folder`.
    pub fn hooks(&self, folder: &str) -> Result<BTreeSet<String>> {
        let Some(file) = self.module(folder, HOOK_MODULE) else { return Ok(BTreeSet::new()) };
        let path = self.path(&file);
        let text = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        let parsed = syn::parse_file(&text).map_err(|error| Error::Parse {
            file,
            line: error.span().start().line,
            reason: error.to_string(),
        })?;
        let functions = parsed.items.iter().filter_map(|item| match item {
            syn::Item::Fn(function) => Some(function.sig.ident.to_string()),
            _ => None,
        });
        Ok(functions.collect())
    }
}
