//! What a captured operation names is kept by its graph: operands and results may be dropped before the graph is launched. The
//! device checks every access here, so a kernel that touches memory given back is an error. Also: what streams carry for their
//! launches ends with them, and faults that kernels report are never lost.

use candle_rocm_kernels::{
    AttentionOptions, Bilinear, BlockFormat, Blocks, Convolution, DType, Kernels, Operand, OperandMut, Order, Output,
    Pool, Reduce, Rope, Routing, Winograd,
};
use hip::{Buffer, Device, Platform, Result, Stream};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

fn device() -> Device {
    static CONFIGURED: OnceLock<()> = OnceLock::new();
    CONFIGURED.get_or_init(|| {
        let options = hip_host::Options { checked: true, ..hip_host::Options::default() };
        hip_host::configure(options).expect("nothing has used the device before");
    });
    Platform::named("host").and_then(|platform| platform.device(0)).expect("the embedded device starts")
}

/// The reports of failed kernels, and the count of allocations, are the process's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A contiguous tensor.
struct Tensor {
    memory: Buffer<u8>,
    dtype: DType,
    dims: Vec<usize>,
    strides: Vec<usize>,
}

impl Tensor {
    fn new(stream: &Stream, dtype: DType, dims: &[usize]) -> Self {
        let mut strides = vec![1; dims.len()];
        for d in (1..dims.len()).rev() {
            strides[d - 1] = strides[d] * dims[d];
        }
        // All zeros: valid numbers of every dtype, and ids in range.
        let memory = stream.zeros(dims.iter().product::<usize>() * dtype.size()).expect("memory");
        Self { memory, dtype, dims: dims.to_vec(), strides }
    }

    fn read(&self) -> Operand<'_> {
        Operand::new(&self.memory, self.dtype, 0, &self.dims, &self.strides).expect("it fits")
    }

    fn write(&mut self) -> OperandMut<'_> {
        OperandMut::new(&mut self.memory, self.dtype, 0, &self.dims, &self.strides).expect("it fits")
    }

    fn output(&mut self) -> Output<'_> {
        let count = self.dims.iter().product();
        Output::new(&mut self.memory, self.dtype, 0, count).expect("it fits")
    }

    fn blocks(&self, format: BlockFormat, rows: usize, columns: usize) -> Blocks<'_> {
        Blocks::new(&self.memory, format, rows, columns).expect("it fits")
    }
}

type Run = Box<dyn Fn(&Kernels, &[Tensor], &mut Tensor) -> Result<()>>;

