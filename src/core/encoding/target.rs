//! Target encoding: a category becomes the mean of a target over rows that count, drawn towards a
//! prior.
//!
//! ```text
//! value = (Σ target·w + prior·prior_weight) / (Σ w + prior_weight)
//! ```
//!
//! Which rows count is the [`EncodingKind`]: `ordered` as in CatBoost (Prokhorenkova et al. 2018), `kfold`
//! as in scikit-learn's `TargetEncoder`, `loo` and `full`.

mod input;
mod params;
mod plan;

pub use input::{EncodingInput, EncodingTarget, Prepared, UncodedInput};
pub use params::{Auto, EncodingKind, PriorWeight, TargetParams};
pub use plan::{EncodingPlan, Order, check_folds, nothing_outside, places_in};

use self::input::prepared_bytes;
use super::group::{self, Smoothing, totals};
use super::ordered;
use super::permutation::hash;
use super::statistic::{Moments, Statistic, total, with_statistic};
use crate::error::Result;
use crate::memory::{self, product, sum};
use crate::pages;
use crate::parallel::numbered;
use std::ops::AddAssign;

/// Rows of a piece of work.
const PIECE: usize = 1 << 13;

/// Returns the encoded value of each row; a vector for each output of the target.
///
/// # Errors
/// [`Error::Data`](crate::Error::Data) for lengths that differ, weights that are all zero, and folds outside of which
/// there are no rows; [`Error::Parameter`](crate::Error::Parameter) for parameters out of range.
///
/// # Panics
/// When a code is not below the number of categories, or a fold not below that of folds.
///
/// ```
/// use taiga_core::encoding::target::{EncodingInput, EncodingTarget, Order, EncodingPlan, TargetParams, target_encode};
/// let input = EncodingInput { codes: &[0; 4], categories: 1, target: EncodingTarget::Flags(&[0, 1, 1, 0]), weight: None };
/// let params = TargetParams { prior: Some(0.05), ..Default::default() };
/// let values = target_encode(&input, &EncodingPlan::Ordered(vec![Order::Rows]), &params).unwrap();
/// assert_eq!(values[0], [0.05, 0.025, 1.05 / 3.0, 2.05 / 4.0]);
/// ```
pub fn target_encode(input: &EncodingInput<'_>, plan: &EncodingPlan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
    params.validate()?;
    input.check()?;
    let (rows, outputs) = (input.codes.len(), input.target.outputs());
    // Rows are dealt to buckets where they have another order than their own.
    let dealt = if matches!(plan, EncodingPlan::Ordered(orders) if orders.iter().any(|o| !matches!(o, Order::Rows))) { 8 } else { 0 };
    let what = format!("the encoding of {rows} rows by {outputs} numbers each");
    let bytes = product(&[rows as u64, sum(&[product(&[8, outputs as u64]), prepared_bytes(input.target, input.weight, params), dealt])]);
    let _reserved = memory::reserve(&what, bytes, "encode fewer rows, or a target of fewer classes")?;
    let prepared = Prepared::new(input.target, input.weight, params);
    let mut out = (0..outputs).map(|_| pages::try_zeroed("encoded values", rows)).collect::<Result<Vec<Vec<f64>>>>()?;
    if rows > 0 {
        match plan {
            EncodingPlan::Ordered(orders) => ordered(input, &prepared, orders, params, &mut out)?,
            EncodingPlan::Folds(..) | EncodingPlan::RandomFolds(..) => {
                if let Some((folds, count)) = plan.folds(rows)? {
                    by_fold(input, &prepared, &folds, count, params, &mut out)?;
                }
            }
            EncodingPlan::Plain => {
                for (statistic, out) in prepared.statistics().iter().zip(&mut out) {
                    with_statistic!(statistic, |s| plain(s, input, params, out))?;
                }
            }
        }
    }
    Ok(out)
}

