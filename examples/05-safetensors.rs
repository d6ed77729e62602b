//! Weights from a safetensors file onto the device and back: the embeddings of a small language model, which of its words
//! lie close together, and the table written to a file of its own.
//!
//!     cargo run --release --example 05-safetensors

use anyhow::{ensure, Context, Error, Result};
use candle_core::{safetensors, DType, Device, Tensor};
use std::collections::HashMap;
use std::path::Path;
use tokenizers::Tokenizer;

/// The words closest to `word`, by the cosine between their rows. `table` has rows of length one.
fn neighbours(table: &Tensor, tokenizer: &Tokenizer, word: &str) -> Result<Vec<String>> {
    let encoding = tokenizer.encode(format!(" {word}"), false).map_err(Error::msg)?;
    let ids = encoding.get_ids();
    ensure!(ids.len() == 1, "{word:?} is {} tokens; choose a word that is one", ids.len());
    let row = table.narrow(0, ids[0] as usize, 1)?;
    let cosines = row.matmul(&table.t()?)?;
    // Sorted on the device; only the few ids that are wanted come back.
    let best = cosines.arg_sort_last_dim(false)?.narrow(1, 1, 5)?.squeeze(0)?.to_vec1::<u32>()?;
    best.iter().map(|id| Ok(tokenizer.decode(&[*id], false).map_err(Error::msg)?.trim().to_string())).collect()
}

fn main() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/novelist-7m");

    // Straight onto the device, in the file's dtype.
    let weights = safetensors::load(folder.join("model.safetensors"), &device)?;
    let elements: usize = weights.values().map(Tensor::elem_count).sum();
    println!("{} tensors with {:.1} million elements", weights.len(), elements as f64 / 1e6);

    let embeddings = weights.get("model.embed_tokens.weight").context("the file has no embeddings")?;
    println!("embeddings: {:?} {:?} on {:?}", embeddings.dims(), embeddings.dtype(), embeddings.device().location());

    let table = embeddings.to_dtype(DType::F32)?;
    let lengths = table.sqr()?.sum_keepdim(1)?.sqrt()?;
    let table = table.broadcast_div(&lengths)?;
    let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).map_err(Error::msg)?;
    for word in ["night", "he", "two", "could"] {
        println!("close to {word:?}: {}", neighbours(&table, &tokenizer, word)?.join(", "));
    }

    // Saving brings a tensor to the CPU by itself.
    let path = std::env::temp_dir().join(format!("candle-rocm-embeddings-{}.safetensors", std::process::id()));
    safetensors::save(&HashMap::from([("unit", table.to_dtype(DType::BF16)?)]), &path)?;
    let loaded = safetensors::load(&path, &device)?;
    let size = std::fs::metadata(&path)?.len();
    std::fs::remove_file(&path)?;
    let back = loaded.get("unit").context("the tensor that was saved is not in the file")?.to_dtype(DType::F32)?;
    let difference = (back - table)?.abs()?.max_all()?.to_scalar::<f32>()?;
    // bf16 has eight bits of mantissa, and no element of a row of length one is above one.
    ensure!(difference <= 1. / 256., "the table came back different by {difference}");
    println!("saved as bf16: {:.1} MiB; read again, it is the same within {difference:.0e}", size as f64 / 1048576.);
    Ok(())
}
