//! How often each category occurs.

use super::group::totals;
use super::statistic::RowCount;

/// Returns the number of rows of each category.
///
/// # Panics
/// When a code is not below `categories`.
///
/// ```
/// assert_eq!(taiga_core::encoding::count::counts(&[0, 1, 0], 3), [2, 1, 0]);
/// ```
pub fn counts(codes: &[u32], categories: usize) -> Vec<u32> {
    totals(&RowCount, codes.len(), categories, |row| codes[row] as usize)
}
