//! A model's bytes: the payload in the common [`crate::envelope`].
//!
//! The payload is [postcard](https://postcard.jamesmunns.com)'s encoding of the `Payload` below;
//! parameters, the loss and the metric stand in it as text, so that their order in the source may
//! change.
//!
//! Versions: whatever a build writes that an older one can't read (a new parameter included, because
//! unknown ones are refused) raises [`FORMAT_VERSION`]; what older builds wrote is still read.
//!
//! | version | since | what it brought |
//! |---|---|---|
//! | 1 | 0.1 of November 2026 | numeric columns |
//! | 2 | categorical columns | categories, derived features, tables of statistics |
//! | 3 | computed columns | the parameter `positive`; behind the payload the [`crate::provenance`] |
//! | 4 | gains of any size | behind the payload, before the provenance, the units of gains and of weights |
//!
//! A model is written in the oldest version from 2 on that can hold it.

use super::{CtrTable, Derived, Feature, History, Labels, Model, Units};
use crate::boosting::params::{BoostingParams, LossKind};
use crate::column::FeatureType;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::params::has_later;
use crate::provenance::Provenance;
use crate::tree::Tree;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The newest format version that this build writes and reads.
pub const FORMAT_VERSION: u32 = 4;

const ENVELOPE: Envelope =
    Envelope { kind: b"GB", version: FORMAT_VERSION, provenance: 3, noun: "model", description: "a model of boosted trees" };

/// What the payload holds, in this order.
#[derive(Serialize, Deserialize)]
struct Payload<'a> {
    /// A JSON object with sorted names.
    params: Cow<'a, str>,
    loss: Cow<'a, str>,
    target: Cow<'a, str>,
    features: Cow<'a, [Feature]>,
    derived: Cow<'a, [Derived]>,
    tables: Cow<'a, [CtrTable]>,
    labels: Cow<'a, Option<Labels>>,
    start: Cow<'a, [f64]>,
    scale: f64,
    trees: Cow<'a, [Tree]>,
    rows: u64,
    history: Option<Curve<'a>>,
}

/// The payload of version 1.
#[derive(Deserialize)]
struct Payload1<'a> {
    params: Cow<'a, str>,
    loss: Cow<'a, str>,
    target: Cow<'a, str>,
    features: Vec<Feature1>,
    labels: Option<Labels>,
    start: Vec<f64>,
    scale: f64,
    trees: Vec<Tree>,
    rows: u64,
    history: Option<Curve<'a>>,
}

/// A feature of version 1.
#[derive(Deserialize)]
struct Feature1 {
    name: String,
    dtype: FeatureType,
    borders: Vec<f64>,
}

impl<'a> From<Payload1<'a>> for Payload<'a> {
    fn from(p: Payload1<'a>) -> Self {
        let feature = |f: Feature1| Feature { name: f.name, dtype: f.dtype, borders: f.borders, categories: None };
        Payload {
            params: p.params,
            loss: p.loss,
            target: p.target,
            features: p.features.into_iter().map(feature).collect(),
            derived: Cow::Borrowed(&[]),
            tables: Cow::Borrowed(&[]),
            labels: Cow::Owned(p.labels),
            start: p.start.into(),
            scale: p.scale,
            trees: p.trees.into(),
            rows: p.rows,
            history: p.history,
        }
    }
}

/// A [`History`] with the metric as text.
#[derive(Serialize, Deserialize)]
pub(crate) struct Curve<'a> {
    metric: Cow<'a, str>,
    values: Cow<'a, [f64]>,
    best: u32,
}

impl<'a> Curve<'a> {
    /// The curve of a history.
    pub(crate) fn of(history: &'a History) -> Self {
        Curve { metric: name_of(&history.metric).into(), values: history.values.as_slice().into(), best: history.best }
    }

    /// The history, if this build knows its metric.
    pub(crate) fn history(self) -> Result<History> {
        Ok(History { metric: named("metric", &self.metric)?, values: self.values.into_owned(), best: self.best })
    }
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::Model(message.into())
}

/// The name of a unit variant, as serde spells it.
pub(crate) fn name_of(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(s)) => s,
        _ => String::new(),
    }
}

/// The unit variant that serde spells so.
pub(crate) fn named<T: DeserializeOwned>(what: &str, name: &str) -> Result<T> {
    serde_json::from_value(serde_json::Value::from(name)).map_err(|_| invalid(format!("its {what} {name:?} is unknown to this build")))
}

/// Parameters as JSON text with sorted names (whether `serde_json`'s own maps keep the order of
/// insertion depends on the features that other crates turn on).
pub(crate) fn params_text(value: &serde_json::Value) -> String {
    let sorted: BTreeMap<&String, &serde_json::Value> = value.as_object().into_iter().flatten().collect();
    serde_json::to_string(&sorted).unwrap_or_default()
}

/// The most objects, one in another or side by side, that the text of parameters holds: a `class_weight` or a `monotone` is one.
const MAX_OBJECTS: usize = 16;

