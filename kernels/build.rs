//! Makes every module self-contained (its source with the headers pasted in), compiles it for the embedded device and for
//! the AMD targets in `CANDLE_ROCM_ARCHS`, and writes what the registry includes: the source, the code objects and the names
//! of the kernels. Objects are kept in the user's cache: a module is compiled once, not once for each profile and target folder.

#[allow(dead_code)]
#[path = "src/arch.rs"]
mod arch;
#[allow(dead_code)]
#[path = "src/cache.rs"]
mod cache;
#[allow(dead_code)]
#[path = "src/clang.rs"]
mod clang;
#[allow(dead_code)]
#[path = "src/parallel.rs"]
mod parallel;
#[allow(dead_code)]
#[path = "src/topology.rs"]
mod topology;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=hip");
    for variable in ["CXX", "HIP_HOST_CXX", "HIP_HOST_MARCH", "CANDLE_ROCM_CACHE", "CANDLE_ROCM_ARCHS", "CLANG"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if let Err(message) = run() {
        // A build script's way of failing with a sentence.
        println!("cargo::error={}", message.replace('\n', "\ncargo::error="));
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let out =
        PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: this is a build script, run by cargo")?);
    let folder = Path::new("hip");
    let compiler = hip_host::fingerprint().map_err(|error| error.to_string())?;
    println!("cargo::rustc-env=HOST_COMPILER_KEY={compiler}");

    let mut modules = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| format!("reading {}: {e}", folder.display()))? {
        let path = entry.map_err(|e| e.to_string())?.path();
        if path.extension().is_some_and(|extension| extension == "hip") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            modules.push((name, expand(&path)?));
        }
    }
    // The longest first, so that the last one to finish is a short one.
    let place = |name: &str| SLOWEST.iter().position(|slow| *slow == name).unwrap_or(SLOWEST.len());
    modules.sort_by_key(|(name, _)| (place(name), name.clone()));

    let cache = cache::Cache::open();
    let ahead = Ahead::of_environment()?;
    // The embedded device first, whose objects everybody needs; then target after target.
    let targets = std::iter::once(None).chain(ahead.targets.iter().map(Some));
    let jobs: Vec<_> = targets.flat_map(|target| modules.iter().map(move |module| (module, target))).collect();
    let threads = std::env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(2);
    parallel::for_each(&jobs, threads, |((name, source), target)| match target {
        None => build(&out, name, source, &compiler, cache.as_ref()),
        Some(arch) => ahead.build(&out, name, source, arch, cache.as_ref()),
    })?;
    for (name, _) in &modules {
        let mut images =
            format!("Image {{ target: \"host\", bytes: include_bytes!(\"{name}.host\"), packed: false }},");
        for arch in &ahead.targets {
            let file = packed_file(name, arch);
            images += &format!("\nImage {{ target: \"{arch}\", bytes: include_bytes!({file:?}), packed: true }},");
        }
        write(&out, &format!("{name}.images.rs"), format!("&[{images}]").as_bytes())?;
    }
    Ok(())
}

/// What is compiled ahead of time for AMD GPUs.
struct Ahead {
    clang: Option<clang::Clang>,
    targets: Vec<arch::Arch>,
}

impl Ahead {
    /// What `CANDLE_ROCM_ARCHS` asks for: targets, `native`, `all`; nothing where it is not set.
    fn of_environment() -> Result<Self, String> {
        let list = std::env::var("CANDLE_ROCM_ARCHS").unwrap_or_default();
        if arch::split_list(&list).is_empty() {
            return Ok(Self { clang: None, targets: Vec::new() });
        }
        let explain = |why: String| format!("CANDLE_ROCM_ARCHS={list}: {why}");
        let clang = clang::Clang::find().map_err(explain)?;
        let targets = topology::targets(&list, clang.archs(), Path::new("/")).map_err(explain)?;
        targets.iter().try_for_each(|arch| clang.check(arch)).map_err(explain)?;
        Ok(Self { clang: Some(clang), targets })
    }

