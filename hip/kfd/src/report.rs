//! Names for reports. A packet has the address of a kernel only. Which code objects are loaded where, the runtime tells debuggers
//! in a list that it exports (`_amdgpu_r_debug`); the names are in the objects.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use vgpu::Failure;

/// Puts the kernel's name into a report, and addresses as a disassembly prints them. What cannot be found out stays as it is.
pub fn name(descriptor: u64, failure: &mut Failure) {
    let Some(place) = failure.place.as_mut() else { return };
    for object in objects() {
        let Some(bytes) = read(&object.origin) else { continue };
        let Ok(loaded) = vgpu::Object::load(&bytes) else { continue };
        let wanted = descriptor.wrapping_sub(object.base);
        let at = |kernel: &vgpu::Kernel| kernel.descriptor_address().wrapping_sub(kernel.base());
        let kernel = loaded.kernels().find(|kernel| at(kernel) == wanted);
        if let Some(kernel) = kernel {
            place.kernel = kernel.name().to_owned();
            place.pc = place.pc.wrapping_sub(object.base);
            place.lines = kernel.lines(place.pc);
            return;
        }
    }
}

/// A loaded code object: the address that its own addresses count from, and where its bytes are.
struct Loaded {
    base: u64,
    origin: String,
}

/// The head of the list, as `link.h` has it.
#[repr(C)]
struct Head {
    version: c_int,
    first: *const Link,
}

#[repr(C)]
struct Link {
    base: u64,
    name: *const c_char,
    section: *const c_void,
    next: *const Link,
}

fn objects() -> Vec<Loaded> {
    let mut found = Vec::new();
    let Some(head) = head() else { return found };
    // SAFETY: the runtime keeps the list valid for debuggers at any time.
    let mut link = unsafe { (*head).first };
    // SAFETY: null, or an element of that list.
    while let Some(loaded) = unsafe { link.as_ref() } {
        if !loaded.name.is_null() {
            // SAFETY: a string of the runtime's.
            let origin = unsafe { CStr::from_ptr(loaded.name) }.to_string_lossy().into_owned();
            found.push(Loaded { base: loaded.base, origin });
        }
        link = loaded.next;
    }
    found
}

/// The list of whichever runtime the process has loaded, however it was loaded.
fn head() -> Option<*const Head> {
    let mut path: Option<CString> = None;
    // SAFETY: the function below takes what the loader gives it.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut path).cast()) };
    let path = path?;
    // SAFETY: the library is loaded already and stays so.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if library.is_null() {
            return None;
        }
        let head = libc::dlsym(library, c"_amdgpu_r_debug".as_ptr());
        (!head.is_null()).then_some(head.cast())
    }
}

/// Called for each loaded library; keeps the path of AMD's runtime.
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, path: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid structure, and `path` is what `head` passed.
    let (name, path) = unsafe { ((*info).dlpi_name, &mut *path.cast::<Option<CString>>()) };
    if !name.is_null() {
        // SAFETY: a string of the loader's.
        let name = unsafe { CStr::from_ptr(name) };
        if name.to_bytes().windows(16).any(|part| part == b"libhsa-runtime64") {
            *path = Some(name.to_owned());
            return 1;
        }
    }
    0
}

/// The bytes of a code object: `file://PATH#offset=N&size=N` or `memory://PROCESS#offset=ADDRESS&size=N`.
fn read(origin: &str) -> Option<Vec<u8>> {
    let (place, part) = origin.split_once(['#', '?']).unwrap_or((origin, ""));
    let number = |name: &str| {
        let text = part.split('&').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    };
    if let Some(path) = place.strip_prefix("file://") {
        let bytes = std::fs::read(path).ok()?;
        let start = usize::try_from(number("offset").unwrap_or(0)).ok()?;
        let count = number("size").map_or(bytes.len().checked_sub(start)?, |count| count as usize);
        return bytes.get(start..start.checked_add(count)?).map(<[u8]>::to_vec);
    }
    let (address, count) = (number("offset")?, number("size")? as usize);
    // The program may have freed it since, so the kernel copies: what is not there is an error and no crash.
    let mut bytes = vec![0; count.min(1 << 30)];
    let ours = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let theirs = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes.len() };
    // SAFETY: our side is the vector; the other side may be anything.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &ours, 1, &theirs, 1, 0) };
    (copied == bytes.len() as isize).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_files_and_of_memory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"0123456789").unwrap();
        let path = file.path().display();
        assert_eq!(read(&format!("file://{path}#offset=2&size=3")), Some(b"234".to_vec()));
        assert_eq!(read(&format!("file://{path}")), Some(b"0123456789".to_vec()));
        assert_eq!(read(&format!("file://{path}#offset=8&size=3")), None);
        let here = b"in memory";
        assert_eq!(read(&format!("memory://1#offset={:#x}&size=9", here.as_ptr() as usize)), Some(here.to_vec()));
        assert_eq!(read("memory://1#offset=0x10&size=9"), None);
        assert_eq!(read("nonsense"), None);
    }
}
