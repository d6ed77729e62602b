//! What a transform is: its direction, its sizes, how many there are, the factor at the end; and where the elements of each
//! lie. Nothing here calls a library.

use hip::{Error, Result};

/// What is transformed into what. With `w = exp(-2 pi i / n)`, going forward gives `y[k] = sum over j of x[j] w^(j k)`, and the inverse
/// has `w` conjugated. Neither divides by anything: [`Transform::scale`] does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Complex numbers, forward.
    Forward,
    /// Complex numbers, inverse.
    Inverse,
    /// Real numbers, forward. Of `n` results along the last dimension the first `n / 2 + 1` are written; the others are their
    /// conjugates.
    RealForward,
    /// Back to real numbers, from the first `n / 2 + 1` along the last dimension. What has no conjugate among the others has to be real:
    /// the imaginary parts of `x[0]` and, where `n` is even, of `x[n / 2]` must be zero.
    RealInverse,
}

impl Kind {
    /// Whether the elements that go in are real.
    pub fn takes_reals(self) -> bool {
        self == Self::RealForward
    }

    /// Whether the elements that come out are real.
    pub fn gives_reals(self) -> bool {
        self == Self::RealInverse
    }
}

/// A transform of one, two or three dimensions, once or many times. All elements lie close together, the last dimension's first, as in a
/// tensor; a complex number is its real part and then its imaginary part.
#[derive(Clone, PartialEq, Debug)]
pub struct Transform {
    pub(super) kind: Kind,
    pub(super) sizes: Vec<usize>,
    pub(super) batch: usize,
    pub(super) scale: f64,
    pub(super) in_place: bool,
}

impl Transform {
    /// One transform of these sizes; those of the real numbers, where one side is real.
    pub fn new(kind: Kind, sizes: &[usize]) -> Self {
        Self { kind, sizes: sizes.to_vec(), batch: 1, scale: 1.0, in_place: false }
    }

    /// So many transforms, one behind the other.
    pub fn batch(self, count: usize) -> Self {
        Self { batch: count, ..self }
    }

    /// Multiplies every result by a factor: `1 / n` makes the inverse undo the forward transform.
    pub fn scale(self, factor: f64) -> Self {
        Self { scale: factor, ..self }
    }

    /// Results take the places of the elements. For complex numbers on both sides.
    pub fn in_place(self) -> Self {
        Self { in_place: true, ..self }
    }

    /// The number of elements of type `T` that go in: a complex one counts twice.
    pub fn input_len(&self) -> usize {
        self.batch.saturating_mul(self.side(self.kind.takes_reals(), self.kind.gives_reals()).numbers())
    }

    /// The number of elements of type `T` that come out.
    pub fn output_len(&self) -> usize {
        self.batch.saturating_mul(self.side(self.kind.gives_reals(), self.kind.takes_reals()).numbers())
    }

    /// Both sides, as rocFFT's description takes them.
    pub(super) fn sides(&self) -> [Side; 2] {
        let (takes, gives) = (self.kind.takes_reals(), self.kind.gives_reals());
        [self.side(takes, gives), self.side(gives, takes)]
    }

    fn side(&self, is_real: bool, other_is_real: bool) -> Side {
        // From the last dimension to the first, as rocFFT counts them.
        let mut lengths: Vec<usize> = self.sizes.iter().rev().copied().collect();
        if let (true, Some(last)) = (other_is_real, lengths.first_mut()) {
            *last = *last / 2 + 1;
        }
        let mut distance = 1usize;
        let further = |length: &usize| {
            let next = distance.saturating_mul(*length);
            std::mem::replace(&mut distance, next)
        };
        let strides = lengths.iter().map(further).collect();
        Side { is_real, half: other_is_real, strides, distance }
    }

    /// Refuses what makes no sense or is more than can be counted.
    pub(super) fn check(&self) -> Result<()> {
        let Self { kind, sizes, batch, scale, in_place } = self;
        if !(1..=3).contains(&sizes.len()) {
            return Err(Error::refused(format!(
                "a transform has one, two or three dimensions, not {}; do more of them one after the other",
                sizes.len()
            )));
        }
        if sizes.contains(&0) {
            return Err(Error::refused(format!(
                "a transform of sizes {sizes:?} has no elements; each size is at least 1"
            )));
        }
        if *in_place && (kind.takes_reals() || kind.gives_reals()) {
            return Err(Error::refused(format!(
                "a transform of kind {kind:?} is not done in place, because real and complex numbers take different room; give it a second buffer"
            )));
        }
        if !scale.is_finite() {
            return Err(Error::refused(format!("results are multiplied by a finite number, not by {scale}")));
        }
        // Room for the doubled length of complex numbers, in bytes.
        let bytes = sizes.iter().try_fold(32usize, |product, &size| product.checked_mul(size.saturating_add(2)));
        match bytes.and_then(|bytes| bytes.checked_mul((*batch).max(1))).filter(|&bytes| bytes <= isize::MAX as usize) {
            Some(_) => Ok(()),
            None => {
                Err(Error::refused(format!("{batch} transforms of sizes {sizes:?} are more than any memory can hold")))
            }
        }
    }
}

impl std::fmt::Display for Transform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, sizes, batch, in_place, .. } = self;
        write!(f, "{batch} x {kind:?} of {sizes:?}{}", if *in_place { " in place" } else { "" })
    }
}

/// The elements that go in or come out of one transform, counted in reals or in complex numbers.
pub(super) struct Side {
    pub(super) is_real: bool,
    /// Complex, and only the half that the other follows from.
    pub(super) half: bool,
    /// From one element to the next, the last dimension first.
    pub(super) strides: Vec<usize>,
    /// From one transform to the next.
    pub(super) distance: usize,
}

impl Side {
    fn numbers(&self) -> usize {
        self.distance.saturating_mul(if self.is_real { 1 } else { 2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_strides_are_those_of_halved_rows() {
        let transform = Transform::new(Kind::RealForward, &[4, 3, 7]).batch(5);
        assert_eq!((transform.input_len(), transform.output_len()), (5 * 84, 5 * 96));
        let [input, output] = transform.sides();
        assert_eq!((input.strides, input.distance), (vec![1, 7, 21], 84));
        assert_eq!((output.strides, output.distance), (vec![1, 4, 12], 48));
        let back = Transform::new(Kind::RealInverse, &[4, 3, 7]).batch(5);
        assert_eq!((back.input_len(), back.output_len()), (5 * 96, 5 * 84));
    }

    #[test]
    fn what_cannot_be_transformed_is_refused_with_a_sentence() {
        let says = |transform: Transform, words: &str| {
            let error = transform.check().expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        };
        says(Transform::new(Kind::Forward, &[]), "one, two or three");
        says(Transform::new(Kind::Forward, &[2; 4]), "one, two or three");
        says(Transform::new(Kind::Forward, &[4, 0]), "at least 1");
        says(Transform::new(Kind::RealForward, &[4]).in_place(), "second buffer");
        says(Transform::new(Kind::Forward, &[4]).scale(f64::NAN), "finite");
        says(Transform::new(Kind::Forward, &[usize::MAX, 2]), "any memory");
        says(Transform::new(Kind::Forward, &[1 << 40]).batch(1 << 40), "any memory");
        Transform::new(Kind::Forward, &[4]).batch(0).check().expect("no transforms are fine");
    }
}
