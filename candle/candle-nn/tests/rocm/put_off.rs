//! Operations that the device puts off: what is computed is what is computed at once, in fewer launches, whatever is done to operands
//! and results in between.

use super::{values, wave};
use candle::rocm_backend::hip::{hipError_t, Stream};
use candle::{DType, Device, Result, Tensor, Var};
use candle_nn::ops;
use hip_host::inject;
use std::cell::RefCell;

/// A device with a stream of its own, so that other tests put nothing off on it.
pub fn device(fusing: bool) -> Result<Device> {
    let device = Device::new_rocm_with_stream(0)?;
    device.as_rocm_device()?.set_fusing(fusing)?;
    Ok(device)
}

/// The kernels that `work` launches; nothing where no embedded device counts them.
pub fn launches(device: &Device, work: impl FnOnce() -> Result<()>) -> Result<Option<u32>> {
    let (done, calls) = inject::record(work);
    done?;
    let counts = device.as_rocm_device()?.hip_device().platform().name() == "host";
    let launched = calls.iter().filter(|call| call.0 == "hipModuleLaunchKernel").map(|call| call.1).sum();
    Ok(counts.then_some(launched))
}

/// Asserts that `work` launches so many kernels, once modules are loaded.
fn assert_launches(what: &str, device: &Device, wanted: u32, work: impl Fn() -> Result<Tensor>) -> Result<()> {
    work()?;
    if let Some(launched) = launches(device, || work().map(drop))? {
        assert_eq!(launched, wanted, "{what}");
    }
    Ok(())
}

fn on(device: &Device, shape: &[usize], dtype: DType, scale: f64) -> Result<Tensor> {
    wave(shape, scale).to_dtype(dtype)?.to_device(device)
}

fn assert_close(what: &str, exact: &Tensor, got: &Tensor, tolerance: f64) {
    assert_eq!(exact.dims(), got.dims(), "{what}");
    for (at, (exact, got)) in values(exact).iter().zip(values(got)).enumerate() {
        let close = (exact - got).abs() <= tolerance * exact.abs().max(1.) || exact.is_nan() && got.is_nan();
        assert!(close, "{what}: element {at} is {got}, and should be {exact}");
    }
}

#[test]
fn an_activation_and_a_product_are_one_launch_with_the_same_bits() -> Result<()> {
    let (fusing, plain) = (device(true)?, device(false)?);
    type Op = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let table: [(&str, Op); 5] = [
        ("silu", |x, up| x.silu()? * up),
        ("gelu", |x, up| x.gelu()? * up),
        ("on the right", |x, up| up * x.silu()?),
        ("reshaped", |x, up| x.silu()?.reshape((12, 8))? * up.reshape((12, 8))?),
        ("halves", |x, _| {
            let both = x.chunk(2, 1)?;
            both[0].silu()? * &both[1]
        }),
    ];
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for (name, op) in &table {
            let run = |device: &Device| op(&on(device, &[6, 16], dtype, 4.)?, &on(device, &[6, 16], dtype, 3.)?);
            assert_eq!(values(&run(&fusing)?), values(&run(&plain)?), "{name} of {dtype:?}");
        }
    }
    let (x, up) = (on(&fusing, &[6, 16], DType::F32, 4.)?, on(&fusing, &[6, 16], DType::F32, 3.)?);
    for (name, op) in &table[..4] {
        assert_launches(name, &fusing, 1, || op(&x, &up))?;
    }
    let (x, up) = (on(&plain, &[6, 16], DType::F32, 4.)?, on(&plain, &[6, 16], DType::F32, 3.)?);
    assert_launches("turned off", &plain, 2, || table[0].1(&x, &up))
}

