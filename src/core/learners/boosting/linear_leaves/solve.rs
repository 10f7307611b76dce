//! The least of the quadratic form of a leaf's rows.

use super::MOST_COLUMNS;
use super::equations::{LeafColumns, Units};
use super::paths::PathColumn;
use crate::tree::linear::LinearLeaf;

/// The least share of the mean square of a column in a leaf, measured from one of its values, that its variance has if it varies.
const VARIES: f64 = 1e-12;

/// The least share of the variance of a column that is not told by the columns before it, if it is no function of these.
const OWN_VARIANCE: f64 = 1e-9;

/// How many times the roundings of its sums the variance of a column is at the least, if it varies.
const ABOVE_ROUNDING: f64 = 1e6;

impl LeafColumns {
    /// Returns the function of the columns of `path` that the sums of its rows come to, the learning rate `rate` included, as leaf 0 of tree 0; none
    /// where there is none. Its numbers may not be finite. It reads all of these columns, those that it does not depend on too: it was made without
    /// the rows that lack one, which are so told apart.
    pub fn function(
        &self,
        path: &[PathColumn],
        (count, numbers): (i64, &[[i64; 2]]),
        units: &Units,
        (l2, rate): (f64, f64),
    ) -> Option<LinearLeaf> {
        let l2: Vec<f64> = self.scales.iter().map(|scale| if l2 > 0.0 { l2 * scale * scale } else { 0.0 }).collect();
        let sums = units.sums(path.len(), numbers);
        let (mut constant, means, coefficients) = solve((count, &sums), &l2, ABOVE_ROUNDING * units.resolution())?;
        let mut terms = vec![];
        for (i, own) in path.iter().enumerate() {
            let coefficient = coefficients[i] * self.scales[i];
            constant -= coefficients[i] * means[i];
            constant -= coefficient * self.origins[i];
            // Not -0.
            terms.push((own.column, coefficient * rate + 0.0));
        }
        let varies = terms.iter().any(|(_, coefficient)| *coefficient != 0.0);
        varies.then_some(LinearLeaf { tree: 0, leaf: 0, constant: constant * rate, terms })
    }
}

/// The least of the quadratic form that a leaf's sums are of: the value where all columns have their means, the means, and the coefficients. A
/// column that does not vary, by more than `least`, or that is a function of those before it, has none (0). None where rows are fewer than columns
/// and 1.
fn solve((count, sums): (i64, &[f64]), l2: &[f64], least: f64) -> Option<(f64, Vec<f64>, Vec<f64>)> {
    let n = l2.len();
    let (totals, rest) = sums.split_at(2);
    let (of_hessian, rest) = rest.split_at(n);
    let (of_gradient, of_pairs) = rest.split_at(n);
    let [hessian, gradient] = [totals[0], totals[1]];
    if count <= n as i64 || hessian <= 0.0 {
        return None;
    }
    let means: Vec<f64> = of_hessian.iter().map(|sum| sum / hessian).collect();
    // The matrix is L D Lᵀ, and `solved` the solution of L first.
    let (mut lower, mut diagonal, mut solved) = (vec![[0.0; MOST_COLUMNS]; n], vec![0.0; n], vec![0.0; n]);
    let mut kept: Vec<usize> = Vec::with_capacity(n);
    for i in 0..n {
        let pairs = &of_pairs[i * (i + 1) / 2..];
        let square = pairs[i];
        let variance = square - of_hessian[i] * means[i];
        let penalized = variance + l2[i];
        if !(variance > least + VARIES * square && penalized.is_finite()) {
            continue;
        }
        let (mut own, mut right) = (penalized, gradient * means[i] - of_gradient[i]);
        for (at, j) in kept.iter().copied().enumerate() {
            let covariance = pairs[j] - of_hessian[i] * means[j];
            let before = kept[..at].iter().fold(covariance, |left, k| left - lower[i][*k] * diagonal[*k] * lower[j][*k]);
            lower[i][j] = before / diagonal[j];
            own -= lower[i][j] * before;
            right -= lower[i][j] * solved[j];
        }
        if own > OWN_VARIANCE * penalized {
            (diagonal[i], solved[i]) = (own, right);
            kept.push(i);
        }
    }
    let mut coefficients = vec![0.0; n];
    for (at, i) in kept.iter().copied().enumerate().rev() {
        let behind = kept[at + 1..].iter().fold(0.0, |sum, k| sum + lower[*k][i] * coefficients[*k]);
        coefficients[i] = solved[i] / diagonal[i] - behind;
    }
    (!kept.is_empty()).then_some((-gradient / hessian, means, coefficients))
}
