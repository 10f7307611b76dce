//! Borders from a sample of a feature's values.
//!
//! Every method works on the distinct values and the rows of each (`sort.rs`) and cuts between
//! neighbours; the border of a cut is the midpoint of the two, so that small changes of a value
//! on either side don't change its bin.

use super::BorderMethod;
use super::greedy::greedy;
use super::sort::{Distinct, Heavy, SortedValues, heavy_value, is_narrow};
use crate::column::Column;
use crate::error::Result;
use crate::numerics::random::{Purpose, Random};

/// Chooses at most `max_borders` ascending borders for `sample` (in any order; NaN is skipped); none for
/// fewer than two distinct values.
///
/// A border `b` separates the values `x <= b` from those `x > b`. Borders ascend strictly, are
/// never NaN, never +∞ and never -0.0. Where the distinct values fit, that is where there are at
/// most `max_borders + 1` of them, each has a bin of its own under every method.
///
/// Quantile follows the idea of LightGBM's `GreedyFindBin` (Ke et al., 2017), the greedy methods
/// that of CatBoost's `GreedyLogSum` and `GreedyMinEntropy` (Prokhorenkova et al., 2018).
///
/// ```
/// use taiga_core::quantize::{BorderMethod, borders::borders};
/// let sample = [3.0, 1.0, 2.0, f64::NAN, 2.0];
/// assert_eq!(borders(&sample, 254, BorderMethod::Quantile), [1.5, 2.5]);
/// assert_eq!(borders(&sample, 1, BorderMethod::Uniform), [2.0]);
/// assert!(borders(&[7.0, 7.0], 254, BorderMethod::Quantile).is_empty());
/// ```
pub fn borders(sample: &[f64], max_borders: usize, method: BorderMethod) -> Vec<f64> {
    // Where most rows have one value, the others alone are sorted.
    let mut rest = vec![];
    let heavy = heavy_value(sample, &mut rest);
    let sample = if heavy.is_some() { &rest } else { sample };
    let found = if is_narrow(sample) && heavy.is_none_or(|(x, _)| is_narrow(&[x])) {
        borders_of(&Distinct::<u32>::with(sample, heavy), max_borders, method)
    } else {
        borders_of(&Distinct::<u64>::with(sample, heavy), max_borders, method)
    };
    // Values in this process's memory can be had.
    found.unwrap_or_default()
}

/// Chooses [`borders`] of values that are sorted and counted.
///
/// # Errors
/// Those of `values`.
pub fn borders_of(values: &impl SortedValues, max_borders: usize, method: BorderMethod) -> Result<Vec<f64>> {
    let n = values.distinct();
    if max_borders == 0 || n < 2 {
        return Ok(vec![]);
    }
    let cuts = if n - 1 <= max_borders {
        (1..n).collect()
    } else {
        match method {
            BorderMethod::Quantile => quantile(values, max_borders + 1)?,
            BorderMethod::Uniform => {
                let borders = uniform(values, max_borders)?;
                if !borders.is_empty() {
                    return Ok(borders);
                }
                // One finite value between -∞ and +∞: there are no steps to take.
                quantile(values, max_borders + 1)?
            }
            BorderMethod::GreedyLogsum => greedy(values, max_borders, |rows| -libm::log(rows))?,
            BorderMethod::MinMaxEntropy => greedy(values, max_borders, |rows| rows * libm::log(rows))?,
        }
    };
    let neighbours: Vec<usize> = cuts.into_iter().flat_map(|i| [i - 1, i]).collect();
    Ok(values.values(&neighbours)?.chunks_exact(2).map(|pair| midpoint(pair[0], pair[1])).collect())
}

/// How the borders of a column are fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BorderParams {
    /// The largest number of bins, 2 or more: k bins have k - 1 borders.
    pub bins: usize,
    pub method: BorderMethod,
    /// The number of rows that they are fitted on, drawn by `seed`.
    pub sample: usize,
    pub seed: u64,
}

impl BorderParams {
    /// Returns the largest number of borders: one fewer than bins.
    pub fn borders(&self) -> usize {
        self.bins.saturating_sub(1)
    }

    /// Returns the rows of a column of `n` that borders are fitted on; none for all of them.
    pub fn sampled(&self, n: usize) -> Option<Vec<usize>> {
        (self.sample < n).then(|| sample_rows(n, self.sample, self.seed))
    }
}

