//! Two ways to do one thing, timed beside each other: in turn, so that a clock that rises or falls meanwhile is the same for both.

use super::ground::Turn;
use hip::Result;
use std::time::{Duration, Instant};

/// How long a round lasts at least, so that the clock and the synchronisation do not count.
const ROUND: Duration = Duration::from_millis(4);
/// Turns of a round at most: no more than a GPU's queue takes without making the host wait.
const MOST_TURNS: u32 = 500;
/// Rounds of each way, at least.
const LEAST_ROUNDS: usize = 3;

/// One of the ways: a turn, and what waits until all turns are done.
pub struct Way<'a> {
    pub turn: Turn<'a>,
    pub wait: Box<dyn Fn() -> Result<()> + 'a>,
}

impl Way<'_> {
    /// Microseconds of a turn.
    fn round(&mut self, turns: u32) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..turns {
            (self.turn)()?;
        }
        (self.wait)()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(turns))
    }

    /// Warms up, and says how many turns make a round.
    fn turns(&mut self) -> Result<u32> {
        // The first turn may compile and allocate.
        self.round(1)?;
        let once = self.round(1)?.max(1e-3);
        Ok((ROUND.as_secs_f64() * 1e6 / once).clamp(1.0, f64::from(MOST_TURNS)) as u32)
    }
}

/// Microseconds of both: the medians of rounds in turn, for about so long.
pub fn race(mut ways: [Way<'_>; 2], time: Duration) -> Result<[f64; 2]> {
    let turns = [ways[0].turns()?, ways[1].turns()?];
    let start = Instant::now();
    let mut rounds = [Vec::new(), Vec::new()];
    while rounds[1].len() < LEAST_ROUNDS || start.elapsed() < time {
        for ((way, turns), times) in ways.iter_mut().zip(turns).zip(&mut rounds) {
            times.push(way.round(turns)?);
        }
    }
    Ok(rounds.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}

/// How many of the sizes, from the smallest on, go the first way, so that the product of all times is least. One noisy size among others
/// moves nothing.
pub fn split(times: &[[f64; 2]]) -> usize {
    let gain = |[first, second]: &[f64; 2]| (second / first).ln();
    let mut best = (0, 0.0);
    let mut sum = 0.0;
    for (index, pair) in times.iter().enumerate() {
        sum += gain(pair);
        if sum > best.1 {
            best = (index + 1, sum);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_split_is_where_the_ways_change() {
        assert_eq!(split(&[[1., 2.], [1., 1.5], [1., 0.9], [1., 0.5]]), 2);
        assert_eq!(split(&[[1., 2.], [1., 0.95], [1., 2.], [1., 0.2]]), 3, "one noisy size moves nothing");
        assert_eq!(split(&[[2., 1.], [3., 1.]]), 0);
        assert_eq!(split(&[[1., 2.], [1., 3.]]), 2);
        assert_eq!(split(&[]), 0);
    }

    #[test]
    fn times_are_those_of_the_ways() {
        let sleeps = |millis| Way {
            turn: Box::new(move || {
                std::thread::sleep(Duration::from_millis(millis));
                Ok(())
            }),
            wait: Box::new(|| Ok(())),
        };
        let [first, second] = race([sleeps(1), sleeps(9)], Duration::ZERO).unwrap();
        assert!(first >= 1e3 && second >= 9e3, "{first} {second}");
    }
}
