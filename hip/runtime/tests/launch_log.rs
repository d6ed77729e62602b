//! The log of what emulated GPUs launch, seen from a program: what is counted can be said beforehand for kernels this small, and
//! a plan runs nothing. It needs a clang with the AMDGPU target, as every emulated GPU does.

use hip::{Compiler, LaunchConfig, Module, Platform, Program};
use hip_host::{log_launches, take_launch_log, LaunchLog, Options, Target};

const SOURCE: &str = r#"
extern "C" __global__ void doubled(const float* source, float* target) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    target[i] = source[i] + source[i];
}

extern "C" __global__ void apart(const float* source, float* target) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    target[i] = source[i * 32];
}

extern "C" __global__ void half(const float* source, float* target) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x % 2 == 0) target[i] = source[i] * 3.0f + source[i + 1];
}
"#;

#[test]
fn launches_are_counted_or_planned() {
    let options = Options {
        devices: 2,
        targets: vec!["gfx1100".parse::<Target>().unwrap()],
        units: vec![8, 48],
        ..Options::default()
    };
    hip_host::configure(options).expect("nothing has used the device before");
    let platform = Platform::named("host").expect("the embedded platform starts");
    let device = platform.device(0).expect("the first GPU");
    assert_eq!((device.compute_units(), platform.device(1).unwrap().compute_units()), (8, 48));

    let compiler = Compiler::new(&platform).expect("there is a compiler");
    let code = match compiler.compile(&Program::new("counted.hip", SOURCE).for_device(&device)) {
        Ok(code) => code,
        Err(error) if std::env::var_os("CI").is_none() && error.to_string().contains("no clang") => {
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    // SAFETY: the compiler has just made it.
    let module = unsafe { Module::load(&device, code) }.expect("it loads");
    let stream = device.new_stream().expect("a stream");
    let source = stream.upload(&vec![1.5f32; 32 * 1024]).expect("an upload");
    let mut target = stream.zeros::<f32>(1024).expect("zeros");
    let mut launch = |kernel: &str| {
        // SAFETY: four blocks of 256 threads stay inside both buffers.
        unsafe {
            let function = module.function(kernel).expect("it is there");
            function.launch(&stream, LaunchConfig::new(4, 256), &(&source, &mut target)).expect("it starts");
        }
        stream.synchronize().expect("it runs");
        target.to_vec().expect("a download")
    };

    launch("doubled");
    assert_eq!(take_launch_log(), [], "nobody asked for it");

    log_launches(LaunchLog::Count);
    assert_eq!(launch("doubled"), [3.0; 1024]);
    launch("apart");
    launch("half");
    log_launches(LaunchLog::Plan);
    let after = launch("apart");
    assert_eq!((after[0], after[1]), (6.0, 1.5), "what `half` and before it `apart` left");
    log_launches(LaunchLog::Off);
    launch("doubled");
    let log = take_launch_log();
    let names: Vec<&str> = log.iter().map(|launch| launch.kernel.as_str()).collect();
    assert_eq!(names, ["doubled", "apart", "half", "apart"]);

    let [doubled, apart, half, planned] = &log[..] else { panic!("four launches") };
    assert_eq!((doubled.grid, doubled.block, doubled.wave_size), ([4, 1, 1], [256, 1, 1], 32));
    assert!(doubled.vgprs >= 2 && doubled.lds_bytes == 0 && doubled.spills == 0, "{doubled:?}");
    let counters = &doubled.counters;
    assert_eq!((counters.blocks, counters.waves, counters.bytes_loaded, counters.bytes_stored), (4, 32, 4096, 4096));
    assert_eq!((counters.lines, counters.least_lines), (64, 64), "32 floats are a line");
    assert_eq!((counters.loaded.lines(), counters.stored.lines()), (32, 32));
    assert_eq!(counters.active_lanes, counters.lanes);
    // Each load of a lane is a line of its own; the stores are as before.
    assert_eq!((apart.counters.lines, apart.counters.loaded.lines()), (1024 + 32, 1024));
    assert!(half.counters.active_lanes < half.counters.lanes, "{half:?}");
    assert_eq!(planned.counters, vgpu::Counters::default());
}
