//! The boosting loop (Friedman, "Greedy function approximation", 2001; second-order as in Chen and
//! Guestrin, "XGBoost", 2016).

use super::categorical_features::CategoricalFeatures;
use super::finish::{UsedFeatures, finish};
use super::measured::{MeasuredRows, MeasuredTable};
use super::model::Model;
use super::params::{BoostingParams, RowSample};
use super::prepare::Start;
use super::rounds::fit_untold;
use super::schema::{Constraints, check_class_weight, check_groups, check_positions, check_times, constraints, measured_metrics};
use super::several::{self, OneTarget};
use super::steps::{Announced, Extent, LeafSums, OutputRules, TrainingData, TreeDevices, TreeSteps};
use super::units::settle;
use super::{needed, prepare};
use crate::collective::RowShard;
use crate::column::FeatureType;
use crate::dataset::counted::Counted;
use crate::dataset::labels::Labels;
use crate::dataset::positions::PositionFactors;
use crate::dataset::row_groups::RowGroups;
use crate::dataset::target::{self, TargetData};
use crate::dataset::{Input, Monitor, checks, coded};
use crate::error::{Error, Result};
use crate::learners::boosting::steps::{Begun, TreeRequest};
use crate::losses::position_bias::{PositionBias, StepRule};
use crate::losses::{LeafRule, Loss, LossKind, LossParams, loss, loss_of_each, resolve_loss};
use crate::memory::Reservation;
use crate::metrics::MetricSpec;
use crate::model::History;
use crate::parallel::pools;
use crate::parallel::thread_pool::ThreadPool;
use crate::provenance::Provenance;
use crate::quantize::CodedFeature;
use crate::tree::grow::{GrownTree, Root, grow, is_plain};
use crate::tree::params::{SplitParams, TreeParams};
use crate::tree::split::SplitRules;
use crate::tree::{Leaf, Tree};
use std::borrow::Cow;

/// Fits boosted trees to a table with the steps of one of `devices`.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter;
/// [`Error::Interrupted`] when `monitor` asks to stop; what the device reports.
pub fn fit(input: &Input<'_>, params: &BoostingParams, devices: &dyn TreeDevices, monitor: &dyn Monitor) -> Result<Model> {
    params.validate()?;
    if params.position_factors.is_some() {
        return Err(Error::parameter("position_factors", "is what a model records of a fit; known ones are a `baseline`"));
    }
    let rows = checks::check_table(input)?;
    let pool = ThreadPool::new(threads(params, rows, input.features.len()))?;
    pool.enter(|| fit_on(&pool, input, params, devices, monitor))
}

/// As many threads as asked for, but no more than the table keeps busy.
fn threads(params: &BoostingParams, rows: usize, features: usize) -> usize {
    let asked = pools::asked(params.n_threads);
    asked.min(rows.saturating_mul(features.min(256)) / 32_768).max(1)
}

pub(super) fn fit_on(
    pool: &ThreadPool,
    input: &Input<'_>,
    params: &BoostingParams,
    devices: &dyn TreeDevices,
    monitor: &dyn Monitor,
) -> Result<Model> {
    checks::check_classes(input)?;
    let kind = resolve_loss(params.loss, &input.target)?;
    let params = &params.of_target(&input.target);
    // The targets' names among them.
    params.validate()?;
    let labels = input.target.labels();
    let classes = labels.map_or(0, Labels::len);
    let raw_loss = loss(kind, &params.loss_params(), classes, 1.0)?;
    prepare::check_loss_columns(input, params)?;
    let outputs = raw_loss.outputs();
    let metrics = measured_metrics(input.held_out.is_some(), params, raw_loss.as_ref(), labels.map(Labels::len))?;
    check_positions(params.loss, kind, input.loss_columns.positions.is_some())?;
    check_groups(kind, &metrics, input.loss_columns.groups.is_some())?;
    check_times(raw_loss.as_ref(), &metrics, input.loss_columns.times.is_given())?;
    let shares_trees = params.shares_trees(raw_loss.as_ref())?;
    let reserved = needed::reserve(pool, input, params, outputs, devices.stays_here())?;
    let values = target::target_numbers(input, &|y| raw_loss.check_target(y))?;
    checks::check_positive(&input.target, params.positive.as_ref())?;
    check_class_weight(params, classes > 0)?;
    let data = prepare::weigh(input, raw_loss.as_ref(), values, &params.class_weight)?;
    if let Some(rows) = data.rows_that_count() {
        drop((data, reserved));
        let counted = Counted::new(input, rows)?;
        let table = counted.input();
        checks::check_rows(counted.rows.len(), table.held_out, &table.target_name)?;
        let rows = input.features[0].len() - input.held_out_rows();
        return fit_on(pool, &table, params, devices, monitor).map(|model| Model { rows: rows as u64, ..model });
    }
    if params.rounds.is_none() {
        drop((data, reserved));
        return fit_untold(pool, input, params, (kind, raw_loss.as_ref()), devices, monitor);
    }
    fit_checked(pool, input, params, devices, monitor, CheckedTarget { kind, raw_loss, shares_trees, metrics, data, reserved })
}

