//! Dropouts (Rashmi and Gilad-Bachrach, "DART: dropouts meet multiple additive regression trees", 2015; LightGBM's `boosting="dart"`, XGBoost's
//! `booster="dart"`): each tree is fitted to what the others leave but for some that are drawn, and then they are given less weight, so that
//! no early tree decides alone.
//!
//! What is drawn depends on the seed, the round and the trees' weights, which depend on the draws before: never on the rows. So a fit that goes
//! on from a model finds all of it again.
//!
//! A row's score must not depend on which trees have come and gone. So it is the sum of its leaves' values in whole multiples of 2^-32
//! ([`in_steps`]), which f64 adds and subtracts without rounding.

use super::continued::FitOptions;
use super::model::Model;
use super::params::{Boosting, BoostingParams, Normalize};
use crate::dataset::Input;
use crate::error::{Error, Result};
use crate::numerics::random::{Purpose, Random};
use crate::tree::Tree;

/// `drop_rate`, `max_drop` and `skip_drop` where they are not told.
pub const DROP_RATE: f64 = 0.1;
pub const MAX_DROP: u32 = 50;
pub const SKIP_DROP: f64 = 0.5;

/// How trees are dropped, where they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropRules {
    rate: f64,
    most: u32,
    skip: f64,
    uniform: bool,
    one: bool,
    normalize: Normalize,
    learning_rate: f64,
    seed: u64,
}

impl DropRules {
    /// The rules that parameters ask for; none where no tree is ever dropped.
    pub fn of(params: &BoostingParams) -> Option<DropRules> {
        let rules = DropRules {
            rate: params.drop_rate.unwrap_or(DROP_RATE),
            most: params.max_drop.unwrap_or(MAX_DROP),
            skip: params.skip_drop.unwrap_or(SKIP_DROP),
            uniform: params.uniform_drop == Some(true),
            one: params.one_drop == Some(true),
            normalize: params.normalize.unwrap_or_default(),
            learning_rate: params.learning_rate(),
            seed: params.seed,
        };
        let drops = (rules.rate > 0.0 || rules.one) && rules.skip < 1.0;
        (params.boosting == Some(Boosting::Dart) && drops).then_some(rules)
    }

    /// Returns by what the values of a new tree and of the `dropped` ones are multiplied: `(new, dropped)`.
    fn factors(&self, dropped: usize) -> (f64, f64) {
        let (k, rate) = (dropped as f64, self.learning_rate);
        match self.normalize {
            _ if dropped == 0 => (1.0, 1.0),
            Normalize::Paper => (1.0 / (k + 1.0), k / (k + 1.0)),
            Normalize::Tree => (1.0 / (k + rate), k / (k + rate)),
            Normalize::Forest => (1.0 / (1.0 + rate), 1.0 / (1.0 + rate)),
        }
    }
}

/// The trees that a round is grown without.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dropped {
    /// The rounds that they are of, ascending.
    pub rounds: Vec<u32>,
    /// What the values of the new trees are multiplied by, beside the learning rate.
    pub new: f64,
    /// What the values of the dropped ones are multiplied by.
    pub old: f64,
}

/// What is dropped, round after round.
#[derive(Clone, Debug)]
pub struct DropSchedule {
    rules: DropRules,
    /// Of each round that there is.
    weights: Vec<f64>,
}

impl DropSchedule {
    /// Begins behind `rounds` rounds: those of a given model, whose trees have the weights that its own parameters give them, and such as these rules
    /// have drawn since.
    pub fn new(rules: DropRules, before: Option<&Model>, rounds: u32) -> DropSchedule {
        let weights = before.map_or(vec![], |model| match DropRules::of(&model.params) {
            None => vec![model.params.learning_rate(); model.rounds()],
            Some(own) => {
                let mut schedule = DropSchedule { rules: own, weights: vec![] };
                (0..model.rounds()).for_each(|_| drop(schedule.next_round()));
                schedule.weights
            }
        });
        let mut schedule = DropSchedule { rules, weights };
        while schedule.weights.len() < rounds as usize {
            schedule.next_round();
        }
        schedule
    }

