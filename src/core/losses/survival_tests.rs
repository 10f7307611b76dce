//! Cox's likelihood and accelerated failure times against naive twins in f64, by differences, and to the bit over threads.

use super::risk_sets::{BLOCK, Observed, RiskSets, RiskWork};
use super::*;
use crate::dataset::row_groups::RowGroups;
use crate::numerics::censored::{Distribution, log_likelihood};
use crate::numerics::random::{Purpose, Random};
use proptest::prelude::*;

/// Rows of a Cox model; `strata` may be one.
#[derive(Clone, Debug)]
struct Patients {
    times: Vec<f64>,
    died: Vec<bool>,
    weight: Option<Vec<f32>>,
    strata: Vec<u32>,
    scores: Vec<f32>,
}

impl Patients {
    /// `n` rows at up to `times` different times.
    fn new(n: usize, times: u32, strata: u32, weighted: bool, seed: u64) -> Patients {
        let r = Random::new(seed, Purpose::Rounding, 0);
        let unit = |i: usize, k: usize| r.unit((i * 8 + k) as u64);
        Patients {
            times: (0..n).map(|i| (unit(i, 0) * times as f64).floor()).collect(),
            died: (0..n).map(|i| unit(i, 1) < 0.6).collect(),
            weight: weighted.then(|| (0..n).map(|i| 0.1 + 3.0 * unit(i, 2) as f32).collect()),
            strata: (0..n).map(|i| (unit(i, 3) * strata as f64) as u32).collect(),
            scores: (0..n).map(|i| (unit(i, 4) * 4.0 - 2.0) as f32).collect(),
        }
    }

    fn sets(&self, held_out: Option<&[bool]>) -> RiskSets {
        let observed = Observed {
            times: &self.times,
            died: &self.died,
            weight: self.weight.as_deref(),
            held_out,
            scores: &vec![0.0; self.times.len()],
        };
        RiskSets::new(Some(&RowGroups::new(&self.strata)), observed)
    }

    /// Gradient and hessian by row.
    fn derivatives(&self, held_out: Option<&[bool]>) -> (Vec<f32>, Vec<f32>) {
        let sets = self.sets(held_out);
        let n = self.times.len();
        let scores: Vec<f32> = sets.rows.iter().map(|row| self.scores[*row as usize]).collect();
        let (mut g, mut h) = (vec![0.0; n], vec![0.0; n]);
        sets.derivatives(&scores, &mut RiskWork::new(&sets).unwrap(), &mut g, &mut h);
        let mut by_row = (vec![0.0; n], vec![0.0; n]);
        for (place, row) in sets.rows.iter().enumerate() {
            (by_row.0[*row as usize], by_row.1[*row as usize]) = (g[place], h[place]);
        }
        by_row
    }

    fn weight(&self, row: usize) -> f64 {
        self.weight.as_ref().map_or(1.0, |w| f64::from(w[row]))
    }

    /// Rows of one stratum and time that died, and those at risk then.
    fn events(&self) -> Vec<(Vec<usize>, Vec<usize>)> {
        let n = self.times.len();
        let mut events = vec![];
        for i in 0..n {
            let same = |j: &usize| self.strata[*j] == self.strata[i] && self.times[*j] == self.times[i] && self.died[*j];
            if self.died[i] && (0..n).find(same) == Some(i) {
                let at_risk = (0..n).filter(|j| self.strata[*j] == self.strata[i] && self.times[*j] >= self.times[i]).collect();
                events.push(((0..n).filter(same).collect(), at_risk));
            }
        }
        events
    }

    /// The negative log partial likelihood by its definition, row against row.
    fn loss(&self, scores: &[f64]) -> f64 {
        let hazard = |rows: &[usize]| rows.iter().map(|j| self.weight(*j) * scores[*j].exp()).sum::<f64>();
        let of_time = |(died, at_risk): &(Vec<usize>, Vec<usize>)| {
            let d = died.len() as f64;
            let weight = died.iter().map(|j| self.weight(*j)).sum::<f64>() / d;
            let logs: f64 = (0..died.len()).map(|k| (hazard(at_risk) - k as f64 / d * hazard(died)).ln()).sum();
            died.iter().map(|j| self.weight(*j) * scores[*j]).sum::<f64>() - weight * logs
        };
        -self.events().iter().map(of_time).sum::<f64>()
    }

