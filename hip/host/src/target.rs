//! What a device runs: code for this machine's processor, or the machine code of an AMD GPU, which `vgpu` emulates.

use std::fmt;
use std::str::FromStr;

/// What a device's kernels are compiled for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The processor itself.
    #[default]
    Host,
    /// An AMD GPU in software.
    #[cfg(feature = "emulator")]
    Amd(vgpu::Arch),
}

impl Target {
    /// The targets of a list such as `gfx1100,gfx90a`.
    pub fn list(names: &str) -> Result<Vec<Self>, String> {
        names.split([',', ';', ' ']).filter(|name| !name.trim().is_empty()).map(str::parse).collect()
    }

    /// Whether it is a GPU in software.
    pub fn is_emulated(self) -> bool {
        self != Target::Host
    }

    /// The architecture as HIP names it, modes included.
    pub(crate) fn arch(self, checked: bool) -> &'static str {
        match self {
            Self::Host if checked => "host:checked+",
            Self::Host => "host",
            #[cfg(feature = "emulator")]
            Self::Amd(vgpu::Arch::Gfx90a) => "gfx90a:sramecc+:xnack-",
            #[cfg(feature = "emulator")]
            Self::Amd(vgpu::Arch::Gfx942) => "gfx942:sramecc+:xnack-",
            #[cfg(feature = "emulator")]
            Self::Amd(arch) => arch.name(),
        }
    }

    /// Lanes of a wave: the GPU's, or what is asked for.
    pub(crate) fn wave(self, asked: u32) -> u32 {
        match self {
            Self::Host => asked,
            #[cfg(feature = "emulator")]
            Self::Amd(arch) => arch.wave_size() as u32,
        }
    }

    /// The machine number in the ELF header of its code objects.
    pub(crate) fn elf_machine(self) -> usize {
        match self {
            Self::Host if cfg!(target_arch = "aarch64") => 183,
            Self::Host => 62,
            #[cfg(feature = "emulator")]
            Self::Amd(_) => 224,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.arch(false).split(':').next().unwrap_or_default())
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let name = name.trim();
        if name.eq_ignore_ascii_case("host") {
            return Ok(Self::Host);
        }
        #[cfg(feature = "emulator")]
        {
            let known = vgpu::Arch::ALL.map(vgpu::Arch::name).join(", ");
            vgpu::Arch::parse(name)
                .map(Self::Amd)
                .ok_or_else(|| format!("{name:?} is no architecture that can be emulated; those are {known}, and host"))
        }
        #[cfg(not(feature = "emulator"))]
        Err(format!("{name:?}: this program was built without the emulator of AMD GPUs"))
    }
}
