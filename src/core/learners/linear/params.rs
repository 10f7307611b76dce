//! The parameters of sparse logistic regression: the one place where they, their defaults and their limits live.

use crate::dataset::shared_params::learner_params;
use crate::device::DeviceSet;
use crate::error::{Error, Result};
use crate::metrics::{MetricKind, listed};
use crate::params::limits::By;
use crate::params::limits::Limit::{AtLeast, Between, NotNegative, PositiveUpTo};
use crate::params::{Problems, unless};
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
learner_params! {
    /// Parameters of [`super::fit`].
    ///
    /// ```
    /// use taiga_core::learners::linear::LinearParams;
    /// let params = LinearParams::from_json(&serde_json::json!({"optimizer": "ftrl", "l1": 1e-5})).unwrap();
    /// assert_eq!(params.epochs(), 5);
    /// let error = LinearParams::from_json(&serde_json::json!({"optimiser": "ftrl"})).unwrap_err();
    /// assert_eq!(error.to_string(), "there is no parameter `optimiser`; did you mean `optimizer`?");
    /// ```
    ///
    /// What is lowered, over the training rows `i` with weights `w_i` and coefficients `c` (the intercepts not among them):
    ///
    /// ```text
    /// Σ w_i loss_i / Σ w_i  +  l2/2 · Σ c²  +  l1 · Σ |c|        loss_i = -ln p(class of i)
    /// ```
    ///
    /// scikit-learn's `C` stands before the sum of losses, so `C` there is `l2 = 1 / (C Σ w)` here, and with
    /// `penalty="l1"` `l1 = 1 / (C Σ w)`. Its `SGDClassifier(alpha=)` is `l2 = alpha`.
    pub struct LinearParams {
        /// How the objective is lowered.
        pub optimizer: Optimizer = Optimizer::Lbfgs,
        /// How many features the sparse rows number from 0; one more than the largest number unless told otherwise.
        pub features: Option<u64> = None => AtLeast(1),
        /// Strings are hashed into `2^hash_bits` features; 20 unless told otherwise, 1 to 30.
        pub hash_bits: Option<u32> = None => Between(1, MAX_HASH_BITS as u64),

        /// Passes over the rows: iterations at most for `lbfgs` (100 unless told otherwise), epochs for the others (5).
        pub epochs: Option<u32> = None => By(Self::check_epochs),
        /// The rows of a batch for all but `lbfgs`; 32 for `sgd` unless told otherwise, else 1,024.
        pub batch: Option<u32> = None => Between(1, MAX_BATCH as u64),
        /// The step size for all but `lbfgs`: of one row's gradient for `sgd`, of a coefficient's adaptive step for the others.
        /// 0.1 unless told otherwise.
        pub learning_rate: Option<f64> = None => PositiveUpTo(1e30),
        /// How much of Σ |c| the objective has.
        pub l1: f64 = 0.0 => NotNegative,
        /// How much of Σ c² / 2 the objective has; one over the training rows' total weight unless told otherwise, which is
        /// scikit-learn's C = 1 (and 0 where `l1` is given).
        pub l2: Option<f64> = None => NotNegative,
        /// Whether there is an intercept. It is not penalised.
        pub fit_intercept: bool = true,
        /// `lbfgs` ends once the gradient's length is this share of what it was at the start; 1e-4 unless told otherwise.
        pub tolerance: Option<f64> = None => NotNegative,

        pub class_weight,
        pub positive,
        /// What is measured on held-out rows: `logloss`, `auc` or `accuracy` of two classes, `multiclass` or `accuracy` of more.
        pub metric: Option<MetricKind> = None => By(Self::check_metric),
        /// Stop after this many passes without a better metric on the held-out rows, and keep the best.
        pub early_stopping: Option<u32> = None => AtLeast(1),

        pub seed,
        pub n_threads,
        pub devices,
    }
    local { n_threads, device }
    held_out { early_stopping, metric }
    together {}
    called {}
}

impl LinearParams {
    /// Adds what is wrong with `epochs`, and what does not count under the optimizer.
    fn check_epochs(&self, problems: &mut Problems) {
        problems.limit("epochs", self.epochs, Between(1, 1_000_000));
        self.check_optimizer(problems);
    }

    /// Adds what is wrong with `metric`.
    fn check_metric(&self, problems: &mut Problems) {
        if let Some(metric) = self.metric {
            let known = MetricKind::ALL.iter().copied().filter(|metric| metric.is_of_classes());
            problems.check(metric.is_of_classes(), "metric", metric.name(), &listed(known, "or"));
        }
    }

    /// Adds the parameters that do not count under the optimizer.
    fn check_optimizer(&self, problems: &mut Problems) {
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
        if let (true, Ok(devices)) = (batches, DeviceSet::parse(&self.device)) {
            problems.take(devices.at_most_one().map(drop));
        }
    }

    /// Checks that a fit can be made of rows in several processes.
    ///
    /// # Errors
    /// Naming `optimizer`, where it takes rows one batch after the other.
    ///
    /// ```
    /// use taiga_core::learners::linear::{LinearParams, Optimizer};
    /// assert!(LinearParams::default().check_together().is_ok());
    /// assert!(LinearParams { optimizer: Optimizer::Sgd, ..Default::default() }.check_together().is_err());
    /// ```
    pub fn check_together(&self) -> Result<()> {
        let name = match self.optimizer {
            Optimizer::Lbfgs => return Ok(()),
            Optimizer::Sgd => "sgd",
            Optimizer::Adagrad => "adagrad",
            Optimizer::Ftrl => "ftrl",
        };
        let text = format!(
            "\"{name}\" takes one batch of rows after the other, each from the coefficients that the one before has left, so processes would wait \
             for each other at every batch: with `collective` use \"lbfgs\", which takes all rows at once"
        );
        Err(Error::parameter("optimizer", text))
    }

    /// Returns the parameters as a model keeps and a receipt describes them: what is told as it would be where it is not told counts as not told. `l2`, whose default
    /// depends on the rows' weights, and `metric`, on the target, stay as they are.
    pub fn described(&self) -> Self {
        let untold = LinearParams { epochs: None, batch: None, learning_rate: None, tolerance: None, ..self.clone() };
        LinearParams {
            hash_bits: unless(self.hash_bits, HASH_BITS),
            epochs: unless(self.epochs, untold.epochs()),
            batch: unless(self.batch, untold.batch()),
            learning_rate: unless(self.learning_rate, untold.learning_rate()),
            tolerance: unless(self.tolerance, untold.tolerance()),
            ..self.recorded()
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
