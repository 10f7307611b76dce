//! A linear model from JSON: the inverse of [`super::json`].

use super::envelope::ENVELOPE;
use super::{DenseFeature, LinearModel, Numbering, SparseFeatures, outputs};
use crate::error::Result;
use crate::learners::linear::LinearParams;
use crate::model::from_json::{HistoryIn, LabelIn, NumberIn, feature_type, labels, numbers, params, provenance, read};
use crate::model::payload::invalid;
use crate::provenance::{LabelType, StructColumn};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelIn {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u32,
    target: String,
    rows: u64,
    labels: Vec<LabelIn>,
    sparse: Option<SparseIn>,
    dense: Vec<DenseIn>,
    intercepts: Vec<NumberIn>,
    means: Option<Vec<NumberIn>>,
    coefficients: Vec<CoefficientIn>,
    passes: u32,
    converged: bool,
    objective: NumberIn,
    history: Option<HistoryIn>,
    params: Value,
    label_type: Option<LabelType>,
    #[serde(default)]
    computed: Vec<String>,
    #[serde(default)]
    structs: Vec<StructColumn>,
    metadata: Option<Value>,
    receipt: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SparseIn {
    features: String,
    values: Option<String>,
    count: Option<u64>,
    hash_bits: Option<u32>,
}

impl SparseIn {
    fn features(self) -> Result<SparseFeatures> {
        let numbering = match (self.count, self.hash_bits) {
            (Some(features), None) => Numbering::Numbers { features },
            (None, Some(bits)) => Numbering::Hashed { bits },
            _ => return Err(invalid("its sparse features have a `count` or `hash_bits`, one of the two")),
        };
        Ok(SparseFeatures { column: self.features, values: self.values, numbering })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DenseIn {
    name: String,
    r#type: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NameIn {
    Number(u64),
    Column(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoefficientIn {
    feature: NameIn,
    class: usize,
    value: f64,
}

impl LinearModel {
    /// The model of a text that [`LinearModel::json_text`] wrote: an equal one, with the same bytes. Whatever the text, the memory
    /// taken stays in proportion to its length times the number of classes at most, and the model is valid
    /// ([`LinearModel::validate`]).
    ///
    /// # Errors
    /// [`Error::Model`](crate::Error::Model) saying what is wrong.
    pub fn from_json(text: &str) -> Result<LinearModel> {
        let m: ModelIn = read(text, super::json::FORMAT, ENVELOPE.version)?;
        let labels = labels(m.labels)?;
        let outputs = outputs(labels.len());
        let dense = m.dense.into_iter().map(|d| Ok(DenseFeature { dtype: feature_type(&d.r#type)?, name: d.name }));
        let dense = dense.collect::<Result<Vec<DenseFeature>>>()?;
        let mut model = LinearModel {
            params: params(&m.params, LinearParams::LOCAL, LinearParams::from_stored)?,
            target: m.target,
            labels,
            sparse: m.sparse.map(SparseIn::features).transpose()?,
            dense,
            numbers: vec![],
            weights: vec![],
            dense_weights: vec![],
            intercepts: numbers(m.intercepts),
            means: m.means.map(numbers),
            rows: m.rows,
            passes: m.passes,
            converged: m.converged,
            objective: m.objective.0,
            history: m.history.map(HistoryIn::history).transpose()?,
            provenance: Default::default(),
        };
        let receipt = m.receipt.as_deref();
        model.provenance = provenance(m.label_type, &m.computed, m.structs, m.metadata.as_ref(), receipt, model.column_names())?;
        model.set_coefficients(m.coefficients, outputs)?;
        model.validate()?;
        Ok(model)
    }

    /// Puts coefficients in their places; those that are not told are 0.
    fn set_coefficients(&mut self, coefficients: Vec<CoefficientIn>, outputs: usize) -> Result<()> {
        let places: HashMap<&str, usize> = self.dense.iter().enumerate().map(|(i, d)| (d.name.as_str(), i)).collect();
        let numbers: BTreeMap<u64, usize> = {
            let known = coefficients.iter().filter_map(|c| if let NameIn::Number(n) = c.feature { Some((n, 0)) } else { None });
            let distinct: BTreeMap<u64, usize> = known.collect();
            distinct.into_keys().zip(0..).collect()
        };
        let mut weights = crate::pages::try_filled("the coefficients", None::<f32>, numbers.len() * outputs)?;
        let mut dense_weights = crate::pages::try_filled("the coefficients", None::<f64>, self.dense.len() * outputs)?;
        for c in coefficients {
            // Of two classes a coefficient is the second's.
            let output = if outputs == 1 { c.class.checked_sub(1) } else { Some(c.class) };
            let Some(output) = output.filter(|o| *o < outputs) else {
                return Err(invalid(format!("a coefficient is of class {}", c.class)));
            };
            let known = match &c.feature {
                NameIn::Number(n) => weights[numbers[n] * outputs + output].replace(c.value as f32).is_some(),
                NameIn::Column(name) => {
                    let Some(place) = places.get(name.as_str()) else { return Err(invalid(format!("it has no column `{name}`"))) };
                    dense_weights[place * outputs + output].replace(c.value).is_some()
                }
            };
            if known {
                return Err(invalid("a coefficient stands twice"));
            }
        }
        self.numbers = numbers.into_keys().collect();
        self.weights = weights.into_iter().map(Option::unwrap_or_default).collect();
        self.dense_weights = dense_weights.into_iter().map(Option::unwrap_or_default).collect();
        Ok(())
    }
}
