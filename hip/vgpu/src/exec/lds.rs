//! Local memory: loads, stores, atomics, and the shuffles that use its crossbar.

use crate::exec::atomic::Atomic;
use crate::exec::lanes::{each_lane, handlers, pick, row, store, Run, CHUNK};
use crate::exec::machine::Machine;
use crate::failure::Cause;
use crate::wave::{flags, Flow, Handler, Kind, Op, Row, Wave};

/// The number of an atomic in `Op::flags`.
pub(crate) const ATOMIC_SHIFT: u32 = 16;
/// The number of the memory instruction, which picks the cached range, in `Op::flags`.
pub(crate) const SLOT_SHIFT: u32 = 24;

/// Refuses an access beyond the block's local memory. Hardware reads 0 and drops stores; nobody means to do that.
#[cold]
#[inline(never)]
fn outside(m: &mut Machine<'_>, lane: usize, address: u32, bytes: usize, write: bool) -> Flow {
    let what = if write { "writes" } else { "reads" };
    let size = m.lds_bytes;
    let message = format!("{what} {bytes} bytes at {address:#x} of local memory, of which the block has {size}");
    m.fail(Cause::Lds, Some(lane), message)
}

#[cold]
#[inline(never)]
fn misaligned(m: &mut Machine<'_>, lane: usize, address: u32, bytes: usize) -> Flow {
    let why = format!("atomic on {bytes} bytes at {address:#x} of local memory, which is not aligned");
    m.fail(Cause::Misaligned, Some(lane), why)
}

impl Machine<'_> {
    /// Whether an access to local memory is inside.
    #[inline(always)]
    pub fn lds_holds(&self, address: u32, bytes: usize) -> bool {
        (address as usize).checked_add(bytes).is_some_and(|end| end <= self.lds_bytes)
    }

    #[inline(always)]
    pub fn lds_read<const N: usize>(&self, address: u32) -> [u8; N] {
        let at = address as usize;
        match self.lds.get(at..at + N).and_then(|bytes| bytes.try_into().ok()) {
            Some(bytes) => bytes,
            None => [0; N],
        }
    }

    #[inline(always)]
    pub fn lds_write(&mut self, address: u32, bytes: &[u8]) {
        let at = address as usize;
        if let Some(target) = self.lds.get_mut(at..at + bytes.len()) {
            target.copy_from_slice(bytes);
        }
    }
}

/// Whether every active lane's bytes are inside: the usual case, looked at once.
#[inline(always)]
fn all_inside<const L: usize>(w: &Wave<L>, m: &Machine<'_>, addresses: &Row<L>, bytes: usize) -> bool {
    let mut top = 0;
    for i in 0..L {
        top = top.max(addresses[i] & w.mask[i]);
    }
    top as usize + bytes <= m.lds_bytes && m.lds_bytes <= m.lds.len()
}

/// Local addresses of all lanes: a register and an offset. A loop, because `map` of an array this long is not made one.
#[inline(always)]
fn addresses<const L: usize>(w: &Wave<L>, op: &Op<L>, offset: u32) -> Row<L> {
    moved(&row(w, op.src[0], 0), offset)
}

/// Addresses and an offset.
#[inline(always)]
fn moved<const L: usize>(base: &Row<L>, offset: u32) -> Row<L> {
    let mut addresses = *base;
    for i in 0..L {
        addresses[i] = addresses[i].wrapping_add(offset);
    }
    addresses
}

/// How offsets lie within every chunk of lanes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All lanes of a chunk have the same one.
    Same,
    /// Each lane's lies behind the one before.
    Consecutive,
    Mixed,
}

impl Shape {
    /// How offsets of `stride` bytes lie; lanes that are off count too.
    #[inline(always)]
    pub fn of<const L: usize>(offsets: &Row<L>, stride: u32) -> Self {
        let (mut same, mut consecutive) = ([0; CHUNK], [0; CHUNK]);
        for chunk in 0..L / CHUNK {
            let first = offsets[CHUNK * chunk];
            for lane in 0..CHUNK {
                let offset = offsets[CHUNK * chunk + lane].wrapping_sub(first);
                same[lane] |= offset;
                consecutive[lane] |= offset ^ stride * lane as u32;
            }
        }
        let any = |chunk: [u32; CHUNK]| chunk.into_iter().fold(0, |all, word| all | word) != 0;
        if !any(consecutive) {
            Self::Consecutive
        } else if !any(same) {
            Self::Same
        } else {
            Self::Mixed
        }
    }
}

