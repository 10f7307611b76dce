//! What the names and types of a table tell of a fit before there are rows: the checks that a query's plan is
//! held against, and that [`super::fit`] makes as well.

use super::params::BoostingParams;
use crate::column::FeatureType;
use crate::dataset::ClassWeight;
use crate::dataset::bins::index_of;
use crate::dataset::checks::not_numeric;
use crate::error::{Error, Result};
use crate::losses::{Loss, LossKind, LossTarget, loss};
use crate::metrics::{MetricSpec, metric_names};
use crate::objective::Link;

/// The kind of a target, as far as its type tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// Numbers.
    Numbers,
    /// Two classes.
    Two,
    /// Two classes or more.
    Classes,
}

/// The parameters that name features, in numbers of features.
pub(super) struct Constraints {
    /// Features and the direction of each: -1, 0 or 1.
    pub directions: Vec<(u32, i8)>,
    /// Groups of features that may meet on a path, ascending.
    pub interaction: Vec<Vec<u32>>,
    /// What a gain on each feature counts, next to the one that counts most; empty where all count the same.
    pub weights: Vec<f64>,
}

/// The columns that a fit is given beside features and target.
#[derive(Clone, Copy, Debug, Default)]
pub struct GivenColumns {
    /// The number of columns of scores to start from.
    pub baseline: usize,
    pub held_out: bool,
    pub groups: bool,
    pub positions: bool,
    /// What is said of the times of events.
    pub times: bool,
    /// What rows are ordered by.
    pub order: bool,
}

/// Checks the parameters of a fit against the names and types of its features, what is known of its target, the number of
/// columns of its baseline, and which other columns there are. What depends on values is not looked at.
///
/// # Errors
/// [`Error::Parameter`] naming the parameter.
///
/// ```
/// use taiga_core::learners::boosting::{BoostingParams, schema::{GivenColumns, TargetKind, check}};
/// use taiga_core::column::FeatureType;
/// let params = BoostingParams { monotone: [("rooms".to_string(), 1)].into(), ..Default::default() };
/// let fault = check(&[("room", &FeatureType::Numeric)], TargetKind::Numbers, &GivenColumns::default(), &params).unwrap_err();
/// assert_eq!(fault.to_string(), "parameter `monotone`: there is no feature `rooms`; did you mean `room`?");
/// ```
pub fn check(features: &[(&str, &FeatureType)], target: TargetKind, given: &GivenColumns, params: &BoostingParams) -> Result<()> {
    let &GivenColumns { baseline, held_out, groups, positions, times, order } = given;
    params.check_order(order)?;
    constraints(features, params)?;
    check_class_weight(params, target != TargetKind::Numbers)?;
    if let (Some(positive), TargetKind::Numbers) = (&params.positive, target) {
        return Err(not_numeric(positive, "loss=\"logloss\""));
    }
    let kind = match (params.loss, target) {
        (LossKind::Auto, TargetKind::Numbers) => LossKind::Rmse,
        (LossKind::Auto, TargetKind::Two) => LossKind::Logloss,
        // The classes' number decides between two losses; without held-out rows they ask for the same.
        (LossKind::Auto, TargetKind::Classes) if held_out => return Ok(()),
        (LossKind::Auto, TargetKind::Classes) => LossKind::Multiclass,
        (kind, _) => kind,
    };
    let loss = loss(kind, &params.loss_params(), 2, 1.0)?;
    check_positions(params.loss, kind, positions)?;
    // Of a loss that is named the number of classes says nothing.
    let metrics = measured_metrics(held_out, params, loss.as_ref(), (target != TargetKind::Numbers).then_some(2))?;
    check_groups(kind, &metrics, groups)?;
    check_times(loss.as_ref(), &metrics, times)?;
    if kind.target() == Some(LossTarget::Classes) { Ok(()) } else { check_baseline(baseline, loss.outputs()) }
}

/// What `loss="auto"` makes of numbers, and how to make it classes.
const NUMERIC_TARGET: &str = "the target is numeric, so loss=\"auto\" is a regression: loss=\"logloss\" makes its values classes \
     (loss=\"multiclass\" for more than two)";

/// Checks that weights of classes stand beside a target of classes.
pub(super) fn check_class_weight(params: &BoostingParams, classes: bool) -> Result<()> {
    if classes || params.class_weight == ClassWeight::None {
        return Ok(());
    }
    let why = match params.loss {
        _ if params.targets.is_some() => "several targets have no classes to weigh; give rows a `weight`".into(),
        LossKind::Auto => format!("there are no classes to weigh; {NUMERIC_TARGET}"),
        loss => format!("loss=\"{}\" has no classes to weigh; give rows a `weight`", loss.name()),
    };
    Err(Error::parameter("class_weight", why))
}

/// Checks that a baseline, where there is one, has a column for each score.
pub(super) fn check_baseline(columns: usize, outputs: usize) -> Result<()> {
    if columns == 0 || columns == outputs {
        return Ok(());
    }
    let scores = if outputs == 1 { "score" } else { "scores" };
    Err(Error::parameter("baseline", format!("{columns} columns for a model of {outputs} {scores}")))
}

