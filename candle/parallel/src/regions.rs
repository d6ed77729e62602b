//! Where a tensor goes from ranks that all have it to ranks that each have a part, or back: what happens forwards, and what happens to the
//! gradient. They come in pairs, each of which does backwards what the other does forwards.

use crate::collective::{Collective, Verb};
use crate::group::join;
use crate::{ProcessGroup, ReduceOp};
use candle_core::rocm_backend::RocmStorage;
use candle_core::shape::Dim;
use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, D};

/// Every rank has the tensor and will use it with its own weights: the gradient is the sum of all ranks'.
pub fn copy_to_tensor_model_parallel_region(x: &Tensor, group: &ProcessGroup) -> Result<Tensor> {
    apply(x, group, Kind::Copy)
}

/// Every rank gets the sum of all ranks' tensors. The gradient is the same on all of them, and each takes it.
pub fn reduce_from_tensor_model_parallel_region(x: &Tensor, group: &ProcessGroup) -> Result<Tensor> {
    apply(x, group, Kind::Reduce)
}

/// Every rank has the tensor and takes its part of the last dimension.
pub fn scatter_to_tensor_model_parallel_region(x: &Tensor, group: &ProcessGroup) -> Result<Tensor> {
    // Backwards, each part is among zeros, and the sum of these is the whole.
    group.shard(&copy_to_tensor_model_parallel_region(x, group)?, D::Minus1)
}

/// Every rank gets all ranks' parts, joined along the last dimension.
pub fn gather_from_tensor_model_parallel_region(x: &Tensor, group: &ProcessGroup) -> Result<Tensor> {
    let last = D::Minus1.to_index(x.shape(), "gather_from_tensor_model_parallel_region")?;
    match group.world_size() {
        1 => Ok(x.clone()),
        _ => join(&apply(x, group, Kind::Gather)?, last),
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Copy,
    Reduce,
    Gather,
}

/// A collective with its gradient.
struct Region {
    group: ProcessGroup,
    kind: Kind,
    forward: Collective,
}

fn apply(x: &Tensor, group: &ProcessGroup, kind: Kind) -> Result<Tensor> {
    // Nothing goes backwards where nothing is trained, and then the tensor itself will do.
    if group.world_size() == 1 || (matches!(kind, Kind::Copy) && !x.track_op()) {
        return Ok(x.clone());
    }
    let verb = match kind {
        Kind::Copy => Verb::Copy,
        Kind::Reduce => Verb::AllReduce(ReduceOp::Sum),
        Kind::Gather => Verb::AllGather,
    };
    x.contiguous()?.apply_op1(Region { group: group.clone(), kind, forward: group.collective(verb) })
}

impl CustomOp1 for Region {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Copy => "copy_to_tensor_model_parallel_region",
            Kind::Reduce => "reduce_from_tensor_model_parallel_region",
            Kind::Gather => "gather_from_tensor_model_parallel_region",
        }
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.forward.cpu_fwd(storage, layout)
    }

    fn rocm_fwd(&self, storage: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
        self.forward.rocm_fwd(storage, layout)
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let gradient = match self.kind {
            Kind::Copy => self.group.all_reduce(gradient, ReduceOp::Sum)?,
            Kind::Reduce => gradient.clone(),
            Kind::Gather => gradient.get(self.group.rank())?,
        };
        Ok(Some(gradient))
    }
}
