//! Which cache lines were touched at least once: a set that grows by whole regions of a buffer, so lines are kept as bits of
//! words, 64 lines each.

use std::collections::HashMap;

/// A set of cache lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    words: HashMap<u64, u64>,
}

impl Footprint {
    /// How many lines there are.
    pub fn lines(&self) -> u64 {
        self.words.values().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Adds lines, which are sorted.
    pub(crate) fn insert(&mut self, lines: &[u64]) {
        let mut rest = lines;
        while let Some(&first) = rest.first() {
            let here = rest.iter().take_while(|line| **line / 64 == first / 64).count();
            let bits = rest[..here].iter().fold(0, |bits, line| bits | 1 << (line % 64));
            *self.words.entry(first / 64).or_default() |= bits;
            rest = &rest[here..];
        }
    }

    /// Adds all lines of another set.
    pub(crate) fn add(&mut self, other: &Self) {
        for (&at, bits) in &other.words {
            *self.words.entry(at).or_default() |= bits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Footprint;

    #[test]
    fn lines_count_once() {
        let mut lines = Footprint::default();
        lines.insert(&[1, 1, 2, 63, 64, 1000]);
        lines.insert(&[2, 3]);
        assert_eq!(lines.lines(), 6);
        let mut other = Footprint::default();
        other.insert(&[3, 5000]);
        lines.add(&other);
        assert_eq!(lines.lines(), 7);
    }
}
