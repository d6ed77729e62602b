//! `candle-rocm info`: what platform was chosen and why, its devices, the libraries found with path and version, and what is
//! missing with what to do about it. It is gathered once as JSON; the text is written from that.

use crate::failure;
use crate::loaded;
use crate::terminal;
use candle_rocm_kernels::tuned;
use hip::{Compiler, Device, Platform, PlatformKind, Result};
use hip_abi::Search;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};

/// ROCm's libraries that parts of this project use, and for what.
const LIBRARIES: &[(&str, &str, &str)] = &[
    ("HIP runtime", "amdhip64", "everything on an AMD GPU"),
    ("hipRTC", "hiprtc", "compiling kernels at run time (inside the HIP runtime before ROCm 7)"),
    ("rocBLAS", "rocblas", "matrix products"),
    ("MIOpen", "MIOpen", "convolutions"),
    ("rocRAND", "rocrand", "random numbers"),
    ("rocFFT", "rocfft", "Fourier transforms"),
    ("RCCL", "rccl", "several GPUs at once"),
];

/// Variables that change what is found.
const VARIABLES: &[&str] = &[
    hip::PLATFORM_VARIABLE,
    "ROCM_PATH",
    "HIP_PATH",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION",
    "HIP_LAUNCH_BLOCKING",
    tuned::VARIABLE,
    "HIP_CUDA_QUEUE",
    "HIP_HOST_ARCH",
    "HIP_HOST_ACCURACY",
    "HIP_HOST_EDIT",
    "HIP_HOST_ORDER",
    "HIP_HOST_SWITCH",
    "HIP_HOST_DEVICES",
    "HIP_HOST_WAVE",
    "HIP_HOST_CHECKED",
    "HIP_HOST_THREADS",
    "HIP_HOST_MEMORY",
];

/// Prints it all.
pub fn run(as_json: bool) -> failure::Result<()> {
    let platform = Platform::detect();
    let gathered = gather(platform.as_ref().map_err(ToString::to_string));
    terminal::print(&if as_json { format!("{gathered:#}\n") } else { text(&gathered) })?;
    platform?;
    Ok(())
}

/// The same for a report.
pub fn facts() -> Value {
    let platform = Platform::detect();
    gather(platform.as_ref().map_err(ToString::to_string))
}

fn gather(platform: Result<&Platform, String>) -> Value {
    let set: serde_json::Map<String, Value> =
        VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?.into()))).collect();
    let mut libraries: Vec<Value> = LIBRARIES.iter().map(find_library).collect();
    // Before ROCm 7 the compiler is inside the runtime.
    let has_compiler = libraries[0]["version"].as_str().is_some_and(|version| version.starts_with(['5', '6']));
    if libraries[1]["path"].is_null() && has_compiler {
        libraries[1]["path"] = format!("in {}", plain(&libraries[0]["path"])).into();
    }
    json!({
        "candle_rocm": env!("CARGO_PKG_VERSION"),
        "platform": match &platform {
            Ok(platform) => json!({
                "name": platform.name(),
                "why": platform.why(),
                "is_gpu": platform.is_gpu(),
                "origin": platform.origin().to_string(),
                "version": platform.runtime_version().map(|(a, b, c)| format!("{a}.{b}.{c}")).ok(),
                "compiler": compiler(platform),
            }),
            Err(why) => json!({ "error": why }),
        },
        "devices": platform.as_ref().map_or_else(|_| Vec::new(), |platform| {
            (0..platform.device_count()).map(|ordinal| describe(ordinal, platform.device(ordinal))).collect()
        }),
        "libraries": libraries,
        "environment": set,
        "missing": missing(&libraries, platform.is_ok_and(|platform| platform.kind() == PlatformKind::Host)),
    })
}

