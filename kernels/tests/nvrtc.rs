//! NVIDIA's run-time compiler, without a GPU: it takes our modules, so that what is measured on NVIDIA's GPUs can be measured tomorrow too.
//! Without the library the tests say so, and fail where `CUDA_HOME` says that it is there.

use candle_rocm_kernels::{objects, parallel, Id, Module, ALL_IDS};
use std::time::Instant;

fn compile(module: &Module, arch: &str) -> Result<(), String> {
    let start = Instant::now();
    let target = format!("--offload-arch={arch}");
    let options: Vec<&str> = objects::RUN_TIME_OPTIONS.iter().copied().chain([target.as_str()]).collect();
    let compiled = hip_cuda::compile(&format!("{}.hip", module.name), module.source, &[], &options)
        .map_err(|error| format!("{} for {arch}: {}", module.name, error.log))?;
    let missing: Vec<_> = module
        .kernels
        .iter()
        .filter(|kernel| {
            let name: Vec<u8> = [b".text.", kernel.as_bytes(), b"\0"].concat();
            !compiled.code.windows(name.len()).any(|window| window == name)
        })
        .collect();
    if !missing.is_empty() {
        return Err(format!("{} for {arch} has no code for {missing:?}", module.name));
    }
    let (kernels, bytes, seconds) = (module.kernels.len(), compiled.code.len(), start.elapsed().as_secs_f64());
    println!("{} for {arch}: {kernels} kernels, {bytes} bytes, {seconds:.1} s", module.name);
    Ok(())
}

fn compile_all(modules: &[Id]) {
    if let Err(why) = hip_cuda::rtc_table() {
        assert!(std::env::var_os("CUDA_HOME").is_none(), "{why}");
        eprintln!("skipped: {why}");
        return;
    }
    let outcome = parallel::for_each(modules, parallel::cores(), |id| compile(id.module(), "sm_90"));
    outcome.unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn modules_of_few_large_kernels_compile() {
    compile_all(&[Id::Attention, Id::Conv, Id::Gemm, Id::Norms, Id::Softmax]);
}

// cargo test -p candle-rocm-kernels --test nvrtc -- --ignored --nocapture, which `.ci/release` does
#[test]
#[ignore = "minutes: every module"]
fn every_module_compiles() {
    compile_all(ALL_IDS);
}
