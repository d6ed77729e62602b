//! The calls of a rank, each on its own or several as a [`Group`]. A call is checked when it is made; the library hears of it afterwards.

use super::abi::{ncclComm_t, ncclDataType_t, ncclRedOp_t, Element, Rccl};
use super::{check, enter, table_of, Comm, Op};
use hip::{Error, Platform, Result, View, ViewMut};
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

/// What to do.
#[derive(Clone, Copy)]
enum Verb {
    AllReduce(ncclRedOp_t),
    Reduce(ncclRedOp_t, c_int),
    Broadcast(c_int),
    ReduceScatter(ncclRedOp_t),
    AllGather,
    Send(c_int),
    Receive(c_int),
}

/// A call with its operands, which it borrows until the library has it: after that, their streams keep the memory.
struct Call<'a> {
    comm: Comm,
    verb: Verb,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: ncclDataType_t,
    operands: PhantomData<&'a ()>,
}

/// Where an operand lies: the stream must be the rank's, and a graph being captured keeps the memory.
fn place<T: Element>(comm: &Comm, view: View<'_, T>) -> Result<*mut c_void> {
    comm.stream().uses(view)?;
    Ok(view.ptr().as_raw())
}

impl<'a> Call<'a> {
    /// `count` is as RCCL counts: elements of the smaller operand, where they differ.
    fn new<T: Element>(
        comm: &Comm,
        verb: Verb,
        input: Option<View<'_, T>>,
        output: Option<View<'_, T>>,
        count: usize,
    ) -> Result<Self> {
        let null = std::ptr::null_mut();
        let input = input.map_or(Ok(null), |view| place(comm, view))?.cast_const();
        let output = output.map_or(Ok(null), |view| place(comm, view))?;
        comm.stream().keep_in_capture(comm.clone());
        Ok(Self { comm: comm.clone(), verb, input, output, count, dtype: T::DTYPE, operands: PhantomData })
    }

    /// Hands the call to the library.
    fn submit(&self) -> Result<()> {
        let Self { comm, input, output, count, dtype, .. } = self;
        let (input, output, count, dtype) = (*input, *output, *count, *dtype);
        let (table, stream) = (comm.0.table, comm.stream().handle());
        let handle = comm.0.handle()?;
        comm.stream().device().make_current()?;
        enter(comm.stream().device().platform())?;
        // SAFETY: the operands hold as many elements as the call says, of that type, in memory that the stream keeps until work queued
        // on it is done; the handle and the stream are alive.
        let (call, code) = unsafe {
            match self.verb {
                Verb::AllReduce(op) => {
                    ("ncclAllReduce", (table.ncclAllReduce)(input, output, count, dtype, op, handle, stream))
                }
                Verb::Reduce(op, root) => {
                    ("ncclReduce", (table.ncclReduce)(input, output, count, dtype, op, root, handle, stream))
                }
                Verb::Broadcast(root) => {
                    ("ncclBroadcast", (table.ncclBroadcast)(input, output, count, dtype, root, handle, stream))
                }
                Verb::ReduceScatter(op) => {
                    ("ncclReduceScatter", (table.ncclReduceScatter)(input, output, count, dtype, op, handle, stream))
                }
                Verb::AllGather => {
                    ("ncclAllGather", (table.ncclAllGather)(input, output, count, dtype, handle, stream))
                }
                Verb::Send(peer) => ("ncclSend", (table.ncclSend)(input, count, dtype, peer, handle, stream)),
                Verb::Receive(peer) => ("ncclRecv", (table.ncclRecv)(output, count, dtype, peer, handle, stream)),
            }
        };
        check(table, call, handle, code)
    }
}

/// How many elements two operands must have, in words, where they do not.
fn refuse_sizes(call: &str, input: usize, output: usize, wanted: &str) -> Error {
    Error::refused(format!("{call} got {input} elements and a result of {output}, which must be {wanted}"))
}

