//! From values to codes: borders ([`borders`]) and the code of each value ([`codes`]).

pub mod borders;
pub mod codes;

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
    /// Greedy splits of the bin with the largest `rows · log(rows)` (CatBoost's MinEntropy
    /// criterion, solved greedily).
    MinMaxEntropy,
}
