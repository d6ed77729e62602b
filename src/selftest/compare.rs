//! The comparison of a device with the oracle: the same call on both, element by element, within what the operation promises.
//! Any NaN equals any other. A zero's sign counts where results have one right answer.

use super::number::{elements, rounding, value, Random};
use super::operand::{Side, Tensor, BEHIND, UNTOUCHED};
use candle_rocm_kernels::{DType, OperandMut, Output};
use hip::Result;

/// How far a result may be from the oracle's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// There is one right answer.
    Exact,
    /// There is one right answer but for the sign of a zero.
    AnyZero,
    /// So far, relative to the oracle's and besides.
    Near { relative: f64, absolute: f64 },
}

impl Tolerance {
    /// Of a function of single elements: a unit in the last place of short floats, a few of long ones.
    pub fn of(dtype: DType) -> Self {
        let (relative, absolute) = match dtype {
            DType::F8E4M3 => (0.13, 2e-3),
            DType::BF16 => (8e-3, 1e-6),
            DType::F16 => (1e-3, 2e-6),
            DType::F32 => (1e-6, 1e-6),
            DType::F64 => (2e-15, 5e-15),
            _ => return Self::Exact,
        };
        Self::Near { relative, absolute }
    }

    /// Of sums whose terms have magnitudes that add up to this, in any order: f64 sums in f64, all others in f32.
    pub fn of_sum(dtype: DType, terms: usize, magnitude: f64) -> Self {
        if !dtype.is_float() {
            return Self::Exact;
        }
        let inner = rounding(if dtype == DType::F64 { DType::F64 } else { DType::F32 });
        // Roundings fall either way: their number counts by its root, here four times over.
        let absolute = magnitude * inner * (4.0 + 4.0 * (terms as f64).sqrt());
        Self::Near { relative: 2.1 * rounding(dtype), absolute }
    }

    /// The same and so much more.
    pub fn plus(self, more: f64) -> Self {
        match self {
            Self::Near { relative, absolute } => Self::Near { relative, absolute: absolute + more },
            other => other,
        }
    }

    fn allows(self, dtype: DType, got: u64, want: u64) -> bool {
        let (g, w) = (value(dtype, got), value(dtype, want));
        if got == want || (g.is_nan() && w.is_nan()) {
            return true;
        }
        match self {
            Self::Exact => false,
            Self::AnyZero => g == 0.0 && w == 0.0,
            Self::Near { relative, absolute } => {
                // Beside an infinity every number is within its share of it.
                g == w || (w.is_finite() && (g - w).abs() <= absolute + relative * w.abs())
            }
        }
    }
}

/// Where two results differ, as a sentence.
fn difference(tolerance: Tolerance, dtype: DType, got: &[u8], want: &[u8]) -> Option<String> {
    let count = want.len() / dtype.size();
    let pairs = elements(dtype, got).zip(elements(dtype, want)).enumerate();
    let wrong: Vec<_> = pairs.filter(|(_, (got, want))| !tolerance.allows(dtype, *got, *want)).collect();
    let (at, (got, want)) = wrong.first()?;
    let show = |bits: &u64| format!("{:?} (bits {bits:#x})", value(dtype, *bits));
    let allowed = match tolerance {
        Tolerance::Exact | Tolerance::AnyZero => "exactly".to_owned(),
        Tolerance::Near { relative, absolute } => format!("within {absolute:.3e} + {relative:.3e} of it"),
    };
    let (wrong, got, want) = (wrong.len(), show(got), show(want));
    Some(format!("{wrong} of {count} elements are wrong; element {at} is {got}, the oracle has {want}, {allowed}"))
}

/// More sentences than this help nobody.
const MOST_SENTENCES: usize = 4;

/// What a case has compared so far.
pub struct Comparison<'a> {
    pub device: &'a Side,
    pub oracle: &'a Side,
    pub random: Random,
    /// Random trials of each kind.
    pub turns: usize,
    /// Trials that were compared.
    pub trials: usize,
    /// Trials that failed.
    pub failed: usize,
    /// What failed, with everything that is needed to repeat it; the first few.
    pub sentences: Vec<String>,
    /// Whether a HIP call failed on the device: what follows in this process would say nothing.
    pub device_is_lost: bool,
    /// A test spoils the device's first result, to see that it is found.
    pub spoil: bool,
}

impl<'a> Comparison<'a> {
    pub fn new(device: &'a Side, oracle: &'a Side, random: Random, turns: usize) -> Self {
        let sentences = Vec::new();
        Self { device, oracle, random, turns, trials: 0, failed: 0, sentences, device_is_lost: false, spoil: false }
    }

    fn fail(&mut self, what: &str, why: &str) {
        self.failed += 1;
        if self.sentences.len() < MOST_SENTENCES {
            self.sentences.push(format!("{what}: {why}"));
        }
    }

    /// A trial that could not be prepared.
    pub fn refuse(&mut self, what: &str, error: &hip::Error) {
        self.trials += 1;
        self.fail(what, &format!("the oracle fails: {error}"));
    }

