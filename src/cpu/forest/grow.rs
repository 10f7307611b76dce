//! Growing a tree.
//!
//! A node's split depends on its rows, its depth and its key alone, so nodes may be grown in any
//! order and by any thread. Rows keep their order; a node's lie together in one of two buffers:
//!
//! ```text
//! rows    | a b c d e f g |   b, d, e go right     rows    | b d e | . . . . |    right child, and
//! spare   | . . . . . . . |   ───────────────>     spare   | a c f g | . . . |    room for the left one
//! ```

use super::evaluate_splits::{FeatureSplit, SearchMemory, SplitSearch};
use rayon::prelude::*;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};
use taiga_core::error::{Error, Result};
use taiga_core::learners::forest::codes::{Code, LocalCodes, View, local_rows};
use taiga_core::learners::forest::growing::{Cut, GrowingTree, ParentLink, RawNode, RawSplit, raw, root_key};
use taiga_core::learners::forest::impurity::Impurity;
use taiga_core::learners::forest::steps::{GrowTree, GrowerTask, Limits};
use taiga_core::numerics::random::{Random, below};
use taiga_core::pages;

/// Rows from which on the features of a node are searched at the same time.
const WIDE: usize = 1 << 16;

/// Rows from which on a child is given to other threads.
const SHARED: usize = 1 << 12;

/// Beyond this depth of calls nodes wait in a list.
const CALLS: u32 = 48;

/// Grows trees on a table.
pub struct Grower<'a, K: Impurity, C: Code> {
    kind: &'a K,
    view: View<'a, C>,
    limits: Limits,
    parallel: bool,
    interrupted: &'a (dyn Fn() -> bool + Sync),
    memory: FreeList<TaskScratch<K, C>>,
}

impl<'a, K: Impurity, C: Code> Grower<'a, K, C> {
    /// Makes one for a forest's trees.
    pub fn new(GrowerTask { kind, view, limits, parallel, interrupted }: GrowerTask<'a, K, C>) -> Self {
        Grower { kind, view, limits, parallel, interrupted, memory: FreeList::default() }
    }
}

impl<K: Impurity, C: Code> GrowTree<K> for Grower<'_, K, C> {
    fn grow(&self, counts: &[u16], seed: u64, tree: u32, (rows, spare): &mut (Vec<K::Entry>, Vec<K::Entry>)) -> Result<GrowingTree> {
        rows.clear();
        let weighs = counts.iter().filter(|count| **count > 0).count();
        pages::make_room("the rows of a tree", rows, weighs)?;
        pages::make_room("the rows of a tree", spare, weighs)?;
        let drawn = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        rows.extend(drawn.filter_map(|(row, count)| self.kind.entry(row as u32, *count as u32)));
        spare.clear();
        spare.extend_from_slice(rows);
        let mut total = K::Side::default();
        self.kind.clear(&mut total);
        rows.iter().for_each(|e| self.kind.add_entry(&mut total, e));
        self.tree(rows, spare, root_key(seed, tree), self.kind.weight(&total))
    }
}

/// Values that tasks take and give back.
struct FreeList<T>(Mutex<Vec<T>>);

impl<T> Default for FreeList<T> {
    fn default() -> Self {
        FreeList(Mutex::new(vec![]))
    }
}

impl<T: Default> FreeList<T> {
    fn take(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn put(&self, value: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(value);
    }
}

/// The memory that tasks use again.
pub struct TaskScratch<K: Impurity, C: Code> {
    node: NodeScratch<K>,
    local: LocalCodes<C::LocalCode>,
}

impl<K: Impurity, C: Code> Default for TaskScratch<K, C> {
    fn default() -> Self {
        TaskScratch { node: NodeScratch::default(), local: LocalCodes::default() }
    }
}

struct NodeScratch<K: Impurity> {
    memory: SearchMemory<K>,
    total: K::Side,
    /// All features, as they are drawn; ascending between nodes.
    features: Vec<u32>,
    swaps: Vec<u32>,
}

impl<K: Impurity> Default for NodeScratch<K> {
    fn default() -> Self {
        NodeScratch { memory: SearchMemory::default(), total: K::Side::default(), features: vec![], swaps: vec![] }
    }
}

/// A node to be grown.
struct NodeTask<'r, E> {
    rows: &'r mut [E],
    spare: &'r mut [E],
    depth: u32,
    key: Random,
    place: ParentLink,
}

