//! What the tests of the engine share: tables and random numbers, fits and predictions; naive twins ([`naive`], [`forest`], [`model`]),
//! the contract's table of fits ([`contract`]), and comparisons of devices ([`devices`], `gpu`).

pub mod allocator;
pub mod batches;
pub mod continued;
pub mod contract;
pub mod devices;
pub mod forest;
#[cfg(feature = "cuda")]
pub mod gpu;
pub mod hashed;
pub mod linear;
pub mod model;
pub mod naive;
pub mod random_fits;
pub mod rows;
pub mod tampering;
pub mod together;

use std::borrow::Cow;
use taiga_engine::Result;
use taiga_engine::column::Column;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::positions::{PositionLabels, Positions};
use taiga_engine::dataset::{EventTimes, Input, LossColumns, Quiet, Target};
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_engine::numerics::random::{Purpose, Random};

/// A small stateful generator for test data.
pub struct Dice(Random, u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Random::new(seed, Purpose::RowSample, 77), 0)
    }

    /// A number in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.1 += 1;
        self.0.u64(self.1) % n
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.1 += 1;
        self.0.unit(self.1)
    }

    /// Nearly normal, standard deviation 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }
}

/// What is to be predicted, owned.
#[derive(Clone)]
pub enum Wanted {
    Numbers(Vec<f64>),
    Classes(Vec<u32>, Labels),
    /// Several targets, named `y0`, `y1`, …
    Several(Vec<Vec<f64>>),
}

/// A table that owns its columns, named `x0`, `x1`, …; the target is `y`.
#[derive(Clone)]
pub struct Table {
    pub columns: Vec<Vec<f64>>,
    pub target: Wanted,
    pub weight: Option<Vec<f64>>,
    pub baseline: Vec<Vec<f64>>,
    pub held_out: Option<Vec<bool>>,
    /// The group of each row.
    pub groups: Option<Vec<u32>>,
    /// The position of each row, by number.
    pub positions: Option<Vec<u32>>,
    /// The largest time that each row's event may have happened at; the least is the target.
    pub upper: Option<Vec<f64>>,
    /// The place of each row in the order that statistics of categories take them in.
    pub order: Option<Vec<u32>>,
}

impl Table {
    pub fn numbers(columns: Vec<Vec<f64>>, target: Vec<f64>) -> Table {
        Table {
            columns,
            target: Wanted::Numbers(target),
            weight: None,
            baseline: vec![],
            held_out: None,
            groups: None,
            positions: None,
            upper: None,
            order: None,
        }
    }

    pub fn classes(columns: Vec<Vec<f64>>, codes: Vec<u32>, labels: Labels) -> Table {
        Table {
            columns,
            target: Wanted::Classes(codes, labels),
            weight: None,
            baseline: vec![],
            held_out: None,
            groups: None,
            positions: None,
            upper: None,
            order: None,
        }
    }

    /// Several targets.
    pub fn several(columns: Vec<Vec<f64>>, targets: Vec<Vec<f64>>) -> Table {
        Table { target: Wanted::Several(targets), ..Table::numbers(columns, vec![]) }
    }

    pub fn rows(&self) -> usize {
        match &self.target {
            Wanted::Numbers(y) => y.len(),
            Wanted::Classes(c, _) => c.len(),
            Wanted::Several(y) => y[0].len(),
        }
    }

    pub fn features(&self) -> Vec<Column<'_>> {
        self.columns.iter().enumerate().map(|(i, c)| Column::from_f64(format!("x{i}"), c)).collect()
    }

    pub fn target(&self) -> Target<'_> {
        match &self.target {
            Wanted::Numbers(y) => Target::Numbers(Column::from_f64("y", y)),
            Wanted::Classes(codes, labels) => Target::Classes { codes, labels: labels.clone() },
            Wanted::Several(y) => Target::Several(y.iter().enumerate().map(|(k, y)| Column::from_f64(format!("y{k}"), y)).collect()),
        }
    }

    pub fn input(&self) -> Input<'_> {
        Input {
            features: self.features(),
            target: self.target(),
            target_name: "y".into(),
            weight: self.weight.as_ref().map(|w| Column::from_f64("w", w)),
            baseline: self.baseline.iter().enumerate().map(|(i, b)| Column::from_f64(format!("b{i}"), b)).collect(),
            held_out: self.held_out.as_deref(),
            evaluation: Default::default(),
            order: self.order.as_deref().map(Cow::Borrowed),
            loss_columns: LossColumns {
                groups: self.groups.as_deref().map(Cow::Borrowed),
                positions: self.positions.as_deref().map(positions),
                numbers: vec![],
                times: EventTimes { upper: self.upper.as_ref().map(|u| Column::from_f64("upper", u)), ..EventTimes::default() },
            },
        }
    }

    pub fn try_fit(&self, params: &BoostingParams) -> Result<Model> {
        fit(&self.input(), params, &Quiet)
    }

    pub fn fit(&self, params: &BoostingParams) -> Model {
        self.try_fit(params).unwrap_or_else(|e| panic!("{e}; {params:?}"))
    }

    /// The target as numbers: class indices for classes, several targets one behind the other.
    pub fn y(&self) -> Vec<f64> {
        match &self.target {
            Wanted::Numbers(y) => y.clone(),
            Wanted::Classes(c, _) => c.iter().map(|c| *c as f64).collect(),
            Wanted::Several(y) => y.concat(),
        }
    }

    /// The rows that pass.
    pub fn filter(&self, keep: impl Fn(usize) -> bool) -> Table {
        fn take<T: Copy>(v: &[T], keep: &impl Fn(usize) -> bool) -> Vec<T> {
            v.iter().enumerate().filter(|(i, _)| keep(*i)).map(|(_, x)| *x).collect()
        }
        Table {
            columns: self.columns.iter().map(|c| take(c, &keep)).collect(),
            target: match &self.target {
                Wanted::Numbers(y) => Wanted::Numbers(take(y, &keep)),
                Wanted::Classes(c, l) => Wanted::Classes(take(c, &keep), l.clone()),
                Wanted::Several(y) => Wanted::Several(y.iter().map(|y| take(y, &keep)).collect()),
            },
            weight: self.weight.as_ref().map(|w| take(w, &keep)),
            baseline: self.baseline.iter().map(|b| take(b, &keep)).collect(),
            held_out: self.held_out.as_ref().map(|h| take(h, &keep)),
            groups: self.groups.as_ref().map(|g| take(g, &keep)),
            positions: self.positions.as_ref().map(|p| take(p, &keep)),
            upper: self.upper.as_ref().map(|u| take(u, &keep)),
            order: self.order.as_ref().map(|places| take(places, &keep)),
        }
    }
}

