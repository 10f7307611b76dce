//! Batches of rows on this process's threads: the CPU's part of [`taiga_core::learners::linear::batches`].
//!
//! ```text
//! once      lists.rs   of each batch its features, once each by their owner, and the place there of each entry
//! a batch   read       each owner its features: coefficients, side by side
//!           score      each thread some of the rows: scores and residuals
//!           step       each owner its features: sums, steps; and at once it reads those of the next batch
//! ```
//!
//! Sums are integers, a coefficient has one owner and a row one thread that adds in the row's order, so neither the number of threads nor
//! who is first shows in the result.

mod lists;
mod stored;
#[cfg(test)]
mod tests;

use self::lists::{BatchLists, ListGroup, ListMaker, MOST_OWNERS, OwnedLists, Owners, Place, TOGETHER, list_bytes};
use self::stored::{Adaptive, Descended, FreeLeading, Leading, Stored};
use super::passes::{Passes, residuals};
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use taiga_core::error::{Error, Result};
use taiga_core::learners::linear::batches::{ByBatches, Deal};
use taiga_core::learners::linear::csr::Csr;
use taiga_core::learners::linear::lbfgs::Fitted;
use taiga_core::learners::linear::params::Optimizer;
use taiga_core::learners::linear::rule::{Cell, Rule};
use taiga_core::learners::linear::snapshot::BatchState;
use taiga_core::learners::linear::steps::BatchSteps;
use taiga_core::learners::linear::vectors::{BLOCK, each, lanes};
use taiga_core::memory::{self, prefetch_near};
use taiga_core::numerics::fixed::round64;
use taiga_core::pages;
use taiga_core::parallel::thread_pool::ThreadPool;

/// Entries of a batch that keep a thread busy.
const ENTRIES_A_THREAD: usize = 768;

/// Features whose coefficients are computed together.
const CHUNK: usize = 128;

/// The most features whose coefficients are asked for a batch ahead.
const AHEAD: usize = 4096;

/// Groups of batches whose lists each thread makes.
const GROUPS_A_THREAD: usize = 2;

/// Entries of a group, where lists are not kept.
const GROUP_ENTRIES: usize = 1 << 19;

/// Lists of fewer bytes are kept whatever memory there is.
const LITTLE: u64 = 1 << 22;

/// Rows between two looks whether to stop.
const ROWS_A_QUESTION: usize = 1 << 14;

/// Fits by batches on the CPU.
///
/// # Errors
/// [`Error::Memory`] and [`Error::Interrupted`].
pub fn fit(batches: ByBatches<'_, '_, '_, '_>, deal: &Deal, passes: &Passes<'_, '_, '_>) -> Result<Fitted> {
    // A batch has no more features than entries.
    if deal.most <= 1 << 16 { fit_with::<u16>(batches, deal, passes) } else { fit_with::<u32>(batches, deal, passes) }
}

fn fit_with<P: Place>(batches: ByBatches<'_, '_, '_, '_>, deal: &Deal, passes: &Passes<'_, '_, '_>) -> Result<Fitted> {
    let division = Division::of::<P>(passes, deal);
    match deal.rule.optimizer {
        Optimizer::Adagrad => batches.on(deal, &mut Batches::<Adaptive, P>::new(passes, deal, division)?, passes),
        Optimizer::Ftrl if deal.rule.fades() => batches.on(deal, &mut Batches::<Leading, P>::new(passes, deal, division)?, passes),
        Optimizer::Ftrl => batches.on(deal, &mut Batches::<FreeLeading, P>::new(passes, deal, division)?, passes),
        Optimizer::Sgd | Optimizer::Lbfgs => batches.on(deal, &mut Batches::<Descended, P>::new(passes, deal, division)?, passes),
    }
}

/// What one thread writes, on lines of the cache that are its alone.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(RwLock<T>);

