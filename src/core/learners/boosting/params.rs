//! The parameters of boosted trees: the one place where they, their defaults and their limits live.

use super::row_sampler::RowSampling;
use super::untold_rounds::{LEARNING_RATE, ROUNDS};
use crate::column::Column;
pub use crate::dataset::Bins;
use crate::dataset::coded::FeatureBorders;
use crate::dataset::positions::PositionFactors;
use crate::dataset::shared_params::learner_params;
use crate::dataset::{ClassWeight, Input, Target};
use crate::encoding::ctr::CtrKind;
use crate::error::{Error, Result};
use crate::losses::{LeafRule, Loss, LossKind};
use crate::metrics::{MetricKind, MetricSpec, Metrics, metric_names};
use crate::numerics::censored::Distribution;
use crate::objective::{AftParams, Alpha, FocalParams, LossParams};
use crate::params::Problems;
use crate::params::limits::By;
use crate::params::limits::Limit::{AtLeast, Between, Inside, NotNegative, Positive, Share};
use crate::quantize::BorderMethod;
use crate::quantize::borders::BorderParams;
use crate::symbolic::CustomLoss;
use crate::tree::params::{FeatureWeights, Monotone, Policy, SplitParams};
use crate::tree::split::CategoryRules;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
    /// The Bayesian bootstrap (Rubin 1981; CatBoost's `bootstrap_type="Bayesian"`): every row, with a weight drawn from
    /// `(-ln u)^bagging_temperature`, `u` uniform.
    Bayesian,
}

/// What becomes of earlier trees while one is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Boosting {
    /// All of them stay as they are.
    Gbdt,
    /// Some are left out, and count less from then on ([`dropout`](super::dropout)).
    Dart,
    /// All of them stay, and gradients are those of scores that rows had no part in ([`ordered`](super::ordered)).
    Ordered,
}

/// What the leaves of trees are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeafKind {
    /// Numbers.
    Constant,
    /// Linear functions of the numeric columns on the path to the leaf ([`linear_leaves`](super::linear_leaves)).
    Linear,
}

/// What trees count that were left out of a round, and those that grew in it: by the number `k` of rounds left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalize {
    /// The new ones `1 / (k + 1)`, the others `k / (k + 1)` of what they did (LightGBM's).
    #[default]
    Paper,
    /// `1 / (k + learning_rate)` and `k / (k + learning_rate)` (XGBoost's `tree`).
    Tree,
    /// Both `1 / (1 + learning_rate)` (XGBoost's `forest`).
    Forest,
}

/// The most targets of a fit.
pub const MOST_TARGETS: usize = 10_000;

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

/// Which trees the outputs of a loss get that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MultiStrategy {
    /// One for all of them in each round, each leaf of which has a value for each output (Zhang and Jung, "GBDT-MO: Gradient-boosted
    /// decision trees for multiple outputs", 2020; XGBoost's `multi_output_tree`, CatBoost's `MultiRMSE`).
    OneTree,
    /// One for each in each round.
    TreeEach,
}

