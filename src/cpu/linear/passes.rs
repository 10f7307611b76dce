//! Passes over all rows: scores, residuals, the gradient, and the loss along a line.
//!
//! ```text
//! scores      row by row:      intercept + dense columns in order + the row's entries in order (as integers: whole.rs)
//! gradient    sparse features: Σ residual · value as integers (numerics/fixed.rs), so that their order does not matter
//!             dense columns:   f64 inside a block of 4,096 rows, then block after block
//! losses      f64 likewise
//! ```

use multiversion::multiversion;
use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use taiga_core::column::Column;
use taiga_core::error::{Error, Result};
use taiga_core::learners::linear::needed::adders;
use taiga_core::learners::linear::steps::{PassSteps, Residuals, ScoreRows, Task};
use taiga_core::learners::linear::vectors::{each, lanes, map};
use taiga_core::learners::linear::whole::{WholeVector, power, value_of};
use taiga_core::numerics::fixed::round64;
use taiga_core::numerics::math::{exp64, ln64, sigmoid64, softplus64};
use taiga_core::numerics::reduce::{BLOCK, add_in_order};
use taiga_core::pages;
use taiga_core::parallel::thread_pool::ThreadPool;

/// The rows of a problem, to pass over.
pub struct Passes<'t, 'p, 'a> {
    task: &'t Task<'p, 'a>,
    /// A pool of no more threads than there is room for sums.
    adders: ThreadPool,
    /// Sums of the sparse features' gradients, zeros between two passes.
    sums: Mutex<Vec<Vec<i64>>>,
}

impl<'p, 'a> Deref for Passes<'_, 'p, 'a> {
    type Target = Task<'p, 'a>;

    fn deref(&self) -> &Task<'p, 'a> {
        self.task
    }
}

