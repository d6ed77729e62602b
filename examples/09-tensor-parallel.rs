//! Tensor parallel text: every rank reads its part of a language model's weights from the file, some heads of the attention and some
//! columns and rows of the other layers, and the ranks add up what they have twice in each block. The text is the same with one rank, two or
//! four.
//!
//!     cargo run --release --example 09-tensor-parallel
//!     cargo run --release -- launch -n 2 -- target/release/examples/09-tensor-parallel

use anyhow::{Error, Result};
use candle_core::{DType, Device, Module, Tensor, D};
use candle_nn::var_builder::{ShardedSafeTensors, ShardedVarBuilder};
use candle_nn::{ops::sdpa, rotary_emb::rope, RmsNorm};
use candle_rocm_parallel::{ColumnParallelLinear, ProcessGroup, RowParallelLinear, VocabParallelEmbedding};
use std::path::Path;
use tokenizers::Tokenizer;

const PROMPT: &str = "It was a dark and stormy night";
const TOKENS: usize = 24;

// The model in assets/novelist-7m.
const LAYERS: usize = 8;
const HIDDEN: usize = 256;
const INTERMEDIATE: usize = 768;
const HEADS: usize = 8;
const KEY_VALUE_HEADS: usize = 4;
const HEAD_DIM: usize = HIDDEN / HEADS;
const VOCABULARY: usize = 4096;
const EPSILON: f64 = 1e-5;

/// One block. Nothing travels between the ranks but in the two layers that are cut by rows.
struct Block {
    norms: [RmsNorm; 2],
    query: ColumnParallelLinear,
    key: ColumnParallelLinear,
    value: ColumnParallelLinear,
    output: RowParallelLinear,
    gate: ColumnParallelLinear,
    up: ColumnParallelLinear,
    down: RowParallelLinear,
}

impl Block {
    fn load(vb: ShardedVarBuilder, group: &ProcessGroup) -> Result<Self> {
        let columns = |inputs, outputs, name| ColumnParallelLinear::load(inputs, outputs, false, &vb.pp(name), group);
        let rows = |inputs, outputs, name| RowParallelLinear::load(inputs, outputs, false, &vb.pp(name), group);
        let key_values = KEY_VALUE_HEADS * HEAD_DIM;
        Ok(Self {
            norms: [norm(vb.pp("input_layernorm"))?, norm(vb.pp("post_attention_layernorm"))?],
            query: columns(HIDDEN, HIDDEN, "self_attn.q_proj")?,
            key: columns(HIDDEN, key_values, "self_attn.k_proj")?,
            value: columns(HIDDEN, key_values, "self_attn.v_proj")?,
            output: rows(HIDDEN, HIDDEN, "self_attn.o_proj")?,
            gate: columns(HIDDEN, INTERMEDIATE, "mlp.gate_proj")?,
            up: columns(HIDDEN, INTERMEDIATE, "mlp.up_proj")?,
            down: rows(INTERMEDIATE, HIDDEN, "mlp.down_proj")?,
        })
    }

    fn forward(&self, x: &Tensor, cos: &Tensor, sin: &Tensor) -> candle_core::Result<Tensor> {
        let (batch, length, _) = x.dims3()?;
        // This rank's heads.
        let heads = |x: Tensor| x.reshape((batch, length, (), HEAD_DIM))?.transpose(1, 2)?.contiguous();
        let y = self.norms[0].forward(x)?;
        let query = rope(&heads(self.query.forward(&y)?)?, cos, sin)?;
        let key = rope(&heads(self.key.forward(&y)?)?, cos, sin)?;
        let value = heads(self.value.forward(&y)?)?;
        let y = sdpa(&query, &key, &value, None, true, (HEAD_DIM as f32).powf(-0.5), 1.)?;
        let x = (self.output.forward(&y.transpose(1, 2)?.flatten_from(2)?)? + x)?;
        let y = self.norms[1].forward(&x)?;
        let y = (self.gate.forward(&y)?.silu()? * self.up.forward(&y)?)?;
        self.down.forward(&y)? + x
    }
}

fn norm(vb: ShardedVarBuilder) -> Result<RmsNorm> {
    Ok(RmsNorm::new(vb.get(HIDDEN, "weight")?, EPSILON))
}

/// Cosines and sines of the positions' angles.
fn rotations(device: &Device) -> Result<(Tensor, Tensor)> {
    let angle =
        |at: usize| (at / (HEAD_DIM / 2)) as f64 / 10000f64.powf((at % (HEAD_DIM / 2)) as f64 * 2. / HEAD_DIM as f64);
    let positions = 2 * TOKENS;
    let angles = Tensor::from_iter((0..positions * HEAD_DIM / 2).map(|at| angle(at) as f32), device)?;
    let angles = angles.reshape((positions, HEAD_DIM / 2))?;
    Ok((angles.cos()?, angles.sin()?))
}

fn main() -> Result<()> {
    let group = ProcessGroup::from_environment()?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/novelist-7m");
    // SAFETY: nobody changes the file meanwhile.
    let vb =
        unsafe { ShardedSafeTensors::var_builder(&[folder.join("model.safetensors")], DType::F32, group.device())? };
    let model = vb.pp("model");
    let embeddings = VocabParallelEmbedding::load(VOCABULARY, HIDDEN, &model.pp("embed_tokens"), &group)?;
    let blocks = (0..LAYERS).map(|layer| Block::load(model.pp(format!("layers.{layer}")), &group));
    let blocks = blocks.collect::<Result<Vec<_>>>()?;
    let last_norm = norm(model.pp("norm"))?;
    // The embeddings' rows again, each rank's for its part of the words.
    let head =
        ColumnParallelLinear::load(HIDDEN, VOCABULARY, false, &model.pp("embed_tokens"), &group)?.gather_output(true);
    let (cos, sin) = rotations(group.device())?;

    let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).map_err(Error::msg)?;
    let mut ids = tokenizer.encode(PROMPT, true).map_err(Error::msg)?.get_ids().to_vec();
    if group.rank() == 0 {
        println!("{} of {HEADS} heads on each of {} ranks", HEADS / group.world_size(), group.world_size());
    }
    for _ in 0..TOKENS {
        let all = Tensor::new(ids.as_slice(), group.device())?.unsqueeze(0)?;
        let mut x = embeddings.forward(&all)?;
        for block in &blocks {
            x = block.forward(&x, &cos, &sin)?;
        }
        let last = last_norm.forward(&x.narrow(1, ids.len() - 1, 1)?.contiguous()?)?;
        // Every rank has the logits of all words, and takes the same one.
        ids.push(head.forward(&last)?.argmax(D::Minus1)?.flatten_all()?.to_vec1::<u32>()?[0]);
    }
    if group.rank() == 0 {
        println!("{}", tokenizer.decode(&ids, true).map_err(Error::msg)?);
    }
    Ok(())
}
