//! The list of losses: what is known of each by its name alone, and which one a target asks for.

use super::{Loss, LossParams};
use crate::dataset::Target;
use crate::error::{Error, Result};

/// What a loss is before there are rows: each file of this folder has one, called `ENTRY`.
pub(super) struct LossEntry {
    /// The targets that it is for.
    pub target: LossTarget,
    /// The formula of its derivatives; see [`Formula::name`](super::Formula::name).
    pub formula: &'static str,
    /// Whether it is one of groups of rows.
    pub groups: bool,
    /// Makes the loss.
    pub make: fn(&Settings<'_>) -> Box<dyn Loss>,
}

/// What a target is to be for a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossTarget {
    Numbers,
    TwoClasses,
    /// Two classes or more.
    Classes,
    /// Labels of which a row may have several: 0 or 1 for each.
    Labels,
}

/// What losses are made from.
pub(super) struct Settings<'a> {
    pub params: &'a LossParams,
    /// The number of the target's classes, where it has some.
    pub classes: usize,
    /// The unit of targets and scores.
    pub unit: f64,
}

/// Declares the module of each loss, and makes [`LossKind`](super::LossKind) of their list: `file => Name`, where the file's name is
/// what users write.
macro_rules! losses {
    ($($file:ident => $kind:ident,)*) => {
        $(mod $file;)*

        /// Which loss the trees lower.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum LossKind {
            /// By the target: `rmse` for numbers, `logloss` for two classes, `multiclass` for more.
            #[default]
            Auto,
            $($kind,)*
        }

        impl LossKind {
            /// All losses; `Auto` stands for some of them.
            pub const ALL: &[LossKind] = &[$(LossKind::$kind,)*];

            /// The names of the formulas of all losses' derivatives, in the order of [`LossKind::ALL`].
            pub const FORMULAS: &[&str] = &[$($file::ENTRY.formula,)*];

            /// The name that users give it.
            pub fn name(self) -> &'static str {
                match self {
                    LossKind::Auto => "auto",
                    $(LossKind::$kind => stringify!($file),)*
                }
            }

            /// Returns what is known of the loss; nothing of `Auto`.
            fn entry(self) -> Option<LossEntry> {
                match self {
                    LossKind::Auto => None,
                    $(LossKind::$kind => Some($file::ENTRY),)*
                }
            }
        }
    };
}
pub(super) use losses;

impl super::LossKind {
    /// Whether the loss reads groups of rows.
    pub fn reads_groups(self) -> bool {
        self.entry().is_some_and(|entry| entry.groups)
    }

    /// Returns what the target is to be; nothing for `Auto`, which takes any.
    pub fn target(self) -> Option<LossTarget> {
        self.entry().map(|entry| entry.target)
    }

    /// Whether the loss is for targets of two classes and no more.
    pub fn is_for_two_classes(self) -> bool {
        self.target() == Some(LossTarget::TwoClasses)
    }

    /// Whether the loss is for targets of classes; `Auto` is for others too.
    pub fn is_for_classes(self) -> bool {
        matches!(self.target(), Some(LossTarget::TwoClasses | LossTarget::Classes))
    }
}

/// Returns the loss that the parameter comes to for this target.
///
/// # Errors
/// [`Error::Parameter`] for a loss that is for other targets.
pub fn resolve_loss(kind: super::LossKind, target: &Target<'_>) -> Result<super::LossKind> {
    use super::LossKind;
    let name = kind.name();
    let text = match (kind.target(), target) {
        (None, Target::Numbers(_) | Target::Several(_)) => return Ok(LossKind::Rmse),
        (None, Target::Classes { labels, .. }) => return Ok(if labels.len() <= 2 { LossKind::Logloss } else { LossKind::Multiclass }),
        (Some(LossTarget::TwoClasses), Target::Classes { labels, .. }) if labels.len() > 2 => {
            format!("\"{name}\" needs two classes and the target has {}; use \"multiclass\"", labels.len())
        }
        (Some(LossTarget::TwoClasses | LossTarget::Classes), Target::Numbers(_)) => format!("\"{name}\" needs a target of classes"),
        (Some(LossTarget::Labels), Target::Numbers(_) | Target::Classes { .. }) => {
            format!("\"{name}\" needs several labels a row: a struct of Booleans, or lists of the labels that rows have")
        }
        (Some(LossTarget::Numbers), Target::Classes { .. }) => format!("\"{name}\" needs a numeric target"),
        (Some(_), _) => return Ok(kind),
    };
    Err(Error::parameter("loss", text))
}
