//! What grew ahead of the host: the grower's questions are answered from it.

use super::layouts::{Found, GradientQuantizer, MISSING_LEFT, NO_SIDE};
use super::leaf_sums::leaf_sums;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::steps::LeafSums;
use taiga_core::tree::split::Sums;
use taiga_core::tree::steps::{Candidate, Division, NodeId, SearchNode};

/// A tree that has grown. Nodes are counted as in a heap.
pub struct Grown {
    pub depth: u32,
    pub found: Vec<Found>,
    pub sums: Vec<i64>,
    /// The values that the device gave its leaves, by the number that their rows have.
    pub values: Option<Vec<f32>>,
    /// By the grower's number: the place in the heap.
    pub places: Vec<u32>,
}

fn differs() -> Error {
    Error::Data("the tree that grew on the GPU is not the one that was asked for: please report this".into())
}

impl Grown {
    fn place(&self, node: NodeId) -> Result<usize> {
        self.places.get(node as usize).map(|p| *p as usize).ok_or_else(differs)
    }

    fn found(&self, node: NodeId) -> Result<Option<(Candidate, Sums)>> {
        let f = self.found.get(self.place(node)?).ok_or_else(differs)?;
        let candidate = Candidate { feature: f.feature, border: f.border, missing_left: f.side == MISSING_LEFT, gain: f.gain };
        Ok((f.side != NO_SIDE).then(|| (candidate, f.left.into())))
    }

    /// What was found for each node.
    pub fn splits(&self, nodes: &[SearchNode]) -> Result<Vec<Option<(Candidate, Sums)>>> {
        nodes.iter().map(|n| self.found(n.id)).collect()
    }

    /// What was found for a level.
    pub fn level_split(&self, nodes: &[SearchNode]) -> Result<Option<(Candidate, Vec<Sums>)>> {
        let found = self.splits(nodes)?.into_iter().collect::<Option<Vec<_>>>();
        Ok(found.and_then(|f| f.first().map(|(c, _)| (*c, f.iter().map(|(_, left)| *left).collect()))))
    }

    /// Notes the children's numbers.
    pub fn divide(&mut self, divisions: &[Division]) -> Result<()> {
        for d in divisions {
            let parent = self.place(d.parent)? as u32;
            if self.found(d.parent)?.is_none_or(|(candidate, _)| candidate != d.split) {
                return Err(differs());
            }
            let last = d.left.max(d.right) as usize;
            if self.places.len() <= last {
                self.places.resize(last + 1, 0);
            }
            self.places[d.left as usize] = 2 * parent + 1;
            self.places[d.right as usize] = 2 * parent + 2;
        }
        Ok(())
    }

    /// The number that the rows of a leaf have: its place among the leaves of a full tree.
    pub fn key(&self, node: NodeId) -> usize {
        let at = self.places.get(node as usize).copied().unwrap_or(0) as usize + 1;
        let level = at.ilog2();
        (at - (1 << level)) << (self.depth - level)
    }

    /// The sums of leaves.
    pub fn leaf_sums(&self, leaves: &[NodeId], encoding: &GradientQuantizer) -> Vec<LeafSums> {
        let sums = |node: &NodeId| {
            let at = 3 * self.key(*node);
            leaf_sums(encoding, self.sums[at], self.sums[at + 1], self.sums[at + 2])
        };
        leaves.iter().map(sums).collect()
    }

    /// Whether the device has given its leaves their values already.
    ///
    /// # Errors
    /// Where they are others than the host's.
    pub fn valued(&self, leaves: &[NodeId], values: &[f32]) -> Result<bool> {
        let Some(own) = &self.values else { return Ok(false) };
        let same = leaves.iter().zip(values).all(|(node, value)| own[self.key(*node)].to_bits() == value.to_bits());
        if same { Ok(true) } else { Err(differs()) }
    }

    /// The values of leaves, by the number that their rows have.
    pub fn values(&self, leaves: &[NodeId], values: &[f32]) -> Vec<f32> {
        let mut by_number = vec![0.0; 1 << self.depth];
        leaves.iter().zip(values).for_each(|(node, value)| by_number[self.key(*node)] = *value);
        by_number
    }
}
