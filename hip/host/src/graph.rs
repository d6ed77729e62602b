//! Graphs: commands captured from streams instead of queued, to be launched again and again. The order of capture already respects
//! every dependency, so a launch runs the commands in that order on one stream; the dependencies themselves are only needed to see
//! whether every stream that took part was joined again.

use crate::command::Command;
use crate::handles::Handles;
use crate::stream::{forbid_waiting, Stream};
use hip_abi::{hipError_t, hipGraphExec_t, hipGraphNode_t, hipGraph_t, hipStreamCaptureMode, hipStreamCaptureStatus};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;

/// A finished capture.
pub(crate) struct Graph {
    number: usize,
    nodes: Vec<Node>,
}

/// A command, the device of the stream it was captured from, and the nodes it comes after.
#[derive(Clone)]
struct Node {
    command: Command,
    device: usize,
    after: Vec<usize>,
}

/// A graph made ready to launch.
pub(crate) struct Executable {
    nodes: Vec<Node>,
}

impl Executable {
    /// Runs every command; the first failure is reported, the rest still run, as in a stream.
    pub fn execute(&self) -> Result<(), hipError_t> {
        let mut outcome = Ok(());
        for node in &self.nodes {
            outcome = outcome.and(node.command.execute(node.device));
        }
        outcome
    }
}

static GRAPHS: Handles<Graph> = Handles::new(0x54);
static EXECUTABLES: Handles<Executable> = Handles::new(0x55);
/// The top byte of node handles, which are only ever counted.
const NODE_MARK: usize = 0x56;

fn keep(nodes: Vec<Node>) -> hipGraph_t {
    hipGraph_t(GRAPHS.insert_with(|number| Arc::new(Graph { number, nodes })))
}

/// A graph with nothing in it.
pub(crate) fn create_empty() -> hipGraph_t {
    keep(Vec::new())
}

/// Takes the handle back.
pub(crate) fn destroy(graph: hipGraph_t) -> Result<(), hipError_t> {
    GRAPHS.remove(graph.0).map(drop).ok_or(hipError_t::hipErrorInvalidHandle)
}

/// Handles for the nodes of a graph.
pub(crate) fn nodes(graph: hipGraph_t) -> Result<Vec<hipGraphNode_t>, hipError_t> {
    let graph = GRAPHS.get(graph.0).ok_or(hipError_t::hipErrorInvalidHandle)?;
    let handle = |index| ((NODE_MARK << 56) | ((graph.number & 0xFFFF_FFFF) << 24) | (index + 1)) as *mut _;
    Ok((0..graph.nodes.len()).map(|index| hipGraphNode_t(handle(index))).collect())
}

/// Makes a graph ready to launch. The graph may be destroyed afterwards.
pub(crate) fn instantiate(graph: hipGraph_t) -> Result<hipGraphExec_t, hipError_t> {
    let graph = GRAPHS.get(graph.0).ok_or(hipError_t::hipErrorInvalidHandle)?;
    Ok(hipGraphExec_t(EXECUTABLES.insert(Arc::new(Executable { nodes: graph.nodes.clone() }))))
}

/// The executable graph behind a handle.
pub(crate) fn resolve_executable(handle: hipGraphExec_t) -> Result<Arc<Executable>, hipError_t> {
    EXECUTABLES.get(handle.0).ok_or(hipError_t::hipErrorInvalidHandle)
}

/// Takes the handle back. Launches that were submitted still run.
pub(crate) fn destroy_executable(handle: hipGraphExec_t) -> Result<(), hipError_t> {
    EXECUTABLES.remove(handle.0).map(drop).ok_or(hipError_t::hipErrorInvalidHandle)
}

/// One capture, from begin to end.
pub(crate) struct Session {
    origin: Weak<Stream>,
    mode: hipStreamCaptureMode,
    thread: ThreadId,
    device: usize,
    /// Whether a stream takes part that the null stream would have to wait for.
    has_blocking_stream: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: Vec<Node>,
    members: Vec<Weak<Stream>>,
    invalid: bool,
    ended: bool,
}

/// A stream's part in a capture: the session and the nodes that its next command comes after.
pub(crate) struct Capturing {
    session: Arc<Session>,
    device: usize,
    frontier: Vec<usize>,
}

/// A place in a capture, kept by an event.
#[derive(Clone)]
pub(crate) struct Mark {
    session: Arc<Session>,
    frontier: Vec<usize>,
}

