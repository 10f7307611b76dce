//! A model's bytes: the payload in the common [`crate::envelope`].
//!
//! The payload is [postcard](https://postcard.jamesmunns.com)'s encoding of the `Payload` below;
//! parameters, the loss and the metric stand in it as text, so that their order in the source may
//! change.
//!
//! Versions: whatever a build writes that an older one can't read (a new parameter included, because
//! unknown ones are refused) raises the version; what older builds wrote is still read.
//!
//! | version | since | what it brought |
//! |---|---|---|
//! | 1 | 0.1 of November 2026 | numeric columns |
//! | 2 | categorical columns | categories, derived features, tables of statistics |
//! | 3 | computed columns | the parameter `positive`; behind the payload the [`crate::provenance`] |
//! | 4 | gains of any size | behind the payload, before the provenance, the units of gains and of weights |
//! | 5 | metadata | behind the provenance the user's [`crate::metadata`] |
//! | 6 | columns of structs | behind the metadata, which may be none, the structs that columns were fields of |
//! | 7 | losses of one's own | the parameter `custom_loss` |
//! | 8 | several targets, several metrics | the parameters `targets` and `multi_strategy`; metrics with a parameter (`ndcg@5`), several of them, sets of held-out rows with names, `eval_train` |
//! | 9 | fits that go on | the parameter `early_stopping_min_delta` |
//! | 10 | keys of rows | behind the provenance a [`crate::receipt`] |
//! | 11 | means against overfitting | the sample `bayesian` of rows and its `bagging_temperature`; `max_delta_step`, `path_smooth`, `extra_trees`, `random_strength` |
//! | 12 | models of other libraries | any number of borders of a feature; behind all else leaf values that are no f32 (`Persisted::numbers`) |
//! | 13 | dropouts | the parameters `boosting`, `drop_rate`, `max_drop`, `skip_drop`, `uniform_drop`, `one_drop` and `normalize` |
//! | 14 | features that differ | the parameters `feature_weights`, and `bins` by feature |
//! | 15 | linear leaves | the parameters `leaf` and `linear_l2`; behind all else the leaves that are linear functions (`Persisted::last`) |
//! | 16 | CatBoost's statistics | categories known by hashes, and derived features that are found by hashes of combinations |
//! | 17 | steps of leaves | the parameter `leaf_iterations` |
//! | 18 | ordered boosting | the value `"ordered"` of the parameter `boosting` |
//!
//! A model is written in the oldest version from 2 on that can hold it.

use super::validate::MAX_FITTED_BORDERS;
use super::{CtrTable, Derived, Model, Units};
use crate::column::FeatureType;
use crate::column::categories::Categories;
use crate::dataset::labels::Labels;
use crate::envelope::{Contents, Envelope, Persisted};
use crate::error::Result;
use crate::learners::boosting::params::{Bins, BoostingParams, RowSample};
use crate::losses::LossKind;
use crate::metrics::{MetricSpec, Metrics};
use crate::model::payload::{HistoryPayload, invalid, is_new, name_of, named, params_of, text_of};
use crate::model::{Feature, payload};
use crate::provenance::Provenance;
use crate::tree::linear::LinearLeaf;
use crate::tree::{Leaf, Tree};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The envelope of models of boosted trees.
pub const ENVELOPE: Envelope = Envelope {
    kind: b"GB",
    version: 18,
    provenance: 3,
    metadata: 5,
    structs: 6,
    receipt: 10,
    noun: "model",
    description: "a model of boosted trees",
};

/// The first version with losses of one's own.
const CUSTOM_LOSS_SINCE: u32 = 7;

/// The first version with several targets and one tree for several outputs; with several curves, sets that have names, and metrics that have
/// parameters.
const SEVERAL_SINCE: u32 = 8;

/// The first version with the smallest improvement that early stopping counts.
const MIN_DELTA_SINCE: u32 = 9;

/// The first version with the Bayesian bootstrap, what moves the values of leaves, and borders drawn at random.
const MEANS_SINCE: u32 = 11;

/// The first version with more than 255 borders of a feature, and with leaf values that are no f32.
const IMPORTED_SINCE: u32 = 12;

/// The first version with dropouts.
const DROPOUTS_SINCE: u32 = 13;

/// The first version with weights of features, and with bins by feature.
const BY_FEATURE_SINCE: u32 = 14;

/// The first version with leaves that are linear functions.
const LINEAR_SINCE: u32 = 15;

/// The first version with categories known by hashes, and with what is found by hashes of combinations.
const HASHED_SINCE: u32 = 16;

/// The first version with several steps of a leaf.
const LEAF_ITERATIONS_SINCE: u32 = 17;

/// The first version with ordered boosting.
const ORDERED_SINCE: u32 = 18;

/// What the payload holds, in this order.
#[derive(Serialize, Deserialize)]
pub struct Payload<'a> {
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
    history: Option<HistoryPayload<'a>>,
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
    history: Option<HistoryPayload<'a>>,
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

impl Persisted for Model {
    const ENVELOPE: Envelope = ENVELOPE;
    type Payload<'a> = Payload<'a>;
    type Extra = Units;
    type Last = Vec<LinearLeaf>;
    const NO_EXTRA: Units = Units::ONE;
    const EXTRA_SINCE: u32 = 4;

