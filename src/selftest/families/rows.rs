//! What goes over rows: reductions, softmax, norms, sorting, rotary embeddings, random numbers.

use super::{Operations, FLOATS};
use crate::selftest::compare::{Comparison, Tolerance};
use crate::selftest::number::{rounding, Values};
use crate::selftest::operand::{dims, Layout, Tensor};
use candle_rocm_kernels::{DType, Order, Reduce, Rope};

pub fn add(list: &mut Operations) {
    for op in Reduce::ALL {
        list.add(format!("reduce/{op:?}").to_lowercase(), move |c| reduce(c, op));
    }
    list.add("reduce/long rows", long_rows);
    list.add("softmax/softmax", |c| softmax(c, false));
    list.add("softmax/log_softmax", |c| softmax(c, true));
    list.add("norms/rms_norm", |c| norm(c, Norm::Rms));
    list.add("norms/rms_norm_of_sum", |c| norm(c, Norm::RmsOfSum));
    list.add("norms/layer_norm", |c| norm(c, Norm::Layer));
    for order in [Order::Ascending, Order::Descending] {
        list.add(format!("sort/{order:?}").to_lowercase(), move |c| sort(c, order));
    }
    for kind in Rope::ALL {
        list.add(format!("rope/{kind:?}").to_lowercase(), move |c| rope(c, kind));
    }
    list.add("random/uniform", |c| random(c, false));
    list.add("random/normal", |c| random(c, true));
}

fn reduce(c: &mut Comparison<'_>, op: Reduce) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let dims = dims(&mut c.random, 2500);
            let layout = Layout::random(&mut c.random, &dims);
            // A sum with an infinity or a NaN says little about the others.
            let values = if op == Reduce::Sum { Values::Plain } else { Values::Awkward };
            let input = Tensor::random(&mut c.random, dtype, values, layout);
            let over: Vec<usize> = (0..dims.len()).filter(|_| c.random.once_in(2)).collect();
            let terms: usize = over.iter().map(|&d| dims[d]).product();
            compare(c, op, &input, &over, terms);
        }
    }
}

fn compare(c: &mut Comparison<'_>, op: Reduce, input: &Tensor, over: &[usize], terms: usize) {
    let dtype = input.dtype;
    let tolerance = match op {
        Reduce::Sum => Tolerance::of_sum(dtype, terms, 4.0 * terms as f64),
        Reduce::Min | Reduce::Max => Tolerance::AnyZero,
        Reduce::ArgMin | Reduce::ArgMax => Tolerance::Exact,
    };
    let count = input.layout.count() / terms.max(1);
    let what = format!("{op:?} of {input} over {over:?}");
    c.compare(&what, op.output(dtype), count, tolerance, |side, out| {
        side.kernels.reduce(op, &side.put(input)?.operand()?, over, out)
    });
}

/// Rows that are cut into pieces, whose blocks merge what they found.
fn long_rows(c: &mut Comparison<'_>) {
    for op in Reduce::ALL {
        for dtype in [DType::F32, DType::BF16, DType::U8] {
            let (rows, columns) = (c.random.between(1, 2), c.random.between(17_000, 40_000));
            let input = Tensor::dense(&mut c.random, dtype, Values::Plain, &[rows, columns]);
            compare(c, op, &input, &[1], columns);
        }
    }
}

/// The length of a row: short ones, those around a wave and a block, long ones.
fn columns(c: &mut Comparison<'_>) -> usize {
    let most = c.random.of_list(&[8, 64, 300, 2100]);
    c.random.between(1, most)
}

