//! Vector memory: global, flat, private (scratch) and buffer instructions. The usual case is in `places`; all cases are here, a lane
//! at a time.

use crate::exec::atomic::Atomic;
use crate::exec::lanes::{pick, Run};
use crate::exec::lds::{narrow, word, ATOMIC_SHIFT, SLOT_SHIFT};
use crate::exec::machine::{Machine, PRIVATE_APERTURE, SHARED_APERTURE};
use crate::exec::places::{load_inside, store_inside, Places};
use crate::failure::Cause;
use crate::memory;
use crate::wave::{flags, Flow, Handler, Kind, Op, Wave};

/// How a segment's addresses are made.
pub(crate) const GLOBAL: u8 = 0;
pub(crate) const FLAT: u8 = 1;
pub(crate) const SCRATCH: u8 = 2;
pub(crate) const BUFFER: u8 = 3;

/// Where a lane's access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Global(u64),
    /// The first words only: the others lie behind the end of a buffer resource.
    Part(u64, usize),
    Lds(u32),
    /// Bytes from the start of the lane's private memory.
    Private(u32),
    /// Interleaved bytes of the wave's private memory.
    Wave(u32),
    /// Outside of a buffer resource: reads 0, drops stores.
    Nowhere,
}

/// The address of one lane.
#[inline(always)]
fn address<const L: usize>(w: &Wave<L>, op: &Op<L>, lane: usize) -> u64 {
    let offset = i64::from(op.imm) as u64;
    let low = u64::from(word(w, op, 0, 0, lane));
    if op.src[2].kind == Kind::None {
        (low | u64::from(word(w, op, 0, 1, lane)) << 32).wrapping_add(offset)
    } else {
        w.s64(op.src[2]).wrapping_add(offset).wrapping_add(low)
    }
}

/// A load of `B` bytes a lane.
struct Load<const SEG: u8, const B: usize>;
/// A store of `B` bytes a lane.
struct Store<const SEG: u8, const B: usize>;
/// An atomic on `B` bytes.
struct AtomicMemory<const SEG: u8, const B: usize>;

impl<const SEG: u8, const B: usize> Run for Load<SEG, B> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        if w.exec == 0 {
            return Flow::Next;
        }
        if SEG == GLOBAL || SEG == FLAT {
            if let Some(places) = Places::new(w, op) {
                if let Some(span) = places.span(w, op, m, B as u64, false) {
                    if m.watches_global(span, false) && !m.note_global(&places.all(), w, B, false, span) {
                        return Flow::Fail;
                    }
                    // SAFETY: every active lane's bytes lie in the span.
                    unsafe { load_inside::<B, L>(w, op, &places) };
                    return Flow::Next;
                }
            }
        }
        load_slowly::<SEG, B, L>(w, op, m)
    }
}

impl<const SEG: u8, const B: usize> Run for Store<SEG, B> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        if w.exec == 0 {
            return Flow::Next;
        }
        if SEG == GLOBAL || SEG == FLAT {
            if let Some(places) = Places::new(w, op) {
                if let Some(span) = places.span(w, op, m, B as u64, true) {
                    if m.watches_global(span, true) && !m.note_global(&places.all(), w, B, true, span) {
                        return Flow::Fail;
                    }
                    // SAFETY: every active lane's bytes lie in the span, which is writable.
                    unsafe { store_inside::<B, L>(w, op, &places) };
                    return Flow::Next;
                }
            }
        }
        store_slowly::<SEG, B, L>(w, op, m)
    }
}

/// The active lane whose address is the last before `end`: the one that touches what ends there.
pub(crate) fn find_lane<const L: usize>(w: &Wave<L>, op: &Op<L>, end: u64) -> Option<usize> {
    w.active().filter(|&lane| address(w, op, lane) < end).max_by_key(|&lane| address(w, op, lane))
}

