//! Quantized weights: every format against its definition in plain Rust. Dequantizing and quantizing have one right answer;
//! a product may differ from the exact one by what rounding the activations explains, and no more.

use crate::bench::{assert_same, Bench};
use crate::blocks::{self, QUANTIZED};
use crate::element::{Element, Random};
use crate::layouts::{contiguous_strides, offsets};
use candle_rocm_kernels::{BlockFormat, Blocks, DType, Kernels, Operand, Output, Planning, ProductPlan, Routing};
use half::{bf16, f16};
use hip::{Buffer, Result};

pub fn family(bench: &Bench) {
    // Geometry of the embedded device, with one thread for a row, and that of a GPU, with teams and tiles.
    for on_a_gpu in [false, true] {
        let bench = &bench.as_on_a_gpu(on_a_gpu);
        let mut random = Random::new(0x9_0b1c + u64::from(on_a_gpu));
        for format in BlockFormat::ALL {
            dequantizes(bench, &mut random, format);
            looks_up_rows(bench, &mut random, format);
            multiplies(bench, &mut random, format);
        }
        for format in QUANTIZED {
            routes_to_experts(bench, &mut random, format);
            multiplies_chunks(bench, &mut random, format);
        }
        multiplies_several(bench, &mut random);
        takes_any_layout(bench, &mut random);
        takes_long_rows(bench, &mut random);
        carries_nan_and_extremes(bench, &mut random);
    }
    let mut random = Random::new(7);
    if bench.kernels.device().platform().is_gpu() {
        // Where matrix units take the products of a few rows, the kernels for devices without them are right as well.
        let bench = bench.planned(Planning { without_matrix_units: true, ..Default::default() });
        BlockFormat::ALL.into_iter().for_each(|format| multiplies(&bench, &mut random, format));
    }
    QUANTIZED.into_iter().filter(|format| Kernels::can_quantize(*format)).for_each(|format| {
        quantizes(bench, &mut random, format);
    });
    cuts_panels(bench, &mut random);
    refuses(bench);
}

/// Random weights of one magnitude, on the device and as numbers.
struct Matrix {
    memory: Buffer<u8>,
    format: BlockFormat,
    rows: usize,
    columns: usize,
    weights: Vec<f64>,
}

impl Matrix {
    fn random(
        bench: &Bench,
        random: &mut Random,
        format: BlockFormat,
        [rows, columns]: [usize; 2],
        scale: f64,
    ) -> Self {
        let bytes = blocks::random(random, format, rows * columns / format.block_size(), scale);
        let memory = bench.stream.upload(&bytes).expect("a copy to the device");
        Self { memory, format, rows, columns, weights: blocks::weights(format, &bytes) }
    }

    fn blocks(&self) -> Blocks<'_> {
        Blocks::new(&self.memory, self.format, self.rows, self.columns).expect("the blocks fit their memory")
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.weights[row * self.columns..(row + 1) * self.columns]
    }
}

fn dequantizes(bench: &Bench, random: &mut Random, format: BlockFormat) {
    for (rows, columns, scale) in [(1, 256, 1e-3), (3, 512, 0.5), (5, 1280, 60.0)] {
        let matrix = Matrix::random(bench, random, format, [rows, columns], scale);
        fn check<T: Element>(bench: &Bench, matrix: &Matrix, from_f32: impl Fn(f32) -> T) {
            let got = bench.result::<T>(matrix.weights.len(), |out| bench.kernels.dequantize(&matrix.blocks(), out));
            let want: Vec<T> = matrix.weights.iter().map(|&w| from_f32(w as f32)).collect();
            assert_same(&got, &want, || format!("{} to {}", matrix.format, T::DTYPE));
        }
        check::<f32>(bench, &matrix, |x| x);
        check::<f16>(bench, &matrix, f16::from_f32);
        check::<bf16>(bench, &matrix, bf16::from_f32);
    }
}