/// Returns the value of each category from all its rows, category after category with a value for each output; and the priors,
/// which are the values of what was never seen.
///
/// # Errors
/// As [`target_encode`].
pub fn category_values(input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<f64>, Vec<f64>)> {
    params.validate()?;
    input.check()?;
    let (rows, categories, outputs) = (input.codes.len(), input.categories, input.target.outputs());
    // Values of all classes, and sums and values of one.
    let table = product(&[categories as u64, sum(&[product(&[8, outputs as u64]), 16 + 8])]);
    let bytes = sum(&[table, product(&[rows as u64, prepared_bytes(input.target, input.weight, params)])]);
    let what = format!("an encoder of {categories} categories by {outputs} numbers each");
    let _reserved = memory::reserve(&what, bytes, "encode rare categories together, or a target of fewer classes")?;
    let prepared = Prepared::new(input.target, input.weight, params);
    let mut values = pages::try_filled("the values of an encoder", 0.0, categories * outputs)?;
    let mut priors = vec![];
    for (k, statistic) in prepared.statistics().iter().enumerate() {
        let (column, prior) = with_statistic!(statistic, |s| {
            let (sums, smoothing) = by_category(s, input, params)?;
            let values: Vec<f64> = full_values(s, sums, &smoothing);
            (values, smoothing.prior / smoothing.scale)
        });
        for (category, value) in column.into_iter().enumerate() {
            values[category * outputs + k] = value;
        }
        priors.push(prior);
    }
    Ok((values, priors))
}

/// Returns the prior and its weight where the rows that count have these sums.
fn smoothing<S: Statistic>(statistic: &S, all: S::Sum, params: &TargetParams) -> Result<Smoothing> {
    Ok(smoothing_of(statistic.read(all), statistic.units(), statistic.centre(), params))
}

/// Returns the same from sums that are read already.
pub fn smoothing_of(m: Moments, (scale, weight_scale): (f64, f64), centre: f64, params: &TargetParams) -> Smoothing {
    let mean = if m.weight > 0.0 { m.target / m.weight } else { 0.0 };
    Smoothing {
        weight: match params.prior_weight {
            PriorWeight::Fixed(weight) => Some(weight * weight_scale),
            PriorWeight::Named(Auto::Auto) => None,
        },
        prior: params.prior.map_or(mean, |prior| prior * scale),
        variance: if m.weight > 0.0 { group::variance(m, centre) } else { 0.0 },
        centre,
        scale,
        weight_scale,
    }
}

fn ordered(
    input: &EncodingInput<'_>,
    prepared: &Prepared<'_>,
    orders: &[Order],
    params: &TargetParams,
    out: &mut [Vec<f64>],
) -> Result<()> {
    let (codes, categories) = (input.codes, input.categories);
    let statistics = prepared.statistics();
    for order in orders {
        // What a row is sorted by, where that is not its number.
        let places: Vec<u32>;
        let key: Option<Box<dyn Fn(usize) -> u32 + Sync>> = match order {
            Order::Rows => None,
            Order::Random(random) => Some(Box::new(|row| hash(*random, row))),
            Order::Given(order) => {
                places = places_in(order, codes.len())?;
                Some(Box::new(|row| places[row]))
            }
        };
        for (statistic, out) in statistics.iter().zip(&mut *out) {
            with_statistic!(statistic, |s| {
                let smoothing = smoothing(s, total(s, codes.len()), params)?;
                ordered::add(s, codes, categories, key.as_deref(), &smoothing, out);
            });
        }
    }
    if orders.len() > 1 {
        let each = 1.0 / orders.len() as f64;
        out.iter_mut().for_each(|out| numbered::for_each_chunk(out, PIECE, |_, out| out.iter_mut().for_each(|x| *x *= each)));
    }
    Ok(())
}

