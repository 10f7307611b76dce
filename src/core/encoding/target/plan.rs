//! The orders and folds of a target encoding.

use super::params::{EncodingKind, TargetParams};
use crate::encoding::buckets::Word;
use crate::encoding::permutation::ranks;
use crate::error::{Error, Result};
use crate::numerics::random::{Purpose, Random};
use crate::{memory, pages};
use rayon::prelude::*;

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
                // The folds, and the rows with their hashes.
                let _reserved = memory::reserve(&format!("the folds of {rows} rows"), 12 * rows as u64, "encode fewer rows")?;
                if rows > 0 && folds > rows {
                    return Err(Error::parameter("folds", format!("{folds} are more than the {rows} rows")));
                }
                let mut fold = ranks(rows, random(Purpose::Folds, 0));
                fold.par_iter_mut().for_each(|rank| *rank = (*rank as usize * folds / rows) as u32);
                Ok(EncodingPlan::Folds(fold, folds))
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

/// Checks that there is a fold for each row.
pub fn check_folds(folds: &[u32], rows: usize) -> Result<()> {
    if folds.len() != rows {
        return Err(Error::Data(format!("the folds have {} rows and the categories have {rows}", folds.len())));
    }
    Ok(())
}

pub fn nothing_outside(fold: usize) -> Error {
    Error::Data(format!("there are no rows, or none with a weight, outside fold {fold}"))
}
