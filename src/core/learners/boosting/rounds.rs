//! The rounds of boosting: trees grown and valued, one round after the other.

use super::categorical_features::CategoricalFeatures;
use super::dropout::{Dropouts, Dropped};
use super::leaf_values::{leaf_values, step_on};
use super::linear_leaves::{self, LeafPaths, LinearLeaves, OnHost};
use super::measured::MeasuredRows;
use super::params::BoostingParams;
use super::steps::{Begun, DropoutSteps, LeafSteps, LeafSums, OrderedSteps, OutputRules, RowSteps, TreeRequest, TreeSteps, beyond};
use crate::collective::Collective;
use crate::dataset::Monitor;
use crate::dataset::monitor::Measure;
use crate::error::{Error, Result};
use crate::losses::{LeafRule, Loss};
use crate::metrics::MetricSpec;
use crate::model::History;
use crate::numerics::math::{ln64, sigmoid64};
use crate::tree::grow::{GrownTree, Root, grow, is_plain};
use crate::tree::linear::LinearLeaf;
use crate::tree::params::{SplitParams, TreeParams};
use crate::tree::split::SplitRules;
use crate::tree::{Leaf, Tree};
use std::borrow::Cow;

/// What the scores and the derivatives of a target's outputs are in units of.
pub(super) struct OutputUnits {
    /// Of scores and leaf values: a power of two.
    pub unit: f64,
    /// Of gradients, next to the weights' unit.
    pub gradient: f64,
    /// Of both derivatives besides.
    pub factor: f64,
    /// What coefficients of linear leaves are held back by, in units of hessians.
    pub linear_l2: f64,
    /// What splits are scored by in these units.
    pub split: SplitParams,
}

/// What the boosting rounds give, or have given so far.
#[derive(Clone, Default)]
pub(super) struct Boosted {
    /// The trees of the rounds from [`Rounds::first`] on.
    pub trees: Vec<Tree>,
    /// Of each tree the exponent of what its gains are in units of.
    pub gains: Vec<i32>,
    /// Their leaves that are linear functions, ascending; trees are counted as here.
    pub linear: Vec<LinearLeaf>,
    /// The curves of all rounds, those before the first included.
    pub history: Option<History>,
    /// Under dropouts the leaf values of the trees before the first, in the fit's units.
    pub given: Vec<Vec<f32>>,
    /// How many rounds are kept, those before the first included.
    pub kept: u32,
    pub factors: Factors,
}

/// What each position adds to a score.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Factors {
    /// After the last tree's step.
    pub latest: Option<Vec<f64>>,
    /// After the round that was best by the metric, where that may end a fit.
    pub best: Option<Vec<f64>>,
}

/// What the boosting rounds need beside a backend.
pub(super) struct Rounds<'a> {
    pub params: &'a BoostingParams,
    pub tree_params: &'a TreeParams,
    pub loss: &'a dyn Loss,
    /// One for each of several targets, or one for all outputs.
    pub units: &'a [OutputUnits],
    /// What each output counts, where all share a tree in each round.
    pub shared: Option<&'a [OutputRules]>,
    pub measured: Option<&'a MeasuredRows>,
    /// What makes leaves linear functions, where they are to be.
    pub linear: Option<&'a LinearLeaves<'a>>,
    /// How many bodies each permutation has under ordered boosting; none without it.
    pub bodies: usize,
    /// How many rounds there are already: numbers trees and keys their random choices.
    pub first: u32,
    /// How many there are to be.
    pub last: u32,
    /// How many rows train.
    pub rows: u64,
    pub monitor: &'a dyn Monitor,
    /// Between those that make the same fit.
    pub collective: &'a dyn Collective,
}

/// Called after a round that does not end the fit, with what there is; the features are those that its trees split on.
pub(super) type AfterRound<'a> = dyn FnMut(u32, &Boosted, &mut dyn TreeSteps, &mut CategoricalFeatures<'_>) -> Result<()> + 'a;

