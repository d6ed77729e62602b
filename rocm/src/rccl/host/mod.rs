//! RCCL's ABI on the embedded device, between threads of a process and between processes of a machine, through shared memory. A call is
//! work on its stream, like a kernel, so it can be captured; ranks of other machines are not reached.

mod engine;
mod group;
mod meet;
mod member;
mod plan;
mod process;
mod reduce;
mod segment;
mod socket;

use super::abi::*;
use super::limit;
use crate::embedded::{Address, Registry};
use group::Join;
use hip_abi::{hipStream_t, Origin};
use member::{Member, Trouble};
use plan::{Call, Verb};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CString};
use std::sync::{Arc, OnceLock};

/// The table of the embedded device.
pub fn table() -> &'static Rccl {
    static TABLE: OnceLock<Rccl> = OnceLock::new();
    TABLE.get_or_init(|| Rccl {
        origin: Origin::BuiltIn("collectives of the embedded device"),
        ncclGetVersion: version,
        ncclGetUniqueId: unique_id,
        ncclCommInitRank: init_rank,
        ncclCommInitAll: init_all,
        ncclCommDestroy: destroy,
        ncclCommAbort: abort,
        ncclGetErrorString: error_string,
        ncclGetLastError: Some(last_error),
        ncclCommGetAsyncError: async_error,
        ncclCommCount: count,
        ncclCommCuDevice: device,
        ncclCommUserRank: user_rank,
        ncclAllReduce: all_reduce,
        ncclReduce: reduce,
        ncclBroadcast: broadcast,
        ncclReduceScatter: reduce_scatter,
        ncclAllGather: all_gather,
        ncclSend: send,
        ncclRecv: receive,
        ncclGroupStart: group_start,
        ncclGroupEnd: group_end,
    })
}

static MEMBERS: Registry<Arc<Member>> = Registry::new();

thread_local! {
    /// What the last failed call of this thread had to say.
    static LAST: RefCell<CString> = RefCell::default();
}

fn keep(sentence: &str) {
    LAST.set(CString::new(sentence.replace('\0', " ")).unwrap_or_default());
}

/// Runs one call: injected faults, and what a failure leaves behind for `ncclGetLastError` and for an open group.
fn call(name: &'static str, body: impl FnOnce() -> Result<(), Trouble>) -> ncclResult_t {
    let done = match hip_host::inject::check(name) {
        Some(status) => Err(Trouble::new(ncclResult_t(status), "this failure was planned by a test")),
        None => body(),
    };
    let Err(trouble) = done else { return ncclResult_t::ncclSuccess };
    keep(&trouble.sentence);
    group::spoil(&trouble);
    trouble.code
}

/// Releases a member, whatever a test has planned.
fn release(name: &'static str, comm: ncclComm_t, last: impl FnOnce(&Member)) -> ncclResult_t {
    let found = MEMBERS.remove(comm.0);
    call(name, || {
        last(&*found.ok_or_else(unknown)?);
        Ok(())
    })
}

fn unknown() -> Trouble {
    Trouble::argument("the communicator is not known: it was destroyed, or never made")
}

fn member(comm: ncclComm_t) -> Result<Arc<Member>, Trouble> {
    MEMBERS.with(comm.0, |member| member.clone()).ok_or_else(unknown)
}

/// Puts an answer where the caller wants it.
///
/// # Safety
/// The place is null or good for a value.
unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Trouble> {
    if place.is_null() {
        return Err(Trouble::argument("there is no place for the answer"));
    }
    // SAFETY: as the caller says.
    unsafe { place.write(value) };
    Ok(())
}

unsafe extern "C" fn version(version: *mut c_int) -> ncclResult_t {
    // The release of the interface, which is that of ROCm 6.0.
    // SAFETY: the caller's promise.
    call("ncclGetVersion", || unsafe { put(version, 21803) })
}

unsafe extern "C" fn unique_id(id: *mut ncclUniqueId) -> ncclResult_t {
    call("ncclGetUniqueId", || {
        let bytes = meet::open().map_err(|why| Trouble::new(ncclResult_t::ncclSystemError, why))?;
        // SAFETY: the caller's promise.
        unsafe { put(id, ncclUniqueId { internal: bytes.map(|byte| byte as c_char) }) }
    })
}

fn current_device() -> Result<c_int, Trouble> {
    let mut device = 0;
    // SAFETY: the place is ours.
    let code = unsafe { (hip_host::table().hipGetDevice)(&mut device) };
    match code.is_success() {
        true => Ok(device),
        false => Err(Trouble::new(ncclResult_t::ncclUnhandledCudaError, format!("there is no device: {code}"))),
    }
}

