//! Random models and tables, and the definition of a prediction written out naively.

use proptest::prelude::*;
use taiga_engine::column::FeatureType;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::boosting::model::{Model, Units};
use taiga_engine::learners::boosting::params::BoostingParams;
use taiga_engine::losses::LossKind;
use taiga_engine::metrics::MetricKind;
use taiga_engine::model::{Feature, History};
use taiga_engine::tree::linear::LinearLeaf;
use taiga_engine::tree::model::{Child, Leaf, Node, Split, Tree};

/// A small generator of our own, so that a model follows from one seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What a random model is like.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub seed: u64,
    pub features: usize,
    pub trees: usize,
    pub outputs: usize,
    /// The largest depth of a symmetric tree, and twice the exponent of the most nodes of others.
    pub depth: usize,
    /// Share of symmetric trees in per cent.
    pub symmetric: usize,
    pub borders: usize,
}

pub fn kinds() -> impl Strategy<Value = Kind> {
    let shapes = (1usize..6, 0usize..8, 1usize..4, 0usize..11, prop::sample::select(vec![0usize, 50, 100]));
    (any::<u64>(), shapes, prop::sample::select(vec![1usize, 3, 40, 254, 255])).prop_map(
        |(seed, (features, rounds, outputs, depth, symmetric), borders)| Kind {
            seed,
            features,
            trees: rounds * outputs,
            outputs,
            depth,
            symmetric,
            borders,
        },
    )
}

fn borders(dice: &mut Dice, most: usize) -> Vec<f64> {
    let n = if dice.below(2) == 0 { most } else { dice.below(most + 1) };
    let scale = [1.0, 1e-3, 1e300, 1e-300, 1e38, 1e-45][dice.below(6)];
    let mut v: Vec<f64> = (0..n)
        .map(|_| match dice.below(4) {
            0 => (dice.below(1000) as f64 - 500.0) * scale,
            1 => ((dice.unit() - 0.5) * 1e3) as f32 as f64,
            _ => (dice.unit() - 0.5) * scale,
        })
        .collect();
    match dice.below(8) {
        0 => v.push(f64::NEG_INFINITY),
        1 => v.extend([f32::MAX as f64, f32::MIN as f64, f64::MAX, f64::MIN, 0.0]),
        _ => {}
    }
    v.sort_by(f64::total_cmp);
    v.dedup_by(|a, b| a == b);
    v.truncate(255);
    v
}

fn split(dice: &mut Dice, features: &[Feature]) -> Split {
    let feature = dice.below(features.len());
    let border = dice.below(features[feature].borders.len() + 1) as u32;
    Split { feature: feature as u32, border, missing_left: dice.below(2) == 0, gain: dice.unit() as f32 * 10.0 }
}

fn leaves(dice: &mut Dice, n: usize) -> Vec<Leaf> {
    (0..n)
        .map(|_| Leaf { value: (dice.unit() as f32 - 0.5) as f64, weight: dice.unit() as f32 * 9.0, count: dice.below(50) as u32 })
        .collect()
}

/// A random branching tree of `n` nodes: nodes join in order, each below a random open branch.
pub fn branching(dice: &mut Dice, features: &[Feature], n: usize) -> Tree {
    let open = Child::Leaf(u32::MAX);
    let mut nodes: Vec<Node> = vec![];
    let mut free: Vec<(usize, bool)> = vec![];
    for i in 0..n {
        if i > 0 {
            let (parent, right) = free.swap_remove(dice.below(free.len()));
            *(if right { &mut nodes[parent].right } else { &mut nodes[parent].left }) = Child::Node(i as u32);
        }
        nodes.push(Node { split: split(dice, features), left: open, right: open });
        free.extend([(i, false), (i, true)]);
    }
    for leaf in 0..free.len() {
        let (parent, right) = free.swap_remove(dice.below(free.len()));
        *(if right { &mut nodes[parent].right } else { &mut nodes[parent].left }) = Child::Leaf(leaf as u32);
    }
    Tree::Branching { nodes, leaves: leaves(dice, n + 1) }
}