    /// Gradient and the hessian's diagonal, term by term.
    fn naive(&self) -> (Vec<f64>, Vec<f64>) {
        let n = self.times.len();
        let v: Vec<f64> = (0..n).map(|i| self.weight(i) * f64::from(self.scores[i]).exp()).collect();
        let (mut g, mut h) = (vec![0.0; n], vec![0.0; n]);
        for (died, at_risk) in self.events() {
            let d = died.len() as f64;
            let weight = died.iter().map(|j| self.weight(*j)).sum::<f64>() / d;
            let sum = |rows: &[usize]| rows.iter().map(|j| v[*j]).sum::<f64>();
            died.iter().for_each(|j| g[*j] -= self.weight(*j));
            for k in 0..died.len() {
                let left = sum(&at_risk) - k as f64 / d * sum(&died);
                for j in &at_risk {
                    let share = if died.contains(j) { 1.0 - k as f64 / d } else { 1.0 };
                    let p = share * v[*j] / left;
                    g[*j] += weight * p;
                    h[*j] += weight * (p - p * p);
                }
            }
        }
        (g, h)
    }
}

fn near(a: f32, b: f64, scale: f64) -> bool {
    (f64::from(a) - b).abs() <= 2e-6 * (b.abs() + scale)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Blocks, carries and ties give the derivatives that each row has against each other one.
    #[test]
    fn cox_is_its_naive_twin(n in 1usize..300, times in 1u32..400, strata in 1u32..4, weighted: bool, seed: u64) {
        let patients = Patients::new(n, times, strata, weighted, seed);
        let ((g, h), (expected_g, expected_h)) = (patients.derivatives(None), patients.naive());
        for i in 0..n {
            let scale = patients.weight(i);
            prop_assert!(near(g[i], expected_g[i], scale), "gradient of {i}: {} {}", g[i], expected_g[i]);
            prop_assert!(near(h[i], expected_h[i], scale), "hessian of {i}: {} {}", h[i], expected_h[i]);
        }
    }

    /// Gradients are those of the likelihood, by differences.
    #[test]
    fn cox_has_the_likelihoods_gradient(n in 2usize..40, times in 1u32..20, weighted: bool, seed: u64) {
        let patients = Patients::new(n, times, 2, weighted, seed);
        let scores: Vec<f64> = patients.scores.iter().map(|s| f64::from(*s)).collect();
        let (g, h) = patients.derivatives(None);
        for i in 0..n {
            let at = |step: f64| {
                let moved: Vec<f64> = (0..n).map(|j| scores[j] + if i == j { step } else { 0.0 }).collect();
                patients.loss(&moved)
            };
            let e = 1e-4;
            let (slope, curvature) = ((at(e) - at(-e)) / (2.0 * e), (at(e) - 2.0 * at(0.0) + at(-e)) / (e * e));
            prop_assert!((f64::from(g[i]) - slope).abs() < 1e-5 * (1.0 + slope.abs()), "{} {slope}", g[i]);
            prop_assert!((f64::from(h[i]) - curvature).abs() < 1e-4 * (1.0 + curvature.abs()), "{} {curvature}", h[i]);
        }
    }

    /// Rows that are held out are at nobody's risk.
    #[test]
    fn held_out_rows_are_as_if_they_were_not_there(n in 2usize..600, times in 1u32..50, seed: u64) {
        let all = Patients::new(n, times, 2, true, seed);
        let held_out: Vec<bool> = (0..n).map(|i| i % 3 == 1).collect();
        let kept: Vec<usize> = (0..n).filter(|i| !held_out[*i]).collect();
        let part = Patients {
            times: kept.iter().map(|i| all.times[*i]).collect(),
            died: kept.iter().map(|i| all.died[*i]).collect(),
            weight: all.weight.as_ref().map(|w| kept.iter().map(|i| w[*i]).collect()),
            strata: kept.iter().map(|i| all.strata[*i]).collect(),
            scores: kept.iter().map(|i| all.scores[*i]).collect(),
        };
        let ((g, h), (part_g, part_h)) = (all.derivatives(Some(&held_out)), part.derivatives(None));
        for (k, i) in kept.iter().enumerate() {
            prop_assert_eq!((g[*i], h[*i]), (part_g[k], part_h[k]));
        }
        for i in (0..n).filter(|i| held_out[*i]) {
            prop_assert_eq!((g[i], h[i]), (0.0, 1e-16));
        }
    }

    /// A factor on all weights is one on all derivatives, and weights of 2 are rows twice but for ties.
    #[test]
    fn a_factor_on_weights_is_one_on_derivatives(n in 2usize..600, power in -20i32..20, seed: u64) {
        let one = Patients::new(n, 40, 1, true, seed);
        let factor = 2f32.powi(power);
        let scaled = Patients { weight: one.weight.as_ref().map(|w| w.iter().map(|w| w * factor).collect()), ..one.clone() };
        let ((g, h), (scaled_g, scaled_h)) = (one.derivatives(None), scaled.derivatives(None));
        for i in 0..n {
            prop_assert_eq!(g[i] * factor, scaled_g[i]);
            // None is below the smallest there is.
            let floored = [h[i], scaled_h[i]].contains(&super::pointwise::SMALLEST_HESSIAN);
            prop_assert!(floored || h[i] * factor == scaled_h[i], "{} and {}", h[i], scaled_h[i]);
        }
    }
}

