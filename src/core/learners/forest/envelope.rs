//! A forest's bytes: the payload in the common [`crate::envelope`], kind `RF`.
//!
//! | version | since | what it brought |
//! |---|---|---|
//! | 1 | 0.1 of November 2026 | |
//! | 2 | computed columns | the parameter `positive`; behind the payload the [`crate::provenance`] |
//! | 3 | gains of any size | behind the payload, before the provenance, the unit of gains |
//! | 4 | metadata | behind the provenance the user's [`crate::metadata`] |
//! | 5 | columns of structs | behind the metadata, which may be none, the structs that columns were fields of |
//! | 6 | keys of rows | behind the columns of structs, which may be none, the [`crate::receipt`] |
//! | 7 | features that differ | the parameter `bins` by feature |
//!
//! A forest is written in the oldest version that can hold it.

use super::model::{Forest, OutOfBag, Tree};
use super::params::{Criterion, ForestParams};
use crate::dataset::Bins;
use crate::dataset::labels::Labels;
use crate::envelope::{Contents, Envelope, Persisted};
use crate::error::Result;
use crate::model::Feature;
use crate::model::payload::{is_new, name_of, named, params_of, text_of};
use crate::provenance::Provenance;
use crate::quantize::CodeSet;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The envelope of forests.
pub const ENVELOPE: Envelope =
    Envelope { kind: b"RF", version: 7, provenance: 2, metadata: 4, structs: 5, receipt: 6, noun: "model", description: "a random forest" };

/// The first version with bins by feature.
const BY_FEATURE_SINCE: u32 = 7;

/// What the payload holds, in this order.
#[derive(Serialize, Deserialize)]
pub struct Payload<'a> {
    /// A JSON object with sorted names.
    params: Cow<'a, str>,
    criterion: Cow<'a, str>,
    target: Cow<'a, str>,
    features: Cow<'a, [Feature]>,
    labels: Cow<'a, Option<Labels>>,
    sets: Cow<'a, [CodeSet]>,
    trees: Cow<'a, [Tree]>,
    rows: u64,
    unit: f64,
    oob: Cow<'a, Option<OutOfBag>>,
    permutation: Cow<'a, Option<Vec<f64>>>,
}

impl Persisted for Forest {
    const ENVELOPE: Envelope = ENVELOPE;
    type Payload<'a> = Payload<'a>;
    type Extra = f64;
    type Last = ();
    const NO_EXTRA: f64 = 1.0;
    const EXTRA_SINCE: u32 = 3;

    fn contents(&self) -> Contents<'_, Payload<'_>, f64> {
        let predictions = self.oob.iter().flat_map(|o| &o.predictions).map(|p| 8 * p.len()).sum::<usize>();
        let params = text_of(&self.params, ForestParams::to_json);
        let is_new = is_new(self.labels.as_ref(), &params);
        let payload = Payload {
            params: params.text.into(),
            criterion: name_of(&self.criterion).into(),
            target: self.target.as_str().into(),
            features: self.features.as_slice().into(),
            labels: Cow::Borrowed(&self.labels),
            sets: self.sets.as_slice().into(),
            trees: self.trees.as_slice().into(),
            rows: self.rows,
            unit: self.unit,
            oob: Cow::Borrowed(&self.oob),
            permutation: Cow::Borrowed(&self.permutation),
        };
        let size = self.trees.iter().map(|t| 16 + 20 * t.leaves()).sum::<usize>() + predictions;
        Contents { payload, extra: self.gain_unit, provenance: &self.provenance, is_new, size }
    }

    fn known_since(&self) -> u32 {
        if matches!(self.params.bins, Bins::ByFeature(_)) { BY_FEATURE_SINCE } else { 1 }
    }

    fn from_contents(p: Payload<'_>, gain_unit: f64, provenance: Provenance) -> Result<Self> {
        let forest = Forest {
            params: params_of(&p.params, ForestParams::LOCAL, ForestParams::from_stored)?,
            criterion: named::<Criterion>("criterion", &p.criterion)?,
            target: p.target.into_owned(),
            features: p.features.into_owned(),
            labels: p.labels.into_owned(),
            sets: p.sets.into_owned(),
            trees: p.trees.into_owned(),
            rows: p.rows,
            unit: p.unit,
            gain_unit,
            oob: p.oob.into_owned(),
            permutation: p.permutation.into_owned(),
            provenance,
        };
        forest.validate()?;
        Ok(forest)
    }
}

impl Forest {
    /// The forest's bytes; equal forests have equal bytes.
    ///
    /// `params.n_threads` and `params.device` are not kept: they never change a forest.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.seal()
    }

    /// The forest of these bytes, a valid one ([`Forest::validate`]), in memory in proportion to their length.
    ///
    /// # Errors
    /// As [`Persisted::open`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Forest> {
        Persisted::open(bytes)
    }
}
