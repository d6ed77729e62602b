//! The ranks that work together, and collectives of tensors.

use crate::collective::{Collective, Verb};
use crate::ReduceOp;
use candle_core::rocm_backend::WrapErr;
use candle_core::shape::Dim;
use candle_core::{bail, Device, Result, Tensor};
use rocm::rccl::{Comm, Id, Launch};

/// A rank of a group and its device. Cloning is cheap, and all clones are the same rank.
///
/// ```
/// use candle_core::Tensor;
/// use candle_rocm_parallel::{ProcessGroup, ReduceOp};
/// let group = ProcessGroup::from_environment()?; // one rank, where no launcher has started the program
/// let mine = Tensor::full(group.rank() as f32, 2, group.device())?;
/// let sum = group.all_reduce(&mine, ReduceOp::Sum)?;
/// assert_eq!(sum.to_vec1::<f32>()?, [0.0, 0.0]);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ProcessGroup {
    comm: Comm,
    device: Device,
}

impl ProcessGroup {
    /// The group of all processes that a launcher has started (`candle-rocm launch`, torchrun, Open MPI, Slurm), each with the device of
    /// its local rank; without a launcher, a group of one rank with the first device.
    pub fn from_environment() -> Result<Self> {
        match Launch::from_environment().w()? {
            Some(launch) => {
                let device = Device::new_rocm(launch.local_rank)?;
                let comm = launch.join(device.as_rocm_device()?.stream()).w()?;
                Ok(Self { comm, device })
            }
            None => {
                let device = Device::new_rocm(0)?;
                let id = Id::new(device.as_rocm_device()?.hip_device().platform()).w()?;
                Self::new(&device, &id, 0, 1)
            }
        }
    }

    /// Joins a group as this rank of so many, and waits until all are there. One rank makes the id, the others get its bytes. Ranks may be
    /// threads, each with a device of its own. `to_device` to another rank's device waits behind that rank's collectives, which may wait for
    /// this rank: exchange tensors by collectives.
    pub fn new(device: &Device, id: &Id, rank: usize, world_size: usize) -> Result<Self> {
        let comm = Comm::from_rank(device.as_rocm_device()?.stream(), id, rank, world_size).w()?;
        Ok(Self { comm, device: device.clone() })
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.comm.rank()
    }

    /// How many ranks there are.
    pub fn world_size(&self) -> usize {
        self.comm.ranks()
    }

    /// The device of this rank.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Each rank gets the reduction of all ranks' tensors, which have one shape. No gradient goes through it.
    pub fn all_reduce(&self, x: &Tensor, op: ReduceOp) -> Result<Tensor> {
        self.run(x, Verb::AllReduce(op))
    }

    /// Each rank gets all ranks' tensors, which have one shape, joined along a dimension in the order of ranks. No gradient goes through it.
    pub fn all_gather(&self, x: &Tensor, dim: impl Dim) -> Result<Tensor> {
        let dim = dim.to_index(x.shape(), "all_gather")?;
        join(&self.run(x, Verb::AllGather)?, dim)
    }

    /// Each rank gets the tensor of rank `src`; those of the others are of its shape. No gradient goes through it.
    pub fn broadcast(&self, x: &Tensor, src: usize) -> Result<Tensor> {
        self.run(x, Verb::Broadcast(src))
    }

    /// This rank's part of a tensor that is cut along a dimension into as many equal parts as there are ranks.
    pub fn shard(&self, x: &Tensor, dim: impl Dim) -> Result<Tensor> {
        let dim = dim.to_index(x.shape(), "shard")?;
        let part = self.part_of(x.dims()[dim], "this dimension")?;
        x.narrow(dim, self.rank() * part, part)
    }

    /// Waits for all work of the device and says what went wrong with the ranks.
    pub fn wait(&self) -> Result<()> {
        // Settles what was put off.
        self.device.as_rocm_device()?.stream();
        self.comm.wait().w()
    }

    /// The size of each rank's part.
    pub(crate) fn part_of(&self, size: usize, what: &str) -> Result<usize> {
        if !size.is_multiple_of(self.world_size()) {
            bail!("{what} of {size} cannot be cut into {} equal parts, one for each rank", self.world_size())
        }
        Ok(size / self.world_size())
    }

    pub(crate) fn collective(&self, verb: Verb) -> Collective {
        Collective { comm: self.comm.clone(), verb }
    }

    fn run(&self, x: &Tensor, verb: Verb) -> Result<Tensor> {
        x.contiguous()?.apply_op1_no_bwd(&self.collective(verb))
    }
}

/// Takes the ranks from the first dimension into another one.
pub(crate) fn join(gathered: &Tensor, dim: usize) -> Result<Tensor> {
    let mut order: Vec<usize> = (1..gathered.rank()).collect();
    order.insert(dim, 0);
    let mut shape = gathered.dims()[1..].to_vec();
    shape[dim] *= gathered.dims()[0];
    gathered.permute(order)?.reshape(shape)
}