/// Proves that whoever adds gets the same bits, over strata of every size and ties across blocks.
#[test]
fn threads_change_no_bit() {
    let n = 100_000;
    for (times, strata) in [(u32::MAX, 1), (50, 1), (1, 1), (1000, 3), (10, 30_000)] {
        let patients = Patients::new(n, times, strata, true, 5);
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(|| patients.derivatives(None));
        let several = rayon::ThreadPoolBuilder::new().num_threads(5).build().unwrap().install(|| patients.derivatives(None));
        assert_eq!(alone, several);
        let total: f64 = alone.0.iter().map(|g| f64::from(*g)).sum();
        assert!(total.abs() < 1e-2, "a likelihood of differences has gradients that add up to 0: {total}");
    }
}

#[test]
fn blocks_keep_to_strata() {
    let patients = Patients::new(10 * BLOCK, u32::MAX, 3, false, 1);
    let sets = patients.sets(None);
    for stratum in sets.strata.windows(2) {
        let (first, last) = (sets.blocks[stratum[0] as usize], sets.blocks[stratum[1] as usize]);
        assert!(
            sets.rows[first as usize..last as usize]
                .iter()
                .all(|row| patients.strata[*row as usize] == patients.strata[sets.rows[first as usize] as usize])
        );
    }
    assert_eq!(sets.blocks[sets.blocks.len() - 1] as usize, patients.times.len());
}

/// Scores of any size leave derivatives finite.
#[test]
fn far_scores_leave_cox_finite() {
    for scale in [1e3f32, 1e20, f32::MAX] {
        let mut patients = Patients::new(2000, 30, 2, true, 9);
        patients.scores.iter_mut().enumerate().for_each(|(i, s)| *s = if i % 2 == 0 { scale } else { -scale });
        let (g, h) = patients.derivatives(None);
        assert!(g.iter().chain(&h).all(|x| x.is_finite()) && h.iter().all(|h| *h > 0.0));
    }
}

/// Bounds of every kind of censoring, in time.
fn times() -> impl Strategy<Value = (f64, f64)> {
    let time = 0.01..50.0f64;
    prop_oneof![
        time.clone().prop_map(|t| (t, t)),
        time.clone().prop_map(|t| (t, f64::INFINITY)),
        time.clone().prop_map(|t| (0.0, t)),
        (time, 0.05..20.0f64).prop_map(|(t, more)| (t, t + more)),
        Just((0.0, f64::INFINITY)),
    ]
}

fn aft(distribution: Distribution, scale: f64) -> Box<dyn Loss> {
    loss(LossKind::Aft, &LossParams { aft: AftParams { distribution, scale }, ..LossParams::default() }, 0, 1.0).unwrap()
}

