//! What the losses of differences `score - target` share that have no closed form for the best constant.

use crate::numerics::reduce::{sum, weighted_quantile};

/// Finds the constant with the least weighted loss, for a convex loss of the residual `(constant - target) / unit` that has these
/// two derivatives: by Newton's method from the weighted median on, kept inside a bracket that shrinks with each step, a few passes
/// over the targets.
pub(super) fn minimiser(
    target: &[f64],
    weight: Option<&[f32]>,
    unit: f64,
    first: impl Fn(f64) -> f64 + Sync,
    second: impl Fn(f64) -> f64 + Sync,
) -> f64 {
    let n = target.len();
    let mut at = weighted_quantile(target, weight, 0.5);
    let weight = |i: usize| weight.map_or(1.0, |w| w[i] as f64);
    let counted = (0..n).filter(|i| weight(*i) > 0.0).map(|i| target[i]);
    let (mut low, mut high) = counted.fold((at, at), |(a, b), y| (a.min(y), b.max(y)));
    for _ in 0..60 {
        let residual = |i: usize| (at - target[i]) / unit;
        let slope = sum(n, |i| weight(i) * first(residual(i)));
        let curvature = sum(n, |i| weight(i) * second(residual(i)));
        if slope == 0.0 {
            break;
        }
        if slope > 0.0 {
            high = at
        } else {
            low = at
        }
        let newton = at - unit * (slope / curvature);
        let next = if newton > low && newton < high { newton } else { low * 0.5 + high * 0.5 };
        let done = (next - at).abs() <= 1e-14 * at.abs();
        at = next;
        if done {
            break;
        }
    }
    at
}
