//! Whether a forest is one: everything that applying and explaining it relies on.

use super::model::{Forest, Tree};
use super::params::Criterion;
use crate::column::FeatureType;
use crate::dataset::labels::{Labels, validate_labels};
use crate::envelope::check;
use crate::error::{Error, Result};
use crate::model::validate::{validate_branching, validate_columns, validate_feature, validate_feature_names, validate_unit};

impl Forest {
    /// Checks that the forest holds together: indices in range, every tree a tree, numbers that can
    /// be predictions. Forests from [`Forest::from_bytes`] always do.
    ///
    /// # Errors
    /// [`Error::Model`] saying what is wrong and where.
    pub fn validate(&self) -> Result<()> {
        self.params.validate()?;
        check(!self.trees.is_empty(), || "it has no tree".into())?;
        check(self.unit.is_finite() && self.unit > 0.0, || format!("its unit {:?} is not a positive number", self.unit))?;
        let classes = self.labels.as_ref().map(Labels::len);
        let fits = match self.criterion {
            Criterion::Auto => false,
            Criterion::Gini | Criterion::Entropy => classes.is_some_and(|c| c >= 1),
            Criterion::SquaredError | Criterion::Poisson => classes.is_none(),
        };
        check(fits, || format!("{classes:?} classes under the criterion {:?}", self.criterion))?;
        validate_labels(self.labels.as_ref(), &self.provenance)?;
        validate_unit("unit of gains", self.gain_unit)?;
        validate_feature_names(&self.features)?;
        validate_columns(&self.provenance, self.features.len())?;
        for f in &self.features {
            validate_feature(f, usize::MAX)?;
            check(f.categories.as_ref().is_none_or(|c| c.len() <= 254), || format!("`{}` has more than 254 categories", f.name))?;
        }
        for (t, tree) in self.trees.iter().enumerate() {
            self.validate_tree(tree).map_err(|what| Error::Model(format!("the model is not valid: tree {t}: {what}")))?;
        }
        if let Some(oob) = &self.oob {
            let shaped = oob.predictions.len() == self.outputs() && oob.predictions.iter().all(|p| p.len() as u64 == self.rows);
            check(shaped, || "its out-of-bag predictions are not one a row and output".into())?;
            check(oob.log_loss.is_some() == classes.is_some(), || "its out-of-bag score is of another kind".into())?;
        }
        let measured = self.permutation.as_ref().is_none_or(|p| p.len() == self.features.len());
        check(measured, || "its importances are not one a feature".into())
    }

    fn validate_tree(&self, tree: &Tree) -> std::result::Result<(), String> {
        let (leaves, outputs) = (tree.leaves(), self.outputs());
        validate_branching(&tree.nodes, leaves)?;
        if leaves.checked_mul(outputs) != Some(tree.sums.len()) {
            return Err(format!("{} sums for {leaves} leaves", tree.sums.len()));
        }
        if tree.means.len() != if self.labels.is_some() { 0 } else { leaves } {
            return Err(format!("{} means for {leaves} leaves", tree.means.len()));
        }
        for node in &tree.nodes {
            let s = &node.split;
            let feature = self.features.get(s.feature as usize).ok_or_else(|| format!("there is no feature {}", s.feature))?;
            let known = match (&feature.dtype, &feature.categories) {
                (FeatureType::Categorical, None) => false,
                (_, Some(_)) => (s.border as usize) < self.sets.len(),
                (_, None) => s.border as usize <= feature.borders.len(),
            };
            if !known {
                return Err(format!("feature {} has no border {}", s.feature, s.border));
            }
            if s.gain.is_nan() {
                return Err("a gain is NaN".into());
            }
        }
        // Of each leaf, and of all of them together, the weight is a number that 64 bits hold.
        let total = tree.sums.iter().try_fold(0u64, |total, s| total.checked_add(*s));
        if total.is_none() || tree.sums.chunks_exact(outputs).any(|s| s.iter().all(|s| *s == 0)) {
            return Err("a leaf weighs nothing, or too much".into());
        }
        if tree.counts.iter().try_fold(0u32, |total, c| total.checked_add(*c)).is_none() {
            return Err("it has more rows than 32 bits can count".into());
        }
        if tree.means.iter().all(|m| m.is_finite()) { Ok(()) } else { Err("a mean is not finite".into()) }
    }
}