/// Captures under way. The count spares every call the lock as long as there are none.
static ACTIVE: Mutex<Vec<Arc<Session>>> = Mutex::new(Vec::new());
static ACTIVE_COUNT: AtomicUsize = AtomicUsize::new(0);

fn active() -> MutexGuard<'static, Vec<Arc<Session>>> {
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn invalidate(&self) {
        self.state().invalid = true;
    }
}

impl Capturing {
    /// Adds a command after everything this stream has done in the capture.
    pub fn append(&mut self, command: Command) -> Result<(), hipError_t> {
        let mut state = self.session.state();
        if state.invalid {
            return Err(hipError_t::hipErrorStreamCaptureInvalidated);
        }
        let node = state.nodes.len();
        let after = std::mem::replace(&mut self.frontier, vec![node]);
        state.nodes.push(Node { command, device: self.device, after });
        Ok(())
    }

    /// Spoils the capture; its end will say so.
    pub fn invalidate(&self) {
        self.session.invalidate();
    }
}

/// Begins a capture on a stream.
pub(crate) fn begin(stream: &Arc<Stream>, mode: hipStreamCaptureMode) -> Result<(), hipError_t> {
    if mode.0 > hipStreamCaptureMode::hipStreamCaptureModeRelaxed.0 {
        return Err(hipError_t::hipErrorInvalidValue);
    }
    if stream.is_null() {
        return Err(hipError_t::hipErrorStreamCaptureImplicit);
    }
    let session = Arc::new(Session {
        origin: Arc::downgrade(stream),
        mode,
        thread: std::thread::current().id(),
        device: stream.device,
        has_blocking_stream: AtomicBool::new(stream.is_blocking()),
        state: Mutex::new(State { members: vec![Arc::downgrade(stream)], ..State::default() }),
    });
    stream.with_capturing(|capturing| {
        if capturing.is_some() {
            return Err(hipError_t::hipErrorIllegalState);
        }
        *capturing = Some(Capturing { session: session.clone(), device: stream.device, frontier: Vec::new() });
        Ok(())
    })?;
    active().push(session);
    ACTIVE_COUNT.fetch_add(1, Ordering::Release);
    Ok(())
}

/// Ends the capture that was begun on this stream, with its graph or with what spoiled it.
pub(crate) fn end(stream: &Arc<Stream>) -> Result<hipGraph_t, hipError_t> {
    let session = stream.with_capturing(|capturing| capturing.as_ref().map(|capturing| capturing.session.clone()));
    let session = session.ok_or(hipError_t::hipErrorIllegalState)?;
    if !std::ptr::eq(session.origin.as_ptr(), Arc::as_ptr(stream)) {
        return Err(hipError_t::hipErrorStreamCaptureUnmatched);
    }
    if session.mode != hipStreamCaptureMode::hipStreamCaptureModeRelaxed
        && session.thread != std::thread::current().id()
    {
        return Err(hipError_t::hipErrorStreamCaptureWrongThread);
    }
    let (nodes, members, invalid) = {
        let mut state = session.state();
        let invalid = std::mem::replace(&mut state.invalid, true);
        state.ended = true;
        (std::mem::take(&mut state.nodes), std::mem::take(&mut state.members), invalid)
    };
    active().retain(|other| !Arc::ptr_eq(other, &session));
    ACTIVE_COUNT.fetch_sub(1, Ordering::Release);
    let mut joined = Vec::new();
    let mut forked = Vec::new();
    for member in members.iter().filter_map(Weak::upgrade) {
        let part = member.with_capturing(|capturing| capturing.take_if(|part| Arc::ptr_eq(&part.session, &session)));
        let frontier = part.map(|part| part.frontier).unwrap_or_default();
        if Arc::ptr_eq(&member, stream) {
            joined = frontier
        } else {
            forked.extend(frontier)
        }
    }
    if invalid {
        return Err(hipError_t::hipErrorStreamCaptureInvalidated);
    }
    let reached = ancestors(&nodes, joined);
    if forked.iter().any(|node| !reached[*node]) {
        return Err(hipError_t::hipErrorStreamCaptureUnjoined);
    }
    Ok(keep(nodes))
}

/// Which nodes come before, or are, those given.
fn ancestors(nodes: &[Node], mut open: Vec<usize>) -> Vec<bool> {
    let mut reached = vec![false; nodes.len()];
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            open.extend(&nodes[node].after);
        }
    }
    reached
}

