//! Tables, fits and a slow, readable reading of what a forest's tree must be.

use crate::{Dice, Table, Wanted};
use taiga_engine::Result;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::forest::explain::NodeRow;
use taiga_engine::learners::forest::params::{Criterion, Splitter};
use taiga_engine::learners::forest::{Forest, ForestParams, Input, Quiet, bootstrap, fit};
use taiga_engine::numerics::random::{Purpose, Random, below};
use taiga_engine::quantize::borders::borders;

pub fn params(value: serde_json::Value) -> ForestParams {
    ForestParams::from_json(&value).unwrap_or_else(|e| panic!("{e}"))
}

pub fn input(table: &Table) -> Input<'_> {
    let t = table.input();
    Input { features: t.features, target: t.target, target_name: t.target_name, weight: t.weight }
}

pub fn try_grow(table: &Table, params: &ForestParams) -> Result<Forest> {
    fit(&input(table), params, &Quiet)
}

pub fn grow(table: &Table, params: &ForestParams) -> Forest {
    let forest = try_grow(table, params).unwrap_or_else(|e| panic!("{e}; {params:?}"));
    forest.validate().unwrap();
    forest
}

/// Labels of so many classes.
pub fn labels(classes: usize) -> Labels {
    if classes == 2 { Labels::Boolean } else { Labels::Integer((0..classes as i64).collect()) }
}

/// Columns with few and with many values, duplicates, constants, missing values and infinities.
pub fn awkward_columns(dice: &mut Dice, rows: usize, features: usize) -> Vec<Vec<f64>> {
    let mut columns: Vec<Vec<f64>> = vec![];
    for f in 0..features {
        columns.push(match dice.below(8) {
            0 if f > 0 => columns[dice.below(f as u64) as usize].clone(),
            1 => vec![3.0; rows],
            2 => (0..rows).map(|_| if dice.chance(0.5) { f64::NAN } else { 1.0 }).collect(),
            3 => {
                let values = [f64::NEG_INFINITY, -1e300, 0.0, 1e-300, f64::INFINITY, f64::NAN];
                (0..rows).map(|_| values[dice.below(6) as usize]).collect()
            }
            4 => (0..rows).map(|_| if dice.chance(0.1) { f64::NAN } else { dice.normal() }).collect(),
            _ => {
                let (distinct, missing) = (2 + dice.below(30), if dice.chance(0.5) { 0.2 } else { 0.0 });
                (0..rows).map(|_| if dice.chance(missing) { f64::NAN } else { dice.below(distinct) as f64 * 0.5 }).collect()
            }
        });
    }
    columns.push((0..rows).map(|_| dice.below(5) as f64).collect());
    columns
}

/// A table with a target of so many classes (0: numbers) that depends on its columns.
pub fn awkward_table(dice: &mut Dice, rows: usize, features: usize, classes: usize, weights: bool) -> Table {
    let columns = awkward_columns(dice, rows, features);
    let x = |f: usize, i: usize| if columns[f][i].is_finite() { columns[f][i].clamp(-5.0, 20.0) } else { 2.0 };
    let z: Vec<f64> = (0..rows).map(|i| x(0, i) - x(features, i) + dice.normal()).collect();
    let mut table = match classes {
        0 => Table::numbers(columns, z.iter().map(|z| (z * 4.0).round().abs()).collect()),
        k => {
            let class = |z: &f64| (z.abs() * 2.0) as u32 % k as u32;
            let mut codes: Vec<u32> = z.iter().map(class).collect();
            (codes[0], codes[1]) = (0, 1);
            Table::classes(columns, codes, labels(k))
        }
    };
    table.weight = weights.then(|| (0..rows).map(|i| if i < 2 { 1.0 } else { dice.below(4) as f64 }).collect());
    table
}