pub fn model(kind: Kind) -> Model {
    let dice = &mut Dice(kind.seed);
    let types = [FeatureType::Numeric, FeatureType::Date];
    let features: Vec<Feature> = (0..kind.features)
        .map(|i| Feature {
            name: format!("f{i}"),
            dtype: types[(i == 3) as usize].clone(),
            borders: borders(dice, kind.borders),
            categories: None,
        })
        .collect();
    let trees = (0..kind.trees)
        .map(|_| {
            let symmetric = dice.below(100) < kind.symmetric;
            let depth = dice.below(kind.depth + 1);
            if symmetric {
                let splits = (0..depth).map(|_| split(dice, &features)).collect();
                Tree::Symmetric { splits, leaves: leaves(dice, 1 << depth) }
            } else {
                let nodes = if depth == 0 { 0 } else { dice.below(1 << depth) };
                branching(dice, &features, nodes)
            }
        })
        .collect();
    let loss = match kind.outputs {
        1 => [LossKind::Rmse, LossKind::Logloss, LossKind::Poisson][dice.below(3)],
        _ => LossKind::Multiclass,
    };
    let labels = match loss {
        LossKind::Multiclass => Some(Labels::Text((0..kind.outputs).map(|k| format!("class {k}")).collect())),
        LossKind::Logloss => Some([Labels::Boolean, Labels::Integer(vec![-7, 9])][dice.below(2)].clone()),
        _ => None,
    };
    let rounds = kind.trees / kind.outputs;
    let history = (dice.below(2) == 0 && rounds > 0).then(|| History {
        values: (0..rounds + 2).map(|_| dice.unit()).collect(),
        best: dice.below(rounds) as u32,
        ..History::new(MetricKind::Rmse)
    });
    Model {
        params: BoostingParams { seed: kind.seed, loss, ..Default::default() },
        loss,
        target: "y".into(),
        features,
        derived: vec![],
        tables: vec![],
        labels,
        start: (0..kind.outputs).map(|_| dice.unit() - 0.5).collect(),
        scale: [1.0, 0.5, 1024.0][dice.below(3)],
        units: [Units::default(), Units { gain: 2f64.powi(-160), weight: 2f64.powi(200) }][dice.below(2)],
        trees,
        linear: vec![],
        rows: 1000,
        history,
        provenance: Default::default(),
    }
}

/// Makes some leaves of a model linear functions of its columns of numbers.
pub fn with_linear_leaves(mut model: Model, seed: u64) -> Model {
    let dice = &mut Dice(seed);
    let numeric: Vec<u32> = (0..model.features.len() as u32).filter(|f| model.features[*f as usize].categories.is_none()).collect();
    for (tree, of) in model.trees.iter().enumerate() {
        // Some trees have none.
        let share = dice.below(4);
        for leaf in 0..of.leaves().len() {
            let features = numeric.iter().filter(|_| dice.below(4) < share);
            let features: Vec<u32> = features.copied().collect();
            if features.is_empty() {
                continue;
            }
            let mut number = || (dice.unit() - 0.5) * [1.0, 0.0, 1e-9, 1e5][dice.below(4)];
            let terms = features.into_iter().map(|feature| (feature, number())).collect();
            model.linear.push(LinearLeaf { tree: tree as u32, leaf: leaf as u32, constant: number(), terms });
        }
    }
    model
}

/// Values that ask the hard questions: missing, infinite, on borders and beside them.
pub fn values(dice: &mut Dice, feature: &Feature, n: usize) -> Vec<f64> {
    (0..n)
        .map(|_| match dice.below(8) {
            0 => f64::NAN,
            1 => [f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e300, -1e300][dice.below(6)],
            2..5 if !feature.borders.is_empty() => {
                let b = feature.borders[dice.below(feature.borders.len())];
                [b, b.next_up(), b.next_down(), b as f32 as f64, (b as f32).next_up() as f64, (b as f32).next_down() as f64][dice.below(6)]
            }
            _ => (dice.unit() - 0.5) * [1.0, 1e3, 1e-3][dice.below(3)],
        })
        .collect()
}

/// Does `x` go right? The definition in `tree/model.rs`, word for word.
pub fn goes_right(split: &Split, features: &[Feature], x: f64) -> bool {
    let borders = &features[split.feature as usize].borders;
    if x.is_nan() {
        !split.missing_left
    } else if split.border as usize == borders.len() {
        false
    } else {
        x > borders[split.border as usize]
    }
}

/// The leaf of one row (its values by feature) in one tree.
pub fn naive_leaf(tree: &Tree, features: &[Feature], row: &[f64]) -> u32 {
    let right = |s: &Split| goes_right(s, features, row[s.feature as usize]);
    match tree {
        Tree::Symmetric { splits, .. } => splits.iter().fold(0, |index, s| 2 * index + right(s) as u32),
        Tree::Branching { nodes, .. } => {
            let mut at = if nodes.is_empty() { Child::Leaf(0) } else { Child::Node(0) };
            loop {
                match at {
                    Child::Leaf(leaf) => return leaf,
                    Child::Node(i) => {
                        let node = &nodes[i as usize];
                        at = if right(&node.split) { node.right } else { node.left };
                    }
                }
            }
        }
    }
}

/// The raw scores of one row after `rounds` rounds.
pub fn naive_raw(model: &Model, row: &[f64], rounds: usize) -> Vec<f64> {
    (0..model.outputs())
        .map(|k| {
            let trees = model.trees.iter().skip(k).step_by(model.outputs()).take(rounds);
            let sum = trees.enumerate().fold(0.0, |sum, (round, t)| {
                let (tree, leaf) = ((round * model.outputs() + k) as u32, naive_leaf(t, &model.features, row));
                let linear = model.linear.iter().find(|of| (of.tree, of.leaf) == (tree, leaf)).map_or(f64::NAN, |of| {
                    of.terms.iter().fold(of.constant, |sum, (feature, coefficient)| sum + coefficient * row[*feature as usize])
                });
                sum + if linear.is_finite() { linear } else { t.leaves()[leaf as usize].value }
            });
            model.start[k] + model.scale * sum
        })
        .collect()
}
