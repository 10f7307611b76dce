//! Predictions of rows.

use super::model::{Forest, Tree};
use super::value_steps::{KeyTest, MISSING, SIDE, ValueSteps, key};
use crate::column::Column;
use crate::encoding::Lookup;
use crate::error::Result;
use crate::model::Feature;
use crate::model::bind::bind;
use crate::model::code_search::{MAX_SLOT_BORDERS, Scratch, Search};
use crate::parallel::interrupt;
use crate::quantize::CodeSet;
use crate::tree::model::{Child, Node, Split};

/// The most rows that are read at a time, and the most bytes of their codes where trees are small: so many meet a tree while it lies in
/// the second cache.
const BLOCK: usize = 8192;
const BYTES: usize = 1 << 18;

/// Rows whose values are turned at a time, from one column after the other to one row after the other.
const TURNED: usize = 64;

/// Rows that are read at a time where many features are asked about, unless their values would take more than so many bytes.
const FEW_ROWS: usize = 512;
const MANY_BYTES: usize = 1 << 24;
/// Trees that a block of rows meets between two looks whether the predictions are still wanted.
const TREES: usize = 16;

/// A node as rows meet it: sixteen bytes, so that a large tree fits a core's cache.
#[derive(Clone, Copy)]
struct Step {
    /// Of codes where the feature's begin in a block, in the upper bits, then eight bits each of what is taken from a code
    /// and of what it goes right above. Else the feature's place among those that are asked about.
    test: u64,
    /// The steps left and right; from the tree's number of nodes on, leaves.
    children: [u32; 2],
}

/// How rows are told left from right.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// All features by codes: `code.wrapping_sub(shift) > above`, see [`crate::learners::boosting::model`]'s plan.
    Codes,
    /// All features by values.
    Values,
    /// Some by sets of categories.
    Mixed,
}

/// A node's question.
#[derive(Clone, Copy)]
pub enum Test {
    Code {
        shift: u8,
        above: u8,
    },
    /// `x > border`, or missing and told to.
    Value {
        border: f64,
        missing_right: bool,
    },
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

/// How a device is to read the values of a feature: `Reader`, without what reads them.
pub enum Reading {
    None,
    Codes,
    Values,
    Categories(u32),
}

/// What a walk of rows through the trees is to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub predictions: bool,
    pub leaves: bool,
}

/// What a walk collected: of what was not asked for nothing.
#[derive(Debug, Default, PartialEq)]
pub struct Walked {
    /// The shares of the classes, or the mean, `[output][row]`.
    pub predictions: Option<Vec<Vec<f64>>>,
    /// The leaf of every row in every tree, `[row * trees + tree]`.
    pub leaves: Option<Vec<u32>>,
}

/// A forest made ready to be applied many times.
///
/// One thread does the work; callers split the rows. The result of a row depends on nothing but the
/// forest and the row.
pub struct Predictor {
    forest: Forest,
    /// Of each feature.
    readers: Vec<Reader>,
    /// The features that are asked about, ascending: a block has codes and values of these alone.
    asked: Vec<u32>,
    way: Way,
    /// Rows of a block.
    block: usize,
    /// Tree after tree, unless features are read by values.
    steps: Vec<Step>,
    /// Of each step, where they are mixed.
    tests: Vec<Test>,
    /// The trees, where features are read by values.
    value_steps: ValueSteps,
    /// Of each tree its first node and its first value; and behind the last tree.
    starts: Vec<(usize, usize)>,
    /// Leaf after leaf, `outputs` values each.
    values: Vec<f64>,
    lookups: Vec<Option<Lookup>>,
}

/// The values of a block of rows.
#[derive(Default)]
pub(super) struct Block {
    codes: Vec<u8>,
    values: Vec<f64>,
    /// Of a forest that reads features by values these, one row after the other.
    keys: Vec<u64>,
    scratch: Scratch,
}

