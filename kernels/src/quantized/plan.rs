//! Which kernels multiply quantized weights with activations: decided here, once for a product, and by nobody else. From which
//! number of rows on each is the fastest stands in the table of architectures (`profile/table.rs`).

use super::mma_tiles::MMA_TILES_LONGEST;
use super::one_row::ONE_ROW_LONGEST;
use super::{BlockFormat, Blocks};
use crate::kernels::Kernels;
use crate::profile::Profile;

/// The kernels that make a product of quantized weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProductPlan {
    /// The weights are floats: sums of plain products.
    Floats,
    /// One row of activations, in one launch.
    OneRow,
    /// A few rows, on matrix units, sixteen rows of weights by eight of activations.
    MmaTiles,
    /// Dot products of bytes; the weights are read again for every eight rows.
    MatVec,
    /// Tiles of 64 x 64, dot products of bytes.
    Tiles,
    /// The weights become bf16 and a BLAS multiplies: the caller's business, who has one.
    Widened,
}

impl ProductPlan {
    /// Whether the kernels of the plan can do a product with `count` rows.
    pub(super) fn suits(self, weights: &Blocks<'_>, count: usize) -> bool {
        let (columns, plain) = (weights.columns(), weights.format().is_plain());
        plain == (self == ProductPlan::Floats)
            && match self {
                ProductPlan::OneRow => count <= 1 && columns <= ONE_ROW_LONGEST,
                ProductPlan::MmaTiles => columns <= MMA_TILES_LONGEST,
                ProductPlan::Widened => false,
                ProductPlan::Floats | ProductPlan::MatVec | ProductPlan::Tiles => true,
            }
    }
}

impl Profile {
    /// The plan for weights of `columns` columns and `count` rows of activations. `blas` says whether there is a BLAS for the sizes
    /// at hand; it is asked only where that matters.
    fn product(&self, format: BlockFormat, columns: usize, count: usize, blas: impl FnOnce() -> bool) -> ProductPlan {
        let (arch, count) = (self.arch, count as u64);
        if format.is_plain() {
            return ProductPlan::Floats;
        }
        if !self.side_by_side() {
            // The embedded device multiplies bytes and floats alike, and a thread works alone.
            return ProductPlan::MatVec;
        }
        if arch.widen_from.value.is_some_and(|least| count >= least) && blas() {
            return ProductPlan::Widened;
        }
        let mma_tiles_to = if self.planning.without_matrix_units { 0 } else { arch.mma_tiles_to.value };
        if (2..=mma_tiles_to).contains(&count) && columns <= MMA_TILES_LONGEST {
            return ProductPlan::MmaTiles;
        }
        if count >= arch.tiles_from.value {
            return ProductPlan::Tiles;
        }
        if count == 1 && columns <= ONE_ROW_LONGEST {
            return ProductPlan::OneRow;
        }
        ProductPlan::MatVec
    }
}

