//! Elements as bits: what number they are, and random ones with the awkward values among them. Written for all dtypes of the kernels
//! at once, from the widths of exponent and mantissa, so that nothing here depends on the code that is tested.

use candle_rocm_kernels::DType;

/// Reproducible random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Of a case: the seed of the run and the case's name, so that a case can be repeated alone.
    pub fn of(seed: u64, name: &str) -> Self {
        // FNV-1a
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(hash ^ seed.rotate_left(32))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of 0, 1, ..., below - 1.
    pub fn below(&mut self, below: usize) -> usize {
        (self.next() % below.max(1) as u64) as usize
    }

    /// One of low, ..., high.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of a list.
    pub fn of_list<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Which values operands take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Magnitudes from an eighth to four, of either sign; integers up to ten.
    Plain,
    /// The same without a sign.
    Positive,
    /// Plain ones, with one in eight a zero of either sign, an infinity, a NaN, the largest, the smallest, or any bits.
    Awkward,
    /// Awkward ones, but finite magnitudes stay below 64: for functions that are steep.
    Mild,
    /// Whole numbers below this: ids.
    Below(usize),
}

/// How a float is put together: bits of the exponent and of the mantissa.
fn parts(dtype: DType) -> Option<(u32, u32)> {
    match dtype {
        DType::F8E4M3 => Some((4, 3)),
        DType::F16 => Some((5, 10)),
        DType::BF16 => Some((8, 7)),
        DType::F32 => Some((8, 23)),
        DType::F64 => Some((11, 52)),
        _ => None,
    }
}

/// Half the distance between one and the next number, relative to one; 0 for integers.
pub fn rounding(dtype: DType) -> f64 {
    parts(dtype).map_or(0.0, |(_, mantissa)| 0.5f64.powi(mantissa as i32 + 1))
}

/// The number that an element's bits are.
pub fn value(dtype: DType, bits: u64) -> f64 {
    let Some((exponent_bits, mantissa_bits)) = parts(dtype) else {
        return match dtype {
            DType::U8 => f64::from(bits as u8),
            DType::U32 => f64::from(bits as u32),
            DType::I16 => f64::from(bits as i16),
            DType::I32 => f64::from(bits as i32),
            _ => bits as i64 as f64,
        };
    };
    let mantissa = bits & ((1 << mantissa_bits) - 1);
    let last = (1u64 << exponent_bits) - 1;
    let exponent = (bits >> mantissa_bits) & last;
    let negative = bits >> (mantissa_bits + exponent_bits) & 1 == 1;
    let bias = (last >> 1) as i32;
    let fraction = mantissa as f64 / (1u64 << mantissa_bits) as f64;
    let magnitude = if dtype == DType::F8E4M3 && exponent == last && mantissa == 7 {
        f64::NAN
    } else if dtype != DType::F8E4M3 && exponent == last {
        if mantissa == 0 {
            f64::INFINITY
        } else {
            f64::NAN
        }
    } else if exponent == 0 {
        fraction * 2f64.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f64.powi(exponent as i32 - bias)
    };
    if negative {
        -magnitude
    } else {
        magnitude
    }
}

/// Random bits of an element.
pub fn draw(random: &mut Random, dtype: DType, values: Values) -> u64 {
    if let Values::Below(bound) = values {
        return random.below(bound) as u64;
    }
    let plain = |random: &mut Random| match parts(dtype) {
        Some((exponent_bits, mantissa_bits)) => {
            let bias = (1u64 << (exponent_bits - 1)) - 1;
            let exponent = bias - 3 + random.below(5) as u64;
            let mantissa = random.next() & ((1 << mantissa_bits) - 1);
            let sign = u64::from(values != Values::Positive && random.once_in(2));
            sign << (exponent_bits + mantissa_bits) | exponent << mantissa_bits | mantissa
        }
        None => {
            let number = random.below(11) as i64;
            let signed = !matches!(dtype, DType::U8 | DType::U32) && values != Values::Positive;
            (if signed && random.once_in(2) { -number } else { number }) as u64
        }
    };
    if matches!(values, Values::Awkward | Values::Mild) {
        let drawn = match random.below(16) {
            0 => special(random, dtype),
            1 => random.next(),
            _ => plain(random),
        };
        let drawn = cut(dtype, drawn);
        let number = value(dtype, drawn);
        let steep = parts(dtype).is_some() && number.is_finite() && number.abs() >= 64.0;
        if !(values == Values::Mild && steep) {
            return drawn;
        }
    }
    cut(dtype, plain(random))
}

