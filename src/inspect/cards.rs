//! One card of each architecture, by its data sheet: what turns counted cycles and bytes into time.

use vgpu::Arch;

/// A card.
#[derive(Debug)]
pub struct Card {
    /// What its kernels are compiled for.
    pub arch: Arch,
    /// What it is sold as.
    pub name: &'static str,
    /// Compute units as the data sheet counts them; on RDNA two are one work-group processor, which HIP counts.
    pub compute_units: u32,
    /// Highest clock, in GHz.
    pub clock: f64,
    /// Bandwidth of its memory, in GB/s.
    pub bandwidth: f64,
    /// Who says so.
    pub source: &'static str,
}

/// The cards.
pub const CARDS: [Card; 5] = [
    Card {
        arch: Arch::Gfx1030,
        name: "RX 6900 XT",
        compute_units: 80,
        clock: 2.25,
        bandwidth: 512.,
        source: "AMD's product page: 80 compute units, boost clock up to 2250 MHz, 512 GB/s",
    },
    Card {
        arch: Arch::Gfx1100,
        name: "RX 7900 XTX",
        compute_units: 96,
        clock: 2.5,
        bandwidth: 960.,
        source: "AMD's product page: 96 compute units, boost clock up to 2500 MHz, 960 GB/s",
    },
    Card {
        arch: Arch::Gfx90a,
        name: "MI210",
        compute_units: 104,
        clock: 1.7,
        bandwidth: 1638.4,
        source: "AMD's data sheet: 104 compute units, peak engine clock 1700 MHz, 1638.4 GB/s",
    },
    Card {
        arch: Arch::Gfx942,
        name: "MI300X",
        compute_units: 304,
        clock: 2.1,
        bandwidth: 5300.,
        source: "AMD's data sheet: 304 compute units, peak engine clock 2100 MHz, 5.3 TB/s",
    },
    Card {
        arch: Arch::Gfx1201,
        name: "RX 9070 XT",
        compute_units: 64,
        clock: 2.97,
        bandwidth: 640.,
        source: "AMD's product page: 64 compute units, boost clock up to 2970 MHz, 640 GB/s",
    },
];

/// The card of an architecture.
pub fn card(arch: Arch) -> Option<&'static Card> {
    CARDS.iter().find(|card| card.arch == arch)
}

impl Card {
    /// Compute units as HIP counts them.
    pub fn units(&self) -> u32 {
        if self.arch.is_cdna() {
            self.compute_units
        } else {
            self.compute_units / 2
        }
    }

    /// Microseconds that all SIMDs need to issue for so many cycles, together.
    pub fn issue_micros(&self, cycles: f64) -> f64 {
        cycles / (f64::from(self.units()) * vgpu::target::SIMDS as f64 * self.clock * 1e3)
    }

    /// Microseconds that the local memories are busy for so many cycles, together. Each compute unit has 32 banks.
    pub fn local_micros(&self, cycles: f64) -> f64 {
        cycles / (f64::from(self.compute_units) * self.clock * 1e3)
    }

    /// Microseconds that so many bytes take.
    pub fn memory_micros(&self, bytes: f64) -> f64 {
        bytes / (self.bandwidth * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_has_a_card() {
        for arch in Arch::ALL {
            assert!(card(arch).is_some(), "{arch}");
        }
    }

    #[test]
    fn cycles_and_bytes_become_time() {
        let card = card(Arch::Gfx1100).unwrap();
        // 192 SIMDs at 2500 cycles a microsecond.
        assert_eq!(card.issue_micros(480_000.), 1.);
        assert_eq!(card.local_micros(240_000.), 1.);
        assert_eq!(card.memory_micros(960_000.), 1.);
    }
}
