//! The repository's small model from its GGUF file, 200 tokens greedily. The two devices round activations in different ways, so
//! the yardstick is a third run with the same weights as f32 and nothing rounded: the ROCm device has to be as close to it
//! as the CPU is, and may choose another token only where the rounding of both covers the CPU's margin.

use super::{gguf, greedy, largest_difference, llama, rocm, AS_CLOSE};
use candle_core::{Device, Result, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;

const TOKENS: usize = 200;

fn model(file: &[u8], device: &Device) -> Result<impl FnMut(&Tensor, usize) -> Result<Tensor>> {
    let (content, mut reader) = gguf::open(file)?;
    let mut model = ModelWeights::from_gguf(content, &mut reader, device)?;
    Ok(move |tokens: &Tensor, position: usize| model.forward(tokens, position))
}

/// A device of its own stream, which puts operations off, or does not.
fn device(fusing: bool) -> Result<Device> {
    let device = Device::new_rocm_with_stream(0)?;
    device.as_rocm_device()?.set_fusing(fusing)?;
    Ok(device)
}

#[test]
fn two_hundred_tokens_of_the_novelist_are_the_cpus() -> Result<()> {
    let (file, prompt) = (gguf::novelist(), llama::prompt());
    let (tokens, on_cpu) = greedy::generate(&Device::Cpu, &prompt, TOKENS, model(&file, &Device::Cpu)?)?;
    let exact = gguf::with_exact_weights(&file)?;
    let exact = greedy::follow(&Device::Cpu, &prompt, &tokens, model(&exact, &Device::Cpu)?)?;
    for rocm in [rocm(), device(false)?] {
        println!("with fused operations: {}", rocm.as_rocm_device()?.is_fusing());
        are_the_cpus(&rocm, &file, &prompt, (&tokens, &on_cpu), &exact)?;
    }
    Ok(())
}

fn are_the_cpus(
    rocm: &Device,
    file: &[u8],
    prompt: &[u32],
    (tokens, on_cpu): (&[u32], &[greedy::Logits]),
    exact: &[greedy::Logits],
) -> Result<()> {
    let on_rocm = greedy::follow(rocm, prompt, tokens, model(file, rocm)?)?;
    let error = |run: &[Vec<f64>]| -> Vec<f64> {
        run.iter().zip(exact).map(|(run, exact)| largest_difference(exact, run)).collect()
    };
    let (cpu_errors, rocm_errors) = (error(on_cpu), error(&on_rocm));
    for (what, summary) in [("largest", largest as fn(&[f64]) -> f64), ("mean", mean)] {
        let (cpu, rocm) = (summary(&cpu_errors), summary(&rocm_errors));
        println!("{what} error of a step's logits: {rocm:.4} on ROCm, {cpu:.4} on the CPU");
        assert!(rocm <= AS_CLOSE * cpu, "the {what} error is {rocm} on the ROCm device and {cpu} on the CPU");
    }

    let mut ties = Vec::new();
    for (index, &token) in tokens.iter().enumerate() {
        let margin = greedy::best(&on_cpu[index]).1;
        let (other, _) = greedy::best(&on_rocm[index]);
        if other != token {
            let rounding = cpu_errors[index] + rocm_errors[index];
            println!(
                "token {index}: {token} on the CPU, ahead by {margin:.4}; {other} on ROCm; rounding is {rounding:.4}"
            );
            assert!(margin <= rounding, "token {index} is {other}, on the CPU {token} with a margin of {margin}");
            ties.push(index);
        }
    }

    let (freely, _) = greedy::generate(rocm, prompt, TOKENS, model(file, rocm)?)?;
    match freely.iter().zip(tokens).position(|(rocm, cpu)| rocm != cpu) {
        None => println!("all {TOKENS} tokens are the same"),
        Some(first) => {
            println!("the first {first} of {TOKENS} tokens are the same");
            assert_eq!(Some(&first), ties.first(), "the texts part where nothing was close");
        }
    }
    Ok(())
}

/// What the models of candle-transformers cost that know nothing of fused kernels: launches of a decoded token, and memory of a prompt.
#[test]
fn fused_operations_save_launches_and_memory() -> Result<()> {
    const PROMPT: usize = 384;
    let file = gguf::novelist();
    let cost = |fusing: bool| -> Result<(u32, usize)> {
        let device = device(fusing)?;
        let mut model = model(&file, &device)?;
        let rocm = device.as_rocm_device()?;
        let before = rocm.memory_stats().live_bytes;
        let prompt: Vec<u32> = (0..PROMPT as u32).map(|at| 3 + at * 7 % 4000).collect();
        model(&Tensor::new(&prompt[..], &device)?.unsqueeze(0)?, 0)?;
        let memory = rocm.memory_stats().peak_live_bytes - before;
        let mut token = |position: usize| model(&Tensor::new(&[[42u32]], &device)?, position);
        token(PROMPT)?;
        let (logits, calls) = hip_host::inject::record(|| token(PROMPT + 1));
        logits?;
        let launches = calls.iter().filter(|call| call.0 == "hipModuleLaunchKernel").map(|call| call.1).sum();
        Ok((launches, memory))
    };
    let ((fused, fused_memory), (plain, memory)) = (cost(true)?, cost(false)?);
    println!(
        "launches of a token: {fused} fused, {plain} not; {PROMPT} tokens at once: {fused_memory} bytes, {memory} not"
    );
    if rocm().as_rocm_device()?.hip_device().platform().name() == "host" {
        // In each of eight layers at least four: scale, softmax, a product, an activation.
        assert!(fused + 8 * 4 <= plain, "{fused} launches, and {plain} without fused operations");
    }
    assert!(2 * fused_memory < memory, "{fused_memory} bytes, and {memory} without fused operations");
    Ok(())
}

fn largest(errors: &[f64]) -> f64 {
    errors.iter().copied().fold(0., f64::max)
}

fn mean(errors: &[f64]) -> f64 {
    errors.iter().sum::<f64>() / errors.len() as f64
}
