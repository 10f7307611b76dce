//! Gradient-boosted trees.

pub mod bundling;
mod categorical_features;
pub mod coded_table;
mod constant;
pub mod continued;
pub mod cross_validation;
pub mod ctrs;
pub mod dropout;
mod finish;
mod fit;
pub mod layout;
mod leaf_values;
pub mod linear_leaves;
mod measured;
pub mod model;
mod monotone;
mod needed;
pub mod params;
pub mod prepare;
mod prior_rounds;
mod rounds;
pub mod row_sampler;
pub mod schema;
pub mod search;
pub mod several;
pub mod small_tables;
mod snapshot;
pub mod steps;
mod ties;
mod together;
pub mod units;
pub mod untold_rounds;

pub use constant::constant;
pub use continued::FitOptions;
pub use fit::{fit, fit_with};
pub use params::BoostingParams;
