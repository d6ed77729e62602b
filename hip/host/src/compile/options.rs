//! hipRTC's options as options of the system's compiler. What decides about a GPU's code has no meaning here and
//! is noted, not an error: the same call has to work on both.

use super::compiler::{Compiler, Family};
use super::{CompileError, CompileFailure};

/// The options of one compilation.
#[derive(Debug, Default)]
pub(super) struct Options {
    passed: Vec<String>,
    /// The definitions as preprocessor lines. They go behind the device's header, which they must not change: a
    /// kernel's `-DN=3` would else meet the parameters of our templates.
    pub definitions: String,
    /// The value for -march.
    march: Option<String>,
    /// The processor level to write into the object.
    pub processor: Option<String>,
    fast_math: bool,
    checked: bool,
    /// One line for each option that was left out.
    pub notes: String,
}

/// Options with a value that may be glued to them or follow as the next word: how they begin, what they become.
const WITH_VALUE: &[(&str, &str)] = &[
    ("-D", "-D"),
    ("-U", "-U"),
    ("-I", "-I"),
    ("--define-macro=", "-D"),
    ("--undefine-macro=", "-U"),
    ("--include-path=", "-I"),
];

/// Beginnings of options that the system's compiler knows and a kernel may need.
const PASSED: &[&str] = &[
    "-W",
    "-w",
    "-ffp-contract=",
    "-fno-fast-math",
    "-funroll-loops",
    "-fno-unroll-loops",
    "-ftree-",
    "-fwrapv",
    "-fpermissive",
];

/// Beginnings of options that are about a GPU or about the form of its code.
const FOR_A_GPU: &[&str] = &[
    "--offload",
    "--gpu",
    "--cuda",
    "--hip",
    "--rocm",
    "-m",
    "-f",
    "-g",
    "-no",
    "--no",
    "-save-temps",
    "-default-device",
    "-x",
];

/// What -ffast-math stands for, one by one: given as a whole it would also set the processor to flush
/// subnormals for the entire process, by way of a start file that it links into the object.
const FAST_MATH: &[&str] =
    &["-fno-signed-zeros", "-fassociative-math", "-freciprocal-math", "-ffinite-math-only", "-ffp-contract=fast"];

