//! Products with quantized weights, for each type and several batches, and their dequantization. Weights are cold: each turn
//! takes the next of several copies, which together exceed the caches, as the layers of a model do.

use super::super::case::{random, Cases, Work};
use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor};
use std::borrow::Cow;

/// The types, as they are called in files.
pub const TYPES: [(GgmlDType, &str); 10] = [
    (GgmlDType::Q4_0, "Q4_0"),
    (GgmlDType::Q4_1, "Q4_1"),
    (GgmlDType::Q5_0, "Q5_0"),
    (GgmlDType::Q5_1, "Q5_1"),
    (GgmlDType::Q8_0, "Q8_0"),
    (GgmlDType::Q2K, "Q2K"),
    (GgmlDType::Q3K, "Q3K"),
    (GgmlDType::Q4K, "Q4K"),
    (GgmlDType::Q5K, "Q5K"),
    (GgmlDType::Q6K, "Q6K"),
];

pub fn add_to(cases: &mut Cases) {
    let [rows, columns] = cases.size.choose([14336, 4096], [512, 256], [1024, 2048]);
    // More than any last-level cache of a GPU so far, all copies together.
    let cold = cases.size.pick(300 << 20, 1 << 18);
    for (dtype, name) in TYPES {
        let bytes = rows * columns / dtype.block_size() * dtype.type_size();
        for batch in [1, 8, 64, 512] {
            let moved = bytes + 4 * batch * (rows + columns);
            let work = Work::new(moved, 2 * batch * rows * columns).over(batch * rows * columns);
            cases.op("quantized", format!("{name} matmul {rows}x{columns}, batch {batch}"), work, move |device| {
                let copies = (cold / bytes).clamp(2, 16);
                let blocks = blocks(dtype, rows, columns)?;
                let copy = |_| {
                    let storage = QStorage::from_data(Cow::Borrowed(&blocks), device, dtype)?;
                    QMatMul::from_qtensor(QTensor::new(storage, (rows, columns))?)
                };
                let weights = (0..copies).map(copy).collect::<Result<Vec<_>>>()?;
                let x = random(device, DType::F32, (batch, columns))?;
                let mut turn = 0;
                Ok(move || {
                    turn += 1;
                    weights[turn % weights.len()].forward(&x)
                })
            });
        }
    }
    let side = cases.size.choose(4096, 256, 1024);
    for (dtype, name) in TYPES {
        let bytes = side * side / dtype.block_size() * dtype.type_size();
        let work = Work::new(bytes + 4 * side * side, 0).over(side * side);
        cases.op("dequantize", format!("dequantize {name} {side}x{side} to f32"), work, move |device| {
            let weights = weights(device, dtype, side, side)?;
            let device = device.clone();
            Ok(move || weights.dequantize(&device))
        });
    }
}

/// Random weights.
pub fn weights(device: &Device, dtype: GgmlDType, rows: usize, columns: usize) -> Result<QTensor> {
    let storage = QStorage::from_data(Cow::Owned(blocks(dtype, rows, columns)?), device, dtype)?;
    QTensor::new(storage, (rows, columns))
}

/// Their bytes. A few rows are really quantized and repeated: quantizing everything would take longer than measuring.
fn blocks(dtype: GgmlDType, rows: usize, columns: usize) -> Result<Vec<u8>> {
    let few = rows.min(32);
    let values = Tensor::randn(0f32, 0.02, (few, columns), &Device::Cpu)?;
    let pattern = QTensor::quantize(&values, dtype)?.data()?.into_owned();
    let wanted = pattern.len() / few * rows;
    Ok(pattern.into_iter().cycle().take(wanted).collect())
}
