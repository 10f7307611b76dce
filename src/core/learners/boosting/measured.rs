//! The rows that metrics are measured on after each round.

use super::params::BoostingParams;
use super::prepare::Start;
use crate::dataset::Input;
use crate::dataset::evaluation::{EvalRows, held_out_sets};
use crate::dataset::row_groups::RowGroups;
use crate::error::{Error, Result};
use crate::losses::Loss;
use crate::metrics::{MetricSpec, Rows, metric, undefined};
use crate::model::{History, TRAINING};
use crate::objective::LossParams;

/// What metrics read of a table's rows: the target, what they weigh, their groups, and the bounds of the times of their events.
#[derive(Clone, Copy)]
pub struct MeasuredTable<'a> {
    pub values: &'a [f64],
    pub weight: Option<&'a [f32]>,
    pub groups: Option<&'a RowGroups>,
    pub bounds: Option<&'a [Vec<f64>; 2]>,
}

/// The sets of rows that are measured, each by the same metrics; the first metric of the first set decides.
pub struct MeasuredRows {
    metrics: Vec<MetricSpec>,
    sets: Vec<MeasuredSet>,
    /// Whether the scores of all rows are needed, and not those of held-out rows alone.
    all_rows: bool,
    /// What the scores of each output are in units of.
    units: Vec<f64>,
}

/// Rows that are measured together.
struct MeasuredSet {
    name: Option<String>,
    /// Which of the scores are theirs; none for all.
    places: Option<Vec<usize>>,
    target: Vec<f64>,
    weight: Option<Vec<f64>>,
    groups: Option<RowGroups>,
    /// What is added to the scores: `[output][row]`.
    offset: Vec<Vec<f64>>,
    /// The bounds of the times of events.
    bounds: Vec<Vec<f64>>,
    /// What metrics of one's own read.
    columns: Vec<(String, Vec<f64>)>,
}

impl MeasuredRows {
    /// Takes what is measured out of a table: its held-out rows set by set, and behind them, where that is asked for, those that are
    /// trained on.
    ///
    /// # Errors
    /// For sets without rows, for one called as the training rows are, and for groups that are divided between sets.
    pub fn new(
        metrics: Vec<MetricSpec>,
        input: &Input<'_>,
        params: &BoostingParams,
        loss: &dyn Loss,
        &MeasuredTable { values, weight, groups, bounds }: &MeasuredTable<'_>,
        origin: &Start,
    ) -> Result<MeasuredRows> {
        let mut sets = held_out_sets(input)?;
        check_columns(&metrics, input)?;
        // Of times groups are strata, which may stand on both sides.
        if let (Some(groups), false) = (groups, loss.reads_times()) {
            check_groups(groups, input, &sets)?;
        }
        let all_rows = params.measures_training();
        if all_rows {
            if sets.iter().any(|set| set.name.as_deref() == Some(TRAINING)) {
                let text = format!("a held-out set is called {TRAINING:?}, as the training rows are under eval_train=True: rename it");
                return Err(Error::parameter("eval", text));
            }
            let rows = (0..values.len()).filter(|row| !input.held_out.is_some_and(|h| h[*row])).collect();
            sets.push(EvalRows { name: Some(TRAINING.into()), rows });
        }
        let groups = groups.filter(|_| metrics.iter().any(|metric| metric.reads_groups() || metric.reads_times()));
        let bounds = bounds.filter(|_| metrics.iter().any(MetricSpec::reads_times));
        // Where each row stands among those whose scores are read.
        let places: Option<Vec<usize>> = (!all_rows && sets.len() > 1).then(|| {
            let mut next = 0;
            let place = |marked: &bool| {
                next += usize::from(*marked);
                // Of a row that is not held out nobody asks.
                next - usize::from(*marked)
            };
            input.held_out.unwrap_or_default().iter().map(place).collect()
        });
        let location = loss.location();
        let of_set = |EvalRows { name, rows }: EvalRows| {
            // Scores carry the start value and the baseline already, unless they are differences from the first one.
            let baseline = || input.baseline.first().map(|c| c.gather_f64(&rows));
            let offset = |k: usize| match (location.moves(k), baseline()) {
                (true, Some(b)) => b.into_iter().map(|b| b + origin.start[0]).collect(),
                (true, None) => vec![origin.start[0]; rows.len()],
                (false, _) => vec![origin.offset; rows.len()],
            };
            MeasuredSet {
                name,
                target: rows.iter().map(|row| values[*row]).collect(),
                weight: weight.map(|w| rows.iter().map(|row| f64::from(w[*row])).collect()),
                groups: groups.map(|g| g.of_rows(&rows)),
                offset: (0..origin.start.len()).map(offset).collect(),
                bounds: bounds.map_or(vec![], |b| b.iter().map(|b| rows.iter().map(|row| b[*row]).collect()).collect()),
                columns: input.evaluation.columns.iter().map(|c| (c.name().to_string(), c.gather_f64(&rows))).collect(),
                places: match &places {
                    Some(places) => Some(rows.iter().map(|row| places[*row]).collect()),
                    None => (all_rows && rows.len() < values.len()).then_some(rows),
                },
            }
        };
        Ok(MeasuredRows { metrics, sets: sets.into_iter().map(of_set).collect(), all_rows, units: vec![origin.unit; origin.start.len()] })
    }

