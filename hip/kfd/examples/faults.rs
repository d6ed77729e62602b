//! A program that does something wrong on the first GPU, by the name of what: tests run it on emulated ones and look at how it
//! ends. `fine` does nothing wrong.
//!
//! `candle-rocm emulate --arch gfx1030 -- target/debug/examples/faults outside`

use hip::{Compiler, Device, LaunchConfig, Module, Platform, Program, Result, Stream};
use std::process::ExitCode;

const SOURCE: &str = r#"
extern "C" __global__ void fine(int *data) { data[threadIdx.x] += 1; }
extern "C" __global__ void outside(int *data) { data[(1ll << 30) + threadIdx.x] = 1; }
extern "C" __global__ void illegal(int *data) { if (data[0] == 0) asm volatile(".long 0xffffffff"); }
extern "C" __global__ void trap(int *data) { if (data[0] == 0) __builtin_trap(); }
extern "C" __global__ void hang(int *data) { while (__atomic_load_n(data, __ATOMIC_RELAXED) == 0) {} }
"#;

/// One GPU, and the kernels.
struct Bench {
    device: Device,
    stream: Stream,
    module: Module,
}

impl Bench {
    fn new() -> Result<Self> {
        let platform = Platform::named("amd")?;
        let device = platform.device(0)?;
        let stream = device.new_stream()?;
        let code = Compiler::new(&platform)?.compile(&Program::new("faults.hip", SOURCE).for_device(&device))?;
        // SAFETY: the compiler has just made it.
        let module = unsafe { Module::load(&device, code) }?;
        Ok(Self { device, stream, module })
    }

    /// Runs a kernel on 64 zeros and waits for it.
    fn run(&self, kernel: &str) -> Result<Vec<i32>> {
        let mut data = self.stream.zeros::<i32>(64)?;
        let function = self.module.function(kernel)?;
        // SAFETY: the kernels take one pointer; what they do wrong on purpose is the emulator's to notice.
        unsafe { function.launch(&self.stream, LaunchConfig::new(1, 64), &(&mut data,)) }?;
        data.to_vec()
    }

    fn is_fine(&self) -> Result<bool> {
        Ok(self.run("fine")? == [1; 64])
    }
}

fn main() -> ExitCode {
    let what = std::env::args().nth(1).unwrap_or_else(|| "fine".to_owned());
    match run(&what) {
        Ok(true) => {
            println!("{what}: as it should be");
            ExitCode::SUCCESS
        }
        Ok(false) => {
            println!("{what}: wrong results");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("{what}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: &str) -> Result<bool> {
    let bench = Bench::new()?;
    match what {
        "fine" => bench.is_fine(),
        // More than the GPU has is an error, and what there is can still be had.
        "memory" => {
            let total = bench.device.memory()?.total;
            let error = match bench.stream.alloc::<u8>(2 * total) {
                Ok(_) => return Ok(false),
                Err(error) => error.to_string(),
            };
            println!("{error}");
            let some = bench.stream.alloc::<u8>(total / 2)?;
            let refused = bench.stream.alloc::<u8>(total / 2 + total / 4).is_err();
            drop(some);
            Ok(refused && bench.is_fine()?)
        }
        // A child of a fork ends as it likes, and a program that it becomes has GPUs of its own.
        "fork" => {
            let fine = bench.is_fine()?;
            // SAFETY: the child only replaces or ends itself.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let program = std::env::current_exe().unwrap_or_default();
                let path = std::ffi::CString::new(program.to_string_lossy().as_bytes()).unwrap_or_default();
                // SAFETY: strings that end in 0, and a list that ends in null.
                unsafe {
                    libc::execv(path.as_ptr(), [path.as_ptr(), c"fine".as_ptr(), std::ptr::null()].as_ptr());
                    libc::_exit(99);
                }
            }
            let mut status = 0;
            // SAFETY: waits for the child made above.
            unsafe { libc::waitpid(child, &mut status, 0) };
            Ok(fine && status == 0 && bench.is_fine()?)
        }
        kernel => bench.run(kernel).map(|_| false),
    }
}
