//! What a fit of boosted trees takes beside its device, asked for before it is taken.

use super::params::{BoostingParams, CatMethod};
use crate::dataset::Input;
use crate::error::Result;
use crate::losses::LossKind;
use crate::memory;
use crate::memory::{Reservation, product, sum};
use crate::parallel::thread_pool::ThreadPool;

/// Sets of scores that a fit has: one for each permutation of the statistics of categories, where there are any, and of ordered boosting.
fn sets(input: &Input<'_>, params: &BoostingParams) -> u64 {
    if params.is_ordered() {
        return params.ordered_sets() as u64;
    }
    let many = |categories: usize| categories > params.one_hot_max_size as usize;
    let any = input.features.iter().any(|f| f.categories().is_some_and(|c| many(c.len())));
    if any && params.cat_method == CatMethod::Ctr { params.permutations.max(1) as u64 } else { 1 }
}

/// Codes of a row, of one byte each, that questions about single categories take, and sets of categories.
fn questions(input: &Input<'_>, params: &BoostingParams) -> u64 {
    let of = |categories: usize| match categories {
        0 | 1 => 0,
        2 => 1,
        n if n <= params.one_hot_max_size as usize => n as u64,
        _ => (params.cat_method == CatMethod::Partition) as u64,
    };
    input.features.iter().filter_map(|f| f.categories()).map(|c| of(c.len())).sum()
}

/// Returns bytes of what stands at the same time, at the least: while targets and scores are made, and where the CPU is asked
/// for, while its threads take their rows (`here`). `spilled`: the target's numbers, and what threads take, lie in files. `own`: the rows that this
/// process has of all.
fn bytes(pool: &ThreadPool, input: &Input<'_>, params: &BoostingParams, outputs: u64, (here, spilled): (bool, bool), own: u64) -> u64 {
    let rows = input.target.rows() as u64;
    let sets = sets(input, params);
    let measured = if params.measures_training() { rows } else { input.held_out_rows() as u64 };
    let any = input.features.iter().any(|f| f.categories().is_some());
    let weight = if input.weight.is_some() { 4 } else { 0 };
    let scores = product(&[4, outputs, sets]);
    // What stays for the whole fit: questions, the order of the rows in each permutation, the training rows and their classes.
    let orders = if sets > 1 { 4 * sets } else { 0 } + if input.order.is_some() { 4 } else { 0 };
    // Bounds of times; rows by time with their ties, and what they are sorted by.
    let times = if input.loss_columns.times.is_given() { 16 + if params.loss == LossKind::Cox { 64 } else { 8 } } else { 0 };
    // Under ordered boosting the piece of each row in each permutation, twice while processes have their own rows of it.
    let pieces = if params.is_ordered() { 4 + 2 * sets } else { 0 };
    let stays = product(&[rows, questions(input, params) + orders + times + pieces + if any { 5 } else { 0 }]);
    // Each row's leaf, its derivatives twice and its value twice, where leaves are functions of rows.
    let functions = if params.has_linear_leaves() { product(&[own, 2 + 16 + 8]) } else { 0 };
    let watched = product(&[measured, 16 + 16 * outputs]);
    // The first of several sets of scores is copied before it is dropped.
    let copied = if sets > 1 { 4 * outputs } else { 0 };
    // Of several targets each is read, and copied to be looked at by itself.
    let several = 16 * input.target.several().len() as u64;
    let making =
        product(&[rows, sum(&[if spilled { 0 } else { 8 } + 4 + weight + several, scores, copied, 8 * input.baseline.len() as u64])]);
    let sampled = params.border_sample.min(rows);
    let borders = sum(&[
        product(&[rows, if spilled { 4 } else { 8 } + weight]),
        product(&[8, sampled, 1 + (pool.size() as u64).min(input.features.len() as u64)]),
    ]);
    // Twice while they are dealt, and the leaf under each score.
    let dealt = sum(&[2 * (4 + weight), product(&[2, scores]), scores / 2]);
    let dealing = match (here, spilled) {
        (false, _) => 0,
        (true, false) => product(&[rows, dealt]),
        (true, true) => product(&[rows, sum(&[4 + weight, scores])]),
    };
    sum(&[stays, functions, watched, making.max(borders).max(dealing)])
}

/// Reserves what a fit takes until its device has its rows: targets, weights, scores, samples for borders, orders of rows.
///
/// # Errors
/// [`crate::Error::Memory`].
pub fn reserve(
    pool: &ThreadPool,
    input: &Input<'_>,
    params: &BoostingParams,
    outputs: usize,
    (here, spilled): (bool, bool),
    own: usize,
) -> Result<Reservation> {
    let (rows, features, sets) = (input.target.rows(), input.features.len(), sets(input, params));
    let classes = match (outputs, input.target.several().len()) {
        (_, targets @ 1..) => format!(" to {targets} targets"),
        (1, _) => String::new(),
        _ => format!(" to {outputs} classes"),
    };
    let orders = if sets > 1 { format!(" under {sets} permutations") } else { String::new() };
    let less = match (outputs > 1, sets > 1) {
        (_, true) if params.is_ordered() => "lower `permutations`, leave `boosting` out, or fit on fewer rows",
        (_, true) => "lower `permutations`, use cat_method=\"partition\", or fit on fewer rows",
        (true, _) => "fit on fewer rows, or to fewer classes or targets",
        _ => "fit on fewer rows",
    };
    memory::reserve(
        &format!("a fit of {rows} rows and {features} features{classes}{orders}"),
        bytes(pool, input, params, outputs as u64, (here, spilled), own as u64),
        less,
    )
}
