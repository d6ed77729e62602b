//! Scaled dot product attention. Upstream has it on Metal alone; the reference is its definition, on the CPU.

use super::{check, values, wave};
use candle::{DType, Device, Result, Tensor, Var, D};
use candle_nn::ops;

/// What `sdpa` is asked for beside tensors.
#[derive(Clone, Copy)]
struct Options {
    causal: bool,
    scale: f32,
    cap: f32,
}

/// `sdpa` from products and a softmax, on any device.
fn defined([q, k, v]: [&Tensor; 3], mask: Option<&Tensor>, options: Options) -> Result<Tensor> {
    let ((_, heads, rows, _), (_, groups, columns, _)) = (q.dims4()?, k.dims4()?);
    let repeat = |t: &Tensor| {
        let (batch, groups, columns, depth) = t.dims4()?;
        let t = t.unsqueeze(2)?.broadcast_as((batch, groups, heads / groups, columns, depth))?;
        t.contiguous()?.reshape((batch, heads, columns, depth))
    };
    assert_eq!(heads % groups, 0);
    let mut scores = (q.contiguous()?.matmul(&repeat(k)?.t()?.contiguous()?)? * f64::from(options.scale))?;
    if options.cap != 1. {
        scores = ((scores / f64::from(options.cap))?.tanh()? * f64::from(options.cap))?;
    }
    if let Some(mask) = mask {
        scores = scores.broadcast_add(mask)?;
    }
    if options.causal {
        let hidden: Vec<f64> = (0..rows * columns)
            .map(|at| if at % columns + rows > at / columns + columns { f64::NEG_INFINITY } else { 0. })
            .collect();
        let mask = Tensor::from_vec(hidden, (rows, columns), q.device())?.to_dtype(scores.dtype())?;
        scores = scores.broadcast_add(&mask)?;
    }
    ops::softmax(&scores, D::Minus1)?.matmul(&repeat(v)?)
}

/// On the ROCm device what is tested, on the CPU the definition.
fn either(tensors: [&Tensor; 3], mask: Option<&Tensor>, options: Options) -> Result<Tensor> {
    let [q, k, v] = tensors;
    match q.device() {
        Device::Cpu => defined(tensors, mask, options),
        _ => ops::sdpa(q, k, v, mask, options.causal, options.scale, options.cap),
    }
}

#[test]
fn heads_windows_and_caps() {
    for (heads, groups, rows, columns, causal, cap) in [
        (4, 4, 5, 5, false, 1.),
        (4, 2, 5, 5, true, 1.),
        (6, 2, 1, 9, false, 1.),
        (2, 1, 3, 7, true, 20.),
        (2, 2, 40, 70, true, 1.),
    ] {
        for depth in [16, 72, 100] {
            let (q, k, v) = ([2, heads, rows, depth], [2, groups, columns, depth], [2, groups, columns, 8]);
            let options = Options { causal, scale: 0.25, cap };
            check("sdpa", &[&q, &k, &v], |x| either([&x[0], &x[1], &x[2]], None, options));
            let turned = |x: &Tensor| x.transpose(1, 2)?.contiguous()?.transpose(1, 2);
            check("sdpa of strided tensors", &[&q, &k, &v], |x| {
                either([&turned(&x[0])?, &turned(&x[1])?, &turned(&x[2])?], None, options)
            });
        }
    }
    // Heads longer than the fused kernels take.
    let (q, k) = ([1, 2, 3, 520], [1, 1, 4, 520]);
    let options = Options { causal: true, scale: 0.05, cap: 1. };
    check("sdpa of long heads", &[&q, &k, &k], |x| either([&x[0], &x[1], &x[2]], None, options));
}

#[test]
fn masks() {
    let (q, k) = ([2, 4, 5, 16], [2, 2, 7, 16]);
    for mask in [&[2, 4, 5, 7][..], &[2, 1, 5, 7], &[1, 1, 1, 7], &[4, 5, 7], &[5, 7], &[7]] {
        for (causal, cap) in [(false, 1.), (true, 1.), (false, 3.)] {
            let options = Options { causal, scale: 0.25, cap };
            check("sdpa with a mask", &[&q, &k, &k, mask], |x| either([&x[0], &x[1], &x[2]], Some(&x[3]), options));
        }
    }
}

