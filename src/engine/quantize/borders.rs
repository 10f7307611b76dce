//! Borders from a sample.
use super::BorderMethod;

/// At most `max_borders` ascending borders for `sample` (in any order; NaN is skipped); none for
/// fewer than two distinct values.
pub fn borders(sample: &[f64], max_borders: usize, method: BorderMethod) -> Vec<f64> {
    let _ = (sample, max_borders, method);
    unimplemented!()
}

/// The rows of the seeded sample that borders are fitted on: all of `0..n` where `n <= size`,
/// else `size` distinct ones in ascending order.
pub fn sample_rows(n: usize, size: usize, seed: u64) -> Vec<usize> {
    let _ = (n, size, seed);
    unimplemented!()
}
