//! The learners: boosted trees, random forests, sparse logistic regression.

pub mod boosting;
pub mod forest;
pub mod linear;

#[cfg(test)]
mod params_tests;
