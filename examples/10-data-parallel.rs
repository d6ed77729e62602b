//! Data parallel training: every rank has the whole network and its part of the batch, and the ranks average their gradients, so that all
//! take the step of the whole batch. The losses are the same with one rank, two or four.
//!
//!     cargo run --release --example 10-data-parallel
//!     cargo run --release -- launch -n 2 -- target/release/examples/10-data-parallel

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{linear, loss, AdamW, Linear, Optimizer, ParamsAdamW, VarBuilder, VarMap};
use candle_rocm_parallel::{DistributedDataParallel, ProcessGroup, ReduceOp};

const POINTS: usize = 64;
const STEPS: usize = 200;

/// A wave to learn: places (POINTS, 1) and how high it is there.
fn wave(device: &Device) -> Result<(Tensor, Tensor)> {
    let places: Vec<f32> = (0..POINTS).map(|i| 2. * i as f32 / POINTS as f32 - 1.).collect();
    let heights: Vec<f32> = places.iter().map(|x| (4. * x).sin()).collect();
    Ok((Tensor::from_vec(places, (POINTS, 1), device)?, Tensor::from_vec(heights, (POINTS, 1), device)?))
}

/// One hidden layer.
struct Network(Linear, Linear);

impl Network {
    fn new(weights: VarBuilder) -> Result<Self> {
        Ok(Self(linear(1, 32, weights.pp("first"))?, linear(32, 1, weights.pp("second"))?))
    }

    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        self.1.forward(&self.0.forward(x)?.tanh()?)
    }
}

fn main() -> Result<()> {
    // What a launcher says; one rank, where there is none.
    let group = ProcessGroup::from_environment()?;
    // Each rank draws weights of its own, and gets those of rank 0.
    group.device().set_seed(1 + group.rank() as u64)?;
    let variables = VarMap::new();
    let network = Network::new(VarBuilder::from_varmap(&variables, DType::F32, group.device()))?;
    let parallel = DistributedDataParallel::new(&variables, &group)?;
    let mut optimizer = AdamW::new(variables.all_vars(), ParamsAdamW { lr: 0.02, ..Default::default() })?;

    let (places, heights) = wave(group.device())?;
    let (places, heights) = (group.shard(&places, 0)?, group.shard(&heights, 0)?);
    if group.rank() == 0 {
        println!("{} of {POINTS} points on each of {} ranks", places.dim(0)?, group.world_size());
    }
    let mut last = f32::INFINITY;
    for step in 0..=STEPS {
        let loss = loss::mse(&network.forward(&places)?, &heights)?;
        if step % 50 == 0 {
            // Each rank knows the loss of its part.
            last = group.all_reduce(&loss, ReduceOp::Average)?.to_scalar::<f32>()?;
            if group.rank() == 0 {
                println!("step {step:>3}: loss {last:.4}");
            }
        }
        let mut gradients = loss.backward()?;
        parallel.reduce_gradients(&mut gradients)?;
        optimizer.step(&gradients)?;
    }
    ensure!(last < 0.02, "the network did not learn: the loss is {last}");

    // All ranks have the same network.
    let weights = group.all_gather(&network.0.weight().unsqueeze(0)?, 0)?;
    let spread = (weights.max(0)? - weights.min(0)?)?.max_all()?.to_scalar::<f32>()?;
    ensure!(spread == 0., "the ranks have gone apart by {spread}");
    if group.rank() == 0 {
        println!("all ranks have the same weights");
    }
    Ok(())
}