/// Checks a number of ranks and a rank.
fn numbers(ranks: c_int, rank: c_int) -> Result<(usize, usize), Trouble> {
    let limits = || {
        let most = segment::MAX_RANKS;
        Trouble::argument(format!(
            "there is no rank {rank} of {ranks}; communicators have 1 to {most} ranks, numbered from 0"
        ))
    };
    let ranks =
        usize::try_from(ranks).ok().filter(|ranks| (1..=segment::MAX_RANKS).contains(ranks)).ok_or_else(limits)?;
    let rank = usize::try_from(rank).ok().filter(|rank| *rank < ranks).ok_or_else(limits)?;
    Ok((ranks, rank))
}

fn current_limit() -> Result<std::time::Duration, Trouble> {
    limit::from_environment().map_err(|why| Trouble::argument(why.to_string()))
}

unsafe extern "C" fn init_rank(comm: *mut ncclComm_t, ranks: c_int, id: ncclUniqueId, rank: c_int) -> ncclResult_t {
    call("ncclCommInitRank", || {
        let (ranks, rank) = numbers(ranks, rank)?;
        // SAFETY: the caller's promise.
        unsafe { put(comm, ncclComm_t::NULL) }?;
        let id = id.internal.map(|byte| byte as u8);
        let join =
            Join { id, ranks, rank, device: current_device()?, limit: current_limit()?, place: Address::of(comm) };
        group::join(vec![join])
    })
}

unsafe extern "C" fn init_all(comms: *mut ncclComm_t, count: c_int, devices: *const c_int) -> ncclResult_t {
    call("ncclCommInitAll", || {
        let (ranks, _) = numbers(count, 0)?;
        let mut available = 0;
        // SAFETY: the place is ours.
        unsafe { (hip_host::table().hipGetDeviceCount)(&mut available) };
        let (id, limit) =
            (meet::open().map_err(|why| Trouble::new(ncclResult_t::ncclSystemError, why))?, current_limit()?);
        let mut joins = Vec::new();
        for rank in 0..ranks {
            // SAFETY: the caller promises lists of `count`; without a list, the devices are the first ones.
            let device = if devices.is_null() { rank as c_int } else { unsafe { *devices.add(rank) } };
            if !(0..available).contains(&device) {
                return Err(Trouble::argument(format!("there is no device {device} among {available}")));
            }
            // SAFETY: as above.
            unsafe { put(comms.add(rank), ncclComm_t::NULL) }?;
            let place = Address::of(comms.wrapping_add(rank));
            joins.push(Join { id, ranks, rank, device, limit, place });
        }
        group::join(joins)
    })
}

unsafe extern "C" fn destroy(comm: ncclComm_t) -> ncclResult_t {
    release("ncclCommDestroy", comm, |_| {})
}

unsafe extern "C" fn abort(comm: ncclComm_t) -> ncclResult_t {
    release("ncclCommAbort", comm, Member::abort)
}

unsafe extern "C" fn error_string(result: ncclResult_t) -> *const c_char {
    let text = match result {
        ncclResult_t::ncclSuccess => c"no error",
        ncclResult_t::ncclUnhandledCudaError => c"a call of HIP failed",
        ncclResult_t::ncclSystemError => c"a call of the system failed",
        ncclResult_t::ncclInternalError => c"a defect of the library",
        ncclResult_t::ncclInvalidArgument => c"an argument is invalid",
        ncclResult_t::ncclInvalidUsage => c"the calls do not fit together",
        ncclResult_t::ncclRemoteError => c"another rank failed or has gone",
        ncclResult_t::ncclInProgress => c"the operation is under way",
        _ => c"a code that RCCL does not have",
    };
    text.as_ptr()
}

unsafe extern "C" fn last_error(comm: ncclComm_t) -> *const c_char {
    if let Some(trouble) = MEMBERS.with(comm.0, |member| member.trouble()).flatten() {
        keep(&trouble.sentence);
    }
    // The pointer is good until the thread's next failure.
    LAST.with_borrow(|last| last.as_ptr())
}

unsafe extern "C" fn async_error(comm: ncclComm_t, error: *mut ncclResult_t) -> ncclResult_t {
    call("ncclCommGetAsyncError", || {
        let code = member(comm)?.trouble().map_or(ncclResult_t::ncclSuccess, |trouble| trouble.code);
        // SAFETY: the caller's promise.
        unsafe { put(error, code) }
    })
}

unsafe extern "C" fn count(comm: ncclComm_t, count: *mut c_int) -> ncclResult_t {
    // SAFETY: the caller's promise.
    call("ncclCommCount", || unsafe { put(count, member(comm)?.ranks() as c_int) })
}

unsafe extern "C" fn device(comm: ncclComm_t, device: *mut c_int) -> ncclResult_t {
    // SAFETY: the caller's promise.
    call("ncclCommCuDevice", || unsafe { put(device, member(comm)?.device) })
}

