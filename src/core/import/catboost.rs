//! Models of CatBoost in JSON.

use super::{Imported, Told, fault};
use crate::error::Result;

/// Reads a model in JSON.
///
/// # Errors
/// As [`super::import`].
pub fn read_json(_text: &str, _told: Told) -> Result<Imported> {
    Err(fault("CatBoost", "not yet"))
}
