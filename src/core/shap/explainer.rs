//! All trees of a model, made ready to explain rows.

use super::branching::{self, Group, GroupScratch, groups};
use super::contributions::{Chances, Rules, Terms};
use super::credits::{Credit, Credits};
use super::leaves::Leaves;
use super::paths::{ExplainedTree, Extent, OnPath, shares};
use super::symmetric::{self, SymmetricTables};
use super::walk::{Walk, WalkScratch};
use crate::error::{Error, Result};
use crate::memory;
use crate::pages;
use crate::parallel::interrupt;
use crate::tree::model::Child;
use multiversion::multiversion;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows that are explained at a time: their sums fit the second cache or the third.
const VALUE_ROWS: usize = 2048;
const PAIR_ROWS: usize = 256;

/// Fewer where answers or sums would take more bytes than these, but not fewer than so many.
const MOST_ANSWER_BYTES: usize = 1 << 21;
const MOST_SUM_BYTES: usize = 1 << 25;
const LEAST_ROWS: usize = 16;

/// Tables are kept between blocks of rows and calls where all of a model's are no more numbers than this (256 MiB), as long as those
/// of all models are no more than twice as many.
const MOST_KEPT: usize = 1 << 25;
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Of groups of neighbouring leaves only tables by patterns of so many bits are kept.
const KEPT_BITS: usize = 9;

/// Fewer rows than this share of a table's patterns do not have it made.
const TABLE_SHARE: usize = 4;

/// The most players on a path of a tree that is held against a background, and the most nodes on all of its paths.
const MOST_ANSWERED: usize = 128;
const MOST_STEPS: usize = 1 << 24;

/// What a block of rows answers to the tests of trees.
pub trait Answers {
    /// Writes of each row of the block 1 where it goes right at a test of a tree, else 0.
    fn goes_right(&self, tree: usize, test: usize, out: &mut [u8]);
}

/// What stands in for the answers of players that are not in a set.
pub enum Game<'a> {
    /// The branches that the training rows took.
    Training,
    /// The answers of so many rows of a table.
    Background(usize, &'a dyn Answers),
}

pub(super) enum Prepared {
    /// One leaf.
    Constant,
    Symmetric(SymmetricTables),
    Branching(Vec<Group>),
    Walk(Walk),
    Leaves(Leaves),
}

/// All trees of a model, made ready to explain rows.
///
/// One thread does the work; callers split the rows. What a row gets depends on nothing but the model and the row.
pub struct Explainer {
    trees: Vec<(ExplainedTree, Prepared)>,
    rules: Rules,
    credits: Credits,
    /// The sum of the trees' means.
    means: Vec<f64>,
    kept: [Kept; 2],
}

/// The tables of trees that are kept, each made when it is first asked for.
#[derive(Default)]
struct Kept {
    trees: Vec<OnceLock<Vec<f64>>>,
    /// What they have of [`KEPT`].
    numbers: usize,
}

impl Kept {
    /// Keeps so many numbers of so many trees, if there is room for them.
    fn new(trees: usize, numbers: usize) -> Self {
        let more = |kept: usize| Some(kept + numbers).filter(|kept| *kept <= 2 * MOST_KEPT);
        if numbers > MOST_KEPT || KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return Kept::default();
        }
        Kept { trees: std::iter::repeat_with(OnceLock::new).take(trees).collect(), numbers }
    }

    fn of_tree(&self, index: usize) -> Option<&OnceLock<Vec<f64>>> {
        self.trees.get(index)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.numbers, Ordering::Relaxed);
    }
}

/// What rows' scores are made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// `[output][column][row]`: what each column adds to the mean.
    pub values: Vec<Vec<Vec<f64>>>,
    /// `[output][term][row]`, where they were asked for: of each column what is its alone, and behind them of each [`pair`](super::contributions::pair) of columns
    /// half of what they share. A column's own and all of its pairs sum to its value.
    pub interactions: Vec<Vec<Vec<f64>>>,
}

