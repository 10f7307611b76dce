//! A grower that anyone can read: f64, one loop over the rows for every candidate, no histograms,
//! no subtraction, no rounding. What it grows is the definition of a tree.

use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::params::BoostingParams;
use taiga_engine::losses::LossKind;
use taiga_engine::numerics::random::{Purpose, Random, below};
use taiga_engine::tree::model::Child;
use taiga_engine::tree::{Policy, Tree};

/// What shapes a tree.
#[derive(Clone, Debug)]
pub struct Rules {
    pub policy: Policy,
    pub depth: usize,
    pub leaves: usize,
    pub l1: f64,
    pub l2: f64,
    pub min_child_weight: f64,
    pub min_data_in_leaf: usize,
    pub min_gain: f64,
    pub max_delta_step: f64,
    pub path_smooth: f64,
    /// Where nodes are divided at one border of each feature, the numbers that these are drawn by.
    pub drawn_borders: Option<Random>,
    /// What gains count before they are compared, by column next to the one that counts most; a column of weight 0 is not there.
    pub weights: Vec<f64>,
}

impl Rules {
    /// What parameters ask of one tree.
    pub fn of(p: &BoostingParams) -> Rules {
        Rules {
            policy: p.policy,
            depth: p.depth() as usize,
            leaves: p.leaves() as usize,
            l1: p.l1,
            l2: p.l2,
            min_child_weight: p.min_child_weight(),
            min_data_in_leaf: p.min_data_in_leaf as usize,
            min_gain: p.min_gain,
            max_delta_step: p.max_delta_step.unwrap_or(f64::INFINITY),
            path_smooth: p.path_smooth.unwrap_or(0.0),
            drawn_borders: (p.extra_trees == Some(true)).then(|| Random::new(p.seed, Purpose::NodeDraws, 0)),
            weights: vec![],
        }
    }

    /// With the weights that parameters give to columns `x0`, `x1` and so on.
    pub fn with_weights(mut self, p: &BoostingParams, columns: usize) -> Rules {
        let own = |i: usize| p.feature_weights.iter().flatten().find(|(name, _)| **name == format!("x{i}")).map_or(1.0, |found| *found.1);
        let weights: Vec<f64> = (0..columns).map(own).collect();
        let most = weights.iter().copied().fold(0.0, f64::max);
        self.weights = weights.into_iter().map(|weight| weight / most).collect();
        self
    }

    /// What a gain on a column counts.
    fn weight(&self, column: usize) -> f64 {
        self.weights.get(column).copied().unwrap_or(1.0)
    }
}

impl Rules {
    /// Whether no node of a level may get a child that has rows and is too small.
    fn level_limits(&self) -> bool {
        self.policy == Policy::Symmetric && (self.min_child_weight > 0.0 || self.min_data_in_leaf > 0)
    }

    /// Whether leaves have other values than those that lower the loss most.
    fn moves_values(&self) -> bool {
        self.max_delta_step < f64::INFINITY || self.path_smooth > 0.0
    }

    /// The value of a leaf of `n` rows: no larger than is allowed, and between its own and its parent's; the root has its own.
    fn value(&self, g: f64, h: f64, n: usize, parent: Option<f64>) -> f64 {
        let own = Grown::newton(g, h, self).clamp(-self.max_delta_step, self.max_delta_step);
        match parent {
            Some(parent) if self.path_smooth > 0.0 => {
                let share = n as f64 / self.path_smooth;
                own * share / (share + 1.0) + parent / (share + 1.0)
            }
            _ => own,
        }
    }

    /// By how much a leaf of this value lowers twice the loss of its rows.
    fn score_of_value(&self, g: f64, h: f64, value: f64) -> f64 {
        -(2.0 * (g * value + self.l1 * value.abs()) + (h + self.l2) * value * value)
    }
}

