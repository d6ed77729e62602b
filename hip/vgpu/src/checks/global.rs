//! Races in global memory: two waves of a launch touch a word, one of them writes, and nothing orders the two (`order`). A write that
//! leaves memory as it is does no harm and is not reported. Stamps of the words that a launch touches are kept in pages, each with a
//! lock: blocks run on several threads.

use super::cells::{Cells, Conflict, Judge, Me, Touch, Verdict};
use super::order::{Meeting, Missing, Progress, Rules, Stamp, Words, SEVERAL};
use super::quick::flags;
use crate::exec::machine::Machine;
use crate::failure::Cause;
use crate::memory::{load_u8, Span};
use crate::wave::{Lanes, Op, Wave};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

const PAGE: u64 = 4096;

/// Pages that a thread remembers; a power of two.
const REMEMBERED: usize = 64;

type Page = Arc<Mutex<Cells>>;

/// What a launch remembers of global memory, shared by the threads that run its blocks.
pub(crate) struct Shadow {
    id: AtomicU64,
    pages: Mutex<HashMap<u64, Page>>,
    stamps: RwLock<Vec<Stamp>>,
    words: Mutex<Words>,
}

/// The first stamps: nobody, and several blocks that nobody tells apart.
const NOBODY: u32 = 0;
const BLOCKS: u32 = 1;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shadow {
    pub fn new() -> Self {
        let shadow =
            Self { id: AtomicU64::new(0), pages: Mutex::default(), stamps: RwLock::default(), words: Mutex::default() };
        shadow.clear();
        shadow
    }

    /// Forgets everything: the launch begins.
    pub fn clear(&self) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        self.id.store(NEXT.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        lock(&self.pages).clear();
        *lock(&self.words) = Words::default();
        let nobody = Stamp { block: 0, wave: 0, atomic: false, clock: 0 };
        *self.stamps.write().unwrap_or_else(PoisonError::into_inner) = vec![nobody; 2];
    }

    fn page(&self, number: u64) -> Page {
        lock(&self.pages).entry(number).or_insert_with(|| Arc::new(Mutex::new(Cells::new(PAGE as usize)))).clone()
    }

    fn stamp(&self, stamp: Stamp) -> u32 {
        let mut stamps = self.stamps.write().unwrap_or_else(PoisonError::into_inner);
        stamps.push(stamp);
        stamps.len() as u32 - 1
    }

    fn look_up(&self, stamp: u32) -> Option<Stamp> {
        self.stamps.read().unwrap_or_else(PoisonError::into_inner).get(stamp as usize).copied()
    }
}

/// What the checks remember of a block's way through global memory.
#[derive(Default)]
pub(crate) struct Global {
    /// Which launch the pages below belong to.
    id: u64,
    pages: Pages,
    pub rules: Rules,
    pub meeting: Meeting,
    /// The block, counted through the grid.
    block: u32,
    /// A stamp for reads by several waves since the last barrier; 0 while there is none.
    shared: u32,
    /// The code has an instruction that lets a block see what others released.
    pub acquires: bool,
    /// Words that a load sees as an atomic would.
    loaded: Vec<u64>,
    /// Writes of the running instruction that conflict with what others did, unless they change nothing.
    pub suspects: Vec<Suspect>,
}

/// A write that is no race if it leaves memory as it was.
pub(crate) struct Suspect {
    address: u64,
    /// What was there before.
    value: u32,
    bytes: usize,
    stamp: u32,
    written: bool,
    missing: Missing,
}

impl Suspect {
    fn now(&self) -> u32 {
        // SAFETY: the bytes are inside of a span that the running instruction writes to.
        (0..self.bytes).fold(0, |value, n| value << 8 | u32::from(unsafe { load_u8(self.address + n as u64) }))
    }
}

/// Pages by their number, for a thread.
#[derive(Default)]
struct Pages(Vec<(u64, Option<Page>)>);

impl Pages {
    #[inline(always)]
    fn find(&mut self, shadow: &Shadow, number: u64) -> Option<&Mutex<Cells>> {
        let slot = self.0.get_mut(number as usize % REMEMBERED)?;
        if slot.0 != number {
            *slot = (number, Some(shadow.page(number)));
        }
        slot.1.as_deref()
    }
}

