//! Groups: calls between a start and its end are collected on the calling thread and happen together, so that a rank may send and receive
//! at once, and one thread may be several ranks.

use super::super::abi::ncclComm_t;
use super::meet;
use super::member::{Member, Trouble};
use super::plan::Call;
use super::MEMBERS;
use crate::embedded::Address;
use hip_abi::hipStream_t;
use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

/// A rank that is to join a communicator; its handle goes to `place`.
pub struct Join {
    pub id: [u8; 128],
    pub ranks: usize,
    pub rank: usize,
    pub device: c_int,
    pub limit: Duration,
    pub place: Address,
}

/// Calls of one rank on one stream.
type Calls = (Arc<Member>, hipStream_t, Vec<Call>);

/// What was collected.
#[derive(Default)]
pub struct Group {
    depth: usize,
    joins: Vec<Join>,
    calls: Vec<Calls>,
    /// The first failure inside the group, which is that of the whole.
    trouble: Option<Trouble>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

pub fn start() {
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

/// Notes a failure, if a group is open.
pub fn spoil(trouble: &Trouble) {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.trouble.get_or_insert_with(|| trouble.clone());
        }
    });
}

/// Takes one level back. What was collected comes with the last one.
pub fn close() -> Result<Group, Trouble> {
    GROUP.with_borrow_mut(|group| match group.depth {
        0 => Err(Trouble::usage("a group ends that was never started")),
        1 => Ok(std::mem::take(group)),
        _ => {
            group.depth -= 1;
            Ok(Group::default())
        }
    })
}

/// Does what was collected, unless something in it has failed.
pub fn finish(group: Group) -> Result<(), Trouble> {
    if let Some(trouble) = group.trouble {
        return Err(trouble);
    }
    if !group.joins.is_empty() {
        join_now(group.joins)?;
    }
    group.calls.into_iter().try_for_each(|(member, stream, calls)| member.submit(stream, calls))
}

/// Lets ranks join, at once or at the end of the group.
pub fn join(joins: Vec<Join>) -> Result<(), Trouble> {
    let now = GROUP.with_borrow_mut(|group| match group.depth {
        0 => Some(joins),
        _ => {
            group.joins.extend(joins);
            None
        }
    });
    now.map_or(Ok(()), join_now)
}

/// All go to their meetings before the first waits there.
fn join_now(joins: Vec<Join>) -> Result<(), Trouble> {
    let mut arrived = Vec::new();
    for join in joins {
        let joining = meet::arrive(&join.id, join.ranks, join.rank, join.limit).map_err(Trouble::remote)?;
        arrived.push((join, joining));
    }
    let mut members = Vec::new();
    for (join, joining) in arrived {
        let segment = joining.wait().map_err(Trouble::remote)?;
        members.push((join.place, Member::new(segment, join.rank, join.device, join.limit)));
    }
    for (place, member) in members {
        let handle = ncclComm_t(MEMBERS.insert(Arc::new(member)));
        // SAFETY: the caller of the C function keeps the place until the group has ended.
        unsafe { place.pointer::<ncclComm_t>().write(handle) };
    }
    Ok(())
}

/// Queues a call, at once or at the end of the group.
pub fn submit(member: &Arc<Member>, stream: hipStream_t, call: Call) -> Result<(), Trouble> {
    let now = GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Some(call);
        }
        let same = |calls: &&mut Calls| Arc::ptr_eq(&calls.0, member) && calls.1 == stream;
        match group.calls.iter_mut().find(same) {
            Some((_, _, calls)) => calls.push(call),
            None => group.calls.push((member.clone(), stream, vec![call])),
        }
        None
    });
    match now {
        Some(call) => member.submit(stream, vec![call]),
        None => member.trouble().map_or(Ok(()), Err),
    }
}