    /// Draws what the next round is grown without.
    pub fn next_round(&mut self) -> Dropped {
        let rounds = self.draw();
        let (new, old) = self.rules.factors(rounds.len());
        rounds.iter().for_each(|round| self.weights[*round as usize] *= old);
        self.weights.push(self.rules.learning_rate * new);
        Dropped { rounds, new, old }
    }

    fn draw(&self) -> Vec<u32> {
        let (rules, count) = (&self.rules, self.weights.len());
        let random = Random::new(rules.seed, Purpose::Dropouts, count as u64);
        if count == 0 || random.unit(0) < rules.skip {
            return vec![];
        }
        // So that no more than are allowed are drawn in the mean.
        let rate = rules.rate.min(f64::from(rules.most) / count as f64);
        let sum: f64 = self.weights.iter().sum();
        let relative = |weight: f64| if rules.uniform || sum <= 0.0 { 1.0 } else { weight / sum * count as f64 };
        let mut drawn: Vec<(f64, u32)> = vec![];
        for (round, weight) in (0..).zip(&self.weights) {
            let (number, chance) = (random.unit(1 + u64::from(round)), rate * relative(*weight));
            if number < chance {
                drawn.push((number / chance, round));
            }
        }
        // Of too many those that were drawn most surely.
        drawn.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        drawn.truncate(rules.most as usize);
        let mut rounds: Vec<u32> = drawn.into_iter().map(|(_, round)| round).collect();
        if rounds.is_empty() && rules.one {
            let at = random.child(0).unit(0) * count as f64;
            let mut passed = 0.0;
            let passes = |(_, weight): &(u32, &f64)| {
                passed += relative(**weight);
                passed > at
            };
            rounds.push((0..).zip(&self.weights).find(passes).map_or(count as u32 - 1, |(round, _)| round));
        }
        rounds.sort_unstable();
        rounds
    }
}

/// Returns a leaf's value after its tree has been dropped.
pub fn rescaled(value: f32, factor: f64) -> f32 {
    (f64::from(value) * factor) as f32
}

/// The largest sum of all trees' largest leaves that scores have room for.
const MOST: f64 = (1u64 << 20) as f64;

/// Returns the largest absolute value of a tree's leaves.
pub fn largest_leaf(values: &[f32]) -> f64 {
    values.iter().fold(0.0, |most, value| most.max(f64::from(value.abs())))
}

/// Checks that sums of leaves' values of up to `largest` are exact.
///
/// # Errors
/// [`Error::Data`] where they are not.
pub fn check_sums(largest: f64) -> Result<()> {
    if largest < MOST {
        return Ok(());
    }
    let text = format!(
        "the values of leaves add up to {largest:e}, more than boosting=\"dart\" can take back: raise `l2` or lower `learning_rate`"
    );
    Err(Error::Data(text).of_values())
}

/// Returns a leaf's value as it is added to scores: in whole multiples of 2^-32.
#[inline(always)]
pub fn in_steps(value: f32) -> f64 {
    const STEPS: f64 = (1u64 << 32) as f64;
    libm::rint(f64::from(value) * STEPS) / STEPS
}

/// The trees of a fit whose values change, as the model will have them.
pub(super) struct Dropouts {
    schedule: DropSchedule,
    /// Of each round so many.
    outputs: usize,
    /// The leaf values of the given trees at first.
    given: Vec<Vec<f32>>,
    /// Those of all trees after the best round, where that may end the fit: of the given ones, and of the others.
    best: Option<[Vec<Vec<f32>>; 2]>,
}

