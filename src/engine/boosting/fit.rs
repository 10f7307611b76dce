//! The boosting loop (Friedman, "Greedy function approximation", 2001; second-order as in Chen and
//! Guestrin, "XGBoost", 2016).

use super::derived::DerivedFeatures;
use super::finish::{Questions, finish};
use super::loss::{LeafRule, Link, Loss, loss};
use super::metric::{metric, undefined};
use super::params::{BoostingParams, LossKind, MetricKind, metric_names};
use super::prepare::{self, NUMERIC_TARGET, Start};
use super::{Input, Monitor, Target};
use crate::backend::cpu::team::Team;
use crate::backend::{Announced, Backend, CodedFeature, Extent, LeafSums, TrainingData, with_backend};
use crate::column::FeatureType;
use crate::error::{Error, Result, nearest};
use crate::model::{History, Model};
use crate::params::NO_HELD_OUT;
use crate::provenance::Provenance;
use crate::tree::grow::{Grown, grow};
use crate::tree::params::TreeParams;
use crate::tree::split::CategoryRules;
use crate::tree::{Leaf, Tree};

/// Fits boosted trees to a table.
///
/// The same rows in the same order give an equal model, whatever `n_threads` and the columns'
/// chunks.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter;
/// [`Error::Interrupted`] when `monitor` asks to stop.
///
/// ```
/// use taiga_engine::boosting::{BoostingParams, Input, Quiet, Target, fit};
/// use taiga_engine::column::Column;
///
/// let x: Vec<f64> = (0..100).map(f64::from).collect();
/// let y: Vec<f64> = x.iter().map(|x| if *x > 30.0 { 5.0 } else { 1.0 }).collect();
/// let input = Input {
///     features: vec![Column::from_f64("x", &x)],
///     target: Target::Numbers(Column::from_f64("y", &y)),
///     target_name: "y".into(),
///     weight: None,
///     baseline: vec![],
///     held_out: None,
/// };
/// let params = BoostingParams { trees: 20, depth: Some(1), ..Default::default() };
/// let model = fit(&input, &params, &Quiet).unwrap();
/// assert_eq!(model.rounds(), 20);
/// assert_eq!(model.features[0].borders, vec![30.5]);
/// ```
pub fn fit(input: &Input<'_>, params: &BoostingParams, monitor: &dyn Monitor) -> Result<Model> {
    params.validate()?;
    let rows = prepare::check_table(input)?;
    let team = Team::new(threads(params, rows, input.features.len()))?;
    team.enter(|| fit_on(&team, input, params, monitor))
}

/// As many threads as asked for, but no more than the table keeps busy.
fn threads(params: &BoostingParams, rows: usize, features: usize) -> usize {
    let asked = params.n_threads.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), |n| n as usize);
    asked.min(rows.saturating_mul(features.min(256)) / 32_768).max(1)
}

