//! candle-nn's layers and losses: the composed ones, which use many operations of the device at once, and the gradients of
//! those that have them.

use super::{check, values, wave};
use candle::{DType, Device, Module, ModuleT, Result, Tensor, Var, D};
use candle_nn::rnn::{LSTMState, RNN};
use candle_nn::{loss, ops, Activation, BatchNorm, Embedding, GroupNorm, LayerNorm, Linear, PReLU, RmsNorm};
use candle_nn::{Conv1d, Conv2d, ConvTranspose2d, GRUConfig, LSTMConfig, VarBuilder, GRU, LSTM};
use std::collections::HashMap;

#[test]
fn activations() {
    let table = [
        Activation::Gelu,
        Activation::NewGelu,
        Activation::Relu,
        Activation::Relu2,
        Activation::Relu6,
        Activation::Silu,
        Activation::Sigmoid,
        Activation::HardSigmoid,
        Activation::Swish,
        Activation::Mish,
        Activation::HardSwish,
        Activation::Elu(1.2),
        Activation::LeakyRelu(0.1),
        Activation::GeluPytorchTanh,
        Activation::Swiglu,
    ];
    for activation in table {
        check(&format!("{activation:?}"), &[&[3, 10]], |x| activation.forward(&x[0]));
    }
    check("selu", &[&[3, 10]], |x| ops::selu(&x[0], 1.67, 1.05));
    check("prelu", &[&[2, 4, 5], &[4]], |x| PReLU::new(x[1].clone(), false).forward(&x[0]));
}

#[test]
fn shapes_of_images() {
    check("pixel_shuffle", &[&[2, 8, 3, 4]], |x| ops::pixel_shuffle(&x[0], 2));
    check("pixel_unshuffle", &[&[2, 2, 6, 4]], |x| ops::pixel_unshuffle(&x[0], 2));
    check("replication_pad2d", &[&[2, 3, 4, 5]], |x| ops::replication_pad2d(&x[0], 1));
}

#[test]
fn layers() {
    check("linear", &[&[2, 5, 8], &[6, 8], &[6]], |x| Linear::new(x[1].clone(), Some(x[2].clone())).forward(&x[0]));
    check("conv1d", &[&[2, 4, 9], &[6, 4, 3], &[6]], |x| {
        Conv1d::new(x[1].clone(), Some(x[2].clone()), Default::default()).forward(&x[0])
    });
    check("conv2d", &[&[2, 4, 7, 6], &[6, 4, 3, 3], &[6]], |x| {
        Conv2d::new(x[1].clone(), Some(x[2].clone()), Default::default()).forward(&x[0])
    });
    check("conv_transpose2d", &[&[1, 4, 5, 5], &[4, 3, 3, 3], &[3]], |x| {
        ConvTranspose2d::new(x[1].clone(), Some(x[2].clone()), Default::default()).forward(&x[0])
    });
    check("group_norm", &[&[2, 6, 5], &[6], &[6]], |x| {
        GroupNorm::new(x[1].clone(), x[2].clone(), 6, 3, 1e-5)?.forward(&x[0])
    });
    check("layer_norm", &[&[2, 3, 8], &[8], &[8]], |x| LayerNorm::new(x[1].clone(), x[2].clone(), 1e-5).forward(&x[0]));
    check("rms_norm", &[&[2, 3, 8], &[8]], |x| RmsNorm::new(x[1].clone(), 1e-5).forward(&x[0]));
    check("batch_norm", &[&[2, 4, 5], &[4], &[4]], |x| {
        let (zeros, ones) = (x[1].zeros_like()?, x[1].ones_like()?);
        BatchNorm::new(4, zeros, ones, x[1].clone(), x[2].clone(), 1e-5)?.forward_t(&x[0], true)
    });
    check("embedding", &[&[7, 6]], |x| {
        let ids = Tensor::new(&[[0u32, 6, 3], [3, 3, 1]], x[0].device())?;
        Embedding::new(x[0].clone(), 6).forward(&ids)
    });
}

