//! The integrated Brier score of survival.

use super::kind::{ERROR, Metric};
use super::lifetimes::{Lifetime, by_time};
use super::rows::Rows;
use crate::numerics::censored::survival;
use crate::numerics::math::{exp64, ln64};
use crate::numerics::reduce::sum;
use crate::objective::Link;
use rayon::prelude::*;

pub(super) const METRIC: Metric = Metric {
    fits: |link| matches!(link, Link::Hazard | Link::Time),
    times: true,
    value: integrated,
    undefined: "no event happened to a measured row before the last time, some happened between two times, or nothing is said of them",
    ..ERROR
};

/// The most times that are measured at.
const MOST_TIMES: usize = 100;

/// A function of time that jumps: its values from each of some ascending times on, and the one before them.
struct Steps {
    times: Vec<f64>,
    values: Vec<f64>,
    first: f64,
}

impl Steps {
    fn at(&self, time: f64) -> f64 {
        match self.times.partition_point(|t| *t <= time) {
            0 => self.first,
            n => self.values[n - 1],
        }
    }
}

/// The Brier score of the probabilities to survive each of some times, by inverse probability of censoring weights (Graf et al., "Assessment
/// and comparison of prognostic classification schemes for survival data", 1999), integrated over these by the trapezoidal rule
/// and divided by their range: scikit-survival's `integrated_brier_score` with the measured rows as both of its tables. The times are those
/// of events before the last time; of more than 100 so many, evenly among them.
///
/// Of `aft` the probabilities are those of its distribution. Of `cox` they are `exp(-H(t) exp(score))` with Breslow's cumulative
/// hazard `H` of the measured rows, by stratum: what is measured is the ratios of hazards, not a baseline.
fn integrated(rows: &Rows<'_>) -> f64 {
    let Some(strata) = by_time(rows) else { return f64::NAN };
    let mut all: Vec<Lifetime> = strata.iter().flatten().copied().collect();
    all.sort_unstable_by(|a, b| a.lower.total_cmp(&b.lower).then(a.upper.total_cmp(&b.upper)));
    let times = times(&all);
    if times.is_empty() {
        return f64::NAN;
    }
    let censoring = censoring(&all);
    let hazards: Vec<Steps> = if rows.link == Link::Hazard { strata.iter().map(|s| hazard(s)).collect() } else { vec![] };
    let members: Vec<(usize, Lifetime)> = strata.iter().enumerate().flat_map(|(s, own)| own.iter().map(move |row| (s, *row))).collect();
    let weights = sum(members.len(), |i| members[i].1.weight);
    let aft = rows.params.aft;
    let score_at = |time: f64| {
        let of_stratum: Vec<f64> = hazards.iter().map(|h| h.at(time)).collect();
        let (log_time, remain) = (ln64(time), censoring.at(time));
        let of_row = |i: usize| {
            let (stratum, row) = &members[i];
            let is_case = row.lower <= time;
            let share = if is_case { censoring.at(row.lower) } else { remain };
            if is_case && !row.has_died() || share <= 0.0 {
                return 0.0;
            }
            let survives = match of_stratum.get(*stratum) {
                Some(hazard) => exp64(-hazard * exp64(row.score)),
                None => survival(aft.distribution, (log_time - row.score) / aft.scale),
            };
            let error = if is_case { survives } else { 1.0 - survives };
            row.weight * error * error / share
        };
        sum(members.len(), of_row) / weights
    };
    let scores: Vec<f64> = times.par_iter().map(|time| score_at(*time)).collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    if times.len() == 1 {
        return scores[0];
    }
    let area: f64 = times.windows(2).zip(scores.windows(2)).map(|(t, s)| (t[1] - t[0]) * (s[0] + s[1]) * 0.5).sum();
    area / (last - first)
}

/// The times to measure at, of rows by ascending time.
fn times(rows: &[Lifetime]) -> Vec<f64> {
    let last = rows.last().map_or(0.0, |row| row.lower);
    let mut times: Vec<f64> = rows.iter().filter(|row| row.has_died() && row.lower < last).map(|row| row.lower).collect();
    times.dedup();
    match times.len() {
        n if n > MOST_TIMES => (0..MOST_TIMES).map(|k| times[k * (n - 1) / (MOST_TIMES - 1)]).collect(),
        _ => times,
    }
}

/// The probability to be censored later, by Kaplan and Meier's estimator; who dies at a time is not at risk to be censored then. Of rows by
/// ascending time.
fn censoring(rows: &[Lifetime]) -> Steps {
    let mut at_risk: f64 = rows.iter().map(|row| row.weight).sum();
    let mut steps = Steps { times: vec![], values: vec![], first: 1.0 };
    let mut remain = 1.0;
    for tied in rows.chunk_by(|a, b| a.lower == b.lower) {
        let of = |has_died: bool| tied.iter().filter(|row| row.has_died() == has_died).map(|row| row.weight).sum::<f64>();
        let (died, censored) = (of(true), of(false));
        at_risk -= died;
        if censored > 0.0 {
            remain *= (1.0 - censored / at_risk).max(0.0);
            steps.times.push(tied[0].lower);
            steps.values.push(remain);
        }
        at_risk -= censored;
    }
    steps
}

/// Breslow's cumulative hazard at score 0, of rows by descending time.
fn hazard(rows: &[Lifetime]) -> Steps {
    let mut jumps: Vec<(f64, f64)> = vec![];
    let mut at_risk = 0.0;
    for tied in rows.chunk_by(|a, b| a.lower == b.lower) {
        at_risk += tied.iter().map(|row| row.weight * exp64(row.score)).sum::<f64>();
        let died: f64 = tied.iter().filter(|row| row.has_died()).map(|row| row.weight).sum();
        if died > 0.0 {
            jumps.push((tied[0].lower, died / at_risk));
        }
    }
    let (mut steps, mut total) = (Steps { times: vec![], values: vec![], first: 0.0 }, 0.0);
    for (time, jump) in jumps.into_iter().rev() {
        total += jump;
        steps.times.push(time);
        steps.values.push(total);
    }
    steps
}
