//! Attention of packed sequences, (rows of all sequences, heads, dim), and of those whose keys and values lie in pages.

use candle::rocm_backend::{Attention, PackedSequences};
use candle::{bail, CpuStorage, CustomOp3, DType, Layout, Result, RocmStorage, Shape, Tensor};

const OP: &str = "flash-attn-varlen";

/// The operation behind the functions for packed sequences.
pub(crate) struct FlashAttnVarLen {
    pub softmax_scale: f32,
    /// Set by `sequences`.
    pub sequences: Option<PackedSequences>,
    /// The table of pages, and the rows of a page.
    pub pages: Option<(Tensor, usize)>,
    pub prefixes: Option<Tensor>,
    pub alibi_slopes: Option<Tensor>,
    pub window_size_left: Option<usize>,
    pub window_size_right: Option<usize>,
    pub softcap: Option<f32>,
}

impl FlashAttnVarLen {
    pub fn plain(softmax_scale: f32) -> Self {
        Self {
            softmax_scale,
            sequences: None,
            pages: None,
            prefixes: None,
            alibi_slopes: None,
            window_size_left: None,
            window_size_right: None,
            softcap: None,
        }
    }

    /// The cumulative lengths. What they say is checked where they are read, on the device.
    pub fn sequences(self, seqlens_q: &Tensor, seqlens_k: &Tensor, max_q: usize, max_k: usize) -> Result<Self> {
        for (name, starts) in [("seqlens_q", seqlens_q), ("seqlens_k", seqlens_k)] {
            if starts.dtype() != DType::U32 || starts.rank() != 1 {
                bail!(
                    "{OP}: {name} is {:?} {:?}, but must be u32 with one dimension: 0 and the end of each sequence",
                    starts.dtype(),
                    starts.dims()
                )
            }
        }
        let (q_count, k_count) = (seqlens_q.elem_count(), seqlens_k.elem_count());
        if q_count < 2 || q_count != k_count {
            bail!("{OP}: seqlens_q has {q_count} elements and seqlens_k has {k_count}; both must have one more than there are sequences")
        }
        let (query_starts, key_starts) = (seqlens_q.contiguous()?, seqlens_k.contiguous()?);
        Ok(Self { sequences: Some(PackedSequences { query_starts, key_starts, longest: (max_q, max_k) }), ..self })
    }

    pub fn of(self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        crate::check_inputs(OP, q, k, v)?;
        q.apply_op3(k, v, self)
    }

    /// The layouts of k and v as (1 or pages, heads, rows, dim).
    fn keys(&self, k: &Layout, v: &Layout, dim: usize) -> Result<(Layout, Layout)> {
        let wanted = match &self.pages {
            None => "(rows, kv heads, dim)",
            Some(_) => "(pages, rows of a page, kv heads, dim)",
        };
        let rank = if self.pages.is_some() { 4 } else { 3 };
        let (k_dims, v_dims) = (k.dims(), v.dims());
        if k_dims.len() != rank || v_dims.len() != rank {
            bail!("{OP}: k and v have shapes {k_dims:?} and {v_dims:?}; they must be {wanted}")
        }
        if k_dims[..rank - 1] != v_dims[..rank - 1] || k_dims[rank - 1] != dim {
            bail!("{OP}: k {k_dims:?} and v {v_dims:?} do not go together with heads of q of {dim} elements; they must be {wanted}")
        }
        match &self.pages {
            None => Ok((packed(k), packed(v))),
            Some((_, page)) if *page != k_dims[1] => {
                bail!("{OP}: page_block_size is {page}, but k {k_dims:?} has pages of {} rows", k_dims[1])
            }
            Some(_) => Ok((k.transpose(1, 2)?, v.transpose(1, 2)?)),
        }
    }

    /// Tables that go with the number of sequences.
    fn check_tables(&self, count: usize) -> Result<()> {
        if let Some((table, _)) = &self.pages {
            let dtype = table.dtype();
            if !matches!(dtype, DType::U32 | DType::I32) || table.rank() != 2 || table.dims()[0] != count {
                bail!("{OP}: block_table is {dtype:?} {:?}, but must be u32 or i32 [{count}, pages]", table.dims())
            }
        }
        if let Some(ranges) = &self.prefixes {
            let dtype = ranges.dtype();
            if dtype != DType::I32 || !matches!(*ranges.dims(), [sequences, _, 2] if sequences == count) {
                bail!("{OP}: mm_prefix_ranges are {dtype:?} {:?}, but must be i32 [{count}, ranges, 2]", ranges.dims())
            }
        }
        Ok(())
    }
}

/// (rows, heads, dim) as (1, heads, rows, dim).
fn packed(layout: &Layout) -> Layout {
    let (dims, strides) = (layout.dims(), layout.stride());
    let shape = Shape::from((1, dims[1], dims[0], dims[2]));
    Layout::new(shape, vec![0, strides[1], strides[0], strides[2]], layout.start_offset())
}

impl CustomOp3 for FlashAttnVarLen {
    fn name(&self) -> &'static str {
        OP
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        bail!("{OP}: there is no flash attention on the CPU; use candle_nn::attention::flash_attn_varlen_cpu there")
    }

    fn rocm_fwd(
        &self,
        q: &RocmStorage,
        q_l: &Layout,
        k: &RocmStorage,
        k_l: &Layout,
        v: &RocmStorage,
        v_l: &Layout,
    ) -> Result<(RocmStorage, Shape)> {
        let &[rows, heads, dim] = q_l.dims() else {
            bail!("{OP}: q has shape {:?}, but must be (rows, heads, dim)", q_l.dims())
        };
        let (k_l, v_l) = self.keys(k_l, v_l, dim)?;
        let (kv_heads, width) = (k_l.dims()[1], v_l.dims()[3]);
        crate::check_heads(OP, heads, kv_heads, [dim, width])?;
        let Some(sequences) = self.sequences.clone() else { bail!("{OP}: the lengths of sequences are missing") };
        self.check_tables(sequences.query_starts.elem_count() - 1)?;
        if let Some(slopes) = &self.alibi_slopes {
            crate::check_slopes(OP, slopes, heads)?;
        }
        let attention = Attention {
            softcap: crate::softcap(self.softcap),
            window: crate::window(self.window_size_left, self.window_size_right, sequences.longest.1),
            slopes: self.alibi_slopes.as_ref().map(Tensor::contiguous).transpose()?,
            sequences: Some(sequences),
            pages: self.pages.as_ref().map(|(table, _)| table.clone()),
            prefixes: self.prefixes.clone(),
            ..Attention::scaled(OP, self.softmax_scale)
        };
        let shape = Shape::from((rows, heads, width));
        let out = packed(&Layout::contiguous(&shape));
        Ok((attention.forward((q, &packed(q_l)), (k, &k_l), (v, &v_l), &out)?, shape))
    }
}
