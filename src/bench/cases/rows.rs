//! Operations that know whole rows: reductions along either dimension, softmax, norms; with ordinary rows, with few long
//! ones and with many short ones.

use super::super::case::{label, random, Cases, Work};
use candle_core::{DType, Result, Tensor, D};
use candle_nn::ops;

type Unary = fn(&Tensor) -> Result<Tensor>;

pub fn add_to(cases: &mut Cases) {
    let square = cases.size.choose([4096, 4096], [256, 1024], [256, 4096]);
    let few = cases.size.choose([8, 8 << 20], [4, 1 << 17], [2, 1 << 20]);
    let many = cases.size.choose([1 << 20, 32], [1 << 13, 32], [1 << 15, 32]);
    let vocabulary = cases.size.choose([32, 128256], [4, 32064], [4, 128256]);

    for (what, dtype, dims, op) in [
        ("sum of rows", DType::F32, square, last as Unary),
        ("sum of rows", DType::BF16, square, last),
        ("sum of rows", DType::F16, few, last),
        ("sum of rows", DType::F32, many, last),
        ("sum of columns", DType::F32, square, |x| x.sum(0)),
        ("sum of columns", DType::F16, many, |x| x.sum(0)),
        ("max of rows", DType::BF16, square, |x| x.max(D::Minus1)),
        ("argmax of rows", DType::F32, vocabulary, |x| x.argmax(D::Minus1)),
        ("sum of all", DType::F32, few, Tensor::sum_all),
    ] {
        let count: usize = dims.iter().product();
        let work = Work::new(count * dtype.size_in_bytes(), count).over(count);
        row(cases, "reduce", what, dtype, dims, work, op);
    }
    for (dtype, dims) in
        [(DType::F16, square), (DType::F32, square), (DType::F32, vocabulary), (DType::F16, few), (DType::F32, many)]
    {
        let count: usize = dims.iter().product();
        let work = Work::new(2 * count * dtype.size_in_bytes(), 4 * count).over(count);
        row(cases, "softmax and norms", "softmax", dtype, dims, work, ops::softmax_last_dim);
    }
    let short = cases.size.choose([1 << 18, 128], [1 << 11, 128], [1 << 13, 128]);
    let long = cases.size.choose([64, 1 << 18], [2, 1 << 15], [4, 1 << 18]);
    for (dtype, dims) in [(DType::BF16, square), (DType::F32, square), (DType::F16, short), (DType::F16, long)] {
        norms(cases, dtype, dims);
    }
}

fn last(x: &Tensor) -> Result<Tensor> {
    x.sum(D::Minus1)
}

fn row(
    cases: &mut Cases,
    family: &'static str,
    what: &str,
    dtype: DType,
    dims: [usize; 2],
    work: Work,
    op: impl Fn(&Tensor) -> Result<Tensor> + Copy + 'static,
) {
    cases.op(family, format!("{what} {}", label(dtype, &dims)), work, move |device| {
        let x = random(device, dtype, dims.as_slice())?;
        Ok(move || op(&x))
    });
}

fn norms(cases: &mut Cases, dtype: DType, dims: [usize; 2]) {
    let count: usize = dims.iter().product();
    let work = |operations: usize| Work::new(2 * count * dtype.size_in_bytes(), operations * count).over(count);
    cases.op("softmax and norms", format!("rms_norm {}", label(dtype, &dims)), work(4), move |device| {
        let (x, alpha) = (random(device, dtype, dims.as_slice())?, random(device, dtype, dims[1])?);
        Ok(move || ops::rms_norm(&x, &alpha, 1e-5))
    });
    cases.op("softmax and norms", format!("layer_norm {}", label(dtype, &dims)), work(7), move |device| {
        let x = random(device, dtype, dims.as_slice())?;
        let (alpha, beta) = (random(device, dtype, dims[1])?, random(device, dtype, dims[1])?);
        Ok(move || ops::layer_norm(&x, &alpha, &beta, 1e-5))
    });
}