impl Explanation {
    /// Makes one of no rows, with room for some.
    pub fn with_capacity(outputs: usize, columns: usize, rows: usize, terms: Terms) -> Self {
        let of = |terms: Terms| (0..outputs).map(|_| (0..terms.count(columns)).map(|_| pages::with_capacity(rows)).collect()).collect();
        let interactions = if terms == Terms::Interactions { of(terms) } else { vec![] };
        Explanation { values: of(Terms::Values), interactions }
    }

    /// Makes one of so many rows, all 0.
    pub fn zeros(outputs: usize, columns: usize, rows: usize, terms: Terms) -> Self {
        let of = |terms: Terms| (0..outputs).map(|_| (0..terms.count(columns)).map(|_| vec![0.0; rows]).collect()).collect();
        let interactions = if terms == Terms::Interactions { of(terms) } else { vec![] };
        Explanation { values: of(Terms::Values), interactions }
    }

    /// Appends the rows of another.
    pub fn append(&mut self, other: Explanation) {
        self.values.iter_mut().flatten().zip(other.values.iter().flatten()).for_each(|(own, other)| own.extend_from_slice(other));
        let own = self.interactions.iter_mut().flatten();
        own.zip(other.interactions.iter().flatten()).for_each(|(own, other)| own.extend_from_slice(other));
    }

    /// Multiplies all numbers.
    pub fn scale(&mut self, by: f64) {
        self.values.iter_mut().chain(&mut self.interactions).flatten().for_each(|v| v.iter_mut().for_each(|x| *x *= by));
    }
}

/// What work on a block needs.
#[derive(Default)]
struct Scratch {
    answers: Vec<u8>,
    patterns: Vec<u16>,
    table: Vec<f64>,
    group: GroupScratch,
    seen: Vec<u16>,
    slots: Vec<u16>,
    walk: WalkScratch,
    row: Vec<f64>,
}

impl Explainer {
    /// Prepares trees whose player `p` is `players[p]`, a set of some of so many columns, for so many outputs.
    ///
    /// # Errors
    /// [`Error::Data`] for a background without rows, and where a path of a tree meets too many players to be held against one;
    /// [`Error::Memory`] where there is none for the paths.
    pub fn new(trees: Vec<ExplainedTree>, players: Vec<Vec<u32>>, columns: usize, outputs: usize, game: &Game<'_>) -> Result<Self> {
        if matches!(game, Game::Background(0, _)) {
            return Err(Error::Data("the background has no rows".into()));
        }
        let bytes = trees.iter().map(prepared_bytes).fold(0, u64::saturating_add);
        memory::check("the paths of the model's trees", bytes, "explain a model of fewer or smaller trees")?;
        let mut explainer = Explainer {
            trees: Vec::with_capacity(trees.len()),
            rules: Rules::new(branching::MOST_PLAYERS.max(symmetric::MOST_LEVELS)),
            credits: Credits::new(players, columns),
            means: vec![0.0; outputs],
            kept: Default::default(),
        };
        for (index, tree) in trees.into_iter().enumerate() {
            let prepared = prepare(index, &tree, game)?;
            explainer.add_means(&tree, &leaf_shares(index, &tree, game));
            explainer.trees.push((tree, prepared));
        }
        explainer.kept = [Terms::Values, Terms::Interactions].map(|terms| {
            let size = |(tree, prepared): &(ExplainedTree, Prepared)| table_size(tree, prepared, terms);
            Kept::new(explainer.trees.len(), explainer.trees.iter().map(size).fold(0, usize::saturating_add))
        });
        Ok(explainer)
    }

    fn add_means(&mut self, tree: &ExplainedTree, shares: &[f64]) {
        let mut means = vec![0.0; tree.outputs];
        for (leaf, share) in shares.iter().enumerate() {
            means.iter_mut().zip(tree.leaf_values(leaf as u32)).for_each(|(mean, value)| *mean += share * value);
        }
        self.means[tree.first_output..].iter_mut().zip(means).for_each(|(sum, mean)| *sum += mean);
    }

