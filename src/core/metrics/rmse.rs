//! The root of the mean squared error.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};

pub(super) const METRIC: Metric = Metric { value: |rows| root_mean_square(rows, &rows.predictions()), ..ERROR };

term!(
    /// The squared error in units of `unit`.
    Squared { unit } |p, y| ((p - y) / unit) * ((p - y) / unit)
);

/// Computes the root of the weighted mean of the squared differences of `score` and the targets.
pub(super) fn root_mean_square(rows: &Rows<'_>, score: &[f64]) -> f64 {
    let plain = rows.mean(score, Squared { unit: 1.0 });
    if plain.is_nan() || (plain < 1e300 && plain > 1e-280) {
        return libm::sqrt(plain);
    }
    // Squares that overflow or vanish: in units of the largest error.
    let errors = score.iter().zip(rows.target).map(|(p, y)| (p - y).abs());
    let unit = errors.fold(0.0, |a, b| if b > a { b } else { a });
    if unit == 0.0 || unit == f64::INFINITY {
        return unit;
    }
    libm::sqrt(rows.mean(score, Squared { unit })) * unit
}