/// Where one lane's access goes: all the cases there are.
fn target<const SEG: u8, const L: usize>(w: &Wave<L>, op: &Op<L>, lane: usize, bytes: usize) -> Target {
    let offset = op.imm as u32;
    match SEG {
        SCRATCH => {
            let vector = if op.src[0].kind == Kind::None { 0 } else { word(w, op, 0, 0, lane) };
            let scalar = if op.src[2].kind == Kind::None { 0 } else { w.s32(op.src[2]) };
            Target::Private(vector.wrapping_add(scalar).wrapping_add(offset))
        }
        BUFFER => buffer_target(w, op, lane, bytes),
        _ => {
            let address = address(w, op, lane);
            match (address >> 32) as u32 {
                SHARED_APERTURE if SEG == FLAT => Target::Lds(address as u32),
                PRIVATE_APERTURE if SEG == FLAT => Target::Private(address as u32),
                _ => Target::Global(address),
            }
        }
    }
}

/// A buffer resource: base, stride, number of records, and how lanes are interleaved.
fn buffer_target<const L: usize>(w: &Wave<L>, op: &Op<L>, lane: usize, bytes: usize) -> Target {
    let part = |n: u16| w.word(op.src[2], n);
    let (base, stride) = (u64::from(part(0)) | u64::from(part(1) & 0xffff) << 32, u64::from(part(1) >> 16 & 0x3fff));
    let records = u64::from(part(2));
    let scalar = if op.sdst.kind == Kind::None { 0 } else { w.s32(op.sdst) };
    let (indexed, offset_given) = (op.flags & flags::IDXEN != 0, op.flags & flags::OFFEN != 0);
    let index = if indexed { u64::from(word(w, op, 0, 0, lane)) } else { 0 };
    let vector = if offset_given { word(w, op, 0, u16::from(indexed), lane) } else { 0 };
    let offset = vector.wrapping_add(op.imm as u32);
    // The resource that the launch hands out for private memory: interleaved by lane.
    if base >> 32 == u64::from(PRIVATE_APERTURE & 0xffff) | 0x2000 && part(1) >> 31 != 0 {
        let interleaved = (offset / 4).wrapping_mul(4 * L as u32).wrapping_add(4 * lane as u32 + offset % 4);
        return Target::Wave(interleaved.wrapping_add(scalar).wrapping_add(base as u32));
    }
    let at = u64::from(offset) + u64::from(scalar);
    let address = base.wrapping_add(at).wrapping_add(index * stride);
    // Without a stride the number of records is in bytes and both offsets count; words are in or out one by one.
    let there = match stride == 0 || !indexed {
        true => records.saturating_sub(at),
        false if index < records => u64::MAX,
        false => 0,
    };
    match there {
        _ if there >= bytes as u64 => Target::Global(address),
        _ if there >= 4 && bytes > 4 => Target::Part(address, (there / 4) as usize),
        _ => Target::Nowhere,
    }
}

/// The place of a private byte in the wave's interleaved private memory, as a word index and a shift.
#[inline(always)]
fn private_word(target: Target, lane: usize, lanes: usize, word: u32) -> Option<(usize, u32)> {
    match target {
        Target::Private(at) => {
            let at = at.wrapping_add(4 * word);
            Some(((at / 4) as usize * lanes + lane, at % 4 * 8))
        }
        Target::Wave(at) => Some(((at / 4) as usize + word as usize * lanes, at % 4 * 8)),
        _ => None,
    }
}

