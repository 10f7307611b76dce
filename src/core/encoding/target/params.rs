//! The parameters of target encoding.

use crate::error::Result;
use crate::params::{Problems, from_json};
use serde::{Deserialize, Serialize};

/// Which rows of its category count for a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncodingKind {
    /// The rows before it in an order: a random one, or a given one.
    #[default]
    Ordered,
    /// The rows of the other folds.
    Kfold,
    /// All but itself.
    Loo,
    /// All.
    Full,
}

/// How many rows the prior counts for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PriorWeight {
    Fixed(f64),
    /// By empirical Bayes, for each category, as scikit-learn's `smooth="auto"`.
    Named(Auto),
}

/// `"auto"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auto {
    Auto,
}

/// Parameters of [`target_encode`](super::target_encode).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TargetParams {
    pub kind: EncodingKind,
    /// The prior; the target's mean unless told otherwise.
    pub prior: Option<f64>,
    /// How many rows the prior counts for.
    pub prior_weight: PriorWeight,
    /// Orders that are averaged over, under `ordered`.
    pub permutations: u32,
    /// The number of folds under `kfold`, unless they are given.
    pub folds: u32,
    /// The seed of orders and folds.
    pub seed: u64,
}

impl Default for TargetParams {
    fn default() -> Self {
        TargetParams { kind: EncodingKind::Ordered, prior: None, prior_weight: PriorWeight::Fixed(1.0), permutations: 1, folds: 5, seed: 0 }
    }
}

impl TargetParams {
    /// Parameters from a JSON object; what it does not name has its default.
    ///
    /// # Errors
    /// [`Error::UnknownParameter`](crate::Error::UnknownParameter), [`Error::Parameter`](crate::Error::Parameter) and
    /// [`Error::Several`](crate::Error::Several), naming the parameters.
    ///
    /// ```
    /// use taiga_core::encoding::target::TargetParams;
    /// let params = TargetParams::from_json(&serde_json::json!({"kind": "kfold", "prior_weight": "auto"})).unwrap();
    /// assert_eq!(params.folds, 5);
    /// let error = TargetParams::from_json(&serde_json::json!({"prior_weight": -1})).unwrap_err();
    /// assert_eq!(error.to_string(), "parameter `prior_weight`: -1.0 is not zero or a positive number, or \"auto\"");
    /// ```
    pub fn from_json(value: &serde_json::Value) -> Result<Self> {
        from_json(value, Self::problems)
    }

    /// Checks each parameter.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) naming the parameter, its value and what was expected;
    /// [`Error::Several`](crate::Error::Several) for more than one.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Problems::default();
        self.problems(&mut problems);
        problems.result()
    }

    /// Collects what [`TargetParams::validate`] finds.
    fn problems(&self, problems: &mut Problems) {
        if let Some(prior) = self.prior {
            problems.check(prior.is_finite(), "prior", prior, "a finite number");
        }
        if let PriorWeight::Fixed(weight) = self.prior_weight {
            problems.check(weight.is_finite() && weight >= 0.0, "prior_weight", weight, "zero or a positive number, or \"auto\"");
        }
        problems.check((1..=1000).contains(&self.permutations), "permutations", self.permutations, "between 1 and 1,000");
        problems.check(self.folds >= 2, "folds", self.folds, "at least 2");
    }
}
