//! Attention in one launch: head sizes of every kernel, shared heads, few and many queries, causal, windows, masks.

use super::{Operations, MODEL_FLOATS};
use crate::selftest::compare::{Comparison, Tolerance};
use crate::selftest::number::{rounding, Values};
use crate::selftest::operand::{Layout, Tensor};
use candle_rocm_kernels::{AttentionMask, AttentionOptions, AttentionWindow, DType, Operand, OperandMut};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    All,
    Causal,
    Window,
    Masked,
}

pub fn add(list: &mut Operations) {
    for kind in [Kind::All, Kind::Causal, Kind::Window, Kind::Masked] {
        list.add(format!("attention/{kind:?}").to_lowercase(), move |c| attention(c, kind));
    }
}

/// Heads outside or inside of rows.
fn rows(c: &mut Comparison<'_>, dtype: DType, [batch, heads, rows, dim]: [usize; 4]) -> Tensor {
    let inside = c.random.once_in(2);
    let strides = match inside {
        true => [rows * heads * dim, dim, heads * dim, 1],
        false => [heads * rows * dim, rows * dim, dim, 1],
    };
    let layout = Layout { start: 0, dims: vec![batch, heads, rows, dim], strides: strides.to_vec() };
    Tensor::random(&mut c.random, dtype, Values::Plain, layout)
}

fn attention(c: &mut Comparison<'_>, kind: Kind) {
    for dtype in MODEL_FLOATS {
        for _ in 0..2 * c.turns {
            let dim = c.random.of_list(&[32, 64, 80, 128, 256]);
            let (batch, heads, group) = (c.random.between(1, 2), c.random.between(1, 2), c.random.of_list(&[1, 2, 3]));
            let queries = c.random.of_list(&[1, 3, 40]);
            let keys = queries + c.random.of_list(&[0, 5, 70]);
            let q = rows(c, dtype, [batch, heads * group, queries, dim]);
            let (k, v) = (rows(c, dtype, [batch, heads, keys, dim]), rows(c, dtype, [batch, heads, keys, dim]));
            let mask = Tensor::dense(&mut c.random, DType::F32, Values::Plain, &[1, 1, queries, keys]);
            let window = match kind {
                Kind::Causal => AttentionWindow::CAUSAL,
                Kind::Window => AttentionWindow { left: Some(4), right: Some(2), offset: None },
                Kind::All | Kind::Masked => AttentionWindow::default(),
            };
            // Scores as large as a model's.
            let scale = 0.3 / (dim as f32).sqrt();
            let dims = [batch, heads * group, queries, dim];
            let layout = Layout::contiguous(&dims);
            // The result is a mean of values up to four. Shares of it are rounded to the dtype where matrix units add them, and scores
            // are off by what their sums are.
            let tolerance = Tolerance::of(dtype).plus(16.0 * rounding(dtype)).plus(1e-4);
            let what = format!("{kind:?} of q {q}, k {k}, v {v}, scale {scale}");
            c.compare_at(0, &what, dtype, layout.count(), tolerance, |side, out| {
                let (q, k, v, mask) = (side.put(&q)?, side.put(&k)?, side.put(&v)?, side.put(&mask)?);
                let mask = (kind == Kind::Masked).then(|| mask.operand()).transpose()?.map(AttentionMask::Add);
                let options = AttentionOptions { window, mask, ..AttentionOptions::scaled(scale) };
                let mut memory = side.stream.alloc::<u8>(layout.count() * dtype.size())?;
                let mut result = OperandMut::new(&mut memory, dtype, 0, &dims, &layout.strides)?;
                side.kernels.attention(&q.operand()?, &k.operand()?, &v.operand()?, &options, &mut result, None)?;
                side.kernels.copy(&Operand::new(&memory, dtype, 0, &dims, &layout.strides)?, out)
            });
        }
    }
}
