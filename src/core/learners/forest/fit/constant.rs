//! Forests of one leaf, for tables in which no tree can split.

use super::fixed_point::fixed_weights;
use super::{check_counts, columns_of, resolve_criterion};
use crate::dataset::labels::Labels;
use crate::dataset::training::Training;
use crate::dataset::{self, checks, target};
use crate::error::Result;
use crate::learners::forest::{Forest, ForestParams, Input, Target, Tree};
use crate::model::unasked;
use crate::numerics::reduce::weighted_mean;
use crate::parallel::thread_pool::ThreadPool;
use crate::provenance::Provenance;

/// Fits a forest of one tree that is one leaf: for every row it predicts the mean of the training rows, or the shares of
/// their classes.
///
/// It is for tables that [`fit`](super::fit) refuses as [degenerate](crate::error::RowsFault::Degenerate). Nothing is measured
/// out of bag; where it is asked for, the permutation importance of every feature is 0. The target may have a single label. No
/// device is used.
///
/// # Errors
/// As [`fit`](super::fit), but for tables of one row or of one class; degenerate is still one of no rows, or of none that weighs
/// anything.
///
/// ```
/// use taiga_core::column::Column;
/// use taiga_core::learners::forest::{ForestParams, Input, Target, constant};
/// use taiga_core::dataset::labels::Labels;
///
/// let input = Input {
///     features: vec![Column::from_f64("x", &[1.0])],
///     target: Target::Classes { codes: &[1], labels: Labels::Boolean },
///     target_name: "y".into(),
///     weight: None,
/// };
/// let forest = constant(&input, &ForestParams::default()).unwrap();
/// assert_eq!(forest.trees[0].sums, [0, 1]);
/// ```
pub fn constant(input: &Input<'_>, params: &ForestParams) -> Result<Forest> {
    params.validate()?;
    let table = input.table();
    checks::check_one_target(&table, "fit_forest")?;
    checks::check_columns(&table)?;
    params.check_features(&columns_of(&table))?;
    ThreadPool::new(1)?.enter(|| constant_on(&table, params))
}

fn constant_on(table: &dataset::Input<'_>, params: &ForestParams) -> Result<Forest> {
    let training = Training::new(table)?;
    checks::check_positive(&table.target, params.positive.as_ref())?;
    let labels = table.target.labels();
    let criterion = resolve_criterion(params.criterion, labels.is_some())?;
    let data = training.data(&training.input(table), vec![], &params.class_weight)?;
    let rows = training.rows.len();
    let (weights, unit) = data.weights.as_deref().map_or((None, 1.0), |w| fixed_weights(w, rows));
    let weight_of = |row: usize| weights.as_ref().map_or(1, |w| w[row]) as u64;
    let (mut sums, mut means) = (vec![0; labels.map_or(1, Labels::len)], vec![]);
    match &table.target {
        Target::Classes { codes, .. } => codes.iter().enumerate().for_each(|(row, class)| sums[*class as usize] += weight_of(row)),
        Target::Numbers(_) | Target::Several(_) => {
            let target = target::target_numbers(table, None, &|_| Ok(()))?;
            check_counts(&table.target_name, &target, criterion)?;
            sums[0] = (0..rows).map(weight_of).sum();
            means.push(weighted_mean(&target, data.weights.as_deref()));
        }
    }
    let counted = (0..rows).filter(|row| weight_of(*row) > 0).count().min(u32::MAX as usize) as u32;
    Ok(Forest {
        params: params.kept(),
        criterion,
        target: table.target_name.clone(),
        features: unasked(table),
        labels: labels.cloned(),
        sets: vec![],
        trees: vec![Tree { nodes: vec![], counts: vec![counted], sums, means }],
        rows: rows as u64,
        unit: unit * data.weight_unit,
        gain_unit: 1.0,
        oob: None,
        permutation: params.permutation_importance.then(|| vec![0.0; table.features.len()]),
        provenance: Provenance::default(),
    })
}
