//! What is measured on held-out rows.
//!
//! Sums run over fixed blocks in their order, and `exp` and `ln` are our own, so a metric has the
//! same bits on every machine.

mod kind;

pub use kind::{MetricKind, check_measured, metric_names};

use crate::error::Error;
use crate::numerics::math;
use crate::numerics::math::{exp64, ln64, softplus_rest64};
use crate::numerics::reduce::{BLOCK, add_in_order, blocks, sum, total_weight, weighted_mean};
use crate::objective::{Link, LossParams};
use multiversion::multiversion;
use std::borrow::Cow;

impl MetricKind {
    /// Whether a larger value is a better one.
    pub fn larger_is_better(self) -> bool {
        matches!(self, MetricKind::Auc | MetricKind::Accuracy | MetricKind::R2)
    }

    /// Whether `a` is a better value than `b`.
    pub fn better(self, a: f64, b: f64) -> bool {
        b.is_nan() && !a.is_nan() || if self.larger_is_better() { a > b } else { a < b }
    }

    /// The name that users give it.
    ///
    /// ```
    /// use taiga_core::metrics::MetricKind;
    /// assert_eq!(MetricKind::CrossEntropy.name(), "cross_entropy");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Rmse => "rmse",
            MetricKind::Mae => "mae",
            MetricKind::R2 => "r2",
            MetricKind::Quantile => "quantile",
            MetricKind::Huber => "huber",
            MetricKind::Logloss => "logloss",
            MetricKind::CrossEntropy => "cross_entropy",
            MetricKind::Auc => "auc",
            MetricKind::Accuracy => "accuracy",
            MetricKind::Multiclass => "multiclass",
            MetricKind::Poisson => "poisson",
            MetricKind::Gamma => "gamma",
            MetricKind::Tweedie => "tweedie",
        }
    }

    /// Whether it can be measured on predictions of this link: the errors (`rmse`, `mae`, `r2`,
    /// `quantile`, `huber`) on any single number, the metrics of two classes under
    /// [`Link::Sigmoid`], of several under [`Link::Softmax`], the deviances on positive means.
    pub fn fits(self, link: Link) -> bool {
        use MetricKind::*;
        match self {
            Rmse | Mae | R2 | Quantile | Huber => link != Link::Softmax,
            Logloss | CrossEntropy | Auc => link == Link::Sigmoid,
            Accuracy => matches!(link, Link::Sigmoid | Link::Softmax),
            Multiclass => link == Link::Softmax,
            Poisson | Gamma | Tweedie => link == Link::Exp,
        }
    }
}

