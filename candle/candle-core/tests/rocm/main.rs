//! The public Tensor API on the ROCm device against the CPU: the same program on both, over random shapes, dtypes and
//! layouts, compared within a tolerance stated for each dtype. The tables say which operations; `bench.rs` says how.

mod bench;
mod devices;
mod errors;

use bench::{check, check_gradients, Case, Dtypes, Range};
use candle_core::{DType, Device, Result, Tensor, D};

/// Operations of one tensor, of any shape.
#[test]
fn one_operand() {
    use Dtypes::{All, Floats};
    use Range::{Any, Positive, Small};
    type Op = fn(&Tensor) -> Result<Tensor>;
    let table: &[(&str, Dtypes, Range, Op)] = &[
        ("exp", Floats, Small, |x| x.exp()),
        ("log", Floats, Positive, |x| x.log()),
        ("sin", Floats, Any, |x| x.sin()),
        ("cos", Floats, Any, |x| x.cos()),
        ("tanh", Floats, Any, |x| x.tanh()),
        ("neg", Floats, Any, |x| x.neg()),
        ("recip", Floats, Positive, |x| x.recip()),
        ("sqr", Floats, Any, |x| x.sqr()),
        ("sqrt", Floats, Positive, |x| x.sqrt()),
        ("erf", Floats, Any, |x| x.erf()),
        ("gelu", Floats, Any, |x| x.gelu()),
        ("gelu_erf", Floats, Any, |x| x.gelu_erf()),
        ("silu", Floats, Any, |x| x.silu()),
        ("relu", All, Any, |x| x.relu()),
        ("abs", All, Any, |x| x.abs()),
        ("ceil", All, Any, |x| x.ceil()),
        ("floor", All, Any, |x| x.floor()),
        ("round", All, Any, |x| x.round()),
        ("sign", All, Any, |x| x.sign()),
        ("elu", Floats, Any, |x| x.elu(1.3)),
        ("powf", Floats, Positive, |x| x.powf(1.7)),
        ("affine", All, Small, |x| x.affine(2., 1.)),
        ("contiguous", All, Any, |x| x.contiguous()),
        ("copy", All, Any, |x| x.copy()),
        ("flatten", All, Any, |x| x.flatten_all()),
        ("sum_all", Floats, Small, |x| x.sum_all()),
        ("sum_last", All, Small, |x| x.sum_keepdim(D::Minus1)),
        ("sum_first", All, Small, |x| x.sum(0)),
        ("mean_first", Floats, Small, |x| x.mean(0)),
        ("max_last", All, Any, |x| x.max(D::Minus1)),
        ("min_first", All, Any, |x| x.min_keepdim(0)),
        ("argmax_last", All, Any, |x| x.argmax(D::Minus1)),
        ("argmin_first", All, Any, |x| x.argmin(0)),
        ("cumsum", Floats, Small, |x| x.cumsum(0)),
        ("eq_zero", All, Any, |x| x.eq(&x.zeros_like()?)),
        ("to_f32", All, Any, |x| x.to_dtype(DType::F32)),
        ("to_f64", All, Any, |x| x.to_dtype(DType::F64)),
        ("to_f16", All, Small, |x| x.to_dtype(DType::F16)),
        ("to_bf16", All, Small, |x| x.to_dtype(DType::BF16)),
        ("to_u8", All, Positive, |x| x.to_dtype(DType::U8)),
        ("to_u32", All, Positive, |x| x.to_dtype(DType::U32)),
        ("to_i64", All, Any, |x| x.to_dtype(DType::I64)),
        ("zeros_like", All, Any, |x| x.zeros_like()),
        ("ones_like", All, Any, |x| x.ones_like()),
        ("pad_with_zeros", All, Any, |x| x.pad_with_zeros(0, 1, 2)),
        ("pad_with_same", All, Any, |x| x.pad_with_same(0, 1, 2)),
        ("cat", All, Any, |x| Tensor::cat(&[x, x, x], 0)),
        ("cat_last", All, Any, |x| Tensor::cat(&[x, x], D::Minus1)),
        ("stack", All, Any, |x| Tensor::stack(&[x, x], 0)),
        ("repeat", All, Any, |x| x.repeat(2)),
        ("arg_sort", All, Any, |x| x.contiguous()?.arg_sort_last_dim(true)),
    ];
    for &(name, dtypes, range, op) in table {
        check(Case { name, dtypes, range, operands: 1 }, |x| op(&x[0]));
    }
}

