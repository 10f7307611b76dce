//! What trees give where some players answer and the others follow the training rows: the value of a set of players, over rows of
//! which nothing else is known.
//!
//! Over the values of one or two columns it is their partial dependence by the trees alone (Friedman, "Greedy function approximation:
//! a gradient boosting machine", 2001, section 8.2; scikit-learn's `method="recursion"`).

use super::explainer::Answers;
use super::paths::ExplainedTree;
use crate::error::{Error, Result};
use crate::memory;
use crate::parallel::interrupt;
use crate::tree::model::Child;

/// Rows that are looked at at a time, and fewer where their answers would take more bytes, but not fewer than so many.
const ROWS: usize = 256;
const MOST_ANSWER_BYTES: usize = 1 << 21;
const LEAST_ROWS: usize = 16;

/// Where a value is found.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// The same for all rows, by its place among the tree's.
    Constant(u32),
    /// What a node gives.
    Node(u32),
}

/// A node below which players of the set are asked.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A player of the set is: by its answer to the test, the left or the right.
    Ask { test: u32, children: [Source; 2] },
    /// Another is: the mean, by the shares of the training rows.
    Weigh { shares: [f64; 2], children: [Source; 2] },
}

/// A tree of which only what players of the set decide is left.
struct Reduced {
    /// Nodes behind their children; the last is the root, where there is any.
    steps: Vec<Step>,
    /// `[constant * outputs + output]`. Without steps the only one is what all rows get.
    constants: Vec<f64>,
    /// The tests that steps ask for, by their number in the tree.
    tests: Vec<u32>,
    first_output: usize,
    outputs: usize,
}

impl Reduced {
    fn new(tree: &ExplainedTree, in_set: impl Fn(u32) -> bool) -> Self {
        let (shares, outputs) = (tree.branch_shares(), tree.outputs);
        let mut reduced = Reduced { steps: vec![], constants: vec![], tests: vec![], first_output: tree.first_output, outputs };
        let mut number_of_test = vec![u32::MAX; tree.tests];
        // Of each node its mean, or its place among the steps.
        let mut means = vec![0.0; tree.nodes.len() * outputs];
        let mut steps: Vec<Option<u32>> = vec![None; tree.nodes.len()];
        for (i, node) in tree.nodes.iter().enumerate().rev() {
            let children = [node.left, node.right];
            let known = in_set(node.player);
            let is_constant =
                |child: Child| matches!(child, Child::Leaf(_)) || matches!(child, Child::Node(k) if steps[k as usize].is_none());
            if !known && children.into_iter().all(is_constant) {
                for output in 0..outputs {
                    let of = |child: Child| match child {
                        Child::Leaf(leaf) => tree.leaf_values(leaf)[output],
                        Child::Node(k) => means[k as usize * outputs + output],
                    };
                    means[i * outputs + output] = shares[i][0] * of(node.left) + shares[i][1] * of(node.right);
                }
                continue;
            }
            let children = children.map(|child| match child {
                Child::Node(k) if let Some(step) = steps[k as usize] => Source::Node(step),
                Child::Node(k) => reduced.constant(&means[k as usize * outputs..][..outputs]),
                Child::Leaf(leaf) => reduced.constant(tree.leaf_values(leaf)),
            });
            steps[i] = Some(reduced.steps.len() as u32);
            reduced.steps.push(if known {
                let number = &mut number_of_test[node.test as usize];
                if *number == u32::MAX {
                    *number = reduced.tests.len() as u32;
                    reduced.tests.push(node.test);
                }
                Step::Ask { test: *number, children }
            } else {
                Step::Weigh { shares: shares[i], children }
            });
        }
        if reduced.steps.is_empty() {
            let root = if tree.nodes.is_empty() { tree.leaf_values(0) } else { &means[..outputs] };
            reduced.constant(root);
        }
        reduced
    }

    fn constant(&mut self, values: &[f64]) -> Source {
        self.constants.extend_from_slice(values);
        Source::Constant((self.constants.len() / self.outputs.max(1) - 1) as u32)
    }