/// Each number goes through the stream's ring of pinned memory, which marks its progress with an event: that must not wait for the
/// number that is just being sent.
#[test]
fn more_numbers_than_the_ring_holds_are_sent() -> Result<()> {
    let device = device(true)?;
    let x = on(&device, &[4], DType::F32, 4.)?;
    let mut largest = x.clone();
    for n in 0..4200 {
        largest = x.maximum(f64::from(n))?;
    }
    assert_eq!(values(&largest), [4199.; 4]);
    Ok(())
}

#[test]
fn results_that_are_looked_at_are_there() -> Result<()> {
    let (fusing, plain) = (device(true)?, device(false)?);
    let run = |device: &Device| -> Result<Vec<Vec<f64>>> {
        let (x, up) = (on(device, &[40], DType::F32, 4.)?, on(device, &[40], DType::F32, 3.)?);
        let gate = x.silu()?;
        let first = values(&gate);
        let product = (&gate * &up)?;
        let other = (&gate + &up)?;
        // Dropped operands live as long as they are needed; their memory goes to nobody else.
        let late = x.gelu()?;
        drop(x);
        let _others = (0..4).map(|_| Tensor::full(7f32, 40, device)).collect::<Result<Vec<_>>>()?;
        Ok(vec![first, values(&product), values(&other), values(&late), values(&(late * up)?)])
    };
    assert_eq!(run(&fusing)?, run(&plain)?);
    // Never looked at, never computed; waited for, computed.
    let x = on(&fusing, &[40], DType::F32, 4.)?;
    fusing.synchronize()?;
    let made = launches(&fusing, || x.silu().map(drop))?;
    assert!(made.is_none_or(|made| made == 0), "{made:?}");
    let gate = x.silu()?;
    let made = launches(&fusing, || fusing.synchronize())?;
    assert!(made.is_none_or(|made| made == 1), "{made:?}");
    assert_eq!(gate.dims(), [40]);
    Ok(())
}

#[test]
fn writes_wait_for_what_reads_the_memory() -> Result<()> {
    thread_local! {
        static STREAM: RefCell<Option<Stream>> = const { RefCell::new(None) };
    }
    type Write = fn(&Tensor) -> Result<()>;
    let writes: [(&str, Write); 5] = [
        ("zero_set", |x| x.zero_set()),
        ("slice_set", |x| x.slice_set(&x.ones_like()?, 0, 0)),
        ("scatter_set", |x| {
            let ids = Tensor::zeros((4, 16), DType::U32, x.device())?;
            x.scatter_set(&ids, &x.ones_like()?, 0)
        }),
        ("scatter_add_set", |x| {
            let ids = Tensor::zeros((4, 16), DType::U32, x.device())?;
            x.scatter_add_set(&ids, &x.ones_like()?, 0)
        }),
        ("a graph", |x| {
            // As it was asked for before: asking now would submit what waits.
            let stream = STREAM.with_borrow(|stream| stream.clone()).expect("the test's stream");
            let graph = stream.capture(|_| {
                x.zero_set().expect("a write can be captured");
                Ok(())
            });
            // What was captured has not run; what was put off has.
            graph.and_then(|graph| graph.launch(&stream)).map_err(candle::Error::wrap)
        }),
    ];
    for (name, write) in writes {
        let run = |device: &Device| -> Result<Vec<Vec<f64>>> {
            STREAM.set(Some(device.as_rocm_device()?.stream().clone()));
            let (x, up) = (on(device, &[4, 16], DType::F32, 4.)?, on(device, &[4, 16], DType::F32, 3.)?);
            let (k, v) = (on(device, &[4, 16], DType::F32, 1.)?, on(device, &[4, 16], DType::F32, 2.)?);
            let three = |x: &Tensor| x.reshape((1, 4, 16));
            let gate = x.silu()?;
            let scores = three(&x)?.matmul(&three(&k)?.transpose(1, 2)?)?;
            let weights = ops::softmax_last_dim(&(&scores * 0.25)?)?;
            write(&x)?;
            let attended = weights.matmul(&three(&v)?)?;
            Ok(vec![values(&(gate * up)?), values(&attended), values(&scores), values(&x)])
        };
        let (got, want) = (run(&device(true)?)?, run(&device(false)?)?);
        for (what, (got, want)) in ["gated", "attended", "scores", "x"].iter().zip(got.iter().zip(&want)) {
            let close = got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-5);
            assert!(close, "{name}: {what} is {got:?}, and should be {want:?}");
        }
    }
    Ok(())
}

