//! Random weights that depend on a tensor's name and shape alone, so that a model built twice has the same ones on both
//! devices and in every run.

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};

/// Weights for a model on a device, in f32.
pub fn weights(device: &Device) -> VarBuilder<'static> {
    weights_but(device, |_, parameter| Ok(parameter))
}

/// As [`weights`], with some of them changed by name.
pub fn weights_but(device: &Device, change: fn(&str, Tensor) -> Result<Tensor>) -> VarBuilder<'static> {
    VarBuilder::from_backend(Box::new(ByName { change }), DType::F32, device.clone())
}

/// Numbers between -1 and 1, the same for the same name.
pub fn uniform(name: &str, shape: impl Into<Shape>) -> Result<Tensor> {
    let shape = shape.into();
    let mut state = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mut number = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.
    };
    let values: Vec<f32> = (0..shape.elem_count()).map(|_| number()).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)
}

/// A parameter of a layer, of a size that keeps activations around one: scales near one, biases near zero, and matrices
/// whose products neither grow nor shrink.
pub fn parameter(name: &str, shape: &Shape) -> Result<Tensor> {
    let numbers = uniform(name, shape)?;
    match shape.dims() {
        [_] if name.ends_with("weight") => numbers.affine(0.1, 1.),
        [] | [_] => numbers.affine(0.1, 0.),
        [_, inner @ ..] => numbers.affine((3. / inner.iter().product::<usize>() as f64).sqrt(), 0.),
    }
}

struct ByName {
    change: fn(&str, Tensor) -> Result<Tensor>,
}

impl SimpleBackend for ByName {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, device: &Device) -> Result<Tensor> {
        (self.change)(name, parameter(name, &shape)?)?.to_dtype(dtype)?.to_device(device)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        candle_core::bail!("{name} is asked for without a shape, and random weights need one")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}
