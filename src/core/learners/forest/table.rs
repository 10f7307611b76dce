//! From columns to the codes that trees grow on.

use super::codes::{Code, Coded, Meaning};
use super::params::{ForestParams, Splitter};
use super::together;
use crate::column::categories::{Categories, CategoryNames};
use crate::column::{Column, FeatureType};
use crate::dataset::coded::{FeatureBorders, code_batches, code_features};
use crate::dataset::{Batches, Input, OwnRows};
use crate::error::{Error, Result};
use crate::pages;
use crate::parallel::thread_pool::ThreadPool;
use crate::quantize::codes::{Quantizer, QuantizerScratch};
use crate::quantize::sort::{FloatKey, is_narrow};
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

/// The most categories of a feature; the rest are one more.
pub const MOST_CATEGORIES: usize = 254;

/// Where the rows of a table's numeric features are.
#[derive(Clone, Copy)]
pub struct FeatureRows<'a> {
    /// Those that this process has.
    pub own: OwnRows<'a>,
    /// What of the features comes in batches.
    pub batches: Option<Batches<'a>>,
}

impl FeatureRows<'_> {
    /// Returns the features that come in batches, by their numbers, ascending.
    pub fn batched(&self) -> &[u32] {
        self.batches.as_ref().map_or(&[], Batches::columns)
    }
}

/// The training table.
pub struct CodeTable<C> {
    pub features: Vec<Coded>,
    /// Feature after feature.
    pub codes: Vec<C>,
    /// Row after row, or none: what trees on the CPU read.
    pub by_row: Vec<C>,
}

impl<C: Code> CodeTable<C> {
    /// Adds the codes row after row.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn add_rows(&mut self, pool: &ThreadPool, rows: usize) -> Result<()> {
        self.by_row = transposed(pool, &self.codes, self.features.len(), rows)?;
        Ok(())
    }
}

/// Rows read at a time.
const PIECE: usize = 1 << 14;

/// Rows of a feature that a thread codes at a time.
const CODED: usize = 1 << 18;

/// Calls `make(feature, its codes)` for every feature, by all threads; what it gives, in order.
fn by_feature<C: Code, R: Send>(
    pool: &ThreadPool,
    features: usize,
    rows: usize,
    interrupted: &(dyn Fn() -> bool + Sync),
    make: impl Fn(usize, &mut [C]) -> Result<R> + Sync,
) -> Result<(Vec<R>, Vec<C>)> {
    let mut codes = pages::try_zeroed("the codes of a forest", features * rows)?;
    let shares: Vec<Mutex<&mut [C]>> = codes.chunks_mut(rows).map(Mutex::new).collect();
    let made = pool.deal(
        features,
        || (),
        |_, f| {
            if interrupted() {
                return Err(Error::Interrupted);
            }
            make(f, &mut shares[f].lock().unwrap_or_else(PoisonError::into_inner))
        },
    );
    drop(shares);
    Ok((made.into_iter().collect::<Result<_>>()?, codes))
}

