//! Features that share columns of codes: the plan is the CPU's (backend/cpu/plan.rs, bundle.rs; exclusive feature bundling,
//! Ke et al., "LightGBM", 2017). Features that exclude no others have columns of their own here, however sparse they are.

use super::tables::{ALL_STORED, Feature};
use crate::backend::cpu::bundle;
use crate::backend::cpu::plan::SparseFeature;
use crate::backend::cpu::team::Team;
use crate::backend::{CodeSet, TrainingData};
use crate::error::Result;
use crate::quantize::codes::Quantizer;
use crate::quantize::exceptions::Exceptions;

/// Neighbours among which exclusive features are looked for first, in a table of many more: to look among all of them takes
/// longer than many trees, and is for nothing where features are sparse but exclude none. Flags of a category are neighbours.
const PROBED: usize = 64;

/// The features of a group that share columns.
pub struct Bundles {
    /// Of each feature: its column. Those of one feature come first, in order.
    pub columns: Vec<usize>,
    single: usize,
    /// Of each shared column: the number of codes.
    pub column_codes: Vec<usize>,
    /// Of each feature that shares its column: what it stores there, and its rows off the code that is not stored.
    shared: Vec<Option<(SparseFeature, Exceptions)>>,
}

impl Bundles {
    /// How the features that a fit starts with share columns; none where that would not pay.
    ///
    /// # Errors
    /// [`crate::Error::Interrupted`].
    pub fn plan(team: &Team, data: &TrainingData<'_>, interrupted: &(dyn Fn() -> bool + Sync)) -> Result<Option<Bundles>> {
        if !bundle::worthwhile(data) {
            return Ok(None);
        }
        if data.features.len() > 4 * PROBED && !probe(team, data, interrupted)? {
            return Ok(None);
        }
        let quantizers: Vec<Quantizer> = data.features.iter().map(|f| Quantizer::new(&f.borders)).collect();
        let (plan, mut exceptions) = bundle::plan(team, data, &quantizers, interrupted)?;
        let n = data.features.len();
        let mut shared: Vec<Option<(SparseFeature, Exceptions)>> = (0..n).map(|_| None).collect();
        for feature in plan.sparse.into_iter().filter(|s| s.column.is_some()) {
            let (f, found) = (feature.feature, exceptions[feature.feature].take());
            shared[f] = found.map(|found| (feature, found));
        }
        // The plan's columns of one feature each, and those that it lists, come first.
        let single = shared.iter().filter(|s| s.is_none()).count();
        let first_shared = shared.iter().flatten().filter_map(|(s, _)| s.column).map(|(column, _)| column).min();
        let Some(first_shared) = first_shared else { return Ok(None) };
        let column_codes = plan.column_codes[first_shared..].to_vec();
        let mut next = 0..single;
        let column = |s: &Option<(SparseFeature, Exceptions)>| match s.as_ref().and_then(|(s, _)| s.column) {
            Some((column, _)) => single + column - first_shared,
            None => next.next().unwrap_or(0),
        };
        Ok(Some(Bundles { columns: shared.iter().map(column).collect(), single, column_codes, shared }))
    }

    /// What a feature, counted in the group, stores in the column that it shares.
    pub fn shared(&self, feature: usize) -> Option<&SparseFeature> {
        self.shared[feature].as_ref().map(|(s, _)| s)
    }

    /// The codes of the shared columns, one after the other; the features' rows are forgotten.
    pub fn codes(&mut self, rows: usize) -> Vec<Vec<u8>> {
        let mut codes = vec![vec![0; rows]; self.column_codes.len()];
        for (column, found) in self.columns.iter().zip(&mut self.shared) {
            let Some((feature, exceptions)) = found else { continue };
            for (row, code) in exceptions.rows.iter().zip(&exceptions.codes) {
                codes[column - self.single][*row as usize] = feature.bundle_code(*code);
            }
            *exceptions = Exceptions::default();
        }
        codes
    }

    /// Tells the kernels where a feature's codes are.
    pub fn describe(&self, feature: usize, table: &mut Feature) {
        table.column = self.columns[feature] as u32;
        (table.usual, table.low, table.start) = match self.shared(feature) {
            None => (ALL_STORED, 0, 0),
            Some(s) => (s.stored.default as u32, s.stored.low as u32, s.column.map_or(0, |(_, start)| start as u32)),
        };
    }

    /// The codes of a feature's column that a split sends to the right, where it shares that column: all codes of its own
    /// above `last`, and code 0 where `zero_right`.
    pub fn right(&self, feature: usize, last: u32, zero_right: bool) -> Option<CodeSet> {
        let shared = self.shared(feature)?;
        let codes = self.column_codes[self.columns[feature] - self.single];
        let mut set = CodeSet::default();
        let goes = |own: u8| own as u32 > last || (zero_right && own == 0);
        (0..codes).map(|c| c as u8).filter(|c| goes(shared.code_of(*c))).for_each(|c| set.insert(c));
        Some(set)
    }
}

/// Whether some neighbours share columns.
fn probe(team: &Team, data: &TrainingData<'_>, interrupted: &(dyn Fn() -> bool + Sync)) -> Result<bool> {
    for first in [0, data.features.len() / 2] {
        let range = first..first + PROBED;
        let part = TrainingData {
            features: &data.features[range.clone()],
            sources: &data.sources[range],
            target: vec![0.0; data.target.len()],
            weight: None,
            scores: vec![],
            held_out: None,
            ..*data
        };
        let quantizers: Vec<Quantizer> = part.features.iter().map(|f| Quantizer::new(&f.borders)).collect();
        let (plan, _) = bundle::plan(team, &part, &quantizers, interrupted)?;
        if plan.sparse.iter().any(|s| s.column.is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}
