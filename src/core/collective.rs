//! The shards that rows of a fit lie in, and what they exchange: maxima, sums of integers, and lists in the order of the shards.
//!
//! Everything that is summed over rows is an integer sum, so rows may lie anywhere: a fit is one program that every shard runs, each with
//! its rows, and that comes to the same model in each. A shard's rows are consecutive rows of the table ([`RowShard`]). Calls are the same,
//! in the same order, in every shard; whoever is late is waited for.
//!
//! Shards are threads of this process ([`local()`]), or processes on this and other machines ([`tcp`]).

mod local;
pub mod nested;
pub mod pulse;
pub mod tcp;

pub use local::{LocalCollective, local};

use crate::error::{Error, Result};
use crate::numerics::reduce::weighted_quantile;
use std::ops::Range;

/// Exchanges numbers between the shards of a fit: maxima, sums and values of all.
pub trait Collective: Sync {
    /// Returns the number of this shard, from 0 on, in the order of the table's rows.
    fn rank(&self) -> usize;

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

    /// Replaces the numbers of this shard's part, `parts[rank]`, by the sums of all shards' numbers in their places; those of the other
    /// parts are then whatever they are. The parts are the same in all shards, none overlaps another.
    ///
    /// # Errors
    /// As above.
    fn sum_parts(&self, values: &mut [i64], parts: &[Range<usize>]) -> Result<()> {
        let _ = parts;
        self.sum(values)
    }

    /// Sends bytes to each shard, `pieces[k]` to shard `k`, and returns what each has sent to this one, in their order. Pieces may differ in
    /// length.
    ///
    /// # Errors
    /// As above.
    fn exchange(&self, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>>;

    /// Does the same with all but the bytes for this shard itself: nothing is returned in their place, and nobody copies them.
    ///
    /// # Errors
    /// As above.
    fn exchange_with_others(&self, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let mut pieces = pieces.to_vec();
        pieces[self.rank()] = &[];
        self.exchange(&pieces)
    }

    /// Returns all shards' bytes, in their order.
    ///
    /// # Errors
    /// As above.
    fn gather_bytes(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.exchange(&vec![own; self.world()])
    }

    /// Sends bytes to the first shard. Returns there all shards' bytes, in their order, and elsewhere empty ones.
    ///
    /// # Errors
    /// As above.
    fn gather_to_first(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut pieces: Vec<&[u8]> = vec![&[]; self.world()];
        pieces[0] = own;
        self.exchange(&pieces)
    }

    /// Returns all shards' lists, which may differ in length, one behind the other.
    ///
    /// # Errors
    /// As above.
    fn gather(&self, own: &[f64]) -> Result<Vec<f64>> {
        let all = self.gather_bytes(&bytes_of(own))?;
        all.iter().map(|bytes| numbers_of(bytes)).collect::<Result<Vec<_>>>().map(|lists| lists.concat())
    }

    /// Tells the others that this shard ends without a result, and why. What they ask for then is an error that says so, of rows where this is.
    fn end_with(&self, why: &Error) {
        let _ = why;
    }
}

/// Returns numbers as bytes that mean the same on every machine.
pub fn bytes_of(numbers: &[f64]) -> Vec<u8> {
    let mut bytes = vec![0; numbers.len() * 8];
    bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers).for_each(|(bytes, x)| *bytes = x.to_le_bytes());
    bytes
}

/// Returns the numbers that [`bytes_of`] has made bytes of.
///
/// # Errors
/// For bytes that are no whole numbers.
pub fn numbers_of(bytes: &[u8]) -> Result<Vec<f64>> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    match rest {
        [] => Ok(numbers.iter().map(|b| f64::from_le_bytes(*b)).collect()),
        _ => Err(fault(format!("{} bytes of another process are no whole numbers", bytes.len()))),
    }
}

/// Returns scores as bytes that mean the same on every machine.
pub fn bytes_of_scores(scores: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; scores.len() * 4];
    bytes.as_chunks_mut::<4>().0.iter_mut().zip(scores).for_each(|(bytes, x)| *bytes = x.to_le_bytes());
    bytes
}

/// Returns the scores that [`bytes_of_scores`] has made bytes of in each shard, one shard's behind the other's.
///
/// # Errors
/// For bytes that are no whole scores.
///
/// ```
/// use taiga_core::collective::{bytes_of_scores, scores_of};
/// assert_eq!(scores_of(&[bytes_of_scores(&[0.5]), vec![], bytes_of_scores(&[-1.0, 2.0])]), Ok(vec![0.5, -1.0, 2.0]));
/// ```
pub fn scores_of(bytes: &[Vec<u8>]) -> Result<Vec<f32>> {
    let mut scores = Vec::with_capacity(bytes.iter().map(Vec::len).sum::<usize>() / 4);
    for bytes in bytes {
        let (own, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(fault(format!("{} bytes of another process are no whole scores", bytes.len())));
        }
        scores.extend(own.iter().map(|b| f32::from_le_bytes(*b)));
    }
    Ok(scores)
}

