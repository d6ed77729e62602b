//! An ordinary Candle program on an AMD GPU: a BERT from candle-transformers, with random weights, on `Device::new_rocm(0)`.
//! It compares the embeddings with the CPU's and fails when they differ, so that running it is a test.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};
use candle_nn::{VarBuilder, VarMap};
use candle_transformers::models::bert::{BertModel, Config};
use std::collections::HashMap;

fn config() -> Config {
    Config {
        vocab_size: 100,
        hidden_size: 64,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        intermediate_size: 128,
        max_position_embeddings: 32,
        ..Config::default()
    }
}

fn embed(model: &BertModel, device: &Device) -> Result<Vec<Vec<f32>>> {
    let ids: Vec<u32> = (0..24).map(|i| (i * 37 + 11) % 100).collect();
    let ids = Tensor::from_vec(ids, (2, 12), device)?;
    let embeddings = model.forward(&ids, &ids.zeros_like()?, None)?;
    Ok(embeddings.mean(1)?.to_vec2()?)
}

fn main() -> Result<()> {
    let device = Device::new_rocm(0)?;
    println!("device: {device:?}");

    // The CPU's model makes the weights; the ROCm model gets the same ones.
    let weights = VarMap::new();
    let on_cpu = BertModel::load(VarBuilder::from_varmap(&weights, DType::F32, &Device::Cpu), &config())?;
    let mut tensors = HashMap::new();
    for (name, variable) in weights.data().lock().expect("nobody panicked").iter() {
        tensors.insert(name.clone(), variable.as_tensor().to_device(&device)?);
    }
    let on_rocm = BertModel::load(VarBuilder::from_tensors(tensors, DType::F32, &device), &config())?;

    let (expected, got) = (embed(&on_cpu, &Device::Cpu)?, embed(&on_rocm, &device)?);
    let difference = expected.iter().flatten().zip(got.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("largest difference to the CPU: {difference:e}");
    ensure!(got.len() == 2 && got[0].len() == 64, "the embeddings have the wrong shape");
    ensure!(difference < 1e-4, "the ROCm device's embeddings differ from the CPU's by {difference}");
    Ok(())
}
