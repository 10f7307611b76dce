//! Decimals as numbers.

/// The powers of ten that f64 holds exactly.
const POWERS: [f64; 23] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22];

/// Returns the f64 that is nearest to `x / 10^scale`, on every machine.
///
/// ```
/// use taiga_core::column::decimal::nearest;
/// assert_eq!(nearest(-125, 2), -1.25);
/// assert_eq!(nearest(7_205_759_403_792_793_701, 2), 72_057_594_037_927_937.01);
/// ```
#[inline]
pub fn nearest(x: i128, scale: u32) -> f64 {
    const EXACT: u128 = 1 << f64::MANTISSA_DIGITS;
    match POWERS.get(scale as usize) {
        // A quotient of two exact numbers is rounded once.
        Some(power) if x.unsigned_abs() <= EXACT => x as f64 / power,
        _ => by_text(x, scale),
    }
}

/// Returns it by way of its digits, which are read to the nearest number whatever their length.
#[cold]
fn by_text(x: i128, scale: u32) -> f64 {
    format!("{x}e-{scale}").parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    /// Returns `x / 10^scale` from below and from above, as far as 128 bits tell: whether `found` is no further from it than its neighbours.
    fn is_nearest(x: i128, scale: u32, found: f64) -> bool {
        let ten = 10i128.pow(scale);
        // Distances in units of 10^-scale, exact for whole numbers, to which these are compared.
        let distance = |y: f64| (x - (y as i128) * ten).abs();
        [found.next_up(), found.next_down()].into_iter().all(|other| distance(found) <= distance(other))
    }

    /// Proves that quotients are rounded once, where both sides are exact in f64, and where neither is.
    #[test]
    fn quotients_are_the_nearest() {
        assert_eq!(nearest(0, 38), 0.0);
        assert_eq!(nearest(1, 38), 1e-38);
        assert_eq!(nearest(-(10i128.pow(38) - 1), 38), -1.0);
        assert_eq!(nearest(i128::MIN, 0), -(2f64.powi(127)));
        assert_eq!(nearest(123_456_789_012_345_678, 17), "1.23456789012345678".parse::<f64>().unwrap());
        for scale in [23, 25, 27, 30, 36, 38] {
            assert_eq!(nearest(7, scale), format!("7e-{scale}").parse::<f64>().unwrap(), "{scale}");
        }
        // Of whole numbers of more than 53 bits, which lie apart, the nearest is told in integers.
        let mut state = 1u128;
        for i in 0..2_000 {
            state = state.wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645).wrapping_add(0x5851_F42D_4C95_7F2D);
            let (x, scale) = (((state >> 4) % 10u128.pow(38)) as i128, i % 12);
            assert!(is_nearest(x, scale, nearest(x, scale)), "{x} {scale}");
            assert_eq!(nearest(-x, scale), -nearest(x, scale));
        }
    }
}
