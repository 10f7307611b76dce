//! Fits to many tables of few rows, such as the groups of a frame or the folds of a table, whose trees a device grows all at once.
//!
//! Each fit is prepared as any other, and what it makes of its trees is what any fit makes of trees that a device has grown whole: the rounds
//! run as ever, and are answered from what has grown already ([`GrownFit`]). Which fits are made so is said in one place, [`suits`]; the
//! others are made one after the other.
//!
//! ```text
//! tables ─► PreparedFit, each ─► codes ─► SmallTableSteps::grow, all of them ─► PreparedFit::run, each ─► models
//! ```

use super::FitOptions;
use super::dropout::DropRules;
use super::fit::{CheckedTarget, PreparedFit, fit_with};
use super::model::Model;
use super::params::BoostingParams;
use super::steps::{
    Begun, Extent, GroupId, GroupSteps, GrownTables, LeafSums, NOT_FINITE, SmallTable, SmallTableSteps, SmallTree, SmallTrees,
    TrainingData, TreeDevices, TreeRequest, TreeSteps,
};
use crate::dataset::{Input, Monitor, OwnRows, checks};
use crate::error::{Error, Result};
use crate::losses::{LeafRule, Loss};
use crate::parallel::thread_pool::ThreadPool;
use crate::quantize::codes::{Quantizer, QuantizerScratch};
use crate::quantize::{CodeSet, CodeSource, CodedFeature};
use crate::tree::Tree;
use crate::tree::grow::{WholeTree, is_plain};
use crate::tree::params::Policy;
use crate::tree::split::{SplitRules, Sums};
use crate::tree::steps::{Candidate, Division, GrowSteps, NodeId, SearchNode, Speculation};

/// Returns whether fits by such parameters may be made so at all, whatever their tables.
pub fn may_suit(params: &BoostingParams) -> bool {
    params.policy != Policy::Leafwise
        && params.rounds.is_some()
        && params.early_stopping.is_none()
        && params.random_strength().is_none()
        && DropRules::of(params).is_none()
        && params.leaf_iterations() == 1
        && !params.has_linear_leaves()
        && !params.is_ordered()
        && params.row_sampling().keeps_all()
}

/// Returns whether a fit is one whose trees can be grown so: one tree a round, of numeric features, by a loss that reads a row's score
/// and its target, on all rows, with nothing but the limits to decide what trees become.
fn suits(fit: &PreparedFit<'_>, small: &dyn SmallTableSteps) -> bool {
    let loss = fit.loss.as_ref();
    let by_row = loss.by_group().is_none() && !loss.reads_times() && loss.program().is_none() && fit.input.loss_columns.numbers.is_empty();
    let newton = loss.outputs() == 1 && loss.leaf_rule(0) == LeafRule::Newton;
    let plain = fit.tree_params.monotone.is_empty() && is_plain::<dyn TreeSteps>(&fit.tree_params, &fit.features);
    // Nothing but what its columns are coded by.
    let alone = fit.options.init_model.is_none() && fit.options.snapshots.is_none() && fit.options.batches.is_none();
    let numeric = !fit.features.orders_rows() && fit.features.coded.iter().all(|f| !f.categories);
    may_suit(fit.params)
        && by_row
        && newton
        && plain
        && alone
        && numeric
        && fit.input.held_out.is_none()
        && !fit.params.measures_training()
        && fit.units.len() == 1
        && small.takes(fit.input.target.rows(), fit.features.coded.len(), &fit.tree_params)
}