impl Predictor {
    /// Prepares `forest`: in time of the order of its nodes and borders.
    ///
    /// # Panics
    /// May panic for a forest for which [`Forest::validate`] fails; a fitted or parsed one is valid.
    pub fn new(forest: Forest) -> Self {
        let mut is_asked = vec![false; forest.features.len()];
        forest.trees.iter().flat_map(|t| &t.nodes).for_each(|n| is_asked[n.split.feature as usize] = true);
        let asked: Vec<u32> = (0..is_asked.len() as u32).filter(|f| is_asked[*f as usize]).collect();
        let mut place = vec![0; is_asked.len()];
        asked.iter().enumerate().for_each(|(at, f)| place[*f as usize] = at);
        let numeric = |f: &u32| forest.features[*f as usize].categories.is_none();
        let many = |f: &u32| forest.features[*f as usize].borders.len() > MAX_SLOT_BORDERS;
        let way = match (asked.iter().all(numeric), asked.iter().any(many)) {
            (true, false) => Way::Codes,
            (true, true) => Way::Values,
            (false, _) => Way::Mixed,
        };
        let reader = |(f, feature): (usize, &Feature)| match &feature.categories {
            _ if !is_asked[f] => Reader::None,
            Some(categories) => Reader::Categories(categories.len() as u32),
            None if way == Way::Values || many(&(f as u32)) => Reader::Values,
            None => Reader::Codes(Search::new(&feature.borders)),
        };
        let readers: Vec<Reader> = forest.features.iter().enumerate().map(reader).collect();
        let outputs = forest.outputs();
        let value_bytes = if readers.iter().any(|r| matches!(r, Reader::Values)) { size_of::<f64>() } else { 0 };
        let bytes = asked.len().max(1) * (value_bytes + (way != Way::Values) as usize);
        let least = (MANY_BYTES / bytes).clamp(SIDE, FEW_ROWS);
        // A tree that fills the second cache comes from behind it for each block, so more rows meet it then.
        let nodes: usize = forest.trees.iter().map(|t| t.nodes.len()).sum();
        let tree = nodes * (size_of::<Step>() + size_of::<Test>()) / forest.trees.len().max(1);
        let block = ((4 * tree).clamp(BYTES, MANY_BYTES) / bytes).clamp(least, BLOCK) / SIDE * SIDE;
        let (mut steps, mut tests, mut values, mut starts) = (vec![], vec![], vec![], vec![(0, 0)]);
        for tree in &forest.trees {
            for n in if way == Way::Values { &[][..] } else { &tree.nodes } {
                let place = place[n.split.feature as usize];
                let packed = match test(&forest, &readers, &n.split) {
                    Test::Code { shift, above } if way == Way::Codes => ((place * block) as u64) << 16 | (shift as u64) << 8 | above as u64,
                    test => {
                        tests.push(test);
                        place as u64
                    }
                };
                steps.push(Step { test: packed, children: children(tree, n) });
            }
            let first = values.len();
            values.resize(first + tree.leaves() * outputs, 0.0);
            values[first..].chunks_exact_mut(outputs).enumerate().for_each(|(leaf, out)| tree.value(leaf, out));
            starts.push((starts[starts.len() - 1].0 + tree.nodes.len(), values.len()));
        }
        let value_steps = if way == Way::Values { ValueSteps::new(&forest, &place) } else { ValueSteps::default() };
        let lookups = forest.features.iter().map(|f| f.categories.clone().and_then(|c| Lookup::new(c).ok())).collect();
        Predictor { forest, readers, asked, way, block, steps, tests, value_steps, starts, values, lookups }
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

    /// How each feature is read.
    pub fn readings(&self) -> impl Iterator<Item = Reading> + '_ {
        self.readers.iter().map(|reader| match reader {
            Reader::None => Reading::None,
            Reader::Codes(_) => Reading::Codes,
            Reader::Values => Reading::Values,
            Reader::Categories(known) => Reading::Categories(*known),
        })
    }

