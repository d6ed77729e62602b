//! The public Tensor API on the ROCm device against the CPU: the same program on both, over random shapes, dtypes and
//! layouts, compared within a tolerance stated for each dtype. The tables say which operations; `bench.rs` says how.

mod bench;
mod calls;
mod captures;
mod cuda_names;
mod devices;
mod errors;
mod exact;
mod files;
mod gguf;
mod loading;
#[cfg(feature = "miopen")]
mod miopen;
mod quantized;
mod reading;
mod several;

use bench::{check, check_gradients, Case, Dtypes, Range};
use candle_core::{DType, Device, Result, Tensor, D};

/// A tensor as a matrix of its rows.
fn rows(x: &Tensor) -> Result<Tensor> {
    x.reshape(((), x.dim(D::Minus1)?))
}

/// Operations of one tensor, of any shape.
#[test]
fn one_operand() {
    use Dtypes::{All, Floats, Wide};
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
        ("cat_nine", All, Any, |x| Tensor::cat(&[x; 9], D::Minus1)),
        ("cat_parts", All, Any, |x| {
            Tensor::cat(&[&x.narrow(D::Minus1, 0, 1)?, x, &x.narrow(D::Minus1, 0, 0)?], D::Minus1)
        }),
        ("stack", All, Any, |x| Tensor::stack(&[x, x], 0)),
        ("repeat", All, Any, |x| x.repeat(2)),
        ("arg_sort", All, Any, |x| x.contiguous()?.arg_sort_last_dim(true)),
        ("sort_last_dim", All, Any, |x| Ok(x.contiguous()?.sort_last_dim(false)?.0)),
        ("round_to", Wide, Positive, |x| x.round_to(1)),
        ("mean_all", Wide, Small, |x| x.mean_all()),
        ("mean_keepdim", Wide, Small, |x| x.mean_keepdim(D::Minus1)),
        ("var", Wide, Small, |x| x.var(0)),
        ("var_keepdim", Wide, Small, |x| x.var_keepdim(D::Minus1)),
        ("max_all", All, Any, |x| x.max_all()),
        ("min_all", All, Any, |x| x.min_all()),
        ("max_keepdim", All, Any, |x| x.max_keepdim(0)),
        ("argmax_keepdim", All, Any, |x| x.argmax_keepdim(0)),
        ("argmin_keepdim", All, Any, |x| x.argmin_keepdim(D::Minus1)),
        ("norm", Wide, Small, |x| x.norm()),
        ("log_sum_exp", Wide, Small, |x| x.log_sum_exp(D::Minus1)),
        ("clamp", All, Any, |x| x.clamp(5., 50.)),
        ("cmp_scalar", All, Any, |x| Tensor::stack(&[x.gt(10.)?, x.le(10.)?, x.ne(0.)?], 0)),
        ("scalar arithmetic", All, Small, |x| ((x * 3.)? + 1.)?.affine(1., 2.)),
        ("sub_scalar", Floats, Any, |x| (x - 2.)? / 4.),
        ("maximum_scalar", All, Any, |x| x.maximum(3.)),
        ("roll", All, Any, |x| x.roll(1, 0)),
        ("flip", All, Any, |x| x.flip(&[0, x.rank() - 1])),
        ("unfold", All, Any, |x| x.unfold(0, 1, 1)?.contiguous()),
        ("chunk", All, Any, |x| x.chunk(2, 0)?[0].contiguous()),
        ("get", All, Any, |x| x.get(0)?.contiguous()),
        ("get_on_dim", All, Any, |x| x.get_on_dim(x.rank() - 1, 0)?.contiguous()),
        ("permute", All, Any, |x| x.permute((0..x.rank()).rev().collect::<Vec<_>>())?.contiguous()),
        ("squeeze", All, Any, |x| x.unsqueeze(1)?.squeeze(1)?.contiguous()),
        ("broadcast_left", All, Any, |x| x.broadcast_left((2, 1))?.contiguous()),
        ("reshape", All, Any, |x| x.reshape((1, (), 1))),
        ("force_contiguous", All, Any, |x| x.force_contiguous()),
        ("detach", All, Any, |x| x.detach().contiguous()),
        ("to_i32", All, Positive, |x| x.to_dtype(DType::I32)),
        ("to_i16", All, Positive, |x| x.to_dtype(DType::I16)),
        ("meshgrid", All, Any, |x| {
            let line = x.flatten_all()?.narrow(0, 0, 1)?;
            Tensor::stack(&Tensor::meshgrid(&[&line, &line], true)?, 0)
        }),
        ("set", All, Any, |x| {
            let target = x.copy()?.contiguous()?;
            target.narrow(0, 0, 1)?.one_set()?;
            target.narrow(D::Minus1, 0, 1)?.zero_set()?;
            Ok(target)
        }),
    ];
    let complaints: Vec<_> = table
        .iter()
        .flat_map(|&(name, dtypes, range, op)| check(Case { name, dtypes, range, operands: 1 }, |x| op(&x[0])))
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Operations of two tensors of one shape.
#[test]
fn two_operands() {
    use Dtypes::{All, Floats, Wide};
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
        ("broadcast_sub", Floats, Any, |a, b| a.broadcast_sub(&b.narrow(0, 0, 1)?)),
        ("broadcast_div", Floats, Positive, |a, b| a.broadcast_div(&b.narrow(0, 0, 1)?)),
        ("broadcast_maximum", All, Any, |a, b| a.broadcast_maximum(&b.narrow(0, 0, 1)?)),
        ("broadcast_minimum", All, Any, |a, b| a.broadcast_minimum(&b.narrow(D::Minus1, 0, 1)?)),
        ("broadcast_eq", All, Small, |a, b| a.broadcast_eq(&b.narrow(0, 0, 1)?)),
        ("broadcast_lt", All, Any, |a, b| a.broadcast_lt(&b.narrow(D::Minus1, 0, 1)?)),
        ("pow", Wide, Positive, |a, b| (a / 9.)?.pow(&(b / 9.)?)),
        ("broadcast_pow", Wide, Positive, |a, b| (a / 9.)?.broadcast_pow(&(b.narrow(0, 0, 1)? / 9.)?)),
        ("dot", Wide, Small, |a, b| a.flatten_all()?.dot(&b.flatten_all()?)),
        ("mv", Wide, Small, |a, b| rows(a)?.mv(&rows(b)?.get(0)?)),
        ("slice_assign", All, Any, |a, b| {
            let ranges: Vec<_> = a.dims().iter().map(|_| 0..1).collect();
            let corner =
                b.dims().iter().enumerate().try_fold(b.clone(), |corner, (dim, _)| corner.narrow(dim, 0, 1))?;
            a.slice_assign(&ranges, &corner)
        }),
        ("slice_scatter", All, Any, |a, b| a.slice_scatter(&b.narrow(D::Minus1, 0, 1)?, D::Minus1, 0)),
        ("cat", All, Any, |a, b| Tensor::cat(&[a, b], 0)),
        ("slice_set", All, Any, |a, b| {
            let target = a.copy()?.contiguous()?;
            target.slice_set(&b.contiguous()?, 0, 0)?;
            Ok(target)
        }),
    ];
    let complaints: Vec<_> = table
        .iter()
        .flat_map(|&(name, dtypes, range, op)| check(Case { name, dtypes, range, operands: 2 }, |x| op(&x[0], &x[1])))
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Gradients, through `backward()` on both devices.
#[test]
fn gradients() {
    use Range::{Any, Positive, Small};
    type Op = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let table: &[(&str, Range, Op)] = &[
        ("exp", Small, |a, _| a.exp()),
        ("log", Positive, |a, _| a.log()),
        ("sin", Any, |a, _| a.sin()),
        ("cos", Any, |a, _| a.cos()),
        ("tanh", Any, |a, _| a.tanh()),
        ("neg", Any, |a, _| a.neg()),
        ("recip", Positive, |a, _| a.recip()),
        ("sqr", Small, |a, _| a.sqr()),
        ("abs", Any, |a, _| a.abs()),
        ("relu", Any, |a, _| a.relu()),
        ("erf", Small, |a, _| a.erf()),
        ("gelu", Any, |a, _| a.gelu()),
        ("elu", Small, |a, _| a.elu(1.3)),
        ("powf", Positive, |a, _| a.powf(1.7)),
        ("affine", Any, |a, _| a.affine(1.5, 2.)),
        ("add", Any, |a, b| a + b),
        ("sub", Any, |a, b| a - b),
        ("maximum", Any, |a, b| a.maximum(b)),
        ("minimum", Any, |a, b| a.minimum(b)),
        ("mean", Small, |a, b| a.mean_keepdim(D::Minus1)?.broadcast_mul(b)),
        ("var", Small, |a, b| (a * b)?.sqr()?.mean(0)),
        ("log_sum_exp", Small, |a, _| a.log_sum_exp(D::Minus1)),
        ("min", Any, |a, b| a.min_keepdim(0)?.broadcast_mul(b)),
        ("transpose", Any, |a, b| a.transpose(0, a.rank() - 1)?.mul(&b.transpose(0, b.rank() - 1)?)),
        ("reshape", Any, |a, b| a.reshape(((), 1))?.mul(&b.reshape(((), 1))?)),
        ("cat", Any, |a, b| Tensor::cat(&[a, b, a], 0)),
        ("cat_last", Any, |a, b| Tensor::cat(&[a, b, a], a.rank() - 1)?.sqr()),
        ("stack", Any, |a, b| Tensor::stack(&[a, b], 0)),
        ("repeat", Any, |a, _| a.repeat(2)),
        ("pad", Any, |a, b| a.pad_with_zeros(0, 1, 2)?.broadcast_mul(&b.narrow(0, 0, 1)?)),
        ("unsqueeze", Any, |a, b| a.unsqueeze(0)?.broadcast_mul(&b.unsqueeze(1)?)),
        ("to_dtype", Any, |a, b| a.to_dtype(DType::F64)?.mul(&b.to_dtype(DType::F64)?)?.to_dtype(DType::F32)),
        ("matmul", Small, |a, b| rows(a)?.matmul(&rows(b)?.t()?)),
        ("index_select", Any, |a, b| {
            let ids = Tensor::new(&[0u32, 0], a.device())?;
            a.index_select(&ids, 0)?.broadcast_mul(&b.narrow(0, 0, 1)?)
        }),
        ("gather", Any, |a, b| {
            let ids = b.zeros_like()?.to_dtype(DType::U32)?;
            a.gather(&ids, a.rank() - 1)?.mul(b)
        }),
        ("index_add", Any, |a, b| {
            a.index_add(&Tensor::new(&[0u32], a.device())?, &b.narrow(0, 0, 1)?.contiguous()?, 0)
        }),
        ("scatter_add", Any, |a, b| {
            let first = b.narrow(0, 0, 1)?.contiguous()?;
            a.scatter_add(&first.zeros_like()?.to_dtype(DType::U32)?, &first, 0)
        }),
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
    fn zeros(x: &Tensor, dtype: DType) -> Result<Tensor> {
        x.zeros_like()?.to_dtype(dtype)?.contiguous()
    }
    type Op = fn(&Tensor, DType) -> Result<Tensor>;
    let table: &[(&str, Op)] = &[
        ("index_select", |x, dtype| x.index_select(&ids(x, &[0, 0], dtype)?, 0)),
        ("index_select_last", |x, dtype| x.index_select(&ids(x, &[0, 0, 0], dtype)?, x.rank() - 1)),
        ("embedding", |x, dtype| rows(x)?.embedding(&ids(x, &[0, 0, 0], dtype)?)),
        ("gather", |x, dtype| x.gather(&zeros(x, dtype)?, x.rank() - 1)),
        ("index_add", |x, dtype| {
            x.contiguous()?.index_add(&ids(x, &[0], dtype)?, &x.narrow(0, 0, 1)?.contiguous()?, 0)
        }),
        ("scatter", |x, dtype| {
            let first = x.narrow(0, 0, 1)?.contiguous()?;
            x.contiguous()?.scatter(&zeros(&first, dtype)?, &first, 0)
        }),
        ("scatter_set", |x, dtype| {
            let (target, first) = (x.force_contiguous()?, x.narrow(D::Minus1, 0, 1)?.contiguous()?);
            target.scatter_set(&zeros(&first, dtype)?, &first, D::Minus1)?;
            target.scatter_add_set(&zeros(&first, dtype)?, &first, D::Minus1)?;
            Ok(target)
        }),
        ("scatter_add", |x, dtype| {
            let first = x.narrow(0, 0, 1)?.contiguous()?;
            x.contiguous()?.scatter_add(&zeros(&first, dtype)?, &first, 0)
        }),
    ];
    let mut complaints = Vec::new();
    // The CPU takes ids of 16 and 32 bits with a sign where it adds, and nowhere else.
    for dtype in [DType::U8, DType::U32, DType::I16, DType::I32, DType::I64] {
        for &(name, op) in table {
            let case = Case { name, dtypes: All, range: Range::Small, operands: 1 };
            complaints.extend(check(case, |x| op(&x[0], dtype)));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
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
        // With so many channels they are products.
        ("conv2d_many", [2, 8, 9, 8], [16, 8, 3, 3], |x, w| x.conv2d(w, 1, 1, 1, 1)),
        ("conv2d_many_strided", [2, 8, 7, 9], [16, 8, 3, 2], |x, w| x.transpose(2, 3)?.conv2d(w, 2, 2, 2, 1)),
        // With so many places too they are done in tiles, which round even whole numbers: a bound of the sum, not of what
        // is left of it, is in the tests of the tiles.
        ("conv2d_tiles", [2, 16, 33, 30], [24, 16, 3, 3], |x, w| (x * 0.0625)?.conv2d(w, 1, 1, 1, 1)),
        ("conv2d_tiles_strided", [1, 16, 29, 40], [16, 16, 3, 3], |x, w| {
            (x * 0.0625)?.transpose(2, 3)?.conv2d(w, 2, 1, 1, 1)
        }),
        ("conv2d_tiles_groups", [1, 32, 24, 24], [48, 16, 3, 3], |x, w| (x * 0.0625)?.conv2d(w, 0, 1, 1, 2)),
        ("conv_transpose2d_tiles", [2, 16, 17, 18], [16, 24, 4, 4], |x, w| {
            (x * 0.0625)?.conv_transpose2d(w, 1, 0, 2, 1)
        }),
        ("conv2d_one_tap", [2, 16, 5, 6], [24, 16, 1, 1], |x, w| x.conv2d(w, 0, 1, 1, 1)),
        ("conv_transpose2d_many", [2, 8, 5, 6], [8, 16, 4, 4], |x, w| x.conv_transpose2d(w, 1, 0, 2, 1)),
        ("conv_transpose2d_many_spread", [1, 8, 5, 6], [8, 16, 3, 3], |x, w| x.conv_transpose2d(w, 1, 1, 3, 2)),
        ("avg_pool2d", [2, 3, 8, 6], [1, 1, 1, 1], |x, _| x.avg_pool2d(2)),
        ("max_pool2d", [2, 3, 9, 7], [1, 1, 1, 1], |x, _| x.max_pool2d_with_stride(3, 2)),
        ("upsample_nearest2d", [2, 3, 4, 5], [1, 1, 1, 1], |x, _| x.upsample_nearest2d(7, 9)),
        ("upsample_bilinear2d", [1, 2, 4, 5], [1, 1, 1, 1], |x, _| x.upsample_bilinear2d(7, 9, false)),
        ("upsample_bilinear2d_corners", [1, 2, 4, 5], [1, 1, 1, 1], |x, _| x.upsample_bilinear2d(7, 9, true)),
        ("upsample_bilinear2d_with_scale", [1, 2, 4, 5], [1, 1, 1, 1], |x, _| {
            x.upsample_bilinear2d_with_scale(1.5, 2.5, false)
        }),
        ("interpolate2d", [2, 3, 4, 5], [1, 1, 1, 1], |x, _| x.interpolate2d(3, 2)),
        ("avg_pool2d_with_stride", [2, 3, 9, 7], [1, 1, 1, 1], |x, _| x.avg_pool2d_with_stride((3, 2), (2, 1))),
    ];
    for (name, x, w, op) in images {
        bench::check_shapes(name, &[x.to_vec(), w.to_vec()], 0.05, |t| op(&t[0], &t[1]));
    }
    let signals: &[(&str, [usize; 3], [usize; 3], Op)] = &[
        ("conv1d", [2, 4, 17], [6, 4, 3], |x, w| x.conv1d(w, 1, 1, 1, 1)),
        ("conv1d_stride", [1, 2, 20], [4, 2, 5], |x, w| x.conv1d(w, 2, 3, 1, 1)),
        ("conv_transpose1d", [1, 4, 9], [4, 3, 3], |x, w| x.conv_transpose1d(w, 0, 0, 2, 1, 1)),
        ("conv1d_many", [2, 8, 20], [16, 8, 3], |x, w| x.conv1d(w, 1, 1, 1, 1)),
        ("conv1d_tiles", [2, 32, 203], [32, 32, 3], |x, w| (x * 0.0625)?.conv1d(w, 1, 1, 1, 1)),
        ("upsample_nearest1d", [2, 3, 5], [1, 1, 1], |x, _| x.upsample_nearest1d(11)),
        ("interpolate1d", [2, 3, 5], [1, 1, 1], |x, _| x.interpolate1d(4)),
    ];
    for (name, x, w, op) in signals {
        bench::check_shapes(name, &[x.to_vec(), w.to_vec()], 0.05, |t| op(&t[0], &t[1]));
    }
}

/// Tensors made on the device.
#[test]
fn made_on_the_device() -> Result<()> {
    let rocm = Device::new_rocm(0)?;
    for dtype in bench::ALL {
        let make = |device: &Device| -> Result<Tensor> {
            let parts = [
                Tensor::zeros((5, 5), dtype, device)?,
                Tensor::ones((5, 5), dtype, device)?,
                Tensor::eye(5, dtype, device)?,
                Tensor::tril2(5, dtype, device)?,
                Tensor::triu2(5, dtype, device)?,
                Tensor::full(7u8, (5, 5), device)?.to_dtype(dtype)?,
                Tensor::arange(0u8, 25, device)?.to_dtype(dtype)?.reshape((5, 5))?,
                Tensor::arange_step(0i64, 75, 3, device)?.to_dtype(dtype)?.reshape((5, 5))?,
            ];
            Tensor::stack(&parts, 0)
        };
        bench::assert_close("made on the device", &make(&Device::Cpu)?, &make(&rocm)?, 0.);
    }
    Ok(())
}

/// Gradients of what slides a window.
#[test]
fn gradients_of_windows() -> Result<()> {
    type Op = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let table: &[(&str, &[usize], &[usize], Op)] = &[
        // One signal: the CPU's gradient of several is wrong, because its conv_transpose1d is.
        ("conv1d", &[1, 4, 9], &[6, 4, 3], |x, w| x.conv1d(w, 1, 2, 1, 1)),
        ("conv2d", &[2, 4, 7, 6], &[6, 4, 3, 3], |x, w| x.conv2d(w, 1, 1, 1, 1)),
        ("conv2d_stride", &[1, 2, 8, 8], &[4, 2, 3, 3], |x, w| x.conv2d(w, 1, 2, 1, 1)),
        ("conv_transpose2d", &[1, 4, 5, 5], &[4, 3, 3, 3], |x, w| x.conv_transpose2d(w, 1, 0, 1, 1)),
        ("conv2d_tiles", &[1, 16, 17, 18], &[16, 16, 3, 3], |x, w| (x * 0.0625)?.conv2d(w, 1, 1, 1, 1)),
        ("avg_pool2d", &[2, 3, 8, 6], &[1], |x, _| x.avg_pool2d(2)),
        ("max_pool2d", &[2, 3, 8, 6], &[1], |x, _| x.max_pool2d(2)),
        ("upsample_nearest2d", &[2, 3, 4, 5], &[1], |x, _| x.upsample_nearest2d(8, 10)),
    ];
    for &(name, x, w, op) in table {
        bench::check_gradients_of(name, &[x.to_vec(), w.to_vec()], Range::Any, |t| op(&t[0], &t[1]));
    }
    Ok(())
}

/// The device's memory holds what was put there, and its handles behave.
#[test]
fn there_and_back() -> Result<()> {
    let device = Device::new_rocm(0)?;
    assert!(device.is_rocm() && device.as_rocm_device().is_ok());
    assert!(Device::Cpu.as_rocm_device().is_err());
    for dtype in bench::ALL {
        let there = Tensor::arange(0u32, 60, &Device::Cpu)?.to_dtype(dtype)?.reshape((3, 4, 5))?;
        let back = there.to_device(&device)?.t()?.to_device(&Device::Cpu)?;
        bench::assert_close("there and back", &there.t()?, &back, 0.);
    }
    Ok(())
}