/// Chooses [`borders`] of a sample of the values of `column` ([`sample_rows`]); nulls and NaN are skipped.
///
/// ```
/// use taiga_core::column::Column;
/// use taiga_core::quantize::{BorderMethod, borders::{BorderParams, fit_borders}};
/// let values: Vec<f32> = (0..1000).map(|i| i as f32).collect();
/// let params = BorderParams { bins: 4, method: BorderMethod::Quantile, sample: 200_000, seed: 7 };
/// assert_eq!(fit_borders(&Column::from_f32("x", &values), &params), [249.5, 499.5, 749.5]);
/// ```
pub fn fit_borders(column: &Column<'_>, params: &BorderParams) -> Vec<f64> {
    let sample = match params.sampled(column.len()) {
        Some(rows) => column.gather_f64(&rows),
        None => column.to_f64(),
    };
    borders(&sample, params.borders(), params.method)
}

/// Returns the rows of the seeded sample that borders are fitted on: all of `0..n` where `n <= size`, else `size` distinct ones
/// in ascending order, one out of each of `size` equal stretches of rows.
///
/// ```
/// use taiga_core::quantize::borders::sample_rows;
/// assert_eq!(sample_rows(3, 10, 7), [0, 1, 2]);
/// assert_eq!(sample_rows(1_000_000, 10, 7).len(), 10);
/// ```
pub fn sample_rows(n: usize, size: usize, seed: u64) -> Vec<usize> {
    if n <= size {
        return (0..n).collect();
    }
    let random = Random::new(seed, Purpose::BorderSample, 0);
    let mut first = 0;
    (0..size)
        .map(|i| {
            let row = ((i as f64 + random.unit(i as u64)) * n as f64 / size as f64) as usize;
            // A row on the edge of two stretches may be drawn by both: the second takes the next
            // one. And there is a row left for each stretch to come, however the product rounds.
            let row = row.clamp(first, n - (size - i));
            first = row + 1;
            row
        })
        .collect()
}

/// Returns a number `m` with `a <= m < b`, in the middle where there is one; for `a < b`.
pub fn midpoint(a: f64, b: f64) -> f64 {
    let m = a + (b - a) / 2.0;
    // b - a overflows for two huge values of different signs.
    let m = if m.is_finite() { m } else { a / 2.0 + b / 2.0 };
    if a <= m && m < b { m } else { a }
}

/// Steps of equal width between the smallest and the largest finite value; for three values and more.
fn uniform(values: &impl SortedValues, max_borders: usize) -> Result<Vec<f64>> {
    // Infinite ones are the first and the last.
    let n = values.distinct();
    let mut ends = vec![0, 1, n - 2, n - 1];
    ends.dedup();
    let finite: Vec<f64> = values.values(&ends)?.into_iter().filter(|x| x.is_finite()).collect();
    let [low, .., high] = finite[..] else { return Ok(vec![]) };
    let width = high - low;
    let mut borders: Vec<f64> = vec![];
    for i in 1..=max_borders {
        let t = i as f64 / (max_borders + 1) as f64;
        // Adding 0.0 turns -0.0 into 0.0.
        let border = 0.0 + if width.is_finite() { low + width * t } else { low * (1.0 - t) + high * t };
        // In a range of a few representable numbers, steps fall together.
        if border >= low && border < high && borders.last().is_none_or(|&last| last < border) {
            borders.push(border);
        }
    }
    Ok(borders)
}

/// Values `start..end`, and the rows before the first and behind the last of them.
#[derive(Clone, Copy)]
struct Stretch {
    start: usize,
    end: usize,
    before: usize,
    up_to: usize,
}

