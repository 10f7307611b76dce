//! The losses by name, and which one a target asks for.

use crate::dataset::Target;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
/// Which loss the trees lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// By the target: `rmse` for numbers, `logloss` for two classes, `multiclass` for more.
    #[default]
    Auto,
    Rmse,
    Logloss,
    CrossEntropy,
    Multiclass,
    Mae,
    Quantile,
    Huber,
    Poisson,
    Gamma,
    Tweedie,
}

impl LossKind {
    /// The name that users give it.
    pub fn name(self) -> &'static str {
        match self {
            LossKind::Auto => "auto",
            LossKind::Rmse => "rmse",
            LossKind::Logloss => "logloss",
            LossKind::CrossEntropy => "cross_entropy",
            LossKind::Multiclass => "multiclass",
            LossKind::Mae => "mae",
            LossKind::Quantile => "quantile",
            LossKind::Huber => "huber",
            LossKind::Poisson => "poisson",
            LossKind::Gamma => "gamma",
            LossKind::Tweedie => "tweedie",
        }
    }
}

/// The loss that the parameter comes to for this target.
pub fn resolve_loss(kind: LossKind, target: &Target<'_>) -> Result<LossKind> {
    match (kind, target) {
        (LossKind::Auto, Target::Numbers(_)) => Ok(LossKind::Rmse),
        (LossKind::Auto, Target::Classes { labels, .. }) => Ok(if labels.len() <= 2 { LossKind::Logloss } else { LossKind::Multiclass }),
        (LossKind::Logloss, Target::Classes { labels, .. }) if labels.len() > 2 => {
            Err(Error::parameter("loss", format!("\"logloss\" needs two classes and the target has {}; use \"multiclass\"", labels.len())))
        }
        (LossKind::Logloss | LossKind::Multiclass, Target::Classes { .. }) => Ok(kind),
        (LossKind::Logloss | LossKind::Multiclass, Target::Numbers(_)) => {
            Err(Error::parameter("loss", format!("\"{}\" needs a target of classes", kind.name())))
        }
        (_, Target::Classes { .. }) => Err(Error::parameter("loss", format!("\"{}\" needs a numeric target", kind.name()))),
        (_, Target::Numbers(_)) => Ok(kind),
    }
}
