//! Collectives of several GPUs through RCCL: between threads or processes, each of which is a rank of a communicator.
//!
//! On an AMD GPU the work is done by `librccl`, on NVIDIA's platform by `libnccl`, and on the embedded device and emulated GPUs by an
//! implementation of our own, between threads of a process and between processes of a machine.
//!
//! ```
//! use rocm::rccl::{Comm, Id, Op};
//! let platform = hip::Platform::named("host")?;
//! let id = Id::new(&platform)?; // in one rank; the others get its bytes
//! let sums = std::thread::scope(|scope| {
//!     let ranks: Vec<_> = (0..2)
//!         .map(|rank| {
//!             let (platform, id) = (platform.clone(), &id);
//!             scope.spawn(move || {
//!                 let stream = platform.device(0)?.new_stream()?;
//!                 let comm = Comm::from_rank(&stream, id, rank, 2)?;
//!                 let (mine, mut sum) = (stream.upload(&[rank as f32, 10.0])?, stream.alloc(2)?);
//!                 comm.all_reduce(&mine, &mut sum, Op::Sum)?;
//!                 sum.to_vec()
//!             })
//!         })
//!         .collect();
//!     ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect::<hip::Result<Vec<Vec<f32>>>>()
//! })?;
//! assert_eq!(sums, [[1.0, 20.0], [1.0, 20.0]]);
//! # Ok::<(), hip::Error>(())
//! ```

mod abi;
mod calls;
mod host;
mod launch;
mod limit;

pub use abi::{
    ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclUniqueId, Element, Rccl, NCCL_UNIQUE_ID_BYTES,
};
pub use calls::Group;
pub use launch::Launch;
pub use limit::VARIABLE as LIMIT_VARIABLE;

use hip::{Device, Error, Platform, PlatformKind, Result, Stream};
use hip_abi::{Origin, Search};
use std::ffi::{c_char, c_int, CStr};
use std::sync::{mpsc, Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How elements of several ranks become one. Integers wrap around; f16 and bf16 may be rounded at each step or once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Their sum divided by the number of ranks.
    Average,
}

impl Op {
    fn number(self) -> ncclRedOp_t {
        match self {
            Self::Sum => ncclRedOp_t::ncclSum,
            Self::Product => ncclRedOp_t::ncclProd,
            Self::Max => ncclRedOp_t::ncclMax,
            Self::Min => ncclRedOp_t::ncclMin,
            Self::Average => ncclRedOp_t::ncclAvg,
        }
    }
}

/// What the ranks of a communicator find each other by: one rank makes it, and the others get its bytes. It serves for one communicator,
/// and the process that made it must live until all ranks are there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Id([u8; NCCL_UNIQUE_ID_BYTES]);

impl Id {
    /// A new one.
    pub fn new(platform: &Platform) -> Result<Self> {
        let table = table_of(platform)?;
        enter(platform)?;
        let mut id = ncclUniqueId { internal: [0; NCCL_UNIQUE_ID_BYTES] };
        // SAFETY: the place is ours.
        let code = unsafe { (table.ncclGetUniqueId)(&mut id) };
        check(table, "ncclGetUniqueId", ncclComm_t::NULL, code)?;
        Ok(Self(id.internal.map(|byte| byte as u8)))
    }

    /// The bytes, to be sent to the other ranks.
    pub fn bytes(&self) -> &[u8; NCCL_UNIQUE_ID_BYTES] {
        &self.0
    }

    /// The id that another rank sent.
    pub fn from_bytes(bytes: [u8; NCCL_UNIQUE_ID_BYTES]) -> Self {
        Self(bytes)
    }

    fn raw(&self) -> ncclUniqueId {
        ncclUniqueId { internal: self.0.map(|byte| byte as c_char) }
    }
}

impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start: String = self.0[8..16].iter().map(|byte| format!("{byte:02x}")).collect();
        write!(f, "Id({start}...)")
    }
}

/// A rank of a communicator, with the stream that its calls are ordered by. Cloning is cheap, and all clones are the same rank.
///
/// All ranks make the same calls in the same order. A call returns when it is queued; what it came to is known when the stream, or
/// [`Comm::wait`], has been waited for. Each rank has a device of its own: GPUs refuse more, and on the embedded device, where freeing
/// memory waits for a whole device, two ranks of a process on one device may wait for each other (`HIP_HOST_DEVICES` makes more).
#[derive(Clone)]
pub struct Comm(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    table: &'static Rccl,
    /// `None` since it was aborted.
    handle: Mutex<Option<ncclComm_t>>,
    stream: Stream,
    rank: usize,
    ranks: usize,
    limit: Duration,
}

