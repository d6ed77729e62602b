//! How an operation on one lane becomes a handler for a wave: fetching operands, looping over the lanes, and writing what came
//! out under EXEC. The operations themselves are one line each, in `valu` and its neighbours.
//!
//! Lanes are worked on [`CHUNK`] at a time, which is what a vector register of the host holds. A chunk's operands are all read before
//! its results are written, and no lane depends on another one here, so results may go straight to the registers that operands came
//! from.

pub(crate) use crate::exec::elem::{Elem, F16Wide, Two, B16, F16, F32, F64, I16, I32, I64, U16, U32, U64};
use crate::exec::machine::Machine;
use crate::wave::{flags, Flow, Handler, Kind, Op, Row, Slot, Wave};
use std::mem::MaybeUninit;

/// Lanes of a vector register of the host.
pub(crate) const CHUNK: usize = 8;

/// An instruction's behaviour for any number of lanes.
pub(crate) trait Run {
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow;
}

/// Has no precondition; unsafe only so that both kinds of handler have one type.
#[cfg(any(feature = "portable", not(target_arch = "x86_64")))]
unsafe fn plain<F: Run, const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
    F::run::<L>(w, op, m)
}

/// # Safety
/// The CPU must have AVX2 and FMA: see `has_vectors`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
unsafe fn vectors<F: Run, const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
    F::run::<L>(w, op, m)
}

/// Whether this CPU has what the fast handlers are compiled for.
pub(crate) fn has_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("bmi1")
            && std::is_x86_feature_detected!("bmi2")
            && std::is_x86_feature_detected!("lzcnt")
            && std::is_x86_feature_detected!("popcnt")
            && std::is_x86_feature_detected!("f16c")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether the handlers that run on every CPU were compiled: twice as many make twice the build.
pub(crate) const HAS_PORTABLE: bool = cfg!(any(feature = "portable", not(target_arch = "x86_64")));

/// The handler for this behaviour. `fast` must come from [`has_vectors`], and may only be false where [`HAS_PORTABLE`] is set;
/// launches see to both.
pub(crate) fn pick<F: Run, const L: usize>(fast: bool) -> Handler<L> {
    #[cfg(all(target_arch = "x86_64", feature = "portable"))]
    if fast {
        return vectors::<F, L>;
    }
    let _ = fast;
    #[cfg(any(feature = "portable", not(target_arch = "x86_64")))]
    {
        plain::<F, L>
    }
    #[cfg(not(any(feature = "portable", not(target_arch = "x86_64"))))]
    {
        vectors::<F, L>
    }
}

/// Room for an operand that is not a row as it stands.
pub(crate) struct Buffer<const L: usize> {
    low: MaybeUninit<Row<L>>,
    high: MaybeUninit<Row<L>>,
}

impl<const L: usize> Buffer<L> {
    #[inline(always)]
    pub const fn new() -> Self {
        Self { low: MaybeUninit::uninit(), high: MaybeUninit::uninit() }
    }

    /// One chunk that all lanes read.
    #[inline(always)]
    fn splat(room: &mut MaybeUninit<Row<L>>, word: u32) -> *const u32 {
        let start = room.as_mut_ptr().cast::<[u32; CHUNK]>();
        // SAFETY: a row has room for a chunk, and a row's alignment.
        unsafe { start.write([word; CHUNK]) };
        start.cast()
    }
}

/// An operand: rows of a wave, or of a buffer that lives as long.
#[derive(Clone, Copy)]
pub(crate) struct Source<const L: usize> {
    low: *const u32,
    high: *const u32,
    /// From one chunk to the next: [`CHUNK`], or 0 where all lanes have one value.
    step: usize,
}

impl<const L: usize> Source<L> {
    /// The value of a lane, which must be below `L`. Loops go through the lanes in order, a chunk at a time: see [`each_lane`].
    #[inline(always)]
    pub fn at<E: Elem>(&self, lane: usize) -> E::T {
        let index = lane / CHUNK * self.step + lane % CHUNK;
        // SAFETY: `fetch` made both pointers from rows of `L` lanes, or from chunks with a step of 0; `lane` is below `L`, a
        // constant of every loop here; rows and buffers outlive the handler, and nothing moves them.
        unsafe { E::get(*self.low.add(index), if E::PAIR { *self.high.add(index) } else { 0 }) }
    }
}