#[test]
fn captures_record_what_was_asked_for() -> Result<()> {
    let device = device(true)?;
    let (x, up) = (on(&device, &[64], DType::F32, 4.)?, on(&device, &[64], DType::F32, 3.)?);
    let want = values(&(x.silu()? * &up)?);
    let stream = device.as_rocm_device()?.stream().clone();
    let gate = x.silu()?;
    let mut inside = None;
    let graph = stream.capture(|_| {
        inside = Some(x.silu().and_then(|gate| Ok((gate.clone(), (gate * &up)?))).expect("these can be captured"));
        Ok(())
    });
    let graph = graph.map_err(candle::Error::wrap)?;
    let (captured, product) = inside.expect("the capture ran");
    // What was put off before is not the graph's.
    assert_eq!(values(&(gate * &up)?), want);
    drop(captured);
    let next = x.silu()?;
    graph.launch(&stream).map_err(candle::Error::wrap)?;
    assert_eq!(values(&product), want);
    assert_eq!(values(&(next * up)?), want);
    Ok(())
}

#[test]
fn threads_share_what_was_put_off() -> Result<()> {
    let (fusing, plain) = (device(true)?, device(false)?);
    let make = |device: &Device| -> Result<(Tensor, Tensor)> {
        Ok((on(device, &[64], DType::F32, 4.)?.silu()?, on(device, &[64], DType::F32, 3.)?))
    };
    let (gate, up) = make(&plain)?;
    let want = [values(&gate), values(&(gate * up)?)];
    for _ in 0..20 {
        let (gate, up) = make(&fusing)?;
        let got = std::thread::scope(|scope| {
            let looked = scope.spawn(|| values(&gate));
            let used = scope.spawn(|| (&gate * &up).map(|product| values(&product)));
            (looked.join().expect("a thread"), used.join().expect("a thread"))
        });
        assert_eq!([got.0, got.1?], want);
    }
    Ok(())
}

#[test]
fn an_error_names_what_was_put_off_and_the_next_call_works() -> Result<()> {
    let device = device(true)?;
    if device.as_rocm_device()?.hip_device().platform().name() != "host" {
        println!("skipped: only the embedded device fails when it is asked to");
        return Ok(());
    }
    let x = on(&device, &[64], DType::F32, 4.)?;
    let want = values(&x.silu()?);
    let gate = x.silu()?;
    let failing = inject::fail("hipModuleLaunchKernel", 1, hipError_t::hipErrorUnknown);
    let error = gate.to_vec1::<f32>().map(drop).expect_err("the launch fails").to_string();
    assert!(failing.fired());
    drop(failing);
    assert!(error.contains("silu, which was put off until its result was needed"), "{error}");
    assert_eq!(values(&gate), want);
    Ok(())
}

/// An operation that waits keeps its operands: there are few of them at a time.
#[test]
fn few_operations_wait() -> Result<()> {
    let device = device(true)?;
    let made = launches(&device, || {
        let gates = (0..40).map(|_| on(&device, &[64], DType::F32, 4.)?.silu()).collect::<Result<Vec<_>>>()?;
        assert_eq!(gates.len(), 40);
        Ok(())
    })?;
    assert!(made.is_none_or(|made| (24..40).contains(&made)), "{made:?}");
    Ok(())
}

/// How a model writes attention.
#[derive(Clone, Copy, Debug)]
enum Hide {
    Nothing,
    Added,
    Filled,
    Capped,
}

