//! A linear model as JSON, to read and to take elsewhere.
//!
//! ```text
//! { "format": "polars-taiga sparse_lr", "version": 1, "target": "y", "rows": 1000, "labels": [false, true],
//!   "sparse": {"features": "tokens", "values": null, "hash_bits": 20} or {…, "count": 1000000} or null,
//!   "dense": [{"name": "age", "type": "numeric"}, …],
//!   "intercepts": [-0.3],                                   one an output
//!   "coefficients": [{"feature": 17, "class": 1, "value": 0.25}, {"feature": "age", "class": 1, "value": -0.5}, …],
//!   "means": [0.1, …],                                      what each column gives in the mean, `[column * outputs + output]`
//!   "passes": 12, "converged": true, "objective": 0.41 or "nan",
//!   "history": {"metric": "logloss", "values": [0.61, …], "best": 11} or null,
//!   "params": {"optimizer": "lbfgs", …},
//!   "label_type", "computed" and "structs" as in [`crate::learners::boosting::model::json`], where there is something to tell }
//! ```
//!
//! "class" is an index into "labels". The raw score of an output is its intercept and the sum of value times coefficient; see
//! [`LinearModel`].

use super::{Coefficient, FeatureName, LinearModel, Numbering, SparseFeatures};
use crate::envelope::Persisted;
use crate::error::{Error, Result};
use crate::memory::size;
use crate::model::json::{HistoryJson, LabelsJson, List, Number, Numbers, text_of, write_provenance};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

/// The names of dense columns stand in the text once a coefficient. Bytes of them that are always written, and bytes of them for
/// each byte that the model holds of names and coefficients.
const MOST_NAMES: u64 = 1 << 26;
const NAMES_SHARE: u64 = 100;

/// What the text says it is.
pub const FORMAT: &str = "polars-taiga sparse_lr";

struct CoefficientJson<'a>(Coefficient<'a>);

impl Serialize for CoefficientJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        match self.0.feature {
            FeatureName::Number(n) => map.serialize_entry("feature", &n)?,
            FeatureName::Column { name, .. } => map.serialize_entry("feature", name)?,
        }
        map.serialize_entry("class", &self.0.class)?;
        map.serialize_entry("value", &self.0.value)?;
        map.end()
    }
}

fn sparse(s: &SparseFeatures) -> Value {
    let mut sparse = json!({"features": s.column, "values": s.values});
    match s.numbering {
        Numbering::Numbers { features } => sparse["count"] = json!(features),
        Numbering::Hashed { bits } => sparse["hash_bits"] = json!(bits),
    }
    sparse
}

struct ModelJson<'a>(&'a LinearModel);

impl Serialize for ModelJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let m = self.0;
        let dense = || m.dense.iter().map(|d| json!({"name": d.name, "type": d.dtype.to_string()}));
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("format", FORMAT)?;
        map.serialize_entry("version", &m.version())?;
        map.serialize_entry("target", &m.target)?;
        map.serialize_entry("rows", &m.rows)?;
        map.serialize_entry("labels", &LabelsJson(&m.labels))?;
        map.serialize_entry("sparse", &m.sparse.as_ref().map(sparse))?;
        map.serialize_entry("dense", &List(dense))?;
        map.serialize_entry("intercepts", &Numbers(&m.intercepts))?;
        map.serialize_entry("coefficients", &List(|| m.coefficients().map(CoefficientJson)))?;
        if let Some(means) = &m.means {
            map.serialize_entry("means", &Numbers(means))?;
        }
        map.serialize_entry("passes", &m.passes)?;
        map.serialize_entry("converged", &m.converged)?;
        map.serialize_entry("objective", &Number(m.objective))?;
        map.serialize_entry("history", &m.history.as_ref().map(HistoryJson))?;
        map.serialize_entry("params", &m.params.to_stored())?;
        write_provenance(&mut map, &m.provenance, m.column_names())?;
        map.end()
    }
}

impl LinearModel {
    /// The whole model as a JSON object; see the module's text for its fields.
    ///
    /// A value takes many times the memory of the text: [`LinearModel::json_text`].
    pub fn to_json(&self) -> Value {
        serde_json::to_value(ModelJson(self)).unwrap_or_default()
    }

    /// The text of [`LinearModel::to_json`].
    ///
    /// # Errors
    /// [`Error::Data`] where it would hold column names of many times the model's own size: each stands there once a class.
    pub fn json_text(&self) -> Result<String> {
        let names: u64 = self.dense.iter().map(|d| d.name.len() as u64).sum();
        let (repeated, own) = (names.saturating_mul(self.outputs() as u64), names + 8 * self.dense_weights.len() as u64);
        if repeated > MOST_NAMES.max(NAMES_SHARE.saturating_mul(own)) {
            let classes = self.outputs();
            let text = format!("as JSON the model would repeat its columns' names for {classes} classes: {}", size(repeated));
            return Err(Error::Data(text));
        }
        text_of(&ModelJson(self))
    }
}
