//! A table whose numeric columns are codes: made once, for many fits to parts of its rows.

use super::params::BoostingParams;
use crate::column::{Chunk, Column, FeatureType, Values};
use crate::dataset::coded::FeatureBorders;
use crate::dataset::counted::Counted;
use crate::dataset::{Batches, Input, OwnRows, coded};
use crate::error::{Error, Result};
use crate::memory::{self, Reservation, product};
use crate::parallel::thread_pool::ThreadPool;
use crate::quantize::CodedFeature;
use crate::quantize::codes::{Quantizer, QuantizerScratch};
use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};

/// So many rows of a column are coded by one thread at a time.
const ROWS: usize = 1 << 16;

/// The codes of a table's numeric columns, and what they are codes by.
pub struct CodedTable<'a> {
    input: &'a Input<'a>,
    coded: Vec<(u32, CodedFeature)>,
    /// Of each of `coded`, by row.
    codes: Vec<Vec<u8>>,
    /// What stands for numeric columns that can't split.
    zeros: Vec<u8>,
    /// By row, whether its weight is 0; none where that is none of them.
    idle: Option<Vec<bool>>,
    borders: FeatureBorders,
    _reserved: Reservation,
}

impl<'a> CodedTable<'a> {
    /// Finds the borders of a table's numeric columns, from all rows whose weight is not 0, and codes them. `batches`: the columns that have
    /// no rows in `input` but come in batches, which are read twice.
    ///
    /// # Errors
    /// [`Error::Memory`]; [`Error::Interrupted`]; those of the batches.
    pub fn new(
        pool: &ThreadPool,
        input: &'a Input<'a>,
        params: &BoostingParams,
        batches: Option<Batches<'_>>,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Self> {
        let rows = input.target.rows();
        let bytes = product(&[rows as u64, input.features.len() as u64 + 1]);
        let what = format!("the codes of {rows} rows and {} features", input.features.len());
        let reserved = memory::reserve(&what, bytes, "take fewer rows or features")?;
        let borders = params.border_params(&input.features);
        let weight = input.weight.as_ref().map(Column::to_f64).filter(|weight| weight.contains(&0.0));
        let idle: Option<Vec<bool>> = weight.map(|weight| weight.iter().map(|w| *w == 0.0).collect());
        let counting: Option<Vec<usize>> = idle.as_ref().map(|idle| (0..rows).filter(|row| !idle[*row]).collect());
        let find = |input: &Input<'_>, batches: Option<Batches<'_>>| match batches {
            Some(batches) => coded::code_batches(input, batches, &borders, pool, interrupted, &mut |_| Ok(())),
            None => coded::code_features(input, &OwnRows::whole(input.target.rows()), &borders, pool, interrupted),
        };
        let coded = pool.enter(|| match counting {
            None => find(input, batches),
            Some(rows) => {
                let counted = Counted::new(input, rows)?;
                find(&counted.input(), batches.as_ref().map(|batches| batches.of_rows(&counted.rows)))
            }
        })?;
        let codes_of = |(index, feature): &(u32, CodedFeature)| {
            let (column, quantizer) = (&input.features[*index as usize], Quantizer::new(&feature.borders));
            let mut codes = vec![0u8; rows];
            if batches.is_some_and(|batches| batches.place(*index).is_some()) {
                return codes;
            }
            codes.par_chunks_mut(ROWS).enumerate().for_each_init(QuantizerScratch::default, |scratch, (block, codes)| {
                if !interrupted() {
                    quantizer.codes(column, block * ROWS, codes.len(), feature.first(), codes, 1, scratch);
                }
            });
            codes
        };
        let mut codes: Vec<Vec<u8>> = pool.enter(|| coded.par_iter().map(codes_of).collect());
        if let Some(batches) = batches {
            pool.enter(|| code_rows(pool, batches, &coded, &mut codes, interrupted))?;
        }
        if interrupted() {
            return Err(Error::Interrupted);
        }
        Ok(CodedTable { input, coded, codes, zeros: vec![0; rows], idle, borders, _reserved: reserved })
    }

    /// Returns the table as it was before.
    pub fn input(&self) -> &'a Input<'a> {
        self.input
    }

    /// Returns whether a row's weight is 0, as if it were not there.
    pub fn is_idle(&self, row: usize) -> bool {
        self.idle.as_ref().is_some_and(|idle| idle[row])
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.zeros.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.zeros.is_empty()
    }

    /// Returns whether a fit by these parameters has the same borders.
    pub fn serves(&self, params: &BoostingParams) -> bool {
        self.borders == params.border_params(&self.input.features)
    }

    /// Returns the codes of a numeric column, by row; none of one that can't split.
    pub fn codes(&self, column: usize) -> Option<&[u8]> {
        let at = self.coded.binary_search_by_key(&column, |(index, _)| *index as usize).ok()?;
        Some(&self.codes[at])
    }

    /// Returns what its numeric columns are coded by.
    pub fn coded(&self) -> &[(u32, CodedFeature)] {
        &self.coded
    }

    /// Returns its rows `rows` (ascending), of which those in `held_out` are held out.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn rows(&self, rows: Vec<usize>, held_out: Option<&[bool]>) -> Result<Counted> {
        let mut codes = self.coded.iter().zip(&self.codes).peekable();
        let of_column = |(index, column): (usize, &Column<'a>)| {
            if *column.dtype() == FeatureType::Categorical {
                return column.clone();
            }
            let own = codes.next_if(|((own, _), _)| *own as usize == index).map_or(&self.zeros, |(_, codes)| codes);
            Column::new(column.name(), column.dtype().clone(), vec![Chunk::new(Values::U8(own), None)])
        };
        let features = self.input.features.iter().enumerate().map(of_column).collect();
        let table = Input { features, held_out, ..self.input.clone() };
        Counted::new(&table, rows)
    }
}

/// Writes the codes of the columns that come in batches, in one pass over these.
fn code_rows(
    pool: &ThreadPool,
    batches: Batches<'_>,
    coded: &[(u32, CodedFeature)],
    codes: &mut [Vec<u8>],
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    type Share<'s> = (usize, &'s CodedFeature, Mutex<&'s mut Vec<u8>>);
    let shares: Vec<Share<'_>> = coded
        .iter()
        .zip(codes)
        .filter_map(|((index, feature), codes)| Some((batches.place(*index)?, feature, Mutex::new(codes))))
        .collect();
    batches.read(pool, interrupted, &mut |first, columns| {
        pool.deal(shares.len(), QuantizerScratch::default, |scratch, k| {
            let (place, feature, codes) = &shares[k];
            let (column, mut codes) = (&columns[*place], codes.lock().unwrap_or_else(PoisonError::into_inner));
            let out = &mut codes[first..first + column.len()];
            Quantizer::new(&feature.borders).codes(column, 0, column.len(), feature.first(), out, 1, scratch);
        });
        Ok(())
    })
}
