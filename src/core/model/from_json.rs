//! What all models read alike from JSON: the inverse of [`super::json`].
//!
//! What is read is taken apart into the fields of a model, in memory in proportion to the text, and then checked as bytes are
//! (`validate`): a text from anywhere makes a valid model or an error.

use crate::column::categories::{Categories, CategoryNames, HASHED};
use crate::column::{FeatureType, TimeUnit};
use crate::dataset::Labels;
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::metrics::MetricSpec;
use crate::model::payload::{invalid, params_of, params_text};
use crate::model::{Curve, Feature, History};
use crate::numerics::city::hash_of;
use crate::provenance::{LabelType, Provenance, StructColumn};
use crate::receipt::Receipt;
use crate::tree::model::Child;
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A number, or the text that stands for one that JSON does not have.
#[derive(Clone, Copy)]
pub struct NumberIn(pub f64);

impl<'de> Deserialize<'de> for NumberIn {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = NumberIn;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a number, \"inf\", \"-inf\" or \"nan\"")
            }
            fn visit_f64<E>(self, x: f64) -> std::result::Result<NumberIn, E> {
                Ok(NumberIn(x))
            }
            fn visit_i64<E>(self, x: i64) -> std::result::Result<NumberIn, E> {
                Ok(NumberIn(x as f64))
            }
            fn visit_u64<E>(self, x: u64) -> std::result::Result<NumberIn, E> {
                Ok(NumberIn(x as f64))
            }
            fn visit_str<E: serde::de::Error>(self, x: &str) -> std::result::Result<NumberIn, E> {
                match x {
                    "inf" => Ok(NumberIn(f64::INFINITY)),
                    "-inf" => Ok(NumberIn(f64::NEG_INFINITY)),
                    "nan" => Ok(NumberIn(f64::NAN)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(x), &self)),
                }
            }
        }
        d.deserialize_any(Number)
    }
}

/// Plain numbers of those read.
pub fn numbers(values: Vec<NumberIn>) -> Vec<f64> {
    values.into_iter().map(|x| x.0).collect()
}

/// A class label.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub enum LabelIn {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

/// Makes labels of those read, which are all of a kind.
///
/// # Errors
/// For labels of several kinds.
pub fn labels(read: Vec<LabelIn>) -> Result<Labels> {
    let all = |is: fn(&LabelIn) -> bool| !read.is_empty() && read.iter().all(is);
    if all(|l| matches!(l, LabelIn::Boolean(_))) {
        return match read.as_slice() {
            [LabelIn::Boolean(false), LabelIn::Boolean(true)] => Ok(Labels::Boolean),
            [LabelIn::Boolean(true), LabelIn::Boolean(false)] => Ok(Labels::TrueFirst),
            _ => Err(invalid("its Boolean labels are not false and true")),
        };
    }
    if all(|l| matches!(l, LabelIn::Integer(_))) {
        return Ok(Labels::Integer(read.iter().filter_map(|l| if let LabelIn::Integer(x) = l { Some(*x) } else { None }).collect()));
    }
    if all(|l| matches!(l, LabelIn::Float(_))) {
        return Ok(Labels::Float(read.iter().filter_map(|l| if let LabelIn::Float(x) = l { Some(*x) } else { None }).collect()));
    }
    if all(|l| matches!(l, LabelIn::Text(_))) {
        return Ok(Labels::Text(read.into_iter().filter_map(|l| if let LabelIn::Text(x) = l { Some(x) } else { None }).collect()));
    }
    Err(invalid("its labels are not all of one kind"))
}

/// Reads the name of a feature's type.
///
/// # Errors
/// For a name that there is not.
pub fn feature_type(name: &str) -> Result<FeatureType> {
    let units = [TimeUnit::Milliseconds, TimeUnit::Microseconds, TimeUnit::Nanoseconds];
    let plain = [FeatureType::Numeric, FeatureType::Date, FeatureType::Time, FeatureType::Categorical];
    let temporal = units.into_iter().flat_map(|unit| [FeatureType::Datetime(unit), FeatureType::Duration(unit)]);
    plain.into_iter().chain(temporal).find(|t| t.to_string() == name).ok_or_else(|| invalid(format!("{name:?} is no type of a feature")))
}

/// A feature with its borders and categories.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureIn {
    name: String,
    r#type: String,
    borders: Vec<NumberIn>,
    categories: Option<Vec<Option<String>>>,
    categories_are: Option<String>,
    null: Option<u32>,
}

impl FeatureIn {
    /// Makes the feature.
    ///
    /// # Errors
    /// For types and categories that there are not.
    pub fn feature(self) -> Result<Feature> {
        let dtype = feature_type(&self.r#type)?;
        let kind = self.categories_are;
        if self.null.is_some() && kind.as_deref() != Some(HASHED) {
            return Err(invalid(format!("the categories of `{}` give null a hash, and have none", self.name)));
        }
        let categories = match kind.as_deref() {
            Some(HASHED) => self.categories.map(|names| hashed(&self.name, names, self.null)).transpose()?,
            kind => self.categories.map(|names| categories(&self.name, names, kind)).transpose()?,
        };
        Ok(Feature { name: self.name, dtype, borders: numbers(self.borders), categories })
    }
}

/// Makes the categories of a column that are known by hashes, of which these texts are known.
fn hashed(column: &str, names: Vec<Option<String>>, null: Option<u32>) -> Result<Categories> {
    let known = names.into_iter().map(|name| name.map(|text| (hash_of(&text), text))).collect::<Option<_>>();
    let known = known.ok_or_else(|| invalid(format!("null is among the categories of `{column}`, which are known by hashes")))?;
    Ok(Categories { labels: CategoryNames::Hashed(known), null })
}

/// Makes the categories of a column of their names, none for null.
fn categories(column: &str, names: Vec<Option<String>>, kind: Option<&str>) -> Result<Categories> {
    let mut nulls = (0..).zip(&names).filter(|(_, name)| name.is_none()).map(|(code, _)| code);
    let null: Option<u32> = nulls.next();
    if nulls.next().is_some() {
        return Err(invalid(format!("null is twice among the categories of `{column}`")));
    }
    let wrong = |name: &str| invalid(format!("{name:?} is no category of `{column}`"));
    let integer = |name: &Option<String>| match name {
        None => Ok(0),
        Some(name) => name.parse().map_err(|_| wrong(name)),
    };
    let flag = |name: &Option<String>| match name.as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(name) => Err(wrong(name)),
    };
    let labels = match kind {
        None => CategoryNames::Text(names.into_iter().map(Option::unwrap_or_default).collect()),
        Some("integers") => CategoryNames::Integer(names.iter().map(integer).collect::<Result<_>>()?),
        Some("Booleans") => CategoryNames::Boolean(names.iter().map(flag).collect::<Result<_>>()?),
        Some(other) => return Err(invalid(format!("the categories of `{column}` are {other:?}"))),
    };
    Ok(Categories { labels, null })
}

