//! The beginning of a shard's tree: its rows' statistics and the root's histograms.

use super::{NodeRows, Partial, STATISTICS, STATISTICS_ROWS, Shard, TreeContext, expand};
use crate::trees::gradient_quantizer::{BinsMut, GradientQuantizer, Plane, add_plane};
use crate::trees::histogram::MAX_ROWS;
use crate::trees::lanes::SharedTree;
use crate::trees::partition::Source;
use crate::trees::presorted::Presorted;
use std::ops::Range;
use taiga_core::losses::Loss;
use taiga_core::tree::split::Sums;
use taiga_core::tree::steps::NodeId;

impl Shard {
    /// Begins a tree: quantizes the derivatives of all rows, lists those that were drawn, and sums the root's histogram in each
    /// open group.
    pub fn root(&mut self, loss: &dyn Loss, tree: &TreeContext<'_>) {
        for (group, of_tree) in self.groups.iter_mut().zip(tree.groups) {
            group.recycle();
            if !of_tree.open {
                self.spare.append(&mut group.spare);
            }
        }
        self.by_node = false;
        self.presorted = self.presorted_search(tree);
        let summed = if self.presorted.is_some() { 0..0 } else { 0..self.groups.len() };
        let summed = summed.filter(|g| tree.groups[*g].open);
        let mut partials: Vec<(usize, Partial)> = summed.map(|g| (g, self.new_partial(g, tree))).collect();
        self.resize_statistics(tree);
        let listed = self.bag.is_some();
        let mut drawn = 0;
        let mut first = std::mem::take(&mut self.first_plane);
        for batch in 0..self.batches() {
            let range = match tree.shared {
                None => self.pack_batch(loss, tree, batch, &mut first),
                Some(shared) if tree.has_one_word() => self.pack_pair(loss, (tree, shared), batch, &mut first),
                Some(shared) => self.pack_lanes(loss, (tree, shared), batch),
            };
            let n = range.len();
            match &self.bag {
                Some(bag) => {
                    for row in range {
                        self.lists[0][drawn] = row as u32;
                        drawn += (bag[row] != 0.0) as usize;
                    }
                }
                None => {
                    for (g, partial) in &mut partials {
                        self.accumulate(*g, partial, tree, Source::All, 0, range.start, n, Some(&first[..n]));
                    }
                }
            }
        }
        // Walks meet the rows of lists.
        let walked = self.presorted == Some(Presorted::Walks);
        if walked && !listed {
            self.lists[0].iter_mut().zip(0..).for_each(|(listed, row)| *listed = row);
        }
        self.nodes.clear();
        let (len, all) = (if listed { drawn } else { self.rows }, !listed && !walked);
        self.nodes.push(NodeRows { list: 0, start: 0, len, spare: 0, all });
        for (g, mut partial) in partials {
            if listed {
                self.accumulate(g, &mut partial, tree, Source::List, 0, 0, drawn, None);
            }
            self.groups[g].partials.push(partial);
        }
        self.first_plane = first;
        self.begin_sorted(tree);
    }

    /// Quantizes the derivatives of a batch, whose first plane is also written to `first`; returns the range of rows.
    fn pack_batch(&mut self, loss: &dyn Loss, tree: &TreeContext<'_>, batch: usize, first: &mut [u32]) -> Range<usize> {
        let range = self.derive(loss, tree.output, batch, true);
        let (n, first_row) = (range.len(), self.number(batch));
        let mut out: Vec<&mut [u32]> = vec![&mut first[..n]];
        out.extend(self.planes.iter_mut().filter(|p| !p.is_empty()).map(|p| &mut p[range.clone()]));
        tree.quantizer.pack(&self.gradient[..n], &self.hessian[..n], tree.rounding, first_row, &mut out);
        self.store_statistics(range.clone(), &first[..n]);
        range
    }

