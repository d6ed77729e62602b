//! Linear layers whose weights are cut among the ranks: by outputs (columns of the transposed weights, hence the name) or by inputs.

use crate::regions::{
    copy_to_tensor_model_parallel_region, gather_from_tensor_model_parallel_region,
    reduce_from_tensor_model_parallel_region, scatter_to_tensor_model_parallel_region,
};
use crate::ProcessGroup;
use candle_core::{bail, Module, Result, Tensor};
use candle_nn::var_builder::{Shard, ShardedVarBuilder};
use candle_nn::Linear;

/// A linear layer of which each rank has a part of the outputs. Every rank has the whole input, and gets its part of the result.
#[derive(Clone, Debug)]
pub struct ColumnParallelLinear {
    linear: Linear,
    group: ProcessGroup,
    gather_output: bool,
}

impl ColumnParallelLinear {
    /// A layer with this rank's rows of the weights (outputs, inputs) and its part of the bias.
    pub fn new(weight: Tensor, bias: Option<Tensor>, group: &ProcessGroup) -> Result<Self> {
        check_bias(&weight, bias.as_ref())?;
        Ok(Self { linear: Linear::new(weight, bias), group: group.clone(), gather_output: false })
    }

    /// Reads this rank's part of `weight` and, if it has one, `bias` of a layer with so many inputs and outputs in all.
    pub fn load(
        in_dim: usize,
        out_dim: usize,
        bias: bool,
        vb: &ShardedVarBuilder,
        group: &ProcessGroup,
    ) -> Result<Self> {
        let mine = group.part_of(out_dim, "a ColumnParallelLinear's output")?;
        let weight = load_shard(vb, "weight", 0, &[mine, in_dim], group)?;
        let bias = bias.then(|| load_shard(vb, "bias", 0, &[mine], group)).transpose()?;
        Self::new(weight, bias, group)
    }

    /// Whether every rank gets the whole result instead of its part.
    pub fn gather_output(self, gather_output: bool) -> Self {
        Self { gather_output, ..self }
    }
}

impl Module for ColumnParallelLinear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let part = self.linear.forward(&copy_to_tensor_model_parallel_region(x, &self.group)?)?;
        match self.gather_output {
            true => gather_from_tensor_model_parallel_region(&part, &self.group),
            false => Ok(part),
        }
    }
}

/// A linear layer of which each rank has a part of the inputs, as a [`ColumnParallelLinear`] before it gives them. Every rank gets the whole
/// result, which is the sum of theirs.
#[derive(Clone, Debug)]
pub struct RowParallelLinear {
    linear: Linear,
    bias: Option<Tensor>,
    group: ProcessGroup,
    input_is_parallel: bool,
}

impl RowParallelLinear {
    /// A layer with this rank's columns of the weights (outputs, inputs) and the whole bias.
    pub fn new(weight: Tensor, bias: Option<Tensor>, group: &ProcessGroup) -> Result<Self> {
        check_bias(&weight, bias.as_ref())?;
        Ok(Self { linear: Linear::new(weight, None), bias, group: group.clone(), input_is_parallel: true })
    }

    /// Reads this rank's part of `weight` and, if it has one, all of `bias` of a layer with so many inputs and outputs in all.
    pub fn load(
        in_dim: usize,
        out_dim: usize,
        bias: bool,
        vb: &ShardedVarBuilder,
        group: &ProcessGroup,
    ) -> Result<Self> {
        let mine = group.part_of(in_dim, "a RowParallelLinear's input")?;
        let weight = load_shard(vb, "weight", 1, &[out_dim, mine], group)?;
        let bias = bias.then(|| vb.get(out_dim, "bias")).transpose()?;
        Self::new(weight, bias, group)
    }

    /// Whether the input is this rank's part, as it is without this call, or the whole one, of which it takes its part.
    pub fn input_is_parallel(self, input_is_parallel: bool) -> Self {
        Self { input_is_parallel, ..self }
    }
}

impl Module for RowParallelLinear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let part = match self.input_is_parallel {
            true => self.linear.forward(x)?,
            false => self.linear.forward(&scatter_to_tensor_model_parallel_region(x, &self.group)?)?,
        };
        let sum = reduce_from_tensor_model_parallel_region(&part, &self.group)?;
        match &self.bias {
            // Once, and not by each rank.
            Some(bias) => sum.broadcast_add(bias),
            None => Ok(sum),
        }
    }
}

fn check_bias(weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    let (outputs, _) = weight.dims2()?;
    match bias {
        Some(bias) if bias.dims() != [outputs] => {
            bail!("a layer of weights {:?} takes a bias of [{outputs}], not {:?}", weight.dims(), bias.dims())
        }
        _ => Ok(()),
    }
}

/// Reads this rank's part of a tensor and nothing else of it.
pub(crate) fn load_shard(
    vb: &ShardedVarBuilder,
    name: &str,
    dim: usize,
    shape: &[usize],
    group: &ProcessGroup,
) -> Result<Tensor> {
    let shard = Shard { dim, rank: group.rank(), world_size: group.world_size() };
    let part = vb.get_with_hints(shape, name, shard)?;
    if part.dims() != shape {
        bail!(
            "rank {} of {} found a part of shape {:?} in {}.{name}, not {shape:?}",
            group.rank(),
            group.world_size(),
            part.dims(),
            vb.prefix()
        )
    }
    Ok(part)
}