    /// The nodes of all trees, tree after tree: feature, test, and the nodes left and right, from the tree's number of nodes
    /// on leaves.
    pub fn questions(&self) -> impl Iterator<Item = (usize, Test, [u32; 2])> + '_ {
        let question =
            |tree, node: &Node| (node.split.feature as usize, test(&self.forest, &self.readers, &node.split), children(tree, node));
        self.forest.trees.iter().flat_map(move |tree| tree.nodes.iter().map(move |node| question(tree, node)))
    }

    /// Of each tree its first node and its first value; and behind the last tree.
    pub fn starts(&self) -> &[(usize, usize)] {
        &self.starts
    }

    /// The values of the leaves of all trees, `outputs` each.
    pub fn leaf_values(&self) -> &[f64] {
        &self.values
    }

    /// The columns that the forest names, in its order: see [`crate::learners::boosting::model::apply::Predictor::bind`].
    ///
    /// # Errors
    /// As there.
    pub fn bind<'c, 'a>(&self, columns: &'c [Column<'a>]) -> Result<Vec<&'c Column<'a>>> {
        bind(&self.forest.features, columns)
    }

    /// Collects predictions, leaves or both in one walk of the rows through the trees. `columns` as [`Predictor::bind`] gives them.
    pub fn walk(&self, columns: &[&Column<'_>], asked: Asked) -> Walked {
        let rows = columns.first().map_or(0, |c| c.len());
        let (outputs, trees) = (self.forest.outputs(), self.forest.trees.len());
        let mut predictions = asked.predictions.then(|| vec![vec![0.0; rows]; outputs]);
        let mut leaf_indices = asked.leaves.then(|| vec![0; rows * trees]);
        self.for_leaves(columns, |start, tree, leaves| {
            let values = &self.values[self.starts[tree].1..];
            for (k, out) in predictions.iter_mut().flatten().enumerate() {
                out[start..].iter_mut().zip(leaves).for_each(|(sum, leaf)| *sum += values[*leaf as usize * outputs + k]);
            }
            if let Some(out) = &mut leaf_indices {
                leaves.iter().enumerate().for_each(|(row, leaf)| out[(start + row) * trees + tree] = *leaf);
            }
        });
        predictions.iter_mut().flatten().flatten().for_each(|x| *x /= trees as f64);
        Walked { predictions, leaves: leaf_indices }
    }

    /// Predictions of all rows: `[class][row]`, the probability of each class in the order of the
    /// labels, or `[0][row]`, the mean. `columns` as [`Predictor::bind`] gives them.
    pub fn predict(&self, columns: &[&Column<'_>]) -> Vec<Vec<f64>> {
        self.walk(columns, Asked { predictions: true, leaves: false }).predictions.unwrap_or_default()
    }

    /// The index of the most probable class of each row, the lower one at a tie.
    pub fn class(&self, predictions: &[Vec<f64>]) -> Vec<u32> {
        let rows = predictions.first().map_or(0, Vec::len);
        (0..rows).map(|row| most_probable(predictions.len(), |k| predictions[k][row])).collect()
    }

    /// The leaf of every row in every tree, row after row: `out[row * trees + tree]`. Leaves are
    /// counted from left to right.
    pub fn leaves(&self, columns: &[&Column<'_>]) -> Vec<u32> {
        self.walk(columns, Asked { predictions: false, leaves: true }).leaves.unwrap_or_default()
    }

    /// Calls `visit(first row, tree, leaves of the rows)` for each tree of each block of rows.
    fn for_leaves(&self, columns: &[&Column<'_>], mut visit: impl FnMut(usize, usize, &[u32])) {
        let rows = columns.first().map_or(0, |c| c.len());
        let (mut block, mut leaves) = (Block::default(), vec![0; self.block]);
        for start in (0..rows).step_by(self.block) {
            let n = self.block.min(rows - start);
            self.read(columns, start, n, &mut block);
            for tree in 0..self.forest.trees.len() {
                if tree % TREES == 0 {
                    interrupt::poll();
                }
                self.leaves_of_block(tree, &block, &mut leaves[..n.next_multiple_of(SIDE)]);
                visit(start, tree, &leaves[..n]);
            }
        }
    }

    /// Returns how many rows a block has at most.
    pub(super) fn block_rows(&self) -> usize {
        self.block
    }

    /// Reads rows `start .. start + n` of the features that are asked about.
    pub(super) fn read(&self, columns: &[&Column<'_>], start: usize, n: usize, block: &mut Block) {
        let stride = self.block;
        if self.way == Way::Values {
            return self.read_keys(columns, start, n, &mut block.keys);
        }
        block.codes.resize(self.asked.len() * stride, 0);
        if self.readers.iter().any(|r| matches!(r, Reader::Values)) {
            block.values.resize(self.asked.len() * stride, 0.0);
        }
        for (place, f) in self.asked.iter().enumerate() {
            let (f, at) = (*f as usize, place * stride..place * stride + n);
            match &self.readers[f] {
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

    /// Reads values one row after the other, so that those of a row that walks lie together.
    fn read_keys(&self, columns: &[&Column<'_>], start: usize, n: usize, keys: &mut Vec<u64>) {
        let width = self.asked.len();
        // Rows behind the last one walk beside it.
        keys.resize(self.block * width, MISSING);
        let mut of_column = [0.0; TURNED];
        for first in (0..n).step_by(TURNED) {
            let of_column = &mut of_column[..TURNED.min(n - first)];
            for (place, f) in self.asked.iter().enumerate() {
                columns[*f as usize].read_f64(start + first, of_column);
                let places = keys[first * width + place..].iter_mut().step_by(width);
                places.zip(&*of_column).for_each(|(out, x)| *out = key(*x));
            }
        }
    }

    /// The leaf of each row of a block in a tree.
    fn leaves_of_block(&self, tree: usize, block: &Block, out: &mut [u32]) {
        let range = self.starts[tree].0..self.starts[tree + 1].0;
        match self.way {
            _ if range.is_empty() => out.fill(0),
            Way::Codes => side_by_side(&self.steps[range], out, |_, step, row| {
                let code = block.codes[(step.test >> 16) as usize + row];
                code.wrapping_sub((step.test >> 8) as u8) > step.test as u8
            }),
            Way::Values => self.value_steps.leaves(tree, &block.keys, self.asked.len(), out),
            Way::Mixed => {
                let tests = &self.tests[range.clone()];
                side_by_side(&self.steps[range], out, |index, step, row| {
                    let at = step.test as usize * self.block + row;
                    match tests[index] {
                        Test::Code { shift, above } => block.codes[at].wrapping_sub(shift) > above,
                        Test::Value { border, missing_right } => value_goes_right(block.values[at], border, missing_right),
                        Test::Set(set) => self.set(set).contains(block.codes[at]),
                    }
                })
            }
        }
    }

    /// Writes of each row of a block 1 where it goes right at a node of a tree, else 0.
    pub(super) fn goes_right(&self, tree: usize, node: usize, block: &Block, out: &mut [u8]) {
        let split = &self.forest.trees[tree].nodes[node].split;
        let Ok(place) = self.asked.binary_search(&split.feature) else { return };
        let at = place * self.block;
        match test(&self.forest, &self.readers, split) {
            Test::Code { shift, above } => {
                out.iter_mut().zip(&block.codes[at..]).for_each(|(out, code)| *out = (code.wrapping_sub(shift) > above) as u8);
            }
            Test::Value { border, missing_right } if self.way == Way::Values => {
                let test = KeyTest::new(border, !missing_right);
                let keys = block.keys[place..].iter().step_by(self.asked.len());
                out.iter_mut().zip(keys).for_each(|(out, key)| *out = test.goes_right(*key) as u8);
            }
            Test::Value { border, missing_right } => {
                let values = &block.values[at..];
                out.iter_mut().zip(values).for_each(|(out, x)| *out = value_goes_right(*x, border, missing_right) as u8);
            }
            Test::Set(set) => {
                let set = self.set(set);
                out.iter_mut().zip(&block.codes[at..]).for_each(|(out, code)| *out = set.contains(*code) as u8);
            }
        }
    }

    fn set(&self, set: u32) -> &CodeSet {
        &self.forest.sets[set as usize]
    }
}

/// Returns the question of a split, by how its feature is read.
fn test(forest: &Forest, readers: &[Reader], split: &Split) -> Test {
    match &readers[split.feature as usize] {
        Reader::Categories(_) => Test::Set(split.border),
        Reader::Values => {
            let border = forest.features[split.feature as usize].borders.get(split.border as usize);
            Test::Value { border: border.copied().unwrap_or(f64::INFINITY), missing_right: !split.missing_left }
        }
        // Right of border b are the codes above b + 1.
        _ => Test::Code { shift: !split.missing_left as u8, above: split.border as u8 + 1 - !split.missing_left as u8 },
    }
}

/// Returns the children of a node of a tree by their numbers, leaves behind all nodes.
fn children(tree: &Tree, node: &Node) -> [u32; 2] {
    [node.left, node.right].map(|child| match child {
        Child::Node(i) => i,
        Child::Leaf(i) => tree.nodes.len() as u32 + i,
    })
}

#[inline(always)]
fn value_goes_right(x: f64, border: f64, missing_right: bool) -> bool {
    x > border || (x.is_nan() && missing_right)
}

/// Walks rows from the root to their leaves, some at a time; `goes_right(index of the step, step, row)`.
#[inline(always)]
fn side_by_side(steps: &[Step], out: &mut [u32], goes_right: impl Fn(usize, &Step, usize) -> bool) {
    let (groups, _) = out.as_chunks_mut::<SIDE>();
    for (g, out) in groups.iter_mut().enumerate() {
        let mut state = [0u32; SIDE];
        while state.iter().any(|s| (*s as usize) < steps.len()) {
            for (i, state) in state.iter_mut().enumerate() {
                let index = (*state as usize).min(steps.len() - 1);
                let step = &steps[index];
                let next = step.children[goes_right(index, step, g * SIDE + i) as usize];
                *state = if (*state as usize) < steps.len() { next } else { *state };
            }
        }
        *out = state.map(|s| s - steps.len() as u32);
    }
}

/// The class with the largest share, the lower one at a tie.
pub(super) fn most_probable(classes: usize, share: impl Fn(usize) -> f64) -> u32 {
    (1..classes).fold(0, |best, k| if share(k) > share(best) { k } else { best }) as u32
}
