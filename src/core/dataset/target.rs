//! The target of a fit: its values, and what its rows weigh.

use crate::column::Column;
use crate::dataset::counted::rows_that_count;
use crate::dataset::weights::row_weights;
use crate::dataset::{ClassWeight, Input, Target};
use crate::error::{Error, Result};
use crate::spill::{Array, SpillFolder};
use rayon::prelude::*;

/// The target of a fit, checked, and what its rows weigh.
pub struct TargetData {
    /// The number of each row, or its class's index; of several targets one behind the other; empty where a learner reads none.
    pub values: Array<f64>,
    /// What rows weigh in units of `weight_unit`: [`Weights::values`](crate::dataset::weights::Weights::values). None where each
    /// weighs 1.
    pub weights: Option<Vec<f32>>,
    pub weight_unit: f64,
}

impl TargetData {
    /// Puts a checked target together with the weights of its rows.
    ///
    /// # Errors
    /// As [`row_weights`].
    pub fn new(input: &Input<'_>, values: impl Into<Array<f64>>, class_weight: &ClassWeight) -> Result<TargetData> {
        let weights = row_weights(input, class_weight)?;
        let (weights, weight_unit) = weights.map_or((None, 1.0), |w| (Some(w.values), w.unit));
        Ok(TargetData { values: values.into(), weights, weight_unit })
    }

    /// The rows whose weight is not 0; none where that is all of them.
    pub fn rows_that_count(&self) -> Option<Vec<usize>> {
        rows_that_count(self.weights.as_deref())
    }
}

/// What a target must be, where it is not: a learner's own check.
pub type CheckTarget<'a> = dyn Fn(f64) -> std::result::Result<(), &'static str> + Sync + 'a;

/// Reads the target as numbers (class indices for classes, of several targets one behind the other), each of which must pass `check`;
/// `spill`: a folder for them.
///
/// # Errors
/// For the first that does not, missing and infinite ones; where there is no room for them.
pub fn target_numbers(input: &Input<'_>, spill: Option<&SpillFolder>, check: &CheckTarget<'_>) -> Result<Array<f64>> {
    const WHAT: &str = "the targets of a fit";
    let (rows, several) = (input.target.rows(), input.target.several().len());
    let mut values = Array::zeroed(WHAT, rows * several.max(1), spill)?;
    match &input.target {
        Target::Numbers(column) => read_checked(column, &input.target_name, &mut values, check)?,
        Target::Classes { codes, .. } => {
            values.par_iter_mut().with_min_len(ROWS).zip(*codes).for_each(|(value, code)| *value = f64::from(*code));
        }
        Target::Several(columns) => {
            for (column, own) in columns.iter().zip(values.chunks_exact_mut(rows.max(1))) {
                read_checked(column, column.name(), own, check)?;
            }
        }
    }
    Ok(values)
}

/// Reads a column of targets, which errors call `name`.
fn read_checked(column: &Column<'_>, name: &str, values: &mut [f64], check: &CheckTarget<'_>) -> Result<()> {
    read_f64(column, values);
    let missing = in_parts(values).filter(|x| x.is_nan()).count();
    if missing > 0 {
        return Err(Error::column(
            name,
            format!(
                "the target is null or NaN in {missing} of {} rows: filter them out, as in .filter(pl.col(\"{name}\").is_not_null() & pl.col(\"{name}\").is_not_nan())",
                values.len()
            ),
        )
        .of_values());
    }
    if let Some(x) = in_parts(values).find_first(|x| x.is_infinite()) {
        return Err(Error::column(
            name,
            format!("the target is {x} in {} rows: filter them out", values.iter().filter(|x| x.is_infinite()).count()),
        )
        .of_values());
    }
    if let Some((row, (x, expected))) = in_parts(values).enumerate().find_map_first(|(i, x)| check(*x).err().map(|e| (i, (*x, e)))) {
        return Err(Error::column(name, format!("the target is {x} in row {row}: {expected}")).of_values());
    }
    Ok(())
}

/// Rows that a thread takes at a time.
const ROWS: usize = 1 << 16;

/// `values` for all threads, but for the calling one alone where there are few: a fit of a hundred rows is done before
/// another thread has been woken.
pub fn in_parts<T: Sync>(values: &[T]) -> rayon::iter::MinLen<rayon::slice::Iter<'_, T>> {
    values.par_iter().with_min_len(ROWS)
}

/// A column's values, read by all threads.
pub fn to_f64(column: &Column<'_>) -> Vec<f64> {
    let mut values = vec![0.0; column.len()];
    read_f64(column, &mut values);
    values
}

fn read_f64(column: &Column<'_>, values: &mut [f64]) {
    values.par_chunks_mut(ROWS).enumerate().for_each(|(i, out)| column.read_f64(i * ROWS, out));
}
