//! The memory that the ranks of a communicator share: a row about each rank, and channels from each rank to each. A channel is a ring of
//! slots with one writer and one reader, who tell each other by two counters how far they are. The memory is a file without a name, so
//! nothing is left behind when the processes end, however they end.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Slots of a channel: enough that writer and reader need not take turns.
const SLOTS: u64 = 4;
/// Independent channels from one rank to another, so that no kind of message waits behind another: what is to be reduced, what has been
/// reduced, and what a program sends itself.
pub const LANES: usize = 3;
/// More ranks than that do not belong on the processors of one machine.
pub const MAX_RANKS: usize = 64;
/// Memory pages.
const PAGE: usize = 4096;
/// Bytes of a sentence in a rank's row.
const TEXT: usize = 200;

/// What is known about a rank.
#[repr(C, align(64))]
pub struct Row {
    state: AtomicU32,
    /// Its process, and when that was started: numbers of processes are used again.
    pub pid: AtomicU32,
    pub started: AtomicU64,
    /// The namespace that the number belongs to.
    pub namespace: AtomicU64,
    text_bytes: AtomicU32,
    text: [std::sync::atomic::AtomicU8; TEXT],
}

/// How a rank stands to its communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Present,
    /// It has given its communicator back.
    Left,
    /// It gave up, and its row says why.
    Failed,
}

