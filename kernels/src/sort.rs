//! Sorting along the last dimension: tiles in shared memory, then runs merged in pairs until a row is one run.

use crate::dtype::DType;
use crate::kernels::{fits, one_stream, Kernels};
use crate::layout::{Divider, INDEX_LIMIT, MAX_BLOCKS};
use crate::registry::Id;
use crate::rows::contiguous;
use crate::tensor::{Operand, Output};
use bytemuck::{Pod, Zeroable};
use hip::{Buffer, DevicePtr, Error, LaunchConfig, Result, Stream};

/// Threads of a block, elements of a thread, and of a tile.
const THREADS: u32 = 256;
const ITEMS: u64 = 8;
const TILE: u64 = 2048;

/// The two directions. NaN comes after every number in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The least first.
    Ascending,
    /// The greatest first.
    Descending,
}

impl Order {
    fn root(self) -> &'static str {
        match self {
            Order::Ascending => "asort_asc",
            Order::Descending => "asort_desc",
        }
    }
}

/// Tiles that are sorted, as the kernels take them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct SortRows {
    columns: u32,
    segments: u32,
    segment_log2: u32,
    tiles_per_row: Divider,
}

/// Runs that are merged, as the kernels take them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct MergeRows {
    columns: u32,
    run: u32,
    tiles_per_row: u32,
}

/// Where results go; a null address for what nobody wants.
#[derive(Clone, Copy)]
struct SortTarget {
    indices: DevicePtr<u32>,
    values: DevicePtr<u8>,
}

impl Kernels {
    /// The indices, as u32, that sort the rows along the last dimension of a contiguous tensor. Stable.
    pub fn arg_sort(&self, order: Order, input: &Operand<'_>, indices: &mut Output<'_>) -> Result<()> {
        fits(order.root(), "the result", indices.count(), input.count(), indices.dtype(), DType::U32)?;
        let target = SortTarget { indices: indices.ptr().cast(), values: DevicePtr::NULL };
        self.sort_rows(order, input, target, indices.stream())
    }

    /// The rows along the last dimension of a contiguous tensor, sorted. Stable.
    pub fn sort(&self, order: Order, input: &Operand<'_>, values: &mut Output<'_>) -> Result<()> {
        fits(order.root(), "the result", values.count(), input.count(), values.dtype(), input.dtype())?;
        let target = SortTarget { indices: DevicePtr::NULL, values: values.ptr() };
        self.sort_rows(order, input, target, values.stream())
    }

    /// Both the sorted rows and the indices, in one go.
    pub fn sort_with_indices(
        &self,
        order: Order,
        input: &Operand<'_>,
        values: &mut Output<'_>,
        indices: &mut Output<'_>,
    ) -> Result<()> {
        fits(order.root(), "the values", values.count(), input.count(), values.dtype(), input.dtype())?;
        fits(order.root(), "the indices", indices.count(), input.count(), indices.dtype(), DType::U32)?;
        if indices.stream().handle() != values.stream().handle() {
            return Err(Error::refused(format!("{}: the two results belong to different streams", order.root())));
        }
        let target = SortTarget { indices: indices.ptr().cast(), values: values.ptr() };
        self.sort_rows(order, input, target, values.stream())
    }

    fn sort_rows(&self, order: Order, input: &Operand<'_>, target: SortTarget, stream: &Stream) -> Result<()> {
        let root = order.root();
        let Some(&columns) = input.dims().last() else {
            return Err(Error::refused(format!("{root}: a scalar has no last dimension; give it one first")));
        };
        contiguous(root, "the input", input)?;
        one_stream(stream, &[input])?;
        if columns as u64 >= INDEX_LIMIT {
            return Err(Error::refused(format!("{root}: rows of {columns} elements are longer than 2^31")));
        }
        let tiles = (columns as u64).div_ceil(TILE);
        let function = self.function(Id::Sort, root, &[input.dtype()], "")?;
        if input.count() == 0 {
            return Ok(());
        }
        let size = input.dtype().size();
        let rows = (input.count() / columns) as u64;
        let step = MAX_BLOCKS / tiles;
        let mut first = 0;
        while first < rows {
            let count = step.min(rows - first);
            let start = first as usize * columns;
            let part = Part {
                src: input.ptr().offset(start * size),
                target: SortTarget {
                    indices: if target.indices.is_null() { target.indices } else { target.indices.offset(start) },
                    values: if target.values.is_null() { target.values } else { target.values.offset(start * size) },
                },
                rows: count,
                columns: columns as u64,
                tiles,
            };
            if tiles == 1 {
                part.sort_tiles(function, stream, part.target, DevicePtr::NULL)?;
            } else {
                let merge = self.function(Id::Sort, "asort_merge", &[], key_suffix(size))?;
                part.sort_long(function, merge, stream, size)?;
            }
            first += count;
        }
        Ok(())
    }
}

