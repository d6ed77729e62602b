//! A language model from a folder in Hugging Face's layout: which of candle-transformers' models fits its `model_type`, and what
//! its configuration leaves out.

use super::model::{networks, turn_ends, Model, Network};
use super::template::Template;
use crate::failure::{Failure, Result};
use crate::model::{fill, Folder};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{gemma, gemma2, gemma3, llama, mistral, phi3, qwen2, qwen3, smol::smollm3};
use serde_json::{json, Value};

networks!(
    gemma::Model, clear_kv_cache;
    gemma2::Model, clear_kv_cache;
    gemma3::Model, clear_kv_cache;
    mistral::Model, clear_kv_cache;
    phi3::Model, clear_kv_cache;
    qwen2::ModelForCausalLM, clear_kv_cache;
    qwen3::ModelForCausalLM, clear_kv_cache;
    smollm3::ModelForCausalLM, clear_kv_cache;
);

/// Candle keeps the cache of a dense Llama outside of it.
struct Llama {
    model: llama::Llama,
    cache: llama::Cache,
    empty: llama::Cache,
}

impl Llama {
    fn new(config: &llama::Config, weights: VarBuilder) -> candle_core::Result<Self> {
        let empty = llama::Cache::new(true, weights.dtype(), config, weights.device())?;
        Ok(Self { model: llama::Llama::load(weights, config)?, cache: empty.clone(), empty })
    }
}

impl Network for Llama {
    fn forward(&mut self, tokens: &Tensor, position: usize) -> candle_core::Result<Tensor> {
        self.model.forward(tokens, position, &mut self.cache)
    }

    fn forget(&mut self) {
        self.cache = self.empty.clone();
    }
}

/// Loads a folder.
pub fn load(folder: &Folder, device: &Device) -> Result<Model> {
    let mut config = folder.config()?;
    let generation = folder.json("generation_config.json")?;
    let about_tokens = folder.json("tokenizer_config.json")?;
    let tokenizer = folder.tokenizer()?;
    let kind = kind(&config, folder)?;
    complete(&mut config);
    let network = network(&kind, &config, folder, device)?;
    let mut end_tokens: Vec<u32> = [&config["eos_token_id"], &generation["eos_token_id"]]
        .iter()
        .flat_map(|value| value.as_array().cloned().unwrap_or_else(|| vec![(*value).clone()]))
        .filter_map(|id| u32::try_from(id.as_u64()?).ok())
        .chain(turn_ends(&tokenizer))
        .collect();
    end_tokens.sort_unstable();
    end_tokens.dedup();
    let first_id = config["bos_token_id"].as_u64().and_then(|id| u32::try_from(id).ok());
    // A tokenizer that adds the token itself says whether the model wants it; so does its configuration.
    let adds_first = || {
        let empty = tokenizer.encode("", true).ok();
        empty.is_some_and(|encoding| first_id.is_some_and(|id| encoding.get_ids().first() == Some(&id)))
    };
    let wants_first = match about_tokens["add_bos_token"].as_bool() {
        Some(wants) => wants,
        None if about_tokens.is_null() => true,
        None => adds_first(),
    };
    let word = |key: &str, id: Option<u32>| {
        let said = about_tokens[key].as_str().or_else(|| about_tokens[key]["content"].as_str());
        said.map(str::to_owned).or_else(|| tokenizer.id_to_token(id?)).unwrap_or_default()
    };
    let template = template(folder, &about_tokens)?
        .map(|source| {
            let (first, last) = (word("bos_token", first_id), word("eos_token", end_tokens.first().copied()));
            Template::new(&source, first, last, &folder.name)
        })
        .transpose()?;
    let context = config["max_position_embeddings"].as_u64().unwrap_or(2048) as usize;
    Ok(Model {
        network,
        first_token: first_id.filter(|_| wants_first),
        end_tokens,
        context,
        name: format!("{} ({kind})", folder.name),
        template,
        tokenizer,
        seen: Vec::new(),
    })
}

