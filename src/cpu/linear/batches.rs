//! Batches of rows on this process's threads: the CPU's part of [`taiga_core::learners::linear::batches`].
//!
//! Features belong to threads by their number, sixteen neighbours together. Sums are integers and a coefficient has one owner, so
//! neither the number of threads nor who is first shows in the result.

use super::passes::{Passes, binary, multinomial};
use std::sync::{PoisonError, RwLock};
use taiga_core::error::{Error, Result};
use taiga_core::learners::linear::batches::Deal;
use taiga_core::learners::linear::params::Optimizer;
use taiga_core::learners::linear::rule::{Cell, Rule};
use taiga_core::learners::linear::steps::BatchSteps;
use taiga_core::learners::linear::vectors::lanes;
use taiga_core::memory::prefetch_near;
use taiga_core::numerics::fixed::round64;
use taiga_core::pages;
use taiga_core::parallel::thread_pool::ThreadPool;

/// Entries of a batch that keep a thread busy.
const ENTRIES_A_THREAD: usize = 8192;

/// Entries whose sums and coefficients are fetched before they are needed.
const AHEAD: usize = 24;

/// Rows between two looks whether to stop.
const ROWS_A_QUESTION: usize = 1 << 14;

/// The coefficients of the sparse features, and the state that the optimizer keeps of each.
struct SparseCoefficients {
    optimizer: Optimizer,
    c: Vec<f32>,
    /// n, and z: of FTRL its z, else the rows of this epoch up to which penalties are made up, as bits.
    state: Vec<[f32; 2]>,
    sums: Vec<i64>,
}

impl SparseCoefficients {
    #[inline(always)]
    fn cell(&self, c: f32, [n, z]: [f32; 2]) -> Cell {
        let z = if self.optimizer == Optimizer::Ftrl { z as f64 } else { z.to_bits() as f64 };
        Cell { c: c as f64, n: n as f64, z }
    }

    #[inline(always)]
    fn get(&self, at: usize) -> Cell {
        self.cell(self.c[at], self.state[at])
    }

    fn state_of(&self, cell: &Cell) -> [f32; 2] {
        let z = if self.optimizer == Optimizer::Ftrl { cell.z as f32 } else { f32::from_bits(cell.z as u32) };
        [cell.n as f32, z]
    }
}

/// A slice that threads write to, each in places that are its alone.
struct SharedSlice<T>(*mut T);

// SAFETY: whoever uses it sees to it that no place is used by two threads at a time.
unsafe impl<T: Send> Sync for SharedSlice<T> {}

/// The rows of a batch that one thread computes, and what it computes of them.
#[derive(Default)]
struct BatchShare {
    scores: Vec<f64>,
    losses: Vec<f64>,
    /// Weighted, and scaled for integers.
    residuals: Vec<f64>,
    /// The values of each dense column.
    dense: Vec<Vec<f64>>,
    /// The entries of each owner's features.
    entries: Vec<FeatureEntries>,
}

#[derive(Default)]
struct FeatureEntries {
    /// Feature, and row of the share.
    places: Vec<(u32, u32)>,
    /// The entries' values in units of their features, where rows have values.
    values: Vec<f64>,
}

/// A fit by batches on the CPU.
pub struct Batches<'s, 'p, 'a> {
    passes: &'s Passes<'s, 'p, 'a>,
    deal: &'s Deal,
    rule: Rule,
    free: Rule,
    cells: SparseCoefficients,
    /// The coefficients of dense columns and intercepts, by output.
    others: Vec<Cell>,
    workers: ThreadPool,
    shares: Vec<RwLock<BatchShare>>,
}

impl BatchSteps for Batches<'_, '_, '_> {
    fn epoch(&mut self, steps: &[usize], past: f64, rate: f64) -> Result<()> {
        (self.rule.rate, self.free.rate) = (rate, rate);
        let batch = self.deal.batch;
        for (i, step) in steps.iter().enumerate() {
            if (i * batch) % ROWS_A_QUESTION < batch && self.passes.interrupted() {
                return Err(Error::Interrupted);
            }
            self.step(*step, past + (i * batch) as f64);
        }
        Ok(())
    }

    fn settle(&mut self, now: f64) -> Result<()> {
        for i in 0..self.cells.c.len() {
            let cell = self.cells.get(i);
            if self.rule.fades() && cell.c != 0.0 {
                self.cells.c[i] = self.rule.value(&cell, now) as f32;
            }
            self.cells.state[i][1] = 0.0;
        }
        for i in 0..self.others.len() {
            let cell = self.others[i];
            self.others[i] = Cell { c: self.rule_of(i).value(&cell, now), z: 0.0, ..cell };
        }
        Ok(())
    }

    fn vector(&mut self, now: f64) -> Result<Vec<f64>> {
        let sparse = (0..self.cells.c.len()).map(|i| self.rule.value(&self.cells.get(i), now));
        Ok(sparse.chain((0..self.others.len()).map(|i| self.rule_of(i).value(&self.others[i], now))).collect())
    }
}

