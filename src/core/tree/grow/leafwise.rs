//! Leaf by leaf, the one with the largest gain first, weighted where features have weights; and ahead of that, many at a time.
//!
//! A division is two steps of all threads, of a large table a pass over its rows, and of a GPU a question and an answer, so that
//! one at a time is the slowest way. But how a node is divided does not depend on when; only whether it is, does. So leaves
//! that gain enough beside the least that was divided in the last tree are divided together, as many as the device says are worth it
//! ([`GrowSteps::speculation`]). Those whose turn does not come are leaves again in the end: the tree is the same.

use super::{Branches, GrowingNode, GrownShape, Growth, close};
use crate::error::Result;
use crate::tree::split::Sums;
use crate::tree::steps::{Candidate, Division, GrowSteps};

/// A leaf, or what may become one.
struct GrowingLeaf {
    node: GrowingNode,
    /// Its best split, with the sums of its left child.
    found: Option<(Candidate, Sums)>,
    /// What that gains, times the weight of its feature: leaves are compared by it.
    gain: f64,
    /// What it was divided into before its turn.
    children: Option<Box<Children>>,
}

/// A leaf of the tree whose turn may come.
struct WaitingLeaf {
    leaf: GrowingLeaf,
    /// Leaves in the order in which they came to be.
    number: u32,
}

/// The division of a leaf, and its two children.
struct Children {
    division: Division,
    nodes: [GrowingLeaf; 2],
}

impl GrowingLeaf {
    /// The leaves at the end of what was divided before its turn, which may be divided in their turn.
    fn ends<'l>(&'l mut self, deeper: bool, out: &mut Vec<&'l mut GrowingLeaf>) {
        if self.children.is_none() {
            if self.found.is_some() {
                out.push(self);
            }
        } else if deeper && let Some(children) = &mut self.children {
            children.nodes.iter_mut().for_each(|leaf| leaf.ends(deeper, out));
        }
    }

    /// Returns a node without a split.
    fn unsearched(node: GrowingNode) -> GrowingLeaf {
        GrowingLeaf { node, found: None, gain: f64::NEG_INFINITY, children: None }
    }

    /// The divisions of it and of what it was divided into, the last ones first.
    fn divisions(&self, out: &mut Vec<Division>) {
        if let Some(children) = &self.children {
            children.nodes.iter().for_each(|leaf| leaf.divisions(out));
            out.push(children.division);
        }
    }
}