    /// Both sides' memory. `None` where both refuse, as for a dtype that an operation is not defined for, or one fails.
    fn both(&mut self, what: &str, run: impl Fn(&Side) -> Result<Vec<u8>>) -> Option<[Vec<u8>; 2]> {
        if self.device_is_lost {
            return None;
        }
        let (got, want) = (run(self.device), run(self.oracle));
        match (got, want) {
            (Ok(mut got), Ok(want)) => {
                self.trials += 1;
                if std::mem::take(&mut self.spoil) {
                    let last = got.len() - 1;
                    // The upper bits of an element, wherever it stands: no tolerance covers them.
                    got.iter_mut().take(last).for_each(|byte| *byte ^= 0x44);
                }
                Some([got, want])
            }
            (Err(error), Ok(_)) => {
                self.trials += 1;
                self.device_is_lost |= error.code().is_some();
                self.fail(what, &format!("it fails, and not on the oracle: {error}"));
                None
            }
            (Ok(_), Err(error)) => {
                self.trials += 1;
                self.fail(what, &format!("the oracle alone refuses it: {error}"));
                None
            }
            (Err(error), Err(_)) => {
                if error.code().is_some() {
                    self.trials += 1;
                    self.device_is_lost = true;
                    self.fail(what, &format!("it fails: {error}"));
                }
                None
            }
        }
    }

    /// A result of `count` elements, somewhere in memory of which nothing else may change.
    pub fn compare(
        &mut self,
        what: &str,
        dtype: DType,
        count: usize,
        tolerance: Tolerance,
        run: impl Fn(&Side, &mut Output<'_>) -> Result<()>,
    ) {
        let start = if self.random.once_in(4) { self.random.between(1, 5) } else { 0 };
        self.compare_at(start, what, dtype, count, tolerance, run);
    }

    /// The same from a given element on.
    pub fn compare_at(
        &mut self,
        start: usize,
        what: &str,
        dtype: DType,
        count: usize,
        tolerance: Tolerance,
        run: impl Fn(&Side, &mut Output<'_>) -> Result<()>,
    ) {
        let at = |side: &Side| side.written(dtype, start, count, |out| run(side, out));
        let Some([got, want]) = self.both(what, at) else { return };
        let what = if start == 0 { what.to_owned() } else { format!("{what}, written from element {start} on") };
        let (before, after) = (start * dtype.size(), (start + count) * dtype.size());
        if let Some(why) = difference(tolerance, dtype, &got[before..after], &want[before..after]) {
            return self.fail(&what, &why);
        }
        if got[..before].iter().chain(&got[after..]).any(|byte| *byte != UNTOUCHED) {
            let why = format!("memory around the result was written, in the {BEHIND} elements behind it or before it");
            self.fail(&what, &why);
        }
    }

    /// A tensor that is changed in place, with all memory around it.
    pub fn compare_changed(
        &mut self,
        what: &str,
        tensor: &Tensor,
        tolerance: Tolerance,
        run: impl Fn(&Side, &mut OperandMut<'_>) -> Result<()>,
    ) {
        let Some([got, want]) = self.both(what, |side| side.changed(tensor, |out| run(side, out))) else { return };
        if let Some(why) = difference(tolerance, tensor.dtype, &got, &want) {
            self.fail(what, &why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn differences_are_found_and_said() {
        let say = |tolerance, got: &[f32], want: &[f32]| difference(tolerance, DType::F32, &bytes(got), &bytes(want));
        assert_eq!(say(Tolerance::Exact, &[1.0, f32::NAN, 2.0], &[1.0, -f32::NAN, 2.0]), None);
        let wrong = say(Tolerance::Exact, &[0.0, 3.0], &[-0.0, 4.0]).unwrap();
        assert!(wrong.contains("2 of 2") && wrong.contains("element 0") && wrong.contains("-0.0"), "{wrong}");
        assert!(say(Tolerance::AnyZero, &[0.0], &[-0.0]).is_none());
        let near = Tolerance::Near { relative: 1e-3, absolute: 1e-3 };
        assert!(say(near, &[1.001, f32::INFINITY], &[1.0, f32::INFINITY]).is_none());
        for (got, want) in
            [(1.1, 1.0), (f32::NAN, 1.0), (1.0, f32::NAN), (f32::INFINITY, 1e30), (f32::INFINITY, f32::NEG_INFINITY)]
        {
            assert!(say(near, &[got], &[want]).is_some(), "{got} for {want}");
        }
    }

    #[test]
    fn sums_may_be_off_by_what_their_terms_are() {
        let Tolerance::Near { absolute, .. } = Tolerance::of_sum(DType::F32, 1000, 1000.0) else { panic!("of floats") };
        assert!((1e-4..1e-1).contains(&absolute), "{absolute}");
        assert_eq!(Tolerance::of_sum(DType::I32, 1000, 1000.0), Tolerance::Exact);
    }
}
