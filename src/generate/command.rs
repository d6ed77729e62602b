//! `candle-rocm generate`: a model, a prompt or a conversation, and text as it comes or as JSON.

use super::{chat, generate, Model, Options};
use crate::device::Choice;
use crate::failure::{Failure, Result};
use crate::terminal;
use clap::Args;
use serde_json::json;
use std::io::Read;
use std::time::Instant;

/// The command line of `generate`.
#[derive(Args)]
pub struct Arguments {
    /// A GGUF file, a folder with config.json, tokenizer.json and safetensors files, org/name or org/name/file.gguf at Hugging
    /// Face; without it, the small model inside the program
    #[arg(long, value_name = "FILE.gguf|DIR|org/name")]
    model: Option<String>,
    /// The text to continue; - reads it from standard input
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    prompt: String,
    /// Talk with the model: each line of standard input is a turn (/reset forgets the conversation, /exit ends it)
    #[arg(long, conflicts_with_all = ["prompt", "json"])]
    chat: bool,
    /// What the model is told before the conversation
    #[arg(long, requires = "chat", value_name = "TEXT")]
    system: Option<String>,
    /// Where to run: rocm, rocm:1, ... or cpu
    #[arg(long, default_value = "rocm")]
    device: Choice,
    #[command(flatten)]
    options: Options,
    /// Print one JSON object at the end instead of text as it comes
    #[arg(long)]
    json: bool,
}

/// Generates.
pub fn run(arguments: Arguments) -> Result<()> {
    let options = &arguments.options;
    options.check()?;
    let prompt = if arguments.prompt == "-" { read_prompt()? } else { arguments.prompt };
    let (device, line) = arguments.device.open()?;
    let start = Instant::now();
    let mut model = match &arguments.model {
        Some(name) => Model::load(name, &device)?,
        None => Model::novelist(&device)?,
    };
    if !arguments.json {
        terminal::note(&format!("device: {line}"));
    }
    log::info!("{} loaded in {:.2} s, context {} tokens", model.name, start.elapsed().as_secs_f64(), model.context);
    terminal::catch_interrupts()?;
    if arguments.chat {
        return chat::run(&mut model, &device, arguments.system, options);
    }
    // Before anything is printed: a prompt that does not fit is no beginning.
    let tokens = model.encode(&prompt)?;
    model.check(&tokens)?;
    let mut text = String::new();
    let statistics = terminal::busy(|| {
        if !arguments.json {
            terminal::print(&prompt)?;
        }
        generate(&mut model, &device, tokens, options, |piece| {
            if arguments.json {
                text.push_str(piece);
            }
            terminal::stream(if arguments.json { "" } else { piece })
        })
    })?;
    if arguments.json {
        let report = json!({
            "model": model.name,
            "device": line,
            "prompt": prompt,
            "text": text,
            "end": statistics.end.name(),
            "prompt_tokens": statistics.prompt_tokens,
            "prompt_tokens_per_second": statistics.prompt_rate(),
            "tokens": statistics.tokens,
            "tokens_per_second": statistics.rate(),
        });
        terminal::print(&format!("{report:#}\n"))?;
    } else {
        terminal::print("\n")?;
        terminal::note(&statistics.to_string());
    }
    statistics.end.outcome()
}

/// The prompt from standard input, without the line's end that every shell adds.
fn read_prompt() -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::input(format!("standard input cannot be read: {error}")))?;
    let mut text = terminal::utf8(bytes, "standard input")?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}
