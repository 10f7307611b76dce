//! Growing the trees of a forest: which device does it, the memory that it takes, the trees themselves, what they predict out
//! of bag, and the forest that they become.

use crate::collective::pulse::with_pulse;
use crate::dataset::{self, Snapshots};
use crate::device::Place;
use crate::error::{Error, Result};
use crate::learners::forest::codes::{Code, Meaning, Rank, View};
use crate::learners::forest::growing::{GrowingTree, borders_used};
use crate::learners::forest::impurity::Impurity;
use crate::learners::forest::oob::{self, Truth, Walker};
use crate::learners::forest::params::{Criterion, Splitter};
use crate::learners::forest::snapshot::{KeptTrees, TreeShape};
use crate::learners::forest::steps::{ForestDevices, ForestWork, GrowTree, GrowerTask, Limits, Targets};
use crate::learners::forest::table::{self, CodeTable, FeatureRows};
use crate::learners::forest::together::{self, Measured};
use crate::learners::forest::{Forest, ForestParams, Monitor, bootstrap};
use crate::memory::{self, Reservation, product, sum};
use crate::model::Feature;
use crate::parallel::thread_pool::ThreadPool;
use crate::provenance::Provenance;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The table and the parameters of a forest's fit, which its steps share.
pub(super) struct ForestFit<'a, 'c, D> {
    pub(super) pool: &'a ThreadPool,
    pub(super) table: &'a dataset::Input<'c>,
    pub(super) params: &'a ForestParams,
    /// Where the rows of the numeric features are.
    pub(super) rows: FeatureRows<'a>,
    /// Where trees are kept.
    pub(super) snapshots: Option<&'a dyn Snapshots>,
    pub(super) criterion: Criterion,
    pub(super) devices: &'a D,
    pub(super) monitor: &'a dyn Monitor,
    /// What gains are told in units of.
    pub(super) gain_unit: f64,
}

/// The grower of a forest's trees, and the table that they grow from.
struct Growing<'a, K, C, G> {
    grower: &'a G,
    kind: &'a K,
    view: View<'a, C>,
    interrupted: &'a (dyn Fn() -> bool + Sync),
}

/// What the growing trees of a forest are measured on, and who is told of them.
#[derive(Clone, Copy)]
struct Measuring<'a> {
    truth: &'a Truth<'a>,
    /// To which predictions of rows out of bag are to be added.
    sums: Option<&'a oob::PredictionSums>,
    /// Of this process, the trees that were done before, and all.
    done: u32,
    all: u32,
}

impl<D: ForestDevices> ForestFit<'_, '_, D> {
    /// The device, of which the monitor is told.
    fn place(&self, refused: Option<&str>) -> Result<Place> {
        let rows = self.table.target.rows();
        let drawn = self.params.features_drawn(self.table.features.len(), self.table.target.labels().is_some());
        let levels = (rows.ilog2() + 1).min(self.params.depth.unwrap_or(u32::MAX));
        let values = rows as f64 * drawn as f64 * levels as f64 * self.params.trees as f64;
        let place = self.devices.place(refused, values, self.pool.size())?;
        self.monitor.device(place.why());
        Ok(place)
    }

