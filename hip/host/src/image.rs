//! A code object in memory becomes a loaded module: its size from its own headers, a file that exists in memory only,
//! `dlopen`. Every load is an instance of its own, with its own globals, and goes away when dropped.

use crate::module_abi::{Kernel, Module, Runtime, ABI, MODULE_SYMBOL};
use crate::target::Target;
use std::ffi::{c_void, CStr, CString};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Bytes of the ELF header of a 64-bit object.
const HEADER_BYTES: usize = 64;
const MAGIC: &[u8] = b"\x7fELF";
const NOT_ELF: &str = "the image is not an ELF file; the embedded device loads what was compiled for it";

/// A loaded code object. Its kernels and globals live as long as it does.
pub(crate) struct Image {
    library: Library,
    module: NonNull<Module>,
}

/// A shared object that is open.
struct Library {
    handle: NonNull<c_void>,
    /// The loader knows a library by its path, so the number of this file stays taken for as long as the library is
    /// loaded; else the next image would get the same path and with it this very library.
    _file: OwnedFd,
}

// SAFETY: the loaded object's tables are constant after `bind`, and dlclose and dlsym may be called from any thread.
unsafe impl Send for Image {}
// SAFETY: as above; nothing here changes through a shared reference.
unsafe impl Sync for Image {}

impl Image {
    /// Loads the object that starts at `start` and has the size its headers say.
    ///
    /// # Safety
    /// `start` points to a complete ELF file, or to readable bytes of which one of the first four is not ELF's.
    pub unsafe fn load(start: *const c_void, runtime: &Runtime) -> Result<Self, String> {
        // SAFETY: the caller's promise.
        Self::from_bytes(unsafe { elf_bytes(start, Target::Host) }?, runtime)
    }

    /// Loads the object in `bytes`.
    pub fn from_bytes(bytes: &[u8], runtime: &Runtime) -> Result<Self, String> {
        let file = memory_file(bytes)
            .map_err(|why| format!("cannot put a code object of {} bytes into memory: {why}", bytes.len()))?;
        let library = Library::open(file)?;
        let Some(module) = NonNull::new(library.symbol(MODULE_SYMBOL).cast::<Module>()) else {
            return Err(
                "the shared object exports no `hip_host_module`: it was not compiled for the embedded device".into()
            );
        };
        // SAFETY: an object with this symbol starts its table with the number of its ABI.
        let abi = unsafe { (*module.as_ptr()).abi };
        if abi != ABI {
            return Err(format!(
                "the code object speaks version {abi} of the module ABI, this device version {ABI}; compile it again"
            ));
        }
        let image = Self { library, module };
        image.require_processor()?;
        // SAFETY: the table is of our ABI, so `bind` has this signature; it copies what it is given.
        unsafe { (image.module().bind)(runtime) };
        Ok(image)
    }

    fn module(&self) -> &Module {
        // SAFETY: the table is part of the loaded object, which `self` keeps loaded.
        unsafe { self.module.as_ref() }
    }

    /// Whether its loads and stores check themselves.
    pub fn checked(&self) -> bool {
        self.module().checked != 0
    }

    /// Its entry points.
    pub fn kernels(&self) -> &[Kernel] {
        let module = self.module();
        if module.kernel_count == 0 {
            return &[];
        }
        // SAFETY: the compiler side wrote count and array together.
        unsafe { std::slice::from_raw_parts(module.kernels, module.kernel_count as usize) }
    }

    /// The entry point of that name.
    pub fn kernel(&self, name: &CStr) -> Option<&Kernel> {
        // SAFETY: names are string literals of the loaded object.
        self.kernels().iter().find(|kernel| unsafe { CStr::from_ptr(kernel.name) } == name)
    }

    /// Address and size of a global variable (`__constant__`) of that name.
    pub fn global(&self, name: &CStr) -> Option<(*mut c_void, usize)> {
        let address = self.library.symbol(name);
        if address.is_null() {
            return None;
        }
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
        let mut symbol: *mut c_void = std::ptr::null_mut();
        // SAFETY: `info` and `symbol` are written by the call; a symbol found in this way belongs to the loaded object.
        let known = unsafe { dladdr1(address, info.as_mut_ptr(), &mut symbol, RTLD_DL_SYMENT) };
        if known == 0 || symbol.is_null() {
            return None;
        }
        // SAFETY: with RTLD_DL_SYMENT the loader hands out a pointer to the symbol's entry in the object's table.
        let entry = unsafe { &*symbol.cast::<libc::Elf64_Sym>() };
        // Of what the object exports, only data is a global: its type is 1.
        (entry.st_info & 0xf == 1 && entry.st_size > 0).then_some((address, entry.st_size as usize))
    }

