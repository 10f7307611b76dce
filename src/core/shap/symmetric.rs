//! A symmetric tree as a table by leaf: all nodes of a level ask the same, so a row's leaf tells all its answers.

use super::contributions::{Chances, OutcomeTable, Rules, Terms};
use super::paths::{ExplainedTree, OnPath};

/// Trees of more levels are walked.
pub const MOST_LEVELS: usize = 10;

/// A symmetric tree made ready.
pub struct SymmetricTables {
    levels: usize,
    /// Its players, in the order of the levels.
    pub players: Vec<u32>,
    /// Of each player the bits of a leaf's index that are its answers.
    masks: Vec<usize>,
    /// Of each leaf.
    chances: Vec<Chances>,
    outputs: usize,
    values: Vec<f64>,
}

impl SymmetricTables {
    /// Prepares a tree whose leaves have these chances.
    pub fn new(tree: &ExplainedTree, first_path: &[OnPath], chances: Vec<Chances>) -> Self {
        let levels = tree.tests;
        // The nodes of a leftmost path are the first ones of their levels; the node `2^l - 1` is of level `l`.
        let level = |node: u32| (node + 1).ilog2() as usize;
        let mask = |p: &OnPath| p.steps.iter().map(|(node, _)| 1 << (levels - 1 - level(*node))).sum();
        SymmetricTables {
            levels,
            players: first_path.iter().map(|p| p.player).collect(),
            masks: first_path.iter().map(mask).collect(),
            chances,
            outputs: tree.outputs,
            values: tree.values.clone(),
        }
    }

    /// Returns the number of leaves.
    pub fn leaves(&self) -> usize {
        1 << self.levels
    }

    /// Returns how many numbers [`SymmetricTables::table`] has.
    pub fn size(&self, terms: Terms) -> usize {
        self.outputs * terms.count(self.players.len()) * self.leaves()
    }

    /// Computes `[output][term][leaf of the row]`, for every leaf of a row or for those that are wanted: the bits are the same.
    pub fn table(&self, rules: &Rules, terms: Terms, wanted: Option<&[bool]>, out: &mut Vec<f64>) {
        let (leaves, count) = (self.leaves(), terms.count(self.players.len()));
        out.clear();
        out.resize(self.size(terms), 0.0);
        // Which players' answers are those of a leaf follows from the bits in which its index differs from the row's.
        let outcome = |differ: usize| self.masks.iter().enumerate().map(|(j, mask)| ((differ & mask == 0) as usize) << j).sum();
        let outcomes: Vec<usize> = (0..leaves).map(outcome).collect();
        let (mut all, mut one) = (OutcomeTable::default(), vec![]);
        for (leaf, chances) in self.chances.iter().enumerate() {
            let values = &self.values[leaf * self.outputs..][..self.outputs];
            if wanted.is_none() {
                all.fill(rules, chances, terms);
            }
            match wanted {
                None => {
                    for (output, value) in values.iter().enumerate() {
                        for term in 0..count {
                            let from = &all.values[term << self.players.len()..][..1 << self.players.len()];
                            let out = &mut out[(output * count + term) * leaves..][..leaves];
                            out.iter_mut().enumerate().for_each(|(row, out)| *out += value * from[outcomes[row ^ leaf]]);
                        }
                    }
                }
                Some(wanted) => {
                    for row in (0..leaves).filter(|row| wanted[*row]) {
                        chances.of_outcome(rules, outcomes[row ^ leaf] as u128, terms, &mut one);
                        for (output, value) in values.iter().enumerate() {
                            for (term, x) in one.iter().enumerate() {
                                out[(output * count + term) * leaves + row] += value * x;
                            }
                        }
                    }
                }
            }
        }
    }
}