/// The rows of a table that weigh something, with the classes that are left.
pub fn counted(table: &Table) -> Table {
    let Some(weight) = &table.weight else { return table.clone() };
    let mut out = table.filter(|i| weight[i] > 0.0);
    if let (Wanted::Classes(all, _), Wanted::Classes(codes, Labels::Integer(labels))) = (&table.target, &mut out.target) {
        let stays = |class: u32| codes.contains(&class) || !all.contains(&class);
        let kept: Vec<u32> = (0..labels.len() as u32).filter(|class| stays(*class)).collect();
        *codes = codes.iter().map(|c| kept.iter().position(|k| k == c).unwrap() as u32).collect();
        *labels = kept.iter().map(|k| labels[*k as usize]).collect();
    }
    out
}

/// A tree as its nodes, to be read from the root.
pub fn tree_of(forest: &Forest, tree: u32) -> Vec<NodeRow> {
    forest.node_table().into_iter().filter(|n| n.tree == tree).collect()
}

/// A way to split a node: larger values than `low` go right, where some reach `high`.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub feature: usize,
    pub border: f64,
    pub missing_left: Option<bool>,
    pub gain: f64,
    /// The same gain, as a fraction of integers that tell ties exactly.
    pub exact: (u128, u128),
}

/// The definition of a forest's trees.
pub struct Twin<'a> {
    pub table: &'a Table,
    pub params: &'a ForestParams,
    pub criterion: Criterion,
    pub classes: usize,
    pub y: Vec<f64>,
    pub borders: Vec<Vec<f64>>,
}

impl<'a> Twin<'a> {
    pub fn new(table: &'a Table, params: &'a ForestParams, forest: &Forest) -> Self {
        let classes = match &table.target {
            Wanted::Classes(_, labels) => labels.len(),
            Wanted::Numbers(_) | Wanted::Several(_) => 0,
        };
        let borders = table.columns.iter().map(|c| borders(c, params.bins.common() as usize - 1, params.border_method)).collect();
        Twin { table, params, criterion: forest.criterion, classes, y: table.y(), borders }
    }

    fn weight(&self, row: usize) -> f64 {
        self.table.weight.as_ref().map_or(1.0, |w| w[row])
    }

    /// Holds tree `tree` of the forest to its definition.
    pub fn check(&self, forest: &Forest, tree: u32) {
        let counts = bootstrap::counts(self.params.bootstrap, self.y.len(), self.params.seed, tree);
        let rows: Vec<(usize, f64)> =
            (0..self.y.len()).filter(|r| counts[*r] > 0 && self.weight(*r) > 0.0).map(|r| (r, counts[r] as f64)).collect();
        let key = Random::new(self.params.seed, Purpose::ForestNode, tree as u64);
        let total = rows.iter().map(|(r, c)| c * self.weight(*r)).sum();
        let nodes = tree_of(forest, tree);
        self.check_node(&nodes, 0, rows, key, total);
    }

