//! `candle-rocm embed`: texts to vectors with a sentence-embedding model of BERT's family, printed or compared with each other.

use crate::device::Choice;
use crate::failure::{Failure, Result};
use crate::model::{fill, find_folder, Folder};
use crate::terminal;
use candle_core::{DType, Device, IndexOp, Tensor, D};
use candle_transformers::models::{bert, distilbert, xlm_roberta};
use clap::Args;
use serde_json::{json, Value};
use std::io::Read;
use tokenizers::{PaddingParams, Tokenizer, TruncationParams};

/// How many texts go through the model at once.
const BATCH: usize = 32;

/// The command line of `embed`.
#[derive(Args)]
pub struct Arguments {
    /// A folder with config.json, tokenizer.json and safetensors files, or org/name at Hugging Face
    #[arg(long, value_name = "DIR|org/name")]
    model: String,
    /// The texts; without any, each line of standard input is one
    texts: Vec<String>,
    /// Where to run: rocm, rocm:1, ... or cpu
    #[arg(long, default_value = "rocm")]
    device: Choice,
    /// Print how alike the texts are (the cosine of each pair) instead of their vectors
    #[arg(long)]
    compare: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Embeds.
pub fn run(arguments: Arguments) -> Result<()> {
    let texts = if arguments.texts.is_empty() { read_lines()? } else { arguments.texts };
    if texts.is_empty() {
        return Err(Failure::usage("there is no text: give some as arguments, or one a line on standard input"));
    }
    let folder = find_folder(&arguments.model)?;
    let (device, line) = arguments.device.open()?;
    let encoder = Encoder::load(&folder, &device)?;
    if !arguments.json {
        terminal::note(&format!("device: {line}"));
    }
    let vectors: Vec<Vec<f32>> = encoder.embed(&texts)?.to_vec2()?;
    let cosines =
        || -> Vec<Vec<f32>> { vectors.iter().map(|a| vectors.iter().map(|b| cosine(a, b)).collect()).collect() };
    let printed = match (arguments.json, arguments.compare) {
        (true, true) => format!("{:#}\n", json!({ "device": line, "texts": texts, "cosines": cosines() })),
        (true, false) => format!("{:#}\n", json!({ "device": line, "texts": texts, "vectors": vectors })),
        (false, true) => matrix(&texts, &cosines()),
        (false, false) => vectors.iter().map(|vector| words(vector) + "\n").collect(),
    };
    terminal::print(&printed)
}

fn read_lines() -> Result<Vec<String>> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().read_to_end(&mut bytes);
    read.map_err(|error| Failure::input(format!("standard input cannot be read: {error}")))?;
    let text = terminal::utf8(bytes, "standard input")?;
    Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

/// One of candle-transformers' encoders.
enum Network {
    Bert(bert::BertModel),
    DistilBert(distilbert::DistilBertModel),
    XlmRoberta(xlm_roberta::XLMRobertaModel),
}

/// A model that makes vectors of texts.
struct Encoder {
    network: Network,
    tokenizer: Tokenizer,
    device: Device,
    takes_first: bool,
}

impl Encoder {
    fn load(folder: &Folder, device: &Device) -> Result<Self> {
        let mut config = folder.config()?;
        let mut tokenizer = folder.tokenizer()?;
        let kind = config["model_type"].as_str().unwrap_or("bert").to_owned();
        fill(
            &mut config,
            &[
                ("hidden_dropout_prob", json!(0.0)),
                ("attention_probs_dropout_prob", json!(0.0)),
                ("initializer_range", json!(0.02)),
                ("layer_norm_eps", json!(1e-12)),
                ("type_vocab_size", json!(2)),
                ("pad_token_id", json!(0)),
                ("position_embedding_type", json!("absolute")),
            ],
        );
        macro_rules! load {
            ($config:ty, $variant:ident, |$read:ident, $weights:ident| $make:expr) => {{
                let $read: $config = serde_json::from_value(config.clone()).map_err(|error| {
                    Failure::input(format!("config.json of {} does not describe a {kind} model: {error}", folder.name))
                })?;
                folder.load(&kind, DType::F32, device, |$weights| $make.map(Network::$variant))?
            }};
        }
        let network = match kind.as_str() {
            "bert" => load!(bert::Config, Bert, |config, weights| bert::BertModel::load(weights, &config)),
            "distilbert" => load!(distilbert::Config, DistilBert, |config, weights| {
                distilbert::DistilBertModel::load(weights, &config)
            }),
            "xlm-roberta" => load!(xlm_roberta::Config, XlmRoberta, |config, weights| {
                xlm_roberta::XLMRobertaModel::new(&config, weights)
            }),
            other => {
                return Err(Failure::input(format!(
                    "{} holds a model of type {other:?}; this command reads bert, distilbert and xlm-roberta",
                    folder.name
                )))
            }
        };
        // XLM-RoBERTa counts positions from behind the padding token.
        let unused = if kind == "xlm-roberta" { 2 } else { 0 };
        let positions = config["max_position_embeddings"].as_u64().unwrap_or(512) as usize;
        let positions = positions.saturating_sub(unused);
        let refuse = |error: tokenizers::Error| {
            Failure::input(format!("tokenizer.json of {} cannot be used: {error}", folder.name))
        };
        tokenizer
            .with_truncation(Some(TruncationParams { max_length: positions, ..Default::default() }))
            .map_err(refuse)?;
        let pad_id = config["pad_token_id"].as_u64().unwrap_or_default() as u32;
        tokenizer.with_padding(Some(PaddingParams { pad_id, ..Default::default() }));
        // Sentence-transformers says how tokens become one vector; without it, their mean.
        let takes_first = folder.json("1_Pooling/config.json")?["pooling_mode_cls_token"] == Value::Bool(true);
        Ok(Self { network, tokenizer, device: device.clone(), takes_first })
    }

