//! What an operation costs the host, apart from the work itself: operations on tensors of a few elements, so that kernels have
//! nothing to do, on contiguous operands and on strided ones, in turns. Strided must cost at most 1.5 times contiguous.
//!
//! `cargo bench -p candle-core --bench host_time` prints a row for each operation and fails when a ratio is over. Each time is
//! the best of many rounds of submissions to an empty queue.

use candle_core::{DType, Device, Result, Tensor};
use std::time::Instant;

const LIMIT: f64 = 1.5;
const ROUNDS: usize = 400;
const CALLS: usize = 32;

type Op = fn(&Operands) -> Result<Tensor>;

/// The same small numbers in two layouts.
struct Operands {
    a: Tensor,
    b: Tensor,
    /// A row for all rows of the others.
    row: Tensor,
    condition: Tensor,
}

impl Operands {
    fn contiguous(device: &Device) -> Result<Self> {
        Ok(Self {
            a: Tensor::rand(0f32, 1., (4, 6), device)?,
            b: Tensor::rand(0f32, 1., (4, 6), device)?,
            row: Tensor::rand(0f32, 1., (1, 6), device)?,
            condition: Tensor::rand(0f32, 1., (4, 6), device)?.gt(0.5)?,
        })
    }

    /// Part of a transposed tensor: neither whole nor in order.
    fn strided(&self) -> Result<Self> {
        let turn = |tensor: &Tensor| -> Result<Tensor> {
            let spread = Tensor::cat(&[tensor, tensor], 1)?.t()?.contiguous()?.t()?;
            spread.narrow(1, 2, 6)
        };
        Ok(Self { a: turn(&self.a)?, b: turn(&self.b)?, row: turn(&self.row)?, condition: turn(&self.condition)? })
    }
}

const TABLE: [(&str, Op); 10] = [
    ("add", |x| &x.a + &x.b),
    ("mul, broadcast row", |x| x.a.broadcast_mul(&x.row)),
    ("exp", |x| x.a.exp()),
    ("affine", |x| x.a.affine(2., 1.)),
    ("cast", |x| x.a.to_dtype(DType::F16)),
    ("comparison", |x| x.a.lt(&x.b)),
    ("where", |x| x.condition.where_cond(&x.a, &x.b)),
    ("copy", |x| x.a.force_contiguous()),
    ("sum", |x| x.a.sum(1)),
    ("largest", |x| x.a.max(0)),
];

/// Microseconds that a call takes until it is submitted.
fn submit(device: &Device, operands: &Operands, op: Op) -> Result<f64> {
    device.synchronize()?;
    let start = Instant::now();
    for _ in 0..CALLS {
        op(operands)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / CALLS as f64)
}

fn main() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let contiguous = Operands::contiguous(&device)?;
    let strided = contiguous.strided()?;
    println!("{:<20} {:>12} {:>9} {:>6}", "host time, us", "contiguous", "strided", "ratio");
    let mut over = Vec::new();
    for (name, op) in TABLE {
        let mut best = [f64::INFINITY; 2];
        for _ in 0..ROUNDS {
            for (best, operands) in best.iter_mut().zip([&contiguous, &strided]) {
                *best = best.min(submit(&device, operands, op)?);
            }
        }
        let ratio = best[1] / best[0];
        println!("{name:<20} {:>12.3} {:>9.3} {ratio:>6.2}", best[0], best[1]);
        if ratio > LIMIT {
            over.push(name);
        }
    }
    if over.is_empty() {
        return Ok(());
    }
    candle_core::bail!("strided operands cost more than {LIMIT} times the host time of contiguous ones: {over:?}")
}