    fn build(
        &self,
        out: &Path,
        name: &str,
        source: &str,
        arch: &arch::Arch,
        cache: Option<&cache::Cache>,
    ) -> Result<(), String> {
        let clang = self.clang.as_ref().ok_or("targets without a compiler")?;
        let make = || clang.compile(name, source, arch);
        let object = match cache {
            // The parts are those of the run-time store: what was compiled for a first use is not compiled again.
            Some(cache) => cache.get_or_make(name, &[source, &arch.to_string(), "clang", &clang.key(arch)], make)?,
            None => make()?,
        };
        let packed = pack(&object).map_err(|error| format!("compressing module {name} for {arch}: {error}"))?;
        write(out, &packed_file(name, arch), &packed)
    }
}

fn packed_file(name: &str, arch: &arch::Arch) -> String {
    // A colon is not for every file system.
    format!("{name}-{arch}.lzma").replace(':', "_")
}

fn pack(object: &[u8]) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let options = lzma_rust2::LzmaOptions::with_preset(6);
    let mut writer = lzma_rust2::LzmaWriter::new_use_header(Vec::new(), &options, Some(object.len() as u64))?;
    writer.write_all(object)?;
    Ok(writer.finish()?)
}

fn write(out: &Path, file: &str, bytes: &[u8]) -> Result<(), String> {
    let path = out.join(file);
    fs::write(&path, bytes).map_err(|e| format!("writing {}: {e}", path.display()))
}

/// The modules that take longest to compile for the embedded device, from the slowest: 40 seconds of a core down to 10.
const SLOWEST: &[&str] = &["quantized", "unary", "binary", "reduce", "cast", "conv", "softmax", "ternary", "norms"];

/// The text of `path` with every `#include "..."` replaced by that file's text, each file once.
fn expand(path: &Path) -> Result<String, String> {
    fn paste(path: &Path, seen: &mut Vec<PathBuf>, text: &mut String) -> Result<(), String> {
        if seen.iter().any(|earlier| earlier == path) {
            return Ok(());
        }
        seen.push(path.to_path_buf());
        let source = fs::read_to_string(path).map_err(|e| format!("reading {}: {e}", path.display()))?;
        for line in source.lines() {
            match line.trim().strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
                // Names are relative to the folder of the sources, wherever the line stands.
                Some(name) => paste(&Path::new("hip").join(name), seen, text)?,
                None if line.trim() == "#pragma once" => {}
                None => {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
        Ok(())
    }
    let mut text = String::new();
    paste(path, &mut Vec::new(), &mut text)?;
    Ok(text)
}

/// What every module is compiled with. About small grids see `src/objects.rs`.
const HOST_OPTIONS: &[&str] = &["-std=c++17", "-DNDEBUG", "-Wp,-DHIP_HOST_SMALL_GRIDS"];

/// The modules in which a model spends its time on the embedded device. They are compiled at -O3.
const HOT: &[&str] = &["attention", "conv", "gemm", "norms", "quantized", "rope", "softmax"];

/// How the others are optimised: loops become vectors, and the rest of -O3, which would take half as long again, is left out.
const BRIEF: &[&str] = &["-O1", "-ftree-vectorize", "-ftree-vrp"];

fn build(out: &Path, name: &str, source: &str, compiler: &str, cache: Option<&cache::Cache>) -> Result<(), String> {
    let file_name = format!("{name}.hip");
    let level = if HOT.contains(&name) { &["-O3"] } else { BRIEF };
    let options = [HOST_OPTIONS, level].concat();
    let make = || {
        let request = hip_host::CompileRequest { name: &file_name, source, options: &options, ..Default::default() };
        let mut object = hip_host::compile(&request)
            .map_err(|error| format!("compiling module {name} for the embedded device: {error}"))?;
        object.kernels.sort();
        // The names, then a zero, then the object.
        let mut entry = object.kernels.join("\n").into_bytes();
        entry.push(0);
        entry.extend(object.image);
        Ok::<_, String>(entry)
    };
    let entry = match cache {
        Some(cache) => cache.get_or_make(&format!("host-{name}"), &[source, compiler, &options.join(" ")], make)?,
        None => make()?,
    };
    let end = entry.iter().position(|&byte| byte == 0).ok_or("a cached object without names")?;
    let kernels: Vec<_> = String::from_utf8_lossy(&entry[..end]).split_terminator('\n').map(str::to_owned).collect();

    write(out, &format!("{name}.host"), &entry[end + 1..])?;
    write(out, &format!("{name}.kernels.rs"), format!("&{kernels:?}").as_bytes())?;
    write(out, &file_name, source.as_bytes())
}
