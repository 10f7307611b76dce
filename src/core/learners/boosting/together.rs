//! What processes that make one fit together say to each other before it and after it.

use super::continued::FitOptions;
use super::model::Model;
use super::params::BoostingParams;
use crate::dataset::own_rows::{self, digest, schema};
use crate::dataset::{Input, OwnRows, Snapshots};
use crate::error::Result;
use serde_json::Map;

/// Checks that all processes make the same fit.
///
/// # Errors
/// Naming the first process that differs and what of it.
pub fn begin(own: &OwnRows<'_>, input: &Input<'_>, params: &BoostingParams, options: &FitOptions<'_>) -> Result<()> {
    if own.is_whole() {
        return Ok(());
    }
    let mut more = Map::new();
    more.insert("snapshot_every".into(), options.snapshots.map(Snapshots::every).into());
    more.insert("init_model".into(), options.init_model.map(|model| digest(&model.to_bytes())).into());
    own_rows::begin(own, params, more, &schema(input), input.target.rows())
}

/// Checks that all processes have come to the same model of `rows` rows, and returns it.
///
/// # Errors
/// Where one has not, which would be a defect.
pub fn end(own: &OwnRows<'_>, rows: usize, model: Model) -> Result<Model> {
    own_rows::end(own, rows, || model.to_bytes()).map(|()| model)
}
