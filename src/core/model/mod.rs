//! What all fitted models share: features as a model knows them, the curve of a metric, and the parts of their bytes ([`payload`]),
//! their JSON ([`json`], [`from_json`]) and their checks ([`validate`]); and the trait of all of them ([`fitted`]).
//!
//! - [`score`]: how good predictions are; [`importance`]: how much each column matters to them; [`bind`]: columns found by name;
//!   [`code_search`]: from values to the codes that a compiled model tests.

pub mod bind;
pub mod code_search;
pub mod fitted;
pub mod from_json;
pub mod importance;
pub mod json;
pub mod payload;
pub mod score;
pub mod validate;

use crate::column::categories::Categories;
use crate::column::{Column, FeatureType};
use crate::dataset::Input;
use crate::metrics::MetricSpec;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// The features of a model that asks about none of them.
pub fn unasked(input: &Input<'_>) -> Vec<Feature> {
    let unasked = |c: &Column<'_>| Feature { name: c.name().into(), dtype: c.dtype().clone(), borders: vec![], categories: None };
    input.features.iter().map(unasked).collect()
}

/// A feature as the model knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Feature {
    /// The column's name.
    pub name: String,
    /// The type that a column must have to serve.
    pub dtype: FeatureType,
    /// Ascending and finite (or -∞), at most 255 of a fit: a split sends `x > border` right. None for a
    /// categorical column, which only features derived from it ask about.
    pub borders: Vec<f64>,
    /// The categories of a categorical column that is asked about.
    pub categories: Option<Categories>,
}

/// The metrics of the measured rows after each round: the one that decides, and any others.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The metric that decides.
    pub metric: MetricSpec,
    /// The name of the rows that it is of, where held-out rows have one.
    pub set: Option<String>,
    /// One value a round that was fitted, also of those that were cut off again.
    pub values: Vec<f64>,
    /// The round (from 0) with the best value; with early stopping, the last one that was kept.
    pub best: u32,
    /// What is measured besides, each with as many values.
    pub others: Vec<Curve>,
}

/// One metric of some rows, round after round.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub metric: MetricSpec,
    /// The name of the rows, where they have one; [`TRAINING`] for those that are trained on.
    pub set: Option<String>,
    pub values: Vec<f64>,
}

/// What the rows that are trained on are called where they are measured.
pub const TRAINING: &str = "train";

impl History {
    /// Begins the curve of a metric.
    pub fn new(metric: impl Into<MetricSpec>) -> History {
        History { metric: metric.into(), set: None, values: vec![], best: 0, others: vec![] }
    }

    /// Begins the curves of metrics and sets, of which the first decides; none where there are none.
    pub fn of(curves: impl IntoIterator<Item = (Option<String>, MetricSpec)>) -> Option<History> {
        let mut curves = curves.into_iter();
        let (set, metric) = curves.next()?;
        let others = curves.map(|(set, metric)| Curve { metric, set, values: vec![] }).collect();
        Some(History { set, others, ..History::new(metric) })
    }

    /// Adds the values of the next round, one a curve. Returns whether the first is the best so far; `min_delta`: see
    /// [`History::push_by`].
    pub fn push_all(&mut self, values: &[f64], min_delta: f64) -> bool {
        self.others.iter_mut().zip(&values[1..]).for_each(|(curve, value)| curve.values.push(*value));
        self.push_by(values[0], min_delta)
    }

    /// Returns all curves: set, metric and values, that which decides first.
    pub fn curves(&self) -> impl Iterator<Item = (Option<&str>, &MetricSpec, &[f64])> {
        let first = (self.set.as_deref(), &self.metric, &self.values[..]);
        std::iter::once(first).chain(self.others.iter().map(|c| (c.set.as_deref(), &c.metric, &c.values[..])))
    }

    /// Returns the history of its first rounds; `min_delta`: see [`History::push_by`].
    pub fn head(&self, rounds: usize, min_delta: f64) -> History {
        let of = |values: &[f64]| values[..rounds.min(values.len())].to_vec();
        let others = self.others.iter().map(|c| Curve { values: of(&c.values), ..c.clone() }).collect();
        let mut head = History { metric: self.metric.clone(), set: self.set.clone(), values: vec![], best: 0, others };
        of(&self.values).into_iter().for_each(|value| {
            head.push_by(value, min_delta);
        });
        head
    }

    /// Adds the value of the next round. Returns whether it is the best so far.
    pub fn push(&mut self, value: f64) -> bool {
        self.push_by(value, 0.0)
    }

    /// Adds the value of the next round. Returns whether it is the best so far, by more than `min_delta`: one that is better by less
    /// counts as no better.
    pub fn push_by(&mut self, value: f64, min_delta: f64) -> bool {
        let is_best = |best: &f64| {
            self.metric.better(value, *best)
                && !matches!((value - best).abs().partial_cmp(&min_delta), Some(Ordering::Less | Ordering::Equal))
        };
        let best = self.values.get(self.best as usize).is_none_or(is_best);
        if best {
            self.best = self.values.len() as u32;
        }
        self.values.push(value);
        best
    }

    /// Returns the number of rounds since the best one.
    pub fn rounds_since_best(&self) -> u32 {
        self.values.len() as u32 - 1 - self.best
    }
}

/// Predictions of rows by the trees that they were not drawn for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutOfBag {
    /// Accuracy for classes, R² for numbers (scikit-learn's `oob_score_`), over the rows that some
    /// tree was not drawn from.
    pub score: f64,
    /// The log loss, for classes. Probabilities of 0 count as 2^-52.
    pub log_loss: Option<f64>,
    /// `[output][row]`: the shares of the classes (or the mean), over the trees that the row was not
    /// drawn for; NaN where there is none, and for rows of weight 0.
    pub predictions: Vec<Vec<f64>>,
}
