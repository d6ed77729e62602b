//! Products with many activations: the weights become bf16 in memory of the pool, a panel of rows at a time, and the BLAS
//! multiplies, adding up in f32. bf16 has the range of f32, so neither large weights nor large activations need a scale.
//!
//! Both factors of a term are rounded to eight bits, so the result is within `2^-7 * sum(|weight * activation|)` of the exact one,
//! and a few units in the last place of an f32 sum beyond that. Such errors fall either way; added up they come to about half
//! of what activations in bytes cost (the other kernels, and Candle on the CPU).

use super::QRocmStorage;
use crate::rocm_backend::hip::{self, Buffer};
use crate::rocm_backend::kernels::{Blocks, DType as Dtype, Operand, Output};
use crate::{DType, Layout, Result, RocmStorage};
use rocm_libraries::blas::{Blas, Element, Gemm, Matrix};

/// The bytes of weights in bf16 at a time. Nearly every matrix fits, and the pool does not hold on to more than this.
const PANEL_BYTES: usize = 256 << 20;
/// A panel begins at a multiple of this row: there its blocks are aligned in every format.
const PANEL_ROWS: usize = 16;

impl QRocmStorage {
    /// Whether a BLAS, which counts in 31 bits, takes the sizes of a product.
    pub(super) fn blas_takes(weights: &Blocks<'_>, count: usize) -> bool {
        [count, weights.rows(), weights.columns()].into_iter().all(|size| i32::try_from(size).is_ok())
    }

    /// The product in `dtype`.
    pub(super) fn widened_product(
        &self,
        blas: &Blas,
        weights: &Blocks<'_>,
        activations: &Operand<'_>,
        dtype: DType,
    ) -> Result<RocmStorage> {
        let op = "quantized matmul";
        let count = activations.count() / weights.columns().max(1);
        // No BLAS makes f16 of bf16: that result takes the way over f32.
        let (result, made) = match dtype {
            DType::BF16 => (Element::BF16, DType::BF16),
            _ => (Element::F32, DType::F32),
        };
        let elements = count * weights.rows();
        let product = RocmStorage::filled(&self.device, made, elements, op, |out| {
            self.multiply_widened(blas, weights, activations, result, out, PANEL_BYTES)
        })?;
        if made == dtype {
            return Ok(product);
        }
        let layout = Layout::contiguous(elements);
        let wide = product.operand(&layout, op)?;
        RocmStorage::filled(&self.device, dtype, elements, op, |out| self.device.kernels().cast(&wide, out))
    }

    fn multiply_widened(
        &self,
        blas: &Blas,
        weights: &Blocks<'_>,
        activations: &Operand<'_>,
        result: Element,
        out: &mut Output<'_>,
        panel_bytes: usize,
    ) -> hip::Result<()> {
        let (rows, columns) = (weights.rows(), weights.columns());
        let (_made, left) = self.as_factor(activations)?;
        let panel = (panel_bytes / (2 * columns)).max(1).next_multiple_of(PANEL_ROWS).min(rows);
        let mut right = self.device.raw_stream().alloc::<u8>(2 * panel * columns)?;
        let matrix = |address: u64, row_stride: usize, column_stride: usize| Matrix {
            address,
            row_stride,
            column_stride,
            batch_stride: 0,
        };
        for first in (0..rows).step_by(panel) {
            let part = panel.min(rows - first);
            let mut widened = Output::new(&mut right, Dtype::BF16, 0, part * columns)?;
            self.device.kernels().dequantize(&weights.panel(first, part)?, &mut widened)?;
            let product = Gemm {
                element: Element::BF16,
                result,
                m: activations.count() / columns,
                n: part,
                k: columns,
                batch: 1,
                a: matrix(left, columns, 1),
                b: matrix(widened.ptr().address(), 1, columns),
                c: matrix(out.ptr().address() + (first * out.dtype().size()) as u64, rows, 1),
            };
            // SAFETY: the factors hold m and n rows of k elements in bf16, the result m rows of `rows` elements, of which the
            // product writes `part` from `first` on; all belong to the stream that it is queued on.
            unsafe { blas.gemm(&product)? };
        }
        Ok(())
    }

    /// The address of the activations in contiguous bf16, and their memory where they were not that already.
    fn as_factor(&self, activations: &Operand<'_>) -> hip::Result<(Option<Buffer<u8>>, u64)> {
        if activations.dtype() == Dtype::BF16 && activations.is_contiguous() {
            return Ok((None, activations.ptr().address()));
        }
        let count = activations.count();
        let mut memory = self.device.raw_stream().alloc::<u8>(2 * count)?;
        self.device.kernels().cast(activations, &mut Output::new(&mut memory, Dtype::BF16, 0, count)?)?;
        let address = memory.ptr().address();
        Ok((Some(memory), address))
    }
}

#[cfg(test)]
mod tests {
    use crate::quantized::{GgmlDType, QStorage, QTensor};
    use crate::rocm_backend::kernels::{DType as Dtype, Output, Planning};
    use crate::{DType, Device, Module, Result, Storage, Tensor};
    use rocm_libraries::blas::Element;

