//! Where the code object of a module comes from: the program itself, the disk cache, the run-time compiler of the platform,
//! or a clang on the machine, in this order. What is compiled here is kept, and a person at a terminal is told why it takes
//! a moment. Loading the object is the store's business.

use crate::arch::{Arch, GENERIC_SINCE};
use crate::cache::Cache;
use crate::clang::Clang;
use crate::registry::Module;
use hip::{Compiler, Device, Error, PlatformKind, Program, Result};
use std::borrow::Cow;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::time::Instant;

/// What AMD's run-time compiler is asked for, besides the target; `clang.rs` says why.
pub const RUN_TIME_OPTIONS: &[&str] = &["-std=c++17", "-DNDEBUG", "-O3", "-ffp-contract=on", "-munsafe-fp-atomics"];

/// Where an object came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is part of the program, built ahead of time for this target.
    Embedded(&'static str),
    /// An earlier start compiled it.
    Cache,
    /// The platform's run-time compiler made it now.
    RunTime,
    /// A compiler on the machine made it now: its version.
    Clang(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(target) => write!(f, "built in for {target}"),
            Self::Cache => f.write_str("kept from before"),
            Self::RunTime => f.write_str("run-time compiler"),
            Self::Clang(version) => f.write_str(version),
        }
    }
}

/// A code object, and where it came from.
#[derive(Clone, Debug)]
pub struct Object {
    /// What the device loads.
    pub bytes: Cow<'static, [u8]>,
    /// Where it came from.
    pub origin: Origin,
}

/// The code object of a module for a device.
pub fn for_device(device: &Device, module: &Module) -> Result<Object> {
    let platform = device.platform();
    let (major, minor, patch) = platform.runtime_version()?;
    // A checked device needs objects with checks in them, which are not built ahead of time.
    if !device.is_checked() {
        let image = match platform.kind() {
            PlatformKind::Amd | PlatformKind::Host if device.arch().starts_with("gfx") => {
                Arch::parse(device.arch()).ok().and_then(|arch| module.image_for(&arch, (major, minor)))
            }
            _ => module.image(device.base_arch()),
        };
        if let Some(image) = image {
            let bytes = image.object().map_err(Error::refused)?;
            return Ok(Object { bytes, origin: Origin::Embedded(image.target) });
        }
    }
    if device.is_emulated() {
        // Nobody needs a ROCm for an emulated GPU; its compiler is asked where there is no clang.
        return compiled(module, device.arch(), [by_clang, by_run_time]);
    }
    if platform.kind() == PlatformKind::Amd {
        return for_arch(module, device.arch());
    }
    // The launch layer keeps to small grids, so that the embedded device need not compile every kernel a second time for huge
    // ones. Its header has to know, which comes before what a plain -D defines.
    let mut options = vec!["-std=c++17", "-DNDEBUG", "-Wp,-DHIP_HOST_SMALL_GRIDS"];
    if device.is_checked() {
        // Checks cost more than optimisation saves, and compile three times faster without.
        options.push("-O1");
    }
    let version = format!("{major}.{minor}.{patch}");
    let parts = [module.source, device.arch(), platform.name(), &version, compiler_key(device), &options.join(" ")];
    run_time(&Compiler::new(platform)?, module, device.arch(), &options, &parts)
}

/// The code object of a module for an AMD GPU that need not be here: from the disk cache, or compiled now and kept.
/// `arch` is as a device reports it, or a target's name.
pub fn for_arch(module: &Module, arch: &str) -> Result<Object> {
    compiled(module, arch, [by_run_time, by_clang])
}

/// One way to have an object: kept from before, or made now. The error says why not, and begins with who was asked.
type Way = fn(&Module, &Arch, &str) -> std::result::Result<Object, String>;

/// The object by the first of two ways that leads to one.
fn compiled(module: &Module, arch: &str, ways: [Way; 2]) -> Result<Object> {
    let parsed = Arch::parse(arch).map_err(Error::refused)?;
    let mut reasons = Vec::new();
    for way in ways {
        match way(module, &parsed, arch) {
            Ok(object) => return Ok(object),
            Err(why) => {
                log::info!("module {} for {arch}: {why}", module.name);
                reasons.push(why);
            }
        }
    }
    Err(Error::refused(format!(
        "there are no kernels of module {} for {arch}, and none can be made here. {}. \
         Install a ROCm or a clang that knows {}, or use a program built with CANDLE_ROCM_ARCHS={}{}",
        module.name,
        reasons.join(". "),
        parsed.base(),
        parsed.base(),
        crate::arch::generic_for(parsed.base()).map_or_else(String::new, |generic| format!(
            " (or {generic}, from HIP {}.{} on)",
            GENERIC_SINCE.0, GENERIC_SINCE.1
        ))
    )))
}

