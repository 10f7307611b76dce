//! The parameters of boosted trees: the one place where they, their defaults and their limits live.

use crate::dataset::ClassWeight;
use crate::dataset::labels::Label;
use crate::encoding::ctr::CtrKind;
use crate::error::{Error, Result};
use crate::losses::LossKind;
use crate::metrics::MetricKind;
use crate::metrics::metric_names;
use crate::objective::LossParams;
use crate::params::{Problems, from_json, to_json};
use crate::quantize::BorderMethod;
use crate::quantize::borders::BorderParams;
use crate::tree::params::{Monotone, Policy};
use serde::{Deserialize, Serialize};

/// How rows are drawn for each tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowSample {
    #[default]
    None,
    /// Each row with probability `row_fraction`.
    Bernoulli,
    /// Gradient-based one-side sampling (Ke et al. 2017): the two thirds of `row_fraction` with
    /// the largest gradients, and a random third from the others, weighted up.
    Goss,
    /// Minimal variance sampling (Ibragimov and Gusev 2019), `row_fraction` in expectation.
    Mvs,
}

/// How categorical columns are split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatMethod {
    /// By statistics of the target, ordered by permutations (as in CatBoost).
    #[default]
    Ctr,
    /// By one question for each category.
    OneHot,
    /// By the best subset of a node's categories (as in LightGBM).
    Partition,
}

/// Parameters of [`super::fit`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoostingParams {
    /// The loss to lower.
    pub loss: LossKind,
    /// The quantile that `loss="quantile"` estimates, inside (0, 1).
    pub alpha: f64,
    /// Where `loss="huber"` turns from squared to absolute, in units of the target.
    pub huber_delta: f64,
    /// The variance power of `loss="tweedie"`, inside (1, 2).
    pub tweedie_power: f64,

    /// The number of boosting rounds (of trees, for one output).
    pub trees: u32,
    /// What each leaf's value is multiplied by.
    pub learning_rate: f64,
    /// How a tree grows.
    pub policy: Policy,
    /// The largest depth; 6 unless told otherwise, and 63 under `leafwise`, which is the most.
    pub depth: Option<u32>,
    /// The largest number of leaves under `leafwise`; 31 unless told otherwise.
    pub leaves: Option<u32>,

    /// The largest number of borders a feature, 1 to 255.
    pub bins: u32,
    /// How borders are chosen.
    pub border_method: BorderMethod,
    /// The number of rows that borders are fitted on.
    pub border_sample: u64,

    /// L2 regularisation of leaf values.
    pub l2: f64,
    /// L1 regularisation of leaf values.
    pub l1: f64,
    /// The smallest sum of hessians in a child; unless told otherwise 1, and 0 under `symmetric`,
    /// whose splits serve a whole level. There a split that leaves any node of the level a child with rows and less is not
    /// allowed.
    pub min_child_weight: Option<f64>,
    /// The smallest number of rows in a child; 0: no rule. Under `symmetric` as above.
    pub min_data_in_leaf: u32,
    /// The smallest gain of a split.
    pub min_gain: f64,

    /// How rows are drawn for each tree.
    pub row_sample: RowSample,
    /// The share of rows drawn, inside (0, 1]; 0.8 unless told otherwise (0.3 for `goss`).
    pub row_fraction: Option<f64>,
    /// The share of features drawn for each tree.
    pub feature_fraction: f64,
    /// The share of the tree's features drawn for each level.
    pub feature_fraction_level: f64,
    /// The share of the level's features drawn for each node (not under `symmetric`).
    pub feature_fraction_node: f64,

    /// -1 (falling), 0 or 1 (rising) by feature name.
    pub monotone: Monotone,
    /// Groups of feature names that may meet on one path; empty: all may. A feature in no group
    /// meets no other.
    pub interaction: Vec<Vec<String>>,

    /// Names of integer and Boolean features that are categories; whoever makes the table reads it.
    pub categorical: Vec<String>,
    /// How categorical columns are split.
    pub cat_method: CatMethod,
    /// Columns with at most so many categories are split by one question for each of them.
    pub one_hot_max_size: u32,
    /// The statistics of categories; by the target's kind unless told otherwise.
    pub ctr: Option<Vec<CtrKind>>,
    /// The priors of each statistic; the first one alone for counters.
    pub ctr_priors: Vec<f64>,
    /// The largest number of borders of a statistic, 1 to 255.
    pub ctr_borders: u32,
    /// The number of borders that cut a numeric target into the classes of `borders`, `buckets`
    /// and `binarized_target_mean_value`.
    pub target_borders: u32,
    /// The number of permutations that statistics are computed under. With several, each tree grows under
    /// one of them but the first, and its leaves have their values under the first.
    pub permutations: u32,
    /// The largest number of columns whose categories are combined; 1: none.
    pub max_combination: u32,
    /// The largest number of entries in the model's tables of statistics.
    pub ctr_table_limit: u64,
    /// Added to the hessians by which `partition` sorts categories.
    pub cat_smooth: f64,
    /// Added to `l2` where `partition` divides a node.
    pub cat_l2: f64,
    /// The largest number of categories in the subset that `partition` divides a node by.
    pub max_cat_threshold: u32,

    /// Class weights.
    pub class_weight: ClassWeight,
    /// Of two classes, the one whose probability is predicted; whoever makes the target puts it last
    /// ([`Labels::with_positive`](crate::dataset::labels::Labels::with_positive)). The last one unless told otherwise.
    pub positive: Option<Label>,
    /// What is measured on held-out rows; the loss's own unless told otherwise.
    pub metric: Option<MetricKind>,
    /// Stop after this many rounds without a better metric on the held-out rows.
    pub early_stopping: Option<u32>,

    /// The seed of every random choice.
    pub seed: u64,
    /// Threads; as many as Polars uses unless told otherwise. Never changes the model.
    pub n_threads: Option<u32>,
    /// Whether features that are mostly one value are stored sparsely, and those that exclude each
    /// other bundled. Never changes the model.
    pub bundle: bool,
    /// `"auto"`, `"cpu"`, `"cuda"` or `"cuda:N"`. Never changes the model.
    pub device: String,
}