#[inline(never)]
fn load_slowly<const SEG: u8, const B: usize, const L: usize>(
    w: &mut Wave<L>,
    op: &Op<L>,
    m: &mut Machine<'_>,
) -> Flow {
    // All addresses first: the destination may be an address register.
    let mut targets = [Target::Nowhere; L];
    for lane in w.active() {
        targets[lane] = target::<SEG, L>(w, op, lane, B);
    }
    for lane in w.active() {
        let mut words = [0u32; 4];
        match targets[lane] {
            Target::Global(address) => {
                let found = m.host((op.flags >> SLOT_SHIFT) as usize, address, B as u64, false);
                let Some((host, span)) = found else {
                    return m.refuse_access(Some(lane), address, B as u64, false);
                };
                if !m.note_lane(lane, address, w, B, false, span) {
                    return Flow::Fail;
                }
                // SAFETY: the bytes lie in a span that may be read.
                unsafe {
                    match B {
                        1 => words[0] = u32::from(memory::load_u8(host)),
                        2 => words[0] = u32::from(memory::load_u16(host)),
                        _ => {
                            for n in 0..B / 4 {
                                words[n] = memory::load_u32(host + 4 * n as u64);
                            }
                        }
                    }
                }
            }
            Target::Lds(address) => {
                if !m.lds_holds(address, B) {
                    let why = format!(
                        "reads {B} bytes at {address:#x} of local memory, of which the block has {}",
                        m.lds_bytes
                    );
                    return m.fail(Cause::Lds, Some(lane), why);
                }
                let mut bytes = [0; 16];
                for n in 0..B {
                    bytes[n] = m.lds_read::<1>(address + n as u32)[0];
                }
                for n in 0..4 {
                    words[n] = u32::from_le_bytes([bytes[4 * n], bytes[4 * n + 1], bytes[4 * n + 2], bytes[4 * n + 3]]);
                }
            }
            Target::Part(address, count) => {
                let bytes = 4 * count as u64;
                let Some((host, _)) = m.host((op.flags >> SLOT_SHIFT) as usize, address, bytes, false) else {
                    return m.refuse_access(Some(lane), address, bytes, false);
                };
                for n in 0..count {
                    // SAFETY: the bytes lie in a span that may be read.
                    words[n] = unsafe { memory::load_u32(host + 4 * n as u64) };
                }
            }
            Target::Nowhere => {}
            private => {
                for n in 0..B.div_ceil(4) {
                    let place = private_word(private, lane, L, n as u32);
                    let Some(&value) = place.and_then(|(index, _)| w.scratch.get(index)) else {
                        return m.fail(
                            Cause::Lds,
                            Some(lane),
                            format!("reads {B} bytes outside of private memory ({private:?})"),
                        );
                    };
                    words[n] = value >> place.map_or(0, |(_, shift)| if B < 4 { shift } else { 0 });
                }
                if B < 4 {
                    words[0] &= (1 << (8 * B)) - 1;
                }
            }
        }
        if B < 4 {
            let target = &mut w.v[op.dst.index as usize][lane];
            *target = narrow::<B>(words[0], *target, op.flags);
        } else {
            for n in 0..B / 4 {
                w.v[op.dst.index as usize + n][lane] = words[n];
            }
        }
    }
    Flow::Next
}

