//! AMD's libraries, and whether there are kernels for the GPUs: inside the program, in the run-time compiler, in a clang, and
//! in the files beside rocBLAS.

use super::access::effective_archs;
use super::machine::Machine;
use super::Line;
use crate::loaded;
use candle_rocm_kernels::arch::{Arch, GENERIC_SINCE};
use rocm::blas::tensile;
use std::path::PathBuf;

/// HIP's runtime: its file, its release, and whether it starts.
pub fn runtime(machine: &Machine) -> Vec<Line> {
    const CHECK: &str = "HIP runtime";
    let mut lines = Vec::new();
    let found = find(machine, "amdhip64");
    match (&machine.devices, found.first()) {
        (Ok(devices), library) => {
            let library = library.map_or_else(|| "the library".to_owned(), |path| path.display().to_string());
            let names: Vec<String> = devices.iter().map(|seen| format!("{} ({})", seen.name, seen.arch)).collect();
            lines.push(Line::ok(CHECK, format!("{library} starts and reports {}", names.join(", "))));
        }
        (Err(_), None) => lines.push(Line::problem(
            CHECK,
            "libamdhip64 is not found",
            "install ROCm's runtime (AMD's hip-runtime-amd, Debian's libamdhip64-5); if it is somewhere unusual, set ROCM_PATH to that folder",
        )),
        (Err(why), Some(path)) => lines.push(Line::problem(
            CHECK,
            format!("{} is there, but finds nothing to run on: {}", path.display(), first_line(why)),
            "mend the lines above first; if all of them are well, this release of ROCm may not know the GPU",
        )),
    }
    let mut releases: Vec<String> = found.iter().filter_map(|path| release(path)).collect();
    releases.dedup();
    if releases.len() > 1 {
        let files: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
        lines.push(Line::warning(
            CHECK,
            format!("there are several releases: {}; the first is used", files.join(", ")),
            "libraries of different releases do not mix; set ROCM_PATH to the one that all should come from",
        ));
    }
    lines
}

/// Where the kernels for each GPU would come from.
pub fn kernels(machine: &Machine) -> Vec<Line> {
    const CHECK: &str = "kernels";
    let archs = effective_archs(machine);
    let mut lines: Vec<Line> = archs.iter().map(|name| kernels_for(machine, name)).collect();
    if archs.is_empty() {
        let ready = match machine.embedded.is_empty() {
            true => "none are built in".to_owned(),
            false => format!("built in for {}", machine.embedded.join(", ")),
        };
        let compilers: Vec<String> = [
            machine
                .run_time
                .as_ref()
                .ok()
                .map(|(major, minor)| format!("the run-time compiler of HIP {major}.{minor}")),
            machine.clang.as_ref().ok().map(|(version, _)| version.clone()),
        ]
        .into_iter()
        .flatten()
        .collect();
        lines.push(match compilers.is_empty() && machine.embedded.is_empty() {
            true => Line::warning(
                CHECK,
                "none are built in, and there is no compiler for AMD's targets",
                "install ROCm or a clang, or use a program built with CANDLE_ROCM_ARCHS",
            ),
            false if compilers.is_empty() => Line::ok(CHECK, ready),
            false => Line::ok(CHECK, format!("{ready}; others by {}", compilers.join(" or "))),
        });
    }
    lines
}

fn kernels_for(machine: &Machine, name: &str) -> Line {
    const CHECK: &str = "kernels";
    let Ok(arch) = Arch::parse(name) else {
        return Line::problem(CHECK, format!("{name} is not the name of a target"), "look at HSA_OVERRIDE_GFX_VERSION");
    };
    let generic_loads = machine.run_time.as_ref().is_ok_and(|release| *release >= GENERIC_SINCE);
    // Modes are left out on both sides: the driver's list does not have them.
    let fits = |target: &&String| {
        Arch::parse(target).is_ok_and(|target| {
            Arch::parse(target.base()).is_ok_and(|open| open.suits(&arch).is_some())
                && (!target.is_generic() || generic_loads)
        })
    };
    if let Some(target) = machine.embedded.iter().find(fits) {
        return Line::ok(CHECK, format!("{name}: built in ({target})"));
    }
    let clang = machine.clang.as_ref().ok().filter(|(_, archs)| archs.iter().any(|known| known == name));
    match (&machine.run_time, clang) {
        (Ok((major, minor)), _) if hip::Compiler::release_knows((*major, *minor), name) => {
            Line::ok(CHECK, format!("{name}: compiled on first use by the run-time compiler of HIP {major}.{minor}"))
        }
        (_, Some((version, _))) => Line::ok(CHECK, format!("{name}: compiled on first use by {version}")),
        (run_time, None) => Line::problem(
            CHECK,
            format!(
                "there are none for {name} and none can be made: {}; {}",
                match run_time {
                    Ok((major, minor)) => format!("the run-time compiler of HIP {major}.{minor} does not know it"),
                    Err(why) => format!("no run-time compiler ({})", first_line(why)),
                },
                match &machine.clang {
                    Ok((version, _)) => format!("{version} does not know it"),
                    Err(_) => "no clang for AMD's targets".to_owned(),
                }
            ),
            format!("install a newer ROCm or clang, or use a program built with CANDLE_ROCM_ARCHS={name}"),
        ),
    }
}

