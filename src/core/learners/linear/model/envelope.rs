//! A linear model's bytes: the payload in the common [`crate::envelope`], kind `LR`.
//!
//! | version | since | what it brought |
//! |---|---|---|
//! | 1 | 0.1 of November 2026 | |
//! | 2 | computed columns | the parameter `positive`; behind the payload the [`crate::provenance`] |
//!
//! A model is written in the oldest version that can hold it.

use super::{DenseFeature, LinearModel, SparseFeatures};
use crate::dataset::labels::Labels;
use crate::envelope::Envelope;
use crate::error::Result;
use crate::learners::linear::LinearParams;
use crate::model::payload::{Curve, invalid, is_new, params_of, params_text};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The newest format version that this build writes and reads.
pub(super) const FORMAT_VERSION: u32 = 2;

/// The envelope of linear models.
pub const ENVELOPE: Envelope =
    Envelope { kind: b"LR", version: FORMAT_VERSION, provenance: 2, noun: "model", description: "a model of sparse logistic regression" };

/// What the payload holds, in this order.
#[derive(Serialize, Deserialize)]
struct Payload<'a> {
    /// A JSON object with sorted names.
    params: Cow<'a, str>,
    target: Cow<'a, str>,
    labels: Cow<'a, Labels>,
    sparse: Cow<'a, Option<SparseFeatures>>,
    dense: Cow<'a, [DenseFeature]>,
    /// The first feature number, and what each has above the one before: small numbers take one byte.
    steps: Cow<'a, [u64]>,
    weights: Cow<'a, [f32]>,
    dense_weights: Cow<'a, [f64]>,
    intercepts: Cow<'a, [f64]>,
    rows: u64,
    passes: u32,
    converged: bool,
    objective: f64,
    history: Option<Curve<'a>>,
}

impl LinearModel {
    /// The format version of the model's bytes.
    pub(super) fn version(&self) -> u32 {
        ENVELOPE.version_for(&self.provenance, is_new(Some(&self.labels), &self.params.to_json()))
    }

    /// The model's bytes; equal models have equal bytes. Coefficients that are zero take none.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut steps = self.numbers.clone();
        for i in (1..steps.len()).rev() {
            steps[i] -= steps[i - 1];
        }
        let payload = Payload {
            params: params_text(&self.params.to_json()).into(),
            target: self.target.as_str().into(),
            labels: Cow::Borrowed(&self.labels),
            sparse: Cow::Borrowed(&self.sparse),
            dense: self.dense.as_slice().into(),
            steps: steps.into(),
            weights: self.weights.as_slice().into(),
            dense_weights: self.dense_weights.as_slice().into(),
            intercepts: self.intercepts.as_slice().into(),
            rows: self.rows,
            passes: self.passes,
            converged: self.converged,
            objective: self.objective,
            history: self.history.as_ref().map(Curve::of),
        };
        let capacity = 256 + 2 * self.numbers.len() + 4 * self.weights.len() + 8 * self.dense_weights.len();
        ENVELOPE.seal_with(self.version(), &payload, &self.provenance, capacity)
    }

    /// The model of these bytes. Whatever they hold, the memory taken stays in proportion to their length, and the model
    /// returned is valid ([`LinearModel::validate`]).
    ///
    /// # Errors
    /// For anything that is not the whole, undamaged model of a version this build can read; the text tells which.
    ///
    /// ```
    /// use taiga_core::learners::linear::LinearModel;
    /// let error = LinearModel::from_bytes(b"PAR1").unwrap_err();
    /// assert_eq!(error.to_string(), "model: these bytes are not a polars-taiga model");
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<LinearModel> {
        let (version, payload) = ENVELOPE.open(bytes).map_err(invalid)?;
        let (p, provenance): (Payload<'_>, _) = ENVELOPE.read_with(version, payload).map_err(invalid)?;
        let mut numbers = p.steps.into_owned();
        for i in 1..numbers.len() {
            numbers[i] = numbers[i].checked_add(numbers[i - 1]).ok_or_else(|| invalid("a feature number is too large"))?;
        }
        let model = LinearModel {
            params: params_of(&p.params, LinearParams::LOCAL, LinearParams::from_json)?,
            target: p.target.into_owned(),
            labels: p.labels.into_owned(),
            sparse: p.sparse.into_owned(),
            dense: p.dense.into_owned(),
            numbers,
            weights: p.weights.into_owned(),
            dense_weights: p.dense_weights.into_owned(),
            intercepts: p.intercepts.into_owned(),
            rows: p.rows,
            passes: p.passes,
            converged: p.converged,
            objective: p.objective,
            history: p.history.map(Curve::history).transpose()?,
            provenance,
        };
        model.validate()?;
        Ok(model)
    }
}
