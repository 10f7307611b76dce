//! The engine of polars-taiga: every algorithm over plain slices; no Polars, no Python.
//!
//! Imports point down only: learners ([`boosting`], [`forest`]) → [`tree`], [`encoding`], [`stats`] → [`quantize`] → [`numerics`];
//! a learner's heavy steps are the verbs of a [`backend`].

pub mod column;
pub mod column_steps;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod dataset;
pub mod device;
pub mod encoding;
pub mod envelope;
pub mod error;
pub mod learners;
pub mod losses;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod numerics;
pub mod pages;
pub mod parallel;
pub mod params;
pub mod provenance;
pub mod quantize;
pub mod stats;
pub mod tree;

pub use error::{Error, Result};
