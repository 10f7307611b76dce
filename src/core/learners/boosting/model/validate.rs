//! Whether a model is one: everything that applying and explaining it relies on.

use super::{CtrTable, Derived, HashedPart, Model};
use crate::column::FeatureType;
use crate::column::categories::Categories;
use crate::dataset::labels::{Labels, validate_labels};
use crate::encoding::ctr::CtrKind;
use crate::envelope::check;
use crate::error::{Error, Result};
use crate::losses::{LossTarget, loss};
use crate::model::validate::{
    validate_branching, validate_columns, validate_curves, validate_feature, validate_feature_names, validate_unit,
};
use crate::tree::linear::LinearLeaf;
use crate::tree::model::{Leaf, Split, Tree};

/// The deepest symmetric tree.
pub const MAX_SYMMETRIC_DEPTH: usize = 16;

/// The most borders of a feature of a fit, and of a statistic; an imported model's features may have any number.
pub const MAX_FITTED_BORDERS: usize = 255;

/// The most columns whose categories a table may combine: the limit of the parameter `max_combination`.
pub const MAX_COMBINATION: usize = 8;

/// The most parts of a combination that is hashed.
pub const MAX_HASHED_PARTS: usize = 64;

/// The most statistics of one sum of a table that differ in their prior: the limit of the parameter `ctr_priors`.
pub const MAX_PRIORS: usize = 16;

impl Model {
    /// Checks that the model holds together: indices in range, every tree a tree, numbers that
    /// can be scores, labels that fit the loss. Models from [`Model::from_bytes`] always do.
    ///
    /// # Errors
    /// [`Error::Model`] saying what is wrong and where.
    pub fn validate(&self) -> Result<()> {
        self.params.validate()?;
        self.validate_outputs()?;
        self.validate_features()?;
        self.validate_derived()?;
        for (t, tree) in self.trees.iter().enumerate() {
            let fail = |what: String| Error::Model(format!("the model is not valid: tree {t}: {what}"));
            match tree {
                Tree::Symmetric { splits, leaves } => validate_symmetric(splits, leaves),
                Tree::Branching { nodes, leaves } => validate_branching(nodes, leaves.len()),
            }
            .and_then(|_| tree.splits().try_for_each(|s| self.validate_split(s)))
            .and_then(|_| tree.leaves().iter().try_for_each(|l| self.validate_leaf(l)))
            .map_err(fail)?;
        }
        self.validate_linear()?;
        let Some(h) = &self.history else { return Ok(()) };
        validate_curves(h)?;
        check(h.values.len() >= self.rounds(), || format!("{} metric values for {} rounds", h.values.len(), self.rounds()))?;
        check(h.values.is_empty() || (h.best as usize) < h.values.len(), || format!("the best round is {} of {}", h.best, h.values.len()))
    }

    fn validate_outputs(&self) -> Result<()> {
        let outputs = self.outputs();
        check(outputs >= 1, || "it has no output".into())?;
        check(self.start.iter().all(|s| s.is_finite()), || format!("its start {:?} is not finite", self.start))?;
        for (name, unit) in [("scale", self.scale), ("unit of gains", self.units.gain), ("unit of weights", self.units.weight)] {
            validate_unit(name, unit)?;
        }
        check(self.trees.len().is_multiple_of(outputs), || format!("{} trees for {outputs} outputs", self.trees.len()))?;
        let classes = self.labels.as_ref().map(Labels::len);
        let fits = match self.loss.target() {
            None => false,
            Some(LossTarget::Classes) => outputs >= 2 && classes == Some(outputs),
            // One class where there was no other to learn: a constant.
            Some(LossTarget::TwoClasses) => outputs == 1 && matches!(classes, Some(1 | 2)),
            Some(LossTarget::Labels) if self.params.targets.is_none() => false,
            Some(LossTarget::Numbers | LossTarget::Labels) => {
                let loss = loss(self.loss, &self.params.loss_params(), 1, 1.0);
                classes.is_none() && loss.is_ok_and(|loss| loss.outputs() == outputs)
            }
        };
        check(fits, || format!("{outputs} outputs and {classes:?} classes under the loss {:?}", self.loss))?;
        validate_labels(self.labels.as_ref(), &self.provenance)
    }