impl Row {
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Present,
            1 => State::Left,
            _ => State::Failed,
        }
    }

    /// Marks the rank as gone; whatever it sent before arrives all the same.
    pub fn leave(&self) {
        let _ = self.state.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Tells the others that this rank gave up.
    pub fn fail(&self, sentence: &str) {
        let mut end = sentence.len().min(TEXT);
        while !sentence.is_char_boundary(end) {
            end -= 1;
        }
        for (place, byte) in self.text.iter().zip(&sentence.as_bytes()[..end]) {
            place.store(*byte, Ordering::Relaxed);
        }
        self.text_bytes.store(end as u32, Ordering::Relaxed);
        self.state.store(2, Ordering::Release);
    }

    /// Why the rank gave up.
    pub fn reason(&self) -> String {
        let bytes = (self.text_bytes.load(Ordering::Relaxed) as usize).min(TEXT);
        let text: Vec<u8> = self.text[..bytes].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// The two counters of a channel, each on a cache line of its own, and what its slots hold.
#[repr(C, align(64))]
struct Control {
    /// Chunks written so far.
    written: AtomicU64,
    _apart: [u64; 7],
    /// Chunks read so far.
    read: AtomicU64,
    _apart_too: [u64; 7],
    headers: [[AtomicU64; 2]; SLOTS as usize],
}

/// The shared memory, as this rank sees it.
pub struct Segment {
    base: *mut u8,
    bytes: usize,
    ranks: usize,
}

// SAFETY: what the ranks share are atomics and slots, and a slot belongs to the side that the counters say.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// Bytes of a slot: large enough that counters are seldom looked at, small enough that a chunk is still in the processor's cache when it
/// is read; with many ranks smaller, because there are channels between all of them.
fn slot_bytes(ranks: usize) -> usize {
    match ranks {
        0..=4 => 128 << 10,
        5..=16 => 32 << 10,
        _ => 8 << 10,
    }
}

fn channels(ranks: usize) -> usize {
    ranks * ranks * LANES
}

fn data_offset(ranks: usize) -> usize {
    (ranks * size_of::<Row>() + channels(ranks) * size_of::<Control>()).next_multiple_of(PAGE)
}

fn total_bytes(ranks: usize) -> usize {
    data_offset(ranks) + channels(ranks) * SLOTS as usize * slot_bytes(ranks)
}

fn system(what: &str) -> String {
    format!("{what}: {}", std::io::Error::last_os_error())
}

/// Makes the file. Pages that nobody touches cost nothing.
pub fn create(ranks: usize) -> Result<OwnedFd, String> {
    // SAFETY: the name is a C string, and the call takes nothing else of ours.
    let raw = unsafe {
        libc::memfd_create(c"rccl of the embedded device".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
    };
    if raw < 0 {
        return Err(system("memory to share between ranks cannot be made"));
    }
    // SAFETY: the call above made this descriptor, and nobody else has it.
    let file = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: plain calls on our own descriptor. Sealed, so that nobody can take the memory away under those who use it.
    let sized = unsafe {
        libc::ftruncate(raw, total_bytes(ranks) as libc::off_t) == 0
            && libc::fcntl(raw, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW) == 0
    };
    if !sized {
        return Err(system("memory to share between ranks cannot be sized"));
    }
    Ok(file)
}

impl Segment {
    /// Maps the file that [`create`] made for so many ranks.
    pub fn map(file: &OwnedFd, ranks: usize) -> Result<Self, String> {
        let (bytes, descriptor): (usize, RawFd) = (total_bytes(ranks), file.as_raw_fd());
        // SAFETY: a zeroed structure of numbers is a valid one, and the descriptor is ours.
        let size = unsafe {
            let mut about: libc::stat = std::mem::zeroed();
            (libc::fstat(descriptor, &mut about) == 0).then_some(about.st_size)
        };
        if size != Some(bytes as libc::off_t) {
            return Err("the shared memory has another size than expected: the ranks run different releases".to_owned());
        }
        // SAFETY: a new mapping of a file that is as long and stays so.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, descriptor, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(system("memory shared between ranks cannot be mapped"));
        }
        Ok(Self { base: base.cast(), bytes, ranks })
    }

    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// What is known about a rank, which is below the number of ranks.
    pub fn row(&self, rank: usize) -> &Row {
        assert!(rank < self.ranks);
        // SAFETY: the rows are at the start of the mapping, which is as long and lives as long as `self`. Zeros are a valid row.
        unsafe { &*self.base.cast::<Row>().add(rank) }
    }

    /// The channel of a lane from one rank to another.
    pub fn channel(&self, lane: usize, from: usize, to: usize) -> Channel<'_> {
        assert!(lane < LANES && from < self.ranks && to < self.ranks);
        let number = (lane * self.ranks + from) * self.ranks + to;
        let slot_bytes = slot_bytes(self.ranks);
        let before = self.ranks * size_of::<Row>() + number * size_of::<Control>();
        // SAFETY: the number is below `channels`, so both parts lie inside the mapping. Zeros are a valid control.
        unsafe {
            let data = self.base.add(data_offset(self.ranks) + number * SLOTS as usize * slot_bytes);
            Channel { control: &*self.base.add(before).cast::<Control>(), data, slot_bytes, number, from, to }
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and channels and rows are borrowed from `self`.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

/// What a chunk belongs to, so that ranks that do different things notice.
pub type Header = [u64; 2];

/// A ring of slots from one rank to another.
#[derive(Clone, Copy)]
pub struct Channel<'a> {
    control: &'a Control,
    data: *mut u8,
    slot_bytes: usize,
    /// Its number in the segment.
    pub number: usize,
    pub from: usize,
    pub to: usize,
}

impl Channel<'_> {
    /// Bytes of a chunk, but the last.
    pub fn chunk(&self) -> usize {
        self.slot_bytes
    }

    fn slot(&self, counter: u64) -> *mut u8 {
        self.data.wrapping_add((counter % SLOTS) as usize * self.slot_bytes)
    }

    /// The slot to write next, if one is free. Only for the rank that writes.
    pub fn free_slot(&self) -> Option<*mut u8> {
        let written = self.control.written.load(Ordering::Relaxed);
        (written - self.control.read.load(Ordering::Acquire) < SLOTS).then(|| self.slot(written))
    }

    /// Hands the slot that was written to the reader.
    pub fn push(&self, header: Header) {
        let written = self.control.written.load(Ordering::Relaxed);
        for (place, word) in self.control.headers[(written % SLOTS) as usize].iter().zip(header) {
            place.store(word, Ordering::Relaxed);
        }
        self.control.written.store(written + 1, Ordering::Release);
    }

    /// The slot to read next, if one is filled. Only for the rank that reads.
    pub fn filled_slot(&self) -> Option<(*const u8, Header)> {
        let read = self.control.read.load(Ordering::Relaxed);
        if self.control.written.load(Ordering::Acquire) == read {
            return None;
        }
        let header = &self.control.headers[(read % SLOTS) as usize];
        let header = [header[0].load(Ordering::Relaxed), header[1].load(Ordering::Relaxed)];
        Some((self.slot(read).cast_const(), header))
    }

    /// Hands the slot that was read back to the writer.
    pub fn pop(&self) {
        let read = self.control.read.load(Ordering::Relaxed);
        self.control.read.store(read + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_arrive_in_order_through_two_mappings() {
        let file = create(3).unwrap();
        let (one, two) = (Segment::map(&file, 3).unwrap(), Segment::map(&file, 3).unwrap());
        let (writer, reader) = (one.channel(2, 0, 1), two.channel(2, 0, 1));
        assert!(reader.filled_slot().is_none());
        for round in 0..3u64 {
            for at in 0..SLOTS {
                let slot = writer.free_slot().expect("the ring has room");
                // SAFETY: the slot is the writer's until it is pushed.
                unsafe { slot.write((round * SLOTS + at) as u8) };
                writer.push([round, at]);
            }
            assert!(writer.free_slot().is_none());
            for at in 0..SLOTS {
                let (slot, header) = reader.filled_slot().expect("it was written");
                // SAFETY: the slot is the reader's until it is popped.
                assert_eq!((unsafe { *slot }, header), ((round * SLOTS + at) as u8, [round, at]));
                reader.pop();
            }
        }
        assert!(one.channel(2, 1, 0).filled_slot().is_none() && one.channel(1, 0, 1).filled_slot().is_none());
    }

    #[test]
    fn a_rank_says_why_it_gave_up() {
        let file = create(2).unwrap();
        let (one, two) = (Segment::map(&file, 2).unwrap(), Segment::map(&file, 2).unwrap());
        assert_eq!(two.row(1).state(), State::Present);
        one.row(1).fail(&"é".repeat(TEXT));
        one.row(1).leave();
        assert_eq!(two.row(1).state(), State::Failed);
        assert_eq!(two.row(1).reason(), "é".repeat(TEXT / 2));
        two.row(0).leave();
        assert_eq!(one.row(0).state(), State::Left);
        assert!(Segment::map(&file, 3).is_err(), "another number of ranks has another size");
    }
}
