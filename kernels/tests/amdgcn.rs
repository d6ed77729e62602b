//! All modules compiled for AMD's targets by a stock clang, without ROCm: the kernels are those of the registry, none of
//! them spills a register or uses private memory, and their arguments are laid out as the launch layer packs them.
//! Needs clang 19 or newer (`CLANG`, or `clang++-NN`, or `clang++`); without one the test says so and fails where `CI` is set.

use candle_rocm_kernels::metadata::{self, KernelInfo};
use candle_rocm_kernels::{Id, ALL_IDS};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

const TARGETS: [(&str, u64); 4] = [("gfx1030", 32), ("gfx1100", 32), ("gfx90a", 64), ("gfx942", 64)];

/// A clang of at least version 19 with the AMDGPU target.
fn clang() -> Option<PathBuf> {
    let named = std::env::var_os("CLANG").map(PathBuf::from);
    let numbered = (19..40).rev().map(|n| PathBuf::from(format!("clang++-{n}")));
    named.into_iter().chain(numbered).chain([PathBuf::from("clang++")]).find(|path| {
        let ask = |argument: &str| {
            Command::new(path).arg(argument).output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let version = ask("--version")
            .ok()
            .and_then(|text| text.split("version ").nth(1)?.split('.').next()?.parse::<u32>().ok());
        version.is_some_and(|version| version >= 19) && ask("--print-targets").is_ok_and(|text| text.contains("amdgcn"))
    })
}

fn compile(clang: &PathBuf, id: Id, target: &str, folder: &std::path::Path) -> Vec<u8> {
    let module = id.module();
    let source = folder.join(format!("{}-{target}.hip", module.name));
    let object = source.with_extension("hsaco");
    std::fs::write(&source, module.source).unwrap();
    let output = Command::new(clang)
        .args(["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-nostdinc"])
        .args(["-O3", "-std=c++17", "-DNDEBUG", &format!("--offload-arch={target}"), "-o"])
        .args([&object, &source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{} for {target}:\n{}", module.name, String::from_utf8_lossy(&output.stderr));
    std::fs::read(object).unwrap()
}

fn check(id: Id, target: &str, wave: u64, kernels: &[KernelInfo]) {
    let module = id.module();
    let mut names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, module.kernels, "kernels of {} for {target}", module.name);
    for kernel in kernels {
        let what = format!("{} of {} for {target}: {kernel:?}", kernel.name, module.name);
        assert_eq!((kernel.vgpr_spills, kernel.sgpr_spills), (0, 0), "spills: {what}");
        assert_eq!(kernel.private_bytes, 0, "private memory: {what}");
        assert_eq!(kernel.wave_size, wave, "{what}");
        assert!(kernel.shared_bytes <= 65536, "{what}");
    }
}

#[test]
fn no_kernel_spills_on_any_target() {
    let Some(clang) = clang() else {
        assert!(std::env::var_os("CI").is_none(), "clang 19 or newer with the AMDGPU target is needed");
        eprintln!("skipped: no clang 19 or newer with the AMDGPU target");
        return;
    };
    let folder = std::env::temp_dir().join(format!("candle-rocm-amdgcn-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let jobs: Vec<(Id, &str, u64)> =
        ALL_IDS.iter().flat_map(|&id| TARGETS.iter().map(move |&(target, wave)| (id, target, wave))).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(&(id, target, wave)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let object = compile(&clang, id, target, &folder);
                    let kernels = metadata::kernels(&object)
                        .unwrap_or_else(|error| panic!("{} for {target}: {error}", id.module().name));
                    check(id, target, wave, &kernels);
                }
            });
        }
    });
    std::fs::remove_dir_all(folder).unwrap();
}