proptest! {
    /// Derivatives are those of the likelihood in the score, by differences, within the limits.
    #[test]
    fn aft_has_the_likelihoods_derivatives(rows in prop::collection::vec((times(), -2.0..5.0f64), 1..40), which in 0usize..3, scale in 0.5..2.0f64) {
        let distribution = Distribution::ALL[which];
        let loss = aft(distribution, scale);
        let column = |of: fn(&((f64, f64), f64)) -> f64| rows.iter().map(|row| loss.column_value(of(row)) as f32).collect::<Vec<f32>>();
        let (lower, upper) = (column(|r| r.0.0), column(|r| r.0.1));
        let scores: Vec<f32> = rows.iter().map(|r| r.1 as f32).collect();
        let (mut g, mut h) = (vec![0.0; rows.len()], vec![0.0; rows.len()]);
        loss.derivatives(0, Rows { scores: &[&scores], target: &lower, weight: None, columns: &[&lower, &upper] }, &mut g, &mut h);
        for (i, ((l, u), s)) in rows.iter().enumerate() {
            let at = |s: f64| if *u == f64::INFINITY && *l == 0.0 { 0.0 } else { -log_likelihood(distribution, (l.ln() - s) / scale, (u.ln() - s) / scale) };
            let e = 1e-4;
            let limit = 15.0 / scale;
            let slope = (at(s + e) - at(s - e)) / (2.0 * e);
            let less = if slope.abs() > limit { limit / slope.abs() } else { 1.0 };
            let apart = f64::max(scale, (l.ln() - s).max(s - u.ln()));
            let (curvature, touching) = ((at(s + e) - 2.0 * at(*s) + at(s - e)) / (e * e), slope.abs() / apart);
            let curvature = if slope.abs() > limit { touching } else { f64::max(curvature, touching) };
            let (slope, curvature) = (slope * less, f64::min(curvature * less, limit / scale));
            prop_assert!((f64::from(g[i]) - slope).abs() < 2e-5 * (1.0 + slope.abs()), "{distribution:?} {l} {u} {s}: {} {slope}", g[i]);
            prop_assert!((f64::from(h[i]) - curvature).abs() < 1e-3 * (1.0 + curvature.abs()), "{distribution:?} {l} {u} {s}: {} {curvature}", h[i]);
        }
    }

    /// However far a score is, and however small the scale, a row alone asks for no step beyond its nearer bound, or a scale.
    #[test]
    fn no_step_of_aft_leads_beyond_its_time((lower, upper) in times(), score in -200.0..200.0f64, which in 0usize..3, scale in 1e-4..2.0f64) {
        let loss = aft(Distribution::ALL[which], scale);
        let of = |bound: f64| [loss.column_value(bound) as f32];
        let ((l, u), s, (mut g, mut h)) = ((of(lower), of(upper)), [score as f32], ([0.0f32], [0.0f32]));
        loss.derivatives(0, Rows { scores: &[&s], target: &l, weight: None, columns: &[&l, &u] }, &mut g, &mut h);
        let apart = f64::max(scale, f64::max(f64::from(l[0]) - f64::from(s[0]), f64::from(s[0]) - f64::from(u[0])));
        let step = f64::from(g[0].abs()) / f64::from(h[0]);
        prop_assert!(g[0].is_finite() && h[0].is_finite() && step <= apart * 1.0001, "{which} {scale} {lower} {upper} {score}: {step} {apart}");
    }

    /// The start value is where the likelihood of all rows is largest.
    #[test]
    fn aft_starts_at_the_best_constant(rows in prop::collection::vec(times(), 1..60), which in 0usize..3, scale in 0.3..3.0f64) {
        let distribution = Distribution::ALL[which];
        let loss = aft(distribution, scale);
        let columns: [Vec<f64>; 2] = [rows.iter().map(|r| r.0).collect(), rows.iter().map(|r| r.1).collect()];
        let start = loss.start_with(&columns[0], None, &columns)[0];
        prop_assert!(start.is_finite());
        let total = |s: f64| -> f64 {
            let bounded = rows.iter().filter(|r| r.0 > 0.0 || r.1 < f64::INFINITY);
            bounded.map(|(l, u)| -log_likelihood(distribution, (l.ln() - s) / scale, (u.ln() - s) / scale)).sum()
        };
        let bounds: Vec<f64> = columns.iter().flatten().map(|t| t.ln()).filter(|x| x.is_finite()).collect();
        let (low, high) = bounds.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
        for step in [-0.1, -1e-3, 1e-3, 0.1] {
            if (low..=high).contains(&(start + step)) {
                prop_assert!(total(start) <= total(start + step) + 1e-9 * (1.0 + total(start).abs()), "{distribution:?} {rows:?}: {start} {step}");
            }
        }
    }
}

#[test]
fn aft_of_weights_is_aft_times_weights() {
    let loss = aft(Distribution::Logistic, 0.7);
    let (lower, upper) = ([0.5f32, 1.0, f32::NEG_INFINITY], [0.5f32, f32::INFINITY, 2.0]);
    let run = |weight: Option<&[f32]>| {
        let (mut g, mut h) = ([0.0; 3], [0.0; 3]);
        loss.derivatives(0, Rows { scores: &[&[0.1, 0.2, 0.3]], target: &lower, weight, columns: &[&lower, &upper] }, &mut g, &mut h);
        (g, h)
    };
    let (one, four) = (run(None), run(Some(&[4.0; 3])));
    assert_eq!((one.0.map(|g| 4.0 * g), one.1.map(|h| 4.0 * h)), four);
}
