//! Ordered boosting (Prokhorenkova et al., "CatBoost: unbiased boosting with categorical features", 2018, section 4 and appendix B;
//! CatBoost's `boosting_type="Ordered"`): trees are grown to gradients at scores of which no row's own target has taken part.
//!
//! Rows that train stand in random permutations, each of which is cut into pieces: the first of few rows, each further one as long as all
//! before it together. The rows of the first `b + 1` pieces are body `b`, and the piece behind it is its tail. Every body has scores of its
//! own rows and of its tail, to which each tree adds what its leaves come to by the derivatives of the body's rows alone:
//!
//! ```text
//! permutation   | piece 0 | piece 1 |      piece 2      |                piece 3                |
//! body 0        |  body   |  tail   |
//! body 1        |        body       |       tail        |
//! body 2        |                 body                  |                 tail                  |
//! ```
//!
//! The score that a row has as a tail is one that its target has no part in. A tree grows under one of the permutations: a split is as good
//! as the values that bodies give its children are for their tails.
//!
//! ```text
//! value of a child by a body:  v = -T(G_body) / (H_body + l2)      sums of gradients and hessians over the body's rows
//! score of a split:            -Σ (2 v G_tail + v² H_tail)         over bodies and both children
//! ```
//!
//! (CatBoost takes that as `score_function="L2"`; as `"Cosine"` it divides the first part by the root of the second.) The values that the
//! model keeps are of all rows, at the scores that it gives them.
//!
//! A permutation is a set of scores, and the first set is that of the model: so it is where categories have ordered statistics, whose
//! permutations these are ([`categorical_features`](super::categorical_features)).

use super::continued::FitOptions;
use super::params::{Boosting, BoostingParams};
use crate::dataset::OwnRows;
use crate::error::{Error, Result};
use crate::losses::Loss;
use crate::params::Problems;
use std::borrow::Cow;

/// Splits are scored by so many bodies with their tails, or by all where there are fewer: by the last ones, whose tails have fifteen
/// sixteenths of the rows.
pub const PAIRS: usize = 4;

/// Stands for the piece of a row that does not train.
pub const NO_PIECE: u8 = u8::MAX;

/// Tables of more rows than this begin with a piece of a [`FIRST_SHARE`]-th of them, at the most [`MOST_FIRST`]; others with one row. Both
/// are CatBoost's.
const SINGLE_ROWS: usize = 500;
const FIRST_SHARE: usize = 50;
const MOST_FIRST: usize = 100;

/// The permutations of the rows that train, cut into pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// `[permutation][row]`: the piece that a row stands in, or [`NO_PIECE`]. Permutation `p` has the set of scores `p + 1`.
    pub of_rows: Vec<Vec<u8>>,
    /// How many bodies each permutation has.
    pub bodies: usize,
}

impl Pieces {
    /// Cuts permutations of the rows that train, of `rows` in all, into pieces.
    pub(super) fn new<'o>(orders: impl Iterator<Item = Cow<'o, [u32]>>, rows: usize) -> Pieces {
        let mut pieces = Pieces::default();
        for order in orders {
            pieces.bodies = bodies(ends(order.len()).len());
            pieces.of_rows.push(cut(&order, rows));
        }
        pieces
    }

    /// Returns the rows of `own` alone.
    pub(super) fn of_own(self, own: &OwnRows<'_>) -> Pieces {
        Pieces { of_rows: self.of_rows.into_iter().map(|pieces| own.of(pieces)).collect(), ..self }
    }
}

/// Returns where the pieces of a permutation of so many rows end.
///
/// ```
/// use taiga_core::learners::boosting::ordered::ends;
/// assert_eq!(ends(12), [1, 2, 4, 8, 12]);
/// assert_eq!(ends(1_000), [20, 40, 80, 160, 320, 640, 1_000]);
/// assert_eq!(ends(1), [1]);
/// ```
pub fn ends(rows: usize) -> Vec<usize> {
    let first = if rows > SINGLE_ROWS { (rows / FIRST_SHARE).min(MOST_FIRST) } else { 1 };
    let doubled = std::iter::successors(Some(first), |end| end.checked_mul(2));
    doubled.take_while(|end| *end < rows).chain([rows]).collect()
}

