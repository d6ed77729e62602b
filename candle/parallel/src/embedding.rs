//! An embedding whose vocabulary is cut among the ranks.

use crate::linear::load_shard;
use crate::regions::reduce_from_tensor_model_parallel_region;
use crate::ProcessGroup;
use candle_core::{DType, Module, Result, Tensor};
use candle_nn::var_builder::ShardedVarBuilder;
use candle_nn::Embedding;

/// An embedding of which each rank has the rows of its part of the vocabulary. Every rank gets all ids, and the whole result.
#[derive(Clone, Debug)]
pub struct VocabParallelEmbedding {
    embedding: Embedding,
    rows: usize,
    group: ProcessGroup,
}

impl VocabParallelEmbedding {
    /// An embedding with this rank's rows (vocabulary, hidden size); all ranks have as many.
    pub fn new(weight: Tensor, group: &ProcessGroup) -> Result<Self> {
        let (rows, hidden) = weight.dims2()?;
        Ok(Self { embedding: Embedding::new(weight, hidden), rows, group: group.clone() })
    }

    /// Reads this rank's rows of `weight`, of a vocabulary of that size in all.
    pub fn load(vocab_size: usize, hidden_size: usize, vb: &ShardedVarBuilder, group: &ProcessGroup) -> Result<Self> {
        let rows = group.part_of(vocab_size, "a vocabulary")?;
        Self::new(load_shard(vb, "weight", 0, &[rows, hidden_size], group)?, group)
    }
}

impl Module for VocabParallelEmbedding {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let (rank, ranks) = (self.group.rank(), self.group.world_size());
        if ranks == 1 {
            return self.embedding.forward(ids);
        }
        let place = ids.to_dtype(DType::I64)?.affine(1.0, -((rank * self.rows) as f64))?;
        let mut here = place.ones_like()?.to_dtype(DType::U8)?;
        // The first and the last rank also look up ids that no rank has, so that these are reported as in any embedding.
        if rank > 0 {
            here = (here * place.ge(0i64)?)?;
        }
        if rank + 1 < ranks {
            here = (here * place.lt(self.rows as i64)?)?;
        }
        let found = self.embedding.forward(&here.where_cond(&place, &place.zeros_like()?)?)?;
        let mask = here.unsqueeze(here.rank())?.broadcast_as(found.shape())?;
        let mine = mask.where_cond(&found, &found.zeros_like()?)?;
        reduce_from_tensor_model_parallel_region(&mine, &self.group)
    }
}
