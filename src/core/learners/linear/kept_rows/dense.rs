//! Dense columns as a fit keeps them, in blocks of rows.

use super::Store;
use crate::column::{Chunk, Column, Values};
use crate::error::Result;
use crate::learners::linear::vectors::each;
use crate::memory;
use crate::parallel::thread_pool::ThreadPool;
use crate::spill::Array;

/// Consecutive rows of all columns, column by column. Nulls are NaN, as they are wherever a column is read.
pub(super) struct DenseBlock {
    rows: usize,
    /// Those columns whose values f32 holds exactly, and the others.
    narrow: Array<f32>,
    wide: Array<f64>,
    /// Of each column, which of those it is.
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
enum Place {
    Narrow(usize),
    Wide(usize),
}

impl DenseBlock {
    /// Returns the rows of column `number`.
    pub(super) fn chunk(&self, number: usize) -> Chunk<'_> {
        let of = |place: usize| place * self.rows..(place + 1) * self.rows;
        let values = match self.places[number] {
            Place::Narrow(place) => Values::F32(&self.narrow[of(place)]),
            Place::Wide(place) => Values::F64(&self.wide[of(place)]),
        };
        Chunk::new(values, None)
    }
}

/// Keeps the dense columns of one batch after another.
pub(super) struct DenseKeeper<'s> {
    store: &'s Store<'s>,
    kept: Vec<DenseBlock>,
    /// The rows that are kept.
    rows: usize,
    /// The values of each column that are no block yet.
    columns: Vec<Vec<f64>>,
}

/// Whether f32 holds the values exactly.
pub(super) fn is_narrow(values: &[f64]) -> bool {
    values.iter().all(|x| x.is_nan() || f64::from(*x as f32) == *x)
}

impl<'s> DenseKeeper<'s> {
    /// Makes one of so many columns.
    pub(super) fn new(store: &'s Store<'s>, columns: usize) -> DenseKeeper<'s> {
        DenseKeeper { store, kept: vec![], rows: 0, columns: vec![vec![]; columns] }
    }

    /// Keeps the rows of a batch.
    ///
    /// # Errors
    /// Where there is no room for them.
    pub(super) fn add(&mut self, columns: &[Column<'_>], pool: &ThreadPool) -> Result<()> {
        let most = (self.store.chunk / columns.len().max(1)).max(1);
        let (mut at, len) = (0, columns.first().map_or(0, Column::len));
        while at < len {
            let open = self.columns[0].len();
            let rows = (len - at).min(most - open);
            each(pool, &mut self.columns, 1, |number, own| {
                own[0].resize(open + rows, 0.0);
                columns[number].read_f64(at, &mut own[0][open..]);
            });
            at += rows;
            if open + rows == most {
                self.seal(pool)?;
            }
        }
        Ok(())
    }

    /// Makes a block of the rows that are none yet.
    fn seal(&mut self, pool: &ThreadPool) -> Result<()> {
        let rows = self.columns.first().map_or(0, Vec::len);
        if rows == 0 {
            return Ok(());
        }
        let are_narrow = pool.deal(self.columns.len(), || (), |(), number| is_narrow(&self.columns[number]));
        let (mut counts, mut places) = ([0, 0], vec![]);
        for is_narrow in are_narrow {
            places.push(if is_narrow { Place::Narrow(counts[0]) } else { Place::Wide(counts[1]) });
            counts[usize::from(!is_narrow)] += 1;
        }
        let [narrow, wide] = counts.map(|columns| columns * rows);
        let _reserved = self.store.reserve(memory::sum(&[4 * narrow as u64, 8 * wide as u64]), self.rows)?;
        let (mut narrow, mut wide) = (self.store.zeroed(narrow)?, self.store.zeroed(wide)?);
        for (values, place) in self.columns.iter_mut().zip(&places) {
            match *place {
                Place::Narrow(place) => {
                    let out: &mut [f32] = &mut narrow[place * rows..(place + 1) * rows];
                    out.iter_mut().zip(&*values).for_each(|(out, x)| *out = *x as f32);
                }
                Place::Wide(place) => wide[place * rows..(place + 1) * rows].copy_from_slice(values),
            }
            values.clear();
        }
        self.kept.push(DenseBlock { rows, narrow, wide, places });
        self.rows += rows;
        Ok(())
    }

    /// Returns all rows.
    ///
    /// # Errors
    /// Where there is no room for the last ones.
    pub(super) fn kept(mut self, pool: &ThreadPool) -> Result<Vec<DenseBlock>> {
        self.seal(pool)?;
        Ok(self.kept)
    }
}
