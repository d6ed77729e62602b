//! Rotary position embeddings.

use crate::dtype::DType;
use crate::kernels::{fits, one_stream, Kernels};
use crate::layout::{Divider, INDEX_LIMIT, PART_LIMIT};
use crate::registry::Id;
use crate::rows::contiguous;
use crate::tensor::{Operand, Output};
use bytemuck::{Pod, Zeroable};
use hip::{Error, LaunchConfig, Result};

const THREADS: u32 = 256;

/// Which elements make a pair, and the order of the dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rope {
    /// (batch, head, time, dim); the two halves of a head.
    Halves,
    /// (batch, head, time, dim); neighbours.
    Interleaved,
    /// (batch, time, head, dim); the two halves of a head.
    HalvesThd,
}

impl Rope {
    /// All of them.
    pub const ALL: [Rope; 3] = [Rope::Halves, Rope::Interleaved, Rope::HalvesThd];

    fn root(self) -> &'static str {
        match self {
            Rope::Halves => "rope",
            Rope::Interleaved => "rope_i",
            Rope::HalvesThd => "rope_thd",
        }
    }
}

/// Heads and their pairs as the kernels take them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct RopeShape {
    items: u32,
    vectors: u32,
    pieces: Divider,
    inner: Divider,
    batch: Divider,
    half: u32,
    angles_step: u32,
}

impl Kernels {
    /// Turns the pairs of `input` (four dimensions) by the angles whose cosines and sines are given: (time, dim / 2), with
    /// any number of later times that are not used, or (batch, time, dim / 2). Everything is contiguous and of one dtype.
    pub fn rope(
        &self,
        kind: Rope,
        input: &Operand<'_>,
        cos: &Operand<'_>,
        sin: &Operand<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let root = kind.root();
        let &[batch, second, third, dim] = input.dims() else {
            return Err(Error::refused(format!(
                "{root}: the input has shape {:?}, but must have four dimensions",
                input.dims()
            )));
        };
        let (heads, time) = if kind == Rope::HalvesThd { (third, second) } else { (second, third) };
        let half = dim / 2;
        contiguous(root, "the input", input)?;
        fits(root, "the result", out.count(), input.count(), out.dtype(), input.dtype())?;
        one_stream(out.stream(), &[input, cos, sin])?;
        if dim % 2 != 0 {
            return Err(Error::refused(format!("{root}: heads of {dim} elements do not fall into pairs")));
        }
        let batched = check_angles(root, "cos", cos, input.dtype(), batch, time, half)?;
        if check_angles(root, "sin", sin, input.dtype(), batch, time, half)? != batched {
            return Err(Error::refused(format!("{root}: cos and sin must both have a batch dimension, or neither")));
        }

        let dtype = input.dtype();
        let function = self.function(Id::Rope, root, &[dtype], "")?;
        if input.count() == 0 {
            return Ok(());
        }
        // Halves move whole vectors of pairs; a vector of neighbours holds half as many pairs.
        let lanes = match kind {
            Rope::Interleaved => 8 / dtype.size(),
            _ => 16 / dtype.size(),
        };
        let addresses = [input.ptr(), cos.ptr(), sin.ptr(), out.ptr()];
        let vectors = lanes > 0 && half % lanes == 0 && addresses.iter().all(|at| at.address() % 16 == 0);
        let lanes = if vectors { lanes } else { 1 };
        let angles = time * half;
        // Batches are few and may be large: a launch for as many as 32-bit indices reach.
        let places = heads * time;
        let per_batch = (places * half / lanes) as u64;
        if per_batch >= INDEX_LIMIT || angles as u64 >= INDEX_LIMIT {
            return Err(Error::refused(format!(
                "{root}: a batch of shape {:?} is larger than 2^31 pairs",
                &input.dims()[1..]
            )));
        }
        let step = ((PART_LIMIT - 1) / per_batch.max(1)).clamp(1, batch as u64) as usize;
        let mut first = 0;
        while first < batch {
            let batches = step.min(batch - first);
            let (inner, outer) = if kind == Rope::HalvesThd { (heads, time) } else { (time, heads) };
            let shape = RopeShape {
                items: (per_batch * batches as u64) as u32,
                vectors: u32::from(vectors),
                pieces: Divider::new((half / lanes) as u64),
                inner: Divider::new(inner as u64),
                batch: Divider::new(outer as u64),
                half: half as u32,
                angles_step: if batched { angles as u32 } else { 0 },
            };
            let data = first * places * dim * dtype.size();
            let angle = if batched { first * angles * dtype.size() } else { 0 };
            let arguments = (
                input.ptr().offset(data),
                cos.ptr().offset(angle),
                sin.ptr().offset(angle),
                out.ptr().offset(data),
                shape,
            );
            let config = LaunchConfig::for_elements(shape.items as usize, THREADS);
            // SAFETY: the parameters of the kernels in `hip/rope.hip`; the sizes of all four tensors were checked above, and
            // their memory is in the order of the stream.
            unsafe { function.launch(out.stream(), config, &arguments)? };
            first += batches;
        }
        Ok(())
    }
}

/// True when the angles have a batch dimension.
fn check_angles(
    root: &str,
    what: &str,
    angles: &Operand<'_>,
    dtype: DType,
    batch: usize,
    time: usize,
    half: usize,
) -> Result<bool> {
    contiguous(root, what, angles)?;
    let fitting = match *angles.dims() {
        [times, pairs] => times >= time && pairs == half,
        // Later times would stand between one batch and the next, where nobody skips them.
        [batches, times, pairs] => {
            batches == batch && pairs == half && (times == time || (batch == 1 && times >= time))
        }
        _ => false,
    };
    if !fitting || angles.dtype() != dtype {
        return Err(Error::refused(format!(
            "{root}: {what} is {} of shape {:?}, but must be {dtype} of shape ({time}, {half}) or ({batch}, {time}, {half})",
            angles.dtype(),
            angles.dims()
        )));
    }
    Ok(angles.dims().len() == 3)
}

crate::shared::shared! {
    ["ROPE_THREADS": THREADS]
    "RopeShape": RopeShape { items, vectors, pieces, inner, batch, half, angles_step }
}