fn looks_up_rows(bench: &Bench, random: &mut Random, format: BlockFormat) {
    let columns = if format.is_plain() { 77 } else { 256 };
    let matrix = Matrix::random(bench, random, format, [9, columns], 1.0);
    let ids = [8u32, 0, 3, 3, 7];
    let list = bench.contiguous(&ids, &[5]);
    let got =
        bench.result::<f32>(5 * columns, |out| bench.kernels.dequantize_rows(&matrix.blocks(), &list.operand(), out));
    let want: Vec<f32> = ids.iter().flat_map(|&id| matrix.row(id as usize).iter().map(|&w| w as f32)).collect();
    assert_same(&got, &want, || format!("rows of {format}"));
    bench.kernels.check(&bench.stream).expect("all ids are rows");

    let list = bench.contiguous(&[1u32, 9, 2], &[3]);
    let got =
        bench.result::<f32>(3 * columns, |out| bench.kernels.dequantize_rows(&matrix.blocks(), &list.operand(), out));
    let error = bench.kernels.check(&bench.stream).expect_err("row 9 of 9 does not exist").to_string();
    assert!(error.contains("embedding") && error.contains('9'), "{error}");
    assert!(got[columns..2 * columns].iter().all(|&x| x == 0.0), "a row that does not exist is zero");
    assert_eq!(got[2 * columns], matrix.row(2)[0] as f32);
}

/// How many activations share a step.
const STEP: usize = 32;

/// The same in products of a few of them, where tiles take chunks of 256 of these formats as integers.
fn step_of(format: BlockFormat, batch: usize) -> usize {
    match format {
        BlockFormat::Q2K | BlockFormat::Q3K if (2..=48).contains(&batch) => 256,
        _ => STEP,
    }
}

/// What a product should be, and how far it may be off where `step` activations are rounded together.
fn expected(weights: &[f64], activations: &[f64], step: usize, exact: bool) -> (f64, f64) {
    let mut sum = 0.0;
    let mut slack = 0.0;
    for (w, x) in weights.chunks(step).zip(activations.chunks(step)) {
        // Activations move by half a step at most; the step is a 127th of the largest.
        let step = x.iter().fold(0.0f64, |most, x| most.max(x.abs())) / 127.0;
        for (w, x) in w.iter().zip(x) {
            sum += w * x;
            // And f32 sums of a few hundred terms lose a few units in the last place of what was added up.
            slack += (w * x).abs() * 1e-6 + if exact { 0.0 } else { w.abs() * step * 0.5005 };
        }
    }
    (sum, slack)
}

fn assert_product<T: Element>(got: T, (sum, slack): (f64, f64), what: impl Fn() -> String) {
    // Half a unit in the last place of the result's dtype, relative and, for its subnormal numbers, absolute.
    let (relative, absolute) = match T::DTYPE {
        DType::F16 => (5e-4, 3e-8),
        DType::BF16 => (4e-3, 1e-38),
        _ => (1e-7, 1e-38),
    };
    let allowed = slack + sum.abs() * relative + absolute;
    let off = (got.to_f64() - sum).abs();
    assert!(off <= allowed, "{}: {got:?} is {off} from {sum}, more than {allowed}", what());
}

fn multiplies(bench: &Bench, random: &mut Random, format: BlockFormat) {
    let block = format.block_size().max(32);
    // Batches of activations x (rows of weights, blocks of a row, magnitude of the weights). Large shapes meet each batch
    // size with one of the matrices only: what depends on the batch does not depend on them.
    let matrices = [(1, 1, 0.01), (5, 3, 30.0), (8, 2, 1e-4), (67, 5, 0.3)];
    for (turn, batch) in [1, 2, 3, 7, 8, 9, 18, 25, 33, 512].into_iter().enumerate() {
        for (nth, (rows, count, scale)) in matrices.into_iter().enumerate() {
            let cost = batch * rows * count * block;
            if (batch > 9 && nth % 2 != turn % 2) || cost > 2_000_000 {
                continue;
            }
            let columns = if format.is_plain() { count * block - 3 } else { count * block };
            let matrix = Matrix::random(bench, random, format, [rows, columns], scale);
            let width = random.between(0.1, 100.0);
            let values: Vec<f32> = (0..batch * columns).map(|_| random.between(-width, width) as f32).collect();
            let what = |dtype| format!("{batch} x {columns} {dtype} times {format} {rows} x {columns}");
            if turn % 3 != 1 {
                product::<f32, f32>(bench, &matrix, &values, batch, || what("f32"));
            } else {
                product::<f16, f16>(bench, &matrix, &values, batch, || what("f16"));
            }
            if turn % 3 == 2 {
                product::<bf16, bf16>(bench, &matrix, &values, batch, || what("bf16"));
            }
        }
    }
}

