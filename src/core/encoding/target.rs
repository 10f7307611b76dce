//! Target encoding: a category becomes the mean of a target over rows that count, drawn towards a
//! prior.
//!
//! ```text
//! value = (Σ target·w + prior·prior_weight) / (Σ w + prior_weight)
//! ```
//!
//! Which rows count is the [`Kind`]: `ordered` as in CatBoost (Prokhorenkova et al. 2018), `kfold`
//! as in scikit-learn's `TargetEncoder`, `loo` and `full`.

use super::buckets::Word;
use super::group::{self, Smoothing, totals};
use super::ordered;
use super::permutation::{hash, ranks};
use super::statistic::{AnyStatistic, Flags, Moments, Statistic, check_finite, total, with_statistic};
use crate::error::{Error, Result};
use crate::memory::{self, product, sum};
use crate::numerics::random::{Purpose, Random};
use crate::pages;
use crate::params::{Problems, from_json};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::AddAssign;

/// Which rows of its category count for a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Those before it in an order: a random one, or a given one.
    #[default]
    Ordered,
    /// Those of the other folds.
    Kfold,
    /// All but itself.
    Loo,
    /// All.
    Full,
}

/// How many rows the prior counts for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PriorWeight {
    Fixed(f64),
    /// By empirical Bayes, for each category, as scikit-learn's `smooth="auto"`.
    Named(Auto),
}

/// `"auto"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auto {
    Auto,
}

/// Parameters of [`target_encode`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TargetParams {
    pub kind: Kind,
    /// The prior; the target's mean unless told otherwise.
    pub prior: Option<f64>,
    /// How many rows the prior counts for.
    pub prior_weight: PriorWeight,
    /// Orders that are averaged over, under `ordered`.
    pub permutations: u32,
    /// The number of folds under `kfold`, unless they are given.
    pub folds: u32,
    /// The seed of orders and folds.
    pub seed: u64,
}

impl Default for TargetParams {
    fn default() -> Self {
        TargetParams { kind: Kind::Ordered, prior: None, prior_weight: PriorWeight::Fixed(1.0), permutations: 1, folds: 5, seed: 0 }
    }
}

impl TargetParams {
    /// Parameters from a JSON object; what it does not name has its default.
    ///
    /// # Errors
    /// [`Error::UnknownParameter`], [`Error::Parameter`] and [`Error::Several`], naming the parameters.
    ///
    /// ```
    /// use taiga_core::encoding::target::TargetParams;
    /// let params = TargetParams::from_json(&serde_json::json!({"kind": "kfold", "prior_weight": "auto"})).unwrap();
    /// assert_eq!(params.folds, 5);
    /// let error = TargetParams::from_json(&serde_json::json!({"prior_weight": -1})).unwrap_err();
    /// assert_eq!(error.to_string(), "parameter `prior_weight`: -1.0 is not zero or a positive number, or \"auto\"");
    /// ```
    pub fn from_json(value: &serde_json::Value) -> Result<Self> {
        from_json(value, Self::problems)
    }

    /// Checks each parameter.
    ///
    /// # Errors
    /// [`Error::Parameter`] naming the parameter, its value and what was expected; [`Error::Several`] for more than one.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Problems::default();
        self.problems(&mut problems);
        problems.result()
    }

    /// What [`TargetParams::validate`] finds.
    fn problems(&self, problems: &mut Problems) {
        if let Some(prior) = self.prior {
            problems.check(prior.is_finite(), "prior", prior, "a finite number");
        }
        if let PriorWeight::Fixed(weight) = self.prior_weight {
            problems.check(weight.is_finite() && weight >= 0.0, "prior_weight", weight, "zero or a positive number, or \"auto\"");
        }
        problems.check((1..=1000).contains(&self.permutations), "permutations", self.permutations, "between 1 and 1,000");
        problems.check(self.folds >= 2, "folds", self.folds, "at least 2");
    }
}

