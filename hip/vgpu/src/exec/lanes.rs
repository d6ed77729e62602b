//! How an operation on one lane becomes a handler for a wave: fetching operands as rows, looping over the lanes, and writing
//! what came out under EXEC. The operations themselves are one line each, in `valu` and its neighbours.

use crate::exec::float;
use crate::exec::machine::Machine;
use crate::wave::{collect, flags, mods, Flow, Handler, Kind, Op, Slot, Wave};
use std::mem::MaybeUninit;

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

/// How a lane's bits are read and written.
pub(crate) trait Elem {
    type T: Copy;
    /// Takes two registers.
    const PAIR: bool = false;
    /// Sixteen bits: results may go to one half.
    const HALF: bool = false;
    /// The mode bits that keep denormals of operands and of results; 0 where there are none.
    const KEEP_IN: u32 = 0;
    const KEEP_OUT: u32 = 0;
    fn get(low: u32, high: u32) -> Self::T;
    fn put(value: Self::T) -> (u32, u32);
    /// Negation and absolute value; for halves also which one is meant.
    #[inline(always)]
    fn modify(mods: u8, low: &mut u32, _high: &mut u32) {
        if mods & mods::ABS != 0 {
            *low &= 0x7fff_ffff;
        }
        if mods & mods::NEG != 0 {
            *low ^= 0x8000_0000;
        }
    }
    #[inline(always)]
    fn flush(_low: &mut u32, _high: &mut u32) {}
    /// Output modifier and clamp.
    #[inline(always)]
    fn finish(value: (u32, u32), _flags: u32, _mode: u32) -> (u32, u32) {
        value
    }
}

macro_rules! integers {
    ($($name:ident $type:ty, $get:expr, $put:expr;)*) => {$(
        pub(crate) struct $name;
        impl Elem for $name {
            type T = $type;
            #[inline(always)]
            fn get(low: u32, _high: u32) -> $type { let get: fn(u32) -> $type = $get; get(low) }
            #[inline(always)]
            fn put(value: $type) -> (u32, u32) { let put: fn($type) -> u32 = $put; (put(value), 0) }
        }
    )*};
}
integers! {
    U32 u32, |x| x, |x| x;
    I32 i32, |x| x as i32, |x| x as u32;
    Bit bool, |x| x != 0, |x| (x as i32).wrapping_neg() as u32;
}

macro_rules! halves {
    ($($name:ident $type:ty, $in:expr, $out:expr, $get:expr, $put:expr;)*) => {$(
        pub(crate) struct $name;
        impl Elem for $name {
            type T = $type;
            const HALF: bool = true;
            const KEEP_IN: u32 = $in;
            const KEEP_OUT: u32 = $out;
            #[inline(always)]
            fn get(low: u32, _high: u32) -> $type { let get: fn(u16) -> $type = $get; get(low as u16) }
            #[inline(always)]
            fn put(value: $type) -> (u32, u32) { let put: fn($type) -> u16 = $put; (u32::from(put(value)), 0) }
            #[inline(always)]
            fn modify(mods: u8, low: &mut u32, _high: &mut u32) {
                if mods & mods::HIGH != 0 {
                    *low >>= 16;
                }
                if mods & mods::ABS != 0 {
                    *low &= 0x7fff;
                }
                if mods & mods::NEG != 0 {
                    *low ^= 0x8000;
                }
            }
            #[inline(always)]
            fn flush(low: &mut u32, _high: &mut u32) {
                if *low & 0x7c00 == 0 {
                    *low &= 0x8000;
                }
            }
            #[inline(always)]
            fn finish(value: (u32, u32), bits: u32, mode: u32) -> (u32, u32) {
                if $in == 0 {
                    return value;
                }
                let (low, _) = F32::finish((float::f16_to_f32(value.0 as u16).to_bits(), 0), bits, mode);
                (u32::from(float::f32_to_f16(f32::from_bits(low))), 0)
            }
        }
    )*};
}
halves! {
    U16 u16, 0, 0, |x| x, |x| x;
    I16 i16, 0, 0, |x| x as i16, |x| x as u16;
    // Arithmetic on f16 is done in f32 and rounded once more at the end, which is exact for one operation.
    F16 f32, 1 << 6, 1 << 7, float::f16_to_f32, float::f32_to_f16;
    // Bits of an f16 for what must not go through f32.
    B16 u16, 1 << 6, 1 << 7, |x| x, |x| x;
}

