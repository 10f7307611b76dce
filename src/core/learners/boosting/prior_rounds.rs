//! What a fit begins with: nothing, a model whose trees come first, or what a snapshot has kept.

use super::continued::{self, FitOptions};
use super::dropout::DropRules;
use super::measured::MeasuredRows;
use super::model::Model;
use super::params::BoostingParams;
use super::rounds::Factors;
use super::snapshot::{self, Expected, Snapshot};
use super::steps::GivenTree;
use crate::collective::{bytes_of_scores, scores_of};
use crate::dataset::snapshots::damaged;
use crate::dataset::{Input, OwnRows};
use crate::error::{Error, Result};
use crate::losses::{Loss, LossKind};
use crate::model::History;

/// The rounds that there are before a fit's first.
pub(super) struct PriorRounds {
    /// How many, and how many there are to be.
    pub rounds: u32,
    pub last: u32,
    /// Their trees.
    model: Option<Model>,
    /// The scores of this process's rows after them, those of each set of scores one behind the other.
    pub scores: Vec<Vec<f32>>,
    /// The curves of the rows that are measured.
    pub history: Option<History>,
    pub factors: Factors,
    /// Of what it is a fit, where snapshots are kept.
    pub digest: u128,
    /// Under dropouts the trees, which no score has yet.
    pub trees: Vec<Vec<GivenTree>>,
    /// What leaf values are in units of.
    units: Vec<f64>,
}

impl PriorRounds {
    /// Returns what the options give. `scores` are those of all rows before any tree, `[output][row]`, in units of `units`, of which the fit
    /// has `sets`; `measured`: the rows that are measured, and the loss. Numeric features of `input` are of the `own` rows, which are whole blocks.
    ///
    /// # Errors
    /// Where the fit can't go on from what is given.
    pub fn new(
        (input, own): (&Input<'_>, &OwnRows<'_>),
        params: &BoostingParams,
        options: &FitOptions<'_>,
        (scores, sets): (Vec<Vec<f32>>, usize),
        units: &[f64],
        (measured, kind, loss): (Option<&MeasuredRows>, LossKind, &dyn Loss),
    ) -> Result<PriorRounds> {
        let first = options.init_model.map_or(0, Model::rounds) as u32;
        let last = first.checked_add(params.rounds()).filter(|n| *n <= 1_000_000);
        let last = last.ok_or_else(|| {
            Error::parameter("rounds", format!("{} more than the given model's {first} are over 1,000,000", params.rounds()))
        })?;
        let positions = input.loss_columns.positions.as_ref();
        let drops = DropRules::of(params).is_some();
        let scores: Vec<Vec<f32>> = scores.into_iter().map(|scores| own.of(scores)).collect();
        let mut digest = 0;
        if let Some(snapshots) = options.snapshots {
            digest = snapshot::digest(input, own, params, options.init_model)?;
            let of = Expected { digest, scores: sets * scores.len(), positions: positions.map(|p| p.labels.len()), first, last };
            if let Some(saved) = Snapshot::of_own_rows(snapshots.saved(), own, &of)? {
                // Its digest is right, which anyone can compute; the model may be any.
                continued::check_is_of_fit(&saved.model, input, params, (kind, loss.outputs())).map_err(|_| damaged())?;
                let curves = |history: Option<&History>| history.map_or(0, |history| history.curves().count());
                if curves(saved.model.history.as_ref()) != curves(measured.and_then(MeasuredRows::history).as_ref()) {
                    return Err(damaged());
                }
                let trees = if drops { continued::given_trees(&saved.model, (input, own), units)? } else { vec![] };
                // Under dropouts trees are added to the first scores.
                let (scores, units) = (if drops { scores } else { saved.scores }, units.to_vec());
                let Snapshot { rounds, model, factors, .. } = saved;
                return Ok(PriorRounds {
                    rounds,
                    last,
                    history: model.history.clone(),
                    model: Some(model),
                    scores,
                    factors,
                    digest,
                    trees,
                    units,
                });
            }
        }
        let mut prior = PriorRounds {
            rounds: first,
            last,
            model: options.init_model.cloned(),
            scores,
            history: measured.and_then(MeasuredRows::history),
            factors: Factors::default(),
            digest,
            trees: vec![],
            units: units.to_vec(),
        };
        if let Some(model) = options.init_model {
            let first = if drops { prior.scores.clone() } else { vec![] };
            if !drops || prior.history.is_some() {
                prior.replay(model, (input, own), params, units, (measured, loss))?;
            }
            if drops {
                (prior.scores, prior.trees) = (first, continued::given_trees(model, (input, own), units)?);
            }
            prior.factors.latest = positions.map(|positions| continued::factors(model, positions)).transpose()?;
            let at_best = prior.history.as_ref().is_some_and(|h| !h.values.is_empty() && h.rounds_since_best() == 0);
            prior.factors.best = prior.factors.latest.clone().filter(|_| at_best);
        }
        // A set of scores for each permutation of categories' statistics, all alike at first.
        if sets > 1 {
            prior.scores = (0..sets).flat_map(|_| prior.scores.clone()).collect();
        }
        Ok(prior)
    }

