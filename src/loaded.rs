//! Which libraries this process has loaded. What is loaded counts; where a search would have found something does not.

use std::path::{Path, PathBuf};

/// The process's own list of what is mapped.
pub const MAPS: &str = "/proc/self/maps";

/// The loaded file of a library, such as `amdhip64`, in the text of that list.
pub fn find(maps: &str, stem: &str) -> Option<PathBuf> {
    let start = format!("lib{stem}.so");
    maps.lines()
        .filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])))
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start)))
        .map(Path::to_path_buf)
}

/// The folder of the HIP runtime that is loaded: the loader finds the other libraries there too.
pub fn folder(maps: &str) -> Option<PathBuf> {
    find(maps, "amdhip64")?.parent().map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55e0-55e1 r--p 00000000 fe:00 1234 /usr/bin/program
7f00-7f01 r-xp 00000000 fe:00 99 /opt/rocm 6/lib/libamdhip64.so.6.4.43484
7f02-7f03 rw-p 00000000 00:00 0
7f04-7f05 r--p 00000000 fe:00 98 /usr/lib/libamdhip64_other.so
";

    #[test]
    fn a_library_is_found_by_its_stem() {
        assert_eq!(find(TEXT, "amdhip64"), Some(PathBuf::from("/opt/rocm 6/lib/libamdhip64.so.6.4.43484")));
        assert_eq!(folder(TEXT), Some(PathBuf::from("/opt/rocm 6/lib")));
        assert_eq!(find(TEXT, "rocblas"), None);
    }
}