/// An f16 that needs more than an f32 in between: fused multiply and add.
pub(crate) struct F16Wide;
impl Elem for F16Wide {
    type T = f64;
    const HALF: bool = true;
    const KEEP_IN: u32 = 1 << 6;
    const KEEP_OUT: u32 = 1 << 7;
    #[inline(always)]
    fn get(low: u32, _high: u32) -> f64 {
        f64::from(float::f16_to_f32(low as u16))
    }
    #[inline(always)]
    fn put(value: f64) -> (u32, u32) {
        (u32::from(float::f64_to_f16(value)), 0)
    }
    #[inline(always)]
    fn modify(mods: u8, low: &mut u32, high: &mut u32) {
        F16::modify(mods, low, high);
    }
    #[inline(always)]
    fn flush(low: &mut u32, high: &mut u32) {
        F16::flush(low, high);
    }
    #[inline(always)]
    fn finish(value: (u32, u32), bits: u32, mode: u32) -> (u32, u32) {
        F16::finish(value, bits, mode)
    }
}

pub(crate) struct F32;
impl Elem for F32 {
    type T = f32;
    const KEEP_IN: u32 = 1 << 4;
    const KEEP_OUT: u32 = 1 << 5;
    #[inline(always)]
    fn get(low: u32, _high: u32) -> f32 {
        f32::from_bits(low)
    }
    #[inline(always)]
    fn put(value: f32) -> (u32, u32) {
        (value.to_bits(), 0)
    }
    #[inline(always)]
    fn flush(low: &mut u32, _high: &mut u32) {
        *low = float::flush(f32::from_bits(*low)).to_bits();
    }
    #[inline(always)]
    fn finish(value: (u32, u32), bits: u32, mode: u32) -> (u32, u32) {
        let mut x = f32::from_bits(value.0);
        x *= [1.0, 2.0, 4.0, 0.5][(bits & flags::OMOD) as usize / 2];
        if bits & flags::CLAMP != 0 {
            if x.is_nan() {
                // DX10_CLAMP: a NaN becomes 0.
                if mode & 1 << 8 != 0 {
                    x = 0.0;
                }
            } else {
                x = if x > 0.0 { x } else { 0.0 };
                x = if x < 1.0 { x } else { 1.0 };
            }
        }
        (x.to_bits(), 0)
    }
}

macro_rules! pairs {
    ($($name:ident $type:ty, $in:expr, $out:expr, $get:expr, $put:expr;)*) => {$(
        pub(crate) struct $name;
        impl Elem for $name {
            type T = $type;
            const PAIR: bool = true;
            const KEEP_IN: u32 = $in;
            const KEEP_OUT: u32 = $out;
            #[inline(always)]
            fn get(low: u32, high: u32) -> $type {
                let get: fn(u64) -> $type = $get;
                get(u64::from(low) | u64::from(high) << 32)
            }
            #[inline(always)]
            fn put(value: $type) -> (u32, u32) {
                let put: fn($type) -> u64 = $put;
                let bits = put(value);
                (bits as u32, (bits >> 32) as u32)
            }
            #[inline(always)]
            fn modify(mods: u8, _low: &mut u32, high: &mut u32) {
                U32::modify(mods, high, &mut 0);
            }
            #[inline(always)]
            fn flush(low: &mut u32, high: &mut u32) {
                if *high & 0x7ff0_0000 == 0 {
                    (*low, *high) = (0, *high & 0x8000_0000);
                }
            }
            #[inline(always)]
            fn finish(value: (u32, u32), bits: u32, mode: u32) -> (u32, u32) {
                if $in == 0 {
                    return value;
                }
                let mut x = f64::from_bits(u64::from(value.0) | u64::from(value.1) << 32);
                x *= [1.0, 2.0, 4.0, 0.5][(bits & flags::OMOD) as usize / 2];
                if bits & flags::CLAMP != 0 {
                    if x.is_nan() {
                        if mode & 1 << 8 != 0 {
                            x = 0.0;
                        }
                    } else {
                        x = if x > 0.0 { x } else { 0.0 };
                        x = if x < 1.0 { x } else { 1.0 };
                    }
                }
                (x.to_bits() as u32, (x.to_bits() >> 32) as u32)
            }
        }
    )*};
}
pairs! {
    U64 u64, 0, 0, |x| x, |x| x;
    I64 i64, 0, 0, |x| x as i64, |x| x as u64;
    F64 f64, 1 << 6, 1 << 7, f64::from_bits, |x| x.to_bits();
}

