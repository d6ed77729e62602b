//! A convolutional classifier and a transformer, trained for a hundred steps from the same weights on both devices: the
//! losses must stay together and must fall.

use super::wave;
use candle::{DType, Device, Module, Result, Tensor, Var, D};
use candle_nn::{loss, ops, AdamW, Optimizer, ParamsAdamW, SGD};

const STEPS: usize = 100;

/// Trains on a device and returns the loss of every step.
fn train(
    device: &Device,
    weights: &[(&[usize], f64)],
    optimizer: impl Fn(Vec<Var>) -> Result<Box<dyn FnMut(&Tensor) -> Result<()>>>,
    forward: impl Fn(&[Var]) -> Result<Tensor>,
) -> Result<Vec<f32>> {
    let variables = weights
        .iter()
        .map(|(shape, scale)| Var::from_tensor(&wave(shape, *scale).to_dtype(DType::F32)?.to_device(device)?));
    let variables = variables.collect::<Result<Vec<_>>>()?;
    let mut step = optimizer(variables.clone())?;
    let mut losses = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        let loss = forward(&variables)?;
        losses.push(loss.to_scalar::<f32>()?);
        step(&loss)?;
    }
    Ok(losses)
}

fn follow(what: &str, on_cpu: &[f32], on_rocm: &[f32]) {
    for (step, (cpu, rocm)) in on_cpu.iter().zip(on_rocm).enumerate() {
        assert!(
            (cpu - rocm).abs() <= 2e-3 + 0.02 * cpu.abs(),
            "{what}, step {step}: the loss is {rocm}, on the CPU {cpu}"
        );
    }
    let (first, last) = (on_rocm[0], on_rocm[STEPS - 1]);
    assert!(last < 0.8 * first, "{what}: the loss went from {first} only to {last}");
}

fn convolutional(device: &Device) -> Result<Vec<f32>> {
    let images = wave(&[16, 1, 12, 12], 1.).to_dtype(DType::F32)?.to_device(device)?;
    let labels = Tensor::from_vec((0..16u32).map(|i| i % 3).collect(), 16, device)?;
    let weights: [(&[usize], f64); 4] = [(&[4, 1, 3, 3], 0.4), (&[4, 1, 1], 0.1), (&[3, 100], 0.1), (&[3], 0.1)];
    let optimizer = |variables| {
        let mut sgd = SGD::new(variables, 0.2)?;
        Ok(Box::new(move |loss: &Tensor| sgd.backward_step(loss)) as Box<dyn FnMut(&Tensor) -> Result<()>>)
    };
    train(device, &weights, optimizer, |w| {
        let x = images.conv2d(w[0].as_tensor(), 0, 1, 1, 1)?.broadcast_add(w[1].as_tensor())?.relu()?;
        let x = x.max_pool2d(2)?.flatten_from(1)?;
        let logits = x.matmul(&w[2].as_tensor().t()?)?.broadcast_add(w[3].as_tensor())?;
        loss::cross_entropy(&logits, &labels)
    })
}

fn transformer(device: &Device) -> Result<Vec<f32>> {
    const VOCABULARY: usize = 11;
    const WIDTH: usize = 16;
    const TIME: usize = 8;
    let tokens: Vec<u32> = (0..4 * (TIME as u32 + 1)).map(|i| (i * i + 3 * i) % VOCABULARY as u32).collect();
    let tokens = Tensor::from_vec(tokens, (4, TIME + 1), device)?;
    let (inputs, targets) = (tokens.narrow(1, 0, TIME)?.contiguous()?, tokens.narrow(1, 1, TIME)?.flatten_all()?);
    let hidden = (0..TIME * TIME).map(|at| if at % TIME > at / TIME { f32::NEG_INFINITY } else { 0. });
    let mask = Tensor::from_vec(hidden.collect(), (TIME, TIME), device)?;
    let weights: [(&[usize], f64); 7] = [
        (&[VOCABULARY, WIDTH], 0.5),
        (&[TIME, WIDTH], 0.3),
        (&[WIDTH, 3 * WIDTH], 0.3),
        (&[WIDTH, WIDTH], 0.3),
        (&[WIDTH, 4 * WIDTH], 0.3),
        (&[4 * WIDTH, WIDTH], 0.2),
        (&[WIDTH, VOCABULARY], 0.3),
    ];
    let optimizer = |variables| {
        let params = ParamsAdamW { lr: 0.01, ..Default::default() };
        let mut adam = AdamW::new(variables, params)?;
        Ok(Box::new(move |loss: &Tensor| adam.backward_step(loss)) as Box<dyn FnMut(&Tensor) -> Result<()>>)
    };
    let norm = |x: &Tensor| x.broadcast_div(&(x.sqr()?.mean_keepdim(D::Minus1)? + 1e-5)?.sqrt()?);
    train(device, &weights, optimizer, |w| {
        let w: Vec<&Tensor> = w.iter().map(Var::as_tensor).collect();
        let x = candle_nn::Embedding::new(w[0].clone(), WIDTH).forward(&inputs)?.broadcast_add(w[1])?;
        let qkv = norm(&x)?.broadcast_matmul(w[2])?;
        let head = |which: usize| -> Result<Tensor> {
            qkv.narrow(D::Minus1, which * WIDTH, WIDTH)?.reshape((4, TIME, 2, WIDTH / 2))?.transpose(1, 2)?.contiguous()
        };
        let (q, k, v) = (head(0)?, head(1)?, head(2)?);
        let scores = (q.matmul(&k.t()?)? * 0.35)?.broadcast_add(&mask)?;
        let mixed = ops::softmax(&scores, D::Minus1)?.matmul(&v)?.transpose(1, 2)?.reshape((4, TIME, WIDTH))?;
        let x = (x + mixed.broadcast_matmul(w[3])?)?;
        let x = (&x + norm(&x)?.broadcast_matmul(w[4])?.gelu_erf()?.broadcast_matmul(w[5])?)?;
        let logits = norm(&x)?.broadcast_matmul(w[6])?.reshape((4 * TIME, VOCABULARY))?;
        loss::cross_entropy(&logits, &targets)
    })
}

#[test]
fn a_convolutional_classifier_learns_as_on_the_cpu() -> Result<()> {
    follow("classifier", &convolutional(&Device::Cpu)?, &convolutional(&Device::new_rocm(0)?)?);
    Ok(())
}

#[test]
fn a_transformer_learns_as_on_the_cpu() -> Result<()> {
    follow("transformer", &transformer(&Device::Cpu)?, &transformer(&Device::new_rocm(0)?)?);
    Ok(())
}