/// By AMD's run-time compiler.
fn by_run_time(module: &Module, parsed: &Arch, arch: &str) -> std::result::Result<Object, String> {
    let failed = |why: &dyn fmt::Display| format!("Run-time compiler: {why}");
    let compiler = Compiler::amd().map_err(|error| failed(&error))?;
    if parsed.is_generic() {
        return Err(failed(&"it is not asked for generic targets"));
    }
    let version = format!("{:?}", compiler.version());
    let flags = RUN_TIME_OPTIONS.join(" ");
    let parts = |arch| [module.source, arch, "amd", &version, "", &flags];
    // An object for open modes runs in all of them; `compile --warm --arch gfx90a` may have made one.
    if let Some(object) = kept(module, &[&parts(arch), &parts(parsed.base())]) {
        return Ok(object);
    }
    run_time(&compiler, module, arch, RUN_TIME_OPTIONS, &parts(arch)).map_err(|error| failed(&error))
}

/// By a clang on the machine.
fn by_clang(module: &Module, parsed: &Arch, arch: &str) -> std::result::Result<Object, String> {
    let clang = clang().map_err(|why| format!("Compiler: {why}"))?;
    let key = clang.key(parsed);
    let parts = |arch| [module.source, arch, "clang", &key];
    if let Some(object) = kept(module, &[&parts(arch), &parts(parsed.base())]) {
        return Ok(object);
    }
    let make = || clang.compile(module.name, module.source, parsed);
    make_and_keep(module, arch, &parts(arch), Origin::Clang(clang.version().to_owned()), make)
        .map_err(|why| format!("Compiler: {why}"))
}

/// The user's cache, opened once a process.
pub fn cache() -> Option<&'static Cache> {
    static CACHE: OnceLock<Option<Cache>> = OnceLock::new();
    CACHE.get_or_init(Cache::open).as_ref()
}

/// The clang of this machine, looked for once a process.
pub fn clang() -> std::result::Result<&'static Clang, &'static String> {
    static CLANG: OnceLock<std::result::Result<Clang, String>> = OnceLock::new();
    CLANG.get_or_init(Clang::find).as_ref()
}

fn kept(module: &Module, keys: &[&[&str]]) -> Option<Object> {
    let bytes = keys.iter().find_map(|parts| cache()?.load(module.name, parts))?;
    Some(Object { bytes: bytes.into(), origin: Origin::Cache })
}

fn run_time(compiler: &Compiler, module: &Module, arch: &str, options: &[&str], parts: &[&str]) -> Result<Object> {
    make_and_keep(module, arch, parts, Origin::RunTime, || {
        let program = Program::new(format!("{}.hip", module.name), module.source).arch(arch);
        let object = compiler.compile(&options.iter().fold(program, |program, option| program.option(*option)))?;
        if object.is_empty() {
            return Err(Error::refused(format!("the compiler for {arch} returned an empty object")));
        }
        Ok(object)
    })
}

fn make_and_keep<E>(
    module: &Module,
    arch: &str,
    parts: &[&str],
    origin: Origin,
    make: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
) -> std::result::Result<Object, E> {
    let mut made = false;
    let make = || {
        made = true;
        let progress = Progress::start(module.name, arch);
        let object = make()?;
        progress.done();
        Ok(object)
    };
    let bytes = match cache() {
        Some(cache) => cache.get_or_make(module.name, parts, make),
        None => make(),
    }?;
    Ok(Object { bytes: bytes.into(), origin: if made { origin } else { Origin::Cache } })
}

/// The line that a person at a terminal sees while a module is being compiled.
struct Progress {
    text: String,
    start: Instant,
    shown: bool,
}

impl Progress {
    fn start(module: &str, arch: &str) -> Self {
        let text = format!("compiling the kernels of module {module} for {arch}");
        log::info!("{text}");
        let shown = std::io::stderr().is_terminal();
        if shown {
            let place = if cache().is_some() { "once, then they are kept" } else { "no cache folder can be used" };
            // What goes wrong on the way to a terminal must not stop the work.
            let _ = write!(std::io::stderr(), "\r{text} ({place}) ... ");
        }
        Self { text, start: Instant::now(), shown }
    }

    fn done(self) {
        if self.shown {
            let seconds = self.start.elapsed().as_secs_f32();
            let _ = writeln!(std::io::stderr(), "\r\x1b[2K{}: {seconds:.1} s", self.text);
        }
    }
}

/// What the embedded device's compiler was when this crate was built; it is part of the program, with no version of its own.
fn compiler_key(device: &Device) -> &'static str {
    if device.base_arch() == "host" {
        env!("HOST_COMPILER_KEY")
    } else {
        ""
    }
}
