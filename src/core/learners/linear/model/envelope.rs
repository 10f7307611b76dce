//! A linear model's bytes: the payload in the common [`crate::envelope`], kind `LR`.
//!
//! | version | since | what it brought |
//! |---|---|---|
//! | 1 | 0.1 of November 2026 | |
//! | 2 | computed columns | the parameter `positive`; behind the payload the [`crate::provenance`] |
//! | 3 | Shapley values | behind the payload what each column gives in the mean of the training rows |
//! | 4 | metadata | behind the provenance the user's [`crate::metadata`] |
//! | 5 | columns of structs | behind the metadata, which may be none, the structs that columns were fields of |
//!
//! A model is written in the oldest version that can hold it.

use super::{DenseFeature, LinearModel, SparseFeatures};
use crate::dataset::labels::Labels;
use crate::envelope::{Contents, Envelope, Persisted};
use crate::error::Result;
use crate::learners::linear::LinearParams;
use crate::model::payload::{HistoryPayload, invalid, is_new, params_of, text_of};
use crate::provenance::Provenance;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The envelope of linear models.
pub const ENVELOPE: Envelope = Envelope {
    kind: b"LR",
    version: 6,
    provenance: 2,
    metadata: 4,
    structs: 5,
    receipt: 6,
    noun: "model",
    description: "a model of sparse logistic regression",
};

/// What the payload holds, in this order.
#[derive(Serialize, Deserialize)]
pub struct Payload<'a> {
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
    history: Option<HistoryPayload<'a>>,
}

impl Persisted for LinearModel {
    const ENVELOPE: Envelope = ENVELOPE;
    type Payload<'a> = Payload<'a>;
    type Extra = Option<Vec<f64>>;
    type Last = ();
    const NO_EXTRA: Self::Extra = None;
    const EXTRA_SINCE: u32 = 3;

    fn contents(&self) -> Contents<'_, Payload<'_>, Self::Extra> {
        let mut steps = self.numbers.clone();
        for i in (1..steps.len()).rev() {
            steps[i] -= steps[i - 1];
        }
        let params = text_of(&self.params, LinearParams::to_json);
        let is_new = is_new(Some(&self.labels), &params);
        let payload = Payload {
            params: params.text.into(),
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
            history: self.history.as_ref().map(HistoryPayload::of),
        };
        let size = 256 + 2 * self.numbers.len() + 4 * self.weights.len() + 8 * self.dense_weights.len();
        Contents { payload, extra: self.means.clone(), provenance: &self.provenance, is_new, size }
    }

    fn from_contents(p: Payload<'_>, means: Self::Extra, provenance: Provenance) -> Result<Self> {
        let mut numbers = p.steps.into_owned();
        for i in 1..numbers.len() {
            numbers[i] = numbers[i].checked_add(numbers[i - 1]).ok_or_else(|| invalid("a feature number is too large"))?;
        }
        let model = LinearModel {
            params: params_of(&p.params, LinearParams::LOCAL, LinearParams::from_stored)?,
            target: p.target.into_owned(),
            labels: p.labels.into_owned(),
            sparse: p.sparse.into_owned(),
            dense: p.dense.into_owned(),
            numbers,
            weights: p.weights.into_owned(),
            dense_weights: p.dense_weights.into_owned(),
            intercepts: p.intercepts.into_owned(),
            means,
            rows: p.rows,
            passes: p.passes,
            converged: p.converged,
            objective: p.objective,
            history: p.history.map(HistoryPayload::history).transpose()?,
            provenance,
        };
        model.validate()?;
        Ok(model)
    }
}

impl LinearModel {
    /// The model's bytes; equal models have equal bytes. Coefficients that are zero take none.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.seal()
    }

    /// The model of these bytes, a valid one ([`LinearModel::validate`]), in memory in proportion to their length.
    ///
    /// # Errors
    /// As [`Persisted::open`].
    pub fn from_bytes(bytes: &[u8]) -> Result<LinearModel> {
        Persisted::open(bytes)
    }
}
