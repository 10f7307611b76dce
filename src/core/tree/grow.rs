//! How a tree grows, in a device's steps: the algorithm itself, whatever the device.

mod leafwise;
pub(crate) mod whole;

pub use whole::WholeTree;

use super::model::{Child, Leaf, Node, Split, Tree};
use super::params::{Policy, TreeParams};
use super::split::{Inherited, Scales, SplitRules, Sums};
use super::steps::GrowSteps;
use crate::error::{Error, Result};
use crate::numerics::random::{Purpose, Random, below};
use crate::tree::steps::{Candidate, Division, NodeId, SearchNode};
use std::sync::Arc;

/// A tree whose leaves have no values yet.
pub struct GrownTree {
    /// Features counted as the fit does.
    pub tree: Tree,
    /// The node that became each leaf.
    pub leaves: Vec<NodeId>,
    /// The bounds of each leaf's value under monotone constraints.
    pub bounds: Vec<(f64, f64)>,
    pub rules: SplitRules,
    /// The gains of the tree's splits are in units of 2 to this: 0 where f32 has room for them as they are.
    pub gain_exponent: i32,
}

/// A node at the growing end of the tree.
#[derive(Clone, Debug)]
struct GrowingNode {
    id: NodeId,
    sums: Sums,
    depth: u32,
    /// What it hands on to its children.
    inherited: Inherited,
    /// Keyed by the path to the node, whatever its number.
    random: Random,
    /// The columns on the path from the root, where interactions are constrained.
    path: Vec<u32>,
}

impl GrowingNode {
    /// Returns what is kept of a leaf.
    fn as_leaf(&self) -> (NodeId, (f64, f64)) {
        (self.id, self.inherited.bounds)
    }
}

/// The features that a tree may split on, of which some come into being while it grows. `S`: the device's steps.
pub trait Features<S: ?Sized> {
    /// Opens the groups that the splits on `used` make possible, for the search of `nodes`.
    ///
    /// # Errors
    /// What the device reports, and [`Error::Memory`].
    fn open(&mut self, steps: &mut S, used: &[u32], nodes: &[SearchNode]) -> Result<()>;

    /// Returns whether [`Features::open`] may open anything in this tree.
    fn may_open(&self) -> bool;

    /// Returns the features that may split now: those of the tree's start first, ascending; behind them those opened since.
    fn open_features(&self) -> &[u32];

    /// Returns the table's columns that a feature is made of, as interaction constraints count them.
    fn columns(&self, feature: u32) -> &[u32];

    /// Returns how many borders a feature has; none where it is one of categories.
    fn borders(&self, feature: u32) -> Option<u32>;
}

/// The features that may split a node, by draws and by interaction constraints.
struct FeatureChoice<'a> {
    params: &'a TreeParams,
    tree: u64,
    /// The standard deviation of the noise on scores; 0 where there is none.
    noise: f64,
    /// Drawn for the tree, among those that were open at its start.
    drawn: Option<Vec<u32>>,
    first: usize,
    /// The weights of the features that were open when they were last asked for, and how many these were; none where there are no weights.
    weights: Option<(Arc<[f64]>, usize)>,
}

impl<'a> FeatureChoice<'a> {
    fn new<S: ?Sized>(params: &'a TreeParams, features: &dyn Features<S>, Root { tree, noise, .. }: Root) -> Self {
        let random = Random::new(params.seed, Purpose::FeatureTree, tree);
        let drawn = draw(params.feature_fraction, &random, None, features.open_features());
        FeatureChoice { params, tree, noise, drawn, first: features.open_features().len(), weights: None }
    }

    /// Returns the features that were open at the tree's start and not drawn for it.
    fn left_out<S: ?Sized>(&self, features: &dyn Features<S>) -> Vec<u32> {
        let Some(drawn) = &self.drawn else { return vec![] };
        let mut left_out: Vec<u32> = features.open_features().iter().copied().filter(|f| drawn.binary_search(f).is_err()).collect();
        left_out.sort_unstable();
        left_out
    }

    /// Returns the features drawn for a level, in the order in which they were opened; those that came into being in this tree are among them.
    fn level<S: ?Sized>(&self, depth: u32, features: &dyn Features<S>) -> Option<Vec<u32>> {
        let random = Random::new(self.params.seed, Purpose::FeatureLevel, self.tree << 8 | depth as u64);
        let open = features.open_features();
        let mut drawn = draw(self.params.feature_fraction_level, &random, self.drawn.clone(), &open[..self.first])?;
        drawn.extend_from_slice(&open[self.first..]);
        Some(drawn)
    }

