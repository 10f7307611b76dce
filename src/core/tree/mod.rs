//! Decision trees: what they are ([`model`]), what shapes them ([`params`]), how a split is
//! scored ([`split`]) and how a tree grows ([`grow`]); leaves that are more than a number ([`linear`]).

pub mod grow;
pub mod linear;
pub mod model;
pub mod params;
pub mod split;
pub mod steps;

pub use model::{Leaf, Split, Tree};
pub use params::{Policy, SplitParams, TreeParams};
