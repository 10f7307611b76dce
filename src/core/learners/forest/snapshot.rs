//! The state of a fit of a forest: its first trees, as bytes. A tree depends on its number and on the table alone, so a fit that was ended grows
//! the trees that are left; what all of them say of rows out of bag is added up anew.
//!
//! ```text
//! envelope "FS"   digest of rows and parameters; the trees so far, each with its features' permutation importances where they are measured
//! ```

use super::codes::{Code, Coded, Meaning};
use super::growing::{GrowingTree, RawNode};
use super::oob::PredictionSums;
use super::params::ForestParams;
use super::table::CodeTable;
use super::together::{self, Measured};
use crate::collective::fault;
use crate::dataset::snapshots::{self, FitDigest, Snapshots, damaged};
use crate::dataset::{Input, OwnRows};
use crate::envelope::Envelope;
use crate::error::Result;
use crate::memory;
use crate::model::validate::validate_branching;
use crate::parallel::interrupt;
use crate::parallel::thread_pool::ThreadPool;
use crate::tree::model::{Node, Split};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use xxhash_rust::xxh3::Xxh3;

/// The envelope of snapshots.
const ENVELOPE: Envelope = snapshots::envelope(b"FS", "a snapshot of a fit of a forest");

/// What a snapshot holds, in this order.
#[derive(Serialize)]
struct Payload<'a> {
    digest: [u64; 2],
    trees: &'a [Measured],
}

#[derive(Deserialize)]
struct ReadPayload {
    digest: [u64; 2],
    trees: Vec<Measured>,
}

/// What the trees of a fit are held to.
#[derive(Clone, Copy)]
pub(super) struct TreeShape<'a> {
    pub features: &'a [Coded],
    /// How many classes there are; none for numbers.
    pub classes: Option<usize>,
    /// Where rows out of bag are predicted.
    pub sums: Option<&'a PredictionSums>,
    pub permutation_importance: bool,
}

/// Where a fit keeps its trees, and what fit it is.
pub(super) struct KeptTrees<'a> {
    snapshots: Option<&'a dyn Snapshots>,
    own: OwnRows<'a>,
    /// Of the first process, which has the snapshots, alone.
    digest: u128,
    trees: u32,
}

impl<'a> KeptTrees<'a> {
    /// Prepares to keep the trees of a fit to a table and its codes, which are of all rows.
    ///
    /// # Errors
    /// [`crate::Error::Interrupted`].
    pub fn new<C: Code>(
        snapshots: Option<&'a dyn Snapshots>,
        (pool, params, own): (&ThreadPool, &ForestParams, OwnRows<'a>),
        input: &Input<'_>,
        table: &CodeTable<C>,
    ) -> Result<KeptTrees<'a>> {
        let digest = match snapshots.filter(|_| own.collective.rank() == 0) {
            Some(_) => digest(pool, input, params, table)?,
            None => 0,
        };
        Ok(KeptTrees { snapshots, own, digest, trees: params.trees })
    }

    /// Returns the first trees of the fit, where some have been kept. Where there are several processes, the first sends the others what it has.
    ///
    /// # Errors
    /// Where it is of another fit or damaged, saying so; those of the collective.
    pub fn restored(&self, shape: &TreeShape<'_>) -> Result<Vec<Measured>> {
        let Some(snapshots) = self.snapshots else { return Ok(vec![]) };
        let is_first = self.own.collective.rank() == 0;
        let kept = match snapshots.saved().filter(|_| is_first) {
            Some(bytes) => self.read(bytes, shape)?,
            None => vec![],
        };
        if self.own.is_whole() {
            return Ok(kept);
        }
        let count = self.first_has(&(kept.len() as u32).to_le_bytes())?;
        let count = u32::from_le_bytes(count.try_into().map_err(|_| fault("rank 0 does not say how many trees it has kept"))?);
        // A tree at a time, so that messages are no longer than one.
        let tree = |i: u32| -> Result<Measured> {
            let sent = kept.get(i as usize).map(postcard::to_allocvec).transpose().map_err(|error| fault(error.to_string()))?;
            let bytes = self.first_has(&sent.unwrap_or_default())?;
            let tree = postcard::from_bytes(&bytes).ok().filter(|tree| shape.holds(tree));
            tree.ok_or_else(|| fault("rank 0 sends a tree that is none"))
        };
        (0..count.min(self.trees)).map(tree).collect()
    }

    /// Returns what the first process sends.
    fn first_has(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(self.own.collective.gather_bytes(bytes)?.into_iter().next().unwrap_or_default())
    }

    /// Reads bytes that may come from anyone, in memory in proportion to their length.
    fn read(&self, bytes: &[u8], shape: &TreeShape<'_>) -> Result<Vec<Measured>> {
        let ReadPayload { digest, trees } = snapshots::read(&ENVELOPE, bytes)?;
        snapshots::check_digest(digest, self.digest)?;
        snapshots::check_length(u32::try_from(trees.len()).unwrap_or(u32::MAX), self.trees, "trees")?;
        if trees.iter().all(|tree| shape.holds(tree)) { Ok(trees) } else { Err(damaged()) }
    }

    /// Returns the trees to grow from tree `first` on, in parts, after each of which they are kept.
    pub fn parts(&self, first: u32) -> Vec<Range<u32>> {
        let every = self.snapshots.map_or(self.trees, Snapshots::every).max(1);
        let mut parts = vec![];
        let mut at = first;
        while at < self.trees {
            let end = (at / every).saturating_add(1).saturating_mul(every).min(self.trees);
            parts.push(at..end);
            at = end;
        }
        parts
    }

