//! What a device does while a tree grows.

use super::split::{Inherited, SplitRules, Sums};
use crate::error::Result;
use std::sync::Arc;

/// The index of a node inside the tree that grows; the root is 0.
pub type NodeId = u32;

/// A node whose histogram is searched for a split.
#[derive(Clone, Debug)]
pub struct SearchNode {
    pub id: NodeId,
    pub sums: Sums,
    pub inherited: Inherited,
    /// The features (ascending) that may split it; `None`: all of the groups that are open.
    pub features: Option<Vec<u32>>,
    /// By feature, the one border that may divide the node, or of a feature of categories how long a subset of them may be: in 256ths of
    /// the longest. `None`: any.
    pub borders: Option<Arc<[u8]>>,
    /// By feature, what is added to the root of the score that the best split on it gives the node, or the nodes of a level, before features
    /// are compared. `None`: they are compared by gain.
    pub noise: Option<Arc<[f64]>>,
    /// By feature, what its gain is multiplied by before features are compared. `None`: each counts as it is.
    pub weights: Option<Arc<[f64]>>,
}

impl SearchNode {
    /// Returns whether a feature may divide the node.
    #[inline]
    pub fn allows(&self, feature: usize) -> bool {
        self.features.as_ref().is_none_or(|allowed| allowed.binary_search(&(feature as u32)).is_ok())
    }

    /// Returns the entry of a feature in [`SearchNode::borders`], where there is one.
    pub fn drawn(&self, feature: usize) -> Option<usize> {
        self.borders.as_ref().map(|borders| borders.get(feature).copied().unwrap_or(0) as usize)
    }

    /// Returns whether features are compared by anything but their gains: then a feature that gains less than another may be the better one.
    pub fn ranks_features(&self) -> bool {
        self.noise.is_some() || self.weights.is_some()
    }
}

/// A split found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Index into the features of a fit, and behind them those of the groups added.
    pub feature: u32,
    /// Index into its borders; as many as there are borders means +∞. Of a feature of categories:
    /// index into the device's sets of categories, whose codes go right.
    pub border: u32,
    pub missing_left: bool,
    pub gain: f64,
    /// What candidates are compared by: the gain, weighted where features have weights, or the root of the score with noise.
    pub rank: f64,
}

impl Candidate {
    /// Returns a candidate that is compared by its gain times the feature's weight, where there is no noise, or by the score that it would
    /// give with that gain: that of what is split, `parent`, and the weighted gain.
    pub fn new(node: &SearchNode, (feature, border, missing_left): (u32, u32, bool), gain: f64, parent: f64) -> Candidate {
        let weighted = node.weights.as_ref().map_or(gain, |weights| gain * weights.get(feature as usize).copied().unwrap_or(1.0));
        let rank = node.noise.as_ref().map_or(weighted, |noise| {
            let score = parent + weighted;
            let root = if score > 0.0 { score.sqrt() } else { 0.0 };
            root + noise.get(feature as usize).copied().unwrap_or(0.0)
        });
        Candidate { feature, border, missing_left, gain, rank }
    }
}

/// A node's split carried out: its rows go to two new nodes.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    pub parent: NodeId,
    pub left: NodeId,
    pub right: NodeId,
    pub split: Candidate,
    /// Whether the left child is the smaller one, whose histogram is summed from its rows.
    pub left_is_smaller: bool,
    /// Whether a child will be searched, so that histograms are needed.
    pub histograms: bool,
}

/// The leaves that are worth partitioning before their turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speculation {
    /// The most leaves that are partitioned together.
    pub most: usize,
    /// The least gain of those that are, in the least gain that a leaf was partitioned for in the last tree: 0 where to ask and to be
    /// answered costs far more than a partition for nothing.
    pub share: f64,
}

/// A device's share of growing one tree: searching its nodes, and dividing them.
pub trait GrowSteps {
    /// Tells that no node of the tree that has begun will be searched for splits by these features, which are in the order of their numbers.
    fn leave_out(&mut self, features: &[u32]) {
        let _ = features;
    }

    /// Finds the best split of each node by itself, and the sums of its left child.
    ///
    /// # Errors
    /// Those of the device.
    fn find_splits(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>>;

    /// Finds the one split with the largest gain summed over the nodes, and the sums of each one's left
    /// child.
    ///
    /// # Errors
    /// Those of the device.
    fn find_level_split(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>>;

    /// Sends the rows of each parent to its children, and sums the smaller children's histograms.
    ///
    /// # Errors
    /// Those of the device.
    fn partition(&mut self, divisions: &[Division]) -> Result<()>;

    /// Returns what the device's costs make of partitioning nodes whose turn may not come
    /// ([`Policy::Leafwise`](super::Policy::Leafwise)): those are taken back in the end.
    fn speculation(&self) -> Speculation;

    /// Takes divisions back whose children have not been divided: the rows are in the parents again, whose histograms
    /// are gone. Told just before the growing ends.
    ///
    /// # Errors
    /// Those of the device.
    fn take_back(&mut self, divisions: &[Division]) -> Result<()>;
}
