//! Local memory: loads, stores, atomics, and the shuffles that use its crossbar.

use crate::exec::atomic::Atomic;
use crate::exec::lanes::{handlers, pick, row, store, Run};
use crate::exec::machine::Machine;
use crate::failure::Cause;
use crate::wave::{flags, Flow, Handler, Kind, Lanes, Op, Wave};

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

/// The addresses of all lanes: a register and an offset. A loop, because `map` of an array this long is not made one.
#[inline(always)]
fn offset_by<const L: usize>(base: &[u32; L], offset: u32) -> [u32; L] {
    let mut addresses = *base;
    for address in &mut addresses {
        *address = address.wrapping_add(offset);
    }
    addresses
}

/// Whether every active lane's bytes are inside: the usual case, looked at once.
#[inline(always)]
fn all_inside<const L: usize>(w: &Wave<L>, m: &Machine<'_>, addresses: &[u32; L], bytes: usize) -> bool {
    let mut top = 0;
    for i in 0..L {
        top = top.max(addresses[i] & w.mask[i]);
    }
    top as usize + bytes <= m.lds_bytes && m.lds_bytes <= m.lds.len()
}

/// A word of local memory, which the block's thread alone has.
#[inline(always)]
fn word_at(m: &mut Machine<'_>, address: u32) -> *const u32 {
    m.lds.as_mut_ptr().wrapping_add(address as usize).cast::<u32>()
}

/// A load of `B` bytes a lane into one register, or into as many as it takes.
pub(crate) struct Load<const B: usize>;
/// A store of `B` bytes a lane.
pub(crate) struct Store<const B: usize>;

impl<const B: usize> Run for Load<B> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let addresses = offset_by(&row(w, op.src[0], 0), op.imm as u32);
        if !m.note_lds(&addresses, w, B, false) {
            return Flow::Fail;
        }
        if B >= 4 && all_inside(w, m, &addresses, B) {
            let rows = &mut w.v[op.dst.index as usize..op.dst.index as usize + B / 4];
            for lane in Lanes(w.exec) {
                for (n, row) in rows.iter_mut().enumerate() {
                    // SAFETY: all of the lane's bytes are inside.
                    row[lane] = unsafe { word_at(m, addresses[lane] + 4 * n as u32).read_unaligned() };
                }
            }
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
        let addresses = offset_by(&row(w, op.src[0], 0), op.imm as u32);
        if !m.note_lds(&addresses, w, B, true) {
            return Flow::Fail;
        }
        let shift = if op.flags & flags::D16_HI != 0 { 16 } else { 0 };
        if B >= 4 && op.src[1].kind == Kind::Row && all_inside(w, m, &addresses, B) {
            let rows = &w.v[op.src[1].index as usize..op.src[1].index as usize + B / 4];
            for lane in w.active() {
                for (n, row) in rows.iter().enumerate() {
                    // SAFETY: all of the lane's bytes are inside.
                    unsafe { word_at(m, addresses[lane] + 4 * n as u32).cast_mut().write_unaligned(row[lane]) };
                }
            }
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
        let base = row(w, op.src[0], 0);
        for (half, offset) in pair_offsets(op).into_iter().enumerate() {
            let addresses = offset_by(&base, offset);
            if !m.note_lds(&addresses, w, B, false) {
                return Flow::Fail;
            }
            if all_inside(w, m, &addresses, B) {
                let at = op.dst.index as usize + half * (B / 4);
                let rows = &mut w.v[at..at + B / 4];
                for lane in Lanes(w.exec) {
                    for (n, row) in rows.iter_mut().enumerate() {
                        // SAFETY: all of the lane's bytes are inside.
                        row[lane] = unsafe { word_at(m, addresses[lane] + 4 * n as u32).read_unaligned() };
                    }
                }
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
        let base = row(w, op.src[0], 0);
        for (half, offset) in pair_offsets(op).into_iter().enumerate() {
            let addresses = offset_by(&base, offset);
            if !m.note_lds(&addresses, w, B, true) {
                return Flow::Fail;
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

/// An atomic on `B` bytes.
struct AtomicLds<const B: usize>;

impl<const B: usize> Run for AtomicLds<B> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let atomic = Atomic::from_number(op.flags >> ATOMIC_SHIFT & 0xff);
        let addresses = offset_by(&row(w, op.src[0], 0), op.imm as u32);
        if !m.note_lds_atomic(&addresses, w, B) {
            return Flow::Fail;
        }
        for lane in w.active() {
            let address = addresses[lane];
            if !m.lds_holds(address, B) {
                return outside(m, lane, address, B, true);
            }
            if !(address as usize).is_multiple_of(B) {
                let why = format!("atomic on {B} bytes at {address:#x} of local memory, which is not aligned");
                return m.fail(Cause::Misaligned, Some(lane), why);
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
        let (addresses, data) = (row(w, op.src[0], 0), row(w, op.src[1], 0));
        let result: [u32; L] = std::array::from_fn(|lane| {
            let from = addresses[lane].wrapping_add(op.imm as u32) as usize / 4 % L;
            if w.exec >> from & 1 != 0 { data[from] } else { 0 }
        });
        store(w, op.dst.index, &result);
        Flow::Next
    }
    DS_PERMUTE_B32 (w, op, _m) {
        let (addresses, data) = (row(w, op.src[0], 0), row(w, op.src[1], 0));
        let mut result = [0; L];
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
        let result: [u32; L] = std::array::from_fn(|lane| {
            let from = swizzle(lane, offset) % L;
            if w.exec >> from & 1 != 0 { data[from] } else { 0 }
        });
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
    let (atomic, wide) = Atomic::parse(name)?;
    let handler = if wide { pick::<AtomicLds<8>, L>(fast) } else { pick::<AtomicLds<4>, L>(fast) };
    Some((handler, (atomic as u32) << ATOMIC_SHIFT))
}
