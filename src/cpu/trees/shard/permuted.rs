//! The rows of a shard in the order of permutations, and the scores that bodies have of them under ordered boosting.
//!
//! Rows stand by piece, so that those of a body are the first of them, whose scores lie side by side; the scores of tails are those that
//! trees are grown to, and stand where the scores of any set do.

use super::{Shard, target_of};
use crate::trees::gradient_quantizer::{BATCH, GradientQuantizer, Magnitudes};
use std::ops::Range;
use taiga_core::learners::boosting::ordered::{NO_PIECE, Pieces};
use taiga_core::losses::{self, Loss};
use taiga_core::spill::Array;

/// The rows of a shard under one permutation.
pub struct Permuted {
    /// Those that train, of each piece behind those of the pieces before it.
    rows: Vec<u32>,
    /// Where each row of the shard stands among these; [`NO_PLACE`] for one that does not train.
    places: Vec<u32>,
    /// The rows of the first pieces, `[pieces - 1]`: those of body `b` are the first `ends[b]`, and its tail ends at `ends[b + 1]`.
    ends: Vec<usize>,
    /// The scores of each body's rows, `[output][body][place]`.
    scores: Vec<Vec<Vec<f32>>>,
    /// The values of each output's last tree, `[output][body][leaf]`.
    values: Vec<Vec<Vec<f32>>>,
}

/// Stands for the place of a row that does not train.
const NO_PLACE: u32 = u32::MAX;

/// Values of leaves that are added to scores while derivatives are found, `[output][body][leaf]`, of the outputs from `first` on.
pub struct Tried<'a> {
    pub first: usize,
    pub values: &'a [Vec<Vec<f32>>],
}

impl Permuted {
    /// Returns how many bodies there are.
    fn bodies(&self) -> usize {
        self.ends.len() - 1
    }

    /// Takes the pieces of a shard's rows in one permutation of `bodies` bodies, and the scores that they begin with, `[output][row]`.
    fn new(pieces: &[u8], bodies: usize, scores: &[Array<f32>]) -> Permuted {
        // Behind the last body there is its tail.
        let mut counts = vec![0; bodies + 1];
        pieces.iter().filter(|piece| **piece != NO_PIECE).for_each(|piece| counts[usize::from(*piece)] += 1);
        let mut end = 0;
        let ends: Vec<usize> = counts
            .iter()
            .map(|count| {
                end += count;
                end
            })
            .collect();
        let mut next: Vec<usize> = ends.iter().zip(&counts).map(|(end, count)| end - count).collect();
        let (mut rows, mut places) = (vec![0; end], vec![NO_PLACE; pieces.len()]);
        for (row, piece) in pieces.iter().enumerate().filter(|(_, piece)| **piece != NO_PIECE) {
            let place = &mut next[usize::from(*piece)];
            (rows[*place], places[row]) = (row as u32, *place as u32);
            *place += 1;
        }
        let of_output = |scores: &Array<f32>| -> Vec<Vec<f32>> {
            ends[..bodies].iter().map(|end| rows[..*end].iter().map(|row| scores[*row as usize]).collect()).collect()
        };
        let scores: Vec<Vec<Vec<f32>>> = scores.iter().map(of_output).collect();
        let values = vec![vec![]; scores.len()];
        Permuted { rows, places, ends, scores, values }
    }

    /// Adds the values of an output's last tree to the scores of bodies, and to those of their tails, which are `tails` by row.
    fn update(&mut self, output: usize, leaf: &[u16], tails: &mut [f32]) {
        for (body, (scores, values)) in self.scores[output].iter_mut().zip(&self.values[output]).enumerate() {
            let (own, rest) = self.rows.split_at(self.ends[body]);
            scores.iter_mut().zip(own).for_each(|(score, row)| *score += values[leaf[*row as usize] as usize]);
            // The rows before all tails have the score of the first body.
            let first = if body == 0 { own } else { &[] };
            let tail = &rest[..self.ends[body + 1] - self.ends[body]];
            first.iter().chain(tail).for_each(|row| tails[*row as usize] += values[leaf[*row as usize] as usize]);
        }
    }
}

impl Shard {
    /// Begins to keep the scores of bodies, by the pieces of the process's rows.
    pub fn keep_bodies(&mut self, pieces: &Pieces) {
        let outputs = self.scores.len() / (pieces.of_rows.len() + 1);
        for (of_rows, scores) in pieces.of_rows.iter().zip(self.scores[outputs..].chunks(outputs)) {
            let mut own = Vec::with_capacity(self.rows);
            for batch in 0..self.batches() {
                let first = self.first_row(batch);
                own.extend_from_slice(&of_rows[first..of_rows.len().min(first + BATCH)]);
            }
            self.permuted.push(Permuted::new(&own, pieces.bodies, scores));
        }
    }

