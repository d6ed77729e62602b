//! Work recorded once and launched many times. While a stream is being captured its memory comes from a pool of the
//! capture's own, and everything that the recorded work names is kept by the graph, because it will be used again.

use crate::buffer::Block;
use crate::device::Device;
use crate::dispose::Resource;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::module::Module;
use crate::pool::Pool;
use crate::stream::Stream;
use hip_abi::{hipGraphExec_t, hipGraph_t, hipStreamCaptureMode, hipStreamCaptureStatus};
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

/// Recorded work, ready to launch. It keeps the memory that the work uses.
///
/// ```
/// let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
/// let mut input = stream.upload(&[1u32, 2, 3])?;
/// let mut output = stream.zeros::<u32>(3)?;
/// let graph = stream.capture(|_| output.copy_from(&input))?;
/// input.write(&[7, 8, 9])?;
/// graph.launch(&stream)?;
/// assert_eq!(output.to_vec()?, [7, 8, 9]);
/// # Ok::<(), hip::Error>(())
/// ```
pub struct Graph {
    stream: Stream,
    exec: hipGraphExec_t,
    node_count: usize,
    /// Everywhere it was launched: these streams must be done before it can go.
    launched: Mutex<Vec<Stream>>,
    /// What the recorded work names. Goes last.
    session: Arc<Session>,
}

/// One capture, from its begin to the end of the graph it becomes.
pub(crate) struct Session {
    device: Device,
    kept: Mutex<Vec<Box<dyn Any + Send>>>,
    /// The memory (by the address of its block) and the modules that recorded work names, each once however often it is named.
    blocks: Mutex<HashMap<usize, Arc<Block>>>,
    modules: Mutex<Vec<Module>>,
    /// The streams in the capture: the one it began on, and those that joined by waiting for an event of it.
    streams: Mutex<Vec<Stream>>,
    pools: Mutex<Vec<Arc<Pool>>>,
}

/// What a stream knows while it is being captured. Each stream of a capture has a pool of its own, since memory can be
/// used again at once only in the order of one stream.
pub(crate) struct Captured {
    pub(crate) session: Arc<Session>,
    /// The thread whose work is recorded.
    pub(crate) thread: ThreadId,
    pub(crate) pool: Arc<Pool>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    fn new(device: &Device) -> Arc<Self> {
        Arc::new(Self {
            device: device.clone(),
            kept: Mutex::new(Vec::new()),
            blocks: Mutex::default(),
            modules: Mutex::default(),
            streams: Mutex::new(Vec::new()),
            pools: Mutex::new(Vec::new()),
        })
    }

    /// Keeps something as long as the graph lives.
    pub(crate) fn keep(&self, thing: Box<dyn Any + Send>) {
        lock(&self.kept).push(thing);
    }

    /// Keeps a buffer's memory as long as the graph lives. Memory of the capture's own pools is kept by them, and must be
    /// free to be used again inside the capture.
    pub(crate) fn keep_block(&self, block: &Arc<Block>) {
        if !lock(&self.pools).iter().any(|pool| block.is_of(pool)) {
            lock(&self.blocks).entry(Arc::as_ptr(block).addr()).or_insert_with(|| block.clone());
        }
    }

    /// Keeps the module of a recorded kernel loaded as long as the graph lives.
    pub(crate) fn keep_module(&self, module: &Module) {
        let mut modules = lock(&self.modules);
        if !modules.iter().any(|known| known.is(module)) {
            modules.push(module.clone());
        }
    }

    /// Makes `stream` part of this capture, if it is not yet and the capture still goes on.
    pub(crate) fn join(self: &Arc<Self>, stream: &Stream) {
        let mut streams = lock(&self.streams);
        let mut captured = lock(&stream.0.captured);
        if streams.is_empty() || captured.is_some() {
            return;
        }
        self.enter(stream, &mut streams, &mut captured);
    }

    fn begin(self: &Arc<Self>, stream: &Stream) {
        self.enter(stream, &mut lock(&self.streams), &mut lock(&stream.0.captured));
    }

