//! Matrix products: which tile or matrix-vector kernel of `hip/gemm.hip` serves, and how it walks its factors. Where a GPU has matrix
//! units, its code objects have the tiles of f16 and bf16 for them under the same names and with the same sizes; what changes here is
//! how many elements have to be aligned.

use crate::dtype::DType;
use crate::kernels::{one_stream, Kernels};
use crate::layout::{INDEX_LIMIT, MAX_BLOCKS};
use crate::profile::Profile;
use crate::registry::Id;
use crate::tensor::{Operand, OperandMut};
use bytemuck::{Pod, Zeroable};
use hip::{DevicePtr, Error, LaunchConfig, Result};

/// Threads of a block of every kernel here.
const THREADS: u32 = 256;
/// Rows that a matrix-vector kernel makes at a time; above MANY times that a tile is better.
const VECTOR_ROWS: u64 = 4;
const MANY: u64 = 2;
/// Vectors of columns that a block of the matrix-vector kernel for rows makes.
const VECTORS_ACROSS: u64 = 8;

impl Profile {
    /// Whether a product of `batch` times (rows, depth) and (depth, columns) is better left to our matrix-vector kernels than to a
    /// BLAS.
    pub fn few_rows_pay(&self, dtype: DType, [batch, rows, depth, columns]: [usize; 4]) -> bool {
        let factors = [batch as u64, depth as u64, columns as u64];
        let bytes = factors.iter().fold(dtype.size() as u64, |bytes, &size| bytes.saturating_mul(size));
        rows as u64 <= VECTOR_ROWS && bytes <= self.arch.few_rows_bytes.value
    }

    /// Elements that a thread of the tile kernels of products moves or stores at once.
    fn product_lanes(&self, dtype: DType) -> u64 {
        match dtype {
            DType::F16 | DType::BF16 if self.arch.matrix_products.value => MATRIX_LANES,
            _ => tile_lanes(dtype),
        }
    }
}

/// Elements of a piece of f16 or bf16 on matrix units (`hip/matrix_tile.h`).
const MATRIX_LANES: u64 = 8;

/// How a factor is walked.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    Depth = 0,
    Rows = 1,
    DepthVectors = 2,
    RowsVectors = 3,
}

/// A product as the kernels take it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct GemmShape {
    rows: u32,
    columns: u32,
    depth: u32,
    left_walk: u32,
    right_walk: u32,
    out_vectors: u32,
    left_row: u64,
    left_depth: u64,
    left_batch: u64,
    right_column: u64,
    right_depth: u64,
    right_batch: u64,
    out_row: u64,
    out_column: u64,
    out_batch: u64,
}

/// One factor: `rows` is what the product keeps of it, `depth` what it sums over.
#[derive(Clone, Copy)]
struct Factor {
    address: DevicePtr<u8>,
    rows: u64,
    depth: u64,
    row_stride: u64,
    depth_stride: u64,
    batch_stride: u64,
}

impl Factor {
    /// Whether pieces of `lanes` elements along the contiguous direction are aligned and never straddle its end.
    fn walk(&self, size: usize, lanes: u64) -> Walk {
        let aligned = |other: u64, extent: u64| {
            let bytes = lanes * size as u64;
            extent.is_multiple_of(lanes)
                && other.is_multiple_of(lanes)
                && self.batch_stride.is_multiple_of(lanes)
                && self.address.address().is_multiple_of(bytes)
        };
        if self.depth_stride == 1 && aligned(self.row_stride, self.depth) {
            Walk::DepthVectors
        } else if self.depth_stride == 1 {
            Walk::Depth
        } else if self.row_stride == 1 && aligned(self.depth_stride, self.rows) {
            Walk::RowsVectors
        } else {
            Walk::Rows
        }
    }
}

/// Sides of the large and the small tiles (`hip/tile.h`).
pub(crate) fn tile_sides(dtype: DType) -> (u64, u64) {
    if dtype == DType::F64 {
        (64, 32)
    } else {
        (128, 64)
    }
}

/// Elements a thread of a plain tile kernel (`hip/tile.h`) moves or stores at once.
pub(crate) fn tile_lanes(dtype: DType) -> u64 {
    if dtype == DType::F64 {
        2
    } else {
        4
    }
}

/// True when a result is better cut into small tiles: large ones would leave compute units without work.
pub(crate) fn prefers_small(profile: &Profile, dtype: DType, rows: u64, columns: u64, others: u64) -> bool {
    let (large, small) = tile_sides(dtype);
    let blocks = rows.div_ceil(large) * columns.div_ceil(large) * others;
    // On the embedded device a large tile with empty rows is work for nothing, and cores are few.
    let wasteful = rows <= small || columns <= small;
    wasteful || (profile.side_by_side() && blocks < u64::from(profile.units))
}

