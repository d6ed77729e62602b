//! From how many activations on a product with quantized weights is better left to a BLAS: the weights become bf16 once, which
//! costs a pass over them, and matrix units multiply. It depends on what a GPU has of either, so it is a table. The product
//! itself is the caller's, who knows whether there is a BLAS.

use crate::rows::Machine;
use hip::Device;

/// Architectures by how their names begin, and the least number of activations. The first row that fits counts; a GPU that
/// is not listed has no matrix units for bf16, and its byte products are four times as fast as its floats.
///
/// Beside the weights' own bytes, widening writes two bytes a weight and reads them again: for 14336 x 4096 about 80 us on an
/// H200 with its product, whatever the number of activations up to a hundred, and 136 us for 512 of them; strips take 22 us for
/// every sixteen there, the mat-vec kernels 56 us (Q4_0, measured). The other rows are argued from data sheets. MI200 and MI300
/// have the same proportions (bf16 at 383 and 1307 TFLOP/s, memory at 3.3 and 5.3 TB/s) and use the mat-vec kernels. RDNA 3 and 4
/// multiply bf16 at 120 TFLOP/s and more but have memory of at most 1 TB/s: there it pays once the product takes longer than the
/// widening, at about 128.
const WIDENING: [(&str, usize); 8] = [
    ("sm_", 49),
    ("gfx90a", 17),
    ("gfx94", 17),
    ("gfx950", 17),
    ("gfx908", 33), // bf16 at half the rate of the later ones
    ("gfx11", 128),
    ("gfx12", 128),
    ("host", 25),
];

/// The least number of activations for which widening the weights to bf16 and a BLAS beat the kernels here; `None` where they
/// never do.
pub fn widening_pays_from(device: &Device) -> Option<usize> {
    // The embedded device multiplies bytes and floats alike; its row serves the tests, which plan as on a GPU.
    if !Machine::of(device).side_by_side {
        return None;
    }
    row_for(device.base_arch())
}

fn row_for(arch: &str) -> Option<usize> {
    // The NVIDIA GPUs before Ampere have no bf16.
    let old = arch.strip_prefix("sm_").is_some_and(|version| version.parse().unwrap_or(80) < 80);
    WIDENING.iter().find(|(name, _)| arch.starts_with(name) && !old).map(|(_, least)| *least)
}

#[cfg(test)]
mod tests {
    use super::row_for;

    #[test]
    fn matrix_units_decide() {
        assert_eq!(row_for("sm_90"), Some(49));
        assert_eq!(row_for("sm_75"), None);
        assert_eq!(row_for("gfx942"), Some(17));
        assert_eq!(row_for("gfx1100"), Some(128));
        assert_eq!(row_for("gfx1030"), None);
        assert_eq!(row_for("gfx906"), None);
    }
}