    /// Returns the sum of the trees' means: what a row gets of which nothing is known.
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    pub(super) fn trees(&self) -> &[(ExplainedTree, Prepared)] {
        &self.trees
    }

    /// Returns a tree.
    pub fn tree(&self, index: usize) -> &ExplainedTree {
        &self.trees[index].0
    }

    /// Returns the walk of a tree that is walked.
    pub fn walk(&self, tree: usize) -> Option<&Walk> {
        match &self.trees[tree].1 {
            Prepared::Walk(walk) => Some(walk),
            _ => None,
        }
    }

    /// Returns the rules of quadrature for the leaves of trees that are not walked.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns what each column is credited with (and each [`super::contributions::pair`] of columns behind them), in the order in which
    /// it is added: equal parts of what its players get. For interactions a player's term is what it has alone.
    pub fn credits(&self, terms: Terms) -> &[Vec<Credit>] {
        self.credits.of(terms)
    }

    /// Credits columns with what players get, `sums[output][term][row]`.
    pub(super) fn credit(&self, sums: &[f64], rows: usize, terms: Terms) -> Explanation {
        self.credits.credit(sums, rows, self.means.len(), terms)
    }

    /// Returns the columns of each player.
    pub fn players(&self) -> &[Vec<u32>] {
        &self.credits.players
    }

    /// Returns how many rows [`Explainer::explain`] is given at a time.
    pub fn rows_at_a_time(&self, terms: Terms) -> usize {
        let tests = self.trees.iter().map(|(tree, _)| tree.tests).max().unwrap_or(0);
        let (most, numbers) = match terms {
            Terms::Values => (VALUE_ROWS, self.credits.columns),
            Terms::Interactions => (PAIR_ROWS, self.credits.columns * self.credits.columns),
        };
        let least = |bytes: usize, each: usize| (bytes / each.max(1)).max(LEAST_ROWS);
        most.min(least(MOST_ANSWER_BYTES, tests)).min(least(MOST_SUM_BYTES, 8 * numbers.saturating_mul(self.means.len())))
    }

    /// Explains a block of rows by their answers.
    pub fn explain(&self, answers: &dyn Answers, rows: usize, terms: Terms) -> Explanation {
        let count = terms.count(self.players().len());
        let mut sums = vec![0.0; self.means.len() * count * rows];
        let mut scratch = Scratch::default();
        for (index, (tree, prepared)) in self.trees.iter().enumerate() {
            interrupt::poll();
            if !matches!(prepared, Prepared::Constant) {
                scratch.answers.resize(tree.tests * rows, 0);
                for (test, out) in scratch.answers.chunks_exact_mut(rows.max(1)).enumerate() {
                    answers.goes_right(index, test, out);
                }
                self.add_tree(index, rows, terms, &mut scratch, &mut sums);
            }
        }
        self.credit(&sums, rows, terms)
    }

    fn add_tree(&self, index: usize, rows: usize, terms: Terms, scratch: &mut Scratch, sums: &mut [f64]) {
        let (tree, prepared) = &self.trees[index];
        let into = Into { tree, rows, terms, all: self.players().len() };
        match prepared {
            Prepared::Constant => {}
            Prepared::Symmetric(tables) => {
                leaves_of(&scratch.answers, tree.tests, &mut scratch.patterns, rows);
                let (kept, size) = (self.kept[terms as usize].of_tree(index), tables.leaves());
                let table = self.symmetric_table(tables, kept, terms, &scratch.patterns, &mut scratch.table);
                into.add(&tables.players, table, size, &scratch.patterns, sums);
            }
            Prepared::Branching(groups) => {
                let kept = self.kept[terms as usize].of_tree(index);
                self.add_groups(&into, groups, kept, scratch, sums);
            }
            Prepared::Walk(walk) => {
                let Scratch { answers, walk: scratch, row, .. } = scratch;
                into.add_rows(&walk.players, row, sums, |at, out| {
                    walk.add(tree, terms, |test| answers[test as usize * rows + at] == 1, scratch, out);
                });
            }
            Prepared::Leaves(leaves) => {
                let Scratch { answers, row, .. } = scratch;
                into.add_rows(&leaves.players, row, sums, |at, out| {
                    leaves.add(tree, &self.rules, terms, |test| answers[test as usize * rows + at] == 1, out);
                });
            }
        }
    }

