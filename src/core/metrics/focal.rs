//! The focal loss of two classes.

use super::kind::{ERROR, Metric};
use super::rows::{Rows, term};
use crate::numerics::math::{exp64, softplus64};
use crate::objective::Link;

pub(super) const METRIC: Metric = Metric { fits: |link| link == Link::Sigmoid, value: focal, ..ERROR };

fn focal(rows: &Rows<'_>) -> f64 {
    let params = rows.params.focal;
    rows.mean(&rows.log_odds(0), Focal { gamma: params.gamma, one: params.balance(1.0), zero: params.balance(0.0) })
}

term!(
    /// -balance q^γ ln p, with the probability p of the row's class.
    Focal { gamma, one, zero } |s, y| {
        let (z, balance) = if y > 0.5 { (s, one) } else { (-s, zero) };
        balance * exp64(-(gamma * softplus64(z))) * softplus64(-z)
    }
);
