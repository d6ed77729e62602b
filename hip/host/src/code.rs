//! A loaded code object of either kind: a shared object for the processor (`image`), or AMD's machine code (`vgpu`). What the
//! rest of this crate asks of a module or a kernel is asked here.

#[cfg(feature = "emulator")]
use crate::image::elf_bytes;
use crate::image::Image;
use crate::module_abi::{Kernel, Runtime};
use crate::target::Target;
use hip_abi::hipError_t;
use std::ffi::{c_void, CStr};

/// A loaded code object.
pub(crate) enum Code {
    Native(Image),
    #[cfg(feature = "emulator")]
    Amd(vgpu::Object),
}

/// One kernel of a loaded code object, which must outlive it.
pub(crate) enum Entry {
    Native(*const Kernel),
    #[cfg(feature = "emulator")]
    Amd(Box<AmdEntry>),
}

/// A kernel of AMD's machine code, with its arguments as a launch packs them.
#[cfg(feature = "emulator")]
pub(crate) struct AmdEntry {
    pub kernel: vgpu::Kernel,
    /// Offset and size of each argument that the caller passes.
    explicit: Vec<(usize, usize)>,
    /// All bytes, hidden arguments included.
    bytes: usize,
}

impl Code {
    /// Loads the object at `start` for a device.
    ///
    /// # Safety
    /// `start` points to a complete ELF file, or to readable bytes of which one of the first four is not ELF's.
    pub unsafe fn load(start: *const c_void, target: Target, runtime: &Runtime) -> Result<Self, (hipError_t, String)> {
        let invalid = |why: String| (hipError_t::hipErrorInvalidImage, why);
        match target {
            // SAFETY: the caller's promise.
            Target::Host => unsafe { Image::load(start, runtime) }.map(Self::Native).map_err(invalid),
            #[cfg(feature = "emulator")]
            Target::Amd(arch) => {
                // SAFETY: the caller's promise.
                let bytes = unsafe { elf_bytes(start, target) }.map_err(invalid)?;
                let mut object = vgpu::Object::load(bytes).map_err(|why| invalid(why.to_string()))?;
                if object.arch() != arch {
                    let why = format!("the code object is for {}, the device is a {arch}", object.arch());
                    return Err((hipError_t::hipErrorNoBinaryForGpu, why));
                }
                if let Some(edit) = crate::config::options().ok().and_then(|options| options.edit.as_ref()) {
                    object.edit(edit).map_err(invalid)?;
                }
                Ok(Self::Amd(object))
            }
        }
    }

    /// Whether its loads and stores keep the shadow of checked mode.
    pub fn checked(&self) -> bool {
        match self {
            Self::Native(image) => image.checked(),
            // The emulator keeps it by itself.
            #[cfg(feature = "emulator")]
            Self::Amd(_) => true,
        }
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &CStr) -> Option<Entry> {
        match self {
            Self::Native(image) => image.kernel(name).map(|kernel| Entry::Native(kernel)),
            #[cfg(feature = "emulator")]
            Self::Amd(object) => {
                let kernel = object.kernel(name.to_str().ok()?)?;
                let arguments = &kernel.info().arguments;
                let explicit = arguments.iter().filter(|argument| !argument.is_hidden());
                let explicit: Vec<(usize, usize)> = explicit.map(|argument| (argument.offset, argument.size)).collect();
                let ends = arguments.iter().map(|argument| argument.offset + argument.size);
                let bytes = ends.chain([kernel.descriptor().kernarg_bytes as usize]).max().unwrap_or(0);
                Some(Entry::Amd(Box::new(AmdEntry { kernel, explicit, bytes })))
            }
        }
    }

    /// Address and size of a global variable.
    pub fn global(&self, name: &CStr) -> Option<(*mut c_void, usize)> {
        match self {
            Self::Native(image) => image.global(name),
            #[cfg(feature = "emulator")]
            Self::Amd(object) => {
                let (address, bytes) = object.global(name.to_str().ok()?)?;
                Some((address as *mut c_void, bytes as usize))
            }
        }
    }
}

impl Entry {
    /// Bytes of all packed arguments.
    pub fn args_bytes(&self) -> usize {
        match self {
            // SAFETY: points into a module that the function keeps loaded.
            Self::Native(kernel) => unsafe { (**kernel).args_bytes as usize },
            #[cfg(feature = "emulator")]
            Self::Amd(entry) => entry.bytes,
        }
    }

    /// How many arguments the caller passes.
    pub fn arg_count(&self) -> usize {
        match self {
            // SAFETY: as above.
            Self::Native(kernel) => unsafe { (**kernel).arg_count as usize },
            #[cfg(feature = "emulator")]
            Self::Amd(entry) => entry.explicit.len(),
        }
    }

    /// Offset and size of argument `index`, which is one of them.
    pub fn argument(&self, index: usize) -> (usize, usize) {
        match self {
            // SAFETY: as above; the compiler side wrote count and arrays together.
            Self::Native(kernel) => unsafe {
                ((*(**kernel).arg_offsets.add(index)) as usize, (*(**kernel).arg_sizes.add(index)) as usize)
            },
            #[cfg(feature = "emulator")]
            Self::Amd(entry) => entry.explicit[index],
        }
    }

    /// The kernel's name.
    pub fn name(&self) -> String {
        match self {
            // SAFETY: names in a module's table are C strings.
            Self::Native(kernel) => unsafe { CStr::from_ptr((**kernel).name) }.to_string_lossy().into_owned(),
            #[cfg(feature = "emulator")]
            Self::Amd(entry) => entry.kernel.name().to_owned(),
        }
    }
}