/// The target of an encoding.
#[derive(Clone, Copy, Debug)]
pub enum EncodingTarget<'a> {
    /// 0 and 1: one value a row.
    Flags(&'a [u8]),
    /// Finite numbers: one value a row.
    Numbers(&'a [f64]),
    /// A class for each row and the number of classes: a value a row for each class.
    Classes(&'a [u32], usize),
}

impl EncodingTarget<'_> {
    fn rows(&self) -> usize {
        match self {
            EncodingTarget::Flags(v) => v.len(),
            EncodingTarget::Numbers(v) => v.len(),
            EncodingTarget::Classes(v, _) => v.len(),
        }
    }

    /// The number of values that a row gets.
    pub fn outputs(&self) -> usize {
        match self {
            EncodingTarget::Classes(_, classes) => *classes,
            _ => 1,
        }
    }
}

/// What [`target_encode`] reads.
#[derive(Clone, Copy, Debug)]
pub struct EncodingInput<'a> {
    /// The category of each row.
    pub codes: &'a [u32],
    /// The number of categories; codes are below it.
    pub categories: usize,
    pub target: EncodingTarget<'a>,
    /// A weight for each row: finite and not negative.
    pub weight: Option<&'a [f64]>,
}

/// The order in which rows come.
#[derive(Clone, Debug)]
pub enum Order {
    /// As they are.
    Rows,
    /// That of [`super::permutation::permutation`].
    Random(Random),
    /// The rows in this order.
    Given(Vec<u32>),
}

/// Orders and folds, which columns that are encoded together share.
#[derive(Clone, Debug)]
pub enum Plan {
    /// The orders to average over.
    Ordered(Vec<Order>),
    /// The fold of each row, and the number of folds.
    Folds(Vec<u32>, usize),
    /// Nothing.
    Plain,
}

impl Plan {
    /// The random orders or folds of `rows` rows.
    ///
    /// # Errors
    /// [`Error::Parameter`] for more folds than rows.
    pub fn random(rows: usize, params: &TargetParams) -> Result<Plan> {
        let random = |purpose, stream| Random::new(params.seed, purpose, stream);
        match params.kind {
            Kind::Ordered => {
                let orders = 0..params.permutations as u64;
                Ok(Plan::Ordered(orders.map(|p| Order::Random(random(Purpose::Permutation, p))).collect()))
            }
            Kind::Kfold => {
                let folds = params.folds as usize;
                // The folds, and the rows with their hashes.
                let _reserved = memory::reserve(&format!("the folds of {rows} rows"), 12 * rows as u64, "encode fewer rows")?;
                if rows > 0 && folds > rows {
                    return Err(Error::parameter("folds", format!("{folds} are more than the {rows} rows")));
                }
                let mut fold = ranks(rows, random(Purpose::Folds, 0));
                fold.par_iter_mut().for_each(|rank| *rank = (*rank as usize * folds / rows) as u32);
                Ok(Plan::Folds(fold, folds))
            }
            Kind::Loo | Kind::Full => Ok(Plan::Plain),
        }
    }
}

/// The encoded value of each row; a vector for each output of the target.
///
/// # Errors
/// [`Error::Data`] for lengths that differ, weights that are all zero, and folds outside of which
/// there are no rows; [`Error::Parameter`] for parameters out of range.
///
/// # Panics
/// When a code is not below the number of categories, or a fold not below that of folds.
///
/// ```
/// use taiga_core::encoding::target::{EncodingInput, EncodingTarget, Order, Plan, TargetParams, target_encode};
/// let input = EncodingInput { codes: &[0; 4], categories: 1, target: EncodingTarget::Flags(&[0, 1, 1, 0]), weight: None };
/// let params = TargetParams { prior: Some(0.05), ..Default::default() };
/// let values = target_encode(&input, &Plan::Ordered(vec![Order::Rows]), &params).unwrap();
/// assert_eq!(values[0], [0.05, 0.025, 1.05 / 3.0, 2.05 / 4.0]);
/// ```
pub fn target_encode(input: &EncodingInput<'_>, plan: &Plan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
    params.validate()?;
    check_input(input)?;
    let (rows, outputs) = (input.codes.len(), input.target.outputs());
    // Rows are dealt to buckets where they have another order than their own.
    let dealt = if matches!(plan, Plan::Ordered(orders) if orders.iter().any(|o| !matches!(o, Order::Rows))) { 8 } else { 0 };
    let what = format!("the encoding of {rows} rows by {outputs} numbers each");
    let bytes = product(&[rows as u64, sum(&[product(&[8, outputs as u64]), prepared_bytes(input, params), dealt])]);
    let _reserved = memory::reserve(&what, bytes, "encode fewer rows, or a target of fewer classes")?;
    let prepared = Prepared::new(input, params.prior_weight);
    let mut out = (0..outputs).map(|_| pages::try_zeroed("encoded values", rows)).collect::<Result<Vec<Vec<f64>>>>()?;
    if rows > 0 {
        match plan {
            Plan::Ordered(orders) => ordered(input, &prepared, orders, params, &mut out)?,
            Plan::Folds(folds, count) => by_fold(input, &prepared, folds, *count, params, &mut out)?,
            Plan::Plain => {
                for (statistic, out) in prepared.statistics().iter().zip(&mut out) {
                    with_statistic!(statistic, |s| plain(s, input, params, out))?;
                }
            }
        }
    }
    Ok(out)
}