/// Positions as a fit takes them: numbered by first appearance.
fn positions(numbers: &[u32]) -> Positions<'_> {
    let mut labels: Vec<i64> = vec![];
    let mut code = |number: &u32| {
        let label = i64::from(*number);
        labels.iter().position(|known| *known == label).unwrap_or_else(|| {
            labels.push(label);
            labels.len() - 1
        }) as u32
    };
    let codes: Vec<u32> = numbers.iter().map(&mut code).collect();
    Positions { codes: codes.into(), labels: PositionLabels::Numbers(labels) }
}

/// Parameters from a JSON object.
pub fn params(value: serde_json::Value) -> BoostingParams {
    BoostingParams::from_json(&value).unwrap()
}

/// `base` with the fields of `more` over it, as parameters.
pub fn params_with(mut base: serde_json::Value, more: serde_json::Value) -> BoostingParams {
    for (k, v) in more.as_object().unwrap() {
        base[k] = v.clone();
    }
    params(base)
}

/// Raw scores of the table's rows, `[output][row]`.
pub fn raw(model: &Model, table: &Table) -> Vec<Vec<f64>> {
    let predictor = Predictor::new(model.clone());
    let columns = table.features();
    predictor.raw(&predictor.bind(&columns).unwrap())
}

/// Predictions: the value, the probability, or one vector of probabilities a class.
pub fn predict(model: &Model, table: &Table) -> Vec<Vec<f64>> {
    let mut scores = raw(model, table);
    Predictor::new(model.clone()).link(&mut scores);
    scores
}

/// Root mean squared error.
pub fn rmse(a: &[f64], b: &[f64]) -> f64 {
    (a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / a.len() as f64).sqrt()
}

pub const POLICIES: [&str; 3] = ["symmetric", "depthwise", "leafwise"];

/// Normal features, some missing; the target rises with x0, falls with x1, and bends with x2, x3.
pub fn table(rows: usize, seed: u64) -> Table {
    let mut dice = Dice::new(seed);
    let columns: Vec<Vec<f64>> =
        (0..4).map(|_| (0..rows).map(|_| if dice.chance(0.05) { f64::NAN } else { dice.normal() }).collect()).collect();
    let x = |f: usize, i: usize| if columns[f][i].is_nan() { 0.5 } else { columns[f][i] };
    let y = (0..rows).map(|i| x(0, i) - x(1, i) + x(0, i) * x(2, i) + (3.0 * x(3, i)).sin() + 0.5 * dice.normal()).collect();
    Table::numbers(columns, y)
}

/// The same as two classes.
pub fn classes(rows: usize, seed: u64) -> Table {
    let t = table(rows, seed);
    let codes = t.y().iter().map(|y| (*y > 0.3) as u32).collect();
    Table::classes(t.columns, codes, Labels::Boolean)
}

/// The path of features from the root to each leaf of a tree.
pub fn paths(tree: &taiga_engine::tree::Tree) -> Vec<Vec<u32>> {
    use taiga_engine::tree::Tree;
    use taiga_engine::tree::model::Child;
    match tree {
        Tree::Symmetric { splits, .. } => vec![splits.iter().map(|s| s.feature).collect()],
        Tree::Branching { nodes, .. } => {
            let mut done = vec![];
            let mut open = vec![(if nodes.is_empty() { Child::Leaf(0) } else { Child::Node(0) }, vec![])];
            while let Some((at, path)) = open.pop() {
                match at {
                    Child::Leaf(_) => done.push(path),
                    Child::Node(n) => {
                        let node = &nodes[n as usize];
                        let mut longer: Vec<u32> = path;
                        longer.push(node.split.feature);
                        open.push((node.left, longer.clone()));
                        open.push((node.right, longer));
                    }
                }
            }
            done
        }
    }
}
