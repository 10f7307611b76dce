//! A fitted model: what it holds ([`Model`], its class labels), its bytes ([`envelope`]) and what they must keep to
//! ([`validate`]), how it is applied ([`apply`], by a compiled `plan` that starts with a `search`
//! for the code of each value), and how it explains itself ([`explain`], [`json`])
//! and its predictions ([`shap`]).

pub mod apply;
pub mod entries;
pub mod envelope;
pub mod explain;
mod fitted;
mod from_json;
mod head;
mod join;
pub mod json;
pub mod plan;
pub mod shap;
pub mod validate;
pub mod walk_rounds;

use super::params::BoostingParams;
use crate::encoding::ctr::{Ctr, CtrKind};
use crate::losses::LossKind;
use crate::model::payload::name_of;
use crate::model::{Feature, History};
use crate::provenance::Provenance;
use crate::tree::Tree;
use crate::tree::linear::LinearLeaf;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

pub use crate::dataset::labels::{Label, Labels};

/// The first hundred characters of a text, and that there were more.
fn beginning(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(100) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}

/// A feature that is derived from categorical columns. Splits number them behind the columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Derived {
    /// Whether a column's category is one of some: a row goes right where it is.
    OneOf {
        /// Index into the model's features.
        feature: u32,
        /// Ascending codes.
        categories: Vec<u32>,
    },
    /// A statistic of a category, or of a combination of categories.
    Ctr {
        /// Index into the model's tables.
        table: u32,
        /// Index into the table's sums; not used by a counter.
        sums: u32,
        ctr: Ctr,
        /// What one unit of a sum is worth.
        unit: f64,
        /// Ascending: a split sends `value > border` right.
        borders: Vec<f64>,
    },
    /// A number that is found by a hash of a combination: of categories, and of what other splits answer.
    Hashed {
        /// Index into the model's tables: one that has keys alone.
        table: u32,
        /// What is hashed, in this order, by [`extend_hash`] from 0 on.
        parts: Vec<HashedPart>,
        /// Of each of the table's keys.
        values: Vec<f32>,
        /// Of a combination whose hash is none of the keys.
        unseen: f32,
        /// Ascending: a split sends `value > border` right.
        borders: Vec<f64>,
    },
}

/// A part of a combination that is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HashedPart {
    /// The category of a column whose codes are hashes.
    Category(u32),
    /// Whether a row goes right at a split of a column, or of a set of categories: 1 where it does, else 0.
    Answer { feature: u32, border: u32, missing_left: bool },
}

/// Returns the hash of a combination with one more part, as CatBoost computes it.
#[inline(always)]
pub fn extend_hash(hash: u64, part: u64) -> u64 {
    const MULTIPLIER: u64 = 0x4906_ba49_4954_cb65;
    MULTIPLIER.wrapping_mul(hash.wrapping_add(MULTIPLIER.wrapping_mul(part)))
}

/// Returns the code of a category as a part of a combination, for which CatBoost counts it as signed.
#[inline(always)]
pub fn part_of_code(code: u32) -> u64 {
    code as i32 as i64 as u64
}

impl Derived {
    /// What splits choose from.
    pub fn borders(&self) -> &[f64] {
        match self {
            Derived::OneOf { .. } => &[0.5],
            Derived::Ctr { borders, .. } | Derived::Hashed { borders, .. } => borders,
        }
    }
}

/// Statistics of the categories of a column, or of the combinations of several, over all training rows; or the hashes of combinations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CtrTable {
    /// Indices into the model's features, ascending.
    pub features: Vec<u32>,
    /// The combinations that occur, ascending: `(code of the first * categories of the second +
    /// code of the second) * …`. Empty for a single column, whose entries are its codes. Of what [`Derived::Hashed`] looks up the
    /// hashes of combinations, ascending, and nothing else; never the largest u64.
    pub keys: Vec<u64>,
    /// Of each entry, the number of training rows.
    pub n: Vec<u32>,
    /// Sums over the rows of each entry.
    pub sums: Vec<Vec<u64>>,
}

/// What numbers that trees keep as f32 are in units of: positive powers of two, 1 unless f32 has no room for them as they are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Units {
    /// Of the splits' gains.
    pub gain: f64,
    /// Of the leaves' weights.
    pub weight: f64,
}

impl Units {
    /// Those of numbers as they are.
    pub const ONE: Units = Units { gain: 1.0, weight: 1.0 };
}

impl Default for Units {
    fn default() -> Self {
        Units::ONE
    }
}