#[inline(never)]
fn store_slowly<const SEG: u8, const B: usize, const L: usize>(
    w: &mut Wave<L>,
    op: &Op<L>,
    m: &mut Machine<'_>,
) -> Flow {
    let high = if op.flags & flags::D16_HI != 0 { 16 } else { 0 };
    for lane in w.active() {
        let mut words = [0u32; 4];
        for (n, value) in words.iter_mut().enumerate().take(B.div_ceil(4)) {
            *value = word(w, op, 1, n as u16, lane) >> if B < 4 { high } else { 0 };
        }
        match target::<SEG, L>(w, op, lane, B) {
            Target::Global(address) => {
                let found = m.host((op.flags >> SLOT_SHIFT) as usize, address, B as u64, true);
                let Some((host, span)) = found else {
                    return m.refuse_access(Some(lane), address, B as u64, true);
                };
                if !m.note_lane(lane, address, w, B, true, span) {
                    return Flow::Fail;
                }
                // SAFETY: the bytes lie in a span that may be written.
                unsafe {
                    match B {
                        1 => memory::store_u8(host, words[0] as u8),
                        2 => memory::store_u16(host, words[0] as u16),
                        _ => {
                            for n in 0..B / 4 {
                                memory::store_u32(host + 4 * n as u64, words[n]);
                            }
                        }
                    }
                }
            }
            Target::Lds(address) => {
                if !m.lds_holds(address, B) {
                    let why = format!(
                        "writes {B} bytes at {address:#x} of local memory, of which the block has {}",
                        m.lds_bytes
                    );
                    return m.fail(Cause::Lds, Some(lane), why);
                }
                for n in 0..B {
                    m.lds_write(address + n as u32, &[(words[n / 4] >> (8 * (n % 4))) as u8]);
                }
            }
            Target::Part(address, count) => {
                let bytes = 4 * count as u64;
                let Some((host, _)) = m.host((op.flags >> SLOT_SHIFT) as usize, address, bytes, true) else {
                    return m.refuse_access(Some(lane), address, bytes, true);
                };
                for n in 0..count {
                    // SAFETY: the bytes lie in a span that may be written.
                    unsafe { memory::store_u32(host + 4 * n as u64, words[n]) };
                }
            }
            Target::Nowhere => {}
            private => {
                for n in 0..B.div_ceil(4) {
                    let place = private_word(private, lane, L, n as u32);
                    let Some((slot, shift)) = place.and_then(|(index, shift)| Some((w.scratch.get_mut(index)?, shift)))
                    else {
                        return m.fail(
                            Cause::Lds,
                            Some(lane),
                            format!("writes {B} bytes outside of private memory ({private:?})"),
                        );
                    };
                    *slot = if B < 4 {
                        let mask = ((1u32 << (8 * B)) - 1) << shift;
                        *slot & !mask | words[0] << shift & mask
                    } else {
                        words[n]
                    };
                }
            }
        }
    }
    Flow::Next
}

impl<const SEG: u8, const B: usize> Run for AtomicMemory<SEG, B> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        atomics::<SEG, B, L>(w, op, m)
    }
}

/// Lanes one after the other, lowest first.
#[inline(never)]
fn atomics<const SEG: u8, const B: usize, const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
    let atomic = Atomic::from_number(op.flags >> ATOMIC_SHIFT & 0xff);
    let mut targets = [Target::Nowhere; L];
    for lane in w.active() {
        targets[lane] = target::<SEG, L>(w, op, lane, B);
    }
    // The data may be the destination too.
    let mut olds = [0u64; L];
    for lane in w.active() {
        let part = |n: u16| u64::from(word(w, op, 1, n, lane));
        let (data, other) = if B == 8 {
            (part(0) | part(1) << 32, part_pair(w, op, 2, lane))
        } else {
            (part(0), part_one(w, op, lane))
        };
        olds[lane] = match targets[lane] {
            Target::Global(address) => {
                if address % B as u64 != 0 {
                    let why = format!("atomic on {B} bytes at {address:#x}, which is not aligned");
                    return m.fail(Cause::Misaligned, Some(lane), why);
                }
                let found = m.host((op.flags >> SLOT_SHIFT) as usize, address, B as u64, true);
                let Some((host, span)) = found else {
                    return m.refuse_access(Some(lane), address, B as u64, true);
                };
                // SAFETY: aligned, inside a writable span.
                let update = || unsafe {
                    if B == 8 {
                        memory::update_u64(host, |old| atomic.apply64(old, data, other))
                    } else {
                        let new = |old| atomic.apply32(old, data as u32, other as u32);
                        u64::from(memory::update_u32(host, new))
                    }
                };
                let Some(old) = m.note_atomic(lane, address, w, B, span, update) else { return Flow::Fail };
                old
            }
            Target::Lds(address) if m.lds_holds(address, B) => {
                if B == 8 {
                    let old = u64::from_le_bytes(m.lds_read(address));
                    m.lds_write(address, &atomic.apply64(old, data, other).to_le_bytes());
                    old
                } else {
                    let old = u32::from_le_bytes(m.lds_read(address));
                    m.lds_write(address, &atomic.apply32(old, data as u32, other as u32).to_le_bytes());
                    u64::from(old)
                }
            }
            // An atomic is in or out as a whole.
            Target::Nowhere | Target::Part(..) => 0,
            other => return m.fail(Cause::Lds, Some(lane), format!("atomic outside of memory ({other:?})")),
        };
    }
    if op.flags & flags::RETURNS != 0 {
        for lane in w.active() {
            w.v[op.dst.index as usize][lane] = olds[lane] as u32;
            if B == 8 {
                w.v[op.dst.index as usize + 1][lane] = (olds[lane] >> 32) as u32;
            }
        }
    }
    Flow::Next
}

