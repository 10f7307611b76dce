//! Shapley values of rows: each column's part in a row's score, `coefficient * (value - mean)`; of a column of lists the sum over its
//! features.

use super::model::LinearModel;
use super::predict::Predictor;
use super::problem::Problem;
use super::rows::SparseRows;
use super::vectors::block_sums;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::numerics::reduce::add_in_order;
use crate::parallel::thread_pool::ThreadPool;
use crate::shap::{Explanation, Terms};

/// What columns give to the scores of some rows: `[output][column][row]`, that of lists before the dense ones.
pub type Parts = Vec<Vec<Vec<f64>>>;

/// The mean of what each column gives.
pub struct ShapValues {
    /// `[output][column]`.
    means: Vec<Vec<f64>>,
    /// The mean score of each output.
    pub base: Vec<f64>,
}

/// Computes what each column gives to each output's score in the mean of the training rows, `[column * outputs + output]`, that of
/// lists before the dense ones; `vector` as [`Problem`] has it.
///
/// # Errors
/// Those of the collective.
pub(super) fn training_means(problem: &Problem<'_>, vector: &[f64], pool: &ThreadPool) -> Result<Vec<f64>> {
    let outputs = problem.outputs;
    let sum = |value: &(dyn Fn(usize) -> f64 + Sync)| problem.of_all_blocks(block_sums(pool, problem.rows, value)).map(add_in_order);
    let mut means = vec![];
    if let Some(csr) = &problem.csr {
        let of_row = |i: usize, output: usize| -> f64 {
            let row = csr.row(i);
            let weight = |key: &u32| vector[*key as usize * outputs + output] as f32 as f64;
            match row.values {
                None => row.keys.iter().map(weight).sum(),
                Some(values) => row.keys.iter().zip(values).map(|(key, x)| weight(key) * *x as f64).sum(),
            }
        };
        for output in 0..outputs {
            means.push(sum(&|i| problem.weight(i) * of_row(i, output))? / problem.total_weight);
        }
    }
    let dense = &vector[problem.width * outputs..problem.intercepts()];
    for (column, weights) in problem.dense.iter().zip(dense.chunks_exact(outputs)) {
        let mut values = vec![];
        let values = column.borrow_f64(0, problem.rows, &mut values);
        // What is held out weighs nothing, whatever stands there.
        let weighed = |i: usize| if problem.weight(i) == 0.0 { 0.0 } else { problem.weight(i) * values[i] };
        let mean = sum(&weighed)? / problem.total_weight;
        means.extend(weights.iter().map(|w| w * mean));
    }
    Ok(means)
}

impl ShapValues {
    /// Makes those of a model, from `[column * outputs + output]`.
    fn new(model: &LinearModel, means: &[f64]) -> Self {
        let outputs = model.outputs();
        let of_output = |k: usize| -> Vec<f64> { means.iter().skip(k).step_by(outputs).copied().collect() };
        let means: Vec<Vec<f64>> = (0..outputs).map(of_output).collect();
        let base = model.intercepts.iter().zip(&means).map(|(start, means)| start + means.iter().sum::<f64>()).collect();
        ShapValues { means, base }
    }

    /// Returns what each column gives in the mean, `[output][column]`, that of lists before the dense ones.
    pub fn means(&self) -> &[Vec<f64>] {
        &self.means
    }
}

/// Returns the explanation of rows whose columns give `values`, `[output][column][row]`: no two columns share anything.
pub fn explanation(values: Parts, rows: usize, terms: Terms) -> Explanation {
    let mut interactions = vec![];
    if terms == Terms::Interactions {
        interactions.clone_from(&values);
        interactions.iter_mut().for_each(|own| own.resize_with(terms.count(own.len()), || vec![0.0; rows]));
    }
    Explanation { values, interactions }
}

impl Predictor {
    /// Prepares explanations against the training rows; none where the model does not know their means.
    pub fn training_shap_values(&self) -> Option<ShapValues> {
        let model = self.model();
        model.means.as_ref().map(|means| ShapValues::new(model, means))
    }

    /// Prepares explanations against the rows of a background.
    ///
    /// # Errors
    /// As [`Predictor::raw`], and for a background without rows.
    pub fn shap_values(&self, sparse: Option<&SparseRows<'_>>, dense: &[&Column<'_>]) -> Result<ShapValues> {
        if self.check(sparse, dense)? == 0 {
            return Err(Error::Data("the background has no rows".into()));
        }
        let parts = self.parts(sparse, dense)?;
        let mean = |part: &Vec<f64>| part.iter().sum::<f64>() / part.len() as f64;
        let columns = parts.first().map_or(0, Vec::len);
        let means: Vec<f64> = (0..columns).flat_map(|c| parts.iter().map(move |parts| mean(&parts[c]))).collect();
        Ok(ShapValues::new(self.model(), &means))
    }

    /// Explains the raw scores of all rows: a row's parts sum to its score less [`ShapValues::base`].
    ///
    /// # Errors
    /// As [`Predictor::raw`].
    pub fn explain(&self, shap: &ShapValues, sparse: Option<&SparseRows<'_>>, dense: &[&Column<'_>], terms: Terms) -> Result<Explanation> {
        let rows = self.check(sparse, dense)?;
        let mut values = self.parts(sparse, dense)?;
        for (part, mean) in values.iter_mut().flatten().zip(shap.means.iter().flatten()) {
            part.iter_mut().for_each(|x| *x -= mean);
        }
        Ok(explanation(values, rows, terms))
    }

    /// Computes the mean raw score of rows of which only some columns are known, `[output][row]`: the others give what they give in the
    /// mean. `known` are indices of columns, that of lists before the dense ones.
    ///
    /// # Errors
    /// As [`Predictor::raw`].
    pub fn known_scores(
        &self,
        shap: &ShapValues,
        sparse: Option<&SparseRows<'_>>,
        dense: &[&Column<'_>],
        known: &[u32],
    ) -> Result<Vec<Vec<f64>>> {
        let rows = self.check(sparse, dense)?;
        let mut scores: Vec<Vec<f64>> = shap.base.iter().map(|base| vec![*base; rows]).collect();
        for ((scores, parts), means) in scores.iter_mut().zip(self.parts(sparse, dense)?).zip(&shap.means) {
            for column in known {
                let (part, mean) = (&parts[*column as usize], means[*column as usize]);
                scores.iter_mut().zip(part).for_each(|(score, x)| *score += x - mean);
            }
        }
        Ok(scores)
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