    fn validate_features(&self) -> Result<()> {
        validate_feature_names(&self.features)?;
        validate_columns(&self.provenance, self.features.len())?;
        self.features.iter().try_for_each(|f| validate_feature(f, usize::MAX))
    }

    /// The categories of a feature; none where it has none at all.
    fn categories(&self, feature: u32) -> Option<&Categories> {
        self.features.get(feature as usize)?.categories.as_ref()
    }

    /// How many categories a feature has that statistics are of; none where these are hashes.
    fn cardinality(&self, feature: u32) -> Option<u64> {
        self.categories(feature).filter(|c| !c.are_hashed()).map(|c| c.len() as u64)
    }

    fn validate_derived(&self) -> Result<()> {
        let mut are_hashes = vec![false; self.tables.len()];
        for derived in &self.derived {
            if let Derived::Hashed { table, .. } = derived
                && let Some(are_hashes) = are_hashes.get_mut(*table as usize)
            {
                *are_hashes = true;
            }
        }
        for (i, t) in self.tables.iter().enumerate() {
            if are_hashes[i] {
                check(is_of_hashes(t), || format!("table {i} is not one of hashes"))?;
                continue;
            }
            let columns = t.features.len();
            check(columns <= MAX_COMBINATION, || format!("table {i} combines {columns} features, {MAX_COMBINATION} are the most"))?;
            let ascending = columns > 0 && t.features.windows(2).all(|w| w[0] < w[1]);
            check(ascending, || format!("table {i} is of the features {:?}", t.features))?;
            let cardinalities: Option<Vec<u64>> = t.features.iter().map(|f| self.cardinality(*f)).collect();
            let space = cardinalities.and_then(|c| c.iter().try_fold(1u64, |product, c| product.checked_mul(*c)));
            let Some(space) = space else {
                return check(false, || format!("table {i} has a feature without categories, or too many combinations"));
            };
            let entries = t.n.len();
            let keyed = match t.features.len() {
                1 => t.keys.is_empty() && entries as u64 == space,
                _ => t.keys.len() == entries && t.keys.windows(2).all(|w| w[0] < w[1]) && t.keys.last().is_none_or(|k| *k < space),
            };
            check(keyed, || format!("the entries of table {i} are not those of its features"))?;
            check(t.sums.iter().all(|s| s.len() == entries), || format!("a sum of table {i} has not {entries} entries"))?;
        }
        // A statistic takes a byte for each entry of its table when the model is applied. There are no more of them than the table
        // has sums to give, so that the memory is in proportion to the table.
        let mut statistics = vec![0usize; self.tables.len()];
        for (i, d) in self.derived.iter().enumerate() {
            if let Derived::Ctr { table, .. } = d
                && let Some(count) = statistics.get_mut(*table as usize)
            {
                *count += 1;
                let sums = self.tables[*table as usize].sums.len();
                // The counter is the one statistic without a sum.
                check(*count <= MAX_PRIORS * (sums + 1), || {
                    format!("more than {} derived features ask for statistics of table {table}, which has {sums} sums", *count - 1)
                })?;
            }
            let valid = match d {
                Derived::OneOf { feature, categories } => {
                    let known = self.categories(*feature).map_or(0, |c| c.len() as u64);
                    categories.windows(2).all(|w| w[0] < w[1]) && categories.last().is_some_and(|c| (*c as u64) < known)
                }
                Derived::Ctr { table, sums, ctr, unit, borders } => {
                    let are_counts = are_hashes.get(*table as usize) == Some(&false);
                    let table = self.tables.get(*table as usize).filter(|_| are_counts);
                    let found = table.is_some_and(|t| ctr.kind == CtrKind::Counter || (*sums as usize) < t.sums.len());
                    let ascending = borders.iter().all(|x| x.is_finite()) && borders.windows(2).all(|w| w[0] < w[1]);
                    found && ascending && borders.len() <= MAX_FITTED_BORDERS && unit.is_finite() && ctr.prior.is_finite()
                }
                Derived::Hashed { .. } => {
                    check(self.is_hashed(d), || format!("derived feature {i} is not found by a hash of its parts"))?;
                    true
                }
            };
            check(valid, || format!("derived feature {i}: {d:?}"))?;
        }
        Ok(())
    }

