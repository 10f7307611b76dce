//! Adds the factors of positions to the scores of losses by group, and moves them after a tree's derivatives.

use rayon::prelude::*;
use std::sync::Arc;
use taiga_core::losses::position_bias::{PositionBias, adjusted};

/// The factors of positions.
pub struct PositionFactors {
    bias: Arc<PositionBias>,
    /// The weights of the table's rows, where they have some.
    weight: Option<Vec<f32>>,
    /// The last tree that has begun.
    tree: Option<u64>,
    /// The factors that its scores have, and those after its step.
    factors: Vec<f64>,
    next: Vec<f64>,
}

impl PositionFactors {
    /// Returns the factors to begin with.
    pub fn new(bias: Arc<PositionBias>, weight: Option<Vec<f32>>) -> PositionFactors {
        let factors = bias.factors.clone();
        PositionFactors { bias, weight, tree: None, next: factors.clone(), factors }
    }

    /// Returns the factors after the last step.
    pub fn latest(&self) -> Vec<f64> {
        self.next.clone()
    }

    /// Begins a tree; returns whether its first derivatives are still to be found, by which factors move.
    pub fn begin(&mut self, tree: u64) -> bool {
        let is_first = self.tree != Some(tree);
        if is_first {
            self.factors.clone_from(&self.next);
            self.tree = Some(tree);
        }
        is_first
    }

    /// Adds the factors to scores, those of the table's rows `rows`.
    pub fn add(&self, rows: &[u32], scores: &mut [f32]) {
        scores.par_iter_mut().with_min_len(1 << 14).zip(rows).for_each(|(score, row)| {
            *score = adjusted(*score, self.factors[self.bias.of_row[*row as usize] as usize]);
        });
    }

    /// Moves the factors by the derivatives of each row, which are to be multiplied by its weight.
    pub fn step(&mut self, derivatives: impl Fn(usize) -> (f32, f32) + Sync) {
        let weighed = |row: u32| {
            let (gradient, hessian) = derivatives(row as usize);
            match &self.weight {
                None => (gradient, hessian),
                Some(weight) => {
                    let (mut gradient, mut hessian) = ([gradient], [hessian]);
                    taiga_core::losses::by_group::weigh(&weight[row as usize..=row as usize], &mut gradient, &mut hessian);
                    (gradient[0], hessian[0])
                }
            }
        };
        self.next = self.bias.step(&self.factors, weighed);
    }
}
