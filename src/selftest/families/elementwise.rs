//! Functions of single elements, of any layout: one, two or three operands, casts, and what fills or copies memory.

use super::{Operations, FLOATS, MODEL_FLOATS};
use crate::selftest::compare::{Comparison, Tolerance};
use crate::selftest::number::{draw, Values};
use crate::selftest::operand::{dims, Layout, Tensor};
use candle_rocm_kernels::DType;

/// Elements of a tensor at most, about.
const MOST: usize = 1500;

/// A function and whether it has one right answer.
const UNARY: [(&str, bool); 23] = [
    ("ucopy", true),
    ("uneg", true),
    ("uabs", true),
    ("uceil", true),
    ("ufloor", true),
    ("uround", true),
    ("usign", true),
    ("urelu", true),
    ("usqr", true),
    ("usqrt", true),
    ("urecip", true),
    ("uexp", false),
    ("ulog", false),
    ("usin", false),
    ("ucos", false),
    ("utanh", false),
    ("uerf", false),
    ("usigmoid", false),
    ("usilu", false),
    ("ugelu", false),
    ("ugelu_erf", false),
    ("uelu", false),
    ("upowf", false),
];

const ARITHMETIC: [&str; 6] = ["badd", "bsub", "bmul", "bdiv", "bminimum", "bmaximum"];
const COMPARISONS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const CONDITIONS: [DType; 3] = [DType::U8, DType::U32, DType::I64];

pub fn add(list: &mut Operations) {
    for (root, exact) in UNARY {
        list.add(format!("unary/{root}"), move |c| unary(c, root, exact));
    }
    for root in ARITHMETIC {
        list.add(format!("binary/{root}"), move |c| pair(c, root, &DType::ALL, false));
    }
    for root in COMPARISONS {
        list.add(format!("binary/{root}"), move |c| pair(c, root, &DType::ALL, true));
    }
    for root in ["gsilu", "ggelu"] {
        list.add(format!("gated/{root}"), move |c| gated(c, root));
    }
    list.add("affine", affine);
    for from in DType::ALL {
        list.add(format!("cast/{from}"), move |c| cast(c, from));
    }
    list.add("ternary/where", where_cond);
    list.add("fill/fill", fill);
    list.add("fill/const_set", const_set);
    list.add("fill/copy2d", copy2d);
    list.add("fill/concat", concat);
}

fn unary(c: &mut Comparison<'_>, root: &str, exact: bool) {
    let dtypes: &[DType] = if root == "ucopy" { &DType::ALL } else { &FLOATS };
    for &dtype in dtypes {
        for _ in 0..c.turns {
            let dims = dims(&mut c.random, MOST);
            let layout = Layout::random(&mut c.random, &dims);
            let values = if exact { Values::Awkward } else { Values::Mild };
            let input = Tensor::random(&mut c.random, dtype, values, layout);
            let tolerance = if exact { Tolerance::Exact } else { Tolerance::of(dtype) };
            // An exponent that is exact in every dtype; the scale of elu.
            let parameter = if root == "upowf" { 2.5 } else { 0.75 };
            c.compare(&format!("{root} of {input}"), dtype, input.layout.count(), tolerance, |side, out| {
                side.kernels.unary_with(root, parameter, &side.put(&input)?.operand()?, out)
            });
        }
    }
}

/// Two tensors of one shape, each with a layout of its own.
fn two(c: &mut Comparison<'_>, dtype: DType, values: Values) -> [Tensor; 2] {
    let dims = dims(&mut c.random, MOST);
    std::array::from_fn(|_| {
        let layout = Layout::random(&mut c.random, &dims);
        Tensor::random(&mut c.random, dtype, values, layout)
    })
}

fn pair(c: &mut Comparison<'_>, root: &str, dtypes: &[DType], compares: bool) {
    for &dtype in dtypes {
        for _ in 0..c.turns {
            // An integer divided by zero is an error that both sides report; here it would hide the rest.
            let no_zeros = root == "bdiv" && !dtype.is_float();
            let [left, mut right] = two(c, dtype, Values::Awkward);
            if no_zeros {
                right.bytes.chunks_exact_mut(dtype.size()).filter(|x| x.iter().all(|&x| x == 0)).for_each(|x| x[0] = 3);
            }
            let what = format!("{root} of {left} and {right}");
            let to = if compares { DType::U8 } else { dtype };
            c.compare(&what, to, left.layout.count(), Tolerance::Exact, |side, out| {
                let (left, right) = (side.put(&left)?, side.put(&right)?);
                match compares {
                    true => side.kernels.compare(root, &left.operand()?, &right.operand()?, out),
                    false => side.kernels.binary(root, &left.operand()?, &right.operand()?, out),
                }
            });
        }
    }
}

fn gated(c: &mut Comparison<'_>, root: &str) {
    for dtype in MODEL_FLOATS {
        for _ in 0..c.turns {
            let [gate, right] = two(c, dtype, Values::Plain);
            let what = format!("{root} of {gate} and {right}");
            c.compare(&what, dtype, gate.layout.count(), Tolerance::of(dtype), |side, out| {
                side.kernels.gated(root, &side.put(&gate)?.operand()?, &side.put(&right)?.operand()?, out)
            });
        }
    }
}