fn fit_on(team: &Team, input: &Input<'_>, params: &BoostingParams, monitor: &dyn Monitor) -> Result<Model> {
    let interrupted = || monitor.interrupted();
    prepare::check_classes(input)?;
    let kind = prepare::resolve_loss(params.loss, &input.target)?;
    let (labels, classes) = match &input.target {
        Target::Classes { labels, .. } => (Some(labels.clone()), labels.len()),
        Target::Numbers(_) => (None, 0),
    };
    let raw_loss = loss(kind, params, classes, 1.0)?;
    let outputs = raw_loss.outputs();
    let measure = held_out_metric(input, params, raw_loss.as_ref())?;
    let target = prepare::target_numbers(input, raw_loss.as_ref())?;
    prepare::check_positive(&input.target, params.positive.as_ref())?;
    let weight = prepare::row_weights(input, params)?;
    let numeric = prepare::code_features(input, params, team, &interrupted)?;
    let tree_params = tree_params(input, params, &numeric)?;
    let (mut features, base) = DerivedFeatures::new(team, input, params, &target, numeric);
    features.constrain(&tree_params.interaction);

    let Start { start, unit, target: training_target, scores } =
        prepare::start(input, raw_loss.as_ref(), &target, weight.as_deref(), outputs)?;
    let held_out = measure.map(|kind| HeldOut::new(kind, input, raw_loss.location(), &target, weight.as_deref(), &start, unit));
    drop(target);
    let loss = loss(kind, params, classes, unit)?;
    let gradient_unit = prepare::gradient_unit(loss.as_ref(), unit);
    let tree_params =
        TreeParams { l1: tree_params.l1 / gradient_unit, min_gain: tree_params.min_gain / gradient_unit / gradient_unit, ..tree_params };

    // A set of scores for each permutation of categories' statistics, all alike at first.
    let scores = if features.sets() == 1 { scores } else { (0..features.sets()).flat_map(|_| scores.clone()).collect() };
    let coded = features.coded.clone();
    let sources: Vec<_> = base.iter().map(|b| b.source(input)).collect();
    let data = TrainingData {
        features: &coded,
        sources: &sources,
        target: training_target,
        weight,
        scores,
        held_out: input.held_out,
        row_sample: params.row_sample,
        row_fraction: params.row_fraction(),
        l2: params.l2,
        count_rows: params.min_data_in_leaf > 0,
        bundle: params.bundle,
        seed: params.seed,
    };
    let rows = data.target.len();
    let rounds = Rounds {
        params,
        tree_params: &tree_params,
        loss: loss.as_ref(),
        units: (unit, gradient_unit),
        held_out: held_out.as_ref(),
        monitor,
    };
    let extent = Extent { most_nodes: (params.leaves() as usize / 2).max(1), trees: params.trees as usize * outputs };
    let chosen = |device: &str| monitor.device(device);
    let run = |backend: &mut dyn Backend| rounds.run(backend, &mut features);
    let (mut trees, history) = with_backend(&params.device, team, data, extent, &interrupted, &chosen, run)?;
    let Questions { features, derived, tables } = finish(&mut trees, input, &features);
    let training_rows = (rows - input.held_out_rows()) as u64;
    Ok(Model {
        params: recorded(params),
        loss: kind,
        target: input.target_name.clone(),
        features,
        derived,
        tables,
        labels,
        start,
        scale: unit,
        trees,
        rows: training_rows,
        history,
        provenance: Provenance::default(),
    })
}

/// The parameters as a model records them: without what never changes one.
pub(super) fn recorded(params: &BoostingParams) -> BoostingParams {
    BoostingParams { n_threads: None, device: BoostingParams::default().device, bundle: true, ..params.clone() }
}

/// What the boosting rounds need beside a backend.
struct Rounds<'a> {
    params: &'a BoostingParams,
    tree_params: &'a TreeParams,
    loss: &'a dyn Loss,
    /// What scores and what gradients are in units of.
    units: (f64, f64),
    held_out: Option<&'a HeldOut>,
    monitor: &'a dyn Monitor,
}

