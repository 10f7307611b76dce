//! Which rows a tree is grown on: thresholds from exact counts, draws from counter-based numbers.

use super::params::RowSample;
use crate::collective::Collective;
use crate::error::Result;
use crate::numerics::math::{exp64, ln64};
use crate::numerics::random::Random;

/// How rows are drawn for the trees of a fit.
#[derive(Clone, Copy, Debug)]
pub struct RowSampling {
    pub sample: RowSample,
    /// The share of rows that are drawn; 1 where all are.
    pub fraction: f64,
    /// How far the weights of [`RowSample::Bayesian`] lie apart.
    pub temperature: f64,
    /// `l2`, which minimal variance sampling weighs hessians by, whatever the weights are in units of.
    pub l2: f32,
}

impl RowSampling {
    /// That every tree is grown on all rows.
    pub const NONE: RowSampling = RowSampling { sample: RowSample::None, fraction: 1.0, temperature: 1.0, l2: 0.0 };

    /// Returns whether every tree is grown on all rows, each of which counts 1.
    pub fn keeps_all(&self) -> bool {
        self.sample == RowSample::None || (self.sample == RowSample::Bernoulli && self.fraction >= 1.0)
    }

    /// Returns whether rows are drawn by their derivatives.
    pub fn reads_derivatives(&self) -> bool {
        matches!(self.sample, RowSample::Goss | RowSample::Mvs)
    }
}

/// Counts of rows by the upper half of their key's bits; a key is a non-negative f32, whose bits
/// are in the order of its values.
pub struct KeyCounts(Vec<u64>);

const BUCKETS: usize = 1 << 15;

impl Default for KeyCounts {
    fn default() -> Self {
        KeyCounts(vec![0; BUCKETS])
    }
}

fn bucket(key: f32) -> usize {
    (key.to_bits() >> 16) as usize & (BUCKETS - 1)
}

impl KeyCounts {
    /// Makes the draw from the count of each key's upper half.
    pub fn from_counts(counts: Vec<u64>) -> KeyCounts {
        KeyCounts(counts)
    }

    /// Counts one row.
    pub fn add(&mut self, key: f32) {
        self.0[bucket(key)] += 1;
    }

    /// Adds those of the rows in other shards.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn complete(&mut self, collective: &dyn Collective) -> Result<()> {
        let mut counts: Vec<i64> = self.0.iter().map(|n| *n as i64).collect();
        collective.sum(&mut counts)?;
        self.0 = counts.into_iter().map(|n| n as u64).collect();
        Ok(())
    }

    /// Returns the counts of all threads together.
    pub fn merge(shards: Vec<KeyCounts>) -> KeyCounts {
        let mut merged = KeyCounts::default();
        for s in shards {
            for (a, b) in merged.0.iter_mut().zip(s.0) {
                *a += b;
            }
        }
        merged
    }
}

/// How the rows of one tree are drawn.
#[derive(Clone, Debug)]
pub enum Draw {
    Bernoulli {
        probability: f64,
    },
    /// Keys in a bucket above `bucket` are kept; in it with probability `share`, else, as all
    /// below, with probability `rest`.
    Goss {
        bucket: usize,
        share: f64,
        rest: f64,
    },
    /// A key is kept with probability `key / threshold`.
    Mvs {
        threshold: f64,
        l2: f32,
    },
    /// Every row, with a weight of its own.
    Bayesian {
        temperature: f64,
    },
}

/// Returns the weight `(-ln(1 - unit))^temperature` of a row under the Bayesian bootstrap, `unit` in [0, 1): 0 where that is too small for
/// f32.
///
/// ```
/// use taiga_core::learners::boosting::row_sampler::bayesian_weight;
/// assert_eq!(bayesian_weight(0.0, 1.0), 0.0);
/// assert!((bayesian_weight(0.5, 2.0) - 0.480453).abs() < 1e-6);
/// ```
pub fn bayesian_weight(unit: f64, temperature: f64) -> f32 {
    exp64(temperature * ln64(-ln64(1.0 - unit))) as f32
}

/// The squares whose sum in f32 is right to its last digits: none of them, and no term that counts, left the normal numbers.
const SQUARES: std::ops::RangeInclusive<f32> = 1e-37..=f32::MAX;

