//! What the emulated driver costs a program of AMD's runtime: the time of a launch whose kernel does nothing, in a burst and with a
//! wait behind each, and the share of a core that a program takes which has started and does nothing.
//!
//! `candle-rocm emulate --arch gfx1030 -- target/debug/examples/overhead`

use hip::{Compiler, LaunchConfig, Module, Platform, Program, Result};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const SOURCE: &str = r#"extern "C" __global__ void nothing(int *data) {}"#;
/// Launches of one round, and rounds: the median round counts.
const LAUNCHES: u32 = 2000;
const ROUNDS: usize = 9;
/// How long nothing happens.
const IDLE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let platform = Platform::named("amd")?;
    let device = platform.device(0)?;
    let stream = device.new_stream()?;
    let code = Compiler::new(&platform)?.compile(&Program::new("nothing.hip", SOURCE).for_device(&device))?;
    // SAFETY: the compiler has just made it.
    let module = unsafe { Module::load(&device, code) }?;
    let function = module.function("nothing")?;
    let mut data = stream.zeros::<i32>(64)?;
    let mut launch = |count: u32, wait: bool| -> Result<f64> {
        let start = Instant::now();
        for _ in 0..count {
            // SAFETY: the kernel takes one pointer and does not follow it.
            unsafe { function.launch(&stream, LaunchConfig::new(1, 64), &(&mut data,)) }?;
            if wait {
                stream.synchronize()?;
            }
        }
        stream.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(count))
    };
    launch(100, true)?;
    let mut median = |count, wait| -> Result<f64> {
        let mut rounds = (0..ROUNDS).map(|_| launch(count, wait)).collect::<Result<Vec<f64>>>()?;
        rounds.sort_by(f64::total_cmp);
        Ok(rounds[ROUNDS / 2])
    };
    let (major, minor, patch) = platform.runtime_version()?;
    println!("{} on HIP {major}.{minor}.{patch}", device.arch());
    println!("a launch in a burst of {LAUNCHES}: {:.1} us", median(LAUNCHES, false)?);
    println!("a launch and a wait for it: {:.1} us", median(LAUNCHES / 4, true)?);
    // Threads that have just worked look for more for a moment.
    std::thread::sleep(Duration::from_secs(3));
    let before = processor_time();
    std::thread::sleep(IDLE);
    let share = (processor_time() - before).as_secs_f64() / IDLE.as_secs_f64();
    println!("doing nothing: {:.2}% of a core", 100.0 * share);
    Ok(())
}

/// What all threads of this process have taken.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
