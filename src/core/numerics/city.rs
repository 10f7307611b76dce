//! The hash by which CatBoost knows categories, and so do models that come from there: the lower half of the first version of CityHash64
//! (Pike and Alakuijala, Google, 2011) of their text.

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;
const K3: u64 = 0xc949_d7c7_509e_6557;

/// Returns the hash of a category's text.
///
/// ```
/// use taiga_core::numerics::city::{hash_of, hash_of_integer};
/// assert_eq!(hash_of("-17"), hash_of_integer(-17));
/// ```
#[inline]
pub fn hash_of(text: &str) -> u32 {
    city_hash_64(text.as_bytes()) as u32
}

/// Returns the hash of an integer's text: its digits, behind a minus where it is negative.
#[inline]
pub fn hash_of_integer(value: i128) -> u32 {
    // The digits of 128 bits, and a minus.
    let mut text = [0u8; 40];
    let mut at = text.len();
    let mut left = value.unsigned_abs();
    while left > 0 || at == text.len() {
        at -= 1;
        // Most numbers have 64 bits, which are divided faster.
        let (rest, digit) = match u64::try_from(left) {
            Ok(narrow) => ((narrow / 10) as u128, (narrow % 10) as u8),
            Err(_) => (left / 10, (left % 10) as u8),
        };
        (text[at], left) = (b'0' + digit, rest);
    }
    if value < 0 {
        at -= 1;
        text[at] = b'-';
    }
    city_hash_64(&text[at..]) as u32
}

/// The eight bytes from a place on.
fn word(s: &[u8], at: usize) -> u64 {
    s[at..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

/// The four bytes from a place on.
fn half_word(s: &[u8], at: usize) -> u64 {
    s[at..].first_chunk().map_or(0, |b| u64::from(u32::from_le_bytes(*b)))
}

fn fold(x: u64) -> u64 {
    x ^ (x >> 47)
}

/// Mixes two words into one.
fn mix(u: u64, v: u64) -> u64 {
    const MULTIPLIER: u64 = 0x9ddf_ea08_eb38_2d69;
    let a = fold((u ^ v).wrapping_mul(MULTIPLIER));
    fold((v ^ a).wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER)
}

/// Adds 32 bytes to a state of two words.
fn add_32(s: &[u8], at: usize, a: u64, b: u64) -> (u64, u64) {
    let [first, second, third, fourth] = [0, 8, 16, 24].map(|by| word(s, at + by));
    let c = a.wrapping_add(first);
    let a = c.wrapping_add(second).wrapping_add(third);
    let b = b.wrapping_add(c).wrapping_add(fourth).rotate_right(21).wrapping_add(a.rotate_right(44));
    (a.wrapping_add(fourth), b.wrapping_add(c))
}

/// Half of what texts of 33 to 64 bytes come to: from two words of 16 bytes, and two that are between.
fn half_of_64(first: u64, second: u64, third: u64, fourth: u64) -> (u64, u64) {
    let b = first.wrapping_add(fourth).rotate_right(52);
    let two = first.wrapping_add(second);
    let c = first.rotate_right(37).wrapping_add(two.rotate_right(7));
    let three = two.wrapping_add(third);
    (three.wrapping_add(fourth), b.wrapping_add(three.rotate_right(31)).wrapping_add(c))
}

fn city_hash_64(s: &[u8]) -> u64 {
    let n = s.len();
    let length = n as u64;
    match n {
        0 => K2,
        1..=3 => {
            let y = u64::from(s[0]) + (u64::from(s[n >> 1]) << 8);
            let z = length + (u64::from(s[n - 1]) << 2);
            fold(y.wrapping_mul(K2) ^ z.wrapping_mul(K3)).wrapping_mul(K2)
        }
        4..=8 => mix(length + (half_word(s, 0) << 3), half_word(s, n - 4)),
        9..=16 => {
            let b = word(s, n - 8);
            mix(word(s, 0), b.wrapping_add(length).rotate_right(n as u32)) ^ b
        }
        17..=32 => {
            let (a, b) = (word(s, 0).wrapping_mul(K1), word(s, 8));
            let (c, d) = (word(s, n - 8).wrapping_mul(K2), word(s, n - 16).wrapping_mul(K0));
            mix(
                a.wrapping_sub(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d),
                a.wrapping_add((b ^ K3).rotate_right(20)).wrapping_sub(c).wrapping_add(length),
            )
        }
        33..=64 => {
            let first = word(s, 0).wrapping_add(length.wrapping_add(word(s, n - 16)).wrapping_mul(K0));
            let (vf, vs) = half_of_64(first, word(s, 8), word(s, 16), word(s, 24));
            let first = word(s, 16).wrapping_add(word(s, n - 32));
            let (wf, ws) = half_of_64(first, word(s, n - 24), word(s, n - 16), word(s, n - 8));
            let r = fold(vf.wrapping_add(ws).wrapping_mul(K2).wrapping_add(wf.wrapping_add(vs).wrapping_mul(K0)));
            fold(r.wrapping_mul(K0).wrapping_add(vs)).wrapping_mul(K2)
        }
        _ => long(s),
    }
}

/// Texts of more than 64 bytes: the end first, and then 64 bytes after the other.
fn long(s: &[u8]) -> u64 {
    let n = s.len();
    let length = n as u64;
    let y = word(s, n - 16) ^ K1;
    let mut v = add_32(s, n - 64, length, y);
    let mut w = add_32(s, n - 32, length.wrapping_mul(K1), K0);
    let mut z = (word(s, n - 56) ^ K0).wrapping_add(fold(v.1).wrapping_mul(K1));
    let mut x = z.wrapping_add(word(s, 0)).rotate_right(39).wrapping_mul(K1);
    let mut y = y.rotate_right(33).wrapping_mul(K1);
    for at in (0..(n - 1) & !63).step_by(64) {
        x = x.wrapping_add(y).wrapping_add(v.0).wrapping_add(word(s, at + 16)).rotate_right(37).wrapping_mul(K1);
        y = y.wrapping_add(v.1).wrapping_add(word(s, at + 48)).rotate_right(42).wrapping_mul(K1);
        x ^= w.1;
        y ^= v.0;
        z = (z ^ w.0).rotate_right(33);
        v = add_32(s, at, v.1.wrapping_mul(K1), x.wrapping_add(w.0));
        w = add_32(s, at + 32, z.wrapping_add(w.1), y);
        (x, z) = (z, x);
    }
    let first = mix(v.0, w.0).wrapping_add(fold(y).wrapping_mul(K1)).wrapping_add(z);
    mix(first, mix(v.1, w.1).wrapping_add(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that integers have the hash of the text that they are written as.
    #[test]
    fn integers_have_the_hash_of_their_text() {
        let near = [0, 1, 9, 10, 99, u64::MAX as i128, 1 << 64, i128::MAX].into_iter().flat_map(|x: i128| [x, x - 1, -x, -(x - 1)]);
        for value in near.chain([i128::MIN, i128::MIN + 1]) {
            assert_eq!(hash_of_integer(value), hash_of(&value.to_string()), "{value}");
        }
    }
}