/// The rows to grow on: features with their borders, and derivatives.
pub struct Data<'a> {
    pub columns: &'a [Vec<f64>],
    pub borders: &'a [Vec<f64>],
    pub gradient: &'a [f64],
    pub hessian: &'a [f64],
    /// What splits are scored by in place of the derivatives, where there are any.
    pub pairs: &'a [Pair],
}

/// The derivatives of the rows of a body, and of those of its tail, by row of the table: gradient and hessian, zeros for all others.
pub struct Pair {
    pub body: Vec<(f64, f64)>,
    pub tail: Vec<(f64, f64)>,
}

impl Pair {
    /// By how much the value that the body's rows among `rows` give them lowers twice the loss of the tail's.
    fn score(&self, rows: &[usize], rules: &Rules) -> f64 {
        let ((g, h), (tail_g, tail_h)) = (sum(&self.body, rows), sum(&self.tail, rows));
        let value = Grown::newton(g, h, rules);
        -(2.0 * value * tail_g + value * value * tail_h)
    }
}

fn sum(of_rows: &[(f64, f64)], rows: &[usize]) -> (f64, f64) {
    rows.iter().fold((0.0, 0.0), |sum, row| (sum.0 + of_rows[*row].0, sum.1 + of_rows[*row].1))
}

/// A question. `place == borders.len()`: the border is +∞.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    pub feature: usize,
    pub place: usize,
    pub border: f64,
    pub missing_left: bool,
    pub gain: f64,
}

impl Cut {
    pub fn goes_right(&self, x: f64) -> bool {
        if x.is_nan() { !self.missing_left } else { x > self.border }
    }
}

#[derive(Clone, Debug)]
pub enum Grown {
    Leaf { rows: Vec<usize>, gradient: f64, hessian: f64, value: f64 },
    Inner { cut: Cut, left: Box<Grown>, right: Box<Grown> },
}

/// A node of a growing tree, its value, and the numbers that its borders are drawn by.
#[derive(Clone)]
struct Node {
    rows: Vec<usize>,
    value: f64,
    random: Option<Random>,
}

fn threshold(g: f64, l1: f64) -> f64 {
    (g.abs() - l1).max(0.0) * g.signum()
}

