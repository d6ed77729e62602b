//! Kernels written in Rust: saxpy, a product of matrices through tiles in shared memory, a softmax of rows, and a sort. rustc checks them,
//! they become HIP C++ when this file compiles, and they are compiled for the device at hand when the first one is launched.
//!
//!     cargo run --release --example 11-kernels-in-rust

use hip::{Buffer, LaunchConfig, Platform, Result, Stream};

#[hip::kernels]
mod kernels {
    /// Threads of a block where a block works on a row or a part.
    pub const BLOCK: usize = 256;
    /// The side of a tile.
    pub const TILE: usize = 16;

    /// y = a x + y, for two types.
    #[kernel(T = [f32, f64])]
    pub fn saxpy<T: Number>(a: T, x: &[T], y: &mut GlobalMut<T>) {
        let i = global_x();
        if i < y.len() {
            y[i] += a * x[i];
        }
    }

    /// c = a b: a block computes a tile of `c`, and reads each element of `a` and `b` once for all of its threads.
    #[kernel]
    pub fn matmul(a: &[f32], b: &[f32], c: &mut GlobalMut<f32>, rows: usize, inner: usize, columns: usize) {
        let mut left = Shared::<[[f32; TILE]; TILE]>::new();
        let mut right = Shared::<[[f32; TILE]; TILE]>::new();
        let (x, y) = (thread_x(), thread_y());
        let (row, column) = (block_y() * TILE + y, block_x() * TILE + x);
        let mut sum = 0.0;
        for first in (0..inner).step_by(TILE) {
            left[y][x] = if row < rows && first + x < inner { a[row * inner + first + x] } else { 0.0 };
            right[y][x] = if first + y < inner && column < columns { b[(first + y) * columns + column] } else { 0.0 };
            barrier();
            for k in 0..TILE {
                sum += left[y][k] * right[k][x];
            }
            barrier();
        }
        if row < rows && column < columns {
            c[row * columns + column] = sum;
        }
    }

    /// What all threads of the block have, as one: the largest, or the sum.
    #[device]
    fn reduce(scratch: &mut Shared<[f32; BLOCK]>, mine: f32, largest: bool) -> f32 {
        let t = thread_x();
        scratch[t] = mine;
        barrier();
        let mut width = BLOCK / 2;
        while width > 0 {
            if t < width {
                let other = scratch[t + width];
                scratch[t] = if largest { scratch[t].max(other) } else { scratch[t] + other };
            }
            barrier();
            width /= 2;
        }
        let all = scratch[0];
        // Before the memory is used again.
        barrier();
        all
    }

    /// The softmax of each row: a block for a row.
    #[kernel]
    pub fn softmax(x: &[f32], y: &mut GlobalMut<f32>, columns: usize) {
        let mut scratch = Shared::<[f32; BLOCK]>::new();
        let start = block_x() * columns;
        let mut largest = f32::NEG_INFINITY;
        for i in (thread_x()..columns).step_by(BLOCK) {
            largest = largest.max(x[start + i]);
        }
        let largest = reduce(&mut scratch, largest, true);
        let mut sum = 0.0;
        for i in (thread_x()..columns).step_by(BLOCK) {
            sum += (x[start + i] - largest).exp();
        }
        let sum = reduce(&mut scratch, sum, false);
        for i in (thread_x()..columns).step_by(BLOCK) {
            y[start + i] = (x[start + i] - largest).exp() / sum;
        }
    }

    /// One step of a bitonic sort: every pair of keys whose places differ in the bit `distance` is put in order, ascending or descending by
    /// the bit `size` of its place.
    #[kernel]
    pub fn bitonic_step(keys: &mut GlobalMut<u32>, distance: usize, size: usize) {
        let i = global_x();
        let other = i ^ distance;
        if i < other && other < keys.len() {
            let (a, b) = (keys[i], keys[other]);
            let ascending = i & size == 0;
            if (a > b) == ascending {
                keys[i] = b;
                keys[other] = a;
            }
        }
    }
}

/// Sorts keys, ascending. Their number must be a power of two.
fn sort(stream: &Stream, keys: &mut Buffer<u32>) -> Result<()> {
    let count = keys.len();
    let config = LaunchConfig::for_elements(count, kernels::BLOCK as u32);
    let mut size = 2;
    while size <= count {
        let mut distance = size / 2;
        while distance > 0 {
            kernels::bitonic_step(stream, config, &mut *keys, distance, size)?;
            distance /= 2;
        }
        size *= 2;
    }
    Ok(())
}

fn main() -> Result<()> {
    let stream = Platform::detect()?.device(0)?.new_stream()?;

    let x: Vec<f32> = (0..1000).map(|n| n as f32).collect();
    let mut y = stream.upload(&vec![1.0f32; 1000])?;
    kernels::saxpy(&stream, LaunchConfig::for_elements(1000, 256), 2.0, &stream.upload(&x)?, &mut y)?;
    println!("saxpy: {:?} .. {:?}", &y.to_vec()?[..3], &y.to_vec()?[997..]);

    let (rows, inner, columns) = (33usize, 50usize, 20usize);
    let a: Vec<f32> = (0..rows * inner).map(|n| (n % 7) as f32).collect();
    let b: Vec<f32> = (0..inner * columns).map(|n| (n % 5) as f32).collect();
    let mut c = stream.zeros(rows * columns)?;
    let tiles = |n: usize| n.div_ceil(kernels::TILE) as u32;
    let config = LaunchConfig::new((tiles(columns), tiles(rows)), (kernels::TILE as u32, kernels::TILE as u32));
    kernels::matmul(&stream, config, &stream.upload(&a)?, &stream.upload(&b)?, &mut c, rows, inner, columns)?;
    let product = c.to_vec()?;
    let expected = |r: usize, c: usize| (0..inner).map(|k| a[r * inner + k] * b[k * columns + c]).sum::<f32>();
    let wrong = (0..rows * columns).filter(|n| product[*n] != expected(n / columns, n % columns)).count();
    println!("matmul: {rows} x {inner} by {inner} x {columns}, {wrong} elements differ from the CPU");

    let mut probabilities = stream.zeros(4 * 1000)?;
    let logits = stream.upload(&(0..4000).map(|n| (n * 37 % 100) as f32 * 0.05).collect::<Vec<f32>>())?;
    kernels::softmax(&stream, LaunchConfig::new(4, kernels::BLOCK as u32), &logits, &mut probabilities, 1000)?;
    let sums: Vec<String> =
        probabilities.to_vec()?.chunks(1000).map(|row| format!("{:.4}", row.iter().sum::<f32>())).collect();
    println!("softmax: rows sum to {}", sums.join(", "));

    let keys: Vec<u32> = (0..4096u32).map(|n| n.wrapping_mul(0x9e37_79b9)).collect();
    let mut buffer = stream.upload(&keys)?;
    sort(&stream, &mut buffer)?;
    let mut expected = keys;
    expected.sort_unstable();
    println!("sort: 4096 keys, the same as the CPU's: {}", buffer.to_vec()? == expected);

    // An index out of range touches nothing, and whoever waits next is told.
    kernels::softmax(&stream, LaunchConfig::new(5, kernels::BLOCK as u32), &logits, &mut probabilities, 1000)?;
    if let Err(error) = stream.synchronize() {
        println!("five rows of four: {error}");
    }
    Ok(())
}