impl Global {
    pub fn start(&mut self, shadow: &Shadow, rules: Rules, block: u64, waves: usize) {
        let id = shadow.id.load(Ordering::Relaxed);
        if self.id != id {
            self.id = id;
            self.pages.0.clear();
            self.pages.0.resize(REMEMBERED, (u64::MAX, None));
        }
        self.rules = rules;
        self.block = block as u32;
        self.shared = NOBODY;
        self.meeting.start(waves);
        self.loaded.clear();
        self.suspects.clear();
    }

    /// All waves of the block have met.
    pub fn meet<'a>(&mut self, waves: impl Iterator<Item = (&'a mut Progress, bool)>) {
        self.meeting.meet(self.rules, waves);
        self.shared = NOBODY;
    }
}

/// Knows what stamps of global memory mean.
struct AcrossBlocks<'a> {
    shadow: &'a Shadow,
    rules: Rules,
    meeting: &'a Meeting,
    progress: &'a Progress,
    block: u32,
    wave: usize,
    shared: &'a mut u32,
    touch: Touch,
    /// Why the last access that was asked for does not come before.
    missing: Missing,
    /// The first address of the page.
    base: u64,
    /// What is touched: the addresses from one to the one behind the last.
    range: (u64, u64),
    suspects: &'a mut Vec<Suspect>,
}

impl Judge for AcrossBlocks<'_> {
    fn comes_after(&mut self, stamp: u32, written: bool) -> Verdict {
        match self.is_ordered(stamp, written) {
            true => Verdict::After,
            // Whether it matters is seen when it is done.
            false if self.touch == Touch::Write => Verdict::Suspect,
            false => Verdict::Conflict,
        }
    }

    fn suspect(&mut self, at: usize, bytes: usize, stamp: u32, written: bool) {
        // Stamps are of words; where a part of one is written, the rest may not even be memory.
        let (address, missing) = ((self.base + at as u64).max(self.range.0), self.missing);
        let bytes = (self.base + (at + bytes) as u64).min(self.range.1).saturating_sub(address) as usize;
        let mut suspect = Suspect { address, value: 0, bytes, stamp, written, missing };
        suspect.value = suspect.now();
        self.suspects.push(suspect);
    }

    fn join_reads(&mut self, me: &Me, stamp: u32) -> u32 {
        let Some(other) = self.shadow.look_up(stamp) else { return me.plain };
        if other.block != self.block {
            return BLOCKS;
        }
        if usize::from(other.wave) == self.wave || other.clock < self.meeting.barrier {
            return me.plain;
        }
        if *self.shared == NOBODY {
            let clock = self.progress.clock;
            *self.shared = self.shadow.stamp(Stamp { block: self.block, wave: SEVERAL, atomic: false, clock });
        }
        *self.shared
    }
}

impl AcrossBlocks<'_> {
    fn is_ordered(&mut self, stamp: u32, written: bool) -> bool {
        if stamp == BLOCKS {
            // Nobody knows which blocks have read; who has acquired nothing comes after none of them.
            self.missing = Missing::Atomic;
            return !self.progress.known.is_empty();
        }
        let Some(other) = self.shadow.look_up(stamp) else { return true };
        let atomic = matches!(self.touch, Touch::Atomic | Touch::AtomicRead);
        if atomic && other.atomic {
            return true;
        }
        // What bypasses the caches needs none to be invalidated.
        let reads = self.touch == Touch::Read;
        let missing = if other.block != self.block {
            lock(&self.shadow.words).between(&self.progress.known, &other, written, reads)
        } else if usize::from(other.wave) == self.wave {
            None
        } else {
            self.meeting.between(self.rules, self.progress, &other, written, reads)
        };
        if let Some(missing) = missing {
            self.missing = missing;
        }
        missing.is_none()
    }
}

