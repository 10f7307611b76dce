//! A compiled model as a device takes it.

use super::linear::LinearPlan;
use super::{Plan, Slot, states};
use crate::learners::boosting::model::Model;
use crate::learners::boosting::model::entries::Entries;
use crate::tree::model::Tree;

/// Everything that predictions need, in plain arrays.
pub struct Parts<'a> {
    pub slots: Vec<SlotPart<'a>>,
    pub entries: &'a [Entries],
    /// What keys of entries are made of, beside categories: tests of slots.
    pub answers: Vec<(u32, u8, u8)>,
    pub trees: Vec<TreePart>,
    /// Slot, shift, above: see `Test`.
    pub tests: Vec<(u32, u8, u8)>,
    /// Of each node of a branching tree the states left and right: `k` is node `k`, `nodes + k` leaf `k`.
    pub children: Vec<[u32; 2]>,
    /// Leaf values in the model's own order.
    pub values: Vec<f64>,
    /// Leaves that are linear functions, in the same order.
    pub linear: LinearPlan,
}

/// Where the codes of a slot come from.
pub enum SlotPart<'a> {
    /// A column's values, `1 + #(borders < x)`, 0 for missing ones.
    Column { feature: usize, borders: &'a [f64] },
    /// What the row looks up: index into the entries, and the code of each entry.
    Derived { entries: usize, of_entry: &'a [u8] },
}

/// A tree: ranges of the lists.
pub struct TreePart {
    pub symmetric: bool,
    pub first_test: usize,
    pub tests: usize,
    pub first_value: usize,
}

impl Plan {
    /// The plan of `model`, taken apart.
    pub(in crate::learners::boosting::model) fn parts(&self, model: &Model) -> Parts<'_> {
        let slots = self.slots.iter().map(|slot| match slot {
            Slot::Column(feature, search) => SlotPart::Column { feature: *feature, borders: search.borders() },
            Slot::Derived(entries, of_entry) => SlotPart::Derived { entries: *entries, of_entry },
        });
        let mut parts = Parts {
            slots: slots.collect(),
            entries: &self.entries,
            answers: self.answers.iter().map(|t| (t.slot, t.shift, t.above)).collect(),
            trees: Vec::with_capacity(model.trees.len()),
            tests: self.tests.iter().map(|t| (t.slot, t.shift, t.above)).collect(),
            children: vec![[0; 2]; self.tests.len()],
            values: vec![],
            linear: LinearPlan::default(),
        };
        for (tree, compiled) in model.trees.iter().zip(&self.trees) {
            let symmetric = match tree {
                Tree::Branching { nodes, .. } => {
                    for (node, out) in nodes.iter().zip(&mut parts.children[compiled.first_test..]) {
                        *out = states(node, nodes.len());
                    }
                    nodes.is_empty()
                }
                Tree::Symmetric { .. } => true,
            };
            let (first_test, tests, first_value) = (compiled.first_test, compiled.tests, parts.values.len());
            parts.trees.push(TreePart { symmetric, first_test, tests, first_value });
            parts.values.extend(tree.leaves().iter().map(|leaf| leaf.value));
        }
        let most = model.trees.iter().map(|tree| tree.leaves().len()).max().unwrap_or(0);
        let own_order: Vec<u32> = (0..if model.linear.is_empty() { 0 } else { most as u32 }).collect();
        parts.linear = LinearPlan::new(model, |tree| &own_order[..model.trees[tree].leaves().len()]);
        parts
    }
}