/// Fits a model to each of `tables`, of which this process has all rows, by the same parameters, on the calling thread and on the device `small`;
/// what that does not take, with the steps of `devices`.
///
/// # Errors
/// Those of each table, in its place; those of the device, which concern all of them.
pub fn fit_each(
    tables: &[(&Input<'_>, &FitOptions<'_>)],
    params: &BoostingParams,
    devices: &dyn TreeDevices,
    small: &dyn SmallTableSteps,
    monitor: &dyn Monitor,
) -> Result<Vec<Result<Model>>> {
    let alone = |(input, options): &(&Input<'_>, &FitOptions<'_>)| fit_with(input, params, options, devices, monitor);
    if !may_suit(params) || params.validate().is_err() || params.position_factors.is_some() {
        return Ok(tables.iter().map(alone).collect());
    }
    let pool = ThreadPool::new(1)?;
    let mut models: Vec<Option<Result<Model>>> = tables.iter().map(|_| None).collect();
    let (mut completed, mut targets) = (vec![], vec![]);
    for (number, table) in tables.iter().enumerate() {
        let (input, options) = *table;
        let params = params.of_table(input);
        let checked = checks::check_table(input).and_then(|_| CheckedTarget::new(&pool, input, &params, options, false));
        match checked {
            Ok(target) if target.is_one_fit(&params) => {
                completed.push((number, target.complete(input, &params, options)));
                targets.push(target);
            }
            Ok(_) => models[number] = Some(alone(table)),
            Err(error) => models[number] = Some(Err(error)),
        }
    }
    let mut fits = vec![];
    for ((number, params), target) in completed.iter().zip(targets) {
        let (input, options) = tables[*number];
        match PreparedFit::new(&pool, (input, OwnRows::whole(input.target.rows())), params, options, monitor, target) {
            Ok(fit) if suits(&fit, small) => fits.push((*number, fit)),
            Ok(fit) => models[*number] = Some(fit.run(devices, monitor)),
            Err(error) => models[*number] = Some(Err(error)),
        }
    }
    if let Some((_, first)) = fits.first() {
        let rounds = first.params.rounds();
        let trees = SmallTrees { params: &first.tree_params, learning_rate: first.params.learning_rate(), rounds };
        let tables: Vec<SmallTable<'_>> = fits.iter().map(|(_, fit)| small_table(fit)).collect();
        let grown = small.grow(&tables, &trees)?;
        drop(tables);
        for (place, (number, fit)) in fits.into_iter().enumerate() {
            models[number] = Some(fit.run(&GrownFit { grown: &grown, first: place * rounds as usize }, monitor));
        }
    }
    let none = || Err(Error::Data("no device has done the work".into()));
    Ok(models.into_iter().map(|model| model.unwrap_or_else(none)).collect())
}

/// Returns what a device grows a fit's trees from.
fn small_table<'f>(fit: &'f PreparedFit<'_>) -> SmallTable<'f> {
    let (rows, features) = (fit.input.target.rows(), &fit.features.coded);
    let (mut codes, mut scratch) = (vec![0; rows * features.len()], QuantizerScratch::default());
    for ((feature, base), out) in features.iter().zip(&fit.base).zip(codes.chunks_exact_mut(rows.max(1))) {
        match base.source(fit.input, fit.options.coded.is_some()) {
            CodeSource::Values(column) => {
                Quantizer::new(&feature.borders).codes::<u8>(column, 0, rows, feature.first(), out, 1, &mut scratch);
            }
            CodeSource::Codes(codes) => out.copy_from_slice(codes),
        }
    }
    SmallTable {
        features,
        codes,
        target: fit.targets.first().map_or(&[], Vec::as_slice),
        weight: fit.weights.as_deref(),
        scores: fit.scores.first().map_or(&[], Vec::as_slice),
        loss: fit.loss.as_ref(),
        split: fit.tree_params.split,
    }
}

/// The trees of a fit that have grown already, as a device.
struct GrownFit<'g> {
    grown: &'g GrownTables,
    /// Which of the trees is its first.
    first: usize,
}

impl TreeDevices for GrownFit<'_> {
    fn stays_here(&self) -> bool {
        false
    }

    fn with_steps(
        &self,
        _: &ThreadPool,
        _: TrainingData<'_>,
        _: Extent,
        _: &dyn Monitor,
        body: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
    ) -> Result<()> {
        body(&mut GrownSteps { grown: self.grown, next: self.first })
    }
}