impl Kernels {
    /// The plan for a product of `weights` with `count` rows of activations. `blas` says whether the caller has a BLAS that takes
    /// these sizes; it is asked only where that matters. Without one, every plan is for [`Kernels::quantized_matmul_by`].
    pub fn plan_product(&self, weights: &Blocks<'_>, count: usize, blas: impl FnOnce() -> bool) -> ProductPlan {
        self.profile().product(weights.format(), weights.columns(), count, blas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Planning;

    /// The plans for 1 to 1024 rows, as ranges: `1:OneRow 2-48:MmaTiles 49-1024:Widened`.
    fn plans(profile: &Profile, columns: usize, blas: bool) -> String {
        let mut runs: Vec<(usize, usize, ProductPlan)> = Vec::new();
        for count in 1..=1024 {
            let plan = profile.product(BlockFormat::Q4K, columns, count, || blas);
            match runs.last_mut() {
                Some((_, last, same)) if *same == plan => *last = count,
                _ => runs.push((count, count, plan)),
            }
        }
        let range = |(first, last, plan): &(usize, usize, ProductPlan)| {
            if first == last {
                format!("{first}:{plan:?}")
            } else {
                format!("{first}-{last}:{plan:?}")
            }
        };
        runs.iter().map(range).collect::<Vec<_>>().join(" ")
    }

    /// Architectures with, for rows that fit every kernel, the plans with a BLAS and without one, as they were when each was
    /// measured or argued for.
    const PLANS: [(&[&str], &str, &str); 6] = [
        (
            &["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"],
            "1:OneRow 2-48:MmaTiles 49-1024:Widened",
            "1:OneRow 2-48:MmaTiles 49-1024:Tiles",
        ),
        (
            &["sm_75", "gfx906", "gfx1010", "gfx1030"],
            "1:OneRow 2-24:MatVec 25-1024:Tiles",
            "1:OneRow 2-24:MatVec 25-1024:Tiles",
        ),
        (&["gfx908"], "1:OneRow 2-24:MatVec 25-32:Tiles 33-1024:Widened", "1:OneRow 2-24:MatVec 25-1024:Tiles"),
        (&["gfx90a", "gfx942", "gfx950"], "1:OneRow 2-16:MatVec 17-1024:Widened", "1:OneRow 2-24:MatVec 25-1024:Tiles"),
        (
            &["gfx1100", "gfx1151", "gfx1201"],
            "1:OneRow 2-24:MatVec 25-127:Tiles 128-1024:Widened",
            "1:OneRow 2-24:MatVec 25-1024:Tiles",
        ),
        (
            &["host"],
            "1:OneRow 2-16:MmaTiles 17-24:MatVec 25-1024:Widened",
            "1:OneRow 2-16:MmaTiles 17-24:MatVec 25-1024:Tiles",
        ),
    ];

    #[test]
    fn every_architecture_has_its_plans() {
        for (archs, with, without) in PLANS {
            for arch in archs {
                let profile = Profile::example(arch);
                for columns in [256, 4096, ONE_ROW_LONGEST] {
                    assert_eq!(plans(&profile, columns, true), with, "{arch} {columns}");
                    assert_eq!(plans(&profile, columns, false), without, "{arch} {columns}");
                }
                // Rows that are too long for the kernel of one row, and for matrix units too.
                for columns in [ONE_ROW_LONGEST + 256, MMA_TILES_LONGEST] {
                    let long = with.replace("1:OneRow 2-24:MatVec", "1-24:MatVec");
                    let long = long.replace("1:OneRow 2-16:MatVec", "1-16:MatVec").replace("OneRow", "MatVec");
                    assert_eq!(plans(&profile, columns, true), long, "{arch} {columns}");
                }
            }
        }
        let longest = |arch: &str, blas| plans(&Profile::example(arch), MMA_TILES_LONGEST + 256, blas);
        assert_eq!(longest("sm_90", true), "1-24:MatVec 25-48:Tiles 49-1024:Widened");
        assert_eq!(longest("sm_90", false), "1-24:MatVec 25-1024:Tiles");
        assert_eq!(longest("host", true), "1-24:MatVec 25-1024:Widened");
    }

    #[test]
    fn the_embedded_device_has_one_plan_of_its_own() {
        let profile = Profile::example("host").planned(Planning::default());
        assert_eq!(plans(&profile, 4096, true), "1-1024:MatVec");
        assert_eq!(profile.product(BlockFormat::F16, 4096, 3, || true), ProductPlan::Floats);
    }

    #[test]
    fn tests_can_do_without_matrix_units_and_a_blas_is_asked_only_where_it_pays() {
        let profile = Profile::example("sm_90");
        let without = profile.planned(Planning { without_matrix_units: true, ..Default::default() });
        assert_eq!(plans(&without, 4096, false), "1:OneRow 2-24:MatVec 25-1024:Tiles");
        let mut asked = false;
        profile.product(BlockFormat::Q8_0, 4096, 48, || {
            asked = true;
            true
        });
        assert!(!asked, "starting a library takes time that this product does not need");
    }
}