    /// A row of length one for each text.
    fn embed(&self, texts: &[String]) -> Result<Tensor> {
        let batches = texts.chunks(BATCH).map(|batch| self.embed_batch(batch)).collect::<Result<Vec<_>>>()?;
        Ok(Tensor::cat(&batches, 0)?)
    }

    fn embed_batch(&self, texts: &[String]) -> Result<Tensor> {
        let encodings = self
            .tokenizer
            .encode_batch(texts.to_vec(), true)
            .map_err(|error| Failure::input(format!("the tokenizer cannot read the texts: {error}")))?;
        let gather = |part: fn(&tokenizers::Encoding) -> &[u32]| -> candle_core::Result<Tensor> {
            Tensor::new(encodings.iter().map(|encoding| part(encoding).to_vec()).collect::<Vec<_>>(), &self.device)
        };
        let (tokens, mask) =
            (gather(tokenizers::Encoding::get_ids)?, gather(tokenizers::Encoding::get_attention_mask)?);
        let kinds = tokens.zeros_like()?;
        let states = match &self.network {
            Network::Bert(model) => model.forward(&tokens, &kinds, Some(&mask))?,
            Network::XlmRoberta(model) => model.forward(&tokens, &mask, &kinds, None, None, None)?,
            Network::DistilBert(model) => {
                // Its mask marks what is not to be seen, for each head and row.
                let hidden = mask.eq(0u32)?.unsqueeze(1)?.unsqueeze(1)?;
                model.forward(&tokens, &hidden)?
            }
        };
        let pooled = if self.takes_first {
            states.i((.., 0))?
        } else {
            let mask = mask.to_dtype(DType::F32)?.unsqueeze(2)?;
            states.broadcast_mul(&mask)?.sum(1)?.broadcast_div(&mask.sum(1)?)?
        };
        let length = pooled.sqr()?.sum_keepdim(D::Minus1)?.sqrt()?.maximum(1e-12)?;
        Ok(pooled.broadcast_div(&length)?)
    }
}

/// Of vectors of length one.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn words(vector: &[f32]) -> String {
    vector.iter().map(|number| format!("{number:.6}")).collect::<Vec<_>>().join(" ")
}

/// A table of numbers, with the texts beside it.
fn matrix(texts: &[String], cosines: &[Vec<f32>]) -> String {
    let mut table = String::new();
    for (row, (text, numbers)) in texts.iter().zip(cosines).enumerate() {
        let numbers: String = numbers.iter().map(|number| format!("{number:7.3}")).collect();
        table += &format!("{:>4}{numbers}  {text}\n", row + 1);
    }
    table
}