    /// The table of a symmetric tree: the one that is kept, or one made for these rows.
    fn symmetric_table<'t>(
        &self,
        tables: &SymmetricTables,
        kept: Option<&'t OnceLock<Vec<f64>>>,
        terms: Terms,
        leaves: &[u16],
        out: &'t mut Vec<f64>,
    ) -> &'t [f64] {
        let many = leaves.len() * TABLE_SHARE >= tables.leaves();
        if let Some(kept) = kept.filter(|kept| many || kept.get().is_some()) {
            return kept.get_or_init(|| {
                let mut table = vec![];
                tables.table(&self.rules, terms, None, &mut table);
                table
            });
        }
        let mut wanted = vec![false; tables.leaves()];
        leaves.iter().for_each(|leaf| wanted[*leaf as usize] = true);
        tables.table(&self.rules, terms, Some(&wanted).filter(|_| !many).map(Vec::as_slice), out);
        out
    }

    fn add_groups(&self, into: &Into<'_>, groups: &[Group], kept: Option<&OnceLock<Vec<f64>>>, scratch: &mut Scratch, sums: &mut [f64]) {
        let (tree, terms, rows) = (into.tree, into.terms, into.rows);
        let many = rows * TABLE_SHARE >= 1 << KEPT_BITS;
        let kept = kept.filter(|kept| many || kept.get().is_some()).map(|kept| {
            kept.get_or_init(|| {
                let (mut all, mut table, mut group_scratch) = (vec![], vec![], GroupScratch::default());
                for group in groups.iter().filter(|group| group.bits() <= KEPT_BITS) {
                    group.table(tree, &self.rules, terms, &mut group_scratch, &mut table);
                    all.extend_from_slice(&table);
                }
                all
            })
        });
        scratch.patterns.resize(rows, 0);
        let mut first = 0;
        for group in groups {
            let answers = |test: u32| &scratch.answers[test as usize * rows..][..rows];
            group.patterns(answers, &mut scratch.patterns);
            let size = 1 << group.bits();
            if let Some(kept) = kept.filter(|_| group.bits() <= KEPT_BITS) {
                let len = group.size(tree.outputs, terms);
                into.add(&group.players, &kept[first..first + len], size, &scratch.patterns, sums);
                first += len;
            } else if rows * 2 >= size {
                group.table(tree, &self.rules, terms, &mut scratch.group, &mut scratch.table);
                into.add(&group.players, &scratch.table, size, &scratch.patterns, sums);
            } else {
                number_patterns(size, &mut scratch.patterns, &mut scratch.slots, &mut scratch.seen);
                let size = scratch.seen.len().next_power_of_two();
                group.some(tree, &self.rules, terms, &scratch.seen, size, &mut scratch.table);
                into.add(&group.players, &scratch.table, size, &scratch.patterns, sums);
            }
        }
    }
}

/// About how many bytes a tree takes when it is ready: a leaf has a list of its players, and a player one of its nodes.
fn prepared_bytes(tree: &ExplainedTree) -> u64 {
    let Extent { players, depth, steps } = tree.extent();
    let paths = if players <= branching::MOST_PLAYERS && depth <= branching::MOST_DEPTH { steps } else { 0 };
    memory::sum(&[100 * tree.nodes.len() as u64, 150 * tree.leaves() as u64, 40 * paths as u64])
}

