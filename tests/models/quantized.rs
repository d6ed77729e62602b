//! Quantized models with random weights, in GGUF files made here: a Llama and a Qwen. With f32 weights both devices compute
//! the same, so that the model's every operation is compared closely; with quantized ones the devices round activations in
//! different ways, and the ROCm device has to be as close as the CPU to the answer of the same weights with nothing rounded.

use super::{assert_close, gguf, numbers, rocm, AS_CLOSE};
use candle_core::quantized::gguf_file::Value;
use candle_core::quantized::GgmlDType;
use candle_core::{Device, Result, Shape, Tensor};
use candle_transformers::models::{quantized_llama, quantized_qwen2, quantized_qwen3};

const WIDTH: usize = 256;
const HIDDEN: usize = 512;
const VOCABULARY: usize = 300;
const HEADS: usize = 4;
const GROUPS: usize = 2;
const LAYERS: usize = 2;

const QUANTIZED: [GgmlDType; 4] = [GgmlDType::Q8_0, GgmlDType::Q4_0, GgmlDType::Q4K, GgmlDType::Q6K];

fn metadata(architecture: &str) -> Vec<(String, Value)> {
    let number = |value: usize| Value::U32(value as u32);
    let entries = [
        ("attention.head_count", number(HEADS)),
        ("attention.head_count_kv", number(GROUPS)),
        ("attention.key_length", number(WIDTH / HEADS)),
        ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("block_count", number(LAYERS)),
        ("context_length", number(64)),
        ("embedding_length", number(WIDTH)),
        ("rope.dimension_count", number(WIDTH / HEADS)),
        ("rope.freq_base", Value::F32(10_000.)),
    ];
    let entries = entries.into_iter().map(|(key, value)| (format!("{architecture}.{key}"), value));
    let general = [
        ("general.architecture".to_string(), Value::String(architecture.to_string())),
        // The dtype of a Qwen's rotary embeddings: f32.
        ("general.dtype".to_string(), number(0)),
    ];
    general.into_iter().chain(entries).collect()
}

fn weights(more: &[(&str, usize)]) -> Vec<(String, Shape)> {
    let keys = WIDTH / HEADS * GROUPS;
    let layer = [
        ("attn_q.weight", Shape::from((WIDTH, WIDTH))),
        ("attn_k.weight", (keys, WIDTH).into()),
        ("attn_v.weight", (keys, WIDTH).into()),
        ("attn_output.weight", (WIDTH, WIDTH).into()),
        ("attn_norm.weight", WIDTH.into()),
        ("ffn_gate.weight", (HIDDEN, WIDTH).into()),
        ("ffn_up.weight", (HIDDEN, WIDTH).into()),
        ("ffn_down.weight", (WIDTH, HIDDEN).into()),
        ("ffn_norm.weight", WIDTH.into()),
    ];
    let more = more.iter().map(|&(name, length)| (name, Shape::from(length)));
    let layer: Vec<_> = layer.into_iter().chain(more).collect();
    let mut all = vec![
        ("token_embd.weight".to_string(), Shape::from((VOCABULARY, WIDTH))),
        ("output.weight".to_string(), (VOCABULARY, WIDTH).into()),
        ("output_norm.weight".to_string(), WIDTH.into()),
    ];
    for index in 0..LAYERS {
        all.extend(layer.iter().map(|(name, shape)| (format!("blk.{index}.{name}"), shape.clone())));
    }
    all
}

/// Logits after a prompt and after one more token, which meets the cache.
fn logits(device: &Device, mut forward: impl FnMut(&Tensor, usize) -> Result<Tensor>) -> Result<Tensor> {
    let prompt: Vec<u32> = (0..11).map(|i| (i * 83 + 5) % VOCABULARY as u32).collect();
    let first = forward(&Tensor::new(prompt.as_slice(), device)?.unsqueeze(0)?, 0)?;
    let second = forward(&Tensor::new(&[[42u32]], device)?, prompt.len())?;
    Tensor::cat(&[first.flatten_all()?, second.flatten_all()?], 0)
}

/// Root mean square.
fn size(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = numbers.len() as f64;
    (numbers.map(|number| number * number).sum::<f64>() / count).sqrt()
}