impl Rounds<'_> {
    /// Round after round: a tree for each output, their values added to the scores, the metric of
    /// the held-out rows; until all trees are grown or the metric no longer improves.
    fn run(&self, backend: &mut dyn Backend, features: &mut DerivedFeatures<'_>) -> Result<(Vec<Tree>, Option<History>)> {
        let (params, outputs) = (self.params, self.loss.outputs());
        let mut trees = Vec::with_capacity(params.trees as usize * outputs);
        let mut least_gains = vec![f64::INFINITY; outputs];
        if self.held_out.is_none() && features.sets() == 1 && self.loss.leaf_rule() == LeafRule::Newton {
            backend.announce(Announced { learning_rate: params.learning_rate, trees: params.trees as u64 * outputs as u64 });
        }
        let mut history = self.held_out.map(|h| History { metric: h.kind, values: vec![], best: 0 });
        for round in 0..params.trees {
            for (output, least_gain) in least_gains.iter_mut().enumerate() {
                let number = round as u64 * outputs as u64 + output as u64;
                trees.push(self.tree(backend, features, number, output, least_gain)?);
            }
            backend.update_scores()?;
            let value = match (&mut history, self.held_out) {
                (Some(history), Some(held_out)) => {
                    let value = held_out.measure(params, self.loss, &backend.held_out_scores()?[..outputs])?;
                    history.values.push(value);
                    if history.metric.better(value, history.values[history.best as usize]) {
                        history.best = round;
                    }
                    Some(value)
                }
                _ => None,
            };
            self.monitor.round(round + 1, params.trees, value);
            if let (Some(history), Some(patience)) = (&history, params.early_stopping)
                && round - history.best >= patience
            {
                break;
            }
        }
        if let (Some(history), Some(_)) = (&history, params.early_stopping) {
            trees.truncate((history.best as usize + 1) * outputs);
        }
        features.subsets = backend.category_sets().to_vec();
        Ok((trees, history))
    }

    /// Grows tree `number` of the fit for `output` and gives its leaves their values. `least_gain`: see [`grow`].
    fn tree(
        &self,
        backend: &mut dyn Backend,
        features: &mut DerivedFeatures<'_>,
        number: u64,
        output: usize,
        least_gain: &mut f64,
    ) -> Result<Tree> {
        let gradient_unit = self.units.1;
        let interrupted = || self.monitor.interrupted();
        let outputs = self.loss.outputs();
        let own = features.set_of(number);
        let mut grown = grow(backend, self.loss, self.tree_params, features, number, own * outputs + output, least_gain, &interrupted)?;
        features.note_used(grown.tree.splits())?;
        let sums = backend.end_tree(self.loss, &grown.tree, &grown.leaves)?;
        let mut leaves = self.leaves(backend, &grown, sums)?;
        for set in (0..features.sets()).filter(|set| *set != own) {
            let tree = features.translated(backend, &grown.tree, set)?;
            let sums = backend.replay(self.loss, &tree, set * outputs + output)?;
            let of_set = self.leaves(backend, &grown, sums)?;
            if set == 0 {
                leaves = of_set;
            }
        }
        grown.tree.leaves_mut().clone_from_slice(&leaves);
        for s in grown.tree.splits_mut() {
            s.gain = (s.gain as f64 * gradient_unit * gradient_unit).min(f32::MAX as f64) as f32;
        }
        Ok(grown.tree)
    }

    /// The leaves of the tree just ended or replayed, from their sums; the backend has their values.
    fn leaves(&self, backend: &mut dyn Backend, grown: &Grown, sums: Vec<LeafSums>) -> Result<Vec<Leaf>> {
        let values: Vec<f64> = match self.loss.leaf_rule() {
            LeafRule::Newton => sums.iter().zip(&grown.bounds).map(|(s, b)| grown.rules.leaf_value(s.gradient, s.hessian, *b)).collect(),
            LeafRule::Quantile(alpha) => {
                let mut values = backend.leaf_quantiles(alpha)?;
                super::monotone::enforce(&grown.tree, &self.tree_params.monotone, &mut values);
                values
            }
        };
        let values: Vec<f32> = values.into_iter().map(|v| (v * self.params.learning_rate) as f32).collect();
        if values.iter().any(|v| !(*v as f64 * self.units.0).is_finite()) {
            return Err(Error::Data("a leaf's value is no longer finite: raise `l2` or lower `learning_rate`".into()).of_values());
        }
        backend.set_leaf_values(&values)?;
        let weight = |s: &LeafSums| s.hessian.min(f32::MAX as f64) as f32;
        let leaf = |(value, s): (&f32, &LeafSums)| Leaf { value: *value, weight: weight(s), count: s.count.min(u32::MAX as u64) as u32 };
        Ok(values.iter().zip(&sums).map(leaf).collect())
    }
}

/// The metric to measure, where rows are held out.
pub(super) fn held_out_metric(input: &Input<'_>, params: &BoostingParams, loss: &dyn Loss) -> Result<Option<MetricKind>> {
    if input.held_out.is_none() {
        return match (params.early_stopping, params.metric) {
            (Some(_), _) => Err(Error::parameter("early_stopping", NO_HELD_OUT)),
            (_, Some(_)) => Err(Error::parameter("metric", NO_HELD_OUT)),
            _ => Ok(None),
        };
    }
    let kind = params.metric.unwrap_or(loss.metric());
    if !kind.fits(loss.link()) {
        return Err(Error::parameter("metric", unfit_metric(kind, params.loss, &input.target, loss.link())));
    }
    Ok(Some(kind))
}

/// Why a metric can't be measured on predictions of this link, and what to do.
fn unfit_metric(kind: MetricKind, loss: LossKind, target: &Target<'_>, link: Link) -> String {
    let metric = kind.name();
    match target {
        Target::Numbers(_) if loss == LossKind::Auto && (kind.fits(Link::Sigmoid) || kind.fits(Link::Softmax)) => {
            format!("\"{metric}\" is for classes; {NUMERIC_TARGET}")
        }
        Target::Classes { labels, .. } if loss == LossKind::Auto => {
            let fitting = metric_names(|m| m.fits(link));
            format!("\"{metric}\" can't be measured on a target of {} classes; {fitting} can", labels.len())
        }
        _ => {
            let fitting = metric_names(|m| m.fits(link));
            format!("\"{metric}\" can't be measured on the predictions of this loss; {fitting} can")
        }
    }
}

