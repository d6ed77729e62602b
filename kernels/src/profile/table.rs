//! The table of architectures: what each can do, how fast, and from which sizes on one kernel beats another. Every value says
//! where it comes from. A value that was only argued is the first to replace by a measurement.

use super::version::Family;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The maker's documents, and the card or the document.
    DataSheet(&'static str),
    /// Our own runs, or the user's (`tuned.rs`): the card, and the month or the day.
    Measured { card: &'static str, date: &'static str },
    /// Neither of them; the reason.
    Argued(&'static str),
}

/// A value and its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sourced<T> {
    pub value: T,
    pub source: Source,
}

const fn sheet<T: Copy>(value: T, card: &'static str) -> Sourced<T> {
    Sourced { value, source: Source::DataSheet(card) }
}

const fn h200<T: Copy>(value: T) -> Sourced<T> {
    Sourced { value, source: Source::Measured { card: "H200", date: "2026-11" } }
}

const fn argued<T: Copy>(value: T, reason: &'static str) -> Sourced<T> {
    Sourced { value, source: Source::Argued(reason) }
}

/// Peak rates. Arithmetic and memory both miss their peaks by about the same share, so proportions hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// Additions and multiplications of f32 and of f64 by the units that a BLAS uses, in TFLOP/s.
    pub f32: f64,
    pub f64: f64,
    /// Memory in TB/s.
    pub memory: f64,
}

const fn rates(f32: f64, f64: f64, memory: f64, card: &'static str) -> Sourced<Rates> {
    sheet(Rates { f32, f64, memory }, card)
}

/// One row: GPUs that are planned for alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Architecture {
    pub name: &'static str,
    pub family: Family,
    /// Versions of the family that the row is for, both ends included.
    pub versions: &'static [(u32, u32)],
    /// Compute units in one of what HIP counts as units. On RDNA that is a work-group processor, which has two: HIP reports 48
    /// units for an RX 7900 XTX, which has 96 compute units.
    pub compute_units_per_unit: Sourced<u32>,
    pub rates: Sourced<Rates>,
    /// Whether kernels copy to shared memory in bulk, past the registers (`STAGED_ROWS` in `hip/bulk_copy.h`).
    pub bulk_copies: Sourced<bool>,
    /// The most bytes of the right factor up to which a product of a few rows is left to our matrix-vector kernels and not to a
    /// BLAS. A BLAS chooses its kernel on the host, which takes longer than such a product.
    pub few_rows_bytes: Sourced<u64>,
    /// Whether tiles of f16 and bf16 products are made by matrix units (`hip/matrix_tile.h`), which move 8 elements at once.
    pub matrix_products: Sourced<bool>,
    /// Attention in f16 and bf16: rows of a tile for heads of up to 64, 128 and 256 elements (`TileSizes` in `hip/attention.hip`). More
    /// are better as long as registers and shared memory hold them.
    pub attention_rows: Sourced<[u32; 3]>,
    /// Quantized weights: the most rows of activations for which our matrix-unit kernels are fastest; 0 without such kernels.
    pub mma_tiles_to: Sourced<u64>,
    /// Quantized weights: the least rows of activations for which 64 x 64 tiles beat reading the weights again for every eight.
    pub tiles_from: Sourced<u64>,
    /// Quantized weights: the least rows of activations for which it pays to widen the weights to bf16 and let a BLAS multiply.
    pub widen_from: Sourced<Option<u64>>,
}