/// Returns an error of what lies between the shards.
pub fn fault(text: impl Into<String>) -> Error {
    Error::parameter("collective", text.into())
}

/// The one shard that has all rows.
pub struct Alone;

impl Collective for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn world(&self) -> usize {
        1
    }

    fn max(&self, _: &mut [u32]) -> Result<()> {
        Ok(())
    }

    fn sum(&self, _: &mut [i64]) -> Result<()> {
        Ok(())
    }

    fn exchange(&self, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        Ok(pieces.iter().map(|piece| piece.to_vec()).collect())
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
    /// Returns a number of each of the table's rows, of which these are the shard's.
    ///
    /// # Errors
    /// Those of the collective, also where it has other rows.
    pub fn of_all_rows(&self, own: Vec<f32>) -> Result<Vec<f32>> {
        if self.is_whole() {
            return Ok(own);
        }
        let all = scores_of(&self.collective.gather_bytes(&bytes_of_scores(&own))?)?;
        if all.len() != self.all {
            return Err(fault(format!("numbers of {} rows came where there are {}", all.len(), self.all)));
        }
        Ok(all)
    }

    /// Returns the scores of all shards' rows, `[output][row]`, of which these are the shard's; `in_first`: in the first shard alone, and
    /// elsewhere none.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn scores_of_all(&self, own: Vec<Vec<f32>>, in_first: bool) -> Result<Vec<Vec<f32>>> {
        if self.is_whole() {
            return Ok(own);
        }
        let of_all = |scores: Vec<f32>| {
            let own = bytes_of_scores(&scores);
            scores_of(&if in_first { self.collective.gather_to_first(&own) } else { self.collective.gather_bytes(&own) }?)
        };
        own.into_iter().map(of_all).collect()
    }

    /// Returns the weighted quantile of each leaf's residuals in the rows of all shards, from the values and weights of this one's. A shard that
    /// knows no weights of a leaf has none at all: each of its rows counts 1.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn quantiles_of_all(&self, own: Vec<(Vec<f64>, Vec<f32>)>, alpha: f64) -> Result<Vec<f64>> {
        let leaves = own.len();
        let counts: Vec<f64> = own.iter().flat_map(|(values, weights)| [values.len() as f64, weights.len() as f64]).collect();
        let (values, weights): (Vec<Vec<f64>>, Vec<Vec<f32>>) = own.into_iter().unzip();
        let weights: Vec<f64> = weights.concat().into_iter().map(f64::from).collect();
        // Of each shard how many of each leaf, then all of them.
        let counts = self.collective.gather(&counts)?;
        let (values, weights) = (self.collective.gather(&values.concat())?, self.collective.gather(&weights)?);
        let broken = || fault("a process does not say what its leaves have");
        let weighted = counts.chunks_exact(2).any(|count| count[1] > 0.0);
        let mut of_leaves = vec![(vec![], vec![]); leaves];
        let (mut values, mut weights) = (&values[..], &weights[..]);
        for (leaf, count) in (0..leaves).cycle().zip(counts.chunks_exact(2)) {
            let of_leaf: &mut (Vec<f64>, Vec<f32>) = &mut of_leaves[leaf];
            let (own, rest) = values.split_at_checked(count[0] as usize).ok_or_else(broken)?;
            of_leaf.0.extend_from_slice(own);
            values = rest;
            let (own, rest) = weights.split_at_checked(count[1] as usize).ok_or_else(broken)?;
            of_leaf.1.extend(own.iter().map(|w| *w as f32));
            weights = rest;
            if weighted {
                of_leaf.1.resize(of_leaf.0.len(), 1.0);
            }
        }
        let quantile =
            |(values, weights): (Vec<f64>, Vec<f32>)| weighted_quantile(&values, (!weights.is_empty()).then_some(&weights), alpha);
        Ok(of_leaves.into_iter().map(quantile).collect())
    }

    /// Shards but the last have a multiple of so many rows: sums in f64 are added over blocks of them in order.
    pub const BLOCK: usize = 1024;

    /// Returns all `rows` rows of a table.
    pub fn whole(rows: usize) -> RowShard<'static> {
        RowShard { collective: &Alone, first: 0, all: rows }
    }

    /// Returns whether there are no other shards.
    pub fn is_whole(&self) -> bool {
        self.collective.world() == 1
    }
}