/// Calls `f` with each lane, in chunks, which the compiler turns into vectors.
#[inline(always)]
pub(crate) fn each_lane<const L: usize>(mut f: impl FnMut(usize)) {
    for chunk in 0..L / CHUNK {
        for lane in 0..CHUNK {
            f(CHUNK * chunk + lane);
        }
    }
}

/// An operand, modifiers applied. What it points to may be written by whoever works chunk by chunk.
#[inline(always)]
pub(crate) fn fetch<E: Elem, const L: usize>(w: &Wave<L>, slot: Slot, buffer: &mut Buffer<L>) -> Source<L> {
    let changed = slot.mods != 0 || E::KEEP_IN != 0 && w.mode & E::KEEP_IN == 0;
    if slot.kind == Kind::Row && !changed {
        let low = w.v[slot.index as usize].as_ptr();
        let high = if E::PAIR { w.v[slot.index as usize + 1].as_ptr() } else { low };
        return Source { low, high, step: CHUNK };
    }
    if !changed {
        let low = Buffer::splat(&mut buffer.low, w.word(slot, 0));
        let high = if E::PAIR { Buffer::splat(&mut buffer.high, w.word(slot, 1)) } else { low };
        return Source { low, high, step: 0 };
    }
    fetch_changed::<E, L>(w, slot, buffer);
    Source { low: buffer.low.as_ptr().cast(), high: buffer.high.as_ptr().cast(), step: CHUNK }
}

/// The rest of `fetch`, once for a type and not for every operation: modifiers, and denormals that are flushed.
#[inline(never)]
fn fetch_changed<E: Elem, const L: usize>(w: &Wave<L>, slot: Slot, buffer: &mut Buffer<L>) {
    let low = buffer.low.write(row(w, slot, 0));
    let high = buffer.high.write(if E::PAIR { row(w, slot, 1) } else { Row::ZERO });
    if slot.mods != 0 {
        for i in 0..L {
            E::modify(slot.mods, &mut low[i], &mut high[i]);
        }
    }
    if E::KEEP_IN != 0 && w.mode & E::KEEP_IN == 0 {
        for i in 0..L {
            E::flush(&mut low[i], &mut high[i]);
        }
    }
}

/// A word of an operand as a row of its own, without modifiers.
#[inline(always)]
pub(crate) fn row<const L: usize>(w: &Wave<L>, slot: Slot, word: u16) -> Row<L> {
    if slot.kind == Kind::Row {
        w.v[(slot.index + word) as usize]
    } else {
        Row([w.word(slot, word); L])
    }
}

/// A word of an operand, without modifiers.
#[inline(always)]
pub(crate) fn words<const L: usize>(w: &Wave<L>, slot: Slot, word: u16, buffer: &mut Buffer<L>) -> Source<L> {
    if slot.kind == Kind::Row {
        let low = w.v[(slot.index + word) as usize].as_ptr();
        Source { low, high: low, step: CHUNK }
    } else {
        let low = Buffer::splat(&mut buffer.low, w.word(slot, word));
        Source { low, high: low, step: 0 }
    }
}

/// Writes a row where EXEC is set.
#[inline(always)]
pub(crate) fn store<const L: usize>(w: &mut Wave<L>, index: u16, row: &Row<L>) {
    let target = &mut w.v[index as usize];
    if w.exec == Wave::<L>::ALL {
        *target = *row;
        return;
    }
    for i in 0..L {
        target[i] = row[i] & w.mask[i] | target[i] & !w.mask[i];
    }
}

/// Works an operation out for all lanes and ends it: modifiers of the result, EXEC, registers.
#[inline(always)]
pub(crate) fn compute<E: Elem, const L: usize>(w: &mut Wave<L>, op: &Op<L>, f: impl Fn(usize) -> E::T) {
    compute_bits::<E, L>(
        w,
        op,
        #[inline(always)]
        |i| (f(i), 0),
    );
}