impl<T> Apart<T> {
    fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The features of one owner: what is kept of them, and what is computed of those of a batch.
#[derive(Default)]
struct Owner<S> {
    /// By place and output.
    all: Vec<S>,
    /// Of the features of a batch, likewise.
    stored: Vec<S>,
    values: Vec<f64>,
    sums: Vec<i64>,
    gradients: Vec<f64>,
    /// Of the batch's rows.
    residuals: Vec<f64>,
}

impl<S: Stored> Owner<S> {
    /// Reads the coefficients of `features` at time `now`.
    fn read(&mut self, features: &[u32], outputs: usize, rule: &Rule, now: f64) {
        self.stored.clear();
        self.values.resize(features.len() * outputs, 0.0);
        for (features, values) in features.chunks(CHUNK).zip(self.values.chunks_mut(CHUNK * outputs)) {
            let first = self.stored.len();
            if outputs == 1 {
                self.stored.extend(features.iter().map(|f| self.all[*f as usize]));
            } else {
                let of_feature = |f: &u32| &self.all[*f as usize * outputs..(*f as usize + 1) * outputs];
                features.iter().for_each(|f| self.stored.extend_from_slice(of_feature(f)));
            }
            stored::values(rule, &self.stored[first..], now, values);
        }
    }

    /// Asks for the coefficients of features.
    fn fetch(&self, features: &[u32], outputs: usize) {
        let bytes = outputs * size_of::<S>();
        let start = self.all.as_ptr() as *const u8;
        features.iter().for_each(|f| prefetch_near(start.wrapping_add(*f as usize * bytes)));
    }

    /// Moves what has been read on the sums of a batch of `rows` rows, and writes it back.
    fn step<P: Place>(&mut self, own: &OwnedLists<'_, P>, outputs: usize, (rule, unit): (&Rule, f64), now: f64, rows: f64) {
        let Owner { all, stored, values, sums, gradients, .. } = self;
        let width = CHUNK * outputs;
        let parts = stored.chunks_mut(width).zip(values.chunks(width)).zip(sums.chunks(width));
        for (i, ((stored, values), sums)) in parts.enumerate() {
            if own.units.is_empty() {
                stored::step(rule, stored, values, (sums, unit), now, rows);
            } else {
                let units = own.units[i * CHUNK..].iter().flat_map(|unit| std::iter::repeat_n(*unit, outputs));
                gradients.clear();
                gradients.extend(sums.iter().zip(units).map(|(sum, unit)| *sum as f64 * unit));
                stored::step_by(rule, stored, values, gradients, now, rows);
            }
            let features = &own.features[i * CHUNK..];
            if outputs == 1 {
                features.iter().zip(&*stored).for_each(|(f, stored)| all[*f as usize] = *stored);
            } else {
                for (f, stored) in features.iter().zip(stored.chunks_exact(outputs)) {
                    all[*f as usize * outputs..(*f as usize + 1) * outputs].copy_from_slice(stored);
                }
            }
        }
    }

