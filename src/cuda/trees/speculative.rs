//! Leaf-wise trees: the grower divides one node at a time, the one that gains most, and to ask and
//! answer costs more than the division. So with the node that is asked for others are divided that
//! will most likely be next, and all their children are searched, at once; what is asked for later
//! is there already. What turns out not to be asked for leaves no trace: rows that were parted are
//! still those of their leaf.
//!
//! How many are divided ahead depends on how often the guesses came true: in the last trees, by their rank.

use super::CudaBackend;
use taiga_core::error::Result;
use taiga_core::tree::params::{Policy, TreeParams};
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, Division, NodeId, SearchNode};

/// Nodes that are guessed at a time, at most.
const MOST_GUESSES: usize = 15;

/// What the estimate of a guess's worth is made of, in nanoseconds: to ask and to answer; to search a feature in both children;
/// to part and sum a row, by feature.
const ASKING: f64 = 120_000.0;
const SEARCHING: f64 = 20.0;
const SUMMING: f64 = 0.001;

/// How much of what is known of guesses the next tree forgets.
const FORGETTING: f64 = 0.1;

/// How often guesses came true.
#[derive(Clone, Copy)]
pub struct Guesses {
    /// By rank among those of a time: guesses, and those that were asked for later.
    made: [f64; MOST_GUESSES],
    right: [f64; MOST_GUESSES],
    /// How often it must come true to pay.
    least: f64,
}

impl Guesses {
    /// For a table of so many rows and features.
    pub fn new(rows: usize, features: usize) -> Guesses {
        // The rows of a sixteenth of a tree.
        let wasted = features as f64 * (SEARCHING + SUMMING * rows as f64 / 16.0);
        Guesses { made: [0.0; MOST_GUESSES], right: [0.0; MOST_GUESSES], least: wasted / (ASKING + wasted) }
    }

    /// How many are worth while: those of lower ranks come true more often. Ranks that nothing is known of are tried.
    fn worthwhile(&self) -> usize {
        let rate = |rank: usize| (self.right[rank] + 1.0) / (self.made[rank] + 1.0);
        (0..MOST_GUESSES).find(|rank| rate(*rank) < self.least).unwrap_or(MOST_GUESSES)
    }

    fn next_tree(mut self) -> Guesses {
        self.made.iter_mut().chain(&mut self.right).for_each(|n| *n *= 1.0 - FORGETTING);
        self
    }
}

/// What is known of a node.
#[derive(Clone, Copy, Default)]
struct Known {
    sums: Sums,
    depth: u32,
    /// What a search found, where there was one.
    found: Option<Option<(Candidate, Sums)>>,
    children: Option<(NodeId, NodeId)>,
    /// The rank at which its division was guessed, until it is asked for.
    guessed: Option<usize>,
}

/// The nodes of a tree by the backend's own numbers, since some come into being before the grower
/// numbers them.
pub struct Nodes {
    /// By the grower's number.
    own: Vec<NodeId>,
    known: Vec<Known>,
    /// Divisions that the grower asked for.
    asked: usize,
    /// The limits under which others are guessed; none where none are.
    plan: Option<TreeParams>,
    rules: Option<SplitRules>,
    guesses: Guesses,
}

impl Nodes {
    /// Those of no tree yet.
    pub fn new(guesses: Guesses) -> Nodes {
        Nodes { own: vec![], known: vec![], asked: 0, plan: None, rules: None, guesses }
    }

    /// Begins a tree, of whose root these are the sums.
    pub fn begin(&mut self, plan: Option<TreeParams>, sums: Sums) {
        let plan = plan.filter(|p| p.policy == Policy::Leafwise && p.monotone.is_empty());
        let guesses = self.guesses.next_tree();
        *self = Nodes { own: vec![0], known: vec![Known { sums, ..Known::default() }], asked: 0, plan, rules: None, guesses };
    }

    /// The own number of a node.
    pub fn own(&self, node: NodeId) -> NodeId {
        self.own[node as usize]
    }

    /// The nodes by their own numbers.
    fn renamed(&self, nodes: &[SearchNode]) -> Vec<SearchNode> {
        nodes.iter().map(|n| SearchNode { id: self.own(n.id), ..n.clone() }).collect()
    }

    /// Numbers the children of a division.
    fn divide(&mut self, d: &Division) -> Division {
        let parent = self.own(d.parent);
        if let Some(rank) = self.known[parent as usize].guessed.take() {
            self.guesses.right[rank] += 1.0;
        }
        let (left, right) = self.children(parent);
        let last = d.left.max(d.right) as usize;
        if self.own.len() <= last {
            self.own.resize(last + 1, 0);
        }
        (self.own[d.left as usize], self.own[d.right as usize]) = (left, right);
        Division { parent, left, right, ..*d }
    }

