//! A model's trees compiled for speed: what a [`super::apply::Predictor`] runs.
//!
//! Rows are taken in blocks. In a block every feature's values become codes of one byte, column
//! after column, that tell apart the borders that splits use and no others:
//!
//! ```text
//!           row 0   1   2 … stride - 1            code 0: missing
//! slot 0   │ 3 │ 0 │ 7 │ …                        code 1 + k: larger than k of the slot's borders
//! slot 1   │ 1 │ 9 │ 2 │ …
//! ```
//!
//! A split is then one test of bytes, `code.wrapping_sub(shift) > above`, in which a missing
//! value's 0 stays the smallest code (`shift` 0: it goes left) or becomes the largest (`shift` 1: it
//! goes right). Tests run on many rows at once. A slot is a feature, or a part of the borders of a
//! feature with more of them than a byte can count. What [`linear`] leaves are functions of is read as values besides.
mod leaf_values;
pub mod linear;
pub mod parts;

use super::Model;
use super::entries::{Asked, Entries, KeyScratch, Sources};
use super::{Derived, HashedPart};
use crate::column::Column;
use crate::model::code_search::{MAX_SLOT_BORDERS, Scratch, Search};
use crate::tree::model::{Child, Leaf, Node, Split, Tree};
use leaf_values::MAX_LEAVES;
use linear::LinearPlan;
use multiversion::multiversion;

/// Rows a block: codes of some dozens of features fit into the first cache.
pub(super) const BLOCK: usize = 512;

/// Rows are tested in groups of this many: two of the widest registers, so that two chains of
/// operations are under way at once.
const LANES: usize = 128;

/// Goes the row right? `code.wrapping_sub(shift) > above`.
#[derive(Clone, Copy)]
struct Test {
    slot: u32,
    shift: u8,
    above: u8,
}

impl Test {
    #[inline(always)]
    fn right(self, code: u8) -> bool {
        code.wrapping_sub(self.shift) > self.above
    }
}

/// Borders of a feature, and how a row finds its code among them.
enum Slot {
    /// By the values of a column.
    Column(usize, Search),
    /// By what the row looks up: the index into the plan's entries, and the code of each entry.
    Derived(usize, Vec<u8>),
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// A test a level, which gives a bit of the leaf's index.
    Symmetric,
    /// At most [`MAX_LEAVES`] leaves: every row makes every test.
    Narrow,
    /// More leaves: every row walks from the root to its leaf.
    Walk,
}

/// A tree: ranges of the plan's lists.
struct Compiled {
    shape: Shape,
    first_test: usize,
    tests: usize,
    first_value: usize,
    leaves: usize,
    /// Whether the values of the leaves are numbers of f32.
    narrow: bool,
}

/// All trees of a model.
pub(super) struct Plan {
    entries: Vec<Entries>,
    /// What keys of entries are made of, beside categories.
    answers: Vec<Test>,
    slots: Vec<Slot>,
    tests: Vec<Test>,
    /// Of each test of a branching tree: where it leads. In a [`Shape::Walk`] tree the states left
    /// and right of it: `k` is node `k` of the tree, `nodes + k` its leaf `k`. In a
    /// [`Shape::Narrow`] one the label of the rows that it is for, and the new label of those that
    /// go right: see [`branching_narrow`].
    children: Vec<[u32; 2]>,
    /// Of each value: its leaf in the model's own order, where that differs.
    leaf_of: Vec<u32>,
    values: Vec<f64>,
    trees: Vec<Compiled>,
    /// The leaves of each tree in the order of `values`.
    linear: LinearPlan,
}

/// Codes of a block of rows.
#[derive(Default)]
pub(super) struct Block {
    codes: Vec<u8>,
    /// What the rows look up: `[entries][row]`.
    entries: Vec<u32>,
    /// What linear leaves read: `[slot][row]`.
    values: Vec<f64>,
    /// Rows, rounded up to whole groups.
    stride: usize,
    rows: usize,
    scratch: Scratch,
    keys: KeyScratch,
}