impl<'t, 'p, 'a> Passes<'t, 'p, 'a> {
    /// Takes the threads that add.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(task: &'t Task<'p, 'a>) -> Result<Self> {
        let adders = ThreadPool::new(adders(task.pool, task.problem))?;
        Ok(Passes { task, adders, sums: Mutex::default() })
    }

    /// Computes `work(rows)` for each block of rows, by whichever thread is free; the results in order.
    fn blocks<M, R: Send + Default>(
        &self,
        pool: &ThreadPool,
        memory: impl Fn() -> M + Sync,
        work: impl Fn(&mut M, usize, Range<usize>) -> R + Sync,
    ) -> Result<Vec<R>> {
        let rows = self.problem.rows;
        let stop = AtomicBool::new(false);
        let results = pool.deal(rows.div_ceil(BLOCK), memory, |memory, b| {
            if stop.load(Ordering::Relaxed) || (b % 16 == 0 && self.monitor.interrupted()) {
                stop.store(true, Ordering::Relaxed);
                return R::default();
            }
            work(memory, b, b * BLOCK..rows.min((b + 1) * BLOCK))
        });
        if stop.into_inner() { Err(Error::Interrupted) } else { Ok(results) }
    }

    /// Runs `work(rows, out[rows])` for each block of rows; `out` has `width` numbers a row.
    fn fill<R: Send + Default>(
        &self,
        out: &mut [f64],
        width: usize,
        work: impl Fn(&mut Vec<f64>, Range<usize>, &mut [f64]) -> R + Sync,
    ) -> Result<Vec<R>> {
        let parts: Vec<Mutex<&mut [f64]>> = out.chunks_mut(BLOCK * width).map(Mutex::new).collect();
        self.blocks(self.pool, Vec::new, |memory, b, rows| work(memory, rows, &mut parts[b].lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Returns the scores of the rows that are `wanted`; others' are whatever.
    pub fn scores_where(&self, wanted: impl Fn(usize) -> bool + Sync, vector: &[f64], out: &mut [f64]) -> Result<()> {
        let p = self.problem;
        let outputs = p.outputs;
        let (sparse, others) = vector.split_at(p.width * outputs);
        let whole = self.precision.whole.then(|| WholeVector::new(self.pool, sparse, 0));
        self.fill(out, outputs, |memory, rows, out| {
            let (dense, intercepts) = others.split_at(p.dense.len() * outputs);
            out.chunks_exact_mut(outputs).for_each(|o| o.copy_from_slice(intercepts));
            for (column, weights) in p.dense.iter().zip(dense.chunks_exact(outputs)) {
                let values = column.borrow_f64(rows.start, rows.len(), memory);
                for (o, x) in out.chunks_exact_mut(outputs).zip(values) {
                    o.iter_mut().zip(weights).for_each(|(o, w)| *o += w * x);
                }
            }
            let Some(csr) = &p.csr else { return };
            let last = rows.end - 1;
            for (i, o) in rows.zip(out.chunks_exact_mut(outputs)) {
                if !wanted(i) {
                    continue;
                }
                let (row, next) = (csr.row(i), csr.row((i + 1).min(last)));
                if let Some(whole) = &whole {
                    next.fetch(&whole.numbers, outputs);
                    row.add_whole(whole, o);
                    continue;
                }
                next.fetch(sparse, outputs);
                match o {
                    [o] => *o += row.dot(sparse),
                    o => row.dots(sparse, o),
                }
            }
        })?;
        Ok(())
    }

    /// Writes what the sums come to, by the scale that values of a unit (one over it) have; they are zeros again.
    fn collect(&self, out: &mut [f64], scale: impl Fn(f64) -> f64 + Sync) {
        let outputs = self.problem.outputs;
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let mut parts: Vec<_> = sums.iter_mut().map(|s| s.chunks_mut(BLOCK)).collect();
        let parts: Vec<Mutex<Vec<&mut [i64]>>> =
            (0..out.len().div_ceil(BLOCK)).map(|_| Mutex::new(parts.iter_mut().filter_map(Iterator::next).collect())).collect();
        each(self.pool, out, BLOCK, |b, out| {
            let mut parts = parts[b].lock().unwrap_or_else(PoisonError::into_inner);
            for (i, o) in out.iter_mut().enumerate() {
                let total = parts.iter_mut().fold(0i64, |total, part| total + std::mem::take(&mut part[i]));
                let feature = if outputs == 1 { b * BLOCK + i } else { (b * BLOCK + i) / outputs };
                *o = value_of(total, scale(self.feature_scale.inverse(feature)));
            }
        });
    }

    /// Adds up the sums of all threads and of all processes, where there are others.
    fn add_others(&self, cells: usize) -> Result<()> {
        if self.problem.own.is_whole() || cells == 0 {
            return Ok(());
        }
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        if sums.is_empty() {
            // One that has no rows has no sums.
            sums.push(pages::filled(0, cells));
        }
        if let Some((all, others)) = sums.split_first_mut() {
            for own in others {
                all.iter_mut().zip(own).for_each(|(all, own)| *all += std::mem::take(own));
            }
            self.problem.own.collective.sum(all)?;
        }
        Ok(())
    }

    /// Adds in their order what all processes have of their blocks of rows, several numbers of each.
    fn total<const N: usize>(&self, own: Vec<[f64; N]>) -> Result<[f64; N]> {
        let all = self.problem.of_all_blocks(own.into_flattened())?;
        Ok(std::array::from_fn(|i| add_in_order(all.iter().skip(i).step_by(N).copied())))
    }

    /// Writes to `out` the totals of as many numbers of each block of all processes.
    fn totals(&self, own: Vec<Vec<f64>>, out: &mut [f64]) -> Result<()> {
        let (all, width) = (self.problem.of_all_blocks(own.concat())?, out.len());
        out.iter_mut().enumerate().for_each(|(i, out)| *out = add_in_order(all.iter().skip(i).step_by(width).copied()));
        Ok(())
    }

    /// Adds Σ residual · value over a block of rows, of dense columns and the intercept.
    fn dense_gradient(&self, residuals: &[f64], rows: Range<usize>, memory: &mut Vec<f64>) -> Vec<f64> {
        let (p, n) = (self.problem, rows.len());
        let mut out = Vec::with_capacity((p.dense.len() + 1) * p.outputs);
        let column = |column: &Column<'_>, memory: &mut Vec<f64>, out: &mut Vec<f64>| {
            let values = column.borrow_f64(rows.start, n, memory);
            out.extend((0..p.outputs).map(|k| lanes(0..n, |i| residuals[i * p.outputs + k] * values[i])));
        };
        p.dense.iter().for_each(|c| column(c, memory, &mut out));
        out.extend((0..p.outputs).map(|k| lanes(0..n, |i| residuals[i * p.outputs + k])));
        out
    }
}

impl PassSteps for Passes<'_, '_, '_> {
    type RowNumbers = Vec<f64>;

    fn write(&self, numbers: Cow<'_, [f64]>) -> Result<Vec<f64>> {
        Ok(numbers.into_owned())
    }

    fn rows(&self, of_row: &[f64]) -> Result<Vec<f64>> {
        if of_row.iter().all(|x| x.to_bits() == 0) {
            // Pages that whoever writes first will fill.
            return pages::try_zeroed("the scores of the rows", self.problem.rows * of_row.len());
        }
        let mut rows = pages::try_with_capacity("the scores of the rows", self.problem.rows * of_row.len())?;
        (0..self.problem.rows).for_each(|_| rows.extend_from_slice(of_row));
        Ok(rows)
    }

    fn scores(&self, vector: &[f64], out: &mut Vec<f64>) -> Result<()> {
        self.scores_where(|_| true, vector, out)
    }

    fn residuals(&self, scores: &Vec<f64>, out: &mut Vec<f64>) -> Result<Residuals> {
        let p = self.problem;
        let found = self.fill(out, p.outputs, |losses, rows, out| {
            losses.resize(rows.len(), 0.0);
            let scores = &scores[rows.start * p.outputs..rows.end * p.outputs];
            let codes = &p.codes[rows.clone()];
            if p.outputs == 1 {
                binary(scores, codes, losses, out);
            } else {
                multinomial(scores, codes, losses, out);
            }
            if let Some(weight) = &p.weight {
                for ((o, l), w) in out.chunks_exact_mut(p.outputs).zip(losses.iter_mut()).zip(&weight[rows]) {
                    *l *= *w as f64;
                    o.iter_mut().for_each(|o| *o *= *w as f64);
                }
            }
            (lanes(0..losses.len(), |i| losses[i]), out.iter().fold(0.0f64, |m, x| if x.abs() > m { x.abs() } else { m }))
        })?;
        let found = p.of_all_blocks(found.into_iter().flat_map(|(loss, largest)| [loss, largest]).collect())?;
        let largest = found.iter().skip(1).step_by(2).fold(0.0, |m: f64, x| m.max(*x));
        Ok(Residuals { loss: add_in_order(found.into_iter().step_by(2)), largest })
    }

    fn gradient(&self, residuals: &Vec<f64>, largest: f64, out: &mut [f64]) -> Result<()> {
        let p = self.problem;
        let (outputs, cells) = (p.outputs, p.width * p.outputs);
        let scale = power(largest, self.precision.bits);
        let loan = || Loan::new(&self.sums, cells);
        let blocks = self.blocks(
            &self.adders,
            || (loan(), vec![]),
            |(sums, memory), _, rows| {
                if let Some(csr) = &p.csr
                    && scale > 0.0
                {
                    for i in rows.clone() {
                        match &residuals[i * outputs..(i + 1) * outputs] {
                            [r] => csr.row(i).add(r * scale, &self.feature_scale, &mut sums.values),
                            r => csr.row(i).add_all(r, scale, &self.feature_scale, &mut sums.values),
                        }
                    }
                }
                self.dense_gradient(&residuals[rows.start * outputs..rows.end * outputs], rows, memory)
            },
        )?;
        let (sparse, others) = out.split_at_mut(cells);
        self.add_others(cells)?;
        self.collect(sparse, |unit| scale * unit);
        self.totals(blocks, others)?;
        if !p.fit_intercept {
            others[p.dense.len() * outputs..].fill(0.0);
        }
        Ok(())
    }

    fn squares(&self, out: &mut [f64]) -> Result<()> {
        let p = self.problem;
        let scale = power(p.largest_weight(), self.precision.bits);
        let cells = p.width * p.outputs;
        let blocks = self.blocks(
            &self.adders,
            || (Loan::new(&self.sums, cells), vec![]),
            |(sums, memory): &mut (Loan<'_>, Vec<f64>), _, rows| {
                if let Some(csr) = &p.csr {
                    for i in rows.clone() {
                        csr.row((i + 1).min(rows.end - 1)).fetch(&sums.values, p.outputs);
                        let w = p.weight(i) * scale;
                        csr.row(i).for_each(|k, x| {
                            let x = x * self.feature_scale.inverse(k);
                            sums.values[k * p.outputs] += round64(w * (x * x));
                        });
                    }
                }
                let weight = |i: usize| p.weight(rows.start + i);
                let square = |c: &Column<'_>| {
                    let values = c.borrow_f64(rows.start, rows.len(), memory);
                    lanes(0..rows.len(), |i| weight(i) * (values[i] * values[i]))
                };
                p.dense.iter().map(square).chain([lanes(0..rows.len(), weight)]).collect::<Vec<f64>>()
            },
        )?;
        self.add_others(cells)?;
        self.collect(&mut out[..cells], |unit| scale * unit * unit);
        for of_feature in out[..cells].chunks_exact_mut(p.outputs) {
            let square = of_feature[0];
            of_feature.fill(square);
        }
        let mut squares = vec![0.0; p.dense.len() + 1];
        self.totals(blocks, &mut squares)?;
        out[cells..].iter_mut().enumerate().for_each(|(i, o)| *o = squares[i / p.outputs]);
        Ok(())
    }

    fn along(&self, scores: &Vec<f64>, direction: &Vec<f64>, step: f64) -> Result<(f64, f64)> {
        let p = self.problem;
        let found = self.blocks(
            self.pool,
            || vec![0.0; 2 * BLOCK],
            |memory, _, rows| {
                let range = rows.start * p.outputs..rows.end * p.outputs;
                let (first, second) = memory.split_at_mut(BLOCK);
                let (first, second) = (&mut first[..rows.len()], &mut second[..rows.len()]);
                let (scores, direction, codes) = (&scores[range.clone()], &direction[range], &p.codes[rows.clone()]);
                if p.outputs == 1 {
                    binary_along(scores, direction, step, codes, first, second);
                } else {
                    multinomial_along(scores, direction, step, codes, first, second);
                }
                let n = rows.len();
                match &p.weight {
                    None => [lanes(0..n, |i| first[i]), lanes(0..n, |i| second[i])],
                    Some(w) => {
                        let w = &w[rows];
                        [lanes(0..n, |i| w[i] as f64 * first[i]), lanes(0..n, |i| w[i] as f64 * second[i])]
                    }
                }
            },
        )?;
        let [first, second] = self.total(found)?;
        Ok((first, second))
    }

    fn advance(&self, out: &mut Vec<f64>, from: &Vec<f64>, step: f64) -> Result<()> {
        map(self.pool, out, |range, out| {
            out.iter_mut().zip(&from[range]).for_each(|(o, x)| *o = x + step * *o);
            0.0
        });
        Ok(())
    }

    fn read<'r>(&self, rows: &'r Vec<f64>) -> Result<Cow<'r, [f64]>> {
        Ok(Cow::Borrowed(rows))
    }
}

