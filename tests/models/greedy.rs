//! Greedy decoding, freely or along given tokens, whatever the model: a model is a function from tokens and their position to
//! the logits of the next one.

use candle_core::{DType, Device, Result, Tensor};

/// Logits of the token that follows, as numbers.
pub type Logits = Vec<f64>;

/// Runs a model on a device: gives it tokens as (1, count), takes the last row of what it answers.
fn step(
    device: &Device,
    tokens: &[u32],
    position: usize,
    forward: &mut impl FnMut(&Tensor, usize) -> Result<Tensor>,
) -> Result<Logits> {
    let logits = forward(&Tensor::new(tokens, device)?.unsqueeze(0)?, position)?;
    let logits = logits.flatten_to(logits.rank() - 2)?;
    logits.get(logits.dim(0)? - 1)?.to_dtype(DType::F64)?.to_vec1()
}

/// The tokens that a model likes best, one after the other, and the logits before each.
pub fn generate(
    device: &Device,
    prompt: &[u32],
    count: usize,
    mut forward: impl FnMut(&Tensor, usize) -> Result<Tensor>,
) -> Result<(Vec<u32>, Vec<Logits>)> {
    let mut logits = vec![step(device, prompt, 0, &mut forward)?];
    let mut tokens = vec![best(&logits[0]).0];
    while tokens.len() < count {
        let position = prompt.len() + tokens.len() - 1;
        logits.push(step(device, &tokens[tokens.len() - 1..], position, &mut forward)?);
        tokens.push(best(&logits[tokens.len()]).0);
    }
    Ok((tokens, logits))
}

/// The logits before each of `tokens` when they follow the prompt.
pub fn follow(
    device: &Device,
    prompt: &[u32],
    tokens: &[u32],
    mut forward: impl FnMut(&Tensor, usize) -> Result<Tensor>,
) -> Result<Vec<Logits>> {
    let mut logits = vec![step(device, prompt, 0, &mut forward)?];
    for (index, token) in tokens.iter().enumerate().take(tokens.len() - 1) {
        logits.push(step(device, &[*token], prompt.len() + index, &mut forward)?);
    }
    Ok(logits)
}

/// The token with the largest logit, and how far it is ahead of the next.
pub fn best(logits: &[f64]) -> (u32, f64) {
    let (mut best, mut second) = ((0, f64::NEG_INFINITY), f64::NEG_INFINITY);
    for (token, &logit) in logits.iter().enumerate() {
        if logit > best.1 {
            second = best.1;
            best = (token, logit);
        } else {
            second = second.max(logit);
        }
    }
    (best.0 as u32, best.1 - second)
}
