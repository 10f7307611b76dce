//! Which features are stored sparsely, and which of those share a column of codes.
//!
//! A feature that has one code in most rows is stored by its other rows alone. Features that are
//! never both off their defaults in a row are bundled into one column (exclusive feature bundling,
//! Ke et al., "LightGBM", 2017); here no conflict is allowed, so that nothing is lost. Sparse
//! features that exclude no others are lists of rows.

use super::layout::{Home, MAX_ROWS, StoragePlan, Stored};
use super::steps::TrainingData;
use crate::error::{Error, Result};
use crate::parallel::thread_pool::ThreadPool;
use crate::quantize::CodeSource;
use crate::quantize::codes::{Quantizer, QuantizerScratch};
use crate::quantize::exceptions::Exceptions;

/// Rows that are looked at first, in runs spread over the table.
const PROBE_RUNS: usize = 4;
const PROBE_RUN: usize = 256;

/// The largest share of rows off the default, of a feature that may join a bundle, and of one that
/// is listed: a listed value costs four times what a code in a column does, and ten bytes; while
/// bundles are looked for, a value takes five.
const BUNDLED_SHARE: f64 = 0.26;
const LISTED_SHARE: f64 = 0.1;

/// A bundle with fewer rows off the defaults is better listed.
const FULL_BUNDLE: f64 = 0.25;

/// Sparse storage has a cost of its own: it must save this many columns.
pub const LEAST_SAVED: f64 = 16.0;

/// Bundles that a feature tries to join, the bytes of all bundles' marks, and the rows that are
/// compared, as a multiple of those that are off their defaults.
const TRIES: usize = 128;
const MARK_BYTES: usize = 64 << 20;
const EFFORT: usize = 32;

/// Returns whether a table is large enough to look for sparse features.
pub fn worthwhile(data: &TrainingData<'_>) -> bool {
    // What comes in batches is not read once more for that.
    data.bundle && data.batches.is_none() && data.features.len() as f64 >= LEAST_SAVED && data.target.len() >= PROBE_RUNS * PROBE_RUN
}