fn affine(c: &mut Comparison<'_>) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let dims = dims(&mut c.random, MOST);
            let layout = Layout::random(&mut c.random, &dims);
            let input = Tensor::random(&mut c.random, dtype, Values::Plain, layout);
            let (mul, plus) = (c.random.between(1, 4) as f64, c.random.between(0, 3) as f64);
            // The sum may cancel what the product was rounded by.
            let tolerance = Tolerance::of(dtype).plus(if dtype == DType::F64 { 0.0 } else { 1e-5 });
            let what = format!("affine * {mul} + {plus} of {input}");
            c.compare(&what, dtype, input.layout.count(), tolerance, |side, out| {
                side.kernels.affine(&side.put(&input)?.operand()?, mul, plus, out)
            });
        }
    }
}

fn cast(c: &mut Comparison<'_>, from: DType) {
    for to in DType::ALL {
        for _ in 0..c.turns {
            let dims = dims(&mut c.random, MOST);
            let layout = Layout::random(&mut c.random, &dims);
            let input = Tensor::random(&mut c.random, from, Values::Awkward, layout);
            c.compare(&format!("{input} to {to}"), to, input.layout.count(), Tolerance::Exact, |side, out| {
                side.kernels.cast(&side.put(&input)?.operand()?, out)
            });
        }
    }
}

fn where_cond(c: &mut Comparison<'_>) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let [yes, no] = two(c, dtype, Values::Awkward);
            let by = c.random.of_list(&CONDITIONS);
            let layout = Layout::random(&mut c.random, &yes.layout.dims);
            let condition = Tensor::random(&mut c.random, by, Values::Below(2), layout);
            let what = format!("where {condition} then {yes} else {no}");
            c.compare(&what, dtype, yes.layout.count(), Tolerance::Exact, |side, out| {
                let (condition, yes, no) = (side.put(&condition)?, side.put(&yes)?, side.put(&no)?);
                side.kernels.where_cond(&condition.operand()?, &yes.operand()?, &no.operand()?, out)
            });
        }
    }
}

fn fill(c: &mut Comparison<'_>) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let (count, bits) = (c.random.between(1, 5000), draw(&mut c.random, dtype, Values::Awkward));
            let what = format!("fill {count} elements of {dtype} with the bits {bits:#x}");
            c.compare(&what, dtype, count, Tolerance::Exact, |side, out| side.kernels.fill(bits, out));
        }
    }
}

fn const_set(c: &mut Comparison<'_>) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let dims = dims(&mut c.random, MOST);
            let layout = Layout::random(&mut c.random, &dims);
            let target = Tensor::random(&mut c.random, dtype, Values::Plain, layout);
            let bits = draw(&mut c.random, dtype, Values::Awkward);
            let what = format!("set {target} to the bits {bits:#x}");
            c.compare_changed(&what, &target, Tolerance::Exact, |side, out| side.kernels.const_set(bits, out));
        }
    }
}

/// Rows with a gap between them.
fn rows(c: &mut Comparison<'_>, dtype: DType, rows: usize, columns: usize) -> Tensor {
    let gap = if c.random.once_in(2) { 16 * c.random.between(0, 2) } else { c.random.between(0, 5) };
    let start = c.random.of_list(&[0, 0, 16, 3]);
    let layout = Layout { start, dims: vec![rows, columns], strides: vec![columns + gap, 1] };
    Tensor::random(&mut c.random, dtype, Values::Awkward, layout)
}

fn copy2d(c: &mut Comparison<'_>) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let columns = if c.random.once_in(2) { 32 } else { c.random.between(1, 90) };
            let count = c.random.between(1, 20);
            let (from, to) = (rows(c, dtype, count, columns), rows(c, dtype, count, columns));
            c.compare_changed(&format!("copy {from} to {to}"), &to, Tolerance::Exact, |side, out| {
                side.kernels.copy2d(&side.put(&from)?.operand()?, out)
            });
        }
    }
}

fn concat(c: &mut Comparison<'_>) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let count = c.random.between(1, 20);
            let parts: Vec<Tensor> = (0..c.random.between(1, 4))
                .map(|_| {
                    let columns = if c.random.once_in(2) { 16 } else { c.random.between(1, 40) };
                    rows(c, dtype, count, columns)
                })
                .collect();
            let columns = parts.iter().map(|part| part.layout.dims[1]).sum();
            let to = Tensor::dense(&mut c.random, dtype, Values::Plain, &[count, columns]);
            let list: Vec<String> = parts.iter().map(ToString::to_string).collect();
            let what = format!("side by side: {}", list.join(", "));
            c.compare_changed(&what, &to, Tolerance::Exact, |side, out| {
                let held = parts.iter().map(|part| side.put(part)).collect::<hip::Result<Vec<_>>>()?;
                let operands = held.iter().map(|part| part.operand()).collect::<hip::Result<Vec<_>>>()?;
                side.kernels.concat(&operands, out)
            });
        }
    }
}