impl Rounds<'_> {
    /// Round after round: a tree for each output, their values added to the scores, the metrics of
    /// the measured rows; until all trees are grown or the metric no longer improves. `so_far`: the curves and the factors before the first.
    /// `dropouts`: where trees are left out for a while, which the backend has begun to keep.
    pub fn run(
        &self,
        backend: &mut dyn TreeSteps,
        features: &mut CategoricalFeatures<'_>,
        so_far: Boosted,
        mut dropouts: Option<Dropouts>,
        after_round: &mut AfterRound<'_>,
    ) -> Result<Boosted> {
        let (params, outputs) = (self.params, self.loss.outputs());
        let mut done = so_far;
        // The outputs of a tree.
        let sharing = if self.shared.is_some() { outputs } else { 1 };
        let mut least_gains = vec![f64::INFINITY; outputs / sharing];
        let loss_params = params.loss_params();
        let total = self.last;
        let mut round = self.first;
        while round < total && !self.is_over(&done) {
            let dropped = dropouts.as_mut().map(Dropouts::next_round);
            if let Some(Dropped { rounds, .. }) = &dropped {
                steps_of_dropouts(backend)?.drop_out(rounds)?;
            }
            let rate = self.params.learning_rate() * dropped.as_ref().map_or(1.0, |dropped| dropped.new);
            for (output, least_gain) in least_gains.iter_mut().enumerate() {
                let number = round as u64 * (outputs / sharing) as u64 + output as u64;
                let GrownTrees { trees, linear, gain_exponent } = self.tree(backend, features, (number, output), rate, least_gain)?;
                done.gains.extend(trees.iter().map(|_| gain_exponent));
                let before = done.trees.len() as u32;
                done.linear.extend(linear.into_iter().map(|leaf| LinearLeaf { tree: before + leaf.tree, ..leaf }));
                done.trees.extend(trees);
            }
            match (&dropped, &dropouts) {
                (Some(dropped), Some(dropouts)) => {
                    steps_of_dropouts(backend)?.put_back(&dropped.rounds, dropped.old)?;
                    dropouts.rescale(dropped, &mut done.given, &mut done.trees);
                }
                _ => backend.update_scores()?,
            }
            round += 1;
            let mut values = vec![];
            if let (Some(history), Some(measured)) = (&mut done.history, self.measured) {
                values = measured.measure(&loss_params, self.loss, &backend.measured_scores()?[..outputs])?;
                history.push_all(&values, params.min_delta());
            }
            self.monitor.round(round, total, values.first().copied());
            let ends = self.monitor.after_round(round, &measures(done.history.as_ref(), &values))?;
            // One that ends it ends it for all.
            let mut any_ends = [ends as u32];
            self.collective.max(&mut any_ends)?;
            if params.early_stopping.is_some() && done.history.as_ref().is_some_and(|history| history.rounds_since_best() == 0) {
                done.factors.best = backend.position_factors()?;
                if let Some(dropouts) = &mut dropouts {
                    dropouts.note_best(&done.given, &done.trees);
                }
            }
            if any_ends[0] > 0 {
                break;
            }
            if round < total && !self.is_over(&done) {
                after_round(round, &done, backend, features)?;
            }
        }
        done.kept = round;
        if let (Some(history), Some(_)) = (&done.history, params.early_stopping) {
            done.kept = round.min(history.best + 1);
            let kept = done.kept.saturating_sub(self.first) as usize;
            done.trees.truncate(kept * outputs);
            done.linear.retain(|leaf| (leaf.tree as usize) < kept * outputs);
            if let Some(dropouts) = &mut dropouts {
                dropouts.restore_best(&mut done.given, &mut done.trees);
            }
            done.factors.latest = done.factors.best.take();
        } else {
            done.factors.latest = backend.position_factors()?;
        }
        features.subsets = backend.category_sets().to_vec();
        Ok(done)
    }

    /// Returns whether the metric has not improved for as many rounds as end the fit.
    fn is_over(&self, done: &Boosted) -> bool {
        let since_best = done.history.as_ref().filter(|history| !history.values.is_empty()).map(History::rounds_since_best);
        since_best.zip(self.params.early_stopping).is_some_and(|(rounds, patience)| rounds >= patience)
    }

    /// Returns the units of an output.
    fn units(&self, output: usize) -> &OutputUnits {
        &self.units[output.min(self.units.len() - 1)]
    }

    /// Grows tree `number` of the fit for `output`, or for all outputs from there on that share it, and gives its leaves their values: a
    /// tree for each. `rate`: what values are multiplied by; `least_gain`: see [`grow`].
    fn tree(
        &self,
        backend: &mut dyn TreeSteps,
        features: &mut CategoricalFeatures<'_>,
        (number, output): (u64, usize),
        rate: f64,
        least_gain: &mut f64,
    ) -> Result<GrownTrees> {
        let interrupted = || self.monitor.interrupted();
        let outputs = self.loss.outputs();
        let own = features.set_of(number);
        let groups = features.begin_tree(backend, number)?;
        let units = self.units(output);
        let tree_params = &match self.shared {
            None if self.units.len() > 1 => {
                let split = if self.bodies > 0 { units.split.without_values() } else { units.split };
                Cow::Owned(TreeParams { split, ..self.tree_params.clone() })
            }
            _ => Cow::Borrowed(self.tree_params),
        };
        let plan = (is_plain(tree_params, &*features) && self.params.random_strength().is_none()).then_some(&**tree_params);
        let shared = self.shared;
        let alone = [OutputRules { params: units.split, importance: 1.0 }];
        let bodies = (self.bodies > 0).then(|| shared.unwrap_or(&alone));
        let request = TreeRequest { loss: self.loss, tree: number, output: own * outputs + output, shared, bodies, groups: &groups, plan };
        let grown = match backend.begin_tree(&request)? {
            Begun::Root { sums, scales } => {
                let noise = self.noise(backend, number, &request)?;
                let root = Root { tree: number, sums, scales, noise };
                grow(backend, tree_params, features, root, least_gain, &interrupted)?
            }
            Begun::Whole(tree) => tree.finish(tree_params),
        };
        features.note_used(grown.tree.splits())?;
        let is_first = number < (outputs / shared.map_or(1, |_| outputs)) as u64;
        // The leaves of the first round are numbers, as in LightGBM.
        let linear = self.linear.filter(|_| !is_first);
        let paths = linear.map(|linear| linear.paths(&grown.tree, &features.columns_of_numbers(), &features.coded));
        let linear = linear.zip(paths.as_ref());
        let sums = backend.end_tree(self.loss, &grown.tree, &grown.leaves)?;
        if self.bodies > 0 {
            let leaves = self.leaves_of_all(backend, features, &grown, (own, output), rate)?;
            return Ok(self.finished(grown, leaves, output));
        }
        let mut leaves = self.leaves(backend, (&grown, linear), &grown.tree, &sums, (own, output), rate)?;
        // Steps move the values of all outputs that share a tree together.
        let at_once = if self.params.leaf_iterations() > 1 { leaves.len() } else { 1 };
        for set in (0..features.sets()).filter(|set| *set != own) {
            let tree = features.translated(backend, &grown.tree, set)?;
            for (k, leaves) in (output..).step_by(at_once).zip(leaves.chunks_mut(at_once)) {
                let replayed = (k..k + leaves.len()).map(|k| backend.replay(self.loss, &tree, set * outputs + k));
                let sums = replayed.collect::<Result<Vec<_>>>()?;
                let of_set = self.leaves(backend, (&grown, linear), &tree, &sums, (set, k), rate)?;
                if set == 0 {
                    leaves.clone_from_slice(&of_set);
                }
            }
        }
        Ok(self.finished(grown, leaves, output))
    }

    /// Returns the leaves of a tree that has grown under ordered boosting, by the derivatives of all rows at the model's own scores, and
    /// values them by each body under each permutation: for the outputs that have the tree, from `output` on. `own`: the set of scores that
    /// it has grown under.
    fn leaves_of_all(
        &self,
        backend: &mut dyn TreeSteps,
        features: &mut CategoricalFeatures<'_>,
        grown: &GrownTree,
        (own, output): (usize, usize),
        rate: f64,
    ) -> Result<Vec<Leaves>> {
        let (outputs, count, sets) = (self.loss.outputs(), self.shared.map_or(1, <[OutputRules]>::len), features.sets());
        let mut replayed = |backend: &mut dyn TreeSteps, set: usize| -> Result<(Tree, Vec<Vec<LeafSums>>)> {
            let tree = features.translated(backend, &grown.tree, set)?;
            let sums = (output..output + count).map(|k| backend.replay(self.loss, &tree, set * outputs + k)).collect::<Result<_>>()?;
            Ok((tree, sums))
        };
        self.value_bodies(backend, grown, (own, output), count, rate)?;
        for set in (1..sets).filter(|set| *set != own) {
            replayed(backend, set)?;
            self.value_bodies(backend, grown, (set, output), count, rate)?;
        }
        let (tree, sums) = replayed(backend, 0)?;
        self.leaves(backend, (grown, None), &tree, &sums, (0, output), rate)
    }

    /// Gives the leaves of a tree their values by each body of a set of scores, for `count` outputs from `output` on.
    fn value_bodies(
        &self,
        backend: &mut dyn TreeSteps,
        grown: &GrownTree,
        (set, output): (usize, usize),
        count: usize,
        rate: f64,
    ) -> Result<()> {
        let (first, leaves) = (set * self.loss.outputs() + output, grown.tree.leaves().len());
        let values = match self.loss.leaf_rule(output) {
            LeafRule::Newton => self.newton_values_of_bodies(backend, grown, (first, output), count)?,
            LeafRule::Quantile(_) => (0..count)
                .map(|k| {
                    let LeafRule::Quantile(alpha) = self.loss.leaf_rule(output + k) else { return Err(unruled()) };
                    let mut bodies = steps_of_bodies(backend)?.quantiles_of_bodies(first + k, leaves, alpha)?;
                    bodies.iter_mut().for_each(|values| self.keep_to_limits(grown, self.units(output + k), values));
                    Ok(bodies)
                })
                .collect::<Result<_>>()?,
        };
        for (k, bodies) in (0..).zip(values) {
            let values = bodies.iter().map(|values| self.rated(values, output + k, rate)).collect::<Result<_>>()?;
            steps_of_bodies(backend)?.set_body_values(first + k, values)?;
        }
        Ok(())
    }

    /// Returns the values that Newton's steps give the leaves by each body, `[output][body][leaf]`, for `count` outputs from `output` on,
    /// which is `first` of all sets.
    fn newton_values_of_bodies(
        &self,
        backend: &mut dyn TreeSteps,
        grown: &GrownTree,
        (first, output): (usize, usize),
        count: usize,
    ) -> Result<Vec<Vec<Vec<f64>>>> {
        let rules = self.rules(grown, output, count);
        let mut values = vec![vec![vec![0.0; grown.tree.leaves().len()]; self.bodies]; count];
        for step in 0..self.params.leaf_iterations() {
            let so_far: Vec<Vec<Vec<f32>>> = values.iter().map(|bodies| bodies.iter().map(|values| in_f32(values)).collect()).collect();
            let sums = steps_of_bodies(backend)?.sums_of_bodies(self.loss, first, &so_far);
            let sums = sums.map_err(|error| if step > 0 { beyond(error) } else { error })?;
            for ((bodies, sums), rules) in values.iter_mut().zip(&sums).zip(&rules) {
                for (values, sums) in bodies.iter_mut().zip(sums) {
                    match step {
                        0 => *values = leaf_values(&grown.tree, rules, sums, &grown.bounds),
                        _ => step_on(&grown.tree, rules, sums, &grown.bounds, values),
                    }
                }
            }
        }
        Ok(values)
    }

    /// Returns values of leaves times `rate`, as scores get them, for an output.
    ///
    /// # Errors
    /// Where one is no longer finite.
    fn rated(&self, values: &[f64], output: usize, rate: f64) -> Result<Vec<f32>> {
        let (values, unit): (Vec<f32>, f64) = (values.iter().map(|v| (v * rate) as f32).collect(), self.units(output).unit);
        if values.iter().any(|v| !(*v as f64 * unit).is_finite()) {
            return Err(Error::Data("a leaf's value is no longer finite: raise `l2` or lower `learning_rate`".into()).of_values());
        }
        Ok(values)
    }

    /// Returns what gives the leaves of a tree their values, for `count` outputs from `output` on.
    fn rules<'g>(&self, grown: &'g GrownTree, output: usize, count: usize) -> Vec<Cow<'g, SplitRules>> {
        let of_output = |k: usize| match self.shared {
            Some(all) => Some(all[output + k].params),
            None => (self.bodies > 0).then(|| self.units(output + k).split),
        };
        let own = |k: usize| of_output(k).map(|params| SplitRules { params, ..grown.rules.clone() });
        (0..count).map(|k| own(k).map_or(Cow::Borrowed(&grown.rules), Cow::Owned)).collect()
    }

    /// Returns the standard deviation of the noise on the roots of the scores in a tree that has begun: that of what a split gains by chance,
    /// times `random_strength`, the less the more rounds there are.
    fn noise(&self, backend: &mut dyn TreeSteps, tree: u64, request: &TreeRequest<'_>) -> Result<f64> {
        let Some(strength) = self.params.random_strength() else { return Ok(0.0) };
        let Some(steps) = backend.spread() else {
            return Err(Error::parameter("random_strength", "the device does not measure what noise is in units of"));
        };
        let squares = match request.shared {
            None => steps.squared_gradients(self.loss, request.output)?,
            Some(rules) => {
                let mut sum = 0.0;
                for (k, rules) in rules.iter().enumerate() {
                    sum += rules.importance * steps.squared_gradients(self.loss, request.output + k)?;
                }
                sum
            }
        };
        let trees_a_round = if self.shared.is_some() { 1 } else { self.loss.outputs() as u64 };
        let length = (tree / trees_a_round) as f64 * self.params.learning_rate();
        Ok(strength * squares.sqrt() * sigmoid64(ln64(self.rows as f64) - length))
    }

    /// Returns a grown tree with each output's leaves; what gains are in units of, all outputs have in common.
    fn finished(&self, mut grown: GrownTree, leaves: Vec<Leaves>, output: usize) -> GrownTrees {
        let mut exponent = grown.gain_exponent;
        if leaves.len() > 1 {
            // The outputs' trees have the gain of theirs together.
            grown.tree.splits_mut().for_each(|s| s.gain /= leaves.len() as f32);
        } else if self.units.len() > 1 {
            let OutputUnits { gradient, factor, .. } = *self.units(output);
            let whole = libm::ilogb(factor);
            let rest = libm::ldexp(factor, -whole);
            grown.tree.splits_mut().for_each(|s| s.gain = (s.gain as f64 * rest).min(f32::MAX as f64) as f32);
            exponent += 2 * libm::ilogb(gradient) + whole;
        }
        let mut linear = vec![];
        let shapes = std::iter::repeat_n(grown.tree, leaves.len());
        let with_leaves = |((number, mut tree), leaves): ((u32, Tree), Leaves)| {
            tree.leaves_mut().clone_from_slice(&leaves.plain);
            linear.extend(leaves.linear.into_iter().map(|leaf| LinearLeaf { tree: number, ..leaf }));
            tree
        };
        let trees = (0..).zip(shapes).zip(leaves).map(with_leaves).collect();
        GrownTrees { trees, linear, gain_exponent: exponent }
    }

    /// The leaves that the tree just ended or replayed has for the outputs of a set from `output` on, from their sums; the backend has their
    /// values. `tree`: in the features of the set.
    fn leaves(
        &self,
        backend: &mut dyn TreeSteps,
        (grown, linear): (&GrownTree, Option<LinearPaths<'_>>),
        tree: &Tree,
        sums: &[Vec<LeafSums>],
        (set, output): (usize, usize),
        rate: f64,
    ) -> Result<Vec<Leaves>> {
        let newton = match self.loss.leaf_rule(output) {
            LeafRule::Newton => Some(self.newton_values(backend, grown, tree, sums, (set, output))?),
            LeafRule::Quantile(_) => None,
        };
        let mut leaves = vec![];
        for (k, sums) in sums.iter().enumerate() {
            let (of_set, units) = (set * self.loss.outputs() + output + k, self.units(output + k));
            let values = match (&newton, self.loss.leaf_rule(output + k)) {
                (Some(values), _) => values[k].clone(),
                (None, rule) => self.refitted(backend, grown, (of_set, rule), units)?,
            };
            let values = self.rated(&values, output + k, rate)?;
            backend.set_leaf_values(of_set, &values)?;
            let mut functions = vec![];
            if let Some((linear, paths)) = linear {
                let (of, of_leaves) = ((self.loss, of_set), (paths, &sums[..]));
                let rules = linear_leaves::Rules { l2: units.split.l2, linear_l2: units.linear_l2, rate, unit: units.unit };
                functions = match backend.linear_leaves() {
                    Some(steps) => linear.fit(steps, of, of_leaves, &rules)?,
                    None => linear.fit(&mut OnHost::new(linear, steps_of_rows(backend)?, &values), of, of_leaves, &rules)?,
                };
            }
            // Where there are several targets, weights have the unit that these have in common.
            let factor = if self.units.len() > 1 { units.factor } else { 1.0 };
            let weight = |s: &LeafSums| (s.hessian * factor).min(f32::MAX as f64) as f32;
            let leaf = |(value, s): (&f32, &LeafSums)| Leaf {
                value: *value as f64,
                weight: weight(s),
                count: s.count.min(u32::MAX as u64) as u32,
            };
            leaves.push(Leaves { plain: values.iter().zip(sums).map(leaf).collect(), linear: functions });
        }
        Ok(leaves)
    }

    /// Returns the quantile of the residuals of each leaf's rows, for an output of a set and its rule.
    fn refitted(
        &self,
        backend: &mut dyn TreeSteps,
        grown: &GrownTree,
        (of_set, rule): (usize, LeafRule),
        units: &OutputUnits,
    ) -> Result<Vec<f64>> {
        let LeafRule::Quantile(alpha) = rule else { return Err(unruled()) };
        let mut values = backend.leaf_quantiles(of_set, alpha)?;
        self.keep_to_limits(grown, units, &mut values);
        Ok(values)
    }

    /// Brings values of leaves that are quantiles within what constraints and `max_delta_step` allow.
    fn keep_to_limits(&self, grown: &GrownTree, units: &OutputUnits, values: &mut [f64]) {
        super::monotone::enforce(&grown.tree, &self.tree_params.monotone, values);
        if let Some(most) = self.params.max_delta_step.map(|most| most / units.unit) {
            values.iter_mut().for_each(|value| *value = value.clamp(-most, most));
        }
    }

    /// Returns the values that Newton's steps give the leaves, for the outputs of a set from `output` on, from the sums that the first step is
    /// made by; the further ones are made by the derivatives at the scores that the values so far lead to.
    fn newton_values(
        &self,
        backend: &mut dyn TreeSteps,
        grown: &GrownTree,
        tree: &Tree,
        sums: &[Vec<LeafSums>],
        (set, output): (usize, usize),
    ) -> Result<Vec<Vec<f64>>> {
        let rules = self.rules(grown, output, sums.len());
        let first = |(sums, rules): (&Vec<LeafSums>, &Cow<'_, SplitRules>)| leaf_values(&grown.tree, rules, sums, &grown.bounds);
        let mut values: Vec<Vec<f64>> = sums.iter().zip(&rules).map(first).collect();
        for _ in 1..self.params.leaf_iterations() {
            let so_far: Vec<Vec<f32>> = values.iter().map(|values| in_f32(values)).collect();
            let sums = steps_of_leaves(backend)?.sums_beyond(self.loss, tree, set * self.loss.outputs() + output, &so_far)?;
            for ((values, sums), rules) in values.iter_mut().zip(&sums).zip(&rules) {
                step_on(&grown.tree, rules, sums, &grown.bounds, values);
            }
        }
        Ok(values)
    }
}

/// Returns the error of a leaf that has not the rule of the others of its tree.
fn unruled() -> Error {
    Error::Data("a leaf without a rule".into())
}

/// Returns values of leaves as scores get them.
fn in_f32(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

/// Returns the device's steps of ordered boosting.
///
/// # Errors
/// Where it has none.
fn steps_of_bodies(backend: &mut dyn TreeSteps) -> Result<&mut dyn OrderedSteps> {
    let none = || Error::parameter("boosting", "the device values no leaves by parts of the rows, as \"ordered\" does");
    backend.ordered().ok_or_else(none)
}

/// Returns the device's further steps of leaves.
///
/// # Errors
/// Where it has none.
fn steps_of_leaves(backend: &mut dyn TreeSteps) -> Result<&mut dyn LeafSteps> {
    let none = || Error::parameter("leaf_iterations", "the device makes one step of a leaf alone");
    backend.leaf_steps().ok_or_else(none)
}

/// What makes leaves linear functions, and the columns on the paths to those of a tree.
type LinearPaths<'a> = (&'a LinearLeaves<'a>, &'a LeafPaths);

/// The leaves of a tree for one of its outputs.
#[derive(Clone)]
struct Leaves {
    plain: Vec<Leaf>,
    /// Those that are linear functions; of tree 0.
    linear: Vec<LinearLeaf>,
}

/// What a tree has grown to: one for each output that has it.
struct GrownTrees {
    trees: Vec<Tree>,
    /// Their leaves that are linear functions, ascending.
    linear: Vec<LinearLeaf>,
    /// The exponent of what their gains are in units of.
    gain_exponent: i32,
}

/// Returns the device's steps of single rows.
///
/// # Errors
/// Where it has none.
fn steps_of_rows(backend: &mut dyn TreeSteps) -> Result<&mut dyn RowSteps> {
    let none = || Error::parameter("leaf", "the device does not tell rows one by one, as \"linear\" asks for");
    backend.row_values().ok_or_else(none)
}

/// Returns the device's steps of dropouts.
///
/// # Errors
/// Where it has none.
pub(super) fn steps_of_dropouts(backend: &mut dyn TreeSteps) -> Result<&mut dyn DropoutSteps> {
    let none = || Error::parameter("boosting", "the device takes no trees out of the scores, as \"dart\" does");
    backend.dropouts().ok_or_else(none)
}

/// Returns a round's values with the names of their curves.
fn measures(history: Option<&History>, values: &[f64]) -> Vec<Measure> {
    let curves = history.into_iter().flat_map(|history| history.curves());
    let measure = |((set, metric, _), value): ((Option<&str>, &MetricSpec, &[f64]), &f64)| Measure {
        set: set.map(String::from),
        metric: metric.to_string(),
        value: *value,
    };
    curves.zip(values).map(measure).collect()
}
