//! Boosted trees of rows that lie in several shards: each has consecutive rows, sums are completed by a collective, and the
//! model has the bytes of one shard with all rows.

use serde_json::json;
use std::ops::Range;
use taiga_core::learners::boosting;
use taiga_engine::collective::{LocalCollective, RowShard, local};
use taiga_engine::cpu::trees::CpuTrees;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Monitor, Quiet};
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::boosting::ordered::Pieces;
use taiga_engine::learners::boosting::steps::{
    Begun, DropoutSteps, Extent, GivenTree, GroupId, GroupSteps, LeafRows, LeafSteps, LeafSums, OrderedSteps, RowSteps, SpreadSteps,
    TrainingData, TreeDevices, TreeRequest, TreeSteps,
};
use taiga_engine::losses::Loss;
use taiga_engine::parallel::thread_pool::ThreadPool;
use taiga_engine::quantize::codes::{Quantizer, QuantizerScratch};
use taiga_engine::quantize::{CodeSet, CodeSource, CodedFeature};
use taiga_engine::tree::Tree;
use taiga_engine::tree::split::{SplitRules, Sums};
use taiga_engine::tree::steps::Speculation;
use taiga_engine::tree::steps::{Candidate, Division, GrowSteps, NodeId, SearchNode};
use taiga_engine::{Error, Result};
use taiga_testing::{POLICIES, Table, classes, table};

/// Rows that a shard has a multiple of, but for the last one.
const BATCH: usize = 1024;

/// Deals the rows to so many shards, which are done by as many threads each.
struct Dealt {
    world: usize,
    threads: usize,
}

/// A fit whose shards all do the same, and the rows of each.
struct Shards<'a>(Vec<CpuTrees<'a>>, Vec<Range<usize>>);

impl Shards<'_> {
    /// Does the same in all shards at once; what they answer must be equal.
    fn all<R: Send + PartialEq + std::fmt::Debug>(&mut self, work: impl Fn(&mut CpuTrees<'_>) -> Result<R> + Sync) -> Result<R> {
        let answers: Vec<Result<R>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self.0.iter_mut().map(|shard| scope.spawn(|| work(shard))).collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).collect()
        });
        let mut answers = answers.into_iter();
        let first = answers.next().expect("a shard")?;
        answers.for_each(|other| assert_eq!(other.as_ref(), Ok(&first)));
        Ok(first)
    }
}

impl GrowSteps for Shards<'_> {
    fn find_splits(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>> {
        self.all(|shard| shard.find_splits(nodes, rules))
    }

    fn find_level_split(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>> {
        self.all(|shard| shard.find_level_split(nodes, rules))
    }

    fn partition(&mut self, divisions: &[Division]) -> Result<()> {
        self.all(|shard| shard.partition(divisions))
    }

    fn speculation(&self) -> Speculation {
        self.0[0].speculation()
    }

    fn take_back(&mut self, divisions: &[Division]) -> Result<()> {
        self.all(|shard| shard.take_back(divisions))
    }
}

impl GroupSteps for Shards<'_> {
    fn add_group(&mut self, _: &[CodedFeature], _: &[Vec<u8>]) -> Result<GroupId> {
        Err(Error::Data("no categories here".into()))
    }

    fn drop_group(&mut self, group: GroupId) {
        self.0.iter_mut().for_each(|shard| shard.drop_group(group));
    }

    fn open_group(&mut self, group: GroupId, nodes: &[NodeId]) -> Result<()> {
        self.all(|shard| shard.open_group(group, nodes))
    }
}

impl SpreadSteps for Shards<'_> {
    fn squared_gradients(&mut self, loss: &dyn Loss, output: usize) -> Result<f64> {
        self.all(|shard| shard.squared_gradients(loss, output))
    }
}

impl LeafSteps for Shards<'_> {
    fn sums_beyond(&mut self, loss: &dyn Loss, tree: &Tree, first: usize, values: &[Vec<f32>]) -> Result<Vec<Vec<LeafSums>>> {
        self.all(|shard| shard.sums_beyond(loss, tree, first, values))
    }
}

