//! The boosting loop (Friedman, "Greedy function approximation", 2001; second-order as in Chen and
//! Guestrin, "XGBoost", 2016).

use super::categorical_features::BaseCodes;
use super::categorical_features::CategoricalFeatures;
use super::continued::{self, FitOptions};
use super::dropout::{self, DropRules, DropSchedule, Dropouts};
use super::finish::{UsedFeatures, finish};
use super::linear_leaves::{self, LinearLeaves};
use super::measured::{MeasuredRows, MeasuredTable};
use super::model::Model;
use super::ordered;
use super::params::BoostingParams;
use super::prepare::Start;
use super::prior_rounds::PriorRounds;
use super::rounds::{Boosted, Factors, OutputUnits, Rounds, steps_of_dropouts};
use super::schema::{Constraints, check_class_weight, check_groups, check_positions, check_times, constraints, measured_metrics};
use super::several::{self, OneTarget};
use super::snapshot::Snapshot;
use super::steps::{Announced, BatchedCodes, Extent, GivenTree, OutputRules, TrainingData, TreeDevices, TreeSteps};
use super::together;
use super::units::settle;
use super::untold_rounds::fit_untold;
use super::{needed, prepare};
use crate::collective::RowShard;
use crate::column::select::OwnedColumn;
use crate::column::{Column, FeatureType};
use crate::dataset::counted::Counted;
use crate::dataset::kept_columns::KeptBlock;
use crate::dataset::labels::Labels;
use crate::dataset::own_rows::WholeBlocks;
use crate::dataset::positions::PositionFactors;
use crate::dataset::row_groups::RowGroups;
use crate::dataset::target::{self, TargetData};
use crate::dataset::{Input, Monitor, OwnRows, checks, coded};
use crate::error::{Error, Result};
use crate::losses::position_bias::{PositionBias, StepRule};
use crate::losses::risk_sets::RiskSets;
use crate::losses::{LeafRule, Loss, LossKind, LossParams, loss, loss_of_each, resolve_loss};
use crate::memory::{self, Reservation, product};
use crate::metrics::MetricSpec;
use crate::parallel::pools;
use crate::parallel::thread_pool::ThreadPool;
use crate::provenance::Provenance;
use crate::quantize::CodedFeature;
use crate::tree::Tree;
use crate::tree::linear::LinearLeaf;
use crate::tree::params::{SplitParams, TreeParams};
use std::sync::Arc;

/// Fits boosted trees to a table with the steps of one of `devices`.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter;
/// [`Error::Interrupted`] when `monitor` asks to stop; what the device reports.
pub fn fit(input: &Input<'_>, params: &BoostingParams, devices: &dyn TreeDevices, monitor: &dyn Monitor) -> Result<Model> {
    fit_with(input, params, &FitOptions::default(), devices, monitor)
}

/// Fits as [`fit`] does, from what `options` give: a model whose trees come first, snapshots.
///
/// # Errors
/// As [`fit`]; where it can't go on from the given model or the snapshot, saying what differs.
pub fn fit_with(
    input: &Input<'_>,
    params: &BoostingParams,
    options: &FitOptions<'_>,
    devices: &dyn TreeDevices,
    monitor: &dyn Monitor,
) -> Result<Model> {
    let own = options.own_rows(input.target.rows());
    fit_own(input, &own, params, options, devices, monitor).inspect_err(|error| own.collective.end_with(error))
}

/// Fits to a table of whose features this process has its `own` rows.
fn fit_own(
    input: &Input<'_>,
    own: &OwnRows<'_>,
    params: &BoostingParams,
    options: &FitOptions<'_>,
    devices: &dyn TreeDevices,
    monitor: &dyn Monitor,
) -> Result<Model> {
    params.validate()?;
    if params.position_factors.is_some() {
        return Err(Error::parameter("position_factors", "is what a model records of a fit; known ones are a `baseline`"));
    }
    options.check_batches()?;
    ordered::check_options(params, options)?;
    let rows = checks::check_table_of(input, own.count, options.batched())?;
    let threads = threads(params, own.count, input.features.len());
    let pool = ThreadPool::of_fit(threads, monitor.may_wait() || !own.is_whole())?;
    pool.enter(|| {
        together::begin(own, input, params, options)?;
        let model = fit_on(&pool, input, params, options, devices, monitor)?;
        together::end(own, rows, model)
    })
}

