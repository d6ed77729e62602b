//! Quantized weights: every format to numbers, rows by id, products with few and many rows, and back to blocks.

use super::{Operations, MODEL_FLOATS};
use crate::selftest::compare::{Comparison, Tolerance};
use crate::selftest::number::{elements, value, Random, Values};
use crate::selftest::operand::Tensor;
use candle_rocm_kernels::{BlockFormat, Blocks, DType, Kernels};
use hip::Result;

pub fn add(list: &mut Operations) {
    for format in BlockFormat::ALL {
        list.add(format!("quantized/dequantize {format}"), move |c| dequantize(c, format));
        list.add(format!("quantized/matmul {format}"), move |c| matmul(c, format));
        if !format.is_plain() && Kernels::can_quantize(format) {
            list.add(format!("quantized/quantize {format}"), move |c| quantize(c, format));
        }
    }
}

/// Blocks of random bits, with scales that are ordinary numbers.
fn blocks(random: &mut Random, format: BlockFormat, count: usize) -> Vec<u8> {
    use BlockFormat::*;
    // Where a block has its scales, which are halves; in three formats they, or all weights, are of another type.
    let halves: &[usize] = match format {
        F32 | BF16 | Q8K => &[],
        F16 | Q4_0 | Q5_0 | Q8_0 => &[0],
        Q4_1 | Q5_1 | Q8_1 | Q4K | Q5K => &[0, 2],
        Q2K => &[80, 82],
        Q3K => &[108],
        Q6K => &[208],
    };
    let mut bytes: Vec<u8> = (0..count * format.block_bytes()).map(|_| random.next() as u8).collect();
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        for &at in halves {
            let bits = super::super::number::draw(random, DType::F16, Values::Plain);
            // Of a sixty-fourth of that: six less in the exponent.
            block[at..at + 2].copy_from_slice(&(bits as u16 - (6 << 10)).to_le_bytes());
        }
        match format {
            BF16 => {
                let bits = super::super::number::draw(random, DType::BF16, Values::Plain) as u16;
                block.copy_from_slice(&bits.to_le_bytes());
            }
            F32 | Q8K => {
                let bits = super::super::number::draw(random, DType::F32, Values::Plain) as u32;
                block[..4].copy_from_slice(&(bits - (6 << 23)).to_le_bytes());
            }
            _ => {}
        }
    }
    bytes
}

/// A row's length: whole blocks.
fn columns(c: &mut Comparison<'_>, format: BlockFormat) -> usize {
    format.block_size().max(32) * c.random.between(1, if format.block_size() == 256 { 5 } else { 20 })
}

fn dequantize(c: &mut Comparison<'_>, format: BlockFormat) {
    for to in MODEL_FLOATS {
        for _ in 0..c.turns {
            let (rows, columns) = (c.random.between(1, 9), columns(c, format));
            let bytes = blocks(&mut c.random, format, rows * columns / format.block_size());
            let what = format!("{rows} x {columns} {format} to {to}");
            c.compare_at(0, &what, to, rows * columns, Tolerance::Exact, |side, out| {
                let memory = side.stream.upload(&bytes)?;
                side.kernels.dequantize(&Blocks::new(&memory, format, rows, columns)?, out)
            });
            let ids = Tensor::dense(&mut c.random, DType::U32, Values::Below(rows), &[5]);
            c.compare_at(0, &format!("5 rows of {what}"), to, 5 * columns, Tolerance::Exact, |side, out| {
                let memory = side.stream.upload(&bytes)?;
                let weights = Blocks::new(&memory, format, rows, columns)?;
                side.kernels.dequantize_rows(&weights, &side.put(&ids)?.operand()?, out)
            });
        }
    }
}

fn matmul(c: &mut Comparison<'_>, format: BlockFormat) {
    for (turn, batch) in [1, 2, 5, 8, 17, 33].into_iter().cycle().take(6 * c.turns).enumerate() {
        let dtype = MODEL_FLOATS[turn % 3];
        let (rows, columns) = (c.random.between(1, 70), columns(c, format));
        let bytes = blocks(&mut c.random, format, rows * columns / format.block_size());
        let input = Tensor::dense(&mut c.random, dtype, Values::Plain, &[batch, columns]);
        let largest = match magnitudes(c, format, rows, columns, &bytes) {
            Ok(largest) => largest,
            Err(error) => return c.refuse(&format!("weights of {format}"), &error),
        };
        // Activations are rounded to 127 steps, here of at most four. Where two devices round one to different sides, a product
        // is off by a step; formats whose plans round more of them together may have all off by one.
        let step = 4.0 / 127.0;
        let off = match format {
            _ if format.is_plain() => 0.0,
            BlockFormat::Q2K | BlockFormat::Q3K => step * largest.sum,
            _ => 4.0 * step * largest.one,
        };
        let tolerance = Tolerance::of_sum(dtype, columns, 4.0 * largest.sum).plus(off);
        let what = format!("{input} times {format} {rows} x {columns}");
        c.compare(&what, dtype, batch * rows, tolerance, |side, out| {
            let memory = side.stream.upload(&bytes)?;
            let weights = Blocks::new(&memory, format, rows, columns)?;
            side.kernels.quantized_matmul(&weights, &side.put(&input)?.operand()?, out)
        });
    }
}

/// The largest weight, and the largest sum of magnitudes in a row.
struct Magnitudes {
    one: f64,
    sum: f64,
}

/// Of weights as the oracle reads them.
fn magnitudes(
    c: &Comparison<'_>,
    format: BlockFormat,
    rows: usize,
    columns: usize,
    bytes: &[u8],
) -> Result<Magnitudes> {
    let memory = c.oracle.stream.upload(bytes)?;
    let weights = Blocks::new(&memory, format, rows, columns)?;
    let numbers = c.oracle.written(DType::F32, 0, rows * columns, |out| c.oracle.kernels.dequantize(&weights, out))?;
    let numbers: Vec<f64> = elements(DType::F32, &numbers).map(|bits| value(DType::F32, bits).abs()).collect();
    let sums = numbers[..rows * columns].chunks(columns).map(|row| row.iter().sum::<f64>());
    let one = numbers[..rows * columns].iter().fold(0.0, |most: f64, &x| most.max(x));
    Ok(Magnitudes { one, sum: sums.fold(0.0, f64::max) })
}

fn quantize(c: &mut Comparison<'_>, format: BlockFormat) {
    for _ in 0..2 * c.turns {
        let count = columns(c, format) * c.random.between(1, 5);
        let input = Tensor::dense(&mut c.random, DType::F32, Values::Plain, &[count]);
        let bytes = count / format.block_size() * format.block_bytes();
        c.compare_at(0, &format!("{input} to {format}"), DType::U8, bytes, Tolerance::Exact, |side, out| {
            side.kernels.quantize(&side.put(&input)?.operand()?, format, out)
        });
    }
}
