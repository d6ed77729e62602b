//! Tensor parallel layers against Candle's layers on its CPU device: results, gradients of inputs and weights, and parts read from a file.

use crate::ranks::{assert_close, numbers, sentence, with_ranks};
use candle_core::{DType, Device, Module, Result, Tensor, Var};
use candle_nn::var_builder::ShardedSafeTensors;
use candle_nn::{Embedding, Linear};
use candle_rocm_parallel::{ColumnParallelLinear, ProcessGroup, RowParallelLinear, VocabParallelEmbedding};
use std::collections::HashMap;

const VOCABULARY: usize = 12;
const WIDTH: usize = 8;
const HIDDEN: usize = 16;

/// The weights of a small model: an embedding, a layer up, one down, and one with the whole result.
fn weights() -> Result<Vec<(&'static str, Tensor)>> {
    Ok(vec![
        ("embed.weight", numbers(&[VOCABULARY, WIDTH], 1)?),
        ("up.weight", numbers(&[HIDDEN, WIDTH], 2)?),
        ("up.bias", numbers(&[HIDDEN], 3)?),
        ("down.weight", numbers(&[WIDTH, HIDDEN], 4)?),
        ("down.bias", numbers(&[WIDTH], 5)?),
        ("head.weight", numbers(&[VOCABULARY, WIDTH], 6)?),
        ("last.weight", numbers(&[4, VOCABULARY], 7)?),
    ])
}

/// The dimension along which a weight is cut.
fn cut(name: &str) -> Option<usize> {
    match name {
        "embed.weight" | "up.weight" | "up.bias" | "head.weight" => Some(0),
        "down.weight" | "last.weight" => Some(1),
        _ => None,
    }
}

fn ids() -> Result<Tensor> {
    Tensor::new(&[[0u32, 11, 5, 6, 7], [3, 3, 10, 0, 4]], &Device::Cpu)
}

/// The model on one device.
fn whole(weights: &[Tensor], ids: &Tensor) -> Result<Tensor> {
    let [embed, up, up_bias, down, down_bias, head, last] = weights else { panic!("seven weights") };
    let x = Embedding::new(embed.clone(), WIDTH).forward(ids)?;
    let hidden = Linear::new(up.clone(), Some(up_bias.clone())).forward(&x)?.gelu()?;
    let x = (Linear::new(down.clone(), Some(down_bias.clone())).forward(&hidden)? + x)?;
    let logits = Linear::new(head.clone(), None).forward(&x)?;
    Linear::new(last.clone(), None).forward(&logits.tanh()?)
}

/// The model with the parts of this rank.
struct Parallel {
    embed: VocabParallelEmbedding,
    up: ColumnParallelLinear,
    down: RowParallelLinear,
    head: ColumnParallelLinear,
    last: RowParallelLinear,
}

impl Parallel {
    fn new(weights: &[Tensor], group: &ProcessGroup) -> Result<Self> {
        let [embed, up, up_bias, down, down_bias, head, last] = weights else { panic!("seven weights") };
        Ok(Self {
            embed: VocabParallelEmbedding::new(embed.clone(), group)?,
            up: ColumnParallelLinear::new(up.clone(), Some(up_bias.clone()), group)?,
            down: RowParallelLinear::new(down.clone(), Some(down_bias.clone()), group)?,
            head: ColumnParallelLinear::new(head.clone(), None, group)?.gather_output(true),
            last: RowParallelLinear::new(last.clone(), None, group)?.input_is_parallel(false),
        })
    }

    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let x = self.embed.forward(ids)?;
        let x = (self.down.forward(&self.up.forward(&x)?.gelu()?)? + x)?;
        self.last.forward(&self.head.forward(&x)?.tanh()?)
    }
}

