//! Gradient-boosted trees.

pub mod bundling;
mod categorical_features;
mod constant;
pub mod ctrs;
mod finish;
mod fit;
pub mod layout;
mod measured;
pub mod model;
mod monotone;
mod needed;
pub mod params;
pub mod prepare;
pub mod rounds;
pub mod row_sampler;
pub mod schema;
mod several;
pub mod steps;
mod ties;
pub mod units;

pub use constant::constant;
pub use fit::fit;
pub use params::BoostingParams;
