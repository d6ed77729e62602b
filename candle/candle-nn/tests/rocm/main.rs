//! candle-nn on the ROCm device against the CPU: its operations over shapes and dtypes, and training that follows the CPU's
//! losses step by step.

mod flash;
mod graphs;
mod layers;
mod moe;
mod put_off;
mod sdpa;
#[allow(dead_code)] // Each program uses a part.
#[path = "../../../candle-core/tests/suite/mod.rs"]
mod suite;
mod training;

use candle::{DType, Device, Result, Tensor, D};
use candle_nn::{ops, rotary_emb};

/// Numbers that look like none in particular, the same everywhere.
pub fn wave(shape: &[usize], scale: f64) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f64> = (0..count).map(|i| scale * (i as f64 * 0.7391 + 0.3).sin()).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).expect("a tensor")
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let tensor = tensor.to_device(&Device::Cpu).and_then(|t| t.to_dtype(DType::F64)?.flatten_all());
    tensor.and_then(|t| t.to_vec1()).expect("values")
}

/// Compares an operation on the ROCm device, in every float dtype, with the CPU's answer in f64 for the same rounded inputs.
fn check(name: &str, shapes: &[&[usize]], op: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let device = Device::new_rocm(0).expect("a ROCm device");
    for (dtype, tolerance) in [(DType::F64, 1e-9), (DType::F32, 1e-5), (DType::F16, 4e-3), (DType::BF16, 3e-2)] {
        let inputs: Vec<_> = shapes.iter().map(|shape| wave(shape, 2.).to_dtype(dtype).expect("a dtype")).collect();
        let run = |dtype: DType, device: &Device| {
            let inputs = inputs.iter().map(|input| input.to_dtype(dtype)?.to_device(device));
            op(&inputs.collect::<Result<Vec<_>>>()?)
        };
        // The norms of the CPU backend have no f64, or keep their epsilon in f32: f32 is the reference for them.
        let exact = run(DType::F64, &Device::Cpu).or_else(|_| run(DType::F32, &Device::Cpu));
        let exact = exact.unwrap_or_else(|error| panic!("{name} on the CPU: {error}"));
        let got = match run(dtype, &device) {
            Ok(got) => got,
            // Some layers bring a tensor of their own dtype along, and no device can mix two.
            Err(_) if run(dtype, &Device::Cpu).is_err() => continue,
            Err(error) => panic!("{name} on {dtype:?}: {error}"),
        };
        assert_eq!(exact.shape(), got.shape(), "{name}");
        let tolerance = if dtype == DType::F64 { 1e-6f64.max(tolerance) } else { tolerance };
        for (exact, got) in values(&exact).iter().zip(values(&got)) {
            let close = (exact - got).abs() <= tolerance * exact.abs().max(1.);
            assert!(close, "{name} on {dtype:?} {shapes:?}: {got}, the CPU says {exact}");
        }
    }
}

#[test]
fn rows() {
    for shape in [&[1, 1][..], &[3, 7], &[2, 5, 64], &[4, 1000], &[2, 3, 2, 33]] {
        let last = &shape[shape.len() - 1..];
        check("sigmoid", &[shape], |x| ops::sigmoid(&x[0]));
        check("softmax_last_dim", &[shape], |x| ops::softmax_last_dim(&x[0]));
        check("softmax", &[shape], |x| ops::softmax(&x[0], 0));
        check("log_softmax", &[shape], |x| ops::log_softmax(&x[0], D::Minus1));
        check("silu", &[shape], |x| ops::silu(&x[0]));
        check("hard_sigmoid", &[shape], |x| ops::hard_sigmoid(&x[0]));
        check("leaky_relu", &[shape], |x| ops::leaky_relu(&x[0], 0.1));
        check("mish", &[shape], |x| ops::mish(&x[0]));
        check("rms_norm", &[shape, last], |x| ops::rms_norm(&x[0], &x[1], 1e-5));
        check("layer_norm", &[shape, last, last], |x| ops::layer_norm(&x[0], &x[1], &x[2], 1e-5));
    }
}

#[test]
fn rotary_embeddings() {
    type Rope = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;
    let table: [(&str, [usize; 4], usize, Rope); 3] = [
        ("rope", [2, 3, 5, 16], 5, rotary_emb::rope),
        ("rope_i", [2, 3, 5, 16], 5, rotary_emb::rope_i),
        ("rope_thd", [2, 5, 3, 16], 5, rotary_emb::rope_thd),
    ];
    let slow: [(&str, [usize; 4], usize, Rope); 2] = [
        ("rope_slow", [2, 3, 5, 16], 5, rotary_emb::rope_slow),
        ("rope_i_slow", [2, 3, 5, 16], 5, rotary_emb::rope_i_slow),
    ];
    for (name, shape, time, rope) in table.into_iter().chain(slow) {
        check(name, &[&shape, &[time, 8], &[time, 8]], |x| rope(&x[0], &x[1], &x[2]));
    }
}