/// Where a stream stands.
pub(crate) fn status(stream: &Stream) -> hipStreamCaptureStatus {
    stream.with_capturing(|capturing| match capturing {
        None => hipStreamCaptureStatus::hipStreamCaptureStatusNone,
        Some(part) if part.session.state().invalid => hipStreamCaptureStatus::hipStreamCaptureStatusInvalidated,
        Some(_) => hipStreamCaptureStatus::hipStreamCaptureStatusActive,
    })
}

/// The place of a capturing stream, for an event; `None` when the stream is not capturing.
pub(crate) fn mark(stream: &Stream) -> Result<Option<Mark>, hipError_t> {
    stream.with_capturing(|capturing| match capturing {
        None => Ok(None),
        Some(part) if part.session.state().invalid => Err(hipError_t::hipErrorStreamCaptureInvalidated),
        Some(part) => Ok(Some(Mark { session: part.session.clone(), frontier: part.frontier.clone() })),
    })
}

/// Makes a stream wait for a place in a capture, which draws the stream into that capture.
pub(crate) fn join(stream: &Arc<Stream>, mark: &Mark) -> Result<(), hipError_t> {
    if stream.is_null() {
        mark.session.invalidate();
        return Err(hipError_t::hipErrorStreamCaptureImplicit);
    }
    stream.with_capturing(|capturing| {
        let mut state = mark.session.state();
        if state.ended {
            return Err(hipError_t::hipErrorCapturedEvent);
        }
        match capturing {
            Some(part) if Arc::ptr_eq(&part.session, &mark.session) => {
                let new =
                    mark.frontier.iter().filter(|node| !part.frontier.contains(node)).copied().collect::<Vec<_>>();
                part.frontier.extend(new);
            }
            Some(part) => {
                state.invalid = true;
                drop(state);
                part.invalidate();
                return Err(hipError_t::hipErrorStreamCaptureMerge);
            }
            None => {
                state.members.push(Arc::downgrade(stream));
                mark.session.has_blocking_stream.fetch_or(stream.is_blocking(), Ordering::AcqRel);
                *capturing = Some(Capturing {
                    session: mark.session.clone(),
                    device: stream.device,
                    frontier: mark.frontier.clone(),
                });
            }
        }
        Ok(())
    })
}

/// Refuses a call that waits for, allocates or frees something while a capture forbids it, and spoils that capture.
pub(crate) fn forbid_unsafe_call() -> Result<(), hipError_t> {
    forbid_waiting()?;
    let this = std::thread::current().id();
    spoil(hipError_t::hipErrorStreamCaptureUnsupported, |session| match session.mode {
        hipStreamCaptureMode::hipStreamCaptureModeGlobal => true,
        hipStreamCaptureMode::hipStreamCaptureModeThreadLocal => session.thread == this,
        _ => false,
    })
}

/// Refuses to use the null stream of a device while a stream is captured that it would have to wait for.
pub(crate) fn forbid_null_stream(device: usize) -> Result<(), hipError_t> {
    spoil(hipError_t::hipErrorStreamCaptureImplicit, |session| {
        session.device == device && session.has_blocking_stream.load(Ordering::Acquire)
    })
}

fn spoil(error: hipError_t, forbids: impl Fn(&Session) -> bool) -> Result<(), hipError_t> {
    if ACTIVE_COUNT.load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    let forbidding: Vec<_> = active().iter().filter(|session| forbids(session)).cloned().collect();
    forbidding.iter().for_each(|session| session.invalidate());
    if forbidding.is_empty() {
        Ok(())
    } else {
        Err(error)
    }
}

/// Refuses to wait for or ask about a stream that is being captured, and spoils the capture.
pub(crate) fn forbid_on_capturing(stream: &Stream) -> Result<(), hipError_t> {
    if stream.is_null() {
        return forbid_null_stream(stream.device);
    }
    stream.with_capturing(|capturing| match capturing {
        None => Ok(()),
        Some(part) => {
            part.invalidate();
            Err(hipError_t::hipErrorStreamCaptureUnsupported)
        }
    })
}

/// Refuses to make a captured stream wait for work outside the capture, and spoils the capture.
pub(crate) fn forbid_outside_dependency(stream: &Stream) -> Result<(), hipError_t> {
    stream.with_capturing(|capturing| match capturing {
        None => Ok(()),
        Some(part) => {
            part.invalidate();
            Err(hipError_t::hipErrorStreamCaptureIsolation)
        }
    })
}
