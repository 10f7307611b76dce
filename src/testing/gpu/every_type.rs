//! Columns of every type that a column has.

use super::patterns;
use taiga_engine::column::{Bits, Chunk, Values};

/// Values of every type, the largest and the smallest among them, and bits for nulls.
pub struct EveryType {
    n: usize,
    bits: Vec<u8>,
    i8s: Vec<i8>,
    i16s: Vec<i16>,
    i32s: Vec<i32>,
    i64s: Vec<i64>,
    i128s: Vec<i128>,
    u8s: Vec<u8>,
    u16s: Vec<u16>,
    u32s: Vec<u32>,
    u64s: Vec<u64>,
    u128s: Vec<u128>,
    f32s: Vec<f32>,
    f64s: Vec<f64>,
}

impl EveryType {
    /// `n` values of each.
    pub fn new(n: usize) -> EveryType {
        let r = patterns::random(5);
        macro_rules! of {
            ($t:ty) => {
                (0..n)
                    .map(|i| match i % 7 {
                        0 => <$t>::MAX,
                        1 => <$t>::MIN,
                        2 => <$t>::MAX - 1,
                        _ => (r.u64(i as u64) >> (i % 50)) as $t,
                    })
                    .collect()
            };
        }
        EveryType {
            n,
            bits: (0..n / 8 + 3).map(|i| r.u32(i as u32) as u8).collect(),
            i8s: of!(i8),
            i16s: of!(i16),
            i32s: of!(i32),
            i64s: of!(i64),
            i128s: of!(i128),
            u8s: of!(u8),
            u16s: of!(u16),
            u32s: of!(u32),
            u64s: of!(u64),
            u128s: of!(u128),
            f32s: patterns::f32s(n, 5),
            f64s: patterns::f64s(n, 6),
        }
    }

    /// Of each type a chunk of all values, and one of which some are null.
    pub fn chunks(&self) -> Vec<[Chunk<'_>; 2]> {
        let all = [
            Values::I8(&self.i8s),
            Values::I16(&self.i16s),
            Values::I32(&self.i32s),
            Values::I64(&self.i64s),
            Values::I128(&self.i128s),
            Values::U8(&self.u8s),
            Values::U16(&self.u16s),
            Values::U32(&self.u32s),
            Values::U64(&self.u64s),
            Values::U128(&self.u128s),
            Values::F32(&self.f32s),
            Values::F64(&self.f64s),
            Values::Decimal(&self.i128s, 2),
            Values::Bool(Bits::new(&self.bits, 1, self.n)),
        ];
        all.map(|values| [Chunk::new(values, None), Chunk::new(values, Some(Bits::new(&self.bits, 3, self.n)))]).to_vec()
    }
}
