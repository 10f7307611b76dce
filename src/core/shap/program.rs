//! What another device does to explain rows, tree after tree: look them up in tables, go through leaves, or walk over all edges
//! ([`super::walk`]).

use super::branching::{Group, GroupScratch};
use super::contributions::{Rules, Terms};
use super::explainer::{Explainer, Prepared};
use super::leaves::LeafList;
use super::paths::ExplainedTree;
use super::symmetric::SymmetricTables;
use crate::error::Result;
use crate::memory;
use crate::parallel::thread_pool::ThreadPool;
use std::ops::Range;

/// A branching tree's tables are no more numbers than this part of those of all trees.
const TREE_PART: usize = 32;

/// How a test of a row changes its pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bit {
    /// The bit is set where the row goes right.
    Set,
    /// The bit, which is set at first, is cleared where the row does not go there: to the right or to the left.
    Lead { right: bool },
}

/// One step to a row's pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternStep {
    /// The test, counted in its tree.
    pub test: u32,
    /// The number of the pattern's bit.
    pub bit: u8,
    pub change: Bit,
}

/// A table and the way to a row's place in it.
#[derive(Clone, Debug, PartialEq)]
pub struct LookUp {
    pub tree: usize,
    /// The output that its numbers are added to.
    pub output: usize,
    pub steps: Vec<PatternStep>,
    /// The pattern at first.
    pub first_pattern: u32,
    /// The bits of a pattern.
    pub bits: u32,
    /// The place of each of its terms among those of all players.
    pub places: Vec<usize>,
    /// Where its numbers begin in [`Program::values`], `[pattern][term]`, so that a row reads neighbours; where the terms are odd in
    /// number, a 0 stands behind them.
    pub first_value: usize,
}

impl LookUp {
    /// Returns how many numbers a pattern has, an even number.
    pub fn pitch(&self) -> usize {
        self.places.len().next_multiple_of(2)
    }
}

/// How the rows of one tree are explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// By these of the program's look-ups.
    LookUps(Range<usize>),
    /// By these groups of the program's leaves.
    Leaves(Range<usize>),
    /// By the tree's [`super::walk::Walk`].
    Walk,
}

/// What is done for one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    pub tree: usize,
    pub way: Way,
}

/// What a device does to explain rows: stages in the order in which a row's numbers are added. Trees of one leaf have none.
pub struct Program {
    pub stages: Vec<Stage>,
    pub lookups: Vec<LookUp>,
    pub values: Vec<f64>,
    pub leaves: LeafList,
    pub outputs: usize,
    /// The number of terms of all players.
    pub terms: usize,
}

/// The tables of one tree or of a part of it, not yet computed.
enum Part<'a> {
    Symmetric(&'a ExplainedTree, &'a SymmetricTables),
    Group(&'a ExplainedTree, &'a Group),
}

/// The way to a row's pattern: the steps, the pattern at first, and its bits.
pub type ToPattern = (Vec<PatternStep>, u32, u32);

impl Part<'_> {
    fn tree(&self) -> &ExplainedTree {
        match self {
            Part::Symmetric(tree, _) | Part::Group(tree, _) => tree,
        }
    }

    fn players(&self) -> &[u32] {
        match self {
            Part::Symmetric(_, tables) => &tables.players,
            Part::Group(_, group) => &group.players,
        }
    }

    fn pattern(&self) -> ToPattern {
        match self {
            Part::Symmetric(tree, _) => {
                let levels = tree.tests as u32;
                let step = |test: u32| PatternStep { test, bit: (levels - 1 - test) as u8, change: Bit::Set };
                ((0..levels).map(step).collect(), 0, levels)
            }
            Part::Group(_, group) => group.pattern_steps(),
        }
    }

    /// Computes `[output][pattern][term]`, the terms' number made even.
    fn table(&self, rules: &Rules, terms: Terms, scratch: &mut GroupScratch) -> (ToPattern, Vec<f64>) {
        let mut table = vec![];
        match self {
            Part::Symmetric(_, tables) => tables.table(rules, terms, None, &mut table),
            Part::Group(tree, group) => group.table(tree, rules, terms, scratch, &mut table),
        }
        let pattern = self.pattern();
        let turned = by_pattern(&table, self.tree().outputs, pattern.2);
        (pattern, turned)
    }
}

/// Turns `[output][term][pattern]` into `[output][pattern][term]`, the terms' number made even.
fn by_pattern(table: &[f64], outputs: usize, bits: u32) -> Vec<f64> {
    let terms = (table.len() / outputs) >> bits;
    let pitch = terms.next_multiple_of(2);
    let mut turned = vec![0.0; (outputs * pitch) << bits];
    for (output, of) in table.chunks_exact((terms << bits).max(1)).enumerate() {
        for (term, of) in of.chunks_exact(1 << bits).enumerate() {
            of.iter().enumerate().for_each(|(pattern, x)| turned[((output << bits) + pattern) * pitch + term] = *x);
        }
    }
    turned
}

