//! Leaves of trees that have no tables.

use super::Block;
use crate::launch;
use crate::predict::PREDICT;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::queue::{Queue, grid};
use crate::runtime::upload::upload;
use cudarc::driver::CudaSlice;
use std::ops::Range;
use taiga_core::error::Result;
use taiga_core::shap::contributions::MOST_PLAYERS;
use taiga_core::shap::leaves::LeafList;
use taiga_core::shap::program::{Program, Way};
use taiga_core::shap::{Explainer, Terms};

kernel_structs! { LeafGroup, ExplainedLeaf, LeafPlayer, BackgroundOutcome, QuadratureRule }

/// Threads of a block.
const THREADS: usize = 128;

/// The leaves of a program, group after group.
pub(super) struct DeviceLeaves {
    terms: Terms,
    groups: CudaSlice<LeafGroup>,
    group_players: CudaSlice<u32>,
    leaves: CudaSlice<ExplainedLeaf>,
    players: CudaSlice<LeafPlayer>,
    steps: CudaSlice<u32>,
    outcomes: CudaSlice<BackgroundOutcome>,
    rules: CudaSlice<QuadratureRule>,
    values: CudaSlice<f64>,
    /// The most terms of a group, and of a leaf against a background.
    group_terms: usize,
    leaf_terms: usize,
}

impl DeviceLeaves {
    /// About the bytes that a list takes on the GPU.
    pub fn bytes(list: &LeafList) -> u64 {
        (24 * (list.players.len() + list.outcomes.len() + list.leaves.len()) + 16 * list.groups.len() + 4 * list.steps.len()) as u64
    }

    /// Copies the leaves of a program.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new(queue: &Queue, program: &Program, explainer: &Explainer, terms: Terms) -> Result<Self> {
        let list = &program.leaves;
        let number = |x: usize| x as u32;
        let groups = list.groups.iter().map(|group| LeafGroup {
            first_leaf: number(group.leaves.start),
            leaves: number(group.leaves.len()),
            first_player: number(group.players.start),
            players: number(group.players.len()),
        });
        let players = list.players.iter().map(|player| LeafPlayer {
            share: player.share,
            first_step: player.steps.start,
            end_step: player.steps.end,
            place: player.place,
            unused: 0,
        });
        let outcomes = list.outcomes.iter().map(|(outcome, share)| BackgroundOutcome {
            low: *outcome as u64,
            high: (*outcome >> 64) as u64,
            share: *share,
        });
        let (mut leaves, mut values) = (Vec::with_capacity(list.leaves.len()), vec![]);
        for stage in &program.stages {
            let Way::Leaves(groups) = &stage.way else { continue };
            for leaf in list.groups[groups.clone()].iter().flat_map(|group| &list.leaves[group.leaves.clone()]) {
                leaves.push(ExplainedLeaf {
                    first_value: values.len() as u64,
                    first_player: number(leaf.players.start),
                    players: number(leaf.players.len()),
                    first_outcome: number(leaf.outcomes.start),
                    outcomes: number(leaf.outcomes.len()),
                });
                values.extend_from_slice(explainer.tree(stage.tree).leaf_values(leaf.leaf));
            }
        }
        let against = list.leaves.iter().filter(|leaf| !leaf.outcomes.is_empty());
        Ok(DeviceLeaves {
            terms,
            group_terms: list.groups.iter().map(|group| terms.count(group.players.len())).max().unwrap_or(0),
            leaf_terms: against.map(|leaf| terms.count(leaf.players.len())).max().unwrap_or(0),
            groups: upload(queue, "leaves", &groups.collect::<Vec<_>>())?,
            group_players: upload(queue, "leaves", &list.group_players)?,
            leaves: upload(queue, "leaves", &leaves)?,
            players: upload(queue, "leaves", &players.collect::<Vec<_>>())?,
            steps: upload(queue, "leaves", &list.steps.iter().map(|(test, right)| test << 1 | *right as u32).collect::<Vec<_>>())?,
            outcomes: upload(queue, "leaves", &outcomes.collect::<Vec<_>>())?,
            rules: upload(queue, "leaves", &(0..=MOST_PLAYERS).map(|players| rule(explainer, players)).collect::<Vec<_>>())?,
            values: upload(queue, "leaves", &values)?,
        })
    }

    /// The numbers of a row that the work on a tree takes.
    pub fn numbers_a_row(&self, outputs: usize) -> usize {
        self.leaf_terms + outputs * self.group_terms
    }

    /// Adds what these groups give to the rows' sums, from their answers; does not wait.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn add(&self, queue: &Queue, groups: Range<usize>, (first_output, outputs): (usize, usize), block: &mut Block<'_>) -> Result<()> {
        let Block { rows, all, all_terms, answers, work, sums } = block;
        let kernel = match self.terms {
            Terms::Values => queue.gpu().kernel(PREDICT, "explain_leaves_values")?,
            Terms::Interactions => queue.gpu().kernel(PREDICT, "explain_leaves_pairs")?,
        };
        let (n, count, leaf_terms) = (*rows as u64, groups.len() as u32, self.leaf_terms as u32);
        let (first_output, outputs, groups) = (first_output as u32, outputs as u32, self.groups.slice(groups));
        // SAFETY: the arguments are those of `explain_leaves_values` and `_pairs`: an answer to each test of the tree of each row, groups
        // whose leaves, players, steps, outcomes and values are there, a rule for every number of players that has shares, and room for a
        // row's terms.
        unsafe {
            launch!(queue, kernel, grid(rows.div_ceil(THREADS) as u32, THREADS as u32, 0);
                &n, &n, &**answers, &groups, &count, &self.group_players, &self.leaves, &self.players, &self.steps, &self.outcomes, &self.rules,
                &self.values, &first_output, &outputs, &*all, &*all_terms, &leaf_terms, &mut work.numbers, &mut **sums)
        }
    }
}

/// The quadrature of a path of so many players.
fn rule(explainer: &Explainer, players: usize) -> QuadratureRule {
    let of = explainer.rules().of(players);
    let mut rule = QuadratureRule::default();
    rule.points.iter_mut().zip(&of.points).for_each(|(out, x)| *out = *x);
    rule.weights.iter_mut().zip(&of.weights).for_each(|(out, x)| *out = *x);
    rule
}
