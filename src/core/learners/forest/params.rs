//! The parameters of random forests: the one place where they, their defaults and their limits live.

use crate::column::{Column, FeatureType};
use crate::dataset::checks::not_numeric;
use crate::dataset::coded::FeatureBorders;
use crate::dataset::shared_params::learner_params;
use crate::dataset::{Bins, ClassWeight};
use crate::error::{Error, Result};
use crate::params::limits::By;
use crate::params::limits::Limit::{AtLeast, Between, NotNegative};
use crate::params::{Problems, unless};
use crate::quantize::BorderMethod;
use crate::quantize::borders::BorderParams;
use serde::{Deserialize, Serialize};

/// What a split lowers, as scikit-learn defines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// By the target: `gini` for classes, `squared_error` for numbers.
    #[default]
    Auto,
    /// The chance that two rows of a node, drawn with replacement, are of different classes.
    Gini,
    /// Shannon's entropy of a node's classes, in bits.
    Entropy,
    /// The variance of a node's targets.
    SquaredError,
    /// Half the mean Poisson deviance of a node's targets from their mean; targets are not negative.
    Poisson,
}

/// Which borders a split chooses from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Splitter {
    /// The borders of at most `bins` bins a feature, fitted once. Takes categorical columns too, which divide a
    /// node by subsets of their categories.
    #[default]
    Histogram,
    /// Halfway between any two neighbouring values of a node, as scikit-learn's `best`.
    Exact,
    /// One border for each feature drawn, uniform between the smallest and the largest value of the
    /// node (Geurts, Ernst and Wehenkel, "Extremely randomized trees", 2006).
    Random,
}

/// A number of features that depends on how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureRule {
    /// The square root, rounded down.
    Sqrt,
    /// The binary logarithm, rounded down.
    Log2,
    All,
}

/// How many features are drawn at a node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"sqrt\", \"log2\", \"all\", a number of features, or a share of them as a float")]
pub enum MaxFeatures {
    Rule(FeatureRule),
    Count(u32),
    /// Inside (0, 1].
    Fraction(f64),
}

impl MaxFeatures {
    /// The number of `features` that are drawn: at least one.
    pub fn of(self, features: usize) -> usize {
        let count = match self {
            MaxFeatures::Rule(FeatureRule::Sqrt) => features.isqrt(),
            MaxFeatures::Rule(FeatureRule::Log2) => features.max(1).ilog2() as usize,
            MaxFeatures::Rule(FeatureRule::All) => features,
            MaxFeatures::Count(count) => count as usize,
            MaxFeatures::Fraction(share) => (share * features as f64) as usize,
        };
        count.clamp(1, features.max(1))
    }
}

/// How rows are drawn for each tree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected true, false, or a share of the rows as a float")]
pub enum Bootstrap {
    /// As many rows as there are, with replacement; `false`: every row once.
    Flag(bool),
    /// This share of the rows, with replacement; inside (0, 1].
    Fraction(f64),
}

impl Bootstrap {
    /// How many times a row is drawn for a tree; none where every row counts once.
    pub fn draws(self, rows: usize) -> Option<usize> {
        match self {
            Bootstrap::Flag(false) => None,
            Bootstrap::Flag(true) => Some(rows),
            Bootstrap::Fraction(share) => Some(((share * rows as f64).round() as usize).clamp(1, rows.max(1))),
        }
    }
}
learner_params! {
    /// Parameters of [`super::fit()`].
    ///
    /// ```
    /// use taiga_core::learners::forest::ForestParams;
    /// use taiga_core::learners::forest::params::{FeatureRule, MaxFeatures};
    /// let params = ForestParams::from_json(&serde_json::json!({"trees": 50, "max_features": "log2"})).unwrap();
    /// assert_eq!(params.max_features, Some(MaxFeatures::Rule(FeatureRule::Log2)));
    /// let error = ForestParams::from_json(&serde_json::json!({"max_feature": 3})).unwrap_err();
    /// assert_eq!(error.to_string(), "there is no parameter `max_feature`; did you mean `max_features`?");
    /// ```
    pub struct ForestParams {
        /// The number of trees.
        pub trees: u32 = 100 => Between(1, 1_000_000),
        /// What splits lower.
        pub criterion: Criterion = Criterion::Auto,
        /// Which borders splits choose from.
        pub splitter: Splitter = Splitter::Histogram,
        /// The largest depth of a tree; without limit unless told otherwise.
        pub depth: Option<u32> = None => AtLeast(1),
        /// The largest number of leaves of a tree: nodes with the largest gain are split first. Without
        /// limit unless told otherwise.
        pub leaves: Option<u32> = None => AtLeast(2),
        /// The number of features drawn at each node, among which the best split is sought; more only
        /// while all drawn ones are constant in the node. Unless told otherwise `"sqrt"` for classes and
        /// `"all"` for numbers.
        pub max_features: Option<MaxFeatures> = None => By(Self::check_max_features),
        /// How rows are drawn for each tree.
        pub bootstrap: Bootstrap = Bootstrap::Flag(true) => By(Self::check_bootstrap),

        /// The largest number of bins a feature, 2 to 256, or those of features by name, as of boosted trees; counts only under `histogram`.
        pub bins: Bins = Bins::Same(Bins::DEFAULT) => By(|params: &Self, problems| params.bins.check(problems)),
        /// How borders are chosen; counts only under `histogram`.
        pub border_method: BorderMethod = BorderMethod::Quantile,
        /// The number of rows that borders are fitted on; counts only under `histogram`.
        pub border_sample: u64 = 200_000 => AtLeast(2),

        /// The smallest number of rows in a child; a row drawn twice counts twice.
        pub min_data_in_leaf: u32 = 1 => AtLeast(1),
        /// The smallest gain of a split: by how much it lowers the impurity of all rows of the tree
        /// (scikit-learn's `min_impurity_decrease`).
        pub min_gain: f64 = 0.0 => NotNegative,

        pub categorical,
        /// Class weights.
        pub class_weight: ClassWeight = ClassWeight::None => By(Self::check_class_weight),
        pub positive,

        /// Whether rows are predicted by the trees they were not drawn for, and how well; unless told
        /// otherwise wherever there is a bootstrap.
        pub oob: Option<bool> = None => By(Self::check_oob),
        /// Whether the loss of accuracy by shuffling each feature is measured on each tree's rows that
        /// were not drawn (Breiman, 2001).
        pub permutation_importance: bool = false => By(Self::check_permutation_importance),

        pub seed,
        pub n_threads,
        pub devices,
    }
    local { n_threads, device }
    held_out {}
    together {}
    called {}
}

