//! Quantized weights: the block formats and a borrowed matrix of them. What is done with them is in the files beside this
//! one: `convert` (to and from floating point, rows by id), `plan` (which kernels multiply), `product` (times activations),
//! `one_row` (times one row of them), `mma_tiles` (times a few, on matrix units), `experts` (the same, routed).

mod convert;
mod experts;
mod mma_tiles;
mod one_row;
mod plan;
mod product;

pub use experts::Routing;
pub use plan::ProductPlan;

use crate::dtype::DType;
use crate::kernels::Kernels;
use crate::name::Name;
use crate::registry::Id;
use hip::{DevicePtr, Error, Function, Result, Stream, View};
use std::fmt;

/// How the weights of a matrix are stored: GGML's block formats, and the three float types a GGUF file may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, non_camel_case_types)] // The names are those of GGML.
pub enum BlockFormat {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Q8K,
}

impl BlockFormat {
    /// All of them.
    pub const ALL: [BlockFormat; 15] = [
        BlockFormat::F32,
        BlockFormat::F16,
        BlockFormat::BF16,
        BlockFormat::Q4_0,
        BlockFormat::Q4_1,
        BlockFormat::Q5_0,
        BlockFormat::Q5_1,
        BlockFormat::Q8_0,
        BlockFormat::Q8_1,
        BlockFormat::Q2K,
        BlockFormat::Q3K,
        BlockFormat::Q4K,
        BlockFormat::Q5K,
        BlockFormat::Q6K,
        BlockFormat::Q8K,
    ];

    /// The suffix in kernel names, the weights in a block, its bytes, and the weights that a thread of the mat-vec kernel
    /// takes at a time (`UNIT` in `hip/quantized/formats.h`).
    const fn facts(self) -> (&'static str, usize, usize, usize) {
        match self {
            BlockFormat::F32 => ("f32", 1, 4, 1),
            BlockFormat::F16 => ("f16", 1, 2, 1),
            BlockFormat::BF16 => ("bf16", 1, 2, 1),
            BlockFormat::Q4_0 => ("q4_0", 32, 18, 32),
            BlockFormat::Q4_1 => ("q4_1", 32, 20, 32),
            BlockFormat::Q5_0 => ("q5_0", 32, 22, 32),
            BlockFormat::Q5_1 => ("q5_1", 32, 24, 32),
            BlockFormat::Q8_0 => ("q8_0", 32, 34, 32),
            BlockFormat::Q8_1 => ("q8_1", 32, 36, 32),
            BlockFormat::Q2K => ("q2k", 256, 84, 64),
            BlockFormat::Q3K => ("q3k", 256, 110, 64),
            BlockFormat::Q4K => ("q4k", 256, 144, 64),
            BlockFormat::Q5K => ("q5k", 256, 176, 64),
            BlockFormat::Q6K => ("q6k", 256, 210, 64),
            BlockFormat::Q8K => ("q8k", 256, 292, 32),
        }
    }

    /// The suffix in kernel names.
    pub const fn suffix(self) -> &'static str {
        self.facts().0
    }

    /// Weights in a block.
    pub const fn block_size(self) -> usize {
        self.facts().1
    }

    /// Bytes of a block.
    pub const fn block_bytes(self) -> usize {
        self.facts().2
    }

    const fn unit(self) -> usize {
        self.facts().3
    }

    /// The integer that stands for zero, and whether a scale has an offset instead (`ZERO` and `HAS_OFFSET` in
    /// `hip/quantized/formats.h`).
    const fn zero(self) -> (f32, bool) {
        match self {
            BlockFormat::Q4_0 => (8.0, false),
            BlockFormat::Q5_0 => (16.0, false),
            BlockFormat::Q3K => (4.0, false),
            BlockFormat::Q6K => (32.0, false),
            BlockFormat::Q4_1 | BlockFormat::Q5_1 | BlockFormat::Q2K | BlockFormat::Q4K | BlockFormat::Q5K => {
                (0.0, true)
            }
            _ => (0.0, false),
        }
    }

    /// Bytes of `count` weights. `None` when they do not fill whole blocks, or are too many to count.
    pub const fn bytes_of(self, count: usize) -> Option<usize> {
        if !count.is_multiple_of(self.block_size()) {
            return None;
        }
        (count / self.block_size()).checked_mul(self.block_bytes())
    }

    /// True for the float types.
    pub const fn is_plain(self) -> bool {
        self.block_size() == 1
    }
}

impl fmt::Display for BlockFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.suffix())
    }
}

/// A matrix of weights, row after row, checked to lie inside its memory.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    memory: View<'a, u8>,
    format: BlockFormat,
    rows: usize,
    columns: usize,
}

