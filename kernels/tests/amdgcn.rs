//! All modules compiled for AMD's targets by a clang, without ROCm: the kernels are those of the registry, none spills a
//! register or uses private memory, waves are as wide as the target has them, and every argument lies where the launch layer
//! puts it. That last claim has two halves: here, the layout in AMD's metadata is that of the embedded device's object;
//! and on the embedded device in checked mode, which the tests of all kernels run on, every launch is compared with that object.
//!
//! Needs clang 19 or newer; without one the test says so, and fails where `CI` is set. Objects are kept in the user's
//! cache: the second run takes seconds. `cargo test -p candle-rocm-kernels --test amdgcn -- --nocapture` prints the times.

use candle_rocm_kernels::arch::Arch;
use candle_rocm_kernels::metadata::{self, KernelInfo, Summary};
use candle_rocm_kernels::{objects, parallel, Id, Module, ALL_IDS};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::Mutex;
use std::time::Instant;

/// A target with the width of its waves, and whether its kernels must not spill. The two that may have a register file
/// like one of the others; what they spill is printed.
type Target = (&'static str, u64, bool);
const OLDEST: [Target; 1] = [("gfx906", 64, false)];
const TARGETS: [Target; 5] =
    [("gfx90a", 64, true), ("gfx942", 64, true), ("gfx1030", 32, true), ("gfx1100", 32, true), ("gfx1201", 32, false)];

/// Offset and size of each argument of each kernel.
type Layouts = BTreeMap<String, Vec<(usize, usize)>>;

/// The layouts in the object for the embedded device, read from its own table.
fn host_layouts(module: &Module) -> Layouts {
    let image = module.image("host").expect("every module has one").object().expect("it is not packed");
    let path = std::env::temp_dir().join(format!("candle-rocm-{}-{}.so", module.name, std::process::id()));
    std::fs::write(&path, image).unwrap();
    let name = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the object was compiled by our build script; it stays loaded, so its table stays valid.
    let table = unsafe {
        let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!handle.is_null(), "{} cannot be loaded", path.display());
        libc::dlsym(handle, hip_host::module_abi::MODULE_SYMBOL.as_ptr()).cast::<hip_host::module_abi::Module>()
    };
    std::fs::remove_file(path).unwrap();
    // SAFETY: a host object exports its table under this symbol.
    let table = unsafe { table.as_ref() }.expect("a host object has its table");
    assert_eq!(table.abi, hip_host::module_abi::ABI);
    // SAFETY: the table says how many kernels there are.
    let kernels = unsafe { std::slice::from_raw_parts(table.kernels, table.kernel_count as usize) };
    let layout = |kernel: &hip_host::module_abi::Kernel| {
        // SAFETY: names are C strings, and each kernel has as many offsets and sizes as arguments.
        unsafe {
            let at = |list: *const u32, index: usize| list.add(index).read() as usize;
            let arguments =
                (0..kernel.arg_count as usize).map(|i| (at(kernel.arg_offsets, i), at(kernel.arg_sizes, i)));
            (CStr::from_ptr(kernel.name).to_string_lossy().into_owned(), arguments.collect())
        }
    };
    kernels.iter().map(layout).collect()
}

fn check(module: &Module, target: &str, wave: u64, strict: bool, kernels: &[KernelInfo], host: &Layouts) {
    let mut names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, module.kernels, "kernels of {} for {target}", module.name);
    for kernel in kernels {
        let what = format!("{} of {} for {target}: {kernel:?}", kernel.name, module.name);
        if strict {
            assert_eq!((kernel.vgpr_spills, kernel.sgpr_spills), (0, 0), "spills: {what}");
            assert_eq!(kernel.private_bytes, 0, "private memory: {what}");
        }
        assert_eq!(kernel.wave_size, wave, "{what}");
        assert!(kernel.shared_bytes <= 65536, "{what}");
        let ours = kernel.arguments.iter().filter(|argument| !argument.is_hidden());
        let layout: Vec<(usize, usize)> = ours.map(|argument| (argument.offset, argument.size)).collect();
        assert_eq!(Some(&layout), host.get(&kernel.name), "arguments, for AMD and on the embedded device: {what}");
    }
}

#[test]
fn every_module_compiles_for_every_target_as_the_launch_layer_expects_it() {
    compile_all(&TARGETS);
}

// cargo test -p candle-rocm-kernels --test amdgcn -- --ignored, which `.ci/release` does
#[test]
#[ignore = "a minute: nothing else in .ci/run needs the objects of the oldest target"]
fn every_module_compiles_for_the_oldest_target() {
    compile_all(&OLDEST);
}

fn compile_all(targets: &'static [Target]) {
    let clang = match objects::clang() {
        Ok(clang) => clang,
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "{why}");
            eprintln!("skipped: {why}");
            return;
        }
    };
    let layouts: BTreeMap<&str, Layouts> =
        ALL_IDS.iter().map(|id| (id.module().name, host_layouts(id.module()))).collect();
    let mut jobs: Vec<(Id, Target)> =
        targets.iter().flat_map(|&target| ALL_IDS.iter().map(move |&id| (id, target))).collect();
    jobs.sort_by_key(|(id, _)| std::cmp::Reverse(id.module().source.len()));
    let times = Mutex::new(BTreeMap::<&str, (f64, usize, u64)>::new());
    let start = Instant::now();
    let outcome = parallel::for_each(&jobs, parallel::cores(), |&(id, (target, wave, strict))| {
        let (module, arch) = (id.module(), Arch::parse(target)?);
        let mut seconds = None;
        let mut make = || {
            let start = Instant::now();
            let object = clang.compile(module.name, module.source, &arch);
            seconds = Some(start.elapsed().as_secs_f64());
            object
        };
        let parts = [module.source, target, "clang", &clang.key(&arch)];
        let object = match objects::cache() {
            Some(cache) => cache.get_or_make(module.name, &parts, make)?,
            None => make()?,
        };
        let kernels = metadata::kernels(&object).map_err(|error| format!("{} for {target}: {error}", module.name))?;
        check(module, target, wave, strict, &kernels, &layouts[module.name]);
        let mut times = times.lock().unwrap();
        let entry = times.entry(target).or_default();
        entry.0 += seconds.unwrap_or(0.0);
        entry.1 += usize::from(seconds.is_some());
        entry.2 += Summary::of(&kernels).spills;
        Ok::<(), String>(())
    });
    outcome.unwrap_or_else(|why| panic!("{why}"));
    for (target, (seconds, compiled, spills)) in times.into_inner().unwrap() {
        println!(
            "{target}: {compiled} of {} modules compiled, {seconds:.0} s of one core, {spills} spills",
            ALL_IDS.len()
        );
    }
    println!("{:.0} s in all on {} cores", start.elapsed().as_secs_f64(), parallel::cores());
}