impl Kernels {
    /// `out[b] = left[b] x right[b]`: (batch, rows, depth) times (batch, depth, columns), all with any strides.
    /// A stride of 0 along the batch shares a factor. f16 and bf16 are summed in f32.
    pub fn matmul(&self, left: &Operand<'_>, right: &Operand<'_>, out: &mut OperandMut<'_>) -> Result<()> {
        let root = "gemm";
        let (&[batch, rows, depth], &[right_batch, right_depth, columns], &[out_batch, out_rows, out_columns]) =
            (left.dims(), right.dims(), out.dims())
        else {
            return Err(mismatch(left, right, out));
        };
        let dtype = left.dtype();
        let fitting = right_batch == batch && out_batch == batch && right_depth == depth;
        if !fitting || out_rows != rows || out_columns != columns || right.dtype() != dtype || out.dtype() != dtype {
            return Err(mismatch(left, right, out));
        }
        one_stream(out.stream(), &[left, right])?;
        if [rows, depth, columns].iter().any(|&size| size as u64 >= INDEX_LIMIT) {
            return Err(Error::refused(format!(
                "{root}: a dimension of {rows} x {depth} x {columns} is longer than 2^31"
            )));
        }
        let stride = |operand: &[usize], d: usize| operand[d] as u64;
        let (ls, rs, os) = (left.strides(), right.strides(), out.strides());
        let left = Factor {
            address: left.ptr(),
            rows: rows as u64,
            depth: depth as u64,
            row_stride: stride(ls, 1),
            depth_stride: stride(ls, 2),
            batch_stride: stride(ls, 0),
        };
        let right = Factor {
            address: right.ptr(),
            rows: columns as u64,
            depth: depth as u64,
            row_stride: stride(rs, 2),
            depth_stride: stride(rs, 1),
            batch_stride: stride(rs, 0),
        };
        let target = GemmTarget { address: out.ptr(), row: stride(os, 1), column: stride(os, 2), batch: stride(os, 0) };
        // Few columns are few rows of the transposed product.
        let few = |count: u64| count <= VECTOR_ROWS * MANY;
        let swap = few(columns as u64) && !few(rows as u64);
        let (left, right, target) = if swap { (right, left, target.transposed()) } else { (left, right, target) };
        self.product(dtype, batch as u64, left, right, target, out.stream())
    }

    fn product(
        &self,
        dtype: DType,
        batch: u64,
        left: Factor,
        right: Factor,
        out: GemmTarget,
        stream: &hip::Stream,
    ) -> Result<()> {
        let size = dtype.size();
        let full = 16 / size as u64;
        let lanes = self.profile().product_lanes(dtype);
        let device = stream.device();
        let wave = u64::from(device.wave_size().max(1));
        let few = left.rows <= VECTOR_ROWS * MANY;
        // (variant and root, rows and columns a block makes, how the factors are walked)
        let (root, variant, height, width, walks) = if few && right.depth_stride == 1 && right.depth > 1 {
            ("gemv", "", VECTOR_ROWS, u64::from(THREADS) / wave, [left.walk(size, full), right.walk(size, full)])
        } else if few && right.row_stride == 1 {
            let walk = right.walk(size, full);
            let across = if walk == Walk::RowsVectors { full } else { 1 };
            ("gemv", "_rows", VECTOR_ROWS, VECTORS_ACROSS * across, [left.walk(size, full), walk])
        } else {
            let (large, small) = tile_sides(dtype);
            let walks = [left.walk(size, lanes), right.walk(size, lanes)];
            if prefers_small(self.profile(), dtype, left.rows, right.rows, batch) {
                ("gemm", "_small", small, small, walks)
            } else {
                ("gemm", "", large, large, walks)
            }
        };
        let function = self.function(Id::Gemm, root, &[dtype], variant)?;
        if batch == 0 || left.rows == 0 || right.rows == 0 {
            return Ok(());
        }
        let vectors = out.column == 1
            && out.row.is_multiple_of(lanes)
            && out.batch.is_multiple_of(lanes)
            && out.address.address().is_multiple_of(lanes * size as u64);
        let shape = |columns: u64| GemmShape {
            rows: left.rows as u32,
            columns: columns as u32,
            depth: left.depth as u32,
            left_walk: walks[0] as u32,
            right_walk: walks[1] as u32,
            out_vectors: u32::from(vectors),
            left_row: left.row_stride,
            left_depth: left.depth_stride,
            left_batch: left.batch_stride,
            right_column: right.row_stride,
            right_depth: right.depth_stride,
            right_batch: right.batch_stride,
            out_row: out.row,
            out_column: out.column,
            out_batch: out.batch,
        };
        let y = left.rows.div_ceil(height);
        if y > GRID_LIMIT {
            return Err(Error::refused(format!("gemm: a result of {} rows is too large for one launch", left.rows)));
        }
        // HIP allows 65535 blocks along y and z.
        for first in (0..batch).step_by(GRID_LIMIT as usize) {
            let batches = GRID_LIMIT.min(batch - first) as u32;
            for column in (0..right.rows).step_by((MAX_BLOCKS * width) as usize) {
                let columns = (MAX_BLOCKS * width).min(right.rows - column);
                let at = |address: DevicePtr<u8>, [by_batch, by_column]: [u64; 2]| {
                    address.offset((first * by_batch + column * by_column) as usize * size)
                };
                let arguments = (
                    at(left.address, [left.batch_stride, 0]),
                    at(right.address, [right.batch_stride, right.row_stride]),
                    at(out.address, [out.batch, out.column]),
                    shape(columns),
                );
                let config = LaunchConfig::new((columns.div_ceil(width) as u32, y as u32, batches), THREADS);
                // SAFETY: the parameters of the kernels in `hip/gemm.hip`; shape and strides are those of the operands,
                // which were checked to lie inside their memory, in the order of `stream`.
                unsafe { function.launch(stream, config, &arguments)? };
            }
        }
        Ok(())
    }
}