impl Options {
    pub fn parse(options: &[&str], checked: bool) -> Result<Self, CompileError> {
        let mut out = Self { checked, ..Self::default() };
        let mut optimise = if checked { "-O2" } else { "-O3" };
        let mut standard = 17;
        let mut march = std::env::var("HIP_HOST_MARCH").ok().filter(|value| !value.is_empty());
        let mut words = options.iter().map(|word| word.trim()).filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            let invalid = |why: &str| {
                Err(CompileError::new(CompileFailure::Request, format!("the compiler option `{word}` {why}")))
            };
            if let Some((name, becomes)) = WITH_VALUE.iter().find(|(name, _)| word.starts_with(name)) {
                let value = match &word[name.len()..] {
                    "" => words.next().unwrap_or_default(),
                    value => value,
                };
                if value.is_empty() {
                    return invalid("needs a value behind it");
                }
                if value.contains(['\n', '\r']) {
                    return invalid("has a value of several lines");
                }
                match *becomes {
                    "-D" => {
                        let (name, text) = value.split_once('=').unwrap_or((value, "1"));
                        out.definitions.push_str(&format!("#define {name} {text}\n"));
                    }
                    "-U" => out.definitions.push_str(&format!("#undef {value}\n")),
                    // The compiler runs elsewhere, so a relative folder is made absolute.
                    _ => {
                        let path =
                            std::path::absolute(value).map_or(value.to_owned(), |path| path.display().to_string());
                        out.passed.push(format!("-I{path}"));
                    }
                }
            } else if let Some(value) = word.strip_prefix("-std=").or_else(|| word.strip_prefix("--std=")) {
                let number: String = value.chars().filter(char::is_ascii_digit).collect();
                match (value, number.parse::<u32>()) {
                    ("c++2a", _) => standard = 20,
                    ("c++2b", _) => standard = 23,
                    // The device header needs C++17; what is valid in C++11 and 14 is so here too.
                    (_, Ok(year)) if year < 60 => standard = standard.max(year),
                    _ => return invalid("names no C++ standard; write -std=c++17 or -std=c++20"),
                }
            } else if let Some(value) = word.strip_prefix("-march=") {
                march = Some(value.to_owned());
            } else if ["-ffast-math", "--use_fast_math", "-use_fast_math"].contains(&word) {
                out.fast_math = true;
            } else if word == "-Ofast" {
                (optimise, out.fast_math) = ("-O3", true);
            } else if ["-O0", "-O1", "-O2", "-O3", "-Os", "-O"].contains(&word) {
                optimise = word;
            } else if PASSED.iter().any(|begin| word.starts_with(begin)) {
                out.passed.push(word.to_owned());
            } else if FOR_A_GPU.iter().any(|begin| word.starts_with(begin)) {
                if ["-mllvm", "-x", "--offload-arch", "--gpu-architecture"].contains(&word) {
                    words.next();
                }
                // Which GPU it is for everyone has to say; that is not worth a line.
                if !word.starts_with("--offload-arch") && !word.starts_with("--gpu-architecture") {
                    out.notes.push_str(&format!(
                        "note: the option {word} means nothing to the embedded device and is left out\n"
                    ));
                }
            } else {
                return invalid("is not known; hipRTC's -D, -U, -I, -O…, -std=, -ffast-math and -W… are");
            }
        }
        out.passed.push(optimise.to_owned());
        out.passed.push(format!("-std=c++{standard:02}"));
        out.choose_processor(march);
        Ok(out)
    }

    #[cfg(target_arch = "x86_64")]
    fn choose_processor(&mut self, march: Option<String>) {
        use super::compiler::{level, LEVELS};
        // By default what nearly every machine since 2013 has, so that a program built here runs elsewhere.
        let march = march.unwrap_or_else(|| LEVELS[level().min(2)].to_owned());
        let processor = if march == "native" { LEVELS[level()].to_owned() } else { march.clone() };
        self.processor = (processor != LEVELS[0]).then_some(processor);
        self.march = Some(march);
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn choose_processor(&mut self, march: Option<String>) {
        self.march = march;
    }

    /// Everything the compiler gets in both runs.
    pub fn flags(&self, compiler: &Compiler) -> Vec<String> {
        // A large frame is touched all along, so that a stack that is used up is noticed at its guard.
        let fixed = "-fstack-clash-protection -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-strict-aliasing \
                     -fno-math-errno -fno-trapping-math -ffp-contract=off -fdiagnostics-color=never -pipe -w";
        // Code stays in the order of the text: among lanes that wait at different places, the device lets those at the lowest
        // address go first, because the others wait for them behind the loop or the branch that they are in. Clang keeps loops
        // together by itself.
        let family = match compiler.family {
            Family::Gcc => "-fno-reorder-blocks -fno-reorder-blocks-and-partition -fno-gnu-unique -Wl,-Bsymbolic -Wl,--as-needed -Wl,--build-id=none",
            Family::Clang => "-Wl,-Bsymbolic -Wl,--as-needed -Wl,--build-id=none -Wno-unused-command-line-argument",
        };
        let checked = match (self.checked, compiler.family) {
            (false, _) => "",
            (true, Family::Gcc) => {
                "-DHIP_HOST_CHECKED -fsanitize=kernel-address --param=asan-instrumentation-with-call-threshold=0 \
                 --param=asan-stack=0 --param=asan-globals=0"
            }
            (true, Family::Clang) => {
                "-DHIP_HOST_CHECKED -fsanitize=kernel-address -mllvm -asan-instrumentation-with-call-threshold=0 \
                 -mllvm -asan-stack=0 -mllvm -asan-globals=0 -mllvm -asan-kernel-mem-intrinsic-prefix=1"
            }
        };
        // Without it g++ 12 does not see that `int i = blockIdx.x * blockDim.x + threadIdx.x` stays below 2^31, and
        // vectorises nothing that is indexed by it. Later versions do this by themselves.
        let ranges = match (compiler.family, compiler.major) {
            (Family::Gcc, 12) => "--param=vrp1-mode=ranger",
            _ => "",
        };
        let mut flags: Vec<String> = [fixed, family, checked, ranges]
            .iter()
            .flat_map(|text| text.split_whitespace())
            .map(str::to_owned)
            .collect();
        if self.fast_math {
            flags.extend(FAST_MATH.iter().map(|flag| (*flag).to_owned()));
        }
        flags.extend(self.march.iter().map(|march| format!("-march={march}")));
        flags.extend(self.passed.iter().cloned());
        flags
    }
}
