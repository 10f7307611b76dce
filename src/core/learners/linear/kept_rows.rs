//! What a fit keeps of rows that come in batches: numbers of features, values, and dense columns, in memory or in mapped files.
//!
//! ```text
//! a batch of lists   ─► Csr: checked, texts hashed ─► u32 (u64 where a chunk needs it), f32 values, i64 ends of rows ┐ sealed every
//! its dense columns  ─► f64                        ─► f32 where that is exact, else f64                             ┘ few million
//! ```
//!
//! The rows are read once. What is kept are lists and columns as any table has them, so a fit to them is the ordinary one, and its model
//! has the same bytes.

mod lists;
#[cfg(test)]
mod tests;

use self::lists::{KeptLists, ListKeeper};
use super::checks::{check_dense_columns, check_table, check_target};
use super::csr::Csr;
use super::fit::threads;
use super::problem::hash_bits;
use super::rows::{ListColumn, SparseRows};
use super::schema::check_numbering;
use super::{Input, LinearParams};
use crate::column::Column;
use crate::dataset::batches::{check_all, check_more, other_columns};
use crate::dataset::kept_columns::{self, CHUNK, ColumnKeeper, KeptBlock, Store};
use crate::dataset::{Monitor, OwnRows};
use crate::error::{Error, Result};
use crate::parallel::thread_pool::ThreadPool;
use crate::spill::SpillFolder;

/// What takes the lists and the dense columns of a batch.
pub type VisitRows<'v> = dyn FnMut(Option<&SparseRows<'_>>, &[Column<'_>]) -> Result<()> + 'v;

/// A source of a table's lists and dense columns.
pub trait RowBatches: Sync {
    /// Calls `visit` with the lists and the dense columns of each batch, in order of the rows: the same columns in each, as many rows of each.
    ///
    /// # Errors
    /// Those of the source, and of `visit`.
    fn read(&self, visit: &mut VisitRows<'_>) -> Result<()>;
}

/// The rows of a table that came in batches.
///
/// It keeps 8 bytes a row that has lists, 4 a feature number or string (8 where numbers have more than 32 bits), 4 a value, and 4 or 8 a cell
/// of a dense column.
pub struct KeptRows {
    lists: Vec<KeptLists>,
    dense: Vec<KeptBlock>,
}

impl KeptRows {
    /// Reads the rows of `source` once. `beside` is the table that they are of: its lists and dense columns have no rows, and tell names and
    /// types (a chunk without rows has the items that those of the batches have), all else has all rows. `spill`: where they are kept, if not
    /// in memory.
    ///
    /// # Errors
    /// What a fit of the whole table would tell up to its lists, and what can be told before a row is read is told then; those of the source;
    /// [`Error::Parameter`] where it gives more or fewer rows than the table has; [`Error::Memory`]; [`Error::Interrupted`].
    pub fn read(
        beside: &Input<'_>,
        params: &LinearParams,
        source: &dyn RowBatches,
        spill: Option<&SpillFolder>,
        monitor: &dyn Monitor,
    ) -> Result<KeptRows> {
        KeptRows::read_into(&Store { chunk: CHUNK, spill }, beside, params, source, monitor)
    }

    fn read_into(
        store: &Store<'_>,
        beside: &Input<'_>,
        params: &LinearParams,
        source: &dyn RowBatches,
        monitor: &dyn Monitor,
    ) -> Result<KeptRows> {
        params.validate()?;
        let rows = check_table(beside, None)?;
        let pool = ThreadPool::of_fit(threads(params, rows), false)?;
        pool.enter(|| {
            check_target(beside, params)?;
            Reading { beside, params, rows, pool: &pool, monitor }.read(store, source)
        })
    }

    /// Returns the table with these rows; `beside` is that of [`KeptRows::read`].
    pub fn input<'a>(&'a self, beside: &Input<'a>) -> Input<'a> {
        let sparse = beside.sparse.as_ref().map(|sparse| SparseRows {
            features: ListColumn { name: sparse.features.name.clone(), chunks: self.lists.iter().map(KeptLists::features).collect() },
            values: sparse
                .values
                .as_ref()
                .map(|values| ListColumn { name: values.name.clone(), chunks: self.lists.iter().map(KeptLists::values).collect() }),
        });
        Input { sparse, dense: self.columns(&beside.dense), ..beside.clone() }
    }

    /// Returns the dense columns, with names and types of those that have no rows.
    fn columns<'a>(&'a self, empty: &[Column<'a>]) -> Vec<Column<'a>> {
        empty.iter().enumerate().map(|(number, empty)| kept_columns::column(&self.dense, number, empty)).collect()
    }
}

/// A pass over the rows of a table.
struct Reading<'r> {
    beside: &'r Input<'r>,
    params: &'r LinearParams,
    rows: usize,
    pool: &'r ThreadPool,
    monitor: &'r dyn Monitor,
}

impl Reading<'_> {
    fn read(&self, store: &Store<'_>, source: &dyn RowBatches) -> Result<KeptRows> {
        let (sparse, columns) = (self.beside.sparse.as_ref(), self.beside.dense.len());
        let bits = sparse.and_then(|sparse| hash_bits(sparse, self.params));
        // What is wrong with lists is told behind what is wrong with dense columns, whose other rows are read for that.
        let mut fault = check_numbering(sparse.map(SparseRows::columns), self.params).err();
        let mut lists = ListKeeper::new(store, bits.is_some());
        let mut dense = ColumnKeeper::new(*store, columns);
        let mut read = 0;
        if let Some(fault) = fault.take_if(|_| columns == 0) {
            return Err(fault);
        }
        source.read(&mut |sparse, dense_columns| {
            if self.monitor.interrupted() {
                return Err(Error::Interrupted);
            }
            let len = self.check_batch(sparse, dense_columns)?;
            check_more(len, read, self.rows)?;
            dense.add(dense_columns, self.pool)?;
            if let (Some(sparse), None) = (sparse, &fault) {
                match Csr::of_batch(sparse, read, bits, self.pool) {
                    Ok(csr) => csr.pieces.iter().try_for_each(|piece| lists.add(piece))?,
                    Err(error) if columns == 0 || matches!(error, Error::Memory(_)) => return Err(error),
                    Err(error) => {
                        fault = Some(error);
                        lists.forget();
                    }
                }
            }
            read += len;
            Ok(())
        })?;
        check_all(read, self.rows)?;
        let kept = KeptRows { lists: lists.kept()?, dense: dense.kept(self.pool)? };
        let Some(fault) = fault else { return Ok(kept) };
        check_dense_columns(&kept.columns(&self.beside.dense), &OwnRows::whole(self.rows), self.params)?;
        Err(fault)
    }

    /// Checks that a batch has the columns of the table; returns its number of rows.
    fn check_batch(&self, sparse: Option<&SparseRows<'_>>, dense: &[Column<'_>]) -> Result<usize> {
        let len = sparse.map(|s| s.features.len()).or(dense.first().map(Column::len)).unwrap_or(0);
        let shape = |s: &SparseRows<'_>| s.values.is_some();
        let alike = sparse.map(shape) == self.beside.sparse.as_ref().map(shape) && dense.len() == self.beside.dense.len();
        if alike && dense.iter().all(|column| column.len() == len) { Ok(len) } else { Err(other_columns()) }
    }
}