/// The metric of raw scores (`scores[output][row]`) against targets (class index or number), with
/// weights where rows have them. Sums are f64 over fixed blocks.
///
/// The deviances are the means that scikit-learn calls `mean_poisson_deviance`,
/// `mean_gamma_deviance` and `mean_tweedie_deviance`. `r2` of a constant target is 1 where it is
/// predicted exactly, else 0. `auc` counts ties half; a target between 0 and 1 counts as that
/// share of a row of class 1 and the rest of class 0.
///
/// NaN where nothing can be measured: no rows, no weight, `auc` of a single class, or a metric
/// that does not fit the link ([`MetricKind::fits`]).
///
/// ```
/// use taiga_core::losses::{Link, LossParams};
/// use taiga_core::metrics::{MetricKind, metric};
/// let params = LossParams::default();
/// let scores = [vec![0.1, 0.4, 0.35, 0.8]];
/// let auc = metric(MetricKind::Auc, &params, Link::Sigmoid, &scores, &[0.0, 0.0, 1.0, 1.0], None);
/// assert_eq!(auc, 0.75);
/// ```
pub fn metric(kind: MetricKind, params: &LossParams, link: Link, scores: &[Vec<f64>], target: &[f64], weight: Option<&[f32]>) -> f64 {
    if !kind.fits(link) || scores.is_empty() || target.is_empty() {
        return f64::NAN;
    }
    if let Some(weight) = weight
        && weight.contains(&0.0)
    {
        // A row of weight 0 is as if it were not there, even where what it adds has no value.
        let rows: Vec<usize> = (0..weight.len()).filter(|row| weight[*row] != 0.0).collect();
        let of = |values: &[f64]| rows.iter().map(|row| values[*row]).collect::<Vec<f64>>();
        let (scores, target) = (scores.iter().map(|s| of(s)).collect::<Vec<_>>(), of(target));
        return metric(kind, params, link, &scores, &target, Some(&rows.iter().map(|row| weight[*row]).collect::<Vec<f32>>()));
    }
    let of_prediction = matches!(kind, MetricKind::Rmse | MetricKind::Mae | MetricKind::R2 | MetricKind::Quantile | MetricKind::Huber);
    let score = if of_prediction { predict(link, &scores[0]) } else { Cow::Borrowed(&scores[0][..]) };
    let rows = Rows { score: &score, target, weight };
    match kind {
        MetricKind::Rmse => rmse(&rows),
        MetricKind::Mae => rows.mean(Absolute {}),
        MetricKind::R2 => r2(&rows),
        MetricKind::Quantile => rows.mean(Pinball { alpha: params.alpha }),
        MetricKind::Huber => rows.mean(Huber { delta: params.huber_delta }),
        MetricKind::Logloss | MetricKind::CrossEntropy => rows.mean(CrossEntropy {}),
        MetricKind::Auc => auc(&rows),
        MetricKind::Accuracy if link == Link::Sigmoid => rows.mean(SameSide {}),
        MetricKind::Accuracy => accuracy(scores, &rows),
        MetricKind::Multiclass => multiclass(scores, &rows),
        MetricKind::Poisson => rows.mean(PoissonDeviance {}),
        MetricKind::Gamma => rows.mean(GammaDeviance {}),
        MetricKind::Tweedie => rows.mean(TweedieDeviance { power: params.tweedie_power }),
    }
}

/// The error of held-out rows that a metric is not defined on.
pub fn undefined(kind: MetricKind) -> Error {
    let why = match kind {
        MetricKind::Auc => "the held-out rows are of one class",
        _ => "the held-out rows have no spread to measure against",
    };
    Error::parameter("metric", format!("\"{}\" is not defined here: {why}", kind.name())).degenerate()
}

/// What a metric averages: a value of one row's score (or prediction) and target. Inlined into
/// each version of the loop over rows; a closure would not be.
trait Term {
    fn at(&self, score: f64, target: f64) -> f64;
}

