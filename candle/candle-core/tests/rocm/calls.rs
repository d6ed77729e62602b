//! What an operation asks of the HIP runtime: launches and nothing else. The embedded device records the calls of a thread;
//! once memory of the right size is in the pool, no operation may allocate, upload, copy or wait.

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor};
use hip_host::inject;

/// The calls of ten repetitions after a few that fill the pool, as (launches, all others by name).
fn calls_of(mut work: impl FnMut() -> Result<()>) -> Result<(u32, Vec<(&'static str, u32)>)> {
    for _ in 0..3 {
        work()?;
    }
    let (result, calls) = inject::record(|| (0..10).try_for_each(|_| work()));
    result?;
    let (launches, others): (Vec<_>, Vec<_>) =
        calls.into_iter().partition(|(name, _)| *name == "hipModuleLaunchKernel");
    Ok((launches.iter().map(|call| call.1).sum(), others))
}

/// Calls that neither allocate nor copy nor wait: they look at what the runtime knows anyway.
const HARMLESS: [&str; 3] = ["hipSetDevice", "hipGetDevice", "hipStreamIsCapturing"];

/// Asserts that `work` launches at most `launches` kernels and calls nothing else of weight.
fn assert_only_launches(what: &str, launches: u32, work: impl FnMut() -> Result<()>) -> Result<()> {
    let (made, others) = calls_of(work)?;
    assert!((1..=10 * launches).contains(&made), "{what}: {made} launches in ten, at most {launches} each");
    let others: Vec<_> = others.into_iter().filter(|(name, _)| !HARMLESS.contains(name)).collect();
    assert!(others.is_empty(), "{what} also calls {others:?}");
    Ok(())
}

/// A device in checked mode makes every buffer an allocation of its own; there is nothing to count there.
fn device() -> Result<Option<Device>> {
    let device = Device::new_rocm_with_stream(0)?;
    let rocm = device.as_rocm_device()?;
    let counts = rocm.hip_device().platform().name() == "host" && !rocm.hip_device().is_checked();
    if !counts {
        println!("skipped: only the embedded device, unchecked, records its calls");
    }
    Ok(counts.then_some(device))
}

#[test]
fn an_operation_is_one_launch() -> Result<()> {
    let Some(device) = device()? else { return Ok(()) };
    let a = Tensor::rand(0f32, 1., (12, 20), &device)?;
    let b = Tensor::rand(0f32, 1., (20, 12), &device)?;
    let turned = b.t()?;
    let part = a.narrow(1, 3, 9)?;
    let row = Tensor::rand(0f32, 1., 20, &device)?;
    let ids = Tensor::new(&[3u32, 0, 7], &device)?;
    let condition = a.gt(0.5)?;
    let heads = a.reshape((1, 3, 4, 20))?;
    type Op<'a> = (&'a str, &'a dyn Fn() -> Result<Tensor>);
    let table: &[Op] = &[
        ("add", &|| &a + &a),
        ("add of a transposed tensor", &|| &a + &turned),
        ("add of a broadcast row", &|| a.broadcast_add(&row)),
        ("exp", &|| a.exp()),
        ("exp of a part", &|| part.exp()),
        ("exp of a transposed tensor", &|| turned.exp()),
        ("affine of a part", &|| part.affine(2., 1.)),
        ("cast of a transposed tensor", &|| turned.to_dtype(DType::F16)),
        ("contiguous copy of a transposed tensor", &|| turned.contiguous()),
        ("where", &|| condition.where_cond(&a, &turned)),
        ("comparison", &|| a.lt(&turned)),
        ("sum over the last dimension", &|| a.sum(1)),
        ("sum over the first dimension", &|| a.sum(0)),
        ("rows by id", &|| a.index_select(&ids, 0)),
        ("columns by id", &|| a.index_select(&ids, 1)),
        ("zeros", &|| a.exp()),
        ("two tensors as one", &|| Tensor::cat(&[&a, &part], 1)),
        ("a tensor four times, as for heads that share a key", &|| Tensor::cat(&[&heads; 4], 2)),
    ];
    for (what, op) in table {
        assert_only_launches(what, 1, || {
            let result = op()?;
            // Asking for the stream submits what was put off.
            device.as_rocm_device()?.stream();
            drop(result);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_quantized_product_of_one_row_is_two_launches() -> Result<()> {
    let Some(device) = device()? else { return Ok(()) };
    for format in [GgmlDType::Q4_0, GgmlDType::Q8_0, GgmlDType::Q4K, GgmlDType::Q6K] {
        let weights = Tensor::rand(-1f32, 1., (64, 512), &device)?;
        let weights = QMatMul::from_qtensor(QTensor::quantize(&weights, format)?)?;
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let x = Tensor::rand(-1f32, 1., (1, 512), &device)?.to_dtype(dtype)?;
            let what = format!("{format:?} times one row of {dtype:?}");
            assert_only_launches(&what, 2, || weights.forward(&x).map(drop))?;
            let before = device.as_rocm_device()?.memory_stats();
            weights.forward(&x)?;
            let after = device.as_rocm_device()?.memory_stats();
            assert_eq!(after.system_allocations, before.system_allocations, "{what}: from the pool");
        }
    }
    Ok(())
}
