//! AMD's own run-time compiler, without a GPU: it takes our modules, and an architecture it does not know is refused before
//! it is asked, because HIP 5 ends the process for one. Without the library the tests say so, and fail where `CI` is set.

use candle_rocm_kernels::{metadata, objects, Id, Module, ALL_IDS};
use hip::{Compiler, Program};
use std::time::Instant;

fn compiler() -> Option<Compiler> {
    match Compiler::amd() {
        Ok(compiler) => Some(compiler),
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "{why}");
            eprintln!("skipped: {why}");
            None
        }
    }
}

fn program(module: &Module, arch: &str) -> Program {
    let program = Program::new(format!("{}.hip", module.name), module.source).arch(arch);
    objects::RUN_TIME_OPTIONS.iter().fold(program, |program, option| program.option(*option))
}

fn compile_and_check(compiler: &Compiler, module: &Module, arch: &str) {
    let start = Instant::now();
    let object = compiler.compile(&program(module, arch)).unwrap_or_else(|error| panic!("{}: {error}", module.name));
    let seconds = start.elapsed().as_secs_f64();
    let kernels = metadata::kernels(&object).unwrap_or_else(|error| panic!("{} for {arch}: {error}", module.name));
    let mut names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, module.kernels, "{} for {arch}", module.name);
    println!("{} for {arch}: {} kernels, {} bytes, {seconds:.1} s", module.name, kernels.len(), object.len());
}

#[test]
fn a_few_modules_compile_for_both_families() {
    let Some(compiler) = compiler() else { return };
    for arch in ["gfx1030", "gfx90a:sramecc+:xnack-"] {
        // Those that compile fastest. None of them uses waves, atomics or shared memory: the test below has all modules.
        for id in [Id::Rope, Id::Fill, Id::Random] {
            compile_and_check(&compiler, id.module(), arch);
        }
    }
}

// cargo test -p candle-rocm-kernels --test hiprtc -- --ignored --nocapture, which `.ci/release` does
#[test]
#[ignore = "minutes: every module with HIP 5's compiler, which is slower than today's"]
fn every_module_compiles_for_both_families() {
    let Some(compiler) = compiler() else { return };
    for arch in ["gfx1030", "gfx90a:sramecc+:xnack-"] {
        for id in ALL_IDS {
            compile_and_check(&compiler, id.module(), arch);
        }
    }
}

#[test]
fn an_architecture_that_nobody_knows_is_an_error_that_says_what_to_do() {
    let error = objects::for_arch(Id::Fill.module(), "gfx9999").expect_err("there is no such GPU").to_string();
    for part in ["gfx9999", "module fill", "Run-time compiler", "CANDLE_ROCM_ARCHS=gfx9999"] {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
    if let Some(compiler) = compiler().filter(|compiler| compiler.version().0 == 5) {
        let error = compiler.compile(&program(Id::Fill.module(), "gfx9999")).expect_err("it would end the process");
        assert!(error.to_string().contains("does not know"), "{error}");
    }
}