    /// Sums the gradients of a batch's features, as a GPU does where a snapshot's coefficients left no number that is finite: the ends of
    /// i64 wrap around. Meanwhile asks for the coefficients of those that the `next` one has.
    fn sum<P: Place>(&mut self, own: &OwnedLists<'_, P>, outputs: usize, next: &[u32]) {
        self.sums.clear();
        self.sums.resize(self.stored.len(), 0);
        let mut next = next.chunks(next.len().div_ceil(own.starts.len() - 1).max(1));
        let spans = own.starts.windows(2).map(|bounds| bounds[0] as usize..bounds[1] as usize);
        for (span, residuals) in spans.zip(self.residuals.chunks_exact(outputs)) {
            if let Some(features) = next.next() {
                self.fetch(features, outputs);
            }
            match (residuals, own.values.get(span.clone()).filter(|values| !values.is_empty())) {
                ([r], None) => {
                    let rounded = round64(*r);
                    own.places[span].iter().for_each(|place| add(&mut self.sums[place.at()], rounded));
                }
                ([r], Some(values)) => {
                    own.places[span].iter().zip(values).for_each(|(place, x)| add(&mut self.sums[place.at()], round64(r * x)));
                }
                (residuals, values) => {
                    for (i, place) in own.places[span].iter().enumerate() {
                        let x = values.map_or(1.0, |values| values[i]);
                        let of_feature = &mut self.sums[place.at() * outputs..(place.at() + 1) * outputs];
                        of_feature.iter_mut().zip(residuals).for_each(|(sum, r)| add(sum, round64(r * x)));
                    }
                }
            }
        }
    }
}

fn add(sum: &mut i64, number: i64) {
    *sum = sum.wrapping_add(number);
}

/// The rows of a batch that one thread scores, and what it computes of them.
#[derive(Default)]
struct Share {
    /// The coefficients of the batch.
    values: Vec<f64>,
    scores: Vec<f64>,
    /// Weighted, and scaled for integers.
    residuals: Vec<f64>,
    codes: Vec<u32>,
    /// The values of each dense column.
    dense: Vec<Vec<f64>>,
}

/// A batch whose turn it is.
struct Turn {
    step: usize,
    /// Which of the lists are its.
    list: usize,
    now: f64,
}

/// Returns whether there is room to keep lists of so many bytes for all epochs: a quarter of what is free.
fn keep_lists(bytes: u64) -> bool {
    bytes < LITTLE || memory::available().is_none_or(|free| bytes <= free / 4)
}

/// A fit by batches on the CPU.
struct Batches<'s, 'p, 'a, S, P> {
    passes: &'s Passes<'s, 'p, 'a>,
    deal: &'s Deal,
    rule: Rule,
    free: Rule,
    /// The lists of so many batches each; none where rows have no lists.
    lists: Vec<ListGroup<P>>,
    grouped: usize,
    /// Whether the lists are those of all batches, by their numbers; else they are made anew for so many batches at a time.
    kept: bool,
    dealt: Owners,
    owners: Vec<Apart<Owner<S>>>,
    /// The coefficients of dense columns and intercepts, by output.
    others: Vec<Cell>,
    workers: ThreadPool,
    shares: Vec<Apart<Share>>,
}

impl<S: Stored, P: Place> BatchSteps for Batches<'_, '_, '_, S, P> {
    fn epoch(&mut self, steps: &[usize], past: f64, rate: f64) -> Result<()> {
        (self.rule.rate, self.free.rate) = (rate, rate);
        if self.kept {
            return self.run(steps, past);
        }
        let stretch = self.grouped * self.passes.pool.size();
        for (i, steps) in steps.chunks(stretch).enumerate() {
            self.lists = self.make_lists(steps);
            self.run(steps, past + (i * stretch * self.deal.batch) as f64)?;
        }
        Ok(())
    }

    fn settle(&mut self, now: f64) -> Result<()> {
        self.workers.step(|t| stored::settle(&self.rule, &mut self.owners[t].write().all, now));
        for i in 0..self.others.len() {
            let cell = self.others[i];
            self.others[i] = Cell { c: self.rule_of(i).value(&cell, now), z: 0.0, ..cell };
        }
        Ok(())
    }

    fn vector(&mut self, now: f64) -> Result<Vec<f64>> {
        let p = self.passes.problem;
        let mut vector = pages::try_zeroed("the coefficients", p.coefficients())?;
        let (sparse, others) = vector.split_at_mut(p.width * p.outputs);
        let owners: Vec<_> = self.owners.iter().map(Apart::read).collect();
        let run = TOGETHER as usize;
        each(self.passes.pool, sparse, BLOCK * p.outputs, |block, out| {
            for (at, out) in out.chunks_mut(run * p.outputs).enumerate() {
                let (owner, place) = self.dealt.of((block * BLOCK + at * run) as u32);
                stored::values(&self.rule, &owners[owner].all[place as usize * p.outputs..], now, out);
            }
        });
        others.iter_mut().enumerate().for_each(|(i, out)| *out = self.rule_of(i).value(&self.others[i], now));
        Ok(vector)
    }

    fn state(&mut self) -> Result<BatchState> {
        let p = self.passes.problem;
        let cells = p.width * p.outputs;
        let room = || pages::try_zeroed("a snapshot of a fit", cells);
        let (mut c, mut n, mut z): (Vec<f32>, Vec<f32>, Vec<f32>) = (room()?, room()?, room()?);
        let owners: Vec<_> = self.owners.iter().map(Apart::read).collect();
        for at in 0..cells {
            let (owner, place) = self.dealt.of((at / p.outputs) as u32);
            let cell = owners[owner].all[place as usize * p.outputs + at % p.outputs].cell();
            (c[at], n[at], z[at]) = (cell.c as f32, cell.n as f32, cell.z as f32);
        }
        Ok(BatchState::new(c, n, z, self.others.iter().map(|cell| [cell.c, cell.n, cell.z]).collect()))
    }

    fn restore(&mut self, state: &BatchState) -> Result<()> {
        let p = self.passes.problem;
        let mut owners: Vec<_> = self.owners.iter().map(Apart::write).collect();
        for at in 0..p.width * p.outputs {
            let (owner, place) = self.dealt.of((at / p.outputs) as u32);
            let [c, n, z] = state.of(at).map(f64::from);
            owners[owner].all[place as usize * p.outputs + at % p.outputs] = S::of(&Cell { c, n, z });
        }
        self.others = state.others.iter().map(|[c, n, z]| Cell { c: *c, n: *n, z: *z }).collect();
        Ok(())
    }
}

