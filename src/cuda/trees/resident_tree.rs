//! What grew whole on the device: the sums and values of its leaves.

use super::layouts::{GradientQuantizer, MISSING_LEFT, NO_SIDE, NodeSplit};
use super::leaf_sums::leaf_sums;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::steps::LeafSums;
use taiga_core::tree::split::Scales;
use taiga_core::tree::steps::{Candidate, NodeId};

/// A tree that has grown. Nodes are places in its heap.
pub struct ResidentTree {
    pub depth: u32,
    /// Three for each leaf, by the number that its rows have: of gradients, of hessians, of rows.
    pub sums: Vec<i64>,
    /// The values that the device gave its leaves, by the number that their rows have.
    pub values: Option<Vec<f32>>,
}

impl NodeSplit {
    /// Returns the split, where there is one.
    pub fn candidate(&self) -> Option<Candidate> {
        let side = self.side == MISSING_LEFT;
        (self.side != NO_SIDE).then_some(Candidate {
            feature: self.feature,
            border: self.border,
            missing_left: side,
            gain: self.gain,
            rank: self.gain,
        })
    }
}

impl GradientQuantizer {
    /// Returns what the sums of a tree are in units of.
    pub fn scales(&self) -> Scales {
        Scales { gradient: self.unit_gradient, hessian: self.unit_hessian }
    }
}

fn differs() -> Error {
    Error::Data("a leaf of the tree that grew on the GPU has not the value that it should have: please report this".into())
}

impl ResidentTree {
    /// The number that the rows of a leaf have: its place among the leaves of a full tree.
    pub fn key(&self, node: NodeId) -> usize {
        let at = node as usize + 1;
        let level = at.ilog2();
        (at - (1 << level)) << (self.depth - level)
    }

    /// The sums of leaves.
    pub fn leaf_sums(&self, leaves: &[NodeId], quantizer: &GradientQuantizer) -> Vec<LeafSums> {
        let sums = |node: &NodeId| {
            let at = 3 * self.key(*node);
            leaf_sums(quantizer, self.sums[at], self.sums[at + 1], self.sums[at + 2])
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