impl<'r, E> NodeTask<'r, E> {
    /// Returns the children, after [`divide`].
    fn children(self, right: usize, node: u32) -> [NodeTask<'r, E>; 2] {
        let left = self.rows.len() - right;
        let (right_rows, left_spare) = self.rows.split_at_mut(right);
        let (left_rows, right_spare) = self.spare.split_at_mut(left);
        let child = |rows, spare, side: usize| NodeTask {
            rows,
            spare,
            depth: self.depth + 1,
            key: self.key.child(side as u64),
            place: Some((node, side)),
        };
        [child(left_rows, left_spare, 0), child(right_rows, right_spare, 1)]
    }
}

impl<K: Impurity, C: Code> Grower<'_, K, C> {
    /// Returns a tree on `rows`, ascending; `spare` is as long. `total` is the weight of the tree's rows.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    fn tree(&self, rows: &mut [K::Entry], spare: &mut [K::Entry], key: Random, total: u64) -> Result<GrowingTree> {
        let task = NodeTask { rows, spare, depth: 0, key, place: None };
        match self.limits.leaves {
            Some(leaves) => self.best_first(task, leaves as usize, total),
            None => self.subtree(task, total, 0),
        }
    }

    /// Returns the tree below a node of any size, in preorder.
    fn subtree(&self, task: NodeTask<'_, K::Entry>, total: u64, calls: u32) -> Result<GrowingTree> {
        // Where few of many features are ever asked about, copying them all would cost more than it saves.
        let worth = self.view.features.len() <= 32 * self.limits.drawn;
        let small = if worth { local_rows::<C>(self.view.features.len()) } else { 0 };
        let mut part = GrowingTree::default();
        let mut open = vec![NodeTask { place: None, ..task }];
        let mut scratch = self.memory.take();
        while let Some(task) = open.pop() {
            if (self.interrupted)() {
                return Err(Error::Interrupted);
            }
            if task.rows.len() <= small {
                self.small(task, total, &mut scratch, &mut part)?;
                continue;
            }
            let Some(split) = find(self, &self.view, &task, total, &mut scratch.node, self.parallel) else {
                self.leaf(&task, &scratch.node, &mut part)?;
                continue;
            };
            let (node, right) = self.split(&self.view, &split, &mut *task.rows, &mut *task.spare, task.place, &mut part);
            let [left, right] = task.children(right, node);
            if self.parallel && calls < CALLS && left.rows.len().min(right.rows.len()) >= SHARED {
                self.memory.put(scratch);
                let places = (left.place, right.place);
                let (left, right) = rayon::join(|| self.subtree(left, total, calls + 1), || self.subtree(right, total, calls + 1));
                let (left, right) = (left?, right?);
                part.make_room(left.sums.len() + right.sums.len())?;
                part.append(places.0, left);
                part.append(places.1, right);
                scratch = self.memory.take();
            } else {
                open.extend([right, left]);
            }
        }
        self.memory.put(scratch);
        Ok(part)
    }

    /// Grows the tree below a node of few rows, whose codes are copied together.
    fn small(&self, task: NodeTask<'_, K::Entry>, total: u64, scratch: &mut TaskScratch<K, C>, part: &mut GrowingTree) -> Result<()> {
        let TaskScratch { node: scratch, local } = scratch;
        let view = local.gather(&self.view, task.rows.iter().map(K::row));
        task.rows.iter_mut().enumerate().for_each(|(i, e)| *e = K::renumbered(*e, i as u32));
        let mut open = vec![task];
        while let Some(task) = open.pop() {
            let Some(split) = find(self, &view, &task, total, scratch, false) else {
                self.leaf(&task, scratch, part)?;
                continue;
            };
            let (node, right) = self.split(&view, &split, &mut *task.rows, &mut *task.spare, task.place, part);
            let [left, right] = task.children(right, node);
            open.extend([right, left]);
        }
        Ok(())
    }

    fn leaf(&self, task: &NodeTask<'_, K::Entry>, scratch: &NodeScratch<K>, part: &mut GrowingTree) -> Result<()> {
        part.make_room(self.kind.lanes().max(2))?;
        self.kind.leaf(&scratch.total, part);
        part.push_leaf(task.place);
        Ok(())
    }

    /// Adds a node and divides its rows; its index, and how many rows went right.
    fn split<V: Code>(
        &self,
        view: &View<'_, V>,
        split: &RawSplit,
        rows: &mut [K::Entry],
        spare: &mut [K::Entry],
        place: ParentLink,
        part: &mut GrowingTree,
    ) -> (u32, usize) {
        let node = part.push(place, raw(view, split), split.cut.set);
        let right = divide::<K, V>(view, split, rows, spare);
        (node, right)
    }
}