/// Attention with grouped heads as candle-transformers writes it.
fn written_out(q: &Tensor, k: &Tensor, v: &Tensor, hide: Hide, upcast: bool) -> Result<Tensor> {
    let ((_, heads, rows, depth), (batch, groups, columns, _)) = (q.dims4()?, k.dims4()?);
    let times = heads / groups;
    // Both ways that models repeat heads.
    let k = Tensor::cat(&vec![k; times], 2)?.reshape((batch, heads, columns, depth))?;
    let v = v.unsqueeze(2)?.expand((batch, groups, times, columns, depth))?.reshape((batch, heads, columns, depth))?;
    let scores = (q.matmul(&k.t()?)? / (depth as f64).sqrt())?;
    let hidden = |column: usize, row: usize| column + rows > row + columns;
    let cells = || (0..rows * columns).map(|at| hidden(at % columns, at / columns));
    let scores = match hide {
        Hide::Nothing => scores,
        Hide::Capped => ((scores / 5.)?.tanh()? * 5.)?,
        Hide::Added => {
            let mask = cells().map(|hidden| if hidden { f32::NEG_INFINITY } else { 0.25 });
            let mask = Tensor::from_iter(mask, &Device::Cpu)?.reshape((1, 1, rows, columns))?;
            scores.broadcast_add(&mask.to_dtype(scores.dtype())?.to_device(q.device())?)?
        }
        Hide::Filled => {
            let mask = Tensor::from_iter(cells().map(u8::from), &Device::Cpu)?.reshape((rows, columns))?;
            let mask = mask.to_device(q.device())?.broadcast_as(scores.dims())?;
            let number = Tensor::new(f32::NEG_INFINITY, q.device())?.to_dtype(scores.dtype())?;
            mask.where_cond(&number.broadcast_as(scores.dims())?, &scores)?
        }
    };
    let weights = match upcast {
        true => ops::softmax_last_dim(&scores.to_dtype(DType::F32)?)?.to_dtype(q.dtype())?,
        false => ops::softmax_last_dim(&scores)?,
    };
    weights.matmul(&v.contiguous()?)
}

#[test]
fn attention_written_out_is_one_launch() -> Result<()> {
    let (fusing, plain) = (device(true)?, device(false)?);
    for (heads, groups, rows, columns) in [(4, 2, 5, 7), (6, 1, 1, 9), (2, 2, 33, 33)] {
        let shapes = [[2, heads, rows, 16], [2, groups, columns, 16], [2, groups, columns, 16]];
        let inputs = |device: &Device, dtype: DType| -> Result<Vec<Tensor>> {
            shapes.iter().enumerate().map(|(at, shape)| on(device, shape, dtype, 1.5 + at as f64)).collect()
        };
        for hide in [Hide::Nothing, Hide::Added, Hide::Filled, Hide::Capped] {
            for (dtype, tolerance, upcast) in [
                (DType::F32, 1e-5, false),
                (DType::F16, 4e-3, false),
                (DType::F16, 4e-3, true),
                (DType::BF16, 3e-2, true),
            ] {
                let what = format!("{hide:?} {heads} of {groups}, {rows} x {columns}, {dtype:?}");
                let x = inputs(&fusing, dtype)?;
                let run = |x: &[Tensor]| written_out(&x[0], &x[1], &x[2], hide, upcast);
                let rounded = x.iter().map(|x| x.to_device(&Device::Cpu)?.to_dtype(DType::F32));
                let exact = run(&rounded.collect::<Result<Vec<_>>>()?)?;
                let got = run(&x)?;
                assert_eq!(got.dtype(), dtype, "{what}");
                assert_close(&what, &exact, &got, tolerance);
                assert_close(&what, &run(&inputs(&plain, dtype)?)?, &got, 2. * tolerance);
                let alone = launches(&fusing, || run(&x).map(drop))?;
                // A mask that is made here is cast here, on the CPU.
                assert!(alone.is_none_or(|alone| alone == 1), "{what}: {alone:?} launches");
            }
        }
    }
    Ok(())
}

