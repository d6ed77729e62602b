//! `transcribe`: a Whisper written by the test, end to end from a WAV file, writes the same tokens on both devices.

use crate::support::*;
use std::path::{Path, PathBuf};

const WIDTH: usize = 16;
const BINS: usize = 8;
const SPECIAL: &[&str] =
    &["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|transcribe|>", "<|notimestamps|>", "<|0.00|>"];

/// Hears a fifth of a second at once and writes up to eight words.
fn tiny_whisper() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let words: Vec<String> = (0..40).map(|index| format!("w{index}")).collect();
    word_tokenizer(&words.iter().map(String::as_str).collect::<Vec<_>>(), SPECIAL, folder.path());
    let vocabulary = words.len() + SPECIAL.len();
    let config = serde_json::json!({
        "model_type": "whisper", "num_mel_bins": BINS, "max_source_positions": 10, "d_model": WIDTH, "encoder_attention_heads": 2,
        "encoder_layers": 1, "vocab_size": vocabulary, "max_target_positions": 16, "decoder_attention_heads": 2, "decoder_layers": 1,
        "suppress_tokens": [3],
    });
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
    // Not the end at once: there would be nothing to compare.
    let generation = serde_json::json!({ "is_multilingual": true, "begin_suppress_tokens": [40] });
    std::fs::write(folder.path().join("generation_config.json"), generation.to_string()).expect("written");
    let mut weights = Weights::new();
    weights.random("model.encoder.conv1.weight", &[WIDTH, BINS, 3]);
    weights.random("model.encoder.conv1.bias", &[WIDTH]);
    weights.random("model.encoder.conv2.weight", &[WIDTH, WIDTH, 3]);
    weights.random("model.encoder.conv2.bias", &[WIDTH]);
    weights.random("model.decoder.embed_tokens.weight", &[vocabulary, WIDTH]);
    weights.random("model.decoder.embed_positions.weight", &[16, WIDTH]);
    for (side, attentions) in [("encoder", &["self_attn"][..]), ("decoder", &["self_attn", "encoder_attn"])] {
        weights.norm(&format!("model.{side}.layer_norm"), WIDTH);
        let name = |part: &str| format!("model.{side}.layers.0.{part}");
        for attention in attentions {
            for part in ["q_proj", "v_proj", "out_proj"] {
                weights.linear(&name(&format!("{attention}.{part}")), WIDTH, WIDTH);
            }
            weights.random(&name(&format!("{attention}.k_proj.weight")), &[WIDTH, WIDTH]);
            weights.norm(&name(&format!("{attention}_layer_norm")), WIDTH);
        }
        weights.linear(&name("fc1"), 4 * WIDTH, WIDTH);
        weights.linear(&name("fc2"), WIDTH, 4 * WIDTH);
        weights.norm(&name("final_layer_norm"), WIDTH);
    }
    weights.save(folder.path());
    folder
}

/// Half a second that rises from 200 to 1000 Hz.
fn sound(folder: &Path, rate: u32, channels: u16) -> PathBuf {
    let path = folder.join(format!("{rate}.wav"));
    let format =
        hound::WavSpec { channels, sample_rate: rate, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
    let mut writer = hound::WavWriter::create(&path, format).expect("a file");
    for index in 0..rate / 2 {
        let time = f64::from(index) / f64::from(rate);
        let sample = (std::f64::consts::TAU * (200.0 + 800.0 * time) * time).sin() * 20000.0;
        for _ in 0..channels {
            writer.write_sample(sample as i16).expect("written");
        }
    }
    writer.finalize().expect("written");
    path
}

#[test]
fn sound_becomes_the_same_tokens_on_every_device() {
    let whisper = tiny_whisper();
    let model = whisper.path().display().to_string();
    let wav = sound(whisper.path(), 44100, 2).display().to_string();
    let hear = |device: &str, more: &[&str]| {
        json(run(&[&["transcribe", "--json", "--device", device, "--model", &model, &wav][..], more].concat()))
    };
    let (cpu, rocm) = (hear("cpu", &[]), hear("rocm", &[]));
    let tokens = cpu["tokens"].as_array().expect("tokens");
    // Three pieces of sound, with at least a token each.
    assert!(tokens.len() >= 3, "{cpu}");
    assert!(tokens.iter().all(|id| id.as_u64().is_some_and(|id| id < 40 && id != 3)), "{cpu}");
    for key in ["tokens", "text", "language"] {
        assert_eq!(cpu[key], rocm[key], "{key}");
    }
    assert!((cpu["seconds"].as_f64().unwrap_or_default() - 0.5).abs() < 1e-3, "{cpu}");
    assert_eq!(hear("cpu", &["--language", "de"])["language"], "<|de|>");
    let text = printed(run(&["transcribe", "--device", "cpu", "--model", &model, &wav]));
    assert_eq!(text.trim(), cpu["text"].as_str().expect("a text"));
}

#[test]
fn what_cannot_be_transcribed() {
    let whisper = tiny_whisper();
    let model = whisper.path().display().to_string();
    let wav = sound(whisper.path(), 16000, 1).display().to_string();
    let fails = |arguments: &[&str], code: i32, words: &[&str]| {
        assert_fails(&run(&[&["-q", "transcribe", "--model", &model][..], arguments].concat()), code, words);
    };
    fails(&["nowhere.wav"], 3, &["nowhere.wav does not exist"]);
    fails(&[&novelist_file().display().to_string()], 3, &["not a WAV file"]);
    fails(&[&wav, "--language", "xx"], 2, &["--language xx"]);
    let whole = std::fs::read(&wav).expect("the file");
    let cut = whisper.path().join("cut.wav");
    std::fs::write(&cut, &whole[..whole.len() - 1001]).expect("written");
    fails(&[&cut.display().to_string()], 3, &["cut.wav"]);
    let folder = copy_of_novelist();
    let output = run(&["transcribe", "--model", &folder.path().display().to_string(), &wav]);
    assert_fails(&output, 3, &["whisper"]);
}
