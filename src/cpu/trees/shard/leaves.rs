//! The end of a shard's tree: the rows' leaves, the leaves' sums, and the scores.

use super::{Shard, TreeContext, target_of};
use crate::trees::gradient_quantizer::{BATCH, GradientQuantizer};
use taiga_core::losses::Loss;
use taiga_core::tree::Tree;
use taiga_core::tree::steps::NodeId;

impl Shard {
    /// Notes the leaf of every row, and sums the derivatives of the rows drawn: fixed-point gradient and hessian, and the count,
    /// for each leaf; for each output that has the tree, one behind the other. Under ordered boosting, where bodies value leaves, nothing.
    pub fn end_tree(&mut self, loss: &dyn Loss, tree: &TreeContext<'_>, grown: &Tree, leaves: &[NodeId]) -> Vec<((i64, i64), u64)> {
        let mut leaf = std::mem::take(&mut self.leaf[tree.output]);
        let mut leaf_of = vec![0; if self.by_node { self.nodes.len() } else { 0 }];
        for (i, node) in leaves.iter().enumerate() {
            let n = self.nodes[*node as usize];
            if self.by_node {
                leaf_of[*node as usize] = i as u16;
            } else if n.all {
                leaf.fill(i as u16);
            } else {
                for row in &self.lists[n.list as usize][n.start..n.start + n.len] {
                    leaf[*row as usize] = i as u16;
                }
            }
        }
        for (child, parent) in self.taken_back.drain(..) {
            leaf_of[child as usize] = leaf_of[parent as usize];
        }
        self.route_others(grown, tree, &mut leaf);
        if let Some(shared) = tree.shared.filter(|shared| shared.pairs > 0) {
            if self.by_node {
                leaf.iter_mut().for_each(|l| *l = leaf_of[*l as usize]);
            }
            (1..shared.told()).for_each(|k| self.leaf[tree.output + k].copy_from_slice(&leaf));
            self.leaf[tree.output] = leaf;
            return vec![];
        }
        let quantizers = tree.shared.map_or(std::slice::from_ref(tree.quantizer), |shared| &shared.quantizers);
        let mut sums = vec![(0i64, 0i64); leaves.len() * quantizers.len()];
        for batch in 0..self.batches() {
            let range = self.derive_outputs(loss, (tree.output, quantizers.len()), batch);
            let n = range.len();
            if self.by_node {
                leaf[range.clone()].iter_mut().for_each(|l| *l = leaf_of[*l as usize]);
            }
            let leaf = &leaf[range];
            let each = quantizers.iter().zip(&self.of_outputs).zip(sums.chunks_exact_mut(leaves.len()));
            each.for_each(|((quantizer, (g, h)), sums)| quantizer.add_to_leaves(&g[..n], &h[..n], leaf, sums));
        }
        for k in 1..quantizers.len() {
            self.leaf[tree.output + k].copy_from_slice(&leaf);
        }
        self.leaf[tree.output] = leaf;
        let counts = match self.by_node {
            true => self.count_noted(tree.output, leaves.len()),
            false => leaves.iter().map(|node| self.nodes[*node as usize].len).collect(),
        };
        let counts = counts.iter().cycle().map(|n| *n as u64);
        sums.into_iter().zip(counts).collect()
    }

    /// Appends the residuals `target - score` of the rows of a node that were drawn, and their
    /// weights where rows have any.
    pub fn residuals(&self, output: usize, node: NodeId, values: &mut Vec<f64>, weights: &mut Vec<f32>) {
        let (target, scores) = (target_of(&self.target, &self.more_targets, output), &self.scores[output]);
        values.extend(self.node_rows(node).map(|row| (target[row] - scores[row]) as f64));
        if self.weight.is_some() || self.bag.is_some() {
            let weight = |row: usize| self.weight.as_ref().map_or(1.0, |w| w[row]) * self.bag.as_ref().map_or(1.0, |b| b[row]);
            weights.extend(self.node_rows(node).map(weight));
        }
    }

    /// Remembers the values of the leaves of an output's last tree.
    pub fn set_leaf_values(&mut self, output: usize, values: &[f32]) {
        self.leaf_values[output].clear();
        self.leaf_values[output].extend_from_slice(values);
        self.row_values[output] = vec![];
    }

