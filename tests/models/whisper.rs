//! Whisper, small and with random weights: the encoder of a spectrogram, and the decoder with its cache of cross attention.

use super::{assert_close, random, rocm};
use candle_core::{Device, Result, Tensor};
use candle_transformers::models::whisper::{model::Whisper, Config};

fn config() -> Config {
    Config {
        num_mel_bins: 80,
        max_source_positions: 50,
        d_model: 64,
        encoder_attention_heads: 4,
        encoder_layers: 2,
        vocab_size: 200,
        max_target_positions: 24,
        decoder_attention_heads: 4,
        decoder_layers: 2,
        suppress_tokens: Vec::new(),
    }
}

/// The encoder's answer, and the logits of two passes of the decoder: one that fills the cache and one that uses it.
fn transcribe(device: &Device) -> Result<[Tensor; 3]> {
    let mut model = Whisper::load(&random::weights(device), config())?;
    let spectrogram = random::uniform("spectrogram", (1, 80, 100))?.to_device(device)?;
    let audio = model.encoder.forward(&spectrogram, true)?;
    let mut logits = |tokens: &[u32], flush| {
        let tokens = Tensor::new(tokens, device)?.unsqueeze(0)?;
        let hidden = model.decoder.forward(&tokens, &audio, flush)?;
        model.decoder.final_linear(&hidden)
    };
    let (first, second) = (logits(&[7, 3, 150], true)?, logits(&[7, 3, 150, 20, 199], false)?);
    Ok([audio, first, second])
}

#[test]
fn whisper_hears_what_the_cpu_hears() -> Result<()> {
    let names = ["whisper's encoder", "whisper's decoder", "whisper's decoder with a cache"];
    for ((name, on_cpu), on_rocm) in names.iter().zip(transcribe(&Device::Cpu)?).zip(transcribe(&rocm())?) {
        assert_close(name, &on_cpu, &on_rocm, 1e-4)?;
    }
    Ok(())
}