    /// Keeps the first trees of the fit, where as many are done as it is kept after.
    ///
    /// # Errors
    /// Where there is no memory for their bytes, and those of whoever keeps them.
    pub fn keep(&self, trees: &[Measured]) -> Result<()> {
        let whole = |s: &&dyn Snapshots| (trees.len() as u32).is_multiple_of(s.every().max(1)) && self.own.collective.rank() == 0;
        let Some(snapshots) = self.snapshots.filter(whole) else { return Ok(()) };
        let size = trees.iter().map(bytes_of).sum();
        let _reserved = memory::reserve("a snapshot of a fit", size, "leave `snapshot` out, or limit `leaves` or `depth`")?;
        snapshots.save(&ENVELOPE.seal(1, &Payload { digest: snapshots::words(self.digest), trees }, size as usize))
    }

    /// Returns which of some trees this process grows, or measures.
    pub fn own_trees(&self, trees: Range<u32>) -> Range<u32> {
        together::own_trees(&self.own, trees)
    }
}

/// Returns about how many bytes a tree is written in, rather more.
fn bytes_of((tree, measured): &Measured) -> u64 {
    let numbers = tree.counts.len() + tree.sums.len() + tree.means.len() + measured.as_ref().map_or(0, Vec::len);
    32 * (tree.nodes.len() + tree.sets.len()) as u64 + 10 * numbers as u64
}

impl TreeShape<'_> {
    /// Returns whether this is a tree of the fit: all that growing, measuring and walking rely on.
    pub fn holds(&self, (tree, measured): &Measured) -> bool {
        let (leaves, outputs) = (tree.counts.len(), self.classes.unwrap_or(1));
        let node = |n: &RawNode| Node {
            split: Split { feature: n.feature, border: 0, missing_left: n.missing_left, gain: n.gain },
            left: n.children[0],
            right: n.children[1],
        };
        let total = tree.sums.iter().try_fold(0u64, |total, s| total.checked_add(*s));
        let in_range = |mean: &f64| mean.is_finite() && self.sums.is_none_or(|sums| sums.reaches(*mean));
        validate_branching(&tree.nodes.iter().map(node).collect::<Vec<_>>(), leaves).is_ok()
            && tree.nodes.iter().all(|n| self.has_split(n, tree))
            && leaves.checked_mul(outputs) == Some(tree.sums.len())
            && total.is_some()
            && tree.sums.chunks_exact(outputs.max(1)).all(|s| s.iter().any(|s| *s > 0))
            && tree.counts.iter().try_fold(0u32, |total, c| total.checked_add(*c)).is_some()
            && tree.means.len() == if self.classes.is_some() { 0 } else { leaves }
            && tree.means.iter().all(in_range)
            && measured.as_ref().is_none_or(|m| self.permutation_importance && m.len() == self.features.len())
    }

    /// Returns whether a node splits a feature as the table's codes can be split.
    fn has_split(&self, n: &RawNode, tree: &GrowingTree) -> bool {
        let Some(feature) = self.features.get(n.feature as usize).filter(|_| !n.gain.is_nan()) else { return false };
        let cut = n.cut as usize;
        match (&feature.meaning, n.set) {
            (Meaning::Categories(_), Some(set)) => (set as usize) < tree.sets.len(),
            (Meaning::Categories(_), None) | (_, Some(_)) => false,
            _ if n.border == f64::INFINITY => cut == feature.bins() - 1,
            (Meaning::Bins(borders), None) => {
                cut.checked_sub(feature.first).and_then(|place| borders.get(place)).is_some_and(|border| *border == n.border)
            }
            (Meaning::Values(values), None) => cut >= 1 && cut == values.partition_point(|x| *x <= n.border),
        }
    }
}

/// Returns a digest of everything that the trees of a fit depend on: of the features that is what codes stand for, and each row's.
fn digest<C: Code>(pool: &ThreadPool, input: &Input<'_>, params: &ForestParams, table: &CodeTable<C>) -> Result<u128> {
    let params = ForestParams { trees: 1, ..params.clone() };
    let rows = input.target.rows();
    let mut all = FitDigest::new(&params.to_json(), &Input { features: vec![], ..input.clone() }, &OwnRows::whole(rows))?;
    let of_codes = |(): &mut (), f: usize| {
        let (mut sum, mut bytes) = (Xxh3::new(), vec![]);
        for codes in table.codes[f * rows..][..rows].chunks(1 << 14) {
            interrupt::poll();
            bytes.clear();
            codes.iter().for_each(|code| bytes.extend_from_slice(&(code.index() as u32).to_le_bytes()));
            sum.update(&bytes);
        }
        sum.digest128()
    };
    let of_codes = pool.deal(table.features.len(), || (), of_codes);
    all.next();
    for ((column, coded), of_codes) in input.features.iter().zip(&table.features).zip(of_codes) {
        all.text(column.name());
        all.text(&column.dtype().to_string());
        all.integers(&[coded.first as u32]);
        match &coded.meaning {
            Meaning::Bins(numbers) | Meaning::Values(numbers) => {
                all.text(&numbers.len().to_string());
                numbers.iter().for_each(|x| all.bytes(&x.to_bits().to_le_bytes()));
            }
            Meaning::Categories(categories) => all.text(&format!("{categories:?}")),
        }
        all.bytes(&of_codes.to_le_bytes());
    }
    Ok(all.finish())
}