/// How work and memory are divided, which does not show in the result.
#[derive(Clone, Copy, Debug)]
struct Division {
    workers: usize,
    /// How many batches' lists are made together.
    grouped: usize,
    /// Whether all lists are kept for all epochs.
    kept: bool,
}

impl Division {
    /// Returns what suits a problem.
    fn of<P>(passes: &Passes<'_, '_, '_>, deal: &Deal) -> Division {
        let (p, threads) = (passes.problem, passes.pool.size());
        let kept = keep_lists(list_bytes::<P>(p.entries, p.has_values));
        let batches = deal.rows.len().div_ceil(deal.batch);
        let grouped = if kept { batches.div_ceil(GROUPS_A_THREAD * threads) } else { GROUP_ENTRIES / deal.most.max(1) };
        Division { workers: threads.min(deal.most / ENTRIES_A_THREAD), grouped, kept }
    }
}

impl<'s, 'p, 'a, S: Stored, P: Place> Batches<'s, 'p, 'a, S, P> {
    /// Makes room for the coefficients and what rules remember of them.
    ///
    /// # Errors
    /// [`Error::Memory`].
    fn new(passes: &'s Passes<'s, 'p, 'a>, deal: &'s Deal, division: Division) -> Result<Self> {
        let p = passes.problem;
        let workers = ThreadPool::new(division.workers.clamp(1, MOST_OWNERS))?;
        let dealt = Owners::new(workers.size());
        let cells = dealt.places(p.width) * p.outputs;
        let owner = |_| -> Result<Apart<Owner<S>>> {
            let all = pages::try_filled("the coefficients", S::default(), cells)?;
            Ok(Apart(RwLock::new(Owner { all, ..Owner::default() })))
        };
        let owners = (0..workers.size()).map(owner).collect::<Result<_>>()?;
        let mut batches = Batches {
            passes,
            deal,
            rule: deal.rule,
            free: deal.free,
            lists: vec![],
            grouped: division.grouped.max(1),
            kept: division.kept,
            dealt,
            owners,
            others: vec![Cell::default(); (p.dense.len() + 1) * p.outputs],
            shares: (0..workers.size()).map(|_| Apart::default()).collect(),
            workers,
        };
        if division.kept {
            let all: Vec<usize> = (0..deal.rows.len().div_ceil(deal.batch)).collect();
            batches.lists = batches.make_lists(&all);
        }
        Ok(batches)
    }

    /// Makes the lists of batches.
    fn make_lists(&self, steps: &[usize]) -> Vec<ListGroup<P>> {
        let Some(csr) = &self.passes.problem.csr else { return vec![] };
        let maker = || ListMaker::new(csr, self.deal.most, self.dealt, &self.passes.feature_scale, self.deal.scale);
        let batches: Vec<&[usize]> = steps.iter().map(|step| &self.deal.rows[self.deal.span(*step)]).collect();
        let groups: Vec<&[&[usize]]> = batches.chunks(self.grouped).collect();
        self.passes.pool.deal(groups.len(), maker, |maker, i| maker.group(groups[i]))
    }