/// rocBLAS, and its kernels for the GPUs.
pub fn blas(machine: &Machine) -> Vec<Line> {
    const CHECK: &str = "rocBLAS";
    let Some(library) = find(machine, "rocblas").into_iter().next() else {
        return vec![Line::warning(
            CHECK,
            "it is not found: matrix products use our own kernels, which are slower",
            "install AMD's rocblas package",
        )];
    };
    let chosen = machine.variable("ROCBLAS_TENSILE_LIBPATH").map(|folder| machine.path(folder));
    let folders = tensile::folders(&library, chosen);
    let archs = effective_archs(machine);
    if archs.is_empty() {
        return vec![Line::ok(CHECK, library.display().to_string())];
    }
    let look = |name: &String| {
        match tensile::check(&folders, name) {
        Ok(folder) => Line::ok(CHECK, format!("{} has kernels for {name} in {}", library.display(), folder.display())),
        Err(why) => Line::warning(
            CHECK,
            first_line(&why).to_owned(),
            format!("where the instructions are those of a GPU that rocBLAS knows, HSA_OVERRIDE_GFX_VERSION helps (10.3.0 for gfx1031 to gfx1036); otherwise install a rocBLAS built for {name}"),
        ),
    }
    };
    archs.iter().map(look).collect()
}

/// MIOpen, which Candle's convolutions use where they are built with it.
pub fn convolutions(machine: &Machine) -> Vec<Line> {
    const CHECK: &str = "MIOpen";
    match find(machine, "MIOpen").first() {
        Some(path) => vec![Line::ok(CHECK, path.display().to_string())],
        None => vec![Line::warning(
            CHECK,
            "it is not found: convolutions use our own kernels",
            "install AMD's miopen-hip package, if you work with convolutions",
        )],
    }
}

/// rocFFT, which has no kernels of ours to stand in for it.
pub fn transforms(machine: &Machine) -> Vec<Line> {
    const CHECK: &str = "rocFFT";
    match find(machine, "rocfft").first() {
        Some(path) => vec![Line::ok(CHECK, path.display().to_string())],
        None => vec![Line::warning(
            CHECK,
            "it is not found: Fourier transforms on the GPU are an error",
            "install AMD's rocfft package (Debian's librocfft0), if you work with them",
        )],
    }
}

/// The files of a library, as the loader would look for them: each folder's newest, and each file once.
pub fn find(machine: &Machine, stem: &str) -> Vec<PathBuf> {
    let maps = machine.read(loaded::MAPS).unwrap_or_default();
    let mut folders: Vec<PathBuf> = loaded::folder(&maps).into_iter().collect();
    let mut roots: Vec<PathBuf> = ["ROCM_PATH", "HIP_PATH"]
        .iter()
        .filter_map(|name| machine.variable(name))
        .map(|path| machine.path(path))
        .collect();
    roots.push(machine.path("/opt/rocm"));
    let mut cores: Vec<String> =
        machine.list("/opt/rocm").into_iter().filter(|name| name.starts_with("core-")).collect();
    cores.reverse();
    roots.extend(cores.iter().map(|core| machine.path("/opt/rocm").join(core)));
    folders.extend(roots.iter().flat_map(|root| [root.join("lib"), root.join("lib64")]));
    let listed = machine.variable("LD_LIBRARY_PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(listed).filter(|path| path.is_absolute()).map(|path| machine.path(path)));
    let triple = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    folders.extend([triple.as_str(), "/usr/lib64", "/usr/lib", "/usr/local/lib"].map(|path| machine.path(path)));
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let names = (0..10).rev().map(|number| format!("lib{stem}.so.{number}")).chain([format!("lib{stem}.so")]);
        let first = names.map(|name| folder.join(name)).find(|path| path.exists());
        let real = first.map(|path| path.canonicalize().unwrap_or(path));
        found.extend(real.filter(|path| !found.contains(path)));
    }
    found
}

/// The release in a file's name: `6` of `libamdhip64.so.6.3.60300`.
fn release(path: &std::path::Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    name.split_once(".so.").and_then(|(_, version)| version.split('.').next().map(str::to_owned))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