/// Makes a tree ready.
fn prepare(index: usize, tree: &ExplainedTree, game: &Game<'_>) -> Result<Prepared> {
    if tree.nodes.is_empty() {
        return Ok(Prepared::Constant);
    }
    let chances = |path: &[OnPath]| chances_of(index, tree, game, path);
    if tree.is_symmetric && tree.tests <= symmetric::MOST_LEVELS {
        let (mut first, mut all) = (None, vec![]);
        tree.for_paths(|_, path| {
            first.get_or_insert_with(|| path.to_vec());
            all.push(chances(path));
        });
        return Ok(Prepared::Symmetric(SymmetricTables::new(tree, &first.unwrap_or_default(), all)));
    }
    let Extent { players, depth, steps } = tree.extent();
    match game {
        _ if players <= branching::MOST_PLAYERS && depth <= branching::MOST_DEPTH => Ok(Prepared::Branching(groups(tree, chances))),
        Game::Training => Ok(Prepared::Walk(Walk::new(tree))),
        Game::Background(..) if players <= MOST_ANSWERED && steps <= MOST_STEPS => Ok(Prepared::Leaves(Leaves::new(tree, chances))),
        Game::Background(..) => Err(Error::Data(format!(
            "tree {index} is too deep to be held against a background: a path meets {players} columns, and its paths have {steps} nodes; \
             at most {MOST_ANSWERED} and {MOST_STEPS} can be"
        ))),
    }
}

/// The share of all rows that each leaf has.
fn leaf_shares(index: usize, tree: &ExplainedTree, game: &Game<'_>) -> Vec<f64> {
    let Game::Background(rows, answers) = game else { return tree.leaf_shares() };
    let mut answered = vec![0; tree.tests * rows];
    answered.chunks_exact_mut(*rows).enumerate().for_each(|(test, out)| answers.goes_right(index, test, out));
    let mut counts = vec![0u32; tree.leaves()];
    for row in 0..*rows {
        let mut at = tree.root();
        while let Child::Node(i) = at {
            let node = &tree.nodes[i as usize];
            at = if answered[node.test as usize * rows + row] == 1 { node.right } else { node.left };
        }
        if let Child::Leaf(leaf) = at {
            counts[leaf as usize] += 1;
        }
    }
    counts.into_iter().map(|n| n as f64 / *rows as f64).collect()
}

/// The chances of a leaf.
fn chances_of(index: usize, tree: &ExplainedTree, game: &Game<'_>, path: &[OnPath]) -> Chances {
    let Game::Background(rows, answers) = game else { return Chances::Shares(shares(path)) };
    let mut outcomes = vec![0u128; *rows];
    let (mut right, mut leads) = (vec![0; *rows], vec![true; *rows]);
    for (j, player) in path.iter().enumerate() {
        leads.fill(true);
        for (node, to_right) in &player.steps {
            answers.goes_right(index, tree.nodes[*node as usize].test as usize, &mut right);
            leads.iter_mut().zip(&right).for_each(|(leads, right)| *leads &= (*right == 1) == *to_right);
        }
        outcomes.iter_mut().zip(&leads).for_each(|(outcome, leads)| *outcome |= (*leads as u128) << j);
    }
    outcomes.sort_unstable();
    let share = |same: &[u128]| (same[0], same.len() as f64 / *rows as f64);
    Chances::Background(path.len(), outcomes.chunk_by(|a, b| a == b).map(share).collect())
}

/// The numbers in all tables of a tree.
fn table_size(tree: &ExplainedTree, prepared: &Prepared, terms: Terms) -> usize {
    match prepared {
        Prepared::Symmetric(tables) => tables.size(terms),
        Prepared::Branching(groups) => {
            let kept = groups.iter().filter(|group| group.bits() <= KEPT_BITS);
            kept.map(|group| group.size(tree.outputs, terms)).fold(0, usize::saturating_add)
        }
        Prepared::Constant | Prepared::Walk(_) | Prepared::Leaves(_) => 0,
    }
}