/// The same for operations with a second result, a bit a lane: the top bit of what `f` returns beside the value.
#[inline(always)]
pub(crate) fn compute_bits<E: Elem, const L: usize>(
    w: &mut Wave<L>,
    op: &Op<L>,
    f: impl Fn(usize) -> (E::T, u32),
) -> u64 {
    let mut aside = MaybeUninit::<[Row<L>; 2]>::uninit();
    let flushes = E::KEEP_OUT != 0 && w.mode & E::KEEP_OUT == 0;
    let straight = w.exec == Wave::<L>::ALL
        && op.flags & (flags::CLAMP | flags::OMOD) == 0
        && !flushes
        && (!E::HALF || op.flags & (flags::DST_HIGH | flags::CLEAR_HIGH) == flags::CLEAR_HIGH);
    let start: *mut u32 = if straight {
        let last = op.dst.index as usize + usize::from(E::PAIR);
        assert!(last < w.v.len(), "predecoding has seen to it that registers exist");
        w.v[op.dst.index as usize..].as_mut_ptr().cast()
    } else {
        aside.as_mut_ptr().cast()
    };
    let mut bits = 0;
    for chunk in 0..L / CHUNK {
        let (mut low, mut high, mut flag) = ([0; CHUNK], [0; CHUNK], [0; CHUNK]);
        for lane in 0..CHUNK {
            let (value, top) = f(CHUNK * chunk + lane);
            (low[lane], high[lane]) = E::put(value);
            flag[lane] = top;
        }
        bits |= u64::from(top_bits(&flag)) << (CHUNK * chunk);
        // SAFETY: `start` is a row, and for pairs the first of two that lie one behind the other; a chunk is inside of it.
        unsafe {
            start.add(CHUNK * chunk).cast::<[u32; CHUNK]>().write(low);
            if E::PAIR {
                start.add(L + CHUNK * chunk).cast::<[u32; CHUNK]>().write(high);
            }
        }
    }
    if !straight {
        // SAFETY: the loop above wrote the first row, and for pairs the second.
        let rows = unsafe {
            if !E::PAIR {
                aside.as_mut_ptr().cast::<Row<L>>().add(1).write(Row::ZERO);
            }
            aside.assume_init_mut()
        };
        finish::<E, L>(w, op, rows);
    }
    bits
}

/// The top bits of a chunk.
#[inline(always)]
pub(crate) fn top_bits(chunk: &[u32; CHUNK]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_loadu_ps, _mm_movemask_ps};
        let start = chunk.as_ptr().cast::<f32>();
        // SAFETY: a chunk is twice four words, and every CPU of this architecture has SSE.
        let (low, high) =
            unsafe { (_mm_movemask_ps(_mm_loadu_ps(start)), _mm_movemask_ps(_mm_loadu_ps(start.add(4)))) };
        (low | high << 4) as u32
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        chunk.iter().enumerate().fold(0, |bits, (n, word)| bits | (word >> 31) << n)
    }
}

/// The bits of a mask as all ones or 0, a lane each: what [`crate::wave::expand`] does, for loops over chunks.
#[inline(always)]
pub(crate) fn lane_mask(bits: u64, lane: usize) -> u32 {
    let chunk = (bits >> (lane / CHUNK * CHUNK)) as u32;
    ((chunk << (31 - lane % CHUNK)) as i32 >> 31) as u32
}

/// Ends an operation whose result does not go to the registers as it is: output modifier, clamp, denormals that are flushed, halves
/// that stay, lanes that are off. Once for a type and not for every operation.
#[inline(never)]
fn finish<E: Elem, const L: usize>(w: &mut Wave<L>, op: &Op<L>, rows: &mut [Row<L>; 2]) {
    let [low, high] = rows;
    if op.flags & (flags::CLAMP | flags::OMOD) != 0 {
        // A type whose denormals are kept has no output modifier.
        let bits = if w.mode & E::KEEP_OUT != 0 { op.flags & !flags::OMOD } else { op.flags };
        for i in 0..L {
            (low[i], high[i]) = E::finish((low[i], high[i]), bits, w.mode);
        }
    }
    if E::KEEP_OUT != 0 && w.mode & E::KEEP_OUT == 0 {
        for i in 0..L {
            E::flush(&mut low[i], &mut high[i]);
        }
    }
    if E::HALF {
        let old = &w.v[op.dst.index as usize];
        if op.flags & flags::DST_HIGH != 0 {
            for i in 0..L {
                low[i] = low[i] << 16 | old[i] & 0xffff;
            }
        } else if op.flags & flags::CLEAR_HIGH == 0 {
            for i in 0..L {
                low[i] = low[i] & 0xffff | old[i] & 0xffff_0000;
            }
        }
    }
    store(w, op.dst.index, low);
    if E::PAIR {
        store(w, op.dst.index + 1, high);
    }
}