fn softmax(c: &mut Comparison<'_>, log: bool) {
    for dtype in FLOATS {
        for _ in 0..2 * c.turns {
            let shape = [c.random.between(1, 9), columns(c)];
            let input = Tensor::dense(&mut c.random, dtype, Values::Plain, &shape);
            let name = if log { "log_softmax" } else { "softmax" };
            let tolerance = Tolerance::of(dtype).plus(2.0 * rounding(dtype));
            c.compare(&format!("{name} of {input}"), dtype, input.layout.count(), tolerance, |side, out| {
                let input = side.put(&input)?;
                match log {
                    true => side.kernels.log_softmax(&input.operand()?, out),
                    false => side.kernels.softmax(&input.operand()?, out),
                }
            });
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Norm {
    Rms,
    RmsOfSum,
    Layer,
}

fn norm(c: &mut Comparison<'_>, norm: Norm) {
    for dtype in FLOATS {
        for _ in 0..2 * c.turns {
            let (rows, columns) = (c.random.between(1, 9), columns(c) + 1);
            let mut tensor = |dims: &[usize]| Tensor::dense(&mut c.random, dtype, Values::Plain, dims);
            let (input, other) = (tensor(&[rows, columns]), tensor(&[rows, columns]));
            let (alpha, beta) = (tensor(&[columns]), tensor(&[columns]));
            // A row's mean is off by roundings of its terms, and is divided by what may be as small.
            let tolerance = Tolerance::of(dtype).plus(32.0 * rounding(dtype));
            c.compare(&format!("{norm:?} norm of {input}"), dtype, rows * columns, tolerance, |side, out| {
                let (held, alpha, beta) = (side.put(&input)?, side.put(&alpha)?, side.put(&beta)?);
                match norm {
                    Norm::Rms => side.kernels.rms_norm(&held.operand()?, &alpha.operand()?, 1e-2, out),
                    Norm::Layer => {
                        side.kernels.layer_norm(&held.operand()?, &alpha.operand()?, &beta.operand()?, 1e-2, out)
                    }
                    Norm::RmsOfSum => {
                        let other = side.put(&other)?;
                        let mut memory = side.stream.alloc::<u8>(rows * columns * dtype.size())?;
                        let mut sum = candle_rocm_kernels::Output::new(&mut memory, dtype, 0, rows * columns)?;
                        let both = [&held.operand()?, &other.operand()?];
                        side.kernels.rms_norm_of_sum(both, &alpha.operand()?, 1e-2, &mut sum, out)
                    }
                }
            });
        }
    }
}

fn sort(c: &mut Comparison<'_>, order: Order) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let columns = c.random.of_list(&[3, 100, 2048, 2500]);
            let shape = [c.random.between(1, 3), c.random.between(1, columns)];
            let input = Tensor::dense(&mut c.random, dtype, Values::Awkward, &shape);
            let what = format!("{order:?} sort of {input}");
            let count = input.layout.count();
            c.compare(&format!("{what}, indices"), DType::U32, count, Tolerance::Exact, |side, out| {
                side.kernels.arg_sort(order, &side.put(&input)?.operand()?, out)
            });
            c.compare(&format!("{what}, values"), dtype, count, Tolerance::Exact, |side, out| {
                side.kernels.sort(order, &side.put(&input)?.operand()?, out)
            });
        }
    }
}

fn rope(c: &mut Comparison<'_>, kind: Rope) {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for _ in 0..c.turns {
            let (batch, heads, time) = (c.random.between(1, 2), c.random.between(1, 4), c.random.between(1, 9));
            let half = c.random.of_list(&[1, 4, 16, 33, 64]);
            let shape = match kind {
                Rope::HalvesThd => [batch, time, heads, 2 * half],
                Rope::Halves | Rope::Interleaved => [batch, heads, time, 2 * half],
            };
            let mut tensor = |dims: &[usize]| Tensor::dense(&mut c.random, dtype, Values::Plain, dims);
            let (input, cos, sin) = (tensor(&shape), tensor(&[time, half]), tensor(&[time, half]));
            // Two products that may cancel.
            let tolerance = Tolerance::of(dtype).plus(64.0 * rounding(dtype));
            c.compare(&format!("{kind:?} of {input}"), dtype, input.layout.count(), tolerance, |side, out| {
                let (input, cos, sin) = (side.put(&input)?, side.put(&cos)?, side.put(&sin)?);
                side.kernels.rope(kind, &input.operand()?, &cos.operand()?, &sin.operand()?, out)
            });
        }
    }
}

fn random(c: &mut Comparison<'_>, normal: bool) {
    for dtype in FLOATS {
        for _ in 0..c.turns {
            let (count, seed, offset) = (c.random.between(1, 5000), c.random.next(), c.random.next() >> 32);
            let name = if normal { "normal" } else { "uniform" };
            let what = format!("{count} {name} numbers of {dtype}, seed {seed}, offset {offset}");
            let tolerance = Tolerance::of(dtype).plus(8.0 * rounding(dtype));
            c.compare_at(0, &what, dtype, count, tolerance, |side, out| {
                match normal {
                    true => side.kernels.rand_normal(out, 0.5, 2.0, seed, offset)?,
                    false => side.kernels.rand_uniform(out, -1.0, 3.0, seed, offset)?,
                };
                Ok(())
            });
        }
    }
}
