//! Plans which features share columns of codes: the plan is the CPU's (core/learners/boosting/layout.rs, bundle.rs; exclusive feature bundling,
//! Ke et al., "LightGBM", 2017). Sparse features that exclude no others are lists ([`super::sparse_features`]).

use super::layouts::FeatureInfo;
use std::ops::Range;
use taiga_core::error::Result;
use taiga_core::learners::boosting::bundling;
use taiga_core::learners::boosting::layout::SparseFeature;
use taiga_core::learners::boosting::ordered::Pieces;
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::quantize::codes::{Quantizer, QuantizerScratch};
use taiga_core::quantize::exceptions::Exceptions;
use taiga_core::quantize::{CodeSet, CodeSource};

/// Neighbours among which exclusive features are looked for first, in a table of many more: to look among all of them takes
/// longer than many trees, and is for nothing where features are sparse but exclude none. Flags of a category are neighbours.
const PROBED: usize = 64;

/// Rows of them that are looked at first, in runs.
const SAMPLED_RUNS: usize = 8;
const SAMPLED_RUN: usize = 2048;

/// The features of a group that share columns.
pub struct Bundles {
    /// The number of codes of each shared column.
    pub column_codes: Vec<usize>,
    /// For each feature that shares its column: which one, counted among these, what it stores there, and its rows off the code
    /// that is not stored.
    shared: Vec<Option<(usize, SparseFeature, Exceptions)>>,
}

impl Bundles {
    /// How the features that a fit starts with share columns; none where that would not pay.
    ///
    /// # Errors
    /// [`taiga_core::Error::Interrupted`].
    pub fn plan(pool: &ThreadPool, data: &TrainingData<'_>, interrupted: &(dyn Fn() -> bool + Sync)) -> Result<Option<Bundles>> {
        if !bundling::worthwhile(data) {
            return Ok(None);
        }
        if data.features.len() > 4 * PROBED && !probe(pool, data, interrupted)? {
            return Ok(None);
        }
        let quantizers: Vec<Quantizer> = data.features.iter().map(|f| Quantizer::new(&f.borders)).collect();
        let (plan, mut exceptions) = bundling::plan(pool, data, &quantizers, interrupted)?;
        // The plan's columns of one feature each, and those that it lists, come first.
        let first = plan.sparse.iter().filter_map(|s| s.column).map(|(column, _)| column).min();
        let Some(first) = first else { return Ok(None) };
        let column_codes = plan.column_codes[first..].to_vec();
        let mut shared: Vec<Option<(usize, SparseFeature, Exceptions)>> = data.features.iter().map(|_| None).collect();
        for feature in plan.sparse {
            let (f, Some((column, _))) = (feature.feature, feature.column) else { continue };
            shared[f] = exceptions[f].take().map(|found| (column - first, feature, found));
        }
        Ok(Some(Bundles { column_codes, shared }))
    }

    /// The shared column of a feature, counted in the group, among the shared ones.
    pub fn column(&self, feature: usize) -> Option<usize> {
        self.shared[feature].as_ref().map(|(column, ..)| *column)
    }

    /// What a feature, counted in the group, stores in the column that it shares.
    fn shared(&self, feature: usize) -> Option<&SparseFeature> {
        self.shared[feature].as_ref().map(|(_, s, _)| s)
    }

    /// The codes of the shared columns, one after the other; the features' rows are forgotten.
    pub fn codes(&mut self, rows: usize) -> Vec<Vec<u8>> {
        let mut codes = vec![vec![0; rows]; self.column_codes.len()];
        for (column, feature, exceptions) in self.shared.iter_mut().flatten() {
            for (row, code) in exceptions.rows.iter().zip(&exceptions.codes) {
                codes[*column][*row as usize] = feature.bundle_code(*code);
            }
            *exceptions = Exceptions::default();
        }
        codes
    }

    /// Tells the kernels what a feature stores in the column that it shares.
    pub fn describe(&self, feature: usize, table: &mut FeatureInfo) {
        let Some(s) = self.shared(feature) else { return };
        (table.usual, table.low, table.start) =
            (s.stored.default as u32, s.stored.low as u32, s.column.map_or(0, |(_, start)| start as u32));
    }

    /// The codes of a feature's column that a split sends to the right, where it shares that column: all codes of its own
    /// above `last`, and code 0 where `zero_right`.
    pub fn right(&self, feature: usize, last: u32, zero_right: bool) -> Option<CodeSet> {
        let (column, shared, _) = self.shared[feature].as_ref()?;
        let codes = self.column_codes[*column];
        let mut set = CodeSet::default();
        let goes = |own: u8| own as u32 > last || (zero_right && own == 0);
        (0..codes).map(|c| c as u8).filter(|c| goes(shared.code_of(*c))).for_each(|c| set.insert(c));
        Some(set)
    }
}

/// Whether some neighbours share columns: among rows that are looked at first, and then among all.
fn probe(pool: &ThreadPool, data: &TrainingData<'_>, interrupted: &(dyn Fn() -> bool + Sync)) -> Result<bool> {
    for first in [0, data.features.len() / 2] {
        let range = first..first + PROBED;
        let sample = pool.deal(PROBED, QuantizerScratch::default, |scratch, f| sample_codes(data, first + f, scratch));
        let codes: Vec<CodeSource<'_>> = sample.iter().map(|codes| CodeSource::Codes(codes)).collect();
        let rows = sample.first().map_or(0, Vec::len);
        if shares(pool, data, range.clone(), &codes, rows, interrupted)?
            && shares(pool, data, range.clone(), &data.sources[range], data.target.len(), interrupted)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The codes of a feature in runs of rows spread over the table.
fn sample_codes(data: &TrainingData<'_>, feature: usize, scratch: &mut QuantizerScratch) -> Vec<u8> {
    let (rows, f) = (data.target.len(), &data.features[feature]);
    let run = SAMPLED_RUN.min(rows / SAMPLED_RUNS);
    let mut out = vec![0; SAMPLED_RUNS * run];
    let quantizer = Quantizer::new(&f.borders);
    for (i, out) in out.chunks_mut(run.max(1)).enumerate() {
        let start = (rows - run) * i / (SAMPLED_RUNS - 1);
        bundling::read_codes(&data.sources[feature], &quantizer, f.first(), start, out, scratch);
    }
    out
}

/// Whether some features of a range share columns, by codes of so many rows.
fn shares(
    pool: &ThreadPool,
    data: &TrainingData<'_>,
    range: Range<usize>,
    sources: &[CodeSource<'_>],
    rows: usize,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<bool> {
    let features = &data.features[range];
    let part = TrainingData {
        features,
        sources,
        target: vec![0.0; rows],
        more_targets: vec![],
        weight: None,
        scores: vec![],
        columns: vec![],
        groups: None,
        positions: None,
        risk_sets: None,
        held_out: None,
        measures_all: false,
        pieces: Pieces::default(),
        ..*data
    };
    let quantizers: Vec<Quantizer> = features.iter().map(|f| Quantizer::new(&f.borders)).collect();
    let (plan, _) = bundling::plan(pool, &part, &quantizers, interrupted)?;
    Ok(plan.sparse.iter().any(|s| s.column.is_some()))
}