    /// Takes batches one after the other, whose lists are there; the first at time `past`.
    fn run(&mut self, steps: &[usize], past: f64) -> Result<()> {
        let batch = self.deal.batch;
        let turn = |i: usize| {
            let step = steps.get(i)?;
            Some(Turn { step: *step, list: if self.kept { *step } else { i }, now: past + (i * batch) as f64 })
        };
        let turns: Vec<Turn> = (0..steps.len()).filter_map(turn).collect();
        if let Some(first) = turns.first() {
            self.workers.step(|t| self.read(t, first));
        }
        for (i, turn) in turns.iter().enumerate() {
            if (i * batch) % ROWS_A_QUESTION < batch && self.passes.interrupted() {
                return Err(Error::Interrupted);
            }
            let others: Vec<f64> = (0..self.others.len()).map(|at| self.rule_of(at).value(&self.others[at], turn.now)).collect();
            let (next, after) = (turns.get(i + 1), turns.get(i + 2));
            self.workers.step(|t| {
                if let Some((group, at)) = after.and_then(|after| self.group(after)) {
                    group.fetch(at, t);
                }
                self.score(t, turn, next, &others);
            });
            self.move_others(turn);
            self.workers.step(|t| {
                self.step(t, turn, next);
                if let Some(next) = next {
                    self.read(t, next);
                }
            });
        }
        Ok(())
    }

    /// Returns the group that has the lists of a batch, and its number there; none where rows have no lists.
    fn group(&self, turn: &Turn) -> Option<(&ListGroup<P>, usize)> {
        self.lists.get(turn.list / self.grouped).map(|group| (group, turn.list % self.grouped))
    }

