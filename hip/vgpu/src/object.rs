//! A code object: mapped into memory with its segments at their distances, its kernels by name. Bytes may be damaged;
//! nothing that is loaded makes this panic.

use crate::decode_cache::CodeCache;
use crate::descriptor::{Descriptor, DESCRIPTOR_BYTES};
use crate::elf::{Elf, Segment};
use crate::lines::{Lines, SourceLine};
use crate::memory::Span;
use crate::metadata::{self, KernelInfo};
use crate::target::Arch;
use std::alloc::Layout;
use std::sync::Arc;

/// Why an object was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The bytes are no code object, or a damaged one.
    Damaged(String),
    /// A code object that this cannot run.
    Unsupported(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Damaged(why) | Error::Unsupported(why) => out.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

/// The largest object that is mapped: real ones have tens of megabytes.
const MOST_BYTES: u64 = 1 << 30;
const PAGE: usize = 4096;
/// The most bytes of a kernel's arguments: compilers allow a few thousand.
const MOST_ARGUMENT_BYTES: usize = 1 << 16;

/// Where the segments lie.
struct Image {
    memory: *mut u8,
    layout: Layout,
}

// SAFETY: raw memory that is owned here, accessed by atomic reads and writes of running kernels.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `Image::map`, and nobody runs from it: kernels hold the object.
        unsafe { std::alloc::dealloc(self.memory, self.layout) };
    }
}

impl Image {
    fn map(segments: &[Segment<'_>]) -> Result<Self, Error> {
        let damaged = |why: &str| Error::Damaged(why.to_owned());
        let size = segments.iter().map(|segment| segment.address + segment.memory_bytes).max().unwrap_or(0);
        // Thousands of segments that overlap would be copied for minutes.
        let all = segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.memory_bytes));
        if size == 0 || size > MOST_BYTES || all > MOST_BYTES {
            return Err(damaged("the object's segments do not fit into memory"));
        }
        // A page more: the decoder may look a few bytes behind the last instruction.
        let layout = Layout::from_size_align(size as usize + PAGE, PAGE).map_err(|_| damaged("bad segment sizes"))?;
        // SAFETY: the size is not 0.
        let memory = unsafe { std::alloc::alloc_zeroed(layout) };
        if memory.is_null() {
            return Err(damaged("there is no memory for the object's segments"));
        }
        let image = Self { memory, layout };
        for segment in segments {
            let from = segment.bytes;
            // SAFETY: `address + bytes.len() <= address + memory_bytes <= size`, checked by the parser and above.
            unsafe {
                std::ptr::copy_nonoverlapping(from.as_ptr(), memory.add(segment.address as usize), from.len());
            }
        }
        Ok(image)
    }

    fn base(&self) -> u64 {
        self.memory as u64
    }

    fn bytes(&self, at: u64, count: usize) -> Option<&[u8]> {
        let at = usize::try_from(at).ok()?;
        // The page at the end belongs to nobody.
        if at.checked_add(count)? > self.layout.size() - PAGE {
            return None;
        }
        // SAFETY: in bounds; only used while loading, before any kernel can write to it, and for segments that none may write to.
        Some(unsafe { std::slice::from_raw_parts(self.memory.add(at), count) })
    }
}

/// A loaded code object.
pub struct Object {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    arch: Arch,
    image: Image,
    spans: Vec<Span>,
    kernels: Vec<KernelData>,
    globals: Vec<(String, u64, u64)>,
    lines: Option<Lines>,
    pub(crate) cache: CodeCache,
}

struct KernelData {
    info: KernelInfo,
    descriptor: Descriptor,
    /// Address of the descriptor.
    address: u64,
}

/// A kernel of a loaded object. Cheap to clone; keeps the object alive.
#[derive(Clone)]
pub struct Kernel {
    object: Arc<Inner>,
    index: usize,
}

