//! Floating point as the hardware does it: 16-bit formats, minima and maxima, the steps of a division, exponents and
//! fractions. Plain functions of one lane; written so that loops over lanes become vector code.

/// An f16's bits as an f32. Exact, denormals included.
#[inline(always)]
pub(crate) fn f16_to_f32(half: u16) -> f32 {
    let magnitude = (u32::from(half) & 0x7fff) << 13;
    // Moves the exponent by 112; works for denormals too, because the multiplication normalises them.
    let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    let special = if magnitude >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | (u32::from(half) & 0x8000) << 16)
}

/// An f32 rounded to the nearest f16, ties to even.
#[inline(always)]
pub(crate) fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Normal results: rebias and round by integer addition; a carry into the exponent is right, up to infinity.
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
    // Denormal results: adding 0.5 leaves the bits at the right place, rounded by the host's own addition.
    let denormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let finite = if magnitude < 113 << 23 { denormal } else { normal };
    let large = if magnitude > 0x7f80_0000 { 0x7e00 | (magnitude >> 13 & 0x3ff) } else { 0x7c00 };
    let result = if magnitude >= 0x477f_f000 { large } else { finite };
    (result | sign) as u16
}

/// An f32 cut to an f16 towards zero.
#[inline(always)]
pub(crate) fn f32_to_f16_rtz(value: f32) -> u16 {
    let magnitude = value.abs();
    let nearest = f32_to_f16(magnitude);
    let up = f16_to_f32(nearest) > magnitude;
    let cut = if up { nearest - 1 } else { nearest };
    cut | (value.to_bits() >> 16 & 0x8000) as u16
}

/// An f64 rounded once to f16: by way of an f32 rounded to odd, so that the second rounding sees what was lost.
#[inline(always)]
pub(crate) fn f64_to_f16(value: f64) -> u16 {
    f32_to_f16(f64_to_f32_odd(value))
}

/// An f64 as an f32, rounded to odd.
#[inline(always)]
pub(crate) fn f64_to_f32_odd(value: f64) -> f32 {
    let near = value as f32;
    let back = f64::from(near);
    if back == value || value.is_nan() || near.is_infinite() && value.is_infinite() {
        return near;
    }
    // Towards zero, then the last bit is set.
    let bits = if back.abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(bits | 1)
}

/// A bf16's bits as an f32.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// An f32 rounded to the nearest bf16, ties to even.
#[inline(always)]
pub(crate) fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// An eight-bit float as an f32: `bf8` has five exponent bits, otherwise four. `ocp` is the public standard that gfx12 has; before
/// it the bias is one more, there are no infinities, and the one NaN is the bits of -0.
#[inline(always)]
pub(crate) fn fp8_to_f32(bits: u8, bf8: bool, ocp: bool) -> f32 {
    let mantissa_bits = if bf8 { 2 } else { 3 };
    let bias = if bf8 { 15 } else { 7 } + i32::from(!ocp);
    let (exponent, mantissa) = (i32::from(bits & 0x7f) >> mantissa_bits, i32::from(bits) & ((1 << mantissa_bits) - 1));
    let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
    if !ocp && bits == 0x80 {
        return f32::NAN;
    }
    if ocp && bf8 && exponent == 31 {
        return if mantissa == 0 { sign * f32::INFINITY } else { f32::NAN };
    }
    if ocp && !bf8 && bits & 0x7f == 0x7f {
        return f32::NAN;
    }
    let (whole, exponent) = if exponent == 0 { (0, 1) } else { (1 << mantissa_bits, exponent) };
    sign * (whole + mantissa) as f32 * single::power(exponent - bias - mantissa_bits)
}

