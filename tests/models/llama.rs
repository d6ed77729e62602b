//! The dense Llama with the repository's small model, from safetensors.

use super::{gguf, greedy, rocm};
use candle_core::{DType, Device, Result};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};
use tokenizers::Tokenizer;

/// The beginning of a story, in the small model's tokens.
pub fn prompt() -> Vec<u32> {
    let tokenizer = Tokenizer::from_file(gguf::novelist_folder().join("tokenizer.json")).expect("a tokenizer");
    let encoding = tokenizer.encode("My dear Holmes,", false).expect("tokens");
    // `<s>` begins every text.
    [&[1], encoding.get_ids()].concat()
}

fn write(device: &Device, count: usize) -> Result<Vec<u32>> {
    let folder = gguf::novelist_folder();
    let config = std::fs::read(folder.join("config.json")).expect("a configuration");
    let config: LlamaConfig = serde_json::from_slice(&config).expect("a Llama's configuration");
    let config = config.into_config(false);
    let file = std::fs::read(folder.join("model.safetensors")).expect("weights");
    let model = Llama::load(VarBuilder::from_buffered_safetensors(file, DType::F32, device)?, &config)?;
    let mut cache = Cache::new(true, DType::F32, &config, device)?;
    let forward = |tokens: &_, position| model.forward(tokens, position, &mut cache);
    Ok(greedy::generate(device, &prompt(), count, forward)?.0)
}

#[test]
fn a_dense_llama_writes_what_the_cpu_writes() -> Result<()> {
    assert_eq!(write(&rocm(), 100)?, write(&Device::Cpu, 100)?);
    Ok(())
}
