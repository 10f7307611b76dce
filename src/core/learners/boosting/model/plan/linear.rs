//! Leaves that are linear functions, compiled: which columns are read as values, and each leaf's function of them.

use crate::column::Column;
use crate::learners::boosting::model::Model;
use crate::tree::linear::of_tree;

/// The value of a leaf: `constant + Σ` of the terms `first .. end`, where that is finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearValue {
    pub constant: f64,
    pub first: u32,
    pub end: u32,
}

/// The values of a slot, times a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearTerm {
    pub coefficient: f64,
    pub slot: u32,
}

/// The leaves of a model as functions; those that are numbers have no terms.
#[derive(Default)]
pub struct LinearPlan {
    /// The column that each slot has the values of.
    pub columns: Vec<usize>,
    /// Of each leaf of the trees that have some, tree after tree, in the order of the leaves that it was made for.
    pub leaves: Vec<LinearValue>,
    pub terms: Vec<LinearTerm>,
    /// Of each tree the place of its first leaf; none where all its leaves are numbers.
    pub trees: Vec<Option<u32>>,
}

impl LinearPlan {
    /// Compiles a valid model; nothing of one whose leaves all are numbers. `order`: of each leaf of a tree, in the order that is asked for,
    /// its number in the model.
    pub fn new<'o>(model: &Model, order: impl Fn(usize) -> &'o [u32]) -> LinearPlan {
        let mut plan = LinearPlan::default();
        if model.linear.is_empty() {
            return plan;
        }
        plan.columns = model.linear.iter().flat_map(|leaf| &leaf.terms).map(|(feature, _)| *feature as usize).collect();
        plan.columns.sort_unstable();
        plan.columns.dedup();
        for (t, tree) in model.trees.iter().enumerate() {
            let own = of_tree(&model.linear, t);
            plan.trees.push((!own.is_empty()).then_some(plan.leaves.len() as u32));
            if own.is_empty() {
                continue;
            }
            for leaf in order(t).iter().copied() {
                let first = plan.terms.len() as u32;
                let mut constant = tree.leaves()[leaf as usize].value;
                if let Ok(at) = own.binary_search_by_key(&leaf, |one| one.leaf) {
                    constant = own[at].constant;
                    let slot = |feature: u32| plan.columns.partition_point(|column| (*column as u32) < feature) as u32;
                    let term = |(feature, coefficient): &(u32, f64)| LinearTerm { coefficient: *coefficient, slot: slot(*feature) };
                    plan.terms.extend(own[at].terms.iter().map(term));
                }
                plan.leaves.push(LinearValue { constant, first, end: plan.terms.len() as u32 });
            }
        }
        plan
    }

    /// Reads rows `start .. start + rows` of the model's columns, `[slot * rows + row]`.
    pub fn read(&self, columns: &[&Column<'_>], start: usize, rows: usize, values: &mut Vec<f64>) {
        values.resize(self.columns.len() * rows, 0.0);
        for (column, out) in self.columns.iter().zip(values.chunks_exact_mut(rows.max(1))) {
            columns[*column].read_f64(start, out);
        }
    }

    /// Returns the value of a leaf for a row of `values`, which are of `rows` rows, where it is finite.
    #[inline]
    pub fn value(&self, leaf: usize, values: &[f64], rows: usize, row: usize) -> Option<f64> {
        let LinearValue { constant, first, end } = self.leaves[leaf];
        let terms = &self.terms[first as usize..end as usize];
        let sum = terms.iter().fold(constant, |sum, term| sum + term.coefficient * values[term.slot as usize * rows + row]);
        sum.is_finite().then_some(sum)
    }
}