impl<'a> Blocks<'a> {
    /// `rows` rows of `columns` weights each, from the beginning of `memory` on. A row is a whole number of blocks. The
    /// memory may be longer.
    pub fn new(memory: impl Into<View<'a, u8>>, format: BlockFormat, rows: usize, columns: usize) -> Result<Self> {
        let memory = memory.into();
        let Some(bytes) = format.bytes_of(columns).and_then(|row| row.checked_mul(rows)) else {
            return Err(Error::refused(format!(
                "{rows} rows of {columns} weights are not whole {format} blocks of {}; choose another format for them",
                format.block_size()
            )));
        };
        if bytes > memory.len() {
            return Err(Error::refused(format!(
                "{rows} rows of {columns} {format} weights take {bytes} bytes, but their memory has {}",
                memory.len()
            )));
        }
        if rows >= 1 << 31 || columns >= 1 << 31 {
            return Err(Error::refused(format!("a {format} matrix of {rows} x {columns} has a side of 2^31 or more")));
        }
        if memory.ptr().address() % 16 != 0 {
            return Err(Error::refused(format!(
                "{format} weights at {:?} must begin at a multiple of 16 bytes; copy them to memory of their own",
                memory.ptr()
            )));
        }
        Ok(Self { memory, format, rows, columns })
    }

    /// The format.
    pub fn format(&self) -> BlockFormat {
        self.format
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Weights of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.columns / self.format.block_size() * self.format.block_bytes()
    }

    /// The rows from `first` on, `count` of them. Rows of some formats begin at odd places: a multiple of 16 for `first`
    /// always does.
    pub fn panel(&self, first: usize, count: usize) -> Result<Blocks<'a>> {
        if first.checked_add(count).is_none_or(|end| end > self.rows) {
            return Err(Error::refused(format!(
                "{count} rows from row {first} on are not in a matrix of {}",
                self.rows
            )));
        }
        let row = self.row_bytes();
        Blocks::new(self.memory.slice(first * row..(first + count) * row)?, self.format, count, self.columns)
    }

    /// The address of the first block; as [`crate::Operand::ptr`], the graph of a capture keeps the memory from here on.
    fn ptr(&self) -> DevicePtr<u8> {
        self.memory.keep_in_capture();
        self.memory.ptr()
    }

    /// The weights may be read by kernels of `stream`: they belong to it.
    fn on(&self, stream: &Stream) -> Result<()> {
        if self.memory.stream().handle() == stream.handle() {
            return Ok(());
        }
        Err(Error::refused(
            "the quantized weights belong to another stream than the result; copy them to that stream first (Buffer::to_stream)",
        ))
    }
}

/// The number by which kernels know the dtype of a result (`FloatType` in `hip/quantized/activations.h`).
fn output_code(operation: &str, dtype: DType) -> Result<u32> {
    match dtype {
        DType::F32 => Ok(0),
        DType::F16 => Ok(1),
        DType::BF16 => Ok(2),
        other => Err(Error::refused(format!("{operation}: the result would be {other}; it can be f32, f16 or bf16"))),
    }
}

impl Kernels {
    /// The kernel `root_format[_ending]` of the module.
    fn quantized(&self, root: &str, format: BlockFormat, ending: &str) -> Result<&Function> {
        let name = Name::new(root, &[]).push("_").push(format.suffix()).push(ending);
        self.store().function(Id::Quantized, name)?.ok_or_else(|| {
            Error::refused(format!("{root} is not defined for {format} weights{ending}; dequantize them first"))
        })
    }
}

/// What the kernels export of every format, beside the lists of the files here.
#[cfg(test)]
pub(crate) fn shared() -> Vec<(String, u64)> {
    let codes = [("FLOAT_F32", DType::F32), ("FLOAT_F16", DType::F16), ("FLOAT_BF16", DType::BF16)];
    let codes = codes.map(|(name, dtype)| (name.to_owned(), u64::from(output_code("", dtype).expect("a float"))));
    let lists = [product::shared(), experts::shared(), one_row::shared(), mma_tiles::shared(), convert::shared()];
    let mut all: Vec<_> = lists.into_iter().flatten().chain(codes).collect();
    for format in BlockFormat::ALL.into_iter().filter(|format| !format.is_plain()) {
        let (folded, (zero, has_offset)) = (mma_tiles::folded_zero(format), format.zero());
        let facts = [
            ("ELEMENTS", format.block_size() as u64),
            ("BYTES", format.block_bytes() as u64),
            ("UNIT", format.unit() as u64),
            ("ZERO", zero as u64),
            ("HAS_OFFSET", u64::from(has_offset)),
            ("FOLDS", u64::from(folded.is_some())),
            ("Record", one_row::record_bytes(format) as u64),
            ("TEAM_ROWS_STAGED", one_row::together(format, true)),
            ("TEAM_ROWS_LOADED", one_row::together(format, false)),
            ("MMA_TILES_TOGETHER 1", mma_tiles::together(format, 1) as u64),
            ("MMA_TILES_TOGETHER 2", mma_tiles::together(format, 2) as u64),
        ];
        all.extend(facts.map(|(fact, value)| (format!("{format} {fact}"), value)));
        all.extend(folded.map(|zero| (format!("{format} FOLDED_ZERO"), zero as u64)));
    }
    all
}
