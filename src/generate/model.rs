//! A language model that is loaded: its network, its tokenizer, its limits, and which tokens its cache has seen. Reading one
//! from a file is the business of `gguf` and `dense`.

use super::template::Template;
use super::{dense, gguf};
use crate::failure::{Failure, Result};
use crate::model::{find, Files};
use candle_core::{Device, Tensor};
use std::io::Cursor;
use tokenizers::Tokenizer;

/// Seven million parameters, trained on public-domain novels; see assets/novelist-7m.
const NOVELIST: &[u8] = include_bytes!("../../assets/novelist-7m/novelist-7m.Q8_0.gguf");

/// One of candle-transformers' models, with the cache of keys and values inside.
pub trait Network {
    /// The logits of the token after `tokens`, of which `position` come before.
    fn forward(&mut self, tokens: &Tensor, position: usize) -> candle_core::Result<Tensor>;

    /// Forgets what came before.
    fn forget(&mut self);
}

/// Makes networks of candle-transformers' models, which have the same methods and no trait.
macro_rules! networks {
    ($($type:ty $(, $forget:ident)?);+ $(;)?) => {$(
        impl Network for $type {
            fn forward(&mut self, tokens: &Tensor, position: usize) -> candle_core::Result<Tensor> {
                <$type>::forward(self, tokens, position)
            }

            fn forget(&mut self) {
                $(self.$forget();)?
            }
        }
    )+};
}
pub(super) use networks;

/// A loaded model with what is needed to talk to it.
pub struct Model {
    /// What computes.
    pub network: Box<dyn Network>,
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
    /// How the model wants a conversation written, if it says.
    pub template: Option<Template>,
    /// The tokens that the network's cache holds.
    pub seen: Vec<u32>,
}

impl Model {
    /// Loads what `--model` names.
    pub fn load(name: &str, device: &Device) -> Result<Self> {
        match find(name)? {
            Files::Gguf(path) => gguf::open(&path, device),
            Files::Folder(folder) => dense::load(&folder, device),
        }
    }

    /// The model inside the program.
    pub fn novelist(device: &Device) -> Result<Self> {
        gguf::read(&mut Cursor::new(NOVELIST), "the model inside this program", device)
    }

    /// The tokens of a text, with the first token before it unless the text has it already.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self
            .tokenizer
            .encode(text, false)
            .map_err(|error| Failure::input(format!("the tokenizer cannot read the prompt: {error}")))?;
        let first = self.first_token.filter(|first| encoding.get_ids().first() != Some(first));
        Ok(first.into_iter().chain(encoding.get_ids().iter().copied()).collect())
    }

    /// Refuses a prompt that leaves nothing to do.
    pub fn check(&self, prompt: &[u32]) -> Result<()> {
        let (count, room) = (prompt.len(), self.context);
        match count {
            0 => Err(Failure::usage("the prompt is empty and the model has no start token: give it a prompt")),
            _ if count >= room => Err(Failure::usage(format!(
                "the prompt has {count} tokens, but the model's context holds {room}: shorten it"
            ))),
            _ => Ok(()),
        }
    }

    /// The logits of the token after `tokens`. What the cache has of them is not computed again; says how many that is.
    pub fn forward(&mut self, tokens: &[u32], device: &Device) -> Result<(Tensor, usize)> {
        let mut seen = std::mem::take(&mut self.seen);
        if seen.len() >= tokens.len() || !tokens.starts_with(&seen) {
            seen.clear();
        }
        if seen.is_empty() {
            self.network.forget();
        }
        let position = seen.len();
        let input = Tensor::new(&tokens[position..], device)?.unsqueeze(0)?;
        // Whatever shape a model gives them, they are those of one token.
        let logits = self.network.forward(&input, position)?.flatten_all()?;
        seen.extend_from_slice(&tokens[position..]);
        // Only now: a failed computation leaves the cache in no known state.
        self.seen = seen;
        Ok((logits, position))
    }
}

/// Tokens that end a turn in the families this program reads, whatever their files say about the end of a text.
pub fn turn_ends(tokenizer: &Tokenizer) -> impl Iterator<Item = u32> + '_ {
    const NAMES: [&str; 6] =
        ["<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>"];
    NAMES.iter().filter_map(|name| tokenizer.token_to_id(name))
}