impl<S: GrowSteps + ?Sized> Growth<'_, S> {
    /// Grows a tree leaf by leaf, the one with the largest gain first; at a tie the older one.
    pub(super) fn leafwise(&mut self, root: GrowingNode) -> Result<GrownShape> {
        let mut shape = Branches::new(root.id);
        let plain = self.params.feature_fraction_node >= 1.0 && !self.features.may_open();
        let speculation = self.steps.speculation();
        let others = if plain { speculation.most.saturating_sub(1) } else { 0 };
        // Nothing is known before the first tree.
        let least_likely = if speculation.share > 0.0 { speculation.share * *self.least_gain } else { f64::NEG_INFINITY };
        let mut closed = vec![];
        let mut waiting: Vec<WaitingLeaf> = vec![];
        let mut fresh = vec![GrowingLeaf::unsearched(root)];
        // A tree of one leaf has nothing to search.
        if self.params.leaves > 1 {
            fresh = self.searched(fresh.into_iter().map(|leaf| leaf.node).collect())?;
        }
        let (mut leaves, mut number, mut least) = (1, 0, f64::INFINITY);
        loop {
            self.check()?;
            for leaf in fresh.drain(..) {
                if leaf.found.is_some() {
                    waiting.push(WaitingLeaf { leaf, number })
                } else {
                    closed.push(leaf.node)
                }
                number += 1;
            }
            if leaves >= self.params.leaves {
                break;
            }
            let best = (0..waiting.len()).reduce(|a, b| if first(&waiting[b], &waiting[a]) { b } else { a });
            let Some(best) = best else { break };
            if waiting[best].leaf.children.is_none() {
                let more = others.min((self.params.leaves - leaves - 1) as usize);
                self.divide_together(&mut waiting, best, (more, least_likely), leaves)?;
            }
            let GrowingLeaf { node, found: Some((candidate, _)), gain, children: Some(children) } = waiting.swap_remove(best).leaf else {
                break;
            };
            leaves += 1;
            least = least.min(gain);
            let [left, right] = children.nodes;
            shape.divide(node.id, self.gains.split(&candidate), left.node.id, right.node.id);
            fresh.extend([left, right]);
        }
        *self.least_gain = if leaves < self.params.leaves { 0.0 } else { least };
        let mut undone = vec![];
        waiting.iter().for_each(|w| w.leaf.divisions(&mut undone));
        if !undone.is_empty() {
            self.steps.take_back(&undone)?;
        }
        closed.extend(waiting.into_iter().map(|w| w.leaf.node));
        Ok(shape.finish(&closed))
    }

    /// Divides the best leaf, and with it up to `more` others of at least the gain `least`, whose turn is likely to come; where any gain
    /// will do, also of those that others were divided into before their turn. `leaves`: how many there are.
    fn divide_together(&mut self, waiting: &mut [WaitingLeaf], best: usize, (more, least): (usize, f64), leaves: u32) -> Result<()> {
        let (mut chosen, mut others) = (vec![], vec![]);
        for (i, w) in waiting.iter_mut().enumerate() {
            if i == best { chosen.push(&mut w.leaf) } else { w.leaf.ends(least == f64::NEG_INFINITY, &mut others) }
        }
        others.retain(|leaf| leaf.gain >= least);
        others.sort_by(|a, b| b.gain.total_cmp(&a.gain));
        chosen.extend(others.into_iter().take(more));
        let last = leaves + 1 >= self.params.leaves;
        let mut divisions = Vec::with_capacity(chosen.len());
        let mut nodes = Vec::with_capacity(2 * chosen.len());
        for leaf in &chosen {
            let Some((split, left)) = &leaf.found else { continue };
            let (l, r) = self.children(&leaf.node, split, Some(*left));
            let searched = !last && l.depth < self.params.depth && (self.rules.is_searched(l.sums) || self.rules.is_searched(r.sums));
            divisions.push(self.division(&leaf.node, &l, &r, *split, searched));
            nodes.extend([l, r]);
        }
        self.steps.partition(&divisions)?;
        let nodes: Vec<GrowingLeaf> = if last { nodes.into_iter().map(GrowingLeaf::unsearched).collect() } else { self.searched(nodes)? };
        let mut nodes = nodes.into_iter();
        for (leaf, division) in chosen.into_iter().zip(divisions) {
            let (Some(left), Some(right)) = (nodes.next(), nodes.next()) else { break };
            leaf.children = Some(Box::new(Children { division, nodes: [left, right] }));
        }
        Ok(())
    }

    /// Returns the nodes with their best splits, of those that may have one.
    fn searched(&mut self, nodes: Vec<GrowingNode>) -> Result<Vec<GrowingLeaf>> {
        let may = |n: &GrowingNode| n.depth < self.params.depth && self.rules.is_searched(n.sums);
        let search: Vec<bool> = nodes.iter().map(may).collect();
        let open = close(nodes.clone(), may, &mut vec![]);
        if open.is_empty() {
            return Ok(nodes.into_iter().map(GrowingLeaf::unsearched).collect());
        }
        let mut asked: Vec<_> = open.iter().map(|n| self.search_node(n)).collect();
        self.features.open(self.steps, &self.used, &asked)?;
        for (s, n) in asked.iter_mut().zip(&open) {
            s.features = self.choice.node(&self.choice.level(n.depth, self.features), n, self.features);
            s.borders = self.choice.borders(n.random, self.features);
            s.noise = self.choice.noise(n.random, self.features);
            s.weights = self.choice.weights(self.features);
        }
        let mut found = self.steps.find_splits(&asked, &self.rules)?.into_iter();
        let leaf = |(node, searched)| {
            let found = if searched { found.next().flatten() } else { None };
            let gain = found.map_or(f64::NEG_INFINITY, |(split, _): (Candidate, Sums)| {
                split.gain * self.params.weight(self.features.columns(split.feature))
            });
            GrowingLeaf { found, gain, ..GrowingLeaf::unsearched(node) }
        };
        Ok(nodes.into_iter().zip(search).map(leaf).collect())
    }
}

/// Returns whether `a` is divided before `b`.
fn first(a: &WaitingLeaf, b: &WaitingLeaf) -> bool {
    a.leaf.gain > b.leaf.gain || (a.leaf.gain == b.leaf.gain && a.number < b.number)
}