/// Returns what a row is ordered by: `|gradient|`, or `sqrt(gradient² + l2 hessian²)`, finite.
pub fn key(sample: RowSample, l2: f32, gradient: f32, hessian: f32) -> f32 {
    if sample != RowSample::Mvs {
        return gradient.abs();
    }
    let squares = gradient * gradient + l2 * hessian * hessian;
    if SQUARES.contains(&squares) {
        return squares.sqrt();
    }
    // In f64 no square of a f32 overflows or vanishes.
    let (gradient, hessian) = (gradient as f64, hessian as f64);
    let root = (gradient * gradient + l2 as f64 * (hessian * hessian)).sqrt();
    (if root < f32::MAX as f64 { root } else { f32::MAX as f64 }) as f32
}

impl Draw {
    /// Makes the draw from the counts of the keys of the training rows.
    pub fn new(sampling: &RowSampling, counts: &KeyCounts) -> Draw {
        let RowSampling { sample, fraction, temperature, l2 } = *sampling;
        let rows: u64 = counts.0.iter().sum();
        match sample {
            RowSample::Bayesian => Draw::Bayesian { temperature },
            RowSample::None | RowSample::Bernoulli => Draw::Bernoulli { probability: fraction },
            RowSample::Goss => {
                let top = fraction * 2.0 / 3.0 * rows as f64;
                let mut above = 0.0;
                for b in (0..BUCKETS).rev() {
                    let here = counts.0[b] as f64;
                    if here > 0.0 && above + here >= top {
                        let share = (top - above) / here;
                        let rest = (fraction / 3.0 * rows as f64) / (rows as f64 - top).max(1.0);
                        return Draw::Goss { bucket: b, share, rest: rest.min(1.0) };
                    }
                    above += here;
                }
                Draw::Bernoulli { probability: fraction }
            }
            RowSample::Mvs => {
                // The expected number Σ min(1, key / threshold), with each key at its bucket's
                // middle, falls as the threshold rises: the first bucket border at which it is
                // small enough brackets the threshold, and inside a bucket it is solved for.
                let middle = |b: usize| f32::from_bits(((b as u32) << 16) | 0x8000) as f64;
                let wanted = fraction * rows as f64;
                let mut sum_below: f64 = (0..BUCKETS).filter(|b| counts.0[*b] > 0).map(|b| counts.0[b] as f64 * middle(b)).sum();
                let mut above = 0.0;
                for b in (0..BUCKETS).rev().filter(|b| counts.0[*b] > 0) {
                    // All keys above bucket b are certain, those in and below it are drawn.
                    if wanted > above {
                        let threshold = sum_below / (wanted - above);
                        if threshold >= middle(b) {
                            return Draw::Mvs { threshold, l2 };
                        }
                    }
                    above += counts.0[b] as f64;
                    sum_below -= counts.0[b] as f64 * middle(b);
                }
                Draw::Mvs { threshold: 0.0, l2 }
            }
        }
    }

    /// Returns what the row counts: 0 if it is not drawn, else one over the probability that it would be (1 under plain Bernoulli
    /// sampling, where all rows have the same), or its weight in the Bayesian bootstrap.
    pub fn weight(&self, random: Random, row: usize, gradient: f32, hessian: f32) -> f32 {
        let u = random.unit(row as u64);
        let kept = |probability: f64| if u < probability { (1.0 / probability) as f32 } else { 0.0 };
        match self {
            Draw::Bernoulli { probability } => (u < *probability) as u8 as f32,
            Draw::Goss { bucket: top, share, rest } => {
                let b = bucket(key(RowSample::Goss, 0.0, gradient, hessian));
                match b.cmp(top) {
                    std::cmp::Ordering::Greater => 1.0,
                    std::cmp::Ordering::Equal => kept((share + (1.0 - share) * rest).min(1.0)),
                    std::cmp::Ordering::Less => kept(*rest),
                }
            }
            Draw::Mvs { threshold, l2 } => {
                let k = key(RowSample::Mvs, *l2, gradient, hessian) as f64;
                if k >= *threshold { 1.0 } else { kept(k / threshold) }
            }
            Draw::Bayesian { temperature } => bayesian_weight(u, *temperature),
        }
    }

