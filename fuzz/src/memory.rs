//! Memory in proportion to an input.

use taiga_testing::allocator::peak;

/// Two lists that are being read may each have been promised a half of this.
const LISTS: usize = 8 << 20;

/// Holds `work` to so many bytes for each of `bytes`, and 8 MiB.
pub fn bounded<T>(what: &str, bytes: usize, each: usize, work: impl FnOnce() -> T) -> T {
    bounded_above(LISTS, what, bytes, each, work)
}

/// Holds `work` to so many bytes for each of `bytes`, and `least`.
pub fn bounded_above<T>(least: usize, what: &str, bytes: usize, each: usize, work: impl FnOnce() -> T) -> T {
    let (result, peak) = peak(work);
    assert!(peak <= least + each * bytes, "{what}: {peak} bytes held for {bytes}");
    result
}