/// As many threads as asked for, but no more than the table keeps busy.
pub(super) fn threads(params: &BoostingParams, rows: usize, features: usize) -> usize {
    let asked = pools::asked(params.n_threads);
    asked.min(rows.saturating_mul(features.min(256)) / 32_768).max(1)
}

pub(super) fn fit_on(
    pool: &ThreadPool,
    input: &Input<'_>,
    params: &BoostingParams,
    options: &FitOptions<'_>,
    devices: &dyn TreeDevices,
    monitor: &dyn Monitor,
) -> Result<Model> {
    params.check_order(input.order.is_some())?;
    let params = &params.of_table(input);
    let checked = CheckedTarget::new(pool, input, params, options, devices.stays_here())?;
    if let Some(rows) = checked.data.rows_that_count() {
        drop(checked);
        let own = options.own_rows(input.target.rows());
        let among = options.own.map(|own| own.among(&rows));
        let counted = Counted::of_own(input, &own, rows)?;
        let batches = options.batches.map(|batches| batches.of_rows(&counted.rows));
        let values = linear_leaves::values_of(options.values.unwrap_or_default(), &counted.rows)?;
        let values: Vec<Column<'_>> = values.iter().map(OwnedColumn::column).collect();
        let options = &FitOptions { own: among, batches, values: options.values.map(|_| &values[..]), ..*options };
        let table = counted.input();
        checks::check_rows(counted.rows.len(), table.held_out, &table.target_name)?;
        let rows = input.target.rows() - input.held_out_rows();
        return fit_on(pool, &table, params, options, devices, monitor).map(|model| Model { rows: rows as u64, ..model });
    }
    if params.rounds.is_none() {
        let CheckedTarget { kind, raw_loss, data, reserved, .. } = checked;
        drop((data, reserved));
        return fit_untold(pool, input, params, options, (kind, raw_loss.as_ref()), devices, monitor);
    }
    fit_checked(pool, input, params, options, devices, monitor, checked)
}

/// A table's target, and what follows from it before anything is computed.
pub(super) struct CheckedTarget {
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

impl CheckedTarget {
    /// Checks a table's target and all that is given beside it. `params`: those [of the table](BoostingParams::of_table); `here`: whether
    /// the fit is sure to be made by this process's threads.
    ///
    /// # Errors
    /// What is wrong, naming the column or the parameter; [`Error::Memory`].
    pub(super) fn new(
        pool: &ThreadPool,
        input: &Input<'_>,
        params: &BoostingParams,
        options: &FitOptions<'_>,
        here: bool,
    ) -> Result<CheckedTarget> {
        checks::check_classes(input)?;
        let kind = resolve_loss(params.loss, &input.target)?;
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
        linear_leaves::check(params, raw_loss.as_ref())?;
        ordered::check(params, raw_loss.as_ref(), kind.name())?;
        let shares_trees = params.shares_trees(raw_loss.as_ref())?;
        let own = options.own_rows(input.target.rows()).count;
        let reserved = needed::reserve(pool, input, params, outputs, (here, options.spill().is_some()), own)?;
        let values = target::target_numbers(input, options.spill(), &|y| raw_loss.check_target(y))?;
        checks::check_positive(&input.target, params.positive.as_ref())?;
        check_class_weight(params, classes > 0)?;
        let data = prepare::weigh(input, raw_loss.as_ref(), values, &params.class_weight)?;
        several::check_huber_delta(&input.target, kind, &metrics, params)?;
        Ok(CheckedTarget { kind, raw_loss, shares_trees, metrics, data, reserved })
    }

