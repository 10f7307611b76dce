//! Position bias of losses by group: clicks say as much of the position at which a document was shown as of the document.
//!
//! A row's score gets a factor of its position before derivatives are taken, and after those of each tree the factors make a Newton step
//! of their own, up the same likelihood: a generalised additive model of documents and positions, as LightGBM's `position` (after
//! Wang, Golbandi, Bendersky, Metzler and Najork, "Position bias estimation for unbiased learning to rank in personal search", 2018).
//! A prediction is the document's share alone. The other way, pairwise propensities that pairs are divided by (Hu, Wang, Peng and Li,
//! "Unbiased LambdaMART", 2019; XGBoost's `lambdarank_unbiased`), knows positions by rows' order only, is for losses of pairs only, and
//! divides by estimates that come near 0.

use crate::numerics::reduce::add_in_order;
use rayon::prelude::*;

/// Sums over a position's rows are added in blocks of so many rows, ascending, the rows of each in so many lanes, row `i` of the block in
/// lane `i % LANES`; then lanes from first to last and blocks from first to last: an order that a GPU's threads can keep to.
pub const BLOCK: usize = 4096;
pub const LANES: usize = 32;

/// Added to a position's curvature, of rows that weigh about 1, as in LightGBM.
const LEAST_CURVATURE: f64 = 0.001;

/// The longest step before the learning rate: pairs that are far on the wrong side have a slope and hardly any curvature.
const LONGEST_STEP: f64 = 10.0;

/// The rows of a table by position, and how the positions' factors move.
pub struct PositionBias {
    /// The position of each row of the table.
    pub of_row: Vec<u32>,
    /// The training rows, position after position and ascending in each.
    pub rows: Vec<u32>,
    /// Those of them that are added at a time.
    pub blocks: Vec<PositionBlock>,
    /// Where each position's blocks begin among all, and where the last one's end.
    pub starts: Vec<u32>,
    /// What each position's training rows weigh together.
    pub weights: Vec<f64>,
    pub rule: StepRule,
    /// The factors before the first step.
    pub factors: Vec<f64>,
}

/// A block of a position's rows: indices into [`PositionBias::rows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionBlock {
    pub start: u32,
    pub end: u32,
}

/// How a factor moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepRule {
    /// What a step is multiplied by.
    pub learning_rate: f64,
    /// What draws factors to 0, for each unit of weight.
    pub l2: f64,
}

impl StepRule {
    /// Returns the factor after a step: of rows that weigh `weight` and have derivatives that add up to `gradient` and `hessian`.
    pub fn step(&self, factor: f64, weight: f64, gradient: f64, hessian: f64) -> f64 {
        let slope = -gradient - factor * (self.l2 * weight);
        let newton = slope / (hessian + self.l2 * weight + LEAST_CURVATURE);
        let newton = if newton < -LONGEST_STEP { -LONGEST_STEP } else { newton };
        factor + self.learning_rate * if newton > LONGEST_STEP { LONGEST_STEP } else { newton }
    }
}

impl PositionBias {
    /// Returns the rows by position, of which there are `positions`. Rows that are held out have none of the factors' sums.
    pub fn new(of_row: &[u32], positions: usize, held_out: Option<&[bool]>, weight: Option<&[f32]>, rule: StepRule) -> PositionBias {
        let trains = |row: usize| held_out.is_none_or(|marks| !marks[row]);
        let mut own: Vec<Vec<u32>> = vec![vec![]; positions];
        (0..of_row.len()).filter(|row| trains(*row)).for_each(|row| own[of_row[row] as usize].push(row as u32));
        let weigh = |rows: &Vec<u32>| rows.iter().fold(0.0, |total, row| total + weight.map_or(1.0, |w| f64::from(w[*row as usize])));
        let weights = own.iter().map(weigh).collect();
        let (mut blocks, mut starts, mut at) = (vec![], vec![0], 0);
        for rows in &own {
            let end = at + rows.len() as u32;
            blocks.extend((at..end).step_by(BLOCK).map(|start| PositionBlock { start, end: end.min(start + BLOCK as u32) }));
            starts.push(blocks.len() as u32);
            at = end;
        }
        PositionBias { of_row: of_row.to_vec(), rows: own.concat(), blocks, starts, weights, rule, factors: vec![0.0; positions] }
    }

    /// Returns the rows with factors to begin with, one a position.
    pub fn with_factors(self, factors: Vec<f64>) -> PositionBias {
        PositionBias { factors, ..self }
    }

    /// The number of positions.
    pub fn positions(&self) -> usize {
        self.weights.len()
    }

    /// Returns whether some training row has this position.
    pub fn is_trained(&self, position: usize) -> bool {
        self.starts[position] < self.starts[position + 1]
    }

    /// Returns the factors after a step, by the derivatives of each training row, times its weight.
    pub fn step(&self, factors: &[f64], derivatives: impl Fn(u32) -> (f32, f32) + Sync) -> Vec<f64> {
        let sums: Vec<(f64, f64)> = self.blocks.par_iter().map(|block| self.sum(*block, &derivatives)).collect();
        let of_position = |(position, factor): (usize, &f64)| {
            let own = &sums[self.starts[position] as usize..self.starts[position + 1] as usize];
            let (gradient, hessian) = (add_in_order(own.iter().map(|s| s.0)), add_in_order(own.iter().map(|s| s.1)));
            self.rule.step(*factor, self.weights[position], gradient, hessian)
        };
        factors.iter().enumerate().map(of_position).collect()
    }