/// Room for an operand that is not a row as it stands.
pub(crate) struct Buffer<const L: usize> {
    low: MaybeUninit<[u32; L]>,
    high: MaybeUninit<[u32; L]>,
}

impl<const L: usize> Buffer<L> {
    #[inline(always)]
    pub fn new() -> Self {
        Self { low: MaybeUninit::uninit(), high: MaybeUninit::uninit() }
    }
}

/// An operand as rows.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, const L: usize> {
    low: &'a [u32; L],
    high: &'a [u32; L],
}

impl<const L: usize> Rows<'_, L> {
    #[inline(always)]
    pub fn at<E: Elem>(&self, lane: usize) -> E::T {
        E::get(self.low[lane], if E::PAIR { self.high[lane] } else { 0 })
    }
}

/// An operand, modifiers applied.
#[inline(always)]
pub(crate) fn fetch<'a, E: Elem, const L: usize>(w: &'a Wave<L>, slot: Slot, buffer: &'a mut Buffer<L>) -> Rows<'a, L> {
    let changed = slot.mods != 0 || E::KEEP_IN != 0 && w.mode & E::KEEP_IN == 0;
    if slot.kind == Kind::Row && !changed {
        let low = &w.v[slot.index as usize];
        let high = if E::PAIR { &w.v[slot.index as usize + 1] } else { low };
        return Rows { low, high };
    }
    if slot.kind != Kind::Row && !changed {
        let low = &*buffer.low.write([w.word(slot, 0); L]);
        let high = if E::PAIR { &*buffer.high.write([w.word(slot, 1); L]) } else { low };
        return Rows { low, high };
    }
    fetch_changed::<E, L>(w, slot, buffer)
}

/// The rest of `fetch`, once for a type and not for every operation: modifiers, and denormals that are flushed.
#[inline(never)]
fn fetch_changed<'a, E: Elem, const L: usize>(w: &Wave<L>, slot: Slot, buffer: &'a mut Buffer<L>) -> Rows<'a, L> {
    let low = buffer.low.write(row(w, slot, 0));
    let high = buffer.high.write(if E::PAIR { row(w, slot, 1) } else { [0; L] });
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
    Rows { low, high }
}

/// A word of an operand as a row of its own, without modifiers.
#[inline(always)]
pub(crate) fn row<const L: usize>(w: &Wave<L>, slot: Slot, word: u16) -> [u32; L] {
    if slot.kind == Kind::Row {
        w.v[(slot.index + word) as usize]
    } else {
        [w.word(slot, word); L]
    }
}

/// Writes a row where EXEC is set.
#[inline(always)]
pub(crate) fn store<const L: usize>(w: &mut Wave<L>, index: u16, row: &[u32; L]) {
    let target = &mut w.v[index as usize];
    if w.exec == Wave::<L>::ALL {
        *target = *row;
        return;
    }
    for i in 0..L {
        target[i] = row[i] & w.mask[i] | target[i] & !w.mask[i];
    }
}

/// A result of an operation on lanes.
pub(crate) struct Result<const L: usize> {
    pub low: [u32; L],
    pub high: [u32; L],
}

