//! Weight of evidence and information value (Good 1950; Siddiqi, *Credit Risk Scorecards*, 2006).
//!
//! With events (target true) and non-events of a category, E and N those of all rows, and s the
//! smoothing:
//!
//! ```text
//! p   = (events + s) / (E + 2 s)          the category's share of the events
//! q   = (non-events + s) / (N + 2 s)      … and of the non-events
//! woe = ln(p / q)                         information value = Σ over categories of (p - q) · woe
//! ```

use super::group::totals;
use super::statistic::{AnyStatistic, Flags, Statistic, check_finite, total, with_statistic};
use crate::error::{Error, Result};
use crate::memory;
use crate::numerics::math::ln64;

/// The weight of evidence of each category of a Boolean target.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// The weight of evidence of each category.
    pub woe: Vec<f64>,
    /// The information value of the column.
    pub information_value: f64,
}

/// Returns the evidence of categories for `flags`. Without smoothing a category with only events has infinite weight of evidence,
/// one with only non-events minus infinity; a category without any weight has 0.
///
/// # Errors
/// [`Error::Data`] when the lengths differ, weights can't be weights, or the target is the same in
/// all rows that weigh something.
///
/// ```
/// use taiga_core::encoding::woe::evidence;
/// let e = evidence(&[0, 0, 1, 1], 2, &[1, 0, 0, 0], None, 0.5).unwrap();
/// assert!((e.woe[0] - (1.5f64 / 2.0 / (1.5 / 4.0)).ln()).abs() < 1e-14);
/// ```
pub fn evidence(codes: &[u32], categories: usize, flags: &[u8], weight: Option<&[f64]>, smoothing: f64) -> Result<Evidence> {
    let rows = codes.len();
    for (what, len) in [("target", flags.len()), ("weight", weight.map_or(rows, <[f64]>::len))] {
        if len != rows {
            return Err(Error::Data(format!("the {what} has {len} rows and the categories have {rows}")));
        }
    }
    let of_rows = if weight.is_some() { 8 * rows as u64 } else { 0 };
    let bytes = memory::sum(&[of_rows, memory::product(&[categories as u64, 16 + 8])]);
    let _reserved = memory::reserve(&format!("the evidence of {categories} categories"), bytes, "encode rare categories together")?;
    let numbers: Vec<f64>;
    let statistic = match weight {
        None => AnyStatistic::Flags(Flags(flags)),
        Some(weight) => {
            check_finite("weight", weight, false)?;
            numbers = flags.iter().map(|f| *f as f64).collect();
            AnyStatistic::numbers(&numbers, Some(weight), false, 0.0)
        }
    };
    with_statistic!(&statistic, |s| of(s, codes, categories, smoothing))
}

fn of<S: Statistic>(statistic: &S, codes: &[u32], categories: usize, smoothing: f64) -> Result<Evidence> {
    let (scale, weight_scale) = statistic.units();
    let split = |sum: S::Sum| {
        let m = statistic.read(sum);
        let events = m.target / scale;
        (events, (m.weight - events).max(0.0))
    };
    let (all_events, all_others) = split(total(statistic, codes.len()));
    if !codes.is_empty() && (all_events <= 0.0 || all_others <= 0.0) {
        return Err(Error::Data("the target is the same in all rows; weight of evidence needs both values".into()).degenerate());
    }
    let s = smoothing * weight_scale;
    let mut information_value = 0.0;
    let sums = totals(statistic, codes.len(), categories, |row| codes[row] as usize);
    let woe = sums.into_iter().map(|sum| {
        let (events, others) = split(sum);
        let p = (events + s) / (all_events + 2.0 * s);
        let q = (others + s) / (all_others + 2.0 * s);
        let woe = match (p > 0.0, q > 0.0) {
            (true, true) => ln64(p) - ln64(q),
            (true, false) => f64::INFINITY,
            (false, true) => f64::NEG_INFINITY,
            (false, false) => 0.0,
        };
        information_value += if p == q { 0.0 } else { (p - q) * woe };
        woe
    });
    Ok(Evidence { woe: woe.collect(), information_value })
}