impl Dropouts {
    /// Begins with the given trees: their leaf values, `outputs` trees each round.
    pub fn new(schedule: DropSchedule, outputs: usize, given: Vec<Vec<f32>>) -> Dropouts {
        Dropouts { schedule, outputs, given, best: None }
    }

    /// Draws what the next round is grown without.
    pub fn next_round(&mut self) -> Dropped {
        self.schedule.next_round()
    }

    /// Gives the trees of dropped rounds their new values: those of `given` trees, and behind them of `trees`.
    pub fn rescale(&self, dropped: &Dropped, given: &mut [Vec<f32>], trees: &mut [Tree]) {
        let first = given.len() / self.outputs;
        for round in dropped.rounds.iter().map(|round| *round as usize) {
            let range = |round: usize| round * self.outputs..(round + 1) * self.outputs;
            match round.checked_sub(first) {
                None => given[range(round)].iter_mut().flatten().for_each(|value| *value = rescaled(*value, dropped.old)),
                Some(round) => {
                    let leaves = trees[range(round)].iter_mut().flat_map(Tree::leaves_mut);
                    leaves.for_each(|leaf| leaf.value = rescaled(leaf.value as f32, dropped.old).into());
                }
            }
        }
    }

    /// Notes the values of all trees, which are those of the best round so far.
    pub fn note_best(&mut self, given: &[Vec<f32>], trees: &[Tree]) {
        let values = |tree: &Tree| tree.leaves().iter().map(|leaf| leaf.value as f32).collect();
        self.best = Some([given.to_vec(), trees.iter().map(values).collect()]);
    }

    /// Gives the trees the values that they had after the best round: at first, where that was one of the given rounds.
    pub fn restore_best(&mut self, given: &mut Vec<Vec<f32>>, trees: &mut [Tree]) {
        let [of_given, of_trees] = self.best.take().unwrap_or_else(|| [std::mem::take(&mut self.given), vec![]]);
        *given = of_given;
        for (tree, values) in trees.iter_mut().zip(of_trees) {
            tree.leaves_mut().iter_mut().zip(values).for_each(|(leaf, value)| leaf.value = value.into());
        }
    }
}

