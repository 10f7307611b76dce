//! Memory in proportion to an input.

use taiga_testing::allocator::peak;

/// Holds `work` to so many bytes for each of `bytes`, and 8 MiB: two lists that are being read may each have been promised one.
pub fn bounded<T>(what: &str, bytes: usize, each: usize, work: impl FnOnce() -> T) -> T {
    let (result, peak) = peak(work);
    assert!(peak <= (8 << 20) + each * bytes, "{what}: {peak} bytes held for {bytes}");
    result
}