/// Loads `B` bytes a lane, a multiple of four, into rows from `index` on.
///
/// # Safety
/// The bytes of every active lane must be inside of local memory.
#[inline(always)]
unsafe fn load_words<const B: usize, const L: usize>(
    w: &mut Wave<L>,
    m: &Machine<'_>,
    addresses: &Row<L>,
    index: usize,
) {
    let start = m.lds.as_ptr();
    let rows = &mut w.v[index..index + B / 4];
    if w.exec != Wave::<L>::ALL {
        for lane in crate::wave::Lanes(w.exec) {
            for (n, row) in rows.iter_mut().enumerate() {
                // SAFETY: all of an active lane's bytes are inside.
                row[lane] = unsafe { start.add(addresses[lane] as usize + 4 * n).cast::<u32>().read_unaligned() };
            }
        }
        return;
    }
    match Shape::of(addresses, B as u32) {
        Shape::Consecutive if B == 4 => {
            for chunk in 0..L / CHUNK {
                let at = addresses[CHUNK * chunk] as usize;
                // SAFETY: all lanes are active, and the chunk's words lie one behind the other.
                let words = unsafe { start.add(at).cast::<[u32; CHUNK]>().read_unaligned() };
                rows[0][CHUNK * chunk..][..CHUNK].copy_from_slice(&words);
            }
        }
        Shape::Same => {
            for chunk in 0..L / CHUNK {
                let at = addresses[CHUNK * chunk] as usize;
                for (n, row) in rows.iter_mut().enumerate() {
                    // SAFETY: all lanes are active.
                    let word = unsafe { start.add(at + 4 * n).cast::<u32>().read_unaligned() };
                    row[CHUNK * chunk..][..CHUNK].copy_from_slice(&[word; CHUNK]);
                }
            }
        }
        _ => {
            for lane in 0..L {
                for (n, row) in rows.iter_mut().enumerate() {
                    // SAFETY: all lanes are active.
                    row[lane] = unsafe { start.add(addresses[lane] as usize + 4 * n).cast::<u32>().read_unaligned() };
                }
            }
        }
    }
}

/// Stores `B` bytes a lane, a multiple of four, out of rows from `index` on.
///
/// # Safety
/// The bytes of every active lane must be inside of local memory.
#[inline(always)]
unsafe fn store_words<const B: usize, const L: usize>(
    w: &Wave<L>,
    m: &mut Machine<'_>,
    addresses: &Row<L>,
    index: usize,
) {
    let start = m.lds.as_mut_ptr();
    let rows = &w.v[index..index + B / 4];
    if B == 4 && w.exec == Wave::<L>::ALL && Shape::of(addresses, 4) == Shape::Consecutive {
        for chunk in 0..L / CHUNK {
            let mut words = [0; CHUNK];
            words.copy_from_slice(&rows[0][CHUNK * chunk..][..CHUNK]);
            // SAFETY: all lanes are active, and the chunk's words lie one behind the other.
            unsafe { start.add(addresses[CHUNK * chunk] as usize).cast::<[u32; CHUNK]>().write_unaligned(words) };
        }
        return;
    }
    for lane in w.active() {
        for (n, row) in rows.iter().enumerate() {
            // SAFETY: all of an active lane's bytes are inside.
            unsafe { start.add(addresses[lane] as usize + 4 * n).cast::<u32>().write_unaligned(row[lane]) };
        }
    }
}

/// A load of `B` bytes a lane into one register, or into as many as it takes.
pub(crate) struct Load<const B: usize>;
/// A store of `B` bytes a lane.
pub(crate) struct Store<const B: usize>;

impl<const B: usize> Run for Load<B> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let addresses = addresses(w, op, op.imm as u32);
        if !m.note_lds(&addresses, w, B, false) {
            return Flow::Fail;
        }
        if B >= 4 && all_inside(w, m, &addresses, B) {
            // SAFETY: as just seen.
            unsafe { load_words::<B, L>(w, m, &addresses, op.dst.index as usize) };
            return Flow::Next;
        }
        for lane in w.active() {
            let address = addresses[lane];
            if !m.lds_holds(address, B) {
                if m.checked {
                    return outside(m, lane, address, B, false);
                }
                for n in 0..B.div_ceil(4) {
                    w.v[op.dst.index as usize + n][lane] = 0;
                }
                continue;
            }
            match B {
                1 | 2 => {
                    let bytes: [u8; B] = m.lds_read(address);
                    let value =
                        if B == 1 { u32::from(bytes[0]) } else { u32::from(bytes[0]) | u32::from(bytes[B - 1]) << 8 };
                    let target = &mut w.v[op.dst.index as usize][lane];
                    *target = narrow::<B>(value, *target, op.flags);
                }
                _ => {
                    for n in 0..B / 4 {
                        w.v[op.dst.index as usize + n][lane] = u32::from_le_bytes(m.lds_read(address + 4 * n as u32));
                    }
                }
            }
        }
        Flow::Next
    }
}

