//! A language model from a GGUF file: which of candle-transformers' models fits its architecture, its tokenizer and its limits.

use super::model::{networks, turn_ends, Model, Network};
use super::sentencepiece;
use super::template::Template;
use crate::failure::{sentence, Failure, Result};
use crate::terminal::Counted;
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use candle_core::{DType, Device, Tensor};
use candle_transformers::models::{
    quantized_gemma3 as gemma3, quantized_glm4 as glm4, quantized_lfm2 as lfm2, quantized_llama as llama,
    quantized_phi3 as phi3, quantized_qwen2 as qwen2, quantized_qwen3 as qwen3,
};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::Tokenizer;

networks!(
    llama::ModelWeights, clear_kv_cache;
    qwen2::ModelWeights, clear_kv_cache;
    qwen3::ModelWeights, clear_kv_cache;
    // These have no such method; they forget at position zero.
    gemma3::ModelWeights;
    glm4::ModelWeights;
    lfm2::ModelWeights;
    phi3::ModelWeights;
);

/// Opens a GGUF file.
pub fn open(path: &Path, device: &Device) -> Result<Model> {
    let source = path.display().to_string();
    let refuse = |error: std::io::Error| Failure::input(format!("{source} cannot be opened: {error}"));
    let file = File::open(path).map_err(refuse)?;
    let length = file.metadata().map_err(refuse)?.len();
    read(&mut BufReader::new(Counted::new(file, "loading", length)), &source, device)
}

/// Reads a GGUF file; `source` names it in errors.
pub fn read(reader: &mut (impl Read + Seek), source: &str, device: &Device) -> Result<Model> {
    check_magic(reader, source)?;
    let content = Content::read(reader).map_err(|error| {
        let error = sentence(&error);
        Failure::input(format!("{source} is not a GGUF file that can be read, or is truncated: {error}"))
    })?;
    check_length(&content, reader, source)?;
    let text = |key: &str| content.metadata.get(key).and_then(|value| value.to_string().ok()).cloned();
    let number = |key: &str| content.metadata.get(key).and_then(unsigned);
    let architecture = text("general.architecture")
        .ok_or_else(|| Failure::input(format!("{source} does not say its architecture (general.architecture)")))?;
    let tokenizer = tokenizer(&content, source)?;
    let name = text("general.name").map_or_else(|| architecture.clone(), |name| format!("{name} ({architecture})"));
    let first_token = number("tokenizer.ggml.bos_token_id").filter(|_| {
        content.metadata.get("tokenizer.ggml.add_bos_token").is_none_or(|add| add.to_bool().unwrap_or(true))
    });
    let mut end_tokens: Vec<u32> = ["eos", "eot", "eom"]
        .iter()
        .filter_map(|kind| number(&format!("tokenizer.ggml.{kind}_token_id")))
        .chain(turn_ends(&tokenizer))
        .collect();
    end_tokens.sort_unstable();
    end_tokens.dedup();
    let word = |kind: &str| {
        number(&format!("tokenizer.ggml.{kind}_token_id")).and_then(|id| tokenizer.id_to_token(id)).unwrap_or_default()
    };
    let template = text("tokenizer.chat_template")
        .map(|template| Template::new(&template, word("bos"), word("eos"), source))
        .transpose()?;
    let context = number(&format!("{architecture}.context_length")).unwrap_or(2048) as usize;
    // Candle's table of rotations ends there, whatever the file says.
    let context = if architecture == "llama" { context.min(llama::MAX_SEQ_LEN) } else { context };
    let network = network(&architecture, content, reader, source, device)?;
    Ok(Model { network, tokenizer, first_token, end_tokens, context, name, template, seen: Vec::new() })
}

fn network(
    architecture: &str,
    content: Content,
    reader: &mut (impl Read + Seek),
    source: &str,
    device: &Device,
) -> Result<Box<dyn Network>> {
    fn boxed<N: Network + 'static>(network: candle_core::Result<N>) -> candle_core::Result<Box<dyn Network>> {
        network.map(|network| Box::new(network) as Box<dyn Network>)
    }
    let loaded = match architecture {
        "llama" => boxed(llama::ModelWeights::from_gguf(content, reader, device)),
        "qwen2" => boxed(qwen2::ModelWeights::from_gguf(content, reader, device)),
        "qwen3" => boxed(qwen3::ModelWeights::from_gguf(content, reader, device)),
        "phi3" => boxed(phi3::ModelWeights::from_gguf(false, content, reader, device)),
        "gemma3" => boxed(gemma3::ModelWeights::from_gguf(content, reader, device)),
        "glm4" => boxed(glm4::ModelWeights::from_gguf(content, reader, device, DType::F32)),
        "lfm2" => boxed(lfm2::ModelWeights::from_gguf(content, reader, device)),
        other => {
            return Err(Failure::input(format!(
                "{source} holds a model of architecture {other:?}; from GGUF files this program reads llama (Mistral and SmolLM too), \
                 qwen2, qwen3, phi3, gemma3, glm4 and lfm2"
            )))
        }
    };
    loaded.map_err(|error| Failure::loading(source, architecture, &error))
}

/// The tokenizer inside the file.
fn tokenizer(content: &Content, source: &str) -> Result<Tokenizer> {
    let refuse = |error: candle_core::Error| {
        let error = sentence(&error);
        Failure::input(format!(
            "{source} has no tokenizer that can be used: {error}. Use a GGUF file with the tokenizer inside"
        ))
    };
    let kind = content.metadata.get("tokenizer.ggml.model").and_then(|kind| kind.to_string().ok());
    if kind.is_some_and(|kind| kind == "llama") {
        return sentencepiece::tokenizer(content).map_err(refuse);
    }
    let mut tokenizer = Tokenizer::from_gguf(content).map_err(refuse)?;
    // Candle gives every byte-level tokenizer that it has no table for a space before the text, which none of them was trained with.
    let spaced =
        content.metadata.get("tokenizer.ggml.add_space_prefix").is_some_and(|add| add.to_bool().unwrap_or(false));
    if let Some(PreTokenizerWrapper::ByteLevel(mut bytes)) = tokenizer.get_pre_tokenizer().cloned() {
        bytes.add_prefix_space = spaced;
        tokenizer.with_pre_tokenizer(Some(bytes));
    }
    Ok(tokenizer)
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
        // A damaged header may claim any size.
        let elements = info.shape.dims().iter().fold(1u64, |product, &dim| product.saturating_mul(dim as u64));
        let blocks = elements / info.ggml_dtype.block_size() as u64;
        let bytes = blocks.saturating_mul(info.ggml_dtype.type_size() as u64);
        let end = content.tensor_data_offset.saturating_add(info.offset).saturating_add(bytes);
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
