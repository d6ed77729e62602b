//! Whether the driver is there, the user may use it, and the GPUs are ones our kernels run on.

use super::machine::Machine;
use super::Line;
use candle_rocm_kernels::arch::{self, Arch};
use candle_rocm_kernels::topology;

/// The first kernel whose own amdgpu driver runs compute on a family. A driver from AMD's packages (DKMS) says its version
/// and is not held against this.
const KERNELS: &[(&str, (u32, u32))] =
    &[("gfx103", (5, 11)), ("gfx94", (6, 6)), ("gfx110", (6, 1)), ("gfx115", (6, 10)), ("gfx120", (6, 12))];

/// The kernel's driver.
pub fn driver(machine: &Machine) -> Vec<Line> {
    const CHECK: &str = "driver";
    let kernel = machine.read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "of unknown version".to_owned());
    let loaded = machine.path("/sys/module/amdgpu").exists();
    let cards = pci_cards(machine);
    if !loaded {
        return vec![match cards {
            0 => Line::problem(
                CHECK,
                format!("this machine shows no AMD GPU and has no amdgpu driver (kernel {kernel})"),
                "without an AMD GPU kernels run on the CPU; in a virtual machine, pass the GPU through",
            ),
            _ => Line::problem(
                CHECK,
                format!("there is an AMD GPU, but the amdgpu driver is not loaded (kernel {kernel})"),
                "load it with `sudo modprobe amdgpu`; if that fails, look for the reason in `dmesg`, and for amdgpu in /etc/modprobe.d",
            ),
        }];
    }
    if let Some(version) = machine.read("/sys/module/amdgpu/version") {
        return vec![Line::ok(CHECK, format!("amdgpu {version} from AMD's packages, kernel {kernel}"))];
    }
    let running = version(&kernel);
    let mut lines: Vec<Line> = archs(machine)
        .iter()
        .filter_map(|name| {
            let (_, needed) = KERNELS.iter().find(|(family, _)| name.starts_with(family))?;
            (running? < *needed).then(|| {
                Line::warning(
                    CHECK,
                    format!(
                        "kernel {kernel} is older than {}.{}, the first whose driver computes on {name}",
                        needed.0, needed.1
                    ),
                    "use a newer kernel, or install AMD's driver packages (amdgpu-dkms)",
                )
            })
        })
        .collect();
    if lines.is_empty() {
        lines.push(Line::ok(CHECK, format!("amdgpu of kernel {kernel}")));
    }
    lines
}

/// The device files, and whether this user may open them.
pub fn devices(machine: &Machine) -> Vec<Line> {
    const CHECK: &str = "devices";
    if !machine.path("/dev/kfd").exists() {
        let advice = if machine.in_container() {
            "start the container with --device /dev/kfd --device /dev/dri"
        } else {
            "it appears when the amdgpu driver finds a GPU that can compute; look at `dmesg`"
        };
        return vec![Line::problem(CHECK, "/dev/kfd is not there, through which all computing goes", advice)];
    }
    let mut files = vec!["/dev/kfd".to_owned()];
    let nodes: Vec<String> = machine.list("/dev/dri").into_iter().filter(|name| name.starts_with("renderD")).collect();
    files.extend(nodes.iter().map(|name| format!("/dev/dri/{name}")));
    let mut lines: Vec<Line> = files.iter().filter_map(|file| closed(machine, file)).collect();
    if nodes.is_empty() {
        lines.push(Line::problem(
            CHECK,
            "there is no render node in /dev/dri, so no GPU has memory to offer",
            if machine.in_container() {
                "start the container with --device /dev/dri"
            } else {
                "look at `dmesg` for why amdgpu made none"
            },
        ));
    }
    if lines.is_empty() {
        lines.push(Line::ok(CHECK, format!("{} can be opened", files.join(", "))));
    }
    lines
}

