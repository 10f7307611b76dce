//! All tables of a model's trees, laid out for a device that looks rows up in them.

use super::branching::{Group, GroupScratch};
use super::contributions::{Rules, Terms};
use super::explainer::{Explainer, Prepared};
use super::paths::ExplainedTree;
use super::symmetric::SymmetricTables;
use crate::error::{Error, Result};
use crate::memory;
use crate::parallel::thread_pool::ThreadPool;

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
    /// Where its numbers begin in [`Tables::values`], `[pattern][term]`, so that a row reads neighbours; where the terms are odd in
    /// number, a 0 stands behind them.
    pub first_value: usize,
}

impl LookUp {
    /// Returns how many numbers a pattern has, an even number.
    pub fn pitch(&self) -> usize {
        self.places.len().next_multiple_of(2)
    }
}

/// All tables of a model: look-ups in the order in which a row's numbers are added.
pub struct Tables {
    pub lookups: Vec<LookUp>,
    pub values: Vec<f64>,
    pub outputs: usize,
    /// The number of terms of all players.
    pub terms: usize,
}

/// The tables of one tree, not yet computed.
enum Part<'a> {
    Symmetric(&'a ExplainedTree, &'a SymmetricTables),
    Group(&'a ExplainedTree, &'a Group),
}

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

    fn size(&self, terms: Terms) -> usize {
        match self {
            Part::Symmetric(_, tables) => tables.size(terms),
            Part::Group(tree, group) => group.size(tree.outputs, terms),
        }
    }

    /// The steps to a pattern, the pattern at first, and its bits.
    fn pattern(&self) -> (Vec<PatternStep>, u32, u32) {
        match self {
            Part::Symmetric(tree, _) => {
                let levels = tree.tests as u32;
                let step = |test: u32| PatternStep { test, bit: (levels - 1 - test) as u8, change: Bit::Set };
                ((0..levels).map(step).collect(), 0, levels)
            }
            Part::Group(_, group) => group.pattern_steps(),
        }
    }

    /// Computes `[output][term][pattern]`.
    fn table(&self, rules: &Rules, terms: Terms, scratch: &mut GroupScratch, out: &mut Vec<f64>) {
        match self {
            Part::Symmetric(_, tables) => tables.table(rules, terms, None, out),
            Part::Group(tree, group) => group.table(tree, rules, terms, scratch, out),
        }
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

impl Explainer {
    /// Computes the tables of all trees on the threads of a pool. A row gets the bits of [`Explainer::explain`] from them where its
    /// numbers are added in the order of the look-ups and credited by [`Explainer::credit`].
    ///
    /// # Errors
    /// [`Error::Data`] for a tree that is walked, since its paths meet too many players for tables; [`Error::Memory`] where there is
    /// none for the tables.
    pub fn tables(&self, terms: Terms, pool: &ThreadPool) -> Result<Tables> {
        let parts = self.parts()?;
        let sizes: Vec<usize> = parts.iter().map(|(_, part)| part.size(terms)).collect();
        let bytes = sizes.iter().fold(0u64, |sum, n| sum.saturating_add(24 * *n as u64));
        memory::check("the tables of the model's trees", bytes, "explain on the CPU, or a model of fewer or smaller trees")?;
        let made = pool.deal(parts.len(), GroupScratch::default, |scratch, i| {
            let (tree, part) = &parts[i];
            let mut table = vec![];
            part.table(self.rules(), terms, scratch, &mut table);
            let outputs = self.trees()[*tree].0.outputs;
            by_pattern(&table, outputs, part.pattern().2)
        });
        let mut tables = Tables {
            lookups: vec![],
            values: Vec::with_capacity(sizes.iter().sum()),
            outputs: self.means().len(),
            terms: terms.count(self.players().len()),
        };
        for ((index, part), table) in parts.iter().zip(made) {
            let (tree, places) = (part.tree(), terms.places(self.players().len(), part.players()));
            let (steps, first_pattern, bits) = part.pattern();
            for output in 0..tree.outputs {
                tables.lookups.push(LookUp {
                    tree: *index,
                    output: tree.first_output + output,
                    steps: steps.clone(),
                    first_pattern,
                    bits,
                    places: places.clone(),
                    first_value: tables.values.len() + output * (table.len() / tree.outputs),
                });
            }
            tables.values.extend_from_slice(&table);
        }
        Ok(tables)
    }

    fn parts(&self) -> Result<Vec<(usize, Part<'_>)>> {
        let mut parts = vec![];
        for (index, (tree, prepared)) in self.trees().iter().enumerate() {
            match prepared {
                Prepared::Constant => {}
                Prepared::Symmetric(tables) => parts.push((index, Part::Symmetric(tree, tables))),
                Prepared::Branching(groups) => parts.extend(groups.iter().map(|group| (index, Part::Group(tree, group)))),
                Prepared::Walk(_) | Prepared::Leaves(_) => {
                    return Err(Error::Data(format!(
                        "tree {index} is too deep to be explained on a GPU: a path meets {} columns; explain it on the CPU \
                         (device=\"cpu\")",
                        tree.extent().players
                    )));
                }
            }
        }
        Ok(parts)
    }
}

impl Tables {
    /// Looks rows up, one after the other: what a device does for all of them at once. `goes_right(tree, test, row)`; gives
    /// `[output][term][row]`.
    pub fn look_up(&self, rows: usize, goes_right: impl Fn(usize, u32, usize) -> bool) -> Vec<f64> {
        let mut sums = vec![0.0; self.outputs * self.terms * rows];
        for row in 0..rows {
            for lookup in &self.lookups {
                let pattern = lookup.steps.iter().fold(lookup.first_pattern, |pattern, step| {
                    let right = goes_right(lookup.tree, step.test, row);
                    match step.change {
                        Bit::Set => pattern | (right as u32) << step.bit,
                        Bit::Lead { right: wanted } => pattern & !(((right ^ wanted) as u32) << step.bit),
                    }
                });
                let found = &self.values[lookup.first_value + pattern as usize * lookup.pitch()..];
                for (place, found) in lookup.places.iter().zip(found) {
                    sums[(lookup.output * self.terms + *place) * rows + row] += found;
                }
            }
        }
        sums
    }
}
