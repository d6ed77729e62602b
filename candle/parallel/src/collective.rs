//! Collectives as operations of Candle, without gradients: those of a tensor-parallel layer depend on which side of it they are.

use crate::ReduceOp;
use candle_core::backend::BackendStorage;
use candle_core::rocm_backend::{RocmDType, RocmStorage, WrapErr};
use candle_core::{bail, CpuStorage, CustomOp1, DType, Layout, Result, Shape};
use rocm::rccl::{Comm, Element};

/// What ranks do with a contiguous tensor of each.
#[derive(Clone, Copy, Debug)]
pub enum Verb {
    /// Each keeps its own, as a copy.
    Copy,
    /// The reduction of all of them.
    AllReduce(ReduceOp),
    /// All of them, in the order of ranks, along a new first dimension.
    AllGather,
    /// That of one rank.
    Broadcast(usize),
}

/// One call of this rank.
pub struct Collective {
    pub comm: Comm,
    pub verb: Verb,
}

impl Collective {
    fn run<T: RocmDType + Element>(&self, x: &RocmStorage, layout: &Layout) -> Result<RocmStorage> {
        let Some((from, to)) = layout.contiguous_offsets() else { bail!("{} wants a contiguous tensor", self.name()) };
        // What was put off comes before, as the other ranks have it.
        let (device, stream) = (x.device(), x.device().stream());
        if stream != self.comm.stream() {
            bail!("{}: the tensor is on {device:?}, and rank {} on another", self.name(), self.comm.rank())
        }
        let input = x.as_rocm_slice::<T>()?.view().slice(from..to).w()?;
        let count = match self.verb {
            Verb::AllGather => (to - from) * self.comm.ranks(),
            Verb::Copy | Verb::AllReduce(_) | Verb::Broadcast(_) => to - from,
        };
        let mut output = stream.alloc::<T>(count).w()?;
        match self.verb {
            Verb::Copy => output.copy_from(input).w()?,
            Verb::AllReduce(op) => self.comm.all_reduce(input, &mut output, op).w()?,
            Verb::AllGather => self.comm.all_gather(input, &mut output).w()?,
            Verb::Broadcast(root) => {
                output.copy_from(input).w()?;
                self.comm.broadcast(&mut output, root).w()?;
            }
        }
        Ok(RocmStorage::wrap_rocm_slice::<T>(output, device.clone()))
    }
}

impl CustomOp1 for Collective {
    fn name(&self) -> &'static str {
        match self.verb {
            Verb::Copy => "copy",
            Verb::AllReduce(_) => "all_reduce",
            Verb::AllGather => "all_gather",
            Verb::Broadcast(_) => "broadcast",
        }
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        bail!("{} takes a tensor of the group's device, not of the CPU; use to_device", self.name())
    }

    fn rocm_fwd(&self, x: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
        let result = match x.dtype() {
            DType::U8 => self.run::<u8>(x, layout),
            DType::U32 => self.run::<u32>(x, layout),
            DType::I32 => self.run::<i32>(x, layout),
            DType::I64 => self.run::<i64>(x, layout),
            DType::F16 => self.run::<half::f16>(x, layout),
            DType::BF16 => self.run::<half::bf16>(x, layout),
            DType::F32 => self.run::<f32>(x, layout),
            DType::F64 => self.run::<f64>(x, layout),
            other => bail!(
                "{} takes u8, u32, i32, i64, f16, bf16, f32 and f64, not {other:?}; cast the tensor first",
                self.name()
            ),
        };
        let shape = match self.verb {
            Verb::AllGather => Shape::from([&[self.comm.ranks()], layout.dims()].concat()),
            Verb::Copy | Verb::AllReduce(_) | Verb::Broadcast(_) => layout.shape().clone(),
        };
        Ok((result?, shape))
    }
}
