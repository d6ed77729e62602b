//! A clang that makes code objects for AMD GPUs: ROCm's, or a stock one with the AMDGPU target. What it is called with is the
//! business of whoever compiles: the kernels' own modules, and the run-time compiler of emulated devices.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The oldest release whose code the kernels have been checked with.
const OLDEST: u32 = 19;

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
            said.split_whitespace().filter(|word| word.starts_with("gfx")).map(str::to_owned).collect();
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

    /// Refuses a target that this compiler does not know; modes (`:xnack-`) are not looked at.
    pub fn check(&self, arch: &str) -> Result<(), String> {
        let base = arch.split(':').next().unwrap_or_default();
        if self.archs.iter().any(|known| known == base) {
            return Ok(());
        }
        Err(format!(
            "{} ({}) does not know {base}; it knows {}",
            self.program.display(),
            self.version,
            self.archs.join(", ")
        ))
    }

    /// Runs it in `folder` with `source` on its standard input. Source and object go through pipes, so that a process killed here
    /// leaves no files of ours behind.
    pub fn run(&self, folder: Option<&Path>, arguments: &[&str], source: &str) -> std::io::Result<Output> {
        let mut command = Command::new(&self.program);
        if let Some(folder) = folder {
            command.current_dir(folder).env("TMPDIR", folder);
        }
        let mut child =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut input = child.stdin.take();
        std::thread::scope(|scope| {
            // From a thread of its own: the compiler may write before it has read everything. When it ends early the
            // pipe breaks, and its own words say why.
            scope.spawn(move || input.take().map(|mut input| input.write_all(source.as_bytes())));
            child.wait_with_output()
        })
    }
}

/// Why a program did not do.
struct Unfit {
    /// It is there and could be run.
    ran: bool,
    sentence: String,
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