    /// Returns whether all rows count, and the fit is told how many rounds it makes: then it is one fit, of this table.
    pub(super) fn is_one_fit(&self, params: &BoostingParams) -> bool {
        params.rounds.is_some() && self.data.rows_that_count().is_none()
    }

    /// Returns the parameters that the table completes.
    pub(super) fn complete(&self, input: &Input<'_>, params: &BoostingParams, options: &FitOptions<'_>) -> BoostingParams {
        let own_delta = options.init_model.filter(|_| self.kind == LossKind::Huber).and_then(|model| model.params.huber_delta);
        let params = BoostingParams { huber_delta: params.huber_delta.or(own_delta), ..params.clone() };
        let metrics = if input.target.labels().is_none() { &self.metrics[..] } else { &[] };
        params.with_huber_delta(self.kind, metrics, || prepare::huber_delta(input, &self.data))
    }
}

/// Fits to rows that all count.
fn fit_checked(
    pool: &ThreadPool,
    input: &Input<'_>,
    params: &BoostingParams,
    options: &FitOptions<'_>,
    devices: &dyn TreeDevices,
    monitor: &dyn Monitor,
    checked: CheckedTarget,
) -> Result<Model> {
    let blocks = WholeBlocks::new(input, options.own_rows(input.target.rows()), RowShard::BLOCK)?;
    let (own, input) = (blocks.moves.own, &input.with_features(blocks.features(input)));
    let params = &checked.complete(input, params, options);
    PreparedFit::new(pool, (input, own), params, options, monitor, checked)?.run(devices, monitor)
}

/// A fit before its rounds: all that is made of a table but what a device keeps of it.
pub(super) struct PreparedFit<'a> {
    pool: &'a ThreadPool,
    pub(super) input: &'a Input<'a>,
    own: OwnRows<'a>,
    pub(super) params: &'a BoostingParams,
    pub(super) options: &'a FitOptions<'a>,
    kind: LossKind,
    pub(super) loss: Box<dyn Loss>,
    shares_trees: bool,
    pub(super) tree_params: TreeParams,
    pub(super) features: CategoricalFeatures<'a>,
    pub(super) base: Vec<BaseCodes>,
    measured: Option<MeasuredRows>,
    pub(super) units: Vec<OutputUnits>,
    shared: Option<Vec<OutputRules>>,
    start: Vec<f64>,
    pub(super) targets: Vec<Vec<f32>>,
    pub(super) weights: Option<Vec<f32>>,
    weight_unit: f64,
    loss_columns: Vec<Vec<f32>>,
    groups: Option<RowGroups>,
    risk_sets: Option<RiskSets>,
    pub(super) scores: Vec<Vec<f32>>,
    prior: PriorRounds,
    /// The values of columns that come in batches, where leaves are functions of them.
    kept: Vec<KeptBlock>,
    /// The memory that the arrays will take.
    reserved: Reservation,
}

