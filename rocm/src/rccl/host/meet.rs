//! How the ranks of a communicator find each other. An id names a socket without a file, at which a thread of the process that made the id
//! waits. Each rank connects there and says who it is. When all are there, each gets the shared memory; when one does not come in time, the
//! others hear which.

use super::segment::{self, Segment, MAX_RANKS};
use super::socket::{self, Credentials};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The start of our ids, so that another library's are not taken for one.
const MAGIC: &[u8; 8] = b"hosrccl1";
/// Bytes of a socket's name inside an id.
const NAME: usize = 32;
/// A rank waits that much longer than its limit, because the meeting knows better who is missing.
const GRACE: Duration = Duration::from_secs(5);
/// How long the meeting sleeps at most before it looks at the clock.
const TICK: Duration = Duration::from_millis(100);

/// A new id, with its meeting open.
pub fn open() -> Result<[u8; 128], String> {
    let mut random = [0u8; NAME / 2];
    // SAFETY: the buffer is ours and that long.
    let got = unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
    if got != random.len() as isize {
        return Err("the system gives no random numbers for the name of an id".to_owned());
    }
    let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let listener = SocketAddr::from_abstract_name(&name)
        .and_then(|address| UnixListener::bind_addr(&address))
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|error| format!("a socket for the ranks to meet at cannot be opened: {error}"))?;
    std::thread::Builder::new()
        .name("rccl meeting".to_owned())
        .spawn(move || Meeting { listener, waiting: Vec::new(), ranks: None }.hold())
        .map_err(|error| format!("a thread for the ranks to meet at cannot be started: {error}"))?;
    let mut id = [0; 128];
    id[..8].copy_from_slice(MAGIC);
    id[8..8 + NAME].copy_from_slice(name.as_bytes());
    Ok(id)
}

/// What a rank says when it connects: magic, ranks, rank, its limit in milliseconds, and its process.
const GREETING: usize = 56;

/// A rank on its way into a communicator.
pub struct Joining {
    stream: UnixStream,
    rank: usize,
    ranks: usize,
    limit: Duration,
}

/// Goes to the meeting of an id. The others may come later.
pub fn arrive(id: &[u8; 128], ranks: usize, rank: usize, limit: Duration) -> Result<Joining, String> {
    if &id[..8] != MAGIC {
        return Err(
            "the id was not made by the embedded device; every rank must use the same platform as the one that made it"
                .to_owned(),
        );
    }
    let stream =
        SocketAddr::from_abstract_name(&id[8..8 + NAME]).and_then(|address| UnixStream::connect_addr(&address));
    let mut stream = stream.map_err(|_| {
        "nobody waits at this id: the process that made it has ended or is on another machine, or the id was used before; make a new one".to_owned()
    })?;
    let process = super::process::Process::this();
    let words = [
        u64::from_le_bytes(*MAGIC),
        ranks as u64,
        rank as u64,
        limit.as_millis() as u64,
        u64::from(process.pid),
        process.started,
        process.namespace,
    ];
    let greeting: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    stream.write_all(&greeting).map_err(|error| format!("the meeting of the ranks cannot be reached: {error}"))?;
    Ok(Joining { stream, rank, ranks, limit })
}

impl Joining {
    /// Waits until all ranks are there.
    pub fn wait(mut self) -> Result<Segment, String> {
        let lost = |error: &std::io::Error| match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => format!(
                "rank {} of {} waited {} s at the meeting and heard nothing",
                self.rank,
                self.ranks,
                self.limit.as_secs_f64()
            ),
            _ => "the process that made the id ended before all ranks were there".to_owned(),
        };
        let _ = self.stream.set_read_timeout(Some(self.limit.saturating_add(GRACE)));
        let (answer, file) = socket::receive(&self.stream).map_err(|error| lost(&error))?;
        match (answer, file) {
            (0, Some(file)) => Segment::map(&file, self.ranks),
            _ => {
                let mut sentence = String::new();
                let _ = self.stream.set_read_timeout(Some(GRACE));
                let _ = (&mut self.stream).take(4096).read_to_string(&mut sentence);
                Err(match sentence.is_empty() {
                    true => "the meeting of the ranks ended without a reason".to_owned(),
                    false => sentence,
                })
            }
        }
    }
}

/// A rank that is there.
struct Waiting {
    stream: UnixStream,
    rank: usize,
    until: Instant,
    limit: Duration,
    process: [u64; 3],
}

/// The side of the process that made the id.
struct Meeting {
    listener: UnixListener,
    waiting: Vec<Waiting>,
    ranks: Option<usize>,
}

