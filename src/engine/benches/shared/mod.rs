//! What the benchmarks of fits share: a table, and a clock that a fit tells its stages.

#![allow(dead_code)] // No benchmark uses all of it.

use std::sync::Mutex;
use std::time::Instant;
use taiga_engine::dataset::Monitor;
use taiga_engine::numerics::random::Random;

/// The word in place `i` of the command line, flags not counted.
pub fn argument(i: usize, default: &str) -> String {
    std::env::args().skip(1).filter(|a| !a.starts_with("--")).nth(i).unwrap_or_else(|| default.into())
}

/// Uniform f32 from -1 to 1.
pub fn uniform_columns(random: &Random, rows: usize, features: usize) -> Vec<Vec<f32>> {
    (0..features)
        .map(|f| (0..rows).map(|i| ((random.u64((i * features + f) as u64) >> 40) as f32 / (1 << 23) as f32) - 1.0).collect())
        .collect()
}

/// What a row's target depends on: a few of the features, some of them together.
pub fn signal(columns: &[Vec<f32>], row: usize) -> f64 {
    let x = |f: usize| columns[f % columns.len()][row] as f64;
    1.2 * x(0) + (3.0 * x(5)).sin() + 1.5 * x(7) * x(12) + if x(14) > 0.1 { 0.8 } else { -0.4 } * x(19) + 0.5 * x(21) + 0.6 * x(26) * x(0)
}

/// When a fit reached its stages, in seconds.
pub struct Clock {
    start: Instant,
    rounds: Mutex<Vec<f64>>,
    /// When the device was chosen: borders, targets and scores are there, nothing is on the device.
    prepared: Mutex<(f64, String)>,
}

/// What a clock has noted, in seconds.
pub struct Times {
    /// Until the device was chosen, and which.
    pub prepared: f64,
    pub device: String,
    /// Until the first tree.
    pub first: f64,
    /// Each later tree, the fastest first.
    pub each: Vec<f64>,
    pub total: f64,
}

impl Times {
    /// The median of the trees behind the first; zero where there are none.
    pub fn median(&self) -> f64 {
        self.each.get(self.each.len() / 2).copied().unwrap_or(0.0)
    }

    /// The least of them.
    pub fn least(&self) -> f64 {
        self.each.first().copied().unwrap_or(0.0)
    }
}

impl Clock {
    /// Begins to count.
    pub fn new() -> Clock {
        Clock { start: Instant::now(), rounds: Mutex::default(), prepared: Mutex::default() }
    }

    /// Ends.
    pub fn stop(self) -> Times {
        let total = self.start.elapsed().as_secs_f64();
        let (rounds, (prepared, device)) = (self.rounds.into_inner().unwrap(), self.prepared.into_inner().unwrap());
        let mut each: Vec<f64> = rounds.windows(2).map(|w| w[1] - w[0]).collect();
        each.sort_by(f64::total_cmp);
        Times { prepared, device, first: rounds[0], each, total }
    }
}

impl Monitor for Clock {
    fn round(&self, _done: u32, _total: u32, _metric: Option<f64>) {
        self.rounds.lock().unwrap().push(self.start.elapsed().as_secs_f64());
    }

    fn device(&self, chosen: &str) {
        *self.prepared.lock().unwrap() = (self.start.elapsed().as_secs_f64(), chosen.into());
    }
}