/// Merging depends on the width of a key alone, which is that of an element.
fn key_suffix(size: usize) -> &'static str {
    match size {
        1 => "_u8",
        2 => "_u16",
        4 => "_u32",
        _ => "_u64",
    }
}

/// The rows of one launch.
struct Part {
    src: DevicePtr<u8>,
    target: SortTarget,
    rows: u64,
    columns: u64,
    tiles: u64,
}

impl Part {
    fn sort_tiles(
        &self,
        function: &hip::Function,
        stream: &Stream,
        target: SortTarget,
        keys: DevicePtr<u8>,
    ) -> Result<()> {
        let segment = if self.tiles > 1 { TILE } else { self.columns.next_power_of_two().max(ITEMS) };
        let segments = self.rows * self.tiles;
        let shape = SortRows {
            columns: self.columns as u32,
            segments: segments as u32,
            segment_log2: segment.trailing_zeros(),
            tiles_per_row: Divider::new(self.tiles),
        };
        let blocks = segments.div_ceil(TILE / segment) as u32;
        let arguments = (self.src, target.indices, keys, target.values, shape);
        // SAFETY: the parameters of `asort_*` in `hip/sort.hip`; source, results and scratch hold rows * columns elements each
        // or are null where the kernel allows it, and are in the order of `stream`.
        unsafe { function.launch(stream, LaunchConfig::new(blocks, THREADS), &arguments) }
    }

    /// Rows of several tiles: each pass merges pairs of runs from one pair of buffers (keys, indices) into the other.
    fn sort_long(&self, sort: &hip::Function, merge: &hip::Function, stream: &Stream, size: usize) -> Result<()> {
        let count = (self.rows * self.columns) as usize;
        let passes = self.tiles.next_power_of_two().ilog2();
        let keys: [Buffer<u8>; 2] =
            [stream.alloc(count * size)?, stream.alloc(if passes > 1 { count * size } else { 0 })?];
        let indices: [Buffer<u32>; 2] = [stream.alloc(count)?, stream.alloc(if passes > 1 { count } else { 0 })?];
        let tiles = SortTarget { indices: indices[0].ptr(), values: DevicePtr::NULL };
        self.sort_tiles(sort, stream, tiles, keys[0].ptr())?;
        let blocks = (self.rows * self.tiles) as u32;
        for pass in 0..passes {
            let (from, to) = (pass as usize % 2, (pass as usize + 1) % 2);
            let last = pass + 1 == passes;
            let target =
                if last { self.target } else { SortTarget { indices: indices[to].ptr(), values: DevicePtr::NULL } };
            let keys_out = if last { DevicePtr::NULL } else { keys[to].ptr() };
            let shape = MergeRows {
                columns: self.columns as u32,
                run: (TILE << pass) as u32,
                tiles_per_row: self.tiles as u32,
            };
            let arguments =
                (keys[from].ptr(), indices[from].ptr(), keys_out, target.indices, self.src, target.values, shape);
            // SAFETY: the parameters of `asort_merge_*` in `hip/sort.hip`; every buffer holds rows * columns elements or is
            // null where the kernel allows it; the scratch goes back to this stream's pool behind the launches.
            unsafe { merge.launch(stream, LaunchConfig::new(blocks, THREADS), &arguments)? };
        }
        Ok(())
    }
}

crate::shared::shared! {
    ["SORT_THREADS": THREADS, "SORT_ITEMS": ITEMS, "SORT_TILE": TILE]
    "SortRows": SortRows { columns, segments, segment_log2, tiles_per_row }
    "MergeRows": MergeRows { columns, run, tiles_per_row }
}
