//! How long a rank waits for others, and how ranks are named in sentences.

use hip::{Error, Result};
use std::time::Duration;

/// The environment variable with the limit, in seconds: how long a rank waits for another that does nothing.
pub const VARIABLE: &str = "CANDLE_ROCM_COMM_TIMEOUT";

/// Long enough for one rank to load a model while the others wait.
const USUAL: Duration = Duration::from_secs(300);

/// The limit that the environment asks for.
pub fn from_environment() -> Result<Duration> {
    match std::env::var(VARIABLE) {
        Ok(text) if !text.trim().is_empty() => parse(text.trim()),
        _ => Ok(USUAL),
    }
}

fn parse(text: &str) -> Result<Duration> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=1e9).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        Error::refused(format!("{VARIABLE}={text} is not a time; give seconds above zero, such as 60 or 0.5"))
    })
}

/// Ranks in words: `rank 2 of 4`, `ranks 1 and 3 of 4`.
pub fn name_ranks(which: &[usize], of: usize) -> String {
    match which {
        [] => "no rank".to_owned(),
        [one] => format!("rank {one} of {of}"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(usize::to_string).collect();
            format!("ranks {} and {last} of {of}", first.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_of_seconds() {
        assert_eq!(parse("0.5").unwrap(), Duration::from_millis(500));
        for wrong in ["", "0", "-1", "soon", "NaN", "1e300"] {
            let sentence = parse(wrong).expect_err("no time").to_string();
            assert!(sentence.contains(VARIABLE), "{sentence}");
        }
    }

    #[test]
    fn ranks_read_well() {
        assert_eq!(name_ranks(&[2], 4), "rank 2 of 4");
        assert_eq!(name_ranks(&[0, 1, 3], 4), "ranks 0, 1 and 3 of 4");
    }
}
