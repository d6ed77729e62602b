//! Random numbers. The generator is a counter (`hip/random.hip`): whoever calls keeps the seed and the offset, and gets the
//! offset to go on from.

use crate::dtype::DType;
use crate::kernels::Kernels;
use crate::layout::MAX_BLOCKS;
use crate::registry::Id;
use crate::tensor::Output;
use hip::{Error, LaunchConfig, Result};

const THREADS: u32 = 256;

impl Kernels {
    /// Fills `out` with numbers from `low` up to but not including `high`. Returns the offset for the next call.
    ///
    /// The numbers depend on `seed`, `offset` and their place in `out` alone, on every platform.
    pub fn rand_uniform(&self, out: &mut Output<'_>, low: f64, high: f64, seed: u64, offset: u64) -> Result<u64> {
        if !(low < high && (high - low).is_finite()) {
            return Err(Error::refused(format!("rand_uniform: there are no numbers from {low} up to {high}")));
        }
        self.random("rand_uniform", out, low, high, seed, offset)
    }

    /// Fills `out` with normally distributed numbers. Returns the offset for the next call.
    pub fn rand_normal(&self, out: &mut Output<'_>, mean: f64, deviation: f64, seed: u64, offset: u64) -> Result<u64> {
        if !(deviation >= 0.0 && deviation.is_finite() && mean.is_finite()) {
            return Err(Error::refused(format!(
                "rand_normal: there is no normal distribution with mean {mean} and deviation {deviation}"
            )));
        }
        self.random("rand_normal", out, mean, deviation, seed, offset)
    }

    fn random(&self, root: &str, out: &mut Output<'_>, first: f64, second: f64, seed: u64, offset: u64) -> Result<u64> {
        let function = self.function(Id::Random, root, &[out.dtype()], "")?;
        let per_block = if out.dtype() == DType::F64 { 2 } else { 4 };
        let count = out.count();
        let next = offset.wrapping_add(count.div_ceil(per_block) as u64);
        if count == 0 {
            return Ok(next);
        }
        if !out.ptr().address().is_multiple_of(16) {
            return Err(Error::refused(format!("{root}: the memory at {:?} is not aligned to 16 bytes", out.ptr())));
        }
        let size = out.dtype().size();
        let each = 16 / size;
        let most = MAX_BLOCKS as usize * THREADS as usize * each;
        for done in (0..count).step_by(most) {
            let part = most.min(count - done);
            let offset = offset.wrapping_add((done / per_block) as u64);
            let arguments = (out.ptr().offset(done * size), part as u64, seed, offset, first, second);
            let config = LaunchConfig::for_elements(part.div_ceil(each), THREADS);
            // SAFETY: the parameters of the kernels in `hip/random.hip`, which write `part` elements of the output.
            unsafe { function.launch(out.stream(), config, &arguments)? };
        }
        Ok(next)
    }
}

crate::shared::shared! {
    ["RANDOM_THREADS": THREADS]
}