/// The most parameters that are named.
const MAX_PARAMETERS: usize = 256;

/// The parameters of such a text, by `parse`. Those that `local` names are about the call that fitted the model (its threads, its
/// device), which no model keeps: where a text names them, nothing follows from it.
pub(crate) fn params_of<T>(text: &str, local: &[&str], parse: impl FnOnce(&serde_json::Value) -> Result<T>) -> Result<T> {
    // An object takes half a kilobyte of memory for a few bytes of text.
    let objects = objects(text);
    if objects > MAX_OBJECTS {
        return Err(invalid(format!("its parameters hold {objects} objects, {MAX_OBJECTS} are the most")));
    }
    let mut value: serde_json::Value = serde_json::from_str(text).map_err(|e| invalid(format!("its parameters can't be read: {e}")))?;
    if let Some(object) = value.as_object_mut() {
        object.retain(|name, _| !local.contains(&name.as_str()));
        if object.len() > MAX_PARAMETERS {
            return Err(invalid(format!("it names {} parameters, {MAX_PARAMETERS} are the most", object.len())));
        }
        if object.keys().any(|name| name.len() > 64) {
            return Err(invalid("it has a parameter with an overlong name"));
        }
    }
    parse(&value).map_err(|e| invalid(e.to_string()))
}

/// The number of objects that begin in a JSON text.
fn objects(text: &str) -> usize {
    let (mut objects, mut in_string, mut escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => objects += 1,
            _ => {}
        }
    }
    objects
}

/// Whether labels or parameters are such as came with the [`crate::provenance`].
pub(crate) fn is_new(labels: Option<&Labels>, params: &serde_json::Value) -> bool {
    labels == Some(&Labels::TrueFirst) || has_later(params)
}

impl Model {
    /// The format version of the model's bytes.
    pub(super) fn version(&self) -> u32 {
        if self.units != Units::default() {
            return FORMAT_VERSION;
        }
        ENVELOPE.version_for(&self.provenance, is_new(self.labels.as_ref(), &self.params.to_json()))
    }

    /// The model's bytes; equal models have equal bytes.
    ///
    /// `params.n_threads`, `params.bundle` and `params.device` are not kept: they never change a model.
    pub fn to_bytes(&self) -> Vec<u8> {
        let payload = Payload {
            params: params_text(&self.params.to_json()).into(),
            loss: name_of(&self.loss).into(),
            target: self.target.as_str().into(),
            features: self.features.as_slice().into(),
            derived: self.derived.as_slice().into(),
            tables: self.tables.as_slice().into(),
            labels: Cow::Borrowed(&self.labels),
            start: self.start.as_slice().into(),
            scale: self.scale,
            trees: self.trees.as_slice().into(),
            rows: self.rows,
            history: self.history.as_ref().map(Curve::of),
        };
        let capacity = self.trees.iter().map(|t| 16 + 12 * t.leaves().len()).sum::<usize>();
        match self.version() {
            FORMAT_VERSION => ENVELOPE.seal_with(FORMAT_VERSION, &(payload, self.units), &self.provenance, capacity),
            version => ENVELOPE.seal_with(version, &payload, &self.provenance, capacity),
        }
    }

    /// The model of these bytes. Whatever they hold, the memory taken stays in proportion to their
    /// length, and the model returned is valid ([`Model::validate`]).
    ///
    /// # Errors
    /// For anything that is not the whole, undamaged model of a version this build can read; the
    /// text tells which: empty, cut, foreign, damaged, newer.
    ///
    /// ```
    /// use taiga_engine::model::Model;
    /// let error = Model::from_bytes(b"PAR1").unwrap_err();
    /// assert_eq!(error.to_string(), "model: these bytes are not a polars-taiga model");
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<Model> {
        let (version, payload) = ENVELOPE.open(bytes).map_err(invalid)?;
        let (p, units, provenance): (Payload<'_>, Units, Provenance) = match version {
            1 => ENVELOPE.read::<Payload1<'_>>(payload).map(|p| (p.into(), Units::default(), Provenance::default())),
            FORMAT_VERSION => {
                ENVELOPE.read_with::<(Payload<'_>, Units)>(version, payload).map(|((p, units), provenance)| (p, units, provenance))
            }
            _ => ENVELOPE.read_with::<Payload<'_>>(version, payload).map(|(p, provenance)| (p, Units::default(), provenance)),
        }
        .map_err(invalid)?;
        let model = Model {
            params: params_of(&p.params, &BoostingParams::LOCAL, BoostingParams::from_json)?,
            loss: named::<LossKind>("loss", &p.loss)?,
            target: p.target.into_owned(),
            features: p.features.into_owned(),
            derived: p.derived.into_owned(),
            tables: p.tables.into_owned(),
            labels: p.labels.into_owned(),
            start: p.start.into_owned(),
            scale: p.scale,
            units,
            trees: p.trees.into_owned(),
            rows: p.rows,
            history: p.history.map(Curve::history).transpose()?,
            provenance,
        };
        model.validate()?;
        Ok(model)
    }
}
