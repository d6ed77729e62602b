//! The run-time compiler of emulated GPUs: a clang with the AMDGPU target and a header of our own (`include/hip_amd.h`), so that
//! ordinary HIP source compiles without a ROCm.

use super::workspace::Workspace;
use super::{failed, lowered_name, quoted, CompileError, CompileFailure, CompileRequest, Object, HEADERS};
use crate::clang::Clang;
use std::sync::OnceLock;

/// The folder of our headers.
const DEVICE: &str = "device";

/// What every program is compiled with.
const FIXED: &[&str] = &[
    "-x",
    "hip",
    "--cuda-device-only",
    "--no-gpu-bundle-output",
    "-nogpuinc",
    "-nogpulib",
    "-nostdinc",
    "-fno-color-diagnostics",
    "-O3",
    "-std=c++17",
];

/// Beginnings of options that are handed on.
const PASSED: &[&str] =
    &["-D", "-U", "-I", "-O", "-std=", "-f", "-m", "-W", "-w", "-g", "--gpu-max-threads-per-block="];

/// Options whose value is the next word where it is not glued to them.
const WITH_VALUE: &[&str] = &["-D", "-U", "-I", "-mllvm"];

/// Ways to name the target, which the caller has found already.
const TARGET: &[&str] = &["--offload-arch", "--gpu-architecture"];

/// The variable that holds the address of the kernel of name expression `n`.
fn variable(n: usize) -> String {
    format!("__hip_host_name_expression_{n}")
}

/// Compiles one translation unit for `arch`, such as `gfx90a:sramecc+:xnack-`.
pub(crate) fn compile(request: &CompileRequest, arch: &str) -> Result<Object, CompileError> {
    let clang = clang()?;
    clang.check(arch).map_err(|why| CompileError::new(CompileFailure::Compiler, why))?;
    let passed = options(request.options)?;
    let workspace = Workspace::new()?;
    workspace.amd_headers(DEVICE)?;
    for (name, text) in request.headers {
        workspace.header(HEADERS, name, text)?;
    }
    let mut source = format!("# 1 {}\n{}\n", quoted(request.name), request.source);
    // Taking the address of a kernel makes an instance of a template, and says afterwards what it is called.
    for (n, expression) in request.name_expressions.iter().enumerate() {
        let bare = expression.trim().trim_start_matches('&').trim_start();
        source.push_str(&format!(
            "# 1 {}\nextern \"C\" __device__ __attribute__((used)) void *const {} = (void *)&{bare};\n",
            quoted(&format!("name expression {expression}")),
            variable(n)
        ));
    }
    let target = format!("--offload-arch={arch}");
    let (headers, device) = (format!("-I{HEADERS}"), format!("-I{DEVICE}"));
    let mut arguments = FIXED.to_vec();
    arguments.extend(passed.iter().map(String::as_str));
    arguments.extend([target.as_str(), &headers, &device, "-include", "hip_amd.h", "-o", "-", "-"]);
    let output = clang.run(Some(workspace.path()), &arguments, &source).map_err(|why| {
        CompileError::new(CompileFailure::Compiler, format!("{} cannot be run: {why}", clang.program().display()))
    })?;
    let log = String::from_utf8_lossy(&output.stderr).replace(&format!("./{HEADERS}/"), "");
    let log = log.replace(&format!("{HEADERS}/"), "");
    if !output.status.success() {
        return Err(failed(request, arch, log));
    }
    let image = output.stdout;
    let object = vgpu::Object::load(&image).map_err(|why| {
        let message = format!("`{}` compiles for {arch}, but what came out cannot be used: {why}", request.name);
        CompileError::new(CompileFailure::Compiler, message)
    })?;
    let kernels = object.kernels().map(|kernel| kernel.name().to_owned()).collect();
    let mut lowered = Vec::new();
    for (n, expression) in request.name_expressions.iter().enumerate() {
        let Some(name) = named(&object, &variable(n)) else {
            let message = format!("the name expression `{}` is no kernel", lowered_name(expression));
            return Err(CompileError { log, ..CompileError::new(CompileFailure::Source, message) });
        };
        lowered.push(((*expression).to_owned(), name));
    }
    Ok(Object { image, kernels, lowered, log })
}

/// The clang of this machine, looked for once a process.
fn clang() -> Result<&'static Clang, CompileError> {
    static FOUND: OnceLock<Result<Clang, String>> = OnceLock::new();
    let found = FOUND.get_or_init(Clang::find).as_ref();
    found.map_err(|why| CompileError::new(CompileFailure::Compiler, why.clone()))
}

/// What of the caller's options is handed on.
fn options(options: &[&str]) -> Result<Vec<String>, CompileError> {
    let mut passed = Vec::new();
    let mut words = options.iter().map(|word| word.trim()).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        let invalid =
            |why: &str| Err(CompileError::new(CompileFailure::Request, format!("the compiler option `{word}` {why}")));
        if TARGET.iter().any(|begin| word.starts_with(begin)) {
            if TARGET.contains(&word) {
                words.next();
            }
        } else if let Some(folder) = word.strip_prefix("-I").filter(|folder| !folder.is_empty()) {
            // The compiler runs elsewhere, so a relative folder is made absolute.
            let path = std::path::absolute(folder).map_or(folder.to_owned(), |path| path.display().to_string());
            passed.push(format!("-I{path}"));
        } else if WITH_VALUE.contains(&word) {
            let Some(value) = words.next() else { return invalid("needs a value behind it") };
            passed.extend([word.to_owned(), value.to_owned()]);
        } else if PASSED.iter().any(|begin| word.starts_with(begin)) {
            passed.push(word.to_owned());
        } else {
            return invalid("is not known; hipRTC's -D, -U, -I, -O…, -std=, -f…, -m… and -W… are");
        }
    }
    Ok(passed)
}

/// The kernel whose address a variable of the object holds.
fn named(object: &vgpu::Object, variable: &str) -> Option<String> {
    let (address, bytes) = object.global(variable)?;
    if bytes != 8 {
        return None;
    }
    // SAFETY: the variable's eight bytes lie in the object's image, which nothing runs from.
    let value = unsafe { (address as *const u64).read_unaligned() };
    object.kernels().find(|kernel| kernel.entry() == value).map(|kernel| kernel.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_handed_on_or_refused() {
        let passed = options(&["--gpu-architecture=gfx1100", "-DN=3", "-D", "M", "-O1", "-ffast-math"]).unwrap();
        assert_eq!(passed, ["-DN=3", "-D", "M", "-O1", "-ffast-math"]);
        assert_eq!(options(&["--offload-arch", "gfx90a"]).unwrap(), [""; 0]);
        for bad in ["-o", "-x", "--version", "-D"] {
            assert_eq!(options(&[bad]).expect_err(bad).reason, CompileFailure::Request);
        }
    }
}