fn by_fold(
    input: &EncodingInput<'_>,
    prepared: &Prepared<'_>,
    folds: &[u32],
    count: usize,
    params: &TargetParams,
    out: &mut [Vec<f64>],
) -> Result<()> {
    let (codes, categories, rows) = (input.codes, input.categories, input.codes.len());
    let mut sorted: Option<Vec<u64>> = None;
    for (statistic, out) in prepared.statistics().iter().zip(out) {
        with_statistic!(statistic, |s| {
            // Where cells of a category and a fold each fit, the sums of all else follow from them.
            let cell = |row: usize| codes[row] as usize * count + folds[row] as usize;
            let cells = group::is_small(s, categories.saturating_mul(count)).then(|| totals(s, rows, categories * count, cell));
            let by_fold = match &cells {
                Some(cells) => (0..count).map(|fold| added(cells.iter().skip(fold).step_by(count))).collect(),
                None => totals(s, rows, count, |row| folds[row] as usize),
            };
            let all = added(&by_fold);
            let smoothings = by_fold
                .into_iter()
                .enumerate()
                .map(|(fold, sum)| {
                    let mut others = all;
                    others -= sum;
                    if s.read(others).weight <= 0.0 {
                        return Err(nothing_outside(fold));
                    }
                    smoothing(s, others, params)
                })
                .collect::<Result<Vec<Smoothing>>>()?;
            if let Some(cells) = cells {
                let mut values = vec![0f64; cells.len()];
                let piece = count * PIECE.div_ceil(count);
                numbered::for_each_chunk(&mut values, piece, |i, values| {
                    for (cells, values) in cells[i * piece..].chunks(count).zip(values.chunks_mut(count)) {
                        let all = added(cells);
                        for (fold, cell) in cells.iter().enumerate() {
                            let mut others = all;
                            others -= *cell;
                            values[fold] = smoothings[fold].value(s.read(others));
                        }
                    }
                });
                each_row(out, |row, out| *out = values[cell(row)]);
            } else if !ordered::by_fold(s, codes, categories, folds, &smoothings, out) {
                let sorted = sorted.get_or_insert_with(|| group::sorted_rows(codes, categories));
                group::folds_sorted(s, sorted, folds, &smoothings, out);
            }
        });
    }
    Ok(())
}

/// Calls `visit(row, value)` for each row, on all threads.
fn each_row(out: &mut [f64], visit: impl Fn(usize, &mut f64) + Sync) {
    numbered::for_each_chunk(out, PIECE, |i, out| (i * PIECE..).zip(out).for_each(|(row, out)| visit(row, out)));
}

/// Returns the sum of sums.
fn added<'a, T: Copy + Default + AddAssign + 'a>(sums: impl IntoIterator<Item = &'a T>) -> T {
    sums.into_iter().fold(T::default(), |mut all, sum| {
        all += *sum;
        all
    })
}

/// Returns the sums of each category, and the smoothing that follows from those of all.
fn by_category<S: Statistic>(statistic: &S, input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<S::Sum>, Smoothing)> {
    let sums = totals(statistic, input.codes.len(), input.categories, |row| input.codes[row] as usize);
    let smoothing = smoothing(statistic, added(&sums), params)?;
    Ok((sums, smoothing))
}

/// Returns the value of each category from all its rows.
fn full_values<S: Statistic>(statistic: &S, sums: Vec<S::Sum>, smoothing: &Smoothing) -> Vec<f64> {
    let mut values = vec![0.0; sums.len()];
    each_row(&mut values, |category, value| *value = smoothing.value(statistic.read(sums[category])));
    values
}

/// Encodes by `loo` or `full`: writes each row's value to `out`.
fn plain<S: Statistic>(statistic: &S, input: &EncodingInput<'_>, params: &TargetParams, out: &mut [f64]) -> Result<()> {
    let codes = input.codes;
    let (sums, smoothing) = by_category(statistic, input, params)?;
    if params.kind == EncodingKind::Full {
        let values = full_values(statistic, sums, &smoothing);
        each_row(out, |row, out| *out = values[codes[row] as usize]);
        return Ok(());
    }
    each_row(out, |row, out| {
        let mut others = sums[codes[row] as usize];
        others -= statistic.of(row);
        *out = smoothing.value(statistic.read(others));
    });
    Ok(())
}
