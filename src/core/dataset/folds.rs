//! Divides the rows of a table into folds: each is predicted by a model that is fitted to others.

use super::row_groups::RowGroups;
use super::{Input, Target};
use crate::error::{Error, Result};
use crate::numerics::random::{Purpose, Random};
use rayon::prelude::*;

/// The most folds: each takes a fit.
pub const MOST_FOLDS: u32 = 10_000;

/// The number of a row that is in no fold: nobody predicts it.
pub const NO_FOLD: u32 = u32::MAX;

/// How rows are divided.
pub enum Division<'a> {
    /// Into so many parts, at random; where the target is a class, each part has its share of each.
    Parts(u32),
    /// Into so many parts of whole groups, about equally large: the largest group goes first, each to the part with the fewest rows. By
    /// row, the number of its group.
    Groups(u32, &'a [u32]),
    /// By time: `parts + 1` blocks of rows, of which each but the first is predicted by a model of all blocks before it. By row, the place of
    /// its time among all distinct times; rows of one time stay together.
    Times(u32, &'a [u32]),
    /// By row, the number of its part, below the first number; rows of [`NO_FOLD`] are in all fits.
    Given(u32, &'a [u32]),
}

/// The folds of a table.
pub struct Folds {
    /// By row, the fold that it is predicted in, or [`NO_FOLD`].
    pub of_row: Vec<u32>,
    pub count: u32,
    /// Whether a fold's model is fitted to the folds before it alone (and to rows of none).
    pub past_only: bool,
}

/// The rows of one fold.
pub struct Fold {
    /// Rows that its model is fitted to, ascending.
    pub training: Vec<usize>,
    /// Rows that it predicts, ascending.
    pub tested: Vec<usize>,
}

impl Folds {
    /// Divides the rows of a table. `seed`: of what is drawn.
    ///
    /// # Errors
    /// For less than two parts, more than there are rows, groups or times, and for a part without rows.
    ///
    /// ```
    /// use taiga_core::column::Column;
    /// use taiga_core::dataset::folds::{Division, Folds};
    /// use taiga_core::dataset::{Input, Target};
    /// let y: Vec<f64> = (0..10).map(f64::from).collect();
    /// let input = Input {
    ///     features: vec![],
    ///     target: Target::Numbers(Column::from_f64("y", &y)),
    ///     target_name: "y".into(),
    ///     weight: None,
    ///     baseline: vec![],
    ///     held_out: None,
    ///     loss_columns: Default::default(),
    ///     evaluation: Default::default(),
    ///     order: None,
    /// };
    /// let folds = Folds::new(&input, &Division::Parts(5), 0)?;
    /// assert!((0..5).all(|fold| folds.fold(fold).tested.len() == 2));
    /// let times: Vec<u32> = (0..10).collect();
    /// let folds = Folds::new(&input, &Division::Times(4, &times), 0)?;
    /// assert_eq!(folds.fold(1).training, [0, 1, 2, 3]);
    /// assert_eq!(folds.fold(1).tested, [4, 5]);
    /// # Ok::<(), taiga_core::Error>(())
    /// ```
    pub fn new(input: &Input<'_>, division: &Division<'_>, seed: u64) -> Result<Folds> {
        let rows = input.target.rows();
        let (count, of_row) = match division {
            Division::Parts(parts) => (*parts, at_random(input, *parts, seed)),
            Division::Groups(parts, groups) => (*parts, by_group(groups, *parts)),
            Division::Times(parts, times) => (*parts, by_time(times, *parts)),
            Division::Given(parts, of_row) => (*parts, of_row.to_vec()),
        };
        if count < 2 {
            let error = Error::parameter("folds", format!("{count} is less than 2: what is predicted must be left out of the fit"));
            // Of how many parts rows are, other rows tell otherwise.
            return Err(if matches!(division, Division::Given(..)) { error.degenerate() } else { error });
        }
        if count > MOST_FOLDS {
            return Err(Error::parameter("folds", format!("{count} is more than {MOST_FOLDS}, and each takes a fit")));
        }
        let mut sizes = vec![0usize; count as usize];
        of_row.iter().filter(|fold| **fold != NO_FOLD).for_each(|fold| sizes[*fold as usize] += 1);
        if let Some(empty) = sizes.iter().position(|size| *size == 0) {
            let of = match division {
                Division::Groups(_, groups) => format!("{} groups", RowGroups::new(groups).len()),
                Division::Times(_, times) => format!("{} distinct times", times.iter().max().map_or(0, |last| last + 1)),
                _ => format!("{rows} rows"),
            };
            return Err(Error::parameter("folds", format!("fold {empty} of {count} has no rows: there are {of}")).degenerate());
        }
        Ok(Folds { of_row, count, past_only: matches!(division, Division::Times(..)) })
    }

    /// Returns the rows of a fold.
    pub fn fold(&self, fold: u32) -> Fold {
        let trains = |of: u32| if self.past_only { of == NO_FOLD || of < fold } else { of != fold };
        let rows = |wanted: &dyn Fn(u32) -> bool| (0..self.of_row.len()).filter(|row| wanted(self.of_row[*row])).collect();
        Fold { training: rows(&trains), tested: rows(&|of| of == fold) }
    }
}

/// Parts at random: the rows, class by class and shuffled in each, are dealt one after the other.
fn at_random(input: &Input<'_>, parts: u32, seed: u64) -> Vec<u32> {
    let random = Random::new(seed, Purpose::CrossValidation, 0);
    let class = |row: usize| if let Target::Classes { codes, .. } = &input.target { codes[row] } else { 0 };
    let mut shuffled: Vec<(u32, u64, usize)> =
        (0..input.target.rows()).into_par_iter().map(|row| (class(row), random.u64(row as u64), row)).collect();
    shuffled.par_sort_unstable();
    let mut of_row = vec![NO_FOLD; shuffled.len()];
    shuffled.iter().zip((0..parts).cycle()).for_each(|((_, _, row), part)| of_row[*row] = part);
    of_row
}

/// Whole groups, the largest first, each to the part with the fewest rows.
fn by_group(groups: &[u32], parts: u32) -> Vec<u32> {
    let numbered = RowGroups::new(groups);
    let mut largest_first: Vec<usize> = (0..numbered.len()).collect();
    largest_first.sort_by_key(|group| std::cmp::Reverse(numbered.rows(*group).len()));
    let mut sizes = vec![0usize; parts as usize];
    let mut of_row = vec![NO_FOLD; groups.len()];
    for group in largest_first {
        let Some(part) = (0..sizes.len()).min_by_key(|part| sizes[*part]) else { break };
        sizes[part] += numbered.rows(group).len();
        numbered.rows(group).iter().for_each(|row| of_row[*row as usize] = part as u32);
    }
    of_row
}

/// Blocks of rows by time, each of whole times, of which the first is in no part.
fn by_time(times: &[u32], parts: u32) -> Vec<u32> {
    let distinct = times.iter().max().map_or(0, |last| *last as usize + 1);
    let mut before = vec![0u64; distinct + 1];
    times.iter().for_each(|time| before[*time as usize + 1] += 1);
    for time in 0..distinct {
        before[time + 1] += before[time];
    }
    let rows = times.len().max(1) as u64;
    let block = |time: &u32| (before[*time as usize] * (u64::from(parts) + 1) / rows) as u32;
    times.iter().map(|time| block(time).checked_sub(1).unwrap_or(NO_FOLD)).collect()
}

#[cfg(test)]
#[path = "folds_tests.rs"]
mod tests;
