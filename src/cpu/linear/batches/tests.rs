//! Batches beside a version that anyone can read: row after row, feature after feature, in the same bits.

use super::super::passes::{Passes, residuals};
use super::lists::Place;
use super::stored::{Adaptive, Descended, FreeLeading, Leading, Stored};
use super::{Batches, Division};
use std::collections::BTreeMap;
use taiga_core::column::{Chunk, Column, Values};
use taiga_core::dataset::labels::Labels;
use taiga_core::dataset::{Quiet, Target};
use taiga_core::learners::linear::batches::Deal;
use taiga_core::learners::linear::params::Optimizer;
use taiga_core::learners::linear::problem::problem;
use taiga_core::learners::linear::rule::{Cell, Rule};
use taiga_core::learners::linear::snapshot::BatchState;
use taiga_core::learners::linear::steps::{BatchSteps, Task};
use taiga_core::learners::linear::vectors::lanes;
use taiga_core::learners::linear::{Input, Items, LinearParams, ListChunk, ListColumn, Offsets, SparseRows};
use taiga_core::numerics::fixed::round64;
use taiga_core::numerics::random::{Purpose, Random};
use taiga_core::parallel::thread_pool::ThreadPool;

/// Coefficients by feature and output, each as f64 of what is kept of it.
struct Naive<'t, 'p, 'a> {
    task: &'t Task<'p, 'a>,
    deal: &'t Deal,
    rule: Rule,
    free: Rule,
    cells: Vec<Cell>,
    others: Vec<Cell>,
}

impl Naive<'_, '_, '_> {
    fn rule_of(&self, other: usize) -> Rule {
        if other < self.task.problem.dense.len() * self.task.problem.outputs { self.rule } else { self.free }
    }

    /// Rounds a cell to what is kept of it.
    fn kept(&self, cell: Cell) -> Cell {
        let ftrl = self.rule.optimizer == Optimizer::Ftrl;
        Cell { c: cell.c as f32 as f64, n: cell.n as f32 as f64, z: if ftrl { cell.z as f32 as f64 } else { cell.z as u32 as f64 } }
    }

    fn step(&mut self, rows: &[usize], now: f64) {
        let p = self.task.problem;
        let (csr, outputs) = (p.csr.as_ref().unwrap(), p.outputs);
        let dense: Vec<Vec<f64>> = p.dense.iter().map(|column| column.gather_f64(rows)).collect();
        let others: Vec<f64> = (0..self.others.len()).map(|i| self.rule_of(i).value(&self.others[i], now)).collect();
        let mut scores = vec![];
        for (at, i) in rows.iter().enumerate() {
            let row = csr.row(*i);
            for k in 0..outputs {
                let mut score = others[p.dense.len() * outputs + k];
                for (column, values) in dense.iter().enumerate() {
                    score += others[column * outputs + k] * values[at];
                }
                let value = |j: usize| {
                    let c = self.rule.value(&self.cells[row.keys[j] as usize * outputs + k], now);
                    row.values.map_or(c, |x| c * x[j] as f64)
                };
                if outputs == 1 {
                    score += lanes(0..row.keys.len(), value);
                } else {
                    (0..row.keys.len()).for_each(|j| score += value(j));
                }
                scores.push(score);
            }
        }
        let codes: Vec<u32> = rows.iter().map(|i| p.codes[*i]).collect();
        let mut found = vec![0.0; scores.len()];
        residuals(&scores, &codes, &mut found);
        let mut sums: BTreeMap<(u32, usize), i64> = BTreeMap::new();
        let mut others = vec![0.0; self.others.len()];
        for (at, i) in rows.iter().enumerate() {
            let row = csr.row(*i);
            for k in 0..outputs {
                let r = found[at * outputs + k] * (p.weight(*i) / self.deal.mean_weight * self.deal.scale);
                for (j, key) in row.keys.iter().enumerate() {
                    let x = row.values.map_or(1.0, |x| x[j] as f64 * self.task.feature_scale.inverse(*key as usize));
                    *sums.entry((*key, k)).or_default() += round64(r * x);
                }
                for column in 0..=dense.len() {
                    others[column * outputs + k] += r * dense.get(column).map_or(1.0, |values| values[at]);
                }
            }
        }
        for ((key, k), sum) in sums.into_iter().filter(|(_, sum)| *sum != 0) {
            let at = key as usize * outputs + k;
            let mut cell = self.cells[at];
            let g = sum as f64 / (self.deal.scale * self.task.feature_scale.inverse(key as usize));
            self.rule.step(&mut cell, g, now, rows.len() as f64);
            self.cells[at] = self.kept(cell);
        }
        for (i, g) in others.into_iter().enumerate() {
            if i < p.dense.len() * outputs || p.fit_intercept {
                let rule = self.rule_of(i);
                rule.step(&mut self.others[i], g / self.deal.scale, now, rows.len() as f64);
            }
        }
    }
}

