//! Two ways to do one thing, timed beside each other: in turn, so that a clock that rises or falls meanwhile is the same for both.

use crate::bench::case::Body;
use crate::failure::Result;
use candle_core::Device;
use std::time::{Duration, Instant};

/// How long a round lasts at least, so that the clock and the synchronisation do not count.
const ROUND: Duration = Duration::from_millis(4);
/// Turns of a round at most: no more than a GPU's queue takes without making the host wait.
const MOST_TURNS: u32 = 500;
/// Rounds of each way, at least.
const LEAST_ROUNDS: usize = 3;

/// The two ways, warmed up.
pub struct Race<'a> {
    bodies: [Body; 2],
    devices: [&'a Device; 2],
    turns: [u32; 2],
}

impl<'a> Race<'a> {
    /// Warms both up, and finds out how many turns make a round.
    pub fn between(first: Body, second: Body, devices: [&'a Device; 2]) -> Result<Self> {
        let mut race = Self { bodies: [first, second], devices, turns: [1; 2] };
        for way in 0..2 {
            // The first turn may compile and allocate.
            race.round(way)?;
            let once = race.round(way)?.max(1e-3);
            race.turns[way] = (ROUND.as_secs_f64() * 1e6 / once).clamp(1.0, f64::from(MOST_TURNS)) as u32;
        }
        Ok(race)
    }

    /// Microseconds of a turn.
    fn round(&mut self, way: usize) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..self.turns[way] {
            (self.bodies[way])()?;
        }
        self.devices[way].synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(self.turns[way]))
    }

    /// The medians of rounds in turn, for about so long.
    pub fn run(mut self, time: Duration) -> Result<[f64; 2]> {
        let start = Instant::now();
        let mut rounds = [Vec::new(), Vec::new()];
        while rounds[1].len() < LEAST_ROUNDS || start.elapsed() < time {
            for (way, times) in rounds.iter_mut().enumerate() {
                times.push(self.round(way)?);
            }
        }
        Ok(rounds.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        }))
    }
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
    fn the_faster_way_has_the_shorter_time() {
        let sleeps = |millis| -> Body {
            Box::new(move || {
                std::thread::sleep(Duration::from_millis(millis));
                Ok(())
            })
        };
        let race = Race::between(sleeps(1), sleeps(9), [&Device::Cpu, &Device::Cpu]).unwrap();
        let [first, second] = race.run(Duration::ZERO).unwrap();
        assert!(first >= 1e3 && second >= 9e3, "{first} {second}");
    }
}