    /// Adds the derivatives of a block's rows.
    fn sum(&self, block: PositionBlock, derivatives: &impl Fn(u32) -> (f32, f32)) -> (f64, f64) {
        let mut lanes = [(0.0, 0.0); LANES];
        for tile in self.rows[block.start as usize..block.end as usize].chunks(LANES) {
            for (lane, row) in lanes.iter_mut().zip(tile) {
                let (gradient, hessian) = derivatives(*row);
                *lane = (lane.0 + f64::from(gradient), lane.1 + f64::from(hessian));
            }
        }
        lanes.iter().fold((0.0, 0.0), |total, lane| (total.0 + lane.0, total.1 + lane.1))
    }
}

/// Returns a score with the factor of its row's position.
#[inline(always)]
pub fn adjusted(score: f32, factor: f64) -> f32 {
    score + factor as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULE: StepRule = StepRule { learning_rate: 0.1, l2: 0.5 };

    /// LightGBM's `UpdatePositionBiasFactors`, row after row in f64.
    fn naive(of_row: &[u32], factors: &[f64], derivatives: &[(f32, f32)], trains: impl Fn(usize) -> bool, weight: &[f32]) -> Vec<f64> {
        let of_position = |(position, factor): (usize, &f64)| {
            let own: Vec<usize> = (0..of_row.len()).filter(|row| of_row[*row] as usize == position && trains(*row)).collect();
            let (mut first, mut second) = (0.0, 0.0);
            for row in &own {
                first -= f64::from(derivatives[*row].0);
                second -= f64::from(derivatives[*row].1);
            }
            let size: f64 = own.iter().map(|row| f64::from(weight[*row])).sum();
            first -= factor * RULE.l2 * size;
            second -= RULE.l2 * size;
            factor + RULE.learning_rate * first / (second.abs() + 0.001)
        };
        factors.iter().enumerate().map(of_position).collect()
    }

    proptest! {
        #[test]
        fn steps_are_those_of_the_naive_twin(rows in prop::collection::vec((0u32..5, -1.0f32..1.0, 0.01f32..0.5, 0.5f32..2.0, any::<bool>()), 1..400)) {
            let of_row: Vec<u32> = rows.iter().map(|r| r.0).collect();
            let derivatives: Vec<(f32, f32)> = rows.iter().map(|r| (r.1, r.2)).collect();
            let weight: Vec<f32> = rows.iter().map(|r| r.3).collect();
            let held_out: Vec<bool> = rows.iter().map(|r| r.4).collect();
            let bias = PositionBias::new(&of_row, 5, Some(&held_out), Some(&weight), RULE);
            let factors = [0.3, -0.2, 0.0, 1.0, -1.5];
            let found = bias.step(&factors, |row| derivatives[row as usize]);
            let naive = naive(&of_row, &factors, &derivatives, |row| !held_out[row], &weight);
            for position in 0..5 {
                prop_assert!((found[position] - naive[position]).abs() < 1e-9, "{position}: {} {}", found[position], naive[position]);
                let trains = (0..of_row.len()).any(|row| of_row[row] as usize == position && !held_out[row]);
                prop_assert_eq!(bias.is_trained(position), trains);
            }
        }
    }

    /// Proves that more rows than a block has are all added, whatever number of threads adds them.
    #[test]
    fn blocks_are_added_in_order() {
        let rows = 3 * BLOCK + 77;
        let of_row: Vec<u32> = (0..rows).map(|row| (row % 3 == 0) as u32).collect();
        let bias = PositionBias::new(&of_row, 2, None, None, StepRule { learning_rate: 1.0, l2: 0.0 });
        assert_eq!(bias.weights, [(rows - rows.div_ceil(3)) as f64, rows.div_ceil(3) as f64]);
        assert!(bias.blocks.iter().all(|block| block.end - block.start <= BLOCK as u32));
        let derivatives = |row: u32| ((row as f32).sin() * 1e3, 2.0 + (row as f32).cos());
        let step = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| bias.step(&[0.0, 0.0], derivatives))
        };
        assert_eq!(step(1), step(4));
        let newton = |position: u32| {
            let own = || (0..rows as u32).filter(|row| of_row[*row as usize] == position).map(derivatives);
            -own().map(|d| f64::from(d.0)).sum::<f64>() / (own().map(|d| f64::from(d.1)).sum::<f64>() + 0.001)
        };
        for position in 0..2 {
            assert!((step(2)[position] - newton(position as u32)).abs() < 1e-9);
        }
    }

    /// Proves that a position without rows stays where it is, and that a slope without curvature moves no factor out of sight.
    #[test]
    fn steps_are_bounded() {
        let rule = StepRule { learning_rate: 0.1, l2: 0.0 };
        assert_eq!(rule.step(0.5, 0.0, 0.0, 0.0), 0.5);
        assert_eq!(rule.step(0.0, 1.0, 1e30, 1e-16), -1.0);
        assert_eq!(rule.step(0.0, 1.0, -1e30, 1e-16), 1.0);
        let drawn = StepRule { learning_rate: 1.0, l2: 1e9 };
        assert!(drawn.step(3.0, 10.0, -2.0, 1.0).abs() < 1e-6);
    }
}
