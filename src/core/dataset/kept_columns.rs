//! Columns of numbers that come in batches, as a fit keeps them: in blocks of rows, in memory or in mapped files.

use crate::column::{Chunk, Column, Values};
use crate::error::Result;
use crate::memory;
use crate::pages::Zero;
use crate::parallel::thread_pool::ThreadPool;
use crate::spill::{Array, SpillFolder};
use std::sync::Mutex;

/// So many entries, rows or cells are a chunk of what is kept.
pub(crate) const CHUNK: usize = 4 << 20;

/// Where rows are kept.
#[derive(Clone, Copy)]
pub(crate) struct Store<'s> {
    /// How many entries, rows or cells are a chunk.
    pub chunk: usize,
    pub spill: Option<&'s SpillFolder>,
}

impl Store<'_> {
    /// Reserves memory for `bytes` that are about to be kept, of rows from `first` on; files take their place by themselves.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn reserve(&self, bytes: u64, first: usize) -> Result<Option<memory::Reservation>> {
        let what = || format!("what a fit in batches keeps of the rows from row {first} on");
        let hint = "give `spill` a folder, and they lie in files";
        self.spill.is_none().then(|| memory::reserve(&what(), bytes, hint)).transpose()
    }

    /// Makes an array of `len` zeros.
    ///
    /// # Errors
    /// Where there is no room for it.
    pub fn zeroed<T: Zero>(&self, len: usize) -> Result<Array<T>> {
        Array::zeroed("the rows of a fit in batches", len, self.spill)
    }

    /// Keeps `values`.
    ///
    /// # Errors
    /// Where there is no room for them.
    pub fn keep<T: Zero>(&self, values: &[T]) -> Result<Array<T>> {
        let mut array = self.zeroed(values.len())?;
        array.copy_from_slice(values);
        Ok(array)
    }
}

/// Consecutive rows of all columns, column by column. Nulls are NaN, as they are wherever a column is read.
pub(crate) struct KeptBlock {
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

impl KeptBlock {
    /// Returns the rows of column `number`.
    pub fn chunk(&self, number: usize) -> Chunk<'_> {
        let of = |place: usize| place * self.rows..(place + 1) * self.rows;
        let values = match self.places[number] {
            Place::Narrow(place) => Values::F32(&self.narrow[of(place)]),
            Place::Wide(place) => Values::F64(&self.wide[of(place)]),
        };
        Chunk::new(values, None)
    }
}

/// Returns column `number` of all rows, with the name and the type of one that has none.
pub(crate) fn column<'a>(blocks: &'a [KeptBlock], number: usize, empty: &Column<'_>) -> Column<'a> {
    Column::new(empty.name(), empty.dtype().clone(), blocks.iter().map(|block| block.chunk(number)).collect())
}

/// Keeps the columns of one batch after another.
pub(crate) struct ColumnKeeper<'s> {
    store: Store<'s>,
    kept: Vec<KeptBlock>,
    /// The rows that are kept.
    rows: usize,
    /// The values of each column that are no block yet.
    columns: Vec<Vec<f64>>,
}

/// Whether f32 holds the values exactly.
pub(crate) fn is_narrow(values: &[f64]) -> bool {
    values.iter().all(|x| x.is_nan() || f64::from(*x as f32) == *x)
}

impl<'s> ColumnKeeper<'s> {
    /// Makes one of so many columns.
    pub fn new(store: Store<'s>, columns: usize) -> ColumnKeeper<'s> {
        ColumnKeeper { store, kept: vec![], rows: 0, columns: vec![vec![]; columns] }
    }

    /// Keeps the rows of a batch.
    ///
    /// # Errors
    /// Where there is no room for them.
    pub fn add(&mut self, columns: &[Column<'_>], pool: &ThreadPool) -> Result<()> {
        let most = (self.store.chunk / columns.len().max(1)).max(1);
        let (mut at, len) = (0, columns.first().map_or(0, Column::len));
        while at < len {
            let open = self.columns[0].len();
            let rows = (len - at).min(most - open);
            let all: Vec<Mutex<&mut Vec<f64>>> = self.columns.iter_mut().map(Mutex::new).collect();
            let read = |number: usize| {
                if let Ok(mut own) = all[number].lock() {
                    own.resize(open + rows, 0.0);
                    columns[number].read_f64(at, &mut own[open..]);
                }
            };
            pool.deal(all.len(), || (), |(), number| read(number));
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
        self.kept.push(KeptBlock { rows, narrow, wide, places });
        self.rows += rows;
        Ok(())
    }

    /// Returns all rows.
    ///
    /// # Errors
    /// Where there is no room for the last ones.
    pub fn kept(mut self, pool: &ThreadPool) -> Result<Vec<KeptBlock>> {
        self.seal(pool)?;
        Ok(self.kept)
    }
}
