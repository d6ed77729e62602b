//! Every check against made-up machines: a tree of files, an environment, a user.

use super::machine::Seen;
use super::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A machine in a temporary folder, which goes with it.
struct MadeUp {
    machine: Machine,
}

impl Drop for MadeUp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.machine.root);
    }
}

impl MadeUp {
    /// A machine with nothing on it, and no GPU.
    fn empty() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("candle-rocm-doctor-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).expect("a temporary folder");
        let machine = Machine {
            cache: Some(root.join("cache")),
            root,
            environment: BTreeMap::new(),
            user: 0,
            groups: Vec::new(),
            devices: Err("hipErrorNoDevice: no device".to_owned()),
            run_time: Err("no usable library for Hiprtc".to_owned()),
            clang: Err("no clang".to_owned()),
            embedded: Vec::new(),
        };
        Self { machine }
    }

    /// A machine on which all is well, with one GPU.
    fn healthy(version: u32) -> Self {
        let mut made = Self::empty();
        made.file("/proc/sys/kernel/osrelease", "6.12.0-1-amd64\n")
            .file("/proc/meminfo", "MemTotal: 65536000 kB\nMemAvailable:   32768000 kB\n")
            .file("/sys/module/amdgpu/initstate", "live\n")
            .file("/sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002\n")
            .file("/sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n")
            .file("/sys/class/drm/card0/device/mem_info_vram_total", "25753026560\n")
            .file("/sys/class/drm/card0/device/mem_info_vram_used", "27344896\n")
            .file("/dev/kfd", "")
            .file("/dev/dri/renderD128", "")
            .file("/opt/rocm/lib/libamdhip64.so.6", "")
            .file("/opt/rocm/lib/librocblas.so.4", "")
            .file("/opt/rocm/lib/libMIOpen.so.1", "")
            .file("/opt/rocm/lib/librocfft.so.0", "");
        let name = candle_rocm_kernels::arch::from_target_version(version).expect("a GPU's version");
        made.gpu(1, version).file(&format!("/opt/rocm/lib/rocblas/library/TensileLibrary_lazy_{name}.dat"), "");
        made.machine.run_time = Ok((6, 4));
        made.machine.devices =
            Ok(vec![Seen { name: "Radeon".to_owned(), arch: name, free: 20 << 30, total: 24 << 30 }]);
        made
    }

    fn file(&mut self, path: &str, text: &str) -> &mut Self {
        let path = self.machine.path(path);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
        self
    }

    fn gpu(&mut self, node: u32, version: u32) -> &mut Self {
        let properties = format!("simd_count 96\ngfx_target_version {version}\ndrm_render_minor 128\n");
        self.file(&format!("/sys/class/kfd/kfd/topology/nodes/{node}/properties"), &properties)
    }

