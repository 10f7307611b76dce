//! The parameters of sparse logistic regression: the one place where they, their defaults and their limits live.

use crate::dataset::ClassWeight;
use crate::dataset::labels::Label;
use crate::error::{Error, Result};
use crate::metrics::MetricKind;
use crate::params::{Problems, from_json, to_json};
use serde::{Deserialize, Serialize};

/// How the objective is lowered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// All rows at once: L-BFGS (Liu and Nocedal 1989) with a line search on the margins, and OWL-QN
    /// (Andrew and Gao, "Scalable Training of L1-Regularized Log-Linear Models", 2007) where `l1` > 0.
    #[default]
    Lbfgs,
    /// Stochastic gradient descent on batches of rows.
    Sgd,
    /// Steps by each coefficient's own past gradients (Duchi, Hazan and Singer, "Adaptive Subgradient Methods", 2011).
    Adagrad,
    /// Follow the regularised leader (McMahan et al., "Ad Click Prediction: a View from the Trenches", 2013): zeros are zeros.
    Ftrl,
}

/// The bits of a hash of strings where nobody said.
pub const HASH_BITS: u32 = 20;

/// The largest number of features that strings are hashed into, as bits.
pub const MAX_HASH_BITS: u32 = 30;

/// The most rows a batch may have.
pub const MAX_BATCH: u32 = 1 << 20;

/// Parameters of [`super::fit`].
///
/// What is lowered, over the training rows `i` with weights `w_i` and coefficients `c` (the intercepts not among them):
///
/// ```text
/// Σ w_i loss_i / Σ w_i  +  l2/2 · Σ c²  +  l1 · Σ |c|        loss_i = -ln p(class of i)
/// ```
///
/// scikit-learn's `C` stands before the sum of losses, so `C` there is `l2 = 1 / (C Σ w)` here, and with
/// `penalty="l1"` `l1 = 1 / (C Σ w)`. Its `SGDClassifier(alpha=)` is `l2 = alpha`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinearParams {
    /// How the objective is lowered.
    pub optimizer: Optimizer,
    /// How many features the sparse rows number from 0; one more than the largest number unless told otherwise.
    pub features: Option<u64>,
    /// Strings are hashed into `2^hash_bits` features; 20 unless told otherwise, 1 to 30.
    pub hash_bits: Option<u32>,

    /// Passes over the rows: iterations at most for `lbfgs` (100 unless told otherwise), epochs for the others (5).
    pub epochs: Option<u32>,
    /// The rows of a batch for all but `lbfgs`; 32 for `sgd` unless told otherwise, else 1,024.
    pub batch: Option<u32>,
    /// The step size for all but `lbfgs`: of one row's gradient for `sgd`, of a coefficient's adaptive step for the others.
    /// 0.1 unless told otherwise.
    pub learning_rate: Option<f64>,
    /// How much of Σ |c| the objective has.
    pub l1: f64,
    /// How much of Σ c² / 2 the objective has; one over the training rows' total weight unless told otherwise, which is
    /// scikit-learn's C = 1 (and 0 where `l1` is given).
    pub l2: Option<f64>,
    /// Whether there is an intercept. It is not penalised.
    pub fit_intercept: bool,
    /// `lbfgs` ends once the gradient's length is this share of what it was at the start; 1e-4 unless told otherwise.
    pub tolerance: Option<f64>,

    /// Class weights.
    pub class_weight: ClassWeight,
    /// Of two classes, the one whose probability is predicted; whoever makes the target puts it last
    /// ([`Labels::with_positive`](crate::dataset::labels::Labels::with_positive)). The last one unless told otherwise.
    pub positive: Option<Label>,
    /// What is measured on held-out rows: `logloss`, `auc` or `accuracy` of two classes, `multiclass` or `accuracy` of more.
    pub metric: Option<MetricKind>,
    /// Stop after this many passes without a better metric on the held-out rows, and keep the best.
    pub early_stopping: Option<u32>,

    /// The seed of every random choice.
    pub seed: u64,
    /// Threads; as many as Polars uses unless told otherwise. Never changes the model.
    pub n_threads: Option<u32>,
    /// `"auto"` (a GPU where there is one and the work is large enough to gain), `"cpu"`, `"cuda"` or `"cuda:N"`. Never changes the
    /// model.
    pub device: String,
}

impl Default for LinearParams {
    fn default() -> Self {
        LinearParams {
            optimizer: Optimizer::Lbfgs,
            features: None,
            hash_bits: None,
            epochs: None,
            batch: None,
            learning_rate: None,
            l1: 0.0,
            l2: None,
            fit_intercept: true,
            tolerance: None,
            class_weight: ClassWeight::None,
            positive: None,
            metric: None,
            early_stopping: None,
            seed: 0,
            n_threads: None,
            device: "auto".into(),
        }
    }
}

impl LinearParams {
    /// The names of the parameters that say how a fit is done and never change its result, which is why no model keeps them.
    pub const LOCAL: [&str; 2] = ["n_threads", "device"];