impl BatchSteps for Naive<'_, '_, '_> {
    fn epoch(&mut self, steps: &[usize], past: f64, rate: f64) -> taiga_core::Result<()> {
        (self.rule.rate, self.free.rate) = (rate, rate);
        for (i, step) in steps.iter().enumerate() {
            self.step(&self.deal.rows[self.deal.span(*step)], past + (i * self.deal.batch) as f64);
        }
        Ok(())
    }

    fn settle(&mut self, now: f64) -> taiga_core::Result<()> {
        for i in 0..self.cells.len() {
            let cell = self.cells[i];
            self.cells[i] = self.kept(Cell { c: self.rule.value(&cell, now), z: 0.0, ..cell });
        }
        for i in 0..self.others.len() {
            let cell = self.others[i];
            self.others[i] = Cell { c: self.rule_of(i).value(&cell, now), z: 0.0, ..cell };
        }
        Ok(())
    }

    fn vector(&mut self, now: f64) -> taiga_core::Result<Vec<f64>> {
        let sparse = self.cells.iter().map(|cell| self.rule.value(cell, now));
        Ok(sparse.chain((0..self.others.len()).map(|i| self.rule_of(i).value(&self.others[i], now))).collect())
    }

    fn state(&mut self) -> taiga_core::Result<BatchState> {
        let of = |number: fn(&Cell) -> f64| self.cells.iter().map(|cell| number(cell) as f32).collect();
        let others = self.others.iter().map(|cell| [cell.c, cell.n, cell.z]).collect();
        Ok(BatchState::new(of(|cell| cell.c), of(|cell| cell.n), of(|cell| cell.z), others))
    }

    fn restore(&mut self, state: &BatchState) -> taiga_core::Result<()> {
        for (at, cell) in self.cells.iter_mut().enumerate() {
            let [c, n, z] = state.of(at).map(f64::from);
            *cell = Cell { c, n, z };
        }
        self.others = state.others.iter().map(|[c, n, z]| Cell { c: *c, n: *n, z: *z }).collect();
        Ok(())
    }
}

/// Three epochs, and the coefficients' bits after each, with what is remembered of them. Each epoch begins with what the one before has given out.
fn epochs(steps: &mut impl BatchSteps, deal: &Deal) -> Vec<(Vec<u64>, BatchState)> {
    let batches = deal.rows.len().div_ceil(deal.batch);
    let ftrl = deal.rule.optimizer == Optimizer::Ftrl;
    let rows = deal.rows.len() as f64;
    let mut found = vec![];
    for epoch in 0..3 {
        let order: Vec<usize> = (0..batches).map(|i| (i + epoch) % batches).collect();
        let past = if ftrl { epoch as f64 * rows } else { 0.0 };
        steps.epoch(&order, past, deal.rule.rate / (1.0 + epoch as f64)).unwrap();
        if !ftrl {
            steps.settle(rows).unwrap();
        }
        let now = if ftrl { past + rows } else { 0.0 };
        let (vector, state) = (steps.vector(now).unwrap(), steps.state().unwrap());
        steps.restore(&BatchState { others: vec![[0.0; 3]; state.others.len()], ..BatchState::default() }).unwrap();
        steps.restore(&state).unwrap();
        found.push((vector.into_iter().map(f64::to_bits).collect(), state));
    }
    found
}

fn by_batches<S: Stored, P: Place>(passes: &Passes<'_, '_, '_>, deal: &Deal, division: Division) -> Vec<(Vec<u64>, BatchState)> {
    epochs(&mut Batches::<S, P>::new(passes, deal, division).unwrap(), deal)
}

