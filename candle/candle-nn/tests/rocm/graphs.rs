//! Steps of a model as graphs: a launch computes what the step does at once, bit for bit, with new inputs in the same memory; what cannot
//! be recorded is an error, after which the device goes on.

use super::put_off::{device, launches};
use super::suite;
use candle::quantized::{GgmlDType, QMatMul, QTensor};
use candle::rocm_backend::hip::hipError_t;
use candle::rocm_backend::RocmGraph;
use candle::{DType, Device, Module, Result, Tensor};
use candle_nn::ops;
use hip_host::inject;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

fn random(shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::rand(-1f32, 1f32, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
}

/// The elements, exactly: f32 holds each of the other floats.
fn bits(x: &Tensor) -> Result<Vec<u32>> {
    Ok(x.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?.into_iter().map(f32::to_bits).collect())
}

fn assert_works(device: &Device) -> Result<()> {
    assert!(!device.as_rocm_device()?.stream().is_capturing());
    let x = Tensor::ones(100, DType::F32, device)?;
    let graph = RocmGraph::capture(device, || x.sum_all()).map_err(|error| error.context("the next capture"))?;
    assert_eq!(graph.launch()?.to_scalar::<f32>()?, 100.);
    assert_eq!((x + 1.)?.sum_all()?.to_scalar::<f32>()?, 200.);
    Ok(())
}

/// Runs a test in a process of its own for each size of a wave: an error that it provokes while something is given back comes out at the
/// next call of the device, whoever makes it.
fn alone(test: &str) {
    for wave in ["32", "64"] {
        suite::run_again(&[test.to_string()], &[("HIP_HOST_WAVE", wave)]);
    }
}

/// Why there is no graph of a step. The device must go on as before.
fn refusal<T>(device: &Device, step: impl FnOnce() -> Result<T>) -> Result<String> {
    let refused = RocmGraph::capture(device, step).err();
    assert_works(device)?;
    Ok(refused.expect("this cannot be recorded").to_string())
}

const WIDTH: usize = 32;
const ROWS: usize = 7;

type Block = fn(&[Tensor], &Tensor) -> Result<Tensor>;

/// A gated unit between two products, with a norm before and the input added after.
fn mlp(w: &[Tensor], x: &Tensor) -> Result<Tensor> {
    let rows = ops::rms_norm(x, &w[4].narrow(0, 0, 1)?.flatten_all()?.contiguous()?, 1e-5)?;
    let gate = rows.broadcast_matmul(&w[0].t()?)?.silu()?;
    let up = rows.broadcast_matmul(&w[1].t()?)?;
    x + (gate * up)?.broadcast_matmul(&w[2])?.broadcast_add(&w[3].narrow(0, 1, 1)?)?
}

/// Attention of four heads, in which no row sees later ones, with the input added after.
fn attention(w: &[Tensor], x: &Tensor) -> Result<Tensor> {
    let (heads, depth) = (4, WIDTH / 4);
    let project = |w: &Tensor| -> Result<Tensor> {
        x.broadcast_matmul(w)?.reshape((1, ROWS, heads, depth))?.transpose(1, 2)?.contiguous()
    };
    let (q, k, v) = (project(&w[0])?, project(&w[1])?, project(&w[2])?);
    let hidden = (0..ROWS * ROWS).map(|at| if at % ROWS > at / ROWS { f32::NEG_INFINITY } else { 0. });
    let mask = Tensor::from_iter(hidden, x.device())?.reshape((1, 1, ROWS, ROWS))?.to_dtype(x.dtype())?;
    let scores = (q.matmul(&k.t()?)? * (1. / (depth as f64).sqrt()))?.broadcast_add(&mask)?;
    let mixed = ops::softmax_last_dim(&scores)?.matmul(&v)?;
    x + mixed.transpose(1, 2)?.reshape((1, ROWS, WIDTH))?.broadcast_matmul(&w[3])?
}

fn blocks() -> [(&'static str, Block); 2] {
    [("mlp", mlp), ("attention", attention)]
}

fn weights(dtype: DType, device: &Device) -> Result<Vec<Tensor>> {
    (0..5).map(|_| random(&[WIDTH, WIDTH], dtype, device)).collect()
}

#[test]
fn launches_compute_what_the_step_does() -> Result<()> {
    for fusing in [true, false] {
        let device = device(fusing)?;
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for (name, block) in blocks() {
                let what = format!("{name} in {dtype:?}, fusing: {fusing}");
                let weights = weights(dtype, &device)?;
                let x = random(&[1, ROWS, WIDTH], dtype, &device)?;
                let step = || block(&weights, &x);
                step()?;
                let graph = RocmGraph::capture(&device, step)?;
                for round in 0..20 {
                    let next = random(&[1, ROWS, WIDTH], dtype, &device)?;
                    x.slice_set(&next, 0, 0)?;
                    let want = block(&weights, &next)?;
                    assert_eq!(bits(graph.launch()?)?, bits(&want)?, "{what}, round {round}");
                    assert_eq!(bits(&x)?, bits(&next)?, "{what}: its input is its user's");
                }
            }
        }
    }
    Ok(())
}

/// A graph holds what becomes of operations that are put off, not each of them.
#[test]
fn what_is_put_off_inside_becomes_fewer_launches() -> Result<()> {
    // The gate's two operations, and the five of attention, are one.
    for ((name, block), saved) in blocks().into_iter().zip([1, 4]) {
        let nodes = |fusing: bool| -> Result<usize> {
            let device = device(fusing)?;
            let (weights, x) = (weights(DType::F32, &device)?, random(&[1, ROWS, WIDTH], DType::F32, &device)?);
            let graph = RocmGraph::capture(&device, || block(&weights, &x))?;
            let made = launches(&device, || graph.launch().map(drop))?;
            assert!(made.is_none_or(|made| made == 0), "{name}: {made:?} launches beside the graph's");
            Ok(graph.graph().node_count())
        };
        assert_eq!(nodes(true)? + saved, nodes(false)?, "{name}");
    }
    Ok(())
}

#[test]
fn quantized_products_are_recorded() -> Result<()> {
    let device = device(true)?;
    for rows in [1, 5, 40] {
        let matrix = random(&[64, 512], DType::F32, &device)?;
        let product = QMatMul::from_qtensor(QTensor::quantize(&matrix, GgmlDType::Q4K)?)?;
        let x = random(&[rows, 512], DType::F32, &device)?;
        product.forward(&x)?;
        let graph = RocmGraph::capture(&device, || product.forward(&x)?.gelu())?;
        for _ in 0..5 {
            x.slice_set(&random(&[rows, 512], DType::F32, &device)?, 0, 0)?;
            assert_eq!(bits(graph.launch()?)?, bits(&product.forward(&x)?.gelu()?)?, "{rows} rows");
        }
    }
    Ok(())
}

#[test]
fn the_graph_keeps_what_it_uses() -> Result<()> {
    let device = device(true)?;
    for (name, block) in blocks() {
        let (weights, x) = (weights(DType::F32, &device)?, random(&[1, ROWS, WIDTH], DType::F32, &device)?);
        let want = bits(&block(&weights, &x)?)?;
        // What was put off before is not part of it.
        let before = x.gelu()?;
        let gelu = bits(&x.gelu()?)?;
        let graph = RocmGraph::capture(&device, || {
            let first = block(&weights, &x)?;
            Ok((first.clone(), first.silu()?))
        })?;
        drop((weights, x));
        let others = || -> Result<Vec<Tensor>> {
            let sizes = [WIDTH * WIDTH, ROWS * WIDTH, 2 * ROWS * WIDTH, ROWS * ROWS * 4];
            sizes.iter().cycle().take(24).map(|&size| Tensor::full(7f32, size, &device)).collect()
        };
        let sevens = others()?;
        assert_eq!(bits(&graph.launch()?.0)?, want, "{name}: an operand was not kept");
        assert_eq!(bits(&before)?, gelu, "{name}: what was put off before");
        let more = others()?;
        let (first, second) = graph.launch()?.clone();
        for other in sevens.iter().chain(&more) {
            let rest = (other - 7.)?.abs()?.sum_all()?.to_scalar::<f32>()?;
            assert_eq!(rest, 0., "{name}: it wrote to memory of somebody else");
        }
        // The results outlive the graph, and what is computed from them is computed now.
        let product = (&second * &first)?;
        drop(graph);
        let _more = others()?;
        assert_eq!(bits(&first)?, want, "{name}: the result went with the graph");
        assert_eq!(bits(&product)?, bits(&(first.silu()? * &first)?)?, "{name}");
    }
    Ok(())
}

#[test]
fn two_graphs_share_an_input_and_take_turns_with_other_work() -> Result<()> {
    let device = device(true)?;
    let (weights, x) = (weights(DType::F32, &device)?, random(&[1, ROWS, WIDTH], DType::F32, &device)?);
    let [first, second] = blocks().map(|(_, block)| {
        block(&weights, &x)?;
        RocmGraph::capture(&device, || block(&weights, &x))
    });
    let (first, second) = (first?, second?);
    second.launch()?;
    for _ in 0..10 {
        let next = random(&[1, ROWS, WIDTH], DType::F32, &device)?;
        x.slice_set(&next, 0, 0)?;
        // Put off when the graphs are launched: it still sees what was there before.
        let gate = second.output().silu()?;
        let old = bits(&second.output().silu()?)?;
        let third = (first.launch()? + second.launch()?)?;
        let want = (mlp(&weights, &next)? + attention(&weights, &next)?)?;
        assert_eq!(bits(&third)?, bits(&want)?);
        assert_eq!(bits(&gate)?, old);
    }
    Ok(())
}

/// As a cache does that is filled in place.
#[test]
fn a_step_may_change_its_own_state() -> Result<()> {
    let device = device(true)?;
    let count = Tensor::zeros(4, DType::F32, &device)?;
    let seen = Tensor::zeros(4, DType::F32, &device)?;
    let graph = RocmGraph::capture(&device, || {
        let gate = count.silu()?;
        count.slice_set(&(&count + 1.)?, 0, 0)?;
        seen.slice_set(&gate, 0, 0)
    })?;
    for round in 0..5 {
        assert_eq!(count.to_vec1::<f32>()?, [round as f32; 4]);
        graph.launch()?;
        assert_eq!(bits(&seen)?, bits(&Tensor::full(round as f32, 4, &device)?.silu()?)?);
    }
    Ok(())
}

#[test]
fn what_cannot_be_recorded_is_refused() -> Result<()> {
    let (device, other) = (device(true)?, device(true)?);
    let (x, foreign) = (random(&[64], DType::F32, &device)?, random(&[64], DType::F32, &other)?);
    let graph = RocmGraph::capture(&device, || x.sqr())?;
    let captured = "while the stream is being captured; do it before or after";
    let reading = refusal(&device, || x.sqr()?.to_vec1::<f32>())?;
    assert!(reading.contains("reading a buffer") && reading.contains(captured), "{reading}");
    let waiting = refusal(&device, || device.synchronize())?;
    assert!(waiting.contains("waiting for the stream") && waiting.contains(captured), "{waiting}");
    let nested = refusal(&device, || RocmGraph::capture(&device, || x.sqr()))?;
    assert!(nested.contains("a second capture") && nested.contains(captured), "{nested}");
    let launched = refusal(&device, || graph.launch().cloned())?;
    assert!(launched.contains("launching a graph") && launched.contains(captured), "{launched}");
    let mixed = refusal(&device, || &x + &foreign)?;
    assert!(mixed.contains("copy that here before the capture"), "{mixed}");
    let large = refusal(&device, || Tensor::zeros((1 << 24, 1 << 22), DType::F32, &device))?;
    assert!(large.contains("run the work once before it is captured"), "{large}");
    let own = refusal(&device, || -> Result<()> { candle::bail!("changed my mind") })?;
    assert!(own.contains("changed my mind"), "{own}");
    let cpu = RocmGraph::capture(&Device::Cpu, || Ok(())).err().map(|error| error.to_string());
    assert!(cpu.as_ref().is_some_and(|error| error.contains("expected a rocm device, got cpu")), "{cpu:?}");
    // An error that the step takes care of itself spoils nothing.
    let graph = RocmGraph::capture(&device, || {
        assert!(x.to_vec1::<f32>().is_err() && (&x + &foreign).is_err());
        x.neg()
    })?;
    assert_eq!(bits(graph.launch()?)?, bits(&x.neg()?)?);
    Ok(())
}

#[test]
fn a_panic_ends_the_capture() -> Result<()> {
    let device = device(true)?;
    let x = random(&[64], DType::F32, &device)?;
    let mut kept = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        RocmGraph::capture(&device, || -> Result<()> {
            kept = Some(x.silu()?);
            x.sqr()?;
            resume_unwind(Box::new("a panic inside"))
        })
    }));
    assert!(panicked.is_err());
    assert_works(&device)?;
    // What was put off in it would be computed from memory that nothing was written to.
    let error = kept.expect("silu was asked for").to_vec1::<f32>().expect_err("it never was computed").to_string();
    assert!(error.contains("silu") && error.contains("the capture that it was part of failed"), "{error}");
    Ok(())
}

