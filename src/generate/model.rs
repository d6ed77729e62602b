//! A language model from a GGUF file: which of candle-transformers' models fits its architecture, its tokenizer and its limits.

use crate::failure::{Failure, Result};
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use candle_core::{Device, Tensor};
use candle_transformers::models::{
    quantized_gemma3 as gemma3, quantized_llama as llama, quantized_phi3 as phi3, quantized_qwen2 as qwen2,
    quantized_qwen3 as qwen3,
};
use std::io::{Read, Seek, SeekFrom};
use tokenizers::Tokenizer;

/// The architectures that candle-transformers reads from GGUF files and this program offers.
enum Weights {
    Llama(llama::ModelWeights),
    Qwen2(qwen2::ModelWeights),
    Qwen3(qwen3::ModelWeights),
    Phi3(phi3::ModelWeights),
    Gemma3(gemma3::ModelWeights),
}

/// A loaded model with what is needed to talk to it.
pub struct Model {
    weights: Weights,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// The token every text starts with, if the model wants one.
    pub first_token: Option<u32>,
    /// Tokens that end a text.
    pub end_tokens: Vec<u32>,
    /// The longest text, in tokens.
    pub context: usize,
    /// What the file calls itself, with its architecture.
    pub name: String,
}

impl Model {
    /// Reads a GGUF file; `source` names it in errors.
    pub fn from_gguf(reader: &mut (impl Read + Seek), source: &str, device: &Device) -> Result<Self> {
        check_magic(reader, source)?;
        let content = Content::read(reader)
            .map_err(|error| Failure::input(format!("{source} is not a GGUF file that can be read: {error}")))?;
        check_length(&content, reader, source)?;
        let text = |key: &str| content.metadata.get(key).and_then(|value| value.to_string().ok()).cloned();
        let number = |key: &str| content.metadata.get(key).and_then(unsigned);
        let architecture = text("general.architecture")
            .ok_or_else(|| Failure::input(format!("{source} does not say its architecture (general.architecture)")))?;
        let tokenizer = Tokenizer::from_gguf(&content).map_err(|error| {
            Failure::input(format!(
                "{source} has no tokenizer that can be used: {error}. Use a GGUF file with the tokenizer inside"
            ))
        })?;
        let name = text("general.name").map_or_else(|| architecture.clone(), |name| format!("{name} ({architecture})"));
        let first_token = number("tokenizer.ggml.bos_token_id").filter(|_| {
            content.metadata.get("tokenizer.ggml.add_bos_token").is_none_or(|add| add.to_bool().unwrap_or(true))
        });
        let end_tokens = number("tokenizer.ggml.eos_token_id").into_iter().collect();
        let context = number(&format!("{architecture}.context_length")).unwrap_or(2048) as usize;
        let weights = match architecture.as_str() {
            "llama" | "mistral" => Weights::Llama(llama::ModelWeights::from_gguf(content, reader, device)?),
            "qwen2" => Weights::Qwen2(qwen2::ModelWeights::from_gguf(content, reader, device)?),
            "qwen3" => Weights::Qwen3(qwen3::ModelWeights::from_gguf(content, reader, device)?),
            "phi3" => Weights::Phi3(phi3::ModelWeights::from_gguf(false, content, reader, device)?),
            "gemma" | "gemma2" | "gemma3" => Weights::Gemma3(gemma3::ModelWeights::from_gguf(content, reader, device)?),
            other => {
                return Err(Failure::input(format!(
                    "{source} holds a model of architecture {other:?}; this program reads llama, mistral, qwen2, qwen3, phi3 and gemma"
                )))
            }
        };
        Ok(Self { weights, tokenizer, first_token, end_tokens, context, name })
    }

    /// The logits of the token after `tokens`, of which `position` come before.
    pub fn forward(&mut self, tokens: &Tensor, position: usize) -> candle_core::Result<Tensor> {
        let logits = match &mut self.weights {
            Weights::Llama(model) => model.forward(tokens, position),
            Weights::Qwen2(model) => model.forward(tokens, position),
            Weights::Qwen3(model) => model.forward(tokens, position),
            Weights::Phi3(model) => model.forward(tokens, position),
            Weights::Gemma3(model) => model.forward(tokens, position),
        }?;
        logits.squeeze(0)
    }

    /// The tokens of a text, with the first token before it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self
            .tokenizer
            .encode(text, false)
            .map_err(|error| Failure::input(format!("the tokenizer cannot read the prompt: {error}")))?;
        Ok(self.first_token.into_iter().chain(encoding.get_ids().iter().copied()).collect())
    }
}

fn unsigned(value: &Value) -> Option<u32> {
    value.to_u32().ok().or_else(|| value.to_u64().ok().and_then(|wide| u32::try_from(wide).ok()))
}

fn check_magic(reader: &mut (impl Read + Seek), source: &str) -> Result<()> {
    let mut magic = [0; 4];
    let unreadable = |error: std::io::Error| Failure::input(format!("{source} cannot be read: {error}"));
    let read = reader.read(&mut magic).map_err(unreadable)?;
    if read < 4 || &magic != b"GGUF" {
        return Err(Failure::input(format!("{source} is not a GGUF file: it does not begin with the letters GGUF")));
    }
    reader.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    Ok(())
}

/// A download that broke off is found before any tensor is read: the tensor that lies past the end is named.
fn check_length(content: &Content, reader: &mut (impl Read + Seek), source: &str) -> Result<()> {
    let length =
        reader.seek(SeekFrom::End(0)).map_err(|error| Failure::input(format!("{source} cannot be read: {error}")))?;
    let mut last = None;
    for (name, info) in &content.tensor_infos {
        let elements = info.shape.elem_count();
        let bytes = elements / info.ggml_dtype.block_size() * info.ggml_dtype.type_size();
        let end = content.tensor_data_offset.saturating_add(info.offset).saturating_add(bytes as u64);
        if end > length && last.as_ref().is_none_or(|(_, other)| end > *other) {
            last = Some((name.clone(), end));
        }
    }
    match last {
        None => Ok(()),
        Some((name, end)) => Err(Failure::input(format!(
            "{source} is truncated: tensor {name} ends at byte {end}, but the file has only {length}. Download it again"
        ))),
    }
}
