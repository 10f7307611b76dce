//! Columns for any model's features, and numbers from any bytes.

use taiga_engine::column::{Chunk, Column, FeatureType, Values};
use taiga_engine::learners::linear::Texts;
use taiga_engine::model::Feature;

/// Strings that own themselves.
pub struct Words(pub Vec<Option<String>>);

impl Texts for Words {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, i: usize) -> Option<&str> {
        self.0[i].as_deref()
    }
}

/// Rows of every column.
pub const ROWS: usize = 11;

/// Values that ask hard questions, of a feature.
pub fn values(feature: &Feature) -> Vec<f64> {
    let border = |i: usize| feature.borders.get(i % feature.borders.len().max(1)).copied().unwrap_or(0.5);
    let (first, last) = (border(0), border(usize::MAX / 2));
    vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, first, first.next_up(), first.next_down(), last, last as f32 as f64, 1e300, -1.5]
}

/// Codes of categories, those that no feature has among them.
pub const CODES: [u32; ROWS] = [0, 1, 2, 3, 4, 5, 127, 255, 256, u32::MAX - 1, u32::MAX];

/// A column for each feature.
pub fn columns<'a>(features: &[Feature], data: &'a [Vec<f64>]) -> Vec<Column<'a>> {
    let column = |(f, v): (&Feature, &'a Vec<f64>)| match f.dtype {
        FeatureType::Categorical => Column::codes(f.name.clone(), &CODES),
        _ => Column::new(f.name.clone(), f.dtype.clone(), vec![Chunk::new(Values::F64(v), None)]),
    };
    features.iter().zip(data).map(column).collect()
}

/// Numbers, one after the other, from any bytes; zeros behind their end.
pub struct Numbers<'a>(pub &'a [u8]);

impl<'a> Numbers<'a> {
    pub fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (first, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        first
    }

    pub fn u64(&mut self, bytes: usize) -> u64 {
        self.bytes(bytes).iter().rev().fold(0, |n, b| n << 8 | *b as u64)
    }

    pub fn byte(&mut self) -> u8 {
        self.u64(1) as u8
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.byte() as usize % n.max(1)
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Mostly small, sometimes of any bits.
    pub fn f64(&mut self) -> f64 {
        match self.byte() {
            255 => f64::from_bits(self.u64(8)),
            254 => f64::NAN,
            253 => f64::INFINITY,
            252 => f64::NEG_INFINITY,
            251 => f32::MAX as f64 * 2.0,
            small => (small as f64 - 125.0) / 8.0,
        }
    }
}
