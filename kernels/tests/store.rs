//! The module store: one load for a module whatever the number of threads, and names that mean nothing.

use candle_rocm_kernels::registry::{AFFINE, BINARY, UNARY};
use candle_rocm_kernels::{Id, ModuleStore, ALL_IDS};
use hip::Platform;

#[test]
fn the_registry_lists_the_sources() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/hip");
    let mut sources: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().unwrap().strip_suffix(".hip").map(str::to_owned))
        .collect();
    sources.sort();
    let mut names: Vec<&str> = ALL_IDS.iter().map(|id| id.module().name).collect();
    names.sort_unstable();
    assert_eq!(names, sources);
    for (position, id) in ALL_IDS.iter().enumerate() {
        let module = id.module();
        assert_eq!(module.index, position);
        assert!(!module.source.contains("#include"), "{} is not complete", module.name);
        assert!(module.kernels.is_sorted() && !module.kernels.is_empty(), "{}", module.name);
        assert!(
            module.image("host").is_some_and(|image| image.object().unwrap().starts_with(b"\x7fELF")),
            "{}",
            module.name
        );
        assert!(module.image("gfx000").is_none());
    }
}

#[test]
fn names_follow_one_rule() {
    assert!(AFFINE.position("affine_f32").is_some());
    assert!(BINARY.position("badd_f8e4m3_tile").is_some());
    assert!(UNARY.position("uexp_bf16_rows").is_some());
    assert!(UNARY.position("uexp_u8").is_none());
}

#[test]
fn threads_share_one_module() {
    let device = Platform::named("host").unwrap().device(0).unwrap();
    let store = ModuleStore::new(&device);
    let handles: Vec<usize> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let function = store.function(Id::Affine, "affine_f32").unwrap().unwrap();
                    std::ptr::from_ref(function) as usize
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(handles.windows(2).all(|pair| pair[0] == pair[1]), "every thread got the same function");
    assert_eq!(store.used(Id::Affine), ["affine_f32"]);
    assert!(store.used(Id::Unary).is_empty());
    assert!(store.function(Id::Affine, "affine_c64").unwrap().is_none());
}

/// Kernels are compiled once, for grids of fewer than 2^21 blocks along x; a block beyond them is refused and not run.
#[test]
fn a_huge_grid_is_refused() {
    let device = Platform::named("host").unwrap().device(0).unwrap();
    let stream = device.new_stream().unwrap();
    let store = ModuleStore::new(&device);
    let function = store.function(Id::Fill, "fill_u8").unwrap().unwrap();
    let launch = |blocks: u32| {
        let arguments = (0u64, 0u64, hip::DevicePtr::<u8>::NULL);
        // SAFETY: the parameters of `fill_u8` in `hip/fill.hip`, which has nothing to write.
        unsafe { function.launch(&stream, hip::LaunchConfig::new(blocks, 1), &arguments) }.unwrap();
        stream.synchronize()
    };
    let launches = || hip_host::launches(function.handle());
    assert_eq!(launches(), Some(0), "that it was looked up does not count");
    launch((1 << 21) - 1).unwrap();
    assert_eq!(launches(), Some(1));
    let why = launch(1 << 21).unwrap_err().to_string();
    assert!(why.contains("at most 2097151 blocks"), "{why}");
    launch(1).unwrap();
}

/// Where a module's object cannot be made, compilers are asked once: the same sentence comes at once from then on.
#[test]
fn a_module_that_cannot_be_built_is_not_built_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (compiler, calls) = (folder.path().join("c++"), folder.path().join("calls"));
    std::fs::write(&compiler, format!("#!/bin/sh\necho called >> {}\nexit 1\n", calls.display())).expect("a script");
    std::fs::set_permissions(&compiler, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    let child = std::process::Command::new(std::env::current_exe().expect("a test has a path"))
        .args(["--exact", "child_that_cannot_compile", "--ignored", "--nocapture"])
        .env("HIP_HOST_CXX", &compiler)
        .env("CANDLE_ROCM_CACHE", folder.path().join("cache"))
        .env("CALLS", &calls)
        .output()
        .expect("it starts");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_that_cannot_compile() {
    // Objects for a checked device are not built ahead of time.
    let options = hip_host::Options { checked: true, ..hip_host::Options::default() };
    hip_host::configure(options).expect("nothing has used the device before");
    let device = Platform::named("host").unwrap().device(0).unwrap();
    let store = ModuleStore::new(&device);
    let calls = || std::fs::read_to_string(std::env::var_os("CALLS").unwrap()).unwrap_or_default().len();
    let first = store.function(Id::Affine, "affine_f32").expect_err("there is no compiler").to_string();
    let asked = calls();
    assert!(asked > 0, "the compiler was asked: {first}");
    let second = store.function(Id::Affine, "affine_f32").expect_err("there is still none").to_string();
    assert_eq!((first, asked), (second, calls()));
    // The other modules are tried for themselves.
    store.function(Id::Unary, "uexp_f32").expect_err("there is no compiler");
    assert!(calls() > asked);
}