/// A table's target, and what follows from it before anything is computed.
struct CheckedTarget {
    kind: LossKind,
    /// The loss of scores as they are.
    raw_loss: Box<dyn Loss>,
    /// Whether all its outputs share a tree in each round.
    shares_trees: bool,
    /// What is measured after each round; none where nothing is.
    metrics: Vec<MetricSpec>,
    data: TargetData,
    /// The memory that the fit's arrays will take.
    reserved: Reservation,
}

/// Fits to rows that all count.
fn fit_checked(
    pool: &ThreadPool,
    input: &Input<'_>,
    params: &BoostingParams,
    devices: &dyn TreeDevices,
    monitor: &dyn Monitor,
    CheckedTarget { kind, raw_loss, shares_trees, metrics, data, reserved }: CheckedTarget,
) -> Result<Model> {
    let (labels, outputs) = (input.target.labels(), raw_loss.outputs());
    let classes = labels.map_or(0, Labels::len);
    let several = several::each(input, &data);
    if !several.is_empty() {
        several::check_huber_delta(kind, &metrics, params)?;
    }
    let params = &params.with_huber_delta(kind, if labels.is_none() { &metrics } else { &[] }, || prepare::huber_delta(input, &data));
    let raw_loss = if kind == LossKind::Huber { loss(kind, &params.loss_params(), classes, 1.0)? } else { raw_loss };
    let numeric = coded::code_features(input, &params.border_params(), pool, &|| monitor.interrupted())?;
    let tree_params = tree_params(input, params, &numeric)?;
    let of_categories = several::statistics_target(input, &data);
    let (mut features, base) = CategoricalFeatures::new(pool, input, params, &of_categories, numeric);
    features.constrain(&tree_params.interaction);
    drop(of_categories);

    let bounds = prepare::bounds(input, raw_loss.as_ref(), &metrics, &data.values)?;
    let columns = prepare::loss_columns(input, raw_loss.as_ref(), bounds.as_ref())?;
    let starts = several::starts((input, &data, &columns), &several, (kind, &params.loss_params()), raw_loss.as_ref())?;
    let groups = input.loss_columns.groups.as_deref().map(RowGroups::new);
    let measured = if metrics.is_empty() {
        None
    } else {
        let weight = prepare::measured_weights(input, raw_loss.as_ref(), &data, &params.class_weight)?;
        let table = MeasuredTable { values: &data.values, weight: weight.as_deref(), groups: groups.as_ref(), bounds: bounds.as_ref() };
        if several.is_empty() {
            Some(MeasuredRows::new(metrics, input, params, raw_loss.as_ref(), &table, &starts[0])?)
        } else {
            let one = loss(kind, &LossParams { targets: 0, ..params.loss_params() }, 0, 1.0)?;
            let of_target = |(t, start): (&OneTarget<'_>, &Start)| {
                MeasuredRows::new(
                    metrics.clone(),
                    &t.input,
                    params,
                    one.as_ref(),
                    &MeasuredTable { values: &t.data.values, ..table },
                    start,
                )
            };
            MeasuredRows::joined(several.iter().zip(&starts).map(of_target))?
        }
    };
    drop((data.values, several));
    let units: Vec<f64> = starts.iter().map(|s| s.unit).collect();
    let loss = if units.len() > 1 {
        loss_of_each(kind, &params.loss_params(), &units)?
    } else {
        loss(kind, &params.loss_params(), classes, units[0])?
    };
    let loss_columns = prepare::device_columns(loss.as_ref(), &columns);
    prepare::check_derivatives(
        input,
        loss.as_ref(),
        (&starts[0].target, &starts[0].scores[0], &loss_columns),
        (starts[0].start[0], units[0]),
    )?;
    let risk_sets = prepare::risk_sets(input, loss.as_ref(), groups.as_ref(), (&columns, data.weights.as_deref(), &starts[0].scores[0]))?;
    // What the derivatives of each target's outputs are in units of.
    let of_start = |s: &Start| OutputUnits {
        unit: s.unit,
        gradient: prepare::gradient_unit(loss.as_ref(), s.unit),
        factor: s.factor,
        split: tree_params.split.in_units(prepare::gradient_unit(loss.as_ref(), s.unit), data.weight_unit * s.factor),
    };
    let units: Vec<OutputUnits> = starts.iter().map(of_start).collect();
    let start: Vec<f64> = starts.iter().flat_map(|s| s.start.iter().copied()).collect();
    let (mut targets, mut scores) = (vec![], vec![]);
    for of_target in starts {
        targets.push(of_target.target);
        scores.extend(of_target.scores);
    }
    let first = several::FirstRows {
        targets: targets.iter().map(Vec::as_slice).collect(),
        scores: &scores,
        weight: data.weights.as_deref(),
        columns: &loss_columns,
        held_out: input.held_out,
    };
    let splits: Vec<SplitParams> = units.iter().map(|u| u.split).collect();
    let shared = shares_trees.then(|| several::output_rules(loss.as_ref(), &first, &splits));
    // Gains of shared trees have no unit but that of the weights.
    let split = if shares_trees { tree_params.split.in_units(1.0, data.weight_unit) } else { units[0].split };
    let tree_params = TreeParams { split, ..tree_params };

    // A set of scores for each permutation of categories' statistics, all alike at first.
    let scores = if features.sets() == 1 { scores } else { (0..features.sets()).flat_map(|_| scores.clone()).collect() };
    let coded = features.coded.clone();
    let sources: Vec<_> = base.iter().map(|b| b.source(input)).collect();
    let sure = measured.is_none() && features.sets() == 1 && loss.leaf_rule(0) == LeafRule::Newton && !shares_trees && units.len() == 1;
    let trees = params.rounds() as u64 * outputs as u64;
    let announced = sure.then_some(Announced { learning_rate: params.learning_rate(), trees });
    let mut targets = targets.into_iter();
    let target = targets.next().unwrap_or_default();
    let rows = target.len();
    let weight_unit = data.weight_unit;
    let of_rows = input.loss_columns.positions.as_ref();
    let rank_position_l2 = params.rank_position_l2.or(of_rows.map(|_| 0.0));
    let rule = StepRule { learning_rate: params.learning_rate(), l2: rank_position_l2.unwrap_or(0.0) };
    let positions = of_rows.map(|p| PositionBias::new(&p.codes, p.labels.len(), input.held_out, data.weights.as_deref(), rule));
    let trained: Option<Vec<bool>> = positions.as_ref().map(|p| (0..p.positions()).map(|position| p.is_trained(position)).collect());
    let data = TrainingData {
        features: &coded,
        sources: &sources,
        target,
        more_targets: targets.collect(),
        weight: data.weights,
        columns: loss_columns,
        groups: groups.filter(|_| loss.by_group().is_some()),
        positions,
        risk_sets,
        scores,
        held_out: input.held_out,
        measures_all: measured.as_ref().is_some_and(MeasuredRows::needs_all_rows),
        // A sample of all rows is none.
        row_sample: if params.row_fraction() < 1.0 { params.row_sample } else { RowSample::None },
        row_fraction: params.row_fraction(),
        l2: params.l2,
        count_rows: tree_params.counts_rows(),
        // Shared trees know no sparse features yet.
        bundle: params.bundle && !shares_trees,
        seed: params.seed,
        announced,
        shared: if shares_trees { outputs } else { 1 },
        shard: RowShard::whole(rows),
    };
    // Its arrays are there now, and count by themselves.
    drop(reserved);
    let rounds = Rounds {
        params,
        tree_params: &tree_params,
        loss: loss.as_ref(),
        units: &units,
        shared: shared.as_deref(),
        measured: measured.as_ref(),
        monitor,
    };
    // Every output has a histogram of each node.
    let histograms = if shares_trees { outputs } else { 1 };
    let extent = Extent { most_nodes: (params.leaves() as usize / 2).max(1) * histograms, trees: params.rounds() as usize * outputs };
    let mut fitted = None;
    devices.with_steps(pool, data, extent, monitor, &mut |backend| {
        fitted = Some(rounds.run(backend, &mut features)?);
        Ok(())
    })?;
    let Boosted { mut trees, gains, history, factors } = fitted.ok_or_else(|| Error::Data("no device has done the work".into()))?;
    let scale = common_scale(&mut trees, outputs, &units);
    let units = match units.as_slice() {
        [one] if !shares_trees => settle(&mut trees, &gains, one.gradient, weight_unit * one.factor),
        _ => settle(&mut trees, &gains, 1.0, weight_unit),
    };
    let UsedFeatures { features, derived, tables } = finish(&mut trees, input, &features);
    let position_factors = of_rows.zip(factors).zip(trained).map(|((positions, factors), trained)| {
        let of_trained: Vec<Option<f64>> = factors.into_iter().zip(trained).map(|(factor, trained)| trained.then_some(factor)).collect();
        PositionFactors::ascending(&positions.labels, &of_trained)
    });
    let training_rows = (rows - input.held_out_rows()) as u64;
    Ok(Model {
        params: BoostingParams { rank_position_l2, position_factors, ..params.kept() },
        loss: kind,
        target: input.target_name.clone(),
        features,
        derived,
        tables,
        labels: labels.cloned(),
        start,
        scale,
        units,
        trees,
        rows: training_rows,
        history,
        provenance: Provenance::default(),
    })
}

