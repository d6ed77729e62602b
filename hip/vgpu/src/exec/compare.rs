//! Vector compares: every condition on every type, found by the parts of their names.

use crate::exec::float::{double, single};
use crate::exec::lanes::{
    fetch, pick, test_lanes, write_bits, Buffer, Elem, Run, B16, F16, F32, F64, I16, I32, I64, U16, U32, U64,
};
use crate::exec::machine::Machine;
use crate::wave::{Flow, Handler, Op, Wave};
use std::marker::PhantomData;

/// A condition on two lanes of one type.
trait Test<E: Elem> {
    fn test(a: E::T, b: E::T) -> bool;
}

struct Compare<E, C>(PhantomData<(E, C)>);

impl<E: Elem, C: Test<E>> Run for Compare<E, C> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, _m: &mut Machine<'_>) -> Flow {
        let (mut a, mut b) = (Buffer::new(), Buffer::new());
        let a = fetch::<E, L>(w, op.src[0], &mut a);
        let b = fetch::<E, L>(w, op.src[1], &mut b);
        let bits = test_lanes(
            w,
            #[inline(always)]
            |i| C::test(a.at::<E>(i), b.at::<E>(i)),
        );
        write_bits(w, op, bits);
        Flow::Next
    }
}

macro_rules! conditions {
    ($lookup:ident, $bound:ident; $($text:literal $name:ident ($a:ident, $b:ident) $body:expr;)*) => {
        $(
            struct $name;
            impl<E: Elem> Test<E> for $name where E::T: $bound {
                #[inline(always)]
                #[allow(unused_variables, clippy::neg_cmp_op_on_partial_ord, clippy::nonminimal_bool, clippy::eq_op)]
                fn test($a: E::T, $b: E::T) -> bool { $body }
            }
        )*
        fn $lookup<E: Elem + 'static, const L: usize>(condition: &str, fast: bool) -> Option<Handler<L>>
        where E::T: $bound {
            Some(match condition {
                $($text => pick::<Compare<E, $name>, L>(fast),)*
                _ => return None,
            })
        }
    };
}

trait Number: PartialOrd + Copy {}
impl<T: PartialOrd + Copy> Number for T {}

conditions! { float_condition, Number;
    "f" Never (a, b) false;
    "lt" Lt (a, b) a < b;
    "eq" Eq (a, b) a == b;
    "le" Le (a, b) a <= b;
    "gt" Gt (a, b) a > b;
    "lg" Lg (a, b) a < b || a > b;
    "ge" Ge (a, b) a >= b;
    "o" Ordered (a, b) a == a && b == b;
    "u" Unordered (a, b) a != a || b != b;
    "nge" Nge (a, b) !(a >= b);
    "nlg" Nlg (a, b) !(a < b || a > b);
    "ngt" Ngt (a, b) !(a > b);
    "nle" Nle (a, b) !(a <= b);
    "neq" Neq (a, b) !(a == b);
    "nlt" Nlt (a, b) !(a < b);
    "t" Always (a, b) true;
    "tru" Always2 (a, b) true;
}

conditions! { integer_condition, Number;
    "f" NeverInt (a, b) false;
    "lt" LtInt (a, b) a < b;
    "eq" EqInt (a, b) a == b;
    "le" LeInt (a, b) a <= b;
    "gt" GtInt (a, b) a > b;
    "ne" NeInt (a, b) a != b;
    "ge" GeInt (a, b) a >= b;
    "t" AlwaysInt (a, b) true;
}

/// `v_cmp_class`: the second operand is a mask of classes.
struct Class<E>(PhantomData<E>);

trait Classes: Elem {
    fn class(value: Self::T, mask: u32) -> bool;
}
impl Classes for F32 {
    #[inline(always)]
    fn class(value: f32, mask: u32) -> bool {
        single::class(value, mask)
    }
}
impl Classes for F64 {
    #[inline(always)]
    fn class(value: f64, mask: u32) -> bool {
        double::class(value, mask)
    }
}
impl Classes for B16 {
    #[inline(always)]
    fn class(bits: u16, mask: u32) -> bool {
        let negative = bits >> 15 != 0;
        let class = match (bits >> 10 & 31, bits & 0x3ff) {
            (31, 0) => [9, 2][usize::from(negative)],
            (31, mantissa) => u32::from(mantissa >> 9),
            (0, 0) => [6, 5][usize::from(negative)],
            (0, _) => [7, 4][usize::from(negative)],
            _ => [8, 3][usize::from(negative)],
        };
        mask >> class & 1 != 0
    }
}

impl<E: Classes> Run for Class<E> {
    #[inline(always)]
    fn run<const L: usize>(w: &mut Wave<L>, op: &Op<L>, _m: &mut Machine<'_>) -> Flow {
        let (mut a, mut b) = (Buffer::new(), Buffer::new());
        // Denormals are a class of their own: they are not flushed first.
        let mode = std::mem::replace(&mut w.mode, !0);
        let a = fetch::<E, L>(w, op.src[0], &mut a);
        let b = fetch::<U32, L>(w, op.src[1], &mut b);
        let bits = test_lanes(
            w,
            #[inline(always)]
            |i| E::class(a.at::<E>(i), b.at::<U32>(i)),
        );
        w.mode = mode;
        write_bits(w, op, bits);
        Flow::Next
    }
}

/// The handler of `v_cmp_<condition>_<type>` or `v_cmpx_...`.
pub(crate) fn lookup<const L: usize>(name: &str, fast: bool) -> Option<Handler<L>> {
    let rest = name.strip_prefix("v_cmpx_").or_else(|| name.strip_prefix("v_cmp_"))?;
    let (condition, kind) = rest.rsplit_once('_')?;
    match (condition, kind) {
        ("class", "f32") => return Some(pick::<Class<F32>, L>(fast)),
        ("class", "f64") => return Some(pick::<Class<F64>, L>(fast)),
        ("class", "f16") => return Some(pick::<Class<B16>, L>(fast)),
        _ => {}
    }
    match kind {
        "f16" => float_condition::<F16, L>(condition, fast),
        "f32" => float_condition::<F32, L>(condition, fast),
        "f64" => float_condition::<F64, L>(condition, fast),
        "i16" => integer_condition::<I16, L>(condition, fast),
        "u16" => integer_condition::<U16, L>(condition, fast),
        "i32" => integer_condition::<I32, L>(condition, fast),
        "u32" => integer_condition::<U32, L>(condition, fast),
        "i64" => integer_condition::<I64, L>(condition, fast),
        "u64" => integer_condition::<U64, L>(condition, fast),
        _ => None,
    }
}