impl Comm {
    /// Joins a communicator as this rank of so many, and waits until all are there: for at most as long as `CANDLE_ROCM_COMM_TIMEOUT`
    /// says, in seconds (300 without it).
    pub fn from_rank(stream: &Stream, id: &Id, rank: usize, ranks: usize) -> Result<Self> {
        let numbers = (c_int::try_from(rank).ok(), c_int::try_from(ranks).ok());
        let (Some(number), Some(count)) = numbers else {
            return Err(Error::refused(format!("there is no rank {rank} of {ranks}")));
        };
        if rank >= ranks {
            return Err(Error::refused(format!("there is no rank {rank} of {ranks}; they are numbered from 0")));
        }
        let (table, limit, id) = (table_of(stream.device().platform())?, limit::from_environment()?, id.raw());
        let join = move |device: &Device| -> Result<ncclComm_t> {
            device.make_current()?;
            enter(device.platform())?;
            let mut handle = ncclComm_t::NULL;
            // SAFETY: the place is ours, and the device is current.
            let code = unsafe { (table.ncclCommInitRank)(&mut handle, count, id, number) };
            check(table, "ncclCommInitRank", ncclComm_t::NULL, code)?;
            Ok(handle)
        };
        let handle = match stream.device().platform().kind() {
            // It has the limit itself.
            PlatformKind::Host => join(stream.device())?,
            // These wait for ever, so a thread of its own does, and is left behind when the time is over.
            PlatformKind::Amd | PlatformKind::Cuda => {
                let (sender, receiver) = mpsc::channel();
                let device = stream.device().clone();
                let waiting = std::thread::Builder::new().name("rccl join".to_owned());
                let started = waiting.spawn(move || {
                    // Nobody listens any more after the limit.
                    let _ = sender.send(join(&device));
                });
                started
                    .map_err(|error| Error::refused(format!("a thread to join ranks cannot be started: {error}")))?;
                receiver.recv_timeout(limit).map_err(|_| {
                    Error::refused(format!(
                        "not all of {ranks} ranks came within {} s; see why in their output, or set {LIMIT_VARIABLE} to more seconds",
                        limit.as_secs_f64()
                    ))
                })??
            }
        };
        Ok(Self::new(table, handle, stream, rank, ranks, limit))
    }

    /// A communicator whose ranks are all in this process: one for each stream, in their order, on the streams' devices.
    pub fn for_streams(streams: &[Stream]) -> Result<Vec<Self>> {
        let Some(first) = streams.first() else {
            return Err(Error::refused("a communicator needs at least one stream"));
        };
        let platform = first.device().platform();
        for (at, stream) in streams.iter().enumerate() {
            if streams[..at].contains(stream) {
                return Err(Error::refused("a stream can be one rank of a communicator only: give each rank its own"));
            }
            if stream.device().platform().kind() != platform.kind() {
                return Err(Error::refused("all ranks of a communicator are on the same platform"));
            }
        }
        let (table, limit) = (table_of(platform)?, limit::from_environment()?);
        let devices: Vec<c_int> = streams.iter().map(|stream| stream.device().ordinal() as c_int).collect();
        let mut handles = vec![ncclComm_t::NULL; streams.len()];
        first.device().make_current()?;
        enter(platform)?;
        // SAFETY: both lists are that long.
        let code = unsafe { (table.ncclCommInitAll)(handles.as_mut_ptr(), devices.len() as c_int, devices.as_ptr()) };
        check(table, "ncclCommInitAll", ncclComm_t::NULL, code)?;
        let ranks = streams.iter().zip(handles).enumerate();
        Ok(ranks.map(|(rank, (stream, handle))| Self::new(table, handle, stream, rank, streams.len(), limit)).collect())
    }

    fn new(
        table: &'static Rccl,
        handle: ncclComm_t,
        stream: &Stream,
        rank: usize,
        ranks: usize,
        limit: Duration,
    ) -> Self {
        let (stream, handle) = (stream.clone(), Mutex::new(Some(handle)));
        Self(Arc::new(Inner { table, handle, stream, rank, ranks, limit }))
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.0.rank
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.0.ranks
    }

    /// The stream that the calls are ordered by.
    pub fn stream(&self) -> &Stream {
        &self.0.stream
    }

    /// Where the library comes from.
    pub fn origin(&self) -> &Origin {
        self.0.table.origin()
    }

    /// Waits until all work of the stream is done, and says what went wrong with the ranks. Where the library would wait for ever for a
    /// rank that is gone, the communicator is aborted when the limit is over.
    pub fn wait(&self) -> Result<()> {
        self.0.wait()
    }

    /// Gives the communicator up at once, also where calls still wait for other ranks. Those calls fail, and so do the other ranks' when
    /// they wait for this one.
    pub fn abort(&self) -> Result<()> {
        self.0.abort()
    }
}

impl Inner {
    fn handle(&self) -> Result<ncclComm_t> {
        let handle = *self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        handle.ok_or_else(|| {
            Error::refused(format!("rank {} of {} was aborted; make a new communicator", self.rank, self.ranks))
        })
    }

    /// What the library found out by itself.
    fn look(&self, handle: ncclComm_t) -> Result<()> {
        let mut found = ncclResult_t::ncclSuccess;
        // SAFETY: the place is ours, and the handle was made by this table.
        let code = unsafe { (self.table.ncclCommGetAsyncError)(handle, &mut found) };
        check(self.table, "ncclCommGetAsyncError", handle, code)?;
        match found {
            ncclResult_t::ncclInProgress => Ok(()),
            found => check(self.table, "a call of the communicator", handle, found),
        }
    }

