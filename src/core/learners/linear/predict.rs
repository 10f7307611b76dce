//! Scores, probabilities and classes of rows.

use super::csr::{Csr, FeatureNumbers};
use super::model::{LinearModel, SparseFeatures};
use super::rows::SparseRows;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::memory;
use crate::numerics::math::{sigmoid_in_place, softmax_in_place};
use crate::parallel::interrupt::pieces;
use crate::parallel::thread_pool::ThreadPool;
use std::collections::HashMap;

/// Up to so many cells, or so many for each coefficient, the coefficients stand in an array by feature number.
const ARRAY_CELLS: u64 = 1 << 26;
const ARRAY_SHARE: u64 = 64;

/// Rows of a table that fit a model, checked and read.
pub struct ReadRows<'c, 'a> {
    /// The number of rows.
    pub rows: usize,
    /// The lists, where the model reads some.
    pub csr: Option<Csr<'a>>,
    /// The dense columns, in the model's order.
    pub dense: &'c [&'c Column<'a>],
}

/// Where the coefficients of a feature are.
enum Lookup {
    /// By feature number: `weights[number * outputs + output]`, up to the largest number that has any.
    Array(Vec<f32>),
    /// The place among the model's `numbers`.
    Table(HashMap<u64, usize>),
}

/// A model made ready to be applied many times.
///
/// One thread does the work; callers split the rows. The result of a row depends on nothing but the model and the row.
pub struct Predictor {
    model: LinearModel,
    lookup: Lookup,
}

impl Predictor {
    /// Prepares `model`: in time of the order of its coefficients and, where that is not much more, of its features.
    ///
    /// # Panics
    /// May panic for a model for which [`LinearModel::validate`] fails; a fitted or parsed one is valid.
    pub fn new(model: LinearModel) -> Self {
        let outputs = model.outputs();
        let cells = model.numbers.last().map_or(0, |n| n + 1).saturating_mul(outputs as u64);
        let lookup = if cells <= ARRAY_CELLS.min(4096 + ARRAY_SHARE * model.weights.len() as u64) {
            let mut array = crate::pages::filled(0.0, cells as usize);
            for (number, weights) in model.numbers.iter().zip(model.weights.chunks_exact(outputs)) {
                array[*number as usize * outputs..][..outputs].copy_from_slice(weights);
            }
            Lookup::Array(array)
        } else {
            Lookup::Table(model.numbers.iter().enumerate().map(|(at, n)| (*n, at)).collect())
        };
        Predictor { model, lookup }
    }

    /// The model.
    pub fn model(&self) -> &LinearModel {
        &self.model
    }

    /// Returns the coefficients by feature number, `[number * outputs + output]`, where they are kept so; else they are found in the
    /// model, whose numbers ascend.
    pub fn coefficients_by_number(&self) -> Option<&[f32]> {
        match &self.lookup {
            Lookup::Array(array) => Some(array),
            Lookup::Table(_) => None,
        }
    }