impl Data<'_> {
    fn sums(&self, rows: &[usize]) -> (f64, f64) {
        (rows.iter().map(|r| self.gradient[*r]).sum(), rows.iter().map(|r| self.hessian[*r]).sum())
    }

    /// The hessians that limits are about: under pairs those of their tails.
    fn curvature(&self, rows: &[usize]) -> f64 {
        if self.pairs.is_empty() { self.sums(rows).1 } else { self.pairs.iter().map(|pair| sum(&pair.tail, rows).1).sum() }
    }

    fn by_pairs(&self, rows: &[usize], rules: &Rules) -> f64 {
        self.pairs.iter().map(|pair| pair.score(rows, rules)).sum()
    }

    fn parts(&self, rows: &[usize], cut: &Cut) -> (Vec<usize>, Vec<usize>) {
        rows.iter().partition(|r| !cut.goes_right(self.columns[cut.feature][**r]))
    }

    fn root(&self, rows: Vec<usize>, rules: &Rules) -> Node {
        let (g, h) = self.sums(&rows);
        Node { value: rules.value(g, h, rows.len(), None), rows, random: rules.drawn_borders }
    }

    fn children(&self, node: &Node, cut: &Cut, rules: &Rules) -> (Node, Node) {
        let child = |rows: Vec<usize>, side: u64| {
            let (g, h) = self.sums(&rows);
            Node { value: rules.value(g, h, rows.len(), Some(node.value)), rows, random: node.random.map(|random| random.child(side)) }
        };
        let (left, right) = self.parts(&node.rows, cut);
        (child(left, 0), child(right, 1))
    }

    /// The score of a node that is not split.
    fn score(&self, node: &Node, rules: &Rules) -> f64 {
        if !self.pairs.is_empty() {
            return self.by_pairs(&node.rows, rules);
        }
        let (g, h) = self.sums(&node.rows);
        if rules.moves_values() {
            return rules.score_of_value(g, h, rules.value(g, h, node.rows.len(), Some(node.value)));
        }
        let t = threshold(g, rules.l1);
        if h + rules.l2 > 0.0 { t * t / (h + rules.l2) } else { 0.0 }
    }

    /// The score of both children together; none where one is too small.
    fn split_score(&self, node: &Node, cut: &Cut, rules: &Rules) -> Option<f64> {
        let (left, right) = self.parts(&node.rows, cut);
        let ((gl, hl), (gr, hr)) = (self.sums(&left), self.sums(&right));
        let large = |n: usize, h: f64| h > 0.0 && h >= rules.min_child_weight && n >= rules.min_data_in_leaf;
        if !large(left.len(), self.curvature(&left)) || !large(right.len(), self.curvature(&right)) {
            return None;
        }
        if !self.pairs.is_empty() {
            return Some(self.by_pairs(&left, rules) + self.by_pairs(&right, rules));
        }
        if rules.moves_values() {
            let score = |g: f64, h: f64, n: usize| rules.score_of_value(g, h, rules.value(g, h, n, Some(node.value)));
            return Some(score(gl, hl, left.len()) + score(gr, hr, right.len()));
        }
        let (tl, tr) = (threshold(gl, rules.l1), threshold(gr, rules.l1));
        let (dl, dr) = (hl + rules.l2, hr + rules.l2);
        Some((tl * tl * dr + tr * tr * dl) / (dl * dr))
    }

    /// Whether a node could have two allowed children at all, or may forbid a level's split.
    fn searched(&self, rows: &[usize], rules: &Rules) -> bool {
        if rules.level_limits() {
            return !rows.is_empty();
        }
        let h = self.curvature(rows);
        rows.len() >= 2 && h > 0.0 && h >= 2.0 * rules.min_child_weight && rows.len() >= 2 * rules.min_data_in_leaf
    }

    /// The candidates in the order of the tie rule: the lower feature, the lower border, missing
    /// values to the left. Only where a row is missing can they go elsewhere than the smallest.
    fn candidates(&self, rows: &[usize]) -> Vec<Cut> {
        let mut all = vec![];
        for (feature, borders) in self.borders.iter().enumerate() {
            let missing = rows.iter().any(|r| self.columns[feature][*r].is_nan());
            for place in 0..=borders.len() {
                let border = borders.get(place).copied().unwrap_or(f64::INFINITY);
                if place < borders.len() {
                    all.push(Cut { feature, place, border, missing_left: true, gain: 0.0 });
                }
                if missing {
                    all.push(Cut { feature, place, border, missing_left: false, gain: 0.0 });
                }
            }
        }
        all
    }

    /// The candidate with the largest gain over all the nodes together; the first of those that
    /// tie. A node that a candidate would leave a child too small in counts as not split; where
    /// limits bind a level, it forbids the candidate unless all its rows go to one side.
    fn best(&self, nodes: &[&Node], drawn_by: Option<Random>, rules: &Rules) -> Option<Cut> {
        let rows: Vec<usize> = nodes.iter().flat_map(|n| n.rows.iter().copied()).collect();
        let parent: f64 = nodes.iter().map(|n| self.score(n, rules)).sum();
        let mut best: Option<Cut> = None;
        let drawn = drawn_by.map(|random| self.drawn_borders(random, rules));
        for cut in self.candidates(&rows) {
            if rules.weight(cut.feature) == 0.0 {
                continue;
            }
            if drawn.as_ref().is_some_and(|drawn| drawn[cut.feature] != Some(cut.place)) {
                continue;
            }
            let scores: Vec<Option<f64>> = nodes.iter().map(|n| self.split_score(n, &cut, rules)).collect();
            let divides = |n: &Node| {
                let (left, right) = self.parts(&n.rows, &cut);
                !left.is_empty() && !right.is_empty()
            };
            let forbids = |(s, n): (&Option<f64>, &&Node)| s.is_none() && divides(n);
            if scores.iter().all(|s| s.is_none()) || (rules.level_limits() && scores.iter().zip(nodes).any(forbids)) {
                continue;
            }
            let total: f64 = scores.iter().zip(nodes).map(|(s, n)| s.unwrap_or_else(|| self.score(n, rules))).sum();
            let gain = total - parent;
            let weighted = |cut: &Cut| cut.gain * rules.weight(cut.feature);
            if gain > rules.min_gain && best.is_none_or(|b| weighted(&Cut { gain, ..cut }) > weighted(&b)) {
                best = Some(Cut { gain, ..cut });
            }
        }
        best
    }

    /// The border of each feature that may divide a node; features that can't be divided at all draw none.
    fn drawn_borders(&self, random: Random, rules: &Rules) -> Vec<Option<usize>> {
        let mut places = 0..;
        let draw = |(number, (borders, column)): (usize, (&Vec<f64>, &Vec<f64>))| {
            let missing = column.iter().filter(|x| x.is_nan()).count();
            let divides = (!borders.is_empty() || (missing > 0 && missing < column.len())) && rules.weight(number) > 0.0;
            let place = if divides { places.next() } else { None };
            place.map(|place| below(random.u64(place), borders.len().max(1) as u32) as usize)
        };
        self.borders.iter().zip(self.columns).enumerate().map(draw).collect()
    }

    fn leaf(&self, node: Node) -> Grown {
        let (gradient, hessian) = self.sums(&node.rows);
        Grown::Leaf { rows: node.rows, gradient, hessian, value: node.value }
    }

    fn inner(&self, cut: Cut, left: Grown, right: Grown) -> Grown {
        Grown::Inner { cut, left: Box::new(left), right: Box::new(right) }
    }

    /// Grows a tree on `rows`.
    pub fn grow(&self, rows: Vec<usize>, rules: &Rules) -> Grown {
        let root = self.root(rows, rules);
        match rules.policy {
            Policy::Symmetric => {
                let cuts = self.symmetric_cuts(root.clone(), rules);
                self.by_cuts(root, &cuts, rules)
            }
            Policy::Depthwise => self.depthwise(root, rules, 0),
            Policy::Leafwise => self.leafwise(root, rules),
        }
    }

    fn symmetric_cuts(&self, root: Node, rules: &Rules) -> Vec<Cut> {
        let (mut nodes, mut cuts) = (vec![root], vec![]);
        while cuts.len() < rules.depth {
            let open: Vec<&Node> = nodes.iter().filter(|n| self.searched(&n.rows, rules)).collect();
            let Some(cut) = self.best(&open, rules.drawn_borders.map(|random| random.child(cuts.len() as u64)), rules) else { break };
            cuts.push(cut);
            nodes = nodes.iter().flat_map(|n| <[Node; 2]>::from(self.children(n, &cut, rules))).collect();
        }
        cuts
    }

    fn by_cuts(&self, node: Node, cuts: &[Cut], rules: &Rules) -> Grown {
        let Some((cut, rest)) = cuts.split_first() else { return self.leaf(node) };
        let (left, right) = self.children(&node, cut, rules);
        self.inner(*cut, self.by_cuts(left, rest, rules), self.by_cuts(right, rest, rules))
    }

    fn depthwise(&self, node: Node, rules: &Rules, depth: usize) -> Grown {
        if depth == rules.depth || !self.searched(&node.rows, rules) {
            return self.leaf(node);
        }
        let Some(cut) = self.best(&[&node], node.random, rules) else { return self.leaf(node) };
        let (left, right) = self.children(&node, &cut, rules);
        self.inner(cut, self.depthwise(left, rules, depth + 1), self.depthwise(right, rules, depth + 1))
    }

    /// The open leaf with the largest gain first; at a tie the one that was made first.
    fn leafwise(&self, root: Node, rules: &Rules) -> Grown {
        struct Open {
            node: Node,
            depth: usize,
            cut: Option<Cut>,
            children: Option<(usize, usize)>,
        }
        let new = |node: Node, depth: usize| {
            let cut = if depth < rules.depth && self.searched(&node.rows, rules) { self.best(&[&node], node.random, rules) } else { None };
            Open { node, depth, cut, children: None }
        };
        let mut nodes = vec![new(root, 0)];
        let mut leaves = 1;
        while leaves < rules.leaves {
            let open = (0..nodes.len()).filter(|i| nodes[*i].children.is_none() && nodes[*i].cut.is_some());
            let gain = |i: usize| nodes[i].cut.map_or(0.0, |c| c.gain * rules.weight(c.feature));
            let Some(best) = open.reduce(|a, b| if gain(b) > gain(a) { b } else { a }) else { break };
            let (left, right) = self.children(&nodes[best].node, &nodes[best].cut.unwrap(), rules);
            let depth = nodes[best].depth + 1;
            nodes[best].children = Some((nodes.len(), nodes.len() + 1));
            nodes.push(new(left, depth));
            nodes.push(new(right, depth));
            leaves += 1;
        }
        fn build(data: &Data<'_>, nodes: &[Open], i: usize) -> Grown {
            match nodes[i].children {
                None => data.leaf(nodes[i].node.clone()),
                Some((l, r)) => data.inner(nodes[i].cut.unwrap(), build(data, nodes, l), build(data, nodes, r)),
            }
        }
        build(self, &nodes, 0)
    }
}

