//! A quantized language model from a GGUF file, token by token: the loop that every text generator has inside, without the
//! comforts of `candle-rocm generate`. The model is candle-transformers' own.
//!
//!     cargo run --release --example 06-gguf-generation

use anyhow::{Context, Error, Result};
use candle_core::quantized::gguf_file::Content;
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use candle_core::{Device, Tensor, D};
use candle_transformers::models::quantized_llama::ModelWeights;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::Instant;
use tokenizers::Tokenizer;

const PROMPT: &str = "It was a dark and stormy night";
const TOKENS: usize = 40;

fn main() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/novelist-7m/novelist-7m.Q8_0.gguf");
    let mut file = std::fs::File::open(&path).with_context(|| format!("{} cannot be opened", path.display()))?;

    // The header says what is in the file; no weight has been read yet.
    let content = Content::read(&mut file)?;
    let mut types = BTreeMap::new();
    for info in content.tensor_infos.values() {
        *types.entry(format!("{:?}", info.ggml_dtype)).or_insert(0) += 1;
    }
    println!("tensors by type: {types:?}");
    let number = |key: &str| content.metadata.get(key)?.to_u32().ok();
    let first = number("tokenizer.ggml.bos_token_id").context("the file names no first token")?;
    let last = number("tokenizer.ggml.eos_token_id").context("the file names no last token")?;
    let tokenizer = Tokenizer::from_gguf(&content)?;

    // Weights stay quantized on the device: a product reads blocks of 32 numbers in 34 bytes and never makes floats of them.
    let mut model = ModelWeights::from_gguf(content, &mut file, &device)?;

    let mut tokens = vec![first];
    tokens.extend(tokenizer.encode(PROMPT, false).map_err(Error::msg)?.get_ids());
    let decode = |tokens: &[u32]| tokenizer.decode(tokens, true).map_err(Error::msg);
    let mut printed = decode(&tokens)?;
    print!("{printed}");

    let start = Instant::now();
    let mut fed = 0;
    for _ in 0..TOKENS {
        // First the whole prompt, then one token at a time: the model keeps keys and values of what came before.
        let input = Tensor::new(&tokens[fed..], &device)?.unsqueeze(0)?;
        let logits = model.forward(&input, fed)?;
        fed = tokens.len();
        // The likeliest token, found on the device: four bytes come back, not the whole vocabulary.
        let next = logits.argmax(D::Minus1)?.squeeze(0)?.to_scalar::<u32>()?;
        if next == last {
            break;
        }
        tokens.push(next);
        // A token may be half a character: print what the text has grown by, once it is whole.
        let text = decode(&tokens)?;
        if let Some(piece) = text.strip_prefix(&printed).filter(|piece| !piece.ends_with('\u{fffd}')) {
            print!("{piece}");
            std::io::stdout().flush()?;
            printed = text;
        }
    }
    let rate = TOKENS as f64 / start.elapsed().as_secs_f64();
    println!("\n{} tokens, {rate:.0} a second", tokens.len());
    Ok(())
}