/// Answers the steps of a fit from what has grown.
struct GrownSteps<'g> {
    grown: &'g GrownTables,
    /// The tree behind the one that has begun.
    next: usize,
}

impl GrownSteps<'_> {
    fn tree(&self, number: usize) -> Result<&SmallTree> {
        self.grown.trees.get(number).ok_or_else(|| Error::Data("a device has grown too few trees".into()))
    }
}

/// The error for what is never asked of trees that have grown.
fn never<R>() -> Result<R> {
    Err(Error::Data("a step of a tree that has grown already".into()))
}

impl TreeSteps for GrownSteps<'_> {
    fn groups(&mut self) -> &mut dyn GroupSteps {
        self
    }

    fn begin_tree(&mut self, _: &TreeRequest<'_>) -> Result<Begun> {
        let tree = self.tree(self.next)?;
        let scales = tree.scales.ok_or_else(|| Error::Data(NOT_FINITE.into()).of_values())?;
        let found = &self.grown.splits[tree.splits.clone()];
        let mut splits = vec![None; found.iter().map(|(place, _)| *place as usize + 1).max().unwrap_or(0)];
        found.iter().for_each(|(place, split)| splits[*place as usize] = Some(*split));
        self.next += 1;
        Ok(Begun::Whole(WholeTree { splits, scales }))
    }

    fn end_tree(&mut self, _: &dyn Loss, _: &Tree, leaves: &[NodeId]) -> Result<Vec<Vec<LeafSums>>> {
        let found = &self.grown.leaves[self.tree(self.next.wrapping_sub(1))?.leaves.clone()];
        // Of each place in the heap the sums of the leaf that has its rows.
        let most = found.iter().map(|(place, _)| *place).chain(leaves.iter().copied()).max().map_or(0, |place| place as usize + 1);
        let mut sums = vec![LeafSums::default(); most];
        found.iter().for_each(|(place, of_leaf)| sums[*place as usize] = *of_leaf);
        Ok(vec![leaves.iter().map(|place| sums[*place as usize]).collect()])
    }

    fn replay(&mut self, _: &dyn Loss, _: &Tree, _: usize) -> Result<Vec<LeafSums>> {
        never()
    }

    fn leaf_quantiles(&mut self, _: usize, _: f64) -> Result<Vec<f64>> {
        never()
    }

    fn set_leaf_values(&mut self, _: usize, _: &[f32]) -> Result<()> {
        Ok(())
    }

    fn category_sets(&self) -> &[CodeSet] {
        &[]
    }

    fn update_scores(&mut self) -> Result<()> {
        Ok(())
    }

    fn position_factors(&self) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    fn measured_scores(&self) -> Result<Vec<Vec<f32>>> {
        never()
    }

    fn all_scores(&mut self) -> Result<Vec<Vec<f32>>> {
        never()
    }
}

impl GrowSteps for GrownSteps<'_> {
    fn find_splits(&mut self, _: &[SearchNode], _: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>> {
        never()
    }

    fn find_level_split(&mut self, _: &[SearchNode], _: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>> {
        never()
    }

    fn partition(&mut self, _: &[Division]) -> Result<()> {
        never()
    }

    fn speculation(&self) -> Speculation {
        Speculation { most: 1, share: 1.0 }
    }

    fn take_back(&mut self, _: &[Division]) -> Result<()> {
        never()
    }
}

impl GroupSteps for GrownSteps<'_> {
    fn add_group(&mut self, _: &[CodedFeature], _: &[Vec<u8>]) -> Result<GroupId> {
        never()
    }

    fn drop_group(&mut self, _: GroupId) {}

    fn open_group(&mut self, _: GroupId, _: &[NodeId]) -> Result<()> {
        never()
    }
}