    /// Returns the rows of several targets from those of each: their targets and scores one behind the other.
    ///
    /// # Errors
    /// Those of one of them.
    pub fn joined(each: impl IntoIterator<Item = Result<MeasuredRows>>) -> Result<Option<MeasuredRows>> {
        let mut joined: Option<MeasuredRows> = None;
        for one in each {
            let one = one?;
            let Some(all) = &mut joined else {
                joined = Some(one);
                continue;
            };
            all.units.extend(one.units);
            for (set, own) in all.sets.iter_mut().zip(one.sets) {
                set.target.extend(own.target);
                set.offset.extend(own.offset);
            }
        }
        Ok(joined)
    }

    /// Whether the scores of all rows are needed.
    pub fn needs_all_rows(&self) -> bool {
        self.all_rows
    }

    /// Begins the curves; none where nothing is measured.
    pub fn history(&self) -> Option<History> {
        let of_set = |set: &MeasuredSet| self.metrics.iter().map(|m| (set.name.clone(), m.clone())).collect::<Vec<_>>();
        History::of(self.sets.iter().flat_map(of_set))
    }

    /// Measures scores, `[output][row]`: the values of all curves, in their order.
    ///
    /// # Errors
    /// For a metric that has no value.
    pub fn measure(&self, params: &LossParams, loss: &dyn Loss, scores: &[Vec<f32>]) -> Result<Vec<f64>> {
        let mut values = Vec::with_capacity(self.sets.len() * self.metrics.len());
        for set in &self.sets {
            let raw = |(scores, (offset, unit)): (&Vec<f32>, (&Vec<f64>, &f64))| set.raw(scores, offset, *unit);
            let scores: Vec<Vec<f64>> = scores.iter().zip(set.offset.iter().zip(&self.units)).map(raw).collect();
            let (weight, groups) = (set.weight.as_deref(), set.groups.as_ref());
            let rows =
                Rows { weight, groups, columns: &set.bounds, named: &set.columns, ..Rows::new(&scores, loss.link(), &set.target, params) };
            for spec in &self.metrics {
                let value = metric(spec, &rows);
                if value.is_nan() {
                    return Err(undefined(spec));
                }
                values.push(value);
            }
        }
        Ok(values)
    }
}

impl MeasuredSet {
    /// The raw scores of an output.
    fn raw(&self, scores: &[f32], offset: &[f64], unit: f64) -> Vec<f64> {
        let raw = |score: f32, offset: &f64| offset + unit * f64::from(score);
        match &self.places {
            None => scores.iter().zip(offset).map(|(s, o)| raw(*s, o)).collect(),
            Some(places) => places.iter().zip(offset).map(|(place, o)| raw(scores[*place], o)).collect(),
        }
    }
}

/// Checks that the columns that metrics of one's own read are there, and are numbers in the rows that are measured.
fn check_columns(metrics: &[MetricSpec], input: &Input<'_>) -> Result<()> {
    for name in metrics.iter().flat_map(MetricSpec::columns) {
        let Some(column) = input.evaluation.columns.iter().find(|column| column.name() == name) else {
            return Err(Error::column(name, "a metric of your own reads it, and it is not given"));
        };
        if let Some((row, x)) = column.to_f64().iter().enumerate().find(|(_, x)| !x.is_finite()) {
            let what = if x.is_nan() { "null or NaN".into() } else { x.to_string() };
            return Err(Error::column(name, format!("it is {what} in row {row}, and a metric of your own reads it")).of_values());
        }
    }
    Ok(())
}

/// Checks that the rows of each group are all trained on, or all of one set.
fn check_groups(groups: &RowGroups, input: &Input<'_>, sets: &[EvalRows]) -> Result<()> {
    let Some(marks) = input.held_out else { return Ok(()) };
    groups.check_held_out(marks)?;
    let mut set_of = vec![0; marks.len()];
    for (number, set) in (1..).zip(sets) {
        set.rows.iter().for_each(|row| set_of[*row] = number);
    }
    let first = |group: &usize| groups.rows(*group)[0] as usize;
    let divided = (0..groups.len()).find(|group| groups.rows(*group).iter().any(|row| set_of[*row as usize] != set_of[first(group)]));
    match divided {
        None => Ok(()),
        Some(group) => {
            let text = format!("divides the group that begins in row {} between sets: each group is of one set", first(&group));
            Err(Error::parameter("eval", text).of_values())
        }
    }
}