fn compiler(platform: &Platform) -> Value {
    match Compiler::new(platform) {
        Ok(compiler) => json!({ "origin": compiler.origin().to_string() }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

fn describe(ordinal: usize, device: Result<Device>) -> Value {
    let facts = |device: Device| -> Result<Value> {
        let (limits, memory) = (*device.limits(), device.memory()?);
        Ok(json!({
            "ordinal": ordinal,
            "name": device.name(),
            "arch": device.arch(),
            "emulated": device.is_emulated(),
            "wave_size": limits.wave_size,
            "compute_units": limits.compute_units,
            "memory_bytes": memory.total,
            "free_bytes": memory.free,
            "clock_mhz": limits.clock_khz / 1000,
            "memory_clock_mhz": limits.memory_clock_khz / 1000,
            "memory_bus_bits": limits.memory_bus_bits,
            "l2_cache_bytes": limits.l2_cache_bytes,
            "threads_per_block": limits.threads_per_block,
            "shared_bytes_per_block": limits.shared_bytes_per_block,
            "integrated": limits.integrated,
            "tuned": measured(&device),
        }))
    };
    device.and_then(facts).unwrap_or_else(|error| json!({ "ordinal": ordinal, "error": error.to_string() }))
}

/// What was measured on the card in place of the table's values, and is in use, or why it is not.
fn measured(device: &Device) -> Value {
    let (arch, card) = (device.base_arch(), device.name());
    if let Err(why) = tuned::Tuned::load(arch, card) {
        return json!({ "error": why });
    }
    let Some(tuned) = tuned::in_use(arch, card) else { return Value::Null };
    let values: serde_json::Map<String, Value> =
        tuned.values.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let file = tuned::Tuned::path(arch, card).map(|path| path.display().to_string());
    json!({ "date": tuned.date, "file": file, "values": values })
}

/// The file of a library: the one that is loaded, or where the loader would find it. Nothing is loaded for this.
fn find_library(&(name, stem, used_for): &(&str, &str, &str)) -> Value {
    let search = Search::default();
    let candidates = search.candidates(&[stem], &[7, 6, 5, 4, 3, 2, 1, 0]);
    let in_system = |candidate: &PathBuf| -> Vec<PathBuf> {
        if candidate.is_absolute() {
            return vec![candidate.clone()];
        }
        system_folders().iter().map(|folder| folder.join(candidate)).collect()
    };
    let maps = std::fs::read_to_string(loaded::MAPS).unwrap_or_default();
    let beside = loaded::folder(&maps);
    let in_folder = |folder: &PathBuf| {
        candidates.iter().filter(|name| name.is_relative()).map(|name| folder.join(name)).find(|path| path.exists())
    };
    let found = loaded::find(&maps, stem)
        .or_else(|| beside.as_ref().and_then(in_folder))
        .or_else(|| candidates.iter().flat_map(in_system).find(|path| path.exists()));
    let real = found.as_ref().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    json!({
        "name": name,
        "used_for": used_for,
        "path": real.as_ref().map(|path| path.display().to_string()),
        "version": real.as_deref().and_then(version_in_name),
    })
}

/// Where the system's loader looks, as far as that can be known without asking it.
fn system_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("LD_LIBRARY_PATH").map(|paths| std::env::split_paths(&paths).collect()).unwrap_or_default();
    let arch = std::env::consts::ARCH;
    folders.extend([format!("/usr/lib/{arch}-linux-gnu"), "/usr/lib64".into(), "/usr/lib".into()].map(PathBuf::from));
    folders.extend(["/usr/local/lib", "/lib64", "/lib"].map(PathBuf::from));
    folders
}

/// `5.2.21153` of `libamdhip64.so.5.2.21153`.
fn version_in_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    name.split_once(".so.").map(|(_, version)| version.to_owned())
}

/// What is not there, and what to do about it.
fn missing(libraries: &[Value], on_host: bool) -> Vec<String> {
    let mut missing = Vec::new();
    if on_host {
        missing.push("an AMD GPU that can be used: kernels run on the CPU".to_owned());
    }
    if cfg!(target_os = "linux") {
        let kfd = Path::new("/dev/kfd");
        if !kfd.exists() {
            missing.push(
                "/dev/kfd, the GPU's driver: load amdgpu, or pass --device /dev/kfd --device /dev/dri to the container"
                    .to_owned(),
            );
        } else if std::fs::OpenOptions::new().read(true).write(true).open(kfd).is_err() {
            missing
                .push("access to /dev/kfd: add your user to the groups render and video, and log in again".to_owned());
        }
    }
    for library in libraries.iter().filter(|library| library["path"].is_null()) {
        missing.push(format!("{}, for {}", plain(&library["name"]), plain(&library["used_for"])));
    }
    missing
}

/// A JSON value as a person reads it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// For people.
pub fn text(info: &Value) -> String {
    let mut lines = vec![format!("candle-rocm {}", plain(&info["candle_rocm"]))];
    let platform = &info["platform"];
    match platform.get("error") {
        Some(error) => lines.push(format!("\nPlatform: none\n  {}", indent(&plain(error)))),
        None => {
            lines.push(format!("\nPlatform: {} ({})", plain(&platform["name"]), plain(&platform["origin"])));
            lines.push(format!("  because {}", indent(&plain(&platform["why"]))));
            let compiler = &platform["compiler"];
            lines.push(format!("  HIP version {}", plain(&platform["version"])));
            lines.push(match compiler.get("error") {
                Some(error) => format!("  no run-time compiler: {}", indent(&plain(error))),
                None => format!("  run-time compiler: {}", plain(&compiler["origin"])),
            });
        }
    }
    for device in info["devices"].as_array().into_iter().flatten() {
        lines.push(format!(
            "\nDevice {}: {}",
            device["ordinal"],
            plain(device.get("name").or(device.get("error")).unwrap_or(&Value::Null))
        ));
        if device.get("error").is_some() {
            continue;
        }
        let gib = |key: &str| device[key].as_f64().unwrap_or_default() / (1u64 << 30) as f64;
        lines.push(format!(
            "  arch {}, wave {}, {} compute units",
            plain(&device["arch"]),
            device["wave_size"],
            device["compute_units"]
        ));
        if device["emulated"] == true {
            lines.push("  emulated: runs AMD's machine code on the CPU, for tests; far slower than a card".to_owned());
        }
        lines.push(format!("  memory {:.1} GiB, {:.1} GiB free", gib("memory_bytes"), gib("free_bytes")));
        lines.push(format!(
            "  up to {} threads and {} KiB of shared memory a block",
            device["threads_per_block"],
            device["shared_bytes_per_block"].as_u64().unwrap_or_default() / 1024
        ));
        if let Some(why) = device["tuned"]["error"].as_str() {
            lines.push(format!("  tuned values: {why}"));
        }
        if let Some(values) = device["tuned"]["values"].as_object() {
            let list: Vec<String> = values
                .iter()
                .map(|(name, value)| format!("{name} {}", if value.is_null() { "never".into() } else { plain(value) }))
                .collect();
            let (date, file) = (plain(&device["tuned"]["date"]), plain(&device["tuned"]["file"]));
            lines.push(format!("  tuned on {date}: {} ({file})", list.join(", ")));
        }
    }
    lines.push("\nLibraries:".to_owned());
    for library in info["libraries"].as_array().into_iter().flatten() {
        let place = match (&library["path"], &library["version"]) {
            (Value::Null, _) => "not found".to_owned(),
            (path, Value::Null) => plain(path),
            (path, version) => format!("{} ({})", plain(path), plain(version)),
        };
        lines.push(format!("  {:<12} {place}", plain(&library["name"])));
    }
    let section = |title: &str, entries: Vec<String>| {
        (!entries.is_empty()).then(|| format!("\n{title}:\n  {}", entries.join("\n  ")))
    };
    let environment =
        info["environment"].as_object().into_iter().flatten().map(|(name, value)| format!("{name}={}", plain(value)));
    lines.extend(section("Environment", environment.collect()));
    lines.extend(section("Missing", info["missing"].as_array().into_iter().flatten().map(plain).collect()));
    lines.join("\n") + "\n"
}

/// Keeps the later lines of a text in line with the first.
fn indent(text: &str) -> String {
    text.replace('\n', "\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_platform_reason_devices_and_what_is_missing() {
        let platform = Platform::named("host").expect("the embedded device starts");
        let info = gather(Ok(&platform));
        assert_eq!(info["platform"]["name"], "host");
        assert_eq!(info["devices"].as_array().map(Vec::len), Some(platform.device_count()));
        let text = text(&info);
        for part in
            ["Platform: host", "because", "Device 0:", "arch host", "wave 32", "Libraries:", "rocBLAS", "Missing:"]
        {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }

    #[test]
    fn a_platform_that_cannot_start_is_said_with_its_reason() {
        let info = gather(Err("there is no platform named \"vulkan\"".to_owned()));
        assert!(text(&info).contains("Platform: none\n  there is no platform"), "{}", text(&info));
        assert!(info["devices"].as_array().is_some_and(Vec::is_empty));
    }

    #[test]
    fn versions_come_from_file_names() {
        assert_eq!(version_in_name(Path::new("/usr/lib/libamdhip64.so.5.2.21153")).as_deref(), Some("5.2.21153"));
        assert_eq!(version_in_name(Path::new("/usr/lib/libamdhip64.so")), None);
    }
}
