//! Products with quantized weights, and the way back to floats.

use super::QRocmStorage;
use crate::rocm_backend::RocmError;
use crate::{Layout, Result, RocmStorage, Shape};

impl QRocmStorage {
    /// The elements as f32.
    pub fn dequantize(&self, _elem_count: usize) -> Result<RocmStorage> {
        Err(RocmError::NotThereYet { op: "dequantize" }.into())
    }

    /// The elements as f16.
    pub fn dequantize_f16(&self, _elem_count: usize) -> Result<RocmStorage> {
        Err(RocmError::NotThereYet { op: "dequantize_f16" }.into())
    }

    /// Rows of a quantized table, dequantized.
    pub fn embedding(&self, _rows: usize, _hidden: usize, _ids: &RocmStorage, _ids_l: &Layout) -> Result<RocmStorage> {
        Err(RocmError::NotThereYet { op: "quantized embedding" }.into())
    }

    /// The product of a tensor with the transposed weights.
    pub fn fwd(&self, _shape: &Shape, _x: &RocmStorage, _x_l: &Layout) -> Result<(RocmStorage, Shape)> {
        Err(RocmError::NotThereYet { op: "quantized matmul" }.into())
    }

    /// For each row, the product with the weights of the experts that its ids name.
    pub fn indexed_moe_forward(
        &self,
        _shape: &Shape,
        _x: &RocmStorage,
        _x_l: &Layout,
        _ids: &RocmStorage,
        _ids_l: &Layout,
    ) -> Result<(RocmStorage, Shape)> {
        Err(RocmError::NotThereYet { op: "indexed_moe_forward" }.into())
    }
}
