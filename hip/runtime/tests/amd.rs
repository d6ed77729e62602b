//! AMD's real library on a machine without a GPU: asking for it is an error that says what was found, the automatic choice
//! falls back with one warning, and the compiler in it works. Where there is a GPU, or no library, the tests say what holds
//! then.

use hip::{Compiler, Platform, Program};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Once;

static WARNINGS: AtomicUsize = AtomicUsize::new(0);

/// Counts warnings.
struct Counter;

impl log::Log for Counter {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }

    fn log(&self, record: &log::Record) {
        if record.level() == log::Level::Warn && record.target().starts_with("hip") {
            WARNINGS.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn flush(&self) {}
}

fn count_warnings() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Counter).expect("nobody else sets a logger here");
        log::set_max_level(log::LevelFilter::Warn);
    });
}

/// Whether AMD's library can be loaded here, and whether it finds a GPU.
fn library_and_gpu() -> (bool, bool) {
    let library = hip_abi::Hip::load(&hip_abi::Search::default()).is_ok();
    (library, library && Platform::named("amd").is_ok())
}

#[test]
fn asking_for_amd_without_a_gpu_names_the_library_and_says_no_device() {
    let (library, gpu) = library_and_gpu();
    if gpu {
        let platform = Platform::named("amd").expect("it started a moment ago");
        assert!(platform.is_gpu() && platform.device_count() > 0);
        return;
    }
    let text = Platform::named("amd").map(|_| ()).expect_err("there is no GPU").to_string();
    assert!(text.contains("libamdhip64"), "{text}");
    if library {
        assert!(text.contains("finds no device") && text.contains("hipErrorNoDevice"), "{text}");
        assert!(text.contains("/dev/kfd"), "it must say what to look at: {text}");
    } else {
        assert!(text.contains("tried") && text.contains("ROCM_PATH"), "{text}");
    }
    // Nothing is spoiled: the embedded device works beside it, and asking again gives the same answer.
    let again = Platform::named("amd").map(|_| ()).expect_err("there is still no GPU").to_string();
    assert_eq!(again, text);
    assert!(Platform::named("host").is_ok());
}

#[test]
fn the_automatic_choice_falls_back_with_one_warning() {
    count_warnings();
    let (_, gpu) = library_and_gpu();
    let before = WARNINGS.load(Ordering::SeqCst);
    let platforms: Vec<Platform> = (0..3).map(|_| Platform::detect().expect("something always works")).collect();
    if gpu {
        assert!(platforms[0].is_gpu());
        assert_eq!(WARNINGS.load(Ordering::SeqCst), before);
        return;
    }
    assert_eq!(platforms[0].name(), "host");
    assert!(!platforms[0].is_gpu());
    assert!(
        platforms[0].why().contains("no AMD GPU") || platforms[0].why().contains("asked"),
        "{}",
        platforms[0].why()
    );
    assert_eq!(WARNINGS.load(Ordering::SeqCst) - before, 1, "one warning, however often a program asks");
}

#[test]
fn an_unknown_platform_is_refused_by_name() {
    let text = Platform::named("vulkan").map(|_| ()).expect_err("there is no such platform").to_string();
    assert!(text.contains("vulkan") && text.contains("amd") && text.contains("host"), "{text}");
}

#[test]
fn the_compiler_works_without_a_gpu_and_refuses_what_would_end_the_process() {
    let (library, _) = library_and_gpu();
    let compiler = match Compiler::amd() {
        Ok(compiler) => compiler,
        Err(error) => {
            assert!(!library || error.to_string().contains("hiprtc"), "{error}");
            return;
        }
    };
    let source = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2.0f; }";
    let program = Program::new("twice.hip", source);
    for arch in ["gfx1030", "gfx90a:sramecc+:xnack-"] {
        let code = compiler.compile(&program.clone().arch(arch)).expect(arch);
        assert!(code.len() > 100, "{arch}: {} bytes are no code object", code.len());
    }
    let broken =
        Program::new("broken.hip", "extern \"C\" __global__ void broken() { no_such_name(); }").arch("gfx1030");
    let error = compiler.compile(&broken).expect_err("the source is broken");
    assert_eq!(error.name(), Some("HIPRTC_ERROR_COMPILATION"));
    assert!(error.detail().is_some_and(|log| log.contains("no_such_name")), "{error}");
    if compiler.version().0 == 5 {
        let text = compiler.compile(&program.arch("gfx9999")).expect_err("no such GPU").to_string();
        assert!(text.contains("gfx9999") && text.contains("does not know"), "{text}");
    }
}
