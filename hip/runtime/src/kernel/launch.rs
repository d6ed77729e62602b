//! Launching kernels that were written in Rust: compiled for the device when a stream launches the first of a module, looked up afterwards.
//! What only a kernel sees (an index out of range, a division by zero) it writes into words that its stream carries; the host reads them where
//! it waits anyway.

use crate::compiler::{Compiler, Program};
use crate::element::DevicePtr;
use crate::error::{Error, Result};
use crate::launch::{KernelArgs, LaunchConfig};
use crate::module::{Function, Module};
use crate::platform::PlatformKind;
use crate::stream::Stream;
use crate::stream_state::StreamMemory;
use bytemuck::{Pod, Zeroable};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

const HEADER: &str = include_str!("hip_rust.h");

/// Rust rounds after every operation, so nothing may be contracted.
const OPTIONS: [&str; 2] = ["-std=c++17", "-ffp-contract=off"];

/// A place in the source of a kernel that can report.
#[derive(Debug)]
pub struct Site {
    /// The file, as rustc was given it.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
    /// What is there.
    pub text: &'static str,
}

/// What the compiler made of a module: for which platform and architecture, and the code object.
type Code = (PlatformKind, String, Arc<Vec<u8>>);

/// The kernels of a module as C++; the attributes make one.
#[derive(Debug)]
pub struct KernelModule {
    name: &'static str,
    source: &'static str,
    sites: &'static [Site],
    /// Its place in `MODULES`, one higher.
    number: OnceLock<u64>,
    /// What the compiler made of it, for each target.
    codes: Mutex<Vec<Code>>,
}

/// All modules of which a kernel was launched, so that a report can be told.
static MODULES: Mutex<Vec<&'static KernelModule>> = Mutex::new(Vec::new());

/// What a kernel reports with: its last argument.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct KernelContext {
    words: DevicePtr<u64>,
    module: u64,
}

/// What a stream carries for its kernels in Rust.
struct Kernels {
    /// Code, value and bound of the first report.
    words: StreamMemory<u64>,
    /// A kernel was launched since somebody looked.
    launched: AtomicBool,
    /// A graph has a kernel, and may run whenever it likes.
    captured: AtomicBool,
    functions: Mutex<Loaded>,
}

#[derive(Default)]
struct Loaded {
    modules: Vec<(u64, Module)>,
    functions: Vec<(u64, &'static str, Function)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KernelModule {
    /// A module of that name. The attributes call this.
    pub const fn new(name: &'static str, source: &'static str, sites: &'static [Site]) -> Self {
        Self { name, source, sites, number: OnceLock::new(), codes: Mutex::new(Vec::new()) }
    }

    /// The C++ that the kernels became.
    pub fn source(&self) -> &'static str {
        self.source
    }

    fn number(&'static self) -> u64 {
        *self.number.get_or_init(|| {
            let mut modules = lock(&MODULES);
            modules.push(self);
            modules.len() as u64
        })
    }

    /// Compiles it for the stream's device, unless that was done before.
    fn code(&self, stream: &Stream) -> Result<Arc<Vec<u8>>> {
        let device = stream.device();
        let kind = device.platform().kind();
        // Held while it compiles: whoever else wants it would compile it as well.
        let mut codes = lock(&self.codes);
        if let Some((_, _, code)) = codes.iter().find(|(of, arch, _)| *of == kind && arch == device.arch()) {
            return Ok(code.clone());
        }
        let program = Program::new(format!("{}.hip", self.name), self.source).header("hip_rust.h", HEADER);
        let program = OPTIONS.iter().fold(program, |program, option| program.option(*option)).for_device(device);
        let code = Arc::new(Compiler::new(device.platform())?.compile(&program)?);
        codes.push((kind, device.arch().to_owned(), code.clone()));
        Ok(code)
    }

    fn function(&'static self, stream: &Stream, kernels: &Kernels, name: &'static str) -> Result<Function> {
        let number = self.number();
        let mut loaded = lock(&kernels.functions);
        if let Some((_, _, function)) = loaded.functions.iter().find(|(of, known, _)| *of == number && *known == name) {
            return Ok(function.clone());
        }
        let module = match loaded.modules.iter().find(|(of, _)| *of == number) {
            Some((_, module)) => module.clone(),
            None => {
                stream.refuse_in_capture(
                    "loading a kernel for the first time (call `hip::kernel::prepare` before the capture)",
                )?;
                let code = self.code(stream)?.as_ref().clone();
                // SAFETY: a compiler made it of what the attribute wrote.
                let module = unsafe { Module::load(stream.device(), code) }?;
                loaded.modules.push((number, module.clone()));
                module
            }
        };
        let function = module.function(name)?;
        loaded.functions.push((number, name, function.clone()));
        Ok(function)
    }