    /// The children of a node, new ones where it has none.
    fn children(&mut self, parent: NodeId) -> (NodeId, NodeId) {
        let known = self.known[parent as usize];
        let children = known.children.unwrap_or((self.known.len() as NodeId, self.known.len() as NodeId + 1));
        if known.children.is_none() {
            let depth = known.depth + 1;
            let left = known.found.flatten().map_or(Sums::default(), |f| f.1);
            self.known.push(Known { sums: left, depth, ..Known::default() });
            self.known.push(Known { sums: known.sums - left, depth, ..Known::default() });
            self.known[parent as usize].children = Some(children);
        }
        children
    }

    /// The nodes that will most likely be divided next, with their divisions.
    fn guess(&mut self) -> Vec<Division> {
        let (Some(plan), Some(rules)) = (&self.plan, &self.rules) else { return vec![] };
        let room = (plan.leaves as usize - 1).saturating_sub(self.asked).min(self.guesses.worthwhile());
        let mut waiting: Vec<(f64, NodeId)> = vec![];
        for (id, node) in self.known.iter().enumerate() {
            let Some(Some((candidate, left))) = node.found else { continue };
            let searched = node.depth + 1 < plan.depth && (rules.is_searched(left) || rules.is_searched(node.sums - left));
            if node.children.is_none() && searched {
                waiting.push((candidate.gain, id as NodeId));
            }
        }
        waiting.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let divide = |(rank, (_, parent)): (usize, &(f64, NodeId))| {
            self.known[*parent as usize].guessed = Some(rank);
            self.guesses.made[rank] += 1.0;
            let (left, right) = self.children(*parent);
            let node = self.known[*parent as usize];
            let (split, sums) = node.found.flatten()?;
            let left_is_smaller = sums.hessian <= (node.sums - sums).hessian;
            Some(Division { parent: *parent, left, right, split, left_is_smaller, histograms: true })
        };
        waiting.iter().take(room).enumerate().filter_map(divide).collect()
    }
}

impl CudaBackend {
    /// The best split of each node by itself; those searched before were kept.
    pub(crate) fn find_nodes(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>> {
        let nodes = self.nodes.renamed(nodes);
        if self.nodes.plan.is_none() {
            return self.search_nodes(&nodes, rules);
        }
        if self.nodes.rules.is_none() {
            self.nodes.rules = Some(rules.clone());
        }
        let fresh: Vec<SearchNode> = nodes.iter().filter(|n| self.nodes.known[n.id as usize].found.is_none()).cloned().collect();
        self.search_and_keep(&fresh)?;
        Ok(nodes.iter().map(|n| self.nodes.known[n.id as usize].found.flatten()).collect())
    }

    fn search_and_keep(&mut self, nodes: &[SearchNode]) -> Result<()> {
        let Some(rules) = self.nodes.rules.clone().filter(|_| !nodes.is_empty()) else { return Ok(()) };
        let found = self.search_nodes(nodes, &rules)?;
        for (node, found) in nodes.iter().zip(found) {
            self.nodes.known[node.id as usize].found = Some(found);
        }
        Ok(())
    }

    /// The split of a level.
    pub(crate) fn find_level(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>> {
        let nodes = self.nodes.renamed(nodes);
        self.search_level(&nodes, rules)
    }

    /// Carries out the divisions, unless they are done, with those that are guessed.
    pub(crate) fn divide_and_guess(&mut self, divisions: &[Division]) -> Result<()> {
        let mut due = Vec::with_capacity(divisions.len());
        for d in divisions {
            let done = self.nodes.known[self.nodes.own(d.parent) as usize].children.is_some();
            let d = self.nodes.divide(d);
            if !done && d.histograms {
                due.push(d);
            }
        }
        self.nodes.asked += divisions.len();
        if due.is_empty() {
            return Ok(());
        }
        due.extend(self.nodes.guess());
        self.divide_nodes(&due)?;
        let (Some(plan), Some(rules)) = (&self.nodes.plan, &self.nodes.rules) else { return Ok(()) };
        let deeper = |id: &NodeId| {
            let node = &self.nodes.known[*id as usize];
            node.depth < plan.depth && rules.is_searched(node.sums)
        };
        let children = due.iter().flat_map(|d| [d.left, d.right]).filter(deeper);
        let search = |id: NodeId| SearchNode {
            id,
            sums: self.nodes.known[id as usize].sums,
            bounds: (f64::NEG_INFINITY, f64::INFINITY),
            features: None,
        };
        let children: Vec<SearchNode> = children.map(search).collect();
        self.search_and_keep(&children)
    }
}