/// Rows of several chunks of 256 weights, the last of them in part, for the kernels that take weights a chunk at a time.
fn multiplies_chunks(bench: &Bench, random: &mut Random, format: BlockFormat) {
    let columns = if format.block_size() == 32 { 1312 } else { 1536 };
    let matrix = Matrix::random(bench, random, format, [21, columns], 0.1);
    for batch in [5, 13] {
        let values: Vec<f32> = (0..batch * columns).map(|_| random.between(-4.0, 4.0) as f32).collect();
        product::<f32, f32>(bench, &matrix, &values, batch, || format!("{batch} x {columns} times {format}"));
    }
}

fn product<In: Element, Out: Element>(
    bench: &Bench,
    matrix: &Matrix,
    values: &[f32],
    batch: usize,
    what: impl Fn() -> String,
) {
    let values: Vec<In> = values.iter().map(|&x| In::from_f64(f64::from(x))).collect();
    let activations = bench.contiguous(&values, &[batch, matrix.columns]);
    let got = bench.result::<Out>(batch * matrix.rows, |out| {
        bench.kernels.quantized_matmul(&matrix.blocks(), &activations.operand(), out)
    });
    let numbers: Vec<f64> = values.iter().map(|x| x.to_f64()).collect();
    for b in 0..batch {
        let row = &numbers[b * matrix.columns..(b + 1) * matrix.columns];
        for r in 0..matrix.rows {
            let want = expected(matrix.row(r), row, step_of(matrix.format, batch), matrix.format.is_plain());
            // f16 has an end, and large weights reach it.
            if want.0.abs() + want.1 < 6e4 || Out::DTYPE != DType::F16 {
                assert_product(got[b * matrix.rows + r], want, || format!("{} at ({b}, {r})", what()));
            }
        }
    }
}

/// Several weights times the same activations: three of one format share a launch, a fourth and one of another format have their own.
fn multiplies_several(bench: &Bench, random: &mut Random) {
    use BlockFormat::{Q4K, Q4_0, Q6K, Q8_0};
    let columns = 768;
    for formats in [&[Q4K, Q4K, Q4K][..], &[Q8_0, Q8_0], &[Q4_0; 4], &[Q4K, Q4K, Q6K], &[Q6K]] {
        for batch in [1, 3] {
            let matrices: Vec<Matrix> = formats
                .iter()
                .enumerate()
                .map(|(nth, &format)| Matrix::random(bench, random, format, [[70, 9, 1, 33][nth], columns], 0.1))
                .collect();
            let values: Vec<f32> = (0..batch * columns).map(|_| random.between(-2.0, 2.0) as f32).collect();
            let activations = bench.contiguous(&values, &[batch, columns]);
            let numbers: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
            let mut memory: Vec<_> = matrices
                .iter()
                .map(|matrix| bench.stream.zeros::<u8>(4 * batch * matrix.rows).expect("memory"))
                .collect();
            let mut products: Vec<_> = matrices
                .iter()
                .zip(&mut memory)
                .map(|(matrix, memory)| {
                    let out = Output::new(memory, DType::F32, 0, batch * matrix.rows).expect("it fits");
                    (matrix.blocks(), out)
                })
                .collect();
            bench.kernels.quantized_matmuls(&activations.operand(), &mut products).expect("several products");
            drop(products);
            for (matrix, memory) in matrices.iter().zip(&memory) {
                let got: Vec<f32> = memory.to_vec().expect("a copy").chunks(4).map(f32::read).collect();
                for (i, &got) in got.iter().enumerate() {
                    let (b, r) = (i / matrix.rows, i % matrix.rows);
                    let row = &numbers[b * columns..][..columns];
                    let want = expected(matrix.row(r), row, step_of(matrix.format, batch), false);
                    assert_product(got, want, || format!("{} of {formats:?}, row {r} of {b}", matrix.format));
                }
            }
        }
    }
}

