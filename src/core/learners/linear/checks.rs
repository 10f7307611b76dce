//! Checks of a table and of the values of its dense columns.

use super::params::LinearParams;
use super::rows::SparseRows;
use super::{Input, check_dense, schema};
use crate::column::{Column, FeatureType};
use crate::dataset::target::TargetData;
use crate::dataset::{OwnRows, Target, checks};
use crate::error::{Error, Result};

/// The largest |value|: `lbfgs` works with squares of values in f32, and loses its way soon beyond it.
pub(super) const LARGEST: f64 = 1e18;

/// The largest |value| of a column is no less, where no penalty holds its coefficient down.
const SMALLEST: f64 = 1e-30;

/// Checks what can be checked before anything is read, of a table of whose lists and dense columns there are `own` rows, none where they come
/// in batches; returns the number of all.
pub fn check_table(input: &Input<'_>, own: Option<usize>) -> Result<usize> {
    let rows = check_columns(input, own)?;
    checks::check_rows(rows, input.held_out, &input.target_name)?;
    Ok(rows)
}

/// Checks names, types and lengths of the columns, as [`check_table`] does; returns the number of rows.
pub(super) fn check_columns(input: &Input<'_>, own: Option<usize>) -> Result<usize> {
    let dense: Vec<(&str, &FeatureType)> = input.dense.iter().map(|c| (c.name(), c.dtype())).collect();
    schema::check_columns(&dense, input.sparse.as_ref().map(SparseRows::columns))?;
    let Target::Classes { codes, .. } = &input.target else {
        return Err(Error::column(&input.target_name, "the target is numeric: logistic regression needs classes"));
    };
    let rows = codes.len();
    let beside = || format!("the target `{}` has {rows}", input.target_name);
    if let Some(own) = own {
        let lists = input.sparse.iter().map(|s| (s.features.name.as_str(), s.features.len()));
        let mut features = lists.chain(input.dense.iter().map(|c| (c.name(), c.len())));
        if let Some((name, len)) = features.find(|(_, len)| *len != own) {
            let others = if own == rows { beside() } else { format!("this process has {own} of the table") };
            return Err(Error::column(name, format!("has {len} rows where {others}")));
        }
    }
    if let Some(weight) = input.weight.as_ref().filter(|weight| weight.len() != rows) {
        return Err(Error::column(weight.name(), format!("has {} rows where {}", weight.len(), beside())));
    }
    Ok(rows)
}

/// Checks the classes of the rows and what they weigh; returns the latter.
pub(super) fn check_target(input: &Input<'_>, params: &LinearParams) -> Result<TargetData> {
    checks::check_positive(&input.target, params.positive.as_ref())?;
    let table = input.table();
    checks::check_classes(&table)?;
    TargetData::new(&table, vec![], &params.class_weight)
}

/// Checks that the values of a dense column are of a size for which a coefficient can be found; returns the largest. `first`: the rows of
/// the table before them.
fn check_sizes(name: &str, values: &[f64], first: usize) -> Result<f64> {
    if let Some(row) = values.iter().position(|x| x.abs() > LARGEST) {
        return Err(too_large(name, values[row], first + row));
    }
    Ok(values.iter().fold(0.0f64, |m, x| m.max(x.abs())))
}

/// Checks that the largest value of a dense column is not so small that its coefficient would be too large.
fn check_largest(name: &str, largest: f64, params: &LinearParams) -> Result<()> {
    if largest > 0.0 && largest < SMALLEST && params.l1 == 0.0 && params.l2 == Some(0.0) {
        let message = format!("its largest value is {largest:e}: without a penalty its coefficient would be beyond 1e30; scale the column");
        return Err(Error::column(name, message).of_values());
    }
    Ok(())
}

/// Checks the dense columns, of which there are the `own` rows.
pub(super) fn check_dense_columns(dense: &[Column<'_>], own: &OwnRows<'_>, params: &LinearParams) -> Result<()> {
    let mut largest = vec![];
    for column in dense {
        let values = column.to_f64();
        check_dense(column.name(), &values)?;
        largest.push(check_sizes(column.name(), &values, own.first)?);
        if own.is_whole() {
            check_largest(column.name(), largest[largest.len() - 1], params)?;
        }
    }
    if own.is_whole() {
        return Ok(());
    }
    let all = own.collective.gather(&largest)?;
    let of_all = |column: usize| all.iter().skip(column).step_by(dense.len()).fold(0.0f64, |m, x| m.max(*x));
    dense.iter().enumerate().try_for_each(|(i, column)| check_largest(column.name(), of_all(i), params))
}

/// Returns the error of a value in row `row` whose square is too large.
pub(super) fn too_large(name: &str, value: impl std::fmt::LowerExp, row: usize) -> Error {
    Error::column(name, format!("the value {value:e} in row {row} is beyond 1e18, where its square drowns all others: scale the values"))
        .of_values()
}
