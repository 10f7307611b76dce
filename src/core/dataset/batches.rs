//! The numeric features of a table that is never in memory as a whole: read in batches of consecutive rows, as often as a fit asks for them.
//!
//! A fit reads them twice: once for the sample that borders are fitted on, once for their codes, a byte a value. What is narrow (the
//! target, weights, marks of held-out rows, categories) it has of all rows, as any fit does; so it makes the bytes of a fit to the whole table.

use crate::column::Column;
use crate::column::select::OwnedColumn;
use crate::error::{Error, Result};
use crate::parallel::thread_pool::ThreadPool;
use crate::spill::SpillFolder;
use std::sync::{Mutex, PoisonError};

/// A source of a table's numeric features.
pub trait FeatureBatches: Sync {
    /// Calls `visit` with the features of each batch, in order of the rows: the same columns in each, as many rows of each.
    ///
    /// # Errors
    /// Those of the source, and of `visit`.
    fn read(&self, visit: &mut dyn FnMut(&[Column<'_>]) -> Result<()>) -> Result<()>;

    /// Returns about how many bytes the source holds while it is read, beside the batch that is visited, and for a while after.
    fn held_bytes(&self) -> u64 {
        0
    }
}

/// A table some of whose features come in batches.
pub struct BatchedTable<'a> {
    source: &'a dyn FeatureBatches,
    columns: Vec<u32>,
    rows: usize,
    spill: Option<&'a SpillFolder>,
    /// Of each feature, the hash of its rows in the first pass.
    hashes: Mutex<Option<Vec<u64>>>,
}

impl<'a> BatchedTable<'a> {
    /// Makes a table of `rows` rows whose features number `columns` (ascending) come from `source`, while in the table itself they have no
    /// rows. `spill`: where what a fit keeps of each row is to lie, if not in memory.
    pub fn new(source: &'a dyn FeatureBatches, columns: Vec<u32>, rows: usize, spill: Option<&'a SpillFolder>) -> BatchedTable<'a> {
        BatchedTable { source, columns, rows, spill, hashes: Mutex::new(None) }
    }

    /// Returns its batches.
    pub fn batches(&self) -> Batches<'_> {
        Batches { table: self, rows: None }
    }
}

/// The batches of all rows of a table, or of some.
#[derive(Clone, Copy)]
pub struct Batches<'a> {
    table: &'a BatchedTable<'a>,
    /// Ascending; none where it is all.
    rows: Option<&'a [usize]>,
}

impl<'a> Batches<'a> {
    /// Makes the error about a parameter, `what` of which is not fitted in batches yet.
    pub fn not_yet(name: &str, what: &str) -> Error {
        Error::parameter(name, format!("{what} is not fitted in batches yet: leave out `batches`"))
    }

