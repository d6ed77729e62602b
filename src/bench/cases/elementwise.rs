//! One element of the result from the same element of the operands: arithmetic, casts, choices, over contiguous operands and
//! over views of them; and the copy that everything else is measured by.

use super::super::case::{label, random, Cases, Work};
use candle_core::{DType, Device, Result, Tensor};

const M: usize = 1 << 20;

type Unary = fn(&Tensor) -> Result<Tensor>;
type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;

pub fn add_to(cases: &mut Cases) {
    let n64 = cases.size.choose(64 * M, M / 2, 2 * M);
    let n16 = cases.size.choose(16 * M, M / 4, M);
    let side = cases.size.choose(4096, 512, 1024);

    unary(cases, "copy", "copy", DType::F32, cases.size.choose(256 * M, M, 4 * M), Tensor::copy);

    binary(cases, "elementwise", "add", DType::BF16, n64, |a, b| a + b);
    binary(cases, "elementwise", "add", DType::F32, n64, |a, b| a + b);
    binary(cases, "elementwise", "mul", DType::F16, n16, |a, b| a * b);
    unary(cases, "elementwise", "gelu", DType::BF16, n16, Tensor::gelu);
    unary(cases, "elementwise", "silu", DType::F16, n16, Tensor::silu);
    unary(cases, "elementwise", "exp", DType::F32, n64, Tensor::exp);
    unary(cases, "elementwise", "affine", DType::BF16, n16, |x| x.affine(2., 1.));

    for (from, to, count) in [
        (DType::F32, DType::F16, n16),
        (DType::F16, DType::F32, n64),
        (DType::BF16, DType::F32, n16),
        (DType::F32, DType::BF16, n64),
        (DType::U32, DType::F32, n16),
        (DType::F32, DType::U8, n16),
    ] {
        cast(cases, from, to, count);
    }

    binary(cases, "choice", "lt", DType::F16, n16, |a, b| a.lt(b));
    binary(cases, "choice", "eq", DType::U32, n16, |a, b| a.eq(b));
    choose(cases, DType::F16, &[side, side]);
    choose(cases, DType::F32, &[n64]);

    views(cases, side);
    permuted(cases);
}

fn unary(cases: &mut Cases, family: &'static str, what: &str, dtype: DType, count: usize, op: Unary) {
    let work = Work::new(2 * count * dtype.size_in_bytes(), count).over(count);
    cases.op(family, format!("{what} {}", label(dtype, &[count])), work, move |device| {
        let x = random(device, dtype, count)?;
        Ok(move || op(&x))
    });
}

fn binary(cases: &mut Cases, family: &'static str, what: &str, dtype: DType, count: usize, op: Binary) {
    // A comparison writes bytes.
    let out = if family == "choice" { 1 } else { dtype.size_in_bytes() };
    let work = Work::new(count * (2 * dtype.size_in_bytes() + out), count).over(count);
    cases.op(family, format!("{what} {}", label(dtype, &[count])), work, move |device| {
        let (a, b) = (random(device, dtype, count)?, random(device, dtype, count)?);
        Ok(move || op(&a, &b))
    });
}

fn cast(cases: &mut Cases, from: DType, to: DType, count: usize) {
    let work = Work::new(count * (from.size_in_bytes() + to.size_in_bytes()), count).over(count);
    cases.op("cast", format!("cast {} to {}", label(from, &[count]), to.as_str()), work, move |device| {
        let x = random(device, from, count)?;
        Ok(move || x.to_dtype(to))
    });
}

fn choose(cases: &mut Cases, dtype: DType, dims: &[usize]) {
    let count: usize = dims.iter().product();
    let dims = dims.to_vec();
    let work = Work::new(count * (1 + 3 * dtype.size_in_bytes()), count).over(count);
    cases.op("choice", format!("where_cond {}", label(dtype, &dims)), work, move |device| {
        let condition = random(device, DType::F32, dims.as_slice())?.gt(0f32)?;
        let (yes, no) = (random(device, dtype, dims.as_slice())?, random(device, dtype, dims.as_slice())?);
        Ok(move || condition.where_cond(&yes, &no))
    });
}

/// Operands that are not contiguous, in both senses that matter: repeated, and in another order.
fn views(cases: &mut Cases, side: usize) {
    let square = [side, side];
    let count = side * side;
    let add = |what: &str, dtype: DType| format!("{what} {}", label(dtype, &square));
    let moved = |dtype: DType, operands: usize| Work::new(operands * count * dtype.size_in_bytes(), count).over(count);

    cases.op("strided", add("row broadcast add", DType::F32), moved(DType::F32, 2), move |device| {
        let (a, row) = (random(device, DType::F32, (side, side))?, random(device, DType::F32, side)?);
        Ok(move || a.broadcast_add(&row))
    });
    cases.op("strided", add("column broadcast add", DType::F32), moved(DType::F32, 2), move |device| {
        let (a, column) = (random(device, DType::F32, (side, side))?, random(device, DType::F32, (side, 1))?);
        Ok(move || a.broadcast_add(&column))
    });
    for dtype in [DType::F16, DType::F32] {
        cases.op("strided", add("add of a transposed", dtype), moved(dtype, 3), move |device| {
            let (a, b) = (random(device, dtype, (side, side))?, random(device, dtype, (side, side))?.t()?);
            Ok(move || &a + &b)
        });
        cases.op("strided", add("contiguous of a transposed", dtype), moved(dtype, 2), move |device| {
            let x = random(device, dtype, (side, side))?.t()?;
            Ok(move || x.contiguous())
        });
    }
    cases.op("strided", add("add of half the columns of", DType::F16), moved(DType::F16, 3), move |device| {
        let (a, b) = (random(device, DType::F16, (side, 2 * side))?, random(device, DType::F16, (side, side))?);
        let half = a.narrow(1, side / 2, side)?;
        Ok(move || &half + &b)
    });
}

fn permuted(cases: &mut Cases) {
    let heads = cases.size.choose([1, 32, 4096, 128], [1, 8, 128, 64], [1, 32, 256, 128]);
    let cube = cases.size.choose(64, 16, 32);
    let contiguous = |cases: &mut Cases, name: String, dtype: DType, dims: [usize; 4], view: Unary| {
        let count: usize = dims.iter().product();
        let work = Work::new(2 * count * dtype.size_in_bytes(), 0).over(count);
        cases.op("strided", name, work, move |device: &Device| {
            let x = view(&random(device, dtype, dims.as_slice())?)?;
            Ok(move || x.contiguous())
        });
    };
    let name = format!("contiguous of a transposed(1,2) {}", label(DType::F16, &heads));
    contiguous(cases, name, DType::F16, heads, |x| x.transpose(1, 2));
    let dims = [cube; 4];
    let name = format!("contiguous of a permuted(3,1,0,2) {}", label(DType::F32, &dims));
    contiguous(cases, name, DType::F32, dims, |x| x.permute((3, 1, 0, 2)));
    let name = format!("contiguous of a permuted(0,2,3,1) {}", label(DType::F16, &dims));
    contiguous(cases, name, DType::F16, dims, |x| x.permute((0, 2, 3, 1)));
}
