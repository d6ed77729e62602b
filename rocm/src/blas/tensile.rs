//! Whether rocBLAS has kernels for a GPU.
//!
//! rocBLAS aborts the process when it finds no Tensile library for the architecture, so its files are looked for before a
//! handle is created. They lie in `rocblas/library` beside the shared library (Debian: in `rocblas/4.4.1/library`), or where
//! `ROCBLAS_TENSILE_LIBPATH` says.

use std::path::{Path, PathBuf};

/// The folders in which rocBLAS will look, given the path of its shared library.
pub fn folders(library: &Path, override_folder: Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(folder) = override_folder {
        return vec![folder];
    }
    let Some(beside) = library.parent() else { return Vec::new() };
    let mut found = vec![beside.join("rocblas/library"), beside.join("library")];
    found.extend(beside.parent().map(|root| root.join("lib/rocblas/library")));
    found.extend(versions(&beside.join("rocblas")));
    found
}

/// The libraries in folders of versions, the newest name first.
fn versions(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.path().join("library")).filter(|library| library.is_dir()).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

/// Looks for a Tensile file of `arch` (features such as `:xnack-` are not part of file names). The sentence says what to do
/// where there is none.
pub fn check(folders: &[PathBuf], arch: &str) -> Result<PathBuf, String> {
    let base = arch.split(':').next().unwrap_or(arch);
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        let fits = |name: &str| {
            name.match_indices(base)
                .any(|(at, _)| !name[at + base.len()..].starts_with(|c: char| c.is_ascii_alphanumeric()))
        };
        if entries.flatten().any(|entry| fits(&entry.file_name().to_string_lossy())) {
            return Ok(folder.clone());
        }
    }
    let looked: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    Err(format!(
        "rocBLAS has no kernels for {base} (looked in {}); it would abort the process, so matrix products use our own \
         kernels. Install a rocBLAS built for {base}, or set ROCBLAS_TENSILE_LIBPATH",
        looked.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_found_by_its_whole_name_only() {
        let root = std::env::temp_dir().join(format!("rocm-tensile-{}", std::process::id()));
        let folder = root.join("rocblas/library");
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        std::fs::write(folder.join("TensileLibrary_lazy_gfx90a.dat"), b"").expect("a file");
        std::fs::write(folder.join("Kernels.so-000-gfx1100.hsaco"), b"").expect("a file");
        let folders = folders(&root.join("librocblas.so.4"), None);
        assert_eq!(check(&folders, "gfx1100"), Ok(folder.clone()));
        assert_eq!(check(&folders, "gfx90a:sramecc+:xnack-"), Ok(folder));
        let none = check(&folders, "gfx90").expect_err("gfx90 is not gfx90a");
        assert!(none.contains("no kernels for gfx90 ") && none.contains("ROCBLAS_TENSILE_LIBPATH"), "{none}");
        std::fs::remove_dir_all(root).expect("the folder goes");
    }

    #[test]
    fn files_are_found_where_debian_keeps_them() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folder = root.path().join("rocblas/4.4.1/library");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("TensileLibrary_lazy_gfx1030.dat"), b"").expect("a file");
        let folders = folders(&root.path().join("librocblas.so.4.4"), None);
        assert_eq!(check(&folders, "gfx1030"), Ok(folder));
        assert!(check(&folders, "gfx1100").is_err());
    }
}