    /// Quantizes the derivatives of a batch of the two outputs that share the tree, whose words are also written to `first`; returns the range of rows.
    fn pack_pair(
        &mut self,
        loss: &dyn Loss,
        (tree, shared): (&TreeContext<'_>, &SharedTree),
        batch: usize,
        first: &mut [u32],
    ) -> Range<usize> {
        let range = self.derive_outputs(loss, (shared.first, 2), batch);
        let (n, number) = (range.len(), (tree.rounding, self.number(batch)));
        let derivatives = [0, 1].map(|k| (&self.of_outputs[k].0[..n], &self.of_outputs[k].1[..n]));
        shared.pack_pair(derivatives, number, &mut self.ordered, &mut first[..n]);
        self.store_statistics(range.clone(), &first[..n]);
        range
    }

    /// Quantizes the derivatives of a batch of all outputs that share the tree, or of all bodies and tails that it is told by; returns the
    /// range of rows.
    fn pack_lanes(&mut self, loss: &dyn Loss, (tree, shared): (&TreeContext<'_>, &SharedTree), batch: usize) -> Range<usize> {
        let (first_row, width) = (self.number(batch), shared.lanes.width);
        let (mut scratch, mut range) = ([vec![], vec![]], 0..0);
        let mut words = std::mem::take(&mut self.words);
        if shared.pairs == 0 {
            range = self.derive_outputs(loss, (shared.first, shared.outputs()), batch);
        }
        for k in 0..shared.outputs() {
            let (gradient, hessian) = match shared.pairs {
                0 => (&self.of_outputs[k].0, &self.of_outputs[k].1),
                pairs => {
                    range = self.derive_lane(loss, shared.first + k / (2 * pairs), (k % (2 * pairs), pairs), batch);
                    (&self.gradient, &self.hessian)
                }
            };
            let derivatives = (&gradient[..range.len()], &hessian[..range.len()]);
            let own = &mut words[range.start * width..range.end * width];
            shared.pack(k, derivatives, (tree.rounding, first_row), &mut scratch, own);
        }
        self.words = words;
        range
    }

    /// Makes room for the statistics of all rows beyond those that stand beside their codes.
    fn resize_statistics(&mut self, tree: &TreeContext<'_>) {
        if let Some(shared) = tree.shared.filter(|_| !tree.has_one_word()) {
            self.words.resize(self.rows * shared.lanes.width, 0);
            return;
        }
        let planes = &tree.quantizer.planes;
        self.planes.resize_with(planes.len() - 1, Vec::new);
        for (p, values) in self.planes.iter_mut().enumerate() {
            values.resize(if planes[p + 1] == Plane::Hessian { self.rows } else { 0 }, 0);
        }
        let several = self.groups[0].blocks.len() > 1 && self.rows <= STATISTICS_ROWS;
        let by_row = several || !tree.groups[0].plan.sparse.is_empty();
        self.row_statistics.resize(if by_row { self.rows } else { 0 }, 0);
    }

    /// Writes the first plane's statistics of `rows` behind the rows' codes, and to the statistics by row where there are any.
    fn store_statistics(&mut self, rows: Range<usize>, first: &[u32]) {
        let stride = self.groups[0].blocks[0].stride;
        let codes = &mut self.groups[0].blocks[0].bytes.as_mut_slice()[rows.start * stride..rows.end * stride];
        for (row, packed) in codes.chunks_exact_mut(stride).zip(first) {
            row[stride - STATISTICS..].copy_from_slice(&packed.to_le_bytes());
        }
        if !self.row_statistics.is_empty() {
            self.row_statistics[rows].copy_from_slice(first);
        }
    }

    /// Returns the sums over the root's rows. For groups with sparse features.
    pub fn root_sums(&self, quantizer: &GradientQuantizer) -> Sums {
        let (mut gradient, mut hessian, mut count) = ([0], [0], [0]);
        let rows: Vec<usize> = self.node_rows(0).collect();
        for rows in rows.chunks(MAX_ROWS) {
            for (p, plane) in quantizer.planes.iter().enumerate() {
                let word = match self.statistics_by_row(p, *plane) {
                    Some(statistics) => rows.iter().fold(0, |sum, row| expand(statistics[*row]).wrapping_add(sum)),
                    None => rows.len() as u64,
                };
                add_plane(*plane, &[word], BinsMut { gradient: &mut gradient, hessian: &mut hessian, count: &mut count });
            }
        }
        Sums { gradient: gradient[0], hessian: hessian[0], count: count[0] }
    }

    /// Sums the histograms of a group in nodes, one partial for each.
    pub fn open_group(&mut self, group: usize, nodes: &[NodeId], tree: &TreeContext<'_>) {
        if self.presorted.is_some() {
            return nodes.iter().for_each(|n| self.sort_node(group, *n));
        }
        self.groups[group].recycle();
        self.list_rows(tree.output, &[]);
        for node in nodes {
            let partial = self.sum_node(group, *node, tree);
            self.groups[group].partials.push(partial);
        }
    }

    /// Returns the partial histogram of a node, from its rows.
    pub(super) fn sum_node(&mut self, group: usize, node: NodeId, tree: &TreeContext<'_>) -> Partial {
        let mut partial = self.new_partial(group, tree);
        let n = self.nodes[node as usize];
        let source = if n.all { Source::All } else { Source::List };
        self.accumulate(group, &mut partial, tree, source, n.list as usize, n.start, n.len, None);
        partial
    }
}