impl OrderedSteps for Shards<'_> {
    fn sums_of_bodies(&mut self, loss: &dyn Loss, first: usize, values: &[Vec<Vec<f32>>]) -> Result<Vec<Vec<Vec<LeafSums>>>> {
        self.all(|shard| shard.sums_of_bodies(loss, first, values))
    }

    fn quantiles_of_bodies(&mut self, output: usize, leaves: usize, alpha: f64) -> Result<Vec<Vec<f64>>> {
        self.all(|shard| shard.quantiles_of_bodies(output, leaves, alpha))
    }

    fn set_body_values(&mut self, output: usize, values: Vec<Vec<f32>>) -> Result<()> {
        self.all(|shard| shard.set_body_values(output, values.clone()))
    }
}

impl DropoutSteps for Shards<'_> {
    fn keep_trees(&mut self, given: Vec<Vec<GivenTree>>) -> Result<()> {
        assert!(given.is_empty(), "no given trees here");
        self.all(|shard| shard.keep_trees(vec![]))
    }

    fn drop_out(&mut self, rounds: &[u32]) -> Result<()> {
        self.all(|shard| shard.drop_out(rounds))
    }

    fn put_back(&mut self, rounds: &[u32], factor: f64) -> Result<()> {
        self.all(|shard| shard.put_back(rounds, factor))
    }
}

impl RowSteps for Shards<'_> {
    fn leaf_rows(&mut self, loss: &dyn Loss, output: usize) -> Result<LeafRows> {
        let mut all = LeafRows::default();
        for shard in &mut self.0 {
            let rows = shard.leaf_rows(loss, output)?;
            all.leaf.extend(rows.leaf);
            all.gradient.extend(rows.gradient);
            all.hessian.extend(rows.hessian);
        }
        Ok(all)
    }

    fn set_row_values(&mut self, output: usize, values: &[f32]) -> Result<()> {
        self.0.iter_mut().zip(&self.1).try_for_each(|(shard, rows)| shard.set_row_values(output, &values[rows.clone()]))
    }
}

impl TreeSteps for Shards<'_> {
    fn groups(&mut self) -> &mut dyn GroupSteps {
        self
    }

    fn spread(&mut self) -> Option<&mut dyn SpreadSteps> {
        Some(self)
    }

    fn dropouts(&mut self) -> Option<&mut dyn DropoutSteps> {
        Some(self)
    }

    fn leaf_steps(&mut self) -> Option<&mut dyn LeafSteps> {
        Some(self)
    }

    fn row_values(&mut self) -> Option<&mut dyn RowSteps> {
        Some(self)
    }

    fn ordered(&mut self) -> Option<&mut dyn OrderedSteps> {
        Some(self)
    }

    fn begin_tree(&mut self, request: &TreeRequest<'_>) -> Result<Begun> {
        let root = |shard: &mut CpuTrees<'_>| match shard.begin_tree(request)? {
            Begun::Root { sums, scales } => Ok((sums, (scales.gradient, scales.hessian))),
            Begun::Whole(_) => Err(Error::Data("the CPU grows no whole trees".into())),
        };
        let (sums, (gradient, hessian)) = self.all(root)?;
        Ok(Begun::Root { sums, scales: taiga_engine::tree::split::Scales { gradient, hessian } })
    }

    fn end_tree(&mut self, loss: &dyn Loss, tree: &Tree, leaves: &[NodeId]) -> Result<Vec<Vec<LeafSums>>> {
        self.all(|shard| shard.end_tree(loss, tree, leaves))
    }

    fn replay(&mut self, loss: &dyn Loss, tree: &Tree, output: usize) -> Result<Vec<LeafSums>> {
        self.all(|shard| shard.replay(loss, tree, output))
    }

    fn leaf_quantiles(&mut self, output: usize, alpha: f64) -> Result<Vec<f64>> {
        self.all(|shard| shard.leaf_quantiles(output, alpha))
    }

    fn set_leaf_values(&mut self, output: usize, values: &[f32]) -> Result<()> {
        self.all(|shard| shard.set_leaf_values(output, values))
    }

    fn category_sets(&self) -> &[CodeSet] {
        self.0[0].category_sets()
    }

    fn update_scores(&mut self) -> Result<()> {
        self.all(|shard| shard.update_scores())
    }

    fn position_factors(&self) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }

    fn measured_scores(&self) -> Result<Vec<Vec<f32>>> {
        self.of_first(|shard| shard.measured_scores())
    }

    fn all_scores(&mut self) -> Result<Vec<Vec<f32>>> {
        let answers: Vec<Result<Vec<Vec<f32>>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self.0.iter_mut().map(|shard| scope.spawn(|| shard.all_scores())).collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).collect()
        });
        answers.into_iter().next().expect("a shard")
    }
}

