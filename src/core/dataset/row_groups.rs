//! The groups that rows of a table form, such as the documents of a query.

use crate::error::{Error, Result};
use std::ops::Range;

/// The rows of a table by group. Groups are numbered by their first rows, and the rows of each ascend.
///
/// ```
/// use taiga_core::dataset::row_groups::RowGroups;
/// let groups = RowGroups::new(&[7, 3, 7, 7, 3]);
/// assert_eq!(groups.len(), 2);
/// assert_eq!(groups.rows(0), [0, 2, 3]);
/// assert_eq!(groups.rows(1), [1, 4]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowGroups {
    /// All rows, group after group.
    rows: Vec<u32>,
    /// Where each group begins among them, and where the last one ends.
    starts: Vec<u32>,
}

impl RowGroups {
    /// Returns the groups of a table whose rows are of the groups that `numbers` says, whatever these are.
    pub fn new(numbers: &[u32]) -> RowGroups {
        let mut known = std::collections::HashMap::new();
        let mut last = None;
        let own: Vec<u32> = numbers
            .iter()
            .map(|number| {
                let group = match last {
                    Some((same, group)) if same == *number => group,
                    _ => {
                        let next = known.len() as u32;
                        *known.entry(*number).or_insert(next)
                    }
                };
                last = Some((*number, group));
                group
            })
            .collect();
        RowGroups::of_codes(&own, known.len())
    }

    /// Returns the groups of a table whose rows are of groups that are numbered from 0 on, by their first rows; `count` of them.
    ///
    /// ```
    /// use taiga_core::dataset::row_groups::RowGroups;
    /// assert_eq!(RowGroups::of_codes(&[0, 1, 0, 0, 1], 2), RowGroups::new(&[7, 3, 7, 7, 3]));
    /// ```
    pub fn of_codes(codes: &[u32], count: usize) -> RowGroups {
        let mut starts = vec![0; count + 1];
        codes.iter().for_each(|group| starts[*group as usize + 1] += 1);
        (0..count).for_each(|group| starts[group + 1] += starts[group]);
        let (mut rows, mut next) = (vec![0; codes.len()], starts.clone());
        for (row, group) in codes.iter().enumerate() {
            rows[next[*group as usize] as usize] = row as u32;
            next[*group as usize] += 1;
        }
        RowGroups { rows, starts }
    }

    /// Returns the groups of the rows that `keep` (ascending) names, numbered as they are there. Groups without such rows are left out.
    pub fn of_rows(&self, keep: &[usize]) -> RowGroups {
        let mut numbers = vec![0; self.rows.len()];
        for group in 0..self.len() {
            self.rows(group).iter().for_each(|row| numbers[*row as usize] = group as u32);
        }
        RowGroups::new(&keep.iter().map(|row| numbers[*row]).collect::<Vec<u32>>())
    }

    /// Returns the groups that have any of these rows of the table, with all rows of each, in their order.
    ///
    /// ```
    /// use taiga_core::dataset::row_groups::RowGroups;
    /// let groups = RowGroups::new(&[7, 3, 7, 5, 3]).with_any_of(3..5);
    /// assert_eq!((groups.all_rows(), groups.starts()), (&[1, 4, 3][..], &[0, 2, 3][..]));
    /// ```
    pub fn with_any_of(&self, rows: Range<usize>) -> RowGroups {
        let (mut own, mut starts) = (vec![], vec![0]);
        for group in (0..self.len()).map(|group| self.rows(group)) {
            let at = group.partition_point(|row| (*row as usize) < rows.start);
            if group.get(at).is_some_and(|row| (*row as usize) < rows.end) {
                own.extend_from_slice(group);
                starts.push(own.len() as u32);
            }
        }
        RowGroups { rows: own, starts }
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All rows, group after group.
    pub fn all_rows(&self) -> &[u32] {
        &self.rows
    }

    /// Where each group begins in [`RowGroups::all_rows`], and where the last one ends.
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// Returns where the rows of a group stand in [`RowGroups::all_rows`].
    pub fn range(&self, group: usize) -> Range<usize> {
        self.starts[group] as usize..self.starts[group + 1] as usize
    }

    /// Returns the rows of a group.
    pub fn rows(&self, group: usize) -> &[u32] {
        &self.rows[self.range(group)]
    }

    /// Returns the number of rows of the largest group.
    pub fn longest(&self) -> usize {
        (0..self.len()).map(|group| self.range(group).len()).max().unwrap_or(0)
    }

    /// Checks that the rows of each group are all held out, or none of them.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the first group that is divided.
    pub fn check_held_out(&self, held_out: &[bool]) -> Result<()> {
        for group in 0..self.len() {
            let rows = self.rows(group);
            let out = rows.iter().filter(|row| held_out[**row as usize]).count();
            if out != 0 && out != rows.len() {
                let text = format!(
                    "holds out {out} of the {} rows of the group that begins in row {}: groups are held out as a whole or not at all",
                    rows.len(),
                    rows[0]
                );
                return Err(Error::parameter("eval", text).of_values());
            }
        }
        Ok(())
    }

    /// Checks that the rows of each group are of one fold, or of none.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the first group that is divided.
    pub fn check_folds(&self, folds: &[u32]) -> Result<()> {
        for group in 0..self.len() {
            let rows = self.rows(group);
            if rows.iter().any(|row| folds[*row as usize] != folds[rows[0] as usize]) {
                let text = format!(
                    "divide the group that begins in row {}: the rows of a group of a ranking are of one fold, or of none",
                    rows[0]
                );
                return Err(Error::parameter("folds", text).of_values());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::folds::NO_FOLD;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_row_stands_in_its_group_once(numbers in prop::collection::vec(0u32..9, 0..200)) {
            let groups = RowGroups::new(&numbers);
            let mut seen: Vec<u32> = groups.all_rows().to_vec();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..numbers.len() as u32).collect::<Vec<_>>());
            let mut firsts = vec![];
            for group in 0..groups.len() {
                let rows = groups.rows(group);
                prop_assert!(rows.is_sorted() && !rows.is_empty());
                prop_assert!(rows.iter().all(|row| numbers[*row as usize] == numbers[rows[0] as usize]));
                firsts.push(rows[0]);
            }
            prop_assert!(firsts.is_sorted());
            prop_assert_eq!(groups.len(), numbers.iter().collect::<std::collections::BTreeSet<_>>().len());
        }

        #[test]
        fn groups_of_some_rows_are_those_of_their_numbers(numbers in prop::collection::vec(0u32..5, 1..100), every in 1usize..4) {
            let keep: Vec<usize> = (0..numbers.len()).step_by(every).collect();
            let of_numbers = RowGroups::new(&keep.iter().map(|row| numbers[*row]).collect::<Vec<_>>());
            prop_assert_eq!(RowGroups::new(&numbers).of_rows(&keep), of_numbers);
        }
    }

    #[test]
    fn a_divided_group_is_named() {
        let groups = RowGroups::new(&[0, 0, 1, 1]);
        assert!(groups.check_held_out(&[true, true, false, false]).is_ok());
        let fault = groups.check_held_out(&[true, true, false, true]).unwrap_err().to_string();
        assert!(fault.contains("`eval`") && fault.contains("1 of the 2 rows") && fault.contains("row 2"), "{fault}");
        assert!(groups.check_folds(&[1, 1, NO_FOLD, NO_FOLD]).is_ok());
        let fault = groups.check_folds(&[0, 0, 1, NO_FOLD]).unwrap_err().to_string();
        assert!(fault.contains("`folds`") && fault.contains("row 2"), "{fault}");
    }
}