impl Default for BoostingParams {
    fn default() -> Self {
        BoostingParams {
            loss: LossKind::Auto,
            alpha: 0.5,
            huber_delta: 1.0,
            tweedie_power: 1.5,
            trees: 100,
            learning_rate: 0.1,
            policy: Policy::Symmetric,
            depth: None,
            leaves: None,
            bins: 254,
            border_method: BorderMethod::MinMaxEntropy,
            border_sample: 200_000,
            l2: 1.0,
            l1: 0.0,
            min_child_weight: None,
            min_data_in_leaf: 0,
            min_gain: 0.0,
            row_sample: RowSample::None,
            row_fraction: None,
            feature_fraction: 1.0,
            feature_fraction_level: 1.0,
            feature_fraction_node: 1.0,
            monotone: Monotone::new(),
            interaction: vec![],
            categorical: vec![],
            cat_method: CatMethod::Ctr,
            one_hot_max_size: 2,
            ctr: None,
            ctr_priors: vec![0.0, 0.5, 1.0],
            ctr_borders: 15,
            target_borders: 1,
            permutations: 3,
            max_combination: 2,
            ctr_table_limit: 1 << 24,
            cat_smooth: 10.0,
            cat_l2: 10.0,
            max_cat_threshold: 32,
            class_weight: ClassWeight::None,
            positive: None,
            metric: None,
            early_stopping: None,
            seed: 0,
            n_threads: None,
            bundle: true,
            device: "auto".into(),
        }
    }
}

impl BoostingParams {
    /// The names of the parameters that say how a fit is done and never change its result, which is why no model keeps them.
    pub const LOCAL: [&str; 3] = ["n_threads", "bundle", "device"];

    /// What the losses and metrics read.
    pub fn loss_params(&self) -> LossParams {
        LossParams { alpha: self.alpha, huber_delta: self.huber_delta, tweedie_power: self.tweedie_power }
    }

    /// How borders of features are found.
    pub fn border_params(&self) -> BorderParams {
        let sample = usize::try_from(self.border_sample).unwrap_or(usize::MAX);
        BorderParams { bins: self.bins as usize, method: self.border_method, sample, seed: self.seed }
    }

    /// Parameters from a JSON object; what it does not name has its default.
    ///
    /// # Errors
    /// [`Error::UnknownParameter`] with what was probably meant, [`Error::Parameter`] for a value of the
    /// wrong type or out of range, [`Error::Several`] for more than one of these: all is told at once.
    ///
    /// ```
    /// use taiga_core::learners::boosting::BoostingParams;
    /// let params = BoostingParams::from_json(&serde_json::json!({"trees": 50, "policy": "leafwise"})).unwrap();
    /// assert_eq!(params.trees, 50);
    /// let error = BoostingParams::from_json(&serde_json::json!({"treees": 50})).unwrap_err();
    /// assert_eq!(error.to_string(), "there is no parameter `treees`; did you mean `trees`?");
    /// ```
    pub fn from_json(value: &serde_json::Value) -> Result<Self> {
        from_json(value, Self::problems)
    }

