//! What is measured: a row for each value of the profile, with the operation that both ways can do, the sizes to try, and the values
//! that send all sizes one way or the other.

use super::ground::{Ground, Turn};
use hip::Result;

/// How a threshold is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The largest size that still goes the first way.
    UpTo,
    /// The least size that goes the second way.
    From,
}

/// A value to measure.
pub struct Choice {
    /// The field of the profile.
    pub field: &'static str,
    /// The two ways, for people.
    pub what: &'static str,
    /// What sizes count.
    pub unit: &'static str,
    pub meaning: Meaning,
    /// The value with which every size goes the first way, and the second.
    pub below: Option<u64>,
    pub above: Option<u64>,
    /// Other fields, so that a third way stays out, unless they were measured before.
    pub fixed: &'static [(&'static str, Option<u64>)],
    /// Whether one of the ways is a BLAS.
    pub needs_blas: bool,
    /// Sizes, rising: on a card, and where nothing but the way itself is tried.
    ladders: [&'static [u64]; 2],
    /// The operation.
    pub body: fn(&Ground, u64, bool) -> Result<Turn<'_>>,
}

/// The values where a wrong guess costs most come first: every step of decoding goes through `few_rows_bytes`, every prompt through
/// the other two.
pub const CHOICES: [Choice; 3] = [
    Choice {
        field: "few_rows_bytes",
        what: "one row of 32 heads of 64 in f16, by our matrix-vector kernels and by the BLAS",
        unit: "bytes",
        meaning: Meaning::UpTo,
        below: Some(1 << 40),
        above: Some(0),
        fixed: &[],
        needs_blas: true,
        ladders: [
            &[
                1 << 18,
                1 << 19,
                1 << 20,
                2 << 20,
                3 << 20,
                4 << 20,
                6 << 20,
                8 << 20,
                12 << 20,
                16 << 20,
                24 << 20,
                32 << 20,
            ],
            &[1 << 14, 1 << 16],
        ],
        body: |ground, bytes, _| ground.few_rows(bytes),
    },
    Choice {
        field: "tiles_from",
        what: "Q4K weights times rows of f16, by dot products and in tiles of 64 x 64",
        unit: "rows",
        meaning: Meaning::From,
        below: None,
        above: Some(1),
        fixed: &[("widen_from", None)],
        needs_blas: false,
        ladders: [&[4, 8, 12, 16, 20, 24, 32, 48, 64, 96], &[8, 32]],
        body: quantized,
    },
    Choice {
        field: "widen_from",
        what: "Q4K weights times rows of f16, by our own kernels and widened to bf16 by the BLAS",
        unit: "rows",
        meaning: Meaning::From,
        below: None,
        above: Some(1),
        fixed: &[],
        needs_blas: true,
        ladders: [&[8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512], &[8, 32]],
        body: quantized,
    },
];

impl Choice {
    /// The sizes to try.
    pub fn ladder(&self, is_card: bool) -> &'static [u64] {
        self.ladders[usize::from(!is_card)]
    }

    /// The value, where so many sizes of the ladder go the first way.
    pub fn threshold(&self, ladder: &[u64], first: usize) -> Option<u64> {
        match self.meaning {
            Meaning::UpTo => Some(first.checked_sub(1).map_or(0, |last| ladder[last])),
            Meaning::From => ladder.get(first).copied(),
        }
    }
}

/// A product of a layer's quantized weights; small ones where only the way itself is tried.
fn quantized(ground: &Ground, rows: u64, is_card: bool) -> Result<Turn<'_>> {
    ground.quantized(rows as usize, if is_card { [8192, 4096] } else { [64, 256] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_rocm_kernels::tuned::FIELDS;

    #[test]
    fn every_choice_is_of_a_field_and_its_ladder_rises() {
        for choice in &CHOICES {
            assert!(FIELDS.iter().any(|field| field.name == choice.field), "{}", choice.field);
            for is_card in [true, false] {
                assert!(choice.ladder(is_card).windows(2).all(|pair| pair[0] < pair[1]), "{}", choice.field);
            }
        }
        assert_eq!(FIELDS.len(), CHOICES.len(), "what can be kept can be measured");
    }

    #[test]
    fn thresholds_stand_where_the_ways_change() {
        let ladder = [10, 20, 30];
        let of = |field: &str, first| {
            CHOICES.iter().find(|choice| choice.field == field).expect("a choice").threshold(&ladder, first)
        };
        assert_eq!([0, 1, 3].map(|first| of("few_rows_bytes", first)), [Some(0), Some(10), Some(30)]);
        assert_eq!([0, 1, 3].map(|first| of("widen_from", first)), [Some(10), Some(20), None]);
    }
}
