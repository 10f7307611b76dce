//! A tree, or a part of one, while it grows.

use super::model::Tree;
use crate::error::Result;
use crate::learners::forest::codes::{Code, Meaning, View};
use crate::memory;
use crate::numerics::random::Random;
use crate::quantize::CodeSet;
use crate::quantize::borders::midpoint;
use crate::tree::model::{Child, Node, Split};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// An inner node that still knows its border as a number.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RawNode {
    pub feature: u32,
    /// Codes of the training table above this one go right; of a feature of categories not used.
    pub cut: u32,
    /// Values above it go right.
    pub border: f64,
    /// Index into the part's sets, for a feature of categories.
    pub set: Option<u32>,
    pub missing_left: bool,
    pub gain: f32,
    /// Left and right.
    pub children: [Child; 2],
}

/// Nodes in preorder and leaves from left to right.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GrowingTree {
    pub nodes: Vec<RawNode>,
    pub sets: Vec<CodeSet>,
    /// See [`Tree`].
    pub counts: Vec<u32>,
    pub sums: Vec<u64>,
    pub means: Vec<f64>,
}

/// Where a node hangs: its parent and its side; none for the root of a part.
pub type ParentLink = Option<(u32, usize)>;

/// Returns the numbers of the root of tree `tree`; its children's are [`Random::child`]ren of them.
pub fn root_key(seed: u64, tree: u32) -> Random {
    Random::new(seed, crate::numerics::random::Purpose::ForestNode, tree as u64)
}

/// From so many sums on, memory is checked before it is taken.
const LARGE: usize = 1 << 17;

impl GrowingTree {
    /// Hangs a node or leaf into its place.
    fn hang(&mut self, place: ParentLink, child: Child) {
        if let Some((parent, side)) = place {
            self.nodes[parent as usize].children[side] = child;
        }
    }

    /// Adds an inner node; returns its index.
    pub fn push(&mut self, place: ParentLink, node: RawNode, set: Option<CodeSet>) -> u32 {
        let index = self.nodes.len() as u32;
        let set = set.map(|set| {
            self.sets.push(set);
            self.sets.len() as u32 - 1
        });
        self.nodes.push(RawNode { set, ..node });
        self.hang(place, Child::Node(index));
        index
    }

    /// Makes room for `more` sums of leaves, where there is memory for them.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn make_room(&mut self, more: usize) -> Result<()> {
        let len = self.sums.len() + more;
        if len <= self.sums.capacity() {
            return Ok(());
        }
        let what = "the sums of the leaves of a tree";
        if len >= LARGE {
            memory::check(what, 8 * len as u64, "limit `leaves` or `depth`, raise `min_data_in_leaf`, or fit fewer trees")?;
        }
        self.sums.try_reserve(more).map_err(|_| memory::refused(what, 8 * len as u64))
    }

    /// Tells of a leaf whose sums were just added.
    pub fn push_leaf(&mut self, place: ParentLink) {
        let leaf = Child::Leaf(self.counts.len() as u32 - 1);
        self.hang(place, leaf);
    }

    /// Hangs another part behind what there is.
    pub fn append(&mut self, place: ParentLink, other: GrowingTree) {
        let (nodes, leaves, sets) = (self.nodes.len() as u32, self.counts.len() as u32, self.sets.len() as u32);
        let moved = |child| match child {
            Child::Node(i) => Child::Node(i + nodes),
            Child::Leaf(i) => Child::Leaf(i + leaves),
        };
        let root = moved(if other.nodes.is_empty() { Child::Leaf(0) } else { Child::Node(0) });
        self.nodes.extend(other.nodes.into_iter().map(|n| RawNode { set: n.set.map(|s| s + sets), children: n.children.map(moved), ..n }));
        self.sets.extend(other.sets);
        self.counts.extend(other.counts);
        self.sums.extend(other.sums);
        self.means.extend(other.means);
        self.hang(place, root);
    }

    /// Returns the tree, with its sets among the forest's and its borders among those of each feature.
    pub fn finish(self, borders: &[Vec<f64>], sets: &mut Vec<CodeSet>, known: &mut HashMap<CodeSet, u32>) -> Tree {
        let node = |n: &RawNode| {
            let border = match n.set {
                Some(set) => {
                    let set = self.sets[set as usize];
                    *known.entry(set).or_insert_with(|| {
                        sets.push(set);
                        sets.len() as u32 - 1
                    })
                }
                None => borders[n.feature as usize].partition_point(|b| *b < n.border) as u32,
            };
            let split = Split { feature: n.feature, border, missing_left: n.missing_left, gain: n.gain };
            Node { split, left: n.children[0], right: n.children[1] }
        };
        Tree { nodes: self.nodes.iter().map(node).collect(), counts: self.counts, sums: self.sums, means: self.means }
    }
}

/// Returns the finite borders of the splits on each feature, ascending.
pub fn borders_used(parts: &[GrowingTree], features: usize) -> Vec<Vec<f64>> {
    let mut borders = vec![vec![]; features];
    for n in parts.iter().flat_map(|p| &p.nodes).filter(|n| n.set.is_none() && n.border < f64::INFINITY) {
        borders[n.feature as usize].push(n.border);
    }
    for b in &mut borders {
        b.sort_unstable_by(f64::total_cmp);
        b.dedup();
    }
    borders
}

/// A split, in the codes of a view.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub score: f64,
    /// The largest code that goes left.
    pub left: usize,
    /// The smallest code that goes right; none where only missing values do.
    pub right: Option<usize>,
    /// Where missing values go; none where there are none to learn it from.
    pub missing_left: Option<bool>,
    /// Rows drawn that go left.
    pub left_count: u64,
    /// Of a feature of categories: those that go right.
    pub set: Option<CodeSet>,
    /// Of a random split: values above it go right.
    pub threshold: Option<f64>,
}

/// A node's split.
pub struct RawSplit {
    pub feature: usize,
    pub cut: Cut,
    pub gain: f64,
    pub missing_left: bool,
}

/// Returns the node of a split.
pub fn raw<V: Code>(view: &View<'_, V>, split: &RawSplit) -> RawNode {
    let RawSplit { feature, cut, gain, missing_left } = split;
    let coded = &view.features[*feature];
    let left = view.global(*feature, cut.left);
    let right = cut.right.map(|right| view.global(*feature, right));
    let (cut, border) = match (&coded.meaning, right) {
        (Meaning::Categories(_), _) => (0, 0.0),
        (_, None) => (coded.bins() - 1, f64::INFINITY),
        // In the middle of the empty bins between the two.
        (Meaning::Bins(borders), Some(right)) => {
            let last = (left + right - 1) / 2;
            (last, borders[last - coded.first])
        }
        (Meaning::Values(values), Some(right)) => {
            let border = cut.threshold.unwrap_or_else(|| midpoint(values[left - 1], values[right - 1]));
            (values.partition_point(|x| *x <= border), border)
        }
    };
    let children = [Child::Leaf(0); 2];
    RawNode {
        feature: *feature as u32,
        cut: cut as u32,
        border,
        set: None,
        missing_left: *missing_left,
        gain: gain.min(f32::MAX as f64) as f32,
        children,
    }
}