/// Checks that there are groups where the loss or the metric of held-out rows reads them.
pub(super) fn check_groups(loss: LossKind, metrics: &[MetricSpec], given: bool) -> Result<()> {
    let needed = match metrics.iter().find(|metric| metric.reads_groups()) {
        _ if given => return Ok(()),
        _ if loss.reads_groups() => format!("loss=\"{}\"", loss.name()),
        Some(metric) => format!("metric=\"{metric}\""),
        None => return Ok(()),
    };
    Err(Error::parameter("group", format!("{needed} needs a column that says which rows are ranked together, such as a query's number")))
}

/// Checks that positions stand beside a loss by group: `asked`, or what that came to.
pub(super) fn check_positions(asked: LossKind, loss: LossKind, given: bool) -> Result<()> {
    if !given || loss.reads_groups() {
        return Ok(());
    }
    let name = asked.name();
    let text = format!("loss=\"{name}\" does not rank; positions go with \"lambdarank\", \"pairwise\", \"xendcg\" and \"yetirank\"");
    Err(Error::parameter("position", text))
}

/// Checks that something is said of events where the loss or the metric of held-out rows reads their times, and nowhere else.
pub(super) fn check_times(loss: &dyn Loss, metrics: &[MetricSpec], given: bool) -> Result<()> {
    let is_read = loss.reads_times() || metrics.iter().any(MetricSpec::reads_times);
    let needed = match (is_read, given) {
        (true, false) if loss.reads_times() => "the loss",
        (true, false) => "the metric",
        (false, true) => {
            let text = "neither the loss nor the metric reads what is said of events: loss=\"cox\" and \"aft\" do";
            return Err(Error::parameter("event", text));
        }
        _ => return Ok(()),
    };
    let text = format!(
        "{needed} needs a column that is true where the event happened at the target and false where it had not until then \
         (pl.lit(True) where it always happened), or `lower` and `upper`, the bounds of its times"
    );
    Err(Error::parameter("event", text))
}

/// Returns the metrics to measure, where rows are measured: those asked for, else the loss's own. `classes`: the number of the
/// target's, where it has some.
pub(super) fn measured_metrics(
    held_out: bool,
    params: &BoostingParams,
    loss: &dyn Loss,
    classes: Option<usize>,
) -> Result<Vec<MetricSpec>> {
    if !held_out {
        params.check_measured()?;
        if !params.measures_training() {
            return Ok(vec![]);
        }
    }
    let metrics = params.metric.as_ref().map_or_else(|| vec![loss.metric().into()], |metrics| metrics.all().to_vec());
    match metrics.iter().find(|metric| !metric.fits(loss.link(), &params.loss_params())) {
        Some(metric) => Err(Error::parameter("metric", unfit_metric(metric, params.loss, classes, loss.link()))),
        None => Ok(metrics),
    }
}

/// Returns why a metric can't be measured on predictions of this link, and what to do.
fn unfit_metric(metric: &MetricSpec, loss: LossKind, classes: Option<usize>, link: Link) -> String {
    let kind = metric.kind();
    let fitting = metric_names(|m| m.fits(link));
    match (loss, classes) {
        (LossKind::Auto, None) if kind.fits(Link::Sigmoid) || kind.fits(Link::Softmax) => {
            format!("\"{metric}\" is for classes; {NUMERIC_TARGET}")
        }
        (LossKind::Auto, Some(n)) => format!("\"{metric}\" can't be measured on a target of {n} classes; {fitting} can"),
        _ => format!("\"{metric}\" can't be measured on the predictions of this loss; {fitting} can"),
    }
}

/// Returns `monotone`, `interaction` and `feature_weights` in numbers of features, and checks the names in `bins`.
pub(super) fn constraints(features: &[(&str, &FeatureType)], params: &BoostingParams) -> Result<Constraints> {
    let index = |parameter: &str, name: &str| index_of(parameter, name, features).map(|i| i as u32);
    let mut directions = vec![];
    for (name, direction) in &params.monotone {
        let feature = index("monotone", name)?;
        if *features[feature as usize].1 == FeatureType::Categorical {
            return Err(Error::parameter("monotone", format!("`{name}` is categorical: only numbers rise and fall")));
        }
        directions.push((feature, *direction));
    }
    params.bins.check_names(features)?;
    let mut interaction = vec![];
    for (i, group) in params.interaction.iter().enumerate() {
        if group.is_empty() {
            let text = format!("group {i} is empty: name the features that may split on one path, or leave the group out");
            return Err(Error::parameter("interaction", text));
        }
        let mut members = group.iter().map(|name| index("interaction", name)).collect::<Result<Vec<u32>>>()?;
        members.sort_unstable();
        members.dedup();
        interaction.push(members);
    }
    let mut weights = vec![1.0; features.len()];
    for (name, weight) in params.feature_weights.iter().flatten() {
        weights[index("feature_weights", name)? as usize] = *weight;
    }
    let most = weights.iter().copied().fold(0.0, f64::max);
    if most == 0.0 && !weights.is_empty() {
        let names = features.iter().map(|f| format!("`{}`", f.0)).take(10).collect::<Vec<_>>().join(", ");
        let more = if features.len() > 10 { ", …" } else { "" };
        return Err(Error::parameter(
            "feature_weights",
            format!("all features ({names}{more}) have the weight 0, and nothing can be split"),
        ));
    }
    weights.iter_mut().for_each(|weight| *weight /= most);
    if weights.iter().all(|weight| *weight == 1.0) {
        weights.clear();
    }
    Ok(Constraints { directions, interaction, weights })
}
