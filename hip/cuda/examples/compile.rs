//! Compiles a HIP source for an NVIDIA architecture, with no GPU needed: a quick check on kernels.
//!
//! `cargo run -p hip-cuda --example compile -- kernels/hip/unary.hip -Ikernels/hip --offload-arch=sm_90`
//!
//! Prints what nvrtc has to say and the size of the code; `-o FILE` keeps the code.

use hip_abi::{hiprtcProgram, hiprtcResult, Hiprtc};
use std::error::Error;
use std::ffi::{c_char, c_int, CString};
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
    let start = std::time::Instant::now();
    let (code, log) = compile(hip_cuda::rtc_table()?, &file, &source, &arguments)?;
    println!("{file}: {} bytes in {:.2} s", code.len(), start.elapsed().as_secs_f32());
    if !log.is_empty() {
        println!("{log}");
    }
    if let Some(path) = keep {
        std::fs::write(&path, code).map_err(|why| format!("{path}: {why}"))?;
    }
    Ok(())
}

fn check(result: hiprtcResult, log: &str) -> Result<(), String> {
    if result.is_success() {
        return Ok(());
    }
    Err(format!("{result}\n{log}"))
}

fn compile(rtc: &Hiprtc, name: &str, source: &str, options: &[String]) -> Result<(Vec<u8>, String), Box<dyn Error>> {
    let (name, source) = (CString::new(name)?, CString::new(source)?);
    let options = options.iter().map(|option| CString::new(option.as_str())).collect::<Result<Vec<_>, _>>()?;
    let mut pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let mut program = hiprtcProgram(std::ptr::null_mut());
    let none = std::ptr::null_mut();
    // SAFETY: every text lives to the end of this function, and every buffer has the size that nvrtc asked for.
    unsafe {
        check((rtc.hiprtcCreateProgram)(&mut program, source.as_ptr(), name.as_ptr(), 0, none, none), "")?;
        let compiled = (rtc.hiprtcCompileProgram)(program, pointers.len() as c_int, pointers.as_mut_ptr());
        let mut bytes = 0;
        check((rtc.hiprtcGetProgramLogSize)(program, &mut bytes), "")?;
        let mut log = vec![0u8; bytes];
        check((rtc.hiprtcGetProgramLog)(program, log.as_mut_ptr().cast()), "")?;
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_string();
        check(compiled, &log)?;
        check((rtc.hiprtcGetCodeSize)(program, &mut bytes), "")?;
        let mut code = vec![0u8; bytes];
        check((rtc.hiprtcGetCode)(program, code.as_mut_ptr().cast()), "")?;
        check((rtc.hiprtcDestroyProgram)(&mut program), "")?;
        Ok((code, log))
    }
}
