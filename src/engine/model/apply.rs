//! Scores, probabilities, classes and leaves of rows.
use super::Model;
use crate::column::Column;
use crate::error::Result;

/// A model made ready to be applied many times.
pub struct Predictor {
    model: Model,
}

impl Predictor {
    /// Prepares `model`.
    pub fn new(model: Model) -> Self {
        Predictor { model }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The columns that the model names, in its order, found by name among `columns`; others are
    /// ignored.
    ///
    /// # Errors
    /// Names every column that is missing, or whose type differs from the fitted one.
    pub fn bind<'c, 'a>(&self, columns: &'c [Column<'a>]) -> Result<Vec<&'c Column<'a>>> {
        let _ = columns;
        unimplemented!()
    }

    /// Raw scores of all rows, one vector for each output. `columns` as [`Predictor::bind`] gives them.
    pub fn raw(&self, columns: &[&Column<'_>]) -> Vec<Vec<f64>> {
        let _ = columns;
        unimplemented!()
    }

    /// Turns raw scores into predictions in place: the identity, probabilities (of the second
    /// class, or one for each class) or the exponential, by the loss's link.
    pub fn link(&self, raw: &mut [Vec<f64>]) {
        let _ = raw;
        unimplemented!()
    }

    /// The index of the class with the largest raw score, the lower one at a tie.
    pub fn class(&self, raw: &[Vec<f64>]) -> Vec<u32> {
        let _ = raw;
        unimplemented!()
    }

    /// The leaf of every row in every tree, row after row: `out[row * trees + tree]`.
    pub fn leaves(&self, columns: &[&Column<'_>]) -> Vec<u32> {
        let _ = columns;
        unimplemented!()
    }

    /// Raw scores after every round: `out[output][row * rounds + round]`.
    pub fn staged(&self, columns: &[&Column<'_>]) -> Vec<Vec<f64>> {
        let _ = columns;
        unimplemented!()
    }
}
