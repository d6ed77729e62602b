//! Our C signatures against AMD's own headers.
//!
//! A C++ file of static assertions is generated from the tables: the type of every function, the value of every constant,
//! the size of the property structure and the place of the field we read. The compiler then says whether they are true.
//! Headers are looked for in `/usr/include` and `$HIP_HEADERS` (a list of include folders separated by colons, for
//! example from an unpacked ROCm release). Without any, the test says so and checks nothing.

#![cfg(target_os = "linux")]

use hip_abi::{
    hipDeviceAttribute_t, hipError_t, hipFunction_attribute, hipMemcpyKind, hipStreamCaptureMode,
    hipStreamCaptureStatus, Function, Hip, Hiprtc,
};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The C spelling of a Rust type of the tables.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(inner) = rust.strip_prefix("*mut ") {
        return format!("{}*", c_type(inner));
    }
    if let Some(inner) = rust.strip_prefix("*const ") {
        return format!("{} const*", c_type(inner));
    }
    match rust {
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_char" => "char",
        "c_void" => "void",
        "usize" => "size_t",
        "u8" => "unsigned char",
        "u16" => "unsigned short",
        "f32" => "float",
        // Enum parameters are passed as the header's own enum; pointers to them likewise.
        other => other,
    }
    .to_string()
}

/// The function's type in the header's spelling: before ROCm 6 the property structure had no suffix.
fn header_signature(function: &Function) -> String {
    let arguments: Vec<String> = function
        .arguments
        .iter()
        .map(|(_, rust)| c_type(rust).replace("hipDeviceProp_tR0000", "hipDeviceProp_t"))
        .collect();
    format!("{}({})", c_type(function.returns), arguments.join(", "))
}

/// Names the header declares through a macro of the same name (ROCm 6: `hipGetDeviceProperties` is `...R0600`).
fn declared(function: &Function, header: &str) -> bool {
    header.contains(&format!("{}(", function.name))
}

fn assertions(include: &Path) -> String {
    let read = |name: &str| std::fs::read_to_string(include.join("hip").join(name)).unwrap_or_default();
    let (runtime, rtc) = (read("hip_runtime_api.h"), read("hiprtc.h"));
    let six = runtime.contains("hipDeviceProp_tR0600");
    let mut text = String::from(
        "#define __HIP_PLATFORM_AMD__ 1\n#include <cstddef>\n#include <type_traits>\n\
         #include <hip/hip_runtime_api.h>\n#include <hip/hiprtc.h>\n",
    );
    let mut check = |condition: String, message: &str| {
        writeln!(text, "static_assert({condition}, \"{message}\");").expect("writing to a string");
    };
    for (functions, header) in [(Hip::FUNCTIONS, &runtime), (Hiprtc::FUNCTIONS, &rtc)] {
        for function in functions {
            if !declared(function, header) {
                assert!(function.optional, "{} is required but not declared in {}", function.name, include.display());
                continue;
            }
            if six && function.name == "hipGetDeviceProperties" {
                continue; // The header's macro renames it; the R0600 row checks that one.
            }
            // `static_cast` picks the C function where the header adds C++ overloads beside it.
            let signature = header_signature(function).replacen('(', "(*)(", 1);
            check(
                format!("static_cast<{signature}>(&{0}) != nullptr || true", function.name),
                &format!("signature of {}", function.name),
            );
        }
    }
    let named = [
        hipMemcpyKind::NAMED,
        hipDeviceAttribute_t::NAMED,
        hipFunction_attribute::NAMED,
        hipStreamCaptureMode::NAMED,
        hipStreamCaptureStatus::NAMED,
    ];
    for (name, value) in named.into_iter().flatten() {
        check(format!("static_cast<long>({name}) == {value}L"), name);
    }
    for error in hipError_t::ALL {
        check(format!("static_cast<unsigned>({}) == {}u", error.name(), error.0), error.name());
    }
    for (name, value) in [
        ("hipStreamNonBlocking", hip_abi::hipStreamNonBlocking),
        ("hipEventDisableTiming", hip_abi::hipEventDisableTiming),
        ("hipHostMallocDefault", hip_abi::hipHostMallocDefault),
    ] {
        check(format!("{name} == {value}u"), name);
    }
    let (size, offset) = if six {
        (size_of::<hip_abi::hipDeviceProp_tR0600>(), std::mem::offset_of!(hip_abi::hipDeviceProp_tR0600, gcnArchName))
    } else {
        (size_of::<hip_abi::hipDeviceProp_tR0000>(), std::mem::offset_of!(hip_abi::hipDeviceProp_tR0000, gcnArchName))
    };
    check(format!("sizeof(hipDeviceProp_t) == {size}"), "size of hipDeviceProp_t");
    check(format!("offsetof(hipDeviceProp_t, gcnArchName) == {offset}"), "place of gcnArchName");
    check("sizeof(hipError_t) == 4 && sizeof(hipMemcpyKind) == 4".into(), "size of enums");
    text
}

fn include_folders() -> Vec<PathBuf> {
    let extra = std::env::var_os("HIP_HEADERS").unwrap_or_default();
    std::iter::once(PathBuf::from("/usr/include"))
        .chain(std::env::split_paths(&extra).filter(|path| !path.as_os_str().is_empty()))
        .filter(|path| path.join("hip/hip_runtime_api.h").exists())
        .collect()
}

/// Compiles `text` against the headers in `include`; the compiler's words where it refuses.
fn compile(include: &Path, text: &str) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("hip-abi-headers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let file = folder.join("assertions.cpp");
    std::fs::write(&file, text).expect("a temporary file");
    let output = Command::new("c++")
        .args(["-std=c++17", "-fsyntax-only", "-w", "-I"])
        .arg(include)
        .arg(&file)
        .output()
        .expect("a C++ compiler");
    std::fs::remove_dir_all(&folder).expect("the temporary folder goes");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_signature_and_constant_agrees_with_the_headers() {
    let folders = include_folders();
    if folders.is_empty() {
        eprintln!("no HIP headers here: install libamdhip64-dev or set HIP_HEADERS; nothing was checked");
    }
    for include in folders {
        let text = assertions(&include);
        if let Err(words) = compile(&include, &text) {
            panic!("{} disagrees with our tables:\n{words}", include.display());
        }
        eprintln!("{}: {} assertions hold", include.display(), text.matches("static_assert").count());

        // The check itself can fail: a wrong size and a wrong signature are both refused.
        let wrong_constant = text.replace("hipMemcpyDefault) == 4L", "hipMemcpyDefault) == 5L");
        assert_ne!(wrong_constant, text);
        assert!(compile(&include, &wrong_constant).is_err(), "a wrong constant went unnoticed");
        let wrong_type =
            text.replace("<hipError_t(*)(void**, size_t)>(&hipMalloc)", "<hipError_t(*)(void**, int)>(&hipMalloc)");
        assert_ne!(wrong_type, text);
        assert!(compile(&include, &wrong_type).is_err(), "a wrong signature went unnoticed");
    }
}