/// The curve of a metric.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryIn {
    metric: Value,
    set: Option<String>,
    values: Vec<NumberIn>,
    best: u32,
    #[serde(default)]
    others: Vec<CurveIn>,
}

/// A curve beside the one that decides.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CurveIn {
    metric: Value,
    set: Option<String>,
    values: Vec<NumberIn>,
}

impl HistoryIn {
    /// Makes the history.
    ///
    /// # Errors
    /// For a metric that there is not.
    pub fn history(self) -> Result<History> {
        let metric = |told: Value| match serde_json::from_value::<MetricSpec>(told.clone()) {
            Ok(metric) => Ok(metric),
            Err(_) => Err(invalid(format!("its metric {told} is unknown to this build"))),
        };
        let curve = |c: CurveIn| Ok(Curve { metric: metric(c.metric)?, set: c.set, values: numbers(c.values) });
        let others = self.others.into_iter().map(curve).collect::<Result<_>>()?;
        Ok(History { set: self.set, values: numbers(self.values), best: self.best, others, ..History::new(metric(self.metric)?) })
    }
}

/// Where missing values, or categories that are not listed, go.
#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Left,
    Right,
}

/// Finds the place of a border that a split names among those of its feature, or behind all of them for +∞.
///
/// # Errors
/// For a border that is none of the feature's.
pub fn border_place(feature: u32, borders: &[f64], wanted: f64) -> std::result::Result<u32, String> {
    // Borders ascend, or the model is not valid.
    let place = borders.partition_point(|b| *b < wanted);
    let behind = wanted == f64::INFINITY && place == borders.len();
    if !behind && borders.get(place) != Some(&wanted) {
        return Err(format!("feature {feature} has no border {wanted:?}"));
    }
    Ok(place as u32)
}

/// Where a branch leads.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChildIn {
    Node(u32),
    Leaf(u32),
}

impl From<ChildIn> for Child {
    fn from(child: ChildIn) -> Child {
        match child {
            ChildIn::Node(i) => Child::Node(i),
            ChildIn::Leaf(i) => Child::Leaf(i),
        }
    }
}

/// Makes a provenance of what a text tells; `columns`: the names of those that the model reads.
///
/// # Errors
/// For a column that is none of these, and metadata and a receipt that are none.
pub fn provenance<'a>(
    label_type: Option<LabelType>,
    computed: &[String],
    structs: Vec<StructColumn>,
    metadata: Option<&Value>,
    receipt: Option<&str>,
    columns: impl Iterator<Item = &'a str>,
) -> Result<Provenance> {
    let mut wanted = computed.iter().peekable();
    let marks: Vec<bool> = columns.map(|name| wanted.next_if(|c| *c == name).is_some()).collect();
    if let Some(name) = wanted.next() {
        return Err(invalid(format!("its computed column `{name}` is none of its columns, or stands in another order")));
    }
    let metadata = metadata.map(Metadata::of_value).transpose()?;
    let receipt = receipt.map(str::parse::<Receipt>).transpose().map_err(invalid)?;
    Ok(Provenance { metadata, structs, receipt, ..Provenance::new(label_type, marks) })
}

/// Makes parameters of a JSON object, as [`params_of`] does of their text.
///
/// # Errors
/// As there.
pub fn params<T>(value: &Value, local: &[&str], parse: impl FnOnce(&Value) -> Result<T>) -> Result<T> {
    if !value.is_object() {
        return Err(invalid("its parameters are no object"));
    }
    params_of(&params_text(value), local, parse)
}

/// What every model's text says of itself, whatever else it holds.
#[derive(Deserialize)]
struct Heading {
    format: String,
    version: u32,
}

/// Returns the format that a text says it is of, `polars-taiga gbdt`.
///
/// # Errors
/// For what is no JSON object with a format.
pub fn format_of(text: &str) -> Result<String> {
    parsed::<Heading>(text).map(|h| h.format)
}

/// Reads a text of a format, in a version that this build knows.
///
/// # Errors
/// For another format, a newer version, and for fields that are missing, unknown or of another type.
pub fn read<T: DeserializeOwned>(text: &str, format: &str, newest: u32) -> Result<T> {
    let heading: Heading = parsed(text)?;
    if heading.format != format {
        return Err(invalid(format!("the text is of the format {:?}, not {format:?}", heading.format)));
    }
    if !(1..=newest).contains(&heading.version) {
        return Err(invalid(format!("the text is of format version {}, this build reads up to {newest}", heading.version)));
    }
    parsed(text)
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| Error::Model(format!("the text is no model's JSON: {e}")))
}
