//! Metrics as users write them: a name, and behind an `@` the parameter of those that have one; or formulas of their own.

use super::MetricKind;
use super::kind::Metric;
use crate::error::Error;
use crate::objective::{Alpha, Link, LossParams};
use crate::symbolic::{CustomMetric, MetricFormulas};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// How the values of several classes become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Average {
    /// Their mean.
    Macro,
    /// Their mean, each weighed by the weight of the class's rows.
    Weighted,
    /// That of all classes' counts added.
    Micro,
}

impl Average {
    const NAMES: [(&str, Average); 3] = [("macro", Average::Macro), ("weighted", Average::Weighted), ("micro", Average::Micro)];
}

/// What stands behind the `@`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum At {
    Number(f64),
    Average(Average),
}

/// What a metric takes behind an `@`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Takes {
    Nothing,
    /// How many of a group's first places count.
    Places,
    /// How many bins probabilities are put into.
    Bins,
    /// The level of a quantile or an expectile.
    Level,
    /// Where a loss turns from squared to absolute.
    Delta,
    /// The power of the variance.
    Power,
    /// The smallest size that a target counts as where it divides.
    Floor,
    /// How the values of several classes become one, where that may be by their counts too.
    Average,
    /// The same, where counts can't be added.
    AverageOfClasses,
}

impl Takes {
    /// What may stand there, in words, and an example of it.
    fn text(self) -> (&'static str, &'static str) {
        match self {
            Takes::Nothing => ("nothing", ""),
            Takes::Places => ("a number of places from 1 on", "5"),
            Takes::Bins => ("a number of bins from 1 to 10000", "20"),
            Takes::Level => ("a level inside (0, 1)", "0.9"),
            Takes::Delta => ("a positive number", "1.5"),
            Takes::Power => ("a power inside (1, 2)", "1.5"),
            Takes::Floor => ("a positive number", "0.001"),
            Takes::Average => ("macro, weighted or micro", "weighted"),
            Takes::AverageOfClasses => ("macro or weighted", "weighted"),
        }
    }

    /// Reads what stands behind the `@`; none for what may not.
    fn read(self, text: &str) -> Option<At> {
        let average = || Average::NAMES.iter().find(|(name, _)| *name == text).map(|(_, average)| *average);
        let fits = |x: f64| match self {
            Takes::Places => x >= 1.0 && x <= u32::MAX.into() && x.fract() == 0.0,
            Takes::Bins => (1.0..=10_000.0).contains(&x) && x.fract() == 0.0,
            Takes::Level => x > 0.0 && x < 1.0,
            Takes::Delta | Takes::Floor => x > 0.0 && x.is_finite(),
            Takes::Power => x > 1.0 && x < 2.0,
            Takes::Nothing | Takes::Average | Takes::AverageOfClasses => false,
        };
        match self {
            Takes::Average => average().map(At::Average),
            Takes::AverageOfClasses => average().filter(|average| *average != Average::Micro).map(At::Average),
            _ => text.parse().ok().filter(|x| fits(*x)).map(At::Number),
        }
    }
}

/// A metric with its parameter, where one is told: `auc`, `ndcg@5`, `quantile@0.9`, `f1@weighted`.
///
/// ```
/// use taiga_core::metrics::{MetricKind, MetricSpec};
/// let spec: MetricSpec = "ndcg@5".parse().unwrap();
/// assert_eq!((spec.kind(), spec.to_string().as_str()), (MetricKind::Ndcg, "ndcg@5"));
/// let fault = "ndcg@0".parse::<MetricSpec>().unwrap_err();
/// assert_eq!(fault.to_string(), "\"ndcg\" with a number of places from 1 on, as \"ndcg@5\"");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSpec {
    kind: MetricKind,
    at: Option<At>,
    /// The formulas of one of the user's own, whose kind says nothing.
    own: Option<Arc<MetricFormulas>>,
}

/// Why a text is no metric: what would be one, in words that follow "is not".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoMetric(String);

impl fmt::Display for NoMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<MetricKind> for MetricSpec {
    fn from(kind: MetricKind) -> MetricSpec {
        MetricSpec { kind, at: None, own: None }
    }
}

impl MetricSpec {
    /// Makes a metric with a parameter; none where it takes no such one.
    pub fn with(kind: MetricKind, at: Option<At>) -> Option<MetricSpec> {
        let text = at.map(|at| shown(&at));
        let read = text.as_ref().map(|text| kind.entry().takes.read(text));
        match (at, read) {
            (Some(_), Some(None)) => None,
            _ => Some(MetricSpec { kind, at, own: None }),
        }
    }

    /// Returns which of the list it is.
    pub fn kind(&self) -> MetricKind {
        self.kind
    }

    /// Returns what stands behind its `@`.
    pub fn at(&self) -> Option<At> {
        self.at
    }

    /// Makes a metric of the user's own.
    ///
    /// # Errors
    /// For one that can't be measured, or that is called as one of the list is.
    pub fn own(metric: &CustomMetric) -> crate::error::Result<MetricSpec> {
        if MetricKind::NAMES.contains(&metric.name.as_str()) {
            let text = format!("of the metric of your own: \"{0}\" is another metric's name; give it one of its own", metric.name);
            return Err(Error::parameter("metric", text));
        }
        Ok(MetricSpec { kind: MetricKind::Custom, at: None, own: Some(Arc::new(metric.compile()?)) })
    }

    /// Returns the formulas of a metric of the user's own.
    pub fn formulas(&self) -> Option<&MetricFormulas> {
        self.own.as_deref()
    }

    /// Returns the names of the columns that it reads beside target and prediction.
    pub fn columns(&self) -> &[String] {
        self.formulas().map_or(&[], MetricFormulas::columns)
    }

