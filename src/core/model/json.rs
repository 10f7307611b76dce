//! What all models write alike as JSON.

use crate::column::categories::{Categories, CategoryNames};
use crate::dataset::Labels;
use crate::error::Result;
use crate::model::{Curve, Feature, History};
use crate::provenance::Provenance;
use crate::tree::model::Child;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// A number, or the text that stands for what JSON has no number for.
pub struct Number(pub f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0 {
            x if x.is_finite() => s.serialize_f64(x),
            x if x.is_nan() => s.serialize_str("nan"),
            x => s.serialize_str(if x > 0.0 { "inf" } else { "-inf" }),
        }
    }
}

/// A list of what a call gives, item by item: none of them waits in memory for the others.
pub struct List<F>(pub F);

impl<I: IntoIterator<Item: Serialize>, F: Fn() -> I> Serialize for List<F> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_seq((self.0)())
    }
}

/// Numbers as [`Number`]s.
pub struct Numbers<'a>(pub &'a [f64]);

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_seq(self.0.iter().map(|x| Number(*x)))
    }
}

/// Class labels, in their own type.
pub struct LabelsJson<'a>(pub &'a Labels);

impl Serialize for LabelsJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0 {
            Labels::Boolean => [false, true].serialize(s),
            Labels::TrueFirst => [true, false].serialize(s),
            Labels::Integer(v) => v.serialize(s),
            Labels::Float(v) => Numbers(v).serialize(s),
            Labels::Text(v) => v.serialize(s),
        }
    }
}

/// Writes what there is to tell of where classes and columns come from; `columns`: the names of those that the model reads.
pub fn write_provenance<'a, M: SerializeMap>(
    map: &mut M,
    provenance: &Provenance,
    columns: impl IntoIterator<Item = &'a str>,
) -> std::result::Result<(), M::Error> {
    if let Some(dtype) = &provenance.label_type {
        map.serialize_entry("label_type", dtype)?;
    }
    if !provenance.computed.is_empty() {
        map.serialize_entry("computed", &provenance.computed_names(columns))?;
    }
    if !provenance.structs.is_empty() {
        map.serialize_entry("structs", &provenance.structs)?;
    }
    if let Some(metadata) = &provenance.metadata {
        map.serialize_entry("metadata", &metadata.value())?;
    }
    if let Some(receipt) = &provenance.receipt {
        map.serialize_entry("receipt", &receipt.to_string())?;
    }
    Ok(())
}

/// A feature with its borders and categories.
pub struct FeatureJson<'a>(pub &'a Feature);

impl Serialize for FeatureJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let f = self.0;
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("name", &f.name)?;
        map.serialize_entry("type", &f.dtype.to_string())?;
        map.serialize_entry("borders", &Numbers(&f.borders))?;
        if let Some(categories) = &f.categories {
            map.serialize_entry("categories", &List(|| category_names(categories)))?;
            if categories.kind() != "text" {
                map.serialize_entry("categories_are", categories.kind())?;
            }
            if let Some(null) = categories.null.filter(|_| categories.are_hashed()) {
                map.serialize_entry("null", &null)?;
            }
        }
        map.end()
    }
}

/// The name of each category, none for null; where they are known by hashes, of those whose text is known.
fn category_names(categories: &Categories) -> impl Iterator<Item = Option<Cow<'_, str>>> {
    let (codes, known) = match &categories.labels {
        CategoryNames::Hashed(known) => (0, known.as_slice()),
        _ => (categories.len() as u32, &[][..]),
    };
    let named = (0..codes).map(|code| (categories.null != Some(code)).then(|| categories.name(code).into()));
    named.chain(known.iter().map(|(_, text)| Some(text.into())))
}

/// The curve of a metric.
pub struct HistoryJson<'a>(pub &'a History);

impl Serialize for HistoryJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("metric", &self.0.metric)?;
        if let Some(set) = &self.0.set {
            map.serialize_entry("set", set)?;
        }
        map.serialize_entry("values", &Numbers(&self.0.values))?;
        map.serialize_entry("best", &self.0.best)?;
        if !self.0.others.is_empty() {
            map.serialize_entry("others", &List(|| self.0.others.iter().map(CurveJson)))?;
        }
        map.end()
    }
}

/// A curve beside the one that decides.
struct CurveJson<'a>(&'a Curve);

impl Serialize for CurveJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("metric", &self.0.metric)?;
        if let Some(set) = &self.0.set {
            map.serialize_entry("set", set)?;
        }
        map.serialize_entry("values", &Numbers(&self.0.values))?;
        map.end()
    }
}

/// Where a branch leads.
#[derive(serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChildJson {
    Node(u32),
    Leaf(u32),
}

impl From<Child> for ChildJson {
    fn from(child: Child) -> Self {
        match child {
            Child::Node(i) => ChildJson::Node(i),
            Child::Leaf(i) => ChildJson::Leaf(i),
        }
    }
}

/// What is written, as text: no more of it is in memory at a time.
pub fn text_of(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| super::payload::invalid(format!("it can't be written as JSON: {e}")))
}
