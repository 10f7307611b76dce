//! What is read of a table's rows to measure them.

use super::Input;
use crate::column::Column;
use crate::error::{Error, Result};
use std::borrow::Cow;

/// What is read of rows to measure them, beside what a fit reads.
#[derive(Clone, Default)]
pub struct Evaluation<'a> {
    /// The sets that held-out rows are of, where they are of several or have a name.
    pub sets: Option<EvalSets<'a>>,
    /// The numbers that metrics of one's own read, by the columns' names.
    pub columns: Vec<Column<'a>>,
}

/// Held-out rows in sets, of which the first decides.
#[derive(Clone)]
pub struct EvalSets<'a> {
    /// Their names.
    pub names: Vec<String>,
    /// By row the number of its set; of a row that is not held out anything.
    pub of_row: Cow<'a, [u32]>,
}

impl EvalSets<'_> {
    /// The most of them.
    pub const MOST: usize = 100;
}

/// The rows of a table that are measured together: their set's name, and which they are, ascending.
pub struct EvalRows {
    pub name: Option<String>,
    pub rows: Vec<usize>,
}

/// Lists the held-out rows of a table set by set; none where no rows are held out.
///
/// # Errors
/// For sets of other than the table's rows, or without a row, and numbers that are of no set.
pub fn held_out_sets(input: &Input<'_>) -> Result<Vec<EvalRows>> {
    let Some(marks) = input.held_out else { return Ok(vec![]) };
    let Some(sets) = &input.evaluation.sets else {
        return Ok(vec![EvalRows { name: None, rows: (0..marks.len()).filter(|row| marks[*row]).collect() }]);
    };
    if sets.of_row.len() != marks.len() {
        return Err(Error::Data(format!("the sets of `eval` have {} rows where it has {}", sets.of_row.len(), marks.len())));
    }
    let mut all: Vec<EvalRows> = sets.names.iter().map(|name| EvalRows { name: Some(name.clone()), rows: vec![] }).collect();
    for row in (0..marks.len()).filter(|row| marks[*row]) {
        let number = sets.of_row[row];
        let set = all.get_mut(number as usize).ok_or_else(|| Error::Data(format!("`eval`: row {row} is of set {number}")))?;
        set.rows.push(row);
    }
    match all.iter().find(|set| set.rows.is_empty()) {
        Some(EvalRows { name: Some(name), .. }) => {
            Err(Error::parameter("eval", format!("no row of the set {name:?} counts: there is nothing to measure on")).degenerate())
        }
        _ => Ok(all),
    }
}
