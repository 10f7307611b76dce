//! Counter-based random numbers: a value depends on (seed, purpose, stream, index) and on nothing
//! else, so that threads, chunks and devices can't change it (Salmon et al., "Parallel random
//! numbers: as easy as 1, 2, 3", 2011; the mixer is SplitMix64's and, for 32 bits, lowbias32).

/// What a random choice is for; each purpose has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    BorderSample = 1,
    Rounding,
    RowSample,
    FeatureTree,
    FeatureLevel,
    FeatureNode,
    Permutation,
    TreePermutation,
    Folds,
    ForestRows,
    ForestNode,
    ForestShuffle,
    TargetTies,
    ImportanceShuffle,
    RankingLoss,
    HiddenRows,
    CrossValidation,
    NodeDraws,
    Dropouts,
}

/// Mixes 64 bits by SplitMix64's finalizer.
#[inline(always)]
fn mix64(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns a number in `0..n` from 64 random bits, of which the upper 32 count (Lemire, "Fast random integer generation in an
/// interval", 2019, without the rejection: off from uniform by less than n / 2^32).
#[inline(always)]
pub fn below(bits: u64, n: u32) -> u32 {
    (((bits >> 32) * n as u64) >> 32) as u32
}

/// A stream of random numbers addressed by index.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    key: u64,
}

impl Random {
    /// Returns the stream `stream` (a tree's number, say) of `purpose` under `seed`.
    pub fn new(seed: u64, purpose: Purpose, stream: u64) -> Self {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let key = mix64(seed.wrapping_add(GOLDEN));
        let key = mix64(key ^ (purpose as u64).wrapping_mul(GOLDEN));
        Random { key: mix64(key ^ stream.wrapping_add(1).wrapping_mul(GOLDEN)) }
    }

    /// Returns the numbers by which the derivatives of a tree's rows are rounded. They are those of seed 0 whatever a fit's seed is, as nothing
    /// is chosen by them: so a seed changes a model only where something is drawn.
    pub fn rounding(tree: u64) -> Self {
        Random::new(0, Purpose::Rounding, tree)
    }

    /// Returns a stream of its own for each `side` of this one, as for the children of a node.
    #[inline(always)]
    pub fn child(&self, side: u64) -> Self {
        Random { key: mix64(self.key ^ (side + 1).wrapping_mul(0xD1B5_4A32_D192_ED03)) }
    }

    /// Returns the stream of a key that [`Random::key`] gave.
    pub fn from_key(key: u64) -> Self {
        Random { key }
    }

    /// Returns what the numbers of this stream are made from, for a device's own.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Returns 64 random bits.
    #[inline(always)]
    pub fn u64(&self, index: u64) -> u64 {
        mix64(self.key.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// Returns 32 random bits by 32-bit operations alone, for inner loops.
    #[inline(always)]
    pub fn u32(&self, index: u32) -> u32 {
        let mut x = index.wrapping_mul(0x9E37_79B9) ^ self.key as u32;
        x = (x ^ (x >> 16)).wrapping_mul(0x21F0_AAAD).wrapping_add((self.key >> 32) as u32);
        x = (x ^ (x >> 15)).wrapping_mul(0xD35A_2D97);
        x ^ (x >> 15)
    }

    /// Returns a number in [0, 1) with 53 random bits.
    #[inline(always)]
    pub fn unit(&self, index: u64) -> f64 {
        (self.u64(index) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number that is nearly normal, of mean 0 and variance 1, at most 4.9 from 0: the sum of eight uniform ones of 16 bits.
    pub fn near_normal(&self, index: u64) -> f64 {
        let parts = |bits: u64| (0..4).map(|i| (bits >> (16 * i)) & 0xffff).sum::<u64>();
        let sum = parts(self.u64(2 * index)) + parts(self.u64(2 * index + 1));
        // Eight uniform numbers have a variance of 8 / 12.
        (sum as f64 - 4.0 * 65_535.0) / 65_536.0 * 1.224_744_871_391_589
    }

    /// Draws `count` of the numbers `0..n` in ascending order, each set as likely as any other.
    pub fn choose(&self, n: usize, count: usize) -> Vec<usize> {
        let mut keys: Vec<(u64, usize)> = (0..n).map(|i| (self.u64(i as u64), i)).collect();
        keys.sort_unstable();
        let mut chosen: Vec<usize> = keys[..count.min(n)].iter().map(|k| k.1).collect();
        chosen.sort_unstable();
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_balanced_and_streams_differ() {
        for purpose in [Purpose::Rounding, Purpose::RowSample] {
            let (a, b) = (Random::new(7, purpose, 0), Random::new(7, purpose, 1));
            let n = 100_000u32;
            for bit in 0..32 {
                let ones = (0..n).filter(|i| a.u32(*i) >> bit & 1 == 1).count() as f64;
                assert!((ones - 50_000.0).abs() < 1_000.0, "bit {bit}: {ones}");
                let agree = (0..n).filter(|i| (a.u32(*i) ^ b.u32(*i)) >> bit & 1 == 1).count() as f64;
                assert!((agree - 50_000.0).abs() < 1_000.0, "bit {bit}: {agree}");
            }
            let mean = (0..n).map(|i| a.unit(i as u64)).sum::<f64>() / n as f64;
            assert!((mean - 0.5).abs() < 0.005);
        }
    }

    #[test]
    fn near_normal_numbers_have_the_moments_of_normal_ones() {
        let r = Random::new(5, Purpose::NodeDraws, 2);
        let n = 200_000;
        let mean = |power: i32| (0..n).map(|i| r.near_normal(i).powi(power)).sum::<f64>() / n as f64;
        assert!(mean(1).abs() < 0.01 && (mean(2) - 1.0).abs() < 0.01 && mean(3).abs() < 0.03);
        // The kurtosis of a sum of eight is 3 - 1.2 / 8.
        assert!((mean(4) - 2.85).abs() < 0.06, "{}", mean(4));
    }

    #[test]
    fn choose_is_ascending_distinct_and_complete() {
        let r = Random::new(1, Purpose::FeatureTree, 3);
        let c = r.choose(100, 30);
        assert_eq!(c.len(), 30);
        assert!(c.windows(2).all(|w| w[0] < w[1]) && c[29] < 100);
        assert_eq!(r.choose(5, 9), vec![0, 1, 2, 3, 4]);
    }
}
