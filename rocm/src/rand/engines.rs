//! Random words: Philox4x32-10 (Salmon and others, 2011) and MRG32k3a (L'Ecuyer, 1999). Both can begin at any position at once, so
//! a generator is its kind, its seed and how far it got. Philox gives the words that it gives on a GPU.

/// A sequence of 32-bit words at some position.
#[derive(Clone)]
pub enum Engine {
    Philox { key: [u32; 2], position: u64, block: [u32; 4] },
    Mrg32k3a([[u64; 3]; 2]),
}

impl Engine {
    /// Philox of a seed, `position` words after its beginning.
    pub fn philox(seed: u64, position: u64) -> Self {
        let key = [seed as u32, (seed >> 32) as u32];
        Self::Philox { key, position, block: philox_block(position / 4, key) }
    }

    /// MRG32k3a of a seed, `position` words after its beginning. The state comes from the seed by SplitMix64.
    pub fn mrg32k3a(seed: u64, position: u64) -> Self {
        let mut state = seed;
        let mut next = |modulus: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            // Not zero: a component of nothing but zeros stays there.
            1 + (mixed ^ (mixed >> 31)) % (modulus - 1)
        };
        let mut components = [[0; 3]; 2];
        for (component, Recurrence { modulus, .. }) in components.iter_mut().zip(&MRG) {
            component.iter_mut().for_each(|value| *value = next(*modulus));
        }
        Self::Mrg32k3a(std::array::from_fn(|index| MRG[index].after(position, components[index])))
    }

    /// The next word.
    pub fn word(&mut self) -> u32 {
        match self {
            Self::Philox { key, position, block } => {
                let word = block[(*position % 4) as usize];
                *position = position.wrapping_add(1);
                if *position % 4 == 0 {
                    *block = philox_block(*position / 4, *key);
                }
                word
            }
            Self::Mrg32k3a(components) => {
                let [first, second] = components;
                let (p, q) = (MRG[0].step(first), MRG[1].step(second));
                let modulus = MRG[0].modulus;
                // From below the modulus to all 32 bits.
                ((((p + modulus - q) % modulus) << 32) / modulus) as u32
            }
        }
    }
}

fn philox_block(counter: u64, [mut k0, mut k1]: [u32; 2]) -> [u32; 4] {
    let mut c = [counter as u32, (counter >> 32) as u32, 0, 0];
    for _ in 0..10 {
        let (p, q) = (u64::from(c[0]) * 0xd251_1f53, u64::from(c[2]) * 0xcd9e_8d57);
        c = [(q >> 32) as u32 ^ c[1] ^ k0, q as u32, (p >> 32) as u32 ^ c[3] ^ k1, p as u32];
        (k0, k1) = (k0.wrapping_add(0x9e37_79b9), k1.wrapping_add(0xbb67_ae85));
    }
    c
}

/// One of the two recurrences: the next value is the sum of the last three with these factors.
struct Recurrence {
    modulus: u64,
    factors: [u64; 3],
}

const MRG: [Recurrence; 2] = [
    Recurrence { modulus: 4294967087, factors: [4294967087 - 810728, 1403580, 0] },
    Recurrence { modulus: 4294944443, factors: [4294944443 - 1370589, 0, 527612] },
];

type Transition = [[u64; 3]; 3];

impl Recurrence {
    fn step(&self, state: &mut [u64; 3]) -> u64 {
        let next = self.row(&self.factors, state);
        *state = [state[1], state[2], next];
        next
    }

    fn row(&self, row: &[u64; 3], column: &[u64; 3]) -> u64 {
        row.iter().zip(column).fold(0, |sum, (a, b)| (sum + a * b % self.modulus) % self.modulus)
    }

    fn squared(&self, a: &Transition) -> Transition {
        let column = |at: usize| [a[0][at], a[1][at], a[2][at]];
        std::array::from_fn(|row| std::array::from_fn(|at| self.row(&a[row], &column(at))))
    }

    /// The state after some steps, by squaring.
    fn after(&self, mut steps: u64, mut state: [u64; 3]) -> [u64; 3] {
        let mut transition = [[0, 1, 0], [0, 0, 1], self.factors];
        while steps > 0 {
            if steps & 1 == 1 {
                state = std::array::from_fn(|row| self.row(&transition[row], &state));
            }
            transition = self.squared(&transition);
            steps >>= 1;
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_words() {
        assert_eq!(philox_block(0, [0, 0]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
    }

    #[test]
    fn mrg32k3a_begins_as_its_author_published() {
        let mut engine = Engine::Mrg32k3a([[12345; 3]; 2]);
        let first = f64::from(engine.word()) / 4294967296.0;
        assert!((first - 0.127011122).abs() < 1e-8, "{first}");
    }

    #[test]
    fn a_position_is_reached_at_once() {
        for start in [Engine::philox, Engine::mrg32k3a] {
            let mut slow = start(42, 0);
            for _ in 0..1003 {
                slow.word();
            }
            let mut fast = start(42, 1003);
            assert_eq!(fast.word(), slow.word());
            assert_eq!(fast.word(), slow.word());
        }
    }
}
