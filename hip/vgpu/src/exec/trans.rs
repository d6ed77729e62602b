//! Operations whose results the manual promises only to an accuracy: reciprocals, roots, exponentials, logarithms, sines.
//! Computed in f64 and rounded, then moved as the launch's accuracy setting says, so that a kernel can be shown not to
//! depend on luck.

use crate::exec::float::{double, flush, single};
use crate::exec::lanes::{compute, fetch, pick, Buffer, Elem, Run, F16, F32, F64};
use crate::exec::machine::Machine;
use crate::inst::Op as Name;
use crate::wave::{Flow, Handler, Kind, Op, Wave};

/// How exact the operations are that the manual promises to an accuracy only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Accuracy {
    /// Correctly rounded.
    #[default]
    Exact,
    /// What the manual promises and no more: the nearest value or a neighbour within one ulp, by a hash of its bits; f64 estimates cut to
    /// 24 bits.
    Coarse,
    /// The largest value within one ulp, always.
    Up,
    /// The smallest value within one ulp, always.
    Down,
}

/// An f32 within one ulp of the exact result, which is all that the manual promises: the neighbour below it, or the one above. Beside the
/// value that is nearest there is only one, on the other side; integer division relies on the bound.
#[inline(always)]
fn adjust32(exact: f64, accuracy: Accuracy) -> f32 {
    let nearest = exact as f32;
    // Powers of two come out exact: tables have them, and code relies on it (`exp2` of an integer, `rcp` of a power).
    if accuracy == Accuracy::Exact || nearest.to_bits() & 0x7f_ffff == 0 {
        return nearest;
    }
    let up = match accuracy {
        Accuracy::Exact | Accuracy::Up => true,
        Accuracy::Down => false,
        Accuracy::Coarse => match nearest.to_bits().wrapping_mul(0x9e37_79b9) >> 30 {
            0 => true,
            1 => false,
            _ => return nearest,
        },
    };
    if f64::from(nearest) != exact && (f64::from(nearest) > exact) == up {
        nearest
    } else {
        single::neighbour(nearest, up)
    }
}

#[inline(always)]
fn adjust64(value: f64, accuracy: Accuracy) -> f64 {
    if value == 0.0 || value.is_nan() || value.is_infinite() {
        return value;
    }
    match accuracy {
        Accuracy::Exact => value,
        // 24 good bits of 53.
        Accuracy::Coarse => f64::from_bits(value.to_bits() & !((1 << 29) - 1)),
        Accuracy::Up => f64::from_bits((value.to_bits() & !((1 << 29) - 1)) + (1 << 29)),
        Accuracy::Down => double::neighbour(f64::from_bits(value.to_bits() & !((1 << 29) - 1)), false),
    }
}

/// An f16 result is promised to 0.51 ulp: only a result next to a tie can move. It stays.
trait Function<E: Elem> {
    fn call(value: E::T, accuracy: Accuracy) -> E::T;
}

struct Apply<E, F>(std::marker::PhantomData<(E, F)>);

impl<E: Elem, F: Function<E>> Run for Apply<E, F> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, m: &mut Machine<'_>) -> Flow {
        let mut a = Buffer::new();
        let a = fetch::<E, L>(w, op.src[0], &mut a);
        if op.dst.kind == Kind::Scalar {
            // gfx12's scalar forms: one lane.
            let (low, _) = E::put(F::call(a.at::<E>(0), m.accuracy));
            w.set_s32(op.dst, low);
            return Flow::Next;
        }
        // These are library calls: lanes that are off are not worth one.
        let (exec, accuracy) = (w.exec, m.accuracy);
        compute::<E, L>(
            w,
            op,
            #[inline(always)]
            |i| if exec >> i & 1 != 0 { F::call(a.at::<E>(i), accuracy) } else { a.at::<E>(i) },
        );
        Flow::Next
    }
}

macro_rules! functions {
    ($($($op:ident)|+ $name:ident: $t:ident ($a:ident) $body:expr;)*) => {
        $(
            struct $name;
            impl Function<$t> for $name {
                #[inline(always)]
                fn call($a: <$t as Elem>::T, accuracy: Accuracy) -> <$t as Elem>::T {
                    let _ = accuracy;
                    functions!(@finish $t, $body, accuracy)
                }
            }
        )*
        pub(crate) fn lookup<const L: usize>(op: Name, fast: bool) -> Option<Handler<L>> {
            Some(match op {
                $($(Name::$op)|+ => pick::<Apply<$t, $name>, L>(fast),)*
                _ => return None,
            })
        }
    };
    (@finish F32, $body:expr, $accuracy:ident) => { flush(adjust32($body, $accuracy)) };
    (@finish F64, $body:expr, $accuracy:ident) => { adjust64($body, $accuracy) };
    (@finish F16, $body:expr, $accuracy:ident) => { $body };
}

/// `sin(2 pi x)`: the argument is in turns, so the reduction is exact.
#[inline(always)]
fn sin_turns(turns: f64) -> f64 {
    let turns = turns - turns.round_ties_even();
    // The exact zeros and ones are worth having.
    match (turns * 4.0).fract() == 0.0 {
        true => [0.0, 1.0, 0.0, -1.0][(turns * 4.0).rem_euclid(4.0) as usize & 3],
        false => (turns * std::f64::consts::TAU).sin(),
    }
}

functions! {
    V_RCP_F32 | V_RCP_IFLAG_F32 | V_S_RCP_F32 Rcp32: F32 (a) 1.0 / f64::from(flush(a));
    V_RSQ_F32 | V_S_RSQ_F32 Rsq32: F32 (a) 1.0 / f64::from(flush(a)).sqrt();
    V_SQRT_F32 | V_S_SQRT_F32 Sqrt32: F32 (a) f64::from(flush(a)).sqrt();
    V_EXP_F32 | V_EXP_LEGACY_F32 | V_S_EXP_F32 Exp32: F32 (a) f64::from(flush(a)).exp2();
    V_LOG_F32 | V_LOG_LEGACY_F32 | V_S_LOG_F32 Log32: F32 (a) f64::from(flush(a)).log2();
    V_SIN_F32 Sin32: F32 (a) sin_turns(f64::from(a));
    V_COS_F32 Cos32: F32 (a) sin_turns((f64::from(a) - f64::from(a).round_ties_even()) + 0.25);
    V_RCP_F64 Rcp64: F64 (a) 1.0 / a;
    V_RSQ_F64 Rsq64: F64 (a) 1.0 / a.sqrt();
    V_SQRT_F64 Sqrt64: F64 (a) a.sqrt();
    V_RCP_F16 | V_S_RCP_F16 Rcp16: F16 (a) 1.0 / a;
    V_RSQ_F16 | V_S_RSQ_F16 Rsq16: F16 (a) (1.0 / f64::from(a).sqrt()) as f32;
    V_SQRT_F16 | V_S_SQRT_F16 Sqrt16: F16 (a) a.sqrt();
    V_EXP_F16 | V_S_EXP_F16 Exp16: F16 (a) f64::from(a).exp2() as f32;
    V_LOG_F16 | V_S_LOG_F16 Log16: F16 (a) f64::from(a).log2() as f32;
    V_SIN_F16 Sin16: F16 (a) sin_turns(f64::from(a)) as f32;
    V_COS_F16 Cos16: F16 (a) sin_turns((f64::from(a) - f64::from(a).round_ties_even()) + 0.25) as f32;
}
