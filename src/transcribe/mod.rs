//! `candle-rocm transcribe`: speech in a WAV file to text with a Whisper model, half a minute at a time, always the likeliest token.

mod audio;
mod mel;

use crate::device::Choice;
use crate::failure::{Failure, Result};
use crate::generate::End;
use crate::model::{find_folder, Folder};
use crate::terminal;
use candle_core::{DType, Device, IndexOp, Tensor};
use candle_transformers::models::whisper::{self, Config};
use clap::Args;
use serde_json::{json, Value};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;
use tokenizers::Tokenizer;

/// From this size of vocabulary on, a Whisper model speaks more than English.
const MULTILINGUAL_VOCABULARY: usize = 51865;

/// The command line of `transcribe`.
#[derive(Args)]
pub struct Arguments {
    /// A folder with a Whisper model (config.json, tokenizer.json, safetensors files), or org/name at Hugging Face
    #[arg(long, value_name = "DIR|org/name")]
    model: String,
    /// A WAV file, of any rate and number of channels
    #[arg(value_name = "FILE.wav")]
    file: PathBuf,
    /// The language spoken (en, de, ...); without it, the model listens for it
    #[arg(long)]
    language: Option<String>,
    /// Where to run: rocm, rocm:1, ... or cpu
    #[arg(long, default_value = "rocm")]
    device: Choice,
    /// Print one JSON object with the tokens at the end instead of text as it comes
    #[arg(long)]
    json: bool,
}

/// Transcribes.
pub fn run(arguments: Arguments) -> Result<()> {
    let samples = audio::read(&arguments.file)?;
    let folder = find_folder(&arguments.model)?;
    let (device, line) = arguments.device.open()?;
    let mut listener = Listener::load(&folder, &device)?;
    if !arguments.json {
        terminal::note(&format!("device: {line}"));
    }
    terminal::catch_interrupts()?;
    let start = Instant::now();
    let seconds = samples.len() as f64 / whisper::SAMPLE_RATE as f64;
    let (mut heard, mut text) = (Vec::new(), String::new());
    let mut language = None;
    let end = terminal::busy(|| -> Result<End> {
        for chunk in samples.chunks(listener.chunk()) {
            let sound = listener.listen(chunk)?;
            if language.is_none() {
                language = listener.language(&sound, arguments.language.as_deref())?;
            }
            let tokens = listener.write(&sound, language)?;
            let piece = listener.text(&tokens)?;
            heard.extend(tokens);
            text += &piece;
            let shown = if arguments.json { "" } else { piece.as_str() };
            if let ControlFlow::Break(end) = terminal::stream(shown)? {
                return Ok(end);
            }
        }
        Ok(End::Model)
    })?;
    let time = start.elapsed().as_secs_f64();
    if arguments.json {
        let report = json!({
            "device": line,
            "seconds": seconds,
            "language": language.and_then(|id| listener.tokenizer.id_to_token(id)),
            "text": text.trim(),
            "tokens": heard,
            "end": end.name(),
        });
        terminal::print(&format!("{report:#}\n"))?;
    } else {
        terminal::print("\n")?;
        terminal::note(&format!("{seconds:.1} s of sound in {time:.1} s, {} tokens", heard.len()));
    }
    end.outcome()
}

/// A Whisper model that is loaded.
struct Listener {
    model: whisper::model::Whisper,
    tokenizer: Tokenizer,
    device: Device,
    filters: Vec<f32>,
    /// Tokens never written, and those not written first.
    silent: Vec<u32>,
    silent_first: Vec<u32>,
    is_multilingual: bool,
}

impl Listener {
    fn load(folder: &Folder, device: &Device) -> Result<Self> {
        let json = folder.config()?;
        if json["model_type"].as_str().is_some_and(|kind| kind != "whisper") {
            return Err(Failure::input(format!(
                "{} holds a model of type {}; this command reads whisper",
                folder.name, json["model_type"]
            )));
        }
        let generation = folder.json("generation_config.json")?;
        let config: Config = serde_json::from_value(json.clone()).map_err(|error| {
            Failure::input(format!("config.json of {} does not describe a whisper model: {error}", folder.name))
        })?;
        let tokenizer = folder.tokenizer()?;
        let list = |key: &str| -> Vec<u32> {
            let values = [&generation[key], &json[key]].into_iter().find_map(Value::as_array);
            values.into_iter().flatten().filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect()
        };
        let is_multilingual =
            generation["is_multilingual"].as_bool().unwrap_or(config.vocab_size >= MULTILINGUAL_VOCABULARY);
        let filters = mel::filters(config.num_mel_bins);
        let model = folder
            .load("whisper", DType::F32, device, |weights| whisper::model::Whisper::load(&weights, config.clone()))?;
        let (silent, silent_first) = (list("suppress_tokens"), list("begin_suppress_tokens"));
        let listener =
            Self { model, tokenizer, device: device.clone(), filters, silent, silent_first, is_multilingual };
        for needed in [whisper::SOT_TOKEN, whisper::EOT_TOKEN, whisper::NO_TIMESTAMPS_TOKEN] {
            listener.token(needed)?;
        }
        Ok(listener)
    }

