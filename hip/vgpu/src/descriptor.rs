//! The kernel descriptor: 64 bytes in memory that say how a wave starts. It is all that a launch needs to know of a kernel
//! besides its code, whoever loaded it.

use crate::elf::little;
use crate::target::Arch;

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 64;
/// Bytes of the header that code had before there were descriptors: version 1, machine kind 1, and the code right behind it.
const LEGACY_HEADER_BYTES: u64 = 256;

/// What a kernel's descriptor says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The instruction set of the code.
    pub arch: Arch,
    /// Static local memory of a block, in bytes.
    pub lds_bytes: u32,
    /// Private memory of a work-item, in bytes.
    pub private_bytes: u32,
    /// Bytes of the kernel's arguments, hidden ones included; 0 where the compiler did not say.
    pub kernarg_bytes: u32,
    /// The first instruction, in bytes from the descriptor.
    pub entry: i64,
    /// Lanes of a wave.
    pub wave_size: usize,
    /// Vector registers of a lane, accumulation registers included.
    pub vgprs: usize,
    /// The first accumulation register's row (gfx90a, gfx942).
    pub accum_offset: usize,
    /// The floating-point mode at the start: rounding in bits 3:0, denormals in 7:4, DX10_CLAMP 8, IEEE 9.
    pub mode: u32,
    /// Scalar registers that the caller fills.
    pub user_sgprs: usize,
    /// The raw words, for what is read rarely.
    pub rsrc1: u32,
    /// See `rsrc1`.
    pub rsrc2: u32,
    /// See `rsrc1`.
    pub rsrc3: u32,
    /// Which values the caller fills into scalar registers.
    pub properties: u16,
    /// Argument words that come preloaded into scalar registers: length in bits 6:0, offset in 15:7, in dwords.
    pub preload: u16,
    /// This is the header of older code, which has no sizes.
    pub legacy: bool,
}

impl Descriptor {
    /// Reads a descriptor. The error is a sentence.
    pub fn parse(arch: Arch, bytes: &[u8]) -> Result<Self, String> {
        let field = |at, size| little(bytes, at, size).ok_or_else(|| "a kernel descriptor is cut short".to_owned());
        let (rsrc3, rsrc1, rsrc2) = (field(44, 4)? as u32, field(48, 4)? as u32, field(52, 4)? as u32);
        let properties = field(56, 2)? as u16;
        let wave_size = match (arch.is_cdna(), properties & 1 << 10 != 0) {
            (true, true) => return Err(format!("a kernel descriptor for {arch} asks for waves of 32 lanes")),
            (true, false) | (false, false) => 64,
            (false, true) => 32,
        };
        let mode = (rsrc1 >> 12 & 0xff) | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9;
        // Code that is older than descriptors starts with a header of 256 bytes (`amd_kernel_code_t`). What a wave needs is at the
        // same places; sizes are not, and the packet of the launch has them.
        let legacy = field(0, 4)? == 1 && field(8, 2)? == 1 && field(16, 8)? == LEGACY_HEADER_BYTES;
        let size = |at| Ok::<_, String>(if legacy { 0 } else { field(at, 4)? as u32 });
        Ok(Self {
            arch,
            lds_bytes: size(0)?,
            private_bytes: size(4)?,
            kernarg_bytes: size(8)?,
            entry: field(16, 8)? as i64,
            wave_size,
            vgprs: ((rsrc1 & 63) as usize + 1) * arch.vgpr_granule(wave_size),
            accum_offset: if arch.is_cdna() { ((rsrc3 & 63) as usize + 1) * 4 } else { 0 },
            // gfx12 has neither bit and behaves as if both were set.
            mode: if arch.generation() >= 12 { mode & 0xff | 3 << 8 } else { mode },
            user_sgprs: (rsrc2 >> 1 & 31) as usize,
            rsrc1,
            rsrc2,
            rsrc3,
            properties,
            preload: if legacy { 0 } else { field(58, 2)? as u16 },
            legacy,
        })
    }

    /// Whether the block id of this dimension is asked for.
    pub fn wants_block_id(&self, dimension: usize) -> bool {
        self.rsrc2 >> (7 + dimension) & 1 != 0
    }

    /// Whether waves get a word that says which wave of the block they are.
    pub fn wants_block_info(&self) -> bool {
        self.rsrc2 >> 10 & 1 != 0
    }

    /// Whether private memory is set up.
    pub fn wants_scratch(&self) -> bool {
        self.rsrc2 & 1 != 0
    }

    /// The highest dimension of the work-item id that is asked for: 0, 1 or 2.
    pub fn work_item_dimensions(&self) -> u32 {
        (self.rsrc2 >> 11 & 3).min(2)
    }
}
