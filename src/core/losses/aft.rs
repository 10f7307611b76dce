//! Accelerated failure time models.

use super::pointwise::{SMALLEST_HESSIAN, clamp, weigh};
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::censored::{Distribution, derivatives};
use crate::numerics::reduce::sum;
use crate::objective::{AftParams, Link};
use multiversion::multiversion;

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::Numbers, formula: "aft", groups: false, make: |s| Box::new(Aft::new(s.params.aft)) };

/// The negative log likelihood of a time's bounds where `(ln time - score) / scale` has the distribution (Wei, "The accelerated failure time
/// model", 1992; Barnwal, Cho and Hocking, "Survival regression with accelerated failure time model in XGBoost", 2022): of a density where the
/// event was seen, of what lies between the bounds where it was censored.
///
/// Far from a row's time the logistic's and the extreme value's curvature vanishes while their slope does not, so that Newton's step would
/// lead anywhere. The hessian is therefore at least that of a parabola of the same slope whose lowest point lies at the nearer bound, or one
/// scale away where the score is nearer to it than that: no row by itself asks for a longer step.
///
/// Times the scale, the gradient stays within ±15, XGBoost's limit at a scale of 1: one row far out would else be all that a tree sees. What
/// is beyond has that parabola's hessian as well, cut alike, so that its own step leads to the bound: Newton's step on the extreme value's
/// exponential is one scale, however far the bound is.
///
/// Derivatives read the logarithms of both bounds, as columns.
#[derive(Clone, Copy, Debug)]
pub struct Aft {
    params: AftParams,
    scale: f32,
}

/// The largest derivative, in units of the scale.
const LARGEST_DERIVATIVE: f64 = 15.0;

impl Aft {
    /// `params.scale`: positive.
    pub fn new(params: AftParams) -> Aft {
        Aft { params, scale: clamp(params.scale as f32, f32::MIN_POSITIVE, f32::MAX) }
    }

    /// Returns gradient and hessian of a row whose time has bounds of these logarithms.
    #[inline(always)]
    fn at(&self, score: f32, lower: f32, upper: f32) -> (f32, f32) {
        let scale = f64::from(self.scale);
        let z = |bound: f32| (f64::from(bound) - f64::from(score)) / scale;
        let (lower, upper) = (z(lower), z(upper));
        let (first, second) = derivatives(self.params.distribution, lower, upper);
        let size = first.abs();
        // From the score to the nearer bound, where it is outside of both; one at least.
        let below = if lower > 1.0 { lower } else { 1.0 };
        let apart = if upper < -1.0 { -upper } else { below };
        let touching = size / apart;
        let second = if second < touching || size > LARGEST_DERIVATIVE { touching } else { second };
        let by = if size > LARGEST_DERIVATIVE { LARGEST_DERIVATIVE / size } else { 1.0 };
        let (first, second) = (first * by, second * by);
        let second = if second > LARGEST_DERIVATIVE { LARGEST_DERIVATIVE } else { second };
        let (gradient, hessian) = ((first / scale) as f32, (second / (scale * scale)) as f32);
        (clamp(gradient, -f32::MAX, f32::MAX), clamp(hessian, SMALLEST_HESSIAN, f32::MAX))
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn plain(loss: &Aft, scores: &[f32], [lower, upper]: [&[f32]; 2], gradient: &mut [f32], hessian: &mut [f32]) {
    for ((((s, l), u), g), h) in scores.iter().zip(lower).zip(upper).zip(gradient).zip(hessian) {
        (*g, *h) = loss.at(*s, *l, *u);
    }
}

impl Loss for Aft {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        let &[lower, upper] = rows.columns else { return };
        plain(self, rows.scores[0], [lower, upper], gradient, hessian);
        if let Some(weight) = rows.weight {
            weigh(weight, gradient, hessian);
        }
    }

    fn formula(&self, _output: usize) -> Formula {
        let distribution = Distribution::ALL.iter().position(|d| *d == self.params.distribution).unwrap_or_default();
        Formula { a: self.scale, classes: distribution as u32, ..Formula::new(ENTRY.formula) }
    }

    fn reads_times(&self) -> bool {
        true
    }

    fn of_bounds(&self) -> bool {
        true
    }

    /// The logarithm of a bound.
    fn column_value(&self, bound: f64) -> f64 {
        libm::log(bound)
    }

    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        let times = target.to_vec();
        self.start_with(target, weight, &[times.clone(), times])
    }

    /// The minimiser between the least and the largest logarithm of a bound, by Newton's method inside that bracket; 0 where all times have no
    /// bounds.
    fn start_with(&self, _target: &[f64], weight: Option<&[f32]>, columns: &[Vec<f64>]) -> Vec<f64> {
        let [lower, upper] = columns else { return vec![0.0] };
        let counts = |i: &usize| weight.is_none_or(|w| w[*i] > 0.0);
        let bounds = (0..lower.len()).filter(counts).flat_map(|i| [libm::log(lower[i]), libm::log(upper[i])]).filter(|x| x.is_finite());
        let (mut low, mut high) = bounds.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        if low > high {
            return vec![0.0];
        }
        let scale = f64::from(self.scale);
        let logs: Vec<(f64, f64)> = lower.iter().zip(upper).map(|(l, u)| (libm::log(*l), libm::log(*u))).collect();
        let mut at = low * 0.5 + high * 0.5;
        for _ in 0..60 {
            let of_row = |i: usize| {
                let (l, u) = logs[i];
                let (first, second) = derivatives(self.params.distribution, (l - at) / scale, (u - at) / scale);
                let w = weight.map_or(1.0, |w| f64::from(w[i]));
                (w * first, w * second)
            };
            let (slope, curvature) = (sum(logs.len(), |i| of_row(i).0), sum(logs.len(), |i| of_row(i).1));
            if slope == 0.0 {
                break;
            }
            if slope > 0.0 {
                high = at
            } else {
                low = at
            }
            let newton = at - scale * (slope / curvature);
            let next = if newton > low && newton < high { newton } else { low * 0.5 + high * 0.5 };
            let is_done = (next - at).abs() <= 1e-12 * (1.0 + at.abs());
            at = next;
            if is_done {
                break;
            }
        }
        vec![at]
    }

    fn link(&self) -> Link {
        Link::Time
    }

    fn metric(&self) -> MetricKind {
        MetricKind::AftNloglik
    }

    fn check_target(&self, target: f64) -> Result<(), &'static str> {
        check_time(target)
    }
}

/// Whether a target is a time.
pub(super) fn check_time(target: f64) -> Result<(), &'static str> {
    if (0.0..=1e30).contains(&target) { Ok(()) } else { Err("a time is a number from 0 to 1e30") }
}