/// Codes by borders, and by categories, of all rows, feature after feature.
pub fn binned(
    pool: &ThreadPool,
    input: &Input<'_>,
    FeatureRows { own, batches }: &FeatureRows<'_>,
    params: &FeatureBorders,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<CodeTable<u8>> {
    let mut borders: Vec<Option<(Vec<f64>, bool)>> = vec![None; input.features.len()];
    let coded = match batches {
        Some(batches) => code_batches(input, *batches, params, pool, interrupted, &mut |_| Ok(()))?,
        None => code_features(input, own, params, pool, interrupted)?,
    };
    for (f, coded) in coded {
        borders[f as usize] = Some((coded.borders, coded.missing_bin));
    }
    let is_batched = |f: usize| batches.as_ref().is_some_and(|batches| batches.place(f as u32).is_some());
    let rows = input.target.rows();
    let (features, mut codes) = by_feature(pool, input.features.len(), rows, interrupted, |f, codes: &mut [u8]| {
        let column = &input.features[f];
        if *column.dtype() == FeatureType::Categorical {
            let categories = frequent(column, codes)?;
            return Ok(Coded { meaning: Meaning::Categories(categories), first: 1 });
        }
        // A feature that can't split has the code 0 everywhere.
        let Some((borders, missing_bin)) = borders[f].clone() else { return Ok(Coded { meaning: Meaning::Bins(vec![]), first: 1 }) };
        Ok(Coded { meaning: Meaning::Bins(borders), first: missing_bin as usize })
    })?;
    // Of all features at once, since there may be fewer of them than threads.
    let pieces: Vec<(usize, usize, Mutex<&mut [u8]>)> = codes
        .chunks_mut(rows)
        .enumerate()
        .filter(|(f, _)| borders[*f].is_some() && !is_batched(*f))
        .flat_map(|(f, codes)| (0..).zip(codes[own.range()].chunks_mut(CODED)).map(move |(i, codes)| (f, i * CODED, Mutex::new(codes))))
        .collect();
    let code = |(f, first, codes): &(usize, usize, Mutex<&mut [u8]>)| {
        if let (Some((borders, missing_bin)), false) = (&borders[*f], interrupted()) {
            write_codes(&input.features[*f], *first, borders, *missing_bin, &mut codes.lock().unwrap_or_else(PoisonError::into_inner));
        }
    };
    pool.deal(pieces.len(), || (), |_, i| code(&pieces[i]));
    drop(pieces);
    if interrupted() {
        return Err(Error::Interrupted);
    }
    if let Some(batches) = batches {
        code_rows(pool, *batches, &borders, rows, &mut codes, interrupted)?;
    }
    if !own.is_whole() {
        let numeric: Vec<usize> = (0..features.len()).filter(|f| !features[*f].is_categorical()).collect();
        together::gather_codes(own, &numeric, rows, &mut codes)?;
    }
    Ok(CodeTable { features, codes, by_row: vec![] })
}

/// Writes the codes of a column's rows from row `first` on.
fn write_codes(column: &Column<'_>, first: usize, borders: &[f64], missing_bin: bool, codes: &mut [u8]) {
    let (quantizer, mut scratch) = (Quantizer::new(borders), QuantizerScratch::default());
    for (start, codes) in (first..).step_by(PIECE).zip(codes.chunks_mut(PIECE)) {
        quantizer.codes(column, start, codes.len(), missing_bin as usize, codes, 1, &mut scratch);
    }
}

/// Writes the codes of what comes in batches, in one pass over these, among those of `rows` rows feature after feature. `borders`: of each
/// feature, and whether missing values have a code of their own; none of one that can't split.
fn code_rows(
    pool: &ThreadPool,
    batches: Batches<'_>,
    borders: &[Option<(Vec<f64>, bool)>],
    rows: usize,
    codes: &mut [u8],
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let of_features: Vec<Mutex<&mut [u8]>> = codes.chunks_mut(rows).map(Mutex::new).collect();
    batches.read(pool, interrupted, &mut |first, columns| {
        pool.deal(
            columns.len(),
            || (),
            |(), k| {
                let (column, f) = (&columns[k], batches.columns()[k] as usize);
                if let Some((borders, missing_bin)) = &borders[f] {
                    let mut codes = of_features[f].lock().unwrap_or_else(PoisonError::into_inner);
                    write_codes(column, 0, borders, *missing_bin, &mut codes[first..first + column.len()]);
                }
            },
        );
        Ok(())
    })
}

/// Codes row after row, from those feature after feature.
fn transposed<C: Code>(pool: &ThreadPool, codes: &[C], features: usize, rows: usize) -> Result<Vec<C>> {
    const BLOCK: usize = 1 << 12;
    let mut by_row = pages::try_zeroed("the codes of a forest", codes.len())?;
    let shares: Vec<Mutex<&mut [C]>> = by_row.chunks_mut(BLOCK * features).map(Mutex::new).collect();
    pool.deal(
        shares.len(),
        || (),
        |_, b| {
            let mut out = shares[b].lock().unwrap_or_else(PoisonError::into_inner);
            for (i, out) in out.chunks_exact_mut(features).enumerate() {
                out.iter_mut().enumerate().for_each(|(f, out)| *out = codes[f * rows + b * BLOCK + i]);
            }
        },
    );
    drop(shares);
    Ok(by_row)
}

/// Returns the most frequent categories of a column, with each row's code among them: `1 + c`, and 0 for the rest.
fn frequent(column: &Column<'_>, out: &mut [u8]) -> Result<Categories> {
    let (Some(codes), Some(categories)) = (column.category_codes(), column.categories().filter(|c| !c.are_hashed())) else {
        return Err(Error::column(column.name(), "has codes whose categories are not known"));
    };
    let mut counts = vec![0u64; categories.len()];
    for code in codes {
        *counts.get_mut(*code as usize).ok_or_else(|| Error::column(column.name(), format!("its code {code} has no category")))? += 1;
    }
    let mut kept: Vec<usize> = (0..categories.len()).collect();
    kept.sort_by_key(|c| (std::cmp::Reverse(counts[*c]), *c));
    kept.truncate(MOST_CATEGORIES);
    kept.sort_unstable();
    let mut place = vec![0u8; categories.len()];
    kept.iter().enumerate().for_each(|(i, c)| place[*c] = i as u8 + 1);
    out.iter_mut().zip(codes).for_each(|(out, code)| *out = place[*code as usize]);
    let labels = match &categories.labels {
        CategoryNames::Text(v) => CategoryNames::Text(kept.iter().map(|c| v[*c].clone()).collect()),
        CategoryNames::Integer(v) => CategoryNames::Integer(kept.iter().map(|c| v[*c]).collect()),
        CategoryNames::Boolean(v) => CategoryNames::Boolean(kept.iter().map(|c| v[*c]).collect()),
        CategoryNames::Hashed(v) => CategoryNames::Hashed(v.clone()),
    };
    let null = categories.null.and_then(|null| kept.iter().position(|c| *c == null as usize)).map(|place| place as u32);
    Ok(Categories { labels, null })
}

/// Codes by rank among the distinct values: of all rows, of whose numbers this process has its `own`.
///
/// # Errors
/// For categorical columns, which have no order.
pub fn ranked<C: Code>(
    pool: &ThreadPool,
    input: &Input<'_>,
    own: &OwnRows<'_>,
    params: &ForestParams,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<CodeTable<C>> {
    let categorical = |c: &&Column<'_>| *c.dtype() == FeatureType::Categorical;
    if let Some(column) = input.features.iter().find(categorical) {
        let splitter = if params.splitter == Splitter::Exact { "exact" } else { "random" };
        return Err(Error::column(
            column.name(),
            format!("is categorical, and splitter={splitter:?} takes numbers only: use splitter=\"histogram\", or encode the column"),
        ));
    }
    let (rows, all) = (input.target.rows(), input.features.len());
    let (mut features, mut codes) = (vec![], vec![]);
    // Values of all rows are in memory for some features at a time, where others have some of them.
    let at_once = if own.is_whole() { all } else { together::at_once(rows, size_of::<f64>()) };
    for columns in input.features.chunks(at_once) {
        let values = if own.is_whole() { vec![] } else { together::gather_values(own, columns)? };
        let ranked = |f: usize, codes: &mut [C]| {
            let values = values.get(f).map_or_else(|| Cow::Owned(columns[f].to_f64()), |values| Cow::Borrowed(values.as_slice()));
            Ok(Coded { meaning: Meaning::Values(ranks(&values, codes)), first: 1 })
        };
        let (of_columns, of_rows) = by_feature(pool, columns.len(), rows, interrupted, ranked)?;
        features.extend(of_columns);
        if columns.len() == all {
            codes = of_rows;
        } else {
            pages::make_room("the codes of a forest", &mut codes, all * rows)?;
            codes.extend(of_rows);
        }
    }
    Ok(CodeTable { features, codes, by_row: vec![] })
}

/// Writes the rank of each value among the distinct ones, from 1, and 0 for NaN; returns the distinct ones.
pub fn ranks<C: Code>(values: &[f64], out: &mut [C]) -> Vec<f64> {
    out.fill(C::ZERO);
    let mut distinct = vec![];
    let mut last = None;
    let mut take = |key: u64, row: usize, value: f64| {
        if last != Some(key) {
            last = Some(key);
            distinct.push(value);
        }
        out[row] = C::from_index(distinct.len());
    };
    if is_narrow(values) {
        let mut keys: Vec<u64> = values.iter().enumerate().map(|(row, x)| (u32::key(*x) as u64) << 32 | row as u64).collect();
        keys.sort_unstable();
        let known = keys.partition_point(|k| ((k >> 32) as u32) < u32::NAN);
        keys[..known].iter().for_each(|k| take(k >> 32, *k as u32 as usize, ((k >> 32) as u32).value()));
    } else {
        let mut keys: Vec<(u64, u32)> = values.iter().enumerate().map(|(row, x)| (u64::key(*x), row as u32)).collect();
        keys.sort_unstable();
        let known = keys.partition_point(|k| k.0 < u64::NAN);
        keys[..known].iter().for_each(|(key, row)| take(*key, *row as usize, key.value()));
    }
    distinct
}