fn takes_any_layout(bench: &Bench, random: &mut Random) {
    let (rows, columns) = (11, 512);
    let matrix = Matrix::random(bench, random, BlockFormat::Q4K, [rows, columns], 0.02);
    // (start, dims, strides): transposed, with gaps, shared by the batch, misaligned, and of four dimensions.
    let cases: [(usize, Vec<usize>, Vec<usize>); 6] = [
        (0, vec![3, columns], vec![1, 3]),
        (5, vec![2, 3, columns], vec![3 * columns + 7, columns + 1, 1]),
        (0, vec![4, 2, columns], vec![0, columns, 1]),
        (1, vec![columns], vec![1]),
        (2, vec![2, 3, 2, columns], vec![columns, 4 * columns, 2 * columns, 1]),
        (0, vec![5, 7, columns], vec![1, 5 * columns, 5]),
    ];
    for (start, dims, strides) in cases {
        let places = offsets(&dims, &strides);
        let memory: Vec<f32> =
            (0..start + places.iter().max().unwrap() + 1).map(|_| random.between(-2.0, 2.0) as f32).collect();
        let activations = bench.tensor(&memory, start, &dims, &strides);
        let batch = places.len() / columns;
        let got = bench.result::<f32>(batch * rows, |out| {
            bench.kernels.quantized_matmul(&matrix.blocks(), &activations.operand(), out)
        });
        let numbers: Vec<f64> = places.iter().map(|&place| f64::from(memory[start + place])).collect();
        for (i, &got) in got.iter().enumerate() {
            let want = expected(matrix.row(i % rows), &numbers[i / rows * columns..][..columns], STEP, false);
            assert_product(got, want, || format!("{dims:?} with strides {strides:?}, element {i}"));
        }
    }
}

/// Rows at and beyond what the shared memory of the kernel for one row of activations has room for.
fn takes_long_rows(bench: &Bench, random: &mut Random) {
    let edges = [(BlockFormat::Q4_0, 16_384), (BlockFormat::Q4_0, 16_416)];
    for (format, columns) in edges.into_iter().chain(QUANTIZED.map(|format| (format, 16_640))) {
        let matrix = Matrix::random(bench, random, format, [3, columns], 0.1);
        let values: Vec<f32> = (0..columns).map(|_| random.between(-1.0, 1.0) as f32).collect();
        product::<f32, f32>(bench, &matrix, &values, 1, || format!("{columns} activations times {format}"));
    }
}

fn cuts_panels(bench: &Bench, random: &mut Random) {
    let matrix = Matrix::random(bench, random, BlockFormat::Q4_0, [37, 96], 1.0);
    let panel = matrix.blocks().panel(16, 21).expect("a panel from row 16 on");
    let got = bench.result::<f32>(21 * 96, |out| bench.kernels.dequantize(&panel, out));
    let want: Vec<f32> = matrix.weights[16 * 96..].iter().map(|&w| w as f32).collect();
    assert_same(&got, &want, || "rows 16 to 37".into());
    for (first, count, named) in [(30, 8, "not in a matrix of 37"), (usize::MAX, 2, "not in"), (1, 2, "multiple of 16")]
    {
        let error = matrix.blocks().panel(first, count).expect_err("no such panel").to_string();
        assert!(error.contains(named), "{error}");
    }
}

fn carries_nan_and_extremes(bench: &Bench, random: &mut Random) {
    let columns = 256;
    let matrix = Matrix::random(bench, random, BlockFormat::Q8_0, [3, columns], 1.0);
    let product = |values: &[f32]| {
        let activations = bench.contiguous(values, &[1, columns]);
        bench.result::<f32>(3, |out| bench.kernels.quantized_matmul(&matrix.blocks(), &activations.operand(), out))
    };
    let mut values: Vec<f32> = (0..columns).map(|_| random.between(-1.0, 1.0) as f32).collect();
    for scale in [1e30f32, 1e-30, 1e6] {
        let scaled: Vec<f32> = values.iter().map(|x| x * scale).collect();
        let numbers: Vec<f64> = scaled.iter().map(|&x| f64::from(x)).collect();
        for (r, got) in product(&scaled).into_iter().enumerate() {
            assert_product(got, expected(matrix.row(r), &numbers, STEP, false), || {
                format!("activations around {scale}")
            });
        }
    }
    assert_eq!(product(&vec![0.0; columns]), [0.0; 3]);
    assert_eq!(product(&vec![1e-44; columns]).iter().map(|x| x.is_finite()).collect::<Vec<_>>(), [true; 3]);
    values[100] = f32::NAN;
    assert!(product(&values).iter().all(|x| x.is_nan()), "a NaN must not vanish");
    values[100] = f32::INFINITY;
    assert!(product(&values).iter().all(|x| !x.is_finite()), "an infinity must not vanish");
}