/// A mask of another dtype is taken too, and a row without any key is a softmax of nothing.
#[test]
fn other_masks() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let (q, k) = (wave(&[1, 2, 3, 16], 1.).to_dtype(DType::F32)?, wave(&[1, 2, 4, 16], 1.).to_dtype(DType::F32)?);
    let hidden: Vec<f32> = (0..12).map(|at| if at < 4 || at % 3 == 0 { f32::NEG_INFINITY } else { 0.5 }).collect();
    let mask = Tensor::from_vec(hidden, (3, 4), &Device::Cpu)?;
    let options = Options { causal: false, scale: 0.25, cap: 1. };
    let exact = values(&defined([&q, &k, &k], Some(&mask), options)?);
    assert!(exact[0].is_nan() && exact[16].is_finite());
    for (dtype, mask_dtype, tolerance) in
        [(DType::F16, DType::F32, 4e-3), (DType::BF16, DType::F64, 3e-2), (DType::F32, DType::F16, 1e-5)]
    {
        let to = |tensor: &Tensor| tensor.to_device(&device)?.to_dtype(dtype);
        let mask = mask.to_device(&device)?.to_dtype(mask_dtype)?;
        let got = values(&ops::sdpa(&to(&q)?, &to(&k)?, &to(&k)?, Some(&mask), false, 0.25, 1.)?);
        for (exact, got) in exact.iter().zip(got) {
            assert!(exact.is_nan() && got.is_nan() || (exact - got).abs() < tolerance, "{got}, but should be {exact}");
        }
    }
    Ok(())
}

/// The gradients of queries, keys, values and a mask are those of the definition on the CPU.
#[test]
fn gradients() -> Result<()> {
    let device = Device::new_rocm(0)?;
    for (causal, cap, trained_mask) in [(false, 1., false), (true, 1., false), (true, 2., false), (false, 1., true)] {
        for (dtype, tolerance) in [(DType::F32, 1e-4), (DType::F16, 2e-2)] {
            let shapes: [&[usize]; 4] = [&[2, 4, 5, 16], &[2, 2, 7, 16], &[2, 2, 7, 8], &[5, 7]];
            let inputs = shapes.map(|shape| wave(shape, 1.5).to_dtype(dtype));
            let run = |device: &Device| -> Result<Vec<Option<Vec<f64>>>> {
                let dtype = if device.is_cpu() { DType::F32 } else { dtype };
                let mut vars = Vec::new();
                for input in &inputs {
                    let input = input.as_ref().map_err(|error| candle::Error::msg(error.to_string()))?;
                    vars.push(Var::from_tensor(&input.to_device(device)?.to_dtype(dtype)?)?);
                }
                let mask = if trained_mask { vars[3].as_tensor().clone() } else { vars[3].detach() };
                let options = Options { causal, scale: 0.25, cap };
                let out = either([&vars[0], &vars[1], &vars[2]], Some(&mask), options)?;
                // Not all alike: the gradient of a plain sum of weights is zero.
                let weights = wave(out.dims(), 1.).to_dtype(dtype)?.to_device(device)?;
                let grads = (out * weights)?.backward()?;
                Ok(vars.iter().map(|var| grads.get(var).map(values)).collect())
            };
            let (exact, got) = (run(&Device::Cpu)?, run(&device)?);
            for (which, (exact, got)) in exact.iter().zip(&got).enumerate() {
                assert_eq!((which < 3 || trained_mask, exact.is_some()), (got.is_some(), got.is_some()));
                let (Some(exact), Some(got)) = (exact, got) else { continue };
                assert!(exact.iter().any(|x| x.abs() > 0.01), "a gradient of nothing proves nothing");
                for (exact, got) in exact.iter().zip(got) {
                    let close = (exact - got).abs() <= tolerance * exact.abs().max(1.);
                    assert!(close, "{dtype:?}, causal {causal}, cap {cap}, input {which}: {got}, the CPU says {exact}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn nonsense_is_refused() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let tensor = |shape: &[usize]| wave(shape, 1.).to_dtype(DType::F16)?.to_device(&device);
    let q = tensor(&[1, 4, 5, 16])?;
    let refused = |k: &Tensor, mask: Option<&Tensor>, cap: f32, sentence: &str| {
        let error = ops::sdpa(&q, k, k, mask, false, 1., cap).expect_err(sentence).to_string();
        assert!(error.contains(sentence), "{sentence:?} is not in: {error}");
    };
    refused(&tensor(&[1, 3, 5, 16])?, None, 1., "4 heads of q cannot share 3 heads of k and v");
    refused(&tensor(&[1, 4, 5, 8])?, None, 1., "do not go together");
    refused(&q.to_dtype(DType::F32)?, None, 1., "must be of one dtype");
    refused(&q, Some(&tensor(&[1, 4, 4, 5])?), 1., "cannot be broadcast");
    refused(&q, Some(&tensor(&[5, 5])?.to_device(&Device::Cpu)?), 1., "the mask is not on the device of q");
    refused(&q, None, 0., "a softcap of");
    ops::sdpa(&q, &q, &q, None, true, 1., 1.)?;
    Ok(())
}
