//! From floats to integers: scales that are powers of two, and rounding from plain additions, so
//! that every device gives the same integers.

/// Returns the largest power of two by which a non-negative f32 of the bits `largest` stays at or below `2^bits - 2`; 1 for zero.
///
/// ```
/// use taiga_core::numerics::fixed::factor;
/// assert_eq!(factor(0.75f32.to_bits(), 15), 32768.0);
/// assert_eq!(factor(1.0f32.to_bits(), 15), 16384.0);
/// ```
pub fn factor(largest: u32, bits: i32) -> f64 {
    let value = f32::from_bits(largest) as f64;
    if value == 0.0 {
        return 1.0;
    }
    // value < 2^exponent
    let exponent = ilogb(value) + 1;
    let power = bits - exponent;
    // At the very top of its binade rounding up would overflow by one.
    let scaled = libm::ldexp(value, power);
    libm::ldexp(1.0, if scaled > libm::ldexp(1.0, bits) - 2.0 { power - 1 } else { power })
}

/// Returns the factor, kept where f32 has it as a normal number.
pub fn single(factor: f64) -> f64 {
    factor.clamp(libm::ldexp(1.0, -126), libm::ldexp(1.0, 126))
}

fn ilogb(value: f64) -> i32 {
    libm::frexp(value).1 - 1
}

/// Computes `round(x)` for |x| < 2^22, as the low bits of a float beyond which there are no fractions.
#[inline(always)]
pub fn round32(x: f32) -> i32 {
    ((x + 12_582_912.0).to_bits() as i32).wrapping_sub(0x4B40_0000)
}

/// Computes `round(x + dither)`, the dither added to the fraction alone, where f32 has bits for it.
#[inline(always)]
pub fn round_with(x: f32, dither: f32) -> i32 {
    let whole = (x + 12_582_912.0) - 12_582_912.0;
    round32(whole).wrapping_add(round32((x - whole) + dither))
}

/// Computes `round(x)` for |x| < 2^51, likewise.
#[inline(always)]
pub fn round64(x: f64) -> i64 {
    ((x + 6_755_399_441_055_744.0).to_bits() as i64).wrapping_sub(0x4338_0000_0000_0000)
}

/// Returns a random number inside (-½, ½) from 16 bits: what is a whole number already stays as it is.
#[inline(always)]
pub fn dither(bits: u32) -> f32 {
    ((bits & 0xffff) as f32 + 0.5) * (1.0 / 65_536.0) - 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roundings_are_to_the_nearest_even() {
        for x in [0.0f32, 0.5, 1.5, -0.5, -2.5, 3.49, 32766.0, -32767.0, 1e-20] {
            assert_eq!(round32(x), x.round_ties_even() as i32);
            assert_eq!(round64(x as f64), x.round_ties_even() as i64);
        }
    }

    /// No dither moves a whole number, and none moves any other by one or more.
    #[test]
    fn dither_keeps_whole_numbers() {
        for bits in (0..65_536u32).step_by(13).chain([65_535]) {
            for x in [0.0f32, 1.0, -1.0, 255.0, -257.0, 32_766.0, -32_766.0, 65_534.0] {
                assert_eq!(round_with(x, dither(bits)), x as i32);
                let y = x + 0.25;
                assert!((round_with(y, dither(bits)) as f32 - y).abs() < 1.0);
            }
        }
    }

    #[test]
    fn factors_fill_the_bits_and_never_overflow() {
        for value in [1.0f32, 0.99999994, 1e-30, 3e38, f32::MIN_POSITIVE, 1e-45, 0.5, 32767.0, 1.0000001] {
            for bits in [15, 16, 31, 42] {
                let scaled = value as f64 * factor(value.to_bits(), bits);
                assert!(scaled <= (2f64).powi(bits) - 2.0 && scaled >= (2f64).powi(bits - 2), "{value} {bits} {scaled}");
            }
        }
        assert_eq!(factor(0, 15), 1.0);
    }
}
