//! A table without the rows that weigh nothing.
//!
//! A row of weight 0 is as if it were not there: such rows are left out before anything is made of a table, so that none of
//! their values takes part in a border, a category's number, a draw or a sum.

use super::labels::Labels;
use super::positions::Positions;
use super::{EvalSets, Evaluation, EventTimes, Input, LossColumns, OwnRows, Target};
use crate::column::select::OwnedColumn;
use crate::column::{Column, FeatureType};
use crate::error::Result;
use crate::memory;
use rayon::prelude::*;
use std::borrow::Cow;

/// The rows of a table that weigh something, copied.
pub struct Counted {
    /// Their numbers in the table, ascending.
    pub rows: Vec<usize>,
    features: Vec<OwnedColumn>,
    target: OwnedTarget,
    target_name: String,
    weight: Option<OwnedColumn>,
    baseline: Vec<OwnedColumn>,
    held_out: Option<Vec<bool>>,
    groups: Option<Vec<u32>>,
    positions: Option<Positions<'static>>,
    numbers_of_loss: Vec<OwnedColumn>,
    sets: Option<EvalSets<'static>>,
    numbers_of_metrics: Vec<OwnedColumn>,
    /// [`EventTimes`]: event, lower, upper.
    times: [Option<OwnedColumn>; 3],
    order: Option<Vec<u32>>,
}

/// What is to be predicted of those rows.
enum OwnedTarget {
    Numbers(OwnedColumn),
    Classes { codes: Vec<u32>, labels: Labels },
    Several(Vec<OwnedColumn>),
}

/// The rows whose weight is not 0; none where that is all of them.
pub fn rows_that_count(weights: Option<&[f32]>) -> Option<Vec<usize>> {
    let weights = weights?;
    let weightless = weights.par_iter().with_min_len(1 << 16).filter(|w| **w == 0.0).count();
    (weightless > 0).then(|| (0..weights.len()).filter(|row| weights[*row] != 0.0).collect())
}

impl Counted {
    /// The rows `rows` (ascending) of a table. Labels that stand only in rows of weight 0 are not there.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn new(input: &Input<'_>, rows: Vec<usize>) -> Result<Counted> {
        Counted::of_own(input, &OwnRows::whole(input.target.rows()), rows)
    }

    /// The rows `rows` (ascending) of a table of whose numeric features this process has its `own` rows.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn of_own(input: &Input<'_>, own: &OwnRows<'_>, rows: Vec<usize>) -> Result<Counted> {
        let columns = input.baseline.len() + input.target.several().len();
        let columns = columns + input.loss_columns.numbers.len() + input.evaluation.columns.len();
        let of_features: usize = input.features.iter().filter(|c| !c.is_empty()).map(|c| if c.bytes().is_some() { 1 } else { 8 }).sum();
        let bytes = rows.len() as u64 * (of_features + 8 * (columns + 2)) as u64;
        memory::check("a copy of some of the rows", bytes, "leave rows of weight 0 out by .filter() before the fit, or take fewer rows")?;
        let of = |column: &Column<'_>| OwnedColumn::of(column, &rows);
        let numeric = own.here(&rows);
        let of_feature = |column: &Column<'_>| match column.dtype() {
            FeatureType::Categorical => of(column),
            // One whose rows come in batches has none here.
            _ if column.is_empty() => OwnedColumn::of(column, &[]),
            _ => OwnedColumn::of(column, &numeric),
        };
        let target = match &input.target {
            Target::Numbers(column) => OwnedTarget::Numbers(of(column)),
            Target::Classes { codes, labels } => {
                let weight = input.weight.as_ref().map(Column::to_f64);
                let weighs = |row: usize| weight.as_ref().is_none_or(|w| w[row] > 0.0);
                let (mut weightless, mut counted) = (vec![false; labels.len()], vec![false; labels.len()]);
                (0..codes.len()).for_each(|row| {
                    let of = if weighs(row) { &mut counted } else { &mut weightless };
                    of[codes[row] as usize] = true;
                });
                let stays: Vec<bool> = weightless.iter().zip(&counted).map(|(weightless, counted)| *counted || !weightless).collect();
                let (labels, number) = labels.only(&stays);
                OwnedTarget::Classes { codes: rows.iter().map(|row| number[codes[*row] as usize]).collect(), labels }
            }
            Target::Several(columns) => OwnedTarget::Several(columns.par_iter().map(of).collect()),
        };
        let times = &input.loss_columns.times;
        Ok(Counted {
            features: input.features.par_iter().map(of_feature).collect(),
            target,
            target_name: input.target_name.clone(),
            weight: input.weight.as_ref().map(of),
            baseline: input.baseline.iter().map(of).collect(),
            held_out: input.held_out.map(|h| rows.iter().map(|row| h[*row]).collect()),
            groups: input.loss_columns.groups.as_ref().map(|g| rows.iter().map(|row| g[*row]).collect()),
            positions: input
                .loss_columns
                .positions
                .as_ref()
                .map(|p| Positions { codes: rows.iter().map(|row| p.codes[*row]).collect(), labels: p.labels.clone() }),
            numbers_of_loss: input.loss_columns.numbers.iter().map(of).collect(),
            sets: input
                .evaluation
                .sets
                .as_ref()
                .map(|sets| EvalSets { names: sets.names.clone(), of_row: rows.iter().map(|row| sets.of_row[*row]).collect() }),
            numbers_of_metrics: input.evaluation.columns.iter().map(of).collect(),
            times: [&times.event, &times.lower, &times.upper].map(|column| column.as_ref().map(of)),
            order: input.order.as_ref().map(|places| rows.iter().map(|row| places[*row]).collect()),
            rows,
        })
    }

    /// The table of those rows.
    pub fn input(&self) -> Input<'_> {
        Input {
            features: self.features.iter().map(OwnedColumn::column).collect(),
            target: match &self.target {
                OwnedTarget::Numbers(column) => Target::Numbers(column.column()),
                OwnedTarget::Classes { codes, labels } => Target::Classes { codes, labels: labels.clone() },
                OwnedTarget::Several(columns) => Target::Several(columns.iter().map(OwnedColumn::column).collect()),
            },
            target_name: self.target_name.clone(),
            weight: self.weight.as_ref().map(OwnedColumn::column),
            baseline: self.baseline.iter().map(OwnedColumn::column).collect(),
            held_out: self.held_out.as_deref(),
            loss_columns: LossColumns {
                groups: self.groups.as_deref().map(Cow::Borrowed),
                positions: self.positions.as_ref().map(|p| Positions { codes: Cow::Borrowed(&p.codes), labels: p.labels.clone() }),
                numbers: self.numbers_of_loss.iter().map(OwnedColumn::column).collect(),
                times: {
                    let [event, lower, upper] = self.times.each_ref().map(|column| column.as_ref().map(OwnedColumn::column));
                    EventTimes { event, lower, upper }
                },
            },
            evaluation: Evaluation { sets: self.sets.clone(), columns: self.numbers_of_metrics.iter().map(OwnedColumn::column).collect() },
            order: self.order.as_deref().map(Cow::Borrowed),
        }
    }
}