/// The value of each category from all its rows, category after category with a value for each
/// output; and the priors, which are the values of what was never seen.
///
/// # Errors
/// As [`target_encode`].
pub fn category_values(input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<f64>, Vec<f64>)> {
    params.validate()?;
    check_input(input)?;
    let (rows, categories, outputs) = (input.codes.len(), input.categories, input.target.outputs());
    // Values of all classes, and sums and values of one.
    let table = product(&[categories as u64, sum(&[product(&[8, outputs as u64]), 16 + 8])]);
    let bytes = sum(&[table, product(&[rows as u64, prepared_bytes(input, params)])]);
    let what = format!("an encoder of {categories} categories by {outputs} numbers each");
    let _reserved = memory::reserve(&what, bytes, "encode rare categories together, or a target of fewer classes")?;
    let prepared = Prepared::new(input, params.prior_weight);
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

pub fn check_input(input: &EncodingInput<'_>) -> Result<()> {
    let rows = input.codes.len();
    let lengths = [("target", Some(input.target.rows())), ("weight", input.weight.map(<[f64]>::len))];
    for (what, len) in lengths {
        if let Some(n) = len.filter(|n| *n != rows) {
            return Err(Error::Data(format!("the {what} has {n} rows and the categories have {rows}")));
        }
    }
    if let EncodingTarget::Numbers(values) = input.target {
        check_finite("target", values, true)?;
    }
    if let Some(weight) = input.weight {
        check_finite("weight", weight, false)?;
        if rows > 0 && weight.par_iter().all(|w| *w == 0.0) {
            return Err(Error::Data("all weights are zero".into()).degenerate());
        }
    }
    Ok(())
}

/// A row that weighs something, where some row weighs nothing.
fn counting(weight: &[f64]) -> Option<usize> {
    weight.par_iter().any(|w| *w == 0.0).then(|| weight.iter().position(|w| *w > 0.0)).flatten()
}

/// The target in the forms that statistics borrow.
pub struct Prepared<'a> {
    flags: Vec<Cow<'a, [u8]>>,
    numbers: Vec<Cow<'a, [f64]>>,
    weight: Option<&'a [f64]>,
    squares: bool,
}

/// Bytes a row of what [`Prepared::new`] makes.
fn prepared_bytes(input: &EncodingInput<'_>, params: &TargetParams) -> u64 {
    let numbers = params.prior_weight == PriorWeight::Named(Auto::Auto) || input.weight.is_some();
    let each = if numbers { 8 } else { 1 };
    match input.target {
        EncodingTarget::Flags(_) if numbers => 8,
        EncodingTarget::Flags(_) | EncodingTarget::Numbers(_) => 0,
        EncodingTarget::Classes(_, classes) => product(&[each, classes as u64]),
    }
}

impl<'a> Prepared<'a> {
    pub fn new(input: &EncodingInput<'a>, prior_weight: PriorWeight) -> Self {
        let squares = prior_weight == PriorWeight::Named(Auto::Auto);
        let mut prepared = Prepared { flags: vec![], numbers: vec![], weight: input.weight, squares };
        match input.target {
            EncodingTarget::Flags(v) => prepared.flags.push(v.into()),
            EncodingTarget::Numbers(v) => prepared.numbers.push(v.into()),
            EncodingTarget::Classes(codes, classes) => {
                let of = |class: usize| codes.par_iter().map(|c| (*c as usize == class) as u8).collect::<Vec<u8>>();
                prepared.flags.extend((0..classes).map(|class| Cow::Owned(of(class))));
            }
        }
        if squares || input.weight.is_some() {
            let numbers = |flags: Cow<'_, [u8]>| flags.par_iter().map(|f| *f as f64).collect::<Vec<f64>>();
            prepared.numbers.extend(std::mem::take(&mut prepared.flags).into_iter().map(|flags| Cow::Owned(numbers(flags))));
        }
        if let Some(weight) = input.weight
            && let Some(row) = counting(weight)
        {
            // A row of weight 0 is as if it were not there: no unit and no centre may know its target.
            for numbers in &mut prepared.numbers {
                let neutral = numbers[row];
                numbers.to_mut().par_iter_mut().zip(weight).filter(|(_, w)| **w == 0.0).for_each(|(y, _)| *y = neutral);
            }
        }
        prepared
    }