    /// Adds the scores of a model's trees, and measures them after each round.
    fn replay(
        &mut self,
        model: &Model,
        (input, own): (&Input<'_>, &OwnRows<'_>),
        params: &BoostingParams,
        units: &[f64],
        (measured, loss): (Option<&MeasuredRows>, &dyn Loss),
    ) -> Result<()> {
        let (history, loss_params) = (&mut self.history, params.loss_params());
        continued::replay(model, (input, own), units, &mut self.scores, |scores| {
            let (Some(history), Some(measured)) = (history.as_mut(), measured) else { return Ok(()) };
            let mut of_measured: Vec<Vec<f32>> = match input.held_out {
                Some(marks) if !measured.needs_all_rows() => {
                    let marks = &marks[own.range()];
                    let held_out = |of: &Vec<f32>| of.iter().zip(marks).filter(|(_, h)| **h).map(|(s, _)| *s).collect();
                    scores.iter().map(held_out).collect()
                }
                _ => scores.to_vec(),
            };
            for scores in of_measured.iter_mut().filter(|_| !own.is_whole()) {
                *scores = scores_of(&own.collective.gather_bytes(&bytes_of_scores(scores))?)?;
            }
            history.push_all(&measured.measure(&loss_params, loss, &of_measured)?, params.min_delta());
            Ok(())
        })
    }

    /// Returns the model of what there was before and of the trees since, of which `kept` rounds are kept. `given`: what has become of the leaf values
    /// of the trees before under dropouts.
    ///
    /// # Errors
    /// Where the statistics of categories of both differ.
    pub fn with(&self, later: Model, given: &[Vec<f32>], kept: u32) -> Result<Model> {
        let Some(before) = &self.model else {
            return Ok(Model { params: BoostingParams { rounds: Some(self.last), ..later.params }, ..later });
        };
        let later = Model { params: BoostingParams { rounds: Some(self.last), ..later.params }, ..later };
        let mut before = before.clone();
        let (scale, outputs) = (before.scale, before.outputs());
        for (k, (tree, values)) in before.trees.iter_mut().zip(given).enumerate() {
            let in_units = scale / self.units[(k % outputs).min(self.units.len() - 1)];
            // Of a model that is written elsewhere values that have not changed may be no f32.
            let changed = tree.leaves_mut().iter_mut().zip(values).filter(|(leaf, value)| (leaf.value * in_units) as f32 != **value);
            changed.for_each(|(leaf, value)| leaf.value = f64::from(*value) / in_units);
        }
        let before = if kept < self.rounds { before.into_head(kept as usize)? } else { before };
        let model = before.joined(later)?;
        // What was kept in a file is held to what bytes are.
        model.validate()?;
        Ok(model)
    }
}