    fn token(&self, name: &str) -> Result<u32> {
        self.tokenizer.token_to_id(name).ok_or_else(|| {
            Failure::input(format!("the tokenizer has no {name} token: it does not belong to a Whisper model"))
        })
    }

    /// How many samples the model hears at once.
    fn chunk(&self) -> usize {
        self.frames() * whisper::HOP_LENGTH
    }

    /// The encoder halves the number of frames.
    fn frames(&self) -> usize {
        (self.model.config.max_source_positions * 2).max(2)
    }

    /// What the encoder makes of some sound; silence fills it up.
    fn listen(&mut self, samples: &[f32]) -> Result<Tensor> {
        let mut samples = samples.to_vec();
        samples.resize(self.chunk(), 0.0);
        let bins = self.model.config.num_mel_bins;
        let mel = whisper::audio::pcm_to_mel(&self.model.config, &samples, &self.filters);
        let mel = Tensor::from_vec(mel.clone(), (1, bins, mel.len() / bins), &Device::Cpu)?;
        let mel = mel.narrow(2, 0, self.frames())?.contiguous()?.to_device(&self.device)?;
        self.model.reset_kv_cache();
        Ok(self.model.encoder.forward(&mel, true)?)
    }

    /// The token of the language: the one that was asked for, or the likeliest.
    fn language(&mut self, sound: &Tensor, asked: Option<&str>) -> Result<Option<u32>> {
        match (asked, self.is_multilingual) {
            (None, false) => Ok(None),
            (Some("en"), false) => Ok(None),
            (Some(other), false) => {
                Err(Failure::usage(format!("--language {other}: this model understands English only")))
            }
            (Some(asked), true) => {
                let id = self.tokenizer.token_to_id(&format!("<|{}|>", asked.to_lowercase()));
                id.map(Some).ok_or_else(|| {
                    Failure::usage(format!(
                        "--language {asked}: the model does not know it; say a code such as en or de"
                    ))
                })
            }
            (None, true) => {
                let candidates = languages(&self.tokenizer);
                let logits = self.logits(&[self.token(whisper::SOT_TOKEN)?], sound)?;
                Ok(likeliest(&logits, |id| candidates.contains(&id)))
            }
        }
    }

    /// The tokens of what was said.
    fn write(&mut self, sound: &Tensor, language: Option<u32>) -> Result<Vec<u32>> {
        let end = self.token(whisper::EOT_TOKEN)?;
        let timestamps = self.token(whisper::NO_TIMESTAMPS_TOKEN)?;
        let mut tokens = vec![self.token(whisper::SOT_TOKEN)?];
        if let Some(language) = language {
            tokens.extend([language, self.token(whisper::TRANSCRIBE_TOKEN)?]);
        }
        tokens.push(timestamps);
        let start = tokens.len();
        // Half of the positions are for what was said before, which this program does not tell the model.
        let positions = self.model.config.max_target_positions;
        let limit = (start + positions / 2).min(positions);
        while tokens.len() < limit && !terminal::interrupted() {
            let logits = self.logits(&tokens, sound)?;
            let is_first = tokens.len() == start;
            let may = |id: u32| {
                // The special tokens behind the end of the text have no sound; the last of them are times.
                (id <= end) && !self.silent.contains(&id) && !(is_first && self.silent_first.contains(&id))
            };
            match likeliest(&logits, may) {
                Some(token) if token != end => tokens.push(token),
                _ => break,
            }
        }
        Ok(tokens.split_off(start))
    }

    /// What the decoder thinks comes next.
    fn logits(&mut self, tokens: &[u32], sound: &Tensor) -> Result<Vec<f32>> {
        let input = Tensor::new(tokens, &self.device)?.unsqueeze(0)?;
        let states = self.model.decoder.forward(&input, sound, true)?;
        let last = states.i((.., tokens.len() - 1..))?.contiguous()?;
        Ok(self.model.decoder.final_linear(&last)?.flatten_all()?.to_vec1()?)
    }

    fn text(&self, tokens: &[u32]) -> Result<String> {
        self.tokenizer
            .decode(tokens, true)
            .map_err(|error| Failure::input(format!("the tokenizer cannot write what was heard: {error}")))
    }
}

/// The tokens that name languages: two or three small letters.
fn languages(tokenizer: &Tokenizer) -> Vec<u32> {
    let is_language = |name: &str| {
        let code = name.strip_prefix("<|").and_then(|name| name.strip_suffix("|>")).unwrap_or_default();
        (2..=3).contains(&code.len()) && code.bytes().all(|letter| letter.is_ascii_lowercase())
    };
    tokenizer.get_vocab(true).into_iter().filter(|(name, _)| is_language(name)).map(|(_, id)| id).collect()
}

/// The largest of the numbers that may be chosen.
fn likeliest(logits: &[f32], may: impl Fn(u32) -> bool) -> Option<u32> {
    let chosen = logits.iter().zip(0u32..).filter(|(_, id)| may(*id));
    chosen.max_by(|a, b| a.0.total_cmp(b.0)).map(|(_, id)| id)
}
