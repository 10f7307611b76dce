//! The largest numbers of bins of features, as parameters of learners tell them.

use super::coded::FeatureBorders;
use crate::column::{Column, FeatureType};
use crate::error::{Error, Result, nearest};
use crate::params::Problems;
use crate::params::limits::Limit::Between;
use crate::quantize::borders::BorderParams;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The largest numbers of bins: the same for all features, or some by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Bins {
    Same(u32),
    /// Those that are not named have as many as where nothing is told.
    ByFeature(BTreeMap<String, u32>),
}

impl Bins {
    /// How many a feature has at most where nothing is told.
    pub const DEFAULT: u32 = 255;

    /// Returns how many all features have that have no number of their own.
    pub fn common(&self) -> u32 {
        match self {
            Bins::Same(bins) => *bins,
            Bins::ByFeature(_) => Bins::DEFAULT,
        }
    }

    /// Returns the numbers of single features, by name.
    pub fn named(&self) -> impl Iterator<Item = (&str, u32)> {
        let named = if let Bins::ByFeature(named) = self { Some(named) } else { None };
        named.into_iter().flatten().map(|(name, bins)| (name.as_str(), *bins))
    }

    /// Returns how many a feature has at most.
    pub fn of(&self, name: &str) -> u32 {
        match self {
            Bins::Same(bins) => *bins,
            Bins::ByFeature(named) => named.get(name).copied().unwrap_or(Bins::DEFAULT),
        }
    }

    /// Returns them as a model keeps them: where none is told by name, the number of all.
    pub fn kept(&self) -> Bins {
        if self.named().next().is_some() { self.clone() } else { Bins::Same(self.common()) }
    }

    /// Returns how borders of a table's features are found, that are alike but for these.
    pub fn borders(&self, common: BorderParams, features: &[Column<'_>]) -> FeatureBorders {
        match self {
            Bins::Same(_) => common.into(),
            Bins::ByFeature(_) => FeatureBorders::new(common, features.iter().map(|column| self.of(column.name()) as usize).collect()),
        }
    }

    /// Adds the numbers that there can't be.
    pub fn check(&self, problems: &mut Problems) {
        if let Bins::Same(bins) = self {
            problems.limit("bins", Some(*bins), Between(2, 256));
        }
        for (name, bins) in self.named().filter(|(_, bins)| !(2..=256).contains(bins)) {
            problems.add(Error::parameter("bins", format!("{bins} for `{name}` is not between 2 and 256")));
        }
    }

    /// Checks that the names are those of numeric features.
    ///
    /// # Errors
    /// Naming one that is not.
    pub fn check_names(&self, features: &[(&str, &FeatureType)]) -> Result<()> {
        for (name, _) in self.named() {
            if *features[index_of("bins", name, features)?].1 == FeatureType::Categorical {
                return Err(Error::parameter("bins", format!("`{name}` is categorical: only numbers have bins")));
            }
        }
        Ok(())
    }
}

impl From<u32> for Bins {
    fn from(bins: u32) -> Bins {
        Bins::Same(bins)
    }
}

/// Finds the feature that a parameter names.
///
/// # Errors
/// Where there is none, with what was probably meant.
pub fn index_of(parameter: &str, name: &str, features: &[(&str, &FeatureType)]) -> Result<usize> {
    features.iter().position(|f| f.0 == name).ok_or_else(|| {
        let hint = nearest(name, features.iter().map(|f| f.0)).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
        Error::parameter(parameter, format!("there is no feature `{name}`{hint}"))
    })
}
