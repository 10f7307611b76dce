//! Borders of trees that round values to f32 before they compare them.

/// Returns the largest f64 whose nearest f32 is smaller than `t`; infinite where there is none (`-∞`) or all are (`+∞`, for NaN too: then
/// nothing is smaller, see [`Below`]).
///
/// A value `x` goes left where `(x as f32) < t`, which is where `x` is not larger than what this returns.
pub fn border_below(t: f32) -> Below {
    if t.is_nan() || t == f32::NEG_INFINITY {
        return Below::Nothing;
    }
    let smaller = t.next_down();
    // Beyond the largest f32 the rounding goes on as if 2^128 were one.
    let beyond = 2f64.powi(128);
    let wide = |x: f32| if x.is_infinite() { beyond.copysign(x as f64) } else { x as f64 };
    // Exact: the two have neighbouring 24-bit mantissas.
    let middle = (wide(smaller) + wide(t)) / 2.0;
    // A tie goes to the even mantissa.
    let down = smaller.to_bits() & 1 == 0;
    Below::Border(if down { middle } else { middle.next_down() })
}

/// Where values are smaller than an f32 once they are rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Below {
    /// Up to and with this one.
    Border(f64),
    /// Nowhere.
    Nothing,
}

/// Returns the largest f64 whose nearest f32 is not larger than `t`.
pub fn border_at_most(t: f64) -> Below {
    let mut next = t as f32;
    if next as f64 <= t {
        next = next.next_up();
    }
    match next {
        _ if t.is_nan() => Below::Nothing,
        _ if t == f64::INFINITY => Below::Border(f64::INFINITY),
        next => border_below(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that the border is the last f64 on its side, at thresholds of every kind.
    #[test]
    fn the_border_is_the_last_value_below() {
        let mut at = vec![0.0f32, -0.0, 1.0, -1.0, 0.1, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, -1e-45, f32::INFINITY, 16_777_216.0];
        at.extend((0..2000u32).map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761))).filter(|x| !x.is_nan()));
        for t in at {
            match border_below(t) {
                Below::Nothing => assert_eq!(t, f32::NEG_INFINITY),
                Below::Border(b) => {
                    assert!((b as f32) < t, "{b} {t}");
                    assert!((b.next_up() as f32) >= t, "{b} {t}");
                }
            }
            for t in [t as f64, (t as f64).next_up(), (t as f64).next_down()] {
                match border_at_most(t) {
                    Below::Nothing => assert!((f64::NEG_INFINITY as f32) as f64 > t || t == f64::NEG_INFINITY),
                    Below::Border(b) if b == f64::INFINITY => assert_eq!(t, f64::INFINITY),
                    Below::Border(b) => {
                        assert!((b as f32) as f64 <= t, "{b} {t}");
                        assert!((b.next_up() as f32) as f64 > t, "{b} {t}");
                    }
                }
            }
        }
    }
}