impl Meeting {
    /// Stays until all ranks are there, or until the ranks that are there have to be told that it comes to nothing.
    fn hold(mut self) {
        loop {
            let descriptors: Vec<i32> = std::iter::once(self.listener.as_raw_fd())
                .chain(self.waiting.iter().map(|waiting| waiting.stream.as_raw_fd()))
                .collect();
            // Nobody there yet: nothing to do until somebody comes, however long that takes.
            let patience = (!self.waiting.is_empty()).then_some(TICK);
            let hung_up = socket::poll(&descriptors, patience);
            if let Ok((stream, _)) = self.listener.accept() {
                self.welcome(stream);
            }
            if let Some(gone) = (1..descriptors.len()).find(|at| hung_up[*at]) {
                let rank = self.waiting.remove(gone - 1).rank;
                return self.refuse(&format!("rank {rank} ended before all ranks were there"));
            }
            if self.ranks.is_some_and(|ranks| ranks == self.waiting.len()) {
                return self.begin();
            }
            if let Some(late) = self.waiting.iter().find(|waiting| waiting.until <= Instant::now()) {
                let seconds = late.limit.as_secs_f64();
                let missing = self.missing();
                return self.refuse(&format!(
                    "{missing} did not come within {seconds} s; see why in its output, or set {} to more seconds",
                    super::super::limit::VARIABLE
                ));
            }
        }
    }

    /// Which ranks are not there, in words.
    fn missing(&self) -> String {
        let ranks = self.ranks.unwrap_or_default();
        let missing: Vec<usize> =
            (0..ranks).filter(|rank| self.waiting.iter().all(|waiting| waiting.rank != *rank)).collect();
        super::super::limit::name_ranks(&missing, ranks)
    }

    /// Somebody came: a rank that is expected, or a mistake that is told so.
    fn welcome(&mut self, mut stream: UnixStream) {
        let mut greeting = [0; GREETING];
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_read_timeout(Some(GRACE));
        if !Credentials::of(&stream).is_some_and(|other| other.is_this_user())
            || stream.read_exact(&mut greeting).is_err()
        {
            return;
        }
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| greeting[at * 8 + byte]));
        let (ranks, rank) = (word(1) as usize, word(2) as usize);
        let wrong = if word(0) != u64::from_le_bytes(*MAGIC) {
            Some("this is not a rank of a communicator".to_owned())
        } else if ranks == 0 || ranks > MAX_RANKS || rank >= ranks {
            Some(format!(
                "there is no rank {rank} of {ranks}; the embedded device has communicators of 1 to {MAX_RANKS} ranks"
            ))
        } else if self.ranks.is_some_and(|others| others != ranks) {
            Some(format!("rank {rank} expects {ranks} ranks, and the others expect {}", self.ranks.unwrap_or_default()))
        } else if self.waiting.iter().any(|waiting| waiting.rank == rank) {
            Some(format!("rank {rank} is there already: two processes have the same rank"))
        } else {
            None
        };
        if let Some(wrong) = wrong {
            tell(&mut stream, &wrong);
            return;
        }
        self.ranks = Some(ranks);
        let limit = Duration::from_millis(word(3));
        // A limit beyond what a clock can hold is none that anybody waits for.
        let until = Instant::now().checked_add(limit).unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
        self.waiting.push(Waiting { stream, rank, until, limit, process: [word(4), word(5), word(6)] });
    }

    /// All are there: each gets the memory.
    fn begin(mut self) {
        let made = segment::create(self.waiting.len()).and_then(|file| {
            let segment = Segment::map(&file, self.waiting.len())?;
            for waiting in &self.waiting {
                let row = segment.row(waiting.rank);
                row.pid.store(waiting.process[0] as u32, Ordering::Relaxed);
                row.started.store(waiting.process[1], Ordering::Relaxed);
                row.namespace.store(waiting.process[2], Ordering::Relaxed);
            }
            Ok(file)
        });
        match made {
            Ok(file) => self.waiting.iter_mut().for_each(|waiting| give(&mut waiting.stream, &file)),
            Err(why) => self.refuse(&why),
        }
    }

    fn refuse(mut self, sentence: &str) {
        self.waiting.iter_mut().for_each(|waiting| tell(&mut waiting.stream, sentence));
    }
}

/// Sends the memory. A rank that has gone meanwhile is found by the others when they wait for it.
fn give(stream: &mut UnixStream, file: &OwnedFd) {
    if let Err(error) = socket::send(stream, 0, Some(file.as_raw_fd())) {
        log::debug!("a rank left its meeting early: {error}");
    }
}

/// Sends a sentence on why it comes to nothing.
fn tell(stream: &mut UnixStream, sentence: &str) {
    let sent = socket::send(stream, 1, None).and_then(|()| stream.write_all(sentence.as_bytes()));
    if let Err(error) = sent {
        log::debug!("a rank left its meeting early: {error}");
    }
}