impl<'s, 'p, 'a> Batches<'s, 'p, 'a> {
    /// Makes room for the coefficients and what rules remember of them.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn new(passes: &'s Passes<'s, 'p, 'a>, deal: &'s Deal) -> Result<Self> {
        let p = passes.problem;
        let cells = p.width * p.outputs;
        let workers = ThreadPool::new(passes.pool.size().min(deal.most / ENTRIES_A_THREAD).max(1))?;
        Ok(Batches {
            passes,
            deal,
            rule: deal.rule,
            free: deal.free,
            cells: SparseCoefficients {
                optimizer: deal.rule.optimizer,
                c: pages::try_filled("the coefficients", 0.0, cells)?,
                state: pages::try_filled("the state of the coefficients", [0.0; 2], cells)?,
                sums: pages::try_filled("the sums of the features", 0, cells)?,
            },
            others: vec![Cell::default(); (p.dense.len() + 1) * p.outputs],
            shares: (0..workers.size()).map(|_| RwLock::default()).collect(),
            workers,
        })
    }

    /// Returns the rule of the coefficient at `i` among `others`.
    fn rule_of(&self, i: usize) -> &Rule {
        if i < self.passes.problem.dense.len() * self.passes.problem.outputs { &self.rule } else { &self.free }
    }

    /// Moves the coefficients by one batch, at time `now`.
    fn step(&mut self, step: usize, now: f64) {
        let rows = &self.deal.rows[self.deal.span(step)];
        let shares = std::mem::take(&mut self.shares);
        let others: Vec<f64> = (0..self.others.len()).map(|i| self.rule_of(i).value(&self.others[i], now)).collect();
        let part = rows.len().div_ceil(shares.len());
        self.workers.each(|t| {
            let rows = &rows[(t * part).min(rows.len())..((t + 1) * part).min(rows.len())];
            let mut share = shares[t].write().unwrap_or_else(PoisonError::into_inner);
            self.scores(rows, &others, now, &mut share);
            self.deal(rows, shares.len(), &mut share);
        });
        let length = rows.len() as f64;
        // SAFETY: each coefficient, state and sum is of a feature, and each feature has one owner.
        let (c, state, sums) =
            (SharedSlice(self.cells.c.as_mut_ptr()), SharedSlice(self.cells.state.as_mut_ptr()), SharedSlice(self.cells.sums.as_mut_ptr()));
        let this = &*self;
        let (c, state, sums) = (&c, &state, &sums);
        this.workers.each(|owner| this.move_owned(owner, &shares, (c, state, sums), now, length));
        self.move_others(&shares, now, length);
        self.shares = shares;
    }

    /// Scores and residuals of rows.
    fn scores(&self, rows: &[usize], others: &[f64], now: f64, share: &mut BatchShare) {
        let p = self.passes.problem;
        let (n, outputs) = (rows.len(), p.outputs);
        let BatchShare { scores, losses, residuals, dense, .. } = share;
        let (of_dense, intercepts) = others.split_at(p.dense.len() * outputs);
        scores.clear();
        (0..n).for_each(|_| scores.extend_from_slice(intercepts));
        dense.clear();
        dense.extend(p.dense.iter().map(|column| column.gather_f64(rows)));
        for (values, weights) in dense.iter().zip(of_dense.chunks_exact(outputs)) {
            for (o, x) in scores.chunks_exact_mut(outputs).zip(values) {
                o.iter_mut().zip(weights).for_each(|(o, w)| *o += w * x);
            }
        }
        if let Some(csr) = &p.csr {
            let fades = self.rule.fades();
            let value = |at: usize| if fades { self.rule.value(&self.cells.get(at), now) } else { self.cells.c[at] as f64 };
            for (at, (i, o)) in rows.iter().zip(scores.chunks_exact_mut(outputs)).enumerate() {
                let row = csr.row(*i);
                if let Some(next) = rows.get(at + 1) {
                    csr.row(*next).fetch(&self.cells.c, outputs);
                    if fades {
                        csr.row(*next).fetch(&self.cells.state, outputs);
                    }
                }
                match (o, row.values) {
                    ([o], None) => *o += lanes(0..row.keys.len(), |i| value(row.keys[i] as usize)),
                    ([o], Some(x)) => *o += lanes(0..row.keys.len(), |i| value(row.keys[i] as usize) * x[i] as f64),
                    (o, _) => row.for_each(|k, x| o.iter_mut().enumerate().for_each(|(j, o)| *o += value(k * outputs + j) * x)),
                }
            }
        }
        losses.resize(n, 0.0);
        residuals.resize(n * outputs, 0.0);
        let codes: Vec<u32> = rows.iter().map(|i| p.codes[*i]).collect();
        if outputs == 1 {
            binary(scores, &codes, losses, residuals);
        } else {
            multinomial(scores, &codes, losses, residuals);
        }
        for (i, r) in rows.iter().zip(residuals.chunks_exact_mut(outputs)) {
            let weight = p.weight(*i) / self.deal.mean_weight;
            r.iter_mut().for_each(|r| *r *= weight * self.deal.scale);
        }
    }

    /// Deals the entries of rows to their features' owners.
    fn deal(&self, rows: &[usize], owners: usize, share: &mut BatchShare) {
        let Some(csr) = &self.passes.problem.csr else { return };
        share.entries.resize_with(owners, FeatureEntries::default);
        for e in &mut share.entries {
            e.places.clear();
            e.values.clear();
        }
        for (i, row) in rows.iter().map(|i| csr.row(*i)).enumerate() {
            for (j, key) in row.keys.iter().enumerate() {
                let entries = &mut share.entries[owner(*key, owners)];
                entries.places.push((*key, i as u32));
                if let Some(values) = row.values {
                    entries.values.push(values[j] as f64 * self.passes.feature_scale.inverse(*key as usize));
                }
            }
        }
    }

    /// Sums and steps of an owner's features.
    fn move_owned(
        &self,
        owner: usize,
        shares: &[RwLock<BatchShare>],
        (c, state, sums): (&SharedSlice<f32>, &SharedSlice<[f32; 2]>, &SharedSlice<i64>),
        now: f64,
        rows: f64,
    ) {
        let outputs = self.passes.problem.outputs;
        let length = self.passes.problem.width * outputs;
        let shares: Vec<_> = shares.iter().map(|s| s.read().unwrap_or_else(PoisonError::into_inner)).collect();
        for share in &shares {
            let Some(entries) = share.entries.get(owner) else { continue };
            for (at, (key, row)) in entries.places.iter().enumerate() {
                if let Some((ahead, _)) = entries.places.get(at + AHEAD) {
                    prefetch_near(sums.0.wrapping_add(*ahead as usize * outputs) as *const u8);
                }
                let x = entries.values.get(at).copied().unwrap_or(1.0);
                for k in 0..outputs {
                    let cell = *key as usize * outputs + k;
                    debug_assert!(cell < length);
                    let q = round64(share.residuals[*row as usize * outputs + k] * x);
                    // SAFETY: numbers are below the width, and this feature is this owner's alone.
                    unsafe { *sums.0.add(cell) += q };
                }
            }
        }
        for share in &shares {
            let Some(entries) = share.entries.get(owner) else { continue };
            for (at, (key, _)) in entries.places.iter().enumerate() {
                if let Some((ahead, _)) = entries.places.get(at + AHEAD) {
                    let cell = *ahead as usize * outputs;
                    prefetch_near(sums.0.wrapping_add(cell) as *const u8);
                    prefetch_near(state.0.wrapping_add(cell) as *const u8);
                    prefetch_near(c.0.wrapping_add(cell) as *const u8);
                }
                let scale = self.deal.scale * self.passes.feature_scale.inverse(*key as usize);
                for cell in *key as usize * outputs..(*key as usize + 1) * outputs {
                    // SAFETY: as above.
                    let (c, state, sum) = unsafe { (&mut *c.0.add(cell), &mut *state.0.add(cell), &mut *sums.0.add(cell)) };
                    // Of a feature that stands here more than once the first place takes all.
                    if *sum != 0 {
                        let g = std::mem::take(sum) as f64 / scale;
                        let mut moved = self.cells.cell(*c, *state);
                        self.rule.step(&mut moved, g, now, rows);
                        (*c, *state) = (moved.c as f32, self.cells.state_of(&moved));
                    }
                }
            }
        }
    }

    /// Steps of dense columns and intercepts.
    fn move_others(&mut self, shares: &[RwLock<BatchShare>], now: f64, rows: f64) {
        let p = self.passes.problem;
        let shares: Vec<_> = shares.iter().map(|s| s.read().unwrap_or_else(PoisonError::into_inner)).collect();
        for i in 0..self.others.len() {
            let (column, k) = (i / p.outputs, i % p.outputs);
            if column == p.dense.len() && !p.fit_intercept {
                continue;
            }
            // Row after row, whoever had it.
            let mut g = 0.0;
            for share in &shares {
                let x = |row: usize| share.dense.get(column).map_or(1.0, |d| d[row]);
                g = share.residuals.iter().skip(k).step_by(p.outputs).enumerate().fold(g, |g, (row, r)| g + r * x(row));
            }
            let rule = *self.rule_of(i);
            rule.step(&mut self.others[i], g / self.deal.scale, now, rows);
        }
    }
}

/// Returns the thread that owns a feature.
#[inline(always)]
fn owner(key: u32, owners: usize) -> usize {
    (((key >> 4).wrapping_mul(0x9E37_79B1) as u64 * owners as u64) >> 32) as usize
}