/// Defines a [`Term`] with its parameters.
macro_rules! term {
    ($(#[$doc:meta])* $name:ident { $($parameter:ident),* } |$s:ident, $y:ident| $value:expr) => {
        $(#[$doc])*
        struct $name {
            $($parameter: f64,)*
        }

        impl Term for $name {
            #[inline(always)]
            fn at(&self, $s: f64, $y: f64) -> f64 {
                let $name { $($parameter,)* } = *self;
                $value
            }
        }
    };
}

term!(Absolute {} | p, y | (p - y).abs());
term!(
    /// The squared error in units of `unit`.
    Squared { unit } |p, y| ((p - y) / unit) * ((p - y) / unit)
);
term!(Pinball { alpha } | p, y | if y > p { alpha * (y - p) } else { (1.0 - alpha) * (p - y) });
term!(
    Huber { delta } | p,
    y | {
        let r = (p - y).abs();
        if r <= delta { 0.5 * r * r } else { delta * (r - 0.5 * delta) }
    }
);
term!(
    /// -y ln p - (1 - y) ln(1 - p), which is ln(1 + exp(s)) - y s.
    CrossEntropy {} |s, y| ((if s > 0.0 { s } else { 0.0 }) - y * s) + softplus_rest64(s)
);
term!(
    /// 1 where score and target call the same class.
    SameSide {} |s, y| if (s > 0.0) == (y > 0.5) { 1.0 } else { 0.0 }
);
term!(
    PoissonDeviance {} | s,
    y | {
        let log_ratio = ln64(if y > 0.0 { y } else { 1.0 }) - s;
        2.0 * ((y * log_ratio - y) + exp64(s))
    }
);
term!(GammaDeviance {} | s, y | 2.0 * (((s - ln64(y)) + y * exp64(-s)) - 1.0));
term!(
    TweedieDeviance { power } | s,
    y | {
        let (one, two) = (1.0 - power, 2.0 - power);
        2.0 * ((exp64(two * ln64(y)) / (one * two) - y * exp64(one * s) / one) + exp64(two * s) / two)
    }
);

/// Rows with one score (or prediction) each.
struct Rows<'a> {
    score: &'a [f64],
    target: &'a [f64],
    weight: Option<&'a [f32]>,
}

impl Rows<'_> {
    /// The weighted mean of a term.
    fn mean(&self, term: impl Term) -> f64 {
        let n = self.target.len();
        let mut out = [0.0; BLOCK];
        let total = add_in_order(blocks(n).map(|block| {
            let out = &mut out[..block.len()];
            fill(&term, &self.score[block.clone()], &self.target[block.clone()], out);
            match self.weight {
                None => out.iter().fold(0.0, |t, v| t + v),
                Some(w) => out.iter().zip(&w[block]).fold(0.0, |t, (v, w)| t + v * *w as f64),
            }
        }));
        total / total_weight(n, self.weight)
    }
}

/// Predictions of scores, for the metrics that are errors of a prediction.
fn predict(link: Link, scores: &[f64]) -> Cow<'_, [f64]> {
    let mut predictions = Cow::Borrowed(scores);
    match link {
        Link::Identity | Link::Softmax => {}
        Link::Sigmoid => math::sigmoid_in_place(predictions.to_mut()),
        Link::Exp => math::exp_in_place(predictions.to_mut()),
    }
    predictions
}

/// `out[i]` becomes the term of `score[i]` and `target[i]`, by vector code.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn fill<T: Term>(term: &T, score: &[f64], target: &[f64], out: &mut [f64]) {
    for ((o, s), y) in out.iter_mut().zip(score).zip(target) {
        *o = term.at(*s, *y);
    }
}

fn rmse(rows: &Rows<'_>) -> f64 {
    let plain = rows.mean(Squared { unit: 1.0 });
    if plain.is_nan() || (plain < 1e300 && plain > 1e-280) {
        return libm::sqrt(plain);
    }
    // Squares that overflow or vanish: in units of the largest error.
    let errors = rows.score.iter().zip(rows.target).map(|(p, y)| (p - y).abs());
    let unit = errors.fold(0.0, |a, b| if b > a { b } else { a });
    if unit == 0.0 || unit == f64::INFINITY {
        return unit;
    }
    libm::sqrt(rows.mean(Squared { unit })) * unit
}

fn r2(rows: &Rows<'_>) -> f64 {
    let mean = vec![weighted_mean(rows.target, rows.weight); rows.target.len()];
    let spread = rmse(&Rows { score: &mean, ..*rows });
    let error = rmse(rows);
    if spread == 0.0 {
        return if error == 0.0 { 1.0 } else { 0.0 };
    }
    1.0 - (error / spread) * (error / spread)
}

/// The area under the ROC curve: the share of pairs of a row of class 1 and one of class 0 in
/// which the first has the larger score, equal scores counting half.
fn auc(rows: &Rows<'_>) -> f64 {
    let whole = rows.target.iter().all(|y| *y == 0.0 || *y == 1.0);
    match rows.weight {
        None if whole => auc_of_counts(rows),
        _ => auc_of_weights(rows),
    }
}

/// Bits that order as the numbers do; -0 and 0 are equal.
fn order(x: f64) -> u64 {
    let bits = (x + 0.0).to_bits();
    bits ^ (((bits as i64 >> 63) as u64) | 1 << 63)
}

