//! Compiles a HIP source for an NVIDIA architecture, with no GPU needed: a quick check on kernels.
//!
//! `cargo run -p hip-cuda --example compile -- kernels/hip/unary.hip -Ikernels/hip --offload-arch=sm_90`
//!
//! Prints what nvrtc has to say and the size of the code; `-o FILE` keeps the code.

use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut keep = None;
    if let Some(at) = arguments.iter().position(|argument| argument == "-o") {
        arguments.remove(at);
        keep = Some((at < arguments.len()).then(|| arguments.remove(at)).ok_or("-o names a file")?);
    }
    let at = arguments.iter().position(|argument| !argument.starts_with('-'));
    let file = arguments.remove(at.ok_or("which source? compile FILE [options of hipRTC] [-o FILE]")?);
    let source = std::fs::read_to_string(&file).map_err(|why| format!("{file}: {why}"))?;
    let options: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let start = std::time::Instant::now();
    let compiled = hip_cuda::compile(&file, &source, &[], &options)?;
    println!("{file}: {} bytes in {:.2} s", compiled.code.len(), start.elapsed().as_secs_f32());
    if !compiled.log.is_empty() {
        println!("{}", compiled.log);
    }
    if let Some(path) = keep {
        std::fs::write(&path, compiled.code).map_err(|why| format!("{path}: {why}"))?;
    }
    Ok(())
}
