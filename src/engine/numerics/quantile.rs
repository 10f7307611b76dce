//! Weighted quantiles that do not depend on the order of the rows.

/// The weighted quantile `alpha` of `(value, weight)` pairs: the smallest value at which the
/// weights up to it reach the share `alpha` of their sum, and halfway to the next one where they
/// reach it exactly. 0 without any weight. Weights are added as integers (in 2⁻³² of the largest),
/// so that neither the order of the pairs nor that of equal values matters. Sorts `pairs`.
///
/// ```
/// use taiga_engine::numerics::quantile::weighted_quantile;
/// assert_eq!(weighted_quantile(&mut [(3.0, 1.0), (1.0, 1.0), (2.0, 1.0)], 0.5), 2.0);
/// assert_eq!(weighted_quantile(&mut [(1.0, 1.0), (2.0, 1.0)], 0.5), 1.5);
/// assert_eq!(weighted_quantile(&mut [(1.0, 3.0), (2.0, 1.0)], 0.5), 1.0);
/// ```
pub fn weighted_quantile(pairs: &mut [(f32, f32)], alpha: f64) -> f64 {
    let largest = pairs.iter().fold(0.0f32, |m, p| m.max(p.1)) as f64;
    if largest <= 0.0 {
        return 0.0;
    }
    let integer = |w: f32| (w as f64 / largest * 4_294_967_296.0) as u64 as u128;
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let total: u128 = pairs.iter().map(|p| integer(p.1)).sum();
    // In f64 alike on every machine; compared with exact sums.
    let wanted = total as f64 * alpha;
    let mut sum = 0u128;
    for (i, p) in pairs.iter().enumerate() {
        sum += integer(p.1);
        if sum as f64 == wanted {
            let next = pairs[i + 1..].iter().find(|q| q.1 > 0.0).map_or(p.0, |q| q.0);
            return 0.5 * (p.0 as f64 + next as f64);
        }
        if sum as f64 > wanted {
            return p.0 as f64;
        }
    }
    pairs.last().map_or(0.0, |p| p.0 as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::random::{Purpose, Random};

    /// The quantile minimises the pinball loss, whatever the order of the pairs.
    #[test]
    fn it_minimises_the_pinball_loss() {
        let random = Random::new(1, Purpose::RowSample, 0);
        for n in [1usize, 2, 3, 10, 101] {
            for alpha in [0.1, 0.5, 0.9] {
                let mut pairs: Vec<(f32, f32)> =
                    (0..n as u64).map(|i| ((random.u64(i) % 20) as f32, 0.5 * (1 + random.u64(i + 1000) % 3) as f32)).collect();
                let loss = |q: f64| -> f64 {
                    pairs
                        .iter()
                        .map(|(v, w)| {
                            let e = *v as f64 - q;
                            *w as f64 * if e > 0.0 { alpha * e } else { (alpha - 1.0) * e }
                        })
                        .sum()
                };
                let least = pairs.iter().map(|p| loss(p.0 as f64)).fold(f64::INFINITY, f64::min);
                let mut reversed: Vec<_> = pairs.iter().rev().copied().collect();
                let q = weighted_quantile(&mut reversed, alpha);
                assert!(loss(q) <= least + 1e-9, "{n} {alpha}");
                assert_eq!(q, weighted_quantile(&mut pairs, alpha));
            }
        }
        assert_eq!(weighted_quantile(&mut [], 0.5), 0.0);
        assert_eq!(weighted_quantile(&mut [(5.0, 0.0)], 0.5), 0.0);
    }
}
