//! A language model as a whole: a GGUF file in memory, in the shape of Llama 3.2 1B and with random weights, read and run by
//! candle-transformers. Prefill is one pass over a prompt; decoding is one token after another behind that prompt.

use super::super::case::{Cases, Size, Timing, Work};
use super::quantized::weights;
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Result, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use std::io::Cursor;

/// The extents of a Llama.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    layers: usize,
    width: usize,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    vocabulary: usize,
    prompt: usize,
    tokens: usize,
}

const BILLION: Shape = Shape {
    name: "Llama-1B shape",
    layers: 16,
    width: 2048,
    hidden: 8192,
    heads: 32,
    kv_heads: 8,
    vocabulary: 128256,
    prompt: 512,
    tokens: 128,
};

const TINY: Shape = Shape {
    name: "Llama-tiny shape",
    layers: 2,
    width: 256,
    hidden: 512,
    heads: 8,
    kv_heads: 2,
    vocabulary: 1024,
    prompt: 32,
    tokens: 8,
};

impl Shape {
    /// Every matrix of the file: rows and columns.
    fn matrices(&self) -> Vec<(String, usize, usize)> {
        let kv = self.width / self.heads * self.kv_heads;
        let mut matrices = vec![
            ("token_embd.weight".to_owned(), self.vocabulary, self.width),
            ("output.weight".to_owned(), self.vocabulary, self.width),
        ];
        for layer in 0..self.layers {
            for (name, rows, columns) in [
                ("attn_q", self.width, self.width),
                ("attn_k", kv, self.width),
                ("attn_v", kv, self.width),
                ("attn_output", self.width, self.width),
                ("ffn_gate", self.hidden, self.width),
                ("ffn_up", self.hidden, self.width),
                ("ffn_down", self.width, self.hidden),
            ] {
                matrices.push((format!("blk.{layer}.{name}.weight"), rows, columns));
            }
        }
        matrices
    }

    fn norms(&self) -> Vec<String> {
        let layers = (0..self.layers)
            .flat_map(|layer| ["attn_norm", "ffn_norm"].map(|name| format!("blk.{layer}.{name}.weight")));
        layers.chain(["output_norm.weight".to_owned()]).collect()
    }

    fn metadata(&self) -> Vec<(&'static str, Value)> {
        let number = |value: usize| Value::U32(value as u32);
        vec![
            ("general.architecture", Value::String("llama".to_owned())),
            ("llama.attention.head_count", number(self.heads)),
            ("llama.attention.head_count_kv", number(self.kv_heads)),
            ("llama.block_count", number(self.layers)),
            ("llama.embedding_length", number(self.width)),
            ("llama.rope.dimension_count", number(self.width / self.heads)),
            ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
            ("llama.rope.freq_base", Value::F32(500_000.)),
        ]
    }

    fn file(&self, dtype: GgmlDType) -> Result<Vec<u8>> {
        let cpu = Device::Cpu;
        let mut tensors: Vec<(String, QTensor)> = Vec::new();
        for (name, rows, columns) in self.matrices() {
            tensors.push((name, weights(&cpu, dtype, rows, columns)?));
        }
        for name in self.norms() {
            let ones = Tensor::ones(self.width, candle_core::DType::F32, &cpu)?;
            tensors.push((name, QTensor::quantize(&ones, GgmlDType::F32)?));
        }
        let metadata = self.metadata();
        let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (*key, value)).collect();
        let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let mut file = Cursor::new(Vec::new());
        gguf_file::write(&mut file, &metadata, &tensors)?;
        Ok(file.into_inner())
    }

    fn load(&self, dtype: GgmlDType, device: &Device) -> Result<ModelWeights> {
        let mut reader = Cursor::new(self.file(dtype)?);
        let content = gguf_file::Content::read(&mut reader)?;
        ModelWeights::from_gguf(content, &mut reader, device)
    }

    /// Weights that every token passes; the embedding is one row of a table.
    fn parameters(&self) -> usize {
        self.matrices().iter().skip(1).map(|(_, rows, columns)| rows * columns).sum()
    }
}

pub fn add_to(cases: &mut Cases) {
    let shape = if cases.size == Size::Full { BILLION } else { TINY };
    for (dtype, name) in [(GgmlDType::Q4K, "Q4K"), (GgmlDType::Q8_0, "Q8_0")] {
        let weights = shape.parameters() / dtype.block_size() * dtype.type_size();
        // Of the output layer only the last position is asked for.
        let layers = shape.parameters() - shape.vocabulary * shape.width;
        let work = Work::new(weights, 2 * (shape.prompt * layers + shape.vocabulary * shape.width));
        let title = format!("{} {name} prefill {}", shape.name, shape.prompt);
        cases.timed("model", title, work, Timing::Alone, move |device| {
            let mut model = shape.load(dtype, device)?;
            let prompt = prompt(&shape, device)?;
            Ok(move || model.forward(&prompt, 0)?.to_vec2::<f32>())
        });
        // A turn is one token: the figure's reciprocal is tokens a second.
        let work = Work::new(weights, 2 * shape.parameters());
        let title = format!("{} {name} decode {}", shape.name, shape.tokens);
        cases.timed("model", title, work, Timing::Alone, move |device| {
            let mut primed = shape.load(dtype, device)?;
            primed.forward(&prompt(&shape, device)?, 0)?;
            let device = device.clone();
            let (mut model, mut token, mut position) = (primed.clone(), 1u32, 0);
            Ok(move || {
                // Behind the last token starts again behind the prompt; the clone shares weights and cache.
                if position == shape.tokens {
                    (model, token, position) = (primed.clone(), 1, 0);
                }
                // The likeliest token is chosen on the device and comes back, as when text is generated greedily.
                let input = Tensor::new(&[[token]], &device)?;
                let logits = model.forward(&input, shape.prompt + position)?;
                token = logits.argmax(candle_core::D::Minus1)?.squeeze(0)?.to_scalar::<u32>()?;
                position += 1;
                Ok(())
            })
        });
    }
}

fn prompt(shape: &Shape, device: &Device) -> Result<Tensor> {
    let tokens: Vec<u32> = (0..shape.prompt as u32).map(|i| i * 7919 % shape.vocabulary as u32).collect();
    Tensor::from_vec(tokens, (1, shape.prompt), device)
}
