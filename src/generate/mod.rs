//! Text generation: a prompt through a model, tokens sampled one by one and printed as they come, and how fast that was.

mod chat;
pub mod command;
mod dense;
mod gguf;
mod model;
mod options;
mod sentencepiece;
mod template;
mod text;

pub use model::Model;
pub use options::Options;

use crate::failure::{Code, Failure, Result};
use candle_core::Device;
use candle_transformers::generation::LogitsProcessor;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use text::TextStream;

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The model ended it.
    Model,
    /// `max_tokens` were made.
    Length,
    /// The model's context is full.
    Context,
    /// Ctrl-C.
    Interrupted,
    /// Nobody reads on.
    Closed,
}

impl End {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Length => "length",
            Self::Context => "context",
            Self::Interrupted => "interrupted",
            Self::Closed => "closed",
        }
    }

    /// An interrupted program says so in its exit code.
    pub fn outcome(self) -> Result<()> {
        match self {
            Self::Interrupted => Err(Failure::new(Code::Interrupted, "interrupted")),
            _ => Ok(()),
        }
    }
}

/// What was done and how long it took.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Tokens of the prompt that were computed.
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

/// The closing line.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match self.end {
            End::Model => "the model ended the text",
            End::Length => "as many tokens as asked for",
            End::Context => "the model's context is full",
            End::Interrupted => "interrupted",
            End::Closed => "the reader is gone",
        };
        let (prompt_rate, rate) = (self.prompt_rate(), self.rate());
        write!(
            f,
            "prompt: {} tokens, {prompt_rate:.0} tokens/s; generated: {} tokens, {rate:.0} tokens/s ({end})",
            self.prompt_tokens, self.tokens,
        )
    }
}

/// Continues a prompt of tokens, handing each piece of text to `print`, which may break off.
pub fn generate(
    model: &mut Model,
    device: &Device,
    mut tokens: Vec<u32>,
    options: &Options,
    mut print: impl FnMut(&str) -> Result<ControlFlow<End>>,
) -> Result<Statistics> {
    model.check(&tokens)?;
    let mut sampler = LogitsProcessor::from_sampling(options.seed, options.sampling());
    let tokenizer = model.tokenizer.clone();
    let mut text = TextStream::after(&tokenizer, &tokens);
    let start = Instant::now();
    let mut first = start;
    let (mut made, mut prompt_tokens) = (0, 0);
    let end = loop {
        if made == options.max_tokens {
            break End::Length;
        }
        if tokens.len() >= model.context {
            break End::Context;
        }
        let (logits, known) = model.forward(&tokens, device)?;
        let logits = if options.repeat_penalty == 1.0 {
            logits
        } else {
            let recent = &tokens[tokens.len().saturating_sub(options::REPEAT_LAST)..];
            candle_transformers::utils::apply_repeat_penalty(&logits, options.repeat_penalty, recent)?
        };
        let token = sampler.sample(&logits)?;
        if made == 0 {
            first = Instant::now();
            prompt_tokens = tokens.len() - known;
        }
        tokens.push(token);
        made += 1;
        if model.end_tokens.contains(&token) {
            break End::Model;
        }
        if let ControlFlow::Break(end) = print(&text.push(token))? {
            break end;
        }
    };
    let time = if made == 0 { Duration::ZERO } else { first.elapsed() };
    // Over either way.
    let _ = print(&text.finish())?;
    Ok(Statistics { prompt_tokens, prompt_time: first - start, tokens: made, time, end })
}
