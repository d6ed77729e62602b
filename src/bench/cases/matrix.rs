//! Matrix products: large ones, a language model's, batched ones as in attention, and the product with a single row.

use super::super::case::{label, random, Cases, Work};
use candle_core::{DType, Result};

pub fn add_to(cases: &mut Cases) {
    let side = cases.size.choose(4096, 256, 1024);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        product(cases, dtype, 1, [side, side, side], false);
    }
    let (width, hidden) = cases.size.choose((4096, 14336), (256, 512), (2048, 1024));
    product(cases, DType::F16, 1, [512, width, hidden], true);
    product(cases, DType::F16, 1, [1, width, hidden], true);
    product(cases, DType::F32, 1, [1, width, hidden], true);
    let (batch, length, head) = cases.size.choose((32, 2048, 128), (4, 128, 32), (4, 512, 128));
    product(cases, DType::F16, batch, [length, head, length], true);
    product(cases, DType::F16, batch, [length, length, head], false);
}

/// `m x k` times `k x n`, the right factor as it is or as the transpose of `n x k`.
fn product(cases: &mut Cases, dtype: DType, batch: usize, [m, k, n]: [usize; 3], transposed: bool) {
    let bytes = batch * (m * k + k * n + m * n) * dtype.size_in_bytes();
    let times = if transposed { "t" } else { "" };
    let batches = if batch == 1 { String::new() } else { format!("{batch} of ") };
    let name = format!("matmul {batches}{} by {k}x{n}{times}", label(dtype, &[m, k]));
    cases.op("matmul", name, Work::new(bytes, 2 * batch * m * k * n).over(batch * m * k * n), move |device| {
        let left = random(device, dtype, (batch, m, k))?;
        let right = if transposed {
            random(device, dtype, (batch, n, k))?.transpose(1, 2)?
        } else {
            random(device, dtype, (batch, k, n))?
        };
        let (left, right) = if batch == 1 { (left.squeeze(0)?, right.squeeze(0)?) } else { (left, right) };
        Ok(move || -> Result<_> { left.matmul(&right) })
    });
}
