//! Shapley values of rows: each column's part in a row's score, `coefficient * (value - mean)`; of a column of lists the sum over its
//! features.

use super::predict::Predictor;
use super::rows::SparseRows;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::shap::{Explanation, Terms};

/// What columns give to the scores of some rows: `[output][column][row]`, that of lists before the dense ones.
type Parts = Vec<Vec<Vec<f64>>>;

/// The mean of what each column gives.
pub struct ShapValues {
    /// `[output][column]`.
    means: Vec<Vec<f64>>,
    /// The mean score of each output.
    pub base: Vec<f64>,
}

impl Predictor {
    /// Prepares explanations against the rows of a background.
    ///
    /// # Errors
    /// As [`Predictor::raw`], and for a background without rows.
    pub fn shap_values(&self, sparse: Option<&SparseRows<'_>>, dense: &[&Column<'_>]) -> Result<ShapValues> {
        let parts = self.parts(sparse, dense)?;
        let mean = |part: &Vec<f64>| part.iter().sum::<f64>() / part.len() as f64;
        if self.check(sparse, dense)? == 0 {
            return Err(Error::Data("the background has no rows".into()));
        }
        let means: Vec<Vec<f64>> = parts.iter().map(|parts| parts.iter().map(mean).collect()).collect();
        let base = self.model().intercepts.iter().zip(&means).map(|(start, means)| start + means.iter().sum::<f64>()).collect();
        Ok(ShapValues { means, base })
    }

    /// Explains the raw scores of all rows: a row's parts sum to its score less [`ShapValues::base`]. No two columns share anything.
    ///
    /// # Errors
    /// As [`Predictor::raw`].
    pub fn explain(&self, shap: &ShapValues, sparse: Option<&SparseRows<'_>>, dense: &[&Column<'_>], terms: Terms) -> Result<Explanation> {
        let rows = self.check(sparse, dense)?;
        let mut values = self.parts(sparse, dense)?;
        for (part, mean) in values.iter_mut().flatten().zip(shap.means.iter().flatten()) {
            part.iter_mut().for_each(|x| *x -= mean);
        }
        let mut interactions = vec![];
        if terms == Terms::Interactions {
            interactions.clone_from(&values);
            interactions.iter_mut().for_each(|own| own.resize_with(terms.count(own.len()), || vec![0.0; rows]));
        }
        Ok(Explanation { values, interactions })
    }

    fn parts(&self, sparse: Option<&SparseRows<'_>>, dense: &[&Column<'_>]) -> Result<Parts> {
        let (model, rows) = (self.model(), self.check(sparse, dense)?);
        let outputs = model.outputs();
        let mut parts: Parts = vec![vec![]; outputs];
        if model.sparse.is_some() {
            let mut scores = vec![vec![0.0; rows]; outputs];
            self.add_sparse(sparse, &mut scores)?;
            parts.iter_mut().zip(scores).for_each(|(parts, scores)| parts.push(scores));
        }
        let mut values = vec![];
        for (column, weights) in dense.iter().zip(model.dense_weights.chunks_exact(outputs)) {
            let values = column.borrow_f64(0, rows, &mut values);
            super::check_dense(column.name(), values)?;
            for (parts, weight) in parts.iter_mut().zip(weights) {
                parts.push(values.iter().map(|x| weight * x).collect());
            }
        }
        Ok(parts)
    }
}
