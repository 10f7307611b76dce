//! Categories and what is made of them: dense codes, permutations, statistics of a target.
//!
//! A categorical column becomes a [`CategoryColumn`]: a code for each row, numbered by
//! first appearance, and the labels. Everything else works on codes alone. Functions here use the
//! rayon pool that they are called in, and no result depends on how many threads it has.

mod buckets;
pub mod combine;
pub mod count;
pub mod ctr;
pub mod encoder;
pub mod group;
pub mod lookup;
mod ordered;
pub mod permutation;
pub mod sort;
pub mod statistic;
pub mod target;
pub mod woe;

pub use crate::column::categories::{Categories, CategoryColumn, CategoryNames, Codes};
pub use encoder::TargetEncoder;
pub use lookup::Lookup;