/// The leaves of a block's rows in one tree.
#[derive(Default)]
pub(super) struct LeafIndices {
    narrow: Vec<u8>,
    wide: Vec<u32>,
    is_narrow: bool,
}

impl LeafIndices {
    /// Returns the place of a row's leaf among the plan's values of the tree.
    fn at(&self, row: usize) -> usize {
        if self.is_narrow { self.narrow[row] as usize } else { self.wide[row] as usize }
    }
}

impl Block {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

impl Plan {
    /// Compiles a valid model.
    pub fn new(model: &Model) -> Self {
        let mut used: Vec<Vec<bool>> = vec![Vec::new(); model.features.len() + model.derived.len()];
        let mut mark = |feature: u32, border: u32| {
            let used = &mut used[feature as usize];
            let is_first = used.is_empty();
            if is_first {
                used.resize(model.borders(feature).len() + 1, false);
            }
            used[border as usize] = true;
            is_first
        };
        for split in model.trees.iter().flat_map(|t| t.splits()) {
            // What a row's hash is made of is asked once a feature is.
            if mark(split.feature, split.border)
                && let Some(Derived::Hashed { parts, .. }) = model.derived.get((split.feature as usize).wrapping_sub(model.features.len()))
            {
                for part in parts {
                    if let HashedPart::Answer { feature, border, .. } = part {
                        mark(*feature, *border);
                    }
                }
            }
        }
        // Where each border of each feature went: its slot and its rank among the slot's borders.
        let mut sources = Sources::default();
        let mut slots = Vec::new();
        let mut places: Vec<Vec<(u32, u8)>> = Vec::with_capacity(used.len());
        for (feature, used) in used.iter().enumerate() {
            let borders = model.borders(feature as u32);
            let kept: Vec<usize> = (0..used.len().min(borders.len())).filter(|b| used[*b]).collect();
            let mut place = vec![(0, 0); used.len()];
            let parts = if used.is_empty() { 0 } else { kept.len().div_ceil(MAX_SLOT_BORDERS).max(1) };
            for part in 0..parts {
                let kept = &kept[part * MAX_SLOT_BORDERS..kept.len().min((part + 1) * MAX_SLOT_BORDERS)];
                for (rank, b) in kept.iter().enumerate() {
                    place[*b] = (slots.len() as u32, rank as u8);
                }
                // The border at +∞, which no value is above, is the one after the slot's last.
                if let Some(end) = place.get_mut(borders.len()) {
                    *end = (slots.len() as u32, kept.len() as u8);
                }
                let kept: Vec<f64> = kept.iter().map(|b| borders[*b]).collect();
                slots.push(match feature.checked_sub(model.features.len()) {
                    None => Slot::Column(feature, Search::new(&kept)),
                    Some(derived) => {
                        let (entries, of_entry) = sources.codes(model, &model.derived[derived], &kept);
                        Slot::Derived(entries, of_entry)
                    }
                });
            }
            places.push(place);
        }
        let test_of = |feature: u32, border: u32, missing_left: bool| {
            let (slot, rank) = places[feature as usize][border as usize];
            let shift = !missing_left as u8;
            // Right of the border of rank r are the codes above r + 1; at most 255 in all.
            Test { slot, shift, above: rank + 1 - shift }
        };
        let test = |split: &Split| test_of(split.feature, split.border, split.missing_left);
        let mut plan = Plan {
            entries: sources.entries,
            answers: sources
                .answers
                .iter()
                .map(|Asked { feature, border, missing_left }| test_of(*feature, *border, *missing_left))
                .collect(),
            slots,
            tests: vec![],
            children: vec![],
            leaf_of: vec![],
            values: vec![],
            trees: Vec::with_capacity(model.trees.len()),
            linear: LinearPlan::default(),
        };
        for tree in &model.trees {
            let (first_test, first_value) = (plan.tests.len(), plan.values.len());
            plan.tests.extend(tree.splits().map(test));
            let shape = match tree {
                Tree::Symmetric { .. } => Shape::Symmetric,
                Tree::Branching { nodes, .. } if nodes.is_empty() => Shape::Symmetric,
                Tree::Branching { leaves, .. } if leaves.len() <= MAX_LEAVES => Shape::Narrow,
                Tree::Branching { .. } => Shape::Walk,
            };
            let order: Vec<u32> = match tree {
                Tree::Branching { nodes, .. } if shape == Shape::Narrow => {
                    let (steps, order) = labels(nodes);
                    plan.children.resize(first_test, [0; 2]);
                    plan.children.extend(steps);
                    order
                }
                Tree::Branching { nodes, .. } => {
                    plan.children.resize(first_test, [0; 2]);
                    plan.children.extend(nodes.iter().map(|n| states(n, nodes.len())));
                    (0..tree.leaves().len() as u32).collect()
                }
                Tree::Symmetric { leaves, .. } => (0..leaves.len() as u32).collect(),
            };
            plan.values.extend(order.iter().map(|k| tree.leaves()[*k as usize].value));
            plan.leaf_of.extend(order);
            plan.trees.push(Compiled {
                shape,
                first_test,
                tests: plan.tests.len() - first_test,
                first_value,
                leaves: tree.leaves().len(),
                narrow: tree.leaves().iter().all(Leaf::is_narrow),
            });
        }
        plan.linear = LinearPlan::new(model, |tree| {
            let Compiled { first_value, leaves, .. } = plan.trees[tree];
            &plan.leaf_of[first_value..first_value + leaves]
        });
        plan
    }

