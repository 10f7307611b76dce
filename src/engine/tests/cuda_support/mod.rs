//! The GPU, bit patterns and types to try, and the comparison of bits.
#![allow(dead_code)] // not every test uses all of it

pub mod every_type;
pub mod gpu;
pub mod patterns;

/// A number as its bits, all NaN alike: their payload is the one thing IEEE 754 leaves open.
pub trait Bits: Copy + std::fmt::Debug {
    fn bits(self) -> u64;
}

macro_rules! bits {
    ($($t:ty: $x:ident => $bits:expr;)*) => { $(impl Bits for $t { fn bits(self) -> u64 { let $x = self; $bits } })* };
}

bits! {
    f32: x => if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() as u64 };
    f64: x => if x.is_nan() { 0x7ff8_0000_0000_0000 } else { x.to_bits() };
    u32: x => x as u64;
    i32: x => x as u32 as u64;
    u64: x => x;
    i64: x => x as u64;
}

/// Fails unless both sides have the same bits everywhere; `row` describes what went in.
pub fn assert_same<T: Bits>(what: &str, gpu: &[T], cpu: &[T], row: impl Fn(usize) -> String) {
    assert_eq!(gpu.len(), cpu.len());
    let differs = |i: &usize| gpu[*i].bits() != cpu[*i].bits();
    if let Some(i) = (0..gpu.len()).find(differs) {
        let count = (0..gpu.len()).filter(differs).count();
        panic!("{what}: {count} of {} differ; the first is {}: GPU {:?}, CPU {:?}", gpu.len(), row(i), gpu[i], cpu[i]);
    }
}
