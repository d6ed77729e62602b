//! A program for CUDA as a user writes it: a Llama from candle-transformers, on CUDA's device and on the CPU. It fails when the
//! tokens differ. The folder of the model is its argument.

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};
use std::path::Path;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const PROMPT: [u32; 4] = [1, 100, 200, 300];
const COUNT: usize = 100;

fn write(folder: &Path, device: &Device) -> Outcome<Vec<u32>> {
    let config: LlamaConfig = serde_json::from_slice(&std::fs::read(folder.join("config.json"))?)?;
    let config = config.into_config(false);
    let file = std::fs::read(folder.join("model.safetensors"))?;
    let model = Llama::load(VarBuilder::from_buffered_safetensors(file, DType::F32, device)?, &config)?;
    let mut cache = Cache::new(true, DType::F32, &config, device)?;
    let mut tokens = PROMPT.to_vec();
    let mut done = 0;
    while tokens.len() < PROMPT.len() + COUNT {
        let logits = model.forward(&Tensor::new(&tokens[done..], device)?.unsqueeze(0)?, done, &mut cache)?;
        done = tokens.len();
        tokens.push(logits.squeeze(0)?.argmax(0)?.to_scalar()?);
    }
    Ok(tokens.split_off(PROMPT.len()))
}

fn main() -> Outcome<()> {
    let folder = std::env::args_os().nth(1).ok_or("the argument is the model's folder")?;
    let device = Device::new_cuda(0)?;
    println!("on {:?}", device.location());
    let (written, expected) = (write(Path::new(&folder), &device)?, write(Path::new(&folder), &Device::Cpu)?);
    if written != expected {
        return Err(format!("{written:?} are not the CPU's tokens {expected:?}").into());
    }
    println!("{COUNT} tokens are the CPU's");
    Ok(())
}
