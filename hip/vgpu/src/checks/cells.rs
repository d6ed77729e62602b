//! Who touched which word last. Each word has two stamps, of its last write and of its last read; a stamp stands for a wave between two
//! points where it is ordered with others. What a stamp means, and which of two accesses comes first, is the affair of a [`Judge`].
//! Words are looked at together: as long as all stamps are old or one's own there is nothing to ask.

/// How memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
    Atomic,
    /// A load that counts as atomic.
    AtomicRead,
}

/// The stamps of the wave that touches memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Me {
    /// Stamps below are of accesses that nothing can race with any more. The floor itself stands for reads by several whom nobody
    /// tells apart.
    pub floor: u32,
    pub plain: u32,
    pub atomic: u32,
    /// Reads by several waves of the block, this one among them; or the floor.
    pub shared: u32,
}

impl Me {
    #[inline(always)]
    fn is_fine(&self, stamp: u32) -> bool {
        (stamp < self.floor) | (stamp == self.plain) | (stamp == self.atomic)
    }

    #[inline(always)]
    fn is_read(&self, stamp: u32) -> bool {
        (stamp == self.plain) | (stamp == self.floor) | (stamp == self.shared)
    }
}

/// What a judge says about an earlier access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// This one comes after it.
    After,
    /// Nothing orders the two.
    Conflict,
    /// Nothing orders the two, and the judge wants to see whether it matters.
    Suspect,
}

/// Knows what stamps mean.
pub(crate) trait Judge {
    /// Whether this access comes after the write, or the read, of that stamp.
    fn comes_after(&mut self, stamp: u32, written: bool) -> Verdict;
    /// These bytes are suspect, by an access of that stamp.
    fn suspect(&mut self, _at: usize, _bytes: usize, _stamp: u32, _written: bool) {}
    /// A stamp for the reads of that stamp and the one by `me`.
    fn join_reads(&mut self, me: &Me, stamp: u32) -> u32;
}

/// Two accesses that nothing orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The first byte of the word or the byte.
    pub at: usize,
    /// Of the earlier access.
    pub stamp: u32,
    /// That one wrote.
    pub written: bool,
}

/// Stamps of cells that have so many bytes each.
#[derive(Default)]
struct Layer {
    bytes: usize,
    writes: Vec<u32>,
    reads: Vec<u32>,
}

impl Layer {
    fn new(bytes: usize, count: usize) -> Self {
        Self { bytes, writes: vec![0; count], reads: vec![0; count] }
    }

    #[inline(always)]
    fn check(
        &self,
        from: usize,
        to: usize,
        me: &Me,
        touch: Touch,
        judge: &mut impl Judge,
    ) -> Option<(usize, u32, bool)> {
        let bad = |stamps: &[u32]| stamps.iter().fold(false, |bad, &stamp| bad | !me.is_fine(stamp));
        let writes = self.writes.get(from..to)?;
        if bad(writes) {
            if let Some((n, stamp)) = first_conflict(writes, me, (from, self.bytes), true, judge) {
                return Some((from + n, stamp, true));
            }
        }
        if matches!(touch, Touch::Write | Touch::Atomic) {
            let reads = self.reads.get(from..to)?;
            if bad(reads) {
                let (n, stamp) = first_conflict(reads, me, (from, self.bytes), false, judge)?;
                return Some((from + n, stamp, false));
            }
        }
        None
    }

    #[inline(always)]
    fn record(&mut self, from: usize, to: usize, me: &Me, touch: Touch, judge: &mut impl Judge) {
        match touch {
            Touch::Write | Touch::Atomic => {
                let stamp = if touch == Touch::Write { me.plain } else { me.atomic };
                if let Some(writes) = self.writes.get_mut(from..to) {
                    writes.fill(stamp);
                }
            }
            Touch::Read => {
                let Some(reads) = self.reads.get_mut(from..to) else { return };
                let all = reads.iter().fold(true, |all, &stamp| all & me.is_read(stamp));
                if !all {
                    join(reads, me, judge);
                }
            }
            // Nothing but a plain write could race with it, and that would race with the atomics as well.
            Touch::AtomicRead => {}
        }
    }
}

