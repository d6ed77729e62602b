//! The architectures that are emulated and the facts in which they differ: wave sizes, registers, local memory. What an
//! instruction does on each lives with the instruction.

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// CDNA 2 (MI200).
    Gfx90a,
    /// CDNA 3 (MI300).
    Gfx942,
    /// RDNA 2.
    Gfx1030,
    /// RDNA 3.
    Gfx1100,
    /// RDNA 4.
    Gfx1201,
}

/// SIMDs of a unit.
pub const SIMDS: usize = 4;

impl Arch {
    /// All of them.
    pub const ALL: [Arch; 5] = [Arch::Gfx90a, Arch::Gfx942, Arch::Gfx1030, Arch::Gfx1100, Arch::Gfx1201];

    /// The name compilers know it by.
    pub fn name(self) -> &'static str {
        match self {
            Arch::Gfx90a => "gfx90a",
            Arch::Gfx942 => "gfx942",
            Arch::Gfx1030 => "gfx1030",
            Arch::Gfx1100 => "gfx1100",
            Arch::Gfx1201 => "gfx1201",
        }
    }

    /// The architecture of that name. Modes behind a colon (`gfx90a:sramecc+:xnack-`) are taken and ignored.
    pub fn parse(name: &str) -> Option<Self> {
        let base = name.split(':').next().unwrap_or_default();
        Self::ALL.into_iter().find(|arch| arch.name() == base)
    }

    /// The architecture that an object's ELF header names in the low byte of its flags.
    pub fn from_elf_flags(flags: u32) -> Option<Self> {
        match flags & 0xff {
            0x3f => Some(Arch::Gfx90a),
            0x4c => Some(Arch::Gfx942),
            0x36 => Some(Arch::Gfx1030),
            0x41 => Some(Arch::Gfx1100),
            0x4e => Some(Arch::Gfx1201),
            _ => None,
        }
    }

    /// 9, 10, 11 or 12.
    pub fn generation(self) -> u32 {
        match self {
            Arch::Gfx90a | Arch::Gfx942 => 9,
            Arch::Gfx1030 => 10,
            Arch::Gfx1100 => 11,
            Arch::Gfx1201 => 12,
        }
    }

    /// Whether this is a CDNA chip: wave64 only, accumulation registers, 16-bit results that clear the upper half.
    pub fn is_cdna(self) -> bool {
        self.generation() == 9
    }

    /// Lanes of a wave where the code does not say otherwise.
    pub fn wave_size(self) -> usize {
        if self.is_cdna() {
            64
        } else {
            32
        }
    }

    /// Vector registers that the granule field of a descriptor counts in.
    pub fn vgpr_granule(self, wave_size: usize) -> usize {
        if self.is_cdna() || wave_size == 32 {
            8
        } else {
            4
        }
    }

    /// The highest scalar register that is plain storage, plus one.
    pub fn scalar_registers(self) -> usize {
        if self.is_cdna() {
            102
        } else {
            106
        }
    }

    /// Whether the id of a work-item comes as one packed register: x in bits 9:0, y in 19:10, z in 29:20.
    pub fn packs_work_item_id(self) -> bool {
        self != Arch::Gfx1030
    }

    /// Whether the base of private memory is set by hardware and not by the kernel's first instructions.
    pub fn sets_flat_scratch(self) -> bool {
        !matches!(self, Arch::Gfx90a | Arch::Gfx1030)
    }

    /// Local memory that a block may have, in bytes.
    pub fn lds_bytes(self) -> usize {
        64 << 10
    }

    /// Bytes of a cache line as the first level of the vector memory path sees it.
    pub fn line_bytes(self) -> u64 {
        if self == Arch::Gfx90a {
            64
        } else {
            128
        }
    }

    /// Waves that a SIMD can hold, and the vector registers and allocation granule that limit them for this wave size.
    pub fn occupancy(self, wave_size: usize, vgprs: usize) -> usize {
        let (registers, granule, most) = match self {
            Arch::Gfx90a | Arch::Gfx942 => (512, 8, 8),
            Arch::Gfx1030 if wave_size == 32 => (1024, 16, 16),
            Arch::Gfx1030 => (512, 8, 16),
            Arch::Gfx1100 | Arch::Gfx1201 if wave_size == 32 => (1536, 24, 16),
            Arch::Gfx1100 | Arch::Gfx1201 => (768, 12, 16),
        };
        (registers / vgprs.max(1).next_multiple_of(granule)).clamp(1, most)
    }

    /// Local memory that the blocks of a unit share, in bytes. A unit is a compute unit on CDNA and a work-group processor of two
    /// compute units on RDNA; both have [`SIMDS`].
    pub fn unit_lds_bytes(self) -> usize {
        if self.is_cdna() {
            64 << 10
        } else {
            128 << 10
        }
    }

    /// Waves that a SIMD holds of blocks of so many threads and so much local memory: as many blocks as fit into a unit, spread
    /// over its SIMDs.
    pub fn waves_of_blocks(self, wave_size: usize, vgprs: usize, threads: usize, lds_bytes: usize) -> f64 {
        let waves = threads.max(1).div_ceil(wave_size);
        let by_registers = self.occupancy(wave_size, vgprs) * SIMDS / waves;
        let by_lds = self.unit_lds_bytes().checked_div(lds_bytes).unwrap_or(usize::MAX);
        // A block that was launched has room, whatever the rounding says.
        let blocks = by_registers.min(by_lds).max(1);
        (blocks * waves) as f64 / SIMDS as f64
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Arch;

    #[test]
    fn registers_or_local_memory_limit_the_waves_of_a_simd() {
        // 1536 registers in granules of 24, at most 16 waves.
        assert_eq!(Arch::Gfx1100.waves_of_blocks(32, 32, 256, 0), 16.);
        assert_eq!(Arch::Gfx1100.waves_of_blocks(32, 128, 256, 0), 10.);
        // 128 KiB hold three blocks of eight waves.
        assert_eq!(Arch::Gfx1100.waves_of_blocks(32, 32, 256, 40_000), 6.);
        assert_eq!(Arch::Gfx90a.waves_of_blocks(64, 128, 256, 0), 4.);
        assert_eq!(Arch::Gfx90a.waves_of_blocks(64, 64, 256, 33_000), 1.);
    }
}
