//! Where CUDA's toolkit is: the folders nvrtc and cuBLAS are looked for in, and CUDA's own headers. The driver is not
//! part of the toolkit and has a search of its own.

use hip_abi::Search;
use std::path::PathBuf;

/// The folders a toolkit may be in: what the environment names, then the usual places.
fn roots() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os).filter(|value| !value.is_empty());
    named.map(PathBuf::from).chain(["/usr/local/cuda".into(), "/opt/cuda".into()]).collect()
}

/// The toolkit's libraries, then the system's own search: for tables of NVIDIA's libraries.
pub fn search() -> Search {
    let leaves = ["lib64", "lib", "targets/x86_64-linux/lib"];
    let folders = roots().into_iter().flat_map(|root| leaves.map(|leaf| root.join(leaf)));
    Search { file: None, folders: folders.collect() }
}

/// The toolkit's headers, where there are any.
pub(crate) fn include_folder() -> Option<PathBuf> {
    roots().into_iter().map(|root| root.join("include")).find(|folder| folder.join("cuda_fp16.h").exists())
}
