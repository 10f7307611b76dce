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

    /// Returns how many numbers are computed of a row for [`AppliedModel::predict`].
    fn numbers_a_row(&self) -> usize {
        self.model().facts().outputs
    }

    /// Returns the table from labels to codes of one of [`FittedModel::columns`], where the model asks about its categories.
    fn lookup(&self, _column: usize) -> Option<&Lookup> {
        None
    }

    /// Computes the values of a regression, the probabilities of the second of two classes, or those of each of more:
    /// `[output][row]`.
    ///
    /// # Errors
    /// For rows that do not fit the model, and those of the device.
    fn predict(&self, rows: &ModelRows<'_, '_>) -> Result<Vec<Vec<f64>>>;

    /// Computes the index of the likeliest class of each row.
    ///
    /// # Errors
    /// As [`AppliedModel::predict`].
    fn class(&self, rows: &ModelRows<'_, '_>) -> Result<Vec<u32>>;

    /// Computes raw scores: `[output][row]`.
    ///
    /// # Errors
    /// As [`AppliedModel::predict`], and for a model that has none.
    fn raw(&self, _rows: &ModelRows<'_, '_>) -> Result<Vec<Vec<f64>>> {
        Err(has_no(self.model(), self.model().facts().noun, "raw scores"))
    }

    /// Computes the leaf of every row in every tree, row after row: `[row * trees + tree]`.
    ///
    /// # Errors
    /// As [`AppliedModel::predict`], and for a model that has none.
    fn leaves(&self, _rows: &ModelRows<'_, '_>) -> Result<Vec<u32>> {
        Err(has_no(self.model(), self.model().facts().noun, "leaves"))
    }

    /// Computes the predictions after every round: `[output][row * rounds + round]`.
    ///
    /// # Errors
    /// As [`AppliedModel::predict`], and for a model that has none.
    fn staged(&self, _rows: &ModelRows<'_, '_>) -> Result<Vec<Vec<f64>>> {
        Err(has_no(self.model(), "not of boosted trees", "stages"))
    }

    /// Prepares explanations against the training rows, or against those of a background.
    ///
    /// # Errors
    /// For rows that do not fit the model or are none, for a model that does not know its training rows' part, and for a device that
    /// does not explain.
    fn explainer(&self, background: Option<&ModelRows<'_, '_>>) -> Result<Box<dyn RowExplainer>>;
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
