//! How often each row counts in a tree.

use super::params::Bootstrap;
use crate::numerics::random::{Purpose, Random, below};

/// Returns how many times each of `rows` rows is drawn for tree `tree`: `draws` draws with replacement, each row as likely as any
/// other (a multinomial sample; Breiman, "Bagging predictors", 1996); every row once where `bootstrap` is false.
///
/// ```
/// use taiga_core::learners::forest::{bootstrap::counts, params::Bootstrap};
/// assert_eq!(counts(Bootstrap::Flag(true), 1000, 7, 0).iter().map(|c| *c as u32).sum::<u32>(), 1000);
/// assert_eq!(counts(Bootstrap::Fraction(0.25), 1000, 7, 0).iter().map(|c| *c as u32).sum::<u32>(), 250);
/// assert_eq!(counts(Bootstrap::Flag(false), 3, 7, 0), [1, 1, 1]);
/// ```
pub fn counts(bootstrap: Bootstrap, rows: usize, seed: u64, tree: u32) -> Vec<u16> {
    let Some(draws) = bootstrap.draws(rows) else { return vec![1; rows] };
    let random = Random::new(seed, Purpose::ForestRows, tree as u64);
    let mut counts = vec![0u16; rows];
    for i in 0..draws as u64 {
        let count = &mut counts[below(random.u64(i), rows as u32) as usize];
        // No row of more than 65,535 is ever drawn so often.
        *count = count.saturating_add(1);
    }
    counts
}
