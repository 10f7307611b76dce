//! The positions at which rows were shown, such as a document's rank in the list that a user saw.

use crate::params::Problems;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The position of each row of a table.
#[derive(Clone)]
pub struct Positions<'a> {
    /// The position of each row as an index into `labels`.
    pub codes: Cow<'a, [u32]>,
    pub labels: PositionLabels,
}

/// What positions are called, each once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PositionLabels {
    Numbers(Vec<i64>),
    Text(Vec<String>),
}

impl PositionLabels {
    /// The number of positions.
    pub fn len(&self) -> usize {
        match self {
            PositionLabels::Numbers(labels) => labels.len(),
            PositionLabels::Text(labels) => labels.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a fit found that each position adds to a row's score: labels ascending, and a factor of each.
///
/// ```
/// use taiga_core::dataset::positions::{PositionFactors, PositionLabels};
/// let found = PositionFactors::ascending(&PositionLabels::Numbers(vec![2, 1]), &[Some(-0.5), Some(0.25)]);
/// assert_eq!(found, PositionFactors { labels: PositionLabels::Numbers(vec![1, 2]), factors: vec![0.25, -0.5] });
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PositionFactors {
    pub labels: PositionLabels,
    pub factors: Vec<f64>,
}

impl PositionFactors {
    /// Returns the factors by ascending label, of the positions that have one.
    pub fn ascending(labels: &PositionLabels, factors: &[Option<f64>]) -> PositionFactors {
        fn sorted<T: Ord + Clone>(labels: &[T], factors: &[Option<f64>]) -> (Vec<T>, Vec<f64>) {
            let mut pairs: Vec<(T, f64)> = labels.iter().cloned().zip(factors).filter_map(|(label, f)| f.map(|f| (label, f))).collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            pairs.into_iter().unzip()
        }
        match labels {
            PositionLabels::Numbers(labels) => {
                let (labels, factors) = sorted(labels, factors);
                PositionFactors { labels: PositionLabels::Numbers(labels), factors }
            }
            PositionLabels::Text(labels) => {
                let (labels, factors) = sorted(labels, factors);
                PositionFactors { labels: PositionLabels::Text(labels), factors }
            }
        }
    }

    /// Returns the factor of each of some positions; none of those that are not known.
    pub fn of(&self, labels: &PositionLabels) -> Vec<Option<f64>> {
        let at = |found: Option<usize>| found.and_then(|i| self.factors.get(i).copied());
        match (labels, &self.labels) {
            (PositionLabels::Numbers(wanted), PositionLabels::Numbers(known)) => {
                wanted.iter().map(|label| at(known.binary_search(label).ok())).collect()
            }
            (PositionLabels::Text(wanted), PositionLabels::Text(known)) => {
                wanted.iter().map(|label| at(known.binary_search(label).ok())).collect()
            }
            _ => vec![None; labels.len()],
        }
    }

    /// Adds what is wrong with factors that a model records.
    pub fn check(&self, problems: &mut Problems) {
        let fits = self.labels.len() == self.factors.len() && self.factors.iter().all(|f| f.is_finite());
        problems.check(fits, "position_factors", self.factors.len(), "a finite factor for each label");
    }
}
