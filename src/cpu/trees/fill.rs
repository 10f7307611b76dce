//! Fills shards with their rows and codes at the start of a fit.

use super::gradient_quantizer::BATCH;
use super::shard::{Shard, ShardGroup};
use super::sparse_features::{LocalRows, SparseFeatures};
use super::write;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::RwLock;
use taiga_core::column::Column;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::layout::StoragePlan;
use taiga_core::learners::boosting::steps::{BatchedCodes, TrainingData};
use taiga_core::pages::{self, Zero};
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::quantize::CodeSource;
use taiga_core::quantize::codes::{Quantizer, QuantizerScratch};
use taiga_core::quantize::exceptions::Exceptions;
use taiga_core::spill::{Array, SpillFolder};

/// The codes are kept a second time, by column, up to this many bytes.
pub const MOST_COLUMN_BYTES: usize = 80 << 20;

/// Copies the shard's rows of target, weights, scores and marks.
pub fn rows(shard: &mut Shard, data: &TrainingData<'_>) -> Result<()> {
    let rows = data.target.len();
    let batches: Vec<Range<usize>> = (0..shard.batches())
        .map(|b| {
            let first = shard.first_row(b);
            first..rows.min(first + BATCH)
        })
        .collect();
    let place = (shard.rows, data.batches.and_then(|batched| batched.batches.spill()));
    shard.target = take(&batches, &data.target, place)?;
    shard.more_targets = data.more_targets.iter().map(|t| take(&batches, t, place)).collect::<Result<_>>()?;
    shard.weight = data.weight.as_ref().map(|w| take(&batches, w, place)).transpose()?;
    shard.scores = data.scores.iter().map(|s| take(&batches, s, place)).collect::<Result<_>>()?;
    shard.columns = data.columns.iter().map(|c| take(&batches, c, place)).collect::<Result<_>>()?;
    shard.held_out = data.held_out.map(|h| take(&batches, h, place)).transpose()?;
    if data.pieces.bodies > 0 {
        shard.keep_bodies(&data.pieces);
    }
    let tried = if data.steps_on { data.shared } else { 0 };
    shard.untried = (0..tried).map(|_| Array::zeroed("the scores of a fit's rows", place.0, place.1)).collect::<Result<_>>()?;
    Ok(())
}

/// Copies the values of some batches of rows, `rows` of them, to memory or to a file of `spill`.
fn take<T: Zero>(batches: &[Range<usize>], values: &[T], (rows, spill): (usize, Option<&SpillFolder>)) -> Result<Array<T>> {
    const WHAT: &str = "the rows of a fit";
    if spill.is_none() {
        let mut out = pages::try_with_capacity(WHAT, rows)?;
        batches.iter().for_each(|b| out.extend_from_slice(&values[b.clone()]));
        return Ok(out.into());
    }
    let mut out = Array::zeroed(WHAT, rows, spill)?;
    let mut rest = &mut out[..];
    for batch in batches {
        let (own, others) = rest.split_at_mut(batch.len());
        own.copy_from_slice(&values[batch.clone()]);
        rest = others;
    }
    Ok(out)
}

/// Makes the codes of the shard's rows, of `rows` in all, for the features that a fit starts with, of those that are summed there; those
/// that come in batches stay zero ([`batched_codes`]). `presorted`: whether trees are searched by sorted rows. `part`: see
/// [`ShardGroup::new`].
#[allow(clippy::too_many_arguments)]
pub fn codes(
    shard: &mut Shard,
    (rows, presorted): (usize, bool),
    plan: &StoragePlan,
    data: &TrainingData<'_>,
    quantizers: &[Quantizer],
    exceptions: &[Option<Exceptions>],
    part: (usize, usize),
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let mut scratch = QuantizerScratch::default();
    let layout = &plan.layout;
    let by_column = presorted || rows.saturating_mul(plan.column_codes.len()) <= MOST_COLUMN_BYTES;
    let spill = data.batches.and_then(|batched| batched.batches.spill());
    let mut group = ShardGroup::new(layout, shard.rows, by_column, part, spill)?;
    let own = group.own.clone();
    let mut codes = [0; BATCH];
    let comes_in_batches = |f: usize| data.batches.is_some_and(|b| b.places.binary_search_by_key(&f, |(feature, _)| *feature).is_ok());
    let in_memory: Vec<(usize, usize)> =
        plan.dense_features().filter(|(f, column)| own.contains(column) && !comes_in_batches(*f)).collect();
    for batch in 0..shard.batches() {
        if batch % 64 == 0 && interrupted() {
            return Err(Error::Interrupted);
        }
        let (start, first) = (batch * BATCH, shard.first_row(batch));
        let len = BATCH.min(shard.rows - start);
        for (f, at) in in_memory.iter().copied() {
            match data.sources[f] {
                CodeSource::Values(column) => {
                    quantizers[f].codes::<u8>(column, first, len, data.features[f].first(), &mut codes, 1, &mut scratch);
                    group.set_codes(layout, at, start, &codes[..len]);
                }
                CodeSource::Codes(codes) => group.set_codes(layout, at, start, &codes[first..first + len]),
            }
        }
    }
    if !plan.sparse.is_empty() {
        let local = LocalRows::new(rows, shard.index, shard.shards);
        for feature in &plan.sparse {
            if let (Some((column, _)), Some(e)) = (feature.column, &exceptions[feature.feature]) {
                for (row, code) in e.rows.iter().zip(&e.codes) {
                    if let Some(row) = local.get(*row) {
                        group.set_codes(layout, column, row as usize, &[feature.bundle_code(*code)]);
                    }
                }
            }
        }
        group.sparse = (plan.unbundled > 0).then(|| SparseFeatures::new(plan, exceptions, &local, shard.rows));
    }
    shard.groups.push(group);
    Ok(())
}

/// Makes the codes of the features that come in batches of rows, as these come.
///
/// # Errors
/// Those of [`taiga_core::dataset::Batches::read`].
pub fn batched_codes(
    pool: &ThreadPool,
    shards: &[RwLock<Shard>],
    plan: &StoragePlan,
    data: &TrainingData<'_>,
    batched: &BatchedCodes<'_>,
    quantizers: &[Quantizer],
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let columns: BTreeMap<usize, usize> = plan.dense_features().collect();
    // Of each feature the column of a batch, its number, and the column of codes.
    let places: Vec<(usize, usize, usize)> =
        batched.places.iter().filter_map(|(feature, place)| Some((*place, *feature, *columns.get(feature)?))).collect();
    batched.batches.read(pool, interrupted, &mut |first, columns| {
        let rows = first..first + columns.first().map_or(0, Column::len);
        pool.step(|t| {
            let shard = &mut *write(&shards[t]);
            let (mut scratch, mut codes) = (QuantizerScratch::default(), [0; BATCH]);
            let all = rows.start / BATCH..rows.end.div_ceil(BATCH);
            for batch in all.filter(|batch| batch % shard.shards == shard.index) {
                let own = (batch * BATCH).max(rows.start)..((batch + 1) * BATCH).min(rows.end);
                let start = batch / shard.shards * BATCH + own.start % BATCH;
                for (place, f, at) in &places {
                    let codes = &mut codes[..own.len()];
                    let offset = data.features[*f].first();
                    quantizers[*f].codes::<u8>(&columns[*place], own.start - rows.start, own.len(), offset, codes, 1, &mut scratch);
                    shard.groups[0].set_codes(&plan.layout, *at, start, codes);
                }
            }
        });
        Ok(())
    })
}
