//! The learners' families of models: whose bytes are whose. The one list to add a family to.

use super::applied::AppliedModel;
use super::{boosting, forest, linear};
use taiga_core::envelope::Envelope;
use taiga_core::error::{Error, Result};
use taiga_core::model::fitted::FittedModel;
use taiga_core::model::from_json::format_of;

/// Parses the bytes of a model.
pub type ReadModel = fn(&[u8]) -> Result<Box<dyn FittedModel>>;

/// Parses the bytes of a model and makes it, or its first rounds of so many, ready on the device that is named.
pub type ApplyModel = fn(&[u8], &str, Option<usize>) -> Result<Box<dyn AppliedModel>>;

/// The models of one learner.
pub struct Family {
    /// The envelope of their bytes, whose kind tells them from others'.
    pub envelope: &'static Envelope,
    pub read: ReadModel,
    /// What their JSON says it is.
    pub format: &'static str,
    pub read_json: fn(&str) -> Result<Box<dyn FittedModel>>,
    pub apply: ApplyModel,
}

/// All families. Bytes that are none of theirs are read as the first one's, whose error tells what they are.
const FAMILIES: &[Family] = &[boosting::FAMILY, forest::FAMILY, linear::FAMILY];

/// The family that these bytes say they are of, whole or not.
fn family_of(bytes: &[u8]) -> &'static Family {
    FAMILIES.iter().find(|family| family.envelope.claims(bytes)).unwrap_or(&FAMILIES[0])
}

/// Parses the bytes of a model of any learner.
///
/// # Errors
/// For anything but the whole, undamaged bytes of a model that this build can read.
pub fn read_model(bytes: &[u8]) -> Result<Box<dyn FittedModel>> {
    (family_of(bytes).read)(bytes)
}

/// Parses the JSON of a model of any learner ([`FittedModel::json_text`]).
///
/// # Errors
/// For anything but the whole JSON of a valid model that this build can read.
pub fn read_model_json(text: &str) -> Result<Box<dyn FittedModel>> {
    let format = format_of(text)?;
    match FAMILIES.iter().find(|family| family.format == format) {
        Some(family) => (family.read_json)(text),
        None => Err(Error::Model(format!("the text is of the format {format:?}, which is no model's"))),
    }
}

/// Parses the bytes of a model of any learner and makes it ready on the device that is named: all of it, or its first `rounds`
/// rounds ([`FittedModel::head`]).
///
/// # Errors
/// As [`read_model`] and [`FittedModel::head`], and where the device can't apply it.
pub fn apply_model(bytes: &[u8], device: &str, rounds: Option<usize>) -> Result<Box<dyn AppliedModel>> {
    (family_of(bytes).apply)(bytes, device, rounds)
}