    fn remove(&mut self, path: &str) -> &mut Self {
        let path = self.machine.path(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("it is there");
        self
    }

    fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.machine.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Somebody who is not the owner of the files, in these groups.
    fn stranger(&mut self, groups: &[u32]) -> &mut Self {
        self.machine.user = fs::metadata(&self.machine.root).expect("the root").uid() + 1000;
        self.machine.groups = groups.to_vec();
        self
    }

    fn mode(&mut self, path: &str, mode: u32) -> &mut Self {
        fs::set_permissions(self.machine.path(path), fs::Permissions::from_mode(mode)).expect("its mode");
        self
    }

    /// The worst level, and the lines that are not well.
    fn findings(&self) -> (Level, Vec<Line>) {
        let lines = examine(&self.machine);
        let level = lines.iter().map(|line| line.level).max().expect("there are checks");
        (level, lines.into_iter().filter(|line| line.level != Level::Ok).collect())
    }

    /// Asserts that exactly one line is not well: its level, check, a part of what it says and a part of its advice.
    fn has_only(&self, level: Level, check: &str, found: &str, advice: &str) {
        let (_, lines) = self.findings();
        assert_eq!(lines.len(), 1, "{lines:#?}");
        self.has(level, check, found, advice);
    }

    /// Asserts that there is such a line.
    fn has(&self, level: Level, check: &str, found: &str, advice: &str) {
        let (_, lines) = self.findings();
        let fits = |line: &Line| {
            line.level == level && line.check == check && line.found.contains(found) && line.advice.contains(advice)
        };
        assert!(lines.iter().any(fits), "no {level:?} of {check} with {found:?} and {advice:?} in {lines:#?}");
    }
}

use Level::{Problem, Warning};

#[test]
fn a_machine_on_which_all_is_well_has_nothing_but_ok() {
    for version in [110000, 100300, 90010, 120001] {
        let made = MadeUp::healthy(version);
        let (level, lines) = made.findings();
        assert_eq!(level, Level::Ok, "{lines:#?}");
        assert!(examine(&made.machine).iter().all(|line| line.advice.is_empty()));
    }
}

#[test]
fn a_machine_without_a_gpu_says_so() {
    let made = MadeUp::empty();
    made.has(Problem, "driver", "no AMD GPU", "on the CPU");
    made.has(Problem, "devices", "/dev/kfd is not there", "dmesg");
    made.has(Problem, "HIP runtime", "libamdhip64 is not found", "ROCM_PATH");
    made.has(Warning, "kernels", "no compiler", "CANDLE_ROCM_ARCHS");
}

#[test]
fn a_driver_that_is_not_loaded_is_told_from_a_gpu_that_is_not_there() {
    let mut made = MadeUp::healthy(110000);
    made.remove("/sys/module/amdgpu");
    made.has_only(Problem, "driver", "not loaded", "modprobe amdgpu");
}

#[test]
fn an_old_kernel_is_named_unless_the_driver_is_amds() {
    let mut made = MadeUp::healthy(120001);
    made.file("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    made.has_only(Warning, "driver", "older than 6.12", "amdgpu-dkms");
    made.file("/sys/module/amdgpu/version", "6.10.5\n");
    assert_eq!(made.findings().0, Level::Ok);
}

#[test]
fn device_files_that_the_user_may_not_open_name_their_group() {
    let mut made = MadeUp::healthy(110000);
    let group = fs::metadata(made.machine.path("/dev/kfd")).expect("it is there").gid();
    made.file("/etc/group", &format!("root:x:{}:\nrender:x:{group}:someone\n", group + 1));
    made.mode("/dev/kfd", 0o660).mode("/dev/dri/renderD128", 0o666).stranger(&[group + 77]);
    made.has_only(Problem, "devices", "/dev/kfd belongs to the group render", "usermod -aG render");
    // In the group, all is well; the node closed to everyone is not.
    made.stranger(&[group]);
    assert_eq!(made.findings().0, Level::Ok);
    made.mode("/dev/dri/renderD128", 0o600);
    made.has_only(Problem, "devices", "renderD128", "udev");
    // A container's groups are given by number.
    made.file("/.dockerenv", "").stranger(&[]);
    made.has(Problem, "devices", "/dev/kfd", &format!("--group-add {group}"));
}

#[test]
fn a_container_without_devices_is_told_how_to_get_them() {
    let mut made = MadeUp::healthy(110000);
    made.file("/run/.containerenv", "").remove("/dev/kfd");
    made.has_only(Problem, "devices", "/dev/kfd", "--device /dev/kfd --device /dev/dri");
    made.file("/dev/kfd", "").remove("/dev/dri");
    made.has_only(Problem, "devices", "render node", "--device /dev/dri");
}

#[test]
fn an_unknown_gpu_gets_the_closest_known_one_as_advice() {
    let mut made = MadeUp::healthy(100309);
    made.machine.clang = Ok(("clang 19".to_owned(), vec!["gfx1030".to_owned()]));
    made.machine.run_time = Err("no hipRTC".to_owned());
    made.has(Warning, "GPUs", "gfx1039", "HSA_OVERRIDE_GFX_VERSION=10.3.0");
    made.has(Problem, "kernels", "none for gfx1039", "CANDLE_ROCM_ARCHS=gfx1039");
    // With the override the kernels are those of the other.
    made.set("HSA_OVERRIDE_GFX_VERSION", "10.3.0");
    made.has(Warning, "environment", "treat every GPU as gfx1030", "hangs");
    assert!(made.findings().1.iter().all(|line| line.check != "kernels"));
}

#[test]
fn kernels_come_from_the_program_or_a_compiler_that_knows_the_gpu() {
    let mut made = MadeUp::healthy(110501);
    made.machine.run_time = Ok((5, 2));
    made.has_only(Problem, "kernels", "HIP 5.2 does not know it", "newer ROCm");
    made.machine.embedded = vec!["gfx1030".to_owned(), "gfx11-generic".to_owned()];
    made.has_only(Problem, "kernels", "none for gfx1151", "");
    made.machine.run_time = Ok((6, 4));
    assert_eq!(made.findings().0, Level::Ok, "this release loads generic objects");
    made.machine.run_time = Ok((5, 2));
    made.machine.embedded = vec!["gfx1151".to_owned()];
    assert_eq!(made.findings().0, Level::Ok);
    made.machine.embedded.clear();
    made.machine.clang = Ok(("clang 19".to_owned(), vec!["gfx1151".to_owned()]));
    assert_eq!(made.findings().0, Level::Ok);
}

#[test]
fn rocblas_without_kernels_for_the_gpu_is_a_warning() {
    let mut made = MadeUp::healthy(100301);
    made.remove("/opt/rocm/lib/rocblas").file("/opt/rocm/lib/rocblas/library/TensileLibrary_lazy_gfx1030.dat", "");
    made.has_only(Warning, "rocBLAS", "no kernels for gfx1031", "HSA_OVERRIDE_GFX_VERSION");
    made.file("/elsewhere/Kernels.so-000-gfx1031.hsaco", "").set("ROCBLAS_TENSILE_LIBPATH", "/elsewhere");
    assert_eq!(made.findings().0, Level::Ok);
    made.remove("/opt/rocm/lib/librocblas.so.4").remove("/opt/rocm/lib/libMIOpen.so.1");
    made.remove("/opt/rocm/lib/librocfft.so.0");
    made.has(Warning, "rocBLAS", "our own kernels", "install");
    made.has(Warning, "MIOpen", "our own kernels", "install");
    made.has(Warning, "rocFFT", "are an error", "install");
}

#[test]
fn a_runtime_that_finds_nothing_and_two_releases_are_said() {
    let mut made = MadeUp::healthy(110000);
    made.machine.devices = Err("hipErrorNoDevice\nmore words".to_owned());
    made.has_only(Problem, "HIP runtime", "finds nothing to run on: hipErrorNoDevice", "lines above");
    let mut made = MadeUp::healthy(110000);
    made.file("/usr/lib64/libamdhip64.so.5", "");
    made.has_only(Warning, "HIP runtime", "several releases", "ROCM_PATH");
}

#[test]
fn variables_that_hide_or_slow_are_named() {
    let mut made = MadeUp::healthy(110000);
    made.set("HIP_VISIBLE_DEVICES", "-1");
    made.has_only(Problem, "environment", "hides every GPU", "unset HIP_VISIBLE_DEVICES");
    made.set("HIP_VISIBLE_DEVICES", "0").set("HIP_LAUNCH_BLOCKING", "1");
    made.has_only(Warning, "environment", "HIP_LAUNCH_BLOCKING=1", "speed");
    made.set("HIP_LAUNCH_BLOCKING", "0").set("HSA_OVERRIDE_GFX_VERSION", "gfx1030");
    made.has_only(Problem, "environment", "is not a version", "10.3.0");
    made.set("HSA_OVERRIDE_GFX_VERSION", "").set("CANDLE_ROCM_PLATFORM", "host");
    made.has_only(Warning, "environment", "CANDLE_ROCM_PLATFORM=host", "unset");
    made.set("CANDLE_ROCM_PLATFORM", "gfx1100");
    made.has_only(Warning, "environment", "emulated GPU", "unset");
}

#[test]
fn two_kinds_of_gpu_are_said() {
    let mut made = MadeUp::healthy(110000);
    made.gpu(2, 100306).file("/opt/rocm/lib/rocblas/library/TensileLibrary_lazy_gfx1036.dat", "");
    made.has_only(Warning, "GPUs", "gfx1036, gfx1100", "HIP_VISIBLE_DEVICES");
}

#[test]
fn a_cache_that_cannot_be_used_is_a_warning() {
    let mut made = MadeUp::healthy(110000);
    made.machine.cache = None;
    made.has_only(Warning, "cache", "no folder", "CANDLE_ROCM_CACHE");
    let open = made.machine.root.join("open");
    fs::create_dir(&open).expect("a folder");
    made.mode("/open", 0o777).machine.cache = Some(open);
    made.has_only(Warning, "cache", "others can write", "CANDLE_ROCM_CACHE");
    made.machine.cache = Some(PathBuf::from("/proc/candle-rocm"));
    made.has_only(Warning, "cache", "cannot be made", "CANDLE_ROCM_CACHE");
}

#[test]
fn little_memory_is_a_warning() {
    let mut made = MadeUp::healthy(110000);
    made.file("/proc/meminfo", "MemAvailable: 200000 kB\n");
    made.has_only(Warning, "memory", "195 MiB", "weights");
    let mut made = MadeUp::healthy(110000);
    made.file("/sys/class/drm/card0/device/mem_info_vram_used", "25000000000\n");
    made.has_only(Warning, "memory", "card0: 0.7 of 24.0 GiB", "rocm-smi");
    made.file("/sys/class/drm/card0/device/mem_info_vram_total", "536870912\n");
    made.has_only(Warning, "memory", "processor's own GPU", "firmware");
}

#[test]
fn the_text_has_a_line_for_each_finding_and_the_json_the_worst_level() {
    let mut made = MadeUp::healthy(110000);
    made.remove("/opt/rocm/lib/libMIOpen.so.1");
    let lines = examine(&made.machine);
    let text = text(&lines);
    assert!(text.contains("warning  MIOpen") && text.contains("-> install"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&json_text(&lines)).expect("it is JSON");
    assert_eq!(json["level"], "warning");
    assert_eq!(json["lines"].as_array().map(Vec::len), Some(lines.len()));
}

#[test]
fn this_machine_can_be_examined() {
    let lines = examine(&Machine::this());
    for check in ["driver", "devices", "HIP runtime", "rocBLAS", "cache"] {
        assert!(lines.iter().any(|line| line.check == check), "{check}: {lines:#?}");
    }
}