impl<'a> PreparedFit<'a> {
    /// Prepares a fit to rows that all count, of whose features this process has its `own` rows. `params`: those that the table has
    /// [completed](CheckedTarget::complete).
    ///
    /// # Errors
    /// As [`fit`].
    pub(super) fn new(
        pool: &'a ThreadPool,
        (input, own): (&'a Input<'a>, OwnRows<'a>),
        params: &'a BoostingParams,
        options: &'a FitOptions<'a>,
        monitor: &dyn Monitor,
        CheckedTarget { kind, raw_loss, shares_trees, metrics, data, reserved }: CheckedTarget,
    ) -> Result<PreparedFit<'a>> {
        let (labels, outputs) = (input.target.labels(), raw_loss.outputs());
        if let Some(model) = options.init_model {
            continued::check(model, input, params, (kind, outputs))?;
        }
        let classes = labels.map_or(0, Labels::len);
        let several = several::each(input, &data);
        let raw_loss = if kind == LossKind::Huber { loss(kind, &params.loss_params(), classes, 1.0)? } else { raw_loss };
        let borders = params.border_params(&input.features);
        let mut kept = vec![];
        let mut numeric = match (options.coded, options.batches) {
            (Some(coded), _) => coded.to_vec(),
            (None, Some(batches)) => {
                let mut keeper = linear_leaves::keeper(params, batches);
                let keep = &mut |columns: &[Column<'_>]| keeper.as_mut().map_or(Ok(()), |keeper| keeper.add(columns, pool));
                let coded = coded::code_batches(input, batches, &borders, pool, &|| monitor.interrupted(), keep)?;
                kept = keeper.map(|keeper| keeper.kept(pool)).transpose()?.unwrap_or_default();
                coded
            }
            (None, None) => coded::code_features(input, &own, &borders, pool, &|| monitor.interrupted())?,
        };
        if let Some(model) = options.init_model {
            continued::keep_borders(model, &borders, &mut numeric);
        }
        let tree_params = tree_params(input, params, &mut numeric)?;
        let of_categories = several::statistics_target(input, &data);
        let (mut features, base) = CategoricalFeatures::new(pool, (input, own), params, &of_categories, (numeric, &tree_params));
        features.constrain(&tree_params.interaction);
        if options.init_model.is_some() {
            continued::check_statistics(features.orders_rows())?;
        }
        drop(of_categories);
        if DropRules::of(params).is_some() {
            dropout::check(input, params, options, features.orders_rows())?;
        }

        let bounds = prepare::bounds(input, raw_loss.as_ref(), &metrics, &data.values)?;
        let columns = prepare::loss_columns(input, raw_loss.as_ref(), bounds.as_ref())?;
        let given = options.init_model.map(|model| &model.start[..]);
        let starts = several::starts((input, &data, &columns), &several, (kind, &params.loss_params()), raw_loss.as_ref(), given)?;
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
        let risk_sets =
            prepare::risk_sets(input, loss.as_ref(), groups.as_ref(), (&columns, data.weights.as_deref(), &starts[0].scores[0]))?;
        let refits = loss.leaf_rule(0) != LeafRule::Newton;
        // What the derivatives of each target's outputs are in units of.
        let of_start = |s: &Start| OutputUnits {
            unit: s.unit,
            gradient: prepare::gradient_unit(loss.as_ref(), s.unit),
            factor: s.factor,
            linear_l2: params.linear_l2.unwrap_or(0.0) / (data.weight_unit * s.factor),
            split: {
                let split = tree_params.split.in_units(prepare::gradient_unit(loss.as_ref(), s.unit), data.weight_unit * s.factor);
                // The derivatives of leaves that are refitted have nothing of their values.
                if refits { split.without_values() } else { split }
            },
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
        let split = match shares_trees {
            true => tree_params.split.in_units(1.0, data.weight_unit).without_values(),
            // Nor have those of several bodies one value.
            false if params.is_ordered() => units[0].split.without_values(),
            false => units[0].split,
        };
        let tree_params = TreeParams { split, weights: compared_by(tree_params.weights), ..tree_params };

        let units_of_scores: Vec<f64> = units.iter().map(|u| u.unit).collect();
        let mut prior = PriorRounds::new(
            (input, &own),
            params,
            options,
            (scores, features.sets()),
            &units_of_scores,
            (measured.as_ref(), kind, loss.as_ref()),
        )?;
        let scores = std::mem::take(&mut prior.scores);
        let groups = groups.filter(|_| loss.by_group().is_some());
        Ok(PreparedFit {
            pool,
            input,
            own,
            params,
            options,
            kind,
            loss,
            shares_trees,
            tree_params,
            features,
            base,
            measured,
            units,
            shared,
            start,
            targets,
            weights: data.weights,
            weight_unit: data.weight_unit,
            loss_columns,
            groups,
            risk_sets,
            scores,
            prior,
            kept,
            reserved,
        })
    }

    /// Makes the rounds with the steps of one of `devices`, and of them the model.
    ///
    /// # Errors
    /// As [`fit`].
    pub(super) fn run(self, devices: &dyn TreeDevices, monitor: &dyn Monitor) -> Result<Model> {
        let PreparedFit { pool, input, own, params, options, kind, loss, shares_trees, tree_params, .. } = self;
        let PreparedFit { mut features, base, measured, units, shared, start, targets, weights, weight_unit, .. } = self;
        let PreparedFit { loss_columns, groups, risk_sets, scores, mut prior, kept, reserved, .. } = self;
        let schedule = DropRules::of(params).map(|rules| DropSchedule::new(rules, options.init_model, prior.rounds));
        let mut given_trees = std::mem::take(&mut prior.trees);
        let (outputs, positions) = (loss.outputs(), input.loss_columns.positions.as_ref());
        let (coded, pieces) = (features.coded.clone(), std::mem::take(&mut features.pieces));
        // Of each feature that comes in batches, which of them it is.
        let place = |b: &BaseCodes| b.column().and_then(|column| options.batches?.place(column));
        let sources: Vec<_> = base.iter().map(|b| b.source(input, options.coded.is_some() || place(b).is_some())).collect();
        let places = base.iter().enumerate().filter_map(|(feature, b)| Some((feature, place(b)?))).collect();
        let batches = options.batches.map(|batches| BatchedCodes { batches, places });
        let sure = measured.is_none()
            && options.snapshots.is_none()
            && features.sets() == 1
            && loss.leaf_rule(0) == LeafRule::Newton
            && !shares_trees
            && schedule.is_none()
            && params.leaf_iterations() == 1
            && !params.has_linear_leaves()
            && units.len() == 1;
        let trees = u64::from(prior.rounds + params.rounds()) * outputs as u64;
        let announced = sure.then_some(Announced { learning_rate: params.learning_rate(), trees });
        let mut targets = targets.into_iter();
        let target = targets.next().unwrap_or_default();
        let rows = input.target.rows();
        let rank_position_l2 = params.rank_position_l2.or(positions.map(|_| 0.0));
        let rule = StepRule { learning_rate: params.learning_rate(), l2: rank_position_l2.unwrap_or(0.0) };
        let bias = positions.map(|p| PositionBias::new(&p.codes, p.labels.len(), input.held_out, weights.as_deref(), rule));
        let bias = match &prior.factors.latest {
            Some(factors) => bias.map(|bias| bias.with_factors(factors.clone())),
            None => bias,
        };
        let trained: Option<Vec<bool>> = bias.as_ref().map(|p| (0..p.positions()).map(|position| p.is_trained(position)).collect());
        let is_linear = params.has_linear_leaves();
        let kept = options.batches.filter(|_| is_linear).map(|batches| linear_leaves::with_kept(input, batches, &kept));
        let values = is_linear.then(|| kept.as_deref().or(options.values).unwrap_or(&input.features));
        let data = TrainingData {
            features: &coded,
            sources: &sources,
            target: own.of(target),
            more_targets: targets.map(|target| own.of(target)).collect(),
            weight: weights.map(|weights| own.of(weights)),
            columns: loss_columns.into_iter().map(|column| own.of(column)).collect(),
            groups,
            positions: bias.map(Arc::new),
            risk_sets: risk_sets.map(Arc::new),
            scores,
            held_out: input.held_out.map(|marks| &marks[own.range()]),
            measures_all: measured.as_ref().is_some_and(MeasuredRows::needs_all_rows),
            row_sampling: params.row_sampling(),
            row_counts: tree_params.row_counts(),
            policy: tree_params.policy,
            depth: tree_params.depth,
            // Shared trees know no sparse features yet, nor do those of several bodies.
            bundle: params.bundle && !shares_trees && !params.is_ordered(),
            seed: params.seed,
            announced,
            shared: if shares_trees { outputs } else { 1 },
            steps_on: params.leaf_iterations() > 1,
            values,
            pieces: pieces.of_own(&own),
            shard: own.shard(rows),
            batches: batches.as_ref(),
        };
        let bodies = data.pieces.bodies;
        // Its arrays are there now, and count by themselves.
        drop(reserved);
        let linear = values.map(|values| LinearLeaves::new(values, own.count, own.shard(rows)));
        let rounds = Rounds {
            params,
            tree_params: &tree_params,
            loss: loss.as_ref(),
            units: &units,
            shared: shared.as_deref(),
            measured: measured.as_ref(),
            linear: linear.as_ref(),
            bodies,
            first: prior.rounds,
            last: prior.last,
            rows: (rows - input.held_out_rows()) as u64,
            monitor,
            collective: own.collective,
        };
        let finished = Finished {
            input,
            params: BoostingParams { rank_position_l2, ..params.kept() },
            kind,
            start,
            units: &units,
            shares_trees,
            weight_unit,
            trained,
            rows: (rows - input.held_out_rows()) as u64,
        };
        // Every output has a histogram of each node.
        let histograms = if shares_trees { outputs } else { 1 };
        let extent = Extent { most_nodes: (params.leaves() as usize / 2).max(1) * histograms, trees: params.rounds() as usize * outputs };
        let mut fitted = None;
        devices.with_steps(pool, data, extent, monitor, &mut |backend| {
            let (dropouts, given) = begin_dropouts(schedule.clone(), (std::mem::take(&mut given_trees), outputs), backend)?;
            let so_far = Boosted { history: prior.history.clone(), factors: prior.factors.clone(), given, ..Boosted::default() };
            let mut after_round = |round: u32, done: &Boosted, backend: &mut dyn TreeSteps, features: &mut CategoricalFeatures<'_>| {
                let Some(snapshots) = options.snapshots.filter(|s| round.is_multiple_of(s.every().max(1))) else { return Ok(()) };
                features.subsets = backend.category_sets().to_vec();
                // The scores, once more in the snapshot, and its bytes; of other processes' rows the first has them.
                let (keeps, copies) = (own.collective.rank() == 0, if own.is_whole() { 3 } else { 4 });
                let bytes = product(&[copies * 4, if keeps { rows } else { own.count } as u64, (features.sets() * outputs) as u64]);
                let _reserved = memory::reserve("a snapshot of a fit", bytes, "leave `snapshot` out, or fit on fewer rows")?;
                let (scores, latest) = (backend.all_scores()?, backend.position_factors()?);
                if !keeps {
                    return Ok(());
                }
                let factors = Factors { latest, best: done.factors.best.clone() };
                let model = prior.with(finished.model(done.clone(), features), &done.given, round)?;
                snapshots.save(&Snapshot { digest: prior.digest, rounds: round, model, scores, factors }.into_bytes())
            };
            fitted = Some(rounds.run(backend, &mut features, so_far, dropouts, &mut after_round)?);
            Ok(())
        })?;
        let done = fitted.ok_or_else(|| Error::Data("no device has done the work".into()))?;
        let kept = done.kept;
        let given = done.given.clone();
        prior.with(finished.model(done, &features), &given, kept)
    }
}

/// Begins to leave trees out for a while, where there is a `schedule`: with the given trees, `[round][output]`, whose leaf values come along, tree by tree.
///
/// # Errors
/// Those of the device.
fn begin_dropouts(
    schedule: Option<DropSchedule>,
    (trees, outputs): (Vec<Vec<GivenTree>>, usize),
    backend: &mut dyn TreeSteps,
) -> Result<(Option<Dropouts>, Vec<Vec<f32>>)> {
    let Some(schedule) = schedule else { return Ok((None, vec![])) };
    let values: Vec<Vec<f32>> = trees.iter().flatten().map(|tree| tree.values.clone()).collect();
    steps_of_dropouts(backend)?.keep_trees(trees)?;
    Ok((Some(Dropouts::new(schedule, outputs, values.clone())), values))
}

/// What a model says beside its trees, and what these are in units of.
struct Finished<'a> {
    input: &'a Input<'a>,
    /// As the model keeps them.
    params: BoostingParams,
    kind: LossKind,
    start: Vec<f64>,
    units: &'a [OutputUnits],
    shares_trees: bool,
    weight_unit: f64,
    /// Of each position, whether rows train at it.
    trained: Option<Vec<bool>>,
    rows: u64,
}