impl Shards<'_> {
    /// Asks all shards, and returns the answer of the first.
    fn of_first(&self, ask: impl Fn(&CpuTrees<'_>) -> Result<Vec<Vec<f32>>> + Sync) -> Result<Vec<Vec<f32>>> {
        let answers: Vec<Result<Vec<Vec<f32>>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self.0.iter().map(|shard| scope.spawn(|| ask(shard))).collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).collect()
        });
        answers.into_iter().next().expect("a shard")
    }
}

impl TreeDevices for Dealt {
    fn stays_here(&self) -> bool {
        true
    }

    fn with_steps(
        &self,
        _: &ThreadPool,
        data: TrainingData<'_>,
        _: Extent,
        _: &dyn Monitor,
        body: &mut dyn FnMut(&mut dyn TreeSteps) -> Result<()>,
    ) -> Result<()> {
        let rows = data.target.len();
        let codes: Vec<Vec<u8>> = data.features.iter().zip(data.sources).map(|(f, source)| codes(f, source, rows)).collect();
        let each = rows.div_ceil(self.world).next_multiple_of(BATCH);
        let ranges: Vec<Range<usize>> = (0..self.world).map(|k| (k * each).min(rows)..((k + 1) * each).min(rows)).collect();
        let sources: Vec<Vec<CodeSource<'_>>> =
            ranges.iter().map(|r| codes.iter().map(|c| CodeSource::Codes(&c[r.clone()])).collect()).collect();
        let ends: Vec<LocalCollective> = local(self.world);
        let pools: Vec<ThreadPool> = (0..self.world).map(|_| ThreadPool::new(self.threads)).collect::<Result<_>>()?;
        let shard = |k: usize| {
            let own = ranges[k].clone();
            TrainingData {
                features: data.features,
                sources: &sources[k],
                target: data.target[own.clone()].to_vec(),
                more_targets: data.more_targets.iter().map(|t| t[own.clone()].to_vec()).collect(),
                weight: data.weight.as_ref().map(|w| w[own.clone()].to_vec()),
                scores: data.scores.iter().map(|s| s[own.clone()].to_vec()).collect(),
                pieces: Pieces { of_rows: data.pieces.of_rows.iter().map(|p| p[own.clone()].to_vec()).collect(), ..data.pieces },
                columns: vec![],
                groups: None,
                positions: None,
                risk_sets: None,
                held_out: data.held_out.map(|h| &h[own.clone()]),
                shard: RowShard { collective: &ends[k], first: own.start, all: rows },
                ..data
            }
        };
        let shards = (0..self.world).map(|k| CpuTrees::new(&pools[k], shard(k), &|| false)).collect::<Result<Vec<_>>>()?;
        body(&mut Shards(shards, ranges))
    }
}

/// The codes of a feature.
fn codes(feature: &CodedFeature, source: &CodeSource<'_>, rows: usize) -> Vec<u8> {
    match source {
        CodeSource::Codes(codes) => codes.to_vec(),
        CodeSource::Values(column) => {
            let mut codes = vec![0; rows];
            Quantizer::new(&feature.borders).codes(column, 0, rows, feature.first(), &mut codes, 1, &mut QuantizerScratch::default());
            codes
        }
    }
}

/// Holds fits of a table in 2 and 3 shards, by 1 and 2 threads each, against the fit of all rows at once.
fn compare(table: &Table, params: serde_json::Value) {
    let params = BoostingParams::from_json(&params).expect("parameters");
    let input = table.input();
    let whole = taiga_engine::learners::boosting::fit(&input, &params, &Quiet).expect("a fit").to_bytes();
    for (world, threads) in [(2, 1), (3, 2)] {
        let dealt = boosting::fit(&input, &params, &Dealt { world, threads }, &Quiet).expect("a fit").to_bytes();
        assert!(dealt == whole, "{world} shards of {threads} threads: other bytes under {params:?}");
    }
}

/// Parameters under every policy, each with `more`.
fn under_every_policy(more: &[serde_json::Value]) -> Vec<serde_json::Value> {
    let of = |policy: &&str| {
        more.iter()
            .map(|more| {
                let mut params = json!({ "rounds": 6, "policy": policy, "depth": 5, "n_threads": 2, "device": "cpu" });
                params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
                params
            })
            .collect::<Vec<_>>()
    };
    POLICIES.iter().flat_map(of).collect()
}