    /// Returns those of the level's features that may split a node, ascending.
    fn node<S: ?Sized>(&self, level: &Option<Vec<u32>>, node: &GrowingNode, features: &dyn Features<S>) -> Option<Vec<u32>> {
        let random = Random::new(self.params.seed, Purpose::FeatureNode, self.tree << 20 | node.id as u64);
        let allowed = self.interacting(&node.path, level.clone(), features);
        let drawn = draw(self.params.feature_fraction_node, &random, allowed, features.open_features());
        drawn.map(ascending)
    }

    /// Draws the border of each feature that may divide a node, or the nodes of a level, by the node's or the level's numbers.
    fn borders<S: ?Sized>(&self, random: Random, features: &dyn Features<S>) -> Option<Arc<[u8]>> {
        if !self.params.extra_trees {
            return None;
        }
        let open = features.open_features();
        let mut borders = vec![0; open.iter().max().map_or(0, |last| *last as usize + 1)];
        for (place, feature) in open.iter().enumerate() {
            let bits = random.u64(place as u64);
            borders[*feature as usize] = match features.borders(*feature) {
                Some(count) => below(bits, count.max(1)) as u8,
                None => (bits >> 56) as u8,
            };
        }
        Some(borders.into())
    }

    /// Draws what is added to the scores of each feature's best split in a node, or in the nodes of a level.
    fn noise<S: ?Sized>(&self, random: Random, features: &dyn Features<S>) -> Option<Arc<[f64]>> {
        if self.noise == 0.0 {
            return None;
        }
        let random = random.child(u64::MAX - 1);
        let open = features.open_features();
        let mut noise = vec![0.0; open.iter().max().map_or(0, |last| *last as usize + 1)];
        for (place, feature) in open.iter().enumerate() {
            noise[*feature as usize] = self.noise * random.near_normal(place as u64);
        }
        Some(noise.into())
    }

    /// Returns what the gain of each feature that is open is multiplied by before features are compared; none where there are no weights.
    fn weights<S: ?Sized>(&mut self, features: &dyn Features<S>) -> Option<Arc<[f64]>> {
        if self.params.weights.is_empty() {
            return None;
        }
        let open = features.open_features();
        // In a tree features are opened, and none is closed.
        if let Some((weights, count)) = &self.weights
            && *count == open.len()
        {
            return Some(weights.clone());
        }
        let mut weights = vec![1.0; open.iter().max().map_or(0, |last| *last as usize + 1)];
        for feature in open {
            weights[*feature as usize] = self.params.weight(features.columns(*feature));
        }
        let weights: Arc<[f64]> = weights.into();
        self.weights = Some((weights.clone(), open.len()));
        Some(weights)
    }

    /// Returns those whose columns stand with all columns of `path` in one of the interaction groups. A column outside all groups
    /// meets none but itself.
    fn interacting<S: ?Sized>(&self, path: &[u32], among: Option<Vec<u32>>, features: &dyn Features<S>) -> Option<Vec<u32>> {
        if self.params.interaction.is_empty() || path.is_empty() {
            return among;
        }
        let alone = |columns: &[u32]| columns.iter().chain(path).all(|c| *c == path[0]);
        let together = |columns: &[u32]| {
            self.params.interaction.iter().any(|group| columns.iter().chain(path).all(|c| group.contains(c))) || alone(columns)
        };
        let mut allowed = among.unwrap_or_else(|| features.open_features().to_vec());
        allowed.retain(|f| features.columns(*f).iter().all(|c| path.contains(c)) || together(features.columns(*f)));
        Some(allowed)
    }
}

fn ascending(mut features: Vec<u32>) -> Vec<u32> {
    features.sort_unstable();
    features
}

/// Draws a share `fraction` of the features, at least one, by their places in a list; `None` stands for all.
fn draw(fraction: f64, random: &Random, from: Option<Vec<u32>>, all: &[u32]) -> Option<Vec<u32>> {
    if fraction >= 1.0 {
        return from;
    }
    let from = from.unwrap_or_else(|| all.to_vec());
    let count = ((from.len() as f64 * fraction).round() as usize).max(1);
    let mut drawn: Vec<u32> = random.choose(from.len(), count).into_iter().map(|i| from[i]).collect();
    drawn.sort_unstable();
    Some(drawn)
}

/// A tree that has begun: its number in the fit, its root's sums, and what sums are in units of.
#[derive(Clone, Copy)]
pub struct Root {
    pub tree: u64,
    pub sums: Sums,
    pub scales: Scales,
    /// The standard deviation of the noise on the roots of scores by which features are compared; 0: none.
    pub noise: f64,
}

