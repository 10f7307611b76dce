//! What processes that make one fit together say to each other before it and after it.

use super::continued::{FitOptions, Snapshots};
use super::model::Model;
use super::params::BoostingParams;
use crate::dataset::own_rows::{self, digest, schema};
use crate::dataset::{Input, OwnRows};
use crate::error::{Error, Result};
use crate::losses::{LossKind, resolve_loss};
use serde_json::Map;

/// Checks that all processes make the same fit, and one that can be made of rows in several.
///
/// # Errors
/// Naming the first process that differs and what of it, or the parameter that is not for several.
pub fn begin(own: &OwnRows<'_>, input: &Input<'_>, params: &BoostingParams, options: &FitOptions<'_>) -> Result<()> {
    if own.is_whole() {
        return Ok(());
    }
    let mut more = Map::new();
    more.insert("snapshot_every".into(), options.snapshots.map(Snapshots::every).into());
    more.insert("init_model".into(), options.init_model.map(|model| digest(&model.to_bytes())).into());
    own_rows::begin(own, params, more, &schema(input), input.target.rows())?;
    fits(input, params)
}

/// Checks that a fit is one that can be made of rows in several processes.
fn fits(input: &Input<'_>, params: &BoostingParams) -> Result<()> {
    let kind = resolve_loss(params.loss, &input.target)?;
    if kind.reads_groups() || kind == LossKind::Cox {
        let what = format!("loss=\"{}\", whose rows depend on each other, is not fitted over several processes yet", kind.name());
        return Err(Error::parameter("loss", what));
    }
    Ok(())
}

/// Checks that all processes have come to the same model of `rows` rows, and returns it.
///
/// # Errors
/// Where one has not, which would be a defect.
pub fn end(own: &OwnRows<'_>, rows: usize, model: Model) -> Result<Model> {
    own_rows::end(own, rows, || model.to_bytes()).map(|()| model)
}