    /// Fails where an element is further from the exact product than rounding both factors, and the result, explains.
    fn assert_within_bound(weights: &Tensor, activations: &Tensor, product: &Tensor) -> Result<()> {
        let exact = |tensor: &Tensor| tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64);
        let (w, x) = (exact(weights)?.t()?, exact(activations)?);
        let rounded = match product.dtype() {
            DType::BF16 => 4e-3,
            DType::F16 => 5e-4,
            _ => 1e-6,
        };
        let want = x.broadcast_matmul(&w)?;
        let room = (x.abs()?.broadcast_matmul(&w.abs()?)? * (1.0 / 128.0 + 2e-5))?;
        let room = (room + (want.abs()? * rounded)?)?;
        let over = ((exact(product)? - want)?.abs()? - room)?.flatten_all()?.max(0)?.to_scalar::<f64>()?;
        assert!(
            over <= 0.0,
            "{} times {}: {over} beyond the bound",
            weights.shape().elem_count(),
            activations.dtype().as_str()
        );
        Ok(())
    }

    #[test]
    fn many_activations_stay_within_the_bound() -> Result<()> {
        let planning = Planning { as_on_a_gpu: true, ..Default::default() };
        let device = Device::Cuda(Device::new_rocm(0)?.as_rocm_device()?.planned(planning));
        for (nth, format) in
            [GgmlDType::Q4_0, GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::Q6K, GgmlDType::Q3K].into_iter().enumerate()
        {
            // Weights and activations beyond the range of f16 on the way.
            let size = [1.0, 1e5, 1e-6, 300.0, 1.0][nth];
            let weights = Tensor::randn(0f32, size, (37, 512), &device)?;
            let quantized = QTensor::quantize(&weights, format)?;
            let exact = quantized.dequantize(&device)?;
            let matmul = crate::quantized::QMatMul::from_qtensor(quantized)?;
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                let x = Tensor::randn(0f32, 3f32, (2, 512, 33), &device)?.to_dtype(dtype)?;
                let x =
                    if dtype == DType::F32 { (x * 1e5)?.transpose(1, 2)? } else { x.transpose(1, 2)?.contiguous()? };
                let product = matmul.forward(&x)?;
                assert_eq!((product.dims(), product.dtype()), (&[2, 33, 37][..], dtype));
                if dtype != DType::F16 || size <= 1.0 {
                    assert_within_bound(&exact, &x, &product)?;
                }
            }
        }
        Ok(())
    }

    /// A captured product keeps weights, activations, and what it made of both.
    #[test]
    fn a_graph_keeps_what_a_widened_product_uses() -> Result<()> {
        let planning = Planning { as_on_a_gpu: true, ..Default::default() };
        let rocm = Device::new_rocm_with_stream(0)?.as_rocm_device()?.planned(planning);
        let (device, stream) = (Device::Cuda(rocm.clone()), rocm.stream().clone());
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let weights = Tensor::randn(0f32, 1f32, (48, 512), &device)?;
            let matmul = crate::quantized::QMatMul::from_qtensor(QTensor::quantize(&weights, GgmlDType::Q4K)?)?;
            let x = Tensor::randn(0f32, 1f32, (40, 512), &device)?.to_dtype(dtype)?;
            let read = |x: &Tensor| x.to_dtype(DType::F32)?.to_vec2::<f32>();
            let want = read(&matmul.forward(&x)?)?;
            let mut result = None;
            let graph = stream.capture(|_| {
                result = Some(matmul.forward(&x).expect("it worked before"));
                Ok(())
            });
            let graph = graph.expect("a product can be captured");
            drop((weights, matmul, x));
            // Memory of every size that was used: whoever asks would be given it, if it were free.
            let others = [48 * 512 * 4, 48 * 288, 48 * 512 * 2, 40 * 512 * 4, 40 * 512 * 2, 40 * 48 * 4, 40 * 48 * 2];
            let others = others.map(|bytes| Tensor::full(7u8, bytes, &device));
            graph.launch(&stream).expect("what it needs is kept");
            assert_eq!(read(&result.take().expect("the capture ran"))?, want, "{dtype:?}");
            graph.launch(&stream).expect("what it needs is kept");
            for other in others {
                assert!(
                    other?.to_vec1::<u8>()?.iter().all(|&x| x == 7),
                    "{dtype:?}: the graph wrote to memory of others"
                );
            }
        }
        Ok(())
    }

    #[test]
    fn panels_make_one_product() -> Result<()> {
        let device = Device::new_rocm(0)?;
        let quantized = QTensor::quantize(&Tensor::randn(0f32, 1f32, (67, 96), &device)?, GgmlDType::Q4_0)?;
        let exact = quantized.dequantize(&device)?;
        let QStorage::Cuda(storage) = &quantized.storage else { panic!("quantized on the device") };
        let x = Tensor::randn(0f32, 1f32, (20, 96), &device)?;
        let (guard, layout) = x.storage_and_layout();
        let Storage::Cuda(values) = &*guard else { panic!("on the device") };
        let (weights, activations) = (storage.matrix(67, 96)?, values.operand(layout, "test")?);
        let blas = storage.device.rocblas().expect("the embedded device has one");
        // Panels of 16 rows, the last one of three.
        let product =
            crate::RocmStorage::filled(&storage.device, DType::F32, 20 * 67, "test", |out: &mut Output<'_>| {
                assert_eq!(out.dtype(), Dtype::F32);
                storage.multiply_widened(blas, &weights, &activations, Element::F32, out, 2 * 96 * 10)
            })?;
        let product =
            crate::tensor::from_storage(Storage::Cuda(product), (20, 67), crate::op::BackpropOp::none(), false);
        assert_within_bound(&exact, &x, &product)
    }
}