fn special(random: &mut Random, dtype: DType) -> u64 {
    let Some((exponent_bits, mantissa_bits)) = parts(dtype) else {
        return random.of_list(&[0, 1, u64::MAX, 1 << 7, 1 << 15, 1 << 31, 1 << 63, i64::MAX as u64]);
    };
    let sign = 1u64 << (exponent_bits + mantissa_bits);
    let infinity = ((1u64 << exponent_bits) - 1) << mantissa_bits;
    let nan = infinity | ((1 << mantissa_bits) - 1);
    let special = random.of_list(&[0, infinity, nan, infinity - 1, 1, infinity >> 1]);
    special | if random.once_in(2) { sign } else { 0 }
}

/// As many bits as an element has.
fn cut(dtype: DType, bits: u64) -> u64 {
    match dtype.size() {
        8 => bits,
        size => bits & ((1 << (8 * size)) - 1),
    }
}

/// The bits of the elements in memory.
pub fn elements(dtype: DType, bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(dtype.size()).map(|element| {
        let mut all = [0; 8];
        all[..element.len()].copy_from_slice(element);
        u64::from_le_bytes(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_the_numbers_that_rust_says() {
        let mut random = Random::of(1, "numbers");
        for _ in 0..2000 {
            let (single, double) = (random.next() as u32, random.next());
            let (a, b) = (value(DType::F32, u64::from(single)), f64::from(f32::from_bits(single)));
            assert!(a == b || (a.is_nan() && b.is_nan()), "{single:x}");
            let (a, b) = (value(DType::F64, double), f64::from_bits(double));
            assert!(a == b || (a.is_nan() && b.is_nan()), "{double:x}");
            let (a, b) = (value(DType::BF16, u64::from(single >> 16)), f64::from(f32::from_bits(single >> 16 << 16)));
            assert!(a == b || (a.is_nan() && b.is_nan()), "{single:x}");
        }
        let known = [
            (DType::F16, 0x3c00, 1.0),
            (DType::F16, 0xc000, -2.0),
            (DType::F16, 0x7bff, 65504.0),
            (DType::F16, 1, 2f64.powi(-24)),
            (DType::F8E4M3, 0x7e, 448.0),
            (DType::F8E4M3, 0x38, 1.0),
            (DType::F8E4M3, 1, 2f64.powi(-9)),
            (DType::I16, 0xffff, -1.0),
            (DType::U8, 255, 255.0),
        ];
        for (dtype, bits, number) in known {
            assert_eq!(value(dtype, bits), number, "{dtype} {bits:x}");
        }
        assert!(value(DType::F8E4M3, 0x7f).is_nan() && value(DType::F16, 0x7e00).is_nan());
        assert!(value(DType::F16, 0x8000).is_sign_negative());
    }

    #[test]
    fn draws_keep_their_promises_and_repeat() {
        for dtype in DType::ALL {
            let mut random = Random::of(7, "draws");
            let mut seen = [false; 3];
            for _ in 0..4000 {
                let plain = value(dtype, draw(&mut random, dtype, Values::Plain));
                assert!(plain.abs() <= 10.0, "{dtype} {plain}");
                assert!(value(dtype, draw(&mut random, dtype, Values::Positive)) >= 0.0);
                let mild = value(dtype, draw(&mut random, dtype, Values::Mild));
                assert!(!dtype.is_float() || !mild.is_finite() || mild.abs() < 64.0, "{dtype} {mild}");
                let awkward = draw(&mut random, dtype, Values::Awkward);
                let number = value(dtype, awkward);
                seen[0] |= number.is_nan();
                seen[1] |= number == 0.0 && number.is_sign_negative();
                seen[2] |= number.is_infinite() || dtype == DType::F8E4M3;
            }
            assert_eq!(seen, [dtype.is_float(); 3], "{dtype}");
        }
        let list = |seed, name| (0..4).map(move |_| ()).scan(Random::of(seed, name), |r, ()| Some(r.next()));
        assert!(list(1, "a").eq(list(1, "a")) && !list(1, "a").eq(list(2, "a")) && !list(1, "a").eq(list(1, "b")));
    }
}