    /// Whether it is the mean of a loss of the user's own.
    pub fn is_mean_loss(&self) -> bool {
        self.is_plain(MetricKind::Custom)
    }

    pub(super) fn entry(&self) -> Metric {
        if self.own.is_some() { super::own::METRIC } else { self.kind.entry() }
    }

    /// Whether a larger value is a better one.
    pub fn larger_is_better(&self) -> bool {
        self.formulas().map_or(self.entry().larger_is_better, |own| own.source().larger_is_better)
    }

    /// Whether `a` is a better value than `b`.
    pub fn better(&self, a: f64, b: f64) -> bool {
        b.is_nan() && !a.is_nan() || if self.larger_is_better() { a > b } else { a < b }
    }

    /// Whether it can be measured on predictions of this link ([`MetricKind::fits`]) of a model with these parameters: of several
    /// quantiles one of theirs.
    pub fn fits(&self, link: Link, params: &LossParams) -> bool {
        if self.own.is_some() {
            return link.is_of_one_number();
        }
        let is_level = |alpha: &f64| self.at == Some(At::Number(*alpha));
        match (link, self.at, &params.alpha) {
            (Link::Ascending, Some(_), Alpha::Several(levels)) => self.kind.fits(link) && levels.iter().any(is_level),
            _ => self.kind.fits(link),
        }
    }

    /// Whether it reads when rows' events happened.
    pub fn reads_times(&self) -> bool {
        self.entry().times
    }

    /// Whether it reads groups of rows.
    pub fn reads_groups(&self) -> bool {
        self.entry().groups
    }

    /// Whether it is the loss's own of this kind, which reads the parameters of the loss.
    pub fn is_plain(&self, kind: MetricKind) -> bool {
        self.kind == kind && self.at.is_none() && self.own.is_none()
    }
}

/// What stands behind the `@`, as text.
fn shown(at: &At) -> String {
    match at {
        At::Number(x) => x.to_string(),
        At::Average(average) => Average::NAMES.iter().find(|(_, of)| of == average).map_or("", |(name, _)| name).into(),
    }
}

impl fmt::Display for MetricSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            None => f.write_str(self.formulas().map_or(self.kind.name(), |own| &own.source().name)),
            Some(at) => write!(f, "{}@{}", self.kind.name(), shown(at)),
        }
    }
}

impl FromStr for MetricSpec {
    type Err = NoMetric;

    fn from_str(text: &str) -> Result<MetricSpec, NoMetric> {
        let (name, at) = text.split_once('@').map_or((text, None), |(name, at)| (name, Some(at)));
        let kind = MetricKind::ALL.iter().copied().find(|kind| kind.name() == name);
        let Some(kind) = kind else { return Err(NoMetric(super::listed(MetricKind::ALL.iter().copied(), "or"))) };
        let takes = kind.entry().takes;
        match at {
            None => Ok(kind.into()),
            Some(at) => match takes.read(at) {
                Some(at) => Ok(MetricSpec { kind, at: Some(at), own: None }),
                None if takes == Takes::Nothing => Err(NoMetric(format!("\"{name}\", which takes nothing behind an @"))),
                None => {
                    let (what, example) = takes.text();
                    Err(NoMetric(format!("\"{name}\" with {what}, as \"{name}@{example}\"")))
                }
            },
        }
    }
}

impl Serialize for MetricSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.formulas() {
            Some(own) => own.source().serialize(serializer),
            None => serializer.collect_str(self),
        }
    }
}

/// As `serde` tells of an enum's variants what names there are.
const NAMES: &[&str] = MetricKind::NAMES;

impl<'de> Deserialize<'de> for MetricSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MetricSpec, D::Error> {
        let text = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text,
            own @ serde_json::Value::Object(_) => {
                let own: CustomMetric = serde_json::from_value(own).map_err(D::Error::custom)?;
                return MetricSpec::own(&own).map_err(|fault| D::Error::custom(own_fault(&fault)));
            }
            // As `serde` says it of what is no text.
            other => return serde_json::from_value::<String>(other).map_err(D::Error::custom).map(|_| MetricKind::Rmse.into()),
        };
        let is_known = NAMES.contains(&text.split('@').next().unwrap_or_default());
        text.parse().map_err(|fault: NoMetric| if is_known { D::Error::custom(fault) } else { D::Error::unknown_variant(&text, NAMES) })
    }
}

/// What is wrong with a metric of the user's own, in words that follow "is not".
fn own_fault(fault: &Error) -> String {
    let text = fault.to_string();
    format!("a metric: {}", text.strip_prefix("parameter `metric`: ").unwrap_or(&text))
}

/// The metrics of a fit: one, or several of which the first decides.
#[derive(Clone, Debug, PartialEq)]
pub enum Metrics {
    One(MetricSpec),
    Several(Vec<MetricSpec>),
}

impl Metrics {
    /// The most of them.
    pub const MOST: usize = 100;

    /// The most of one's own.
    pub const MOST_OWN: usize = 8;

    /// Returns all of them.
    pub fn all(&self) -> &[MetricSpec] {
        match self {
            Metrics::One(one) => std::slice::from_ref(one),
            Metrics::Several(several) => several,
        }
    }
}

impl From<MetricKind> for Metrics {
    fn from(kind: MetricKind) -> Metrics {
        Metrics::One(kind.into())
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Metrics::One(one) => one.serialize(serializer),
            Metrics::Several(several) => several.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metrics, D::Error> {
        // By hand, so that an error says what is wrong with which.
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::Array(items) => {
                let several: Result<Vec<MetricSpec>, _> = items.into_iter().map(serde_json::from_value).collect();
                several.map(Metrics::Several).map_err(D::Error::custom)
            }
            one => serde_json::from_value(one).map(Metrics::One).map_err(D::Error::custom),
        }
    }
}
