//! A fitted sparse logistic regression: what it holds, its bytes, and it as JSON.

pub mod envelope;
mod fitted;
mod from_json;
mod json;

pub use crate::model::fitted::{Coefficient, FeatureName};
pub use json::FORMAT;

use super::params::LinearParams;
use crate::column::FeatureType;
use crate::dataset::labels::{Labels, validate_labels};
use crate::error::{Error, Result};
use crate::model::History;
use crate::model::validate::{validate_columns, validate_curves};
use crate::provenance::Provenance;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// What the sparse rows' features are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Numbering {
    /// Integers, of which only those below `features` have been known to the fit.
    Numbers { features: u64 },
    /// Strings: a feature is the lowest `bits` bits of XXH3-64 of its UTF-8 bytes. No sign is hashed: signs even out what
    /// collisions add to sums of many features (Weinberger et al. 2009), but a collision of two strings costs the same with
    /// and without one, and without it equal strings have equal coefficients under equal `hash_bits`.
    Hashed { bits: u32 },
}

impl Numbering {
    /// The number of features there can be.
    pub fn features(&self) -> u64 {
        match self {
            Numbering::Numbers { features } => *features,
            Numbering::Hashed { bits } => 1 << bits,
        }
    }

    /// The bits that strings are hashed to.
    pub(super) fn hash_bits(&self) -> Option<u32> {
        match self {
            Numbering::Numbers { .. } => None,
            Numbering::Hashed { bits } => Some(*bits),
        }
    }
}

/// The columns of sparse rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SparseFeatures {
    /// The name of the column of features.
    pub column: String,
    /// The name of the column of values, where there was one.
    pub values: Option<String>,
    pub numbering: Numbering,
}

/// A dense column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DenseFeature {
    pub name: String,
    /// The type that a column must have to serve.
    pub dtype: FeatureType,
}

/// A fitted sparse logistic regression.
///
/// The raw score of output `k` for a row is `intercepts[k] + Σ dense_weights · values + Σ weights · values`. Of two classes
/// there is one output, the second class's log odds; of more one a class, whose softmax are the probabilities.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearModel {
    /// What it was fitted with (`n_threads` and `device` at their defaults).
    pub params: LinearParams,
    /// The target column's name.
    pub target: String,
    /// The classes.
    pub labels: Labels,
    /// The sparse rows' columns, where there were sparse rows.
    pub sparse: Option<SparseFeatures>,
    /// The dense columns, in the order of fitting.
    pub dense: Vec<DenseFeature>,
    /// The sparse features with a coefficient other than zero for some output, ascending.
    pub numbers: Vec<u64>,
    /// Theirs: `weights[at * outputs + output]`.
    pub weights: Vec<f32>,
    /// Those of the dense columns: `dense_weights[column * outputs + output]`.
    pub dense_weights: Vec<f64>,
    /// One for each output; zeros where none were fitted.
    pub intercepts: Vec<f64>,
    /// What each column gives to each output's score in the mean of the training rows: `means[column * outputs + output]`, that of
    /// lists before the dense ones. None in models from before it was recorded.
    pub means: Option<Vec<f64>>,
    /// The number of training rows.
    pub rows: u64,
    /// The passes over the rows that were done (iterations of `lbfgs`); with early stopping those whose result was kept.
    pub passes: u32,
    /// Whether `lbfgs` reached its `tolerance`.
    pub converged: bool,
    /// The objective of the training rows at the coefficients after the last pass, as [`LinearParams`] defines it; not measured
    /// (NaN) but by `lbfgs`.
    pub objective: f64,
    /// The curve of the metric, one value a pass, where rows were held out.
    pub history: Option<History>,
    /// Where its classes and columns come from.
    pub provenance: Provenance,
}

impl LinearModel {
    /// The number of scores a row: one for two classes, else one a class.
    pub fn outputs(&self) -> usize {
        outputs(self.labels.len())
    }