/// Moves the rows that go left to `spare`, and the others to the front of `rows`; how many those are.
fn divide<K: Impurity, V: Code>(view: &View<'_, V>, split: &RawSplit, rows: &mut [K::Entry], spare: &mut [K::Entry]) -> usize {
    let codes = view.feature(split.feature);
    match &split.cut.set {
        Some(set) => scatter::<K>(rows, spare, |row| set.contains(codes[row as usize].index() as u8)),
        None => {
            // A missing value's code 0 stays the smallest, or becomes the largest.
            let shift = (view.features[split.feature].first == 1 && !split.missing_left) as u32;
            let last = split.cut.left as u32 - shift;
            scatter::<K>(rows, spare, |row| (codes[row as usize].index() as u32).wrapping_sub(shift) > last)
        }
    }
}

#[inline(always)]
fn scatter<K: Impurity>(rows: &mut [K::Entry], spare: &mut [K::Entry], goes_right: impl Fn(u32) -> bool) -> usize {
    let (mut left, mut right) = (0, 0);
    for i in 0..rows.len() {
        let entry = rows[i];
        let goes_right = goes_right(K::row(&entry));
        spare[left] = entry;
        rows[right] = entry;
        left += !goes_right as usize;
        right += goes_right as usize;
    }
    right
}

/// Finds the split of a node, if it is to have one. The sums of its rows are left in `scratch.total`.
fn find<K: Impurity, C: Code, V: Code>(
    grower: &Grower<'_, K, C>,
    view: &View<'_, V>,
    task: &NodeTask<'_, K::Entry>,
    tree_weight: u64,
    scratch: &mut NodeScratch<K>,
    parallel: bool,
) -> Option<RawSplit> {
    let (kind, limits) = (grower.kind, &grower.limits);
    let NodeScratch { memory, total, features, swaps } = scratch;
    kind.clear(total);
    task.rows.iter().for_each(|e| kind.add_entry(total, e));
    let count = kind.count(total);
    if task.depth >= limits.depth || task.rows.len() < 2 || count < 2 * limits.min_data || kind.is_pure(task.rows, total) {
        return None;
    }
    let search = SplitSearch { kind, rows: task.rows, total, min_data: limits.min_data, key: &task.key };
    let all = view.features.len();
    if features.len() != all {
        *features = (0..all as u32).collect();
    }
    let mut draws = Draws { key: &task.key, features, swaps };
    let mut best = BestFeature::default();
    if parallel && limits.drawn > 1 && task.rows.len() >= WIDE {
        let drawn: Vec<u32> = (0..limits.drawn).map(|_| draws.next()).collect();
        let found: Vec<FeatureSplit> = drawn
            .par_iter()
            .map(|f| {
                let mut scratch = grower.memory.take();
                let found = search.best(view, *f as usize, &mut scratch.node.memory);
                grower.memory.put(scratch);
                found
            })
            .collect();
        drawn.iter().zip(found).for_each(|(f, found)| best.take(*f as usize, found));
    }
    // As in scikit-learn: on from the number asked for while all features so far are constant.
    while draws.swaps.len() < all && (draws.swaps.len() < limits.drawn || !best.varies) {
        let feature = draws.next() as usize;
        best.take(feature, search.best(view, feature, memory));
    }
    draws.restore();
    let (feature, cut) = best.found?;
    let gain = (kind.gain(cut.score, total) / tree_weight as f64).max(0.0);
    let missing_left = match &cut.set {
        Some(set) => !set.contains(0),
        None => cut.missing_left.unwrap_or(cut.left_count * 2 >= count),
    };
    (gain >= limits.min_gain).then_some(RawSplit { feature, cut, gain, missing_left })
}

/// The best split so far: at a tie that of the feature drawn first, so that ties, frequent in small nodes, go
/// to no feature more often than to another (as in scikit-learn).
#[derive(Default)]
struct BestFeature {
    varies: bool,
    found: Option<(usize, Cut)>,
}

impl BestFeature {
    fn take(&mut self, feature: usize, found: FeatureSplit) {
        self.varies |= found.varies;
        let better = |cut: &Cut| self.found.as_ref().is_none_or(|(_, best)| cut.score > best.score);
        if let Some(cut) = found.cut.filter(better) {
            self.found = Some((feature, cut));
        }
    }
}