/// The word that a compare-and-swap compares with: behind the data. Others do not use it.
fn part_one<const L: usize>(w: &Wave<L>, op: &Op<L>, lane: usize) -> u64 {
    let atomic = Atomic::from_number(op.flags >> ATOMIC_SHIFT & 0xff);
    if atomic.has_two() {
        u64::from(word(w, op, 1, 1, lane))
    } else {
        0
    }
}

fn part_pair<const L: usize>(w: &Wave<L>, op: &Op<L>, at: u16, lane: usize) -> u64 {
    let atomic = Atomic::from_number(op.flags >> ATOMIC_SHIFT & 0xff);
    if atomic.has_two() {
        u64::from(word(w, op, 1, at, lane)) | u64::from(word(w, op, 1, at + 1, lane)) << 32
    } else {
        0
    }
}

/// The handler for a segment and the end of a mnemonic (`load_b32`, `store_d16_hi_b8`, `atomic_add_u32`), with its flags.
pub(crate) fn lookup<const SEG: u8, const L: usize>(name: &str, fast: bool) -> Option<(Handler<L>, u32)> {
    if let Some(kind) = name.strip_prefix("load_") {
        let (kind, half) = if let Some(kind) = kind.strip_prefix("d16_hi_") {
            (kind, flags::D16_HI)
        } else if let Some(kind) = kind.strip_prefix("d16_") {
            (kind, flags::D16_LO)
        } else {
            (kind, 0)
        };
        return Some(match kind {
            "u8" => (pick::<Load<SEG, 1>, L>(fast), half),
            "i8" => (pick::<Load<SEG, 1>, L>(fast), half | flags::SIGNED),
            "u16" => (pick::<Load<SEG, 2>, L>(fast), half),
            "i16" => (pick::<Load<SEG, 2>, L>(fast), half | flags::SIGNED),
            "b16" if half != 0 => (pick::<Load<SEG, 2>, L>(fast), half),
            "b32" => (pick::<Load<SEG, 4>, L>(fast), 0),
            "b64" => (pick::<Load<SEG, 8>, L>(fast), 0),
            "b96" => (pick::<Load<SEG, 12>, L>(fast), 0),
            "b128" => (pick::<Load<SEG, 16>, L>(fast), 0),
            _ => return None,
        });
    }
    if let Some(kind) = name.strip_prefix("store_") {
        return Some(match kind {
            "b8" => (pick::<Store<SEG, 1>, L>(fast), 0),
            "b16" => (pick::<Store<SEG, 2>, L>(fast), 0),
            "d16_hi_b8" => (pick::<Store<SEG, 1>, L>(fast), flags::D16_HI),
            "d16_hi_b16" => (pick::<Store<SEG, 2>, L>(fast), flags::D16_HI),
            "b32" => (pick::<Store<SEG, 4>, L>(fast), 0),
            "b64" => (pick::<Store<SEG, 8>, L>(fast), 0),
            "b96" => (pick::<Store<SEG, 12>, L>(fast), 0),
            "b128" => (pick::<Store<SEG, 16>, L>(fast), 0),
            _ => return None,
        });
    }
    if SEG == SCRATCH {
        return None;
    }
    let (atomic, wide) = Atomic::parse(name.strip_prefix("atomic_")?)?;
    let handler = if wide { pick::<AtomicMemory<SEG, 8>, L>(fast) } else { pick::<AtomicMemory<SEG, 4>, L>(fast) };
    Some((handler, (atomic as u32) << ATOMIC_SHIFT))
}
