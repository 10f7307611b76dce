//! What processes that make one fit together say to each other before it and after it.

use super::continued::{FitOptions, Snapshots};
use super::model::Model;
use super::params::BoostingParams;
use crate::collective::fault;
use crate::dataset::own_rows::{agree, check, schema};
use crate::dataset::{Input, OwnRows};
use crate::error::{Error, Result};
use crate::losses::{LossKind, resolve_loss};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

/// Checks that all processes make the same fit, and one that can be made of rows in several.
///
/// # Errors
/// Naming the first process that differs and what of it, or the parameter that is not for several.
pub fn begin(own: &OwnRows<'_>, input: &Input<'_>, params: &BoostingParams, options: &FitOptions<'_>) -> Result<()> {
    if own.is_whole() {
        return Ok(());
    }
    let mut given = serde_json::to_value(params).map_err(|error| fault(error.to_string()))?;
    if let Some(given) = given.as_object_mut() {
        // Threads, and what is said of devices, are each process's own.
        ["n_threads", "device"].iter().for_each(|name| drop(given.remove(*name)));
        given.insert("version".into(), env!("CARGO_PKG_VERSION").into());
        given.insert("snapshot_every".into(), options.snapshots.map(Snapshots::every).into());
        given.insert("init_model".into(), options.init_model.map(hash).into());
    }
    agree(own.collective, "parameters", &given)?;
    agree(own.collective, "columns", &schema(input))?;
    check(own, input.target.rows())?;
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

/// Returns what tells a model from all others.
fn hash(model: &Model) -> String {
    format!("{:032x}", xxh3_128(&model.to_bytes()))
}

/// Checks that all processes have come to the same model of `rows` rows, and returns it.
///
/// # Errors
/// Where one has not, which would be a defect.
pub fn end(own: &OwnRows<'_>, rows: usize, model: Model) -> Result<Model> {
    if !own.is_whole() {
        let said: Value = json!({ "bytes": hash(&model), "rows": rows });
        agree(own.collective, "model", &said)?;
    }
    Ok(model)
}
