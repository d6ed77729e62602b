//! hipRTC's options in nvrtc's spelling. hipRTC takes clang's options, nvrtc a list of its own: a few are renamed, those that
//! speak of AMD's compiler are left out, and everything else goes through as it is, so that nvrtc itself says what it does
//! not know.

use super::Nvrtc;
use crate::toolkit;
use std::ffi::c_int;
use std::path::PathBuf;

/// What the translation needs to know of the machine.
pub(super) struct Surroundings {
    /// The architecture of the thread's device, where there is one.
    pub architecture: Option<String>,
    /// CUDA's own headers, for kernels that include them.
    pub include: Option<PathBuf>,
    /// Whether nvrtc can use several threads for one program.
    pub parallel: bool,
}

/// The first nvrtc known to take `--split-compile`.
const PARALLEL_SINCE: (c_int, c_int) = (12, 9);

impl Surroundings {
    /// This machine, this thread.
    pub fn here(nvrtc: &Nvrtc) -> Self {
        let ordinal = crate::context::current() as c_int;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both numbers are ours to write.
        let known = unsafe { (nvrtc.nvrtcVersion)(&mut major, &mut minor) }.is_success();
        let architecture = crate::context::any().and_then(|driver| crate::device::architecture(driver, ordinal)).ok();
        Self { architecture, include: toolkit::include_folder(), parallel: known && (major, minor) >= PARALLEL_SINCE }
    }
}

/// Options whose value says the architecture.
const ARCHITECTURE: &[&str] = &["--offload-arch=", "--gpu-architecture=", "-arch="];

/// Options with another name at nvrtc.
const RENAMED: &[(&str, &str)] = &[
    ("-ffast-math", "--use_fast_math"),
    ("-ffp-contract=off", "--fmad=false"),
    ("-ffp-contract=on", "--fmad=true"),
    ("-ffp-contract=fast", "--fmad=true"),
    ("-fgpu-rdc", "--relocatable-device-code=true"),
    ("-g", "--generate-line-info"),
    ("-w", "--disable-warnings"),
];

/// Options of clang's that are followed by a value of their own, both without meaning to nvrtc.
const PAIRS: &[&str] = &["-mllvm", "-Xclang", "-Xarch_device"];

/// How options begin that mean nothing to nvrtc: optimisation level (it has one), code generation, warnings, search paths of clang's.
const LEFT_OUT: &[&str] =
    &["-O", "-f", "-m", "-W", "-nogpu", "-nostd", "--rocm-", "--hip-", "--cuda-", "-x", "-Rpass", "-save-temps"];

/// Functions that do not say where they run are the device's.
const DEVICE_BY_DEFAULT: &str = "--device-as-default-execution-space";

/// The options for nvrtc.
pub(super) fn translate(given: &[String], surroundings: &Surroundings) -> Vec<String> {
    let mut translated = Vec::new();
    let mut architecture = surroundings.architecture.clone();
    let mut rest = given.iter().map(|option| option.trim()).filter(|option| !option.is_empty());
    while let Some(option) = rest.next() {
        if let Some(value) = ARCHITECTURE.iter().find_map(|name| option.strip_prefix(name)) {
            architecture = Some(value.to_string());
        } else if let Some((_, renamed)) = RENAMED.iter().find(|(name, _)| *name == option) {
            translated.push((*renamed).to_string());
        } else if PAIRS.contains(&option) {
            rest.next();
        } else if LEFT_OUT.iter().all(|start| !option.starts_with(start)) {
            translated.push(option.to_string());
        }
    }
    translated.extend(architecture.map(|name| format!("--gpu-architecture={name}")));
    if surroundings.parallel && !translated.iter().any(|option| option.contains("-split-compile")) {
        // Zero is as many threads as there are: a module of hundreds of kernels takes most of a minute on one.
        translated.push("--split-compile=0".to_string());
    }
    translated.push("--pre-include=hip/hip_runtime.h".to_string());
    // A lambda with `auto` in a kernel is the device's, as with hipRTC; nvrtc takes it for the host's otherwise.
    translated.push(DEVICE_BY_DEFAULT.to_string());
    translated.push("-D__HIP_PLATFORM_NVIDIA__=1".to_string());
    // Last, so that a folder of the caller's is looked into first.
    translated.extend(surroundings.include.iter().map(|folder| format!("--include-path={}", folder.display())));
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(given: &[&str], architecture: Option<&str>) -> Vec<String> {
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        let surroundings =
            Surroundings { architecture: architecture.map(str::to_string), include: None, parallel: false };
        let all = translate(&given, &surroundings);
        let ours = |option: &String| {
            option.contains("hip_runtime") || option.contains("__HIP_PLATFORM") || option == DEVICE_BY_DEFAULT
        };
        all.into_iter().filter(|option| !ours(option)).collect()
    }

    #[test]
    fn the_architecture_is_the_one_asked_for_or_the_devices() {
        assert_eq!(translated(&["--offload-arch=sm_90a"], Some("sm_80")), ["--gpu-architecture=sm_90a"]);
        assert_eq!(translated(&["-arch=compute_80"], None), ["--gpu-architecture=compute_80"]);
        assert_eq!(translated(&[], Some("sm_80")), ["--gpu-architecture=sm_80"]);
        assert!(translated(&[], None).is_empty());
    }

    #[test]
    fn what_only_amd_knows_is_left_out_and_the_rest_goes_through() {
        let given =
            ["-O3", "-DN=4", "-I/x", "-std=c++17", "-mllvm", "-amdgpu-x", "-Wno-unused", "-ffast-math", "-mcumode"];
        assert_eq!(translated(&given, None), ["-DN=4", "-I/x", "-std=c++17", "--use_fast_math"]);
        assert_eq!(translated(&["--unheard-of"], None), ["--unheard-of"]);
        assert_eq!(translated(&["-ffp-contract=off", " -w "], None), ["--fmad=false", "--disable-warnings"]);
    }
}
