//! The engine of polars-taiga: every algorithm over plain slices; no Polars, no Python.
//!
//! Imports point down only: learners ([`boosting`], [`forest`]) → [`tree`], [`encoding`], [`stats`] → [`quantize`] → [`numerics`];
//! a learner's heavy steps are the verbs of a [`backend`].

pub mod backend;
pub mod boosting;
pub mod column;
pub mod encoding;
pub mod envelope;
pub mod error;
pub mod forest;
pub mod linear;
pub mod memory;
pub mod model;
pub mod numerics;
mod pages;
pub mod parallel;
mod params;
pub mod provenance;
pub mod quantize;
pub mod stats;
pub mod tree;

pub use error::{Error, Result};
