//! A linear model as JSON, to read and to take elsewhere.
//!
//! ```text
//! { "format": "polars-taiga sparse_lr", "version": 1, "target": "y", "rows": 1000, "labels": [false, true],
//!   "sparse": {"features": "tokens", "values": null, "hash_bits": 20} or {…, "count": 1000000} or null,
//!   "dense": [{"name": "age", "type": "numeric"}, …],
//!   "intercepts": [-0.3],                                   one an output
//!   "coefficients": [{"feature": 17, "class": 1, "value": 0.25}, {"feature": "age", "class": 1, "value": -0.5}, …],
//!   "passes": 12, "converged": true, "objective": 0.41 or "nan",
//!   "history": {"metric": "logloss", "values": [0.61, …], "best": 11} or null,
//!   "params": {"optimizer": "lbfgs", …},
//!   "label_type" and "computed" as in [`crate::model::json`], where there is something to tell }
//! ```
//!
//! "class" is an index into "labels". The raw score of an output is its intercept and the sum of value times coefficient; see
//! [`LinearModel`].

use super::{FeatureName, LinearModel, Numbering};
use crate::model::json::{add_provenance, history, labels, number, numbers};
use serde_json::{Value, json};

impl LinearModel {
    /// The whole model as a JSON object; see the module's text for its fields.
    pub fn to_json(&self) -> Value {
        let sparse = self.sparse.as_ref().map(|s| {
            let mut sparse = json!({"features": s.column, "values": s.values});
            match s.numbering {
                Numbering::Numbers { features } => sparse["count"] = json!(features),
                Numbering::Hashed { bits } => sparse["hash_bits"] = json!(bits),
            }
            sparse
        });
        let name = |feature: FeatureName<'_>| match feature {
            FeatureName::Number(n) => json!(n),
            FeatureName::Column(name) => json!(name),
        };
        let mut model = json!({
            "format": "polars-taiga sparse_lr",
            "version": self.version(),
            "target": self.target,
            "rows": self.rows,
            "labels": labels(&self.labels),
            "sparse": sparse,
            "dense": self.dense.iter().map(|d| json!({"name": d.name, "type": d.dtype.to_string()})).collect::<Value>(),
            "intercepts": numbers(&self.intercepts),
            "coefficients": self.coefficients().map(|c| {
                json!({"feature": name(c.feature), "class": c.class, "value": c.value})
            }).collect::<Value>(),
            "passes": self.passes,
            "converged": self.converged,
            "objective": number(self.objective),
            "history": self.history.as_ref().map(history),
            "params": self.params.to_json(),
        });
        add_provenance(&mut model, &self.provenance, self.column_names());
        model
    }
}
