//! The boosting loop (Friedman, "Greedy function approximation", 2001; second-order as in Chen and
//! Guestrin, "XGBoost", 2016).

use super::categorical_features::CategoricalFeatures;
use super::finish::{UsedFeatures, finish};
use super::measured::{MeasuredRows, MeasuredTable, Origin};
use super::model::Model;
use super::params::{BoostingParams, RowSample};
use super::prepare::Start;
use super::schema::{Constraints, check_class_weight, check_groups, check_positions, check_times, constraints, measured_metrics};
use super::steps::{Announced, Extent, LeafSums, TrainingData, TreeDevices, TreeSteps};
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
use crate::losses::{LeafRule, Loss, LossKind, loss, resolve_loss};
use crate::memory::Reservation;
use crate::metrics::MetricSpec;
use crate::model::History;
use crate::parallel::pools;
use crate::parallel::thread_pool::ThreadPool;
use crate::provenance::Provenance;
use crate::quantize::CodedFeature;
use crate::tree::grow::{GrownTree, Root, grow, is_plain};
use crate::tree::params::TreeParams;
use crate::tree::{Leaf, Tree};

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

fn fit_on(
    pool: &ThreadPool,
    input: &Input<'_>,
    params: &BoostingParams,
    devices: &dyn TreeDevices,
    monitor: &dyn Monitor,
) -> Result<Model> {
    checks::check_classes(input)?;
    let kind = resolve_loss(params.loss, &input.target)?;
    let labels = input.target.labels();
    let classes = labels.map_or(0, Labels::len);
    let raw_loss = loss(kind, &params.loss_params(), classes, 1.0)?;
    prepare::check_loss_columns(input, params)?;
    let outputs = raw_loss.outputs();
    let metrics = measured_metrics(input.held_out.is_some(), params, raw_loss.as_ref(), labels.map(Labels::len))?;
    check_positions(params.loss, kind, input.loss_columns.positions.is_some())?;
    check_groups(kind, &metrics, input.loss_columns.groups.is_some())?;
    check_times(raw_loss.as_ref(), &metrics, input.loss_columns.times.is_given())?;
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
    fit_checked(pool, input, params, devices, monitor, CheckedTarget { kind, raw_loss, metrics, data, reserved })
}

/// A table's target, and what follows from it before anything is computed.
struct CheckedTarget {
    kind: LossKind,
    /// The loss of scores as they are.
    raw_loss: Box<dyn Loss>,
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
    CheckedTarget { kind, raw_loss, metrics, data, reserved }: CheckedTarget,
) -> Result<Model> {
    let (labels, outputs) = (input.target.labels(), raw_loss.outputs());
    let classes = labels.map_or(0, Labels::len);
    let params = &params.with_huber_delta(kind, if labels.is_none() { &metrics } else { &[] }, || prepare::huber_delta(input, &data));
    let raw_loss = if kind == LossKind::Huber { loss(kind, &params.loss_params(), classes, 1.0)? } else { raw_loss };
    let numeric = coded::code_features(input, &params.border_params(), pool, &|| monitor.interrupted())?;
    let tree_params = tree_params(input, params, &numeric)?;
    let (mut features, base) = CategoricalFeatures::new(pool, input, params, &data.values, numeric);
    features.constrain(&tree_params.interaction);

    let bounds = prepare::bounds(input, raw_loss.as_ref(), &metrics, &data.values)?;
    let columns = prepare::loss_columns(input, raw_loss.as_ref(), bounds.as_ref())?;
    let Start { start, unit, offset, factor, target: training_target, scores } = prepare::start(input, raw_loss.as_ref(), &data, &columns)?;
    let groups = input.loss_columns.groups.as_deref().map(RowGroups::new);
    let measured = if metrics.is_empty() {
        None
    } else {
        let weight = prepare::measured_weights(input, raw_loss.as_ref(), &data, &params.class_weight)?;
        let table = MeasuredTable { values: &data.values, weight: weight.as_deref(), groups: groups.as_ref(), bounds: bounds.as_ref() };
        Some(MeasuredRows::new(metrics, input, params, raw_loss.as_ref(), &table, &Origin { start: &start, offset, unit })?)
    };
    drop(data.values);
    let loss = loss(kind, &params.loss_params(), classes, unit)?;
    let loss_columns = prepare::device_columns(loss.as_ref(), &columns);
    prepare::check_derivatives(input, loss.as_ref(), (&training_target, &scores[0], &loss_columns), (start[0], unit))?;
    let risk_sets = prepare::risk_sets(input, loss.as_ref(), groups.as_ref(), (&columns, data.weights.as_deref(), &scores[0]))?;
    let gradient_unit = prepare::gradient_unit(loss.as_ref(), unit);
    // What both derivatives are in units of.
    let weight_unit = data.weight_unit * factor;
    let tree_params = TreeParams { split: tree_params.split.in_units(gradient_unit, weight_unit), ..tree_params };

    // A set of scores for each permutation of categories' statistics, all alike at first.
    let scores = if features.sets() == 1 { scores } else { (0..features.sets()).flat_map(|_| scores.clone()).collect() };
    let coded = features.coded.clone();
    let sources: Vec<_> = base.iter().map(|b| b.source(input)).collect();
    let sure = measured.is_none() && features.sets() == 1 && loss.leaf_rule(0) == LeafRule::Newton;
    let trees = params.rounds as u64 * outputs as u64;
    let announced = sure.then_some(Announced { learning_rate: params.learning_rate, trees });
    let rows = training_target.len();
    let of_rows = input.loss_columns.positions.as_ref();
    let rank_position_l2 = params.rank_position_l2.or(of_rows.map(|_| 0.0));
    let rule = StepRule { learning_rate: params.learning_rate, l2: rank_position_l2.unwrap_or(0.0) };
    let positions = of_rows.map(|p| PositionBias::new(&p.codes, p.labels.len(), input.held_out, data.weights.as_deref(), rule));
    let trained: Option<Vec<bool>> = positions.as_ref().map(|p| (0..p.positions()).map(|position| p.is_trained(position)).collect());
    let data = TrainingData {
        features: &coded,
        sources: &sources,
        target: training_target,
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
        bundle: params.bundle,
        seed: params.seed,
        announced,
        shard: RowShard::whole(rows),
    };
    // Its arrays are there now, and count by themselves.
    drop(reserved);
    let rounds = Rounds { params, tree_params: &tree_params, loss: loss.as_ref(), unit, measured: measured.as_ref(), monitor };
    let extent = Extent { most_nodes: (params.leaves() as usize / 2).max(1), trees: params.rounds as usize * outputs };
    let mut fitted = None;
    devices.with_steps(pool, data, extent, monitor, &mut |backend| {
        fitted = Some(rounds.run(backend, &mut features)?);
        Ok(())
    })?;
    let Boosted { mut trees, gains, history, factors } = fitted.ok_or_else(|| Error::Data("no device has done the work".into()))?;
    let units = settle(&mut trees, &gains, gradient_unit, weight_unit);
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
        scale: unit,
        units,
        trees,
        rows: training_rows,
        history,
        provenance: Provenance::default(),
    })
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
    /// What scores are in units of.
    unit: f64,
    measured: Option<&'a MeasuredRows>,
    monitor: &'a dyn Monitor,
}

