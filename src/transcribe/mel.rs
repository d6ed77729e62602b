//! The filters that turn a spectrum into what Whisper was trained on: triangles of equal area, evenly spaced on the mel scale of
//! Slaney's auditory toolbox (linear below 1 kHz, logarithmic above), up to half of the sample rate.

use candle_transformers::models::whisper::{N_FFT, SAMPLE_RATE};

const HERTZ_PER_MEL: f64 = 200.0 / 3.0;
const BEND_HERTZ: f64 = 1000.0;
const BEND_MEL: f64 = BEND_HERTZ / HERTZ_PER_MEL;
/// Above the bend, 27 mels are a factor of 6.4.
const LOG_STEP: f64 = 27.0;
const LOG_FACTOR: f64 = 6.4;

fn to_mel(hertz: f64) -> f64 {
    if hertz < BEND_HERTZ {
        hertz / HERTZ_PER_MEL
    } else {
        BEND_MEL + (hertz / BEND_HERTZ).ln() * LOG_STEP / LOG_FACTOR.ln()
    }
}

fn to_hertz(mel: f64) -> f64 {
    if mel < BEND_MEL {
        mel * HERTZ_PER_MEL
    } else {
        BEND_HERTZ * ((mel - BEND_MEL) * LOG_FACTOR.ln() / LOG_STEP).exp()
    }
}

/// One row of weights for each of the `count` filters, over the frequencies of a spectrum.
pub fn filters(count: usize) -> Vec<f32> {
    let frequencies = N_FFT / 2 + 1;
    let highest = to_mel(SAMPLE_RATE as f64 / 2.0);
    let edge = |index: usize| to_hertz(highest * index as f64 / (count + 1) as f64);
    let weight = |row: usize, column: usize| {
        let hertz = (column * SAMPLE_RATE) as f64 / N_FFT as f64;
        let (left, center, right) = (edge(row), edge(row + 1), edge(row + 2));
        let height = ((hertz - left) / (center - left)).min((right - hertz) / (right - center)).max(0.0);
        (height * 2.0 / (right - left)) as f32
    };
    (0..count).flat_map(|row| (0..frequencies).map(move |column| weight(row, column))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_goes_both_ways_and_bends_at_one_kilohertz() {
        for hertz in [0.0, 440.0, 999.9, 1000.0, 2595.0, 8000.0] {
            assert!((to_hertz(to_mel(hertz)) - hertz).abs() < 1e-6, "{hertz}");
        }
        assert!((to_mel(1000.0) - 15.0).abs() < 1e-9);
        assert!((to_mel(6400.0) - 42.0).abs() < 1e-9);
    }

    #[test]
    fn the_filters_are_those_that_whisper_was_trained_with() {
        // The first weights of OpenAI's table of 80 filters.
        let filters = filters(80);
        assert_eq!(filters.len(), 80 * 201);
        let row = |row: usize| &filters[row * 201..(row + 1) * 201];
        for (got, expected) in row(0)[..3].iter().zip([0.0, 0.024862595, 0.0]) {
            assert!((got - expected).abs() < 1e-6, "{got} {expected}");
        }
        // Every filter has a peak, later than the one before or at the same frequency.
        let peaks: Vec<usize> = (0..80)
            .map(|index| row(index).iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(at, _)| at))
            .collect();
        assert!(peaks.windows(2).all(|pair| pair[0] <= pair[1]), "{peaks:?}");
    }
}
