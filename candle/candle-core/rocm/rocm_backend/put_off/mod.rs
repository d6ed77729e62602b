//! Operations that are put off. Candle asks for one operation after the other; what several of them compute can often be had from one
//! launch that writes nothing in between. So a few operations are not submitted when they are asked for. Their results are promises
//! (`cudarc`'s `CudaSlice`) that keep the operands. An operation that takes such a result looks at what it came from (`patterns.rs`), and
//! whoever looks at the memory itself has it computed then, as it would have been at once.
//!
//! Locks: a result's own is held while it is computed, and taken from results to operands, so that none waits for itself. Writers of
//! operands wait for [`hip::Stream::order_put_off`], which is taken before any result's own and never after.

mod patterns;

pub(super) use patterns::{
    activation, attention, gated, is_fresh, product, repeated, scored_cast, scores_affine, scores_chosen,
    scores_masked, scores_tanh, softmax,
};

use super::{elementwise, matmul, RocmDevice, RocmError, RocmStorage, RocmStorageSlice, WrapErr};
use crate::{DType, Layout, Result};
use cudarc::driver::MadeLater;
use half::{bf16, f16};
use hip::{Buffer, MemoryId, PutOff};
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// A tensor that is read later.
type Source = (RocmStorage, Layout);

/// What was put off.
enum Operation {
    /// Memory of any contents.
    Memory,
    /// One number, in the host's memory.
    Number(f32),
    /// The elements of a tensor in their order.
    Copy(Source),
    /// A function of one tensor, by its kernel.
    Unary(&'static str, Source),
    /// The product of (..., m, k) and (..., k, n): batches, m, n, k.
    Product(Source, Source, (usize, usize, usize, usize)),
    /// `x * mul + add`.
    Affine(Source, f64, f64),
    /// The elements as another dtype.
    Cast(Source),
    /// The sum of two tensors.
    Add(Source, Source),
    /// One of two tensors, by a condition.
    Where(Source, Source, Source),
    /// The softmax over the last dimension.
    Softmax(Source),
}

impl Operation {
    fn name(&self) -> &'static str {
        match self {
            Self::Memory => "alloc_uninit",
            Self::Number(_) => "a number's way to the device",
            Self::Copy(_) => "copy",
            Self::Unary(name, _) => name.strip_prefix('u').unwrap_or(name),
            Self::Product(..) => "matmul",
            Self::Affine(..) => "affine",
            Self::Cast(_) => "to_dtype",
            Self::Add(..) => "add",
            Self::Where(..) => "where",
            Self::Softmax(_) => "softmax-last-dim",
        }
    }

    fn sources(&self) -> Vec<&Source> {
        match self {
            Self::Memory | Self::Number(_) => Vec::new(),
            Self::Copy(x) | Self::Unary(_, x) | Self::Affine(x, ..) | Self::Cast(x) | Self::Softmax(x) => vec![x],
            Self::Product(a, b, _) | Self::Add(a, b) => vec![a, b],
            Self::Where(a, b, c) => vec![a, b, c],
        }
    }

    /// Submits it, as if it had not been put off.
    fn run(&self, device: &RocmDevice, dtype: DType, count: usize) -> Result<RocmStorage> {
        match self {
            Self::Memory => RocmStorage::uninitialised(device, dtype, count),
            Self::Number(number) => RocmStorage::upload_number(device, dtype, *number),
            Self::Copy((x, x_l)) => elementwise::copy(x, x_l),
            Self::Unary(root, (x, x_l)) => elementwise::unary(x, x_l, root, self.name()),
            Self::Product((a, a_l), (b, b_l), bmnk) => matmul::multiply_all(a, b, *bmnk, a_l, b_l),
            Self::Affine((x, x_l), mul, add) => elementwise::affine(x, x_l, *mul, *add),
            Self::Cast((x, x_l)) => elementwise::cast(x, x_l, dtype),
            Self::Add((a, a_l), (b, b_l)) => elementwise::binary(a, b, a_l, b_l, "badd", "add"),
            Self::Where((c, c_l), (t, t_l), (f, f_l)) => elementwise::where_cond(c, c_l, t, t_l, f, f_l),
            Self::Softmax((x, x_l)) => elementwise::softmax(x, x_l),
        }
    }
}

/// An operand, as far as writers ask for it.
enum Reads {
    Memory(MemoryId),
    Result(Weak<Later>),
}

/// The result of an operation that was put off.
pub(super) struct Later {
    device: RocmDevice,
    dtype: DType,
    count: usize,
    name: &'static str,
    /// What it will read; true until there is a result.
    reads: Vec<Reads>,
    /// The number that all of it is, known without looking.
    number: Option<f32>,
    operation: Mutex<State>,
    result: OnceLock<RocmStorageSlice>,
}

