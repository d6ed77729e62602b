//! Compiling kernels at run time: hipRTC on AMD, the system's C++ compiler behind the same calls on the embedded device.
//! Caching what comes out is the business of whoever calls.

use crate::device::Device;
use crate::error::{human_bytes, Error, Result};
use crate::platform::{Platform, PlatformKind};
use hip_abi::{hiprtcProgram, hiprtcResult, Hiprtc, Origin};
use std::ffi::{c_char, c_int, CString};
use std::fmt;

/// The run-time compiler of a platform.
///
/// ```
/// use hip::{Compiler, LaunchConfig, Module, Program};
/// let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
/// let source = r#"
///     extern "C" __global__ void add_one(float* data, int count) {
///         int i = blockIdx.x * blockDim.x + threadIdx.x;
///         if (i < count) data[i] += 1.0f;
///     }
/// "#;
/// let code = Compiler::new(stream.device().platform())?.compile(&Program::new("add_one.hip", source).for_device(stream.device()))?;
/// // SAFETY: the compiler has just made it.
/// let add_one = unsafe { Module::load(stream.device(), code) }?.function("add_one")?;
/// let mut data = stream.upload(&[1.0f32, 2.0, 3.0])?;
/// // SAFETY: the kernel takes a pointer and an int, and checks its bounds.
/// unsafe { add_one.launch(&stream, LaunchConfig::for_elements(3, 256), &(&mut data, 3i32))? };
/// assert_eq!(data.to_vec()?, [2.0, 3.0, 4.0]);
/// # Ok::<(), hip::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Compiler {
    rtc: &'static Hiprtc,
    kind: PlatformKind,
    version: (u32, u32),
}

/// A source to compile, and how.
#[derive(Clone, Debug, Default)]
pub struct Program {
    name: String,
    source: String,
    headers: Vec<(String, String)>,
    options: Vec<String>,
    arch: String,
}

impl Program {
    /// A source; `name` is what error messages call it.
    pub fn new(name: impl Into<String>, source: impl Into<String>) -> Self {
        Self { name: name.into(), source: source.into(), ..Self::default() }
    }

    /// A header that the source can include by this name.
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.headers.push((name.into(), text.into()));
        self
    }

    /// An option of the compiler, such as `-DBLOCK=256`.
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// The architecture to compile for, as the runtime spells it, features included.
    pub fn arch(mut self, arch: impl Into<String>) -> Self {
        self.arch = arch.into();
        self
    }

    /// Compiles for this device's architecture.
    pub fn for_device(self, device: &Device) -> Self {
        self.arch(device.arch())
    }
}

impl Compiler {
    /// The compiler of a platform; its library is loaded now, if it was not yet.
    pub fn new(platform: &Platform) -> Result<Self> {
        let (major, minor, _) = platform.runtime_version()?;
        Ok(Self { rtc: platform.rtc_table()?, kind: platform.kind(), version: (major, minor) })
    }

    /// AMD's compiler by itself, which also works on a machine without a GPU.
    pub fn amd() -> Result<Self> {
        let (major, minor, _) = crate::platform::version_of(crate::platform::amd_table()?)?;
        Ok(Self { rtc: crate::platform::amd_rtc_table()?, kind: PlatformKind::Amd, version: (major, minor) })
    }

    /// Where the compiler's functions live: a library's path, or this program.
    pub fn origin(&self) -> &'static Origin {
        self.rtc.origin()
    }

    /// The version of the HIP release that it belongs to, as (major, minor).
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Whether AMD's compiler of that release can be asked for an architecture. Only HIP 5 is second-guessed: later ones
    /// answer for themselves.
    pub fn release_knows(release: (u32, u32), arch: &str) -> bool {
        crate::known_archs::check(release, arch).is_ok()
    }

    /// Compiles a program to a code object that [`Module::load`](crate::Module::load) takes. On failure the error's
    /// detail is the compiler's log.
    pub fn compile(&self, program: &Program) -> Result<Vec<u8>> {
        if program.arch.is_empty() {
            return Err(Error::refused(format!(
                "{}: say which architecture to compile for (Program::arch)",
                program.name
            )));
        }
        if self.kind == PlatformKind::Amd {
            crate::known_archs::check(self.version, &program.arch)?;
        }
        let rtc = self.rtc;
        let doing =
            || format!("compiling {} ({}) for {}", program.name, human_bytes(program.source.len()), program.arch);
        let created = Created::new(rtc, program, &doing)?;
        let mut options = vec![format!("--gpu-architecture={}", program.arch)];
        options.extend(program.options.iter().cloned());
        let options = options.iter().map(|option| c_string(option)).collect::<Result<Vec<_>>>()?;
        let mut pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program is alive; the options end with zeros and live through the call.
        let code =
            unsafe { (rtc.hiprtcCompileProgram)(created.program, pointers.len() as c_int, pointers.as_mut_ptr()) };
        if !code.is_success() {
            let error = Error::rtc(code, "hiprtcCompileProgram", doing());
            return Err(match created.log() {
                Some(log) => error.with_detail(log),
                None => error,
            });
        }
        created.code(&doing)
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compiler({}, {})", self.kind.name(), self.origin())
    }
}

