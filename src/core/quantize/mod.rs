//! From values to codes: what the learners see of a feature is one small integer a row.
//!
//! - **Borders** ([`borders`](mod@borders)) cut a feature's values into bins. There are at most
//!   255 of them, chosen once on a seeded sample of the rows by a [`BorderMethod`], all in f64
//!   whatever the column's type. A split of a tree is one of them: it sends `x > border` right.
//! - **Codes** ([`codes`]) number the bins: the code of a value is
//!   `offset + #(borders < x)`, so that `x > borders[i]` is `code > offset + i`.
//! - **Missing** values, null or NaN, have the code 0. The learners use `offset` 1 for a feature
//!   with missing values, so that they have a bin of their own and a split learns the side they go
//!   to; where nothing is missing, `offset` 0 leaves room for one more border.
//!
//! ```text
//! borders            1.5      2.5      7.0
//! values    missing   |  1.5 < |  2.5 < |  7.0 <        ±∞ are ordinary values
//!                x <= 1.5 x <= 2.5 x <= 7.0  x
//! codes        0      1        2        3        4      with offset 1
//! ```
//!
//! Equal values have equal codes whatever the column's type: an f32 is compared with the border
//! rounded down to f32, which is the same test, and every other type as f64.

pub mod borders;
pub mod coded;
pub mod codes;
pub mod exceptions;
mod greedy;
pub mod search;
pub mod sort;

pub use coded::{CodeSet, CodeSource, CodedFeature};
use serde::{Deserialize, Serialize};

/// How borders are chosen among the values of the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BorderMethod {
    /// As many rows in each bin as ties allow; a value too frequent for a bin has one of its own
    /// (as in LightGBM).
    #[default]
    Quantile,
    /// Equal steps between the smallest and the largest finite value.
    Uniform,
    /// Greedy splits that raise `Σ log(rows of the bin)` most (CatBoost's default).
    GreedyLogsum,
    /// Greedy splits that lower `Σ rows · log(rows)` most (CatBoost's MinEntropy criterion, solved
    /// greedily).
    MinMaxEntropy,
}
