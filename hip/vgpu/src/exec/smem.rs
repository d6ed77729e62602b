//! Scalar memory: loads through the constant cache, clocks.

use crate::exec::lanes::{handlers, pick, Run};
use crate::exec::lds::SLOT_SHIFT;
use crate::exec::machine::Machine;
use crate::memory;
use crate::wave::{flags, Flow, Handler, Kind, Op, Wave};

/// The address: base, immediate and register offset.
#[inline(always)]
fn address<const L: usize>(w: &Wave<L>, op: &Op<L>) -> u64 {
    let register = if op.src[1].kind == Kind::None { 0 } else { w.s32(op.src[1]) };
    w.s64(op.src[0]).wrapping_add(i64::from(op.imm) as u64).wrapping_add(u64::from(register))
}

/// A load of `N` words.
struct Load<const N: usize>;
/// A load of `N` words through a buffer resource: beyond its end there are zeros.
struct BufferLoad<const N: usize>;
/// A load of one or two bytes (gfx12).
struct LoadSmall<const B: usize>;

#[inline(always)]
fn load<const N: usize, const L: usize>(
    w: &mut Wave<L>,
    op: &Op<L>,
    m: &mut Machine<'_>,
    at: u64,
    count: usize,
) -> Flow {
    let at = at & !3;
    let mut words = [0; 16];
    if count > 0 {
        let bytes = 4 * count as u64;
        let Some((host, _)) = m.host((op.flags >> SLOT_SHIFT) as usize, at, bytes, false) else {
            return m.refuse_access(None, at, bytes, false);
        };
        for (n, word) in words.iter_mut().enumerate().take(count.min(N)) {
            // SAFETY: inside a span.
            *word = unsafe { memory::load_u32(host + 4 * n as u64) };
        }
    }
    if op.dst.kind == Kind::Scalar {
        for (n, word) in words.into_iter().enumerate().take(N) {
            w.set_scalar(op.dst.index + n as u16, word);
        }
    }
    Flow::Next
}

impl<const N: usize> Run for Load<N> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let at = address(w, op);
        load::<N, L>(w, op, m, at, N)
    }
}

impl<const N: usize> Run for BufferLoad<N> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let part = |n: u16| w.word(op.src[0], n);
        let base = u64::from(part(0)) | u64::from(part(1) & 0xffff) << 32;
        let (stride, records) = (u64::from(part(1) >> 16 & 0x3fff), u64::from(part(2)));
        let size = if stride == 0 { records } else { stride * records };
        let register = if op.src[1].kind == Kind::None { 0 } else { w.s32(op.src[1]) };
        let offset = (op.imm as u32).wrapping_add(register) & !3;
        let there = size.saturating_sub(u64::from(offset)) / 4;
        load::<N, L>(w, op, m, base + u64::from(offset), there.min(N as u64) as usize)
    }
}

impl<const B: usize> Run for LoadSmall<B> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let at = address(w, op);
        if m.span((op.flags >> SLOT_SHIFT) as usize, at, B as u64, false).is_none() {
            return m.refuse_access(None, at, B as u64, false);
        }
        // SAFETY: inside a span.
        let value = unsafe {
            if B == 1 {
                u32::from(memory::load_u8(at))
            } else {
                u32::from(memory::load_u16(at))
            }
        };
        w.set_s32(op.dst, crate::exec::lds::narrow::<B>(value, 0, op.flags));
        Flow::Next
    }
}

/// The constant clock of AMD's GPUs has 100 MHz.
const REALTIME_NS: u64 = 10;

/// The time since the first kernel asked for it. The clock of the waves is one of 1 GHz.
pub(crate) fn nanoseconds() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

handlers! { clocks;
    S_MEMTIME (w, op, _m) { w.set_s64(op.dst, nanoseconds()); Flow::Next }
    S_MEMREALTIME (w, op, _m) { w.set_s64(op.dst, nanoseconds() / REALTIME_NS); Flow::Next }
    S_SENDMSG_RTN_B64 (w, op, m) {
        // The realtime clock; the other messages return what only a driver knows.
        if op.imm & 0xff == 0x83 {
            w.set_s64(op.dst, nanoseconds() / REALTIME_NS);
            return Flow::Next;
        }
        m.fail(crate::failure::Cause::Instruction, None, format!("message {:#x} is not emulated", op.imm & 0xff))
    }
}

/// The handler for `s_load_b64`, `s_buffer_load_b32` and the like, with its flags.
pub(crate) fn lookup<const L: usize>(name: &str, fast: bool) -> Option<(Handler<L>, u32)> {
    if let Some(kind) = name.strip_prefix("s_load_") {
        return Some((
            match kind {
                "b32" => pick::<Load<1>, L>(fast),
                "b64" => pick::<Load<2>, L>(fast),
                "b96" => pick::<Load<3>, L>(fast),
                "b128" => pick::<Load<4>, L>(fast),
                "b256" => pick::<Load<8>, L>(fast),
                "b512" => pick::<Load<16>, L>(fast),
                "u8" => pick::<LoadSmall<1>, L>(fast),
                "u16" => pick::<LoadSmall<2>, L>(fast),
                "i8" => return Some((pick::<LoadSmall<1>, L>(fast), flags::SIGNED)),
                "i16" => return Some((pick::<LoadSmall<2>, L>(fast), flags::SIGNED)),
                _ => return None,
            },
            0,
        ));
    }
    Some((
        match name.strip_prefix("s_buffer_load_")? {
            "b32" => pick::<BufferLoad<1>, L>(fast),
            "b64" => pick::<BufferLoad<2>, L>(fast),
            "b96" => pick::<BufferLoad<3>, L>(fast),
            "b128" => pick::<BufferLoad<4>, L>(fast),
            "b256" => pick::<BufferLoad<8>, L>(fast),
            "b512" => pick::<BufferLoad<16>, L>(fast),
            _ => return None,
        },
        0,
    ))
}