/// A byte or a half as it goes into a register: extended, or into one half of it. The other half stays, or is cleared where
/// registers have error correction.
#[inline(always)]
pub(crate) fn narrow<const B: usize>(value: u32, old: u32, bits: u32) -> u32 {
    let value = match (B, bits & flags::SIGNED != 0) {
        (1, true) => i32::from(value as i8) as u32,
        (_, true) => i32::from(value as i16) as u32,
        _ => value,
    };
    let old = if bits & flags::CLEAR_HIGH != 0 { 0 } else { old };
    if bits & flags::D16_HI != 0 {
        old & 0xffff | value << 16
    } else if bits & flags::D16_LO != 0 {
        old & 0xffff_0000 | value & 0xffff
    } else {
        value
    }
}

impl<const B: usize> Run for Store<B> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let addresses = addresses(w, op, op.imm as u32);
        if !m.note_lds(&addresses, w, B, true) {
            return Flow::Fail;
        }
        let shift = if op.flags & flags::D16_HI != 0 { 16 } else { 0 };
        if B >= 4 && op.src[1].kind == Kind::Row && all_inside(w, m, &addresses, B) {
            // SAFETY: as just seen.
            unsafe { store_words::<B, L>(w, m, &addresses, op.src[1].index as usize) };
            return Flow::Next;
        }
        for lane in w.active() {
            let address = addresses[lane];
            if !m.lds_holds(address, B) {
                if m.checked {
                    return outside(m, lane, address, B, true);
                }
                continue;
            }
            if B < 4 {
                let value = word(w, op, 1, 0, lane) >> shift;
                m.lds_write(address, &value.to_le_bytes()[..B]);
            } else {
                for n in 0..B / 4 {
                    let value = word(w, op, 1, n as u16, lane);
                    m.lds_write(address + 4 * n as u32, &value.to_le_bytes());
                }
            }
        }
        Flow::Next
    }
}

/// A word of a data operand in one lane.
#[inline(always)]
pub(crate) fn word<const L: usize>(w: &Wave<L>, op: &Op<L>, source: usize, word: u16, lane: usize) -> u32 {
    let slot = op.src[source];
    if slot.kind == crate::wave::Kind::Row {
        w.v[(slot.index + word) as usize][lane]
    } else {
        w.word(slot, word)
    }
}

/// Two loads of `B` bytes at two offsets; the offsets, already scaled, are the halves of `imm`'s use: see `pair_offsets`.
struct Load2<const B: usize>;
struct Store2<const B: usize>;

/// The two scaled offsets, which predecoding stores where the unused second destination has its value.
#[inline(always)]
fn pair_offsets<const L: usize>(op: &Op<L>) -> [u32; 2] {
    [op.imm as u32, op.sdst.value]
}

impl<const B: usize> Run for Load2<B> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        // The first load may have the address register as its target. Not by `map`, which copies rows four times.
        let base = row(w, op.src[0], 0);
        for (half, offset) in pair_offsets(op).into_iter().enumerate() {
            let addresses = moved(&base, offset);
            if !m.note_lds(&addresses, w, B, false) {
                return Flow::Fail;
            }
            if all_inside(w, m, &addresses, B) {
                // SAFETY: as just seen.
                unsafe { load_words::<B, L>(w, m, &addresses, op.dst.index as usize + half * (B / 4)) };
                continue;
            }
            for lane in w.active() {
                let inside = m.lds_holds(addresses[lane], B);
                if !inside && m.checked {
                    return outside(m, lane, addresses[lane], B, false);
                }
                for n in 0..B / 4 {
                    let value = if inside { u32::from_le_bytes(m.lds_read(addresses[lane] + 4 * n as u32)) } else { 0 };
                    w.v[op.dst.index as usize + half * (B / 4) + n][lane] = value;
                }
            }
        }
        Flow::Next
    }
}