/// The first of these stamps that conflicts. They are of cells of so many bytes, counted from the first number on.
#[inline(never)]
fn first_conflict(
    stamps: &[u32],
    me: &Me,
    (from, bytes): (usize, usize),
    written: bool,
    judge: &mut impl Judge,
) -> Option<(usize, u32)> {
    // Neighbours mostly have the same stamp.
    let mut known = (me.plain, Verdict::After);
    for (n, &stamp) in stamps.iter().enumerate() {
        if me.is_fine(stamp) {
            continue;
        }
        if stamp != known.0 {
            known = (stamp, judge.comes_after(stamp, written));
        }
        match known.1 {
            Verdict::After => {}
            Verdict::Conflict => return Some((n, stamp)),
            Verdict::Suspect => judge.suspect((from + n) * bytes, bytes, stamp, written),
        }
    }
    None
}

#[inline(never)]
fn join(stamps: &mut [u32], me: &Me, judge: &mut impl Judge) {
    let mut known = (0, me.plain);
    for stamp in stamps {
        if *stamp < me.floor {
            *stamp = me.plain;
        } else if !me.is_read(*stamp) {
            if *stamp != known.0 {
                known = (*stamp, judge.join_reads(me, *stamp));
            }
            *stamp = known.1;
        }
    }
}

/// The stamps of a piece of memory: a word has its own, and where bytes or halves are touched, these have theirs as well.
#[derive(Default)]
pub(crate) struct Cells {
    words: Layer,
    bytes: Option<Box<Layer>>,
}

impl Cells {
    /// For so many bytes of memory, which nobody has touched.
    pub fn new(bytes: usize) -> Self {
        Self { words: Layer::new(4, bytes.div_ceil(4)), bytes: None }
    }

    /// Nobody has touched anything; as many bytes as before.
    pub fn clear(&mut self) {
        self.words.writes.fill(0);
        self.words.reads.fill(0);
        self.bytes = None;
    }

    /// At least so many bytes.
    pub fn grow(&mut self, bytes: usize) {
        let words = bytes.div_ceil(4);
        if words > self.words.writes.len() {
            *self = Self::new(words * 4);
        }
    }

    /// Some bytes or halves were touched as such.
    pub fn has_bytes(&self) -> bool {
        self.bytes.is_some()
    }

    /// The stamp of the last write to a word.
    pub fn written(&self, word: usize) -> u32 {
        self.words.writes.get(word).copied().unwrap_or(0)
    }

    /// Reads a word that nobody else has written since the floor, and somebody since `oldest`. False: it is not like that. Several readers
    /// are not told apart.
    #[inline(always)]
    pub fn read_word(&mut self, word: usize, me: &Me, oldest: u32) -> bool {
        let (Some(&write), Some(read)) = (self.words.writes.get(word), self.words.reads.get_mut(word)) else {
            return false;
        };
        *read = if (*read < me.floor) | (*read == me.plain) { me.plain } else { me.floor };
        (write >= oldest) & me.is_fine(write)
    }

    /// Writes a word that nobody else has touched since the floor. False: it is not like that.
    #[inline(always)]
    pub fn write_word(&mut self, word: usize, me: &Me) -> bool {
        let (Some(write), Some(&read)) = (self.words.writes.get_mut(word), self.words.reads.get(word)) else {
            return false;
        };
        let fine = me.is_fine(*write) & me.is_fine(read);
        if fine {
            *write = me.plain;
        }
        fine
    }

    /// Whether an access to whole words would change nothing and conflict with nothing.
    #[inline(always)]
    pub fn is_settled(&self, at: usize, count: usize, me: &Me, touch: Touch) -> bool {
        if !(at | count).is_multiple_of(4) || self.bytes.is_some() {
            return false;
        }
        (at / 4..(at + count) / 4).all(|word| match (self.words.writes.get(word), self.words.reads.get(word)) {
            (Some(&write), Some(&read)) if touch == Touch::Read => me.is_fine(write) & me.is_read(read),
            (Some(&write), Some(&read)) if touch == Touch::Write => (write == me.plain) & me.is_fine(read),
            _ => false,
        })
    }