/// Returns whether nothing but the limits decides what a tree becomes: no draws of features or borders, no constraints on how they meet, no
/// weights of features, no groups opened on the way, no leaves of other values than those that lower the loss most. A device may then work ahead of what it is asked for.
pub fn is_plain<S: ?Sized>(params: &TreeParams, features: &dyn Features<S>) -> bool {
    let everywhere = params.feature_fraction.min(params.feature_fraction_level).min(params.feature_fraction_node) >= 1.0;
    let free = params.interaction.is_empty() && params.weights.is_empty() && !params.split.moves_values() && !params.extra_trees;
    everywhere && free && !features.may_open()
}

/// Grows a tree that has begun. `least_gain`: the least gain that a leaf was divided for in the last such tree under
/// [`Policy::Leafwise`], infinite before the first; becomes this tree's. It changes no tree.
///
/// # Errors
/// What the device reports, and [`Error::Interrupted`].
pub fn grow<S: GrowSteps + ?Sized>(
    steps: &mut S,
    params: &TreeParams,
    features: &mut dyn Features<S>,
    begun: Root,
    least_gain: &mut f64,
    interrupted: &dyn Fn() -> bool,
) -> Result<GrownTree> {
    let rules = SplitRules::new(params, begun.scales);
    let (gradient, hessian) = rules.values(begun.sums);
    let inherited = Inherited { value: rules.own_value(gradient, hessian), ..Inherited::NOTHING };
    let random = Random::new(params.seed, Purpose::NodeDraws, begun.tree);
    let root = GrowingNode { id: 0, sums: begun.sums, depth: 0, inherited, random, path: vec![] };
    let choice = FeatureChoice::new(params, features, begun);
    let left_out = choice.left_out(features);
    if !left_out.is_empty() {
        steps.leave_out(&left_out);
    }
    let mut growth =
        Growth { steps, params, rules, features, choice, used: vec![], next: 1, least_gain, gains: GainUnit::default(), interrupted };
    let (tree, leaves) = match params.policy {
        Policy::Symmetric => growth.symmetric(root)?,
        Policy::Depthwise => growth.depthwise(root)?,
        Policy::Leafwise => growth.leafwise(root)?,
    };
    let (leaves, bounds) = leaves.into_iter().unzip();
    let gain_exponent = growth.gains.exponent();
    Ok(GrownTree { tree, leaves, bounds, rules: growth.rules, gain_exponent })
}

/// The unit of the gains of a tree's splits, chosen by the first one.
#[derive(Default)]
struct GainUnit(Option<i32>);

impl GainUnit {
    /// Returns the exponent; 0 where f32 has room for the gains as they are.
    fn exponent(&self) -> i32 {
        self.0.unwrap_or(0)
    }

    /// Returns a candidate as the tree keeps it.
    fn split(&mut self, c: &Candidate) -> Split {
        let unit = *self.0.get_or_insert_with(|| {
            let exponent = libm::ilogb(c.gain.clamp(f64::MIN_POSITIVE, f64::MAX));
            if GAINS.contains(&exponent) { 0 } else { exponent }
        });
        let gain = if unit == 0 { c.gain } else { libm::ldexp(c.gain, -unit) };
        Split { feature: c.feature, border: c.border, missing_left: c.missing_left, gain: gain.min(f32::MAX as f64) as f32 }
    }
}

/// The exponents of a first gain that leave f32 room for smaller and larger ones.
const GAINS: std::ops::RangeInclusive<i32> = -100..=100;

struct Growth<'a, S: ?Sized> {
    steps: &'a mut S,
    params: &'a TreeParams,
    rules: SplitRules,
    features: &'a mut dyn Features<S>,
    choice: FeatureChoice<'a>,
    /// The features that nodes of this tree are split by.
    used: Vec<u32>,
    /// The next node's number.
    next: NodeId,
    least_gain: &'a mut f64,
    gains: GainUnit,
    interrupted: &'a dyn Fn() -> bool,
}

/// A tree, and of each leaf its node and the bounds of its value.
type GrownShape = (Tree, Vec<(NodeId, (f64, f64))>);