/// A program inside the compiler's library.
struct Created {
    rtc: &'static Hiprtc,
    program: hiprtcProgram,
}

impl Created {
    fn new(rtc: &'static Hiprtc, program: &Program, doing: &dyn Fn() -> String) -> Result<Self> {
        let (source, name) = (c_string(&program.source)?, c_string(&program.name)?);
        let mut texts = Vec::new();
        let mut names = Vec::new();
        for (name, text) in &program.headers {
            names.push(c_string(name)?);
            texts.push(c_string(text)?);
        }
        let mut text_pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let mut name_pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let mut created = hiprtcProgram(std::ptr::null_mut());
        // SAFETY: all texts end with zeros and live through the call, which copies them.
        let code = unsafe {
            (rtc.hiprtcCreateProgram)(
                &mut created,
                source.as_ptr(),
                name.as_ptr(),
                names.len() as c_int,
                text_pointers.as_mut_ptr(),
                name_pointers.as_mut_ptr(),
            )
        };
        check(code, "hiprtcCreateProgram", doing)?;
        Ok(Self { rtc, program: created })
    }

    fn code(&self, doing: &dyn Fn() -> String) -> Result<Vec<u8>> {
        let mut bytes = 0;
        // SAFETY: the program is alive and the pointer is to a live integer.
        check(unsafe { (self.rtc.hiprtcGetCodeSize)(self.program, &mut bytes) }, "hiprtcGetCodeSize", doing)?;
        let mut code = vec![0u8; bytes];
        // SAFETY: the program is alive and the buffer is as long as it asked for.
        check(unsafe { (self.rtc.hiprtcGetCode)(self.program, code.as_mut_ptr().cast()) }, "hiprtcGetCode", doing)?;
        Ok(code)
    }

    /// What the compiler said, if it can be had: it accompanies an error, and must not hide it.
    fn log(&self) -> Option<String> {
        let mut bytes = 0;
        // SAFETY: the program is alive and the pointer is to a live integer.
        let code = unsafe { (self.rtc.hiprtcGetProgramLogSize)(self.program, &mut bytes) };
        if !code.is_success() || bytes == 0 {
            return None;
        }
        // One more than asked for: releases differ in whether the size counts the final zero.
        let mut log = vec![0u8; bytes + 1];
        // SAFETY: the program is alive and the buffer is longer than it asked for.
        let code = unsafe { (self.rtc.hiprtcGetProgramLog)(self.program, log.as_mut_ptr().cast()) };
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        let text = String::from_utf8_lossy(&log[..end]).trim().to_owned();
        (code.is_success() && !text.is_empty()).then_some(text)
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        // SAFETY: the program is alive and not used after this.
        let code = unsafe { (self.rtc.hiprtcDestroyProgram)(&mut self.program) };
        if !code.is_success() {
            // There is no device to keep this for: a compiler's leftovers are host memory.
            log::error!("hiprtcDestroyProgram returned {code}");
        }
    }
}

fn check(code: hiprtcResult, call: &'static str, doing: &dyn Fn() -> String) -> Result<()> {
    if code.is_success() {
        Ok(())
    } else {
        Err(Error::rtc(code, call, doing()))
    }
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| {
        Error::refused(format!(
            "a text for the compiler has a zero byte in it: {:?}",
            text.chars().take(40).collect::<String>()
        ))
    })
}