#[test]
fn results_and_gradients_are_those_of_one_device() -> Result<()> {
    for ranks in [2, 4] {
        with_ranks("tensor::results_and_gradients_are_those_of_one_device", ranks, |group| {
            let named = weights()?;
            let on_cpu = named.iter().map(|(_, weight)| Var::from_tensor(weight)).collect::<Result<Vec<_>>>()?;
            let tensors = |variables: &[Var]| variables.iter().map(|v| v.as_tensor().clone()).collect::<Vec<_>>();
            let expected = whole(&tensors(&on_cpu), &ids()?)?;
            let part = |name: &str, tensor: &Tensor| match cut(name) {
                Some(dim) => group.shard(tensor, dim),
                None => Ok(tensor.clone()),
            };
            let mine = named
                .iter()
                .map(|(name, weight)| Var::from_tensor(&part(name, weight)?.contiguous()?.to_device(group.device())?));
            let mine = mine.collect::<Result<Vec<_>>>()?;
            let model = Parallel::new(&tensors(&mine), group)?;
            for round in 0..3 {
                let got = model.forward(&ids()?.to_device(group.device())?)?;
                assert_close(&got, &expected, &format!("the result of round {round}"))?;
                // A loss whose gradient is not the same everywhere.
                let (expected, got) = (expected.sqr()?.sum_all()?.backward()?, got.sqr()?.sum_all()?.backward()?);
                for (((name, _), here), there) in named.iter().zip(&mine).zip(&on_cpu) {
                    let (got, expected) = (got.get(here), expected.get(there));
                    let (got, expected) = (got.expect("a gradient"), expected.expect("a gradient"));
                    assert_close(got, &part(name, expected)?, &format!("the gradient of {name} with {ranks} ranks"))?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn ranks_read_their_parts_of_a_file() -> Result<()> {
    with_ranks("tensor::ranks_read_their_parts_of_a_file", 2, |group| {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("model.safetensors");
        let named = weights()?;
        let mut saved: HashMap<_, _> = named.iter().cloned().collect();
        saved.insert("flat.weight", numbers(&[HIDDEN], 8)?);
        candle_core::safetensors::save(&saved, &file)?;
        // SAFETY: nobody changes the file.
        let vb = unsafe { ShardedSafeTensors::var_builder(&[&file], DType::F32, group.device())? };
        let model = Parallel {
            embed: VocabParallelEmbedding::load(VOCABULARY, WIDTH, &vb.pp("embed"), group)?,
            up: ColumnParallelLinear::load(WIDTH, HIDDEN, true, &vb.pp("up"), group)?,
            down: RowParallelLinear::load(HIDDEN, WIDTH, true, &vb.pp("down"), group)?,
            head: ColumnParallelLinear::load(WIDTH, VOCABULARY, false, &vb.pp("head"), group)?.gather_output(true),
            last: RowParallelLinear::load(VOCABULARY, 4, false, &vb.pp("last"), group)?.input_is_parallel(false),
        };
        let all: Vec<Tensor> = named.into_iter().map(|(_, weight)| weight).collect();
        let got = model.forward(&ids()?.to_device(group.device())?)?;
        assert_close(&got, &whole(&all, &ids()?)?, "the model from a file")?;
        // What is not there or does not fit is a sentence.
        let said = sentence(ColumnParallelLinear::load(WIDTH, 9, false, &vb.pp("up"), group));
        assert!(said.contains("cannot be cut into 2 equal parts"), "{said}");
        let said = sentence(RowParallelLinear::load(HIDDEN, 10, false, &vb.pp("down"), group));
        assert!(said.contains("down.weight, not [10, 8]"), "{said}");
        assert!(sentence(VocabParallelEmbedding::load(4, 4, &vb.pp("none"), group)).contains("none.weight"));
        let said = sentence(RowParallelLinear::load(HIDDEN, WIDTH, false, &vb.pp("flat"), group));
        assert!(said.contains("flat.weight has the shape [16], and no dimension 1 to cut"), "{said}");
        let said = sentence(ColumnParallelLinear::new(all[1].clone(), Some(all[4].clone()), group));
        assert!(said.contains("takes a bias of [16], not [8]"), "{said}");
        Ok(())
    })
}

#[test]
fn an_id_that_no_rank_has_is_reported() -> Result<()> {
    with_ranks("tensor::an_id_that_no_rank_has_is_reported", 2, |group| {
        let weight = group.shard(&weights()?[0].1, 0)?.contiguous()?.to_device(group.device())?;
        let embedding = VocabParallelEmbedding::new(weight, group)?;
        let outcome = embedding.forward(&Tensor::new(&[1u32, 12], group.device())?)?.to_vec2::<f32>();
        match group.rank() {
            0 => assert!(outcome.is_ok(), "{outcome:?}"),
            _ => {
                let said = sentence(outcome);
                assert!(said.contains('6'), "{said}");
            }
        }
        let fine = embedding.forward(&Tensor::new(&[11u32], group.device())?)?;
        assert_close(&fine, &weights()?[0].1.narrow(0, 11, 1)?, "the embedding afterwards")
    })
}
