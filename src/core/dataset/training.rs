//! The training rows of a table alone.

use crate::column::Column;
use crate::dataset::target::TargetData;
use crate::dataset::{ClassWeight, Evaluation, EventTimes, Input, LossColumns, Target};
use crate::error::{Error, Result};
use crate::spill::Array;
/// The training rows of a table: their targets, weights and baselines.
pub struct Training {
    pub rows: Vec<usize>,
    numbers: Vec<f64>,
    codes: Vec<u32>,
    several: Vec<Vec<f64>>,
    weight: Option<Vec<f64>>,
    baseline: Vec<Vec<f64>>,
    numbers_of_loss: Vec<Vec<f64>>,
    /// [`EventTimes`]: event, lower, upper.
    times: [Option<Vec<f64>>; 3],
}

impl Training {
    /// Those of `input`, of which there must be one.
    pub fn new(input: &Input<'_>) -> Result<Training> {
        let rows = input.target.rows();
        if let Some(held_out) = input.held_out.filter(|h| h.len() != rows) {
            return Err(Error::Data(format!("`eval` has {} rows where the target `{}` has {rows}", held_out.len(), input.target_name)));
        }
        let rows: Vec<usize> = (0..rows).filter(|i| !input.held_out.is_some_and(|h| h[*i])).collect();
        if rows.is_empty() {
            return Err(Error::Data("there are no training rows: not even a constant can be fitted".into()).degenerate());
        }
        let (numbers, codes) = match &input.target {
            Target::Numbers(column) => (column.gather_f64(&rows), vec![]),
            Target::Classes { codes, labels } => {
                let codes: Vec<u32> = rows.iter().map(|i| codes[*i]).collect();
                if let Some(code) = codes.iter().find(|c| **c as usize >= labels.len()) {
                    return Err(Error::column(&input.target_name, format!("class {code} of {}", labels.len())));
                }
                (vec![], codes)
            }
            Target::Several(_) => (vec![], vec![]),
        };
        let several = input.target.several().iter().map(|c| c.gather_f64(&rows)).collect();
        let weight = input.weight.as_ref().map(|c| c.gather_f64(&rows));
        let baseline = input.baseline.iter().map(|c| c.gather_f64(&rows)).collect();
        let numbers_of_loss = input.loss_columns.numbers.iter().map(|c| c.gather_f64(&rows)).collect();
        let times = &input.loss_columns.times;
        let times = [&times.event, &times.lower, &times.upper].map(|column| column.as_ref().map(|c| c.gather_f64(&rows)));
        Ok(Training { rows, numbers, codes, several, weight, baseline, numbers_of_loss, times })
    }

    /// They as a table without features.
    pub fn input(&self, input: &Input<'_>) -> Input<'_> {
        let named = |c: &Column<'_>| c.name().to_string();
        let times = &input.loss_columns.times;
        let [event, lower, upper] = self.times.each_ref().map(Option::as_ref);
        fn of<'a>(column: &Option<Column<'_>>, values: Option<&'a Vec<f64>>) -> Option<Column<'a>> {
            column.as_ref().zip(values).map(|(c, x)| Column::from_f64(c.name().to_string(), x))
        }
        Input {
            features: vec![],
            target: match &input.target {
                Target::Numbers(column) => Target::Numbers(Column::from_f64(named(column), &self.numbers)),
                Target::Classes { labels, .. } => Target::Classes { codes: &self.codes, labels: labels.clone() },
                Target::Several(columns) => {
                    Target::Several(columns.iter().zip(&self.several).map(|(c, x)| Column::from_f64(named(c), x)).collect())
                }
            },
            target_name: input.target_name.clone(),
            weight: input.weight.as_ref().zip(self.weight.as_ref()).map(|(c, w)| Column::from_f64(named(c), w)),
            baseline: input.baseline.iter().zip(&self.baseline).map(|(c, b)| Column::from_f64(named(c), b)).collect(),
            held_out: None,
            loss_columns: LossColumns {
                groups: None,
                positions: None,
                numbers: input.loss_columns.numbers.iter().zip(&self.numbers_of_loss).map(|(c, x)| Column::from_f64(named(c), x)).collect(),
                times: EventTimes { event: of(&times.event, event), lower: of(&times.lower, lower), upper: of(&times.upper, upper) },
            },
            evaluation: Evaluation::default(),
            order: None,
        }
    }

    /// The target of that table and its weights. Those of classes say nothing where there is one label, and may name others.
    pub fn data(&self, table: &Input<'_>, values: impl Into<Array<f64>>, class_weight: &ClassWeight) -> Result<TargetData> {
        let single = table.target.labels().is_some_and(|labels| labels.len() == 1);
        TargetData::new(table, values, if single { &ClassWeight::None } else { class_weight })
    }
}