/// A fitted ensemble of trees.
///
/// The raw score of output `k` is `start[k] + scale * Σ leaf values` over the trees `k`,
/// `k + outputs`, `k + 2 outputs`, …, added in f64 in that order. A leaf that is a [linear function](LinearLeaf) has its value at the row.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What it was fitted with (`n_threads`, `bundle` and `device` at their defaults).
    pub params: BoostingParams,
    /// The loss that `params.loss` came to; never `Auto`.
    pub loss: LossKind,
    /// The target column's name.
    pub target: String,
    /// The features, in the order of fitting.
    pub features: Vec<Feature>,
    /// The features derived from categorical columns.
    pub derived: Vec<Derived>,
    /// The statistics that derived features look up.
    pub tables: Vec<CtrTable>,
    /// The labels of a classifier.
    pub labels: Option<Labels>,
    /// The score before the first tree, one for each output.
    pub start: Vec<f64>,
    /// A positive power of two that leaf values are in units of.
    pub scale: f64,
    /// What the splits' gains and the leaves' weights are in units of.
    pub units: Units,
    /// Round after round, the outputs' trees in order.
    pub trees: Vec<Tree>,
    /// The leaves that are linear functions of their rows' values, ascending by tree and leaf.
    pub linear: Vec<LinearLeaf>,
    /// The number of training rows, those of weight 0 among them.
    pub rows: u64,
    /// The curve of the metric, where rows were held out.
    pub history: Option<History>,
    /// Where its classes and columns come from.
    pub provenance: Provenance,
}

impl Model {
    /// The number of scores a row: that of several targets, the number of classes under `multiclass` and `ova`, that of several
    /// quantiles, 2 under `gaussian`, else 1.
    pub fn outputs(&self) -> usize {
        self.start.len()
    }

    /// The borders that splits on a feature choose from: of a column, or of a derived feature.
    pub fn borders(&self, feature: u32) -> &[f64] {
        match self.features.get(feature as usize) {
            Some(f) => &f.borders,
            None => self.derived[feature as usize - self.features.len()].borders(),
        }
    }

    /// The columns that a feature is made of, as indices into the model's features.
    pub fn columns_of(&self, feature: u32) -> Vec<u32> {
        match self.derived.get((feature as usize).wrapping_sub(self.features.len())) {
            Some(Derived::OneOf { feature, .. }) => vec![*feature],
            Some(Derived::Ctr { table, .. } | Derived::Hashed { table, .. }) => self.tables[*table as usize].features.clone(),
            None => vec![feature],
        }
    }

    /// The name of a feature: a column's own, or what is asked about categories, in which names of columns and categories are cut
    /// after a hundred characters.
    pub fn feature_name(&self, feature: u32) -> String {
        let name = |column: &u32| beginning(&self.features[*column as usize].name);
        match self.derived.get((feature as usize).wrapping_sub(self.features.len())) {
            None => self.features[feature as usize].name.clone(),
            Some(Derived::OneOf { feature, categories }) => {
                let known = self.features[*feature as usize].categories.as_ref();
                let label = |c: &u32| match known {
                    Some(known) => known.text(*c).map_or_else(|| known.name(*c).into(), beginning),
                    None => c.to_string().into(),
                };
                let labels: Vec<Cow<'_, str>> = categories.iter().map(label).collect();
                format!("{} in {{{}}}", name(feature), labels.join(", "))
            }
            Some(Derived::Ctr { table, ctr, .. }) => {
                let columns: Vec<Cow<'_, str>> = self.tables[*table as usize].features.iter().map(name).collect();
                let class = match ctr.kind {
                    CtrKind::Borders | CtrKind::Buckets => format!(", class {}", ctr.class),
                    _ => String::new(),
                };
                format!("{}({}{class}, prior {})", name_of(&ctr.kind), columns.join(", "), ctr.prior)
            }
            Some(Derived::Hashed { parts, .. }) => {
                let part = |part: &HashedPart| match part {
                    HashedPart::Category(column) => name(column).into_owned(),
                    HashedPart::Answer { feature, border, .. } => match self.features.get(*feature as usize) {
                        Some(of) => format!("{} > {}", name(feature), of.borders.get(*border as usize).unwrap_or(&f64::INFINITY)),
                        // A set of one category.
                        None => self.feature_name(*feature),
                    },
                };
                format!("statistic({})", parts.iter().map(part).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// The number of boosting rounds kept.
    pub fn rounds(&self) -> usize {
        self.trees.len() / self.outputs().max(1)
    }
}
