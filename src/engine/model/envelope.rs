//! A model's bytes: magic, kind, format version, payload, checksum.
//!
//! ```text
//! byte  0        6      8          12           20           20 + n       28 + n
//!       ├────────┼──────┼──────────┼────────────┼────────────┼────────────┤
//!       │ TAIGA\0│ kind │ version  │ n: payload │ payload    │ checksum   │
//!       │        │ "GB" │ u32      │ bytes, u64 │ n bytes    │ u64        │
//!       └────────┴──────┴──────────┴────────────┴────────────┴────────────┘
//! ```
//!
//! Numbers are little-endian. The checksum is XXH3-64 of everything before it. The payload is
//! [postcard](https://postcard.jamesmunns.com)'s encoding of the `Payload` below; parameters, the loss and
//! the metric stand in it as text, so that their order in the source may change.
//!
//! Versions: whatever a build writes that an older one can't read (a new parameter included, because
//! unknown ones are refused) raises [`FORMAT_VERSION`]; what older builds wrote is still read.
//! Magic, version, length and checksum keep their places in every version, so that an old build
//! can name a newer one.
//!
//! | version | since | what it brought |
//! |---|---|---|
//! | 1 | 0.1 of November 2026 | numeric columns |
//! | 2 | categorical columns | categories, derived features, tables of statistics |

use super::{CtrTable, Derived, Feature, History, Labels, Model};
use crate::boosting::params::{BoostingParams, LossKind};
use crate::column::FeatureType;
use crate::error::{Error, Result};
use crate::tree::Tree;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// The format version that this build writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 2;

const MAGIC: &[u8; 6] = b"TAIGA\0";
const KIND: &[u8; 2] = b"GB";
const HEADER: usize = 20;
const CHECKSUM: usize = 8;

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
struct Curve<'a> {
    metric: Cow<'a, str>,
    values: Cow<'a, [f64]>,
    best: u32,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::Model(message.into())
}

/// The name of a unit variant, as serde spells it.
pub(super) fn name_of(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(s)) => s,
        _ => String::new(),
    }
}

fn named<T: DeserializeOwned>(what: &str, name: &str) -> Result<T> {
    serde_json::from_value(serde_json::Value::from(name)).map_err(|_| invalid(format!("its {what} {name:?} is unknown to this build")))
}

/// Parameters as JSON text with sorted names (whether `serde_json`'s own maps keep the order of
/// insertion depends on the features that other crates turn on).
fn params_text(params: &BoostingParams) -> String {
    let value = params.to_json();
    let sorted: BTreeMap<&String, &serde_json::Value> = value.as_object().into_iter().flatten().collect();
    serde_json::to_string(&sorted).unwrap_or_default()
}

fn params_of(text: &str) -> Result<BoostingParams> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|e| invalid(format!("its parameters can't be read: {e}")))?;
    // The search for a similar name takes memory by the name's length.
    if value.as_object().into_iter().flatten().any(|(name, _)| name.len() > 64) {
        return Err(invalid("it has a parameter with an overlong name"));
    }
    BoostingParams::from_json(&value).map_err(|e| invalid(e.to_string()))
}

/// The version of an intact envelope that this build can read, and the payload inside.
fn open(bytes: &[u8]) -> Result<(u32, &[u8])> {
    if bytes.is_empty() {
        return Err(invalid("the value is empty (0 bytes)"));
    }
    let seen = bytes.len().min(MAGIC.len());
    if bytes[..seen] != MAGIC[..seen] {
        return Err(invalid("these bytes are not a polars-taiga model"));
    }
    if let Some(kind) = bytes.get(MAGIC.len()..MAGIC.len() + KIND.len())
        && kind != KIND
    {
        return Err(invalid("these bytes come from polars-taiga but are not a model of boosted trees, or they are damaged"));
    }
    let cut = |expected: Option<u64>| match expected {
        Some(n) => invalid(format!("the value is cut: {} of {n} bytes are there", bytes.len())),
        None => invalid(format!("the value is cut: only {} bytes are there", bytes.len())),
    };
    let field = |at: usize, len: usize| bytes.get(at..at + len).ok_or_else(|| cut(None));
    let version = field(8, 4)?.iter().rev().fold(0u32, |v, b| v << 8 | *b as u32);
    let payload = field(12, 8)?.iter().rev().fold(0u64, |v, b| v << 8 | *b as u64);
    let expected = payload.saturating_add((HEADER + CHECKSUM) as u64);
    let len = bytes.len() as u64;
    if len < expected {
        return Err(cut(Some(expected)));
    }
    if len > expected {
        return Err(invalid(format!("the value is damaged: it has {len} bytes where {expected} were written")));
    }
    let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
    if xxh3_64(body).to_le_bytes() != checksum {
        return Err(invalid("the value is damaged: its checksum does not fit"));
    }
    if !(1..=FORMAT_VERSION).contains(&version) {
        let advice = if version > FORMAT_VERSION { ": upgrade polars-taiga" } else { "" };
        return Err(invalid(format!("this model is of format version {version}, this build reads up to {FORMAT_VERSION}{advice}")));
    }
    Ok((version, &body[HEADER..]))
}

impl Model {
    /// The model's bytes; equal models have equal bytes.
    ///
    /// `params.n_threads`, `params.bundle` and `params.device` are not kept: they never change a model.
    pub fn to_bytes(&self) -> Vec<u8> {
        let payload = Payload {
            params: params_text(&self.params).into(),
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
            history: self.history.as_ref().map(|h| Curve {
                metric: name_of(&h.metric).into(),
                values: h.values.as_slice().into(),
                best: h.best,
            }),
        };
        let mut bytes = Vec::with_capacity(HEADER + CHECKSUM + self.trees.iter().map(|t| 16 + 12 * t.leaves().len()).sum::<usize>());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(KIND);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        // Postcard fails only where a sequence does not know its length; these all do.
        let mut bytes = postcard::to_extend(&payload, bytes).unwrap_or_default();
        let n = (bytes.len() - HEADER) as u64;
        bytes[12..HEADER].copy_from_slice(&n.to_le_bytes());
        let checksum = xxh3_64(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
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
        let unreadable = |_| invalid("the value is damaged: its payload can't be read");
        let (version, payload) = open(bytes)?;
        let (p, rest) = match version {
            1 => postcard::take_from_bytes::<Payload1<'_>>(payload).map(|(p, rest)| (p.into(), rest)),
            _ => postcard::take_from_bytes::<Payload<'_>>(payload),
        }
        .map_err(unreadable)?;
        if !rest.is_empty() {
            return Err(invalid(format!("the value is damaged: {} bytes follow its payload", rest.len())));
        }
        let history = match p.history {
            Some(h) => Some(History { metric: named("metric", &h.metric)?, values: h.values.into_owned(), best: h.best }),
            None => None,
        };
        let model = Model {
            params: params_of(&p.params)?,
            loss: named::<LossKind>("loss", &p.loss)?,
            target: p.target.into_owned(),
            features: p.features.into_owned(),
            derived: p.derived.into_owned(),
            tables: p.tables.into_owned(),
            labels: p.labels.into_owned(),
            start: p.start.into_owned(),
            scale: p.scale,
            trees: p.trees.into_owned(),
            rows: p.rows,
            history,
        };
        model.validate()?;
        Ok(model)
    }
}
