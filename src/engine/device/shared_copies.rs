//! A model on several GPUs, each of which applies it to a share of the rows.

use super::predict::{ExplainerCopy, ForestCopy, LinearCopy, ModelCopy};
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use taiga_core::column::Column;
use taiga_core::error::Result;
use taiga_core::learners::boosting::model::apply::Predictor;
use taiga_core::learners::boosting::model::shap::ShapValues;
use taiga_core::learners::forest;
use taiga_core::learners::linear::predict::ReadRows;
use taiga_core::learners::linear::shap::Parts;
use taiga_core::pages;
use taiga_core::shap::{Explanation, Terms};

/// Fewer rows are no share: a launch costs what so many rows do.
const FEWEST_ROWS: usize = 1 << 16;

/// Rows of an answer that a thread copies at a time.
const BLOCK_ROWS: usize = 1 << 16;

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
    fn ask_rows<R: Send>(&self, rows: usize, ask: impl Fn(&C, Range<usize>) -> Result<R> + Sync) -> Result<Vec<R>> {
        let shares = (rows / FEWEST_ROWS).clamp(1, self.copies.len());
        let first = self.next.fetch_add(shares, Ordering::Relaxed);
        let of_share = |share: usize| {
            let copy = &*self.copies[(first.wrapping_add(share)) % self.copies.len()];
            ask(copy, share * rows / shares..(share + 1) * rows / shares)
        };
        if shares == 1 {
            return Ok(vec![of_share(0)?]);
        }
        thread::scope(|scope| {
            let of_share = &of_share;
            let others: Vec<_> = (1..shares).map(|share| scope.spawn(move || of_share(share))).collect();
            let own = of_share(0);
            let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            [own].into_iter().chain(others).collect()
        })
    }

    /// The same of columns.
    ///
    /// # Errors
    /// As above.
    fn ask<R: Send>(&self, columns: &[&Column<'_>], ask: impl Fn(&C, &[&Column<'_>]) -> Result<R> + Sync) -> Result<Vec<R>> {
        self.ask_rows(columns.first().map_or(0, |column| column.len()), |copy, rows| {
            let own: Vec<Column<'_>> = columns.iter().map(|column| column.slice(rows.start, rows.len())).collect();
            ask(copy, &own.iter().collect::<Vec<_>>())
        })
    }
}

/// Puts `[output][row]`s one behind the other, row by row.
///
/// # Errors
/// [`taiga_core::Error::Memory`].
fn join_rows(mut shares: Vec<Vec<Vec<f64>>>) -> Result<Vec<Vec<f64>>> {
    if shares.len() == 1 {
        return Ok(shares.swap_remove(0));
    }
    let outputs = shares.first().map_or(0, Vec::len);
    let mut shares: Vec<_> = shares.into_iter().map(Vec::into_iter).collect();
    (0..outputs).map(|_| join(&shares.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())).collect()
}

/// Copies the parts to one vector, one behind the other, on all threads: one thread alone would take longer than the GPUs.
///
/// # Errors
/// [`taiga_core::Error::Memory`].
fn join(parts: &[Vec<f64>]) -> Result<Vec<f64>> {
    pages::filled_by("what a model gives of all rows", parts.iter().map(Vec::len).sum(), BLOCK_ROWS, |start, out| {
        let mut before = 0;
        for part in parts {
            let own = start.max(before)..(start + out.len()).min(before + part.len());
            if !own.is_empty() {
                out[own.start - start..own.end - start].copy_from_slice(&part[own.start - before..own.end - before]);
            }
            before += part.len();
        }
    })
}

/// As [`join_rows`], of `[output][term][row]`s.
///
/// # Errors
/// [`taiga_core::Error::Memory`].
fn join_terms(shares: Vec<Vec<Vec<Vec<f64>>>>) -> Result<Vec<Vec<Vec<f64>>>> {
    let outputs = shares.first().map_or(0, Vec::len);
    let mut shares: Vec<_> = shares.into_iter().map(Vec::into_iter).collect();
    (0..outputs).map(|_| join_rows(shares.iter_mut().filter_map(Iterator::next).collect())).collect()
}

impl ModelCopy for SharedCopies<dyn ModelCopy> {
    fn raw(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        self.ask(columns, |copy, columns| copy.raw(columns)).and_then(join_rows)
    }

    fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        self.ask(columns, |copy, columns| copy.leaves(columns)).map(|shares| shares.concat())
    }

    fn staged(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        self.ask(columns, |copy, columns| copy.staged(columns)).and_then(join_rows)
    }

    fn explainer(&self, predictor: &Predictor, shap: Arc<ShapValues>, terms: Terms) -> Result<Box<dyn ExplainerCopy>> {
        Ok(Box::new(self.each(|copy| copy.explainer(predictor, shap.clone(), terms))?))
    }
}

impl ForestCopy for SharedCopies<dyn ForestCopy> {
    fn predict(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        self.ask(columns, |copy, columns| copy.predict(columns)).and_then(join_rows)
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
        Ok(Explanation { values: join_terms(values)?, interactions: join_terms(interactions)? })
    }
}

