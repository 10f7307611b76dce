//! Bitmaps, as Arrow lays them out.

/// A slice of bits, least significant first, as in Arrow's bitmaps.
#[derive(Clone, Copy, Debug)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    offset: usize,
    len: usize,
}

impl<'a> Bits<'a> {
    /// Takes `len` bits of `bytes` from bit `offset` on.
    ///
    /// # Panics
    /// When `bytes` is too short for `offset + len` bits.
    pub fn new(bytes: &'a [u8], offset: usize, len: usize) -> Self {
        assert!(offset + len <= bytes.len() * 8, "a bitmap of {} bytes can't hold {} bits", bytes.len(), offset + len);
        Bits { bytes, offset, len }
    }

    /// Returns `len` of the bits from bit `start` on.
    ///
    /// # Panics
    /// When there are fewer.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Self {
        assert!(start + len <= self.len, "bits {start}..{} of {}", start + len, self.len);
        Bits { bytes: self.bytes, offset: self.offset + start, len }
    }

    /// Returns the bytes that the bits are in.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns bit `i`.
    #[inline]
    pub fn get(&self, i: usize) -> bool {
        debug_assert!(i < self.len);
        let i = self.offset + i;
        self.bytes[i / 8] >> (i % 8) & 1 == 1
    }

    /// Bits `i .. i + 64`, the first in the lowest place; unset behind the end.
    #[inline]
    pub fn word(&self, i: usize) -> u64 {
        debug_assert!(i < self.len);
        let (byte, shift) = ((self.offset + i) / 8, (self.offset + i) % 8);
        let bytes = &self.bytes[byte..];
        let wide = match bytes.first_chunk::<16>() {
            Some(bytes) => u128::from_le_bytes(*bytes),
            None => {
                let mut padded = [0; 16];
                padded[..bytes.len()].copy_from_slice(bytes);
                u128::from_le_bytes(padded)
            }
        };
        (wide >> shift) as u64 & (u64::MAX >> 64usize.saturating_sub(self.len - i))
    }
}
