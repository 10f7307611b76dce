//! Hashes of numbers and texts for tables whose keys come from bytes that anyone may have written.
//!
//! Each process draws a key of its own, so that nobody can choose keys that all fall on one place of a table, which would take
//! time by the square of their number. Nothing that a table is asked depends on the key.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Returns the process's key.
fn key() -> [u64; 2] {
    static KEY: OnceLock<[u64; 2]> = OnceLock::new();
    *KEY.get_or_init(|| {
        let random = RandomState::new();
        [random.hash_one(0u64), random.hash_one(1u64)]
    })
}

/// Returns the product of two numbers, its halves folded into one: every bit of each counts for bits everywhere.
#[inline(always)]
fn folded(a: u64, b: u64) -> u64 {
    let wide = a as u128 * b as u128;
    wide as u64 ^ (wide >> 64) as u64
}

/// Hashes by the process's key.
#[derive(Clone, Copy, Debug)]
pub struct Seeded {
    key: [u64; 2],
}

impl Default for Seeded {
    fn default() -> Self {
        Seeded { key: key() }
    }
}

impl Seeded {
    /// Hashes an integer.
    #[inline(always)]
    pub fn integer(&self, x: i128) -> u64 {
        let [a, b] = self.key;
        folded(folded(x as u64 ^ a, (x >> 64) as u64 ^ b) ^ b, a | 1)
    }

    /// Hashes a text.
    #[inline(always)]
    pub fn text(&self, text: &str) -> u64 {
        xxh3_64_with_seed(text.as_bytes(), self.key[0])
    }
}

impl BuildHasher for Seeded {
    type Hasher = SeededHasher;
    #[inline(always)]
    fn build_hasher(&self) -> SeededHasher {
        SeededHasher { key: self.key, state: 0 }
    }
}

/// See [`Seeded`].
pub struct SeededHasher {
    key: [u64; 2],
    state: u64,
}

impl Hasher for SeededHasher {
    fn finish(&self) -> u64 {
        self.state
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(*b as u64));
    }
    #[inline(always)]
    fn write_u64(&mut self, x: u64) {
        let [a, b] = self.key;
        self.state = folded(folded(self.state ^ x ^ a, b) ^ b, a | 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Keys that an unkeyed multiplication sends to one place (the inverse of its factor is public) are spread out.
    #[test]
    fn chosen_keys_do_not_fall_on_one_place() {
        let hash = Seeded::default();
        let factor = 0x9E37_79B9_7F4A_7C15u64;
        // Newton's iteration for the inverse modulo 2^64.
        let inverse = (0..6).fold(factor, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse))));
        assert_eq!(factor.wrapping_mul(inverse), 1);
        let keys = || (0..4096u64).map(|i| (i << 40).wrapping_mul(inverse));
        let places = |hash: &dyn Fn(u64) -> u64| keys().map(|k| hash(k) & 0xFFF).collect::<HashSet<_>>().len();
        assert!(places(&|k| hash.hash_one(k)) > 1500);
        assert!(places(&|k| hash.integer(k as i128)) > 1500);
        // Integers whose upper half takes back what the lower half says.
        let chosen = (0..4096u64).map(|high| (high as i128) << 64 | high.wrapping_mul(factor) as i128);
        assert!(chosen.map(|x| hash.integer(x) & 0xFFF).collect::<HashSet<_>>().len() > 1500);
        let dense = (-2048..2048i128).map(|x| hash.integer(x) & 0xFFF).collect::<HashSet<_>>();
        assert!(dense.len() > 1500);
    }
}