/// Sums that go back where they came from.
struct Loan<'s> {
    pool: &'s Mutex<Vec<Vec<i64>>>,
    values: Vec<i64>,
}

impl<'s> Loan<'s> {
    fn new(pool: &'s Mutex<Vec<Vec<i64>>>, len: usize) -> Self {
        let values = pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Loan { pool, values: values.unwrap_or_else(|| pages::filled(0, len)) }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).push(std::mem::take(&mut self.values));
    }
}

/// Losses and residuals of two classes: with `z` the score against the class of the row, `ln(1 + e^z)` and its derivative.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn binary(scores: &[f64], codes: &[u32], losses: &mut [f64], out: &mut [f64]) {
    for (((s, c), l), o) in scores.iter().zip(codes).zip(losses).zip(out) {
        let side = if *c == 0 { 1.0 } else { -1.0 };
        let z = s * side;
        *l = softplus64(z);
        *o = sigmoid64(z) * side;
    }
}

/// Residuals of rows from their scores, by output.
pub fn residuals(scores: &[f64], codes: &[u32], out: &mut [f64]) {
    if scores.len() == codes.len() {
        return binary_residuals(scores, codes, out);
    }
    let outputs = scores.len() / codes.len().max(1);
    for ((s, c), o) in scores.chunks_exact(outputs).zip(codes).zip(out.chunks_exact_mut(outputs)) {
        softmax(s, *c, o);
        o[*c as usize] -= 1.0;
    }
}