    /// The object names the processor level it was compiled for, if that is more than every processor has.
    fn require_processor(&self) -> Result<(), String> {
        let symbol = self.library.symbol(c"hip_host_processor");
        if symbol.is_null() {
            return Ok(());
        }
        // SAFETY: an object that exports this exports a string of that name.
        let wanted = unsafe { CStr::from_ptr(symbol.cast()) }.to_string_lossy();
        if crate::compile::processor_has(&wanted) {
            return Ok(());
        }
        Err(format!(
            "the code object was compiled for {wanted}, which this processor is not; build it again with HIP_HOST_MARCH=x86-64"
        ))
    }
}

impl Library {
    fn open(file: OwnedFd) -> Result<Self, String> {
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("a path without zero bytes");
        // SAFETY: dlopen runs the object's constructors; a code object has none but what the compiler made.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let handle = NonNull::new(handle).ok_or_else(|| format!("cannot load the code object: {}", loader_error()))?;
        Ok(Self { handle, _file: file })
    }

    /// The address of a symbol, or null.
    fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is open for as long as `self` is there.
        unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle came from dlopen and is closed once. Whoever runs its kernels holds the image.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
    }
}

const RTLD_DL_SYMENT: libc::c_int = 1;

extern "C" {
    // In glibc and not in the crate libc.
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: libc::c_int,
    ) -> libc::c_int;
}

fn memory_file(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    // SAFETY: a plain system call with a constant name.
    let fd = unsafe { libc::memfd_create(c"hip_host_module".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    let mut file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    std::io::Write::write_all(&mut file, bytes)?;
    Ok(file.into())
}

fn loader_error() -> String {
    // SAFETY: dlerror gives null or a string that lives until this thread's next dl call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader gave no reason".into();
    }
    // SAFETY: checked above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The object at `start`, which has the size that its headers say.
///
/// # Safety
/// `start` points to a complete ELF file, or to readable bytes of which one of the first four is not ELF's.
pub(crate) unsafe fn elf_bytes<'a>(start: *const c_void, target: Target) -> Result<&'a [u8], String> {
    // SAFETY: the caller vouches for the bytes up to the first wrong one, and for all of them where none is.
    unsafe {
        if !MAGIC.iter().enumerate().all(|(at, byte)| start.cast::<u8>().add(at).read() == *byte) {
            return Err(NOT_ELF.into());
        }
        let header = std::slice::from_raw_parts(start.cast::<u8>(), HEADER_BYTES);
        let tables = Tables::of(header, target)?;
        let size = tables.bytes(std::slice::from_raw_parts(start.cast::<u8>(), tables.end()?))?;
        Ok(std::slice::from_raw_parts(start.cast::<u8>(), size))
    }
}

/// Where an ELF file keeps its two tables.
struct Tables {
    program: (usize, usize, usize),
    section: (usize, usize, usize),
}

impl Tables {
    fn of(header: &[u8], target: Target) -> Result<Self, String> {
        if header.len() < HEADER_BYTES || !header.starts_with(MAGIC) {
            return Err(NOT_ELF.into());
        }
        if header[4] != 2 || header[5] != 1 {
            return Err("the image is not a 64-bit little-endian ELF file".into());
        }
        let machine = half(header, 18);
        let ours = target.elf_machine();
        if machine != ours {
            let name = |machine| match machine {
                62 => " (x86-64)",
                183 => " (AArch64)",
                224 => " (an AMD GPU)",
                _ => "",
            };
            return Err(format!(
                "the image is for ELF machine {machine}{}, not for {ours}{}; compile the kernel for {target}",
                name(machine),
                name(ours)
            ));
        }
        Ok(Self {
            program: (word(header, 32), half(header, 54), half(header, 56)),
            section: (word(header, 40), half(header, 58), half(header, 60)),
        })
    }

    /// The end of the later table: as far as the file must be readable to know its size.
    fn end(&self) -> Result<usize, String> {
        let end = |(offset, size, count): (usize, usize, usize)| {
            size.checked_mul(count).and_then(|all| all.checked_add(offset))
        };
        match (end(self.program), end(self.section)) {
            (Some(program), Some(section)) => Ok(program.max(section).max(HEADER_BYTES)),
            _ => Err("the ELF header of the image is damaged".into()),
        }
    }

    /// The size of the file whose beginning, both tables included, is `start`.
    fn bytes(&self, start: &[u8]) -> Result<usize, String> {
        let mut size = start.len();
        let damaged = || String::from("the ELF tables of the image are damaged");
        let (offset, step, count) = self.program;
        for i in 0..count {
            let entry = start.get(offset + i * step..).filter(|rest| rest.len() >= 56).ok_or_else(damaged)?;
            size = size.max(word(entry, 8).checked_add(word(entry, 32)).ok_or_else(damaged)?);
        }
        let (offset, step, count) = self.section;
        for i in 0..count {
            let entry = start.get(offset + i * step..).filter(|rest| rest.len() >= 64).ok_or_else(damaged)?;
            // Type 8 has a size and takes no room in the file.
            if u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]) != 8 {
                size = size.max(word(entry, 24).checked_add(word(entry, 32)).ok_or_else(damaged)?);
            }
        }
        Ok(size)
    }
}

fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn word(bytes: &[u8], at: usize) -> usize {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight) as usize
}
