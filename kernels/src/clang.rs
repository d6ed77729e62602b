//! The one command line with which a clang makes code objects of the kernels: for the build script, `candle-rocm compile`, the
//! tests, and where there is no run-time compiler. Any clang with the AMDGPU target will do, ROCm's or a stock one: the kernels need
//! no header and no device library.

use super::arch::Arch;
use std::path::Path;

/// What every module is compiled with. `-DNDEBUG`: an assertion would pull in calls to the host and a stack. `-ffp-contract=on`: HIP's
/// own setting, `fast`, fuses a product with a sum across statements, and so leaves out the rounding between them that Candle's CPU
/// backend has (f16 `affine` was one unit off in the last place); `on` fuses within an expression only. `-munsafe-fp-atomics`: f32 and
/// f64 sums in memory by the GPU's own instruction where it has one. Unsafe is what it does in memory that the host shares coherently, and
/// our kernels add in the device's own memory only.
const OPTIONS: &[&str] = &[
    "-x",
    "hip",
    "--cuda-device-only",
    "--no-gpu-bundle-output",
    "-nogpuinc",
    "-nogpulib",
    "-nostdinc",
    "-O3",
    "-std=c++17",
    "-DNDEBUG",
    "-ffp-contract=on",
    "-munsafe-fp-atomics",
];

/// A compiler that was found and tried.
#[derive(Clone, Debug)]
pub struct Clang {
    found: hip_host::Clang,
}

impl Clang {
    /// The compiler to use. The error lists what was tried and why it did not do.
    pub fn find() -> Result<Self, String> {
        Ok(Self { found: hip_host::Clang::find()? })
    }

    /// The program.
    pub fn program(&self) -> &Path {
        self.found.program()
    }

    /// What it says about itself, such as `Debian clang version 19.1.7`.
    pub fn version(&self) -> &str {
        self.found.version()
    }

    /// The targets it knows, without modes.
    pub fn archs(&self) -> &[String] {
        self.found.archs()
    }

    /// Everything about the compiler that its output depends on, for the keys of caches.
    pub fn key(&self, arch: &Arch) -> String {
        format!("{} {} {}", self.version(), OPTIONS.join(" "), object_version(arch))
    }

    /// Refuses a target that this compiler does not know.
    pub fn check(&self, arch: &Arch) -> Result<(), String> {
        self.found.check(arch.base())
    }

    /// The code object of a source that includes nothing. The error has the compiler's words.
    pub fn compile(&self, name: &str, source: &str, arch: &Arch) -> Result<Vec<u8>, String> {
        self.check(arch)?;
        let what = || format!("compiling module {name} for {arch} with {}", self.program().display());
        let target = format!("--offload-arch={arch}");
        let arguments = [OPTIONS, &[object_version(arch), &target, "-o", "-", "-"]].concat();
        let output = self.found.run(None, &arguments, source).map_err(|error| format!("{}: {error}", what()))?;
        if !output.status.success() {
            return Err(format!(
                "{} failed ({}):\n{}",
                what(),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim_end()
            ));
        }
        if !output.stdout.starts_with(b"\x7fELF") {
            return Err(format!("{}: what came out is not a code object", what()));
        }
        Ok(output.stdout)
    }
}

/// Version 4 of the format is what every loader since ROCm 4 takes, and these kernels need nothing newer; generic targets
/// exist from version 6 on.
fn object_version(arch: &Arch) -> &'static str {
    if arch.is_generic() {
        "-mcode-object-version=6"
    } else {
        "-mcode-object-version=4"
    }
}
