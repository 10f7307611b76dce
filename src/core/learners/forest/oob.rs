//! What trees say of the rows that they were not grown on.

use super::codes::{Code, View};
use super::growing::GrowingTree;
use super::model::OutOfBag;
use super::steps::{OutOfBagScale, OutOfBagSums};
use crate::collective::Collective;
use crate::error::Result;
use crate::numerics::fixed::round64;
use crate::numerics::math::ln64;
use crate::numerics::random::{Purpose, Random, below};
use crate::numerics::reduce;
use crate::quantize::CodeSet;
use crate::tree::model::Child;
use crate::{memory, pages};
use std::sync::{Mutex, PoisonError};

/// Rows that walk side by side.
const SIDE: usize = 16;

/// Rows under one lock.
const BLOCK: usize = 1 << 14;

/// Blocks whose sums are sent at a time.
const BLOCKS_SENT: usize = 64;

/// A grown tree that rows of the training table walk through.
pub struct Walker<'a, C> {
    view: &'a View<'a, C>,
    steps: Vec<WalkerStep>,
    sets: &'a [CodeSet],
}

/// Sixteen bytes, so that a large tree fits a core's cache.
#[derive(Clone, Copy)]
struct WalkerStep {
    feature: u32,
    /// In the upper two bits 3 for a set, whose number the others are; else what is taken from a code, which goes right
    /// where it is above the others then.
    test: u32,
    /// The steps left and right; from the number of steps on, leaves.
    children: [u32; 2],
}

const LOWER: u32 = (1 << 30) - 1;

/// A feature whose values come from other rows: `rows[i]` for the i-th of those that walk.
pub type Swapped<'a> = Option<(usize, &'a [u32])>;

impl<'a, C: Code> Walker<'a, C> {
    pub fn new(view: &'a View<'a, C>, part: &'a GrowingTree) -> Self {
        let nodes = part.nodes.len() as u32;
        let state = |child| match child {
            Child::Node(i) => i,
            Child::Leaf(i) => nodes + i,
        };
        let step = |n: &super::growing::RawNode| {
            let shift = (view.features[n.feature as usize].first == 1 && !n.missing_left) as u32;
            let test = n.set.map_or_else(|| shift << 30 | (n.cut - shift), |set| 3 << 30 | set);
            WalkerStep { feature: n.feature, test, children: n.children.map(state) }
        };
        Walker { view, steps: part.nodes.iter().map(step).collect(), sets: &part.sets }
    }

    /// Finds the leaf of each of `rows`.
    pub fn leaves(&self, rows: &[u32], swapped: Swapped<'_>, out: &mut Vec<u32>) {
        out.clear();
        if self.steps.is_empty() {
            return out.resize(rows.len(), 0);
        }
        let count = self.steps.len() as u32;
        let (stride, codes) = (self.view.stride, self.view.codes);
        for (g, group) in rows.chunks(SIDE).enumerate() {
            let mut state = [0u32; SIDE];
            while state[..group.len()].iter().any(|s| *s < count) {
                for (i, (state, row)) in state.iter_mut().zip(group).enumerate() {
                    let step = &self.steps[(*state).min(count - 1) as usize];
                    let row = match swapped {
                        Some((feature, others)) if step.feature as usize == feature => others[g * SIDE + i],
                        _ => *row,
                    };
                    let code = codes[step.feature as usize * stride + row as usize].index();
                    let (shift, rest) = (step.test >> 30, step.test & LOWER);
                    let right =
                        if shift == 3 { self.sets[rest as usize].contains(code as u8) } else { (code as u32).wrapping_sub(shift) > rest };
                    *state = if *state < count { step.children[right as usize] } else { *state };
                }
            }
            out.extend(state[..group.len()].iter().map(|s| s - count));
        }
    }
}

/// The targets that predictions are measured on.
pub enum Truth<'a> {
    Classes(&'a [u32], usize),
    Numbers(&'a [f64]),
}

impl Truth<'_> {
    pub fn outputs(&self) -> usize {
        match self {
            Truth::Classes(_, classes) => *classes,
            Truth::Numbers(_) => 1,
        }
    }
}

/// Sums of predictions, in fixed point, so that trees may add theirs in any order.
pub struct PredictionSums {
    blocks: Vec<Mutex<(Vec<i64>, Vec<u32>)>>,
    outputs: usize,
    /// What values are multiplied by, after `centre` is taken away.
    scale: f64,
    centre: f64,
}