    fn wait(&self) -> Result<()> {
        let (handle, begin) = (self.handle()?, Instant::now());
        let watches_itself = self.stream.device().platform().kind() == PlatformKind::Host;
        let mut pause = Duration::from_micros(20);
        loop {
            if self.stream.is_idle()? {
                return self.look(handle);
            }
            let mut outcome = if watches_itself { Ok(()) } else { self.look(handle) };
            if !watches_itself && outcome.is_ok() && begin.elapsed() > self.limit {
                outcome = Err(Error::refused(format!(
                    "rank {} of {}: the stream is not done after {} s, so another rank may be gone; {LIMIT_VARIABLE} sets the limit",
                    self.rank,
                    self.ranks,
                    self.limit.as_secs_f64()
                )));
            }
            if let Err(error) = outcome {
                return match self.abort() {
                    Ok(()) => Err(error),
                    Err(second) => Err(error.with_detail(second.to_string())),
                };
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    }

    fn abort(&self) -> Result<()> {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(handle) = handle else { return Ok(()) };
        self.stream.device().make_current()?;
        enter(self.stream.device().platform())?;
        // SAFETY: the handle was made by this table, and nobody can get it any more.
        let code = unsafe { (self.table.ncclCommAbort)(handle) };
        check(self.table, "ncclCommAbort", ncclComm_t::NULL, code)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let watches_itself = self.stream.device().platform().kind() == PlatformKind::Host;
        let Ok(handle) = self.handle() else { return };
        // A library's own end waits for its calls, for ever if it has to.
        let done = match watches_itself || self.stream.is_capturing() {
            true => Ok(()),
            false => self.wait(),
        };
        let ended = done.and_then(|()| {
            self.stream.device().make_current()?;
            enter(self.stream.device().platform())?;
            // SAFETY: the handle was made by this table, and goes with `self`. Calls under way keep what they need.
            let code = unsafe { (self.table.ncclCommDestroy)(handle) };
            check(self.table, "ncclCommDestroy", ncclComm_t::NULL, code)
        });
        if let Err(error) = ended {
            log::warn!("{error}");
        }
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Comm(rank {} of {}, {})", self.rank(), self.ranks(), self.origin())
    }
}

/// The library's release as (major, minor, patch). The embedded device names the release whose interface it has.
pub fn version(platform: &Platform) -> Result<(u32, u32, u32)> {
    let table = table_of(platform)?;
    let mut code = 0;
    // SAFETY: the place is ours.
    let result = unsafe { (table.ncclGetVersion)(&mut code) };
    check(table, "ncclGetVersion", ncclComm_t::NULL, result)?;
    let (code, unit) = (code.unsigned_abs(), if code < 10_000 { 1000 } else { 10_000 });
    Ok((code / unit, code % unit / 100, code % 100))
}

/// What a call came to, in words.
pub(crate) fn check(table: &Rccl, call: &str, handle: ncclComm_t, code: ncclResult_t) -> Result<()> {
    if code == ncclResult_t::ncclSuccess {
        return Ok(());
    }
    let words = |text: *const c_char| {
        // SAFETY: the library gives null or a C string that is good until the thread's next call.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    // SAFETY: both calls take any value; a null communicator stands for the thread's last failure.
    let (meaning, last) = unsafe {
        (words((table.ncclGetErrorString)(code)), table.ncclGetLastError.and_then(|last| words(last(handle))))
    };
    let meaning = last.filter(|last| !last.is_empty()).or(meaning).unwrap_or_default();
    Err(Error::refused(format!("{call} returned {} ({}): {meaning}", code.name(), code.0)))
}

/// What has to be done before a call of the library: NVIDIA's asks the driver and not HIP which device is meant, and must not come before
/// launches that still wait.
pub(crate) fn enter(platform: &Platform) -> Result<()> {
    match platform.kind() {
        PlatformKind::Cuda => {
            hip_cuda::blas::enter().map_err(|code| Error::refused(format!("NVIDIA's driver cannot be reached: {code}")))
        }
        PlatformKind::Amd | PlatformKind::Host => Ok(()),
    }
}

/// The table that serves a platform. A library that is not found is looked for again at the next call.
pub fn table_of(platform: &Platform) -> Result<&'static Rccl> {
    static AMD: OnceLock<Rccl> = OnceLock::new();
    static NVIDIA: OnceLock<Rccl> = OnceLock::new();
    let (slot, search, names): (_, _, (&[&str], &[u32])) = match platform.kind() {
        PlatformKind::Host => return Ok(host::table()),
        PlatformKind::Amd => (&AMD, Search::default(), (&["rccl"], &[1])),
        PlatformKind::Cuda => (&NVIDIA, hip_cuda::search(), (&["nccl"], &[2])),
    };
    if let Some(table) = slot.get() {
        return Ok(table);
    }
    let table = Rccl::load_as(&search, names.0, names.1)?;
    Ok(slot.get_or_init(|| table))
}
