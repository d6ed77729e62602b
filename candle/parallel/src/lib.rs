//! Models on several ROCm devices. Each device belongs to a rank, which is a process or a thread, and ranks work together through RCCL;
//! on embedded devices through shared memory. Names are those of PyTorch's `torch.distributed` and of Megatron's parallel layers.
//!
//! - [`ProcessGroup`]: the ranks, and collectives of tensors.
//! - [`DistributedDataParallel`]: every rank has the whole model and a part of the batch; gradients are averaged.
//! - [`ColumnParallelLinear`], [`RowParallelLinear`], [`VocabParallelEmbedding`]: every rank has a part of a layer's weights.
//!
//! All ranks make the same calls in the same order. A collective is work on the device's stream, in order with Candle's operations:
//! nothing waits for it but what uses its result. A rank that is missing is an error at the next call that waits, such as `to_vec1`.

mod collective;
mod data;
mod embedding;
mod group;
mod linear;
mod regions;

pub use data::DistributedDataParallel;
pub use embedding::VocabParallelEmbedding;
pub use group::ProcessGroup;
pub use linear::{ColumnParallelLinear, RowParallelLinear};
pub use regions::{
    copy_to_tensor_model_parallel_region, gather_from_tensor_model_parallel_region,
    reduce_from_tensor_model_parallel_region, scatter_to_tensor_model_parallel_region,
};
pub use rocm::rccl::Op as ReduceOp;