learner_params! {
    /// Parameters of [`super::fit`].
    ///
    /// ```
    /// use taiga_core::learners::boosting::BoostingParams;
    /// let params = BoostingParams::from_json(&serde_json::json!({"rounds": 50, "policy": "leafwise"})).unwrap();
    /// assert_eq!(params.rounds, Some(50));
    /// let error = BoostingParams::from_json(&serde_json::json!({"round": 50})).unwrap_err();
    /// assert_eq!(error.to_string(), "there is no parameter `round`; did you mean `rounds`?");
    /// ```
    pub struct BoostingParams {
        /// The loss to lower.
        pub loss: LossKind = LossKind::Auto,
        /// The formulas of `loss="custom"`.
        pub custom_loss: Option<CustomLoss> = None,
        /// The names of several targets, which a fit takes from its table; none of one.
        pub targets: Option<Vec<String>> = None => By(Self::check_targets),
        /// Which trees the outputs get where there are several; unless told otherwise `OneTree` for several targets, and `TreeEach` for
        /// several scores of one, but for classes `OneTree` where the fit finds its rounds too.
        pub multi_strategy: Option<MultiStrategy> = None,
        /// The quantile that `loss="quantile"` estimates, or several ascending ones, or the expectile that `loss="expectile"` does, inside
        /// (0, 1).
        pub alpha: Alpha = Alpha::One(0.5) => By(Self::check_alpha),
        /// Where `loss="huber"` turns from squared to absolute, in units of the target; by the targets unless told
        /// ([`huber_delta`](super::prepare::huber_delta)).
        pub huber_delta: Option<f64> = None => Positive,
        /// The variance power of `loss="tweedie"`, inside (1, 2).
        pub tweedie_power: f64 = 1.5 => Inside(1.0, 2.0),
        /// By which power of the other class's probability a row of `loss="focal"` counts, 0 to 100; 2 unless told.
        pub focal_gamma: Option<f64> = None => By(Self::check_focal_gamma),
        /// What a row of the last class counts under `loss="focal"`, inside (0, 1), and one of the first the rest of 1; both 1
        /// unless told.
        pub focal_alpha: Option<f64> = None => Inside(0.0, 1.0),
        /// Of a group's rows in the order of their scores, those that `loss="lambdarank"` and `"pairwise"` hold against all below them; 30
        /// for the first and 1,000 for the second unless told otherwise.
        pub rank_truncation: Option<u32> = None => AtLeast(1),
        /// Whether `loss="lambdarank"` and `"pairwise"` weigh groups with much to gain down, and the first close pairs up; they do unless told
        /// otherwise.
        pub rank_normalize: Option<bool> = None,
        /// The orders of each group that `loss="yetirank"` draws for a tree; 10 unless told otherwise.
        pub rank_orders: Option<u32> = None => Between(1, 1000),
        /// What a pair of neighbours counts less than the one before it under `loss="yetirank"`; 0.85 unless told otherwise.
        pub rank_decay: Option<f64> = None => Share,
        /// What draws the factors of positions to 0, for each unit of weight, where rows have positions; 0 unless told otherwise.
        pub rank_position_l2: Option<f64> = None => NotNegative,
        /// What a fit with positions found that each of them adds to a score; no argument of a fit.
        pub position_factors: Option<PositionFactors> = None => By(Self::check_position_factors),
        /// The distribution of `(ln time - score) / aft_scale` under `loss="aft"`; normal unless told otherwise.
        pub aft_distribution: Option<Distribution> = None,
        /// The scale of that distribution, in units of the logarithm of time; 1 unless told otherwise.
        pub aft_scale: Option<f64> = None => By(Self::check_aft_scale),

        /// The number of boosting rounds: a round makes a tree for each output. Unless told otherwise as many as do best on a hidden part of
        /// the rows ([`untold_rounds`](super::untold_rounds)).
        pub rounds: Option<u32> = None => Between(1, Self::MOST_ROUNDS),
        /// What each leaf's value is multiplied by; unless told otherwise 0.1, and less on small tables where `rounds` is not told either.
        pub learning_rate: Option<f64> = None => Positive,
        /// What becomes of earlier trees while one is fitted, and by which of them rows have their gradients; nothing, and all of them,
        /// unless told otherwise.
        pub boosting: Option<Boosting> = None => By(Self::check_boosting),
        /// The share of the rounds before that `boosting="dart"` fits a round without, 0 to 1; 0.1 unless told.
        pub drop_rate: Option<f64> = None => By(Self::check_drop_rate),
        /// The most rounds that it does without at the same time; 50 unless told.
        pub max_drop: Option<u32> = None => By(Self::check_max_drop),
        /// The share of the rounds that are fitted as without `boosting="dart"`, 0 to 1; 0.5 unless told.
        pub skip_drop: Option<f64> = None => By(Self::check_skip_drop),
        /// Whether all rounds are left out as often as each other, and not the more often the more they count.
        pub uniform_drop: Option<bool> = None => By(Self::check_uniform_drop),
        /// Whether one round at least is left out of each that is not skipped.
        pub one_drop: Option<bool> = None => By(Self::check_one_drop),
        /// What rounds count that were left out; [`Normalize::Paper`] unless told.
        pub normalize: Option<Normalize> = None => By(Self::check_normalize),
        /// How a tree grows.
        pub policy: Policy = Policy::Symmetric,
        /// The largest depth; 6 unless told otherwise, and 63 under `leafwise`, which is the most.
        pub depth: Option<u32> = None => By(Self::check_depth),
        /// The largest number of leaves under `leafwise`; 31 unless told otherwise.
        pub leaves: Option<u32> = None => By(Self::check_leaves),

        /// The largest number of bins a feature, 2 to 256: one more than there are borders between them. A bin of missing values
        /// is not counted. By feature name where they differ, those that are not named at the default.
        pub bins: Bins = Bins::Same(Bins::DEFAULT) => By(Self::check_bins),
        /// How borders are chosen.
        pub border_method: BorderMethod = BorderMethod::MinMaxEntropy,
        /// The number of rows that borders are fitted on.
        pub border_sample: u64 = 200_000 => AtLeast(2),

        /// L2 regularisation of leaf values.
        pub l2: f64 = 1.0 => NotNegative,
        /// L1 regularisation of leaf values.
        pub l1: f64 = 0.0 => NotNegative,
        /// The smallest sum of hessians in a child; unless told otherwise 1, and 0 under `symmetric`,
        /// whose splits serve a whole level. There a split that leaves any node of the level a child with rows and less is not
        /// allowed.
        pub min_child_weight: Option<f64> = None => NotNegative,
        /// The smallest number of rows in a child; 0: no rule. Under `symmetric` as above.
        pub min_data_in_leaf: u32 = 0,
        /// The smallest gain of a split.
        pub min_gain: f64 = 0.0 => NotNegative,
        /// The largest absolute value of a leaf before the learning rate, in units of scores; no limit unless told.
        pub max_delta_step: Option<f64> = None => Positive,
        /// How many rows a node needs for its value to be as much its own as its parent's: of `n` rows, its own counts `n / path_smooth`
        /// times the parent's; 0 unless told: it is its own.
        pub path_smooth: Option<f64> = None => NotNegative,
        /// The Newton steps that a leaf's value is made of, 1 to 100, each by the derivatives at the scores that those before lead to; 1 unless
        /// told.
        pub leaf_iterations: Option<u32> = None => Between(1, 100),

        /// What leaves are; numbers unless told otherwise.
        pub leaf: Option<LeafKind> = None => By(Self::check_leaf),
        /// L2 regularisation of the coefficients of `leaf="linear"`, in units of the columns; 0 unless told.
        pub linear_l2: Option<f64> = None => By(Self::check_linear_l2),

        /// How rows are drawn for each tree.
        pub row_sample: RowSample = RowSample::None,
        /// The share of rows drawn, inside (0, 1]; 0.8 unless told otherwise (0.3 for `goss`).
        pub row_fraction: Option<f64> = None => By(Self::check_row_fraction),
        /// How far the weights that `row_sample="bayesian"` draws lie apart, 0 (all are 1) to 10; 1 unless told otherwise: then they
        /// are exponential, with a mean of 1.
        pub bagging_temperature: Option<f64> = None => By(Self::check_bagging_temperature),
        /// The share of features drawn for each tree.
        pub feature_fraction: f64 = 1.0 => Share,
        /// The share of the tree's features drawn for each level.
        pub feature_fraction_level: f64 = 1.0 => Share,
        /// The share of the level's features drawn for each node (not under `symmetric`).
        pub feature_fraction_node: f64 = 1.0 => By(Self::check_feature_fraction_node),
        /// Whether a node may be divided at one border alone of each feature, drawn at random for each node (each level under `symmetric`).
        pub extra_trees: Option<bool> = None,
        /// How much noise is on the scores by which features are compared, in units of what a split gains by chance; 0 unless told.
        pub random_strength: Option<f64> = None => NotNegative,

        /// What the gain of a split counts before splits are compared, 0 or more by feature name, next to the other features' weights: of one
        /// that is not named 1; of several columns together the least of theirs. A feature of weight 0 splits nothing.
        pub feature_weights: Option<FeatureWeights> = None => By(Self::check_feature_weights),
        /// -1 (falling), 0 or 1 (rising) by feature name.
        pub monotone: Monotone = Monotone::new() => By(Self::check_monotone),
        /// Groups of feature names that may meet on one path; empty: all may. A feature in no group
        /// meets no other.
        pub interaction: Vec<Vec<String>> = vec![],

        pub categorical,
        /// How categorical columns are split.
        pub cat_method: CatMethod = CatMethod::Ctr => By(Self::check_cat_method),
        /// Columns with at most so many categories are split by one question for each of them.
        pub one_hot_max_size: u32 = 2,
        /// Added to the hessians by which `partition` sorts categories.
        pub cat_smooth: f64 = 10.0 => NotNegative,
        /// Added to `l2` where `partition` divides a node.
        pub cat_l2: f64 = 10.0 => NotNegative,
        /// The largest number of categories in the subset that `partition` divides a node by.
        pub max_cat_threshold: u32 = 32 => Between(1, 254),
        /// The statistics of categories; by the target's kind unless told otherwise.
        pub ctr: Option<Vec<CtrKind>> = None => By(Self::check_ctr),
        /// The priors of each statistic; the first one alone for counters.
        pub ctr_priors: Vec<f64> = vec![0.0, 0.5, 1.0] => By(Self::check_ctr_priors),
        /// The largest number of borders of a statistic, 1 to 255.
        pub ctr_borders: u32 = 15 => Between(1, 255),
        /// The number of borders that cut a numeric target into the classes of `borders`, `buckets`
        /// and `binarized_target_mean_value`.
        pub target_borders: u32 = 1 => Between(1, 255),
        /// The number of permutations that statistics are computed under, and that ordered boosting takes rows in. With several, each tree
        /// grows under one of them but the first, and its leaves have their values under the first. One where the table says in which order
        /// rows come.
        pub permutations: u32 = Self::PERMUTATIONS => Between(1, 64),
        /// The largest number of columns whose categories are combined; 1: none.
        pub max_combination: u32 = 2 => Between(1, 8),
        /// The largest number of entries in the model's tables of statistics.
        pub ctr_table_limit: u64 = 1 << 24 => AtLeast(1),

        pub class_weight,
        pub positive,
        /// What is measured on held-out rows: the first of several decides; the loss's own unless told otherwise.
        pub metric: Option<Metrics> = None => By(Self::check_metric),
        /// Whether the training rows are measured as well.
        pub eval_train: Option<bool> = None,
        /// Stop after this many rounds without a better metric on the held-out rows.
        pub early_stopping: Option<u32> = None => AtLeast(1),
        /// By more than how much a metric must improve to count as better under `early_stopping`, in its own unit; 0 unless told.
        pub early_stopping_min_delta: Option<f64> = None => By(Self::check_min_delta),

        pub seed,
        pub n_threads,
        /// Whether features that are mostly one value are stored sparsely, and those that exclude each
        /// other bundled. Never changes the model.
        pub bundle: bool = true,
        pub devices,
    }
    local { n_threads, bundle, device }
    held_out { early_stopping, metric unless measures_training }
    together { check_loss }
    called { check_is_read }
}

