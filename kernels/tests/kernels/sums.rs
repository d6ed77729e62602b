//! How sums of many terms are compared: by the dtype's relative tolerance of what was added up, not of what is left of it,
//! since terms of both signs cancel and rounding errors do not.

use crate::element::{Element, TOLERANCES};

/// A sum that should have come out, and the sum of the magnitudes of its terms.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub sum: f64,
    pub magnitude: f64,
}

impl Terms {
    pub const NONE: Terms = Terms { sum: 0.0, magnitude: 0.0 };

    pub fn add(&mut self, term: f64) {
        self.sum += term;
        self.magnitude += term.abs();
    }
}

/// A sum whose rounding errors are carried along (Neumaier's), for references that f64 itself is compared with.
pub fn careful_sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
    }
    sum + lost
}

pub fn terms<T: Element>(row: &[T]) -> Terms {
    let mut terms = Terms::NONE;
    row.iter().for_each(|x| terms.add(x.to_f64()));
    terms
}

/// Saturating dtypes (f8e4m3) are compared with the sum as that dtype has it.
pub fn assert_sums<T: Element>(got: &[T], want: &[Terms], what: impl Fn() -> String) {
    assert_eq!(got.len(), want.len(), "{}", what());
    let (_, relative, absolute) =
        *TOLERANCES.iter().find(|(dtype, ..)| *dtype == T::DTYPE).expect("every dtype has a row");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (got.to_f64() - T::from_f64(want.sum).to_f64()).abs();
        let allowed = absolute + relative * want.magnitude;
        assert!(
            error <= allowed || got.to_f64() == T::from_f64(want.sum).to_f64(),
            "{}: element {i} is {got:?}, but should be {want:?}",
            what()
        );
    }
}