/// Rows that count once each: the keys of the two classes sorted apart, then merged. Exact.
fn auc_of_counts(rows: &Rows<'_>) -> f64 {
    let keys = |class: f64| {
        let of_class = rows.score.iter().zip(rows.target).filter(|r| *r.1 == class);
        let mut keys: Vec<u64> = of_class.map(|r| order(*r.0)).collect();
        keys.sort_unstable();
        keys
    };
    let (zeros, ones) = (keys(0.0), keys(1.0));
    let (mut below, mut not_above, mut twice) = (0, 0, 0u128);
    for key in &ones {
        while below < zeros.len() && zeros[below] < *key {
            below += 1;
        }
        while not_above < zeros.len() && zeros[not_above] <= *key {
            not_above += 1;
        }
        twice += (below + not_above) as u128;
    }
    twice as f64 / (2.0 * zeros.len() as f64 * ones.len() as f64)
}

/// Rows with weights, sorted by score and then by weight, so that their order leaves no trace.
fn auc_of_weights(rows: &Rows<'_>) -> f64 {
    let mut sorted: Vec<(u64, u64, u64)> = (0..rows.target.len())
        .map(|i| {
            let (w, y) = (rows.weight.map_or(1.0, |w| w[i] as f64), rows.target[i]);
            // Weights are not negative, so their bits order as they do.
            (order(rows.score[i]), (w * y + 0.0).to_bits(), (w * (1.0 - y) + 0.0).to_bits())
        })
        .collect();
    sorted.sort_unstable();
    let (mut area, mut ones, mut zeros) = (0.0, 0.0, 0.0);
    for tied in sorted.chunk_by(|a, b| a.0 == b.0) {
        let (one, zero) = tied.iter().fold((0.0, 0.0), |t, r| (t.0 + f64::from_bits(r.1), t.1 + f64::from_bits(r.2)));
        area += one * (zeros + 0.5 * zero);
        ones += one;
        zeros += zero;
    }
    area / (ones * zeros)
}

fn accuracy(scores: &[Vec<f64>], rows: &Rows<'_>) -> f64 {
    let right = |i: usize| {
        let best = (1..scores.len()).fold(0, |best, k| if scores[k][i] > scores[best][i] { k } else { best });
        if best as f64 == rows.target[i] { rows.weight.map_or(1.0, |w| w[i] as f64) } else { 0.0 }
    };
    let n = rows.target.len();
    sum(n, right) / total_weight(n, rows.weight)
}

/// The mean of `ln Σ exp(score_k) - score_y`.
fn multiclass(scores: &[Vec<f64>], rows: &Rows<'_>) -> f64 {
    let n = rows.target.len();
    let (mut top, mut total) = ([0.0; BLOCK], [0.0; BLOCK]);
    let loss = add_in_order(blocks(n).map(|block| {
        let (top, total) = (&mut top[..block.len()], &mut total[..block.len()]);
        top.copy_from_slice(&scores[0][block.clone()]);
        total.fill(0.0);
        for s in &scores[1..] {
            math::raise(top, &s[block.clone()]);
        }
        for s in scores {
            add_exp(total, &s[block.clone()], top);
        }
        take_ln(total);
        block.enumerate().fold(0.0, |loss, (j, i)| {
            let own = scores.get(rows.target[i] as usize).map_or(f64::NAN, |s| s[i]);
            loss + rows.weight.map_or(1.0, |w| w[i] as f64) * (total[j] + (top[j] - own))
        })
    }));
    loss / total_weight(n, rows.weight)
}

/// Adds `exp(score - top)`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn add_exp(total: &mut [f64], score: &[f64], top: &[f64]) {
    for ((t, s), m) in total.iter_mut().zip(score).zip(top) {
        *t += exp64(*s - *m);
    }
}

/// Each value becomes its logarithm.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn take_ln(values: &mut [f64]) {
    for v in values {
        *v = ln64(*v);
    }
}

#[cfg(test)]
mod tests;