/// Features drawn without replacement (Fisher and Yates), by a node's numbers.
struct Draws<'a> {
    key: &'a Random,
    features: &'a mut [u32],
    /// What each draw was swapped with.
    swaps: &'a mut Vec<u32>,
}

impl Draws<'_> {
    fn next(&mut self) -> u32 {
        let i = self.swaps.len();
        let j = i + below(self.key.u64(i as u64), (self.features.len() - i) as u32) as usize;
        self.features.swap(i, j);
        self.swaps.push(j as u32);
        self.features[i]
    }

    /// Puts all features in their order again.
    fn restore(self) {
        while let Some(j) = self.swaps.pop() {
            self.features.swap(self.swaps.len(), j as usize);
        }
    }
}

/// A node that waits to be split, under `leaves`.
struct WaitingNode<'r, E> {
    task: NodeTask<'r, E>,
    split: RawSplit,
    node: usize,
}

impl<E> WaitingNode<'_, E> {
    fn order(&self, other: &Self) -> Ordering {
        let ties = || other.task.depth.cmp(&self.task.depth).then(other.task.key.u64(0).cmp(&self.task.key.u64(0)));
        self.split.gain.total_cmp(&other.split.gain).then_with(ties)
    }
}

impl<E> PartialEq for WaitingNode<'_, E> {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
}
impl<E> Eq for WaitingNode<'_, E> {}
impl<E> PartialOrd for WaitingNode<'_, E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for WaitingNode<'_, E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other)
    }
}

/// A node under `leaves`: its leaf, and its split and children once it has them.
struct Sprout {
    leaf: GrowingTree,
    split: Option<(RawNode, Option<taiga_core::quantize::CodeSet>, [usize; 2])>,
}

impl<K: Impurity, C: Code> Grower<'_, K, C> {
    /// Returns a tree of at most `leaves` leaves: the node with the largest gain is split next; at a tie the one nearer to the
    /// root, then the one with the smaller number of its key.
    fn best_first(&self, root: NodeTask<'_, K::Entry>, leaves: usize, total: u64) -> Result<GrowingTree> {
        let mut scratch = self.memory.take();
        let (mut sprouts, mut waiting) = (vec![], BinaryHeap::new());
        waiting.extend(self.sprout(root, total, &mut scratch.node, &mut sprouts)?);
        let mut grown = 1;
        while grown < leaves
            && let Some(WaitingNode { task, split, node }) = waiting.pop()
        {
            if (self.interrupted)() {
                return Err(Error::Interrupted);
            }
            let right = divide::<K, C>(&self.view, &split, &mut *task.rows, &mut *task.spare);
            sprouts[node].split = Some((raw(&self.view, &split), split.cut.set, [sprouts.len(), sprouts.len() + 1]));
            for child in task.children(right, 0) {
                waiting.extend(self.sprout(child, total, &mut scratch.node, &mut sprouts)?);
            }
            grown += 1;
        }
        let mut part = GrowingTree::default();
        let mut open = vec![(0, None)];
        while let Some((at, place)) = open.pop() {
            match std::mem::take(&mut sprouts[at].split) {
                None => {
                    let leaf = std::mem::take(&mut sprouts[at].leaf);
                    part.make_room(leaf.sums.len())?;
                    part.append(place, leaf);
                }
                Some((node, set, [left, right])) => {
                    let index = part.push(place, node, set);
                    open.extend([(right, Some((index, 1))), (left, Some((index, 0)))]);
                }
            }
        }
        self.memory.put(scratch);
        Ok(part)
    }

    /// Adds a node as a leaf; what waits, where it may be split.
    fn sprout<'r>(
        &self,
        task: NodeTask<'r, K::Entry>,
        total: u64,
        scratch: &mut NodeScratch<K>,
        sprouts: &mut Vec<Sprout>,
    ) -> Result<Option<WaitingNode<'r, K::Entry>>> {
        let split = find(self, &self.view, &task, total, scratch, self.parallel);
        let mut leaf = GrowingTree::default();
        leaf.make_room(self.kind.lanes().max(2))?;
        self.kind.leaf(&scratch.total, &mut leaf);
        sprouts.push(Sprout { leaf, split: None });
        Ok(split.map(|split| WaitingNode { task, split, node: sprouts.len() - 1 }))
    }
}
