//! Tables of few rows, searched without histograms: their rows are sorted by each feature's codes once, before the first tree, as in
//! exact greedy methods (Mehta, Agrawal and Rissanen, "SLIQ", 1996). Either way a tree is the one that histograms give.
//!
//! | | [`lists`] | [`walks`] |
//! |---|---|---|
//! | a node's rows | stand sorted by every feature, and are partitioned as the node is | are met in the order of all rows, in one walk a step for all nodes |
//! | a step costs | what its nodes' rows cost, in short loops | what all rows cost, in long ones |
//! | threads | one | each walks features of its own |
//! | pays for | few rows of few columns, such as those of a model for each of many groups | many columns; levels of symmetric trees but of the fewest rows or columns |

mod lists;
mod shard;
#[cfg(test)]
mod tests;
mod walks;

use taiga_core::learners::boosting::layout::StoragePlan;
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::tree::params::Policy;

pub use lists::SortedLists;
pub use walks::{NodeSlots, SortedOrder};

/// How the nodes of trees are searched, if not by histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presorted {
    Lists,
    Walks,
}

/// The rows of a group of features, sorted.
pub enum SortedRows {
    Lists(SortedLists),
    Walks(SortedOrder),
}

/// Tables of so many features for each thread, and of up to so many values, are searched by sorted rows whatever the threads.
const LEAST_FEATURES: usize = 64;
const MOST_VALUES: usize = 1 << 28;

/// Chooses how the trees of a fit by so many threads are searched, if not by histograms.
pub fn chosen(data: &TrainingData<'_>, plan: &StoragePlan, threads: usize) -> Option<Presorted> {
    let (rows, features) = (data.target.len(), data.features.len());
    let values = rows.saturating_mul(features);
    // Subsets of categories are searched in histograms.
    let ordinal = features > 0 && data.features.iter().all(|f| !f.categories);
    // Nor are there lists of columns that several features share.
    if !ordinal || !plan.sparse.is_empty() || !data.shard.is_whole() || data.shared > 1 || data.pieces.bodies > 0 {
        return None;
    }
    let few = threads == 1 && rows <= lists::MOST_ROWS && values <= lists::FEW_VALUES;
    if few && (data.policy != Policy::Symmetric || rows <= lists::MOST_ROWS_OF_LEVELS || features <= lists::LANES) {
        return Some(Presorted::Lists);
    }
    // Several threads share the columns, which do not come in batches then.
    let shared = threads == 1 || data.batches.is_none();
    // The level of a symmetric tree is searched in walks whatever the columns.
    let many = few || (features >= LEAST_FEATURES * threads && values <= MOST_VALUES);
    (rows <= walks::MOST_ROWS && many && shared).then_some(Presorted::Walks)
}

/// Returns by code how many rows have a smaller one, which is the place of its first row in their order.
fn starts(codes: &[u8]) -> [u16; 257] {
    let mut starts = [0; 257];
    codes.iter().for_each(|code| starts[*code as usize + 1] += 1);
    (1..257).for_each(|code| starts[code] += starts[code - 1]);
    starts
}

/// Returns the bytes of the rows of `data`, sorted.
pub fn bytes(presorted: Option<Presorted>, data: &TrainingData<'_>) -> u64 {
    let values = (data.target.len() as u64).saturating_mul(data.features.len() as u64);
    match presorted {
        None => 0,
        Some(Presorted::Lists) => lists::VALUE_BYTES * values,
        Some(Presorted::Walks) => walks::VALUE_BYTES * values,
    }
}
