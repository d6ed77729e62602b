//! What data sheets say of GPUs, for choices between doing more arithmetic and moving more memory. Rates are peaks; both are
//! missed by about the same share, so that proportions hold.

use crate::dtype::DType;
use hip::Device;

/// Rates of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sheet {
    /// Sums and products of f32 and of f64, in millions a microsecond, by the units that a BLAS uses.
    f32: f64,
    f64: f64,
    /// Bytes of memory, in millions a microsecond.
    memory: f64,
}

const fn row(f32: f64, f64: f64, memory: f64) -> Sheet {
    Sheet { f32, f64, memory }
}

/// Architectures by how their names begin; the first row that fits counts, the last one for those that are not listed.
const SHEETS: [(&str, Sheet); 11] = [
    ("sm_", row(67.0, 67.0, 4.8)),      // H200
    ("gfx906", row(14.7, 7.4, 1.0)),    // MI60
    ("gfx908", row(46.1, 11.5, 1.2)),   // MI100
    ("gfx90a", row(45.3, 45.3, 1.6)),   // MI210, half an MI250X
    ("gfx94", row(163.4, 163.4, 5.3)),  // MI300X
    ("gfx950", row(157.3, 78.6, 8.0)),  // MI355X
    ("gfx101", row(9.8, 0.61, 0.45)),   // RX 5700 XT
    ("gfx11", row(61.4, 1.92, 0.96)),   // RX 7900 XTX
    ("gfx12", row(48.7, 0.76, 0.64)),   // RX 9070 XT
    ("host", row(0.1, 0.05, 0.02)),     // two cores
    ("gfx103", row(23.0, 1.44, 0.512)), // RX 6900 XT
];

/// Microseconds from the end of one kernel to the start of the next.
const START: f64 = 2.0;

impl Sheet {
    pub fn of(device: &Device) -> Self {
        Self::named(device.base_arch())
    }

    pub fn named(arch: &str) -> Self {
        let last = SHEETS[SHEETS.len() - 1].1;
        SHEETS.iter().find(|(name, _)| arch.starts_with(name)).map_or(last, |&(_, sheet)| sheet)
    }

    /// Microseconds that so many kernels take which do `operations` and move `bytes`, one after the other.
    pub fn time(&self, kernels: usize, dtype: DType, operations: f64, bytes: f64) -> f64 {
        let rate = if dtype == DType::F64 { self.f64 } else { self.f32 };
        kernels as f64 * START + operations / (rate * 1e6) + bytes / (self.memory * 1e6)
    }
}
