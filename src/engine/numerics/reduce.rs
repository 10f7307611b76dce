//! Reductions over rows in fixed blocks.

/// The rows of a block: block borders never depend on chunks or threads.
pub const BLOCK: usize = 4096;

/// Σ `value(row)` over `0..n` in f64: inside a block in row order, then the blocks in their order.
pub fn sum(n: usize, value: impl Fn(usize) -> f64) -> f64 {
    (0..n).step_by(BLOCK).map(|a| (a..n.min(a + BLOCK)).map(&value).sum::<f64>()).sum()
}