impl<const B: usize> Run for Store2<B> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        for (half, offset) in pair_offsets(op).into_iter().enumerate() {
            let addresses = addresses(w, op, offset);
            if !m.note_lds(&addresses, w, B, true) {
                return Flow::Fail;
            }
            if op.src[1 + half].kind == Kind::Row && all_inside(w, m, &addresses, B) {
                // SAFETY: as just seen.
                unsafe { store_words::<B, L>(w, m, &addresses, op.src[1 + half].index as usize) };
                continue;
            }
            for lane in w.active() {
                let inside = m.lds_holds(addresses[lane], B);
                if !inside && m.checked {
                    return outside(m, lane, addresses[lane], B, true);
                }
                if !inside {
                    continue;
                }
                for n in 0..B / 4 {
                    let value = word(w, op, 1 + half, n as u16, lane);
                    m.lds_write(addresses[lane] + 4 * n as u32, &value.to_le_bytes());
                }
            }
        }
        Flow::Next
    }
}

/// Swaps of `B` bytes at two offsets.
struct Swap2<const B: usize>;

impl<const B: usize> Run for Swap2<B> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        // The first result may be the address of the second swap, or its data.
        let base = row(w, op.src[0], 0);
        let data: [[Row<L>; 2]; 2] = std::array::from_fn(|half| {
            [0, 1].map(|n| if n < B / 4 { row(w, op.src[1 + half], n as u16) } else { Row::ZERO })
        });
        for (half, offset) in pair_offsets(op).into_iter().enumerate() {
            let addresses = moved(&base, offset);
            if !m.note_lds_atomic(&addresses, w, B) {
                return Flow::Fail;
            }
            for lane in w.active() {
                let address = addresses[lane];
                if !m.lds_holds(address, B) {
                    return outside(m, lane, address, B, true);
                }
                if !(address as usize).is_multiple_of(B) {
                    return misaligned(m, lane, address, B);
                }
                for n in 0..B / 4 {
                    let at = address + 4 * n as u32;
                    let old = u32::from_le_bytes(m.lds_read(at));
                    m.lds_write(at, &data[half][n][lane].to_le_bytes());
                    w.v[op.dst.index as usize + half * (B / 4) + n][lane] = old;
                }
            }
        }
        Flow::Next
    }
}

/// An atomic on `B` bytes.
struct AtomicLds<const B: usize>;

impl<const B: usize> Run for AtomicLds<B> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let atomic = Atomic::from_number(op.flags >> ATOMIC_SHIFT & 0xff);
        let addresses = addresses(w, op, op.imm as u32);
        if !m.note_lds_atomic(&addresses, w, B) {
            return Flow::Fail;
        }
        for lane in w.active() {
            let address = addresses[lane];
            if !m.lds_holds(address, B) {
                return outside(m, lane, address, B, true);
            }
            if !(address as usize).is_multiple_of(B) {
                return misaligned(m, lane, address, B);
            }
            let pair = |source: usize| {
                let low = u64::from(word(w, op, source, 0, lane));
                if B == 8 {
                    low | u64::from(word(w, op, source, 1, lane)) << 32
                } else {
                    low
                }
            };
            let (data, other) = (pair(1), if atomic.has_two() { pair(2) } else { 0 });
            let old = if B == 8 {
                let old = u64::from_le_bytes(m.lds_read(address));
                m.lds_write(address, &atomic.apply64(old, data, other).to_le_bytes());
                old
            } else {
                let old = u32::from_le_bytes(m.lds_read(address));
                m.lds_write(address, &atomic.apply32(old, data as u32, other as u32).to_le_bytes());
                u64::from(old)
            };
            if op.flags & flags::RETURNS != 0 {
                w.v[op.dst.index as usize][lane] = old as u32;
                if B == 8 {
                    w.v[op.dst.index as usize + 1][lane] = (old >> 32) as u32;
                }
            }
        }
        Flow::Next
    }
}

/// The lane that `ds_swizzle` reads for `lane`; groups are of 32 lanes (or four) in both wave sizes.
fn swizzle(lane: usize, offset: u32) -> usize {
    if offset >> 15 & 1 != 0 && offset >> 14 & 1 == 0 {
        return lane & !3 | (offset >> (2 * (lane & 3)) & 3) as usize;
    }
    let (and, or, xor) = (offset & 31, offset >> 5 & 31, offset >> 10 & 31);
    let within = (lane as u32 & 31 & and | or) ^ xor;
    lane & !31 | within as usize
}

