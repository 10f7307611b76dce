//! A fitted model of any learner on the device that applies it.

use taiga_core::column::Column;
use taiga_core::encoding::Lookup;
use taiga_core::error::{Error, Result};
use taiga_core::learners::linear::SparseRows;
use taiga_core::model::fitted::FittedModel;
use taiga_core::shap::{Explanation, Terms};

/// The rows that a model is applied to.
pub struct ModelRows<'r, 'a> {
    /// Dense columns, found by name; others than the model's are ignored.
    pub columns: &'r [Column<'a>],
    /// Lists of features, for a model that reads them.
    pub sparse: Option<&'r SparseRows<'a>>,
}

/// What can be asked of rows. A new output has its name here, its arm in what each learner's [`AppliedModel::outputs`] does, and its
/// place in the walk through the trees (`Asked` of the learner's predictor).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// The values of a regression, the probabilities of the second of two classes, or those of each of more: `[output][row]`.
    Predictions,
    /// Raw scores: `[output][row]`.
    Raw,
    /// The index of the likeliest class of each row.
    Class,
    /// The leaf of every row in every tree, row after row: `[row * trees + tree]`.
    Leaves,
    /// The predictions after every round: `[output][row * rounds + round]`.
    Staged,
}

/// The values of one [`Output`], laid out as it says.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Numbers(Vec<Vec<f64>>),
    Indices(Vec<u32>),
}

/// A result of a walk that several outputs are made of: the last of them takes it, the others get copies.
pub(super) struct Shared<T> {
    value: Option<T>,
    uses: usize,
}

impl<T: Clone> Shared<T> {
    /// Shares a result among those of `wanted` that `uses` holds for.
    pub fn new(value: Option<T>, wanted: &[Output], uses: impl Fn(&Output) -> bool) -> Self {
        Shared { value, uses: wanted.iter().filter(|o| uses(o)).count() }
    }

    /// Returns the result for the next output that is made of it.
    ///
    /// # Errors
    /// Where the walk was not asked for it.
    pub fn take(&mut self) -> Result<T> {
        self.uses = self.uses.saturating_sub(1);
        let value = if self.uses == 0 { self.value.take() } else { self.value.clone() };
        value.ok_or_else(|| Error::Data("an output was not computed".into()))
    }
}

/// A fitted model on its device. What not every model has is an error that says so.
///
/// The result of a row depends on nothing but the model and the row; one thread does the work, callers split the rows.
pub trait AppliedModel: Send + Sync {
    /// Returns the model by itself.
    fn model(&self) -> &dyn FittedModel;

    /// Returns whether rows go to another device, which wants many at a time.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns how many numbers are computed of a row for [`Output::Predictions`].
    fn numbers_a_row(&self) -> usize {
        self.model().facts().outputs
    }

    /// Returns the table from labels to codes of one of [`FittedModel::columns`], where the model asks about its categories.
    fn lookup(&self, _column: usize) -> Option<&Lookup> {
        None
    }

    /// Computes several outputs of the same rows, in their order, in one walk of the rows through the model.
    ///
    /// # Errors
    /// For rows that do not fit the model, for an output that the model does not have, and those of the device.
    fn outputs(&self, rows: &ModelRows<'_, '_>, wanted: &[Output]) -> Result<Vec<Values>>;

    /// Prepares explanations against the training rows, or against those of a background.
    ///
    /// # Errors
    /// For rows that do not fit the model or are none, for a model that does not know its training rows' part, and for a device that
    /// does not explain.
    fn explainer(&self, background: Option<&ModelRows<'_, '_>>) -> Result<Box<dyn RowExplainer>>;

    /// Computes the mean over the training rows of the raw score (of a forest the prediction) of rows of which only some of
    /// [`FittedModel::explained_columns`] are known, given by their index: `[output][row]`. What stands in the others does not matter.
    ///
    /// # Errors
    /// For rows that do not fit the model, for a model that does not know its training rows' part or asks about a known column together
    /// with another, and for a device that does not explain.
    fn known_scores(&self, rows: &ModelRows<'_, '_>, known: &[u32]) -> Result<Vec<Vec<f64>>>;
}

/// What a model's predictions are made of: of each of [`FittedModel::explained_columns`] a part, which sum to the raw score (a
/// forest's prediction) less a base value.
///
/// The result of a row depends on nothing but the model, the background and the row; one thread does the work.
pub trait RowExplainer: Send + Sync {
    /// Returns for each output what a row gets of which nothing is known.
    fn base(&self) -> &[f64];

    /// Explains rows.
    ///
    /// # Errors
    /// For rows that do not fit the model.
    fn explain(&self, rows: &ModelRows<'_, '_>, terms: Terms) -> Result<Explanation>;
}

/// The error for what a model, which is `what_it_is`, does not have.
pub fn has_no(model: &dyn FittedModel, what_it_is: &str, what: &str) -> Error {
    Error::Data(format!("the model of `{}` is {what_it_is}, which has no {what}", model.facts().target))
}
