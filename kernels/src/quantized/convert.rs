//! Blocks to floating point and back: whole tensors, rows chosen by ids, and the formats a device can quantize exactly.

use super::{output_code, BlockFormat, Blocks};
use crate::dtype::DType;
use crate::kernels::{fits, one_stream, Kernels};
use crate::tensor::{Operand, Output};
use bytemuck::{Pod, Zeroable};
use hip::{DevicePtr, Error, LaunchConfig, Result};

/// Threads of a block.
const DECODE_THREADS: u64 = 256;
const ENCODE_THREADS: u64 = 64;
/// The most blocks along the second axis of a grid; the kernels walk on from there.
const GRID_Y: usize = 65_535;

/// Which rows to decode, as the kernels take it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct RowChoice {
    ids: DevicePtr<u8>,
    fault: DevicePtr<u64>,
    count: u32,
    rows: u32,
}

impl Kernels {
    /// All weights as floating point numbers, in f32, f16 or bf16 as `out` asks.
    pub fn dequantize(&self, weights: &Blocks<'_>, out: &mut Output<'_>) -> Result<()> {
        let count = weights.rows() * weights.columns();
        fits("dequantize", "the result", out.count(), count, out.dtype(), out.dtype())?;
        // One long row: rows follow each other without a gap, in blocks as in the result.
        let choice =
            RowChoice { ids: DevicePtr::from_address(0), fault: self.faults.address(out.stream()), count: 1, rows: 1 };
        self.decode("dequantize", weights, count, choice, out)
    }

    /// The rows that `ids` (contiguous u32) names, as floating point numbers: an embedding. An id out of range gives a row
    /// of zeros and an error at the next check.
    pub fn dequantize_rows(&self, weights: &Blocks<'_>, ids: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        let count = ids.count();
        id_list("quantized embedding", "the ids", ids)?;
        let Some(values) = count.checked_mul(weights.columns()).filter(|_| count < 1 << 31) else {
            return Err(Error::refused(format!(
                "quantized embedding: {count} ids are too many for one call; split them"
            )));
        };
        fits("quantized embedding", "the result", out.count(), values, out.dtype(), out.dtype())?;
        one_stream(out.stream(), &[ids])?;
        if count == 0 {
            return Ok(());
        }
        let choice = RowChoice {
            ids: ids.ptr(),
            fault: self.faults.arm(out.stream())?,
            count: count as u32,
            rows: weights.rows() as u32,
        };
        self.decode("quantized embedding", weights, weights.columns(), choice, out)
    }

    fn decode(
        &self,
        operation: &str,
        weights: &Blocks<'_>,
        columns: usize,
        choice: RowChoice,
        out: &mut Output<'_>,
    ) -> Result<()> {
        output_code(operation, out.dtype())?;
        weights.on(out.stream())?;
        let format = weights.format();
        let each = if format.is_plain() { 1 } else { 8 };
        let threads = (columns / each) as u64;
        if threads == 0 {
            return Ok(());
        }
        if threads >= 1 << 32 {
            return Err(Error::refused(format!(
                "{operation}: {columns} weights are too many for one call; split them"
            )));
        }
        if !format.is_plain() && !out.ptr().address().is_multiple_of(16) {
            return Err(Error::refused(format!(
                "{operation}: the result at {:?} must begin at a multiple of 16 bytes",
                out.ptr()
            )));
        }
        let ending = match out.dtype() {
            DType::F16 => "_f16",
            DType::BF16 => "_bf16",
            _ => "_f32",
        };
        let function = self.quantized("dequantize_block", format, ending)?;
        // A thread takes two eights of two-byte results, one of four-byte ones (`DECODE_EACH`).
        let each = if !format.is_plain() && out.dtype().size() == 2 { 2 } else { 1 };
        let blocks = threads.div_ceil(each * DECODE_THREADS) as u32;
        let config = LaunchConfig::new((blocks, (choice.count as usize).min(GRID_Y) as u32), DECODE_THREADS as u32);
        let args = (weights.ptr(), out.ptr(), columns as u64, choice);
        // SAFETY: the parameters of `dequantize_block_*` in `hip/quantized.hip`; the weights hold `rows` rows, the result
        // `count` rows of `columns` elements, and the ids `count` numbers, which the kernel compares with `rows`.
        unsafe { function.launch(out.stream(), config, &args) }
    }

    /// True for the formats that [`Kernels::quantize`] knows: those whose rule is one pass of plain arithmetic. The others
    /// search for their scales, and Candle's quantizer on the CPU does that.
    pub fn can_quantize(format: BlockFormat) -> bool {
        use BlockFormat::*;
        matches!(format, Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | Q8_1 | Q8K)
    }

    /// Contiguous f32 `values` into blocks, with the very bytes that Candle's quantizer on the CPU makes. `out` is the bytes
    /// of the blocks.
    pub fn quantize(&self, values: &Operand<'_>, format: BlockFormat, out: &mut Output<'_>) -> Result<()> {
        let count = values.count();
        if !Self::can_quantize(format) {
            return Err(Error::refused(format!(
                "quantize: {format} cannot be made on the device; quantize on the CPU and upload"
            )));
        }
        if values.dtype() != DType::F32 || !values.is_contiguous() {
            return Err(Error::refused(format!(
                "quantize: the values are {} with strides {:?}; they must be f32 and contiguous",
                values.dtype(),
                values.strides()
            )));
        }
        let Some(bytes) = format.bytes_of(count) else {
            return Err(Error::refused(format!(
                "quantize: {count} values do not fill whole {format} blocks of {}",
                format.block_size()
            )));
        };
        fits("quantize", "the result", out.count(), bytes, out.dtype(), DType::U8)?;
        one_stream(out.stream(), &[values])?;
        if !out.ptr().address().is_multiple_of(4) {
            return Err(Error::refused(format!(
                "quantize: the blocks at {:?} must begin at a multiple of 4 bytes",
                out.ptr()
            )));
        }
        let blocks = count / format.block_size();
        if blocks >= 1 << 31 {
            return Err(Error::refused(format!("quantize: {count} values are too many for one call; split them")));
        }
        if blocks == 0 {
            return Ok(());
        }
        let function = self.quantized("quantize_block", format, "")?;
        let config = LaunchConfig::new((blocks as u64).div_ceil(ENCODE_THREADS) as u32, ENCODE_THREADS as u32);
        // SAFETY: the parameters of `quantize_block_*` in `hip/quantized.hip`; the values fill `blocks` blocks, and the
        // result holds as many.
        unsafe { function.launch(out.stream(), config, &(values.ptr(), out.ptr(), blocks as u32)) }
    }
}

/// A list of ids is contiguous u32.
pub(super) fn id_list(operation: &str, what: &str, ids: &Operand<'_>) -> Result<()> {
    if ids.dtype() == DType::U32 && ids.is_contiguous() {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{operation}: {what} are {} with strides {:?}; they must be u32 and contiguous",
        ids.dtype(),
        ids.strides()
    )))
}

crate::shared::shared! {
    ["DECODE_THREADS": DECODE_THREADS, "ENCODE_THREADS": ENCODE_THREADS]
    "RowChoice": RowChoice { ids, fault, count, rows }
}