/// What the scores and the derivatives of a target's outputs are in units of.
struct OutputUnits {
    /// Of scores and leaf values: a power of two.
    unit: f64,
    /// Of gradients, next to the weights' unit.
    gradient: f64,
    /// Of both derivatives besides.
    factor: f64,
    /// What splits are scored by in these units.
    split: SplitParams,
}

/// Brings leaf values of several targets into one unit, and returns it.
fn common_scale(trees: &mut [Tree], outputs: usize, units: &[OutputUnits]) -> f64 {
    let scale = units.iter().map(|u| u.unit).fold(0.0, f64::max);
    for (i, tree) in trees.iter_mut().enumerate() {
        let unit = units[(i % outputs).min(units.len() - 1)].unit;
        if unit != scale {
            tree.leaves_mut().iter_mut().for_each(|leaf| leaf.value = (leaf.value as f64 * (unit / scale)) as f32);
        }
    }
    scale
}

/// What the boosting rounds give.
struct Boosted {
    trees: Vec<Tree>,
    /// Of each tree the exponent of what its gains are in units of.
    gains: Vec<i32>,
    history: Option<History>,
    /// What each position adds to a score after the last tree's step.
    factors: Option<Vec<f64>>,
}

/// What the boosting rounds need beside a backend.
struct Rounds<'a> {
    params: &'a BoostingParams,
    tree_params: &'a TreeParams,
    loss: &'a dyn Loss,
    /// One for each of several targets, or one for all outputs.
    units: &'a [OutputUnits],
    /// What each output counts, where all share a tree in each round.
    shared: Option<&'a [OutputRules]>,
    measured: Option<&'a MeasuredRows>,
    monitor: &'a dyn Monitor,
}

