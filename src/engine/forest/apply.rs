//! Predictions of rows.

use super::model::Forest;
use crate::backend::{CodeSet, Device};
use crate::column::Column;
use crate::encoding::Lookup;
use crate::error::{Error, Result};
use crate::model::apply::bind;
use crate::model::search::{MAX_SLOT_BORDERS, Scratch, Search};
use crate::tree::model::Child;

/// Rows that are read at a time.
const BLOCK: usize = 2048;

/// Rows that walk side by side, so that the memory's answers to some overlap with those to others.
const SIDE: usize = 16;

/// A node as rows meet it.
#[derive(Clone, Copy)]
struct Step {
    feature: u32,
    /// The steps left and right; from the tree's number of nodes on, leaves.
    children: [u32; 2],
    test: Test,
}

/// Whether a row goes right.
#[derive(Clone, Copy)]
enum Test {
    /// `code.wrapping_sub(shift) > above`, see [`crate::model`]'s plan.
    Code { shift: u8, above: u8 },
    /// `x > border`, or missing and told to.
    Value { border: f64, missing_right: bool },
    /// The category's code is one of a set.
    Set(u32),
}

/// How the values of a feature are read.
enum Reader {
    /// No split asks about it.
    None,
    /// As codes of one byte.
    Codes(Search),
    /// As they are: there are too many borders.
    Values,
    /// As codes of categories, of which there are so many.
    Categories(u32),
}

/// A forest made ready to be applied many times.
///
/// One thread does the work; callers split the rows. The result of a row depends on nothing but the
/// forest and the row.
pub struct Predictor {
    forest: Forest,
    readers: Vec<Reader>,
    /// Tree after tree.
    steps: Vec<Step>,
    /// Of each tree its first step and its first value; and behind the last tree.
    starts: Vec<(usize, usize)>,
    /// Leaf after leaf, `outputs` values each.
    values: Vec<f64>,
    lookups: Vec<Option<Lookup>>,
}

/// The values of a block of rows.
#[derive(Default)]
struct Block {
    codes: Vec<u8>,
    values: Vec<f64>,
    scratch: Scratch,
}

impl Predictor {
    /// Prepares `forest`: in time of the order of its nodes and borders.
    ///
    /// # Panics
    /// May panic for a forest for which [`Forest::validate`] fails; a fitted or parsed one is valid.
    pub fn new(forest: Forest) -> Self {
        let mut asked = vec![false; forest.features.len()];
        forest.trees.iter().flat_map(|t| &t.nodes).for_each(|n| asked[n.split.feature as usize] = true);
        let readers: Vec<Reader> = forest
            .features
            .iter()
            .zip(asked)
            .map(|(f, asked)| match &f.categories {
                _ if !asked => Reader::None,
                Some(categories) => Reader::Categories(categories.len() as u32),
                None if f.borders.len() <= MAX_SLOT_BORDERS => Reader::Codes(Search::new(&f.borders)),
                None => Reader::Values,
            })
            .collect();
        let outputs = forest.outputs();
        let (mut steps, mut values, mut starts) = (vec![], vec![], vec![(0, 0)]);
        for tree in &forest.trees {
            let nodes = tree.nodes.len() as u32;
            let state = |child| match child {
                Child::Node(i) => i,
                Child::Leaf(i) => nodes + i,
            };
            steps.extend(tree.nodes.iter().map(|n| {
                let s = &n.split;
                let test = match &readers[s.feature as usize] {
                    Reader::Categories(_) => Test::Set(s.border),
                    Reader::Values => {
                        let border = forest.features[s.feature as usize].borders.get(s.border as usize);
                        Test::Value { border: border.copied().unwrap_or(f64::INFINITY), missing_right: !s.missing_left }
                    }
                    // Right of border b are the codes above b + 1.
                    _ => Test::Code { shift: !s.missing_left as u8, above: s.border as u8 + 1 - !s.missing_left as u8 },
                };
                Step { feature: s.feature, children: [state(n.left), state(n.right)], test }
            }));
            let first = values.len();
            values.resize(first + tree.leaves() * outputs, 0.0);
            values[first..].chunks_exact_mut(outputs).enumerate().for_each(|(leaf, out)| tree.value(leaf, out));
            starts.push((steps.len(), values.len()));
        }
        let lookups = forest.features.iter().map(|f| f.categories.clone().and_then(|c| Lookup::new(c).ok())).collect();
        Predictor { forest, readers, steps, starts, values, lookups }
    }

    /// The forest.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// Finds the codes of a feature's categories, where it is asked about by them: what
    /// [`Column::codes`] takes.
    pub fn lookup(&self, feature: usize) -> Option<&Lookup> {
        self.lookups.get(feature)?.as_ref()
    }

    /// Checks the device that is to apply the forest: so far the CPU alone does.
    ///
    /// # Errors
    /// Those of [`Device::parse`], and for a GPU: an explicit choice never falls back.
    pub fn check_device(device: &str) -> Result<()> {
        match Device::parse(device)? {
            Device::Auto | Device::Cpu => Ok(()),
            Device::Cuda(_) => {
                Err(Error::parameter("device", format!("{device:?}: forests are applied on the CPU only; use \"cpu\" or \"auto\"")))
            }
        }
    }