impl ForestParams {
    /// Checks what is said of classes against a target that has some, or has none.
    ///
    /// # Errors
    /// [`Error::Parameter`] naming the parameter.
    pub fn check_target(&self, classes: bool) -> Result<()> {
        if classes {
            return Ok(());
        }
        if self.class_weight != ClassWeight::None {
            let text = "there are no classes to weigh; the target is numeric, so criterion=\"auto\" is a regression: criterion=\"gini\" \
                        makes its values classes";
            return Err(Error::parameter("class_weight", text));
        }
        self.positive.as_ref().map_or(Ok(()), |positive| Err(not_numeric(positive, "criterion=\"gini\"")))
    }

    /// Checks what is said of columns against those that there are.
    ///
    /// # Errors
    /// [`Error::Parameter`] naming the parameter and the column.
    pub fn check_features(&self, features: &[(&str, &FeatureType)]) -> Result<()> {
        self.bins.check_names(features)
    }

    /// Returns the parameters as a model keeps them.
    pub fn kept(&self) -> Self {
        ForestParams { bins: self.bins.kept(), ..self.recorded() }
    }

    /// Returns the parameters as a receipt describes them: what is told as it would be where it is not told counts as not told. `max_features`, whose
    /// default depends on the target, stays as it is.
    pub fn described(&self) -> Self {
        let untold = ForestParams { oob: None, ..self.clone() };
        ForestParams { oob: unless(self.oob, untold.oob()), ..self.kept() }
    }

    /// How borders of a table's features are found.
    pub fn border_params(&self, features: &[Column<'_>]) -> FeatureBorders {
        let sample = usize::try_from(self.border_sample).unwrap_or(usize::MAX);
        let common = BorderParams { bins: self.bins.common() as usize, method: self.border_method, sample, seed: self.seed };
        self.bins.borders(common, features)
    }

    /// Adds what is wrong with `max_features`.
    fn check_max_features(&self, problems: &mut Problems) {
        match self.max_features {
            Some(MaxFeatures::Count(count)) => problems.limit("max_features", Some(count), AtLeast(1)),
            Some(MaxFeatures::Fraction(f)) => {
                problems.check(f > 0.0 && f <= 1.0, "max_features", f, "inside (0, 1] (a float is a share of the features)")
            }
            Some(MaxFeatures::Rule(_)) | None => {}
        }
    }

    /// Adds what is wrong with `bootstrap`.
    fn check_bootstrap(&self, problems: &mut Problems) {
        if let Bootstrap::Fraction(f) = self.bootstrap {
            problems.check(f > 0.0 && f <= 1.0, "bootstrap", f, "True, False, or inside (0, 1]");
        }
    }

    /// Adds what is wrong with `class_weight`.
    fn check_class_weight(&self, problems: &mut Problems) {
        problems.take(self.class_weight.validate());
        if let (Criterion::SquaredError | Criterion::Poisson, false) = (self.criterion, self.class_weight == ClassWeight::None) {
            let criterion = if self.criterion == Criterion::Poisson { "poisson" } else { "squared_error" };
            let text = format!("criterion=\"{criterion}\" has no classes to weigh; give rows a `weight`");
            problems.add(Error::parameter("class_weight", text));
        }
    }

    /// Adds what is wrong with `oob`.
    fn check_oob(&self, problems: &mut Problems) {
        if self.oob == Some(true) {
            self.check_out_of_bag("oob", problems);
        }
    }

    /// Adds what is wrong with `permutation_importance`.
    fn check_permutation_importance(&self, problems: &mut Problems) {
        if self.permutation_importance {
            self.check_out_of_bag("permutation_importance", problems);
        }
    }

    /// Adds that there are no rows out of bag, where there are none, for a parameter that needs some.
    fn check_out_of_bag(&self, name: &str, problems: &mut Problems) {
        if self.bootstrap == Bootstrap::Flag(false) {
            problems.add(Error::parameter(name, "with bootstrap=False every tree sees every row: there are none out of bag"));
        }
    }

    /// Whether rows are predicted out of bag.
    pub fn oob(&self) -> bool {
        self.oob.unwrap_or(self.bootstrap != Bootstrap::Flag(false))
    }

    /// The number of `features` drawn at a node; `classes`: the target is one of classes.
    pub fn features_drawn(&self, features: usize, classes: bool) -> usize {
        let standard = if classes { FeatureRule::Sqrt } else { FeatureRule::All };
        self.max_features.unwrap_or(MaxFeatures::Rule(standard)).of(features)
    }
}
