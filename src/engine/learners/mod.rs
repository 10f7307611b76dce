//! The learners, each with its fit on the device that its parameters name and its models applied ([`applied`]); and the list of
//! their families ([`registry`]).

pub mod applied;
pub mod boosting;
pub mod forest;
pub mod linear;
pub mod registry;

#[cfg(test)]
mod fallback_tests;