    /// The names of the columns that it reads: those of features and values of the sparse rows, then the dense ones.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        let sparse = self.sparse.iter().flat_map(|s| std::iter::once(&s.column).chain(&s.values));
        sparse.chain(self.dense.iter().map(|d| &d.name)).map(String::as_str)
    }

    /// The coefficients that are not zero: of sparse features ascending, then of dense columns in their order; of a feature
    /// class after class. Of two classes, the second's.
    pub fn coefficients(&self) -> impl Iterator<Item = Coefficient<'_>> {
        let outputs = self.outputs();
        let class = move |i: usize| if outputs == 1 { 1 } else { (i % outputs) as u32 };
        let sparse = self.weights.iter().enumerate().map(move |(i, w)| Coefficient {
            feature: FeatureName::Number(self.numbers[i / outputs]),
            class: class(i),
            value: *w as f64,
        });
        let dense = self.dense_weights.iter().enumerate().map(move |(i, w)| Coefficient {
            feature: FeatureName::Column { index: (i / outputs) as u32, name: &self.dense[i / outputs].name },
            class: class(i),
            value: *w,
        });
        sparse.chain(dense).filter(|c| c.value != 0.0)
    }

    /// Checks that the model holds together; models from [`LinearModel::from_bytes`] always do.
    ///
    /// # Errors
    /// [`Error::Model`] saying what is wrong.
    pub fn validate(&self) -> Result<()> {
        self.params.validate()?;
        let outputs = self.outputs();
        validate_labels(Some(&self.labels), &self.provenance)?;
        validate_columns(&self.provenance, self.column_names().count())?;
        check(!self.labels.is_empty(), || format!("it has {} classes", self.labels.len()))?;
        check(self.sparse.is_some() || !self.dense.is_empty(), || "it has no features".into())?;
        let mut names = HashSet::with_capacity(self.dense.len());
        let twice = self.dense.iter().find(|d| !names.insert(d.name.as_str()));
        check(twice.is_none(), || format!("the dense column `{}` stands twice", twice.map_or("", |d| d.name.as_str())))?;
        let categorical = self.dense.iter().find(|d| d.dtype == FeatureType::Categorical);
        check(categorical.is_none(), || format!("the dense column `{}` is categorical", categorical.map_or("", |d| d.name.as_str())))?;
        if let Some(bits) = self.sparse.as_ref().and_then(|s| s.numbering.hash_bits()) {
            let most = super::params::MAX_HASH_BITS;
            check((1..=most).contains(&bits), || format!("its strings are hashed to {bits} bits, which is not between 1 and {most}"))?;
        }
        let features = self.sparse.as_ref().map_or(0, |s| s.numbering.features());
        check(self.numbers.windows(2).all(|n| n[0] < n[1]), || "its feature numbers do not ascend".into())?;
        check(self.numbers.last().is_none_or(|n| *n < features), || format!("a feature number is beyond its {features} features"))?;
        for (what, len, wanted) in [
            ("coefficients", self.weights.len(), self.numbers.len().checked_mul(outputs)),
            ("coefficients of columns", self.dense_weights.len(), self.dense.len().checked_mul(outputs)),
            ("intercepts", self.intercepts.len(), Some(outputs)),
        ] {
            check(Some(len) == wanted, || format!("it has {len} {what}"))?;
        }
        let finite = self.weights.iter().all(|w| w.is_finite())
            && self.dense_weights.iter().all(|w| w.is_finite())
            && self.intercepts.iter().all(|w| w.is_finite());
        check(finite, || "a coefficient is not finite".into())?;
        if let Some(means) = &self.means {
            let columns = self.sparse.is_some() as usize + self.dense.len();
            check(Some(means.len()) == columns.checked_mul(outputs), || format!("it has {} means", means.len()))?;
            check(means.iter().all(|x| x.is_finite()), || "a mean is not finite".into())?;
        }
        let Some(h) = &self.history else { return Ok(()) };
        validate_curves(h)?;
        check(h.values.is_empty() || (h.best as usize) < h.values.len(), || format!("the best pass is {} of {}", h.best, h.values.len()))
    }
}

/// The scores a row has for so many classes.
pub(super) fn outputs(classes: usize) -> usize {
    if classes <= 2 { 1 } else { classes }
}

fn check(ok: bool, message: impl FnOnce() -> String) -> Result<()> {
    if ok { Ok(()) } else { Err(Error::Model(format!("the model is not valid: {}", message()))) }
}