/// An operation: its name, its inputs, its result, and the call.
struct Case(&'static str, Vec<(DType, Vec<usize>)>, (DType, Vec<usize>), Run);

fn case(
    name: &'static str,
    inputs: &[(DType, &[usize])],
    out: (DType, &[usize]),
    run: impl Fn(&Kernels, &[Tensor], &mut Tensor) -> Result<()> + 'static,
) -> Case {
    let inputs = inputs.iter().map(|(dtype, dims)| (*dtype, dims.to_vec())).collect();
    Case(name, inputs, (out.0, out.1.to_vec()), Box::new(run))
}

const F: DType = DType::F32;
const U: DType = DType::U32;

/// Every operation of `Kernels` that launches.
fn cases() -> Vec<Case> {
    let wide: &[usize] = &[40, 70];
    let image: &[usize] = &[1, 4, 9, 9];
    let taps: &[usize] = &[4, 4, 3, 3];
    let same = Convolution { padding: 1, ..Convolution::default() };
    let plan = move || Winograd::of(&same, &[1, 4, 9, 9], &[4, 4, 3, 3]).expect("three taps");
    let (planes, places) = (plan().planes(), plan().places());
    let tiles = planes * 4 * places;
    let q4k = (DType::U8, &[8 * 144][..]);
    let mut cases = vec![
        case("unary", &[(F, wide)], (F, wide), |k, i, o| k.unary("uexp", &i[0].read(), &mut o.output())),
        case("unary_with", &[(F, wide)], (F, wide), |k, i, o| {
            k.unary_with("upowf", 2.0, &i[0].read(), &mut o.output())
        }),
        case("copy", &[(F, wide)], (F, wide), |k, i, o| k.copy(&i[0].read(), &mut o.output())),
        case("affine", &[(F, wide)], (F, wide), |k, i, o| k.affine(&i[0].read(), 2.0, 1.0, &mut o.output())),
        case("cast", &[(F, wide)], (DType::F16, wide), |k, i, o| k.cast(&i[0].read(), &mut o.output())),
        case("binary", &[(F, wide), (F, wide)], (F, wide), |k, i, o| {
            k.binary("badd", &i[0].read(), &i[1].read(), &mut o.output())
        }),
        case("gated", &[(F, wide), (F, wide)], (F, wide), |k, i, o| {
            k.gated("gsilu", &i[0].read(), &i[1].read(), &mut o.output())
        }),
        // The sum, then the norm.
        case("rms_norm_of_sum", &[(F, wide), (F, wide), (F, &[70])], (F, &[2, 40, 70]), |k, i, o| {
            let (mut sum, mut norm) = o.memory.view_mut().split_at(4 * 40 * 70)?;
            let (mut sum, mut norm) =
                (Output::new(sum.reborrow(), F, 0, 40 * 70)?, Output::new(norm.reborrow(), F, 0, 40 * 70)?);
            k.rms_norm_of_sum([&i[0].read(), &i[1].read()], &i[2].read(), 1e-5, &mut sum, &mut norm)
        }),
        case("quantized_matmuls", &[(DType::U8, &[8 * 144]), (F, &[1, 256])], (F, &[8]), |k, i, o| {
            k.quantized_matmuls(&i[1].read(), &mut [(i[0].blocks(BlockFormat::Q4K, 8, 256), o.output())])
        }),
        case("compare", &[(F, wide), (F, wide)], (DType::U8, wide), |k, i, o| {
            k.compare("lt", &i[0].read(), &i[1].read(), &mut o.output())
        }),
        case("where_cond", &[(DType::U8, wide), (F, wide), (F, wide)], (F, wide), |k, i, o| {
            k.where_cond(&i[0].read(), &i[1].read(), &i[2].read(), &mut o.output())
        }),
        case("fill", &[], (F, wide), |k, _, o| k.fill(7, &mut o.output())),
        case("const_set", &[], (F, wide), |k, _, o| k.const_set(7, &mut o.write())),
        case("copy2d", &[(F, wide)], (F, wide), |k, i, o| k.copy2d(&i[0].read(), &mut o.write())),
        case("concat", &[(F, &[40, 30]), (F, &[40, 40])], (F, wide), |k, i, o| {
            k.concat(&[i[0].read(), i[1].read()], &mut o.write())
        }),
        case("rand_uniform", &[], (F, wide), |k, _, o| k.rand_uniform(&mut o.output(), 0.0, 1.0, 1, 0).map(|_| ())),
        case("rand_normal", &[], (F, wide), |k, _, o| k.rand_normal(&mut o.output(), 0.0, 1.0, 1, 0).map(|_| ())),
        case("reduce", &[(F, wide)], (F, &[40]), |k, i, o| k.reduce(Reduce::Sum, &i[0].read(), &[1], &mut o.output())),
        case("reduce, cut rows", &[(F, &[1, 1 << 20])], (F, &[1]), |k, i, o| {
            k.reduce(Reduce::Sum, &i[0].read(), &[1], &mut o.output())
        }),
        case("softmax", &[(F, wide)], (F, wide), |k, i, o| k.softmax(&i[0].read(), &mut o.output())),
        case("log_softmax", &[(F, wide)], (F, wide), |k, i, o| k.log_softmax(&i[0].read(), &mut o.output())),
        case("rms_norm", &[(F, wide), (F, &[70])], (F, wide), |k, i, o| {
            k.rms_norm(&i[0].read(), &i[1].read(), 1e-5, &mut o.output())
        }),
        case("layer_norm", &[(F, wide), (F, &[70]), (F, &[70])], (F, wide), |k, i, o| {
            k.layer_norm(&i[0].read(), &i[1].read(), &i[2].read(), 1e-5, &mut o.output())
        }),
        case("arg_sort", &[(F, wide)], (U, wide), |k, i, o| {
            k.arg_sort(Order::Ascending, &i[0].read(), &mut o.output())
        }),
        case("sort", &[(F, wide)], (F, wide), |k, i, o| k.sort(Order::Ascending, &i[0].read(), &mut o.output())),
        case("sort, long rows", &[(F, &[1, 9000])], (F, &[1, 9000]), |k, i, o| {
            k.sort(Order::Descending, &i[0].read(), &mut o.output())
        }),
        case("index_select", &[(F, wide), (U, &[5])], (F, &[5, 70]), |k, i, o| {
            k.index_select(&i[0].read(), &i[1].read(), 0, &mut o.output())
        }),
        case("gather", &[(F, wide), (U, &[5, 70])], (F, &[5, 70]), |k, i, o| {
            k.gather(&i[0].read(), &i[1].read(), 0, &mut o.output())
        }),
        case("scatter", &[(U, &[5, 70]), (F, &[5, 70])], (F, wide), |k, i, o| {
            k.scatter(&mut o.write(), &i[0].read(), &i[1].read(), 0)
        }),
        case("scatter_add", &[(U, &[5, 70]), (F, &[5, 70])], (F, wide), |k, i, o| {
            k.scatter_add(&mut o.write(), &i[0].read(), &i[1].read(), 0)
        }),
        case("index_add", &[(U, &[5]), (F, &[5, 70])], (F, wide), |k, i, o| {
            k.index_add(&mut o.write(), &i[0].read(), &i[1].read(), 0)
        }),
        case("rope", &[(F, &[1, 2, 3, 8]), (F, &[3, 4]), (F, &[3, 4])], (F, &[1, 2, 3, 8]), |k, i, o| {
            k.rope(Rope::Halves, &i[0].read(), &i[1].read(), &i[2].read(), &mut o.output())
        }),
        case("attention", &[(F, &[1, 2, 3, 20]), (F, &[1, 1, 5, 20])], (F, &[1, 2, 3, 20]), |k, i, o| {
            let (q, kv) = (i[0].read(), i[1].read());
            k.attention(&q, &kv, &kv, &AttentionOptions::scaled(0.5), &mut o.write(), None)
        }),
        case("attention, odd rows", &[(F, &[1, 2, 3, 5]), (F, &[1, 1, 5, 5])], (F, &[1, 2, 3, 5]), |k, i, o| {
            let (q, kv) = (i[0].read(), i[1].read());
            k.attention(&q, &kv, &kv, &AttentionOptions::scaled(0.5), &mut o.write(), None)
        }),
        case("conv", &[(F, image), (F, taps)], (F, image), move |k, i, o| {
            k.conv(&same, &i[0].read(), &i[1].read(), &mut o.output())
        }),
        case("conv_transpose", &[(F, image), (F, taps)], (F, image), move |k, i, o| {
            k.conv_transpose(&same, &i[0].read(), &i[1].read(), &mut o.output())
        }),
        case("im2col", &[(F, image)], (F, &[81 * 36]), move |k, i, o| {
            k.im2col(&same, &[3, 3], &i[0].read(), &mut o.output())
        }),
        case("col2im", &[(F, &[1, 4, 9, 81])], (F, image), move |k, i, o| {
            k.col2im(&same, &[9, 9], &[3, 3], &i[0].read(), &mut o.output())
        }),
        case("winograd_image", &[(F, image)], (F, &[tiles]), move |k, i, o| {
            k.winograd_image(&plan(), &i[0].read(), &mut o.output())
        }),
        case("winograd_weights", &[(F, taps)], (F, &[planes * 16]), move |k, i, o| {
            k.winograd_weights(&plan(), &i[0].read(), &mut o.output())
        }),
        case("winograd_result", &[(F, &[planes, 4, places])], (F, image), move |k, i, o| {
            k.winograd_result(&plan(), &i[0].read(), &mut o.output())
        }),
        case("pool2d", &[(F, &[1, 4, 8, 8])], (F, &[1, 4, 4, 4]), |k, i, o| {
            k.pool2d(Pool::Max, (2, 2), (2, 2), &i[0].read(), &mut o.output())
        }),
        case("upsample_nearest", &[(F, image)], (F, &[1, 4, 18, 18]), |k, i, o| {
            k.upsample_nearest(&[18, 18], &i[0].read(), &mut o.output())
        }),
        case("upsample_bilinear2d", &[(F, image)], (F, &[1, 4, 18, 18]), |k, i, o| {
            let params = Bilinear { align_corners: false, scale: (None, None) };
            k.upsample_bilinear2d((18, 18), params, &i[0].read(), &mut o.output())
        }),
        case("dequantize", &[q4k], (F, &[8 * 256]), |k, i, o| {
            k.dequantize(&i[0].blocks(BlockFormat::Q4K, 8, 256), &mut o.output())
        }),
        case("dequantize_rows", &[q4k, (U, &[3])], (F, &[3 * 256]), |k, i, o| {
            k.dequantize_rows(&i[0].blocks(BlockFormat::Q4K, 8, 256), &i[1].read(), &mut o.output())
        }),
        case("quantize", &[(F, &[8, 256])], (DType::U8, &[8 * 8 * 34]), |k, i, o| {
            k.quantize(&i[0].read(), BlockFormat::Q8_0, &mut o.output())
        }),
        case("quantized_experts", &[q4k, (F, &[4, 256]), (U, &[4])], (F, &[4, 4]), |k, i, o| {
            let routing = Routing { experts: i[2].read(), slots: None, weights: None, share: 1 };
            let weights = i[0].blocks(BlockFormat::Q4K, 8, 256);
            k.quantized_experts(&weights, 2, &i[1].read(), &routing, &mut o.output())
        }),
    ];
    // The kernels for one row, for a few and for tiles; matrix products likewise.
    for rows in [1usize, 3, 70] {
        cases.push(case("quantized_matmul", &[q4k, (F, &[rows, 256])], (F, &[rows, 8]), |k, i, o| {
            k.quantized_matmul(&i[0].blocks(BlockFormat::Q4K, 8, 256), &i[1].read(), &mut o.output())
        }));
        cases.push(case("matmul", &[(F, &[1, rows, 32]), (F, &[1, 32, 24])], (F, &[1, rows, 24]), |k, i, o| {
            k.matmul(&i[0].read(), &i[1].read(), &mut o.write())
        }));
    }
    cases
}

#[test]
fn a_graph_keeps_what_its_operations_use() {
    let _alone = alone();
    let stream = device().new_stream().expect("a stream");
    let kernels = Kernels::new(&stream).expect("kernels");
    for Case(name, inputs, (out, out_dims), run) in cases() {
        let tensors =
            || -> Vec<Tensor> { inputs.iter().map(|(dtype, dims)| Tensor::new(&stream, *dtype, dims)).collect() };
        // Once outside of the capture: the case itself is right, and modules are loaded.
        let (warm, mut result) = (tensors(), Tensor::new(&stream, out, &out_dims));
        run(&kernels, &warm, &mut result).unwrap_or_else(|error| panic!("{name}: {error}"));
        drop((warm, result));
        kernels.check(&stream).and_then(|()| stream.synchronize()).unwrap_or_else(|error| panic!("{name}: {error}"));

        let (operands, mut result) = (tensors(), Tensor::new(&stream, out, &out_dims));
        let graph = stream.capture(|_| run(&kernels, &operands, &mut result));
        let graph = graph.unwrap_or_else(|error| panic!("{name}: {error}"));
        drop((operands, result));
        // What a program would do next: whatever was given back belongs to somebody else now.
        let others: Vec<Buffer<u8>> = (0..4).map(|_| stream.zeros(1 << 14).expect("memory")).collect();
        for _ in 0..2 {
            graph.launch(&stream).expect("a launch");
            let outcome = stream.synchronize();
            assert!(outcome.is_ok(), "{name} uses memory that its graph does not keep: {}", outcome.unwrap_err());
        }
        kernels.check(&stream).unwrap_or_else(|error| panic!("{name}: {error}"));
        for other in &others {
            assert!(other.to_vec().expect("a copy").iter().all(|&byte| byte == 0), "{name} wrote into foreign memory");
        }
    }
}

#[test]
fn a_graph_outlives_the_kernels_it_was_made_with() {
    let _alone = alone();
    let stream = device().new_stream().expect("a stream");
    let kernels = Kernels::new(&stream).expect("kernels");
    let (source, ids) = (Tensor::new(&stream, F, &[4, 8]), Tensor::new(&stream, U, &[2]));
    let mut result = Tensor::new(&stream, F, &[2, 8]);
    kernels.index_select(&source.read(), &ids.read(), 0, &mut result.output()).expect("a launch");
    let graph = stream
        .capture(|_| kernels.index_select(&source.read(), &ids.read(), 0, &mut result.output()))
        .expect("a graph");
    drop(kernels);
    graph.launch(&stream).and_then(|()| stream.synchronize()).expect("modules and fault words are there");
}

#[test]
fn streams_are_let_go_with_what_they_carry() {
    let _alone = alone();
    let device = device();
    let first = device.new_stream().expect("a stream");
    let kernels = Kernels::new(&first).expect("kernels");
    let use_all = || {
        let stream = device.new_stream().expect("a stream");
        // Counters of blocks, and words for faults.
        let (long, mut sum) = (Tensor::new(&stream, F, &[1, 1 << 20]), Tensor::new(&stream, F, &[1]));
        kernels.reduce(Reduce::Sum, &long.read(), &[1], &mut sum.output()).expect("a launch");
        let (source, ids) = (Tensor::new(&stream, F, &[4, 8]), Tensor::new(&stream, U, &[2]));
        let mut result = Tensor::new(&stream, F, &[2, 8]);
        kernels.index_select(&source.read(), &ids.read(), 0, &mut result.output()).expect("a launch");
        kernels.check(&stream).expect("nothing is wrong");
    };
    use_all();
    let before = hip_host::live_allocations().len();
    (0..8).for_each(|_| use_all());
    assert_eq!(hip_host::live_allocations().len(), before, "streams that were dropped still hold memory");
}

/// One of the ids is out of range.
fn bad_ids(stream: &Stream) -> Tensor {
    let mut ids = Tensor::new(stream, U, &[2]);
    ids.memory = stream.upload(&[0u8, 0, 0, 0, 99, 0, 0, 0]).expect("a copy");
    ids
}

#[test]
fn a_fault_survives_a_copy_that_fails() {
    let _alone = alone();
    let stream = device().new_stream().expect("a stream");
    let kernels = Kernels::new(&stream).expect("kernels");
    let (source, ids) = (Tensor::new(&stream, F, &[4, 8]), bad_ids(&stream));
    let mut result = Tensor::new(&stream, F, &[2, 8]);
    for call in ["hipMemcpyAsync", "hipStreamSynchronize"] {
        kernels.index_select(&source.read(), &ids.read(), 0, &mut result.output()).expect("a launch");
        let armed = hip_host::inject::fail(call, 0, hip::hipError_t::hipErrorUnknown);
        let failed = kernels.check(&stream).expect_err("the copy fails");
        assert!(armed.fired(), "{call} was not called");
        drop(armed);
        assert!(!failed.to_string().contains("out of range"), "{failed}");
        let fault = kernels.check(&stream).expect_err("the fault is still to be told");
        assert!(fault.to_string().contains("index 99 is out of range"), "{fault}");
        kernels.check(&stream).expect("it is told once");
    }
}

#[test]
fn every_launch_of_a_graph_can_report_a_fault() {
    let _alone = alone();
    let stream = device().new_stream().expect("a stream");
    let kernels = Kernels::new(&stream).expect("kernels");
    let (source, ids) = (Tensor::new(&stream, F, &[4, 8]), bad_ids(&stream));
    let mut result = Tensor::new(&stream, F, &[2, 8]);
    kernels.index_select(&source.read(), &ids.read(), 0, &mut result.output()).expect("a launch");
    kernels.check(&stream).expect_err("the launch itself");
    let graph = stream
        .capture(|_| kernels.index_select(&source.read(), &ids.read(), 0, &mut result.output()))
        .expect("a graph");
    for launch in 0..3 {
        graph.launch(&stream).expect("a launch");
        let fault = kernels.check(&stream).expect_err("an index is out of range");
        assert!(fault.to_string().contains("index 99"), "launch {launch}: {fault}");
        kernels.check(&stream).expect("it is told once");
    }
}
