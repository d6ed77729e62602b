//! The private folder a compilation happens in. It is gone when the compilation is over, whatever its outcome.

use super::{CompileError, CompileFailure};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct Workspace {
    path: PathBuf,
}

macro_rules! device_headers {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../include/", $name)))),*]
    };
}

/// The device's own headers: hip_host.h, its parts, and the names under which kernels ask for HIP's.
pub(super) const DEVICE_HEADERS: &[(&str, &str)] = device_headers![
    "cmath",
    "math.h",
    "hip_host.h",
    "hip_host/abi.h",
    "hip_host/assert.h",
    "hip_host/atomics.h",
    "hip_host/bfloat16.h",
    "hip_host/checked.h",
    "hip_host/entry.h",
    "hip_host/execution.h",
    "hip_host/half.h",
    "hip_host/integer.h",
    "hip_host/math.h",
    "hip_host/vector_types.h",
    "hip_host/wave.h",
];

/// The headers for emulated GPUs.
#[cfg(feature = "emulator")]
const AMD_HEADERS: &[(&str, &str)] = device_headers![
    "hip_amd.h",
    "hip_amd/atomics.h",
    "hip_amd/ids.h",
    "hip_amd/math.h",
    "hip_amd/wave.h",
    "hip_host/integer.h",
    "hip_host/vector_types.h",
];

/// Names under which kernels may ask for what `hip_amd.h`, which comes before everything, has already.
#[cfg(feature = "emulator")]
const AMD_FORWARDED: &[&str] = &[
    "hip/hip_runtime.h",
    "hip/hip_runtime_api.h",
    "hip/hip_vector_types.h",
    "hip/math_functions.h",
    "hip/device_functions.h",
    "assert.h",
    "cassert",
    "math.h",
    "cmath",
    "stddef.h",
    "cstddef",
    "stdint.h",
    "cstdint",
];

/// Headers that are there to be asked for: the name, and the one it stands for.
const FORWARDED: &[(&str, &str)] = &[
    ("hip/hip_runtime.h", "hip_host.h"),
    ("hip/hip_runtime_api.h", "hip_host.h"),
    ("hip/hip_vector_types.h", "hip_host.h"),
    ("hip/hip_complex.h", "hip_host.h"),
    ("hip/math_functions.h", "hip_host.h"),
    ("hip/device_functions.h", "hip_host.h"),
    ("hip/hip_fp16.h", "hip_host/half.h"),
    ("hip/hip_bf16.h", "hip_host/bfloat16.h"),
    ("hip/hip_bfloat16.h", "hip_host/bfloat16.h"),
    ("assert.h", "hip_host/assert.h"),
    ("cassert", "hip_host/assert.h"),
];

impl Workspace {
    pub fn new() -> Result<Self, CompileError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let base = std::env::temp_dir();
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("hip-host-{}-{count}", std::process::id()));
            // Only this user may look inside, and a folder that exists is somebody else's.
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists && count < 1 << 20 => {}
                Err(why) => return Err(Self::failed("make the folder", &path, &why)),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(what: &str, path: &Path, why: &std::io::Error) -> CompileError {
        let message = format!("cannot {what} {}: {why}; TMPDIR says where such files go", path.display());
        CompileError::new(CompileFailure::Files, message)
    }

    pub fn write(&self, name: &str, text: &str) -> Result<(), CompileError> {
        let path = self.path.join(name);
        std::fs::write(&path, text).map_err(|why| Self::failed("write", &path, &why))
    }

    pub fn read(&self, name: &str) -> Result<Vec<u8>, CompileError> {
        let path = self.path.join(name);
        std::fs::read(&path).map_err(|why| Self::failed("read", &path, &why))
    }

    /// Writes a header into `folder`; its name may hold folders, and must not leave this one.
    pub fn header(&self, folder: &str, name: &str, text: &str) -> Result<(), CompileError> {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !inside || name.is_empty() || name.ends_with('/') {
            let message = format!("the header name `{name}` is not a relative path without `..`");
            return Err(CompileError::new(CompileFailure::Request, message));
        }
        let path = self.path.join(folder).join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|why| Self::failed("make the folder", parent, &why))?;
        }
        std::fs::write(&path, text).map_err(|why| Self::failed("write", &path, &why))
    }

    /// Writes the device's headers into `folder`.
    pub fn device_headers(&self, folder: &str) -> Result<(), CompileError> {
        for (name, text) in DEVICE_HEADERS {
            self.header(folder, name, text)?;
        }
        for (name, target) in FORWARDED {
            self.header(folder, name, &format!("#include \"{target}\"\n"))?;
        }
        Ok(())
    }

    /// Writes the headers for emulated GPUs into `folder`.
    #[cfg(feature = "emulator")]
    pub fn amd_headers(&self, folder: &str) -> Result<(), CompileError> {
        for (name, text) in AMD_HEADERS {
            self.header(folder, name, text)?;
        }
        for name in AMD_FORWARDED {
            self.header(folder, name, "#include \"hip_amd.h\"\n")?;
        }
        Ok(())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // Nothing to be done about a folder that cannot be removed; it is in the place for temporary files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