    /// The model's dense columns, in its order, found by name among `columns`; others are ignored.
    ///
    /// # Errors
    /// Names a column that is missing, stands twice, or has another type than the fitted one.
    pub fn bind<'c, 'a>(&self, columns: &'c [Column<'a>]) -> Result<Vec<&'c Column<'a>>> {
        let find = |name: &str, dtype| {
            let mut with_name = columns.iter().filter(|c| c.name() == name);
            let Some(column) = with_name.next() else {
                return Err(Error::Data(format!("the model needs a column that is missing: `{name}` ({dtype})")));
            };
            if with_name.next().is_some() {
                return Err(Error::column(name, "stands twice among the columns to predict from"));
            }
            if column.dtype() != dtype {
                return Err(Error::column(name, format!("is {}, the model was fitted on {dtype}", column.dtype())));
            }
            Ok(column)
        };
        self.model.dense.iter().map(|d| find(&d.name, &d.dtype)).collect()
    }

    /// Raw scores of all rows, one vector for each output: the log odds of the second class, or a score for each class.
    ///
    /// `sparse` where the model has sparse features (its columns' names don't matter), and `dense` as [`Predictor::bind`]
    /// gives them. A feature that the model does not know, one beyond the fit's `features` included, counts for nothing, as one
    /// does that the fit never met.
    ///
    /// # Errors
    /// Where sparse rows are missing or too many, strings stand where numbers did or the other way round, lengths differ, and
    /// for what a fit refuses in a row: a negative number, a value that is not finite, lists of different lengths.
    pub fn raw(&self, sparse: Option<&SparseRows<'_>>, dense: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        let outputs = self.model.outputs();
        let rows = self.check(sparse, dense)?;
        let what = || format!("{outputs} scores of {rows} rows");
        let needed = memory::product(&[8, rows as u64, outputs as u64]);
        if needed >= 1 << 20 {
            memory::check(&what(), needed, "predict fewer rows at a time (a lazy query streams)")?;
        }
        let of_output = |b: &f64| crate::pages::try_filled("the scores", *b, rows);
        let mut out = self.model.intercepts.iter().map(of_output).collect::<Result<Vec<Vec<f64>>>>()?;
        let mut values = vec![];
        for (column, weights) in dense.iter().zip(self.model.dense_weights.chunks_exact(outputs)) {
            let values = column.borrow_f64(0, rows, &mut values);
            super::check_dense(column.name(), values)?;
            for (out, w) in out.iter_mut().zip(weights) {
                out.iter_mut().zip(values).for_each(|(o, x)| *o += w * x);
            }
        }
        self.add_sparse(sparse, &mut out)?;
        Ok(out)
    }

    /// Checks and reads rows, for devices that apply the model by themselves; what stands in dense columns is for them to check, by
    /// [`super::check_dense`].
    ///
    /// # Errors
    /// As [`Predictor::raw`].
    pub fn read<'c, 'a>(&self, sparse: Option<&SparseRows<'a>>, dense: &'c [&'c Column<'a>]) -> Result<ReadRows<'c, 'a>> {
        Ok(ReadRows { rows: self.check(sparse, dense)?, csr: self.lists(sparse)?, dense })
    }

    /// Reads the lists, where the model reads some.
    fn lists<'a>(&self, sparse: Option<&SparseRows<'a>>) -> Result<Option<Csr<'a>>> {
        let (Some(sparse), Some(features)) = (sparse, &self.model.sparse) else { return Ok(None) };
        Csr::new(sparse, features.numbering.hash_bits(), &ThreadPool::new(1)?).map(Some)
    }

    /// Adds what the sparse rows give to each output's scores.
    pub(super) fn add_sparse(&self, sparse: Option<&SparseRows<'_>>, out: &mut [Vec<f64>]) -> Result<()> {
        let Some(csr) = self.lists(sparse)? else { return Ok(()) };
        let outputs = self.model.outputs();
        match &self.lookup {
            Lookup::Array(array) => add(out, &csr, |n| {
                let at = usize::try_from(n).ok()?.checked_mul(outputs)?;
                // Of the largest number that there is the end wraps around, and nothing is there.
                array.get(at..at.wrapping_add(outputs))
            }),
            Lookup::Table(table) => add(out, &csr, |n| table.get(&n).map(|at| &self.model.weights[at * outputs..][..outputs])),
        }
        Ok(())
    }

    /// The number of rows, if all columns are there and have it.
    pub(super) fn check(&self, sparse: Option<&SparseRows<'_>>, dense: &[&Column<'_>]) -> Result<usize> {
        match (&self.model.sparse, sparse) {
            (Some(features), None) => return Err(Error::column(&features.column, "the model needs this column of lists")),
            (None, Some(rows)) => return Err(Error::column(&rows.features.name, "the model was fitted without sparse rows")),
            (Some(SparseFeatures { values: Some(name), .. }), Some(SparseRows { values: None, .. })) => {
                return Err(Error::column(name, "the model needs this column of values"));
            }
            (Some(SparseFeatures { values: None, column, .. }), Some(SparseRows { values: Some(_), .. })) => {
                return Err(Error::column(column, "the model was fitted without values"));
            }
            _ => {}
        }
        if dense.len() != self.model.dense.len() {
            return Err(Error::Data(format!("{} dense columns for a model of {}", dense.len(), self.model.dense.len())));
        }
        let mut lengths =
            sparse.map(|s| (s.features.name.as_str(), s.features.len())).into_iter().chain(dense.iter().map(|c| (c.name(), c.len())));
        let Some((first, rows)) = lengths.next() else { return Ok(0) };
        match lengths.find(|(_, len)| *len != rows) {
            Some((name, len)) => Err(Error::column(name, format!("has {len} rows where `{first}` has {rows}"))),
            None => Ok(rows),
        }
    }

    /// Turns raw scores into probabilities in place: of the second class, or one for each class.
    pub fn link(&self, raw: &mut [Vec<f64>]) {
        match raw {
            [score] => sigmoid_in_place(score),
            scores => softmax_in_place(scores),
        }
    }

    /// The index of the class with the largest raw score, the lower one at a tie; of two classes the second where its score is
    /// above 0, which is a probability above a half.
    pub fn class(&self, raw: &[Vec<f64>]) -> Vec<u32> {
        crate::model::bind::largest(raw, self.model.labels.len())
    }
}

/// Adds each row's products to its scores, entry after entry.
fn add<'w>(out: &mut [Vec<f64>], csr: &Csr<'_>, weights: impl Fn(u64) -> Option<&'w [f32]>) {
    let mut row = 0;
    for piece in &csr.pieces {
        for i in pieces(0..piece.rows()).flatten() {
            for at in piece.span(i) {
                let number = match &piece.keys {
                    FeatureNumbers::Narrow(k) => k[at] as u64,
                    FeatureNumbers::Wide(k) => k[at],
                };
                let Some(weights) = weights(number) else { continue };
                let x = piece.values.as_ref().map_or(1.0, |v| v[at] as f64);
                out.iter_mut().zip(weights).for_each(|(o, w)| o[row] += *w as f64 * x);
            }
            row += 1;
        }
    }
}