/// Compares a model on both devices: `run` loads a file on a device and gives the logits.
fn compare(architecture: &str, more: &[(&str, usize)], run: impl Fn(&[u8], &Device) -> Result<Tensor>) -> Result<()> {
    let metadata = metadata(architecture);
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    let (weights, rocm) = (weights(more), rocm());
    let file = gguf::random(&metadata, &weights, GgmlDType::F32)?;
    assert_close(&format!("{architecture} in F32"), &run(&file, &Device::Cpu)?, &run(&file, &rocm)?, 1e-4)?;
    for format in QUANTIZED {
        let file = gguf::random(&metadata, &weights, format)?;
        let exact = numbers(&run(&gguf::with_exact_weights(&file)?, &Device::Cpu)?)?;
        let error = |device: &Device| -> Result<f64> {
            let logits = numbers(&run(&file, device)?)?;
            Ok(size(logits.iter().zip(&exact).map(|(logit, exact)| logit - exact)) / size(exact.iter().copied()))
        };
        let (on_cpu, on_rocm) = (error(&Device::Cpu)?, error(&rocm)?);
        println!("{architecture} in {format:?}: an error of {on_rocm:.4} of a logit on ROCm, {on_cpu:.4} on the CPU");
        assert!(
            on_rocm <= AS_CLOSE * on_cpu,
            "{architecture} in {format:?}: an error of {on_rocm}, the CPU's is {on_cpu}"
        );
        assert!(
            on_cpu < 0.1,
            "{architecture} in {format:?}: the CPU's own error of {on_cpu} leaves nothing to compare"
        );
    }
    Ok(())
}

macro_rules! compare {
    ($architecture:literal, $models:ident, $more:expr) => {
        compare($architecture, $more, |file, device| {
            let (content, mut reader) = gguf::open(file)?;
            let mut model = $models::ModelWeights::from_gguf(content, &mut reader, device)?;
            logits(device, |tokens, position| model.forward(tokens, position))
        })
    };
}

#[test]
fn a_quantized_llama_answers_as_on_the_cpu() -> Result<()> {
    compare!("llama", quantized_llama, &[])
}

#[test]
fn a_quantized_qwen2_answers_as_on_the_cpu() -> Result<()> {
    let keys = WIDTH / HEADS * GROUPS;
    compare!("qwen2", quantized_qwen2, &[("attn_q.bias", WIDTH), ("attn_k.bias", keys), ("attn_v.bias", keys)])
}

#[test]
fn a_quantized_qwen3_answers_as_on_the_cpu() -> Result<()> {
    let depth = WIDTH / HEADS;
    compare!("qwen3", quantized_qwen3, &[("attn_q_norm.weight", depth), ("attn_k_norm.weight", depth)])
}

/// What a decoded token asks of the device, which is what it costs the host: for each layer three products of the attention and
/// their norm, two rotations, the two caches grown by a row, attention in one launch, the fourth product and a sum; and a norm, three
/// products, the gated activation and a sum for the rest. The
/// embedded device makes the bytes of activations in a launch of its own for each of the seven products. Around the layers there
/// are the embedding, a norm and a product.
#[test]
fn a_decoded_token_is_few_launches() -> Result<()> {
    const LAYER: u32 = 17 + 7;
    const AROUND: u32 = 4;
    let rocm = rocm();
    let hip = rocm.as_rocm_device()?.hip_device();
    if hip.platform().name() != "host" || hip.is_checked() {
        println!("skipped: only the embedded device, unchecked, records its calls");
        return Ok(());
    }
    let metadata = metadata("llama");
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    let file = gguf::random(&metadata, &weights(&[]), GgmlDType::Q8_0)?;
    let (content, mut reader) = gguf::open(&file)?;
    let mut model = quantized_llama::ModelWeights::from_gguf(content, &mut reader, &rocm)?;
    let mut token = |token: u32, position: usize| model.forward(&Tensor::new(&[[token]], &rocm)?, position);
    for position in 0..5 {
        token(42, position)?;
    }
    let (logits, calls) = hip_host::inject::record(|| token(42, 5));
    logits?;
    let count = |name: &str| calls.iter().filter(|call| call.0 == name).map(|call| call.1).sum::<u32>();
    let launches = count("hipModuleLaunchKernel");
    assert!(launches <= LAYERS as u32 * LAYER + AROUND, "{launches} launches: {calls:?}");
    assert_eq!(count("hipMemcpyAsync"), 1, "the token itself and nothing else is copied: {calls:?}");
    for waits in ["hipStreamSynchronize", "hipDeviceSynchronize", "hipEventSynchronize", "hipMalloc", "hipMemsetAsync"]
    {
        assert_eq!(count(waits), 0, "{waits}: {calls:?}");
    }
    println!("{launches} launches for a token: {calls:?}");
    Ok(())
}
