//! Products with quantized weights, and the way back to floats. Weights stay in their blocks; activations are rounded to
//! bytes by the kernels, which say how closely.

use super::QRocmStorage;
use crate::backend::BackendStorage;
use crate::quantized::{GgmlDType, QStorage, QTensor};
use crate::rocm_backend::kernels::{BlockFormat, Blocks, Operand, ProductPlan, Routing};
use crate::rocm_backend::WrapErr;
use crate::{DType, Layout, Result, RocmStorage, Shape, Storage, Tensor};

/// The kernels' name for a format.
pub(super) fn block_format(dtype: GgmlDType) -> BlockFormat {
    match dtype {
        GgmlDType::F32 => BlockFormat::F32,
        GgmlDType::F16 => BlockFormat::F16,
        GgmlDType::BF16 => BlockFormat::BF16,
        GgmlDType::Q4_0 => BlockFormat::Q4_0,
        GgmlDType::Q4_1 => BlockFormat::Q4_1,
        GgmlDType::Q5_0 => BlockFormat::Q5_0,
        GgmlDType::Q5_1 => BlockFormat::Q5_1,
        GgmlDType::Q8_0 => BlockFormat::Q8_0,
        GgmlDType::Q8_1 => BlockFormat::Q8_1,
        GgmlDType::Q2K => BlockFormat::Q2K,
        GgmlDType::Q3K => BlockFormat::Q3K,
        GgmlDType::Q4K => BlockFormat::Q4K,
        GgmlDType::Q5K => BlockFormat::Q5K,
        GgmlDType::Q6K => BlockFormat::Q6K,
        GgmlDType::Q8K => BlockFormat::Q8K,
    }
}

impl QRocmStorage {
    pub(super) fn matrix(&self, rows: usize, columns: usize) -> Result<Blocks<'_>> {
        Blocks::new(&self.blocks, block_format(self.dtype), rows, columns).w()
    }

    /// The elements as f32.
    pub fn dequantize(&self, elem_count: usize) -> Result<RocmStorage> {
        self.dequantize_as(DType::F32, elem_count)
    }

    /// The elements as f16.
    pub fn dequantize_f16(&self, elem_count: usize) -> Result<RocmStorage> {
        self.dequantize_as(DType::F16, elem_count)
    }

    fn dequantize_as(&self, dtype: DType, elem_count: usize) -> Result<RocmStorage> {
        // Rows are blocks here: a kernel counts the elements of a row in 31 bits.
        let block = self.dtype.block_size();
        let weights = self.matrix(elem_count / block, block)?;
        RocmStorage::filled(&self.device, dtype, elem_count, "dequantize", |out| {
            self.device.kernels().dequantize(&weights, out)
        })
    }

    /// Rows of a table, dequantized: one for each id.
    pub fn embedding(&self, rows: usize, hidden: usize, ids: &RocmStorage, ids_l: &Layout) -> Result<RocmStorage> {
        let op = "quantized embedding";
        let ids = ids.on(&self.device)?;
        let (table, ids) = (self.matrix(rows, hidden)?, ids.operand(ids_l, op)?);
        RocmStorage::filled(&self.device, DType::F32, ids_l.shape().elem_count() * hidden, op, |out| {
            self.device.kernels().dequantize_rows(&table, &ids, out)
        })
    }

    /// The product of a tensor with the transposed weights, in the tensor's dtype.
    pub fn fwd(&self, shape: &Shape, x: &RocmStorage, x_l: &Layout) -> Result<(RocmStorage, Shape)> {
        let op = "quantized matmul";
        let (rows, columns) = shape.dims2()?;
        let mut out_dims = x_l.dims().to_vec();
        match out_dims.last_mut() {
            Some(last) if *last == columns => *last = rows,
            _ => crate::bail!("input tensor {x_l:?} incompatible with {shape:?}"),
        }
        let x = x.on(&self.device)?;
        let (weights, activations) = (self.matrix(rows, columns)?, x.operand(x_l, op)?);
        let out_shape = Shape::from(out_dims);
        let count = x_l.dims().iter().rev().skip(1).product();
        let mut blas = None;
        let plan = self.device.kernels().plan_product(&weights, count, || {
            blas = Self::blas_takes(&weights, count).then(|| self.device.rocblas()).flatten();
            blas.is_some()
        });
        let product = match (plan, blas) {
            (ProductPlan::Widened, Some(blas)) => self.widened_product(blas, &weights, &activations, x.dtype())?,
            _ => RocmStorage::filled(&self.device, x.dtype(), out_shape.elem_count(), op, |out| {
                self.device.kernels().quantized_matmul_by(plan, &weights, &activations, out)
            })?,
        };
        Ok((product, out_shape))
    }

    /// For each row of ids, the products with the experts they name: (batch, 1 or top, k) and (batch, top) make
    /// (batch, top, n).
    pub fn indexed_moe_forward(
        &self,
        shape: &Shape,
        x: &RocmStorage,
        x_l: &Layout,
        ids: &RocmStorage,
        ids_l: &Layout,
    ) -> Result<(RocmStorage, Shape)> {
        let op = "indexed_moe_forward";
        let (_, rows, _) = shape.dims3()?;
        let (batch, inputs, _) = x_l.shape().dims3()?;
        let (_, top) = ids_l.shape().dims2()?;
        let (x, ids) = (x.on(&self.device)?, ids.on(&self.device)?);
        // Either every expert of a token has an input of its own, or they all share one.
        let share = if inputs == 1 { top } else { 1 };
        let routing = Routing { experts: ids.operand(ids_l, op)?, slots: None, weights: None, share };
        let product = self.experts(shape, &x.operand(x_l, op)?, &routing, op)?;
        Ok((product, Shape::from((batch, top, rows))))
    }

    fn experts(
        &self,
        shape: &Shape,
        activations: &Operand<'_>,
        routing: &Routing<'_>,
        op: &'static str,
    ) -> Result<RocmStorage> {
        let (experts, rows, columns) = shape.dims3()?;
        let weights = self.matrix(experts * rows, columns)?;
        RocmStorage::filled(&self.device, DType::F32, routing.experts.count() * rows, op, |out| {
            self.device.kernels().quantized_experts(&weights, experts, activations, routing, out)
        })
    }
}

