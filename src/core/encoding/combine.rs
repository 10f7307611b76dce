//! One categorical column from several: the tuple of their values as a category.

use crate::column::distinct::{self, Chunks, Integer};
use crate::error::{Error, Result};
use crate::memory;
use std::ops::Range;

/// Returns a dense code for each row, the same for the same tuple of codes, numbered by first appearance; and how many there are.
/// `columns` are codes and the number that they are below, all of the same length.
///
/// # Errors
/// [`Error::Data`] when there is no column, or their lengths differ.
///
/// ```
/// use taiga_core::encoding::combine::combine;
/// let (codes, count) = combine(&[(&[0, 1, 0, 0], 2), (&[0, 0, 1, 0], 2)]).unwrap();
/// assert_eq!((codes, count), (vec![0, 1, 2, 0], 3));
/// ```
pub fn combine(columns: &[(&[u32], usize)]) -> Result<(Vec<u32>, usize)> {
    let Some((first, others)) = columns.split_first() else { return Err(Error::Data("there are no columns to combine".into())) };
    // The codes so far and the next ones.
    let bytes = if others.is_empty() { 4 } else { 8 } * first.0.len() as u64;
    let _reserved = memory::reserve(&format!("the combinations of {} rows", first.0.len()), bytes, "combine fewer rows")?;
    let (mut codes, mut count) = (first.0.to_vec(), first.1);
    for (other, other_count) in others {
        if other.len() != codes.len() {
            return Err(Error::Data(format!("the columns have {} and {} rows", codes.len(), other.len())));
        }
        // A perfect hash of the pair; integers that lie close together need no other.
        let key = |row: usize| codes[row] as u64 * *other_count as u64 + other[row] as u64;
        let read = |_: usize, rows: Range<usize>, out: &mut [Option<i64>]| {
            out.iter_mut().zip(rows).for_each(|(out, row)| *out = Some(key(row).short()));
        };
        let coded = distinct::integers(&Chunks::new([codes.len()]), &read);
        (codes, count) = (coded.codes, coded.keys.len());
    }
    Ok((codes, count))
}