    /// Adds what each row gets to `sums[output][row]`; `answers[test * rows + row]`.
    fn add(&self, answers: &[u8], rows: usize, scratch: &mut Vec<f64>, sums: &mut [Vec<f64>]) {
        let outputs = self.outputs;
        scratch.resize(self.steps.len().max(1) * outputs, 0.0);
        for row in 0..rows {
            for (at, step) in self.steps.iter().enumerate() {
                let (below, own) = scratch.split_at_mut(at * outputs);
                let of = |source: Source| match source {
                    Source::Constant(k) => &self.constants[k as usize * outputs..][..outputs],
                    Source::Node(k) => &below[k as usize * outputs..][..outputs],
                };
                match step {
                    Step::Ask { test, children } => {
                        own[..outputs].copy_from_slice(of(children[answers[*test as usize * rows + row] as usize]));
                    }
                    Step::Weigh { shares, children } => {
                        let [left, right] = children.map(of);
                        own.iter_mut().zip(left).zip(right).for_each(|((own, l), r)| *own = shares[0] * l + shares[1] * r);
                    }
                }
            }
            let root = match self.steps.len() {
                0 => &self.constants[..outputs],
                n => &scratch[(n - 1) * outputs..][..outputs],
            };
            sums[self.first_output..].iter_mut().zip(root).for_each(|(sum, value)| sum[row] += value);
        }
    }
}

/// The error for trees that do not know of any training row where they went.
pub fn uncounted() -> Error {
    Error::Data("the model does not know how many training rows its leaves had: give data".into())
}

/// All trees of a model, reduced to what the players of a set decide.
///
/// One thread does the work. Trees are added in their order, in f64, and what a row gets depends on nothing but the model, the set and
/// the row.
pub struct KnownMeans {
    trees: Vec<Reduced>,
    outputs: usize,
}

impl KnownMeans {
    /// Reduces trees of a model of so many outputs; `in_set`: of each player whether it answers.
    ///
    /// # Errors
    /// [`Error::Data`] for a tree that does not know of any training row where they went; [`Error::Memory`] where there is none for the
    /// trees.
    pub fn new(trees: Vec<ExplainedTree>, in_set: impl Fn(u32) -> bool, outputs: usize) -> Result<Self> {
        if trees.iter().any(|tree| !tree.nodes.is_empty() && tree.covers.iter().sum::<f64>() <= 0.0) {
            return Err(uncounted());
        }
        // A node's step, its mean, and the constants of its leaves.
        let bytes = |tree: &ExplainedTree| memory::product(&[tree.nodes.len() as u64, 64 + 24 * tree.outputs as u64]);
        let all = trees.iter().map(bytes).fold(0, u64::saturating_add);
        memory::check("the means of the model's trees", all, "take a model of fewer or smaller trees, or give data")?;
        Ok(KnownMeans { trees: trees.iter().map(|tree| Reduced::new(tree, &in_set)).collect(), outputs })
    }

    /// Returns how many rows [`KnownMeans::of`] is given at a time.
    pub fn rows_at_a_time(&self) -> usize {
        let tests = self.trees.iter().map(|tree| tree.tests.len()).max().unwrap_or(0);
        ROWS.min((MOST_ANSWER_BYTES / tests.max(1)).max(LEAST_ROWS))
    }

    /// Computes the trees' sums for a block of rows by their answers: `[output][row]`.
    pub fn of(&self, answers: &dyn Answers, rows: usize) -> Vec<Vec<f64>> {
        let mut sums = vec![vec![0.0; rows]; self.outputs];
        let (mut answered, mut scratch) = (vec![], vec![]);
        for (index, tree) in self.trees.iter().enumerate() {
            interrupt::poll();
            answered.resize(tree.tests.len() * rows, 0);
            for (test, out) in tree.tests.iter().zip(answered.chunks_exact_mut(rows.max(1))) {
                answers.goes_right(index, *test as usize, out);
            }
            tree.add(&answered, rows, &mut scratch, &mut sums);
        }
        sums
    }
}

/// Finds the players of a set of columns: those all of whose columns are in it.
///
/// # Errors
/// The first player that is made of columns of the set and others together.
pub fn players_of<'p>(players: &'p [Vec<u32>], known: &[u32]) -> std::result::Result<Vec<bool>, &'p [u32]> {
    let of = |columns: &'p Vec<u32>| match columns.iter().filter(|c| known.contains(c)).count() {
        0 => Ok(false),
        n if n == columns.len() => Ok(true),
        _ => Err(columns.as_slice()),
    };
    players.iter().map(of).collect()
}
