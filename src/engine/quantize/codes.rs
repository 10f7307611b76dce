//! The code of each value.
use crate::column::Column;

/// Finds the code of a value among a feature's borders.
pub struct Quantizer {}

/// An unsigned integer that holds codes.
pub trait Code: Copy + Default + Send + Sync + 'static {
    fn from_usize(x: usize) -> Self;
}
impl Code for u8 {
    fn from_usize(x: usize) -> Self { x as u8 }
}
impl Code for u16 {
    fn from_usize(x: usize) -> Self { x as u16 }
}

impl Quantizer {
    /// For ascending `borders`.
    pub fn new(borders: &[f64]) -> Self {
        let _ = borders;
        unimplemented!()
    }

    /// Writes the codes of rows `start .. start + len` of `column` to `out[0]`, `out[stride]`,
    /// `out[2 * stride]`, …: `offset + (number of borders < x)`, and 0 for a missing value.
    /// Returns whether any value was missing. `scratch` is reused between calls.
    pub fn codes<C: Code>(&self, column: &Column<'_>, start: usize, len: usize, offset: usize, out: &mut [C], stride: usize, scratch: &mut Scratch) -> bool {
        let _ = (column, start, len, offset, out, stride, scratch);
        unimplemented!()
    }
}

/// Buffers that [`Quantizer::codes`] reuses.
#[derive(Default)]
pub struct Scratch {
    pub f32: Vec<f32>,
    pub f64: Vec<f64>,
}