    /// Parameters from a JSON object; what it does not name has its default.
    ///
    /// # Errors
    /// [`Error::UnknownParameter`] with what was probably meant, [`Error::Parameter`] for a value of the wrong type or out of
    /// range, [`Error::Several`] for more than one of these: all is told at once.
    ///
    /// ```
    /// use taiga_core::learners::linear::LinearParams;
    /// let params = LinearParams::from_json(&serde_json::json!({"optimizer": "ftrl", "l1": 1e-5})).unwrap();
    /// assert_eq!(params.epochs(), 5);
    /// let error = LinearParams::from_json(&serde_json::json!({"optimiser": "ftrl"})).unwrap_err();
    /// assert_eq!(error.to_string(), "there is no parameter `optimiser`; did you mean `optimizer`?");
    /// ```
    pub fn from_json(value: &serde_json::Value) -> Result<Self> {
        from_json(value, Self::problems)
    }

    /// The parameters as a JSON object, without those that never change the model (`n_threads`, `device`).
    pub fn to_json(&self) -> serde_json::Value {
        to_json(self, &Self::LOCAL)
    }

    /// Checks the parameters of a call, as [`LinearParams::from_json`] does, and that those which need held-out rows come with some.
    ///
    /// # Errors
    /// As [`LinearParams::from_json`].
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

    /// What [`LinearParams::validate`] finds.
    fn problems(&self, problems: &mut Problems) {
        let not_negative = |x: f64| x.is_finite() && x >= 0.0;
        if let Some(features) = self.features {
            problems.check(features >= 1, "features", features, "at least 1");
        }
        if let Some(bits) = self.hash_bits {
            problems.check((1..=MAX_HASH_BITS).contains(&bits), "hash_bits", bits, "between 1 and 30");
        }
        problems.check((1..=1_000_000).contains(&self.epochs()), "epochs", self.epochs(), "between 1 and 1,000,000");
        self.optimizer_problems(problems);
        problems.check((1..=MAX_BATCH).contains(&self.batch()), "batch", self.batch(), "between 1 and 1,048,576");
        let rate = self.learning_rate();
        problems.check(rate.is_finite() && rate > 0.0 && rate <= 1e30, "learning_rate", rate, "a positive number up to 1e30");
        problems.check(not_negative(self.l1), "l1", self.l1, "zero or a positive number");
        if let Some(l2) = self.l2 {
            problems.check(not_negative(l2), "l2", l2, "zero or a positive number");
        }
        problems.check(not_negative(self.tolerance()), "tolerance", self.tolerance(), "zero or a positive number");
        problems.take(self.class_weight.validate());
        if let Some(metric) = self.metric {
            let known = [MetricKind::Logloss, MetricKind::Auc, MetricKind::Accuracy, MetricKind::Multiclass];
            problems.check(known.contains(&metric), "metric", metric.name(), "\"logloss\", \"auc\", \"accuracy\" or \"multiclass\"");
        }
        if let Some(rounds) = self.early_stopping {
            problems.check(rounds >= 1, "early_stopping", rounds, "at least 1");
        }
        problems.check_threads(self.n_threads);
        problems.check_device(&self.device);
    }

    /// Parameters that do not count under the optimizer.
    fn optimizer_problems(&self, problems: &mut Problems) {
        let batches = self.optimizer != Optimizer::Lbfgs;
        for (name, given) in [("batch", self.batch.is_some()), ("learning_rate", self.learning_rate.is_some())] {
            if given && !batches {
                let text = "counts only under optimizer=\"sgd\", \"adagrad\" and \"ftrl\": \"lbfgs\" takes all rows at once";
                problems.add(Error::parameter(name, text));
            }
        }
        if batches && self.tolerance.is_some() {
            let text = "counts only under optimizer=\"lbfgs\"; elsewhere `epochs` and `early_stopping` end a fit";
            problems.add(Error::parameter("tolerance", text));
        }
    }

    /// Passes over the rows.
    pub fn epochs(&self) -> u32 {
        self.epochs.unwrap_or(if self.optimizer == Optimizer::Lbfgs { 100 } else { 5 })
    }

    /// The rows of a batch.
    pub fn batch(&self) -> u32 {
        self.batch.unwrap_or(if self.optimizer == Optimizer::Sgd { 32 } else { 1024 })
    }

    /// The step size.
    pub fn learning_rate(&self) -> f64 {
        self.learning_rate.unwrap_or(0.1)
    }

    /// The share of the first gradient's length at which `lbfgs` ends.
    pub fn tolerance(&self) -> f64 {
        self.tolerance.unwrap_or(1e-4)
    }

    /// `l2` for training rows of this total weight.
    pub fn l2(&self, total_weight: f64) -> f64 {
        self.l2.unwrap_or(if self.l1 > 0.0 { 0.0 } else { 1.0 / total_weight })
    }
}
