//! Shapley values of trees: how much each player (a column, or a combination of columns) moved a row's score away from the mean of
//! the training rows, exactly (Lundberg, Erion and Lee, "Consistent individualized feature attribution for tree ensembles", 2018).
//!
//! The value of a set of players is what a tree gives where splits on players of the set are answered by the row, and both branches
//! of the others are taken, in proportion to the training rows that took them. A leaf is reached with the product, over the players
//! on its [path](paths), of 1 or 0 (the row's answers lead to it or not) for those of the set and of the share of the training rows
//! for the others. So what a leaf contributes depends on a row by one bit a player alone, and is looked up:
//!
//! - [`contributions`]: of a leaf, for each outcome of those bits, by Gauss-Legendre quadrature of the
//!   multilinear extension (Owen, "Multilinear extensions of games", 1972), which is exact for polynomials.
//! - [`symmetric`]: a symmetric tree as a table by leaf, since a row's leaf tells all its answers.
//! - [`branching`]: a branching tree as tables of a few neighbouring leaves each (Yang, "Fast TreeSHAP", 2021).
//! - [`walk`]: trees whose paths meet too many players for tables, node after node (Yu et al., "Linear TreeShap",
//!   2022); [`leaves`]: the same against a background table.
//! - [`program`]: what another device does with a whole model: tables that rows are looked up in, leaves, walks.
//! - [`known`]: the value of one set of players, over rows (partial dependence without data).
//! - [`credits`]: what of the players' values each column gets.
//! - [`explainer`]: all trees of a model over blocks of rows. Trees are added in their order, in f64, and what a row gets depends on
//!   nothing but the model and the row.

pub mod branching;
pub mod contributions;
pub mod credits;
pub mod explainer;
pub mod known;
pub mod leaves;
pub mod paths;
pub mod program;
pub mod quadrature;
pub mod symmetric;
pub mod walk;

#[cfg(test)]
mod tests;

pub use contributions::Terms;
pub use explainer::{Answers, Explainer, Explanation, Game};
pub use known::KnownMeans;
pub use paths::{ExplainedNode, ExplainedTree};