    /// One for each output.
    pub fn statistics(&self) -> Vec<AnyStatistic<'_>> {
        let flags = self.flags.iter().map(|f| AnyStatistic::Flags(Flags(f)));
        flags.chain(self.numbers.iter().map(|n| AnyStatistic::numbers(n, self.weight, self.squares))).collect()
    }
}

/// The prior and its weight where the rows that count have these sums.
fn smoothing<S: Statistic>(statistic: &S, all: S::Sum, params: &TargetParams) -> Result<Smoothing> {
    Ok(smoothing_of(statistic.read(all), statistic.units(), statistic.centre(), params))
}

/// The same from sums that are read already.
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
        out.iter_mut().for_each(|out| out.par_iter_mut().for_each(|x| *x *= each));
    }
    Ok(())
}

/// The place of each row in an order of all rows, spread over 32 bits as hashes are.
pub fn places_in(order: &[u32], rows: usize) -> Result<Vec<u32>> {
    if order.len() != rows {
        return Err(Error::Data(format!("the order has {} rows and the categories have {rows}", order.len())));
    }
    let mut places = pages::zeroed(rows);
    let shared = u32::shared(&mut places);
    let place = |i: usize| (((i as u64) << 32) / rows as u64) as u32;
    order.par_iter().enumerate().for_each(|(i, row)| u32::store(&shared[*row as usize], place(i)));
    Ok(places)
}

pub fn nothing_outside(fold: usize) -> Error {
    Error::Data(format!("there are no rows, or none with a weight, outside fold {fold}"))
}

/// The folds, checked.
pub fn check_folds(folds: &[u32], rows: usize) -> Result<()> {
    if folds.len() != rows {
        return Err(Error::Data(format!("the folds have {} rows and the categories have {rows}", folds.len())));
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
    check_folds(folds, rows)?;
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
                cells.par_chunks(count).zip(values.par_chunks_mut(count)).for_each(|(cells, values)| {
                    let all = added(cells);
                    for (fold, cell) in cells.iter().enumerate() {
                        let mut others = all;
                        others -= *cell;
                        values[fold] = smoothings[fold].value(s.read(others));
                    }
                });
                out.par_iter_mut().enumerate().for_each(|(row, out)| *out = values[cell(row)]);
            } else if !ordered::by_fold(s, codes, categories, folds, &smoothings, out) {
                let sorted = sorted.get_or_insert_with(|| group::sorted_rows(codes, categories));
                group::folds_sorted(s, sorted, folds, &smoothings, out);
            }
        });
    }
    Ok(())
}

/// The sum of sums.
fn added<'a, T: Copy + Default + AddAssign + 'a>(sums: impl IntoIterator<Item = &'a T>) -> T {
    sums.into_iter().fold(T::default(), |mut all, sum| {
        all += *sum;
        all
    })
}

/// The sums of each category, and the smoothing that follows from those of all.
fn by_category<S: Statistic>(statistic: &S, input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<S::Sum>, Smoothing)> {
    let sums = totals(statistic, input.codes.len(), input.categories, |row| input.codes[row] as usize);
    let smoothing = smoothing(statistic, added(&sums), params)?;
    Ok((sums, smoothing))
}

/// The value of each category from all its rows.
fn full_values<S: Statistic>(statistic: &S, sums: Vec<S::Sum>, smoothing: &Smoothing) -> Vec<f64> {
    sums.into_par_iter().map(|sum| smoothing.value(statistic.read(sum))).collect()
}

/// `loo` and `full`.
fn plain<S: Statistic>(statistic: &S, input: &EncodingInput<'_>, params: &TargetParams, out: &mut [f64]) -> Result<()> {
    let codes = input.codes;
    let (sums, smoothing) = by_category(statistic, input, params)?;
    if params.kind == Kind::Full {
        let values = full_values(statistic, sums, &smoothing);
        out.par_iter_mut().zip(codes).for_each(|(out, code)| *out = values[*code as usize]);
        return Ok(());
    }
    out.par_iter_mut().enumerate().for_each(|(row, out)| {
        let mut others = sums[codes[row] as usize];
        others -= statistic.of(row);
        *out = smoothing.value(statistic.read(others));
    });
    Ok(())
}