/// Bins with as many rows in each as ties allow. Cuts: ascending indices of the first value of
/// each bin but the first.
///
/// A heavy value, one with at least the rows of an average bin, gets a bin of its own; the
/// stretches of light values between heavy ones share the remaining bins by their rows. A stretch
/// too small for a bin joins the heavy value behind it (the last one: the one before it).
fn quantile(values: &impl SortedValues, bins: usize) -> Result<Vec<usize>> {
    let (n, total) = (values.distinct(), values.rows_before(values.distinct())?);
    let heavy = values.heavy_values(bins)?;
    let mut rest_bins = bins - heavy.len();
    let mut rest_rows = total - heavy.iter().map(|h| h.rows).sum::<usize>();
    let mut cuts = vec![];
    let (mut start, mut before) = (0, 0);
    for Heavy { index: end, before: up_to, rows: own } in heavy.into_iter().chain([Heavy { index: n, before: total, rows: 0 }]) {
        // Light values start..end, then the heavy value `end`.
        let rows = up_to - before;
        let share = if rows == 0 { 0 } else { ((rows * rest_bins + rest_rows / 2) / rest_rows).min(end - start) };
        rest_bins -= share;
        rest_rows -= rows;
        if share > 0 {
            cuts.push(start);
            equal_frequency(values, Stretch { start, end, before, up_to }, share, &mut cuts)?;
        }
        if end < n {
            cuts.push(if share == 0 { start } else { end });
        }
        (start, before) = (end + 1, up_to + own);
    }
    cuts.retain(|&cut| cut > 0);
    Ok(cuts)
}

/// Cuts that are told ahead at a time: further on, ties have moved them.
const AHEAD: usize = 512;

/// Returns the rows before the cuts of `bins` bins where no two rows have the same value.
fn cuts_without_ties(mut before: usize, up_to: usize, bins: usize) -> impl Iterator<Item = usize> {
    (2..=bins).rev().map(move |bins| {
        before += (up_to - before + bins / 2) / bins;
        before
    })
}