/// The kernels of graphs report where the next reader of the device is told, so this has processes of its own.
#[test]
fn ids_out_of_range_are_reported_after_each_launch() -> Result<()> {
    if !suite::is_again() {
        alone("graphs::ids_out_of_range_are_reported_after_each_launch");
        return Ok(());
    }
    let device = device(true)?;
    let table = random(&[4, 8], DType::F32, &device)?;
    let ids = Tensor::new(&[0u32, 3], &device)?;
    let graph = RocmGraph::capture(&device, || table.index_select(&ids, 0))?;
    for round in 0..3 {
        ids.slice_set(&Tensor::new(&[1u32, 2], &device)?, 0, 0)?;
        assert_eq!(bits(graph.launch()?)?, bits(&table.narrow(0, 1, 2)?)?, "round {round}");
        ids.slice_set(&Tensor::new(&[1u32, 9], &device)?, 0, 0)?;
        let error = graph.launch()?.to_vec2::<f32>().expect_err("row 9 of 4").to_string();
        assert!(error.contains("index-select") && error.contains('9') && error.contains('4'), "{error}");
    }
    Ok(())
}

#[test]
fn work_of_other_threads_is_not_recorded() -> Result<()> {
    fn assert_shared<T: Send + Sync>(_: &T) {}
    let (device, other) = (device(true)?, device(true)?);
    let (x, apart) = (random(&[64], DType::F32, &device)?, random(&[64], DType::F32, &other)?);
    let table = random(&[4, 8], DType::F32, &device)?;
    let ids = Tensor::new(&[1u32, 3], &device)?;
    // A graph that may report: others look at its words when they read.
    let reporting = RocmGraph::capture(&device, || table.index_select(&ids, 0))?;
    let graph = RocmGraph::capture(&device, || {
        let silu = x.silu()?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| -> Result<()> {
                type Work<'a> = (&'a str, &'a (dyn Fn() -> Result<()> + Sync));
                let refused: &[Work] = &[
                    ("a kernel", &|| x.sqr().map(drop)),
                    ("an operation that could be put off", &|| x.gelu().map(drop)),
                    ("one that was put off", &|| silu.sqr().map(drop)),
                    ("a constant", &|| x.zero_set()),
                    ("a copy", &|| x.slice_set(&x.copy()?, 0, 0)),
                    ("a tensor from the host", &|| Tensor::new(&[1f32, 2.], &device).map(drop)),
                    ("a tensor for another stream", &|| (&apart + &x).map(drop)),
                ];
                for (what, work) in refused {
                    let error = work().expect_err(what).to_string();
                    assert!(error.contains("another thread is capturing this stream"), "{what}: {error}");
                }
                assert!(x.to_vec1::<f32>().is_err());
                assert_eq!(bits(&(&apart - &apart)?)?, [0; 64], "a stream of its own goes on");
                Ok(())
            });
            thread.join().expect("the thread ends")
        })?;
        &silu + 1.
    })?;
    assert_eq!(graph.graph().node_count(), 2);
    assert_shared(&graph);
    let want = bits(&(x.silu()? + 1.)?)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| graph.launch().and_then(bits))).collect();
        threads.into_iter().try_for_each(|thread| -> Result<()> {
            assert_eq!(thread.join().expect("a launch")?, want);
            Ok(())
        })
    })?;
    assert_eq!(bits(reporting.launch()?)?, bits(&table.index_select(&ids, 0)?)?);
    Ok(())
}