    /// Computes the derivatives of an output for the rows of the shard, zeros for those that were not drawn.
    pub fn derivatives(&mut self, loss: &dyn Loss, output: usize) -> (Vec<f32>, Vec<f32>) {
        let (mut gradient, mut hessian) = (Vec::with_capacity(self.rows), Vec::with_capacity(self.rows));
        for batch in 0..self.batches() {
            let n = self.derive(loss, output, batch, true).len();
            gradient.extend_from_slice(&self.gradient[..n]);
            hessian.extend_from_slice(&self.hessian[..n]);
        }
        (gradient, hessian)
    }

    /// Returns the leaf of each row in an output's last tree.
    pub fn leaves_of(&self, output: usize) -> &[u16] {
        &self.leaf[output]
    }

    /// Remembers what the rows get from an output's last tree, by the values of all rows of the process.
    pub fn set_row_values(&mut self, output: usize, values: &[f32]) {
        let mut own = Vec::with_capacity(self.rows);
        for batch in 0..self.batches() {
            let (first, n) = (self.first_row(batch), (self.rows - batch * BATCH).min(BATCH));
            own.extend_from_slice(&values[first..first + n]);
        }
        self.row_values[output] = own;
    }

    /// Adds the values of leaves to the scores of the outputs from `first` on, until they are [taken back](Shard::take_values_back).
    pub fn try_values(&mut self, first: usize, values: &[Vec<f32>]) {
        for ((scores, leaf), (values, before)) in
            self.scores[first..].iter_mut().zip(&self.leaf[first..]).zip(values.iter().zip(&mut self.untried))
        {
            before.copy_from_slice(scores);
            scores.iter_mut().zip(leaf.iter()).for_each(|(score, leaf)| *score += values[*leaf as usize]);
        }
    }

    /// Gives so many outputs from `first` on the scores that they had.
    pub fn take_values_back(&mut self, first: usize, outputs: usize) {
        self.scores[first..first + outputs].iter_mut().zip(&mut self.untried).for_each(|(scores, before)| std::mem::swap(scores, before));
    }

    /// Sums the derivatives of an output in the leaves that all rows have, over those drawn: fixed-point gradient and hessian, and the count.
    pub fn sums_of_leaves(
        &mut self,
        loss: &dyn Loss,
        output: usize,
        quantizer: &GradientQuantizer,
        leaves: usize,
    ) -> Vec<((i64, i64), u64)> {
        let leaf = std::mem::take(&mut self.leaf[output]);
        let (mut sums, mut counts) = (vec![(0i64, 0i64); leaves], vec![0u64; leaves]);
        for batch in 0..self.batches() {
            let range = self.derive(loss, output, batch, true);
            let n = range.len();
            quantizer.add_to_leaves(&self.gradient[..n], &self.hessian[..n], &leaf[range.clone()], &mut sums);
            for row in range {
                counts[leaf[row] as usize] += self.bag.as_ref().is_none_or(|b| b[row] != 0.0) as u64;
            }
        }
        self.leaf[output] = leaf;
        sums.into_iter().zip(counts).collect()
    }

    /// Returns the leaf of each row in each output's last tree, and the leaves' values.
    pub fn last_trees(&self) -> impl Iterator<Item = (&[u16], &[f32])> {
        self.leaf.iter().zip(&self.leaf_values).map(|(leaf, values)| (&leaf[..], &values[..]))
    }

    /// Adds the leaf values of each output's last tree to the scores.
    pub fn update_scores(&mut self) {
        self.update_bodies();
        let trees = self.leaf.iter().zip(&self.leaf_values).zip(&mut self.row_values).take(self.scores.len() / (self.permuted.len() + 1));
        for (scores, ((leaf, values), own)) in self.scores.iter_mut().zip(trees) {
            if !own.is_empty() {
                scores.iter_mut().zip(std::mem::take(own)).for_each(|(score, value)| *score += value);
                continue;
            }
            for (s, l) in scores.iter_mut().zip(leaf.iter()) {
                *s += values[*l as usize];
            }
        }
    }
}