/// Returns the bodies of a permutation that is cut into so many pieces: behind the last piece there is no tail.
fn bodies(pieces: usize) -> usize {
    pieces.saturating_sub(1).max(1)
}

/// Cuts a permutation of the rows that train, of `rows` in all, into pieces.
fn cut(order: &[u32], rows: usize) -> Vec<u8> {
    let mut of_rows = vec![NO_PIECE; rows];
    let mut start = 0;
    for (piece, end) in (0..).zip(ends(order.len())) {
        order[start..end].iter().for_each(|row| of_rows[*row as usize] = piece);
        start = end;
    }
    of_rows
}

/// Checks that a loss may be boosted in order, where that is asked for.
///
/// # Errors
/// Where its rows depend on each other.
pub(super) fn check(params: &BoostingParams, loss: &dyn Loss, name: &str) -> Result<()> {
    if !params.is_ordered() || (loss.by_group().is_none() && !loss.of_risk_sets()) {
        return Ok(());
    }
    let why = "whose rows depend on each other, and some of them are in no body: leave one of both out";
    Err(Error::parameter("boosting", format!("\"ordered\" does not go with loss=\"{name}\", {why}")))
}

/// Checks that a fit with ordered boosting is not to go on from one before it.
///
/// # Errors
/// Naming what it would go on from.
pub(super) fn check_options(params: &BoostingParams, options: &FitOptions<'_>) -> Result<()> {
    let refused = |name: &str, what: &str| {
        let why = format!(
            "boosting=\"ordered\" keeps scores of its rows under each part of each permutation, which {what}: leave one of both out"
        );
        Err(Error::parameter(name, why))
    };
    match params.is_ordered() {
        true if options.init_model.is_some() => refused("init_model", "a model does not carry"),
        true if options.snapshots.is_some() => refused("snapshot", "are not kept"),
        _ => Ok(()),
    }
}

impl BoostingParams {
    /// Adds what does not go with ordered boosting.
    pub(super) fn check_boosting(&self, problems: &mut Problems) {
        if self.is_ordered() && self.monotone.values().any(|direction| *direction != 0) {
            let text = "\"ordered\" does not go with `monotone`: splits are scored by values of several bodies at once, which have no one \
                        direction: leave one of both out";
            problems.add(Error::parameter("boosting", text));
        }
    }

    /// Returns whether trees are grown to gradients at scores that rows have had no part in.
    pub fn is_ordered(&self) -> bool {
        self.boosting == Some(Boosting::Ordered)
    }

    /// Returns how many sets of scores ordered boosting has: the model's own, and one for each permutation but the first, or for the only
    /// one.
    pub(super) fn ordered_sets(&self) -> usize {
        self.permutations.max(2) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that pieces have all rows between them, in the order of the permutation, and that each but the last is as long as those
    /// before it.
    #[test]
    fn pieces_double() {
        for rows in (1..600).chain([5_000, 99_999, 1 << 20]) {
            let ends = ends(rows);
            assert_eq!(ends.last(), Some(&rows));
            assert!(ends.windows(2).all(|pair| pair[0] < pair[1] && pair[1] <= 2 * pair[0]), "{rows}: {ends:?}");
            assert!(ends.len() < 32 && ends[..ends.len() - 1].windows(2).all(|pair| pair[1] == 2 * pair[0]), "{rows}: {ends:?}");
            // What bodies hold together is less than two rows a row.
            assert!(ends[..bodies(ends.len())].iter().sum::<usize>() < 2 * rows);
        }
        let order: Vec<u32> = (0..20).rev().filter(|row| row % 5 != 0).collect();
        let of_rows = cut(&order, 20);
        assert!((0..20).all(|row| (of_rows[row] == NO_PIECE) == (row % 5 == 0)));
        assert_eq!(order.iter().map(|row| of_rows[*row as usize]).collect::<Vec<_>>(), [0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4]);
        // One row is its own body.
        assert_eq!((bodies(1), bodies(2), bodies(5)), (1, 1, 4));
    }
}