/// Returns the plan for the features that a fit starts with, and the exceptions of the sparse ones.
///
/// # Errors
/// On an interrupt.
pub fn plan(
    pool: &ThreadPool,
    data: &TrainingData<'_>,
    quantizers: &[Quantizer],
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<(StoragePlan, Vec<Option<Exceptions>>)> {
    let mut exceptions = find_exceptions(pool, data, quantizers, interrupted)?;
    let rows = data.target.len();
    let stored = |f: usize| {
        exceptions[f].as_ref().map(|e| {
            let missing = data.features[f].first() == 0 || (e.default != 0 && e.codes.contains(&0));
            Stored { default: e.default as usize, low: !missing as usize, bins: data.features[f].bins() }
        })
    };
    let stored: Vec<Option<Stored>> = (0..data.features.len()).map(stored).collect();
    let (bundles, listed) = choose(&exceptions, &stored, rows);
    let saved = bundles.iter().map(|b| b.len() as f64 - 1.0).sum::<f64>() + listed_saving(&listed, &exceptions, rows);
    if saved < LEAST_SAVED {
        return Ok((StoragePlan::dense(data.features, true), vec![]));
    }
    let used = bundles.iter().flatten().chain(&listed);
    let wide = used.filter_map(|f| exceptions[*f].as_ref()).any(|e| e.rows.len() > MAX_ROWS);
    let plan = StoragePlan::new(data.features, &stored, bundles, listed, wide);
    for (home, e) in plan.homes.iter().zip(&mut exceptions) {
        if matches!(home, Home::Column(_)) {
            *e = None;
        }
    }
    Ok((plan, exceptions))
}

/// Finds the exceptions of each feature that may be stored sparsely.
fn find_exceptions(
    pool: &ThreadPool,
    data: &TrainingData<'_>,
    quantizers: &[Quantizer],
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Option<Exceptions>>> {
    let rows = data.target.len();
    let most = (rows as f64 * BUNDLED_SHARE) as usize;
    let found = pool.deal(data.sources.len(), QuantizerScratch::default, |scratch, f| {
        if data.features[f].categories || interrupted() {
            return None;
        }
        let (source, offset) = (&data.sources[f], data.features[f].first());
        let (default, others) = most_frequent(source, &quantizers[f], offset, rows, scratch);
        // A little more than what is allowed: the probe may be off.
        if others > 0.1 + BUNDLED_SHARE {
            return None;
        }
        match source {
            CodeSource::Values(column) => quantizers[f].exceptions(column, offset, default, most, scratch),
            CodeSource::Codes(codes) => Exceptions::of_codes(codes, default, most),
        }
    });
    if interrupted() { Err(Error::Interrupted) } else { Ok(found) }
}

/// Returns the most frequent code of a feature among rows that are looked at, and the share of those that have others. There are
/// rows enough ([`worthwhile`]).
pub fn most_frequent(
    source: &CodeSource<'_>,
    quantizer: &Quantizer,
    offset: usize,
    rows: usize,
    scratch: &mut QuantizerScratch,
) -> (u8, f64) {
    let mut counts = [0usize; 256];
    let mut codes = [0u8; PROBE_RUN];
    for run in 0..PROBE_RUNS {
        let start = (rows - PROBE_RUN) * run / (PROBE_RUNS - 1);
        read_codes(source, quantizer, offset, start, &mut codes, scratch);
        codes.iter().for_each(|c| counts[*c as usize] += 1);
    }
    let most = (0..256).fold(0, |best, c| if counts[c] > counts[best] { c } else { best });
    (most as u8, 1.0 - counts[most] as f64 / (PROBE_RUNS * PROBE_RUN) as f64)
}

/// Writes the codes of rows from `start` on to `out`.
pub fn read_codes(
    source: &CodeSource<'_>,
    quantizer: &Quantizer,
    offset: usize,
    start: usize,
    out: &mut [u8],
    scratch: &mut QuantizerScratch,
) {
    match source {
        CodeSource::Values(column) => _ = quantizer.codes::<u8>(column, start, out.len(), offset, out, 1, scratch),
        CodeSource::Codes(all) => out.copy_from_slice(&all[start..start + out.len()]),
    }
}

/// Returns how many columns listing saves.
fn listed_saving(listed: &[usize], exceptions: &[Option<Exceptions>], rows: usize) -> f64 {
    let saving = |f: &usize| exceptions[*f].as_ref().map_or(0.0, |e| 1.0 - 4.0 * e.rows.len() as f64 / rows as f64);
    listed.iter().map(saving).sum()
}

/// Returns the bundles, and the listed features in ascending order.
fn choose(exceptions: &[Option<Exceptions>], stored: &[Option<Stored>], rows: usize) -> (Vec<Vec<usize>>, Vec<usize>) {
    let count = |f: usize| exceptions[f].as_ref().map_or(0, |e| e.rows.len());
    let share = |members: &[usize]| members.iter().map(|f| count(*f)).sum::<usize>() as f64 / rows as f64;
    let bundles = bundles(exceptions, stored, rows);
    let (full, rest): (Vec<_>, Vec<_>) = bundles.into_iter().partition(|b| b.len() > 1 && share(b) >= FULL_BUNDLE);
    let mut listed: Vec<usize> = rest.iter().flatten().copied().filter(|f| share(&[*f]) <= LISTED_SHARE).collect();
    listed.sort_unstable();
    let entries: usize = listed.iter().map(|f| count(*f)).sum();
    if listed_saving(&listed, exceptions, rows) >= LEAST_SAVED && entries < u32::MAX as usize {
        return (full, listed);
    }
    (full.into_iter().chain(rest.into_iter().filter(|b| b.len() > 1)).collect(), vec![])
}

/// A bundle that others may join.
struct OpenBundle {
    members: Vec<usize>,
    codes: usize,
    /// A bit a row: whether a member is off its default.
    marks: Vec<u64>,
}

/// Greedily puts each feature into the first bundle that it excludes, the last one joined first.
fn bundles(exceptions: &[Option<Exceptions>], stored: &[Option<Stored>], rows: usize) -> Vec<Vec<usize>> {
    let most_open = MARK_BYTES / rows.div_ceil(8).max(1);
    let mut effort = EFFORT * exceptions.iter().flatten().map(|e| e.rows.len()).sum::<usize>();
    // The last one joined is the last one here.
    let mut open: Vec<OpenBundle> = vec![];
    let mut closed = vec![];
    for (f, (e, s)) in exceptions.iter().zip(stored).enumerate() {
        let (Some(e), Some(s)) = (e, s) else { continue };
        let fits = |bundle: &OpenBundle, effort: &mut usize| {
            if bundle.codes + s.words() > 256 || *effort == 0 {
                return false;
            }
            let conflict = e.rows.iter().position(|r| bundle.marks[*r as usize / 64] >> (r % 64) & 1 == 1);
            *effort = effort.saturating_sub(conflict.unwrap_or(e.rows.len()) + 1);
            conflict.is_none()
        };
        let found = (0..open.len()).rev().take(TRIES).find(|b| fits(&open[*b], &mut effort));
        let mut bundle = match found {
            Some(b) => open.remove(b),
            None if open.len() < most_open && s.words() < 255 => {
                OpenBundle { members: vec![], codes: 1, marks: vec![0; rows.div_ceil(64)] }
            }
            None => {
                closed.push(vec![f]);
                continue;
            }
        };
        bundle.members.push(f);
        bundle.codes += s.words();
        e.rows.iter().for_each(|r| bundle.marks[*r as usize / 64] |= 1 << (r % 64));
        if bundle.codes < 256 {
            open.push(bundle);
        } else {
            closed.push(bundle.members);
        }
    }
    closed.extend(open.into_iter().map(|b| b.members));
    closed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::RowShard;
    use crate::learners::boosting::ordered::Pieces;

    fn exceptions(rows: &[u32]) -> Option<Exceptions> {
        Some(Exceptions { default: 1, rows: rows.to_vec(), codes: vec![2; rows.len()] })
    }

    /// No row is off two members' defaults, no feature is in two bundles, and codes fit a byte.
    #[test]
    fn bundles_are_exclusive() {
        use crate::numerics::random::{Purpose, Random};
        let random = Random::new(1, Purpose::RowSample, 0);
        let rows = 2000;
        for groups in [1, 7, 40] {
            // Columns of `groups` categories, dealt so that neighbours are of different ones.
            let found: Vec<Option<Exceptions>> = (0..400)
                .map(|f| {
                    let (group, level) = (f % groups, f / groups);
                    let levels = 400usize.div_ceil(groups);
                    let own = (0..rows as u32).filter(|r| random.u64((group * rows) as u64 + *r as u64) as usize % levels == level);
                    exceptions(&own.collect::<Vec<_>>())
                })
                .collect();
            let stored = vec![Some(Stored { default: 1, low: 1, bins: 3 }); 400];
            let bundles = bundles(&found, &stored, rows);
            assert!(bundles.len() <= if groups == 1 { 2 } else { 100 }, "{groups} {}", bundles.len());
            let mut seen = vec![false; 400];
            for bundle in &bundles {
                assert!(bundle.len() <= 255);
                let mut marked = vec![false; rows];
                for f in bundle {
                    assert!(!std::mem::replace(&mut seen[*f], true));
                    for r in &found[*f].as_ref().unwrap().rows {
                        assert!(!std::mem::replace(&mut marked[*r as usize], true));
                    }
                }
            }
            assert!(seen.iter().all(|s| *s));
        }
    }

    /// Flags of one category share a column, independent flags are listed, full columns stay; and
    /// every value can be found again.
    #[test]
    fn a_plan_keeps_every_code() {
        use crate::column::Column;
        use crate::learners::boosting::row_sampler::RowSampling;
        use crate::numerics::random::{Purpose, Random};
        use crate::quantize::CodedFeature;
        use crate::tree::params::{Policy, RowCounts};
        let random = Random::new(2, Purpose::RowSample, 0);
        let rows = 3000;
        let draw = |f: usize, i: usize| random.unit((f * rows + i) as u64);
        let columns: Vec<Vec<f32>> = (0..70)
            .map(|f| {
                let value = |i: usize| match f {
                    0..40 => ((draw(0, i) * 40.0) as usize == f) as u8 as f32,
                    40..65 => {
                        if draw(f, i) < 0.05 {
                            (f % 3) as f32 - 1.5
                        } else {
                            0.0
                        }
                    }
                    _ => (draw(f, i) * 9.0).floor() as f32,
                };
                (0..rows).map(value).collect()
            })
            .collect();
        let borders = |c: &Vec<f32>| {
            let values: Vec<f64> = c.iter().map(|x| f64::from(*x)).collect();
            crate::quantize::borders::borders(&values, 254, Default::default())
        };
        let features: Vec<CodedFeature> =
            columns.iter().map(|c| CodedFeature { borders: borders(c), missing_bin: true, categories: false }).collect();
        let read: Vec<Column<'_>> = columns.iter().enumerate().map(|(f, c)| Column::from_f32(format!("x{f}"), c)).collect();
        let sources: Vec<CodeSource<'_>> = read.iter().map(CodeSource::Values).collect();
        let data = TrainingData {
            features: &features,
            sources: &sources,
            target: vec![0.0; rows],
            measures_all: false,
            more_targets: vec![],
            weight: None,
            scores: vec![],
            columns: vec![],
            groups: None,
            positions: None,
            risk_sets: None,
            held_out: None,
            row_sampling: RowSampling::NONE,
            row_counts: RowCounts::None,
            policy: Policy::Symmetric,
            depth: 6,
            bundle: true,
            seed: 0,
            announced: None,
            shared: 1,
            steps_on: false,
            values: None,
            pieces: Pieces::default(),
            shard: RowShard::whole(rows),
            batches: None,
        };
        assert!(worthwhile(&data));
        let quantizers: Vec<Quantizer> = features.iter().map(|f| Quantizer::new(&f.borders)).collect();
        let (plan, found) = super::plan(&ThreadPool::new(1).unwrap(), &data, &quantizers, &|| false).unwrap();
        assert!(plan.unbundled >= 20, "{}", plan.unbundled);
        assert!(plan.sparse.len() >= 60);
        assert!(plan.dense_features().all(|(f, _)| f >= 65) && plan.dense_features().count() == 5);
        assert!(plan.column_codes.len() < 12 && plan.column_codes.iter().all(|c| *c <= 256));
        let mut word = 0;
        for s in &plan.sparse {
            assert_eq!(s.words().start, word);
            word = s.words().end;
            let e = found[s.feature].as_ref().unwrap();
            for code in &e.codes {
                assert_eq!(s.stored.code(s.stored.word(*code as usize)), *code as usize);
                if s.column.is_some() {
                    assert_eq!(s.code_of(s.bundle_code(*code)), *code);
                }
            }
            if let Some((column, start)) = s.column {
                assert_eq!(s.code_of(0), e.default);
                assert!(start > 0 && start + s.stored.words() <= plan.column_codes[column]);
            }
        }
        assert_eq!(word, plan.words());
    }
}