/// A mixture of experts, routed by pairs of a slot and an expert. Slot `s` multiplies row `s / share` of the input.
pub struct RoutedInput<'a> {
    /// (rows, k).
    pub input: &'a Tensor,
    /// The expert of each pair, u32.
    pub experts: &'a Tensor,
    /// The slot of each pair, u32: a permutation.
    pub slots: &'a Tensor,
    /// What each slot's result is multiplied by, f32.
    pub factors: Option<&'a Tensor>,
    /// How many neighbouring slots share a row of the input.
    pub share: usize,
}

impl QTensor {
    /// The products of a mixture of experts on the ROCm device, f32, one row for each slot. The weights are
    /// (experts, n, k).
    pub fn rocm_experts(&self, routed: &RoutedInput<'_>) -> Result<Tensor> {
        let op = "moe_gemm_gguf";
        let QStorage::Cuda(weights) = &self.storage else {
            crate::bail!("{op}: the weights are on {:?}, not on a ROCm device", self.device().location())
        };
        let tensors = [Some(routed.input), Some(routed.experts), Some(routed.slots), routed.factors];
        let tensors = tensors.map(|tensor| tensor.map(Tensor::contiguous).transpose());
        let [input, experts, slots, factors] = tensors;
        let (input, experts, slots, factors) = (input?, experts?, slots?, factors?);
        let guards = [&input, &experts, &slots, &factors].map(|tensor| tensor.as_ref().map(Tensor::storage_and_layout));
        let mut operands = [None; 4];
        for (operand, guard) in operands.iter_mut().zip(&guards) {
            let Some((storage, layout)) = guard else { continue };
            match &**storage {
                Storage::Cuda(storage) => *operand = Some(storage.operand(layout, op)?),
                _ => crate::bail!("{op}: all tensors must be on the ROCm device of the weights"),
            }
        }
        let [Some(input), Some(experts), slots, factors] = operands else {
            crate::bail!("{op}: input and experts are missing")
        };
        let routing = Routing { experts, slots, weights: factors, share: routed.share };
        let product = weights.experts(&self.shape, &input, &routing, op)?;
        let (_, rows, _) = self.shape.dims3()?;
        let shape = (routing.experts.count(), rows);
        Ok(crate::tensor::from_storage(Storage::Cuda(product), shape, crate::op::BackpropOp::none(), false))
    }
}
