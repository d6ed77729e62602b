//! Training on the device: a small network learns to tell two spirals apart, with upstream's candle-nn as it is. Data,
//! weights, gradients and the optimizer's state stay on the device; only the loss comes back.
//!
//!     cargo run --release --example 04-training

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{linear, loss, AdamW, Linear, Optimizer, ParamsAdamW, VarBuilder, VarMap};

const POINTS: usize = 100;
const STEPS: usize = 400;

/// Points on two spirals (2 POINTS, 2), and which spiral each is on (2 POINTS, 1).
fn spirals(device: &Device) -> Result<(Tensor, Tensor)> {
    let points = (0..2 * POINTS).flat_map(|i| {
        let along = (i / 2) as f32 / POINTS as f32;
        let turn = along * 4.5 + (i % 2) as f32 * std::f32::consts::PI;
        let radius = 0.1 + 0.9 * along;
        [radius * turn.cos(), radius * turn.sin()]
    });
    let labels = (0..2 * POINTS).map(|i| (i % 2) as f32);
    let points = Tensor::from_iter(points, device)?.reshape((2 * POINTS, 2))?;
    Ok((points, Tensor::from_iter(labels, device)?.reshape((2 * POINTS, 1))?))
}

/// Two hidden layers.
struct Network([Linear; 3]);

impl Network {
    fn new(weights: VarBuilder) -> Result<Self> {
        let layer = |inputs, outputs, name| linear(inputs, outputs, weights.pp(name));
        Ok(Self([layer(2, 32, "first")?, layer(32, 32, "second")?, layer(32, 1, "third")?]))
    }

    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let x = self.0[0].forward(x)?.tanh()?;
        let x = self.0[1].forward(&x)?.tanh()?;
        self.0[2].forward(&x)
    }
}

/// What the network thinks of every place in the square, one letter a place.
fn draw(network: &Network, device: &Device) -> Result<()> {
    const ROWS: usize = 20;
    const COLUMNS: usize = 44;
    let at = |i: usize, count: usize| 2.2 * (i as f32 + 0.5) / count as f32 - 1.1;
    let places = (0..ROWS * COLUMNS).flat_map(|i| [at(i % COLUMNS, COLUMNS), at(i / COLUMNS, ROWS)]);
    let places = Tensor::from_iter(places, device)?.reshape((ROWS * COLUMNS, 2))?;
    for row in network.forward(&places)?.reshape((ROWS, COLUMNS))?.to_vec2::<f32>()? {
        let letter = |logit: &f32| if *logit > 0. { '#' } else { '.' };
        println!("  {}", row.iter().map(letter).collect::<String>());
    }
    Ok(())
}

fn main() -> Result<()> {
    let device = Device::new_rocm(0)?;
    // Random numbers come from a counter, so one seed gives the same weights on every device.
    device.set_seed(1)?;
    let (points, labels) = spirals(&device)?;
    let variables = VarMap::new();
    let network = Network::new(VarBuilder::from_varmap(&variables, DType::F32, &device))?;
    let mut optimizer = AdamW::new(variables.all_vars(), ParamsAdamW { lr: 0.02, ..Default::default() })?;

    for step in 0..=STEPS {
        let loss = loss::binary_cross_entropy_with_logit(&network.forward(&points)?, &labels)?;
        if step % 100 == 0 {
            println!("step {step:>3}: loss {:.4}", loss.to_scalar::<f32>()?);
        }
        optimizer.backward_step(&loss)?;
    }

    let says = network.forward(&points)?.gt(0.)?.to_dtype(DType::F32)?;
    let right = says.eq(&labels)?.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()? as usize;
    println!("{right} of {} points are told apart:", 2 * POINTS);
    draw(&network, &device)?;
    ensure!(right * 100 >= 2 * POINTS * 95, "the network did not learn: {right} of {} points", 2 * POINTS);
    Ok(())
}
