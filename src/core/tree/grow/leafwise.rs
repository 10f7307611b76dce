//! Leaf by leaf, the one with the largest gain first; and ahead of that, many at a time.
//!
//! A division is two steps of all threads, of a large table a pass over its rows, and of a GPU a question and an answer, so that
//! one at a time is the slowest way. But how a node is divided does not depend on when; only whether it is, does. So leaves
//! that gain enough beside the least that was divided in the last tree are divided together, as many as the device says are worth it
//! ([`GrowSteps::speculation`]). Those whose turn does not come are leaves again in the end: the tree is the same.

use super::{Branches, Growth, Open, Shape, close};
use crate::error::Result;
use crate::tree::split::Sums;
use crate::tree::steps::{Candidate, Division, GrowSteps};

/// A node, and its best split with the sums of its left child.
type Searched = (Open, Option<(Candidate, Sums)>);

/// A leaf with its best split.
struct Waiting {
    node: Open,
    split: Candidate,
    left: Sums,
    /// Leaves in the order in which they came to be.
    number: u32,
    children: Option<Children>,
}

/// What a division has come to.
struct Children {
    division: Division,
    nodes: [Searched; 2],
}

impl<S: GrowSteps + ?Sized> Growth<'_, S> {
    /// The leaf with the largest gain first; at a tie the older one.
    pub(super) fn leafwise(&mut self, root: Open) -> Result<Shape> {
        let mut shape = Branches::new(root.id);
        let plain = self.params.feature_fraction_node >= 1.0 && !self.features.may_open();
        let speculation = self.steps.speculation();
        let others = if plain { speculation.most.saturating_sub(1) } else { 0 };
        // Nothing is known before the first tree.
        let least_likely = if speculation.share > 0.0 { speculation.share * *self.least_gain } else { f64::NEG_INFINITY };
        let mut closed = vec![];
        let mut waiting: Vec<Waiting> = vec![];
        let mut fresh = vec![(root, None)];
        // A tree of one leaf has nothing to search.
        if self.params.leaves > 1 {
            let (root, _) = fresh.remove(0);
            fresh = self.searched(vec![root])?;
        }
        let (mut leaves, mut number, mut least) = (1, 0, f64::INFINITY);
        loop {
            self.check()?;
            for (node, found) in fresh.drain(..) {
                match found {
                    Some((split, left)) => waiting.push(Waiting { node, split, left, number, children: None }),
                    None => closed.push(node),
                }
                number += 1;
            }
            if leaves >= self.params.leaves {
                break;
            }
            let best = (0..waiting.len()).reduce(|a, b| if first(&waiting[b], &waiting[a]) { b } else { a });
            let Some(best) = best else { break };
            if waiting[best].children.is_none() {
                let more = others.min((self.params.leaves - leaves - 1) as usize);
                self.divide_together(&mut waiting, best, (more, least_likely), leaves)?;
            }
            let Waiting { node, split: candidate, children, .. } = waiting.swap_remove(best);
            let Some(Children { nodes: [left, right], .. }) = children else { break };
            leaves += 1;
            least = least.min(candidate.gain);
            shape.divide(node.id, self.gains.split(&candidate), left.0.id, right.0.id);
            fresh.extend([left, right]);
        }
        *self.least_gain = if leaves < self.params.leaves { 0.0 } else { least };
        let undone: Vec<Division> = waiting.iter().filter_map(|w| w.children.as_ref().map(|c| c.division)).collect();
        if !undone.is_empty() {
            self.steps.take_back(&undone)?;
        }
        closed.extend(waiting.into_iter().map(|w| w.node));
        Ok(shape.finish(closed))
    }

    /// Divides the best leaf, and with it up to `more` others of at least the gain `least`, whose turn is likely to come. `leaves`: how many there are.
    fn divide_together(&mut self, waiting: &mut [Waiting], best: usize, (more, least): (usize, f64), leaves: u32) -> Result<()> {
        let mut chosen = vec![best];
        if more > 0 {
            let likely = |i: &usize| *i != best && waiting[*i].children.is_none() && waiting[*i].split.gain >= least;
            let mut others: Vec<usize> = (0..waiting.len()).filter(likely).collect();
            others.sort_unstable_by(|a, b| waiting[*b].split.gain.total_cmp(&waiting[*a].split.gain));
            chosen.extend(others.into_iter().take(more));
        }
        let last = leaves + 1 >= self.params.leaves;
        let mut divisions = Vec::with_capacity(chosen.len());
        let mut nodes = Vec::with_capacity(2 * chosen.len());
        for i in &chosen {
            let Waiting { node, split, left, .. } = &waiting[*i];
            let (l, r) = self.children(node, split, Some(*left));
            let searched = !last && l.depth < self.params.depth && (self.rules.is_searched(l.sums) || self.rules.is_searched(r.sums));
            divisions.push(self.division(node, &l, &r, *split, searched));
            nodes.extend([l, r]);
        }
        self.steps.partition(&divisions)?;
        let nodes: Vec<_> = if last { nodes.into_iter().map(|n| (n, None)).collect() } else { self.searched(nodes)? };
        let mut nodes = nodes.into_iter();
        for (i, division) in chosen.into_iter().zip(divisions) {
            let (Some(left), Some(right)) = (nodes.next(), nodes.next()) else { break };
            waiting[i].children = Some(Children { division, nodes: [left, right] });
        }
        Ok(())
    }

    /// The nodes with their best splits, of those that may have one.
    fn searched(&mut self, nodes: Vec<Open>) -> Result<Vec<Searched>> {
        let may = |n: &Open| n.depth < self.params.depth && self.rules.is_searched(n.sums);
        let search: Vec<bool> = nodes.iter().map(may).collect();
        let open = close(nodes.clone(), may, &mut vec![]);
        if open.is_empty() {
            return Ok(nodes.into_iter().map(|n| (n, None)).collect());
        }
        let mut asked: Vec<_> = open.iter().map(|n| self.search_node(n)).collect();
        self.features.open(self.steps, &self.used, &asked)?;
        for (s, n) in asked.iter_mut().zip(&open) {
            s.features = self.choice.node(&self.choice.level(n.depth, self.features), n, self.features);
        }
        let mut found = self.steps.find_splits(&asked, &self.rules)?.into_iter();
        Ok(nodes.into_iter().zip(search).map(|(n, searched)| (n, if searched { found.next().flatten() } else { None })).collect())
    }
}

/// Whether `a` is divided before `b`.
fn first(a: &Waiting, b: &Waiting) -> bool {
    a.split.gain > b.split.gain || (a.split.gain == b.split.gain && a.number < b.number)
}