/// A line for a device file that this user may not open for reading and writing.
#[cfg(unix)]
fn closed(machine: &Machine, file: &str) -> Option<Line> {
    use std::os::unix::fs::MetadataExt;
    const CHECK: &str = "devices";
    let path = machine.path(file);
    let metadata = std::fs::metadata(&path).ok()?;
    let bits = match () {
        () if machine.user == 0 => 6,
        () if metadata.uid() == machine.user => metadata.mode() >> 6 & 7,
        () if machine.groups.contains(&metadata.gid()) => metadata.mode() >> 3 & 7,
        () => metadata.mode() & 7,
    };
    if bits & 6 != 6 {
        let number = metadata.gid();
        let group = machine.group_name(number).unwrap_or_else(|| number.to_string());
        let member = machine.groups.contains(&number);
        let advice = match (machine.in_container(), member || metadata.mode() & 0o060 != 0o060) {
            // Groups have other numbers inside a container than their names suggest.
            (true, _) => format!("start the container with --group-add {number}"),
            (false, false) => format!("`sudo usermod -aG {group} $USER`, and log in again"),
            (false, true) => {
                format!("let the group {group} read and write it: AMD's packages have a udev rule for that")
            }
        };
        return Some(Line::problem(
            CHECK,
            format!("{file} belongs to the group {group}, and you may not open it"),
            advice,
        ));
    }
    // The mode is not all: a container's device rules refuse as well.
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(&path);
    opened.err().map(|error| {
        let advice = if machine.in_container() {
            format!("start the container with --device {file}, and perhaps --security-opt seccomp=unconfined")
        } else {
            "look at `dmesg` for the driver's reason".to_owned()
        };
        Line::problem(CHECK, format!("{file} cannot be opened: {error}"), advice)
    })
}

#[cfg(not(unix))]
fn closed(_: &Machine, _: &str) -> Option<Line> {
    None
}

/// The GPUs that the driver lists, and whether there can be kernels for them.
pub fn gpus(machine: &Machine) -> Vec<Line> {
    const CHECK: &str = "GPUs";
    let gpus = topology::gpus(&machine.root);
    let mut lines = Vec::new();
    for gpu in &gpus {
        let place = format!("node {}: {}", gpu.node, gpu.arch);
        lines.push(match Arch::parse(&gpu.arch) {
            Ok(target) if supported(target.base()) => Line::ok(CHECK, place),
            _ => {
                let near = near(&gpu.arch);
                let advice = near.map_or_else(
                    || "use a newer candle-rocm, or another GPU".to_owned(),
                    |(name, version)| format!("if its instructions are those of {name}, HSA_OVERRIDE_GFX_VERSION={version} makes ROCm treat it as one"),
                );
                Line::warning(CHECK, format!("{place} is not among the targets that the kernels are checked for"), advice)
            }
        });
    }
    let mut kinds: Vec<&str> = gpus.iter().map(|gpu| gpu.arch.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.len() > 1 {
        lines.push(Line::warning(
            CHECK,
            format!("GPUs of different kinds: {}", kinds.join(", ")),
            "one may be the processor's own; HIP_VISIBLE_DEVICES=0 (or 1, ...) leaves the others out, and `candle-rocm info` lists them",
        ));
    }
    if gpus.is_empty() && machine.path("/sys/module/amdgpu").exists() {
        lines.push(Line::problem(
            CHECK,
            "the driver lists no GPU that can compute",
            "it may be too old for the driver (gfx9 and later do), or too new for this kernel; look at `dmesg`",
        ));
    }
    lines
}

/// Variables that change what is seen, or how fast it is.
pub fn environment(machine: &Machine) -> Vec<Line> {
    const CHECK: &str = "environment";
    let mut lines = Vec::new();
    for name in ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"] {
        match machine.environment.get(name).map(|value| value.trim()) {
            None => {}
            Some("" | "-1") => lines.push(Line::problem(
                CHECK,
                format!("{name} is set to nothing, which hides every GPU"),
                format!("`unset {name}`, or list the GPUs to use, such as {name}=0"),
            )),
            Some(value) => lines.push(Line::ok(CHECK, format!("{name}={value} chooses among the GPUs"))),
        }
    }
    if let Some(value) = machine.variable("HSA_OVERRIDE_GFX_VERSION") {
        lines.push(match arch::from_override(value) {
            None => Line::problem(
                CHECK,
                format!("HSA_OVERRIDE_GFX_VERSION={value} is not a version"),
                "three numbers are wanted, such as 10.3.0 for gfx1030; unset it where the GPU is supported",
            ),
            Some(name) if archs(machine).iter().all(|arch| *arch == name) => {
                Line::ok(CHECK, format!("HSA_OVERRIDE_GFX_VERSION={value} says what the GPU is: {name}"))
            }
            Some(name) => Line::warning(
                CHECK,
                format!("HSA_OVERRIDE_GFX_VERSION={value} makes ROCm treat every GPU as {name}; kernels are made for that"),
                "right only where the instructions are the same, as for gfx1031 to gfx1036 and gfx1030; otherwise results are wrong or the GPU hangs",
            ),
        });
    }
    for name in ["HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL", "AMD_SERIALIZE_COPY"] {
        if let Some(value) = machine.variable(name).filter(|value| *value != "0") {
            lines.push(Line::warning(
                CHECK,
                format!("{name}={value} makes every call wait for the GPU"),
                format!("good for finding errors; `unset {name}` for speed"),
            ));
        }
    }
    if let Some(value) = machine.variable(hip::PLATFORM_VARIABLE).filter(|value| *value != "amd") {
        let what = if value.contains("gfx") {
            "asks for an emulated GPU: AMD's machine code runs on the CPU"
        } else {
            "asks for another platform than AMD's"
        };
        lines.push(Line::warning(
            CHECK,
            format!("{}={value} {what}", hip::PLATFORM_VARIABLE),
            format!("`unset {}` to use the GPU", hip::PLATFORM_VARIABLE),
        ));
    }
    lines
}

