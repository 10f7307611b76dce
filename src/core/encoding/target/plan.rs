//! The orders and folds of a target encoding.

use super::params::{EncodingKind, TargetParams};
use crate::encoding::buckets::Word;
use crate::encoding::permutation::RandomFolds;
use crate::error::{Error, Result};
use crate::numerics::random::{Purpose, Random};
use crate::{memory, pages};
use rayon::prelude::*;
use std::borrow::Cow;

/// The order in which rows come.
#[derive(Clone, Debug)]
pub enum Order {
    /// As they are.
    Rows,
    /// The order of [`permutation`](crate::encoding::permutation::permutation).
    Random(Random),
    /// The rows in this order.
    Given(Vec<u32>),
}

/// The orders or folds of the rows, which columns that are encoded together share.
#[derive(Clone, Debug)]
pub enum EncodingPlan {
    /// The orders to average over.
    Ordered(Vec<Order>),
    /// The fold of each row, and the number of folds.
    Folds(Vec<u32>, usize),
    /// Folds of equal size or nearly, in a random order.
    RandomFolds(RandomFolds),
    /// Nothing.
    Plain,
}

impl EncodingPlan {
    /// Returns the random orders or folds of `rows` rows.
    ///
    /// # Errors
    /// [`Error::Parameter`] for more folds than rows.
    pub fn random(rows: usize, params: &TargetParams) -> Result<EncodingPlan> {
        let random = |purpose, stream| Random::new(params.seed, purpose, stream);
        match params.kind {
            EncodingKind::Ordered => {
                let orders = 0..params.permutations as u64;
                Ok(EncodingPlan::Ordered(orders.map(|p| Order::Random(random(Purpose::Permutation, p))).collect()))
            }
            EncodingKind::Kfold => {
                let folds = params.folds as usize;
                // The rows with their hashes among which folds begin: all of them where there are many folds.
                let _reserved = memory::reserve(&format!("the folds of {rows} rows"), 8 * rows as u64, "encode fewer rows")?;
                if rows > 0 && folds > rows {
                    return Err(Error::parameter("folds", format!("{folds} are more than the {rows} rows")).degenerate());
                }
                let folds = if rows > 0 { folds } else { 1 };
                Ok(EncodingPlan::RandomFolds(RandomFolds::new(rows, random(Purpose::Folds, 0), folds)))
            }
            EncodingKind::Loo | EncodingKind::Full => Ok(EncodingPlan::Plain),
        }
    }
}

/// Returns the place of each row in an order of all rows, spread over 32 bits as hashes are.
pub fn places_in(order: &[u32], rows: usize) -> Result<Vec<u32>> {
    if order.len() != rows {
        return Err(Error::Data(format!("the order has {} rows and the categories have {rows}", order.len())));
    }
    let mut places = pages::zeroed(rows);
    let shared = u32::shared(&mut places);
    let place = |i: usize| (((i as u64) << 32) / rows as u64) as u32;
    order.par_iter().enumerate().for_each(|(i, row)| u32::store(&shared[*row as usize], place(i)));
    Ok(places)
}

impl EncodingPlan {
    /// Returns the fold of each of `rows` rows and the number of folds, where the plan is one of folds.
    ///
    /// # Errors
    /// [`Error::Data`] where it is one of folds for another number of rows; [`Error::Memory`].
    pub fn folds(&self, rows: usize) -> Result<Option<(Cow<'_, [u32]>, usize)>> {
        match self {
            EncodingPlan::Folds(folds, count) => {
                check_folds(folds.len(), rows)?;
                Ok(Some((Cow::Borrowed(folds), *count)))
            }
            EncodingPlan::RandomFolds(folds) => {
                check_folds(folds.rows(), rows)?;
                memory::check(&format!("the folds of {rows} rows"), 4 * rows as u64, "encode fewer rows")?;
                Ok(Some((Cow::Owned(folds.of_rows()?), folds.count())))
            }
            EncodingPlan::Ordered(_) | EncodingPlan::Plain => Ok(None),
        }
    }
}

/// Checks that there is a fold for each row.
pub fn check_folds(folds: usize, rows: usize) -> Result<()> {
    if folds != rows {
        return Err(Error::Data(format!("the folds have {folds} rows and the categories have {rows}")));
    }
    Ok(())
}

pub fn nothing_outside(fold: usize) -> Error {
    Error::Data(format!("there are no rows, or none with a weight, outside fold {fold}"))
}
