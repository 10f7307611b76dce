//! Every algorithm of polars-taiga over plain slices, and every interface that a device implements; no device, no Polars, no Python.
//!
//! Imports point down only: [`learners`] → [`model`] → [`tree`], [`metrics`], [`losses`] → [`dataset`] → [`encoding`], [`stats`] →
//! [`quantize`] → [`mod@column`] → [`parallel`], [`numerics`]; `make lint` holds them to that. A learner's heavy steps are a trait of its
//! own (`steps.rs`), which `taiga-cpu` and `taiga-cuda` implement.

pub mod collective;
pub mod column;
pub mod column_steps;
pub mod dataset;
pub mod device;
pub mod encoding;
pub mod envelope;
pub mod error;
pub mod import;
pub mod learners;
pub mod losses;
pub mod memory;
pub mod metadata;
pub mod metrics;
pub mod model;
pub mod numerics;
pub mod objective;
pub mod pages;
pub mod parallel;
pub mod params;
pub mod provenance;
pub mod quantize;
pub mod receipt;
pub mod shap;
pub mod spill;
pub mod stats;
pub mod symbolic;
pub mod tree;

pub use error::{Error, Result};