/// A test of every lane as bits; those of lanes that are off are 0.
#[inline(always)]
pub(crate) fn test_lanes<const L: usize>(w: &Wave<L>, test: impl Fn(usize) -> bool) -> u64 {
    let mut bits = 0;
    for chunk in 0..L / CHUNK {
        let mut flags = [0; CHUNK];
        for lane in 0..CHUNK {
            flags[lane] = (test(CHUNK * chunk + lane) as i32).wrapping_neg() as u32;
        }
        bits |= u64::from(top_bits(&flags)) << (CHUNK * chunk);
    }
    bits & w.exec
}

/// Ends a compare.
#[inline(always)]
pub(crate) fn write_bits<const L: usize>(w: &mut Wave<L>, op: &Op<L>, bits: u64) {
    w.set_lanes(op.dst, bits);
    if op.flags & flags::ALSO_EXEC != 0 {
        w.set_exec(bits);
    }
}

/// Makes a table of handlers of lines such as `V_ADD_F32(a: F32, b: F32) -> F32 { a + b }`. The sources are fetched as their
/// types say, the body sees one lane.
macro_rules! lanes {
    ($lookup:ident; $($op:ident ($($a:ident: $t:ident),+) -> $r:ident $body:block)*) => {
        pub(crate) fn $lookup<const L: usize>(op: $crate::inst::Op, fast: bool) -> Option<$crate::wave::Handler<L>> {
            Some(match op {
                $($crate::inst::Op::$op => {
                    struct Line;
                    impl $crate::exec::lanes::Run for Line {
                        #[inline(always)]
                        #[allow(unused_assignments)]
                        fn run<const L: usize>(
                            w: &mut $crate::wave::Wave<L>,
                            op: &$crate::wave::Op<L>,
                            _m: &mut $crate::exec::machine::Machine<'_>,
                        ) -> $crate::wave::Flow {
                            $(let mut $a = $crate::exec::lanes::Buffer::<L>::new();)+
                            let mut n = 0;
                            $(
                                let $a = $crate::exec::lanes::fetch::<$t, L>(w, op.src[n], &mut $a);
                                n += 1;
                            )+
                            $crate::exec::lanes::compute::<$r, L>(
                                w,
                                op,
                                #[inline(always)]
                                |i| {
                                    $(let $a = $a.at::<$t>(i);)+
                                    $body
                                },
                            );
                            $crate::wave::Flow::Next
                        }
                    }
                    $crate::exec::lanes::pick::<Line, L>(fast)
                })*
                _ => return None,
            })
        }
    };
}
pub(crate) use lanes;

/// Makes a table of handlers of whole instructions: `V_SWAP_B32 (w, op, m) { ... }`; the body ends with a [`Flow`].
macro_rules! handlers {
    ($lookup:ident; $($($op:ident)|+ ($w:ident, $inst:ident, $m:ident) $body:block)*) => {
        pub(crate) fn $lookup<const L: usize>(op: $crate::inst::Op, fast: bool) -> Option<$crate::wave::Handler<L>> {
            Some(match op {
                $($($crate::inst::Op::$op)|+ => {
                    struct Line;
                    impl $crate::exec::lanes::Run for Line {
                        #[inline(always)]
                        fn run<const L: usize>(
                            $w: &mut $crate::wave::Wave<L>,
                            $inst: &$crate::wave::Op<L>,
                            $m: &mut $crate::exec::machine::Machine<'_>,
                        ) -> $crate::wave::Flow $body
                    }
                    $crate::exec::lanes::pick::<Line, L>(fast)
                })*
                _ => return None,
            })
        }
    };
}
pub(crate) use handlers;