    fn check_node(&self, nodes: &[NodeRow], at: usize, rows: Vec<(usize, f64)>, key: Random, total: f64) {
        let node = &nodes[at];
        let weight: f64 = rows.iter().map(|(r, c)| c * self.weight(*r)).sum();
        let count: f64 = rows.iter().map(|(_, c)| c).sum();
        assert_eq!(node.count as f64, count);
        assert!((node.weight - weight).abs() <= 1e-6 * weight);
        let pure = rows.iter().all(|(r, _)| self.y[*r] == self.y[rows[0].0]);
        let deep = self.params.depth.is_some_and(|d| node.depth >= d);
        let choices = if pure || deep || rows.len() < 2 { vec![] } else { self.choices(&rows, &key, total) };
        let best = choices.iter().fold(f64::NEG_INFINITY, |m, c| m.max(c.gain));
        let Some(feature) = node.feature else {
            assert!(choices.is_empty() || best < self.params.min_gain + 1e-12, "a leaf at depth {} where {best} is to gain", node.depth);
            return self.check_leaf(node, &rows, weight);
        };
        let (border, missing_left) = (node.border.unwrap(), node.missing_left.unwrap());
        let same = |c: &&Choice| c.feature == feature as usize && c.border == border && c.missing_left.is_none_or(|m| m == missing_left);
        let chosen = choices.iter().find(same).unwrap_or_else(|| panic!("{node:?} is none of {choices:?}"));
        let scale = best.abs().max(1e-6);
        assert!(chosen.gain >= best - 1e-9 * scale, "{chosen:?} of {choices:?}");
        assert!((node.gain.unwrap() - chosen.gain.max(0.0)).abs() <= 1e-5 * scale + 1e-9, "{node:?} {chosen:?}");
        if self.criterion == Criterion::Gini {
            // The first of the best ones.
            let better = |a: &Choice, b: &Choice| a.exact.0 * b.exact.1 > b.exact.0 * a.exact.1;
            let first = choices.iter().skip(1).fold(&choices[0], |best, c| if better(c, best) { c } else { best });
            assert!(
                first.feature == chosen.feature && first.border == chosen.border && first.missing_left == chosen.missing_left,
                "{first:?} {chosen:?}"
            );
        }
        let x = |r: usize| self.table.columns[feature as usize][r];
        let right = |r: usize| if x(r).is_nan() { !missing_left } else { x(r) > border };
        let (r, l): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(r, _)| right(*r));
        let left_count: f64 = l.iter().map(|(_, c)| c).sum();
        if chosen.missing_left.is_none() {
            assert_eq!(missing_left, left_count * 2.0 >= count, "missing values of other rows go where most rows do");
        }
        self.check_node(nodes, node.left.unwrap() as usize, l, key.child(0), total);
        self.check_node(nodes, node.right.unwrap() as usize, r, key.child(1), total);
    }

    fn check_leaf(&self, node: &NodeRow, rows: &[(usize, f64)], weight: f64) {
        for (k, value) in node.value.iter().enumerate() {
            let of = |r: usize| if self.classes > 0 { (self.y[r] == k as f64) as u8 as f64 } else { self.y[r] };
            let mean = rows.iter().map(|(r, c)| c * self.weight(*r) * of(*r)).sum::<f64>() / weight;
            assert!((mean - value).abs() <= 1e-9 * mean.abs().max(1.0), "{node:?}: {mean}");
        }
    }

    /// Every split that the node may have, in the order in which ties are decided.
    fn choices(&self, rows: &[(usize, f64)], key: &Random, total: f64) -> Vec<Choice> {
        let mut order: Vec<usize> = (0..self.table.columns.len()).collect();
        let drawn = self.params.features_drawn(order.len(), self.classes > 0);
        let (mut features, mut varied) = (vec![], false);
        for i in 0..order.len() {
            if i >= drawn && varied {
                break;
            }
            let j = i + below(key.u64(i as u64), (order.len() - i) as u32) as usize;
            order.swap(i, j);
            let f = order[i];
            let first = self.code(f, rows[0].0);
            varied |= rows.iter().any(|(r, _)| self.code(f, *r) != first);
            features.push(f);
        }
        features.into_iter().flat_map(|f| self.choices_of(f, rows, key, total)).collect()
    }

    /// What tells values apart: the bin, or the value itself; none where it is missing.
    fn code(&self, f: usize, row: usize) -> Option<f64> {
        let x = self.table.columns[f][row] + 0.0;
        match self.params.splitter {
            _ if x.is_nan() => None,
            Splitter::Histogram => Some(self.borders[f].iter().filter(|b| **b < x).count() as f64),
            _ => Some(x),
        }
    }

    fn choices_of(&self, f: usize, rows: &[(usize, f64)], key: &Random, total: f64) -> Vec<Choice> {
        let mut values: Vec<f64> = rows.iter().filter_map(|(r, _)| self.code(f, *r)).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        let missing = rows.iter().any(|(r, _)| self.code(f, *r).is_none());
        let mut out = vec![];
        let mut consider = |border: f64, last: f64, missing_left: Option<bool>| {
            let right = |r: usize| self.code(f, r).map_or(missing_left == Some(false), |x| x > last);
            let (right, left): (Vec<_>, Vec<_>) = rows.iter().partition(|(r, _)| right(*r));
            let count = |side: &[(usize, f64)]| side.iter().map(|(_, c)| c).sum::<f64>();
            let allowed = count(&left) >= self.params.min_data_in_leaf as f64 && count(&right) >= self.params.min_data_in_leaf as f64;
            if let Some(gain) = self.gain(rows, &left, &right).filter(|_| allowed && !left.is_empty() && !right.is_empty()) {
                out.push(Choice { feature: f, border, missing_left, gain: gain / total, exact: self.exact(rows, &left) });
            }
        };
        let sides: &[Option<bool>] = if missing { &[Some(true), Some(false)] } else { &[None] };
        if self.params.splitter == Splitter::Random {
            if let (Some(low), Some(high)) = (values.first(), values.last().filter(|_| values.len() > 1)) {
                let u = key.unit((1 << 32) + f as u64);
                let (from, to) = (low.max(f64::MIN), high.min(f64::MAX));
                let t = from * (1.0 - u) + to * u + 0.0;
                let t = if t >= *high || t.is_nan() { *low } else { t.max(*low) };
                sides.iter().for_each(|side| consider(t, t, *side));
                return out;
            }
        } else {
            for pair in values.windows(2) {
                let border = match self.params.splitter {
                    // In the middle of the bins between.
                    Splitter::Histogram => self.borders[f][(pair[0] as usize + pair[1] as usize - 1) / 2],
                    _ => {
                        let m = pair[0] + (pair[1] - pair[0]) / 2.0;
                        let m = if m.is_finite() { m } else { pair[0] / 2.0 + pair[1] / 2.0 };
                        if pair[0] <= m && m < pair[1] { m } else { pair[0] }
                    }
                };
                sides.iter().for_each(|side| consider(border, pair[0], *side));
            }
        }
        if let (Some(last), true) = (values.last(), missing) {
            consider(f64::INFINITY, *last, Some(false));
        }
        out
    }

    /// The impurity of rows times their weight, by its definition; none where it has none.
    fn impurity(&self, rows: &[(usize, f64)]) -> Option<f64> {
        let w = |r: &(usize, f64)| r.1 * self.weight(r.0);
        let n: f64 = rows.iter().map(w).sum();
        let shares = (0..self.classes).map(|k| rows.iter().filter(|r| self.y[r.0] == k as f64).map(w).sum::<f64>() / n);
        let mean = rows.iter().map(|r| w(r) * self.y[r.0]).sum::<f64>() / n;
        Some(match self.criterion {
            Criterion::Gini => n * (1.0 - shares.map(|p| p * p).sum::<f64>()),
            Criterion::Entropy => -n * shares.filter(|p| *p > 0.0).map(|p| p * p.log2()).sum::<f64>(),
            Criterion::SquaredError => rows.iter().map(|r| w(r) * (self.y[r.0] - mean).powi(2)).sum(),
            Criterion::Poisson if mean <= 0.0 => return None,
            _ => rows.iter().filter(|r| self.y[r.0] > 0.0).map(|r| w(r) * self.y[r.0] * (self.y[r.0] / mean).ln()).sum(),
        })
    }

    fn gain(&self, all: &[(usize, f64)], left: &[(usize, f64)], right: &[(usize, f64)]) -> Option<f64> {
        if left.is_empty() || right.is_empty() {
            return None;
        }
        Some(self.impurity(all)? - self.impurity(left)? - self.impurity(right)?)
    }

    /// Of integer weights and classes: what is larger where the gain is, as a fraction.
    fn exact(&self, all: &[(usize, f64)], left: &[(usize, f64)]) -> (u128, u128) {
        let w = |rows: &[(usize, f64)], k: Option<usize>| {
            rows.iter().filter(|r| k.is_none_or(|k| self.y[r.0] == k as f64)).map(|r| (r.1 * self.weight(r.0)) as i128).sum::<i128>()
        };
        let (n, nl) = (w(all, None), w(left, None));
        let squares = (0..self.classes).map(|k| (w(left, Some(k)) * n - w(all, Some(k)) * nl).pow(2)).sum::<i128>();
        (squares as u128, (nl * (n - nl)).max(1) as u128)
    }
}
