//! The shards that rows of a fit lie in, and what they exchange: maxima, sums of integers, and lists in the order of the shards.
//!
//! Everything that is summed over rows is an integer sum, so rows may lie anywhere: a fit is one program that every shard runs, each with
//! its rows, and that comes to the same model in each. A shard's rows are consecutive rows of the table ([`RowShard`]). Calls are the same,
//! in the same order, in every shard; whoever is late is waited for.

mod local;

pub use local::{LocalCollective, local};

use crate::error::Result;

/// Exchanges numbers between the shards of a fit: maxima, sums and values of all.
pub trait Collective: Sync {
    /// Returns the number of shards.
    fn world(&self) -> usize;

    /// Replaces each number by the largest of all shards' numbers in its place.
    ///
    /// # Errors
    /// When a shard is gone, or asks for something else.
    fn max(&self, values: &mut [u32]) -> Result<()>;

    /// Replaces each number by the sum of all shards' numbers in its place.
    ///
    /// # Errors
    /// As above.
    fn sum(&self, values: &mut [i64]) -> Result<()>;

    /// Returns all shards' lists, which may differ in length, one behind the other.
    ///
    /// # Errors
    /// As above.
    fn gather(&self, own: &[f64]) -> Result<Vec<f64>>;
}

/// The one shard that has all rows.
pub struct Alone;

impl Collective for Alone {
    fn world(&self) -> usize {
        1
    }

    fn max(&self, _: &mut [u32]) -> Result<()> {
        Ok(())
    }

    fn sum(&self, _: &mut [i64]) -> Result<()> {
        Ok(())
    }

    fn gather(&self, own: &[f64]) -> Result<Vec<f64>> {
        Ok(own.to_vec())
    }
}

/// Rows of a table that one shard has, and whom it shares the others with.
#[derive(Clone, Copy)]
pub struct RowShard<'a> {
    pub collective: &'a dyn Collective,
    /// The table's rows before those of the shard.
    pub first: usize,
    /// The table's rows.
    pub all: usize,
}

impl RowShard<'_> {
    /// Returns all `rows` rows of a table.
    pub fn whole(rows: usize) -> RowShard<'static> {
        RowShard { collective: &Alone, first: 0, all: rows }
    }

    /// Returns whether there are no other shards.
    pub fn is_whole(&self) -> bool {
        self.collective.world() == 1
    }
}
