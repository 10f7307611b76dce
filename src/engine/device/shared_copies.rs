//! A model on several GPUs, each of which applies it to a share of the rows.

use super::predict::{ExplainerCopy, ForestCopy, ModelCopy};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use taiga_core::column::Column;
use taiga_core::error::Result;
use taiga_core::learners::boosting::model::apply::Predictor;
use taiga_core::learners::boosting::model::shap::ShapValues;
use taiga_core::learners::forest;
use taiga_core::shap::{Explanation, Terms};

/// Fewer rows are no share: a launch costs what so many rows do.
const FEWEST_ROWS: usize = 1 << 16;

/// The copies of a model on several GPUs, which answers as one of them does. Few rows go to one GPU, those of the next call to the next.
pub struct SharedCopies<C: ?Sized> {
    copies: Vec<Box<C>>,
    /// The copy that the next call begins with.
    next: AtomicUsize,
}

impl<C: ?Sized + Send + Sync> SharedCopies<C> {
    /// Makes one of a copy on each GPU, at least one.
    pub fn new(copies: Vec<Box<C>>) -> Self {
        SharedCopies { copies, next: AtomicUsize::new(0) }
    }

    /// Makes the same of every copy, such as what explains it.
    fn each<E: ?Sized>(&self, make: impl Fn(&C) -> Result<Box<E>>) -> Result<SharedCopies<E>> {
        let copies = self.copies.iter().map(|copy| make(copy)).collect::<Result<_>>()?;
        Ok(SharedCopies { copies, next: AtomicUsize::new(0) })
    }

    /// Asks the copies, each of consecutive rows; the answers in the rows' order.
    ///
    /// # Errors
    /// The first of theirs.
    fn ask<R: Send>(&self, columns: &[&Column<'_>], ask: impl Fn(&C, &[&Column<'_>]) -> Result<R> + Sync) -> Result<Vec<R>> {
        let rows = columns.first().map_or(0, |column| column.len());
        let shares = (rows / FEWEST_ROWS).clamp(1, self.copies.len());
        let first = self.next.fetch_add(shares, Ordering::Relaxed);
        let copy = |share: usize| &*self.copies[(first.wrapping_add(share)) % self.copies.len()];
        if shares == 1 {
            return Ok(vec![ask(copy(0), columns)?]);
        }
        let of_share = |share: usize| {
            let (start, end) = (share * rows / shares, (share + 1) * rows / shares);
            let own: Vec<Column<'_>> = columns.iter().map(|column| column.slice(start, end - start)).collect();
            ask(copy(share), &own.iter().collect::<Vec<_>>())
        };
        thread::scope(|scope| {
            let of_share = &of_share;
            let others: Vec<_> = (1..shares).map(|share| scope.spawn(move || of_share(share))).collect();
            let own = of_share(0);
            let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            [own].into_iter().chain(others).collect()
        })
    }
}

/// Puts `[output][row]`s one behind the other, row by row.
fn join_rows(shares: Vec<Vec<Vec<f64>>>) -> Vec<Vec<f64>> {
    let mut shares = shares.into_iter();
    let mut all = shares.next().unwrap_or_default();
    shares.for_each(|share| all.iter_mut().zip(share).for_each(|(all, own)| all.extend(own)));
    all
}

/// The same of `[output][term][row]`s.
fn join_terms(shares: Vec<Vec<Vec<Vec<f64>>>>) -> Vec<Vec<Vec<f64>>> {
    let outputs = shares.first().map_or(0, Vec::len);
    let mut shares: Vec<_> = shares.into_iter().map(Vec::into_iter).collect();
    (0..outputs).map(|_| join_rows(shares.iter_mut().filter_map(Iterator::next).collect())).collect()
}

impl ModelCopy for SharedCopies<dyn ModelCopy> {
    fn raw(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        self.ask(columns, |copy, columns| copy.raw(columns)).map(join_rows)
    }

    fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        self.ask(columns, |copy, columns| copy.leaves(columns)).map(|shares| shares.concat())
    }

    fn staged(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        self.ask(columns, |copy, columns| copy.staged(columns)).map(join_rows)
    }

    fn explainer(&self, predictor: &Predictor, shap: Arc<ShapValues>, terms: Terms) -> Result<Box<dyn ExplainerCopy>> {
        Ok(Box::new(self.each(|copy| copy.explainer(predictor, shap.clone(), terms))?))
    }
}

impl ForestCopy for SharedCopies<dyn ForestCopy> {
    fn predict(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        self.ask(columns, |copy, columns| copy.predict(columns)).map(join_rows)
    }

    fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        self.ask(columns, |copy, columns| copy.leaves(columns)).map(|shares| shares.concat())
    }

    fn explainer(
        &self,
        predictor: &forest::Predictor,
        shap: Arc<forest::shap::ShapValues>,
        terms: Terms,
    ) -> Result<Box<dyn ExplainerCopy>> {
        Ok(Box::new(self.each(|copy| copy.explainer(predictor, shap.clone(), terms))?))
    }
}

impl ExplainerCopy for SharedCopies<dyn ExplainerCopy> {
    fn explain(&self, columns: &[&Column<'_>]) -> Result<Explanation> {
        let shares = self.ask(columns, |copy, columns| copy.explain(columns))?;
        let (values, interactions) = shares.into_iter().map(|share| (share.values, share.interactions)).unzip();
        Ok(Explanation { values: join_terms(values), interactions: join_terms(interactions) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taiga_core::error::Error;

    /// Explains a row by its own value, under the number of the copy, and fails at a negative one.
    struct Echo(f64);

    impl ExplainerCopy for Echo {
        fn explain(&self, columns: &[&Column<'_>]) -> Result<Explanation> {
            let values = columns[0].to_f64();
            if values.iter().any(|x| *x < 0.0) {
                return Err(Error::Data("a test".into()));
            }
            let copies = vec![self.0; values.len()];
            Ok(Explanation { values: vec![vec![values.clone()], vec![copies]], interactions: vec![vec![values.clone(), values]] })
        }
    }

    fn three() -> SharedCopies<dyn ExplainerCopy> {
        SharedCopies::new((0..3).map(|k| Box::new(Echo(f64::from(k))) as Box<dyn ExplainerCopy>).collect())
    }

    /// Proves that answers come in the rows' order whatever the number of shares, that every copy has its part of many rows, and that few
    /// go to one copy, of the next call to the next.
    #[test]
    fn answers_are_in_the_order_of_the_rows() {
        let three = three();
        for rows in [0, 1, FEWEST_ROWS, 2 * FEWEST_ROWS + 1, 3 * FEWEST_ROWS + 77, 9 * FEWEST_ROWS + 5] {
            let wanted: Vec<f64> = (0..rows).map(|row| row as f64).collect();
            let Explanation { values, interactions } = three.explain(&[&Column::from_f64("x", &wanted)]).unwrap();
            assert!(values[0] == [wanted.clone()] && interactions == [[wanted.clone(), wanted.clone()]], "{rows} rows");
            let copies = values[1][0].chunk_by(|a, b| a == b).count();
            assert_eq!(copies, (rows / FEWEST_ROWS).clamp(1, 3).min(rows), "{rows} rows");
        }
        let of_one = |three: &SharedCopies<dyn ExplainerCopy>| three.explain(&[&Column::from_f64("x", &[1.0])]).unwrap().values[1][0][0];
        let first = of_one(&three);
        assert_eq!((of_one(&three), of_one(&three), of_one(&three)), ((first + 1.0) % 3.0, (first + 2.0) % 3.0, first));
    }

    /// Proves that one copy's error is the error of all.
    #[test]
    fn an_error_of_a_copy_is_told() {
        let mut values = vec![1.0; 4 * FEWEST_ROWS];
        values[3 * FEWEST_ROWS] = -1.0;
        assert_eq!(three().explain(&[&Column::from_f64("x", &values)]).err(), Some(Error::Data("a test".into())));
    }
}