#[test]
fn any_call_may_fail() -> Result<()> {
    if !suite::is_again() {
        alone("graphs::any_call_may_fail");
        return Ok(());
    }
    let device = device(true)?;
    let (weights, x) = (weights(DType::F32, &device)?, random(&[1, ROWS, WIDTH], DType::F32, &device)?);
    let want = bits(&attention(&weights, &x)?)?;
    let run = || -> Result<Vec<u32>> {
        let graph = RocmGraph::capture(&device, || attention(&weights, &x))?;
        graph.launch()?;
        device.synchronize()?;
        bits(graph.output())
    };
    run()?;
    let (recorded, calls) = inject::record(run);
    assert_eq!(recorded?, want);
    let of = |name: &str| calls.iter().any(|call| call.0 == name);
    assert!(
        of("hipStreamBeginCapture") && of("hipStreamEndCapture") && of("hipGraphInstantiate") && of("hipGraphLaunch")
    );
    for &(name, times) in &calls {
        for nth in 1..=times {
            let armed = inject::fail(name, nth, hipError_t::hipErrorUnknown);
            let outcome = run();
            let fired = armed.fired();
            drop(armed);
            if let Ok(got) = &outcome {
                assert_eq!(*got, want, "{name} {nth}");
            }
            // A failure while something is given back comes out at the next call.
            let next = run().or_else(|error| if outcome.is_ok() { run() } else { Err(error) });
            assert_eq!(
                next.map_err(|error| error.context(format!("after {name} {nth}")))?,
                want,
                "{name} {nth}, fired: {fired}"
            );
            assert!(!device.as_rocm_device()?.stream().is_capturing(), "{name} {nth}");
        }
    }
    Ok(())
}

#[test]
fn graphs_on_waves_of_64() {
    let others = [
        "graphs::graphs_on_waves_of_64",
        "graphs::ids_out_of_range_are_reported_after_each_launch",
        "graphs::any_call_may_fail",
    ];
    let tests = suite::tests(|name| name.starts_with("graphs::") && !others.contains(&name));
    assert!(tests.len() > 8, "{tests:?}");
    suite::run_again(&tests, &[("HIP_HOST_WAVE", "64")]);
}
