//! Data parallel training: every rank has the whole model and a part of the batch, and all take the same step.

use crate::{ProcessGroup, ReduceOp};
use candle_core::backprop::GradStore;
use candle_core::{bail, DType, Device, Result, Tensor, Var};
use candle_nn::VarMap;
use hip_abi::stable_hash::StableHash;
use std::sync::OnceLock;

/// What PyTorch calls so: makes ranks start from the same variables, and averages their gradients after each backward pass.
///
/// ```
/// use candle_core::{DType, Tensor};
/// use candle_nn::{linear, loss, Module, Optimizer, VarBuilder, VarMap, SGD};
/// use candle_rocm_parallel::{DistributedDataParallel, ProcessGroup};
/// let group = ProcessGroup::from_environment()?;
/// let variables = VarMap::new();
/// let model = linear(2, 1, VarBuilder::from_varmap(&variables, DType::F32, group.device()))?;
/// let parallel = DistributedDataParallel::new(&variables, &group)?;
/// let mut sgd = SGD::new(variables.all_vars(), 0.1)?;
/// // This rank's part of the batch.
/// let (x, y) = (Tensor::ones((4, 2), DType::F32, group.device())?, Tensor::ones((4, 1), DType::F32, group.device())?);
/// let mut gradients = loss::mse(&model.forward(&x)?, &y)?.backward()?;
/// parallel.reduce_gradients(&mut gradients)?;
/// sgd.step(&gradients)?;
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// Where the loss is a mean and the parts of the batch are equally large, the step is that of one rank with the whole batch.
pub struct DistributedDataParallel {
    group: ProcessGroup,
    /// By name, so that all ranks have them in the same order.
    variables: Vec<(String, Var)>,
    bucket_bytes: usize,
    /// Which variables have gradients, since the first backward pass.
    used: OnceLock<Vec<bool>>,
}

/// As many gradients are reduced at once, in MiB; PyTorch has the same.
const BUCKET_CAP_MB: f64 = 25.0;

impl DistributedDataParallel {
    /// Gives all ranks the variables of rank 0. They must have the same names, shapes and dtypes on all of them.
    pub fn new(variables: &VarMap, group: &ProcessGroup) -> Result<Self> {
        let mut named: Vec<(String, Var)> = match variables.data().lock() {
            Ok(all) => all.iter().map(|(name, variable)| (name.clone(), variable.clone())).collect(),
            Err(_) => bail!("the variables cannot be read: a thread that had them panicked"),
        };
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        let parallel = Self {
            group: group.clone(),
            variables: named,
            bucket_bytes: bytes_of_mib(BUCKET_CAP_MB),
            used: OnceLock::new(),
        };
        parallel.check_variables()?;
        for (_, variable) in &parallel.variables {
            variable.set(&group.broadcast(variable, 0)?)?;
        }
        Ok(parallel)
    }

    /// Reduces so many MiB of gradients at once instead of 25.
    pub fn bucket_cap_mb(self, megabytes: f64) -> Self {
        Self { bucket_bytes: bytes_of_mib(megabytes), ..self }
    }

    /// The ranks.
    pub fn group(&self) -> &ProcessGroup {
        &self.group
    }

