//! Attention in one launch: what the kernels' `AttentionOptions` name as operands is named here by tensors, which are brought to the
//! stream of the queries. candle-nn's `sdpa` and all of candle-flash-attn are made of it.

use super::kernels::{AttentionMask, AttentionOptions, AttentionWindow, Operand, Sequences};
use super::{OnStream, RocmStorage, RocmStorageSlice, WrapErr};
use crate::{Layout, Result, Storage, Tensor};

/// What attention does beside `softmax(q k^T scale) v`.
#[derive(Clone, Debug)]
pub struct Attention {
    /// The operation's name in errors.
    pub op: &'static str,
    /// The products of queries and keys are multiplied by this.
    pub scale: f32,
    /// `cap * tanh(score / cap)` in place of the scaled score.
    pub softcap: Option<f32>,
    /// Which keys are seen.
    pub window: AttentionWindow,
    /// Added to the scores: (batch, heads, queries, keys), of the queries' dtype or f32; dimensions of size 1 are broadcast.
    pub mask: Option<Tensor>,
    /// Alibi: f32, one slope for each head; `slope * distance` is taken off a score.
    pub slopes: Option<Tensor>,
    /// Sequences of different lengths.
    pub sequences: Option<PackedSequences>,
    /// A cache in pages: k and v are (pages, heads, rows of a page, dim), and this u32 or i32 table has, for each sequence, its pages.
    pub pages: Option<Tensor>,
    /// i32 (batch, n, 2): within such a range of positions, from the first up to the second, everything is seen.
    pub prefixes: Option<Tensor>,
    /// A query that sees no key gets NaN, as a softmax of nothing gives, and not 0.
    pub nan_rows: bool,
}

/// Sequences of different lengths, one behind the other.
#[derive(Clone, Debug)]
pub struct PackedSequences {
    /// u32: where each sequence of queries begins, and the end of the last.
    pub query_starts: Tensor,
    /// The same for keys.
    pub key_starts: Tensor,
    /// The longest sequence of queries and of keys.
    pub longest: (usize, usize),
}

impl Attention {
    /// Nothing but a scale.
    pub fn scaled(op: &'static str, scale: f32) -> Self {
        Self {
            op,
            scale,
            softcap: None,
            window: AttentionWindow::default(),
            mask: None,
            slopes: None,
            sequences: None,
            pages: None,
            prefixes: None,
            nan_rows: false,
        }
    }

    /// Attends. All layouts are (batch, heads, rows, dim), with any strides; `out` is that of the result in new memory of as many
    /// elements, on the stream of q.
    pub fn forward(
        &self,
        (q, q_l): (&RocmStorage, &Layout),
        (k, k_l): (&RocmStorage, &Layout),
        (v, v_l): (&RocmStorage, &Layout),
        out: &Layout,
    ) -> Result<RocmStorage> {
        let (device, op) = (&q.device, self.op);
        let (k, v) = (k.on(device)?, v.on(device)?);
        let sequences = self.sequences.as_ref();
        let tensors = [
            ("the mask", self.mask.as_ref()),
            ("the tensor of alibi slopes", self.slopes.as_ref()),
            ("the tensor of starts of queries", sequences.map(|sequences| &sequences.query_starts)),
            ("the tensor of starts of keys", sequences.map(|sequences| &sequences.key_starts)),
            ("the table of pages", self.pages.as_ref()),
            ("the tensor of prefix ranges", self.prefixes.as_ref()),
        ];
        let guards = tensors.map(|(name, tensor)| tensor.map(|tensor| (name, tensor.storage_and_layout())));
        let mut memories: [Option<(OnStream<'_>, &Layout)>; 6] = [const { None }; 6];
        for (memory, guard) in memories.iter_mut().zip(&guards) {
            let Some((name, (storage, layout))) = guard else { continue };
            match &**storage {
                Storage::Cuda(storage) => *memory = Some((storage.on(device)?, *layout)),
                _ => crate::bail!("{op}: {name} is not on the device of q; move it there with to_device"),
            }
        }
        let mut operands: [Option<Operand<'_>>; 6] = [None; 6];
        for (operand, memory) in operands.iter_mut().zip(&memories) {
            let Some((storage, layout)) = memory else { continue };
            *operand = Some(storage.operand(layout, op)?);
        }
        let [mask, slopes, query_starts, key_starts, pages, prefixes] = operands;
        let sequences = match (sequences, query_starts, key_starts) {
            (Some(packed), Some(query_starts), Some(key_starts)) => {
                Some(Sequences { query_starts, key_starts, longest: packed.longest })
            }
            _ => None,
        };
        let options = AttentionOptions {
            scale: self.scale,
            softcap: self.softcap,
            window: self.window,
            mask: mask.map(AttentionMask::Add),
            slopes,
            sequences,
            pages,
            prefixes,
            nan_rows: self.nan_rows,
        };
        let (dtype, count) = (q.slice.dtype(), out.shape().elem_count());
        let slice = match self.sequences {
            // Where lengths are wrong, rows are left out: those must not show what the memory held before.
            Some(_) => RocmStorageSlice::zeros(device, dtype, count)?,
            None => RocmStorageSlice::uninitialised(device, dtype, count)?,
        };
        let mut result = RocmStorage { slice, device: device.clone() };
        let (q, k, v) = (q.operand(q_l, op)?, k.operand(k_l, op)?, v.operand(v_l, op)?);
        device.kernels().attention(&q, &k, &v, &options, &mut result.operand_mut(out, op)?, None).w()?;
        Ok(result)
    }
}
