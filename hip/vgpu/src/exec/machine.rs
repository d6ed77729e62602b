//! What a block's waves share while they run: local memory, the way to device memory, the launch's settings, and the first
//! thing that went wrong.

use crate::exec::trans::Accuracy;
use crate::failure::Cause;
use crate::memory::{Memory, Span};
use crate::target::Arch;
use crate::wave::Flow;

/// High words of the addresses by which generic pointers name local and private memory: no mapping of this process is there.
pub(crate) const SHARED_APERTURE: u32 = 0x0001_0000;
pub(crate) const PRIVATE_APERTURE: u32 = 0x0002_0000;

/// Ranges that were found, by the number of the instruction that asked.
pub(crate) const CACHED_SPANS: usize = 32;

/// What a handler has to say about a failure; the launch adds the place.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub cause: Cause,
    pub lane: Option<usize>,
    pub message: String,
}

/// Everything outside of the wave.
pub(crate) struct Machine<'a> {
    pub arch: Arch,
    pub memory: &'a dyn Memory,
    /// The object's own segments.
    pub image: &'a [Span],
    pub accuracy: Accuracy,
    pub lds: Vec<u8>,
    /// Local memory of the block; the vector may be longer.
    pub lds_bytes: usize,
    pub cache: [Span; CACHED_SPANS],
    pub trouble: Option<Box<Trouble>>,
    /// The address of the access that was refused.
    pub refused: Option<u64>,
    /// Every access is looked at: local memory beyond the block fails instead of reading 0.
    pub checked: bool,
    pub tracker: crate::checks::Tracker,
    /// Where races in global memory are looked for.
    pub shadow: Option<&'a crate::checks::Shadow>,
    /// Number and address of the running instruction, for handlers that need it.
    pub block: [u32; 3],
    pub counters: crate::count::Counters,
    pub counting: bool,
}

impl Machine<'_> {
    /// Notes what went wrong.
    #[cold]
    #[inline(never)]
    pub fn fail(&mut self, cause: Cause, lane: Option<usize>, message: String) -> Flow {
        self.trouble = Some(Box::new(Trouble { cause, lane, message }));
        Flow::Fail
    }

    /// The range that all of `address..address + bytes` lies in.
    #[inline(always)]
    pub fn span(&mut self, slot: usize, address: u64, bytes: u64, write: bool) -> Option<Span> {
        let span = self.cache[slot % CACHED_SPANS];
        if span.contains(address, bytes) && (span.writable || !write) {
            return Some(span);
        }
        self.find_span(slot, address, bytes, write)
    }

    #[inline(never)]
    fn find_span(&mut self, slot: usize, address: u64, bytes: u64, write: bool) -> Option<Span> {
        let own = self.image.iter().find(|span| span.contains(address, bytes.max(1)));
        let span = own.copied().or_else(|| self.memory.find(address))?;
        if !span.contains(address, bytes) || write && !span.writable {
            return None;
        }
        self.cache[slot % CACHED_SPANS] = span;
        Some(span)
    }

    /// Where all of `address..address + bytes` lies in this process: the same address, or that of memory which only the device
    /// sees there.
    #[inline(always)]
    pub fn host(&mut self, slot: usize, address: u64, bytes: u64, write: bool) -> Option<(u64, Span)> {
        match self.span(slot, address, bytes, write) {
            Some(span) => Some((address, span)),
            None => self.memory.alias(address, bytes).map(|host| (host, Span::EMPTY)),
        }
    }

    /// Says why an access is refused.
    #[cold]
    #[inline(never)]
    pub fn refuse_access(&mut self, lane: Option<usize>, address: u64, bytes: u64, write: bool) -> Flow {
        self.refused = Some(address);
        let own = self.image.iter().find(|span| span.contains(address, 1)).copied();
        let what = if write { "writes" } else { "reads" };
        let found = own.or_else(|| self.memory.find(address));
        let wher = match (own, found) {
            (Some(_), Some(span)) if write && !span.writable => "read-only memory of the code object".to_owned(),
            (None, Some(span)) if write && !span.writable => "memory that is read only".to_owned(),
            (_, Some(span)) => format!(
                "of which {} lie behind the end of a buffer of {} bytes",
                address.saturating_add(bytes).saturating_sub(span.end),
                span.end - span.start
            ),
            _ => self.memory.describe(address),
        };
        self.fail(Cause::Memory, lane, format!("{what} {bytes} bytes at {address:#x}: {wher}"))
    }
}