/// A rank's number, if there is such a rank.
fn other(comm: &Comm, rank: usize) -> Result<c_int> {
    let there = rank < comm.ranks();
    there.then_some(rank as c_int).ok_or_else(|| {
        Error::refused(format!("there is no rank {rank} among {}; they are numbered from 0", comm.ranks()))
    })
}

/// The calls themselves: what each asks of its operands.
impl<'a> Call<'a> {
    fn all_reduce<T: Element>(comm: &Comm, input: View<'a, T>, output: ViewMut<'a, T>, op: Op) -> Result<Self> {
        if input.len() != output.len() {
            return Err(refuse_sizes("all_reduce", input.len(), output.len(), "as many"));
        }
        Self::new(comm, Verb::AllReduce(op.number()), Some(input), Some(output.as_view()), input.len())
    }

    fn all_reduce_in_place<T: Element>(comm: &Comm, data: ViewMut<'a, T>, op: Op) -> Result<Self> {
        let view = data.as_view();
        Self::new(comm, Verb::AllReduce(op.number()), Some(view), Some(view), view.len())
    }

    fn reduce<T: Element>(
        comm: &Comm,
        input: View<'a, T>,
        output: Option<ViewMut<'a, T>>,
        op: Op,
        root: usize,
    ) -> Result<Self> {
        match &output {
            Some(output) if output.len() != input.len() => {
                return Err(refuse_sizes("reduce", input.len(), output.len(), "as many"));
            }
            None if root == comm.rank() => {
                return Err(Error::refused(format!("rank {root} gets what is reduced, and gave no memory for it")));
            }
            _ => {}
        }
        let verb = Verb::Reduce(op.number(), other(comm, root)?);
        Self::new(comm, verb, Some(input), output.as_ref().map(ViewMut::as_view), input.len())
    }

    fn broadcast<T: Element>(comm: &Comm, data: ViewMut<'a, T>, root: usize) -> Result<Self> {
        let view = data.as_view();
        Self::new(comm, Verb::Broadcast(other(comm, root)?), Some(view), Some(view), view.len())
    }

    fn reduce_scatter<T: Element>(comm: &Comm, input: View<'a, T>, output: ViewMut<'a, T>, op: Op) -> Result<Self> {
        if Some(input.len()) != output.len().checked_mul(comm.ranks()) {
            return Err(refuse_sizes("reduce_scatter", input.len(), output.len(), "those divided by the ranks"));
        }
        Self::new(comm, Verb::ReduceScatter(op.number()), Some(input), Some(output.as_view()), output.len())
    }

    fn all_gather<T: Element>(comm: &Comm, input: View<'a, T>, output: ViewMut<'a, T>) -> Result<Self> {
        if input.len().checked_mul(comm.ranks()) != Some(output.len()) {
            return Err(refuse_sizes("all_gather", input.len(), output.len(), "those times the ranks"));
        }
        Self::new(comm, Verb::AllGather, Some(input), Some(output.as_view()), input.len())
    }

    fn send<T: Element>(comm: &Comm, input: View<'a, T>, peer: usize) -> Result<Self> {
        Self::new(comm, Verb::Send(other(comm, peer)?), Some(input), None, input.len())
    }

    fn recv<T: Element>(comm: &Comm, output: ViewMut<'a, T>, peer: usize) -> Result<Self> {
        Self::new(comm, Verb::Receive(other(comm, peer)?), None, Some(output.as_view()), output.len())
    }
}

/// Declares each call twice: as a method of a rank, done at once, and as one of a group, done at its end.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*);)*) => {
        impl Comm {
            $($(#[$doc])*
            pub fn $name<'a, T: Element>(&self, $($argument: $type),*) -> Result<()> {
                Call::$name(self, $($argument.into()),*)?.submit()
            })*
        }

        impl<'a> Group<'a> {
            $(#[doc = concat!("[`Comm::", stringify!($name), "`] of this rank, as part of the group.")]
            pub fn $name<T: Element>(&mut self, comm: &Comm, $($argument: $type),*) -> Result<()> {
                self.calls.push(Call::$name(comm, $($argument.into()),*)?);
                Ok(())
            })*
        }
    };
}