/// Residuals of two classes, as [`binary`] gives them.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn binary_residuals(scores: &[f64], codes: &[u32], out: &mut [f64]) {
    for ((s, c), o) in scores.iter().zip(codes).zip(out) {
        let side = if *c == 0 { 1.0 } else { -1.0 };
        *o = sigmoid64(s * side) * side;
    }
}

/// Computes the derivatives of those losses along a line.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn binary_along(scores: &[f64], direction: &[f64], step: f64, codes: &[u32], first: &mut [f64], second: &mut [f64]) {
    for ((((s, d), c), f), g) in scores.iter().zip(direction).zip(codes).zip(first).zip(second) {
        let side = if *c == 0 { 1.0 } else { -1.0 };
        let p = sigmoid64((s + step * d) * side);
        *f = p * side * d;
        *g = p * (1.0 - p) * (d * d);
    }
}

/// Probabilities of a row's classes, and its loss.
fn softmax(scores: &[f64], class: u32, out: &mut [f64]) -> f64 {
    let top = scores.iter().fold(f64::NEG_INFINITY, |m, s| if *s > m { *s } else { m });
    let mut total = 0.0;
    for (o, s) in out.iter_mut().zip(scores) {
        *o = exp64(s - top);
        total += *o;
    }
    out.iter_mut().for_each(|o| *o /= total);
    ln64(total) + (top - scores[class as usize])
}