    /// Launches a kernel of it. The attributes call this.
    ///
    /// # Safety
    /// The arguments must be those of the kernel, and their memory the stream's.
    #[doc(hidden)]
    pub unsafe fn launch<A: KernelArgs>(
        &'static self,
        stream: &Stream,
        config: LaunchConfig,
        kernel: &'static str,
        arguments: impl FnOnce(KernelContext) -> A,
    ) -> Result<()> {
        let kernels = kernels_of(stream)?;
        let function = self.function(stream, &kernels, kernel)?;
        let context = KernelContext { words: kernels.words.ptr(), module: self.number() };
        // Before the launch: a report must not be missed.
        kernels.launched.store(true, Ordering::Release);
        if stream.is_capturing() {
            kernels.captured.store(true, Ordering::Release);
            stream.keep_in_capture(kernels.clone());
        }
        // SAFETY: the caller's promise; the words live as long as the stream, and as a graph that holds the launch.
        unsafe { function.launch(stream, config, &arguments(context)) }
    }
}

fn kernels_of(stream: &Stream) -> Result<Arc<Kernels>> {
    stream.state(|| {
        Ok(Kernels {
            words: stream.state_memory(3)?,
            launched: AtomicBool::new(false),
            captured: AtomicBool::new(false),
            functions: Mutex::default(),
        })
    })
}

/// Makes a stream ready to have kernels in Rust captured: a capture cannot compile or load. Each kernel is loaded by a launch before the
/// capture; `launch` is such a launch, of an empty input for instance.
///
/// ```
/// # use hip::LaunchConfig;
/// #[hip::kernel]
/// fn count_up(x: &mut GlobalMut<u32>) {
///     let i = global_x();
///     if i < x.len() { x[i] += 1; }
/// }
/// let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
/// let mut empty = stream.zeros(0)?;
/// hip::kernel::prepare(&stream, |stream| count_up(stream, LaunchConfig::new(1, 1), &mut empty))?;
/// # Ok::<(), hip::Error>(())
/// ```
pub fn prepare(stream: &Stream, launch: impl FnOnce(&Stream) -> Result<()>) -> Result<()> {
    stream.refuse_in_capture("preparing kernels")?;
    launch(stream)?;
    stream.synchronize()
}

/// Waits for the stream, and gives the first report of its kernels in Rust since somebody looked: an index out of range, a division by zero.
///
/// Whoever waits for the stream ([`Stream::synchronize`]) or reads a buffer of it gets the report as well, so this is for those who do
/// neither.
pub fn check(stream: &Stream) -> Result<()> {
    stream.synchronize()
}

/// The report of a stream that was waited for, once.
pub(crate) fn report(stream: &Stream) -> Result<()> {
    let Some(kernels) = stream.state_if_any::<Kernels>() else { return Ok(()) };
    // Taken back first: reading the words is a read, too, which must not look again.
    let captured = kernels.captured.swap(false, Ordering::AcqRel);
    if !kernels.launched.swap(false, Ordering::AcqRel) && !captured {
        return Ok(());
    }
    let again = |error: Error| {
        kernels.launched.store(true, Ordering::Release);
        error
    };
    let words = kernels.words.read(stream);
    kernels.captured.fetch_or(captured, Ordering::AcqRel);
    let words = words.map_err(again)?;
    match words[..] {
        [code, value, bound] if code != 0 => {
            // One that cannot be cleared is told again.
            let _told = kernels.words.clear(stream).map_err(again);
            Err(Error::refused(sentence(code, value, bound)))
        }
        _ => Ok(()),
    }
}

fn sentence(code: u64, value: u64, bound: u64) -> String {
    let (module, site, kind) = (code >> 40, (code >> 8) as u32, code & 0xff);
    let modules = lock(&MODULES);
    let module = (module as usize).checked_sub(1).and_then(|at| modules.get(at));
    let site = module.and_then(|module| module.sites.get(site as usize));
    let place = site.map_or("a kernel in Rust".to_owned(), |site| format!("{}:{}", site.file, site.line));
    let text = site.map_or("its memory", |site| site.text);
    match kind {
        1 => format!(
            "{place}: index {value} is out of range for {text}, which has {bound} elements; reading it gave zero, and writing it was left out"
        ),
        2 => format!("{place}: an integer was divided by zero, which gave zero"),
        _ => format!("{place}: a loop has steps of zero, and ended after the first"),
    }
}