impl<S: GrowSteps + ?Sized> Growth<'_, S> {
    /// Grows a symmetric tree: one split for each level, until none gains.
    fn symmetric(&mut self, root: GrowingNode) -> Result<GrownShape> {
        let mut splits = vec![];
        let random = root.random;
        let mut nodes = vec![root];
        for depth in 0..self.params.depth {
            self.check()?;
            let mut search: Vec<SearchNode> =
                nodes.iter().filter(|n| self.rules.is_searched(n.sums)).map(|n| self.search_node(n)).collect();
            if search.is_empty() {
                break;
            }
            self.features.open(self.steps, &self.used, &search)?;
            let level = self.choice.interacting(&nodes[0].path, self.choice.level(depth, self.features), self.features).map(ascending);
            let random = random.child(depth as u64);
            let (borders, noise) = (self.choice.borders(random, self.features), self.choice.noise(random, self.features));
            let weights = self.choice.weights(self.features);
            for node in &mut search {
                node.features.clone_from(&level);
                node.borders.clone_from(&borders);
                node.noise.clone_from(&noise);
                node.weights.clone_from(&weights);
            }
            let Some((candidate, left_sums)) = self.steps.find_level_split(&search, &self.rules)? else { break };
            splits.push(self.gains.split(&candidate));
            let mut left_sums = search.iter().map(|n| n.id).zip(left_sums).peekable();
            let last = depth + 1 == self.params.depth;
            let mut divisions = Vec::with_capacity(nodes.len());
            let mut children = Vec::with_capacity(2 * nodes.len());
            for node in nodes {
                // Nodes that were too small to be searched go along; their children are too small too.
                let left = left_sums.next_if(|(id, _)| *id == node.id).map(|(_, sums)| sums);
                let (l, r) = self.children(&node, &candidate, left);
                divisions.push(self.division(&node, &l, &r, candidate, left.is_some() && !last));
                children.extend([l, r]);
            }
            self.steps.partition(&divisions)?;
            nodes = children;
        }
        let leaves = vec![Leaf::default(); nodes.len()];
        Ok((Tree::Symmetric { splits, leaves }, nodes.iter().map(GrowingNode::as_leaf).collect()))
    }

    /// Grows a tree level by level, every node of a level by its own split.
    fn depthwise(&mut self, root: GrowingNode) -> Result<GrownShape> {
        let mut shape = Branches::new(root.id);
        let mut nodes = vec![root];
        let mut leaves = vec![];
        for depth in 0..self.params.depth {
            self.check()?;
            let open = close(nodes, |n| self.rules.is_searched(n.sums), &mut leaves);
            nodes = Vec::with_capacity(2 * open.len());
            if open.is_empty() {
                break;
            }
            let mut search: Vec<SearchNode> = open.iter().map(|n| self.search_node(n)).collect();
            self.features.open(self.steps, &self.used, &search)?;
            let level = self.choice.level(depth, self.features);
            for (s, n) in search.iter_mut().zip(&open) {
                s.features = self.choice.node(&level, n, self.features);
                s.borders = self.choice.borders(n.random, self.features);
                s.noise = self.choice.noise(n.random, self.features);
                s.weights = self.choice.weights(self.features);
            }
            let found = self.steps.find_splits(&search, &self.rules)?;
            let last = depth + 1 == self.params.depth;
            let mut divisions = Vec::with_capacity(open.len());
            for (node, found) in open.into_iter().zip(found) {
                let Some((candidate, left)) = found else {
                    leaves.push(node);
                    continue;
                };
                let (l, r) = self.children(&node, &candidate, Some(left));
                let searched = !last && (self.rules.is_searched(l.sums) || self.rules.is_searched(r.sums));
                divisions.push(self.division(&node, &l, &r, candidate, searched));
                shape.divide(node.id, self.gains.split(&candidate), l.id, r.id);
                nodes.extend([l, r]);
            }
            self.steps.partition(&divisions)?;
        }
        leaves.extend(nodes);
        Ok(shape.finish(&leaves))
    }

    fn check(&self) -> Result<()> {
        if (self.interrupted)() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn search_node(&self, node: &GrowingNode) -> SearchNode {
        SearchNode { id: node.id, sums: node.sums, inherited: node.inherited, features: None, borders: None, noise: None, weights: None }
    }

    /// Returns the two children of a node, numbered next. Where the left one's sums are not known, the node is too small for its
    /// children to be divided again, and they share its sums.
    fn children(&mut self, node: &GrowingNode, candidate: &Candidate, left: Option<Sums>) -> (GrowingNode, GrowingNode) {
        let (left, right) = left.map_or((node.sums, node.sums), |left| (left, node.sums - left));
        if !self.used.contains(&candidate.feature) {
            self.used.push(candidate.feature);
        }
        let mut path = node.path.clone();
        if !self.params.interaction.is_empty() {
            let new = self.features.columns(candidate.feature).iter().filter(|c| !node.path.contains(c));
            path.extend(new);
        }
        let (mut left_bounds, mut right_bounds) = (node.inherited.bounds, node.inherited.bounds);
        let value = |s: Sums, inherited: &Inherited| {
            let (g, h) = self.rules.values(s);
            self.rules.leaf_value(g, h, s.count as f64, inherited)
        };
        let direction = self.rules.monotone.get(candidate.feature as usize).copied().unwrap_or(0);
        if direction != 0 {
            // Values on both sides of a constrained split keep to their side of the middle.
            let middle = 0.5 * (value(left, &node.inherited) + value(right, &node.inherited));
            if direction > 0 {
                (left_bounds.1, right_bounds.0) = (middle, middle);
            } else {
                (left_bounds.0, right_bounds.1) = (middle, middle);
            }
        }
        let hand_on = |sums: Sums, bounds: (f64, f64)| {
            let inherited = Inherited { bounds, ..node.inherited };
            if self.rules.path_smooth > 0.0 { Inherited { value: value(sums, &inherited), ..inherited } } else { inherited }
        };
        let depth = node.depth + 1;
        let (of_left, of_right) = (hand_on(left, left_bounds), hand_on(right, right_bounds));
        let l = GrowingNode { id: self.next, sums: left, depth, inherited: of_left, random: node.random.child(0), path: path.clone() };
        let r = GrowingNode { id: self.next + 1, sums: right, depth, inherited: of_right, random: node.random.child(1), path };
        self.next += 2;
        (l, r)
    }

    fn division(&self, node: &GrowingNode, left: &GrowingNode, right: &GrowingNode, split: Candidate, histograms: bool) -> Division {
        let left_is_smaller = left.sums.hessian <= right.sums.hessian;
        Division { parent: node.id, left: left.id, right: right.id, split, left_is_smaller, histograms }
    }
}