impl PredictionSums {
    /// Makes room for `rows` rows; numbers have their mean and their largest distance from it.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn new(rows: usize, truth: &Truth<'_>) -> Result<PredictionSums> {
        let (scale, centre) = match truth {
            Truth::Classes(..) => ((1u64 << 40) as f64, 0.0),
            Truth::Numbers(y) => {
                let centre = reduce::weighted_mean::<f32>(y, None);
                let largest = y.iter().fold(0.0f64, |m, y| m.max((y - centre).abs()));
                // A million trees stay below 2^62.
                let exponent = if largest > 0.0 { libm::ilogb(largest) + 1 } else { 0 };
                (libm::ldexp(1.0, (42 - exponent).clamp(-1000, 1000)), centre)
            }
        };
        let outputs = truth.outputs();
        let block = |n: usize| Ok(Mutex::new((pages::try_zeroed("predictions out of bag", n * outputs)?, vec![0; n])));
        let blocks = (0..rows).step_by(BLOCK).map(|start| block(BLOCK.min(rows - start))).collect::<Result<_>>()?;
        Ok(PredictionSums { blocks, outputs, scale, centre })
    }

    /// Returns the units of the sums.
    pub fn units(&self) -> OutOfBagScale {
        OutOfBagScale { scale: self.scale, centre: self.centre }
    }

    /// Returns whether a leaf of a tree of these rows may have this mean: one so near to all of them that a million trees' sums fit.
    pub fn reaches(&self, mean: f64) -> bool {
        ((mean - self.centre) * self.scale).abs() <= (1u64 << 43) as f64
    }

    /// Adds the sums of some trees from a device that has added them up.
    pub fn add_made(&mut self, made: &OutOfBagSums) {
        let blocks = made.sums.chunks(BLOCK * self.outputs).zip(made.counts.chunks(BLOCK));
        for (block, (more, rows)) in self.blocks.iter_mut().zip(blocks) {
            let (sums, counts) = block.get_mut().unwrap_or_else(PoisonError::into_inner);
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            counts.iter_mut().zip(rows).for_each(|(count, more)| *count += more);
        }
    }

    /// Adds the sums of all processes, each of the trees that it has grown.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn add_others(&mut self, collective: &dyn Collective) -> Result<()> {
        for blocks in self.blocks.chunks_mut(BLOCKS_SENT) {
            let mut all = vec![];
            for block in blocks.iter_mut() {
                let (sums, counts) = block.get_mut().unwrap_or_else(PoisonError::into_inner);
                all.extend_from_slice(sums);
                all.extend(counts.iter().map(|count| i64::from(*count)));
            }
            collective.sum(&mut all)?;
            let mut all = all.into_iter();
            for block in blocks {
                let (sums, counts) = block.get_mut().unwrap_or_else(PoisonError::into_inner);
                sums.iter_mut().zip(&mut all).for_each(|(sum, of_all)| *sum = of_all);
                counts.iter_mut().zip(&mut all).for_each(|(count, of_all)| *count = of_all as u32);
            }
        }
        Ok(())
    }

    /// Returns what a leaf adds.
    fn value(&self, part: &GrowingTree, leaf: usize, output: usize) -> i64 {
        let value = match part.means.get(leaf) {
            Some(mean) => mean - self.centre,
            None => {
                let sums = &part.sums[leaf * self.outputs..][..self.outputs];
                sums[output] as f64 / sums.iter().sum::<u64>() as f64
            }
        };
        round64(value * self.scale)
    }

    /// Checks that there is memory for the values of a tree's leaves.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn check_memory(&self, part: &GrowingTree) -> Result<()> {
        let (leaves, outputs) = (part.counts.len(), self.outputs);
        let what = format!("the values of {leaves} leaves to {outputs} classes");
        memory::check(&what, memory::product(&[8, leaves as u64, outputs as u64]), "limit `leaves` or `depth`, or use oob=False")
    }

    /// Adds what a tree says of `rows`, ascending. Trees start at different blocks, not to wait for
    /// each other.
    pub fn add<C: Code>(&self, walker: &Walker<'_, C>, part: &GrowingTree, rows: &[u32], tree: u32) {
        let outputs = self.outputs;
        let values: Vec<i64> = (0..part.counts.len() * outputs).map(|i| self.value(part, i / outputs, i % outputs)).collect();
        let mut leaves = vec![];
        for k in 0..self.blocks.len() {
            let b = (k + tree as usize * 7) % self.blocks.len();
            let start = b * BLOCK;
            let from = rows.partition_point(|r| (*r as usize) < start);
            let to = rows.partition_point(|r| (*r as usize) < start + BLOCK);
            walker.leaves(&rows[from..to], None, &mut leaves);
            let mut block = self.blocks[b].lock().unwrap_or_else(PoisonError::into_inner);
            let (sums, counts) = &mut *block;
            for (row, leaf) in rows[from..to].iter().zip(&leaves) {
                let (at, leaf) = (*row as usize - start, *leaf as usize);
                counts[at] += 1;
                let values = &values[leaf * outputs..(leaf + 1) * outputs];
                sums[at * outputs..(at + 1) * outputs].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
    }

    /// Returns the predictions, and how good they are.
    pub fn finish(self, truth: &Truth<'_>) -> OutOfBag {
        let outputs = self.outputs;
        let rows = match truth {
            Truth::Classes(codes, _) => codes.len(),
            Truth::Numbers(y) => y.len(),
        };
        let mut predictions = vec![Vec::with_capacity(rows); outputs];
        for block in self.blocks {
            let (sums, counts) = block.into_inner().unwrap_or_else(PoisonError::into_inner);
            for (sums, count) in sums.chunks_exact(outputs).zip(counts) {
                for (out, sum) in predictions.iter_mut().zip(sums) {
                    let mean = self.centre + *sum as f64 / (count as f64 * self.scale);
                    out.push(if count > 0 { mean } else { f64::NAN });
                }
            }
        }
        let known: Vec<usize> = (0..rows).filter(|r| !predictions[0][*r].is_nan()).collect();
        let (score, log_loss) = score(truth, &predictions, &known);
        OutOfBag { score, log_loss, predictions }
    }
}

/// Computes accuracy and log loss, or R², over the rows that are predicted.
fn score(truth: &Truth<'_>, predictions: &[Vec<f64>], known: &[usize]) -> (f64, Option<f64>) {
    let n = known.len();
    let mean = |value: &(dyn Fn(usize) -> f64 + Sync)| reduce::sum(n, |i| value(known[i])) / n as f64;
    match truth {
        Truth::Classes(codes, classes) => {
            let right = |r: usize| (super::apply::most_probable(*classes, |k| predictions[k][r]) == codes[r]) as u8 as f64;
            let loss = |r: usize| -ln64(predictions[codes[r] as usize][r].max(f64::EPSILON));
            (mean(&right), Some(mean(&loss)))
        }
        Truth::Numbers(y) => {
            let centre = mean(&|r| y[r]);
            let residual = mean(&|r| (y[r] - predictions[0][r]) * (y[r] - predictions[0][r]));
            let spread = mean(&|r| (y[r] - centre) * (y[r] - centre));
            // As scikit-learn's r2_score has it.
            let score = if spread > 0.0 { 1.0 - residual / spread } else { (residual == 0.0) as u8 as f64 };
            (if n > 0 { score } else { f64::NAN }, None)
        }
    }
}

/// Computes for each feature by how much shuffling it among `rows` worsens a tree's predictions of them: the
/// drop of the accuracy, or the rise of the mean squared error (Breiman, 2001). None without rows.
pub fn permutation<C: Code>(
    walker: &Walker<'_, C>,
    part: &GrowingTree,
    rows: &[u32],
    truth: &Truth<'_>,
    (seed, tree): (u64, u32),
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Option<Vec<f64>> {
    let features = walker.view.features.len();
    if rows.is_empty() {
        return None;
    }
    let classes: Vec<u32> = match truth {
        Truth::Classes(_, classes) => {
            part.sums.chunks_exact(*classes).map(|s| super::apply::most_probable(*classes, |k| s[k] as f64)).collect()
        }
        Truth::Numbers(_) => vec![],
    };
    let mut leaves = vec![];
    let mut error = |swapped: Swapped<'_>| {
        walker.leaves(rows, swapped, &mut leaves);
        let pairs = rows.iter().zip(&leaves).map(|(row, leaf)| (*row as usize, *leaf as usize));
        let total: f64 = match truth {
            Truth::Classes(codes, _) => pairs.map(|(row, leaf)| (classes[leaf] != codes[row]) as u8 as f64).sum(),
            Truth::Numbers(y) => pairs.map(|(row, leaf)| (y[row] - part.means[leaf]) * (y[row] - part.means[leaf])).sum(),
        };
        total / rows.len() as f64
    };
    let base = error(None);
    let mut used = vec![false; features];
    part.nodes.iter().for_each(|n| used[n.feature as usize] = true);
    let mut shuffled = rows.to_vec();
    let mut out = vec![0.0; features];
    for feature in (0..features).filter(|f| used[*f]) {
        if interrupted() {
            return None;
        }
        shuffled.copy_from_slice(rows);
        let random = Random::new(seed, Purpose::ForestShuffle, tree as u64).child(feature as u64);
        for i in (1..shuffled.len()).rev() {
            shuffled.swap(i, below(random.u64(i as u64), i as u32 + 1) as usize);
        }
        out[feature] = error(Some((feature, &shuffled))) - base;
    }
    Some(out)
}