    /// The columns that the forest names, in its order: see [`crate::model::apply::Predictor::bind`].
    ///
    /// # Errors
    /// As there.
    pub fn bind<'c, 'a>(&self, columns: &'c [Column<'a>]) -> Result<Vec<&'c Column<'a>>> {
        bind(&self.forest.features, columns)
    }

    /// Predictions of all rows: `[class][row]`, the probability of each class in the order of the
    /// labels, or `[0][row]`, the mean. `columns` as [`Predictor::bind`] gives them.
    pub fn predict(&self, columns: &[&Column<'_>]) -> Vec<Vec<f64>> {
        let rows = columns.first().map_or(0, |c| c.len());
        let outputs = self.forest.outputs();
        let mut out = vec![vec![0.0; rows]; outputs];
        self.for_leaves(columns, |start, tree, leaves| {
            let values = &self.values[self.starts[tree].1..];
            for (k, out) in out.iter_mut().enumerate() {
                out[start..].iter_mut().zip(leaves).for_each(|(sum, leaf)| *sum += values[*leaf as usize * outputs + k]);
            }
        });
        let trees = self.forest.trees.len() as f64;
        out.iter_mut().flatten().for_each(|x| *x /= trees);
        out
    }

    /// The index of the most probable class of each row, the lower one at a tie.
    pub fn class(&self, predictions: &[Vec<f64>]) -> Vec<u32> {
        let rows = predictions.first().map_or(0, Vec::len);
        (0..rows).map(|row| most_probable(predictions.len(), |k| predictions[k][row])).collect()
    }

    /// The leaf of every row in every tree, row after row: `out[row * trees + tree]`. Leaves are
    /// counted from left to right.
    pub fn leaves(&self, columns: &[&Column<'_>]) -> Vec<u32> {
        let rows = columns.first().map_or(0, |c| c.len());
        let trees = self.forest.trees.len();
        let mut out = vec![0; rows * trees];
        self.for_leaves(columns, |start, tree, leaves| {
            leaves.iter().enumerate().for_each(|(row, leaf)| out[(start + row) * trees + tree] = *leaf);
        });
        out
    }

    /// Calls `visit(first row, tree, leaves of the rows)` for each tree of each block of rows.
    fn for_leaves(&self, columns: &[&Column<'_>], mut visit: impl FnMut(usize, usize, &[u32])) {
        let rows = columns.first().map_or(0, |c| c.len());
        let (mut block, mut leaves) = (Block::default(), [0; BLOCK]);
        for start in (0..rows).step_by(BLOCK) {
            let n = BLOCK.min(rows - start);
            self.read(columns, start, n, &mut block);
            for tree in 0..self.forest.trees.len() {
                self.walk(tree, &block, &mut leaves[..n.next_multiple_of(SIDE)]);
                visit(start, tree, &leaves[..n]);
            }
        }
    }

    /// Reads rows `start .. start + n`, feature after feature.
    fn read(&self, columns: &[&Column<'_>], start: usize, n: usize, block: &mut Block) {
        block.codes.resize(self.readers.len() * BLOCK, 0);
        if self.readers.iter().any(|r| matches!(r, Reader::Values)) {
            block.values.resize(self.readers.len() * BLOCK, 0.0);
        }
        for (f, reader) in self.readers.iter().enumerate() {
            let at = f * BLOCK..f * BLOCK + n;
            match reader {
                Reader::None => {}
                Reader::Codes(search) => search.codes(columns[f], start, n, &mut block.codes[at], &mut block.scratch),
                Reader::Values => columns[f].read_f64(start, &mut block.values[at]),
                Reader::Categories(known) => {
                    let codes = &columns[f].category_codes().unwrap_or_default()[start..start + n];
                    let code = |c: &u32| if c < known { *c as u8 + 1 } else { 0 };
                    block.codes[at].iter_mut().zip(codes).for_each(|(out, c)| *out = code(c));
                }
            }
        }
    }

    /// The leaf of each row of a block in a tree.
    fn walk(&self, tree: usize, block: &Block, out: &mut [u32]) {
        let steps = &self.steps[self.starts[tree].0..self.starts[tree + 1].0];
        if steps.is_empty() {
            return out.fill(0);
        }
        let (groups, _) = out.as_chunks_mut::<SIDE>();
        for (g, out) in groups.iter_mut().enumerate() {
            let mut state = [0u32; SIDE];
            while state.iter().any(|s| (*s as usize) < steps.len()) {
                for (i, state) in state.iter_mut().enumerate() {
                    let step = &steps[(*state as usize).min(steps.len() - 1)];
                    let at = step.feature as usize * BLOCK + g * SIDE + i;
                    let right = match step.test {
                        Test::Code { shift, above } => block.codes[at].wrapping_sub(shift) > above,
                        Test::Value { border, missing_right } => {
                            let x = block.values[at];
                            x > border || (x.is_nan() && missing_right)
                        }
                        Test::Set(set) => self.set(set).contains(block.codes[at]),
                    };
                    *state = if (*state as usize) < steps.len() { step.children[right as usize] } else { *state };
                }
            }
            *out = state.map(|s| s - steps.len() as u32);
        }
    }

    fn set(&self, set: u32) -> &CodeSet {
        &self.forest.sets[set as usize]
    }
}

/// The class with the largest share, the lower one at a tie.
pub(super) fn most_probable(classes: usize, share: impl Fn(usize) -> f64) -> u32 {
    (1..classes).fold(0, |best, k| if share(k) > share(best) { k } else { best }) as u32
}