    fn contents(&self) -> Contents<'_, Payload<'_>, Units> {
        let params = text_of(&self.params, BoostingParams::to_json);
        let is_new = is_new(self.labels.as_ref(), &params);
        let payload = Payload {
            params: params.text.into(),
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
            history: self.history.as_ref().map(HistoryPayload::of),
        };
        let splits = |tree: &Tree| if let Tree::Branching { nodes, .. } = tree { nodes.len() } else { 0 };
        let size = payload.params.len()
            + self.features.iter().map(|f| 16 + f.name.len() + 8 * f.borders.len()).sum::<usize>()
            + self.trees.iter().map(|t| 16 + 14 * splits(t) + 12 * t.leaves().len()).sum::<usize>()
            + self.linear.iter().map(|l| 16 + 12 * l.terms.len()).sum::<usize>();
        Contents { payload, extra: self.units, provenance: &self.provenance, is_new, size }
    }

    const NUMBERS_SINCE: u32 = IMPORTED_SINCE;

    /// The leaf values, tree after tree, where one of them is no f32.
    fn numbers(&self) -> Vec<f64> {
        let leaves = || self.trees.iter().flat_map(Tree::leaves);
        if leaves().all(Leaf::is_narrow) { vec![] } else { leaves().map(|leaf| leaf.value).collect() }
    }

    fn with_numbers(mut self, numbers: Vec<f64>) -> Result<Self> {
        let wrong = || invalid("its leaf values are not those of its leaves");
        if numbers.is_empty() {
            return Ok(self);
        }
        let mut left = numbers.into_iter();
        for leaf in self.trees.iter_mut().flat_map(Tree::leaves_mut) {
            let value = left.next().filter(|x| (*x as f32) as f64 == leaf.value).ok_or_else(wrong)?;
            leaf.value = value;
        }
        // Of f32s alone none are written.
        if left.next().is_some() || self.numbers().is_empty() { Err(wrong()) } else { Ok(self) }
    }

    const LAST_SINCE: u32 = LINEAR_SINCE;

    /// The leaves that are linear functions.
    fn last(&self) -> Vec<LinearLeaf> {
        self.linear.clone()
    }

    fn with_last(mut self, linear: Vec<LinearLeaf>) -> Result<Self> {
        self.linear = linear;
        self.validate_linear()?;
        Ok(self)
    }

    fn known_since(&self) -> u32 {
        if self.params.is_ordered() {
            return ORDERED_SINCE;
        }
        if self.params.leaf_iterations.is_some() {
            return LEAF_ITERATIONS_SINCE;
        }
        let are_hashed = |f: &Feature| f.categories.as_ref().is_some_and(Categories::are_hashed);
        if self.features.iter().any(are_hashed) || self.derived.iter().any(|d| matches!(d, Derived::Hashed { .. })) {
            return HASHED_SINCE;
        }
        if !self.linear.is_empty() || self.params.leaf.is_some() || self.params.linear_l2.is_some() {
            return LINEAR_SINCE;
        }
        if self.params.feature_weights.is_some() || matches!(self.params.bins, Bins::ByFeature(_)) {
            return BY_FEATURE_SINCE;
        }
        if self.params.boosting.is_some() {
            return DROPOUTS_SINCE;
        }
        let is_wide = self.features.iter().any(|f| f.borders.len() > MAX_FITTED_BORDERS)
            || self.trees.iter().flat_map(Tree::leaves).any(|leaf| !leaf.is_narrow());
        if is_wide {
            return IMPORTED_SINCE;
        }
        let is_plain = |metric: &MetricSpec| metric.is_plain(metric.kind()) && metric.formulas().is_none();
        let plain = match &self.params.metric {
            None => true,
            Some(Metrics::One(metric)) => is_plain(metric),
            Some(Metrics::Several(_)) => false,
        };
        let params = &self.params;
        let plain = plain && params.eval_train.is_none() && self.history.as_ref().is_none_or(payload::is_plain);
        let moves_values = params.max_delta_step.is_some() || params.path_smooth.is_some();
        let has_means =
            params.row_sample == RowSample::Bayesian || moves_values || params.extra_trees.is_some() || params.random_strength.is_some();
        match params.custom_loss {
            _ if has_means => MEANS_SINCE,
            _ if params.early_stopping_min_delta.is_some() => MIN_DELTA_SINCE,
            _ if !plain || params.targets.is_some() || params.multi_strategy.is_some() => SEVERAL_SINCE,
            Some(_) => CUSTOM_LOSS_SINCE,
            None => 1,
        }
    }

    fn from_contents(p: Payload<'_>, units: Units, provenance: Provenance) -> Result<Self> {
        let model = Model {
            params: params_of(&p.params, BoostingParams::LOCAL, BoostingParams::from_stored)?,
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
            linear: vec![],
            rows: p.rows,
            history: p.history.map(HistoryPayload::history).transpose()?,
            provenance,
        };
        model.validate()?;
        Ok(model)
    }

    fn read_old(version: u32, payload: &[u8]) -> Option<std::result::Result<Payload<'static>, String>> {
        (version == 1).then(|| ENVELOPE.read::<Payload1<'_>>(payload).map(Payload::from))
    }
}

impl Model {
    /// The model's bytes; equal models have equal bytes.
    ///
    /// `params.n_threads`, `params.bundle` and `params.device` are not kept: they never change a model.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.seal()
    }

    /// The model of these bytes, a valid one ([`Model::validate`]), in memory in proportion to their length.
    ///
    /// # Errors
    /// As [`Persisted::open`].
    ///
    /// ```
    /// use taiga_core::learners::boosting::model::Model;
    /// let error = Model::from_bytes(b"PAR1").unwrap_err();
    /// assert_eq!(error.to_string(), "model: these bytes are not a polars-taiga model");
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<Model> {
        Persisted::open(bytes)
    }
}
