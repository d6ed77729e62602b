//! How a case is timed: warmed up, then in rounds of many turns between two synchronisations, and the median of the rounds.
//! The host's clock does: a synchronisation costs microseconds, a round lasts milliseconds.

use super::case::{Case, Size, Timing};
use candle_core::{Device, Result};
use std::time::{Duration, Instant};

/// What one turn takes, over all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// The median of the rounds, in microseconds a turn.
    pub median: f64,
    /// The fastest round.
    pub low: f64,
    /// The slowest round.
    pub high: f64,
}

/// How long a case may take.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    warm_up: Duration,
    round: Duration,
    rounds: usize,
}

/// No more than a GPU's queue takes without making the host wait.
const MOST_TURNS: f64 = 1000.;
/// A case that is slower than this is timed in three rounds.
const SLOW: Duration = Duration::from_millis(250);

impl Clock {
    /// Shorter rounds for small cases: everything is to run in a minute.
    pub fn new(size: Size) -> Self {
        Self {
            warm_up: Duration::from_millis(size.pick(20, 10)),
            round: Duration::from_millis(size.pick(15, 8)),
            rounds: size.pick(9, 5),
        }
    }

    /// In words, for whoever reads the table.
    pub fn method(&self) -> String {
        format!(
            "median of {} rounds of about {} ms after a warm-up of {} ms; a round is up to {MOST_TURNS} turns between two \
             synchronisations, timed by the host's clock",
            self.rounds,
            self.round.as_millis(),
            self.warm_up.as_millis()
        )
    }

    /// Prepares a case on a device and times it.
    pub fn time(&self, case: &Case, device: &Device) -> Result<Times> {
        // The results of single operations are dropped: put off, they would not be computed.
        if let Ok(rocm) = device.as_rocm_device() {
            rocm.set_fusing(case.family == "model")?;
        }
        let mut turn = (case.setup)(device)?;
        // The first turn may compile and allocate: it says nothing about the later ones.
        turn()?;
        device.synchronize()?;
        let start = Instant::now();
        let mut warm = 0;
        while warm == 0 || (start.elapsed() < self.warm_up && warm < MOST_TURNS as usize) {
            turn()?;
            warm += 1;
            // Unsynchronised, a queue would fill with more than the warm-up's worth.
            if warm % 16 == 0 {
                device.synchronize()?;
            }
        }
        device.synchronize()?;
        let once = start.elapsed() / warm as u32;
        let turns = (self.round.as_secs_f64() / once.as_secs_f64().max(1e-9)).clamp(1., MOST_TURNS) as u32;
        let rounds = if once > SLOW { 3 } else { self.rounds };
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let start = Instant::now();
            for _ in 0..turns {
                turn()?;
            }
            let submitted = start.elapsed();
            device.synchronize()?;
            let all = if case.timing == Timing::Submit { submitted } else { start.elapsed() };
            times.push(all.as_secs_f64() * 1e6 / f64::from(turns));
        }
        times.sort_by(f64::total_cmp);
        Ok(Times { median: times[times.len() / 2], low: times[0], high: times[times.len() - 1] })
    }
}
