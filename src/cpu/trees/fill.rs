//! Fills shards with their rows and codes at the start of a fit.

use super::gradient_quantizer::BATCH;
use super::shard::{Shard, ShardGroup};
use super::sparse_features::{LocalRows, SparseFeatures};
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::layout::StoragePlan;
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::pages;
use taiga_core::quantize::CodeSource;
use taiga_core::quantize::codes::{Quantizer, QuantizerScratch};
use taiga_core::quantize::exceptions::Exceptions;

/// The codes are kept a second time, by column, up to this many bytes.
pub const MOST_COLUMN_BYTES: usize = 80 << 20;

/// Copies the shard's rows of target, weights, scores and marks.
pub fn rows(shard: &mut Shard, data: &TrainingData<'_>) -> Result<()> {
    let rows = data.target.len();
    let batches: Vec<std::ops::Range<usize>> = (0..shard.batches())
        .map(|b| {
            let first = shard.first_row(b);
            first..rows.min(first + BATCH)
        })
        .collect();
    fn take<T: Copy>(batches: &[std::ops::Range<usize>], values: &[T], rows: usize) -> Result<Vec<T>> {
        let mut out = pages::try_with_capacity("the rows of a fit", rows)?;
        batches.iter().for_each(|b| out.extend_from_slice(&values[b.clone()]));
        Ok(out)
    }
    shard.target = take(&batches, &data.target, shard.rows)?;
    shard.more_targets = data.more_targets.iter().map(|t| take(&batches, t, shard.rows)).collect::<Result<_>>()?;
    shard.weight = data.weight.as_ref().map(|w| take(&batches, w, shard.rows)).transpose()?;
    shard.scores = data.scores.iter().map(|s| take(&batches, s, shard.rows)).collect::<Result<_>>()?;
    shard.columns = data.columns.iter().map(|c| take(&batches, c, shard.rows)).collect::<Result<_>>()?;
    shard.held_out = data.held_out.map(|h| take(&batches, h, shard.rows)).transpose()?;
    Ok(())
}

/// Makes the codes of the shard's rows for the features that a fit starts with, of those that are summed there. `part`:
/// see [`ShardGroup::new`].
pub fn codes(
    shard: &mut Shard,
    plan: &StoragePlan,
    data: &TrainingData<'_>,
    quantizers: &[Quantizer],
    exceptions: &[Option<Exceptions>],
    part: (usize, usize),
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let mut scratch = QuantizerScratch::default();
    let (rows, layout) = (data.target.len(), &plan.layout);
    let by_column = rows.saturating_mul(plan.column_codes.len()) <= MOST_COLUMN_BYTES;
    let mut group = ShardGroup::new(layout, shard.rows, by_column, part)?;
    let own = group.own.clone();
    let mut codes = [0; BATCH];
    for batch in 0..shard.batches() {
        if batch % 64 == 0 && interrupted() {
            return Err(Error::Interrupted);
        }
        let (start, first) = (batch * BATCH, shard.first_row(batch));
        let len = BATCH.min(shard.rows - start);
        for (f, at) in plan.dense_features().filter(|(_, column)| own.contains(column)) {
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