/// An f32 rounded to the nearest eight-bit float; what is too large becomes the largest number where `saturate` is set.
pub(crate) fn f32_to_fp8(value: f32, bf8: bool, ocp: bool, saturate: bool) -> u8 {
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let nan = if ocp { 0x7f | sign } else { 0x80 };
    let (infinity, largest) = match (bf8, ocp) {
        (true, true) => (0x7c | sign, 0x7b | sign),
        (false, true) => (0x7f | sign, 0x7e | sign),
        _ => (0x80, 0x7f | sign),
    };
    if value.is_nan() {
        return nan;
    }
    // The codes of one sign are in the order of their values: the nearest is found by halving.
    let magnitude = value.abs();
    let (mut low, mut high) = (0u8, largest & 0x7f);
    let at = |code: u8| fp8_to_f32(code, bf8, ocp);
    // Halfway past the largest number is where rounding leaves the range.
    let step = at(high) - at(high - 1);
    if magnitude >= at(high) + step / 2.0 || magnitude.is_infinite() {
        return if saturate && !(ocp && magnitude.is_infinite()) { largest } else { infinity };
    }
    while low < high {
        let middle = (low + high).div_ceil(2);
        if at(middle) <= magnitude {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    let up = low < largest & 0x7f && {
        let (below, above) = (f64::from(magnitude) - f64::from(at(low)), f64::from(at(low + 1)) - f64::from(magnitude));
        below > above || below == above && low & 1 == 1
    };
    let code = low + u8::from(up);
    // Without negative zero.
    if !ocp && code == 0 {
        return 0;
    }
    code | sign
}

/// Denormals to zero of the same sign.
#[inline(always)]
pub(crate) fn flush(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

macro_rules! formats {
    ($name:ident, $float:ty, $bits:ty, $mantissa:expr, $bias:expr) => {
        /// One format's operations.
        pub(crate) mod $name {
            const MANTISSA: u32 = $mantissa;
            const BIAS: i32 = $bias;
            const QUIET: $bits = 1 << (MANTISSA - 1);
            const SPECIAL: i32 = 2 * BIAS + 1;

            #[inline(always)]
            fn is_signalling(value: $float) -> bool {
                value.is_nan() && value.to_bits() & QUIET == 0
            }

            #[inline(always)]
            pub fn quiet(value: $float) -> $float {
                <$float>::from_bits(value.to_bits() | QUIET)
            }

            /// The larger: a number wins over a quiet NaN, +0 over -0; a signalling NaN is quieted and wins.
            #[inline(always)]
            pub fn max(a: $float, b: $float) -> $float {
                let larger = if a > b { a } else { b };
                let larger = if a == b { <$float>::from_bits(a.to_bits() & b.to_bits()) } else { larger };
                nan_rule(a, b, larger)
            }

            /// The smaller, by the same rules.
            #[inline(always)]
            pub fn min(a: $float, b: $float) -> $float {
                let smaller = if a < b { a } else { b };
                let smaller = if a == b { <$float>::from_bits(a.to_bits() | b.to_bits()) } else { smaller };
                nan_rule(a, b, smaller)
            }

            #[inline(always)]
            fn nan_rule(a: $float, b: $float, otherwise: $float) -> $float {
                let result = if b.is_nan() { a } else { otherwise };
                let result = if a.is_nan() { b } else { result };
                let result = if is_signalling(b) { quiet(b) } else { result };
                let result = if is_signalling(a) { quiet(a) } else { result };
                if result.is_nan() {
                    quiet(result)
                } else {
                    result
                }
            }

            /// The larger, where any NaN wins (IEEE 754-2019 maximum).
            #[inline(always)]
            pub fn maximum(a: $float, b: $float) -> $float {
                if a.is_nan() {
                    quiet(a)
                } else if b.is_nan() {
                    quiet(b)
                } else {
                    max(a, b)
                }
            }

            /// The smaller, where any NaN wins.
            #[inline(always)]
            pub fn minimum(a: $float, b: $float) -> $float {
                if a.is_nan() {
                    quiet(a)
                } else if b.is_nan() {
                    quiet(b)
                } else {
                    min(a, b)
                }
            }

            /// The middle one; with a NaN among them the smallest of the others.
            #[inline(always)]
            #[allow(dead_code)]
            pub fn med3(a: $float, b: $float, c: $float) -> $float {
                if a.is_nan() || b.is_nan() || c.is_nan() {
                    return min(min(a, b), c);
                }
                let largest = max(max(a, b), c);
                if largest == a {
                    max(b, c)
                } else if largest == b {
                    max(a, c)
                } else {
                    max(a, b)
                }
            }

            /// The biased exponent.
            #[inline(always)]
            pub fn exponent(value: $float) -> i32 {
                (value.to_bits() >> MANTISSA) as i32 & SPECIAL
            }

            /// A power of two; too large is infinity, too small 0.
            #[inline(always)]
            pub fn power(exponent: i32) -> $float {
                let biased = exponent + BIAS;
                if biased >= SPECIAL {
                    <$float>::INFINITY
                } else if biased > 0 {
                    <$float>::from_bits((biased as $bits) << MANTISSA)
                } else if biased > -(MANTISSA as i32) {
                    <$float>::from_bits(1 << (MANTISSA as i32 - 1 + biased))
                } else {
                    0.0
                }
            }

            /// `value * 2^by`, rounded once.
            #[inline(always)]
            pub fn ldexp(value: $float, by: i32) -> $float {
                let by = by.clamp(-4 * BIAS, 4 * BIAS);
                if by >= 0 {
                    // Exact until it overflows.
                    let step = by / 4;
                    let rest = by - 3 * step;
                    return value * power(step) * power(step) * power(step) * power(rest);
                }
                let bits = value.to_bits();
                let sign = bits & (1 << (<$bits>::BITS - 1));
                if value == 0.0 || value.is_nan() || value.is_infinite() {
                    return if value.is_nan() { quiet(value) } else { value };
                }
                // Significand and exponent as integers, then one rounding shift.
                let (mut exponent, mut significand) = (exponent(value), bits & ((1 << MANTISSA) - 1));
                if exponent == 0 {
                    exponent = 1;
                } else {
                    significand |= 1 << MANTISSA;
                }
                exponent += by;
                if exponent > 0 {
                    if significand >> MANTISSA == 0 {
                        // A denormal that is made larger cannot come here: `by` is negative.
                        return <$float>::from_bits(sign | significand);
                    }
                    return <$float>::from_bits(
                        sign | (exponent as $bits) << MANTISSA | significand & ((1 << MANTISSA) - 1),
                    );
                }
                let shift = 1 - exponent;
                if shift > MANTISSA as i32 + 2 {
                    return <$float>::from_bits(sign);
                }
                let kept = significand >> shift;
                let lost = significand & ((1 << shift) - 1);
                let half = 1 << (shift - 1);
                let up = lost > half || lost == half && kept & 1 == 1;
                <$float>::from_bits(sign | (kept + <$bits>::from(up)))
            }

            /// Significand in [0.5, 1) with the sign; zero, infinity and NaN as they are.
            #[inline(always)]
            pub fn frexp_mant(value: $float) -> $float {
                if value == 0.0 || value.is_infinite() {
                    return value;
                }
                if value.is_nan() {
                    return quiet(value);
                }
                let normal = if exponent(value) == 0 { value * power(MANTISSA as i32 + 1) } else { value };
                let bits = normal.to_bits() & !((SPECIAL as $bits) << MANTISSA);
                <$float>::from_bits(bits | ((BIAS - 1) as $bits) << MANTISSA)
            }

            /// The exponent that goes with it; 0 for zero, infinity and NaN.
            #[inline(always)]
            pub fn frexp_exp(value: $float) -> i32 {
                if value == 0.0 || value.is_infinite() || value.is_nan() {
                    return 0;
                }
                if exponent(value) == 0 {
                    exponent(value * power(MANTISSA as i32 + 1)) - BIAS - MANTISSA as i32
                } else {
                    exponent(value) - BIAS + 1
                }
            }

            /// `value - floor(value)`, below 1 always.
            #[inline(always)]
            pub fn fract(value: $float) -> $float {
                let fraction = value - value.floor();
                let largest = <$float>::from_bits((1.0 as $float).to_bits() - 1);
                if fraction > largest {
                    largest
                } else {
                    fraction
                }
            }

            /// Whether the value is of one of the classes in the mask: signalling NaN, quiet NaN, -infinity, negative normal,
            /// negative denormal, -0, +0, positive denormal, positive normal, +infinity.
            #[inline(always)]
            pub fn class(value: $float, mask: u32) -> bool {
                let negative = value.is_sign_negative();
                let bit = if value.is_nan() {
                    u32::from(!is_signalling(value))
                } else if value.is_infinite() {
                    if negative {
                        2
                    } else {
                        9
                    }
                } else if value == 0.0 {
                    if negative {
                        5
                    } else {
                        6
                    }
                } else if exponent(value) == 0 {
                    if negative {
                        4
                    } else {
                        7
                    }
                } else if negative {
                    3
                } else {
                    8
                };
                mask >> bit & 1 != 0
            }

            /// The first step of a division: scales `value`, which is the denominator or the numerator, so that the steps in
            /// between neither overflow nor lose bits. The flag tells `div_fmas` to scale back.
            #[inline(always)]
            pub fn div_scale(value: $float, denominator: $float, numerator: $float) -> ($float, bool) {
                let near_max = if MANTISSA == 23 { 96 } else { 768 };
                let by = if MANTISSA == 23 { 64 } else { 128 };
                let is_denominator = value.to_bits() == denominator.to_bits();
                let denormal = |x: $float| x != 0.0 && exponent(x) == 0;
                // Cards set the flag here, which published pseudo-code does not say; no division depends on it.
                if denominator == 0.0 || numerator == 0.0 {
                    return (<$float>::NAN, true);
                }
                if exponent(numerator) - exponent(denominator) >= near_max {
                    return (if is_denominator { ldexp(value, by) } else { value }, true);
                }
                if denormal(denominator) {
                    return (ldexp(value, by), false);
                }
                let reciprocal = denormal(1.0 / denominator);
                // Cards look at the exponents: a quotient that may be denormal counts as one.
                let quotient = {
                    let quotient = numerator / denominator;
                    let close = exponent(numerator) - exponent(denominator) <= 1 - BIAS;
                    close || denormal(quotient) || quotient == 0.0
                };
                // Published pseudo-code scales up here, which would make the largest denominators infinite.
                if reciprocal && quotient {
                    return (if is_denominator { ldexp(value, -by) } else { value }, true);
                }
                if reciprocal {
                    return (ldexp(value, -by), false);
                }
                if quotient {
                    return (if value.to_bits() == numerator.to_bits() { ldexp(value, by) } else { value }, true);
                }
                if exponent(numerator) <= MANTISSA as i32 {
                    return (ldexp(value, by), false);
                }
                (value, false)
            }

            /// The last product of a division, scaled back where `div_scale` said so.
            #[inline(always)]
            pub fn div_fmas(a: $float, b: $float, c: $float, scale: bool) -> $float {
                let by = if MANTISSA == 23 { 64 } else { 128 };
                let result = a.mul_add(b, c);
                if !scale {
                    return result;
                }
                if exponent(c) > BIAS {
                    return ldexp(result, by);
                }
                // Rounded once, at the place where the result ends: what the first rounding lost decides a tie.
                let product = a * b;
                let product_error = a.mul_add(b, -product);
                let sum = product + c;
                let back = sum - product;
                let error = (product - (sum - back)) + (c - back) + product_error;
                let scaled = ldexp(result, -by);
                let exact = ldexp(scaled, by);
                if error == 0.0 || exact == result || result.is_nan() || result.is_infinite() {
                    return scaled;
                }
                let unit = ldexp(power(1 - BIAS - MANTISSA as i32), by);
                let off = (result - exact).abs();
                if off + off != unit {
                    return scaled;
                }
                // A tie that is none: towards what was lost.
                let lost = (sum - result) + error;
                let (down, up) = if exact < result { (exact, exact + unit) } else { (exact - unit, exact) };
                if lost == 0.0 {
                    scaled
                } else {
                    ldexp(if lost > 0.0 { up } else { down }, -by)
                }
            }

            /// The end of a division: special values, and the sign.
            #[inline(always)]
            pub fn div_fixup(quotient: $float, denominator: $float, numerator: $float) -> $float {
                let negative = denominator.is_sign_negative() != numerator.is_sign_negative();
                let signed = |value: $float| if negative { -value } else { value };
                if numerator.is_nan() {
                    quiet(numerator)
                } else if denominator.is_nan() {
                    quiet(denominator)
                } else if denominator == 0.0 && numerator == 0.0 || denominator.is_infinite() && numerator.is_infinite()
                {
                    -<$float>::NAN.abs()
                } else if denominator == 0.0 || numerator.is_infinite() {
                    signed(<$float>::INFINITY)
                } else if denominator.is_infinite() || numerator == 0.0 {
                    signed(0.0)
                } else if exponent(numerator) - exponent(denominator) < -(BIAS + MANTISSA as i32) {
                    signed(0.0)
                } else if quotient.is_nan() {
                    // Operands are numbers: a step on the way overflowed, and so does the quotient.
                    signed(<$float>::INFINITY)
                } else {
                    signed(quotient.abs())
                }
            }

            /// The next value that is larger (`up`) or smaller; special values stay.
            #[inline(always)]
            pub fn neighbour(value: $float, up: bool) -> $float {
                if value == 0.0 || value.is_nan() || value.is_infinite() {
                    return value;
                }
                let bits = value.to_bits();
                let moved = <$float>::from_bits(if up == (value > 0.0) { bits + 1 } else { bits - 1 });
                if moved.is_infinite() || exponent(moved) == 0 {
                    value
                } else {
                    moved
                }
            }
        }
    };
}

formats!(single, f32, u32, 23, 127);
formats!(double, f64, u64, 52, 1023);