fn routes_to_experts(bench: &Bench, random: &mut Random, format: BlockFormat) {
    let (experts, rows, columns) = (3, 5, 2 * format.block_size());
    let matrix = Matrix::random(bench, random, format, [experts * rows, columns], 0.1);
    for (tokens, share, sorted, weighted) in
        [(1, 1, false, false), (4, 2, false, true), (1, 4, true, false), (5, 3, true, true), (7, 1, true, true)]
    {
        let pairs = tokens * share;
        let values: Vec<f32> = (0..tokens * columns).map(|_| random.between(-3.0, 3.0) as f32).collect();
        let numbers: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
        let by_slot: Vec<u32> = (0..pairs).map(|_| random.below(experts) as u32).collect();
        let mut slots: Vec<u32> = (0..pairs as u32).collect();
        if sorted {
            slots.sort_by_key(|&slot| by_slot[slot as usize]);
        }
        let chosen: Vec<u32> = slots.iter().map(|&slot| by_slot[slot as usize]).collect();
        let factors: Vec<f32> = (0..pairs).map(|_| random.between(0.1, 1.0) as f32).collect();

        let activations = bench.contiguous(&values, &[tokens, columns]);
        let (chosen, slots) = (bench.contiguous(&chosen, &[pairs]), bench.contiguous(&slots, &[pairs]));
        let weights = bench.contiguous(&factors, &[pairs]);
        let routing = Routing {
            experts: chosen.operand(),
            slots: sorted.then(|| slots.operand()),
            weights: weighted.then(|| weights.operand()),
            share,
        };
        let got = bench.result::<f32>(pairs * rows, |out| {
            bench.kernels.quantized_experts(&matrix.blocks(), experts, &activations.operand(), &routing, out)
        });
        bench.kernels.check(&bench.stream).expect("all experts exist");
        for (i, &got) in got.iter().enumerate() {
            let (slot, row) = (i / rows, i % rows);
            let from = slot / share * columns;
            let (sum, slack) =
                expected(matrix.row(by_slot[slot] as usize * rows + row), &numbers[from..from + columns], STEP, false);
            let factor = if weighted { f64::from(factors[slot]) } else { 1.0 };
            assert_product(got, (sum * factor, slack * factor), || {
                format!("{format}: {tokens} tokens, {share} experts each, slot {slot}, row {row}")
            });
        }
    }
    // An expert that does not exist, and a slot that does not.
    let activations = bench.contiguous(&vec![1.0f32; 2 * columns], &[2, columns]);
    for (chosen, slots, named) in [([0u32, 3], None, "experts"), ([0, 1], Some([0u32, 2]), "slots")] {
        let list = bench.contiguous(&chosen, &[2]);
        let slots = slots.map(|slots| bench.contiguous(&slots, &[2]));
        let routing = Routing {
            experts: list.operand(),
            slots: slots.as_ref().map(|slots| slots.operand()),
            weights: None,
            share: 1,
        };
        let got = bench.result::<f32>(2 * rows, |out| {
            bench.kernels.quantized_experts(&matrix.blocks(), experts, &activations.operand(), &routing, out)
        });
        let error = bench.kernels.check(&bench.stream).expect_err("out of range").to_string();
        assert!(error.contains(named), "{error}");
        let (sum, slack) = expected(matrix.row(0), &vec![1.0; columns], STEP, false);
        assert_product(got[0], (sum, slack), || "the pair that is in order".into());
    }
}