/// The instruction sets of the machine's GPUs.
pub fn archs(machine: &Machine) -> Vec<String> {
    let mut names: Vec<String> = topology::gpus(&machine.root).into_iter().map(|gpu| gpu.arch).collect();
    names.dedup();
    names
}

/// As [`archs`], but what ROCm takes them for.
pub fn effective_archs(machine: &Machine) -> Vec<String> {
    match machine.variable("HSA_OVERRIDE_GFX_VERSION").and_then(arch::from_override) {
        Some(name) if !archs(machine).is_empty() => vec![name],
        _ => archs(machine),
    }
}

fn supported(base: &str) -> bool {
    arch::ALL.contains(&base) || arch::generic_for(base).is_some()
}

/// A supported target whose name differs from an unknown one in its last digit only, with its version.
fn near(unknown: &str) -> Option<(&'static str, String)> {
    let family = unknown.get(..unknown.len().checked_sub(1)?)?;
    let name = arch::ALL.iter().find(|name| !name.contains('-') && name.starts_with(family))?;
    let digits = name.strip_prefix("gfx")?;
    let (major, rest) = digits.split_at(digits.len().checked_sub(2)?);
    let hex = |at: usize| rest.get(at..=at).and_then(|digit| u32::from_str_radix(digit, 16).ok());
    Some((name, format!("{major}.{}.{}", hex(0)?, hex(1)?)))
}

/// AMD's display and accelerator devices on the bus.
fn pci_cards(machine: &Machine) -> usize {
    let is_card = |device: &String| {
        let read = |file: &str| machine.read(&format!("/sys/bus/pci/devices/{device}/{file}")).unwrap_or_default();
        // Display controllers are class 03, processing accelerators class 12.
        read("vendor") == "0x1002" && ["0x03", "0x12"].iter().any(|class| read("class").starts_with(class))
    };
    machine.list("/sys/bus/pci/devices").iter().filter(|device| is_card(device)).count()
}

/// `(6, 1)` of `6.1.0-18-amd64`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