impl Rounds<'_> {
    /// Round after round: a tree for each output, their values added to the scores, the metrics of
    /// the measured rows; until all trees are grown or the metric no longer improves.
    fn run(&self, backend: &mut dyn TreeSteps, features: &mut CategoricalFeatures<'_>) -> Result<Boosted> {
        let (params, outputs) = (self.params, self.loss.outputs());
        let (mut trees, mut gains, mut factors) = (vec![], vec![], None);
        let mut least_gains = vec![f64::INFINITY; outputs];
        let mut history = self.measured.and_then(MeasuredRows::history);
        let loss_params = params.loss_params();
        for round in 0..params.rounds {
            for (output, least_gain) in least_gains.iter_mut().enumerate() {
                let number = round as u64 * outputs as u64 + output as u64;
                let (tree, gain_exponent) = self.tree(backend, features, number, output, least_gain)?;
                trees.push(tree);
                gains.push(gain_exponent);
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
            self.monitor.round(round + 1, params.rounds, value);
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

    /// Grows tree `number` of the fit for `output` and gives its leaves their values; with the exponent of what its gains are
    /// in units of. `least_gain`: see [`grow`].
    fn tree(
        &self,
        backend: &mut dyn TreeSteps,
        features: &mut CategoricalFeatures<'_>,
        number: u64,
        output: usize,
        least_gain: &mut f64,
    ) -> Result<(Tree, i32)> {
        let interrupted = || self.monitor.interrupted();
        let outputs = self.loss.outputs();
        let own = features.set_of(number);
        let groups = features.begin_tree(backend, number)?;
        let plan = is_plain(self.tree_params, &*features).then_some(self.tree_params);
        let request = TreeRequest { loss: self.loss, tree: number, output: own * outputs + output, groups: &groups, plan };
        let mut grown = match backend.begin_tree(&request)? {
            Begun::Root { sums, scales } => {
                let root = Root { tree: number, sums, scales };
                grow(backend, self.tree_params, features, root, least_gain, &interrupted)?
            }
            Begun::Whole(tree) => tree.finish(self.tree_params),
        };
        features.note_used(grown.tree.splits())?;
        let sums = backend.end_tree(self.loss, &grown.tree, &grown.leaves)?;
        let mut leaves = self.leaves(backend, &grown, sums, output)?;
        for set in (0..features.sets()).filter(|set| *set != own) {
            let tree = features.translated(backend, &grown.tree, set)?;
            let sums = backend.replay(self.loss, &tree, set * outputs + output)?;
            let of_set = self.leaves(backend, &grown, sums, output)?;
            if set == 0 {
                leaves = of_set;
            }
        }
        grown.tree.leaves_mut().clone_from_slice(&leaves);
        Ok((grown.tree, grown.gain_exponent))
    }

    /// The leaves of this output's tree just ended or replayed, from their sums; the backend has their values.
    fn leaves(&self, backend: &mut dyn TreeSteps, grown: &GrownTree, sums: Vec<LeafSums>, output: usize) -> Result<Vec<Leaf>> {
        let values: Vec<f64> = match self.loss.leaf_rule(output) {
            LeafRule::Newton => sums.iter().zip(&grown.bounds).map(|(s, b)| grown.rules.leaf_value(s.gradient, s.hessian, *b)).collect(),
            LeafRule::Quantile(alpha) => {
                let mut values = backend.leaf_quantiles(alpha)?;
                super::monotone::enforce(&grown.tree, &self.tree_params.monotone, &mut values);
                values
            }
        };
        let values: Vec<f32> = values.into_iter().map(|v| (v * self.params.learning_rate) as f32).collect();
        if values.iter().any(|v| !(*v as f64 * self.unit).is_finite()) {
            return Err(Error::Data("a leaf's value is no longer finite: raise `l2` or lower `learning_rate`".into()).of_values());
        }
        backend.set_leaf_values(&values)?;
        let weight = |s: &LeafSums| s.hessian.min(f32::MAX as f64) as f32;
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
