//! What grows the trees of small tables on the GPU of unit tests: the CPU's backend and core's own grower, table by table.

use super::step;
use std::ops::Range;
use taiga_core::collective::{Alone, RowShard};
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::ordered::Pieces;
use taiga_core::learners::boosting::params::RowSample;
use taiga_core::learners::boosting::row_sampler::RowSampling;
use taiga_core::learners::boosting::steps::{
    Begun, GrownTables, SmallTable, SmallTableSteps, SmallTree, SmallTrees, TrainingData, TreeRequest, TreeSteps,
};
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::quantize::CodeSource;
use taiga_core::tree::grow::{Features, Root, grow};
use taiga_core::tree::model::{Child, Split};
use taiga_core::tree::steps::{Candidate, NodeId, SearchNode};
use taiga_core::tree::{Tree, TreeParams};
use taiga_cpu::trees::CpuTrees;

/// All of so many features may split, always.
struct All(Vec<u32>);

impl Features<CpuTrees<'_>> for All {
    fn open(&mut self, _: &mut CpuTrees<'_>, _: &[u32], _: &[SearchNode]) -> Result<()> {
        Ok(())
    }

    fn may_open(&self) -> bool {
        false
    }

    fn open_features(&self) -> &[u32] {
        &self.0
    }

    fn columns(&self, _: u32) -> &[u32] {
        &[]
    }

    fn borders(&self, _: u32) -> Option<u32> {
        None
    }
}

/// The splits of a tree and its leaves, with their places in the heap.
type Heap = (Vec<(NodeId, Candidate)>, Vec<NodeId>);

fn heap(tree: &Tree) -> Heap {
    let candidate = |s: &Split| {
        let gain = f64::from(s.gain);
        Candidate { feature: s.feature, border: s.border, missing_left: s.missing_left, gain, rank: gain }
    };
    match tree {
        Tree::Symmetric { splits, leaves } => {
            let of_level = splits.iter().enumerate().map(|(level, split)| ((1 << level) - 1, candidate(split)));
            (of_level.collect(), (0..leaves.len()).map(|leaf| (leaves.len() - 1 + leaf) as NodeId).collect())
        }
        Tree::Branching { nodes, leaves } => {
            let (mut splits, mut places) = (vec![], vec![0; leaves.len()]);
            let mut open = vec![(if nodes.is_empty() { Child::Leaf(0) } else { Child::Node(0) }, 0)];
            while let Some((child, place)) = open.pop() {
                match child {
                    Child::Leaf(leaf) => places[leaf as usize] = place,
                    Child::Node(node) => {
                        let node = &nodes[node as usize];
                        splits.push((place, candidate(&node.split)));
                        open.extend([(node.left, 2 * place + 1), (node.right, 2 * place + 2)]);
                    }
                }
            }
            (splits, places)
        }
    }
}

/// Takes tables of up to so many rows.
pub struct FakeSmallTables(pub usize);

impl SmallTableSteps for FakeSmallTables {
    fn takes(&self, rows: usize, _: usize, _: &TreeParams) -> bool {
        rows <= self.0
    }

    fn grow(&self, tables: &[SmallTable<'_>], trees: &SmallTrees<'_>) -> Result<GrownTables> {
        let mut grown = GrownTables::default();
        for table in tables {
            step()?;
            grow_table(table, trees, &mut grown)?;
        }
        Ok(grown)
    }
}

fn grow_table(table: &SmallTable<'_>, trees: &SmallTrees<'_>, grown: &mut GrownTables) -> Result<()> {
    let (pool, rows) = (ThreadPool::new(1)?, table.target.len());
    let params = TreeParams { split: table.split, ..trees.params.clone() };
    let sources: Vec<CodeSource<'_>> = table.codes.chunks_exact(rows).map(CodeSource::Codes).collect();
    let data = TrainingData {
        features: table.features,
        sources: &sources,
        target: table.target.to_vec(),
        more_targets: vec![],
        weight: table.weight.map(<[f32]>::to_vec),
        columns: vec![],
        groups: None,
        positions: None,
        risk_sets: None,
        scores: vec![table.scores.to_vec()],
        held_out: None,
        measures_all: false,
        row_sampling: RowSampling { sample: RowSample::None, fraction: 1.0, temperature: 1.0, l2: 0.0 },
        row_counts: params.row_counts(),
        policy: params.policy,
        depth: params.depth,
        bundle: true,
        seed: params.seed,
        announced: None,
        shared: 1,
        steps_on: false,
        values: None,
        pieces: Pieces::default(),
        shard: RowShard { collective: &Alone, first: 0, all: rows },
        batches: None,
    };
    let mut steps = CpuTrees::new(&pool, data, &|| false)?;
    let mut features = All((0..table.features.len() as u32).collect());
    for tree in 0..u64::from(trees.rounds) {
        let request = TreeRequest { loss: table.loss, tree, output: 0, shared: None, bodies: None, groups: &[], plan: None };
        let (sums, scales) = match steps.begin_tree(&request) {
            Ok(Begun::Root { sums, scales }) => (sums, scales),
            Ok(Begun::Whole(_)) => return Err(Error::Data("the CPU grows no whole trees".into())),
            Err(_) => {
                let none = || SmallTree { scales: None, splits: Range::default(), leaves: Range::default() };
                grown.trees.extend((tree..u64::from(trees.rounds)).map(|_| none()));
                return Ok(());
            }
        };
        let root = Root { tree, sums, scales, noise: 0.0 };
        let of = grow(&mut steps, &params, &mut features, root, &mut f64::INFINITY.clone(), &|| false)?;
        let sums = steps.end_tree(table.loss, &of.tree, &of.leaves)?.remove(0);
        let value =
            |s: &taiga_core::learners::boosting::steps::LeafSums| (of.rules.own_value(s.gradient, s.hessian) * trees.learning_rate) as f32;
        steps.set_leaf_values(0, &sums.iter().map(value).collect::<Vec<f32>>())?;
        steps.update_scores()?;
        let (splits, places) = heap(&of.tree);
        let (first_split, first_leaf) = (grown.splits.len(), grown.leaves.len());
        grown.splits.extend(splits);
        // Leaves without rows are left out, as a device does.
        grown.leaves.extend(places.into_iter().zip(sums).filter(|(_, sums)| sums.count > 0));
        let (splits, leaves) = (first_split..grown.splits.len(), first_leaf..grown.leaves.len());
        grown.trees.push(SmallTree { scales: Some(scales), splits, leaves });
    }
    Ok(())
}
