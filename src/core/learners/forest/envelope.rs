//! A forest's bytes: the payload in the common [`crate::envelope`], kind `RF`.
//!
//! | version | since | what it brought |
//! |---|---|---|
//! | 1 | 0.1 of November 2026 | |
//! | 2 | computed columns | the parameter `positive`; behind the payload the [`crate::provenance`] |
//! | 3 | gains of any size | behind the payload, before the provenance, the unit of gains |
//!
//! A forest is written in the oldest version that can hold it.

use super::model::{Forest, OutOfBag, Tree};
use super::params::{Criterion, ForestParams};
use crate::dataset::labels::Labels;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::model::Feature;
use crate::model::payload::{is_new, name_of, named, params_of, params_text};
use crate::quantize::CodeSet;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The newest format version that this build writes and reads.
pub const FORMAT_VERSION: u32 = 3;

/// The envelope of forests.
pub const ENVELOPE: Envelope =
    Envelope { kind: b"RF", version: FORMAT_VERSION, provenance: 2, noun: "model", description: "a random forest" };

/// What the payload holds, in this order.
#[derive(Serialize, Deserialize)]
struct Payload<'a> {
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

impl Forest {
    /// The format version of the forest's bytes.
    pub(super) fn version(&self) -> u32 {
        if self.gain_unit != 1.0 {
            return FORMAT_VERSION;
        }
        ENVELOPE.version_for(&self.provenance, is_new(self.labels.as_ref(), &self.params.to_json()))
    }

    /// The forest's bytes; equal forests have equal bytes.
    ///
    /// `params.n_threads` and `params.device` are not kept: they never change a forest.
    pub fn to_bytes(&self) -> Vec<u8> {
        let payload = Payload {
            params: params_text(&self.params.to_json()).into(),
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
        let predictions = self.oob.iter().flat_map(|o| &o.predictions).map(|p| 8 * p.len()).sum::<usize>();
        let capacity = self.trees.iter().map(|t| 16 + 20 * t.leaves()).sum::<usize>() + predictions;
        match self.version() {
            FORMAT_VERSION => ENVELOPE.seal_with(FORMAT_VERSION, &(payload, self.gain_unit), &self.provenance, capacity),
            version => ENVELOPE.seal_with(version, &payload, &self.provenance, capacity),
        }
    }

    /// The forest of these bytes. Whatever they hold, the memory taken stays in proportion to their
    /// length, and the forest returned is valid ([`Forest::validate`]).
    ///
    /// # Errors
    /// For anything that is not the whole, undamaged forest of a version this build can read; the
    /// text tells which: empty, cut, foreign, damaged, newer.
    ///
    /// ```
    /// use taiga_core::learners::forest::Forest;
    /// let error = Forest::from_bytes(b"PAR1").unwrap_err();
    /// assert_eq!(error.to_string(), "model: these bytes are not a polars-taiga model");
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<Forest> {
        let (version, payload) = ENVELOPE.open(bytes).map_err(Error::Model)?;
        let (p, gain_unit, provenance) = match version {
            FORMAT_VERSION => {
                ENVELOPE.read_with::<(Payload<'_>, f64)>(version, payload).map(|((p, unit), provenance)| (p, unit, provenance))
            }
            _ => ENVELOPE.read_with::<Payload<'_>>(version, payload).map(|(p, provenance)| (p, 1.0, provenance)),
        }
        .map_err(Error::Model)?;
        let forest = Forest {
            params: params_of(&p.params, ForestParams::LOCAL, ForestParams::from_json)?,
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