/// The held-out rows as the metric sees them.
struct HeldOut {
    kind: MetricKind,
    target: Vec<f64>,
    weight: Option<Vec<f32>>,
    /// What is added to the scores, which are in units of `unit`: `[output][row]`.
    offset: Vec<Vec<f64>>,
    unit: f64,
}

impl HeldOut {
    #[allow(clippy::too_many_arguments)]
    fn new(
        kind: MetricKind,
        input: &Input<'_>,
        differences: bool,
        target: &[f64],
        weight: Option<&[f32]>,
        start: &[f64],
        unit: f64,
    ) -> HeldOut {
        let rows: Vec<usize> = (0..target.len()).filter(|i| input.held_out.is_some_and(|h| h[*i])).collect();
        // Scores carry the start value and the baseline already, unless they are differences.
        let baseline = |k: usize| input.baseline.get(k).map(|c| c.gather_f64(&rows));
        let offset = (0..start.len())
            .map(|k| match (differences, baseline(k)) {
                (true, Some(b)) => b.into_iter().map(|b| b + start[k]).collect(),
                (true, None) => vec![start[k]; rows.len()],
                (false, _) => vec![0.0; rows.len()],
            })
            .collect();
        HeldOut {
            kind,
            target: rows.iter().map(|i| target[*i]).collect(),
            weight: weight.map(|w| rows.iter().map(|i| w[*i]).collect()),
            offset,
            unit,
        }
    }

    fn measure(&self, params: &BoostingParams, loss: &dyn Loss, scores: &[Vec<f32>]) -> Result<f64> {
        let raw: Vec<Vec<f64>> =
            scores.iter().zip(&self.offset).map(|(s, o)| s.iter().zip(o).map(|(s, o)| o + self.unit * *s as f64).collect()).collect();
        let value = metric(self.kind, params, loss.link(), &raw, &self.target, self.weight.as_deref());
        if value.is_nan() {
            return Err(undefined(self.kind));
        }
        Ok(value)
    }
}

/// The growing parameters with names turned into indices of coded features.
pub(super) fn tree_params(input: &Input<'_>, params: &BoostingParams, numeric: &[(u32, CodedFeature)]) -> Result<TreeParams> {
    let names: Vec<&str> = input.features.iter().map(|f| f.name()).collect();
    let index = |parameter: &str, name: &str| -> Result<u32> {
        let Some(i) = names.iter().position(|n| *n == name) else {
            let hint = nearest(name, names.iter().copied()).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
            return Err(Error::parameter(parameter, format!("there is no feature `{name}`{hint}")));
        };
        Ok(i as u32)
    };
    let mut monotone = vec![];
    for (name, direction) in &params.monotone {
        let column = index("monotone", name)?;
        if *input.features[column as usize].dtype() == FeatureType::Categorical {
            return Err(Error::parameter("monotone", format!("`{name}` is categorical: only numbers rise and fall")));
        }
        if let Some(i) = numeric.iter().position(|f| f.0 == column)
            && *direction != 0
        {
            monotone.resize(numeric.len(), 0);
            monotone[i] = *direction;
        }
    }
    let mut interaction = vec![];
    for group in &params.interaction {
        let mut members = vec![];
        for name in group {
            members.push(index("interaction", name)?);
        }
        members.sort_unstable();
        members.dedup();
        interaction.push(members);
    }
    Ok(TreeParams {
        policy: params.policy,
        depth: params.depth(),
        leaves: params.leaves(),
        l1: params.l1,
        l2: params.l2,
        min_child_weight: params.min_child_weight(),
        min_data_in_leaf: params.min_data_in_leaf,
        min_gain: params.min_gain,
        feature_fraction: params.feature_fraction,
        feature_fraction_level: params.feature_fraction_level,
        feature_fraction_node: params.feature_fraction_node,
        monotone,
        interaction,
        categories: CategoryRules { smooth: params.cat_smooth, l2: params.cat_l2, most: params.max_cat_threshold },
        seed: params.seed,
    })
}
