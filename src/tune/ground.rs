//! A device's kernels, planned in a given way, with a BLAS beside them: what Candle's operations stand on, without the rest of Candle, so
//! that two plans for one device can be timed in one process. Each operation asks the profile as Candle's does.

use candle_rocm_kernels::tuned::{self, Tuned};
use candle_rocm_kernels::{BlockFormat, Blocks, DType, Kernels, Operand, OperandMut, Output, Planning, ProductPlan};
use hip::{Buffer, Device, Result, Stream};
use rocm::blas::{Blas, Element, Gemm, Matrix};

/// Kernels that plan with given values.
pub struct Ground {
    stream: Stream,
    kernels: Kernels,
    blas: Option<Blas>,
}

/// One turn of an operation whose operands are ready.
pub type Turn<'a> = Box<dyn FnMut() -> Result<()> + 'a>;

impl Ground {
    /// For a device. The embedded device and emulated GPUs plan as a GPU does: all ways are to be tried there too.
    pub fn new(device: &Device, values: &Tuned) -> Result<Self> {
        let stream = device.new_stream()?;
        // Plans are made with the kernels.
        tuned::try_values(Some(values.clone()));
        let kernels = Kernels::new(&stream);
        tuned::try_values(None);
        let kernels = kernels?.planned(Planning { as_on_a_gpu: true, ..Default::default() });
        let blas = Blas::new(&stream)?;
        Ok(Self { stream, kernels, blas })
    }

    /// Whether there is a BLAS to compare with.
    pub fn has_blas(&self) -> bool {
        self.blas.is_some()
    }

    /// Waits for all that was asked for.
    pub fn wait(&self) -> Result<()> {
        self.stream.synchronize()
    }

    /// The scores of one query for each head, as decoding makes them, over so many bytes of keys.
    pub fn few_rows(&self, bytes: u64) -> Result<Turn<'_>> {
        const HEADS: usize = 32;
        const DIM: usize = 64;
        let keys = (bytes as usize / (HEADS * DIM * 2)).max(1);
        let query = self.stream.upload(&halves(HEADS * DIM))?;
        let memory = self.stream.upload(&halves(HEADS * keys * DIM))?;
        let mut scores = self.stream.alloc::<u16>(HEADS * keys)?;
        Ok(Box::new(move || {
            let left = Operand::new(&query, DType::F16, 0, &[HEADS, 1, DIM], &[DIM, DIM, 1])?;
            let (dims, strides) = ([HEADS, DIM, keys], [keys * DIM, 1, DIM]);
            let right = Operand::new(&memory, DType::F16, 0, &dims, &strides)?;
            let ours = self.kernels.profile().few_rows_pay(DType::F16, [HEADS, 1, DIM, keys]);
            match &self.blas {
                Some(blas) if !ours => {
                    let product = Gemm {
                        element: Element::F16,
                        result: Element::F16,
                        m: 1,
                        n: keys,
                        k: DIM,
                        batch: HEADS,
                        a: matrix(&query, DIM, 1, DIM),
                        b: matrix(&memory, 1, DIM, keys * DIM),
                        c: matrix(&scores, keys, 1, keys),
                    };
                    // SAFETY: each batch has a query of DIM elements, keys of `keys` rows of DIM, and `keys` scores; the buffers
                    // belong to the BLAS's stream, and the turn keeps them.
                    unsafe { blas.gemm(&product) }
                }
                _ => {
                    let (dims, strides) = ([HEADS, 1, keys], [keys, keys, 1]);
                    let mut out = OperandMut::new(&mut scores, DType::F16, 0, &dims, &strides)?;
                    self.kernels.matmul(&left, &right, &mut out)
                }
            }
        }))
    }

    /// So many rows of f16 times the quantized weights of a layer.
    pub fn quantized(&self, count: usize, [rows, columns]: [usize; 2]) -> Result<Turn<'_>> {
        let format = BlockFormat::Q4K;
        let weights = self.stream.upload(&blocks(rows * columns / format.block_size() * format.block_bytes()))?;
        let input = self.stream.upload(&halves(count * columns))?;
        let mut result = self.stream.alloc::<u16>(count * rows)?;
        Ok(Box::new(move || {
            let weights = Blocks::new(&weights, format, rows, columns)?;
            let (dims, strides) = ([count, columns], [columns, 1]);
            let activations = Operand::new(&input, DType::F16, 0, &dims, &strides)?;
            let mut out = Output::new(&mut result, DType::F16, 0, count * rows)?;
            let plan = self.kernels.plan_product(&weights, count, || self.blas.is_some());
            match (plan, &self.blas) {
                (ProductPlan::Widened, Some(blas)) => self.widened(blas, &weights, &activations, &mut out),
                (plan, _) => self.kernels.quantized_matmul_by(plan, &weights, &activations, &mut out),
            }
        }))
    }

    /// Weights and activations become bf16, and the BLAS multiplies into f32.
    fn widened(&self, blas: &Blas, weights: &Blocks<'_>, input: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        let (rows, columns) = (weights.rows(), weights.columns());
        let count = input.count() / columns;
        let mut wide = self.stream.alloc::<u16>(rows * columns)?;
        self.kernels.dequantize(weights, &mut Output::new(&mut wide, DType::BF16, 0, rows * columns)?)?;
        let mut left = self.stream.alloc::<u16>(count * columns)?;
        self.kernels.cast(input, &mut Output::new(&mut left, DType::BF16, 0, count * columns)?)?;
        let sums = self.stream.alloc::<f32>(count * rows)?;
        let product = Gemm {
            element: Element::BF16,
            result: Element::F32,
            m: count,
            n: rows,
            k: columns,
            batch: 1,
            a: matrix(&left, columns, 1, 0),
            b: matrix(&wide, 1, columns, 0),
            c: matrix(&sums, rows, 1, 0),
        };
        // SAFETY: the factors hold `count` and `rows` rows of `columns` elements, the sums as many as both; all belong to the BLAS's
        // stream, on which they are freed behind the product.
        unsafe { blas.gemm(&product)? };
        self.kernels.cast(&Operand::new(&sums, DType::F32, 0, &[count * rows], &[1])?, out)
    }
}

fn matrix<T: hip::DeviceCopy>(buffer: &Buffer<T>, row: usize, column: usize, batch: usize) -> Matrix {
    Matrix { address: buffer.ptr().address(), row_stride: row, column_stride: column, batch_stride: batch }
}

/// Halves between a half and two, never the same twice in a row: zeros can run faster than real data.
fn halves(count: usize) -> Vec<u16> {
    (0..count as u32).map(|i| 0x3800 | (i.wrapping_mul(0x9e37_79b9) >> 21) as u16).collect()
}

/// Bytes of blocks: any bits, and scales that are small numbers.
fn blocks(bytes: usize) -> Vec<u8> {
    let mut all: Vec<u8> = (0..bytes as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    for block in all.chunks_exact_mut(BlockFormat::Q4K.block_bytes()) {
        block[..4].copy_from_slice(&[0x66, 0x1e, 0x66, 0x1e]);
    }
    all
}
