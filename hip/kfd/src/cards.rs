//! The cards that are emulated: what the driver would say about each. One row an architecture; figures are those of a card that
//! people have.

use vgpu::Arch;

/// What the driver says about a GPU. Names are those of the files below `topology/nodes`.
pub struct Card {
    /// The instruction set.
    pub arch: Arch,
    /// The name that programs show.
    pub name: &'static str,
    /// `simd_count`; with `simd_per_cu` it says how many compute units there are.
    pub simds: u32,
    /// `simd_per_cu`.
    pub simds_per_unit: u32,
    /// `max_waves_per_simd`.
    pub waves_per_simd: u32,
    /// `array_count`.
    pub arrays: u32,
    /// `simd_arrays_per_engine`.
    pub arrays_per_engine: u32,
    /// `cu_per_simd_array`.
    pub units_per_array: u32,
    /// `gfx_target_version`: major * 10000 + minor * 100 + stepping, in decimal.
    pub target_version: u32,
    /// `device_id` of the PCI bus.
    pub device_id: u32,
    /// `fw_version`.
    pub firmware: u32,
    /// `sdma_fw_version`.
    pub copy_firmware: u32,
    /// The family number of libdrm.
    pub family: u32,
    /// `max_engine_clk_fcompute`, in MHz.
    pub clock: u32,
    /// Memory in MiB, `width` of its bus in bits and its clock in MHz.
    pub memory: (u64, u32, u32),
    /// Caches: level and KiB.
    pub caches: &'static [(u32, u32)],
}

/// Every card that there is.
pub const CARDS: &[Card] = &[
    Card {
        arch: Arch::Gfx1030,
        name: "Emulated Radeon RX 6900 XT",
        simds: 160,
        simds_per_unit: 2,
        waves_per_simd: 16,
        arrays: 8,
        arrays_per_engine: 2,
        units_per_array: 10,
        target_version: 100_300,
        device_id: 0x73bf,
        firmware: 115,
        copy_firmware: 83,
        family: 143,
        clock: 2250,
        memory: (16368, 256, 1000),
        caches: &[(1, 16), (2, 4096), (3, 131_072)],
    },
    Card {
        arch: Arch::Gfx90a,
        name: "Emulated Instinct MI210",
        simds: 416,
        simds_per_unit: 4,
        waves_per_simd: 8,
        arrays: 8,
        arrays_per_engine: 1,
        units_per_array: 14,
        target_version: 90_010,
        device_id: 0x740f,
        firmware: 78,
        copy_firmware: 8,
        family: 141,
        clock: 1700,
        memory: (65520, 4096, 1600),
        caches: &[(1, 16), (2, 8192)],
    },
    Card {
        arch: Arch::Gfx1100,
        name: "Emulated Radeon RX 7900 XTX",
        simds: 192,
        simds_per_unit: 2,
        waves_per_simd: 16,
        arrays: 12,
        arrays_per_engine: 2,
        units_per_array: 8,
        target_version: 110_000,
        device_id: 0x744c,
        firmware: 550,
        copy_firmware: 20,
        family: 145,
        clock: 2500,
        memory: (24560, 384, 1249),
        caches: &[(1, 32), (2, 6144), (3, 98_304)],
    },
    Card {
        arch: Arch::Gfx942,
        name: "Emulated Instinct MI300X",
        simds: 1216,
        simds_per_unit: 4,
        waves_per_simd: 8,
        arrays: 32,
        arrays_per_engine: 1,
        units_per_array: 10,
        target_version: 90_402,
        device_id: 0x74a1,
        firmware: 100,
        copy_firmware: 20,
        family: 141,
        clock: 2100,
        memory: (196_592, 8192, 1300),
        caches: &[(1, 32), (2, 4096), (3, 262_144)],
    },
    Card {
        arch: Arch::Gfx1201,
        name: "Emulated Radeon RX 9070 XT",
        simds: 128,
        simds_per_unit: 2,
        waves_per_simd: 16,
        arrays: 8,
        arrays_per_engine: 2,
        units_per_array: 8,
        target_version: 120_001,
        device_id: 0x7550,
        firmware: 2780,
        copy_firmware: 24,
        family: 152,
        clock: 2970,
        memory: (16304, 256, 1258),
        caches: &[(1, 32), (2, 8192), (3, 65_536)],
    },
];

impl Card {
    /// The `capability` word: the kind of doorbell (2, bits 13:12), watchpoints, and on CDNA memory with error correction.
    pub fn capability(&self) -> u32 {
        let base = 0x2280;
        if self.arch.is_cdna() {
            base | 1 << 26 | 1 << 20
        } else {
            base
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_has_one_card() {
        for arch in Arch::ALL {
            assert_eq!(CARDS.iter().filter(|card| card.arch == arch).count(), 1, "{arch}");
        }
    }

    #[test]
    fn units_fit_into_their_arrays() {
        for card in CARDS {
            assert!(card.simds / card.simds_per_unit <= card.arrays * card.units_per_array, "{}", card.name);
        }
    }
}