impl Program {
    /// Adds the look-ups of a tree's part, an output after the other.
    fn add_table(&mut self, tree: (usize, &ExplainedTree), places: &[usize], (steps, first_pattern, bits): ToPattern, table: &[f64]) {
        let (index, tree) = tree;
        for output in 0..tree.outputs {
            self.lookups.push(LookUp {
                tree: index,
                output: tree.first_output + output,
                steps: steps.clone(),
                first_pattern,
                bits,
                places: places.to_vec(),
                first_value: self.values.len() + output * (table.len() / tree.outputs),
            });
        }
        self.values.extend_from_slice(table);
    }
}

impl Explainer {
    /// Lays out what a device does, and computes the tables on the threads of a pool: of symmetric trees of a few levels, and of as many
    /// of the other trees as have them together with no more than `most` numbers. A row gets the bits of [`Explainer::explain`] where its
    /// numbers are added in the order of the stages, and credited as [`Explainer::credits`] says.
    ///
    /// # Errors
    /// [`crate::Error::Memory`] where there is none for it.
    pub fn program(&self, terms: Terms, most: usize, pool: &ThreadPool) -> Result<Program> {
        let (numbers, is_tabled) = self.choose_tables(terms, most);
        let is_listed =
            |index: usize, prepared: &Prepared| !is_tabled[index] && matches!(prepared, Prepared::Branching(_) | Prepared::Leaves(_));
        let listed = |(index, (tree, prepared)): (usize, &(ExplainedTree, Prepared))| {
            if is_listed(index, prepared) { LeafList::bytes(tree) } else { 0 }
        };
        let listed = self.trees().iter().enumerate().map(listed).fold(0, u64::saturating_add);
        let bytes = memory::sum(&[24 * numbers as u64, listed]);
        memory::check("the tables of the model's trees", bytes, "explain on the CPU, or a model of fewer or smaller trees")?;
        let mut program = Program {
            stages: vec![],
            lookups: vec![],
            values: Vec::with_capacity(numbers),
            leaves: LeafList::default(),
            outputs: self.means().len(),
            terms: terms.count(self.players().len()),
        };
        let parts = self.parts(&is_tabled);
        let made = pool.deal(parts.len(), GroupScratch::default, |scratch, i| parts[i].1.table(self.rules(), terms, scratch));
        let mut tables = parts.iter().zip(made).peekable();
        for (index, (tree, prepared)) in self.trees().iter().enumerate() {
            let way = match prepared {
                Prepared::Constant => continue,
                Prepared::Walk(_) => Way::Walk,
                _ if is_tabled[index] => {
                    let first = program.lookups.len();
                    while let Some(((_, part), (pattern, table))) = tables.next_if(|((of, _), _)| *of == index) {
                        let places = terms.places(self.players().len(), part.players());
                        program.add_table((index, tree), &places, pattern, &table);
                    }
                    Way::LookUps(first..program.lookups.len())
                }
                Prepared::Branching(groups) => Way::Leaves(program.leaves.add(|list| groups.iter().for_each(|group| group.list(list)))),
                Prepared::Leaves(leaves) => Way::Leaves(program.leaves.add(|list| leaves.list(list))),
                Prepared::Symmetric(_) => unreachable!("every symmetric tree of a few levels has a table"),
            };
            program.stages.push(Stage { tree: index, way });
        }
        Ok(program)
    }

    /// Chooses the trees that have tables, and counts the numbers of these.
    fn choose_tables(&self, terms: Terms, most: usize) -> (usize, Vec<bool>) {
        let mut all = 0usize;
        let is_tabled = |(tree, prepared): &(ExplainedTree, Prepared)| {
            let (numbers, is_small) = match prepared {
                Prepared::Symmetric(tables) => (tables.size(terms), true),
                Prepared::Branching(groups) => {
                    let numbers = groups.iter().map(|group| group.size(tree.outputs, terms)).fold(0, usize::saturating_add);
                    (numbers, numbers <= most / TREE_PART && all + numbers <= most)
                }
                Prepared::Constant | Prepared::Walk(_) | Prepared::Leaves(_) => (0, false),
            };
            all += if is_small { numbers } else { 0 };
            is_small
        };
        let is_tabled = self.trees().iter().map(is_tabled).collect();
        (all, is_tabled)
    }

    fn parts(&self, is_tabled: &[bool]) -> Vec<(usize, Part<'_>)> {
        let mut parts = vec![];
        for (index, (tree, prepared)) in self.trees().iter().enumerate().filter(|(index, _)| is_tabled[*index]) {
            match prepared {
                Prepared::Symmetric(tables) => parts.push((index, Part::Symmetric(tree, tables))),
                Prepared::Branching(groups) => parts.extend(groups.iter().map(|group| (index, Part::Group(tree, group)))),
                Prepared::Constant | Prepared::Walk(_) | Prepared::Leaves(_) => {}
            }
        }
        parts
    }
}