handlers! { shuffles;
    DS_BPERMUTE_B32 (w, op, _m) {
        let (addresses, mut data) = (row(w, op.src[0], 0), row(w, op.src[1], 0));
        // Lanes that are off deliver 0.
        each_lane::<L>(|lane| data[lane] &= w.mask[lane]);
        let mut result = Row::ZERO;
        for lane in 0..L {
            result[lane] = data[addresses[lane].wrapping_add(op.imm as u32) as usize / 4 % L];
        }
        store(w, op.dst.index, &result);
        Flow::Next
    }
    DS_PERMUTE_B32 (w, op, _m) {
        let (addresses, data) = (row(w, op.src[0], 0), row(w, op.src[1], 0));
        let mut result = Row::ZERO;
        for lane in w.active() {
            result[addresses[lane].wrapping_add(op.imm as u32) as usize / 4 % L] = data[lane];
        }
        store(w, op.dst.index, &result);
        Flow::Next
    }
    DS_SWIZZLE_B32 (w, op, m) {
        let data = row(w, op.src[0], 0);
        let offset = op.imm as u32 & 0xffff;
        if offset >= 0xe000 {
            // Rotate and FFT modes.
            if offset >> 13 == 7 {
                return m.fail(Cause::Instruction, None, format!("swizzle mode {offset:#x} is not emulated"));
            }
        }
        let mut result = Row::ZERO;
        for lane in 0..L {
            let from = swizzle(lane, offset) % L;
            result[lane] = if w.exec >> from & 1 != 0 { data[from] } else { 0 };
        }
        store(w, op.dst.index, &result);
        Flow::Next
    }
}

/// The handler for the end of a mnemonic behind `ds_`, and the flags that go with it.
pub(crate) fn lookup<const L: usize>(name: &str, fast: bool) -> Option<(Handler<L>, u32)> {
    let plain = |handler| Some((handler, 0));
    if let Some(kind) = name.strip_prefix("load_") {
        return match kind {
            "b32" => plain(pick::<Load<4>, L>(fast)),
            "b64" => plain(pick::<Load<8>, L>(fast)),
            "b96" => plain(pick::<Load<12>, L>(fast)),
            "b128" => plain(pick::<Load<16>, L>(fast)),
            "2addr_b32" | "2addr_stride64_b32" => plain(pick::<Load2<4>, L>(fast)),
            "2addr_b64" | "2addr_stride64_b64" => plain(pick::<Load2<8>, L>(fast)),
            _ => {
                let (handler, bits) = match kind.get(..2)? {
                    "u8" => (pick::<Load<1>, L>(fast), 0),
                    "i8" => (pick::<Load<1>, L>(fast), flags::SIGNED),
                    "u1" => (pick::<Load<2>, L>(fast), 0),
                    "i1" => (pick::<Load<2>, L>(fast), flags::SIGNED),
                    _ => return None,
                };
                match kind.split_once('_').map(|(_, rest)| rest) {
                    None => Some((handler, bits)),
                    Some("d16") => Some((handler, bits | flags::D16_LO)),
                    Some("d16_hi") => Some((handler, bits | flags::D16_HI)),
                    Some(_) => None,
                }
            }
        };
    }
    if let Some(kind) = name.strip_prefix("store_") {
        return match kind {
            "b8" => plain(pick::<Store<1>, L>(fast)),
            "b16" => plain(pick::<Store<2>, L>(fast)),
            "b8_d16_hi" => Some((pick::<Store<1>, L>(fast), flags::D16_HI)),
            "b16_d16_hi" => Some((pick::<Store<2>, L>(fast), flags::D16_HI)),
            "b32" => plain(pick::<Store<4>, L>(fast)),
            "b64" => plain(pick::<Store<8>, L>(fast)),
            "b96" => plain(pick::<Store<12>, L>(fast)),
            "b128" => plain(pick::<Store<16>, L>(fast)),
            "2addr_b32" | "2addr_stride64_b32" => plain(pick::<Store2<4>, L>(fast)),
            "2addr_b64" | "2addr_stride64_b64" => plain(pick::<Store2<8>, L>(fast)),
            _ => None,
        };
    }
    match name {
        "storexchg_2addr_b32" | "storexchg_2addr_stride64_b32" => return plain(pick::<Swap2<4>, L>(fast)),
        "storexchg_2addr_b64" | "storexchg_2addr_stride64_b64" => return plain(pick::<Swap2<8>, L>(fast)),
        _ => {}
    }
    let (atomic, wide) = Atomic::parse(name)?;
    let handler = if wide { pick::<AtomicLds<8>, L>(fast) } else { pick::<AtomicLds<4>, L>(fast) };
    Some((handler, (atomic as u32) << ATOMIC_SHIFT))
}