/// Blocks HIP allows along y and along z.
pub(crate) const GRID_LIMIT: u64 = 65535;

/// Where the product goes.
#[derive(Clone, Copy)]
struct GemmTarget {
    address: DevicePtr<u8>,
    row: u64,
    column: u64,
    batch: u64,
}

impl GemmTarget {
    fn transposed(self) -> Self {
        Self { row: self.column, column: self.row, ..self }
    }
}

#[cold]
fn mismatch(left: &Operand<'_>, right: &Operand<'_>, out: &OperandMut<'_>) -> Error {
    Error::refused(format!(
        "gemm: {} {:?} times {} {:?} into {} {:?} is no product; shapes must be (batch, rows, depth), (batch, depth, columns) \
         and (batch, rows, columns), all of one dtype",
        left.dtype(),
        left.dims(),
        right.dtype(),
        right.dims(),
        out.dtype(),
        out.dims()
    ))
}

crate::shared::shared! {
    [
        "WALK_DEPTH": Walk::Depth as u32,
        "WALK_ROWS": Walk::Rows as u32,
        "WALK_DEPTH_VECTORS": Walk::DepthVectors as u32,
        "WALK_ROWS_VECTORS": Walk::RowsVectors as u32,
        "Large<f32>::rows": tile_sides(DType::F32).0,
        "Large<f64>::rows": tile_sides(DType::F64).0,
        "Small<f32>::rows": tile_sides(DType::F32).1,
        "Small<f64>::rows": tile_sides(DType::F64).1,
        "Large<f32>::threads": THREADS,
        "Large<f32>::group": tile_lanes(DType::F32),
        "Large<f64>::group": tile_lanes(DType::F64),
        "MATRIX_LANES": MATRIX_LANES,
        "GEMV_THREADS": THREADS,
        "GEMV_ROWS": VECTOR_ROWS,
        "GEMV_ACROSS": VECTORS_ACROSS,
    ]
    "GemmShape": GemmShape {
        rows, columns, depth, left_walk, right_walk, out_vectors, left_row, left_depth, left_batch, right_column, right_depth,
        right_batch, out_row, out_column, out_batch,
    }
}

#[cfg(test)]
mod tests {
    use crate::{arch::Arch, metadata, objects, profile::look_up, Id};

    /// Eight elements are only aligned where the profile says so, and a tile on matrix units loads as many. The slabs of such a
    /// tile are twice as large as those of a plain one, whatever the GPU.
    #[test]
    fn objects_have_tiles_on_matrix_units_where_the_profile_says_so() {
        let clang = match objects::clang() {
            Ok(clang) => clang,
            Err(why) => {
                assert!(std::env::var_os("CI").is_none(), "{why}");
                eprintln!("skipped: {why}");
                return;
            }
        };
        let module = Id::Gemm.module();
        for target in ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"] {
            let arch = Arch::parse(target).unwrap();
            let make = || clang.compile(module.name, module.source, &arch);
            // The key of the test of all modules (`tests/amdgcn.rs`), so that an object is compiled once.
            let parts = [module.source, target, "clang", &clang.key(&arch)];
            let object = match objects::cache() {
                Some(cache) => cache.get_or_make(module.name, &parts, make),
                None => make(),
            };
            let kernels = metadata::kernels(&object.unwrap()).unwrap();
            let shared = |name: &str| kernels.iter().find(|kernel| kernel.name == name).unwrap().shared_bytes;
            let expected = look_up(target).0.matrix_products.value;
            for name in ["gemm_f16", "gemm_bf16"] {
                assert_eq!(shared(name) > shared("gemm_f32"), expected, "{name} for {target}");
            }
            for kernel in &kernels {
                assert_eq!((kernel.vgpr_spills, kernel.private_bytes), (0, 0), "{} for {target}", kernel.name);
            }
        }
    }
}