    fn enter(self: &Arc<Self>, stream: &Stream, streams: &mut Vec<Stream>, captured: &mut Option<Captured>) {
        let pool = Pool::for_capture(&self.device);
        lock(&self.pools).push(pool.clone());
        *captured = Some(Captured { session: self.clone(), thread: std::thread::current().id(), pool });
        stream.0.capturing.store(true, Ordering::Release);
        streams.push(stream.clone());
    }

    /// Records what was put off meanwhile and is still there.
    fn settle(&self) -> Result<()> {
        let streams = lock(&self.streams).clone();
        streams.iter().try_for_each(Stream::settle)
    }

    /// Gives up what was put off meanwhile and is still there: what it reads is never computed.
    fn abandon(&self) {
        let why = Error::refused("the capture that it was part of failed");
        let streams = lock(&self.streams).clone();
        streams.iter().for_each(|stream| stream.abandon_all(&why));
    }

    /// Takes all streams out of the capture.
    fn end(&self) {
        let streams = std::mem::take(&mut *lock(&self.streams));
        for stream in streams {
            let captured = lock(&stream.0.captured).take();
            stream.0.capturing.store(false, Ordering::Release);
            drop(captured);
        }
    }
}

/// A capture that is going on. Dropping it, as a panic of the caller's does, ends it and forgets what was recorded.
struct Recording<'a> {
    stream: &'a Stream,
    session: Arc<Session>,
    ended: bool,
}

impl<'a> Recording<'a> {
    fn begin(stream: &'a Stream) -> Result<Self> {
        stream.device().0.bind()?;
        stream.device().0.begin_capture();
        // From here on its drop ends the capture on the device.
        let mut recording = Self { stream, session: Session::new(stream.device()), ended: true };
        // Relaxed: our pool may need memory from the system in the middle of a capture, which the other modes forbid.
        let mode = hipStreamCaptureMode::hipStreamCaptureModeRelaxed;
        // SAFETY: the handle is alive.
        unsafe {
            call!(stream.device().platform(), hipStreamBeginCapture(stream.handle(), mode), || {
                "beginning the capture of a stream"
            })
        }?;
        recording.session.begin(stream);
        recording.ended = false;
        Ok(recording)
    }

    fn end(&mut self) -> Result<hipGraph_t> {
        self.ended = true;
        let outcome = self.end_capture();
        if outcome.is_err() {
            self.abandon();
        }
        self.session.end();
        outcome
    }

    fn end_capture(&self) -> Result<hipGraph_t> {
        self.stream.device().0.bind_quietly()?;
        let mut graph = hipGraph_t::NULL;
        // SAFETY: the handle is alive and the pointer is to a live handle.
        unsafe {
            call!(self.stream.device().platform(), hipStreamEndCapture(self.stream.handle(), &mut graph), || {
                "ending the capture of a stream"
            })
        }?;
        if graph.is_null() {
            return Err(Error::refused("the capture ended without a graph: something in it was not allowed"));
        }
        Ok(graph)
    }

    /// Ends the capture and forgets what was recorded.
    fn throw_away(&mut self) -> Result<()> {
        self.session.abandon();
        self.end().map(|graph| self.stream.device().0.dispose(Resource::Graph(graph)))
    }

    /// After a failed end: makes sure that the stream is out of its capture and can be used again.
    fn abandon(&self) {
        let table = self.stream.device().platform().table();
        let mut status = hipStreamCaptureStatus::hipStreamCaptureStatusNone;
        // SAFETY: the handle is alive and the pointer is to a live value.
        let code = unsafe { (table.hipStreamIsCapturing)(self.stream.handle(), &mut status) };
        if code.is_success() && status == hipStreamCaptureStatus::hipStreamCaptureStatusNone {
            return;
        }
        if let Ok(graph) = self.end_capture() {
            self.stream.device().0.dispose(Resource::Graph(graph));
        }
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let outcome = self.throw_away();
            self.stream.device().0.defer(outcome);
        }
        self.stream.device().0.end_capture();
    }
}

