//! How tokens are chosen, as the command line says it.

use crate::failure::{Failure, Result};
use candle_transformers::generation::Sampling;
use clap::Args;

/// The options that every way to generate has.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Zero always takes the likeliest token
    #[arg(long, default_value_t = 0.8, value_name = "NUMBER")]
    pub temperature: f64,
    /// Only the likeliest tokens that together have this probability
    #[arg(long, value_name = "PROBABILITY")]
    pub top_p: Option<f64>,
    /// Only this many of the likeliest tokens
    #[arg(long, value_name = "COUNT")]
    pub top_k: Option<usize>,
    /// Above 1, tokens that came lately are less likely
    #[arg(long, default_value_t = 1.1, value_name = "NUMBER")]
    pub repeat_penalty: f32,
    /// The same seed gives the same text
    #[arg(long, default_value_t = 299792458, value_name = "NUMBER")]
    pub seed: u64,
    /// Stop after this many tokens
    #[arg(long, default_value_t = 256, value_name = "COUNT")]
    pub max_tokens: usize,
}

/// How many of the last tokens the penalty looks at.
pub const REPEAT_LAST: usize = 64;

impl Options {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<()> {
        let refuse = |sentence: String| Err(Failure::usage(sentence));
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
        Ok(())
    }

    /// The same in candle-transformers' words.
    pub fn sampling(&self) -> Sampling {
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