enum State {
    Waiting(Box<Operation>),
    Submitted,
    /// It cannot be computed any more, and why.
    GivenUp(String),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Later {
    /// The memory of the result, which is computed now if nobody has asked for it before. After an error the next call tries again.
    pub(super) fn slice(&self) -> Result<&RocmStorageSlice> {
        if let Some(result) = self.result.get() {
            return Ok(result);
        }
        let mut state = lock(&self.operation);
        if let Some(result) = self.result.get() {
            return Ok(result);
        }
        let made = match &*state {
            State::Waiting(operation) => operation.run(&self.device, self.dtype, self.count),
            State::Submitted => Err(RocmError::Refused("its result was lost".to_string()).into()),
            State::GivenUp(why) => Err(RocmError::Refused(why.clone()).into()),
        };
        let made = made.map_err(|error| RocmError::PutOff { op: self.name, error: Box::new(error) })?;
        *state = State::Submitted;
        Ok(self.result.get_or_init(|| made.slice))
    }

    fn is_there(&self) -> bool {
        self.result.get().is_some()
    }
}

impl PutOff for Later {
    fn reads(&self, memory: MemoryId) -> bool {
        !self.is_there()
            && self.reads.iter().any(|operand| match operand {
                Reads::Memory(other) => *other == memory,
                Reads::Result(result) => {
                    let result = result.upgrade();
                    result.and_then(|result| result.result.get()?.memory_if_there()) == Some(memory)
                }
            })
    }

    fn settle(&self) -> hip::Result<()> {
        // What was given up is for whoever needs its result to hear of, and no longer waits.
        if matches!(*lock(&self.operation), State::GivenUp(_)) {
            return Ok(());
        }
        self.slice().map(drop).map_err(|error| as_hip(&error))
    }

    fn abandon(&self, why: &hip::Error) {
        let mut state = lock(&self.operation);
        if matches!(*state, State::Waiting(_)) {
            *state = State::GivenUp(format!("an operand was lost before it could be computed: {why}"));
        }
    }
}

macro_rules! made_later {
    ($($element:ty),*) => {$(
        impl MadeLater<$element> for Later {
            fn make(&self) -> hip::Result<Buffer<$element>> {
                let slice = self.slice().map_err(|error| as_hip(&error))?;
                match <$element as super::RocmDType>::of(slice) {
                    Some(slice) => Ok(slice.buffer()?.share()),
                    None => Err(hip::Error::refused(format!("{} has a result of another dtype", self.name))),
                }
            }

            fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
                self
            }
        }
    )*};
}
made_later!(bf16, f16, f32);

fn as_hip(error: &crate::Error) -> hip::Error {
    hip::Error::refused(error.to_string())
}

/// Whether an operation of these may be put off: only on the one stream of its operands, and not while another thread captures it, whose
/// graph it would become part of.
fn may_wait(device: &RocmDevice, operands: &[&RocmStorage]) -> bool {
    let here = |operand: &&RocmStorage| operand.device.raw_stream() == device.raw_stream();
    device.is_fusing() && !device.raw_stream().is_captured_elsewhere() && operands.iter().all(here)
}

/// Whether results of a dtype can be promised.
fn can_wait(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16 | DType::F32)
}

/// A tensor to be read later.
fn source(storage: &RocmStorage, layout: &Layout) -> Result<Source> {
    Ok((storage.share()?, layout.clone()))
}

/// Puts an operation off that makes `count` elements.
fn put_off(device: &RocmDevice, dtype: DType, count: usize, operation: Operation) -> Result<RocmStorage> {
    let reads: Vec<Reads> = operation
        .sources()
        .iter()
        .filter_map(|(operand, _)| match operand.later() {
            Some(later) => Some(Reads::Result(Arc::downgrade(&later))),
            None => operand.slice.memory_if_there().map(Reads::Memory),
        })
        .collect();
    let name = operation.name();
    let number = if let Operation::Number(number) = operation { Some(number) } else { None };
    let later = Arc::new(Later {
        device: device.clone(),
        dtype,
        count,
        name,
        reads,
        number,
        operation: Mutex::new(State::Waiting(Box::new(operation))),
        result: OnceLock::new(),
    });
    let slice = RocmStorageSlice::promised(device, dtype, count, later.clone())?;
    let listed: Arc<dyn PutOff> = later;
    device.raw_stream().put_off(&listed);
    Ok(RocmStorage { slice, device: device.clone() })
}

/// Memory of any contents, which is taken from the pool when somebody writes to it.
pub(super) fn memory(device: &RocmDevice, dtype: DType, count: usize) -> Result<RocmStorage> {
    match can_wait(dtype) && may_wait(device, &[]) {
        true => put_off(device, dtype, count, Operation::Memory),
        false => RocmStorage::uninitialised(device, dtype, count),
    }
}

/// One number of the host's, which masks are often filled with: nothing has to be sent for that.
pub(super) fn number(device: &RocmDevice, dtype: DType, number: f32) -> Result<Option<RocmStorage>> {
    match can_wait(dtype) && may_wait(device, &[]) {
        true => put_off(device, dtype, 1, Operation::Number(number)).map(Some),
        false => Ok(None),
    }
}
