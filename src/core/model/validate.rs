//! Checks that all models share.

use crate::column::FeatureType;
use crate::encoding::Lookup;
use crate::envelope::check;
use crate::error::{Error, Result};
use crate::model::{Feature, History};
use crate::provenance::Provenance;
use crate::tree::model::{Child, Node};
use std::collections::HashSet;

/// There are features, each of a name of its own.
pub fn validate_feature_names(features: &[Feature]) -> Result<()> {
    check(!features.is_empty(), || "it has no feature".into())?;
    let mut names = HashSet::with_capacity(features.len());
    // Polars can hand no such column to a plugin.
    let is_name = |f: &Feature| check(!f.name.contains('\0'), || format!("the name of the feature {:?} has the character NUL", f.name));
    features.iter().try_for_each(is_name)?;
    features.iter().try_for_each(|f| check(names.insert(f.name.as_str()), || format!("the feature `{}` stands twice", f.name)))
}

/// Each curve of a history has a value a round, and none stands twice.
pub fn validate_curves(history: &History) -> Result<()> {
    let rounds = history.values.len();
    let mut names = HashSet::new();
    for (set, metric, values) in history.curves() {
        check(values.len() == rounds, || format!("the curve of {metric} has {} values of {rounds}", values.len()))?;
        check(names.insert((set, metric.to_string())), || format!("the curve of {metric} stands twice"))?;
    }
    Ok(())
}

/// Computed columns are some of those that a model reads.
pub fn validate_columns(provenance: &Provenance, columns: usize) -> Result<()> {
    provenance.check_columns(columns).or_else(|what| check(false, || what))
}

/// What numbers are in units of is a positive, normal power of two: no sign, no mantissa.
pub fn validate_unit(name: &str, unit: f64) -> Result<()> {
    let power_of_two = unit.is_normal() && unit > 0.0 && unit.to_bits() << 12 == 0;
    check(power_of_two, || format!("its {name} {unit:?} is not a power of two"))
}

/// Borders ascend and categories are some, each where the feature's type has them.
pub fn validate_feature(f: &Feature, most_borders: usize) -> Result<()> {
    let b = &f.borders;
    check(b.len() <= most_borders, || format!("the feature `{}` has {} borders", f.name, b.len()))?;
    let ascending = b.iter().all(|x| *x < f64::INFINITY) && b.windows(2).all(|w| w[0] < w[1]);
    check(ascending, || format!("the borders of `{}` do not ascend", f.name))?;
    let categorical = f.dtype == FeatureType::Categorical;
    check(categorical || f.categories.is_none(), || format!("`{}` has categories and is {}", f.name, f.dtype))?;
    check(!categorical || b.is_empty(), || format!("`{}` has borders and is categorical", f.name))?;
    if let Some(categories) = &f.categories {
        Lookup::new(categories.clone()).map_err(|e| Error::Model(format!("the model is not valid: `{}`: {e}", f.name)))?;
    }
    Ok(())
}

/// Children behind their parents, and each node but the root and each leaf led to exactly once:
/// then it is a tree, with no cycle and nothing out of reach.
pub fn validate_branching(nodes: &[Node], leaves: usize) -> std::result::Result<(), String> {
    if leaves != nodes.len() + 1 {
        return Err(format!("{leaves} leaves under {} nodes", nodes.len()));
    }
    let mut node_seen = vec![false; nodes.len()];
    let mut leaf_seen = vec![nodes.is_empty(); leaves];
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
