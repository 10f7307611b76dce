//! Weights of classes.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
/// Weights of classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassWeight {
    #[default]
    None,
    /// Rows of a class weigh `rows / (classes * rows of the class)`.
    Balanced,
    /// A weight for each class, by its label written out.
    #[serde(untagged)]
    ByLabel(BTreeMap<String, LabelWeight>),
}

impl ClassWeight {
    /// Checks that no class has a negative or infinite weight.
    ///
    /// # Errors
    /// [`Error::Parameter`] naming the class.
    pub fn validate(&self) -> Result<()> {
        let ClassWeight::ByLabel(weights) = self else { return Ok(()) };
        match weights.iter().find(|(_, w)| !(w.0.is_finite() && w.0 >= 0.0)) {
            Some((label, w)) => Err(Error::parameter("class_weight", format!("{:?} for `{label}` is not zero or a positive number", w.0))),
            None => Ok(()),
        }
    }
}

/// A class weight as its bits, so that parameters compare exactly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LabelWeight(pub f64);

impl Eq for LabelWeight {}