impl Rounds<'_> {
    /// Round after round: a tree for each output, their values added to the scores, the metrics of
    /// the measured rows; until all trees are grown or the metric no longer improves.
    fn run(&self, backend: &mut dyn TreeSteps, features: &mut CategoricalFeatures<'_>) -> Result<Boosted> {
        let (params, outputs) = (self.params, self.loss.outputs());
        let (mut trees, mut gains, mut factors) = (vec![], vec![], None);
        // The outputs of a tree.
        let sharing = if self.shared.is_some() { outputs } else { 1 };
        let mut least_gains = vec![f64::INFINITY; outputs / sharing];
        let mut history = self.measured.and_then(MeasuredRows::history);
        let loss_params = params.loss_params();
        for round in 0..params.rounds() {
            for (output, least_gain) in least_gains.iter_mut().enumerate() {
                let number = round as u64 * (outputs / sharing) as u64 + output as u64;
                let (own, gain_exponent) = self.tree(backend, features, number, output, least_gain)?;
                gains.extend(own.iter().map(|_| gain_exponent));
                trees.extend(own);
            }
            backend.update_scores()?;
            let value = match (&mut history, self.measured) {
                (Some(history), Some(measured)) => {
                    let values = measured.measure(&loss_params, self.loss, &backend.measured_scores()?[..outputs])?;
                    history.push_all(&values);
                    values.first().copied()
                }
                _ => None,
            };
            self.monitor.round(round + 1, params.rounds(), value);
            if params.early_stopping.is_some() && history.as_ref().is_some_and(|history| history.rounds_since_best() == 0) {
                factors = backend.position_factors()?;
            }
            if let (Some(history), Some(patience)) = (&history, params.early_stopping)
                && history.rounds_since_best() >= patience
            {
                break;
            }
        }
        if let (Some(history), Some(_)) = (&history, params.early_stopping) {
            trees.truncate((history.best as usize + 1) * outputs);
        }
        features.subsets = backend.category_sets().to_vec();
        if params.early_stopping.is_none() {
            factors = backend.position_factors()?;
        }
        Ok(Boosted { trees, gains, history, factors })
    }

    /// Returns the units of an output.
    fn units(&self, output: usize) -> &OutputUnits {
        &self.units[output.min(self.units.len() - 1)]
    }

    /// Grows tree `number` of the fit for `output`, or for all outputs from there on that share it, and gives its leaves their values: a
    /// tree for each; with the exponent of what its gains are in units of. `least_gain`: see [`grow`].
    fn tree(
        &self,
        backend: &mut dyn TreeSteps,
        features: &mut CategoricalFeatures<'_>,
        number: u64,
        output: usize,
        least_gain: &mut f64,
    ) -> Result<(Vec<Tree>, i32)> {
        let interrupted = || self.monitor.interrupted();
        let outputs = self.loss.outputs();
        let own = features.set_of(number);
        let groups = features.begin_tree(backend, number)?;
        let units = self.units(output);
        let tree_params = &match self.shared {
            None if self.units.len() > 1 => Cow::Owned(TreeParams { split: units.split, ..self.tree_params.clone() }),
            _ => Cow::Borrowed(self.tree_params),
        };
        let plan = is_plain(tree_params, &*features).then_some(&**tree_params);
        let shared = self.shared;
        let request = TreeRequest { loss: self.loss, tree: number, output: own * outputs + output, shared, groups: &groups, plan };
        let grown = match backend.begin_tree(&request)? {
            Begun::Root { sums, scales } => {
                let root = Root { tree: number, sums, scales };
                grow(backend, tree_params, features, root, least_gain, &interrupted)?
            }
            Begun::Whole(tree) => tree.finish(tree_params),
        };
        features.note_used(grown.tree.splits())?;
        let mut leaves = vec![];
        for (k, sums) in (output..).zip(backend.end_tree(self.loss, &grown.tree, &grown.leaves)?) {
            leaves.push(self.leaves(backend, &grown, sums, (own, k))?);
        }
        for set in (0..features.sets()).filter(|set| *set != own) {
            let tree = features.translated(backend, &grown.tree, set)?;
            for (k, leaves) in (output..).zip(&mut leaves) {
                let sums = backend.replay(self.loss, &tree, set * outputs + k)?;
                let of_set = self.leaves(backend, &grown, sums, (set, k))?;
                if set == 0 {
                    *leaves = of_set;
                }
            }
        }
        Ok(self.finished(grown, leaves, output))
    }

    /// Returns a grown tree with each output's leaves, in units that all outputs have in common.
    fn finished(&self, mut grown: GrownTree, leaves: Vec<Vec<Leaf>>, output: usize) -> (Vec<Tree>, i32) {
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
        let with_leaves = |leaves: Vec<Leaf>| {
            let mut tree = grown.tree.clone();
            tree.leaves_mut().clone_from_slice(&leaves);
            tree
        };
        (leaves.into_iter().map(with_leaves).collect(), exponent)
    }

    /// The leaves that the tree just ended or replayed has for this output of a set, from their sums; the backend has their values.
    fn leaves(
        &self,
        backend: &mut dyn TreeSteps,
        grown: &GrownTree,
        sums: Vec<LeafSums>,
        (set, output): (usize, usize),
    ) -> Result<Vec<Leaf>> {
        let of_set = set * self.loss.outputs() + output;
        let units = self.units(output);
        let values: Vec<f64> = match self.loss.leaf_rule(output) {
            LeafRule::Newton => {
                let own = self.shared.map(|all| SplitRules { params: all[output].params, ..grown.rules.clone() });
                let rules = own.as_ref().unwrap_or(&grown.rules);
                sums.iter().zip(&grown.bounds).map(|(s, b)| rules.leaf_value(s.gradient, s.hessian, *b)).collect()
            }
            LeafRule::Quantile(alpha) => {
                let mut values = backend.leaf_quantiles(of_set, alpha)?;
                super::monotone::enforce(&grown.tree, &self.tree_params.monotone, &mut values);
                values
            }
        };
        let values: Vec<f32> = values.into_iter().map(|v| (v * self.params.learning_rate()) as f32).collect();
        if values.iter().any(|v| !(*v as f64 * units.unit).is_finite()) {
            return Err(Error::Data("a leaf's value is no longer finite: raise `l2` or lower `learning_rate`".into()).of_values());
        }
        backend.set_leaf_values(of_set, &values)?;
        // Where there are several targets, weights have the unit that these have in common.
        let factor = if self.units.len() > 1 { units.factor } else { 1.0 };
        let weight = |s: &LeafSums| (s.hessian * factor).min(f32::MAX as f64) as f32;
        let leaf = |(value, s): (&f32, &LeafSums)| Leaf { value: *value, weight: weight(s), count: s.count.min(u32::MAX as u64) as u32 };
        Ok(values.iter().zip(&sums).map(leaf).collect())
    }
}

/// The growing parameters with names turned into indices of coded features.
pub(super) fn tree_params(input: &Input<'_>, params: &BoostingParams, numeric: &[(u32, CodedFeature)]) -> Result<TreeParams> {
    let features: Vec<(&str, &FeatureType)> = input.features.iter().map(|f| (f.name(), f.dtype())).collect();
    let Constraints { directions, interaction } = constraints(&features, params)?;
    let mut monotone = vec![];
    for (column, direction) in directions {
        if let Some(i) = numeric.iter().position(|f| f.0 == column)
            && direction != 0
        {
            monotone.resize(numeric.len(), 0);
            monotone[i] = direction;
        }
    }
    Ok(TreeParams {
        policy: params.policy,
        depth: params.depth(),
        leaves: params.leaves(),
        split: params.split_params(),
        feature_fraction: params.feature_fraction,
        feature_fraction_level: params.feature_fraction_level,
        feature_fraction_node: params.feature_fraction_node,
        monotone,
        interaction,
        seed: params.seed,
    })
}
