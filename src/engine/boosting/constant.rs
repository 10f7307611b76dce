//! What is left to fit where rows are too few, or too alike, for trees: their mean.

use super::finish::unasked;
use super::fit::{recorded, tree_params};
use super::loss::loss;
use super::params::{BoostingParams, ClassWeight, LossKind};
use super::schema::held_out_metric;
use super::weights::{Weights, row_weights};
use super::{Input, Target, prepare};
use crate::backend::cpu::team::Team;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::model::{Labels, Model, Units};
use crate::provenance::Provenance;

/// Fits a model without trees: for every row it predicts the start value, which is what the loss makes of the training
/// rows alone (their mean, their quantile, the shares of their classes).
///
/// It is for tables that [`super::fit()`] refuses as [degenerate](crate::error::RowsFault::Degenerate). Rows are not measured, so there is no history; a class
/// that no training row has gets a probability of 10⁻¹⁵. Where the target has a single label, that label's probability is
/// 1 - 10⁻¹⁵, and the model is one of `logloss`, whose one score speaks for its last label. With a `baseline` the start
/// value is 0, as in a fit. No device is used.
///
/// # Errors
/// As [`super::fit()`], but for tables of one training row or of one class; degenerate is still one of no training rows,
/// or of none that weighs anything.
///
/// ```
/// use taiga_engine::boosting::{BoostingParams, Input, Quiet, Target, constant, fit};
/// use taiga_engine::column::Column;
///
/// let input = Input {
///     features: vec![Column::from_f64("x", &[1.0])],
///     target: Target::Numbers(Column::from_f64("y", &[3.5])),
///     target_name: "y".into(),
///     weight: None,
///     baseline: vec![],
///     held_out: None,
/// };
/// let params = BoostingParams::default();
/// assert_eq!(fit(&input, &params, &Quiet).unwrap_err().to_string(), "1 training row: a model needs at least two");
/// let model = constant(&input, &params).unwrap();
/// assert_eq!((model.start, model.trees.len()), (vec![3.5], 0));
/// ```
pub fn constant(input: &Input<'_>, params: &BoostingParams) -> Result<Model> {
    params.validate()?;
    prepare::check_columns(input)?;
    tree_params(input, params, &[])?;
    Team::new(1)?.enter(|| constant_on(input, params))
}

fn constant_on(input: &Input<'_>, params: &BoostingParams) -> Result<Model> {
    let training = Training::new(input)?;
    let table = training.input(input);
    prepare::check_positive(&input.target, params.positive.as_ref())?;
    let labels = match &input.target {
        Target::Classes { labels, .. } => Some(labels.clone()),
        Target::Numbers(_) => None,
    };
    let classes = labels.as_ref().map_or(0, Labels::len);
    let resolved = prepare::resolve_loss(params.loss, &input.target)?;
    let kind = if classes == 1 { LossKind::Logloss } else { resolved };
    let loss = loss(kind, params, classes, 1.0)?;
    if classes != 1 {
        held_out_metric(input.held_out.is_some(), params, loss.as_ref(), labels.as_ref().map(Labels::len))?;
    }
    let target = match classes {
        1 => vec![1.0; training.rows.len()],
        _ => prepare::target_numbers(&table, loss.as_ref())?,
    };
    let weight = training.weights(&table, params)?;
    let start = prepare::start(&table, loss.as_ref(), &target, weight.as_ref().map(|w| &w.values[..]), loss.outputs())?.start;
    Ok(Model {
        params: recorded(params),
        loss: kind,
        target: input.target_name.clone(),
        features: unasked(input),
        derived: vec![],
        tables: vec![],
        labels,
        start,
        scale: 1.0,
        units: Units::default(),
        trees: vec![],
        rows: training.rows.len() as u64,
        history: None,
        provenance: Provenance::default(),
    })
}

/// The training rows of a table: their targets, weights and baselines.
pub(crate) struct Training {
    pub rows: Vec<usize>,
    numbers: Vec<f64>,
    codes: Vec<u32>,
    weight: Option<Vec<f64>>,
    baseline: Vec<Vec<f64>>,
}

impl Training {
    /// Those of `input`, of which there must be one.
    pub fn new(input: &Input<'_>) -> Result<Training> {
        let rows = match &input.target {
            Target::Numbers(column) => column.len(),
            Target::Classes { codes, .. } => codes.len(),
        };
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
        };
        let weight = input.weight.as_ref().map(|c| c.gather_f64(&rows));
        let baseline = input.baseline.iter().map(|c| c.gather_f64(&rows)).collect();
        Ok(Training { rows, numbers, codes, weight, baseline })
    }

    /// They as a table without features.
    pub fn input(&self, input: &Input<'_>) -> Input<'_> {
        let named = |c: &Column<'_>| c.name().to_string();
        Input {
            features: vec![],
            target: match &input.target {
                Target::Numbers(column) => Target::Numbers(Column::from_f64(named(column), &self.numbers)),
                Target::Classes { labels, .. } => Target::Classes { codes: &self.codes, labels: labels.clone() },
            },
            target_name: input.target_name.clone(),
            weight: input.weight.as_ref().zip(self.weight.as_ref()).map(|(c, w)| Column::from_f64(named(c), w)),
            baseline: input.baseline.iter().zip(&self.baseline).map(|(c, b)| Column::from_f64(named(c), b)).collect(),
            held_out: None,
        }
    }

    /// The weights of that table. Those of classes say nothing where there is one label, and may name others.
    pub fn weights(&self, table: &Input<'_>, params: &BoostingParams) -> Result<Option<Weights>> {
        match &table.target {
            Target::Classes { labels, .. } if labels.len() == 1 => {
                row_weights(table, &BoostingParams { class_weight: ClassWeight::None, ..params.clone() })
            }
            _ => row_weights(table, params),
        }
    }
}