impl<const L: usize> Result<L> {
    #[inline(always)]
    pub fn new() -> Self {
        Self { low: [0; L], high: [0; L] }
    }

    #[inline(always)]
    pub fn set<E: Elem>(&mut self, lane: usize, value: E::T) {
        let (low, high) = E::put(value);
        self.low[lane] = low;
        if E::PAIR {
            self.high[lane] = high;
        }
    }
}

/// Results of all lanes, without writing zeros first.
pub(crate) struct Filled<const L: usize> {
    low: MaybeUninit<[u32; L]>,
    high: MaybeUninit<[u32; L]>,
}

impl<const L: usize> Filled<L> {
    #[inline(always)]
    pub fn new() -> Self {
        Self { low: MaybeUninit::uninit(), high: MaybeUninit::uninit() }
    }

    /// Every lane's result: the low words, and for pairs the high ones.
    #[inline(always)]
    pub fn fill<E: Elem>(&mut self, f: impl Fn(usize) -> E::T) -> (&mut [u32; L], Option<&mut [u32; L]>) {
        let (low, high) = (self.low.as_mut_ptr().cast::<u32>(), self.high.as_mut_ptr().cast::<u32>());
        for i in 0..L {
            let (a, b) = E::put(f(i));
            // SAFETY: `i` is below the arrays' length.
            unsafe {
                low.add(i).write(a);
                if E::PAIR {
                    high.add(i).write(b);
                }
            }
        }
        // SAFETY: the loop above wrote every element of `low`, and of `high` where it is handed out.
        unsafe { (self.low.assume_init_mut(), if E::PAIR { Some(self.high.assume_init_mut()) } else { None }) }
    }
}

/// Ends a vector operation: modifiers of the result, then the registers.
#[inline(always)]
pub(crate) fn write<E: Elem, const L: usize>(w: &mut Wave<L>, op: &Op<L>, mut result: Result<L>) {
    write_rows::<E, L>(w, op, &mut result.low, if E::PAIR { Some(&mut result.high) } else { None });
}

/// The same for rows that lie elsewhere.
#[inline(always)]
pub(crate) fn write_rows<E: Elem, const L: usize>(
    w: &mut Wave<L>,
    op: &Op<L>,
    low: &mut [u32; L],
    mut high: Option<&mut [u32; L]>,
) {
    let flushes = E::KEEP_OUT != 0 && w.mode & E::KEEP_OUT == 0;
    if op.flags & (flags::CLAMP | flags::OMOD) != 0 || flushes {
        finish::<E, L>(low, high.as_deref_mut(), op.flags, w.mode);
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
    if let Some(high) = high {
        store(w, op.dst.index + 1, high);
    }
}

/// Output modifier, clamp, and denormals that are flushed: once for a type and not for every operation.
#[inline(never)]
fn finish<E: Elem, const L: usize>(low: &mut [u32; L], high: Option<&mut [u32; L]>, bits: u32, mode: u32) {
    let mut none = [0; L];
    let high = high.unwrap_or(&mut none);
    if bits & (flags::CLAMP | flags::OMOD) != 0 {
        for i in 0..L {
            (low[i], high[i]) = E::finish((low[i], high[i]), bits, mode);
        }
    }
    if E::KEEP_OUT != 0 && mode & E::KEEP_OUT == 0 {
        for i in 0..L {
            E::flush(&mut low[i], &mut high[i]);
        }
    }
}

/// Ends a compare: bits of inactive lanes are 0.
#[inline(always)]
pub(crate) fn write_bits<const L: usize>(w: &mut Wave<L>, op: &Op<L>, row: &[u32; L]) {
    let bits = collect(row) & w.exec;
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
                            let mut result = $crate::exec::lanes::Filled::<L>::new();
                            let (low, high) = result.fill::<$r>(
                                #[inline(always)]
                                |i| {
                                    $(let $a = $a.at::<$t>(i);)+
                                    $body
                                },
                            );
                            $crate::exec::lanes::write_rows::<$r, L>(w, op, low, high);
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