impl Object {
    /// Maps a code object and reads its kernels.
    pub fn load(bytes: &[u8]) -> Result<Self, Error> {
        let elf = Elf::parse(bytes).map_err(Error::Damaged)?;
        let arch = Arch::from_elf_flags(elf.flags).ok_or_else(|| {
            let known = Arch::ALL.map(Arch::name).join(", ");
            Error::Unsupported(format!("this object is for machine {:#x}; emulated are {known}", elf.flags & 0xff))
        })?;
        let image = Image::map(&elf.segments)?;
        relocate(&elf, &image)?;
        let spans = elf.segments.iter().map(|segment| Span {
            start: image.base() + segment.address,
            end: image.base() + segment.address + segment.memory_bytes,
            writable: segment.writable,
            shadow: std::ptr::null_mut(),
        });
        let spans = spans.collect();
        let infos = match elf.metadata {
            Some(note) => {
                metadata::kernels(note).ok_or_else(|| Error::Damaged("the object's metadata are damaged".into()))?
            }
            None => Vec::new(),
        };
        let mut kernels = Vec::new();
        let mut globals = Vec::new();
        for symbol in &elf.symbols {
            let Some(name) = symbol.name.strip_suffix(".kd") else {
                if symbol.is_object && image.bytes(symbol.address, symbol.bytes as usize).is_some() {
                    globals.push((symbol.name.clone(), image.base() + symbol.address, symbol.bytes));
                }
                continue;
            };
            let descriptor = image
                .bytes(symbol.address, DESCRIPTOR_BYTES)
                .ok_or_else(|| Error::Damaged(format!("the descriptor of kernel {name} lies outside of the object")))?;
            let descriptor =
                Descriptor::parse(arch, descriptor).map_err(|why| Error::Damaged(format!("kernel {name}: {why}")))?;
            let mut info = infos.iter().find(|info| info.symbol == symbol.name).cloned().unwrap_or_default();
            if info.name.is_empty() {
                info.name = name.to_owned();
            }
            let end = info.arguments_end().max(descriptor.kernarg_bytes as usize);
            if end > MOST_ARGUMENT_BYTES {
                let why = format!(
                    "the arguments of kernel {name} end at byte {end}; at most {MOST_ARGUMENT_BYTES} are taken"
                );
                return Err(Error::Damaged(why));
            }
            kernels.push(KernelData { info, descriptor, address: image.base() + symbol.address });
        }
        kernels.sort_by(|a, b| a.info.name.cmp(&b.info.name));
        let lines = Lines::new(&elf.debug);
        let inner = Inner { arch, image, spans, kernels, globals, lines, cache: CodeCache::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What the object was compiled for.
    pub fn arch(&self) -> Arch {
        self.inner.arch
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<Kernel> {
        let index = self.inner.kernels.binary_search_by(|kernel| kernel.info.name.as_str().cmp(name)).ok()?;
        Some(Kernel { object: self.inner.clone(), index })
    }

    /// All kernels, by name.
    pub fn kernels(&self) -> impl Iterator<Item = Kernel> + '_ {
        (0..self.inner.kernels.len()).map(|index| Kernel { object: self.inner.clone(), index })
    }

    /// A variable of the object: its address and its bytes.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.inner.globals.iter().find(|global| global.0 == name).map(|global| (global.1, global.2))
    }

    /// The mapped segments.
    pub fn spans(&self) -> &[Span] {
        &self.inner.spans
    }

    /// Writes bytes of the image, as long as nobody has a kernel of it.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> Option<()> {
        let inner = Arc::get_mut(&mut self.inner)?;
        inner.image.bytes(at, bytes.len())?;
        // SAFETY: in bounds, as was just seen, and nobody else has the object.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), inner.image.memory.add(at as usize), bytes.len()) };
        inner.cache.clear();
        Some(())
    }
}

impl Kernel {
    fn data(&self) -> &KernelData {
        &self.object.kernels[self.index]
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.data().info.name
    }

    /// What its descriptor says: local memory, bytes of arguments, registers, wave size.
    pub fn descriptor(&self) -> &Descriptor {
        &self.data().descriptor
    }

    /// What the compiler says about it: arguments with offset, size and kind; spills; threads a block may have.
    pub fn info(&self) -> &KernelInfo {
        &self.data().info
    }

    /// The address of its descriptor, which is what an AQL packet names as the kernel object.
    pub fn descriptor_address(&self) -> u64 {
        self.data().address
    }

    /// The address of its first instruction.
    pub fn entry(&self) -> u64 {
        self.data().address.wrapping_add(self.data().descriptor.entry as u64)
    }

    /// The instruction set.
    pub fn arch(&self) -> Arch {
        self.object.arch
    }

    /// The lines of the source that an instruction came from, if the object has line tables: the line itself, then where the function
    /// that it is in was inlined, and so on. `pc` is as a disassembly prints it.
    pub fn lines(&self, pc: u64) -> Vec<SourceLine> {
        self.object.lines.as_ref().map_or_else(Vec::new, |lines| lines.find(pc))
    }

    /// The mapped segments of its object.
    pub fn spans(&self) -> &[Span] {
        &self.object.spans
    }

    /// The first address of the object: `pc - base` is the address that a disassembly prints.
    pub fn base(&self) -> u64 {
        self.object.image.base()
    }

    pub(crate) fn cache(&self) -> &CodeCache {
        &self.object.cache
    }

    /// Bytes of the image that no kernel writes to, such as code.
    pub(crate) fn image_bytes(&self, at: u64, count: usize) -> Option<&[u8]> {
        let address = self.base().checked_add(at)?;
        let constant = |span: &&Span| !span.writable && span.contains(address, count as u64);
        self.object.spans.iter().find(constant)?;
        self.object.image.bytes(at, count)
    }
}

/// Fills in the words that depend on where the object lies.
fn relocate(elf: &Elf<'_>, image: &Image) -> Result<(), Error> {
    const ABS64: u32 = 3;
    const RELATIVE64: u32 = 13;
    for relocation in &elf.relocations {
        if image.bytes(relocation.address, 8).is_none() {
            return Err(Error::Damaged("a relocation lies outside of the object".into()));
        }
        let target = match relocation.kind {
            0 => continue,
            RELATIVE64 => Some(0),
            ABS64 => elf.symbols.get(relocation.symbol).map(|symbol| symbol.address),
            _ => None,
        };
        let Some(target) = target else {
            return Err(Error::Unsupported(format!("relocation of kind {} is not known", relocation.kind)));
        };
        let value = image.base().wrapping_add(target).wrapping_add(relocation.addend as u64);
        // SAFETY: eight bytes at that place lie inside the image, which nobody else has yet.
        unsafe {
            image.memory.add(relocation.address as usize).cast::<u64>().write_unaligned(value);
        }
    }
    Ok(())
}
