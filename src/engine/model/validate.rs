//! Whether a model is one: everything that applying and explaining it relies on.

use super::{Labels, Model};
use crate::boosting::params::LossKind;
use crate::error::{Error, Result};
use crate::tree::model::{Child, Leaf, Node, Split, Tree};
use std::collections::HashSet;

/// The deepest symmetric tree.
pub const MAX_SYMMETRIC_DEPTH: usize = 16;

/// The most borders a feature may have.
pub const MAX_BORDERS: usize = 255;

fn check(ok: bool, message: impl FnOnce() -> String) -> Result<()> {
    if ok { Ok(()) } else { Err(Error::Model(format!("the model is not valid: {}", message()))) }
}

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
        for (t, tree) in self.trees.iter().enumerate() {
            let fail = |what: String| Error::Model(format!("the model is not valid: tree {t}: {what}"));
            match tree {
                Tree::Symmetric { splits, leaves } => validate_symmetric(splits, leaves),
                Tree::Branching { nodes, leaves } => validate_branching(nodes, leaves),
            }
            .and_then(|_| tree.splits().try_for_each(|s| self.validate_split(s)))
            .and_then(|_| tree.leaves().iter().try_for_each(|l| self.validate_leaf(l)))
            .map_err(fail)?;
        }
        let Some(h) = &self.history else { return Ok(()) };
        check(h.values.len() >= self.rounds(), || format!("{} metric values for {} rounds", h.values.len(), self.rounds()))?;
        check(h.values.is_empty() || (h.best as usize) < h.values.len(), || format!("the best round is {} of {}", h.best, h.values.len()))
    }

    fn validate_outputs(&self) -> Result<()> {
        let outputs = self.outputs();
        check(outputs >= 1, || "it has no output".into())?;
        check(self.start.iter().all(|s| s.is_finite()), || format!("its start {:?} is not finite", self.start))?;
        // A positive, normal power of two: no sign, no mantissa.
        let power_of_two = self.scale.is_normal() && self.scale > 0.0 && self.scale.to_bits() << 12 == 0;
        check(power_of_two, || format!("its scale {:?} is not a power of two", self.scale))?;
        check(self.trees.len().is_multiple_of(outputs), || format!("{} trees for {outputs} outputs", self.trees.len()))?;
        let classes = self.labels.as_ref().map(Labels::len);
        let fits = match self.loss {
            LossKind::Auto => false,
            LossKind::Multiclass => outputs >= 2 && classes == Some(outputs),
            LossKind::Logloss => outputs == 1 && classes == Some(2),
            _ => outputs == 1 && classes.is_none(),
        };
        check(fits, || format!("{outputs} outputs and {classes:?} classes under the loss {:?}", self.loss))?;
        let Some(labels) = &self.labels else { return Ok(()) };
        let distinct = match labels {
            Labels::Boolean => true,
            Labels::Integer(v) => v.iter().collect::<HashSet<_>>().len() == v.len(),
            Labels::Float(v) => {
                v.iter().all(|x| x.is_finite()) && v.iter().map(|x| (x + 0.0).to_bits()).collect::<HashSet<_>>().len() == v.len()
            }
            Labels::Text(v) => v.iter().collect::<HashSet<_>>().len() == v.len(),
        };
        check(distinct, || "a class label stands twice, or is not finite".into())
    }

    fn validate_features(&self) -> Result<()> {
        check(!self.features.is_empty(), || "it has no feature".into())?;
        let mut names = HashSet::with_capacity(self.features.len());
        for f in &self.features {
            check(names.insert(f.name.as_str()), || format!("the feature `{}` stands twice", f.name))?;
            let b = &f.borders;
            check(b.len() <= MAX_BORDERS, || format!("the feature `{}` has {} borders", f.name, b.len()))?;
            let ascending = b.iter().all(|x| *x < f64::INFINITY) && b.windows(2).all(|w| w[0] < w[1]);
            check(ascending, || format!("the borders of `{}` do not ascend", f.name))?;
        }
        Ok(())
    }

    fn validate_split(&self, split: &Split) -> std::result::Result<(), String> {
        let feature = self.features.get(split.feature as usize).ok_or_else(|| format!("there is no feature {}", split.feature))?;
        if split.border as usize > feature.borders.len() {
            return Err(format!("`{}` has no border {}", feature.name, split.border));
        }
        // A gain is only told, never computed with: an infinite one is no reason to refuse a model.
        if split.gain.is_nan() { Err("a gain is NaN".into()) } else { Ok(()) }
    }

    fn validate_leaf(&self, leaf: &Leaf) -> std::result::Result<(), String> {
        if !(leaf.value as f64 * self.scale).is_finite() {
            return Err(format!("the leaf value {:?} is not finite", leaf.value));
        }
        if leaf.weight >= 0.0 { Ok(()) } else { Err(format!("the leaf weight {:?} is negative or NaN", leaf.weight)) }
    }
}

fn validate_symmetric(splits: &[Split], leaves: &[Leaf]) -> std::result::Result<(), String> {
    if splits.len() > MAX_SYMMETRIC_DEPTH {
        return Err(format!("a symmetric tree of depth {}", splits.len()));
    }
    if leaves.len() == 1 << splits.len() { Ok(()) } else { Err(format!("{} leaves under {} levels", leaves.len(), splits.len())) }
}

/// Children behind their parents, and each node but the root and each leaf led to exactly once:
/// then it is a tree, with no cycle and nothing out of reach.
fn validate_branching(nodes: &[Node], leaves: &[Leaf]) -> std::result::Result<(), String> {
    if leaves.len() != nodes.len() + 1 {
        return Err(format!("{} leaves under {} nodes", leaves.len(), nodes.len()));
    }
    let mut node_seen = vec![false; nodes.len()];
    let mut leaf_seen = vec![nodes.is_empty(); leaves.len()];
    for (i, node) in nodes.iter().enumerate() {
        for child in [node.left, node.right] {
            let seen = match child {
                Child::Node(c) if c as usize > i => node_seen.get_mut(c as usize),
                Child::Node(_) => None,
                Child::Leaf(c) => leaf_seen.get_mut(c as usize),
            };
            match seen {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(format!("node {i} leads to {child:?}, which is out of range, not below it, or led to twice")),
            }
        }
    }
    // 2n children, all distinct, among n - 1 nodes and n + 1 leaves: none is left out.
    Ok(())
}
