//! Leaves that are linear functions of their rows' values (Shi et al., "Gradient Boosting With Piece-Wise Linear Regression Trees", 2018).

use serde::{Deserialize, Serialize};

/// A leaf whose value is a linear function of its rows' values: `constant + Σ coefficient · value`, added in the order of the terms, in f64,
/// each product rounded by itself. Where that is not finite, because a value is missing or the sum is beyond f64, the row gets the leaf's
/// plain value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinearLeaf {
    /// Index into the model's trees.
    pub tree: u32,
    /// Index into the tree's leaves.
    pub leaf: u32,
    /// The learning rate included, in units of the model's `scale`, as the plain value is.
    pub constant: f64,
    /// The features, ascending indices into the model's, and by what their values are multiplied.
    pub terms: Vec<(u32, f64)>,
}

impl LinearLeaf {
    /// Returns the leaf's value for a row whose feature `f` has the value `of(f)`; none where it is not finite.
    pub fn value(&self, of: impl Fn(u32) -> f64) -> Option<f64> {
        let sum = self.terms.iter().fold(self.constant, |sum, (feature, coefficient)| sum + coefficient * of(*feature));
        sum.is_finite().then_some(sum)
    }

    /// Multiplies its values by a power of two.
    pub fn rescale(&mut self, by: f64) {
        self.constant *= by;
        self.terms.iter_mut().for_each(|(_, coefficient)| *coefficient *= by);
    }

    /// Checks that it holds together: numbers that are finite in units of `scale`, and ascending features.
    ///
    /// # Errors
    /// Saying what is wrong.
    pub fn validate(&self, scale: f64) -> std::result::Result<(), String> {
        let numbers = self.terms.iter().map(|(_, coefficient)| *coefficient).chain([self.constant]);
        if let Some(x) = numbers.into_iter().find(|x| !(x * scale).is_finite()) {
            return Err(format!("the number {x:?} of its linear function is not finite"));
        }
        let ascends = !self.terms.is_empty() && self.terms.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if ascends { Ok(()) } else { Err("the features of its linear function do not ascend, or are none".into()) }
    }
}

/// Returns a row's value as a fit adds it to the row's score: the nearest f32, which is finite.
pub fn in_f32(value: f64) -> f32 {
    (value as f32).clamp(f32::MIN, f32::MAX)
}

/// Returns the linear leaves of a tree among those of all trees, which ascend by tree and leaf.
pub fn of_tree(all: &[LinearLeaf], tree: usize) -> &[LinearLeaf] {
    let begin = all.partition_point(|leaf| (leaf.tree as usize) < tree);
    let end = all.partition_point(|leaf| leaf.tree as usize <= tree);
    &all[begin..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that a leaf's function is told for finite sums alone, and that leaves are found by their tree.
    #[test]
    fn functions_are_finite() {
        let leaf = |tree, terms: &[(u32, f64)]| LinearLeaf { tree, leaf: 0, constant: 1.0, terms: terms.to_vec() };
        let one = leaf(0, &[(0, 2.0), (3, 0.0)]);
        let at = |x: f64, y: f64| one.value(|f| if f == 0 { x } else { y });
        assert_eq!(at(0.5, 7.0), Some(2.0));
        for (x, y) in [(f64::NAN, 0.0), (0.0, f64::NAN), (f64::INFINITY, 0.0), (f64::MAX, 0.0), (0.0, f64::INFINITY)] {
            assert_eq!(at(x, y), None);
        }
        assert!(one.validate(1.0).is_ok() && leaf(0, &[(0, f64::MAX)]).validate(2.0).is_err());
        assert!(leaf(0, &[]).validate(1.0).is_err() && leaf(0, &[(1, 1.0), (1, 1.0)]).validate(1.0).is_err());
        let all = [leaf(0, &[(0, 1.0)]), leaf(2, &[(1, 1.0)]), leaf(2, &[(2, 1.0)])];
        assert_eq!([0, 1, 2, 3].map(|tree| of_tree(&all, tree).len()), [1, 0, 2, 0]);
    }
}