/// Recurrent cells step by step over a short sequence.
#[test]
fn recurrent_cells() {
    let (inputs, hidden) = (4, 6);
    let named = |x: &[Tensor], gates: usize| -> VarBuilder<'static> {
        let device = x[0].device().clone();
        let names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"];
        let tensors: HashMap<_, _> = names.iter().zip(&x[1..]).map(|(name, t)| (name.to_string(), t.clone())).collect();
        assert_eq!(x[1].dims(), [gates * hidden, inputs]);
        VarBuilder::from_tensors(tensors, x[0].dtype(), &device)
    };
    let shapes = |gates: usize| [vec![2, 5, inputs], vec![gates * hidden, inputs], vec![gates * hidden, hidden]];
    let [x, ih, hh] = shapes(4);
    check("lstm", &[&x, &ih, &hh, &[4 * hidden], &[4 * hidden]], |x| {
        let lstm: LSTM = candle_nn::lstm(inputs, hidden, LSTMConfig::default(), named(x, 4))?;
        let states: Vec<LSTMState> = lstm.seq(&x[0])?;
        lstm.states_to_tensor(&states)
    });
    let [x, ih, hh] = shapes(3);
    check("gru", &[&x, &ih, &hh, &[3 * hidden], &[3 * hidden]], |x| {
        let gru: GRU = candle_nn::gru(inputs, hidden, GRUConfig::default(), named(x, 3))?;
        gru.states_to_tensor(&gru.seq(&x[0])?)
    });
}

#[test]
fn losses() {
    let classes = |x: &Tensor| Tensor::new(&[0u32, 2, 1, 2], x.device());
    check("cross_entropy", &[&[4, 3]], |x| loss::cross_entropy(&x[0], &classes(&x[0])?));
    check("nll", &[&[4, 3]], |x| loss::nll(&ops::log_softmax(&x[0], D::Minus1)?, &classes(&x[0])?));
    check("mse", &[&[4, 3], &[4, 3]], |x| loss::mse(&x[0], &x[1].sin()?));
    check("huber", &[&[4, 3], &[4, 3]], |x| loss::huber(&x[0], &x[1].sin()?, 0.5));
    check("binary_cross_entropy", &[&[4, 3]], |x| {
        let target = x[0].ge(0.)?.to_dtype(x[0].dtype())?;
        loss::binary_cross_entropy_with_logit(&x[0].sin()?, &target)
    });
}

/// Gradients of what candle-nn composes, f32, against the CPU's.
#[test]
fn gradients() -> Result<()> {
    type Op = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let table: &[(&str, Op)] = &[
        ("softmax", |x, _| ops::softmax(x, D::Minus1)),
        ("log_softmax", |x, _| ops::log_softmax(x, D::Minus1)),
        ("sigmoid", |x, _| ops::sigmoid(x)),
        ("silu", |x, _| ops::silu(x)),
        ("swiglu", |x, _| ops::swiglu(x)),
        ("mish", |x, _| ops::mish(x)),
        ("leaky_relu", |x, _| ops::leaky_relu(x, 0.1)),
        ("rms_norm_slow", |x, w| ops::rms_norm_slow(x, w, 1e-5)),
        ("layer_norm_slow", |x, w| ops::layer_norm_slow(x, w, w, 1e-5)),
        ("linear", |x, w| Linear::new(w.unsqueeze(0)?, None).forward(x)),
        ("cross_entropy", |x, _| loss::cross_entropy(x, &Tensor::new(&[0u32, 2, 1], x.device())?)),
        ("mse", |x, w| loss::mse(x, &w.broadcast_as(x.shape())?)),
    ];
    let rocm = Device::new_rocm(0)?;
    for (name, op) in table {
        let run = |device: &Device| -> Result<Vec<f64>> {
            let variable =
                |shape: &[usize]| Var::from_tensor(&wave(shape, 1.5).to_dtype(DType::F32)?.to_device(device)?);
            let (x, w) = (variable(&[3, 8])?, variable(&[8])?);
            let gradients = op(&x, &w)?.sqr()?.sum_all()?.backward()?;
            let all = [&x, &w].into_iter().filter_map(|variable| gradients.get(variable));
            Ok(all.flat_map(values).collect())
        };
        let (expected, got) = (run(&Device::Cpu)?, run(&rocm)?);
        assert!(!expected.is_empty() && expected.len() == got.len(), "{name}: as many gradients");
        for (expected, got) in expected.iter().zip(&got) {
            let close = (expected - got).abs() <= 1e-5 * expected.abs().max(1.);
            assert!(close, "gradient of {name}: {got}, the CPU says {expected}");
        }
    }
    Ok(())
}
