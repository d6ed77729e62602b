//! GGUF files for the tests, in memory: the repository's small model, the same with its weights dequantized, and models with
//! random weights in any format.

use super::random;
use candle_core::quantized::gguf_file::{self, Content, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Result, Shape};
use std::io::Cursor;
use std::path::Path;

/// The folder of the repository's small model.
pub fn novelist_folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/novelist-7m"))
}

/// The repository's small model.
pub fn novelist() -> Vec<u8> {
    std::fs::read(novelist_folder().join("novelist-7m.Q8_0.gguf")).expect("the repository's small model")
}

/// The file's table of contents, and the file as a reader.
pub fn open(file: &[u8]) -> Result<(Content, Cursor<&[u8]>)> {
    let mut reader = Cursor::new(file);
    Ok((Content::read(&mut reader)?, reader))
}

/// The same model with every weight as f32: what comes out then is not rounded by anybody's quantized activations.
pub fn with_exact_weights(file: &[u8]) -> Result<Vec<u8>> {
    let (content, mut reader) = open(file)?;
    let mut tensors = Vec::new();
    for name in content.tensor_infos.keys() {
        let weights = content.tensor(&mut reader, name, &Device::Cpu)?.dequantize(&Device::Cpu)?;
        tensors.push((name.as_str(), QTensor::quantize(&weights, GgmlDType::F32)?));
    }
    let metadata: Vec<_> = content.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    write(&metadata, &tensors)
}

/// A model with random weights: matrices in the given format, everything else in f32.
pub fn random(metadata: &[(&str, Value)], weights: &[(String, Shape)], format: GgmlDType) -> Result<Vec<u8>> {
    let mut tensors = Vec::new();
    for (name, shape) in weights {
        let format = if shape.rank() > 1 { format } else { GgmlDType::F32 };
        tensors.push((name.as_str(), QTensor::quantize(&random::parameter(name, shape)?, format)?));
    }
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    write(&metadata, &tensors)
}

fn write(metadata: &[(&str, &Value)], tensors: &[(&str, QTensor)]) -> Result<Vec<u8>> {
    let mut file = Cursor::new(Vec::new());
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
    gguf_file::write(&mut file, metadata, &tensors)?;
    Ok(file.into_inner())
}
