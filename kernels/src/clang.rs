//! A clang that makes code objects for AMD GPUs, and the one command line with which it is called: by the build script, by
//! `candle-rocm compile`, by the tests, and where there is no run-time compiler. Any clang with the AMDGPU target will do,
//! ROCm's or a stock one: the kernels need no header and no device library.

use super::arch::Arch;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The oldest release whose code these kernels have been checked with.
const OLDEST: u32 = 19;

/// What every module is compiled with. `-DNDEBUG`: an assertion would pull in calls to the host and a stack. `-ffp-contract=on`: HIP's
/// own setting, `fast`, fuses a product with a sum across statements, and so leaves out the rounding between them that Candle's CPU
/// backend has (f16 `affine` was one unit off in the last place); `on` fuses within an expression only.
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
];

/// A compiler that was found and tried.
#[derive(Clone, Debug)]
pub struct Clang {
    program: PathBuf,
    version: String,
    archs: Vec<String>,
}

impl Clang {
    /// The compiler to use: what `CLANG` names and no other; otherwise ROCm's own, the newest `clang++-NN`, `clang++`, or
    /// `hipcc`. The error lists what was tried and why it did not do.
    pub fn find() -> Result<Self, String> {
        let mut tried = Vec::new();
        let named = std::env::var_os("CLANG").filter(|value| !value.is_empty());
        let candidates = named.clone().map_or_else(candidates, |path| vec![path.into()]);
        for program in candidates {
            // A path that is not there says nothing; a program that is there and does not do is worth a line.
            if named.is_none() && program.is_absolute() && !program.exists() {
                continue;
            }
            match Self::probe(&program) {
                Ok(clang) => return Ok(clang),
                Err(why) if named.is_some() || program.is_absolute() || why.ran => {
                    tried.push(format!("{}: {}", program.display(), why.sentence));
                }
                Err(_) => {}
            }
        }
        let tried = if tried.is_empty() { String::new() } else { format!(" (tried {})", tried.join("; ")) };
        Err(format!(
            "no clang {OLDEST} or newer with the AMDGPU target was found{tried}; install one (Debian and Ubuntu: clang-{OLDEST} \
             lld-{OLDEST}), install ROCm, or name one with CLANG"
        ))
    }

    fn probe(program: &Path) -> Result<Self, Unfit> {
        let ask = |arguments: &[&str]| {
            let output = Command::new(program)
                .args(arguments)
                .stdin(Stdio::null())
                .output()
                .map_err(|error| Unfit { ran: false, sentence: error.to_string() })?;
            let text = [output.stdout, output.stderr].concat();
            Ok::<_, Unfit>(String::from_utf8_lossy(&text).into_owned())
        };
        let unfit = |sentence: String| Unfit { ran: true, sentence };
        let said = ask(&["--version"])?;
        let line = said.lines().find(|line| line.contains("clang version ")).unwrap_or_default().trim().to_owned();
        let number = line.split("clang version ").nth(1).and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
        match number {
            None => return Err(unfit("it does not say that it is a clang".to_owned())),
            Some(number) if number < OLDEST => {
                return Err(unfit(format!("it is version {number}, and {OLDEST} is needed")))
            }
            Some(_) => {}
        }
        let said = ask(&["--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus"])?;
        let archs: Vec<String> =
            said.split_whitespace().filter(|word| Arch::parse(word).is_ok()).map(str::to_owned).collect();
        if archs.is_empty() {
            return Err(unfit("it has no AMDGPU target".to_owned()));
        }
        Ok(Self { program: program.to_path_buf(), version: line, archs })
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// What it says about itself, such as `Debian clang version 19.1.7`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The targets it knows, without modes.
    pub fn archs(&self) -> &[String] {
        &self.archs
    }

    /// Everything about the compiler that its output depends on, for the keys of caches.
    pub fn key(&self, arch: &Arch) -> String {
        format!("{} {} {}", self.version, OPTIONS.join(" "), object_version(arch))
    }

    /// Refuses a target that this compiler does not know.
    pub fn check(&self, arch: &Arch) -> Result<(), String> {
        if self.archs.iter().any(|known| known == arch.base()) {
            return Ok(());
        }
        Err(format!(
            "{} ({}) does not know {}; it knows {}",
            self.program.display(),
            self.version,
            arch.base(),
            self.archs.join(", ")
        ))
    }

    /// The code object of a source that includes nothing. The error has the compiler's words.
    pub fn compile(&self, name: &str, source: &str, arch: &Arch) -> Result<Vec<u8>, String> {
        self.check(arch)?;
        let what = || format!("compiling module {name} for {arch} with {}", self.program.display());
        // Source and object go through pipes, so that a process killed here leaves no files of ours behind.
        let mut child = Command::new(&self.program)
            .args(OPTIONS)
            .args([object_version(arch), &format!("--offload-arch={arch}"), "-o", "-", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", what()))?;
        let mut input = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // From a thread of its own: the compiler may write before it has read everything. When it ends early the
            // pipe breaks, and its own words say why.
            scope.spawn(move || input.take().map(|mut input| input.write_all(source.as_bytes())));
            child.wait_with_output()
        })
        .map_err(|error| format!("{}: {error}", what()))?;
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

/// Why a program did not do.
struct Unfit {
    /// It is there and could be run.
    ran: bool,
    sentence: String,
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

/// Where a compiler may be, the likeliest first.
fn candidates() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut found: Vec<PathBuf> = variable("HIP_CLANG_PATH").map(|folder| folder.join("clang++")).into_iter().collect();
    let mut roots: Vec<PathBuf> = ["ROCM_PATH", "HIP_PATH"].into_iter().filter_map(variable).collect();
    roots.push("/opt/rocm".into());
    let cores = std::fs::read_dir("/opt/rocm").into_iter().flatten().flatten().map(|entry| entry.path());
    roots.extend(cores.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core-"))));
    found
        .extend(roots.iter().flat_map(|root| ["llvm/bin/clang++", "lib/llvm/bin/clang++"].map(|leaf| root.join(leaf))));
    found.extend((OLDEST..40).rev().map(|number| format!("clang++-{number}").into()));
    found.extend(["clang++", "hipcc"].map(PathBuf::from));
    found.extend(roots.iter().map(|root| root.join("bin/hipcc")));
    found
}