/// Returns the nodes that stay open; the others go to `closed`.
fn close(nodes: Vec<GrowingNode>, stays: impl Fn(&GrowingNode) -> bool, closed: &mut Vec<GrowingNode>) -> Vec<GrowingNode> {
    let mut open = Vec::with_capacity(nodes.len());
    for node in nodes {
        if stays(&node) { open.push(node) } else { closed.push(node) }
    }
    open
}

/// The shape of a branching tree while it grows, by device node numbers.
struct Branches {
    root: NodeId,
    /// The split and the children of each node that has been divided.
    divided: Vec<Option<(Split, NodeId, NodeId)>>,
}

impl Branches {
    fn new(root: NodeId) -> Self {
        Branches { root, divided: vec![None; root as usize + 1] }
    }

    fn divide(&mut self, node: NodeId, split: Split, left: NodeId, right: NodeId) {
        let last = node.max(left).max(right) as usize;
        if self.divided.len() <= last {
            self.divided.resize(last + 1, None);
        }
        self.divided[node as usize] = Some((split, left, right));
    }

    /// Returns the tree, and what is kept of its leaves, which are `open`.
    fn finish(self, open: &[GrowingNode]) -> GrownShape {
        let mut by_id = vec![0; self.divided.len()];
        open.iter().enumerate().for_each(|(i, node)| by_id[node.id as usize] = i);
        let (numbered, leaves) = by_levels(self.root, |id| self.divided[id as usize].map(|(split, left, right)| (split, [left, right])));
        let nodes = numbered.into_iter().map(|(split, [left, right])| Node { split, left, right }).collect();
        let leaves: Vec<_> = leaves.into_iter().map(|id| open[by_id[id as usize]].as_leaf()).collect();
        (Tree::Branching { nodes, leaves: vec![Leaf::default(); leaves.len()] }, leaves)
    }
}

/// Numbers the nodes and the leaves of a branching tree level by level, from left to right: returns the split of each node with its children's numbers,
/// and the leaves. `divided`: the split of a node that is no leaf, and its children.
fn by_levels<S: Copy>(root: NodeId, divided: impl Fn(NodeId) -> Option<(S, [NodeId; 2])>) -> (Vec<(S, [Child; 2])>, Vec<NodeId>) {
    let (mut nodes, mut leaves) = (vec![], vec![]);
    let number = |id: NodeId, nodes: &mut Vec<(S, [NodeId; 2])>, leaves: &mut Vec<NodeId>| match divided(id) {
        Some(node) => {
            nodes.push(node);
            Child::Node(nodes.len() as u32 - 1)
        }
        None => {
            leaves.push(id);
            Child::Leaf(leaves.len() as u32 - 1)
        }
    };
    number(root, &mut nodes, &mut leaves);
    let mut numbered = vec![];
    while let Some((split, children)) = nodes.get(numbered.len()).copied() {
        numbered.push((split, children.map(|child| number(child, &mut nodes, &mut leaves))));
    }
    (numbered, leaves)
}
