//! Models applied on a GPU: [`trees`], boosted; [`forest`], random; [`linear`]; [`shap`], trees explained by the [`answers`] of rows.

pub mod answers;
pub mod forest;
pub mod linear;
pub mod shap;
pub mod trees;

pub use trees::DevicePredictor;

use crate::runtime::device::Image;

/// `kernels/predict.cu`.
const PREDICT: Image = Image { name: "predict", bytes: taiga_kernels::images::predict };