impl Stream {
    /// Records the work that `record` submits to this stream, instead of running it.
    ///
    /// Memory allocated meanwhile belongs to the graph's own pool; memory freed meanwhile is kept by the graph. Buffers
    /// that safe copies name are kept too, and the modules of launched kernels; the buffers that those kernels use are the
    /// caller's to keep, by the promise that each launch makes ([`Stream::uses`], [`View::keep_in_capture`](crate::View::keep_in_capture), [`Graph::keep`]). Another stream becomes part of the capture when it waits for this
    /// one, and must be waited for by this one before the end.
    ///
    /// What was put off before is submitted before, and what is put off meanwhile becomes part of the graph. Only this thread's work is
    /// recorded: on the streams of a capture that of other threads is refused.
    pub fn capture(&self, record: impl FnOnce(&Stream) -> Result<()>) -> Result<Graph> {
        self.refuse_in_capture("beginning a second capture")?;
        if !self.device().platform().can_capture() {
            return Err(Error::refused(
                "graphs need HIP 5.3 or newer: older ones run kernels where they should record them. Install a newer ROCm, or launch without a graph",
            ));
        }
        // Else the graph would run it, and nobody now.
        self.settle()?;
        let mut recording = Recording::begin(self)?;
        if let Err(error) = record(self).and_then(|()| recording.session.settle()) {
            return Err(match recording.throw_away() {
                Ok(()) => error,
                Err(also) => error.with_detail(format!("then, {also}")),
            });
        }
        let graph = recording.end()?;
        let made = self.instantiate(graph);
        self.device().0.dispose(Resource::Graph(graph));
        let (exec, node_count) = made?;
        Ok(Graph {
            stream: self.clone(),
            exec,
            node_count,
            launched: Mutex::new(Vec::new()),
            session: recording.session.clone(),
        })
    }

    fn instantiate(&self, graph: hipGraph_t) -> Result<(hipGraphExec_t, usize)> {
        let platform = self.device().platform();
        self.device().0.bind()?;
        let mut node_count = 0;
        // SAFETY: the graph is alive; a null list asks only for the count.
        unsafe {
            call!(platform, hipGraphGetNodes(graph, std::ptr::null_mut(), &mut node_count), || {
                "counting the nodes of a recorded graph"
            })
        }?;
        let mut exec = hipGraphExec_t::NULL;
        // SAFETY: the graph is alive and the pointer is to a live handle; no log is asked for.
        self.device().with_memory_retry(|| unsafe {
            call!(
                platform,
                hipGraphInstantiate(&mut exec, graph, std::ptr::null_mut(), std::ptr::null_mut(), 0),
                || format!("making a recorded graph of {node_count} nodes ready to launch")
            )
        })?;
        Ok((exec, node_count))
    }
}

impl Graph {
    /// Runs the recorded work on `stream`, after the work submitted there so far. On another stream than the captured
    /// one it is ordered with both.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        if stream.device() != self.stream.device() {
            return Err(Error::refused(format!(
                "a graph captured on device {} cannot run on device {}",
                self.stream.device().ordinal(),
                stream.device().ordinal()
            )));
        }
        stream.refuse_in_capture("launching a graph")?;
        self.stream.refuse_in_capture("launching a graph")?;
        // The graph may write what it reads.
        stream.settle()?;
        self.stream.settle()?;
        stream.wait_for(&self.stream)?;
        let mut launched = lock(&self.launched);
        stream.device().0.bind()?;
        // SAFETY: both handles are alive, and the session keeps what the recorded work names.
        unsafe {
            call!(stream.device().platform(), hipGraphLaunch(self.exec, stream.handle()), || format!(
                "launching a graph of {} nodes",
                self.node_count
            ))
        }?;
        if !launched.contains(stream) {
            launched.push(stream.clone());
        }
        drop(launched);
        self.stream.wait_for(stream)
    }

    /// How many nodes were recorded: kernels, copies, memory sets.
    pub fn node_count(&self) -> usize {
        self.node_count
    }

    /// Keeps something, such as a buffer that a recorded kernel reads, as long as the graph lives.
    pub fn keep(&self, thing: impl Any + Send) {
        self.session.keep(Box::new(thing));
    }

    /// The stream that was captured.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let device = &self.stream.device().0;
        for stream in lock(&self.launched).iter().filter(|stream| !stream.is_capturing()) {
            let bound = device.bind_quietly();
            device.defer(bound.and(stream.0.drain()));
        }
        device.dispose(Resource::GraphExec(self.exec));
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} nodes, device {})", self.node_count, self.stream.device().ordinal())
    }
}