    /// The parameters as a JSON object, without those that never change the model
    /// (`n_threads`, `bundle`, `device`).
    pub fn to_json(&self) -> serde_json::Value {
        to_json(self, &Self::LOCAL)
    }

    /// Checks the parameters of a call, as [`BoostingParams::from_json`] does, and that those which need held-out rows come with some.
    ///
    /// # Errors
    /// As [`BoostingParams::from_json`].
    pub fn check_call(value: &serde_json::Value, held_out: bool) -> Result<()> {
        let check = |params: &Self, problems: &mut Problems| {
            params.problems(problems);
            problems.check_held_out(held_out, params.early_stopping.is_some(), params.metric.is_some());
        };
        from_json(value, check).map(|_: Self| ())
    }

    /// Checks each parameter alone and those that exclude each other.
    ///
    /// # Errors
    /// [`Error::Parameter`] naming the parameter, its value and what was expected; [`Error::Several`] for more than one.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Problems::default();
        self.problems(&mut problems);
        problems.result()
    }

    /// What [`BoostingParams::validate`] finds.
    fn problems(&self, problems: &mut Problems) {
        let not_negative = |x: f64| x.is_finite() && x >= 0.0;
        let fraction = |x: f64| x > 0.0 && x <= 1.0;
        let inside = |x: f64, a: f64, b: f64| x > a && x < b;
        problems.check(inside(self.alpha, 0.0, 1.0), "alpha", self.alpha, "inside (0, 1)");
        problems.check(self.huber_delta.is_finite() && self.huber_delta > 0.0, "huber_delta", self.huber_delta, "a positive number");
        problems.check(inside(self.tweedie_power, 1.0, 2.0), "tweedie_power", self.tweedie_power, "inside (1, 2)");
        problems.check((1..=1_000_000).contains(&self.trees), "trees", self.trees, "between 1 and 1,000,000");
        problems.check(
            self.learning_rate.is_finite() && self.learning_rate > 0.0,
            "learning_rate",
            self.learning_rate,
            "a positive number",
        );
        if let Some(depth) = self.depth {
            match self.policy {
                Policy::Leafwise => problems.check((1..=63).contains(&depth), "depth", depth, "between 1 and 63"),
                _ => problems.check((1..=16).contains(&depth), "depth", depth, "between 1 and 16"),
            }
        }
        if let Some(leaves) = self.leaves {
            if self.policy != Policy::Leafwise {
                problems.add(Error::parameter("leaves", "counts only under policy=\"leafwise\"; elsewhere `depth` limits a tree"));
            }
            problems.check((2..=65_536).contains(&leaves), "leaves", leaves, "between 2 and 65,536");
        }
        problems.check((1..=255).contains(&self.bins), "bins", self.bins, "between 1 and 255");
        problems.check(self.border_sample >= 2, "border_sample", self.border_sample, "at least 2");
        problems.check(not_negative(self.l2), "l2", self.l2, "zero or a positive number");
        problems.check(not_negative(self.l1), "l1", self.l1, "zero or a positive number");
        problems.check(not_negative(self.min_child_weight()), "min_child_weight", self.min_child_weight(), "zero or a positive number");
        problems.check(not_negative(self.min_gain), "min_gain", self.min_gain, "zero or a positive number");
        if let Some(f) = self.row_fraction {
            if self.row_sample == RowSample::None {
                problems.add(Error::parameter("row_fraction", "needs row_sample=\"bernoulli\", \"goss\" or \"mvs\""));
            }
            problems.check(fraction(f), "row_fraction", f, "inside (0, 1]");
        }
        problems.check(fraction(self.feature_fraction), "feature_fraction", self.feature_fraction, "inside (0, 1]");
        problems.check(fraction(self.feature_fraction_level), "feature_fraction_level", self.feature_fraction_level, "inside (0, 1]");
        problems.check(fraction(self.feature_fraction_node), "feature_fraction_node", self.feature_fraction_node, "inside (0, 1]");
        if self.policy == Policy::Symmetric && self.feature_fraction_node != 1.0 {
            let text = "a symmetric tree has one split a level: use feature_fraction_level, or policy=\"depthwise\" or \"leafwise\"";
            problems.add(Error::parameter("feature_fraction_node", text));
        }
        for (name, direction) in &self.monotone {
            if !(-1..=1).contains(direction) {
                problems.add(Error::parameter("monotone", format!("{direction} for `{name}` is not -1, 0 or 1")));
            }
        }
        if self.cat_method == CatMethod::Partition && self.policy == Policy::Symmetric {
            let text = "\"partition\" divides each node by a subset of its own: use policy=\"depthwise\" or \"leafwise\"";
            problems.add(Error::parameter("cat_method", text));
        }
        problems.check(not_negative(self.cat_smooth), "cat_smooth", self.cat_smooth, "zero or a positive number");
        problems.check(not_negative(self.cat_l2), "cat_l2", self.cat_l2, "zero or a positive number");
        problems.check((1..=254).contains(&self.max_cat_threshold), "max_cat_threshold", self.max_cat_threshold, "between 1 and 254");
        if let Some(kinds) = &self.ctr {
            if kinds.is_empty() {
                problems.add(Error::parameter("ctr", "an empty list; name at least one statistic, or leave it out"));
            }
            if let Some(again) = (1..kinds.len()).find(|i| kinds[..*i].contains(&kinds[*i])) {
                let name = serde_json::to_string(&kinds[again]).unwrap_or_default();
                problems.add(Error::parameter("ctr", format!("{name} is named twice")));
            }
        }
        let priors = &self.ctr_priors;
        problems.check((1..=16).contains(&priors.len()), "ctr_priors", priors, "a list of 1 to 16 numbers");
        problems.check(priors.iter().all(|p| not_negative(*p)), "ctr_priors", priors, "a list of numbers that are zero or positive");
        problems.check((1..=255).contains(&self.ctr_borders), "ctr_borders", self.ctr_borders, "between 1 and 255");
        problems.check((1..=255).contains(&self.target_borders), "target_borders", self.target_borders, "between 1 and 255");
        problems.check((1..=64).contains(&self.permutations), "permutations", self.permutations, "between 1 and 64");
        problems.check((1..=8).contains(&self.max_combination), "max_combination", self.max_combination, "between 1 and 8");
        problems.check(self.ctr_table_limit >= 1, "ctr_table_limit", self.ctr_table_limit, "at least 1");
        problems.take(self.class_weight.validate());
        if let Some(rounds) = self.early_stopping {
            problems.check(rounds >= 1, "early_stopping", rounds, "at least 1");
        }
        problems.check_threads(self.n_threads);
        problems.check_device(&self.device);
        self.loss_problems(problems);
    }

    /// What does not go with a loss that is named; what follows from the target is found by the fit.
    fn loss_problems(&self, problems: &mut Problems) {
        if matches!(self.loss, LossKind::Auto) {
            return;
        }
        let name = self.loss.name();
        if self.class_weight != ClassWeight::None && !self.loss.is_for_classes() {
            problems.add(Error::parameter("class_weight", format!("loss=\"{name}\" has no classes to weigh; give rows a `weight`")));
        }
        if let (Some(metric), Ok(loss)) = (self.metric, crate::losses::loss(self.loss, &self.loss_params(), 2, 1.0))
            && !metric.fits(loss.link())
        {
            let fitting = metric_names(|m| m.fits(loss.link()));
            let text = format!("\"{}\" can't be measured on the predictions of loss=\"{name}\"; {fitting} can", metric.name());
            problems.add(Error::parameter("metric", text));
        }
    }

    /// The largest depth of a tree.
    pub fn depth(&self) -> u32 {
        self.depth.unwrap_or(if self.policy == Policy::Leafwise { 63 } else { 6 })
    }

    /// The largest number of leaves of a tree.
    pub fn leaves(&self) -> u32 {
        match self.policy {
            Policy::Leafwise => self.leaves.unwrap_or(31),
            _ => 1 << self.depth(),
        }
    }

    /// The smallest sum of hessians in a child.
    pub fn min_child_weight(&self) -> f64 {
        self.min_child_weight.unwrap_or(if self.policy == Policy::Symmetric { 0.0 } else { 1.0 })
    }

    /// The statistics of categories; `classes`: the target is one of classes.
    pub fn ctr_kinds(&self, classes: bool) -> Vec<CtrKind> {
        let standard = if classes { [CtrKind::Borders, CtrKind::Counter] } else { [CtrKind::FloatTargetMeanValue, CtrKind::Counter] };
        self.ctr.clone().unwrap_or(standard.to_vec())
    }

    /// The share of rows drawn for each tree.
    pub fn row_fraction(&self) -> f64 {
        match self.row_sample {
            RowSample::None => 1.0,
            RowSample::Goss => self.row_fraction.unwrap_or(0.3),
            RowSample::Bernoulli | RowSample::Mvs => self.row_fraction.unwrap_or(0.8),
        }
    }
}
