//! Trees that leave the scores for a while: each row's leaf in every tree is kept, a byte where a tree has no more than 256 leaves.

use super::gradient_quantizer::BATCH;
use super::shard::Shard;
use super::{CpuTrees, write};
use taiga_core::error::Result;
use taiga_core::learners::boosting::dropout::{check_sums, in_steps, largest_leaf, rescaled};
use taiga_core::learners::boosting::steps::{DropoutSteps, GivenTree};
use taiga_core::memory::{self, product};

/// What was kept of the trees of a fit, by one thread.
#[derive(Default)]
pub struct KeptTrees {
    /// The scores before any tree, `[score][row]`.
    start: Vec<Vec<f32>>,
    /// Of each row the sum of its leaves' values, in [`in_steps`].
    sums: Vec<Vec<f64>>,
    /// `[round][score]`
    rounds: Vec<Vec<KeptTree>>,
}

/// A tree as it is added to a score.
struct KeptTree {
    leaves: Leaves,
    values: Vec<f32>,
}

/// The leaf of each row.
enum Leaves {
    Narrow(Vec<u8>),
    Wide(Vec<u16>),
}

impl KeptTree {
    fn new(leaves: impl Iterator<Item = u16>, values: &[f32]) -> KeptTree {
        let leaves = match values.len() <= 1 << 8 {
            true => Leaves::Narrow(leaves.map(|leaf| leaf as u8).collect()),
            false => Leaves::Wide(leaves.collect()),
        };
        KeptTree { leaves, values: values.to_vec() }
    }

    /// Adds the values, times `sign`, to the rows' sums.
    fn add(&self, sign: f64, sums: &mut [f64]) {
        let values: Vec<f64> = self.values.iter().map(|value| sign * in_steps(*value)).collect();
        match &self.leaves {
            Leaves::Narrow(leaves) => sums.iter_mut().zip(leaves).for_each(|(sum, leaf)| *sum += values[*leaf as usize]),
            Leaves::Wide(leaves) => sums.iter_mut().zip(leaves).for_each(|(sum, leaf)| *sum += values[*leaf as usize]),
        }
    }
}

impl KeptTrees {
    /// Adds the trees of some rounds, times `sign`, to the sums.
    fn add(&mut self, rounds: &[u32], sign: f64) {
        for round in rounds {
            for (tree, sums) in self.rounds[*round as usize].iter().zip(&mut self.sums) {
                tree.add(sign, sums);
            }
        }
    }

    /// Returns the largest sum that the leaves of the trees of one score can have.
    fn largest(&self) -> f64 {
        let of_score = |k: usize| self.rounds.iter().map(|round| largest_leaf(&round[k].values)).sum::<f64>();
        (0..self.sums.len()).map(of_score).fold(0.0, f64::max)
    }
}

impl Shard {
    /// Writes the scores from what is kept.
    fn write_scores(&mut self, kept: &KeptTrees) {
        for (scores, (start, sums)) in self.scores.iter_mut().zip(kept.start.iter().zip(&kept.sums)) {
            for (score, (start, sum)) in scores.iter_mut().zip(start.iter().zip(sums)) {
                *score = (f64::from(*start) + sum) as f32;
            }
        }
    }

    /// Begins to keep trees, with those given: of all rows of the process.
    fn keep_trees(&mut self, given: &[Vec<GivenTree>]) {
        let start: Vec<Vec<f32>> = self.scores.iter().map(|scores| scores.to_vec()).collect();
        let sums = start.iter().map(|scores| vec![0.0; scores.len()]).collect();
        let of_tree = |tree: &GivenTree| {
            let own = (0..self.batches()).flat_map(|batch| {
                let first = self.first_row(batch);
                tree.leaves[first..(first + BATCH).min(tree.leaves.len())].iter().copied()
            });
            KeptTree::new(own, &tree.values)
        };
        let rounds: Vec<Vec<KeptTree>> = given.iter().map(|round| round.iter().map(of_tree).collect()).collect();
        let all: Vec<u32> = (0..rounds.len() as u32).collect();
        let mut kept = KeptTrees { start, sums, rounds };
        kept.add(&all, 1.0);
        self.write_scores(&kept);
        self.kept = Some(kept);
    }

    /// Takes trees out of the scores.
    fn drop_out(&mut self, rounds: &[u32]) {
        let Some(mut kept) = self.kept.take() else { return };
        kept.add(rounds, -1.0);
        self.write_scores(&kept);
        self.kept = Some(kept);
    }

    /// Puts trees back with less weight, and the round's own with them; returns the largest sum that leaves can have.
    fn put_back(&mut self, rounds: &[u32], factor: f64) -> f64 {
        let Some(mut kept) = self.kept.take() else { return 0.0 };
        for round in rounds {
            let values = kept.rounds[*round as usize].iter_mut().flat_map(|tree| &mut tree.values);
            values.for_each(|value| *value = rescaled(*value, factor));
        }
        let own = self.last_trees().map(|(leaves, values)| KeptTree::new(leaves.iter().copied(), values)).collect();
        kept.rounds.push(own);
        let last = kept.rounds.len() as u32 - 1;
        kept.add(rounds, 1.0);
        kept.add(&[last], 1.0);
        self.write_scores(&kept);
        let largest = kept.largest();
        self.kept = Some(kept);
        largest
    }
}

impl CpuTrees<'_> {
    /// Checks that there is memory for the leaves of so many trees more of each score.
    fn check_memory(&self, trees: usize) -> Result<()> {
        let rows = self.shards.iter().map(|shard| super::read(shard).rows as u64).sum();
        let scores = super::read(&self.shards[0]).scores.len() as u64;
        let what = format!("the leaves that {trees} trees send {} rows to, which boosting=\"dart\" keeps", self.rows);
        memory::check(&what, product(&[rows, scores, trees as u64]), "fit on fewer rows or `rounds`, or leave `boosting` out")
    }
}

impl DropoutSteps for CpuTrees<'_> {
    fn keep_trees(&mut self, given: Vec<Vec<GivenTree>>) -> Result<()> {
        // Twice while they are dealt, once more for the start and the sums, which take as much as twelve trees.
        self.check_memory(given.len() + 12)?;
        self.pool.step(|t| write(&self.shards[t]).keep_trees(&given));
        check_sums(self.kept_sums())
    }

    fn drop_out(&mut self, rounds: &[u32]) -> Result<()> {
        if !rounds.is_empty() {
            self.pool.step(|t| write(&self.shards[t]).drop_out(rounds));
        }
        Ok(())
    }

    fn put_back(&mut self, rounds: &[u32], factor: f64) -> Result<()> {
        let kept = super::read(&self.shards[0]).kept.as_ref().map_or(0, |kept| kept.rounds.len());
        // Whenever there are twice as many, as much again.
        if kept.is_power_of_two() {
            self.check_memory(kept)?;
        }
        let sums = self.pool.step(|t| write(&self.shards[t]).put_back(rounds, factor));
        check_sums(sums.into_iter().fold(0.0, f64::max))
    }
}

impl CpuTrees<'_> {
    /// Returns the largest sum that the leaves of the trees that are kept can have.
    fn kept_sums(&self) -> f64 {
        super::read(&self.shards[0]).kept.as_ref().map_or(0.0, KeptTrees::largest)
    }
}