fn quantizes(bench: &Bench, random: &mut Random, format: BlockFormat) {
    let block = format.block_size();
    let mut values: Vec<f32> = Vec::new();
    for nth in 0..70 {
        let width = [1e-6, 0.02, 1.0, 3e3][nth % 4];
        values.extend((0..block).map(|_| match nth {
            0 => 0.0,
            1 => 2.5,
            2 => random.between(0.0, 1.0) as f32,
            3 => -random.between(0.0, 1.0) as f32,
            // Halves, which rounding has to decide.
            4 => random.below(33) as f32 * 0.5 - 8.0,
            _ => random.between(-width, width) as f32,
        }));
    }
    let tensor = bench.contiguous(&values, &[values.len()]);
    let bytes = format.bytes_of(values.len()).unwrap();
    let got = bench.result::<u8>(bytes, |out| bench.kernels.quantize(&tensor.operand(), format, out));
    let want: Vec<u8> = values.chunks(block).flat_map(|values| blocks::quantize(format, values)).collect();
    assert_same(&got, &want, || format!("bytes of {format}"));
}

fn refuses(bench: &Bench) {
    let memory = bench.stream.zeros::<u8>(4 * 144).expect("memory");
    for (rows, columns, named) in [(2, 200, "whole"), (5, 256, "bytes"), (usize::MAX, 256, "whole")] {
        let error = Blocks::new(&memory, BlockFormat::Q4K, rows, columns).expect_err("does not fit").to_string();
        assert!(error.contains(named), "{error}");
    }
    let odd = memory.slice(8..).expect("a view");
    let error = Blocks::new(odd, BlockFormat::Q4K, 1, 256).expect_err("not aligned").to_string();
    assert!(error.contains("multiple of 16"), "{error}");

    let blocks = Blocks::new(&memory, BlockFormat::Q4K, 4, 256).expect("fits");
    let refused = |dims: &[usize], dtype: DType, count: usize, out: DType, named: &str| {
        let values = bench.stream.zeros::<u8>(dims.iter().product::<usize>() * dtype.size()).expect("memory");
        let strides = contiguous_strides(dims);
        let activations = Operand::new(&values, dtype, 0, dims, &strides).expect("fits");
        let mut memory = bench.stream.zeros::<u8>(count.max(1) * out.size()).expect("memory");
        let mut out = Output::new(&mut memory, out, 0, count).expect("fits");
        let result: Result<()> = bench.kernels.quantized_matmul(&blocks, &activations, &mut out);
        let error = result.expect_err("refused").to_string();
        assert!(error.contains(named), "{error}");
    };
    refused(&[2, 128], DType::F32, 8, DType::F32, "[2, 128]");
    refused(&[], DType::F32, 4, DType::F32, "scalar");
    refused(&[2, 256], DType::F64, 8, DType::F32, "f64");
    refused(&[2, 256], DType::F32, 8, DType::U8, "u8");
    refused(&[2, 256], DType::F32, 7, DType::F32, "7");

    // A plan for other weights, for one row only, and for a BLAS.
    let values = bench.stream.zeros::<f32>(2 * 256).expect("memory");
    let activations = Operand::new(&values, DType::F32, 0, &[2, 256], &[256, 1]).expect("fits");
    for plan in [ProductPlan::Floats, ProductPlan::OneRow, ProductPlan::Widened] {
        let mut memory = bench.stream.zeros::<u8>(8 * 4).expect("memory");
        let mut out = Output::new(&mut memory, DType::F32, 0, 8).expect("fits");
        let result = bench.kernels.quantized_matmul_by(plan, &blocks, &activations, &mut out);
        let error = result.expect_err("refused").to_string();
        assert!(error.contains(&format!("{plan:?}")) && error.contains("plan_product"), "{error}");
    }

    // An empty batch is a result without elements.
    let values = bench.stream.zeros::<f32>(1).expect("memory");
    let activations = Operand::new(&values, DType::F32, 0, &[0, 256], &[256, 1]).expect("fits");
    let none = bench.result::<f32>(0, |out| bench.kernels.quantized_matmul(&blocks, &activations, out));
    assert!(none.is_empty());
}
