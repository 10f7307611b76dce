//! The focal loss of two classes.

use super::cross_entropy::SMALLEST_SHARE;
use super::pointwise::{Pointwise, SMALLEST_HESSIAN, clamp};
use super::{Formula, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::numerics::math;
use crate::numerics::reduce::{sum, total_weight};
use crate::objective::{FocalParams, Link};

pub(super) const ENTRY: LossEntry =
    LossEntry { target: LossTarget::TwoClasses, formula: "focal", groups: false, make: |s| Box::new(Focal::new(s.params.focal)) };

/// `-balance · q^γ ln p`, with `p` the probability of the row's class and `q = 1 - p`: the log loss, of which rows that are predicted
/// well have a smaller part (Lin, Goyal, Girshick, He and Dollár, "Focal Loss for Dense Object Detection", 2017). `balance` is
/// `focal_alpha` for class 1 and `1 - focal_alpha` for class 0; 1 for both where there is none.
///
/// Gradient with respect to the class's log odds: `-q^γ (q - γ p ln p)`. Second derivative:
/// `q^γ p (q (1 + 2 γ) + γ ln p (q - γ p))`, which is negative for rows that are predicted badly, where the loss is concave. So the hessian is
/// the larger of that and `p` times the gradient's size: the curvature that the loss has as a growing function of the convex
/// `-ln p`, without that function's own (generalised Gauss-Newton; Schraudolph, "Fast Curvature Matrix-Vector Products for
/// Second-Order Gradient Descent", 2002). At γ = 0 both are the log loss's.
pub(super) struct Focal {
    params: FocalParams,
    gamma: f32,
    /// The share of class 1 in the balance; negative where there is none.
    alpha: f32,
}

impl Focal {
    pub(super) fn new(params: FocalParams) -> Self {
        Focal { params, gamma: params.gamma as f32, alpha: params.alpha.map_or(-1.0, |a| a as f32) }
    }
}

/// Log odds beyond which a probability is 0 in f32.
const LARGEST_LOG_ODDS: f32 = 105.0;

impl Pointwise for Focal {
    #[inline(always)]
    fn at(&self, score: f32, target: f32) -> (f32, f32) {
        let of_one = target > 0.5;
        // The log odds of the row's class.
        let z = clamp(if of_one { score } else { -score }, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS);
        let (low, high) = math::sigmoid_pair(z);
        let (p, q) = if z < 0.0 { (low, high) } else { (high, low) };
        // ln(1 + exp(-|z|)): the logarithm of the rounded sum, and what the rounding left over (Kahan).
        let e = math::exp(-z.abs());
        let u = 1.0 + e;
        let rest = math::ln(u) + (e - (u - 1.0)) / u;
        // -ln p and -ln q.
        let (cost, other) = if z < 0.0 { (rest - z, rest) } else { (rest, rest + z) };
        let focus = math::exp(-(self.gamma * other));
        let slope = focus * (q + self.gamma * (p * cost));
        let second = focus * p * (q * (1.0 + 2.0 * self.gamma) - self.gamma * cost * (q - self.gamma * p));
        let outer = slope * p;
        let hessian = if second < outer { outer } else { second };
        let own = if of_one { self.alpha } else { 1.0 - self.alpha };
        let balance = if self.alpha < 0.0 { 1.0 } else { own };
        let (slope, hessian) = (balance * slope, balance * hessian);
        (if of_one { -slope } else { slope }, if hessian < SMALLEST_HESSIAN { SMALLEST_HESSIAN } else { hessian })
    }
}

/// The size of the gradient of a row whose class has the log odds `z`, without its balance.
fn slope(gamma: f64, z: f64) -> f64 {
    let (p, q) = (math::sigmoid64(z), math::sigmoid64(-z));
    libm::exp(-gamma * math::softplus64(z)) * (q + gamma * p * math::softplus64(-z))
}

impl Loss for Focal {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        Pointwise::derivatives(self, rows, gradient, hessian);
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula { a: self.gamma, b: self.alpha, ..Formula::new(ENTRY.formula) }
    }

    /// The log odds with the least loss, by halving; at γ = 0 those of class 1. No probability is below 10⁻¹⁵.
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        let weigh = |i: usize| weight.map_or(1.0, |w| w[i] as f64);
        let total = total_weight(target.len(), weight);
        let one = self.params.balance(1.0) * sum(target.len(), |i| weigh(i) * target[i]);
        let zero = self.params.balance(0.0) * sum(target.len(), |i| weigh(i) * (1.0 - target[i]));
        let limit = libm::log((1.0 - SMALLEST_SHARE) / SMALLEST_SHARE);
        let (mut low, mut high) = if total > 0.0 { (-limit, limit) } else { (0.0, 0.0) };
        for _ in 0..64 {
            let middle = 0.5 * (low + high);
            let rises = zero * slope(self.params.gamma, -middle) > one * slope(self.params.gamma, middle);
            (low, high) = if rises { (low, middle) } else { (middle, high) };
        }
        vec![0.5 * (low + high)]
    }

    fn link(&self) -> Link {
        Link::Sigmoid
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Focal
    }

    fn check_target(&self, target: f64) -> Result<(), &'static str> {
        if target == 0.0 || target == 1.0 { Ok(()) } else { Err("loss=\"focal\" needs two classes, 0 and 1") }
    }
}
