//! Sound from WAV files: any kind of sample, channels mixed to one, and any rate brought to the one that Whisper hears.

use crate::failure::{Failure, Result};
use candle_transformers::models::whisper::SAMPLE_RATE;
use hound::{SampleFormat, WavReader};
use std::f64::consts::PI;
use std::path::Path;

/// The samples of a file, between -1 and 1.
pub fn read(path: &Path) -> Result<Vec<f32>> {
    let refuse = |error: hound::Error| match error {
        hound::Error::IoError(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Failure::input(format!("{} does not exist", path.display()))
        }
        error => Failure::input(format!("{} is not a WAV file that can be read: {error}", path.display())),
    };
    let mut reader = WavReader::open(path).map_err(refuse)?;
    let format = reader.spec();
    let samples: Vec<f32> = match format.sample_format {
        SampleFormat::Float => reader.samples::<f32>().collect::<hound::Result<_>>().map_err(refuse)?,
        SampleFormat::Int => {
            let full = (1u64 << (format.bits_per_sample.clamp(1, 32) - 1)) as f32;
            let samples = reader.samples::<i32>().map(|sample| sample.map(|sample| sample as f32 / full));
            samples.collect::<hound::Result<_>>().map_err(refuse)?
        }
    };
    if samples.is_empty() || format.sample_rate == 0 {
        return Err(Failure::input(format!("{} has no sound in it", path.display())));
    }
    let channels = usize::from(format.channels.max(1));
    let mixed: Vec<f32> = samples.chunks(channels).map(|frame| frame.iter().sum::<f32>() / channels as f32).collect();
    Ok(resample(&mixed, format.sample_rate as usize, SAMPLE_RATE))
}

/// How many zero crossings of the filter are kept on each side.
const CROSSINGS: f64 = 16.0;

/// Brings samples from one rate to another with a windowed sinc that cuts off at the lower rate's half.
fn resample(samples: &[f32], from: usize, to: usize) -> Vec<f32> {
    if from == to {
        return samples.to_vec();
    }
    let (step, cutoff) = (from as f64 / to as f64, (to as f64 / from as f64).min(1.0));
    let reach = CROSSINGS / cutoff;
    let length = (samples.len() as u64 * to as u64).div_ceil(from as u64);
    let at = |index: u64| {
        let center = index as f64 * step;
        let first = (center - reach).ceil().max(0.0) as usize;
        let last = ((center + reach).floor() as usize).min(samples.len().saturating_sub(1));
        let weigh = |position: usize| f64::from(samples[position]) * filter(position as f64 - center, cutoff, reach);
        (first..=last).map(weigh).sum::<f64>() as f32
    };
    (0..length).map(at).collect()
}

/// The filter at some distance from its center: a sinc under a Hann window.
fn filter(distance: f64, cutoff: f64, reach: f64) -> f64 {
    let x = PI * distance * cutoff;
    let sinc = if x.abs() < 1e-9 { 1.0 } else { x.sin() / x };
    cutoff * sinc * (0.5 + 0.5 * (PI * distance / reach).cos())
}

#[cfg(test)]
mod tests {
    use super::resample;

    fn tone(hertz: f64, rate: usize, count: usize) -> Vec<f32> {
        (0..count).map(|i| (std::f64::consts::TAU * hertz * i as f64 / rate as f64).sin() as f32).collect()
    }

    #[test]
    fn a_tone_is_the_same_tone_at_another_rate() {
        for (from, to) in [(44100, 16000), (48000, 16000), (8000, 16000), (22050, 16000)] {
            let heard = resample(&tone(440.0, from, from / 2), from, to);
            let expected = tone(440.0, to, to / 2);
            assert!(heard.len().abs_diff(expected.len()) <= 1, "{from}: {} samples", heard.len());
            // Near the ends a part of the filter has nothing to look at.
            for i in 200..expected.len() - 200 {
                assert!((heard[i] - expected[i]).abs() < 2e-3, "{from} Hz, sample {i}: {} {}", heard[i], expected[i]);
            }
        }
    }

    #[test]
    fn what_the_lower_rate_cannot_hold_is_silenced() {
        let heard = resample(&tone(12000.0, 44100, 22050), 44100, 16000);
        assert!(heard[200..heard.len() - 200].iter().all(|sample| sample.abs() < 0.01));
    }
}