impl Grown {
    /// `-T(G) / (H + l2)`
    pub fn newton(gradient: f64, hessian: f64, rules: &Rules) -> f64 {
        let divisor = hessian + rules.l2;
        if divisor > 0.0 { -threshold(gradient, rules.l1) / divisor } else { 0.0 }
    }

    /// Calls `visit` for each leaf, from left to right.
    pub fn leaves<'a>(&'a self, visit: &mut dyn FnMut(&'a [usize], f64, f64)) {
        match self {
            Grown::Leaf { rows, gradient, hessian, .. } => visit(rows, *gradient, *hessian),
            Grown::Inner { left, right, .. } => {
                left.leaves(visit);
                right.leaves(visit);
            }
        }
    }
}

/// Holds a fitted tree equal to a naive one: splits and counts exactly (the gain as its f32), leaf
/// values and weights within 10⁻⁶.
pub fn assert_equal(model: &Model, tree: &Tree, naive: &Grown, rules: &Rules, learning_rate: f64) {
    assert_node(model, tree, At::Root, naive, rules, learning_rate, &mut vec![]);
}

#[derive(Clone, Copy)]
enum At {
    Root,
    /// Level and index of a symmetric tree's node.
    Level(usize, usize),
    Child(Child),
}

fn assert_node(m: &Model, tree: &Tree, at: At, naive: &Grown, rules: &Rules, rate: f64, path: &mut Vec<Cut>) {
    let at = match (at, tree) {
        (At::Root, Tree::Symmetric { .. }) => At::Level(0, 0),
        (At::Root, Tree::Branching { nodes, .. }) => At::Child(if nodes.is_empty() { Child::Leaf(0) } else { Child::Node(0) }),
        (at, _) => at,
    };
    let (split, children, leaf) = match (at, tree) {
        (At::Level(level, index), Tree::Symmetric { splits, leaves }) => match splits.get(level) {
            Some(s) => (Some(s), (At::Level(level + 1, 2 * index), At::Level(level + 1, 2 * index + 1)), None),
            None => {
                assert_eq!(leaves.len(), 1 << splits.len());
                (None, (at, at), Some(leaves[index]))
            }
        },
        (At::Child(Child::Node(n)), Tree::Branching { nodes, .. }) => {
            let n = &nodes[n as usize];
            (Some(&n.split), (At::Child(n.left), At::Child(n.right)), None)
        }
        (At::Child(Child::Leaf(l)), Tree::Branching { leaves, .. }) => (None, (at, at), Some(leaves[l as usize])),
        _ => unreachable!(),
    };
    match (naive, split, leaf) {
        (Grown::Inner { cut, left, right }, Some(s), None) => {
            let feature = &m.features[s.feature as usize];
            let border = feature.borders.get(s.border as usize).copied().unwrap_or(f64::INFINITY);
            let own = (feature.name.clone(), border, s.missing_left, s.gain);
            assert_eq!(own, (format!("x{}", cut.feature), cut.border, cut.missing_left, cut.gain as f32), "below {path:?} under {rules:?}");
            path.push(*cut);
            assert_node(m, tree, children.0, left, rules, rate, path);
            assert_node(m, tree, children.1, right, rules, rate, path);
            path.pop();
        }
        (Grown::Leaf { rows, hessian, value, .. }, None, Some(leaf)) => {
            assert_eq!(leaf.count as usize, rows.len(), "below {path:?} under {rules:?}");
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * a.abs().max(b.abs());
            let value = rate * value;
            assert!(close(leaf.value * m.scale, value), "{} {value} below {path:?} under {rules:?}", leaf.value * m.scale);
            assert!(close(leaf.weight as f64, *hessian), "{} {hessian} below {path:?} under {rules:?}", leaf.weight);
        }
        _ => panic!("a leaf where the other tree has a split, below {path:?} under {rules:?}: {naive:?} {split:?} {leaf:?}"),
    }
}

