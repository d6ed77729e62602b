//! Text generation: a prompt through a model, tokens sampled one by one and printed as they come, and how fast that was.

pub mod command;
mod model;
mod text;

pub use model::Model;

use crate::failure::{Code, Failure, Result};
use candle_core::{Device, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};
use std::time::{Duration, Instant};
use text::TextStream;

/// How tokens are chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Zero always takes the likeliest token.
    pub temperature: f64,
    /// Only the likeliest tokens that together have this probability.
    pub top_p: Option<f64>,
    /// Only this many of the likeliest tokens.
    pub top_k: Option<usize>,
    /// Above one, tokens that came lately are less likely.
    pub repeat_penalty: f32,
    /// How many of the last tokens the penalty looks at.
    pub repeat_last: usize,
    /// The same seed gives the same text.
    pub seed: u64,
    /// Stop after this many tokens.
    pub max_tokens: usize,
}

impl Options {
    fn sampling(&self) -> Sampling {
        let temperature = self.temperature;
        match (self.top_k, self.top_p) {
            _ if temperature <= 0.0 => Sampling::ArgMax,
            (None, None) => Sampling::All { temperature },
            (Some(k), None) => Sampling::TopK { k, temperature },
            (None, Some(p)) => Sampling::TopP { p, temperature },
            (Some(k), Some(p)) => Sampling::TopKThenTopP { k, p, temperature },
        }
    }
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The model ended it.
    Model,
    /// `max_tokens` were made.
    Length,
    /// The model's context is full.
    Context,
    /// Someone asked to stop.
    Interrupted,
}

impl End {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Length => "length",
            Self::Context => "context",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What was done and how long it took.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Until the first token was chosen.
    pub prompt_time: Duration,
    /// Tokens made.
    pub tokens: usize,
    /// From the first token to the last.
    pub time: Duration,
    /// Why it ended.
    pub end: End,
}

impl Statistics {
    /// Prompt tokens per second.
    pub fn prompt_rate(&self) -> f64 {
        self.prompt_tokens as f64 / self.prompt_time.as_secs_f64().max(1e-9)
    }

    /// Generated tokens per second; the first one belongs to the prompt.
    pub fn rate(&self) -> f64 {
        self.tokens.saturating_sub(1) as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// Continues `prompt`, handing each piece of text to `print`, which returns `false` to stop.
pub fn generate(
    model: &mut Model,
    device: &Device,
    prompt: &str,
    options: &Options,
    mut print: impl FnMut(&str) -> Result<bool>,
) -> Result<Statistics> {
    let mut tokens = model.encode(prompt)?;
    let prompt_tokens = tokens.len();
    if prompt_tokens == 0 {
        return Err(Failure::new(
            Code::Usage,
            "the prompt is empty and the model has no start token: give it a prompt",
        ));
    }
    if prompt_tokens >= model.context {
        return Err(Failure::new(
            Code::Usage,
            format!(
                "the prompt has {prompt_tokens} tokens, but the model's context holds {}: shorten it",
                model.context
            ),
        ));
    }
    let mut sampler = LogitsProcessor::from_sampling(options.seed, options.sampling());
    let tokenizer = model.tokenizer.clone();
    let mut text = TextStream::after(&tokenizer, &tokens);
    let start = Instant::now();
    let mut first = start;
    let mut fed = 0;
    let mut made = 0;
    let end = loop {
        if made == options.max_tokens {
            break End::Length;
        }
        if tokens.len() >= model.context {
            break End::Context;
        }
        let input = Tensor::new(&tokens[fed..], device)?.unsqueeze(0)?;
        let logits = model.forward(&input, fed)?;
        fed = tokens.len();
        let logits = if options.repeat_penalty == 1.0 {
            logits
        } else {
            let recent = &tokens[tokens.len().saturating_sub(options.repeat_last)..];
            candle_transformers::utils::apply_repeat_penalty(&logits, options.repeat_penalty, recent)?
        };
        let token = sampler.sample(&logits)?;
        if made == 0 {
            first = Instant::now();
        }
        tokens.push(token);
        made += 1;
        if model.end_tokens.contains(&token) {
            break End::Model;
        }
        let piece = text.push(token);
        if !print(&piece)? {
            break End::Interrupted;
        }
    };
    print(&text.finish())?;
    let time = if made == 0 { Duration::ZERO } else { first.elapsed() };
    Ok(Statistics { prompt_tokens, prompt_time: first - start, tokens: made, time, end })
}
