//! What a fuzzer, and an ordinary test over the inputs that were kept, do with bytes that anyone may have written.
//!
//! Each target takes any bytes and returns whether they were accepted as what they are meant to be. It panics where the engine
//! does, where what was read does not come out again, and where memory is not in proportion to the bytes.

mod categories;
mod columns;
mod encoder;
mod imported;
mod memory;
mod models;
mod params;
pub mod seeds;
mod snapshots;
mod sparse_rows;

pub use categories::categories;
pub use encoder::encoder;
pub use imported::imported;
pub use models::{boosted, forest, linear};
pub use params::params;
pub use snapshots::{boosted_snapshot, forest_snapshot, linear_snapshot};
pub use sparse_rows::sparse_rows;

// The engine's tests, which include these modules, have one of their own.
#[cfg(fuzzing)]
#[global_allocator]
static ALLOCATOR: taiga_testing::allocator::Counting = taiga_testing::allocator::Counting;

/// A target: its name, which is that of its folder of inputs, and what it does.
pub type Target = (&'static str, fn(&[u8]) -> bool);

pub const TARGETS: [Target; 11] = [
    ("boosted", boosted),
    ("forest", forest),
    ("linear", linear),
    ("boosted_snapshot", boosted_snapshot),
    ("forest_snapshot", forest_snapshot),
    ("linear_snapshot", linear_snapshot),
    ("encoder", encoder),
    ("params", params),
    ("sparse_rows", sparse_rows),
    ("categories", categories),
    ("imported", imported),
];

/// The bytes of a kind of value: an input is the format version and the payload, and magic, length and checksum are set right.
pub(crate) fn sealed(kind: &[u8; 2], input: &[u8]) -> Vec<u8> {
    let (version, payload) = input.split_first().map_or((0, input), |(v, p)| (*v, p));
    let mut bytes = [b"TAIGA\0".as_slice(), kind, &[version, 0, 0, 0], &(payload.len() as u64).to_le_bytes(), payload].concat();
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// The input that [`sealed`] makes these bytes of.
pub fn unsealed(bytes: &[u8]) -> Vec<u8> {
    [&bytes[8..9], &bytes[20..bytes.len() - 8]].concat()
}