    /// Returns the features that come in batches, by their numbers in the table, ascending.
    pub fn columns(&self) -> &'a [u32] {
        &self.table.columns
    }

    /// Returns which of the features that come in batches feature `index` is; none where it does not.
    pub fn place(&self, index: u32) -> Option<usize> {
        self.table.columns.binary_search(&index).ok()
    }

    /// Returns where what a fit keeps of each row is to lie, if not in memory.
    pub fn spill(&self) -> Option<&'a SpillFolder> {
        self.table.spill
    }

    /// Returns about how many bytes their source holds while it is read ([`FeatureBatches::held_bytes`]).
    pub fn held_bytes(&self) -> u64 {
        self.table.source.held_bytes()
    }

    /// Returns the batches of the rows `rows` (ascending) of the whole table.
    #[must_use]
    pub fn of_rows<'r>(&self, rows: &'r [usize]) -> Batches<'r>
    where
        'a: 'r,
    {
        Batches { table: self.table, rows: Some(rows) }
    }

    /// Calls `visit` with the number of the first row of each batch and its features, in order of the rows.
    ///
    /// # Errors
    /// Those of the source and of `visit`; [`Error::Data`] and [`Error::Column`] where the source gives other rows than the table has, or
    /// than it gave before; [`Error::Interrupted`].
    pub fn read(
        &self,
        pool: &ThreadPool,
        interrupted: &(dyn Fn() -> bool + Sync),
        visit: &mut dyn FnMut(usize, &[Column<'_>]) -> Result<()>,
    ) -> Result<()> {
        let table = self.table;
        let mut hashes = vec![0u64; table.columns.len()];
        // Rows of the whole table that were read, and those of them that are asked for.
        let (mut read, mut taken) = (0, 0);
        let mut names = vec![];
        table.source.read(&mut |columns| {
            if interrupted() {
                return Err(Error::Interrupted);
            }
            let len = columns.first().map_or(0, Column::len);
            if columns.len() != hashes.len() || columns.iter().any(|column| column.len() != len) {
                return Err(other_columns());
            }
            check_more(len, read, table.rows)?;
            if names.is_empty() {
                names = columns.iter().map(|column| column.name().to_string()).collect();
            }
            let of_batch = pool.deal(columns.len(), || (), |(), k| hash(&columns[k], read));
            hashes.iter_mut().zip(of_batch).for_each(|(hash, own)| *hash = hash.wrapping_add(own));
            match self.rows {
                None => visit(read, columns)?,
                Some(rows) => {
                    let end = taken + rows[taken..].partition_point(|row| *row < read + len);
                    let here: Vec<usize> = rows[taken..end].iter().map(|row| row - read).collect();
                    if !here.is_empty() {
                        let own = pool.deal(columns.len(), || (), |(), k| OwnedColumn::of(&columns[k], &here));
                        visit(taken, &own.iter().map(OwnedColumn::column).collect::<Vec<_>>())?;
                    }
                    taken = end;
                }
            }
            read += len;
            Ok(())
        })?;
        check_all(read, table.rows)?;
        self.check(hashes, &names)
    }

    /// Checks that the features' values are those of the first pass.
    fn check(&self, hashes: Vec<u64>, names: &[String]) -> Result<()> {
        let mut first = self.table.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        let first = first.get_or_insert_with(|| hashes.clone());
        match first.iter().zip(&hashes).position(|(before, now)| before != now) {
            None => Ok(()),
            Some(k) => {
                let name = names.get(k).map_or("", String::as_str);
                Err(other_rows(&format!("other values of column `{name}`, or the same in another order, than")))
            }
        }
    }
}

/// Returns the error of a batch that does not have the columns that it should.
pub(crate) fn other_columns() -> Error {
    Error::Data("a batch does not have the columns of the table".into())
}

/// Checks that a table of `rows` rows, `read` of which were read, has `len` more.
pub(crate) fn check_more(len: usize, read: usize, rows: usize) -> Result<()> {
    if len > rows - read { Err(other_rows(&format!("more than the {rows} rows"))) } else { Ok(()) }
}

/// Checks that all rows of a table were read.
pub(crate) fn check_all(read: usize, rows: usize) -> Result<()> {
    if read == rows { Ok(()) } else { Err(other_rows(&format!("{read} rows where it gave {rows}"))) }
}

/// Returns the error where a source gives other rows than the table has, `what` being those.
fn other_rows(what: &str) -> Error {
    let text = "before: a fit in batches reads the frame several times, and it has to give the same rows in the same order each time. \
                Sort it, or write it to a file first";
    Error::parameter("batches", format!("the frame gives {what} {text}"))
}

/// Returns a number that other values, or the same in another order, hardly ever have. It is a sum over rows, so that it does not matter
/// how they are dealt to batches; `first`: the number of the first.
fn hash(column: &Column<'_>, first: usize) -> u64 {
    let mut values = [0.0; 1024];
    let mut sum = 0u64;
    for start in (0..column.len()).step_by(values.len()) {
        let own = &mut values[..1024.min(column.len() - start)];
        column.read_f64(start, own);
        for (row, x) in (first + start..).zip(own) {
            let bits = if x.is_nan() { u64::MAX } else { x.to_bits() };
            let mut mixed = (bits ^ (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
            mixed ^= mixed >> 32;
            sum = sum.wrapping_add(mixed.wrapping_mul(0xc4ce_b9fe_1a85_ec53));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that are read so many at a time.
    struct Values(Mutex<Vec<Vec<f64>>>, usize);

    impl FeatureBatches for Values {
        fn read(&self, visit: &mut dyn FnMut(&[Column<'_>]) -> Result<()>) -> Result<()> {
            let values = self.0.lock().unwrap();
            let rows = values[0].len();
            (0..rows).step_by(self.1).try_for_each(|start| {
                let part = |v: &'_ Vec<f64>| v[start..rows.min(start + self.1)].to_vec();
                let parts: Vec<Vec<f64>> = values.iter().map(part).collect();
                visit(&parts.iter().map(|v| Column::from_f64("x", v)).collect::<Vec<_>>())
            })
        }
    }

    fn all(batches: &Batches<'_>) -> Result<Vec<Vec<f64>>> {
        let mut out = vec![vec![]; batches.columns().len()];
        batches.read(&ThreadPool::new(2).unwrap(), &|| false, &mut |first, columns| {
            assert!(columns.len() == out.len() && first == out[0].len());
            out.iter_mut().zip(columns).for_each(|(out, column)| out.extend(column.to_f64()));
            Ok(())
        })?;
        Ok(out)
    }

    /// Proves that batches of any size give the rows of the table, all of them or those asked for.
    #[test]
    fn batches_of_any_size_give_the_rows() {
        let columns: Vec<Vec<f64>> = (0..3).map(|k| (0..1_000).map(|i| f64::from((i * 7919 + k) % 101)).collect()).collect();
        let some: Vec<usize> = (0..1_000).filter(|i| i % 7 == 3 && !(200..400).contains(i)).collect();
        for size in [1, 3, 64, 999, 1_000, 5_000] {
            let source = Values(Mutex::new(columns.clone()), size);
            let table = BatchedTable::new(&source, vec![0, 2, 5], 1_000, None);
            assert_eq!(all(&table.batches()).unwrap(), columns);
            let wanted: Vec<Vec<f64>> = columns.iter().map(|c| some.iter().map(|row| c[*row]).collect()).collect();
            assert_eq!(all(&table.batches().of_rows(&some)).unwrap(), wanted);
            assert_eq!((table.batches().place(5), table.batches().place(1)), (Some(2), None));
        }
    }

    /// Proves that a source which gives other rows in a later pass is an error: another value, two rows exchanged, a row more or less.
    #[test]
    fn other_rows_than_before_are_an_error() {
        type Change = fn(&mut Vec<f64>);
        let changes: [(Change, &str); 4] = [
            (|v| v[700] += 1.0, "the frame gives other values of column `x`, or the same in another order, than before: "),
            (|v| v.swap(3, 950), "the frame gives other values of column `x`, or the same in another order, than before: "),
            (|v| v.push(0.0), "the frame gives more than the 1000 rows before: "),
            (|v| v.truncate(999), "the frame gives 999 rows where it gave 1000 before: "),
        ];
        for (change, wanted) in changes {
            let source = Values(Mutex::new(vec![(0..1_000).map(f64::from).collect()]), 100);
            let table = BatchedTable::new(&source, vec![4], 1_000, None);
            assert!(all(&table.batches()).is_ok() && all(&table.batches()).is_ok());
            change(&mut source.0.lock().unwrap()[0]);
            let error = all(&table.batches()).expect_err("other rows").to_string();
            assert!(error.starts_with(&format!("parameter `batches`: {wanted}")), "{error}");
        }
    }

    /// Proves that a pass ends where it is asked to, and that errors of whoever reads come through.
    #[test]
    fn a_pass_can_be_ended() {
        let source = Values(Mutex::new(vec![vec![0.0; 100]]), 10);
        let table = BatchedTable::new(&source, vec![0], 100, None);
        let pool = ThreadPool::new(1).unwrap();
        assert_eq!(table.batches().read(&pool, &|| true, &mut |_, _| Ok(())), Err(Error::Interrupted));
        let error = Error::Data("full".into());
        assert_eq!(table.batches().read(&pool, &|| false, &mut |_, _| Err(error.clone())), Err(error.clone()));
    }
}