impl Finished<'_> {
    /// Returns the model of the trees of some rounds.
    fn model(&self, done: Boosted, from: &CategoricalFeatures<'_>) -> Model {
        let Boosted { mut trees, mut linear, gains, history, factors, .. } = done;
        let (input, units) = (self.input, self.units);
        let scale = common_scale(&mut trees, &mut linear, self.start.len(), units);
        let units = match units {
            [one] if !self.shares_trees => settle(&mut trees, &gains, one.gradient, self.weight_unit * one.factor),
            _ => settle(&mut trees, &gains, 1.0, self.weight_unit),
        };
        let UsedFeatures { features, derived, tables } = finish(&mut trees, input, from);
        let positions = input.loss_columns.positions.as_ref();
        let position_factors = positions.zip(factors.latest).zip(self.trained.as_ref()).map(|((positions, factors), trained)| {
            let of_trained: Vec<Option<f64>> =
                factors.into_iter().zip(trained).map(|(factor, trained)| trained.then_some(factor)).collect();
            PositionFactors::ascending(&positions.labels, &of_trained)
        });
        Model {
            params: BoostingParams { position_factors, ..self.params.clone() },
            loss: self.kind,
            target: input.target_name.clone(),
            features,
            derived,
            tables,
            labels: input.target.labels().cloned(),
            start: self.start.clone(),
            scale,
            units,
            trees,
            linear,
            rows: self.rows,
            history,
            provenance: Provenance::default(),
        }
    }
}