    /// Returns how many bodies each permutation has.
    pub fn bodies(&self) -> usize {
        self.permuted.first().map_or(0, Permuted::bodies)
    }

    /// Adds the values that each output's last tree has by each body to the scores of bodies and tails.
    pub fn update_bodies(&mut self) {
        let outputs = self.scores.len() / (self.permuted.len() + 1);
        let sets = self.leaf[outputs..].chunks(outputs).zip(self.scores[outputs..].chunks_mut(outputs));
        for (permuted, (leaf, tails)) in self.permuted.iter_mut().zip(sets) {
            leaf.iter().zip(tails).enumerate().for_each(|(output, (leaf, tails))| permuted.update(output, leaf, tails));
        }
    }

    /// Remembers the values that the leaves of an output's last tree have by each body.
    pub fn set_body_values(&mut self, output: usize, values: &[Vec<f32>]) {
        let outputs = self.scores.len() / (self.permuted.len() + 1);
        self.permuted[output / outputs - 1].values[output % outputs] = values.to_vec();
    }

    /// Computes the derivatives of an output for some rows at such scores, `[output][row]`, zeros for those that were not drawn.
    fn derive_rows(&self, loss: &dyn Loss, output: usize, rows: &[u32], scores: &[Vec<f32>]) -> (Vec<f32>, Vec<f32>) {
        let of_rows = |values: &[f32]| -> Vec<f32> { rows.iter().map(|row| values[*row as usize]).collect() };
        let target = of_rows(target_of(&self.target, &self.more_targets, output));
        let weight = self.weight.as_ref().map(|weight| of_rows(weight));
        let columns: Vec<Vec<f32>> = self.columns.iter().map(|column| of_rows(column)).collect();
        let scores: Vec<&[f32]> = scores.iter().map(Vec::as_slice).collect();
        let columns: Vec<&[f32]> = columns.iter().map(Vec::as_slice).collect();
        let (mut gradient, mut hessian) = (vec![0.0; rows.len()], vec![0.0; rows.len()]);
        let read = losses::Rows { scores: &scores, target: &target, weight: weight.as_deref(), columns: &columns };
        loss.derivatives(output, read, &mut gradient, &mut hessian);
        if let Some(bag) = &self.bag {
            for (row, (g, h)) in rows.iter().zip(gradient.iter_mut().zip(&mut hessian)) {
                *g *= bag[*row as usize];
                *h *= bag[*row as usize];
            }
        }
        (gradient, hessian)
    }

    /// Calls `visit(gradients, hessians, leaves, rows)` for blocks of the rows of a body: their derivatives for an output, zeros for those
    /// that were not drawn, at scores to which the leaves' values are added that are tried.
    fn visit_body(
        &self,
        loss: &dyn Loss,
        (permutation, body, output): (usize, usize, usize),
        tried: &Tried<'_>,
        mut visit: impl FnMut(&[f32], &[f32], &[u16], &[u32]),
    ) {
        let permuted = &self.permuted[permutation];
        let first = (permutation + 1) * permuted.scores.len();
        for (block, rows) in permuted.rows[..permuted.ends[body]].chunks(BATCH).enumerate() {
            let (start, n) = (block * BATCH, rows.len());
            let mut scores: Vec<Vec<f32>> = permuted.scores.iter().map(|bodies| bodies[body][start..start + n].to_vec()).collect();
            for ((k, scores), values) in (tried.first..).zip(&mut scores[tried.first..]).zip(tried.values) {
                let leaf = &self.leaf[first + k];
                scores.iter_mut().zip(rows).for_each(|(score, row)| *score += values[body][leaf[*row as usize] as usize]);
            }
            let (gradient, hessian) = self.derive_rows(loss, output, rows, &scores);
            let leaf: Vec<u16> = rows.iter().map(|row| self.leaf[first + output][*row as usize]).collect();
            visit(&gradient, &hessian, &leaf, rows);
        }
    }