/// Proves that a model has the same bytes whatever the shards that its rows lie in: for every policy, loss, sampling, with weights, missing
/// values, limits on rows, and draws of features.
#[test]
fn rows_may_lie_in_any_shard() {
    let mut numbers = table(5_000, 1);
    numbers.columns.push((0..5_000).map(|i| if i % 50 == 0 { 1.0 } else { 0.0 }).collect());
    let losses = [
        json!({}),
        json!({ "loss": "mae" }),
        json!({ "loss": "quantile", "alpha": 0.8, "row_sample": "bernoulli" }),
        json!({ "loss": "huber", "min_data_in_leaf": 30 }),
        json!({ "row_sample": "goss" }),
        json!({ "row_sample": "mvs", "row_fraction": 0.5 }),
        json!({ "row_sample": "bayesian", "min_data_in_leaf": 5 }),
        json!({ "feature_fraction_level": 0.5 }),
        json!({ "l1": 0.5, "min_gain": 0.01, "monotone": { "x0": 1 } }),
        json!({ "max_delta_step": 0.3 }),
        json!({ "extra_trees": true }),
        json!({ "random_strength": 1.0 }),
        json!({ "feature_weights": { "x0": 0.2, "x1": 3.0 } }),
        json!({ "boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.1, "row_sample": "mvs" }),
        json!({ "path_smooth": 12, "row_sample": "mvs" }),
        json!({ "leaf_iterations": 4, "loss": "log_cosh", "row_sample": "goss", "path_smooth": 3 }),
        json!({ "leaf": "linear", "row_sample": "mvs" }),
        json!({ "boosting": "ordered", "row_sample": "mvs" }),
        json!({ "boosting": "ordered", "loss": "mae", "row_sample": "bernoulli", "min_child_weight": 3 }),
        json!({ "boosting": "ordered", "loss": "log_cosh", "leaf_iterations": 2, "permutations": 2, "min_data_in_leaf": 5 }),
    ];
    under_every_policy(&losses).into_iter().for_each(|params| compare(&numbers, params));
    numbers.weight = Some((0..5_000).map(|i| 0.25 + (i % 7) as f64).collect());
    under_every_policy(&losses[..3]).into_iter().for_each(|params| compare(&numbers, params));
}

/// Proves the same for classes, and with held-out rows, whose metric decides when a fit stops.
#[test]
fn classes_and_held_out_rows_may_lie_in_any_shard() {
    let mut two = classes(4_300, 2);
    under_every_policy(&[json!({}), json!({ "leaf_iterations": 5 })]).into_iter().for_each(|params| compare(&two, params));
    two.held_out = Some((0..4_300).map(|i| i % 5 == 0).collect());
    under_every_policy(&[json!({ "early_stopping": 2, "rounds": 30, "learning_rate": 0.8 })])
        .into_iter()
        .for_each(|params| compare(&two, params));
    let codes = table(3_100, 3).y().iter().map(|y| (*y * 0.7 + 2.0).clamp(0.0, 3.0) as u32).collect();
    let several = Table::classes(table(3_100, 3).columns, codes, Labels::Integer((0..4).collect()));
    under_every_policy(&[json!({})]).into_iter().for_each(|params| compare(&several, params));
}

/// Proves the same for several targets, which share a tree or have one each.
#[test]
fn several_targets_may_lie_in_any_shard() {
    let mut t = table(3_300, 4);
    let flag = |at: f64| -> Vec<f64> { t.y().iter().map(|y| (*y > at) as u8 as f64).collect() };
    t.target = taiga_testing::Wanted::Several(vec![flag(0.0), flag(1.0), flag(-1.5)]);
    let losses = [
        json!({}),
        json!({ "loss": "multilabel", "min_data_in_leaf": 20 }),
        json!({ "loss": "multilabel", "leaf_iterations": 3 }),
        json!({ "loss": "multilabel", "boosting": "ordered" }),
        json!({ "loss": "mae" }),
        json!({ "row_sample": "mvs" }),
        json!({ "row_sample": "bayesian", "bagging_temperature": 3.0 }),
        json!({ "multi_strategy": "tree_each", "row_sample": "goss" }),
    ];
    under_every_policy(&losses).into_iter().for_each(|params| compare(&t, params));
}