/// Checks that a fit with dropouts is asked for nothing that it can't do. `orders_rows`: whether categories have ordered statistics.
///
/// # Errors
/// Naming what it is.
pub(super) fn check(input: &Input<'_>, params: &BoostingParams, options: &FitOptions<'_>, orders_rows: bool) -> Result<()> {
    let refused = |name: &str, why: &str| Err(Error::parameter(name, why));
    if input.loss_columns.positions.is_some() {
        return refused(
            "position",
            "boosting=\"dart\" takes trees back, and the factors of positions were found with them: leave one of both out",
        );
    }
    if options.batches.is_some() {
        return refused("boosting", "\"dart\" keeps each row's leaves in memory, and is not fitted in batches yet: leave out `batches`");
    }
    if options.snapshots.is_some() && orders_rows {
        let why = "boosting=\"dart\" sends rows through the trees anew, which ordered statistics of categories do not allow: leave it out, or \
                   split categories by cat_method=\"one_hot\" or \"partition\"";
        return refused("snapshot", why);
    }
    if options.snapshots.is_some() && params.early_stopping.is_some() {
        return refused(
            "snapshot",
            "does not keep the values that boosting=\"dart\" had given trees by the best round: leave out `early_stopping`",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(params: &serde_json::Value) -> DropSchedule {
        let mut all = serde_json::json!({ "boosting": "dart", "rounds": 200 });
        all.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
        DropSchedule::new(DropRules::of(&BoostingParams::from_json(&all).unwrap()).unwrap(), None, 0)
    }

    /// Proves that as many trees are dropped as the rate says, no more than are allowed, none in skipped rounds, and one at least where that is
    /// asked for.
    #[test]
    fn as_many_are_dropped_as_is_said() {
        let mean = |params: serde_json::Value| {
            let mut schedule = schedule(&params);
            let drawn: Vec<usize> = (0..2000).map(|_| schedule.next_round().rounds.len()).collect();
            (drawn.iter().sum::<usize>() as f64 / 2000.0, drawn[1..].iter().min().copied().unwrap(), drawn.iter().max().copied().unwrap())
        };
        for uniform in [true, false] {
            let most = |rate: f64, most: u32, skip: f64| {
                mean(serde_json::json!({ "drop_rate": rate, "max_drop": most, "skip_drop": skip, "uniform_drop": uniform }))
            };
            // A tenth of a thousand in the mean.
            let (drawn, _, _) = most(0.1, 100_000, 0.0);
            assert!((drawn - 100.0).abs() < 3.0, "{drawn}");
            let (skipped, _, _) = most(0.1, 100_000, 0.5);
            assert!((skipped - 50.0).abs() < 5.0, "{skipped}");
            let (drawn, _, largest) = most(0.5, 7, 0.0);
            assert!((4.0..7.0).contains(&drawn) && largest == 7, "{drawn} {largest}");
        }
        let (drawn, least, largest) = mean(serde_json::json!({ "drop_rate": 0.0, "one_drop": true, "skip_drop": 0.0 }));
        assert_eq!((drawn, least, largest), (1999.0 / 2000.0, 1, 1));
    }

    /// Proves what the values are multiplied by, and that heavy trees are dropped more often unless all are dropped alike.
    #[test]
    fn factors_and_weights_are_those_of_the_libraries() {
        let rules = |normalize: &str| schedule(&serde_json::json!({ "normalize": normalize, "learning_rate": 0.25 })).rules;
        assert_eq!(rules("paper").factors(3), (0.25, 0.75));
        assert_eq!(rules("tree").factors(3), (1.0 / 3.25, 3.0 / 3.25));
        assert_eq!(rules("forest").factors(3), (0.8, 0.8));
        assert_eq!(rules("forest").factors(0), (1.0, 1.0));
        for (uniform, heavier) in [(true, false), (false, true)] {
            let params = serde_json::json!({ "skip_drop": 0.0, "drop_rate": 0.2, "uniform_drop": uniform });
            let mut own = schedule(&params);
            own.weights = (0..100).map(|i| if i < 50 { 1.0 } else { 0.2 }).collect();
            let (mut heavy, mut light) = (0, 0);
            for seed in 0..500 {
                own.rules.seed = seed;
                let drawn = own.draw();
                heavy += drawn.iter().filter(|round| **round < 50).count();
                light += drawn.iter().filter(|round| **round >= 50).count();
            }
            let share = heavy as f64 / light as f64;
            assert!(if heavier { (4.0..6.0).contains(&share) } else { (0.9..1.1).contains(&share) }, "{share}");
        }
    }

    /// Proves that nothing is dropped where nothing can be, and that sums come back exactly to what they were.
    #[test]
    fn what_is_taken_out_comes_back() {
        let params = |more: serde_json::Value| BoostingParams::from_json(&more).unwrap();
        assert_eq!(DropRules::of(&params(serde_json::json!({}))), None);
        assert_eq!(DropRules::of(&params(serde_json::json!({ "boosting": "dart", "drop_rate": 0.0 }))), None);
        assert_eq!(DropRules::of(&params(serde_json::json!({ "boosting": "dart", "skip_drop": 1.0 }))), None);
        let values: Vec<f32> = (0..1000).map(|i| ((i * 7919 % 1000) as f32 - 500.0) * 1.37e-3 + 300.0).collect();
        let forwards: f64 = values.iter().map(|v| in_steps(*v)).sum();
        let backwards: f64 = values.iter().rev().map(|v| in_steps(*v)).sum();
        assert_eq!(forwards, backwards);
        assert_eq!(values.iter().fold(forwards, |sum, v| sum - in_steps(*v)), 0.0);
    }
}