/// Operations of two tensors of one shape.
#[test]
fn two_operands() {
    use Dtypes::{All, Floats};
    use Range::{Any, Positive, Small};
    type Op = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let table: &[(&str, Dtypes, Range, Op)] = &[
        ("add", All, Small, |a, b| a + b),
        ("sub", Floats, Any, |a, b| a - b),
        ("mul", All, Small, |a, b| a * b),
        ("div", Floats, Positive, |a, b| a / b),
        ("maximum", All, Any, |a, b| a.maximum(b)),
        ("minimum", All, Any, |a, b| a.minimum(b)),
        ("eq", All, Any, |a, b| a.eq(b)),
        ("ne", All, Any, |a, b| a.ne(b)),
        ("lt", All, Any, |a, b| a.lt(b)),
        ("le", All, Any, |a, b| a.le(b)),
        ("gt", All, Any, |a, b| a.gt(b)),
        ("ge", All, Any, |a, b| a.ge(b)),
        ("where", All, Any, |a, b| a.lt(b)?.where_cond(a, b)),
        ("broadcast_add", All, Small, |a, b| a.broadcast_add(&b.narrow(0, 0, 1)?)),
        ("broadcast_mul", All, Small, |a, b| a.broadcast_mul(&b.narrow(D::Minus1, 0, 1)?)),
        ("cat", All, Any, |a, b| Tensor::cat(&[a, b], 0)),
        ("slice_set", All, Any, |a, b| {
            let target = a.copy()?.contiguous()?;
            target.slice_set(&b.contiguous()?, 0, 0)?;
            Ok(target)
        }),
    ];
    for &(name, dtypes, range, op) in table {
        check(Case { name, dtypes, range, operands: 2 }, |x| op(&x[0], &x[1]));
    }
}

/// Gradients, through `backward()` on both devices.
#[test]
fn gradients() {
    use Range::{Any, Positive, Small};
    type Op = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let table: &[(&str, Range, Op)] = &[
        ("exp", Small, |a, _| a.exp()),
        ("log", Positive, |a, _| a.log()),
        ("tanh", Any, |a, _| a.tanh()),
        ("sqrt", Positive, |a, _| a.sqrt()),
        ("silu", Any, |a, _| a.silu()),
        ("gelu_erf", Any, |a, _| a.gelu_erf()),
        ("mul", Small, |a, b| a * b),
        ("div", Positive, |a, b| a / b),
        ("broadcast", Small, |a, b| a.broadcast_mul(&b.narrow(0, 0, 1)?)),
        ("sum", Small, |a, b| a.sum_keepdim(0)?.broadcast_mul(b)),
        ("max", Any, |a, b| a.max_keepdim(D::Minus1)?.broadcast_mul(b)),
        ("narrow", Any, |a, b| a.narrow(0, 0, 1)?.broadcast_mul(b)),
        ("where", Any, |a, b| a.lt(b)?.where_cond(&a.sqr()?, b)),
    ];
    for &(name, range, op) in table {
        check_gradients(name, range, |x| op(&x[0], &x[1]));
    }
}

/// Operations that take ids.
#[test]
fn ids() {
    use Dtypes::All;
    fn ids(x: &Tensor, data: &[u32], dtype: DType) -> Result<Tensor> {
        Tensor::new(data, x.device())?.to_dtype(dtype)
    }
    for dtype in [DType::U8, DType::U32, DType::I64] {
        let case = |name| Case { name, dtypes: All, range: Range::Small, operands: 1 };
        check(case("index_select"), |x| x[0].index_select(&ids(&x[0], &[0, 0], dtype)?, 0));
        check(case("index_select_last"), |x| x[0].index_select(&ids(&x[0], &[0, 0, 0], dtype)?, x[0].rank() - 1));
        check(case("gather"), |x| {
            let zeros = x[0].zeros_like()?.to_dtype(dtype)?.contiguous()?;
            x[0].gather(&zeros, x[0].rank() - 1)
        });
        check(case("index_add"), |x| {
            let rows = x[0].narrow(0, 0, 1)?.contiguous()?;
            x[0].contiguous()?.index_add(&ids(&x[0], &[0], dtype)?, &rows, 0)
        });
        check(case("scatter_add"), |x| {
            let first = x[0].narrow(0, 0, 1)?.contiguous()?;
            let zeros = first.zeros_like()?.to_dtype(dtype)?.contiguous()?;
            x[0].contiguous()?.scatter_add(&zeros, &first, 0)
        });
    }
}