    /// Notes an access to `count` bytes from the byte `at` on, unless it conflicts with an earlier one.
    #[inline(always)]
    pub fn touch(
        &mut self,
        at: usize,
        count: usize,
        me: &Me,
        touch: Touch,
        judge: &mut impl Judge,
    ) -> Option<Conflict> {
        if (at | count).is_multiple_of(4) && self.bytes.is_none() {
            let (from, to) = (at / 4, (at + count) / 4);
            if let Some((word, stamp, written)) = self.words.check(from, to, me, touch, judge) {
                return Some(Conflict { at: word * 4, stamp, written });
            }
            self.words.record(from, to, me, touch, judge);
            return None;
        }
        self.touch_bytes(at, count, me, touch, judge)
    }

    #[inline(never)]
    fn touch_bytes(
        &mut self,
        at: usize,
        count: usize,
        me: &Me,
        touch: Touch,
        judge: &mut impl Judge,
    ) -> Option<Conflict> {
        let (from, to) = (at / 4, (at + count).div_ceil(4));
        if let Some((word, stamp, written)) = self.words.check(from, to, me, touch, judge) {
            return Some(Conflict { at: (word * 4).max(at), stamp, written });
        }
        let found = self.bytes.as_ref().and_then(|bytes| bytes.check(at, at + count, me, touch, judge));
        if let Some((at, stamp, written)) = found {
            return Some(Conflict { at, stamp, written });
        }
        if (at | count).is_multiple_of(4) {
            self.words.record(from, to, me, touch, judge);
        } else {
            let all = self.words.writes.len() * 4;
            let bytes = self.bytes.get_or_insert_with(|| Box::new(Layer::new(1, all)));
            bytes.record(at, at + count, me, touch, judge);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stamps are waves, and no two are ordered.
    struct Strangers;

    impl Judge for Strangers {
        fn comes_after(&mut self, _stamp: u32, _written: bool) -> Verdict {
            Verdict::Conflict
        }

        fn join_reads(&mut self, me: &Me, _stamp: u32) -> u32 {
            me.floor
        }
    }

    fn wave(n: u32) -> Me {
        Me { floor: 1, plain: 10 + n, atomic: 20 + n, shared: 1 }
    }

    /// Every access as a bit of who did what to which byte, to compare with.
    #[derive(Default)]
    struct Plain {
        accesses: Vec<(usize, usize, u32, Touch)>,
    }

    impl Plain {
        fn conflicts(&self, at: usize, count: usize, who: u32, touch: Touch) -> bool {
            self.accesses.iter().any(|&(from, bytes, other, kind)| {
                let writes = |touch| matches!(touch, Touch::Write | Touch::Atomic);
                other != who && from < at + count && at < from + bytes && (writes(kind) || writes(touch))
            })
        }
    }

    #[test]
    fn as_a_list_of_all_accesses_would_say() {
        let mut state = 3u64;
        let mut random = move |bound: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % bound
        };
        let (mut found, mut silent) = (0, 0);
        for _ in 0..400 {
            let (mut cells, mut plain) = (Cells::new(64), Plain::default());
            for _ in 0..12 {
                let count = [1, 2, 4, 4, 8, 12, 16][random(7) as usize];
                let at = random(65 - count) as usize;
                let at = if random(3) > 0 { at / 4 * 4 } else { at };
                let who = random(3) as u32;
                let touch = [Touch::Read, Touch::Read, Touch::Write][random(3) as usize];
                let want = plain.conflicts(at, count as usize, who, touch);
                let got = cells.touch(at, count as usize, &wave(who), touch, &mut Strangers);
                assert_eq!(got.is_some(), want, "{:?}, then {at} {count} {who} {touch:?}", plain.accesses);
                if want {
                    found += 1;
                    break;
                }
                silent += 1;
                plain.accesses.push((at, count as usize, who, touch));
            }
        }
        assert!(found > 100 && silent > 300, "{found} {silent}");
    }
}