/// Cuts a stretch of values into `bins` (at most one a value) with nearly the same number of rows.
fn equal_frequency(values: &impl SortedValues, stretch: Stretch, bins: usize, cuts: &mut Vec<usize>) -> Result<()> {
    let Stretch { mut start, end, mut before, up_to } = stretch;
    for (done, bins) in (2..=bins).rev().enumerate() {
        if done % AHEAD == 0 {
            values.expect(&mut cuts_without_ties(before, up_to, bins).take(AHEAD))?;
        }
        // The ideal cut, times `bins`: each remaining bin has the same share of what is left.
        let ideal = before * bins + (up_to - before);
        // Each remaining bin needs a value: cuts are start + 1 ..= end - (bins - 1).
        let above = values.value_behind((ideal - 1) / bins, start, end - bins)? + 1;
        let (below_rows, above_rows) = (values.rows_before(above - 1)?, values.rows_before(above)?);
        let nearer_below = above > start + 1 && ideal - below_rows * bins <= (above_rows * bins).abs_diff(ideal);
        (start, before) = if nearer_below { (above - 1, below_rows) } else { (above, above_rows) };
        cuts.push(start);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const METHODS: [BorderMethod; 4] =
        [BorderMethod::Quantile, BorderMethod::Uniform, BorderMethod::GreedyLogsum, BorderMethod::MinMaxEntropy];

    /// Returns rows in each bin.
    fn histogram(sample: &[f64], borders: &[f64]) -> Vec<usize> {
        let mut rows = vec![0; borders.len() + 1];
        for x in sample.iter().filter(|x| !x.is_nan()) {
            rows[borders.iter().filter(|&b| b < x).count()] += 1;
        }
        rows
    }

    fn distinct(sample: &[f64]) -> Vec<f64> {
        let mut values: Vec<f64> = sample.iter().filter(|x| !x.is_nan()).map(|x| x + 0.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    fn normal(n: u64) -> Vec<f64> {
        let r = Random::new(3, Purpose::BorderSample, 5);
        (0..n).map(|i| (0..12).map(|k| r.unit(i * 12 + k)).sum::<f64>() - 6.0).collect()
    }

    fn any_value() -> impl Strategy<Value = f64> {
        prop_oneof![
            3 => any::<u64>().prop_map(f64::from_bits),
            3 => any::<u32>().prop_map(|b| f64::from(f32::from_bits(b))),
            6 => (-20i32..20).prop_map(f64::from),
            3 => (0u64..40).prop_map(|b| f64::from_bits(1f64.to_bits() + b)),
            3 => (0u64..40).prop_map(f64::from_bits),
            2 => prop::sample::select(vec![
                0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 1e-300, -1e-300, f64::MAX, f64::MIN, 5e-324, -5e-324,
            ]),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn borders_ascend_strictly_fit_and_separate_values(
            sample in prop::collection::vec(any_value(), 0..400),
            max in prop_oneof![0usize..8, 0usize..300],
        ) {
            let values = distinct(&sample);
            let mut shuffled = sample.clone();
            shuffled.reverse();
            for method in METHODS {
                let b = borders(&sample, max, method);
                prop_assert!(b.len() <= max);
                prop_assert!(b.iter().all(|x| !x.is_nan() && *x != f64::INFINITY && (*x != 0.0 || x.is_sign_positive())), "{b:?}");
                prop_assert!(b.windows(2).all(|w| w[0] < w[1]), "{b:?}");
                prop_assert_eq!(&borders(&shuffled, max, method), &b, "the order of rows counts");
                if values.len() > 1 && max > 0 {
                    prop_assert!(!b.is_empty());
                    prop_assert!(values[0] <= b[0] && b[b.len() - 1] < values[values.len() - 1]);
                }
                if values.len() <= max + 1 {
                    prop_assert_eq!(b.len() + 1, values.len().max(1), "all distinct values are kept");
                }
                if method != BorderMethod::Uniform {
                    prop_assert!(values.is_empty() || histogram(&sample, &b).iter().all(|&rows| rows > 0), "an empty bin");
                }
                if matches!(method, BorderMethod::GreedyLogsum | BorderMethod::MinMaxEntropy) {
                    prop_assert_eq!(b.len(), max.min(values.len().saturating_sub(1)));
                }
            }
        }

        #[test]
        fn a_midpoint_separates_its_neighbours(a in any_value(), b in any_value()) {
            let (a, b) = if a < b { (a, b) } else { (b, a) };
            if a.is_nan() || b.is_nan() || a == b {
                return Ok(());
            }
            let m = midpoint(a + 0.0, b + 0.0);
            prop_assert!(a <= m && m < b, "{a} {m} {b}");
            if a.is_finite() && b.is_finite() && a.next_up() < b && a.next_up().next_up() < b {
                prop_assert!(a < m, "{a} {m} {b}");
            }
        }

        #[test]
        fn sampled_rows_are_distinct_ascending_and_spread(n in 0usize..3_000, size in 0usize..3_000, seed: u64) {
            let rows = sample_rows(n, size, seed);
            prop_assert_eq!(rows.len(), n.min(size));
            prop_assert!(rows.windows(2).all(|w| w[0] < w[1]) && rows.iter().all(|&r| r < n));
            // Each row lies in its stretch, or is the first one behind it.
            for (i, &row) in rows.iter().enumerate() {
                let (low, high) = (i as f64 * n as f64 / size as f64, (i + 1) as f64 * n as f64 / size as f64);
                prop_assert!(n <= size || (row as f64 > low - 1.001 && (row as f64) < high + 0.001), "{row} {low} {high}");
            }
        }
    }

    #[test]
    fn samples_differ_by_seed_and_reach_every_row() {
        assert_eq!(sample_rows(1 << 30, 1000, 1), sample_rows(1 << 30, 1000, 1));
        assert_ne!(sample_rows(1 << 30, 1000, 1), sample_rows(1 << 30, 1000, 2));
        let mut drawn = [0; 30];
        for seed in 0..3_000 {
            for row in sample_rows(30, 20, seed) {
                drawn[row] += 1;
            }
        }
        assert!(drawn.iter().all(|d| (1_200..2_900).contains(d)), "{drawn:?}");
    }

    #[test]
    fn empty_constant_and_single_values_have_no_borders() {
        for method in METHODS {
            for sample in [&[][..], &[f64::NAN; 3], &[5.0], &[5.0; 9], &[0.0, -0.0, f64::NAN], &[f64::INFINITY; 2]] {
                assert!(borders(sample, 254, method).is_empty());
            }
        }
    }

    #[test]
    fn huge_tiny_and_infinite_values_get_borders_between_them() {
        for method in METHODS {
            assert_eq!(borders(&[1e300, -1e300], 9, method), [0.0]);
            assert_eq!(borders(&[f64::MAX, f64::MIN], 9, method), [0.0]);
            assert_eq!(borders(&[1.0, f64::INFINITY], 9, method), [1.0]);
            assert_eq!(borders(&[f64::NEG_INFINITY, 1.0], 9, method), [f64::NEG_INFINITY]);
            assert_eq!(borders(&[0.0, 5e-324], 9, method), [0.0]);
            assert_eq!(borders(&[1.0, 1f64.next_up()], 9, method), [1.0]);
            assert_eq!(borders(&[0.0, 2e-300], 9, method), [1e-300]);
        }
        // One finite value between the infinities: uniform falls back on quantile.
        assert_eq!(borders(&[f64::NEG_INFINITY, 1.0, f64::INFINITY], 1, BorderMethod::Uniform).len(), 1);
    }

    #[test]
    fn quantile_bins_of_continuous_data_are_equal_to_one_row() {
        let sample = normal(20_011);
        for bins in [2, 10, 128, 255] {
            let rows = histogram(&sample, &borders(&sample, bins - 1, BorderMethod::Quantile));
            assert_eq!(rows.len(), bins);
            assert!(rows.iter().max().unwrap() - rows.iter().min().unwrap() <= 1, "{rows:?}");
        }
    }

    #[test]
    fn quantile_gives_heavy_values_bins_of_their_own() {
        // Two thirds of the rows are 0 or 1; the others are spread from -6 to 6.
        let mut sample = normal(9_000);
        sample.extend([0.0; 12_000]);
        sample.extend([1.0; 6_000]);
        let b = borders(&sample, 20, BorderMethod::Quantile);
        assert_eq!(b.len(), 20);
        for heavy in [0.0, 1.0] {
            let bin = b.iter().filter(|&&x| x < heavy).count();
            assert!(distinct(&sample).iter().filter(|&&x| b.iter().filter(|&&y| y < x).count() == bin).eq([&heavy]));
        }
        // The light rows share the 19 other bins.
        let light: Vec<usize> = histogram(&sample, &b).into_iter().filter(|&r| r < 6_000).collect();
        assert_eq!(light.len(), 19);
        assert!(light.iter().all(|r| (400..560).contains(r)), "{light:?}");
    }

    #[test]
    fn uniform_takes_equal_steps() {
        let sample: Vec<f64> = (0..=1_000).map(|i| (i * i) as f64).chain([f64::INFINITY, f64::NEG_INFINITY]).collect();
        assert_eq!(borders(&sample, 3, BorderMethod::Uniform), [250_000.0, 500_000.0, 750_000.0]);
        // The range itself is too large for an f64.
        let huge: Vec<f64> = (-8..=8).map(|i| f64::from(i) * 2f64.powi(1020)).collect();
        assert_eq!(borders(&huge, 3, BorderMethod::Uniform), [-2f64.powi(1022), 0.0, 2f64.powi(1022)]);
    }

    /// Returns the greedy search by scanning all bins and all cuts beside the median, with no heap.
    fn naive_greedy(sample: &[f64], max: usize, penalty: fn(f64) -> f64) -> Vec<f64> {
        let mut sorted: Vec<f64> = sample.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mut bins = vec![sorted];
        while bins.len() <= max {
            let mut best: Option<(f64, usize, usize)> = None;
            for (k, bin) in bins.iter().enumerate() {
                let median = bin[bin.len() / 2];
                for cut in [bin.partition_point(|&x| x < median), bin.partition_point(|&x| x <= median)] {
                    let gain = penalty(bin.len() as f64) - penalty(cut as f64) - penalty((bin.len() - cut) as f64);
                    if cut > 0 && cut < bin.len() && best.is_none_or(|b| gain > b.0) {
                        best = Some((gain, k, cut));
                    }
                }
            }
            let Some((_, k, cut)) = best else { break };
            let right = bins[k].split_off(cut);
            bins.insert(k + 1, right);
        }
        bins.windows(2).map(|w| midpoint(w[0][w[0].len() - 1], w[1][0])).collect()
    }

    proptest! {
        #[test]
        fn greedy_methods_equal_their_naive_twins(sample in prop::collection::vec((-30i32..30).prop_map(|i| (i * i * i) as f64), 1..500), max in 1usize..40) {
            prop_assert_eq!(borders(&sample, max, BorderMethod::GreedyLogsum), naive_greedy(&sample, max, |w| -libm::log(w)));
            prop_assert_eq!(borders(&sample, max, BorderMethod::MinMaxEntropy), naive_greedy(&sample, max, |w| w * libm::log(w)));
        }
    }
}
