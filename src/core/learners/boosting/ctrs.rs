//! Statistics of categories whose codes a device makes by itself, where it can ([`super::steps::TreeSteps::ctrs`]):
//! with the codes of [`crate::encoding::ctr`].

use crate::encoding::ctr::{Ctr, CtrTarget, Prefix};

/// A categorical column.
#[derive(Clone, Copy)]
pub struct CategoryCodes<'a> {
    /// What it is known by, the same for a whole fit.
    pub column: u32,
    /// Of each row, below `cardinality`.
    pub codes: &'a [u32],
    pub cardinality: usize,
}

/// The columns and targets that statistics of categories are made from, the same for a whole fit.
#[derive(Clone, Copy)]
pub struct CtrData<'a> {
    pub ctrs: &'a [Ctr],
    pub target: &'a CtrTarget,
    /// The training rows in each permutation.
    pub orders: &'a [Vec<u32>],
    /// The rows that borders are found from.
    pub sample: &'a [u32],
}

impl CtrData<'_> {
    /// Returns the place in the list of the first statistic with the sums of this one.
    pub fn sums_of(&self, ctr: usize) -> usize {
        self.ctrs.iter().position(|c| c.same_sums(&self.ctrs[ctr])).unwrap_or(ctr)
    }
}

/// The sums of a column, or of a combination of several, at the rows of the sample.
pub struct CtrSample {
    /// How many categories, or combinations, occur.
    pub cardinality: usize,
    /// The rows of the most frequent one.
    pub most: u32,
    /// By the place of a statistic, the first of those that share sums; empty for the others, and for those that were
    /// not asked for.
    pub sums: Vec<Vec<Prefix>>,
}

/// A feature of a group: a statistic of a column, or of a combination of several.
#[derive(Clone)]
pub struct CtrFeature<'a> {
    pub columns: Vec<CategoryCodes<'a>>,
    /// Its place in the list.
    pub ctr: usize,
}
