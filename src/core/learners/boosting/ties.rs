//! Targets that many rows share, under losses whose derivative jumps at the target.
//!
//! Under a quantile's loss a row's gradient is `-alpha` below its target and `1 - alpha` above it. Where the best value of
//! a leaf lies between the targets of its rows, their gradients add up to nearly nothing there, and no split gains any
//! more. Where it lies on a target that many of them share (one that was capped, or is zero for most), they don't: the
//! rows on it have no gradient, those beside it are left with a sum that no leaf value can lower, and what a split seems
//! to gain it seems to gain again in every round, while its leaves stay where they are.
//!
//! So a target that many rows share is spread over an interval around it, small beside what there is to learn: then the
//! loss has a derivative there, which is zero at the optimum (jittering, as of Machado and Santos Silva, "Quantiles for
//! Counts", 2005).

use crate::numerics::random::{Purpose, Random};
use crate::numerics::reduce::sum;
use rayon::prelude::*;

/// Rows that a thread takes at a time.
const ROWS: usize = 1 << 16;

/// How far a target is spread to either side, as a share of the targets' mean distance from the start value. Leaves come
/// as near as that after 66 rounds at a learning rate of 0.1.
const WIDTH: f64 = 1.0 / 1024.0;

/// Spreads the targets that many of the rows share that count: at least the square root of their number, since fewer
/// leave no larger sum of gradients than rows do by chance. All others stay what they are, bit for bit.
///
/// `target`: the targets' distances from the start value. How far a row's target moves depends on the row's number, on
/// no seed.
pub fn spread(target: &mut [f32], counts: impl Fn(usize) -> bool + Sync) {
    let common = common(target, &counts);
    if common.is_empty() {
        return;
    }
    let rows = sum(target.len(), |row| counts(row) as u8 as f64);
    let distance = sum(target.len(), |row| if counts(row) { target[row].abs() as f64 } else { 0.0 });
    let width = WIDTH * distance / rows;
    let random = Random::new(0, Purpose::TargetTies, 0);
    target.par_iter_mut().with_min_len(ROWS).enumerate().for_each(|(row, target)| {
        if common.binary_search(&key(*target)).is_ok() {
            *target = (*target as f64 + width * (2.0 * random.unit(row as u64) - 1.0)) as f32;
        }
    });
}

/// Returns what equal targets have in common; both zeros are one.
fn key(target: f32) -> u32 {
    (target + 0.0).to_bits()
}

/// Returns the keys of the targets that many rows share, ascending.
fn common(target: &[f32], counts: &(impl Fn(usize) -> bool + Sync)) -> Vec<u32> {
    let rows = target.par_iter().with_min_len(ROWS).enumerate();
    let mut keys: Vec<u32> = rows.filter(|(row, _)| counts(*row)).map(|(_, target)| key(*target)).collect();
    keys.par_sort_unstable();
    let many = (libm::ceil(libm::sqrt(keys.len() as f64)) as usize).max(2);
    keys.chunk_by(|a, b| a == b).filter(|run| run.len() >= many).map(|run| run[0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Targets that fewer rows share than the square root of their number keep their bits; the others lie evenly around
    /// what they were, nearer to it than a thousandth of the mean distance. Rows that don't count are not counted.
    #[test]
    fn only_common_targets_are_spread() {
        let rows = 10_000;
        // 5 000 zeros of both signs, 100 times 3, 99 times 7, and 4 801 that are alone.
        let mut target: Vec<f32> = (0..rows).map(|i| i as f32).collect();
        (0..5_000).for_each(|i| target[i] = if i % 2 == 0 { 0.0 } else { -0.0 });
        target[5_000..5_100].fill(3.0);
        target[5_100..5_199].fill(7.0);
        let before = target.clone();
        spread(&mut target, |_| true);
        assert_eq!(
            target[5_100..].iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            before[5_100..].iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        );
        let width = before.iter().map(|x| *x as f64).sum::<f64>() / rows as f64 / 1024.0;
        let moved: Vec<f64> = target[..5_000].iter().map(|x| *x as f64 / width).collect();
        assert!(moved.iter().all(|x| x.abs() <= 1.0));
        for share in [-0.6, 0.0, 0.6] {
            let below = moved.iter().filter(|x| **x < share).count() as f64 / 5_000.0;
            assert!((below - 0.5 * (share + 1.0)).abs() < 0.03, "{below} of the rows below {share}");
        }
        assert!(target[5_000..5_100].iter().all(|x| *x != 3.0 && (*x as f64 - 3.0).abs() <= width + 1e-6));

        let mut target = before.clone();
        spread(&mut target, |row| row >= 5_050);
        assert_eq!(target[5_000..5_100], [3.0; 100], "50 rows that count share it");
        assert!(target[5_100..5_199].iter().all(|x| *x != 7.0), "99 of 4 950 rows share it");
        let mut alone: Vec<f32> = (0..100).map(|i| i as f32).collect();
        spread(&mut alone, |_| true);
        assert!(alone.iter().enumerate().all(|(i, x)| *x == i as f32));
        spread(&mut [], |_| true);
        let mut equal = [0.0; 9];
        spread(&mut equal, |_| true);
        assert_eq!(equal, [0.0; 9]);
    }
}