    /// Returns whether every row drawn counts 1.
    pub fn unit(&self) -> bool {
        matches!(self, Draw::Bernoulli { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::random::Purpose;

    /// Keys are the same numbers in any unit, and those of plain f32 where squares have room.
    #[test]
    fn keys_have_any_size() {
        for (g, h, l2) in [(0.3f32, 1.0f32, 1.0f32), (-2.5, 0.25, 0.0), (1e-4, 1.0, 3.0), (1.0, 1e-3, 1e6)] {
            let plain = (g * g + l2 * h * h).sqrt();
            assert_eq!(key(RowSample::Mvs, l2, g, h), plain);
            for power in [-100, -83, -60, 40, 60, 66, 100] {
                let unit = 2f32.powi(power);
                let scaled = key(RowSample::Mvs, l2, g * unit, h * unit);
                assert!((scaled / unit / plain - 1.0).abs() < 1e-6, "{g} {h} {l2} {power}: {scaled}");
            }
        }
        assert_eq!(key(RowSample::Mvs, f32::MAX, 1.0, f32::MAX), f32::MAX);
        let root = (f32::MAX as f64).sqrt() * 1e-30;
        assert!((key(RowSample::Mvs, f32::MAX, 0.0, 1e-30) as f64 / root - 1.0).abs() < 1e-6);
        assert_eq!(key(RowSample::Mvs, 0.0, 0.0, 1.0), 0.0);
    }

    /// The expected number of rows is drawn and weighted sums are unbiased, also where all keys tie.
    #[test]
    fn draws_have_the_right_size_and_no_bias() {
        let n = 50_000;
        let spread: Vec<f32> = (0..n).map(|i| ((i as f32 * 0.37).sin() * 3.0).exp()).collect();
        let tied = vec![0.5f32; n];
        let random = Random::new(9, Purpose::RowSample, 4);
        for keys in [spread, tied] {
            for (sample, fraction) in
                [(RowSample::Bernoulli, 0.4), (RowSample::Goss, 0.3), (RowSample::Goss, 0.9), (RowSample::Mvs, 0.2), (RowSample::Mvs, 1.0)]
            {
                let mut counts = KeyCounts::default();
                keys.iter().for_each(|k| counts.add(key(sample, 0.0, *k, 1.0)));
                let draw = Draw::new(&RowSampling { sample, fraction, ..RowSampling::NONE }, &counts);
                let weights: Vec<f32> = (0..n).map(|i| draw.weight(random, i, keys[i], 1.0)).collect();
                let drawn = weights.iter().filter(|w| **w > 0.0).count() as f64;
                assert!((drawn / n as f64 - fraction).abs() < 0.02, "{sample:?} {fraction}: {drawn}");
                let scale = if draw.unit() { 1.0 / fraction } else { 1.0 };
                let (sum, exact): (f64, f64) =
                    (0..n).fold((0.0, 0.0), |a, i| (a.0 + (keys[i] * weights[i]) as f64 * scale, a.1 + keys[i] as f64));
                assert!((sum / exact - 1.0).abs() < 0.03, "{sample:?} {fraction}: {sum} {exact}");
            }
        }
    }

    /// Proves that the Bayesian bootstrap's weights are powers of exponential ones, as the definition has them, by their moments and
    /// beside the platform's own functions.
    #[test]
    fn bayesian_weights_are_powers_of_exponential_ones() {
        let (n, random) = (200_000, Random::new(3, Purpose::RowSample, 8));
        // E[w] = Γ(1 + t), E[w²] = Γ(1 + 2 t).
        for (temperature, first, second) in [(0.5, 0.886_227, 1.0), (1.0, 1.0, 2.0), (2.0, 2.0, 24.0)] {
            let draw = Draw::new(&RowSampling { sample: RowSample::Bayesian, temperature, ..RowSampling::NONE }, &KeyCounts::default());
            assert!(!draw.unit());
            let weights: Vec<f64> = (0..n).map(|row| draw.weight(random, row, 0.0, 1.0) as f64).collect();
            let mean = |power: i32| weights.iter().map(|w| w.powi(power)).sum::<f64>() / n as f64;
            assert!((mean(1) / first - 1.0).abs() < 0.02 && (mean(2) / second - 1.0).abs() < 0.1, "{temperature}: {} {}", mean(1), mean(2));
            for (row, weight) in weights.iter().enumerate().take(1_000) {
                let naive = (-(1.0 - random.unit(row as u64)).ln()).powf(temperature);
                assert!((weight - naive).abs() <= 2e-7 * naive, "{temperature} {row}: {weight} {naive}");
            }
        }
        let least = 1.0 - 0.5f64.powi(53);
        assert_eq!((bayesian_weight(0.0, 0.01), bayesian_weight(0.0, 10.0)), (0.0, 0.0));
        assert!(bayesian_weight(least, 10.0) > 4e15 && bayesian_weight(least, 10.0) < 5e15);
    }
}
