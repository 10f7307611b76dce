//! A fitted tree.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The test at an inner node: does the row go right?
///
/// A value goes right when `x > borders[border]` of its feature; `border == borders.len()` stands
/// for +∞, so that every value goes left and only missing ones may go right. A missing value goes
/// right unless `missing_left`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Index into the model's features.
    pub feature: u32,
    /// Index into the feature's borders.
    pub border: u32,
    /// Whether a missing value goes left.
    pub missing_left: bool,
    /// By how much the split lowered the (second-order) loss, in units of the model's `units.gain`; for a symmetric tree, summed
    /// over the nodes of the level.
    pub gain: f32,
}

/// A leaf of a tree: the values that it adds to its rows' scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Leaf {
    /// Added to the score, the learning rate included, in units of the model's `scale`.
    ///
    /// What is fitted here is an f32. An imported model's may be any f64 that f32 has room for: its bytes keep them behind all else
    /// (`Persisted::numbers`).
    #[serde(serialize_with = "as_f32", deserialize_with = "of_f32")]
    pub value: f64,
    /// The sum of the hessians of the training rows that ended here ("cover"), in units of the model's `units.weight`.
    pub weight: f32,
    /// The number of training rows that ended here.
    pub count: u32,
}

impl Leaf {
    /// Returns whether its value is an f32.
    pub fn is_narrow(&self) -> bool {
        (self.value as f32) as f64 == self.value
    }

    /// Multiplies its value by a power of two; an f32 stays one.
    pub fn rescale(&mut self, by: f64) {
        let scaled = self.value * by;
        self.value = if self.is_narrow() { (scaled as f32) as f64 } else { scaled };
    }
}

fn as_f32<S: Serializer>(value: &f64, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_f32(*value as f32)
}

fn of_f32<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    f32::deserialize(d).map(f64::from)
}

/// Where a branch of a node leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Child {
    /// Index into the tree's nodes; larger than the parent's own.
    Node(u32),
    /// Index into the tree's leaves.
    Leaf(u32),
}

/// An inner node of a branching tree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub split: Split,
    pub left: Child,
    pub right: Child,
}

/// One tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Tree {
    /// An oblivious tree: one split a level, the root's first. The leaf's index is built from the
    /// answers, `index = 2 * index + right`, so leaves stand in order from left to right and
    /// there are `2^splits.len()` of them.
    Symmetric { splits: Vec<Split>, leaves: Vec<Leaf> },
    /// Nodes with children; the root is node 0. No nodes: one leaf.
    Branching { nodes: Vec<Node>, leaves: Vec<Leaf> },
}

impl Tree {
    /// Returns the leaves, in the order that [`Child::Leaf`] and `output="leaf"` count them.
    pub fn leaves(&self) -> &[Leaf] {
        match self {
            Tree::Symmetric { leaves, .. } | Tree::Branching { leaves, .. } => leaves,
        }
    }

    /// Returns the leaves, to change their values.
    pub fn leaves_mut(&mut self) -> &mut [Leaf] {
        match self {
            Tree::Symmetric { leaves, .. } | Tree::Branching { leaves, .. } => leaves,
        }
    }

    /// Returns the splits: one a level of a symmetric tree, one a node of a branching one.
    pub fn splits(&self) -> impl Iterator<Item = &Split> {
        let (a, b) = match self {
            Tree::Symmetric { splits, .. } => (Some(splits.iter()), None),
            Tree::Branching { nodes, .. } => (None, Some(nodes.iter().map(|n| &n.split))),
        };
        a.into_iter().flatten().chain(b.into_iter().flatten())
    }

    /// Returns the splits, to change them.
    pub fn splits_mut(&mut self) -> impl Iterator<Item = &mut Split> {
        let (a, b) = match self {
            Tree::Symmetric { splits, .. } => (Some(splits.iter_mut()), None),
            Tree::Branching { nodes, .. } => (None, Some(nodes.iter_mut().map(|n| &mut n.split))),
        };
        a.into_iter().flatten().chain(b.into_iter().flatten())
    }
}
