//! From a device's nodes to a tree in preorder.

use super::layouts::{GrowingNode, NONE, NodeSums};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use taiga_core::learners::forest::codes::Code;
use taiga_core::learners::forest::growing::{Cut, GrowingTree, RawSplit, raw};
use taiga_core::learners::forest::impurity::{ClassSide, Impurity, NumberSums};
use taiga_core::learners::forest::params::Splitter;
use taiga_core::learners::forest::steps::{ForestWork, Targets};
use taiga_core::numerics::random::Random;
use taiga_core::quantize::CodeSet;

/// The nodes of some trees; root `t` is node `t`.
pub struct GrownNodes {
    pub nodes: Vec<GrowingNode>,
    /// The weights of each node's classes, where there are several.
    pub lanes: Vec<u64>,
    /// The categories that go right at each node, where there are any.
    pub sets: Vec<[u64; 4]>,
}

/// Adds a leaf with these sums to a tree.
fn leaf(targets: Targets<'_>, total: NodeSums, lanes: &[u64], part: &mut GrowingTree) {
    match targets {
        Targets::Two(two) => two.leaf(&packed(total), part),
        Targets::Classes(c) => c.leaf(&ClassSide::new(lanes, total.weight, total.count), part),
        Targets::Numbers(numbers) => numbers.leaf(&NumberSums::new(total.sum, total.weight, total.count), part),
    }
}

/// The gain of a split of this score at a node with these sums.
fn gain(targets: Targets<'_>, score: f64, total: NodeSums, lanes: &[u64]) -> f64 {
    match targets {
        Targets::Two(two) => two.gain(score, &packed(total)),
        Targets::Classes(c) => c.gain(score, &ClassSide::new(lanes, total.weight, total.count)),
        Targets::Numbers(numbers) => numbers.gain(score, &NumberSums::new(total.sum, total.weight, total.count)),
    }
}

fn packed(total: NodeSums) -> u64 {
    total.count << 32 | total.sum as u64
}

/// A node that waits to be split, under `leaves`: twin of `WaitingNode` in `forest/grow.rs`.
#[derive(PartialEq)]
struct WaitingNode {
    gain: f64,
    depth: u32,
    number: u64,
    node: usize,
}

impl Eq for WaitingNode {}
impl PartialOrd for WaitingNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for WaitingNode {
    fn cmp(&self, other: &Self) -> Ordering {
        let ties = || other.depth.cmp(&self.depth).then(other.number.cmp(&self.number));
        self.gain.total_cmp(&other.gain).then_with(ties)
    }
}

impl GrownNodes {
    fn lanes_of(&self, node: usize) -> &[u64] {
        let classes = self.lanes.len() / self.nodes.len();
        &self.lanes[node * classes..(node + 1) * classes]
    }

    fn gain<C: Code>(&self, work: &ForestWork<'_, C>, at: usize, whole: u64) -> f64 {
        let node = &self.nodes[at];
        (gain(work.targets, node.score, node.total, self.lanes_of(at)) / whole as f64).max(0.0)
    }

    /// Finds, in a tree grown to the end, the nodes that one of at most `leaves` leaves splits, which are those with the largest
    /// gains: a node's split depends on no other node. The others of its nodes that were split.
    fn ended<C: Code>(&self, work: &ForestWork<'_, C>, tree: usize, leaves: u32) -> Vec<u32> {
        let whole = self.nodes[tree].total.weight;
        let (mut waiting, mut grown) = (BinaryHeap::new(), 1);
        let add = |waiting: &mut BinaryHeap<WaitingNode>, node: usize, depth: u32| {
            if self.nodes[node].feature != NONE {
                let number = Random::from_key(self.nodes[node].key).u64(0);
                waiting.push(WaitingNode { gain: self.gain(work, node, whole), depth, number, node });
            }
        };
        add(&mut waiting, tree, 0);
        while grown < leaves
            && let Some(next) = waiting.pop()
        {
            let children = self.nodes[next.node].children as usize;
            add(&mut waiting, children, next.depth + 1);
            add(&mut waiting, children + 1, next.depth + 1);
            grown += 1;
        }
        waiting.into_iter().map(|w| w.node as u32).collect()
    }

    /// A tree in preorder; and of each of its inner nodes the code that larger ones go right of.
    pub fn part<C: Code>(&self, work: &ForestWork<'_, C>, tree: usize) -> (GrowingTree, Vec<(usize, u32)>) {
        let (mut part, mut cuts) = (GrowingTree::default(), vec![]);
        let whole = self.nodes[tree].total.weight;
        let mut ended = work.limits.leaves.map_or(vec![], |leaves| self.ended(work, tree, leaves));
        ended.sort_unstable();
        let mut open = vec![(tree, None)];
        while let Some((at, place)) = open.pop() {
            let node = &self.nodes[at];
            if node.feature == NONE || ended.binary_search(&(at as u32)).is_ok() {
                leaf(work.targets, node.total, self.lanes_of(at), &mut part);
                part.push_leaf(place);
                continue;
            }
            let feature = node.feature as usize;
            let right = (node.right_code != NONE).then_some(node.right_code as usize);
            let random = work.view.splitter == Splitter::Random && right.is_some();
            let set = work.view.features[feature].is_categorical().then(|| CodeSet::from_words(self.sets[at]));
            let cut = Cut {
                score: node.score,
                left: node.left_code as usize,
                right,
                missing_left: None,
                left_count: 0,
                set,
                threshold: random.then_some(node.threshold),
            };
            let split = RawSplit { feature, cut, gain: self.gain(work, at, whole), missing_left: node.missing_left == 1 };
            let inner = raw(&work.view, &split);
            cuts.push((at, inner.cut));
            let index = part.push(place, inner, set);
            let children = node.children as usize;
            open.extend([(children + 1, Some((index, 1))), (children, Some((index, 0)))]);
        }
        (part, cuts)
    }
}