/// Brings leaf values of several targets into one unit, and returns it.
fn common_scale(trees: &mut [Tree], linear: &mut [LinearLeaf], outputs: usize, units: &[OutputUnits]) -> f64 {
    let scale = units.iter().map(|u| u.unit).fold(0.0, f64::max);
    let unit_of = |tree: usize| units[(tree % outputs).min(units.len() - 1)].unit;
    linear.iter_mut().for_each(|leaf| leaf.rescale(unit_of(leaf.tree as usize) / scale));
    for (i, tree) in trees.iter_mut().enumerate() {
        let unit = unit_of(i);
        if unit != scale {
            tree.leaves_mut().iter_mut().for_each(|leaf| leaf.rescale(unit / scale));
        }
    }
    scale
}

/// Returns the weights of columns by which splits are compared: none where all that can be split on count the same.
fn compared_by(weights: Vec<f64>) -> Vec<f64> {
    if weights.iter().all(|weight| *weight == 0.0 || *weight == 1.0) { vec![] } else { weights }
}

/// Returns the growing parameters with names turned into indices of coded features; features of weight 0 leave `numeric`.
///
/// # Errors
/// Where parameters name features that are not there, or leave none.
pub(super) fn tree_params(input: &Input<'_>, params: &BoostingParams, numeric: &mut Vec<(u32, CodedFeature)>) -> Result<TreeParams> {
    let features: Vec<(&str, &FeatureType)> = input.features.iter().map(|f| (f.name(), f.dtype())).collect();
    let Constraints { directions, interaction, weights } = constraints(&features, params)?;
    numeric.retain(|(column, _)| weights.get(*column as usize) != Some(&0.0));
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
        extra_trees: params.extra_trees == Some(true),
        monotone,
        interaction,
        weights,
        seed: params.seed,
    })
}