unsafe extern "C" fn user_rank(comm: ncclComm_t, rank: *mut c_int) -> ncclResult_t {
    // SAFETY: the caller's promise.
    call("ncclCommUserRank", || unsafe { put(rank, member(comm)?.rank as c_int) })
}

/// Checks a call and queues it, or keeps it for the end of the group.
fn submit(name: &'static str, comm: ncclComm_t, stream: hipStream_t, of: Call, peer: c_int) -> ncclResult_t {
    call(name, || {
        let member = member(comm)?;
        let (ranks, rank) = (member.ranks(), member.rank);
        let peer = usize::try_from(peer).ok().filter(|peer| *peer < ranks);
        let peer = peer.ok_or_else(|| Trouble::argument(format!("{name} names a rank that is not among {ranks}")))?;
        let known = of.dtype.bytes().filter(|_| of.op.0 <= ncclRedOp_t::ncclAvg.0);
        let element = known.ok_or_else(|| {
            Trouble::argument(format!("{name} has no elements of type {} with operation {}", of.dtype.0, of.op.0))
        })?;
        let most = of.count.checked_mul(element).and_then(|bytes| bytes.checked_mul(ranks));
        if most.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(Trouble::argument(format!("{name} of {} elements is larger than any memory", of.count)));
        }
        let of = Call { peer, ..of };
        for (address, bytes) in [of.reads(ranks, rank), of.writes(ranks, rank)] {
            if bytes > 0 && (address == Address::of(std::ptr::null::<u8>()) || !address.is_aligned(element)) {
                return Err(Trouble::argument(format!("{name} got an address that is null or not that of an element")));
            }
        }
        group::submit(&member, stream, of)
    })
}

fn of(
    verb: Verb,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: ncclDataType_t,
    op: ncclRedOp_t,
) -> Call {
    Call { verb, input: Address::of(input), output: Address::of(output.cast_const()), count, dtype, op, peer: 0 }
}

const SUM: ncclRedOp_t = ncclRedOp_t::ncclSum;

unsafe extern "C" fn all_reduce(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: ncclDataType_t,
    op: ncclRedOp_t,
    comm: ncclComm_t,
    stream: hipStream_t,
) -> ncclResult_t {
    submit("ncclAllReduce", comm, stream, of(Verb::AllReduce, input, output, count, dtype, op), 0)
}

unsafe extern "C" fn reduce(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: ncclDataType_t,
    op: ncclRedOp_t,
    root: c_int,
    comm: ncclComm_t,
    stream: hipStream_t,
) -> ncclResult_t {
    submit("ncclReduce", comm, stream, of(Verb::Reduce, input, output, count, dtype, op), root)
}

unsafe extern "C" fn broadcast(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: ncclDataType_t,
    root: c_int,
    comm: ncclComm_t,
    stream: hipStream_t,
) -> ncclResult_t {
    submit("ncclBroadcast", comm, stream, of(Verb::Broadcast, input, output, count, dtype, SUM), root)
}

unsafe extern "C" fn reduce_scatter(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: ncclDataType_t,
    op: ncclRedOp_t,
    comm: ncclComm_t,
    stream: hipStream_t,
) -> ncclResult_t {
    submit("ncclReduceScatter", comm, stream, of(Verb::ReduceScatter, input, output, count, dtype, op), 0)
}

unsafe extern "C" fn all_gather(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: ncclDataType_t,
    comm: ncclComm_t,
    stream: hipStream_t,
) -> ncclResult_t {
    submit("ncclAllGather", comm, stream, of(Verb::AllGather, input, output, count, dtype, SUM), 0)
}

unsafe extern "C" fn send(
    input: *const c_void,
    count: usize,
    dtype: ncclDataType_t,
    peer: c_int,
    comm: ncclComm_t,
    stream: hipStream_t,
) -> ncclResult_t {
    submit("ncclSend", comm, stream, of(Verb::Send, input, std::ptr::null_mut(), count, dtype, SUM), peer)
}

unsafe extern "C" fn receive(
    output: *mut c_void,
    count: usize,
    dtype: ncclDataType_t,
    peer: c_int,
    comm: ncclComm_t,
    stream: hipStream_t,
) -> ncclResult_t {
    submit("ncclRecv", comm, stream, of(Verb::Receive, std::ptr::null(), output, count, dtype, SUM), peer)
}

unsafe extern "C" fn group_start() -> ncclResult_t {
    call("ncclGroupStart", || {
        group::start();
        Ok(())
    })
}

unsafe extern "C" fn group_end() -> ncclResult_t {
    let closed = group::close();
    call("ncclGroupEnd", || closed.and_then(group::finish))
}