    /// Returns the lists of an owner's features of a batch; none where rows have no lists.
    fn owned(&self, owner: usize, turn: &Turn) -> Option<OwnedLists<'_, P>> {
        self.group(turn).map(|(group, at)| group.owned(at, owner))
    }

    /// Returns the rule of the coefficient at `i` among `others`.
    fn rule_of(&self, i: usize) -> &Rule {
        if i < self.passes.problem.dense.len() * self.passes.problem.outputs { &self.rule } else { &self.free }
    }

    /// Reads the coefficients of an owner's features of a batch.
    fn read(&self, owner: usize, turn: &Turn) {
        let Some(own) = self.owned(owner, turn) else { return };
        self.owners[owner].write().read(own.features, self.passes.problem.outputs, &self.rule, turn.now);
    }

    /// Returns the rows of a batch that thread `t` scores.
    fn rows_of(&self, t: usize, turn: &Turn) -> Range<usize> {
        let (rows, parts) = (self.deal.span(turn.step).len(), self.shares.len());
        let Some((group, at)) = self.group(turn) else { return rows * t / parts..rows * (t + 1) / parts };
        let starts = group.batch(at).starts;
        // Those that begin in a part of the entries; behind all of them stands their number.
        let (starts, entries) = (&starts[..rows], starts[rows] as usize + 1);
        let first = |part: usize| starts.partition_point(|start| (*start as usize) < entries * part / parts);
        first(t)..if t + 1 == parts { rows } else { first(t + 1) }
    }

    /// Computes scores and residuals of the rows of a batch that thread `t` scores, from the `others` of the coefficients.
    fn score(&self, t: usize, turn: &Turn, next: Option<&Turn>, others: &[f64]) {
        let p = self.passes.problem;
        let deal = self.deal;
        let all = &deal.rows[deal.span(turn.step)];
        let part = self.rows_of(t, turn);
        let rows = &all[part.clone()];
        let mut share = self.shares[t].write();
        let Share { values, scores, residuals: out, codes, dense } = &mut *share;
        let (of_dense, intercepts) = others.split_at(p.dense.len() * p.outputs);
        scores.clear();
        (0..rows.len()).for_each(|_| scores.extend_from_slice(intercepts));
        dense.clear();
        dense.extend(p.dense.iter().map(|column| column.gather_f64(rows)));
        for (values, weights) in dense.iter().zip(of_dense.chunks_exact(p.outputs)) {
            for (o, x) in scores.chunks_exact_mut(p.outputs).zip(values) {
                o.iter_mut().zip(weights).for_each(|(o, w)| *o += w * x);
            }
        }
        if let (Some(csr), Some((group, at))) = (&p.csr, self.group(turn)) {
            let own = self.owners[t].read();
            own.fetch(self.ahead(t, next).0, p.outputs);
            values.clear();
            let values = if let [_] = self.owners[..] {
                &own.values
            } else {
                self.owners.iter().for_each(|owner| values.extend_from_slice(&owner.read().values));
                values
            };
            add_entries(csr, (all, part), &group.batch(at), values, scores, p.outputs);
        }
        codes.clear();
        codes.extend(rows.iter().map(|i| p.codes[*i]));
        out.resize(scores.len(), 0.0);
        residuals(scores, codes, out);
        for (i, r) in rows.iter().zip(out.chunks_exact_mut(p.outputs)) {
            let weight = p.weight(*i) / deal.mean_weight;
            r.iter_mut().for_each(|r| *r *= weight * deal.scale);
        }
    }

    /// Returns the features of an owner that the next batch has, where they are few enough to be asked for ahead: the first and the second half.
    fn ahead(&self, owner: usize, next: Option<&Turn>) -> (&[u32], &[u32]) {
        let features = next.and_then(|next| self.owned(owner, next)).map_or(&[][..], |own| own.features);
        if features.len() > AHEAD { (&[], &[]) } else { features.split_at(features.len() / 2) }
    }

    /// Sums the gradients of an owner's features of a batch and moves their coefficients.
    fn step(&self, owner: usize, turn: &Turn, next: Option<&Turn>) {
        let Some(own) = self.owned(owner, turn) else { return };
        let (outputs, ahead) = (self.passes.problem.outputs, self.ahead(owner, next).1);
        let mut owner = self.owners[owner].write();
        owner.residuals.clear();
        self.shares.iter().for_each(|share| owner.residuals.extend_from_slice(&share.read().residuals));
        owner.sum(&own, outputs, ahead);
        let unit = 1.0 / (self.deal.scale * self.passes.feature_scale.common);
        owner.step(&own, outputs, (&self.rule, unit), turn.now, self.deal.span(turn.step).len() as f64);
    }

    /// Steps of dense columns and intercepts.
    fn move_others(&mut self, turn: &Turn) {
        let p = self.passes.problem;
        let shares: Vec<_> = self.shares.iter().map(Apart::read).collect();
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
            let rule = if column < p.dense.len() { self.rule } else { self.free };
            rule.step(&mut self.others[i], g / self.deal.scale, turn.now, self.deal.span(turn.step).len() as f64);
        }
    }
}

/// Adds Σ coefficient · value to the scores of some rows of a batch.
fn add_entries<P: Place>(
    csr: &Csr<'_>,
    (all, part): (&[usize], Range<usize>),
    lists: &BatchLists<'_, P>,
    coefficients: &[f64],
    scores: &mut [f64],
    outputs: usize,
) {
    let has_values = csr.has_values();
    for (i, o) in part.zip(scores.chunks_exact_mut(outputs)) {
        let places = &lists.places[lists.starts[i] as usize..lists.starts[i + 1] as usize];
        let values = if has_values { csr.row(all[i]).values } else { None };
        match (o, values) {
            ([o], None) => *o += lanes(0..places.len(), |j| coefficients[places[j].at()]),
            ([o], Some(x)) => *o += lanes(0..places.len(), |j| coefficients[places[j].at()] * x[j] as f64),
            (o, x) => {
                for (j, place) in places.iter().enumerate() {
                    let x = x.map_or(1.0, |x| x[j] as f64);
                    o.iter_mut().zip(&coefficients[place.at() * outputs..]).for_each(|(o, c)| *o += c * x);
                }
            }
        }
    }
}