impl Machine<'_> {
    /// Whether races in memory are looked for. What nobody can write has none.
    #[inline(always)]
    fn watches(&self, span: Span) -> bool {
        self.tracker.on.races && span.writable && self.shadow.is_some()
    }

    /// All active lanes touch global memory. False: a check has something to say.
    #[inline(always)]
    #[must_use]
    pub(super) fn touch_lanes<const L: usize>(
        &mut self,
        w: &mut Wave<L>,
        addresses: &[u64; L],
        bytes: usize,
        write: bool,
        span: Span,
    ) -> bool {
        if !self.watches(span) {
            return true;
        }
        self.watch_lanes(w, addresses, bytes, write)
    }

    #[inline(never)]
    fn watch_lanes<const L: usize>(
        &mut self,
        w: &mut Wave<L>,
        addresses: &[u64; L],
        bytes: usize,
        write: bool,
    ) -> bool {
        let first = addresses[w.exec.trailing_zeros() as usize % L];
        if w.exec == Wave::<L>::ALL {
            let mut consecutive = true;
            for (i, &address) in addresses.iter().enumerate() {
                consecutive &= address == first.wrapping_add((bytes * i) as u64);
            }
            if consecutive {
                return self.touch_range(w, 0, first, bytes * L, bytes, write);
            }
        }
        let lanes = self.unsettled(w, addresses, bytes, write);
        Lanes(lanes).all(|lane| self.touch_range(w, lane, addresses[lane], bytes, bytes, write))
    }

    /// Active lanes, without those whose access changes nothing, as far as they lie on the page of the first.
    fn unsettled<const L: usize>(&mut self, w: &mut Wave<L>, addresses: &[u64; L], bytes: usize, write: bool) -> u64 {
        let mut lanes = w.exec;
        let touch = if write { Touch::Write } else { Touch::Read };
        if self.tracker.flags & flags::COHERENT != 0 {
            return lanes;
        }
        let Some(shadow) = self.shadow else { return 0 };
        let global = &mut self.tracker.global;
        if write {
            w.watch.progress.store();
        }
        let me = global.me(shadow, &mut w.watch.progress, w.id, touch);
        let number = addresses[w.exec.trailing_zeros() as usize % L] / PAGE;
        let Some(page) = global.pages.find(shadow, number) else { return lanes };
        let page = lock(page);
        let mut before = u64::MAX;
        for lane in w.active() {
            let (address, offset) = (addresses[lane], (addresses[lane] % PAGE) as usize);
            // Lanes that read the same word as the one before them add nothing.
            let again = address == before && !write;
            before = address;
            let here = address / PAGE == number && offset + bytes <= PAGE as usize;
            if again || here && page.is_settled(offset, bytes, &me, touch) {
                lanes &= !(1 << lane);
            }
        }
        lanes
    }

    /// One lane touches global memory. False: a check has something to say.
    #[must_use]
    pub(super) fn touch_lane<const L: usize>(
        &mut self,
        w: &mut Wave<L>,
        lane: usize,
        address: u64,
        bytes: usize,
        write: bool,
        span: Span,
    ) -> bool {
        !self.watches(span) || self.touch_range(w, lane, address, bytes, bytes, write)
    }

    /// A range of memory is touched, `each` bytes a lane from `lane` on.
    fn touch_range<const L: usize>(
        &mut self,
        w: &mut Wave<L>,
        lane: usize,
        address: u64,
        bytes: usize,
        each: usize,
        write: bool,
    ) -> bool {
        let coherent = self.tracker.flags & flags::COHERENT != 0;
        let touch = match (write, coherent) {
            (true, _) => Touch::Write,
            (false, true) => Touch::AtomicRead,
            _ => Touch::Read,
        };
        if coherent && self.tracker.global.acquires {
            self.tracker.global.loaded.extend((address..address + bytes as u64).step_by(each));
        }
        let Some((at, conflict, missing)) = self.touch_pages(&mut w.watch.progress, w.id, address, bytes, touch) else {
            return true;
        };
        let lane = lane + (at - address) as usize / each;
        self.global_race(Some(lane), at, touch, conflict.stamp, conflict.written, missing)
    }

    /// A store has run: if one of its writes had to come after another access, and changed something, it is a race.
    #[cold]
    #[inline(never)]
    pub(super) fn judge_suspects<const L: usize>(&mut self, w: &Wave<L>, op: &Op<L>) -> bool {
        let suspects = std::mem::take(&mut self.tracker.global.suspects);
        let Some(found) = suspects.iter().find(|suspect| suspect.now() != suspect.value) else { return true };
        let end = found.address + found.bytes as u64;
        let lane = crate::exec::vmem::find_lane(w, op, end);
        self.global_race(lane, found.address, Touch::Write, found.stamp, found.written, found.missing)
    }

    /// Looks at the stamps page by page. What comes back is the address, the earlier access, and what would have ordered the two.
    fn touch_pages(
        &mut self,
        progress: &mut Progress,
        wave: usize,
        address: u64,
        bytes: usize,
        touch: Touch,
    ) -> Option<(u64, Conflict, Missing)> {
        let shadow = self.shadow?;
        let global = &mut self.tracker.global;
        if touch == Touch::Write {
            progress.store();
        }
        let me = global.me(shadow, progress, wave, touch);
        let (mut at, end) = (address, address.saturating_add(bytes as u64));
        while at < end {
            let (number, offset) = (at / PAGE, at % PAGE);
            let count = (end - at).min(PAGE - offset);
            let page = global.pages.find(shadow, number)?;
            let mut judge = AcrossBlocks {
                shadow,
                rules: global.rules,
                meeting: &global.meeting,
                progress,
                block: global.block,
                wave,
                shared: &mut global.shared,
                touch,
                missing: Missing::Atomic,
                base: number * PAGE,
                range: (address, end),
                suspects: &mut global.suspects,
            };
            let found = lock(page).touch(offset as usize, count as usize, &me, touch, &mut judge);
            if let Some(conflict) = found {
                return Some((number * PAGE + conflict.at as u64, conflict, judge.missing));
            }
            at += count;
        }
        None
    }

    /// An atomic of one lane: `update` changes the word. `None`: a check has something to say.
    pub(super) fn touch_atomic<const L: usize, R>(
        &mut self,
        w: &mut Wave<L>,
        lane: usize,
        address: u64,
        bytes: usize,
        span: Span,
        update: impl FnOnce() -> R,
    ) -> Option<R> {
        if !self.watches(span) {
            return Some(update());
        }
        let progress = &mut w.watch.progress;
        if let Some((at, conflict, missing)) = self.touch_pages(progress, w.id, address, bytes, Touch::Atomic) {
            self.global_race(Some(lane), at, Touch::Atomic, conflict.stamp, conflict.written, missing);
            return None;
        }
        let global = &self.tracker.global;
        let Some(shadow) = self.shadow.filter(|_| global.acquires) else { return Some(update()) };
        let release = global.meeting.release(global.rules, global.block, w.id, progress);
        // Under one lock, so that releases are in the order of the updates.
        let mut words = lock(&shadow.words);
        let releases = words.release(address, release);
        let old = update();
        drop(words);
        progress.observe(address, releases);
        Some(old)
    }

    /// A load that counts as atomic has run: what it saw was released.
    pub(super) fn loaded_coherently(&mut self, progress: &mut Progress) {
        let Some(shadow) = self.shadow else { return };
        let words = lock(&shadow.words);
        for address in self.tracker.global.loaded.drain(..) {
            let releases = words.releases(address);
            if releases > 0 {
                progress.observe(address, releases);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn global_race(
        &mut self,
        lane: Option<usize>,
        at: u64,
        touch: Touch,
        stamp: u32,
        written: bool,
        missing: Missing,
    ) -> bool {
        let what = match touch {
            Touch::Read | Touch::AtomicRead => "reads",
            Touch::Write => "writes",
            Touch::Atomic => "updates",
        };
        let other = self.shadow.and_then(|shadow| shadow.look_up(stamp));
        let did = match (written, other.is_some_and(|other| other.atomic)) {
            (true, true) => "updated",
            (true, false) => "wrote",
            _ => "read",
        };
        let who = match other {
            _ if stamp == BLOCKS => "other blocks".to_owned(),
            Some(other) if other.block == self.tracker.global.block && other.wave == SEVERAL => {
                "other waves".to_owned()
            }
            Some(other) if other.block == self.tracker.global.block => format!("wave {} of the block", other.wave),
            Some(other) => format!("block {}", other.block),
            None => "somebody".to_owned(),
        };
        let place = match self.memory.find(at) {
            Some(span) => format!("{} bytes into a buffer of {} bytes", at - span.start, span.end - span.start),
            None => format!("at {at:#x}"),
        };
        let why = format!("{what} memory {place}, which {who} {did}: {}", missing.words());
        self.fail(Cause::Race, lane, why);
        false
    }
}

impl Global {
    /// The stamps of a wave now.
    #[inline(always)]
    fn me(&mut self, shadow: &Shadow, progress: &mut Progress, wave: usize, touch: Touch) -> Me {
        let atomic = matches!(touch, Touch::Atomic | Touch::AtomicRead);
        let needed = if atomic { &mut progress.atomic } else { &mut progress.plain };
        if *needed == NOBODY {
            let clock = progress.clock;
            *needed = shadow.stamp(Stamp { block: self.block, wave: wave as u8, atomic, clock });
        }
        let own = |stamp: u32| if stamp == NOBODY { u32::MAX } else { stamp };
        let shared = if self.shared == NOBODY { BLOCKS } else { self.shared };
        Me { floor: BLOCKS, plain: own(progress.plain), atomic: own(progress.atomic), shared }
    }
}