/// The leaf of each row in a symmetric tree.
fn leaves_of(answers: &[u8], levels: usize, out: &mut Vec<u16>, rows: usize) {
    out.clear();
    out.resize(rows, 0);
    for answers in answers.chunks_exact(rows.max(1)).take(levels) {
        out.iter_mut().zip(answers).for_each(|(leaf, right)| *leaf = *leaf << 1 | *right as u16);
    }
}

/// Replaces patterns by their places in the list of those that occur.
fn number_patterns(patterns: usize, of_rows: &mut [u16], slots: &mut Vec<u16>, seen: &mut Vec<u16>) {
    slots.clear();
    slots.resize(patterns, u16::MAX);
    seen.clear();
    for pattern in of_rows {
        let slot = &mut slots[*pattern as usize];
        if *slot == u16::MAX {
            *slot = seen.len() as u16;
            seen.push(*pattern);
        }
        *pattern = *slot;
    }
}

/// Where the terms of a tree's players go among those of all: `[output][term][row]`.
struct Into<'a> {
    tree: &'a ExplainedTree,
    rows: usize,
    terms: Terms,
    all: usize,
}

impl Into<'_> {
    fn places(&self, players: &[u32]) -> Vec<usize> {
        self.terms.places(self.all, players)
    }

    fn sums<'s>(&self, output: usize, place: usize, sums: &'s mut [f64]) -> &'s mut [f64] {
        let count = self.terms.count(self.all);
        &mut sums[((self.tree.first_output + output) * count + place) * self.rows..][..self.rows]
    }

    /// Adds what each row finds in a table, `[output][term][pattern]`.
    fn add(&self, players: &[u32], table: &[f64], size: usize, patterns: &[u16], sums: &mut [f64]) {
        let places = self.places(players);
        for output in 0..self.tree.outputs {
            for (term, place) in places.iter().enumerate() {
                let table = &table[(output * places.len() + term) * size..][..size];
                add_found(table, patterns, self.sums(output, *place, sums));
            }
        }
    }

    /// Adds what `work(row, out)` finds for each row, `out[output][term]`.
    fn add_rows(&self, players: &[u32], row: &mut Vec<f64>, sums: &mut [f64], mut work: impl FnMut(usize, &mut [f64])) {
        let places = self.places(players);
        for at in 0..self.rows {
            if at % 16 == 0 {
                interrupt::poll();
            }
            row.clear();
            row.resize(self.tree.outputs * places.len(), 0.0);
            work(at, row);
            for output in 0..self.tree.outputs {
                for (place, x) in places.iter().zip(&row[output * places.len()..]) {
                    self.sums(output, *place, sums)[at] += x;
                }
            }
        }
    }
}

/// Adds to each row what it finds in a table of a power of two places.
fn add_found(table: &[f64], patterns: &[u16], sums: &mut [f64]) {
    match table.len() {
        1 => add_in::<1>(table, patterns, sums),
        2 => add_in::<2>(table, patterns, sums),
        4 => add_in::<4>(table, patterns, sums),
        8 => add_in::<8>(table, patterns, sums),
        16 => add_in::<16>(table, patterns, sums),
        32 => add_in::<32>(table, patterns, sums),
        64 => add_in::<64>(table, patterns, sums),
        128 => add_in::<128>(table, patterns, sums),
        256 => add_in::<256>(table, patterns, sums),
        512 => add_in::<512>(table, patterns, sums),
        1024 => add_in::<1024>(table, patterns, sums),
        _ => sums.iter_mut().zip(patterns).for_each(|(sum, p)| *sum += table[*p as usize]),
    }
}

/// [`add_found`] where the compiler sees that no pattern points outside of the table.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn add_in<const N: usize>(table: &[f64], patterns: &[u16], sums: &mut [f64]) {
    let Ok(table) = <&[f64; N]>::try_from(table) else { return };
    for (sum, pattern) in sums.iter_mut().zip(patterns) {
        *sum += table[*pattern as usize & (N - 1)];
    }
}