/// Proves for random tables, rules and batches that however work and memory are divided the coefficients are those of the naive version,
/// in every bit: entries that occur twice, values of very different sizes, empty rows, weights, dense columns and several classes among them.
#[test]
fn bits_are_those_of_the_naive_version() {
    for case in 0..if cfg!(miri) { 4 } else { 150 } {
        let (random, mut at) = (Random::new(case, Purpose::RowSample, 0), 0);
        let mut below = |n: u64| {
            at += 1;
            random.u64(at) % n
        };
        let (rows, width, classes) = (2 + below(120) as usize, 1 + below(200), [2, 2, 3][below(3) as usize]);
        let (mut offsets, mut keys, mut values) = (vec![0i64], vec![], vec![]);
        let spread = below(2) == 0;
        for _ in 0..rows {
            for _ in 0..below(20) {
                let key = below(width) as u32;
                keys.push(key);
                let size = if spread { (key % 30) as i32 - 15 } else { 0 };
                values.push((below(2001) as f32 / 1000.0 - 1.0) * 2f32.powi(size));
            }
            offsets.push(keys.len() as i64);
        }
        let codes: Vec<u32> = (0..rows).map(|i| if i < classes { i as u32 } else { below(classes as u64) as u32 }).collect();
        let x: Vec<f64> = (0..rows).map(|_| below(2001) as f64 / 1000.0 - 1.0).collect();
        let w: Vec<f64> = (0..rows).map(|_| 0.5 + below(4) as f64).collect();
        let list = |name: &str, values| ListColumn {
            name: name.into(),
            chunks: vec![ListChunk { offsets: Offsets::I64(&offsets), validity: None, items: Items::Numbers(Chunk::new(values, None)) }],
        };
        let labels = Labels::Text((0..classes).map(|k| format!("c{k}")).collect());
        let with_values = below(2) == 0;
        let input = Input {
            sparse: Some(SparseRows {
                features: list("f", Values::U32(&keys)),
                values: with_values.then(|| list("v", Values::F32(&values))),
            }),
            dense: if below(2) == 0 { vec![Column::from_f64("x", &x)] } else { vec![] },
            target: Target::Classes { codes: &codes, labels },
            target_name: "y".into(),
            weight: (below(2) == 0).then(|| Column::from_f64("w", &w)),
            held_out: None,
        };
        let (l1, l2) = [(0.0, 0.0), (0.0, 0.01), (0.002, 0.0), (0.001, 0.01)][below(4) as usize];
        let params = LinearParams {
            optimizer: [Optimizer::Sgd, Optimizer::Adagrad, Optimizer::Ftrl][below(3) as usize],
            l1,
            l2: Some(l2),
            batch: Some([1, 4, 16, 50, 1000][below(5) as usize]),
            fit_intercept: below(4) > 0,
            seed: case,
            ..LinearParams::default()
        };
        let pool = ThreadPool::new(2).unwrap();
        let (problem, _) = problem(&input, &params, &pool).unwrap();
        let task = Task::new(&problem, &pool, &Quiet).unwrap();
        let (passes, deal) = (Passes::new(&task).unwrap(), Deal::new(&problem, &params));
        let others = vec![Cell::default(); (problem.dense.len() + 1) * problem.outputs];
        let cells = vec![Cell::default(); problem.width * problem.outputs];
        let mut naive = Naive { task: &task, deal: &deal, rule: deal.rule, free: deal.free, cells, others };
        let expected = epochs(&mut naive, &deal);
        for _ in 0..3 {
            let division = Division { workers: 1 + below(3) as usize, grouped: 1 + below(4) as usize, kept: below(2) == 0 };
            let narrow = below(2) == 0;
            let found = match (deal.rule.optimizer, deal.rule.fades(), narrow) {
                (Optimizer::Adagrad, _, true) => by_batches::<Adaptive, u16>(&passes, &deal, division),
                (Optimizer::Adagrad, _, false) => by_batches::<Adaptive, u32>(&passes, &deal, division),
                (Optimizer::Ftrl, true, true) => by_batches::<Leading, u16>(&passes, &deal, division),
                (Optimizer::Ftrl, true, false) => by_batches::<Leading, u32>(&passes, &deal, division),
                (Optimizer::Ftrl, false, true) => by_batches::<FreeLeading, u16>(&passes, &deal, division),
                (Optimizer::Ftrl, false, false) => by_batches::<FreeLeading, u32>(&passes, &deal, division),
                (_, _, true) => by_batches::<Descended, u16>(&passes, &deal, division),
                (_, _, false) => by_batches::<Descended, u32>(&passes, &deal, division),
            };
            assert_eq!(found, expected, "case {case}: {params:?}, {division:?}");
        }
    }
}