/// Heads of another dtype are cast once, and not as often as they are repeated.
#[test]
fn repeated_heads_in_f32_are_cast_once() -> Result<()> {
    let device = device(true)?;
    let x = [[1, 4, 1, 16], [1, 2, 9, 16], [1, 2, 9, 16]].map(|shape| on(&device, &shape, DType::F16, 1.5));
    let [q, k, v] = x;
    let (q, k, v) = (q?, k?, v?);
    let run = || -> Result<Tensor> {
        let repeat = |x: &Tensor| Tensor::cat(&[x, x], 2)?.reshape((1, 4, 9, 16))?.to_dtype(DType::F32);
        let scores = (q.to_dtype(DType::F32)?.matmul(&repeat(&k)?.t()?)? / 4.)?;
        ops::softmax_last_dim(&scores)?.matmul(&repeat(&v)?)?.to_dtype(DType::F16)
    };
    let exact = written_out(&q, &k, &v, Hide::Nothing, true)?;
    assert_close("heads in f32", &exact, &run()?, 4e-3);
    assert_launches("three casts, attention, and the way back", &device, 5, run)
}

#[test]
fn scores_can_be_looked_at() -> Result<()> {
    let (fusing, plain) = (device(true)?, device(false)?);
    let run = |device: &Device| -> Result<Vec<Vec<f64>>> {
        let x = [[2, 3, 5, 8], [2, 3, 7, 8], [2, 3, 7, 8]].map(|shape| on(device, &shape, DType::F32, 1.5));
        let [q, k, v] = x;
        let scores = q?.matmul(&k?.t()?)?;
        let scaled = (&scores * 0.5)?;
        let weights = ops::softmax_last_dim(&scaled)?;
        let out = weights.matmul(&v?)?;
        // A softmax over other rows than the product's is another matter, and so is a product that is no attention.
        let flat = ops::softmax_last_dim(&scaled.reshape((2, 3, 35))?)?.reshape((2, 3, 5, 7))?;
        let other = flat.matmul(&weights.t()?)?;
        Ok([&out, &weights, &scores, &scaled, &flat, &other].map(values).to_vec())
    };
    for (got, want) in run(&fusing)?.iter().zip(run(&plain)?) {
        assert!(got.iter().zip(&want).all(|(got, want)| (got - want).abs() < 1e-5), "{got:?}, and should be {want:?}");
    }
    Ok(())
}

#[test]
fn gradients_go_through_what_was_put_off() -> Result<()> {
    let run = |device: &Device| -> Result<Vec<Vec<f64>>> {
        let shapes: [&[usize]; 3] = [&[1, 2, 5, 8], &[1, 2, 7, 8], &[1, 2, 7, 8]];
        let x = shapes.map(|shape| Var::from_tensor(&on(device, shape, DType::F32, 1.5)?));
        let [q, k, v] = x;
        let (q, k, v) = (q?, k?, v?);
        let scores = (q.matmul(&k.t()?)? * 0.5)?;
        let weights = scores.broadcast_sub(&scores.max_keepdim(3)?)?.exp()?;
        let weights = weights.broadcast_div(&weights.sum_keepdim(3)?)?;
        let out = weights.matmul(&v)?;
        let gated = (out.silu()? * out.gelu()?)?;
        let grads = gated.sqr()?.sum_all()?.backward()?;
        Ok([&q, &k, &v].map(|x| grads.get(x).map(values).unwrap_or_default()).to_vec())
    };
    let (got, want) = (run(&device(true)?)?, run(&Device::Cpu)?);
    for (got, want) in got.iter().zip(&want) {
        assert!(!want.is_empty() && got.len() == want.len());
        assert!(got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-4), "{got:?}, and should be {want:?}");
    }
    Ok(())
}
