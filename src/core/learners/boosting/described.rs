//! The parameters of a fit as its receipt describes them.

use super::dropout::{DROP_RATE, MAX_DROP, SKIP_DROP};
use super::params::{BoostingParams, MultiStrategy};
use super::untold_rounds::LEARNING_RATE;
use crate::params::unless;

impl BoostingParams {
    /// Returns the parameters as a receipt describes them: what is told as it would be where it is not told counts as not told. What a fit finds in its
    /// table where it is not told (`rounds`, and with them `multi_strategy`, `huber_delta`, `loss`, `metric`, `ctr`) stays as it is.
    ///
    /// ```
    /// use serde_json::json;
    /// use taiga_core::learners::boosting::BoostingParams;
    /// let described = |told| BoostingParams::from_json(&told).unwrap().described();
    /// let of = |told| described(told) == described(json!({ "rounds": 9 }));
    /// assert!(of(json!({ "rounds": 9, "learning_rate": 0.1, "depth": 6, "boosting": "gbdt" })));
    /// assert!(!of(json!({ "rounds": 9, "depth": 5 })) && !of(json!({})));
    /// ```
    pub fn described(&self) -> BoostingParams {
        let standard = BoostingParams::default().loss_params();
        let untold = BoostingParams { depth: None, leaves: None, min_child_weight: None, row_fraction: None, ..self.clone() };
        let of_targets = if self.targets.is_some() { MultiStrategy::OneTree } else { MultiStrategy::TreeEach };
        BoostingParams {
            rounds: self.rounds,
            // A fit that finds its rounds has a rate of its own.
            learning_rate: self.learning_rate.filter(|rate| self.rounds.is_none() || *rate != LEARNING_RATE),
            // Nor is it told there which trees several classes get.
            multi_strategy: self.multi_strategy.filter(|told| self.rounds.is_none() || *told != of_targets),
            huber_delta: self.huber_delta,
            focal_gamma: unless(self.focal_gamma, standard.focal.gamma),
            rank_normalize: unless(self.rank_normalize, standard.rank_normalize),
            rank_orders: unless(self.rank_orders, standard.rank_orders),
            rank_decay: unless(self.rank_decay, standard.rank_decay),
            rank_position_l2: unless(self.rank_position_l2, 0.0),
            aft_distribution: unless(self.aft_distribution, standard.aft.distribution),
            aft_scale: unless(self.aft_scale, standard.aft.scale),
            drop_rate: unless(self.drop_rate, DROP_RATE),
            max_drop: unless(self.max_drop, MAX_DROP),
            skip_drop: unless(self.skip_drop, SKIP_DROP),
            normalize: unless(self.normalize, Default::default()),
            depth: unless(self.depth, untold.depth()),
            leaves: unless(self.leaves, untold.leaves()),
            min_child_weight: unless(self.min_child_weight, untold.min_child_weight()),
            path_smooth: unless(self.path_smooth, 0.0),
            random_strength: self.random_strength(),
            linear_l2: unless(self.linear_l2, 0.0),
            row_fraction: unless(self.row_fraction, untold.row_fraction()),
            bagging_temperature: unless(self.bagging_temperature, 1.0),
            early_stopping_min_delta: unless(self.early_stopping_min_delta, 0.0),
            ..self.kept()
        }
    }
}