calls! {
    /// Each rank gets the reduction of all ranks' elements.
    all_reduce(input: impl Into<View<'a, T>>, output: impl Into<ViewMut<'a, T>>, op: Op);
    /// Each rank's elements become the reduction of all ranks' elements.
    all_reduce_in_place(data: impl Into<ViewMut<'a, T>>, op: Op);
    /// The root gets the reduction of all ranks' elements; the others need no memory for it.
    reduce(input: impl Into<View<'a, T>>, output: Option<ViewMut<'a, T>>, op: Op, root: usize);
    /// Each rank's elements become those of the root.
    broadcast(data: impl Into<ViewMut<'a, T>>, root: usize);
    /// Each rank gets its part of the reduction: rank 0 the first elements, and so on. The input is as many times larger as there are ranks.
    reduce_scatter(input: impl Into<View<'a, T>>, output: impl Into<ViewMut<'a, T>>, op: Op);
    /// Each rank gets all ranks' elements, in the order of ranks.
    all_gather(input: impl Into<View<'a, T>>, output: impl Into<ViewMut<'a, T>>);
    /// Sends elements to a rank, which calls [`Comm::recv`] for as many. To send and receive at once, use a [`Group`].
    send(input: impl Into<View<'a, T>>, peer: usize);
    /// Receives the elements that a rank sends to this one.
    recv(output: impl Into<ViewMut<'a, T>>, peer: usize);
}

/// Calls that happen together: a rank may send and receive at once, and one thread may be several ranks.
///
/// ```
/// # use rocm::rccl::{Comm, Group};
/// # let device = hip::Platform::named("host")?.device(0)?;
/// let streams = [device.new_stream()?, device.new_stream()?];
/// let comms = Comm::for_streams(&streams)?;
/// let (mine, mut theirs) = (streams[0].upload(&[1u32])?, streams[0].alloc::<u32>(1)?);
/// let (yours, mut ours) = (streams[1].upload(&[2u32])?, streams[1].alloc::<u32>(1)?);
/// let mut group = Group::new(device.platform())?;
/// group.send(&comms[0], &mine, 1)?;
/// group.recv(&comms[0], &mut theirs, 1)?;
/// group.send(&comms[1], &yours, 0)?;
/// group.recv(&comms[1], &mut ours, 0)?;
/// group.run()?;
/// assert_eq!((theirs.to_vec()?, ours.to_vec()?), (vec![2], vec![1]));
/// # Ok::<(), hip::Error>(())
/// ```
pub struct Group<'a> {
    table: &'static Rccl,
    calls: Vec<Call<'a>>,
}

impl Group<'_> {
    /// An empty one. Nothing happens before [`Group::run`].
    pub fn new(platform: &Platform) -> Result<Self> {
        Ok(Self { table: table_of(platform)?, calls: Vec::new() })
    }

    /// Hands all calls to the library, together. If one is refused, none happens.
    pub fn run(self) -> Result<()> {
        let null = ncclComm_t::NULL;
        if let Some(call) = self.calls.iter().find(|call| !std::ptr::eq(call.comm.0.table, self.table)) {
            return Err(Error::refused(format!("{:?} belongs to another platform than the group", call.comm)));
        }
        // SAFETY: the call takes nothing; the end is below, whatever happens in between.
        check(self.table, "ncclGroupStart", null, unsafe { (self.table.ncclGroupStart)() })?;
        let submitted = self.calls.iter().try_for_each(Call::submit);
        // SAFETY: as above; the operands are borrowed until here.
        let code = unsafe { (self.table.ncclGroupEnd)() };
        submitted?;
        check(self.table, "ncclGroupEnd", null, code)
    }
}