impl Architecture {
    /// Every value by its name, with its source.
    pub fn values(&self) -> [(&'static str, String, Source); 9] {
        fn value<T: std::fmt::Debug>(name: &'static str, it: Sourced<T>) -> (&'static str, String, Source) {
            (name, format!("{:?}", it.value), it.source)
        }
        [
            value("compute_units_per_unit", self.compute_units_per_unit),
            value("rates", self.rates),
            value("bulk_copies", self.bulk_copies),
            value("few_rows_bytes", self.few_rows_bytes),
            value("matrix_products", self.matrix_products),
            value("attention_rows", self.attention_rows),
            value("mma_tiles_to", self.mma_tiles_to),
            value("tiles_from", self.tiles_from),
            value("widen_from", self.widen_from),
        ]
    }
}

/// For 14336 x 4096 on an H200, widening takes 80 us with its product for up to a hundred rows and 136 us for 512. The matrix-unit
/// kernels take 11 us (Q2K) to 22 us (Q8_0) for eight rows and 16 to 33 us for every sixteen; so they end at 48, where widening begins.
const NVIDIA_MMA_TILES: Sourced<u64> = h200(48);
const NVIDIA_WIDEN: Sourced<Option<u64>> = h200(Some(49));
/// For 14336 x 4096 on an H200, eight rows take 30 to 50 us where a tile of 64 takes 150.
const TILES: u64 = 25;
/// cuBLAS takes 8 to 10 us of the host for a product of any size, and a launch of ours 4.5. For one row of each of 32 heads of 64,
/// ours is done in 7 us for 640 positions (5 MB) and in 16 us for 2048 (17 MB), where cuBLAS needs 10.
const NVIDIA_FEW_ROWS: Sourced<u64> = h200(6 << 20);

const ATTENTION_ROWS: Sourced<[u32; 3]> = argued(
    [64, 64, 32],
    "what registers hold on RDNA with matrix units and without, and on CDNA; one height for all of them",
);
const NVIDIA_ATTENTION_ROWS: Sourced<[u32; 3]> = argued(
    [128, 128, 64],
    "two fragments of 16 rows for a warp halve what is read from shared memory; 255 registers hold them",
);

const LIKE_THE_H200: &str = "nobody has measured it; as on an H200";
const NO_MMA_TILES: Sourced<u64> = argued(
    0,
    "AMD's matrix units take sixteen rows at least and other shares of the operands; kernels for them are not written",
);
const WITHOUT_MATRIX_UNITS: Sourced<Option<u64>> =
    argued(None, "no matrix units for bf16, and products of bytes are four times as fast as those of floats");
const ONE: Sourced<u32> = sheet(1, "HIP's multiProcessorCount counts compute units (multiprocessors) here");
const TWO: Sourced<u32> =
    sheet(2, "HIP's multiProcessorCount counts work-group processors of two compute units on RDNA");
const NO_BULK_COPIES: Sourced<bool> = sheet(false, "no such instruction that our kernels use");
const CDNA1_MATRIX: Sourced<bool> = sheet(
    true,
    "MI100 instruction set: V_MFMA_F32_16X16X16F16 and V_MFMA_F32_16X16X8BF16; no run of it, not even an emulated one",
);
const CDNA_MATRIX: Sourced<bool> = sheet(true, "CDNA 2, 3 and 4 instruction sets: V_MFMA_F32_16X16X16 of f16 and bf16");
const RDNA_MATRIX: Sourced<bool> = sheet(true, "RDNA 3 and 4 instruction sets: V_WMMA_F32_16X16X16 of f16 and bf16");
const CDNA_FEW_ROWS: Sourced<u64> =
    argued(6 << 20, "rocBLAS chooses on the host too; caches and memory are as fast as an H200's");
const RDNA_FEW_ROWS: Sourced<u64> =
    argued(3 << 20, "rocBLAS chooses on the host too; memory is half as fast as an H200's or less");
const AMD_TILES: Sourced<u64> = argued(TILES, LIKE_THE_H200);
/// MI200 and MI300 have an H200's proportions: bf16 at 383 and 1307 TFLOP/s, memory at 3.3 and 5.3 TB/s.
const CDNA_WIDEN: Sourced<Option<u64>> =
    argued(Some(17), "proportions of bf16 and memory are an H200's; the mat-vec kernels, which widening competes with, are slower than its matrix units");
const RDNA_WIDEN: Sourced<Option<u64>> = argued(
    Some(128),
    "bf16 at 120 TFLOP/s and more but memory of at most 1 TB/s: it pays once the product takes longer than widening",
);

/// GPUs of one family by their versions (`sm_90` is 90, `gfx90a` is 0x90a, `gfx1100` is 0xb00), oldest first.
pub(crate) static TABLE: [Architecture; 13] = [
    Architecture {
        name: "NVIDIA before Ampere",
        family: Family::Nvidia,
        versions: &[(50, 79)],
        compute_units_per_unit: ONE,
        rates: argued(Rates { f32: 67.0, f64: 67.0, memory: 4.8 }, LIKE_THE_H200),
        bulk_copies: sheet(false, "CUDA programming guide: since compute capability 9.0"),
        few_rows_bytes: argued(6 << 20, LIKE_THE_H200),
        matrix_products: argued(false, "cuBLAS multiplies there; these kernels only measure"),
        attention_rows: ATTENTION_ROWS,
        mma_tiles_to: sheet(0, "CUDA programming guide: m16n8k32 of bytes since compute capability 8.0"),
        tiles_from: argued(TILES, LIKE_THE_H200),
        widen_from: sheet(None, "CUDA programming guide: bf16 since compute capability 8.0"),
    },
    Architecture {
        name: "NVIDIA Ampere and Ada",
        family: Family::Nvidia,
        versions: &[(80, 89)],
        compute_units_per_unit: ONE,
        rates: argued(Rates { f32: 67.0, f64: 67.0, memory: 4.8 }, LIKE_THE_H200),
        bulk_copies: sheet(false, "CUDA programming guide: since compute capability 9.0"),
        few_rows_bytes: argued(6 << 20, LIKE_THE_H200),
        matrix_products: argued(false, "cuBLAS multiplies there; these kernels only measure"),
        attention_rows: NVIDIA_ATTENTION_ROWS,
        mma_tiles_to: argued(48, LIKE_THE_H200),
        tiles_from: argued(TILES, LIKE_THE_H200),
        widen_from: argued(Some(49), LIKE_THE_H200),
    },
    Architecture {
        name: "NVIDIA Hopper and Blackwell",
        family: Family::Nvidia,
        versions: &[(90, 121)],
        compute_units_per_unit: ONE,
        rates: rates(67.0, 67.0, 4.8, "H200"),
        bulk_copies: sheet(true, "CUDA programming guide: since compute capability 9.0"),
        few_rows_bytes: NVIDIA_FEW_ROWS,
        matrix_products: argued(false, "cuBLAS multiplies there; these kernels only measure"),
        attention_rows: NVIDIA_ATTENTION_ROWS,
        mma_tiles_to: NVIDIA_MMA_TILES,
        tiles_from: h200(TILES),
        widen_from: NVIDIA_WIDEN,
    },
    Architecture {
        name: "gfx906 (Vega)",
        family: Family::Amd,
        // 0x909 and 0x90c are Vega inside processors.
        versions: &[(0x900, 0x907), (0x909, 0x909), (0x90c, 0x90c)],
        compute_units_per_unit: ONE,
        rates: rates(14.7, 7.4, 1.0, "MI60"),
        bulk_copies: NO_BULK_COPIES,
        few_rows_bytes: CDNA_FEW_ROWS,
        matrix_products: sheet(false, "no matrix units"),
        attention_rows: ATTENTION_ROWS,
        mma_tiles_to: argued(0, "no matrix units"),
        tiles_from: AMD_TILES,
        widen_from: WITHOUT_MATRIX_UNITS,
    },
    Architecture {
        name: "gfx908 (CDNA 1)",
        family: Family::Amd,
        versions: &[(0x908, 0x908)],
        compute_units_per_unit: ONE,
        rates: rates(46.1, 11.5, 1.2, "MI100"),
        bulk_copies: NO_BULK_COPIES,
        few_rows_bytes: CDNA_FEW_ROWS,
        matrix_products: CDNA1_MATRIX,
        attention_rows: ATTENTION_ROWS,
        mma_tiles_to: NO_MMA_TILES,
        tiles_from: AMD_TILES,
        widen_from: argued(Some(33), "as on gfx90a, with bf16 at half the rate"),
    },
    Architecture {
        name: "gfx90a (CDNA 2)",
        family: Family::Amd,
        versions: &[(0x90a, 0x90a)],
        compute_units_per_unit: ONE,
        rates: rates(45.3, 45.3, 1.6, "MI210, half an MI250X"),
        bulk_copies: NO_BULK_COPIES,
        few_rows_bytes: CDNA_FEW_ROWS,
        matrix_products: CDNA_MATRIX,
        attention_rows: ATTENTION_ROWS,
        mma_tiles_to: NO_MMA_TILES,
        tiles_from: AMD_TILES,
        widen_from: CDNA_WIDEN,
    },
    Architecture {
        name: "gfx942 (CDNA 3)",
        family: Family::Amd,
        versions: &[(0x940, 0x94f)],
        compute_units_per_unit: ONE,
        rates: rates(163.4, 163.4, 5.3, "MI300X"),
        bulk_copies: NO_BULK_COPIES,
        few_rows_bytes: CDNA_FEW_ROWS,
        matrix_products: CDNA_MATRIX,
        attention_rows: ATTENTION_ROWS,
        mma_tiles_to: NO_MMA_TILES,
        tiles_from: AMD_TILES,
        widen_from: CDNA_WIDEN,
    },
    Architecture {
        name: "gfx950 (CDNA 4)",
        family: Family::Amd,
        versions: &[(0x950, 0x950)],
        compute_units_per_unit: ONE,
        rates: rates(157.3, 78.6, 8.0, "MI355X"),
        bulk_copies: NO_BULK_COPIES,
        few_rows_bytes: CDNA_FEW_ROWS,
        matrix_products: CDNA_MATRIX,
        attention_rows: ATTENTION_ROWS,
        mma_tiles_to: NO_MMA_TILES,
        tiles_from: AMD_TILES,
        widen_from: CDNA_WIDEN,
    },
    Architecture {
        name: "gfx101x (RDNA 1)",
        family: Family::Amd,
        versions: &[(0xa10, 0xa1f)],
        compute_units_per_unit: TWO,
        rates: rates(9.8, 0.61, 0.45, "RX 5700 XT"),
        bulk_copies: NO_BULK_COPIES,
        few_rows_bytes: RDNA_FEW_ROWS,
        matrix_products: sheet(false, "no matrix units"),
        attention_rows: ATTENTION_ROWS,
        mma_tiles_to: argued(0, "no matrix units"),
        tiles_from: AMD_TILES,
        widen_from: WITHOUT_MATRIX_UNITS,
    },
    Architecture {
        name: "gfx103x (RDNA 2)",
        family: Family::Amd,
        versions: &[(0xa30, 0xa3f)],
        compute_units_per_unit: TWO,
        rates: rates(23.0, 1.44, 0.512, "RX 6900 XT"),
        bulk_copies: NO_BULK_COPIES,
        few_rows_bytes: RDNA_FEW_ROWS,
        matrix_products: sheet(false, "no matrix units"),
        attention_rows: ATTENTION_ROWS,
        mma_tiles_to: argued(0, "no matrix units"),
        tiles_from: AMD_TILES,
        widen_from: WITHOUT_MATRIX_UNITS,
    },
    Architecture {
        name: "gfx11 (RDNA 3)",
        family: Family::Amd,
        versions: &[(0xb00, 0xb0f), (0xb50, 0xb5f)],
        compute_units_per_unit: TWO,
        rates: rates(61.4, 1.92, 0.96, "RX 7900 XTX"),
        bulk_copies: NO_BULK_COPIES,
        few_rows_bytes: RDNA_FEW_ROWS,
        matrix_products: RDNA_MATRIX,
        attention_rows: ATTENTION_ROWS,
        mma_tiles_to: NO_MMA_TILES,
        tiles_from: AMD_TILES,
        widen_from: RDNA_WIDEN,
    },
    Architecture {
        name: "gfx12 (RDNA 4)",
        family: Family::Amd,
        versions: &[(0xc00, 0xc0f)],
        compute_units_per_unit: TWO,
        rates: rates(48.7, 0.76, 0.64, "RX 9070 XT"),
        bulk_copies: NO_BULK_COPIES,
        few_rows_bytes: RDNA_FEW_ROWS,
        matrix_products: RDNA_MATRIX,
        attention_rows: ATTENTION_ROWS,
        mma_tiles_to: NO_MMA_TILES,
        tiles_from: AMD_TILES,
        widen_from: RDNA_WIDEN,
    },
    Architecture {
        name: "the embedded device",
        family: Family::Embedded,
        versions: &[(0, 0)],
        compute_units_per_unit: argued(1, "a unit is a core"),
        rates: argued(Rates { f32: 0.1, f64: 0.05, memory: 0.02 }, "two cores"),
        bulk_copies: argued(false, "a processor has no such instruction"),
        few_rows_bytes: argued(16 << 10, "nothing to gain; small, so that the tests see both sides"),
        matrix_products: argued(false, "a processor; the plain tile is what its tests are for"),
        attention_rows: ATTENTION_ROWS,
        mma_tiles_to: argued(16, "only where the tests plan as on a GPU, and small, so that they see all kernels"),
        tiles_from: argued(TILES, "only where the tests plan as on a GPU"),
        widen_from: argued(Some(25), "only where the tests plan as on a GPU"),
    },
];