/// Matrix products, with transposed and broadcast operands.
#[test]
fn matmul() {
    for (batch, m, n, k) in [(1, 1, 1, 1), (1, 5, 7, 3), (3, 16, 9, 33), (2, 1, 65, 40), (1, 70, 66, 130), (4, 3, 1, 5)]
    {
        let operands = [vec![batch, m, k], vec![batch, k, n], vec![batch, n, k], vec![batch, k, m], vec![k, n]];
        bench::check_shapes("matmul", &operands, 0.05, |x| {
            let products = [
                x[0].matmul(&x[1])?,
                x[0].matmul(&x[2].t()?)?,
                x[3].t()?.matmul(&x[1])?,
                x[3].t()?.matmul(&x[2].t()?)?,
                x[0].broadcast_matmul(&x[4])?,
            ];
            Tensor::stack(&products, 0)
        });
    }
}

/// Convolutions and what slides a window like them.
#[test]
fn windows() {
    type Op = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let images: &[(&str, [usize; 4], [usize; 4], Op)] = &[
        ("conv2d", [2, 4, 9, 7], [6, 4, 3, 3], |x, w| x.conv2d(w, 1, 1, 1, 1)),
        ("conv2d_stride", [1, 4, 9, 8], [4, 4, 3, 2], |x, w| x.conv2d(w, 0, 2, 1, 1)),
        ("conv2d_dilation", [1, 2, 11, 11], [4, 2, 3, 3], |x, w| x.conv2d(w, 2, 1, 2, 1)),
        ("conv2d_groups", [2, 4, 6, 6], [8, 2, 3, 3], |x, w| x.conv2d(w, 1, 1, 1, 2)),
        ("conv_transpose2d", [1, 4, 5, 6], [4, 3, 3, 3], |x, w| x.conv_transpose2d(w, 1, 0, 1, 1)),
        ("conv_transpose2d_stride", [2, 4, 5, 5], [4, 3, 3, 3], |x, w| x.conv_transpose2d(w, 1, 1, 2, 1)),
        ("avg_pool2d", [2, 3, 8, 6], [1, 1, 1, 1], |x, _| x.avg_pool2d(2)),
        ("max_pool2d", [2, 3, 9, 7], [1, 1, 1, 1], |x, _| x.max_pool2d_with_stride(3, 2)),
        ("upsample_nearest2d", [2, 3, 4, 5], [1, 1, 1, 1], |x, _| x.upsample_nearest2d(7, 9)),
        ("upsample_bilinear2d", [1, 2, 4, 5], [1, 1, 1, 1], |x, _| x.upsample_bilinear2d(7, 9, false)),
    ];
    for (name, x, w, op) in images {
        bench::check_shapes(name, &[x.to_vec(), w.to_vec()], 0.05, |t| op(&t[0], &t[1]));
    }
    let signals: &[(&str, [usize; 3], [usize; 3], Op)] = &[
        ("conv1d", [2, 4, 17], [6, 4, 3], |x, w| x.conv1d(w, 1, 1, 1, 1)),
        ("conv1d_stride", [1, 2, 20], [4, 2, 5], |x, w| x.conv1d(w, 2, 3, 1, 1)),
        ("conv_transpose1d", [1, 4, 9], [4, 3, 3], |x, w| x.conv_transpose1d(w, 0, 0, 2, 1, 1)),
        ("upsample_nearest1d", [2, 3, 5], [1, 1, 1], |x, _| x.upsample_nearest1d(11)),
    ];
    for (name, x, w, op) in signals {
        bench::check_shapes(name, &[x.to_vec(), w.to_vec()], 0.05, |t| op(&t[0], &t[1]));
    }
}

/// The device's memory holds what was put there, and its handles behave.
#[test]
fn there_and_back() -> Result<()> {
    let device = Device::new_rocm(0)?;
    assert!(device.is_rocm() && !device.is_cuda() && device.as_rocm_device().is_ok());
    assert!(Device::Cpu.as_rocm_device().is_err());
    for dtype in bench::ALL {
        let there = Tensor::arange(0u32, 60, &Device::Cpu)?.to_dtype(dtype)?.reshape((3, 4, 5))?;
        let back = there.to_device(&device)?.t()?.to_device(&Device::Cpu)?;
        bench::assert_close("there and back", &there.t()?, &back, 0.);
    }
    Ok(())
}