pub fn multinomial(scores: &[f64], codes: &[u32], losses: &mut [f64], out: &mut [f64]) {
    let outputs = scores.len() / codes.len().max(1);
    for (((s, c), l), o) in scores.chunks_exact(outputs).zip(codes).zip(losses).zip(out.chunks_exact_mut(outputs)) {
        *l = softmax(s, *c, o);
        o[*c as usize] -= 1.0;
    }
}

pub fn multinomial_along(scores: &[f64], direction: &[f64], step: f64, codes: &[u32], first: &mut [f64], second: &mut [f64]) {
    let outputs = scores.len() / codes.len().max(1);
    let (mut at, mut p) = (vec![0.0; outputs], vec![0.0; outputs]);
    for (i, (s, d)) in scores.chunks_exact(outputs).zip(direction.chunks_exact(outputs)).enumerate() {
        at.iter_mut().zip(s).zip(d).for_each(|((a, s), d)| *a = s + step * d);
        softmax(&at, codes[i], &mut p);
        let (mut mean, mut square) = (0.0, 0.0);
        for (p, d) in p.iter().zip(d) {
            mean += p * d;
            square += p * (d * d);
        }
        first[i] = mean - d[codes[i] as usize];
        second[i] = square - mean * mean;
    }
}

impl ScoreRows for Passes<'_, '_, '_> {
    fn scores_where(&self, wanted: &(dyn Fn(usize) -> bool + Sync), vector: &[f64], out: &mut [f64]) -> Result<()> {
        Passes::scores_where(self, wanted, vector, out)
    }
}
