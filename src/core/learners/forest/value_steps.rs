//! Trees that ask about values as they are, laid out for rows that walk through them.
//!
//! A step is a node or a leaf, in preorder: where a row goes left the next step is behind this one, in most cases in the same line of
//! the cache. Leaves lead to themselves, so that rows walk side by side without asking who has arrived. Where a row goes is computed, not
//! branched on: every other branch would be foretold wrongly, and end what rows have begun beside it.
//!
//! Values are compared as whole numbers of the same order ([`key`]), among which a missing one is the largest, and the smallest when 1 is
//! added to all:
//!
//! ```text
//! missing right     x > border    <=>    key(x)     > key(border)
//! missing left      x > border    <=>    key(x) + 1 > key(border) + 1
//! ```

use super::model::{Forest, Tree};
use crate::tree::model::{Child, Node};
use std::hint::select_unpredictable;

/// Rows that walk side by side, so that the memory's answers to some overlap with those to others.
pub const SIDE: usize = 16;

/// The key of a missing value.
pub const MISSING: u64 = u64::MAX;

/// What is added to keys where missing values go left, in [`ValueStep::place`].
const MISSING_LEFT: u32 = 1 << 31;

/// Returns a number that is larger for larger values, never 0, and [`MISSING`] for NaN.
#[inline(always)]
pub fn key(x: f64) -> u64 {
    // -0.0 + 0.0 is 0.0.
    let bits = (x + 0.0).to_bits();
    let ordered = bits ^ (((bits as i64) >> 63) as u64 | (1 << 63));
    if x.is_nan() { MISSING } else { ordered }
}

/// A question about a key.
#[derive(Clone, Copy)]
pub struct KeyTest {
    /// What is added to the key: 1 where missing values go left.
    pub moved: u64,
    /// Rows whose sum is larger go right.
    pub above: u64,
}

impl KeyTest {
    /// Returns whether a value is larger than a border, as a question about its key.
    pub fn new(border: f64, missing_left: bool) -> KeyTest {
        let moved = missing_left.into();
        KeyTest { moved, above: key(border) + moved }
    }

    #[inline(always)]
    pub fn goes_right(self, key: u64) -> bool {
        key.wrapping_add(self.moved) > self.above
    }
}

/// A node or a leaf: sixteen bytes.
#[derive(Clone, Copy)]
struct ValueStep {
    /// As in [`KeyTest`]; of a leaf 0.
    above: u64,
    /// The value's place in its row.
    place: u32,
    /// How many steps behind the one on the left the one on the right is; of a leaf what leads back to it.
    skip: u32,
}

const LEAF: ValueStep = ValueStep { above: 0, place: 0, skip: u32::MAX };

/// The steps of a forest's trees.
#[derive(Default)]
pub struct ValueSteps {
    steps: Vec<ValueStep>,
    /// Of each step of a leaf, the leaf.
    leaves: Vec<u32>,
    /// Of each tree its first step; and behind the last tree.
    starts: Vec<usize>,
}

impl ValueSteps {
    /// Lays out the trees of a forest without categories; `place`: of each feature, its value's place in a row.
    pub fn new(forest: &Forest, place: &[usize]) -> ValueSteps {
        let mut all = ValueSteps { starts: vec![0], ..Default::default() };
        for tree in &forest.trees {
            all.push(forest, tree, place);
        }
        all
    }

    fn push(&mut self, forest: &Forest, tree: &Tree, place: &[usize]) {
        // The children that are still to come, each with the step whose right one it is.
        let mut ahead: Vec<(Child, Option<usize>)> = vec![(tree.root(), None)];
        while let Some((child, parent)) = ahead.pop() {
            let own = self.steps.len();
            if let Some(parent) = parent {
                self.steps[parent].skip = (own - parent - 1) as u32;
            }
            let (step, leaf) = match child {
                Child::Leaf(leaf) => (LEAF, leaf),
                Child::Node(node) => {
                    let Node { split, left, right } = &tree.nodes[node as usize];
                    let feature = split.feature as usize;
                    let border = forest.features[feature].borders.get(split.border as usize).copied().unwrap_or(f64::INFINITY);
                    ahead.extend([(*right, Some(own)), (*left, None)]);
                    let KeyTest { moved, above } = KeyTest::new(border, split.missing_left);
                    (ValueStep { above, place: place[feature] as u32 | (moved as u32 * MISSING_LEFT), skip: 0 }, 0)
                }
            };
            self.steps.push(step);
            self.leaves.push(leaf);
        }
        self.starts.push(self.steps.len());
    }

    /// Writes the leaf of each row in a tree. `rows`: [`key`]s, row after row, `width` each, of as many rows as `out` has places, which
    /// are a multiple of [`SIDE`].
    pub fn leaves(&self, tree: usize, rows: &[u64], width: usize, out: &mut [u32]) {
        let range = self.starts[tree]..self.starts[tree + 1];
        let (steps, leaves) = (&self.steps[range.clone()], &self.leaves[range]);
        if steps.len() == 1 {
            return out.fill(leaves[0]);
        }
        let groups = out.as_chunks_mut::<SIDE>().0;
        for (out, rows) in groups.iter_mut().zip(rows.chunks_exact(SIDE * width)) {
            let mut state = [0u32; SIDE];
            loop {
                let mut moved = 0;
                for (state, row) in state.iter_mut().zip(rows.chunks_exact(width)) {
                    let step = &steps[*state as usize];
                    let test = KeyTest { moved: u64::from(step.place >> 31), above: step.above };
                    let right = test.goes_right(row[(step.place & !MISSING_LEFT) as usize]);
                    let next = state.wrapping_add(1).wrapping_add(select_unpredictable(right, step.skip, 0));
                    moved |= next ^ *state;
                    *state = next;
                }
                if moved == 0 {
                    break;
                }
            }
            *out = state.map(|step| leaves[step as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that keys compare as values do, that both zeros are one, and that a missing value is above and below all others.
    #[test]
    fn keys_are_in_the_order_of_their_values() {
        let values =
            [f64::NEG_INFINITY, f64::MIN, -1.0, -f64::MIN_POSITIVE, -5e-324, -0.0, 0.0, 5e-324, 1e-300, 1.0, f64::MAX, f64::INFINITY];
        for x in values {
            assert!(key(x) > LEAF.above && key(x) < MISSING, "{x}");
            assert!(MISSING > key(x) && MISSING.wrapping_add(1) <= key(x) + 1);
            for border in values {
                assert_eq!(key(x) > key(border), x > border, "{x} > {border}");
            }
        }
        assert_eq!((key(f64::NAN), key(-f64::NAN)), (MISSING, MISSING));
    }
}
