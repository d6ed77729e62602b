//! `candle-rocm generate`: a model from a file, a prompt, and text as it comes or as JSON.

use super::{generate, Model, Options};
use crate::device::Choice;
use crate::failure::{Code, Failure, Result};
use crate::terminal;
use clap::Args;
use serde_json::json;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

/// The command line of `generate`.
#[derive(Args)]
pub struct Arguments {
    /// A GGUF file with its tokenizer inside
    #[arg(long, value_name = "FILE.gguf")]
    model: PathBuf,
    /// The text to continue
    #[arg(long, default_value = "")]
    prompt: String,
    /// Where to run: rocm, rocm:1, ... or cpu
    #[arg(long, default_value = "rocm")]
    device: Choice,
    /// Zero always takes the likeliest token
    #[arg(long, default_value_t = 0.8)]
    temperature: f64,
    /// Only the likeliest tokens that together have this probability
    #[arg(long)]
    top_p: Option<f64>,
    /// Only this many of the likeliest tokens
    #[arg(long)]
    top_k: Option<usize>,
    /// Above 1, tokens that came lately are less likely
    #[arg(long, default_value_t = 1.1)]
    repeat_penalty: f32,
    /// The same seed gives the same text
    #[arg(long, default_value_t = 299792458)]
    seed: u64,
    /// Stop after this many tokens
    #[arg(long, default_value_t = 256)]
    max_tokens: usize,
    /// Print one JSON object at the end instead of text as it comes
    #[arg(long)]
    json: bool,
}

/// Generates.
pub fn run(arguments: Arguments) -> Result<()> {
    let options = arguments.options()?;
    let source = arguments.model.display().to_string();
    let file =
        File::open(&arguments.model).map_err(|error| Failure::input(format!("{source} cannot be opened: {error}")))?;
    let (device, line) = arguments.device.open()?;
    if !arguments.json {
        eprintln!("device: {line}");
    }
    let mut model = Model::from_gguf(&mut BufReader::new(file), &source, &device)?;
    terminal::catch_interrupts()?;
    if !arguments.json {
        terminal::stream(&arguments.prompt)?;
        let statistics = generate(&mut model, &device, &arguments.prompt, &options, terminal::stream)?;
        terminal::stream("\n")?;
        eprintln!("{}", terminal::summary(&statistics));
        return Ok(());
    }
    let mut text = String::new();
    let statistics = generate(&mut model, &device, &arguments.prompt, &options, |piece| {
        text.push_str(piece);
        terminal::stream("")
    })?;
    let report = json!({
        "model": model.name,
        "device": line,
        "prompt": arguments.prompt,
        "text": text,
        "end": statistics.end.name(),
        "prompt_tokens": statistics.prompt_tokens,
        "prompt_tokens_per_second": statistics.prompt_rate(),
        "tokens": statistics.tokens,
        "tokens_per_second": statistics.rate(),
    });
    terminal::stream(&format!("{report:#}\n"))?;
    Ok(())
}

impl Arguments {
    fn options(&self) -> Result<Options> {
        let refuse = |sentence: String| Err(Failure::new(Code::Usage, sentence));
        if !(0.0..=100.0).contains(&self.temperature) {
            return refuse(format!(
                "--temperature {} makes no sense: it is at least 0, and 1 is a lot",
                self.temperature
            ));
        }
        if let Some(top_p) = self.top_p.filter(|top_p| !(0.0..=1.0).contains(top_p)) {
            return refuse(format!("--top-p {top_p} makes no sense: it is a probability, from 0 to 1"));
        }
        if self.top_k == Some(0) {
            return refuse("--top-k 0 leaves no token to choose from".to_owned());
        }
        if !(self.repeat_penalty > 0.0 && self.repeat_penalty.is_finite()) {
            return refuse(format!(
                "--repeat-penalty {} makes no sense: it is above 0, and 1 does nothing",
                self.repeat_penalty
            ));
        }
        Ok(Options {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            repeat_penalty: self.repeat_penalty,
            repeat_last: 64,
            seed: self.seed,
            max_tokens: self.max_tokens,
        })
    }
}