impl SharedCopies<dyn LinearCopy> {
    fn ask_read<R: Send>(
        &self,
        rows: &ReadRows<'_, '_>,
        ask: impl Fn(&(dyn LinearCopy + 'static), &ReadRows<'_, '_>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        self.ask_rows(rows.rows, |copy, own| {
            let columns: Vec<Column<'_>> = rows.dense.iter().map(|column| column.slice(own.start, own.len())).collect();
            let dense: Vec<&Column<'_>> = columns.iter().collect();
            let csr = rows.csr.as_ref().map(|csr| csr.part(own.clone()));
            ask(copy, &ReadRows { rows: own.len(), csr, dense: &dense })
        })
    }
}

impl LinearCopy for SharedCopies<dyn LinearCopy> {
    fn raw(&self, rows: &ReadRows<'_, '_>) -> Result<Vec<Vec<f64>>> {
        self.ask_read(rows, |copy, rows| copy.raw(rows)).and_then(join_rows)
    }

    fn explain(&self, rows: &ReadRows<'_, '_>, means: &[Vec<f64>]) -> Result<Parts> {
        self.ask_read(rows, |copy, rows| copy.explain(rows, means)).and_then(join_terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taiga_core::column::{Chunk, Values};
    use taiga_core::error::Error;
    use taiga_core::learners::linear::csr::Csr;
    use taiga_core::learners::linear::rows::{Items, ListChunk, ListColumn, Offsets, SparseRows};
    use taiga_core::parallel::thread_pool::ThreadPool;

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

    /// Scores a row by its number in the dense column plus the features in its list, and explains it by each alone.
    struct LinearEcho;

    impl LinearCopy for LinearEcho {
        fn raw(&self, rows: &ReadRows<'_, '_>) -> Result<Vec<Vec<f64>>> {
            let parts = self.explain(rows, &[])?;
            Ok(vec![parts[0][0].iter().zip(&parts[0][1]).map(|(dense, lists)| dense + lists).collect()])
        }

        fn explain(&self, rows: &ReadRows<'_, '_>, _: &[Vec<f64>]) -> Result<Parts> {
            let csr = rows.csr.as_ref().expect("lists");
            assert_eq!((csr.rows(), rows.dense[0].len()), (rows.rows, rows.rows));
            let lists = (0..rows.rows).map(|i| csr.row(i).keys.iter().map(|key| f64::from(*key)).sum()).collect();
            Ok(vec![vec![rows.dense[0].to_f64(), lists]])
        }
    }

    /// Proves that shares of lists and dense columns are the same rows, whatever the pieces that lists lie in.
    #[test]
    fn lists_and_dense_columns_are_dealt_alike() {
        let rows = 3 * FEWEST_ROWS + 77;
        let offsets: Vec<i64> = (0..=rows as i64).map(|row| row * 2 - row % 2).collect();
        let keys: Vec<u32> = (0..offsets[rows] as u32).map(|i| i % 1000).collect();
        let numbers: Vec<f64> = (0..rows).map(|row| row as f64 * 1e6).collect();
        let chunk = |own: Range<usize>| ListChunk {
            offsets: Offsets::I64(&offsets[own.start..=own.end]),
            validity: None,
            items: Items::Numbers(Chunk::new(Values::U32(&keys), None)),
        };
        let column = Column::from_f64("x", &numbers);
        let wanted: Vec<f64> = (0..rows)
            .map(|row| numbers[row] + keys[offsets[row] as usize..offsets[row + 1] as usize].iter().map(|key| f64::from(*key)).sum::<f64>())
            .collect();
        let copies = (0..3).map(|_| Box::new(LinearEcho) as Box<dyn LinearCopy>).collect();
        let three: SharedCopies<dyn LinearCopy> = SharedCopies::new(copies);
        for cut in [0, 1, FEWEST_ROWS + 5, rows] {
            let features = ListColumn { name: "f".into(), chunks: vec![chunk(0..cut), chunk(cut..rows)] };
            let sparse = SparseRows { features, values: None };
            let csr = Csr::new(&sparse, None, &ThreadPool::new(1).unwrap()).unwrap();
            let read = ReadRows { rows, csr: Some(csr), dense: &[&column] };
            assert_eq!(three.raw(&read).unwrap()[0], wanted, "cut at {cut}");
            assert_eq!(three.explain(&read, &[]).unwrap(), LinearEcho.explain(&read, &[]).unwrap(), "cut at {cut}");
        }
    }

    /// Proves that one copy's error is the error of all.
    #[test]
    fn an_error_of_a_copy_is_told() {
        let mut values = vec![1.0; 4 * FEWEST_ROWS];
        values[3 * FEWEST_ROWS] = -1.0;
        assert_eq!(three().explain(&[&Column::from_f64("x", &values)]).err(), Some(Error::Data("a test".into())));
    }
}
