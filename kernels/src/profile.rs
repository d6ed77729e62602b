//! What is planned with on one device: the row of the table of architectures for it, and what HIP reports of it. Whatever
//! chooses a kernel, a grid or a library by the kind of GPU asks here; no other plan reads the name of an architecture.

mod table;
pub mod tuned;
mod version;

use crate::dtype::DType;
use crate::rows::Machine;
use hip::Device;
use std::fmt;
pub(crate) use table::Architecture;
use table::TABLE;
use version::{parse, Family};

/// Microseconds from the end of one kernel to the start of the next.
const START: f64 = 2.0;

/// Threads that a compute unit holds on every GPU; one that reports fewer counts otherwise.
const LEAST_THREADS: u32 = 1024;

/// Shared memory that NVIDIA's driver may count as the kernel's own.
pub(crate) const DRIVERS_SHARED_BYTES: u32 = 1024;

/// Units of the GPU that tests plan for on the embedded device.
const UNITS_IN_TESTS: u32 = 64;

/// Plans other than a device's own. Tests ask for them, to see kernels that the device would not choose.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planning {
    /// As on a GPU, on the embedded device too. That device is faster with one thread for a row.
    pub as_on_a_gpu: bool,
    /// As on a GPU without matrix units for bytes.
    pub without_matrix_units: bool,
    /// Softmaxes keep rows on the chip whatever their number, and blocks look this often for what others gathered.
    pub residents: Option<u32>,
}

/// What is planned with on one device.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    pub(crate) arch: &'static Architecture,
    pub(crate) planning: Planning,
    /// Units as HIP counts them: multiprocessors, compute units, on RDNA work-group processors.
    pub(crate) units: u32,
    /// Threads that a unit holds at once.
    threads_per_unit: u32,
    /// Shared memory that a block may have.
    pub(crate) shared_bytes: u32,
    gpu: bool,
}

impl Profile {
    /// The profile of a device.
    pub(crate) fn of(device: &Device) -> Self {
        let (arch, reason) = look_up(device.base_arch());
        if let Some(reason) = reason {
            log::info!("{reason}");
        }
        // What was measured on this very card goes before what the table says of its kind.
        let arch = tuned::row_for(arch, device.base_arch(), device.name());
        log::debug!("{arch}");
        let (limits, gpu) = (device.limits(), device.is_gpu());
        let least = LEAST_THREADS * arch.compute_units_per_unit.value;
        Self {
            arch,
            planning: Planning::default(),
            units: limits.compute_units,
            // A GPU says what it holds; the embedded device wants a few blocks a core.
            threads_per_unit: if gpu { limits.threads_per_compute_unit.max(least) } else { 2048 },
            shared_bytes: limits.shared_bytes_per_block,
            gpu,
        }
    }

    /// A value of the profile by its name, as text, and where it comes from.
    pub fn value_of(&self, name: &str) -> Option<String> {
        let (_, value, source) = self.arch.values().into_iter().find(|(there, ..)| *there == name)?;
        Some(format!("{value} ({source:?})"))
    }

    /// The same device, planned for in another way.
    pub(crate) fn planned(self, planning: Planning) -> Self {
        Self { planning, ..self }
    }

    /// Whether neighbouring threads run side by side.
    pub(crate) fn side_by_side(&self) -> bool {
        self.gpu || self.planning.as_on_a_gpu
    }

    /// What the geometry of a launch depends on.
    pub(crate) fn machine(&self) -> Machine {
        // As many units as a GPU has, so that tests cut what a GPU would cut.
        let units = if self.side_by_side() && !self.gpu { UNITS_IN_TESTS } else { self.units.max(1) };
        Machine { side_by_side: self.side_by_side(), threads: u64::from(units) * u64::from(self.threads_per_unit) }
    }

    /// Blocks of a launch that has `each` for every compute unit.
    pub(crate) fn blocks(&self, each: u32) -> u32 {
        self.units.max(1) * self.arch.compute_units_per_unit.value * each
    }

    /// Shared memory that a block may have beside what the driver keeps.
    pub(crate) fn shared_room(&self) -> usize {
        self.shared_bytes.saturating_sub(DRIVERS_SHARED_BYTES) as usize
    }

    /// Whether kernels with more than 48 KB of shared memory have to ask for it at the launch: NVIDIA's.
    pub(crate) fn dynamic_shared(&self) -> bool {
        self.arch.family == Family::Nvidia
    }

    /// Whether the kernels for this device copy to shared memory in bulk.
    pub(crate) fn bulk_copies(&self) -> bool {
        self.arch.bulk_copies.value
    }
}

impl Architecture {
    /// Microseconds that so many kernels take which do `operations` and move `bytes`, one after the other.
    pub(crate) fn time(&self, kernels: usize, dtype: DType, operations: f64, bytes: f64) -> f64 {
        let rates = self.rates.value;
        let rate = if dtype == DType::F64 { rates.f64 } else { rates.f32 };
        kernels as f64 * START + operations / (rate * 1e6) + bytes / (rates.memory * 1e6)
    }
}

impl fmt::Display for Architecture {
    /// All values with their sources.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plans for {}", self.name)?;
        self.values().into_iter().try_for_each(|(name, value, source)| write!(f, "; {name} {value} ({source:?})"))
    }
}

/// The row for an architecture by its name. Where none is for it, the newest older one of its family, or the oldest, and why.
pub(crate) fn look_up(arch: &str) -> (&'static Architecture, Option<String>) {
    let Some((family, version)) = parse(arch) else {
        let row = named("gfx103x (RDNA 2)");
        return (
            row,
            Some(format!("{arch} is of no family of GPUs that plans are made for; it is planned for as {}", row.name)),
        );
    };
    let all = || TABLE.iter().filter(move |row| row.family == family);
    let holds = |row: &&Architecture| row.versions.iter().any(|&(first, last)| (first..=last).contains(&version));
    if let Some(row) = all().find(holds) {
        return (row, None);
    }
    let newest_older = all().rev().find(|row| row.versions[0].0 < version);
    let (row, which) = match newest_older {
        Some(row) => (row, "the nearest older one"),
        None => (all().next().unwrap_or(&TABLE[0]), "the oldest one"),
    };
    (row, Some(format!("nothing is known of {arch}; it is planned for as {}, {which} of its family", row.name)))
}

fn named(name: &str) -> &'static Architecture {
    TABLE.iter().find(|row| row.name == name).unwrap_or(&TABLE[0])
}

#[cfg(test)]
impl Profile {
    /// A device of an architecture, with what an H200 reports otherwise; the embedded device plans as on a GPU.
    pub(crate) fn example(arch: &str) -> Self {
        let planning = Planning { as_on_a_gpu: true, ..Default::default() };
        Self {
            arch: look_up(arch).0,
            planning,
            units: 132,
            threads_per_unit: 2048,
            shared_bytes: 227 << 10,
            gpu: arch != "host",
        }
    }
}

#[cfg(test)]
mod tests;
