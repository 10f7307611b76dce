//! Forests that several processes grow together: each has the codes of all rows, grows a range of the trees, and gets the others'.
//!
//! Numeric features lie where their rows are; their codes, of which a value has a few bytes, go to all processes once. So a tree grows in one
//! process as it grows where there is no other, and nothing crosses the network while it does.

use super::codes::Coded;
use super::growing::GrowingTree;
use crate::collective::{bytes_of, fault, numbers_of};
use crate::column::Column;
use crate::dataset::OwnRows;
use crate::error::Result;
use std::ops::Range;

/// A tree, and the rise of its error for each feature that is shuffled, where that is measured.
pub type Measured = (GrowingTree, Option<Vec<f64>>);

/// Bytes of all rows that are sent at a time, about.
const BYTES: usize = 256 << 20;

/// Returns how many features of `rows` rows, of so many bytes a value, are sent at a time.
pub fn at_once(rows: usize, size: usize) -> usize {
    (BYTES / (rows * size).max(1)).max(1)
}

/// Fills in the codes of other processes' rows: those of the features `features` in `codes`, which lie feature after feature, `all` a feature.
///
/// # Errors
/// Those of the collective.
pub fn gather_codes(own: &OwnRows<'_>, features: &[usize], all: usize, codes: &mut [u8]) -> Result<()> {
    let each = own.of_each()?;
    let (rank, world) = (own.collective.rank(), own.collective.world());
    for features in features.chunks(at_once(all, 1)) {
        let sent = features.iter().map(|f| &codes[f * all..][own.range()]).collect::<Vec<_>>().concat();
        let received = own.collective.exchange_with_others(&vec![&sent[..]; world])?;
        for (rows, bytes) in (0..).zip(each.iter().zip(received)).filter(|(from, _)| *from != rank).map(|(_, of_other)| of_other) {
            check_length(bytes.len(), features.len() * rows.len())?;
            for (k, f) in features.iter().enumerate() {
                codes[f * all..][rows.clone()].copy_from_slice(&bytes[k * rows.len()..][..rows.len()]);
            }
        }
    }
    Ok(())
}

/// Returns the values of all rows of some columns, of which this process has its own.
///
/// # Errors
/// Those of the collective.
pub fn gather_values(own: &OwnRows<'_>, columns: &[Column<'_>]) -> Result<Vec<Vec<f64>>> {
    let each = own.of_each()?;
    let sent: Vec<f64> = columns.iter().flat_map(Column::to_f64).collect();
    let sent = bytes_of(&sent);
    let mut out = vec![vec![]; columns.len()];
    for (rows, bytes) in each.iter().zip(own.collective.gather_bytes(&sent)?) {
        let values = numbers_of(&bytes)?;
        check_length(values.len(), columns.len() * rows.len())?;
        out.iter_mut().enumerate().for_each(|(k, out)| out.extend_from_slice(&values[k * rows.len()..][..rows.len()]));
    }
    Ok(out)
}

fn check_length(sent: usize, expected: usize) -> Result<()> {
    if sent == expected { Ok(()) } else { Err(fault(format!("a process sends {sent} values of its rows where it has {expected}"))) }
}

/// Returns which of some trees this process grows, by their numbers.
pub fn own_trees(own: &OwnRows<'_>, trees: Range<u32>) -> Range<u32> {
    trees_of(own.collective.rank(), own.collective.world(), trees)
}

fn trees_of(rank: usize, world: usize, trees: Range<u32>) -> Range<u32> {
    let before = |rank: usize| trees.start + (rank as u64 * trees.len() as u64 / world as u64) as u32;
    before(rank)..before(rank + 1)
}

/// Returns all of some trees in their order, of which this process has grown [its own](own_trees).
///
/// # Errors
/// Those of the collective; for trees that are none.
pub fn gather_trees(own: &OwnRows<'_>, grown: Vec<Measured>, trees: Range<u32>, features: &[Coded]) -> Result<Vec<Measured>> {
    if own.is_whole() {
        return Ok(grown);
    }
    let (rank, world) = (own.collective.rank(), own.collective.world());
    let counts: Vec<usize> = (0..world).map(|rank| trees_of(rank, world, trees.clone()).len()).collect();
    let mut all: Vec<Vec<Measured>> = counts.iter().map(|count| Vec::with_capacity(*count)).collect();
    let mut grown = grown.into_iter();
    // One of each process at a time, so that messages are no longer than a tree.
    for round in 0..counts.iter().copied().max().unwrap_or(0) {
        let mut tree = grown.next();
        let sent = postcard::to_allocvec(&tree).map_err(|error| fault(error.to_string()))?;
        for (of, bytes) in own.collective.gather_bytes(&sent)?.into_iter().enumerate().filter(|(of, _)| round < counts[*of]) {
            let received = if of == rank { tree.take() } else { postcard::from_bytes(&bytes).ok().flatten() };
            let received = received.filter(|tree| is_of(tree, features));
            all[of].push(received.ok_or_else(|| fault(format!("rank {of} sends a tree that is none")))?);
        }
    }
    Ok(all.into_iter().flatten().collect())
}

/// Returns whether a tree asks about the table's features as their kinds are asked about. (Whether it is a tree, the whole forest's
/// [`validate`](super::Forest::validate) says.)
fn is_of((tree, measured): &Measured, features: &[Coded]) -> bool {
    let asks = |node: &super::growing::RawNode| {
        let is_categorical = features.get(node.feature as usize).map(Coded::is_categorical);
        match node.set {
            Some(set) => is_categorical == Some(true) && (set as usize) < tree.sets.len(),
            None => is_categorical == Some(false),
        }
    };
    tree.nodes.iter().all(asks) && measured.as_ref().is_none_or(|measured| measured.len() == features.len())
}