/// Gradient and hessian of a row, in f64, from the losses' definitions.
pub fn derivatives(loss: LossKind, alpha: f64, delta: f64, power: f64, s: f64, y: f64) -> (f64, f64) {
    let sign = |r: f64| {
        if r > 0.0 {
            1.0
        } else if r < 0.0 {
            -1.0
        } else {
            0.0
        }
    };
    let p = 1.0 / (1.0 + (-s).exp());
    match loss {
        LossKind::Rmse => (s - y, 1.0),
        LossKind::Logloss | LossKind::CrossEntropy => (p - y, (p * (1.0 - p)).max(1e-16)),
        LossKind::Mae | LossKind::Mape => (sign(s - y), 1.0),
        LossKind::Expectile => {
            let factor = if s < y { 2.0 * alpha } else { 2.0 * (1.0 - alpha) };
            (factor * (s - y), factor)
        }
        LossKind::LogCosh => ((s - y).tanh(), if s == y { 1.0 } else { (s - y).tanh() / (s - y) }),
        // Of exponent 2 and no balance.
        LossKind::Focal => {
            let side = if y == 1.0 { 1.0 } else { -1.0 };
            let p = 1.0 / (1.0 + (-side * s).exp());
            let q = 1.0 - p;
            let slope = q * q * (q - 2.0 * p * p.ln());
            let second = q * q * p * (5.0 * q + 2.0 * p.ln() * (q - 2.0 * p));
            (-side * slope, second.max(p * slope))
        }
        LossKind::Quantile => (
            if s < y {
                -alpha
            } else if s > y {
                1.0 - alpha
            } else {
                0.0
            },
            1.0,
        ),
        LossKind::Huber => ((s - y).clamp(-delta, delta), 1.0),
        LossKind::Poisson => (s.exp() - y, 0.5 * (s.exp() + y)),
        LossKind::Gamma => (1.0 - y * (-s).exp(), 0.5 * (1.0 + y * (-s).exp())),
        LossKind::Tweedie => {
            let (a, b) = (y * ((1.0 - power) * s).exp(), ((2.0 - power) * s).exp());
            (b - a, 0.5 * (a + b))
        }
        other => unreachable!("{other:?} is no loss of one score of single rows"),
    }
}