    /// Replaces each variable's gradient by the average of all ranks' gradients. To be called after every backward pass and before the
    /// optimizer's step, on all ranks.
    ///
    /// Which variables have gradients is compared among the ranks the first time, and must stay so.
    pub fn reduce_gradients(&self, gradients: &mut GradStore) -> Result<()> {
        if self.group.world_size() == 1 {
            return Ok(());
        }
        let present: Vec<bool> = self.variables.iter().map(|(_, variable)| gradients.get(variable).is_some()).collect();
        let used = match self.used.get() {
            Some(used) => used,
            None => {
                let used = self.agree(&present)?;
                self.used.get_or_init(|| used)
            }
        };
        if let Some(at) = (0..present.len()).find(|&at| present[at] != used[at]) {
            let (rank, name) = (self.group.rank(), &self.variables[at].0);
            match present[at] {
                true => bail!("rank {rank}: {name} has a gradient, which it had not the first time; make a new DistributedDataParallel"),
                false => bail!("rank {rank}: {name} has no gradient, which it had the first time; use every variable in each loss"),
            }
        }
        let mut bucket = Bucket::default();
        for ((_, variable), _) in self.variables.iter().zip(used).filter(|(_, used)| **used) {
            // Such as that of a variable which is used twice: it may remember how it was made, and need not.
            let Some(gradient) = gradients.get(variable).map(Tensor::detach) else { continue };
            if bucket.dtype.is_some_and(|dtype| dtype != gradient.dtype()) || bucket.bytes >= self.bucket_bytes {
                std::mem::take(&mut bucket).reduce(&self.group, gradients)?;
            }
            bucket.add(variable, gradient)?;
        }
        bucket.reduce(&self.group, gradients)
    }

    /// Compares what the ranks have: a different order of calls would mix variables up.
    fn check_variables(&self) -> Result<()> {
        let hash = self.variables.iter().fold(StableHash::new(), |hash, (name, variable)| {
            hash.part(name).part(format!("{:?} {:?}", variable.dtype(), variable.dims()))
        });
        let halves = [hash.value() as i64, (hash.value() >> 64) as i64];
        let all = self.group.all_gather(&Tensor::new(&[halves], self.group.device())?, 0)?.to_vec2::<i64>()?;
        if let Some(other) = all.iter().position(|of_rank| *of_rank != all[0]) {
            bail!(
                "rank {other} has other variables than rank 0: names, shapes and dtypes must be the same on all ranks"
            )
        }
        Ok(())
    }

    /// Which variables have gradients, if the ranks agree about it.
    fn agree(&self, present: &[bool]) -> Result<Vec<bool>> {
        if present.is_empty() {
            return Ok(Vec::new());
        }
        let mine = Tensor::from_iter(present.iter().map(|&is| u8::from(is)), &Device::Cpu)?;
        let mine = mine.unsqueeze(0)?.to_device(self.group.device())?;
        let all = self.group.all_gather(&mine, 0)?.to_vec2::<u8>()?;
        for (at, (name, _)) in self.variables.iter().enumerate() {
            if let Some(other) = all.iter().position(|of_rank| of_rank[at] != all[0][at]) {
                let (with, without) = if all[0][at] == 1 { (0, other) } else { (other, 0) };
                bail!("{name} has a gradient on rank {with} and none on rank {without}: use the same variables in the loss on all ranks")
            }
        }
        Ok(present.to_vec())
    }
}

fn bytes_of_mib(megabytes: f64) -> usize {
    (megabytes * 1024.0 * 1024.0) as usize
}

/// Gradients that are reduced at once.
#[derive(Default)]
struct Bucket {
    variables: Vec<Var>,
    gradients: Vec<Tensor>,
    dtype: Option<DType>,
    bytes: usize,
}

impl Bucket {
    fn add(&mut self, variable: &Var, gradient: Tensor) -> Result<()> {
        self.dtype = Some(gradient.dtype());
        self.bytes += gradient.elem_count() * gradient.dtype().size_in_bytes();
        self.variables.push(variable.clone());
        self.gradients.push(gradient.flatten_all()?);
        Ok(())
    }

    fn reduce(self, group: &ProcessGroup, gradients: &mut GradStore) -> Result<()> {
        if self.gradients.is_empty() {
            return Ok(());
        }
        let flat = group.all_reduce(&Tensor::cat(&self.gradients, 0)?, ReduceOp::Average)?;
        let mut start = 0;
        for variable in &self.variables {
            let count = variable.elem_count();
            gradients.insert(variable, flat.narrow(0, start, count)?.reshape(variable.shape())?);
            start += count;
        }
        Ok(())
    }
}