    /// Whether what a derived feature hashes and what it finds are there, and its table is of the same columns.
    fn is_hashed(&self, derived: &Derived) -> bool {
        let Derived::Hashed { table, parts, values, unseen, borders } = derived else { return false };
        let ascending = borders.iter().all(|x| x.is_finite()) && borders.windows(2).all(|w| w[0] < w[1]);
        let mut columns = Vec::with_capacity(parts.len().min(MAX_HASHED_PARTS));
        for part in parts.iter().take(MAX_HASHED_PARTS) {
            columns.extend(match part {
                HashedPart::Category(column) => self.categories(*column).filter(|c| c.are_hashed()).map(|_| *column),
                HashedPart::Answer { feature, border, .. } => match self.features.get(*feature as usize) {
                    Some(f) => (*border as usize <= f.borders.len()).then_some(*feature),
                    None => match self.derived.get(*feature as usize - self.features.len()) {
                        Some(Derived::OneOf { feature, categories }) => (categories.len() == 1 && *border == 0).then_some(*feature),
                        _ => None,
                    },
                },
            });
        }
        let are_valid = columns.len() == parts.len();
        columns.sort_unstable();
        columns.dedup();
        let table = self.tables.get(*table as usize);
        are_valid
            && ascending
            && borders.len() <= MAX_FITTED_BORDERS
            && !unseen.is_nan()
            && values.iter().all(|x| !x.is_nan())
            && table.is_some_and(|t| t.features == columns && t.keys.len() == values.len())
    }

    fn validate_split(&self, split: &Split) -> std::result::Result<(), String> {
        if split.feature as usize >= self.features.len() + self.derived.len() {
            return Err(format!("there is no feature {}", split.feature));
        }
        if split.border as usize > self.borders(split.feature).len() {
            return Err(format!("feature {} has no border {}", split.feature, split.border));
        }
        // A gain is only told, never computed with: an infinite one is no reason to refuse a model.
        if split.gain.is_nan() { Err("a gain is NaN".into()) } else { Ok(()) }
    }

    /// Leaves that are linear functions stand in order, each once, and read columns of numbers.
    pub(super) fn validate_linear(&self) -> Result<()> {
        let place = |leaf: &LinearLeaf| (leaf.tree, leaf.leaf);
        let ascend = self.linear.windows(2).all(|pair| place(&pair[0]) < place(&pair[1]));
        check(ascend, || "its linear leaves do not ascend by tree and leaf".into())?;
        for leaf in &self.linear {
            let fail = |what: String| Error::Model(format!("the model is not valid: tree {}: leaf {}: {what}", leaf.tree, leaf.leaf));
            let leaves = self.trees.get(leaf.tree as usize).map_or(0, |tree| tree.leaves().len());
            if leaf.leaf as usize >= leaves {
                return Err(fail(format!("there are {leaves} leaves")));
            }
            leaf.validate(self.scale).map_err(fail)?;
            let reads = |feature: u32| self.features.get(feature as usize).is_some_and(|f| f.dtype != FeatureType::Categorical);
            if let Some((feature, _)) = leaf.terms.iter().find(|(feature, _)| !reads(*feature)) {
                return Err(fail(format!("its linear function reads feature {feature}, which is none of numbers")));
            }
        }
        Ok(())
    }

    fn validate_leaf(&self, leaf: &Leaf) -> std::result::Result<(), String> {
        if !((leaf.value as f32) as f64 * self.scale).is_finite() {
            return Err(format!("the leaf value {:?} is not finite", leaf.value));
        }
        if leaf.weight >= 0.0 { Ok(()) } else { Err(format!("the leaf weight {:?} is negative or NaN", leaf.weight)) }
    }
}

/// Whether a table has ascending hashes of combinations, and nothing of each.
fn is_of_hashes(table: &CtrTable) -> bool {
    let ascend = table.keys.windows(2).all(|w| w[0] < w[1]) && table.keys.last() != Some(&u64::MAX);
    ascend && !table.features.is_empty() && table.n.is_empty() && table.sums.is_empty()
}

fn validate_symmetric(splits: &[Split], leaves: &[Leaf]) -> std::result::Result<(), String> {
    if splits.len() > MAX_SYMMETRIC_DEPTH {
        return Err(format!("a symmetric tree of depth {}", splits.len()));
    }
    if leaves.len() == 1 << splits.len() { Ok(()) } else { Err(format!("{} leaves under {} levels", leaves.len(), splits.len())) }
}
