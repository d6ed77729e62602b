//! Code objects: loaded, unloaded, refused; and the compiler that makes them.

use super::{compiled, load, Bench, Done};
use crate::{Buffer, Compiler, Error, LaunchConfig, Module, Program, Result};

fn adds(what: i32) -> String {
    format!("extern \"C\" __global__ void add(int* value) {{ *value += {what}; }}")
}

pub(super) fn load_and_unload(bench: &Bench) -> Result<Done> {
    let adding = |what: i32| -> Result<Module> {
        load(&bench.device, compiled(&bench.device, "add.hip", &adds(what))?.to_vec())
    };
    let mut value = bench.stream.zeros::<i32>(1)?;
    // Two modules with a kernel of the same name; each function keeps its own module.
    let (one, ten) = (adding(1)?.function("add")?, adding(10)?.function("add")?);
    for function in [&one, &ten, &one] {
        // SAFETY: the kernel takes one pointer to an int.
        unsafe { function.launch(&bench.stream, LaunchConfig::new(1, 1), &(&mut value,)) }?;
    }
    assert_eq!(value.to_vec()?, [12]);
    drop(ten);
    // SAFETY: as above.
    unsafe { one.launch(&bench.stream, LaunchConfig::new(1, 1), &(&mut value,)) }?;
    assert_eq!(value.to_vec()?, [13]);
    for _ in 0..20 {
        let module = adding(1)?;
        // SAFETY: as above.
        unsafe { module.function("add")?.launch(&bench.stream, LaunchConfig::new(1, 1), &(&mut value,)) }?;
        bench.stream.synchronize()?;
    }
    assert_eq!(value.to_vec()?, [33]);
    Ok(Done::Passed)
}

pub(super) fn globals(bench: &Bench) -> Result<Done> {
    let (address, bytes) = bench.module.global("factors")?;
    assert_eq!(bytes, 8);
    let mut target = bench.stream.zeros::<f32>(4)?;
    bench.launch("use_globals", LaunchConfig::new(1, 4), &(&mut target,))?;
    assert_eq!(target.to_vec()?, [5.5, 3.0, 6.5, 3.5], "a module comes with its initial values");
    // SAFETY: the address is that of two floats of a module that the buffer keeps; only this stream uses them.
    let mut factors = unsafe { Buffer::<f32>::from_raw_parts(&bench.stream, address.cast(), 2, bench.module.clone()) };
    factors.slice_mut(1..)?.write(&[2.0])?;
    bench.launch("use_globals", LaunchConfig::new(1, 4), &(&mut target,))?;
    assert_eq!(target.to_vec()?, [10.5, 44.0, 11.5, 48.0], "variables keep their values between launches");
    assert_eq!(factors.to_vec()?, [0.5, 2.0]);
    assert_eq!(bench.module.global("no_such_global").unwrap_err().name(), Some("hipErrorNotFound"));
    Ok(Done::Passed)
}

pub(super) fn bad_images(bench: &Bench) -> Result<Done> {
    let mut truncated = compiled(&bench.device, "add.hip", &adds(1))?.to_vec();
    truncated.truncate(100);
    let attempts: [(&str, Vec<u8>); 4] = [
        ("nothing", Vec::new()),
        ("zeros", vec![0; 4096]),
        ("text", b"this is not a code object, however long it may be. ".repeat(10)),
        ("an ELF header alone", truncated),
    ];
    for (what, image) in attempts {
        let error = load(&bench.device, image).map(|_| ()).expect_err(what);
        assert!(error.to_string().contains("code object"), "{what}: {error}");
    }
    assert!(bench.kernel("scale").is_ok(), "the next call works");
    Ok(Done::Passed)
}

pub(super) fn unknown_kernels(bench: &Bench) -> Result<Done> {
    let error = bench.kernel("no_such_kernel").map(|_| ()).unwrap_err();
    assert_eq!(error.name(), Some("hipErrorNotFound"));
    assert!(error.to_string().contains("no_such_kernel"), "{error}");
    assert!(bench.kernel("a\0b").is_err());
    assert!(bench.kernel("").is_err());
    assert!(bench.kernel("scale").is_ok());
    Ok(Done::Passed)
}

pub(super) fn kernels_tell_about_themselves(bench: &Bench) -> Result<Done> {
    let info = bench.kernel("block_sum")?.info()?;
    assert!(info.threads_per_block >= 1024, "{info:?}");
    let kernel = bench.kernel("scale")?;
    let blocks = kernel.blocks_per_compute_unit(256, 0)?;
    let (grid, block) = kernel.best_block(0)?;
    assert!(blocks >= 1 && grid >= 1 && block >= 1 && block <= bench.device.limits().threads_per_block);
    Ok(Done::Passed)
}

pub(super) fn compile_errors_carry_the_log(bench: &Bench) -> Result<Done> {
    let compiler = Compiler::new(bench.device.platform())?;
    let broken = "extern \"C\" __global__ void broken(int* out) { *out = no_such_name; }";
    let error = compiler.compile(&Program::new("broken.hip", broken).for_device(&bench.device)).unwrap_err();
    assert_eq!(error.name(), Some("HIPRTC_ERROR_COMPILATION"));
    assert!(error.detail().is_some_and(|log| log.contains("no_such_name")), "{error}");
    assert!(compiler.compile(&Program::new("nowhere.hip", "")).unwrap_err().to_string().contains("architecture"));
    // Headers and options arrive.
    let source = "#include \"answer.h\"\nextern \"C\" __global__ void answer(int* out) { *out = ANSWER + EXTRA; }";
    let program = Program::new("answer.hip", source).header("answer.h", "#define ANSWER 40\n").option("-DEXTRA=2");
    let code = compiler.compile(&program.for_device(&bench.device))?;
    let answer = load(&bench.device, code)?.function("answer")?;
    let mut out = bench.stream.zeros::<i32>(1)?;
    // SAFETY: the kernel takes one pointer to an int.
    unsafe { answer.launch(&bench.stream, LaunchConfig::new(1, 1), &(&mut out,)) }?;
    match out.to_vec()?[..] {
        [42] => Ok(Done::Passed),
        ref other => Err(Error::refused(format!("the header or the option did not arrive: {other:?}"))),
    }
}