    /// Writes the derivatives of batch `batch` where [`Shard::derive`] writes them, zeros for all rows but those of a body, or of its tail,
    /// that were drawn: lane `2 i` of an output (of all sets) is that of the `i`-th of the last `pairs` bodies, and the one behind it that
    /// of its tail. Returns the range of rows.
    pub fn derive_lane(&mut self, loss: &dyn Loss, output: usize, (lane, pairs): (usize, usize), batch: usize) -> Range<usize> {
        let range = self.rows_of(batch);
        let (permutation, of_set) = (output / loss.outputs() - 1, output % loss.outputs());
        let permuted = &self.permuted[permutation];
        let body = permuted.bodies() - pairs + lane / 2;
        let places = if lane % 2 == 0 { 0..permuted.ends[body] } else { permuted.ends[body]..permuted.ends[body + 1] };
        let place = |row: usize| Some(permuted.places[row] as usize).filter(|place| places.contains(place));
        let rows: Vec<u32> = range.clone().filter(|row| place(*row).is_some()).map(|row| row as u32).collect();
        let of_output = |k: usize| -> Vec<f32> {
            match lane % 2 {
                0 => rows.iter().map(|row| permuted.scores[k][body][permuted.places[*row as usize] as usize]).collect(),
                _ => rows.iter().map(|row| self.scores[(permutation + 1) * loss.outputs() + k][*row as usize]).collect(),
            }
        };
        let scores: Vec<Vec<f32>> = (0..loss.outputs()).map(of_output).collect();
        let (gradient, hessian) = self.derive_rows(loss, of_set, &rows, &scores);
        self.gradient[..range.len()].fill(0.0);
        self.hessian[..range.len()].fill(0.0);
        for (row, (g, h)) in rows.iter().zip(gradient.iter().zip(&hessian)) {
            (self.gradient[*row as usize - range.start], self.hessian[*row as usize - range.start]) = (*g, *h);
        }
        range
    }

    /// Returns the magnitudes of a lane's derivatives: see [`Shard::derive_lane`].
    pub fn lane_magnitudes(&mut self, loss: &dyn Loss, output: usize, lane: (usize, usize)) -> Magnitudes {
        let mut magnitudes = Magnitudes::default();
        for batch in 0..self.batches() {
            let n = self.derive_lane(loss, output, lane, batch).len();
            magnitudes.add_batch(&self.gradient[..n], &self.hessian[..n]);
        }
        magnitudes
    }

    /// Appends the residuals `target - score` of the rows of each body that were drawn, and their weights where rows have any, to those of
    /// their leaves in an output's last tree: `lists` are those of all leaves, one body's behind the other's.
    pub fn body_residuals(&self, output: usize, leaves: usize, lists: &mut [(Vec<f64>, Vec<f32>)]) {
        let outputs = self.scores.len() / (self.permuted.len() + 1);
        let permuted = &self.permuted[output / outputs - 1];
        let target = target_of(&self.target, &self.more_targets, output);
        for (scores, lists) in permuted.scores[output % outputs].iter().zip(lists.chunks_mut(leaves)) {
            for (row, score) in permuted.rows.iter().map(|row| *row as usize).zip(scores) {
                let drawn = self.bag.as_ref().map_or(1.0, |bag| bag[row]);
                if drawn == 0.0 {
                    continue;
                }
                let (values, weights) = &mut lists[usize::from(self.leaf[output][row])];
                values.push((target[row] - score) as f64);
                if self.weight.is_some() || self.bag.is_some() {
                    weights.push(self.weight.as_ref().map_or(1.0, |weight| weight[row]) * drawn);
                }
            }
        }
    }

    /// Returns the magnitudes of an output's derivatives over the rows of all bodies, without their sums.
    pub fn body_magnitudes(&self, loss: &dyn Loss, (permutation, output): (usize, usize), tried: &Tried<'_>) -> Magnitudes {
        let mut magnitudes = Magnitudes::default();
        for body in 0..self.permuted[permutation].bodies() {
            self.visit_body(loss, (permutation, body, output), tried, |gradient, hessian, _, _| magnitudes.add_batch(gradient, hessian));
            magnitudes.sums.clear();
        }
        magnitudes
    }

    /// Sums an output's derivatives in the leaves of its last tree over the rows of each body, one body's behind the other's: fixed-point
    /// gradient and hessian, and the count.
    pub fn body_sums(
        &self,
        loss: &dyn Loss,
        (permutation, output): (usize, usize),
        tried: &Tried<'_>,
        quantizer: &GradientQuantizer,
    ) -> Vec<((i64, i64), u64)> {
        let mut all = vec![];
        for (body, values) in tried.values[output - tried.first].iter().enumerate() {
            let (mut sums, mut counts) = (vec![(0i64, 0i64); values.len()], vec![0u64; values.len()]);
            self.visit_body(loss, (permutation, body, output), tried, |gradient, hessian, leaf, rows| {
                quantizer.add_to_leaves(gradient, hessian, leaf, &mut sums);
                for (leaf, row) in leaf.iter().zip(rows) {
                    counts[*leaf as usize] += self.bag.as_ref().is_none_or(|bag| bag[*row as usize] != 0.0) as u64;
                }
            });
            all.extend(sums.into_iter().zip(counts));
        }
        all
    }
}