/// What the configuration calls the model; older ones only name the class.
fn kind(config: &Value, folder: &Folder) -> Result<String> {
    let named = config["model_type"].as_str().map(str::to_owned);
    let class = || {
        let class = config["architectures"][0].as_str()?.to_lowercase();
        Some(class.strip_suffix("forcausallm")?.to_owned())
    };
    named
        .or_else(class)
        .ok_or_else(|| Failure::input(format!("config.json of {} does not say its model_type", folder.name)))
}

/// What configurations leave out, with the value it then has in Hugging Face's own classes.
fn complete(config: &mut Value) {
    // Newer ones keep what belongs to the rotation in one place.
    let rotation = config["rope_parameters"].clone();
    fill(config, &[("rope_theta", rotation["rope_theta"].clone())]);
    let (positions, layers) = (config["max_position_embeddings"].clone(), config["num_hidden_layers"].clone());
    fill(
        config,
        &[
            ("rope_theta", json!(10000.0)),
            ("sliding_window", positions),
            ("max_window_layers", layers),
            ("use_sliding_window", json!(false)),
            ("tie_word_embeddings", json!(false)),
            ("attention_bias", json!(false)),
            ("hidden_act", json!("silu")),
            ("sliding_window_pattern", json!(6)),
            ("rope_local_base_freq", json!(10000.0)),
        ],
    );
}

fn network(kind: &str, config: &Value, folder: &Folder, device: &Device) -> Result<Box<dyn Network>> {
    let dtype = dtype(config, device);
    // Candle's models differ in the names of their types and in nothing else.
    macro_rules! load {
        ($config:ty, |$read:ident, $weights:ident| $make:expr) => {{
            let $read: $config = serde_json::from_value(config.clone()).map_err(|error| {
                Failure::input(format!("config.json of {} does not describe a {kind} model: {error}", folder.name))
            })?;
            folder.load(kind, dtype, device, |$weights| Ok(Box::new($make?) as Box<dyn Network>))
        }};
    }
    match kind {
        "llama" => load!(llama::LlamaConfig, |config, weights| Llama::new(&config.into_config(false), weights)),
        "mistral" => load!(mistral::Config, |config, weights| mistral::Model::new(&config, weights)),
        "qwen2" => load!(qwen2::Config, |config, weights| qwen2::ModelForCausalLM::new(&config, weights)),
        "qwen3" => load!(qwen3::Config, |config, weights| qwen3::ModelForCausalLM::new(&config, weights)),
        "phi3" => load!(phi3::Config, |config, weights| phi3::Model::new(&config, weights)),
        "gemma" => load!(gemma::Config, |config, weights| gemma::Model::new(false, &config, weights)),
        "gemma2" => load!(gemma2::Config, |config, weights| gemma2::Model::new(false, &config, weights)),
        "gemma3_text" => load!(gemma3::Config, |config, weights| gemma3::Model::new(false, &config, weights)),
        "smollm3" => load!(smollm3::Config, |config, weights| smollm3::ModelForCausalLM::new(&config, weights)),
        other => Err(Failure::input(format!(
            "{} holds a model of type {other:?}; from such folders this program reads llama, mistral, qwen2, qwen3, phi3, gemma, gemma2, \
             gemma3_text and smollm3",
            folder.name
        ))),
    }
}

/// A GPU computes in what the weights are stored in; processors are faster and more exact in f32.
fn dtype(config: &Value, device: &Device) -> DType {
    let is_gpu = !device.is_cpu() && hip::Platform::detect().is_ok_and(|platform| platform.is_gpu());
    match config["torch_dtype"].as_str().or_else(|| config["dtype"].as_str()) {
        Some("bfloat16") if is_gpu => DType::BF16,
        Some("float16") if is_gpu => DType::F16,
        _ => DType::F32,
    }
}

/// The chat template: a file of its own, or in tokenizer_config.json, alone or as the default of several.
fn template(folder: &Folder, about_tokens: &Value) -> Result<Option<String>> {
    if let Some(text) = folder.text("chat_template.jinja")? {
        return Ok(Some(text));
    }
    let named = about_tokens["chat_template"].as_array().and_then(|templates| {
        templates.iter().find(|template| template["name"] == "default").map(|template| &template["template"])
    });
    Ok(named.unwrap_or(&about_tokens["chat_template"]).as_str().map(str::to_owned))
}