impl BoostingParams {
    /// The number of permutations unless told.
    const PERMUTATIONS: u32 = 3;

    /// The most rounds of a fit.
    pub const MOST_ROUNDS: u64 = 1_000_000;

    /// The number of rounds: where it is not told, that of a fit that can't find it.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(ROUNDS)
    }

    /// What each leaf's value is multiplied by: where it is not told, that of a fit whose rounds are told.
    pub fn learning_rate(&self) -> f64 {
        self.learning_rate.unwrap_or(LEARNING_RATE)
    }

    /// What the losses and metrics read.
    pub fn loss_params(&self) -> LossParams {
        LossParams {
            alpha: self.alpha.clone(),
            huber_delta: self.huber_delta.unwrap_or(1.0),
            tweedie_power: self.tweedie_power,
            focal: FocalParams { gamma: self.focal_gamma.unwrap_or(FocalParams::DEFAULT.gamma), alpha: self.focal_alpha },
            rank_truncation: self.rank_truncation,
            rank_normalize: self.rank_normalize.unwrap_or(true),
            rank_orders: self.rank_orders.unwrap_or(10),
            rank_decay: self.rank_decay.unwrap_or(0.85),
            targets: self.targets.as_ref().map_or(0, Vec::len),
            aft: AftParams { distribution: self.aft_distribution.unwrap_or_default(), scale: self.aft_scale.unwrap_or(1.0) },
            // One that can't be compiled has been told of: [`Self::check_loss`].
            custom: self.custom_loss.as_ref().and_then(|loss| loss.compile().ok()).map(Arc::new),
        }
    }

    /// Returns the parameters with `huber_delta` where the loss or a metric reads it: what they say, else `of_target`.
    pub fn with_huber_delta(&self, loss: LossKind, metrics: &[MetricSpec], of_target: impl FnOnce() -> f64) -> Self {
        let is_read = loss == LossKind::Huber || metrics.iter().any(|metric| metric.is_plain(MetricKind::Huber));
        let huber_delta = self.huber_delta.or_else(|| is_read.then(of_target));
        BoostingParams { huber_delta, ..self.clone() }
    }

    /// Returns the parameters as a model keeps them: those that it never depends on at their defaults, and a number for each loss.
    pub fn kept(&self) -> Self {
        let params = self.loss_params();
        let focal_gamma = self.focal_gamma.or((self.loss == LossKind::Focal).then_some(params.focal.gamma));
        let (ranks, is_aft) = (self.loss.reads_groups(), self.loss == LossKind::Aft);
        BoostingParams {
            rounds: Some(self.rounds()),
            learning_rate: Some(self.learning_rate()),
            bins: self.bins.kept(),
            huber_delta: Some(params.huber_delta),
            eval_train: self.eval_train.filter(|on| *on),
            extra_trees: self.extra_trees.filter(|on| *on),
            leaf_iterations: self.leaf_iterations.filter(|steps| *steps > 1),
            boosting: self.boosting.filter(|boosting| *boosting != Boosting::Gbdt),
            leaf: self.leaf.filter(|leaf| *leaf == LeafKind::Linear),
            uniform_drop: self.uniform_drop.filter(|on| *on),
            one_drop: self.one_drop.filter(|on| *on),
            feature_weights: self.feature_weights.clone().filter(|weights| !weights.is_empty()),
            focal_gamma,
            rank_normalize: self.rank_normalize.or(ranks.then_some(params.rank_normalize)),
            rank_orders: self.rank_orders.or(ranks.then_some(params.rank_orders)),
            rank_decay: self.rank_decay.or(ranks.then_some(params.rank_decay)),
            aft_distribution: self.aft_distribution.or(is_aft.then_some(params.aft.distribution)),
            aft_scale: self.aft_scale.or(is_aft.then_some(params.aft.scale)),
            ..self.recorded()
        }
    }

    /// How borders of a table's features are found.
    pub fn border_params(&self, features: &[Column<'_>]) -> FeatureBorders {
        let sample = usize::try_from(self.border_sample).unwrap_or(usize::MAX);
        let params = BorderParams { bins: self.bins.common() as usize, method: self.border_method, sample, seed: self.seed };
        self.bins.borders(params, features)
    }

    /// Adds that a parameter of dropouts is given where there are none.
    fn check_dropouts(&self, name: &str, given: bool, problems: &mut Problems) {
        if given && self.boosting != Some(Boosting::Dart) {
            problems.add(Error::parameter(name, "counts only under boosting=\"dart\""));
        }
    }

    /// Adds what does not go with leaves that are linear functions.
    fn check_leaf(&self, problems: &mut Problems) {
        if self.leaf != Some(LeafKind::Linear) {
            return;
        }
        let others = [
            ("boosting=\"dart\"", self.boosting == Some(Boosting::Dart), "takes leaves' values back by their numbers"),
            ("boosting=\"ordered\"", self.is_ordered(), "gives leaves other values for each part of the rows, by their numbers"),
            ("monotone", self.monotone.values().any(|direction| *direction != 0), "bounds values of leaves, and functions have no bounds"),
            ("max_delta_step", self.max_delta_step.is_some(), "bounds values of leaves, and functions have no bounds"),
            (
                "path_smooth",
                self.path_smooth.is_some_and(|smooth| smooth > 0.0),
                "draws values of leaves to their parents', which are no functions",
            ),
            ("leaf_iterations", self.leaf_iterations() > 1, "moves values of leaves, and functions are found in one step"),
        ];
        for (name, _, why) in others.into_iter().filter(|(_, is_given, _)| *is_given) {
            problems.add(Error::parameter("leaf", format!("\"linear\" does not go with `{name}`, which {why}: leave one of both out")));
        }
    }

    /// Adds what is wrong with `linear_l2`.
    fn check_linear_l2(&self, problems: &mut Problems) {
        if self.linear_l2.is_some() && self.leaf != Some(LeafKind::Linear) {
            problems.add(Error::parameter("linear_l2", "counts only under leaf=\"linear\""));
        }
        problems.limit("linear_l2", self.linear_l2, NotNegative);
    }

    /// Adds what is wrong with a share of dropouts, which may be 0.
    fn check_drop_share(&self, name: &str, share: Option<f64>, problems: &mut Problems) {
        self.check_dropouts(name, share.is_some(), problems);
        if let Some(share) = share {
            problems.check((0.0..=1.0).contains(&share), name, share, "between 0 and 1");
        }
    }

    /// Adds what is wrong with `drop_rate`.
    fn check_drop_rate(&self, problems: &mut Problems) {
        self.check_drop_share("drop_rate", self.drop_rate, problems);
    }

    /// Adds what is wrong with `max_drop`.
    fn check_max_drop(&self, problems: &mut Problems) {
        self.check_dropouts("max_drop", self.max_drop.is_some(), problems);
        problems.limit("max_drop", self.max_drop, AtLeast(1));
    }

    /// Adds what is wrong with `skip_drop`.
    fn check_skip_drop(&self, problems: &mut Problems) {
        self.check_drop_share("skip_drop", self.skip_drop, problems);
    }

    /// Adds what is wrong with `uniform_drop`.
    fn check_uniform_drop(&self, problems: &mut Problems) {
        self.check_dropouts("uniform_drop", self.uniform_drop == Some(true), problems);
    }

    /// Adds what is wrong with `one_drop`.
    fn check_one_drop(&self, problems: &mut Problems) {
        self.check_dropouts("one_drop", self.one_drop == Some(true), problems);
    }

    /// Adds what is wrong with `normalize`.
    fn check_normalize(&self, problems: &mut Problems) {
        self.check_dropouts("normalize", self.normalize.is_some(), problems);
    }

    /// Adds what is wrong with `depth`.
    fn check_depth(&self, problems: &mut Problems) {
        problems.limit("depth", self.depth, Between(1, if self.policy == Policy::Leafwise { 63 } else { 16 }));
    }

    /// Adds what is wrong with `leaves`.
    fn check_leaves(&self, problems: &mut Problems) {
        if self.leaves.is_some() && self.policy != Policy::Leafwise {
            problems.add(Error::parameter("leaves", "counts only under policy=\"leafwise\"; elsewhere `depth` limits a tree"));
        }
        problems.limit("leaves", self.leaves, Between(2, 65_536));
    }

    /// Returns the parameters with what a table says: the names of its several targets, and that there is one order of its rows.
    pub fn of_table(&self, input: &Input<'_>) -> Self {
        let names = || input.target.several().iter().map(|column| column.name().to_string()).collect();
        let targets = matches!(input.target, Target::Several(_)).then(names);
        BoostingParams { targets, permutations: if input.order.is_some() { 1 } else { self.permutations }, ..self.clone() }
    }

    /// Checks that statistics of categories are made in an order, where one is given, and in no others.
    ///
    /// # Errors
    /// Naming the parameter.
    pub fn check_order(&self, given: bool) -> Result<()> {
        if !given {
            return Ok(());
        }
        if self.cat_method != CatMethod::Ctr && !self.is_ordered() {
            let name = serde_json::to_string(&self.cat_method).unwrap_or_default();
            return Err(Error::parameter(
                "order_by",
                format!("it counts only under cat_method=\"ctr\", not {name}, and under boosting=\"ordered\""),
            ));
        }
        if self.permutations != 1 && self.permutations != Self::PERMUTATIONS {
            return Err(Error::parameter("permutations", "there is only one order with `order_by`"));
        }
        Ok(())
    }

    /// Returns whether the outputs of a loss share one tree in each round.
    ///
    /// # Errors
    /// For monotone constraints, which a tree of several values a leaf can't keep to.
    pub fn shares_trees(&self, loss: &dyn Loss) -> Result<bool> {
        let standard = if loss.has_targets() { MultiStrategy::OneTree } else { MultiStrategy::TreeEach };
        let shares = loss.outputs() > 1 && self.multi_strategy.unwrap_or(standard) == MultiStrategy::OneTree;
        if shares && self.monotone.values().any(|direction| *direction != 0) {
            let text = "one tree for several outputs has no direction: give each a tree of its own, by multi_strategy=\"tree_each\"";
            return Err(Error::parameter("monotone", text));
        }
        Ok(shares)
    }

    /// Adds what is wrong with `targets`.
    fn check_targets(&self, problems: &mut Problems) {
        let Some(names) = &self.targets else { return };
        let distinct = names.iter().collect::<std::collections::BTreeSet<_>>().len() == names.len();
        let fits = (1..=MOST_TARGETS).contains(&names.len()) && distinct;
        problems.check(fits, "targets", names.len(), "1 to 10,000 different names");
    }

    /// Adds what is wrong with `alpha`.
    fn check_alpha(&self, problems: &mut Problems) {
        let levels = match &self.alpha {
            Alpha::One(level) => return problems.limit("alpha", Some(*level), Inside(0.0, 1.0)),
            Alpha::Several(levels) => levels,
        };
        let fits = (1..=Alpha::MOST).contains(&levels.len()) && levels.iter().all(|level| *level > 0.0 && *level < 1.0);
        problems.check(fits, "alpha", levels, "a list of 1 to 1,000 numbers inside (0, 1)");
        problems.check(!fits || levels.windows(2).all(|pair| pair[0] < pair[1]), "alpha", levels, "ascending");
        if self.loss != LossKind::Quantile {
            problems.add(Error::parameter("alpha", "several are for loss=\"quantile\" alone; name one"));
        }
    }

    /// Whether the training rows are measured.
    pub fn measures_training(&self) -> bool {
        self.eval_train == Some(true)
    }

    /// Adds what is wrong with `metric`.
    fn check_metric(&self, problems: &mut Problems) {
        let Some(Metrics::Several(several)) = &self.metric else { return };
        if several.is_empty() || several.len() > Metrics::MOST {
            let text = format!("a list of {} metrics; name 1 to {}, or leave it out", several.len(), Metrics::MOST);
            problems.add(Error::parameter("metric", text));
        }
        let names: Vec<String> = several.iter().map(MetricSpec::to_string).collect();
        if let Some(again) = (1..names.len()).find(|i| names[..*i].contains(&names[*i])) {
            problems.add(Error::parameter("metric", format!("\"{}\" is named twice", names[again])));
        }
        let own = several.iter().filter(|metric| metric.formulas().is_some()).count();
        problems.check(own <= Metrics::MOST_OWN, "metric", own, &format!("at most {} metrics of your own", Metrics::MOST_OWN));
    }

    /// By more than how much a metric must improve to count as better.
    pub fn min_delta(&self) -> f64 {
        self.early_stopping_min_delta.unwrap_or(0.0)
    }

    /// Adds what is wrong with `early_stopping_min_delta`.
    fn check_min_delta(&self, problems: &mut Problems) {
        problems.limit("early_stopping_min_delta", self.early_stopping_min_delta, NotNegative);
        if self.early_stopping_min_delta.is_some() && self.early_stopping.is_none() {
            problems
                .add(Error::parameter("early_stopping_min_delta", "counts only beside `early_stopping`, which says after how many rounds"));
        }
    }

    /// Adds what is wrong with `focal_gamma`.
    fn check_focal_gamma(&self, problems: &mut Problems) {
        if let Some(gamma) = self.focal_gamma {
            problems.check((0.0..=100.0).contains(&gamma), "focal_gamma", gamma, "between 0 and 100");
        }
    }

    /// Adds what is wrong with `position_factors`.
    fn check_position_factors(&self, problems: &mut Problems) {
        if let Some(found) = &self.position_factors {
            found.check(problems);
        }
    }

    /// Adds what is wrong with `aft_scale`.
    fn check_aft_scale(&self, problems: &mut Problems) {
        if let Some(scale) = self.aft_scale {
            problems.check((1e-6..=1e6).contains(&scale), "aft_scale", scale, "between 1e-6 and 1e6");
        }
    }

    /// Adds what is wrong with `row_fraction`.
    fn check_row_fraction(&self, problems: &mut Problems) {
        if self.row_fraction.is_some() && matches!(self.row_sample, RowSample::None | RowSample::Bayesian) {
            problems.add(Error::parameter("row_fraction", "needs row_sample=\"bernoulli\", \"goss\" or \"mvs\""));
        }
        problems.limit("row_fraction", self.row_fraction, Share);
    }

    /// Adds what is wrong with `bagging_temperature`.
    fn check_bagging_temperature(&self, problems: &mut Problems) {
        let Some(temperature) = self.bagging_temperature else { return };
        if self.row_sample != RowSample::Bayesian {
            problems.add(Error::parameter("bagging_temperature", "needs row_sample=\"bayesian\""));
        }
        problems.check((0.0..=10.0).contains(&temperature), "bagging_temperature", temperature, "between 0 and 10");
    }

    /// Adds what is wrong with `feature_fraction_node`.
    fn check_feature_fraction_node(&self, problems: &mut Problems) {
        problems.limit("feature_fraction_node", Some(self.feature_fraction_node), Share);
        if self.policy == Policy::Symmetric && self.feature_fraction_node != 1.0 {
            let text = "a symmetric tree has one split a level: use feature_fraction_level, or policy=\"depthwise\" or \"leafwise\"";
            problems.add(Error::parameter("feature_fraction_node", text));
        }
    }

    /// Adds what is wrong with `bins`.
    fn check_bins(&self, problems: &mut Problems) {
        self.bins.check(problems);
    }

    /// Adds what is wrong with `monotone`.
    fn check_monotone(&self, problems: &mut Problems) {
        for (name, direction) in &self.monotone {
            if !(-1..=1).contains(direction) {
                problems.add(Error::parameter("monotone", format!("{direction} for `{name}` is not -1, 0 or 1")));
            }
        }
    }

    /// Adds what is wrong with `feature_weights`.
    fn check_feature_weights(&self, problems: &mut Problems) {
        for (name, weight) in self.feature_weights.iter().flatten() {
            if !weight.is_finite() || *weight < 0.0 {
                problems.add(Error::parameter("feature_weights", format!("{weight} for `{name}` is not zero or a positive number")));
            }
        }
    }

    /// Adds what is wrong with `cat_method`.
    fn check_cat_method(&self, problems: &mut Problems) {
        if self.cat_method == CatMethod::Partition && self.policy == Policy::Symmetric {
            let text = "\"partition\" divides each node by a subset of its own: use policy=\"depthwise\" or \"leafwise\"";
            problems.add(Error::parameter("cat_method", text));
        }
    }

    /// Adds what is wrong with `ctr`.
    fn check_ctr(&self, problems: &mut Problems) {
        let Some(kinds) = &self.ctr else { return };
        if kinds.is_empty() {
            problems.add(Error::parameter("ctr", "an empty list; name at least one statistic, or leave it out"));
        }
        if let Some(again) = (1..kinds.len()).find(|i| kinds[..*i].contains(&kinds[*i])) {
            let name = serde_json::to_string(&kinds[again]).unwrap_or_default();
            problems.add(Error::parameter("ctr", format!("{name} is named twice")));
        }
    }

    /// Adds what is wrong with `ctr_priors`.
    fn check_ctr_priors(&self, problems: &mut Problems) {
        let priors = &self.ctr_priors;
        problems.check((1..=16).contains(&priors.len()), "ctr_priors", priors, "a list of 1 to 16 numbers");
        let fit = priors.iter().all(|p| p.is_finite() && *p >= 0.0);
        problems.check(fit, "ctr_priors", priors, "a list of numbers that are zero or positive");
    }

    /// Adds what does not go with a loss that is named; what follows from the target is found by the fit.
    fn check_loss(&self, problems: &mut Problems) {
        match (&self.custom_loss, self.loss == LossKind::Custom) {
            (Some(custom), true) => problems.take(custom.compile().map(drop)),
            (None, true) => problems.take(crate::losses::loss(self.loss, &LossParams::default(), 2, 1.0).map(drop)),
            (Some(_), false) => problems.add(Error::parameter("custom_loss", "goes with loss=\"custom\" alone")),
            (None, false) => {}
        }
        let metrics = self.metric.as_ref().map_or(&[][..], Metrics::all);
        if metrics.iter().any(MetricSpec::is_mean_loss) && self.loss != LossKind::Custom {
            problems.add(Error::parameter("metric", "\"custom\" is the mean of a loss of your own, and this one is not"));
        }
        if matches!(self.loss, LossKind::Auto) {
            return;
        }
        let name = self.loss.name();
        if self.class_weight != ClassWeight::None && !self.loss.is_for_classes() {
            problems.add(Error::parameter("class_weight", format!("loss=\"{name}\" has no classes to weigh; give rows a `weight`")));
        }
        let params = self.loss_params();
        let Ok(loss) = crate::losses::loss(self.loss, &params, 2, 1.0) else { return };
        if self.leaf_iterations() > 1 && loss.leaf_rule(0) != LeafRule::Newton {
            let text = format!("loss=\"{name}\" gives leaves the quantile of their rows' residuals, which takes no steps: leave it out");
            problems.add(Error::parameter("leaf_iterations", text));
        }
        problems.take(super::ordered::check(self, loss.as_ref(), name));
        for metric in metrics.iter().filter(|metric| !metric.fits(loss.link(), &params)) {
            let fitting = metric_names(|m| m.fits(loss.link()));
            let text = format!("\"{metric}\" can't be measured on the predictions of loss=\"{name}\"; {fitting} can");
            problems.add(Error::parameter("metric", text));
        }
    }

    /// Adds what is told of losses and metrics that are not asked for. What a model says of any loss may be told again.
    fn check_is_read(&self, problems: &mut Problems) {
        use LossKind::{Aft, Expectile, Focal, Huber, Quantile, Tweedie};
        let (given, standard) = (self.loss_params(), LossParams::default());
        let own = [
            ("alpha", given.alpha != standard.alpha, &[Quantile, Expectile][..], &[MetricKind::Quantile, MetricKind::Expectile][..]),
            ("huber_delta", given.huber_delta != standard.huber_delta, &[Huber], &[MetricKind::Huber]),
            ("tweedie_power", given.tweedie_power != standard.tweedie_power, &[Tweedie], &[MetricKind::Tweedie]),
            ("focal_gamma", self.focal_gamma.is_some(), &[Focal], &[MetricKind::Focal]),
            ("focal_alpha", self.focal_alpha.is_some(), &[Focal], &[MetricKind::Focal]),
            ("aft_distribution", self.aft_distribution.is_some(), &[Aft], &[]),
            ("aft_scale", self.aft_scale.is_some(), &[Aft], &[]),
        ];
        let metrics = self.metric.as_ref().map_or(&[][..], Metrics::all);
        for (name, is_given, losses, kinds) in own {
            let is_read = losses.contains(&self.loss) || kinds.iter().any(|kind| metrics.iter().any(|metric| metric.is_plain(*kind)));
            if is_given && !is_read {
                let losses = losses.iter().map(|loss| format!("loss=\"{}\"", loss.name()));
                let metrics = kinds.iter().map(|kind| format!("metric=\"{}\"", kind.name()));
                let all: Vec<String> = losses.chain(metrics).collect();
                problems.add(Error::parameter(name, format!("counts only under {}", all.join(", "))));
            }
        }
        let of_ranks = [
            ("rank_truncation", self.rank_truncation.is_some()),
            ("rank_normalize", self.rank_normalize.is_some()),
            ("rank_orders", self.rank_orders.is_some()),
            ("rank_decay", self.rank_decay.is_some()),
            ("rank_position_l2", self.rank_position_l2.is_some()),
        ];
        for (name, _) in of_ranks.into_iter().filter(|(_, is_given)| *is_given && !self.loss.reads_groups()) {
            problems.add(Error::parameter(name, "counts only under losses that rank the rows of a `group`"));
        }
    }

    /// What makes a split good and allowed.
    pub fn split_params(&self) -> SplitParams {
        SplitParams {
            l1: self.l1,
            l2: self.l2,
            min_child_weight: self.min_child_weight(),
            min_data_in_leaf: self.min_data_in_leaf as i64,
            min_gain: self.min_gain,
            max_delta_step: self.max_delta_step.unwrap_or(f64::INFINITY),
            path_smooth: self.path_smooth.unwrap_or(0.0),
            categories: CategoryRules { smooth: self.cat_smooth, l2: self.cat_l2, most: self.max_cat_threshold },
        }
    }

    /// How much noise is on scores, where there is any.
    pub fn random_strength(&self) -> Option<f64> {
        self.random_strength.filter(|strength| *strength > 0.0)
    }

    /// The Newton steps that a leaf's value is made of.
    pub fn leaf_iterations(&self) -> u32 {
        self.leaf_iterations.unwrap_or(1)
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
            RowSample::None | RowSample::Bayesian => 1.0,
            RowSample::Goss => self.row_fraction.unwrap_or(0.3),
            RowSample::Bernoulli | RowSample::Mvs => self.row_fraction.unwrap_or(0.8),
        }
    }

    /// How rows are drawn for each tree; a sample of all rows, each of which counts 1, is none.
    pub fn row_sampling(&self) -> RowSampling {
        let (fraction, temperature) = (self.row_fraction(), self.bagging_temperature.unwrap_or(1.0));
        let draws = if self.row_sample == RowSample::Bayesian { temperature > 0.0 } else { fraction < 1.0 };
        let sample = if draws { self.row_sample } else { RowSample::None };
        RowSampling { sample, fraction, temperature, l2: self.l2.min(f32::MAX as f64) as f32 }
    }
}