    /// Bytes that a row takes in a [`Block`].
    pub fn bytes_of_row(&self) -> u64 {
        (self.slots.len() + 4 * self.entries.len() + 8 * self.linear.columns.len()) as u64
    }

    /// Reads rows `start .. start + rows` of the model's columns into `block`.
    pub fn read(&self, columns: &[&Column<'_>], start: usize, rows: usize, block: &mut Block) {
        block.rows = rows;
        block.stride = rows.next_multiple_of(LANES);
        // What stands behind the rows of a slot has no meaning.
        block.codes.resize(self.slots.len() * block.stride, 0);
        self.linear.read(columns, start, rows, &mut block.values);
        block.entries.resize(self.entries.len() * rows, 0);
        for (slot, codes) in self.slots.iter().zip(block.codes.chunks_exact_mut(block.stride)) {
            if let Slot::Column(feature, search) = slot {
                search.codes(columns[*feature], start, rows, codes, &mut block.scratch);
            }
        }
        self.look_up(columns, start, block, false);
        // These are made of the codes of the others.
        self.look_up(columns, start, block, true);
    }

    /// Finds the entries of the rows, and the codes of the slots that these give: of those that are made of answers, or the others.
    fn look_up(&self, columns: &[&Column<'_>], start: usize, block: &mut Block, asks: bool) {
        let Block { codes, entries: found, stride, rows, keys, .. } = block;
        let answer = |asked: usize, out: &mut [u8]| {
            let test = self.answers[asked];
            test_all(test, &codes[test.slot as usize * *stride..], out);
        };
        for (entries, out) in self.entries.iter().zip(found.chunks_exact_mut((*rows).max(1))).filter(|(e, _)| e.asks() == asks) {
            entries.read(columns, start, answer, keys, out);
        }
        for (slot, codes) in self.slots.iter().zip(codes.chunks_exact_mut(*stride)) {
            if let Slot::Derived(index, of_entry) = slot
                && self.entries[*index].asks() == asks
            {
                let entries = &found[index * *rows..(index + 1) * *rows];
                codes.iter_mut().zip(entries).for_each(|(code, entry)| *code = of_entry[*entry as usize]);
            }
        }
    }

    /// Finds the leaf of each row of `block` in tree `index`.
    pub fn leaves(&self, index: usize, block: &Block, out: &mut LeafIndices) {
        let tree = &self.trees[index];
        let range = tree.first_test..tree.first_test + tree.tests;
        let (tests, codes, stride) = (&self.tests[range.clone()], block.codes.as_slice(), block.stride);
        out.is_narrow = tree.shape != Shape::Walk && tree.leaves <= MAX_LEAVES;
        if out.is_narrow {
            out.narrow.resize(stride, 0);
        } else {
            out.wide.resize(stride, 0);
        }
        match tree.shape {
            Shape::Symmetric if out.is_narrow => symmetric_narrow(tests, codes, stride, &mut out.narrow),
            Shape::Symmetric => symmetric_wide(tests, codes, stride, &mut out.wide),
            Shape::Narrow => branching_narrow(tests, &self.children[range], codes, stride, &mut out.narrow),
            Shape::Walk => branching_walk(tests, &self.children[range], codes, stride, &mut out.wide),
        }
    }

    /// Writes of each row of `block` 1 where it goes right at a test of tree `index`, else 0.
    pub fn goes_right(&self, index: usize, test: usize, block: &Block, out: &mut [u8]) {
        let test = self.tests[self.trees[index].first_test + test];
        test_all(test, &block.codes[test.slot as usize * block.stride..], out);
    }

    /// The leaf of a row of the block that `leaves` came from, as the model counts.
    pub fn leaf(&self, index: usize, leaves: &LeafIndices, row: usize) -> u32 {
        self.leaf_of[self.trees[index].first_value + leaves.at(row)]
    }

    /// Returns the value that a row of the block that `leaves` came from has in tree `index`, where its leaf is a linear function and that is
    /// finite.
    pub fn linear_value(&self, index: usize, block: &Block, leaves: &LeafIndices, row: usize) -> Option<f64> {
        let first = (*self.linear.trees.get(index)?)? as usize;
        self.linear.value(first + leaves.at(row), &block.values, block.rows, row)
    }

    /// Adds the leaf values of tree `index` to `sums`, one a row of `block`, which `leaves` came from.
    pub fn add(&self, index: usize, block: &Block, leaves: &LeafIndices, sums: &mut [f64]) {
        let tree = &self.trees[index];
        let values = &self.values[tree.first_value..tree.first_value + tree.leaves];
        if let Some(Some(first)) = self.linear.trees.get(index) {
            for (row, sum) in sums.iter_mut().enumerate() {
                let leaf = leaves.at(row);
                *sum += self.linear.value(*first as usize + leaf, &block.values, block.rows, row).unwrap_or(values[leaf]);
            }
        } else if leaves.is_narrow {
            leaf_values::add(values, tree.narrow, &leaves.narrow, sums);
        } else {
            for (sum, leaf) in sums.iter_mut().zip(&leaves.wide) {
                *sum += values[*leaf as usize];
            }
        }
    }
}

/// The states that a node leads to.
fn states(node: &Node, nodes: usize) -> [u32; 2] {
    [node.left, node.right].map(|child| match child {
        Child::Node(i) => i,
        Child::Leaf(i) => nodes as u32 + i,
    })
}

/// Labels for [`branching_narrow`]: of each node its rows' label and the one of those that go
/// right, and of each label in the end its leaf.
fn labels(nodes: &[Node]) -> (Vec<[u32; 2]>, Vec<u32>) {
    let mut label_of = vec![0; nodes.len()];
    let mut leaf_of = vec![0; nodes.len() + 1];
    let mut steps = Vec::with_capacity(nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        // Children stand behind their parents, so the node has its label by now.
        let step = [label_of[i], i as u32 + 1];
        for (child, label) in [node.left, node.right].into_iter().zip(step) {
            match child {
                Child::Node(c) => label_of[c as usize] = label,
                Child::Leaf(c) => leaf_of[label as usize] = c,
            }
        }
        steps.push(step);
    }
    (steps, leaf_of)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn test_all(test: Test, codes: &[u8], out: &mut [u8]) {
    out.iter_mut().zip(codes).for_each(|(out, code)| *out = test.right(*code) as u8);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn symmetric_narrow(tests: &[Test], codes: &[u8], stride: usize, out: &mut [u8]) {
    let (groups, _) = out.as_chunks_mut::<LANES>();
    for (g, out) in groups.iter_mut().enumerate() {
        let mut index = [0u8; LANES];
        for test in tests {
            let (codes, _) = codes[test.slot as usize * stride + g * LANES..].as_chunks::<LANES>();
            let codes = &codes[0];
            for i in 0..LANES {
                index[i] = (index[i] << 1) | test.right(codes[i]) as u8;
            }
        }
        *out = index;
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn symmetric_wide(tests: &[Test], codes: &[u8], stride: usize, out: &mut [u32]) {
    out.fill(0);
    for test in tests {
        for (out, code) in out.iter_mut().zip(&codes[test.slot as usize * stride..][..stride]) {
            *out = (*out << 1) | test.right(*code) as u32;
        }
    }
}

/// Every row makes every test, and the rows that a node is for take its answer: those that go left
/// keep their label, those that go right get a new one. Children stand behind their parents, so
/// one pass over the nodes gives the rows of each leaf a label of their own.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn branching_narrow(tests: &[Test], steps: &[[u32; 2]], codes: &[u8], stride: usize, out: &mut [u8]) {
    // A test waits for the labels that the one before gives: the more rows are under way, the less it matters.
    let (pairs, rest) = out.as_chunks_mut::<{ 2 * LANES }>();
    let first_of_rest = pairs.len() * 2 * LANES;
    for (g, out) in pairs.iter_mut().enumerate() {
        label_group(tests, steps, codes, stride, g * 2 * LANES, out);
    }
    if let Some(out) = rest.first_chunk_mut::<LANES>() {
        label_group(tests, steps, codes, stride, first_of_rest, out);
    }
}

/// Gives so many rows from row `first` on the labels of their leaves.
#[inline(always)]
fn label_group<const ROWS: usize>(tests: &[Test], steps: &[[u32; 2]], codes: &[u8], stride: usize, first: usize, out: &mut [u8; ROWS]) {
    let mut label = [0u8; ROWS];
    for (test, [from, to]) in tests.iter().zip(steps) {
        let (codes, _) = codes[test.slot as usize * stride + first..].as_chunks::<ROWS>();
        let (from, to, codes) = (*from as u8, *to as u8, &codes[0]);
        for i in 0..ROWS {
            label[i] = if test.right(codes[i]) & (label[i] == from) { to } else { label[i] };
        }
    }
    *out = label;
}

/// Rows walk side by side, so that the memory's answers to some overlap with those to others.
fn branching_walk(tests: &[Test], children: &[[u32; 2]], codes: &[u8], stride: usize, out: &mut [u32]) {
    const SIDE: usize = 16;
    let nodes = tests.len();
    let (groups, _) = out.as_chunks_mut::<SIDE>();
    for (g, out) in groups.iter_mut().enumerate() {
        let mut state = [0u32; SIDE];
        while state.iter().any(|s| (*s as usize) < nodes) {
            for _ in 0..4 {
                for (i, state) in state.iter_mut().enumerate() {
                    let at = (*state as usize).min(nodes - 1);
                    let test = tests[at];
                    let right = test.right(codes[test.slot as usize * stride + g * SIDE + i]);
                    let next = children[at][right as usize];
                    *state = if (*state as usize) < nodes { next } else { *state };
                }
            }
        }
        *out = state.map(|s| s - nodes as u32);
    }
}
