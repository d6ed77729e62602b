//! What reads and writes by ids. Of several that go to one place, scatters keep the last; sums may come in any order.

use super::Operations;
use crate::selftest::compare::{Comparison, Tolerance};
use crate::selftest::number::Values;
use crate::selftest::operand::Tensor;
use candle_rocm_kernels::DType;

const IDS: [DType; 3] = [DType::U32, DType::I64, DType::U8];

pub fn add(list: &mut Operations) {
    list.add("indexing/index_select", index_select);
    list.add("indexing/gather", gather);
    list.add("indexing/scatter", |c| scatter(c, false));
    list.add("indexing/scatter_add", |c| scatter(c, true));
    list.add("indexing/index_add", index_add);
}

/// A shape of three dimensions and one of them.
fn shape(c: &mut Comparison<'_>) -> ([usize; 3], usize) {
    let most = [9, 12, 40];
    (most.map(|most| c.random.between(1, most)), c.random.below(3))
}

fn index_select(c: &mut Comparison<'_>) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let ((shape, dim), count, by) = (shape(c), c.random.between(1, 30), c.random.of_list(&IDS));
            let src = Tensor::dense(&mut c.random, dtype, Values::Awkward, &shape);
            let ids = Tensor::dense(&mut c.random, by, Values::Below(shape[dim]), &[count]);
            let elements = src.layout.count() / shape[dim] * count;
            let what = format!("{ids} of {src} along {dim}");
            c.compare(&what, dtype, elements, Tolerance::Exact, |side, out| {
                side.kernels.index_select(&side.put(&src)?.operand()?, &side.put(&ids)?.operand()?, dim, out)
            });
        }
    }
}

fn gather(c: &mut Comparison<'_>) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let ((shape, dim), by) = (shape(c), c.random.of_list(&IDS));
            let src = Tensor::dense(&mut c.random, dtype, Values::Awkward, &shape);
            let mut of_ids = shape;
            of_ids[dim] = c.random.between(1, 20);
            let ids = Tensor::dense(&mut c.random, by, Values::Below(shape[dim]), &of_ids);
            let what = format!("gather {ids} of {src} along {dim}");
            c.compare(&what, dtype, ids.layout.count(), Tolerance::Exact, |side, out| {
                side.kernels.gather(&side.put(&src)?.operand()?, &side.put(&ids)?.operand()?, dim, out)
            });
        }
    }
}

/// Sums of up to so many terms of at most four; a short float is rounded at every addition.
fn sums(dtype: DType, terms: usize) -> Tolerance {
    let rounded = crate::selftest::number::rounding(dtype);
    Tolerance::of_sum(dtype, terms, 4.0 * terms as f64).plus(8.0 * terms as f64 * rounded)
}

fn scatter(c: &mut Comparison<'_>, adds: bool) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let ((shape, dim), by) = (shape(c), c.random.of_list(&[DType::U32, DType::I64]));
            let dst = Tensor::dense(&mut c.random, dtype, Values::Plain, &shape);
            let mut of_ids = shape;
            of_ids[dim] = c.random.between(1, 20);
            let ids = Tensor::dense(&mut c.random, by, Values::Below(shape[dim]), &of_ids);
            let src = Tensor::dense(&mut c.random, dtype, Values::Plain, &of_ids);
            let name = if adds { "scatter_add" } else { "scatter" };
            let tolerance = if adds { sums(dtype, of_ids[dim] + 1) } else { Tolerance::Exact };
            c.compare_changed(&format!("{name} {src} by {ids} to {dst} along {dim}"), &dst, tolerance, |side, dst| {
                let (ids, src) = (side.put(&ids)?, side.put(&src)?);
                match adds {
                    true => side.kernels.scatter_add(dst, &ids.operand()?, &src.operand()?, dim),
                    false => side.kernels.scatter(dst, &ids.operand()?, &src.operand()?, dim),
                }
            });
        }
    }
}

fn index_add(c: &mut Comparison<'_>) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let ((shape, dim), by) = (shape(c), c.random.of_list(&[DType::U32, DType::I64]));
            let dst = Tensor::dense(&mut c.random, dtype, Values::Plain, &shape);
            let mut of_src = shape;
            of_src[dim] = c.random.between(1, 20);
            let ids = Tensor::dense(&mut c.random, by, Values::Below(shape[dim]), &[of_src[dim]]);
            let src = Tensor::dense(&mut c.random, dtype, Values::Plain, &of_src);
            let what = format!("add {src} by {ids} to {dst} along {dim}");
            c.compare_changed(&what, &dst, sums(dtype, of_src[dim] + 1), |side, dst| {
                side.kernels.index_add(dst, &side.put(&ids)?.operand()?, &side.put(&src)?.operand()?, dim)
            });
        }
    }
}