    /// Why a GPU can't grow this forest, where it can't.
    fn refused(&self, targets: Targets<'_>) -> Option<&'static str> {
        let many = matches!(targets, Targets::Classes(c) if c.classes > 255);
        let refused =
            [(many, "there are at most 255 classes there"), (self.table.features.len() > 4096, "there are at most 4,096 features there")];
        refused.into_iter().find(|r| r.0).map(|r| r.1)
    }

    /// The forest.
    pub(super) fn run<K: Impurity>(
        &self,
        kind: &K,
        targets: Targets<'_>,
        truth: Truth<'_>,
        unit: f64,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Forest> {
        let place = self.place(self.refused(targets))?;
        let growing = if matches!(place, Place::Cpu(_)) { self.growing_bytes(kind) } else { 0 };
        let _reserved = self.reserve(self.table_bytes(growing, truth.outputs()))?;
        match self.params.splitter {
            Splitter::Histogram => {
                let table =
                    table::binned(self.pool, self.table, &self.rows, &self.params.border_params(&self.table.features), interrupted)?;
                self.grow(kind, targets, &truth, unit, table, place, interrupted)
            }
            Splitter::Exact => {
                let table = table::ranked::<u32>(self.pool, self.table, &self.rows.own, self.params, interrupted)?;
                self.grow(kind, targets, &truth, unit, table, place, interrupted)
            }
            Splitter::Random => {
                let table = table::ranked::<Rank>(self.pool, self.table, &self.rows.own, self.params, interrupted)?;
                self.grow(kind, targets, &truth, unit, table, place, interrupted)
            }
        }
    }

    /// Bytes of the codes, and of the larger of what is needed beside them: what values are ranked by, for each thread; or sums of
    /// predictions out of bag together with `growing`. (The predictions take the sums' place, block after block.) No less than that.
    fn table_bytes(&self, growing: u64, outputs: usize) -> u64 {
        let (rows, features) = (self.table.target.rows() as u64, self.table.features.len() as u64);
        // By feature and by row; or ranks.
        let (code, ranking) = match self.params.splitter {
            Splitter::Histogram => (2, 0),
            Splitter::Exact | Splitter::Random => (4, 16 * rows * features.min(self.pool.size() as u64)),
        };
        let sums = if self.params.oob() { product(&[rows, 4 + 8 * outputs as u64]) } else { 0 };
        sum(&[product(&[code, rows, features]), ranking.max(sum(&[sums, growing]))])
    }

    /// Bytes of the rows of the trees that grow at the same time: how often each is drawn, and those that are, twice.
    fn growing_bytes<K: Impurity>(&self, kind: &K) -> u64 {
        let rows = self.table.target.rows();
        let weigh = (0..rows as u32).filter(|row| kind.entry(*row, 1).is_some()).count() as f64;
        // A little less than the share of the rows that is drawn.
        let drawn = self.params.bootstrap.draws(rows).map_or(1.0, |d| 0.95 * (1.0 - (-(d as f64) / rows as f64).exp()));
        let tree = 2 * rows as u64 + (2.0 * weigh * drawn) as u64 * size_of::<K::Entry>() as u64;
        tree * (self.params.trees as u64).min(self.pool.size() as u64)
    }

    /// Reserves `bytes` for a part of the fit.
    ///
    /// # Errors
    /// [`Error::Memory`].
    fn reserve(&self, bytes: u64) -> Result<Reservation> {
        let (rows, features, threads) = (self.table.target.rows(), self.table.features.len(), self.pool.size());
        let less = match self.params.splitter {
            Splitter::Histogram => "lower `n_threads`, or fit on fewer rows or features",
            Splitter::Exact | Splitter::Random => "use splitter=\"histogram\", lower `n_threads`, or fit on fewer rows or features",
        };
        let s = if threads == 1 { "" } else { "s" };
        memory::reserve(&format!("a forest of {rows} rows and {features} features by {threads} thread{s}"), bytes, less)
    }

    /// The trees of these numbers, where a GPU is to grow them and has the memory; `sums`: what rows out of bag are predicted, where they are.
    fn on_gpu<C: Code>(
        &self,
        place: &Place,
        targets: Targets<'_>,
        (view, trees): (View<'_, C>, Range<u32>),
        sums: Option<&mut oob::PredictionSums>,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<GrowingTree>>> {
        let limits = self.limits(view.features.len(), self.table.target.labels().is_some());
        let oob = sums.as_ref().map(|s| s.units());
        let (pool, criterion, params) = (self.pool, self.criterion, self.params);
        let trees = trees.start as usize..trees.end as usize;
        let grown = with_pulse(self.rows.own.collective, |lost| {
            let interrupted = &|| lost() || interrupted();
            self.devices.grow(place, &ForestWork { pool, view, targets, criterion, limits, params, trees, oob, interrupted })
        })?;
        if let (Some(sums), Some(made)) = (sums, grown.as_ref().and_then(|grown| grown.sums.as_ref())) {
            sums.add_made(made);
        }
        Ok(grown.map(|grown| grown.parts))
    }

    fn view<'t, C: Code>(&self, table: &'t CodeTable<C>) -> View<'t, C> {
        let stride = self.table.target.rows();
        View { features: &table.features, splitter: self.params.splitter, codes: &table.codes, by_row: &table.by_row, stride, decode: None }
    }

    fn limits(&self, features: usize, classes: bool) -> Limits {
        let params = self.params;
        Limits {
            depth: params.depth.unwrap_or(u32::MAX),
            leaves: params.leaves,
            min_data: params.min_data_in_leaf as u64,
            min_gain: params.min_gain / self.gain_unit,
            drawn: params.features_drawn(features, classes),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn grow<K: Impurity, C: Code>(
        &self,
        kind: &K,
        targets: Targets<'_>,
        truth: &Truth<'_>,
        unit: f64,
        mut table: CodeTable<C>,
        place: Place,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Forest> {
        let mut sums = self.params.oob().then(|| oob::PredictionSums::new(self.table.target.rows(), truth)).transpose()?;
        let kept = KeptTrees::new(self.snapshots, (self.pool, self.params, self.rows.own), self.table, &table)?;
        let mut grown = {
            let (features, sums) = (table.features.as_slice(), sums.as_ref());
            let classes = self.table.target.labels().map(|_| truth.outputs());
            let grown =
                kept.restored(&TreeShape { features, classes, sums, permutation_importance: self.params.permutation_importance })?;
            if let Some(sums) = sums {
                self.predict_again(kind, self.view(&table), &grown, sums, interrupted)?;
            }
            grown
        };
        let parts = kept.parts(grown.len() as u32);
        let mut done = kept.own_trees(0..grown.len() as u32).len() as u32;
        let all = done + parts.iter().map(|trees| kept.own_trees(trees.clone()).len() as u32).sum::<u32>();
        let mut place = Some(place).filter(|place| matches!(place, Place::Gpu(..)));
        for trees in parts {
            let own = kept.own_trees(trees.clone());
            let ready = match &place {
                Some(place) => self.on_gpu(place, targets, (self.view(&table), own.clone()), sums.as_mut(), interrupted)?,
                None => None,
            };
            let predicted = ready.is_some();
            if place.is_some() && !predicted {
                drop(self.reserve(self.growing_bytes(kind))?);
                place = None;
            }
            // Trees on the CPU read bins by rows, and so does who measures shuffled features.
            let reads_rows = self.params.splitter == Splitter::Histogram && (!predicted || self.params.permutation_importance);
            if reads_rows && table.by_row.is_empty() {
                table.add_rows(self.pool, self.table.target.rows())?;
            }
            let ready: Vec<Mutex<Option<GrowingTree>>> = ready.into_iter().flatten().map(|part| Mutex::new(Some(part))).collect();
            let measuring = Measuring { truth, sums: sums.as_ref().filter(|_| !predicted), done, all };
            let view = self.view(&table);
            let made = with_pulse(self.rows.own.collective, |lost| {
                self.own_trees(kind, measuring, view, (own.clone(), &ready), &|| lost() || interrupted())
            })?;
            done += own.len() as u32;
            grown.extend(together::gather_trees(&self.rows.own, made, trees, view.features)?);
            kept.keep(&grown)?;
        }
        let (view, table) = (self.view(&table), &table);
        let (parts, measured): (Vec<GrowingTree>, Vec<Option<Vec<f64>>>) = grown.into_iter().unzip();
        let permutation = self.params.permutation_importance.then(|| {
            let known: Vec<&Vec<f64>> = measured.iter().flatten().collect();
            let mean = |f: usize| known.iter().map(|m| m[f]).sum::<f64>() / known.len().max(1) as f64;
            (0..view.features.len()).map(mean).collect()
        });
        if let (Some(sums), false) = (&mut sums, self.rows.own.is_whole()) {
            sums.add_others(self.rows.own.collective)?;
        }
        let oob = sums.map(|sums| sums.finish(truth));
        let borders = borders_used(&parts, view.features.len());
        let (mut sets, mut known) = (vec![], HashMap::new());
        let asked = asked(&parts, view.features.len());
        let trees = parts.into_iter().map(|part| part.finish(&borders, &mut sets, &mut known)).collect();
        let feature = |(f, borders): (usize, Vec<f64>)| Feature {
            name: self.table.features[f].name().into(),
            dtype: self.table.features[f].dtype().clone(),
            borders,
            categories: match &table.features[f].meaning {
                Meaning::Categories(categories) if asked[f] => Some(categories.clone()),
                _ => None,
            },
        };
        let forest = Forest {
            params: self.params.kept(),
            criterion: self.criterion,
            target: self.table.target_name.clone(),
            features: borders.into_iter().enumerate().map(feature).collect(),
            labels: self.table.target.labels().cloned(),
            sets,
            trees,
            rows: view.stride as u64,
            unit,
            gain_unit: self.gain_unit,
            oob,
            permutation,
            provenance: Provenance::default(),
        };
        if !self.rows.own.is_whole() || self.snapshots.is_some() {
            // What others have grown, or kept, is held to what bytes are.
            forest.validate()?;
        }
        Ok(forest)
    }

    /// Adds to `sums` what the trees that are there already say of rows out of bag: each process what its share of them says.
    fn predict_again<K: Impurity, C: Code>(
        &self,
        kind: &K,
        view: View<'_, C>,
        trees: &[Measured],
        sums: &oob::PredictionSums,
        asked_to_stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<()> {
        let own = together::own_trees(&self.rows.own, 0..trees.len() as u32);
        let predict = |tree: u32| {
            let (part, _) = &trees[tree as usize];
            let left_out = left_out(&self.counts(kind, view.stride, tree));
            sums.check_memory(part)?;
            sums.add(&Walker::new(&view, part), part, &left_out, tree);
            Ok(())
        };
        with_pulse(self.rows.own.collective, |lost| {
            let one =
                |(): &mut (), i: usize| if lost() || asked_to_stop() { Err(Error::Interrupted) } else { predict(own.start + i as u32) };
            self.pool.deal(own.len(), || (), one).into_iter().collect()
        })
    }

    /// How often each of `rows` rows counts in a tree.
    fn counts<K: Impurity>(&self, kind: &K, rows: usize, tree: u32) -> Vec<u16> {
        let mut counts = bootstrap::counts(self.params.bootstrap, rows, self.params.seed, tree);
        let weighs = |row: usize| counts[row] > 0 && kind.entry(row as u32, 1).is_some();
        if !(0..rows).any(weighs) {
            // No row that weighs anything was drawn: all of them count, and none is left out.
            counts.fill(1);
        }
        counts
    }

    /// The trees of these numbers in their order, by all threads: each takes the next tree, and helps with the nodes of the last ones. Those that
    /// are ready are only measured.
    fn own_trees<K: Impurity, C: Code>(
        &self,
        kind: &K,
        measuring: Measuring<'_>,
        view: View<'_, C>,
        (trees, ready): (Range<u32>, &[Mutex<Option<GrowingTree>>]),
        asked_to_stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Measured>> {
        let stop = AtomicBool::new(false);
        let interrupted = || {
            if !stop.load(Ordering::Relaxed) && asked_to_stop() {
                stop.store(true, Ordering::Relaxed);
            }
            stop.load(Ordering::Relaxed)
        };
        let limits = self.limits(view.features.len(), matches!(measuring.truth, Truth::Classes(..)));
        let parallel = self.pool.size() > 1;
        let grower = self.devices.grower(GrowerTask { kind, view, limits, parallel, interrupted: &interrupted });
        let growing = Growing { grower: &grower, kind, view, interrupted: &interrupted };
        let (next, done) = (AtomicUsize::new(0), Mutex::new(measuring.done));
        let shares = self.pool.each(|_| {
            let (mut mine, mut buffers) = (vec![], (vec![], vec![]));
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(tree) = trees.clone().nth(at) else { return Ok(mine) };
                let ready = ready.get(at).and_then(|part| part.lock().unwrap_or_else(PoisonError::into_inner).take());
                mine.push((tree, self.tree(&growing, measuring, tree, ready, &mut buffers)?));
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                *done += 1;
                self.monitor.round(*done, measuring.all, None);
            }
        });
        let mut grown: Vec<(u32, Measured)> = shares.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        grown.sort_unstable_by_key(|g| g.0);
        Ok(grown.into_iter().map(|g| g.1).collect())
    }

    /// One tree, and the rise of its error for each feature that is shuffled.
    fn tree<K: Impurity, C: Code>(
        &self,
        growing: &Growing<'_, K, C, impl GrowTree<K>>,
        Measuring { truth, sums, .. }: Measuring<'_>,
        tree: u32,
        ready: Option<GrowingTree>,
        buffers: &mut (Vec<K::Entry>, Vec<K::Entry>),
    ) -> Result<Measured> {
        let params = self.params;
        let measured = sums.is_some() || params.permutation_importance;
        let part = match ready {
            Some(part) if !measured => return Ok((part, None)),
            ready => ready,
        };
        let counts = self.counts(growing.kind, growing.view.stride, tree);
        let part = match part {
            Some(part) => part,
            None => growing.grower.grow(&counts, params.seed, tree, buffers)?,
        };
        if !measured {
            return Ok((part, None));
        }
        let left_out = left_out(&counts);
        let walker = Walker::new(&growing.view, &part);
        if let Some(sums) = sums {
            sums.check_memory(&part)?;
            sums.add(&walker, &part, &left_out, tree);
        }
        let measured = params
            .permutation_importance
            .then(|| oob::permutation(&walker, &part, &left_out, truth, (params.seed, tree), growing.interrupted))
            .flatten();
        if (growing.interrupted)() {
            return Err(Error::Interrupted);
        }
        Ok((part, measured))
    }
}

/// The rows that count nothing.
fn left_out(counts: &[u16]) -> Vec<u32> {
    (0..counts.len() as u32).filter(|row| counts[*row as usize] == 0).collect()
}

/// Which features splits ask about.
fn asked(parts: &[GrowingTree], features: usize) -> Vec<bool> {
    let mut asked = vec![false; features];
    parts.iter().flat_map(|p| &p.nodes).for_each(|n| asked[n.feature as usize] = true);
    asked
}
