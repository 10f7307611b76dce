//! The learners, each with its fit on the device that its parameters name.

pub mod boosting;
pub mod forest;
pub mod linear;

#[cfg(test)]
mod fallback_tests;
