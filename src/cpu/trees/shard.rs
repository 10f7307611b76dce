//! The rows that one thread owns for a whole fit, and what it does with them.

mod group;
mod leaves;
pub mod levels;
mod partial;
mod partition;
mod permuted;
mod replay;
mod root;

pub(crate) use super::codes::STATISTICS;
use super::dropouts::KeptTrees;
use super::feature_groups::Group;
use super::gradient_quantizer::{BATCH, GradientQuantizer, Magnitudes, Plane};
use super::histogram::BinWords;
pub(crate) use super::histogram::expand;
use super::lanes::{Lanes, SharedTree};
use super::partition::CodeTest;
use super::presorted::{NodeSlots, Presorted};
use taiga_core::collective::RowShard;
use taiga_core::error::Result;
use taiga_core::learners::boosting::steps::OutputRules;
use taiga_core::losses;
use taiga_core::losses::Loss;
use taiga_core::numerics::random::Random;
use taiga_core::quantize::{CodeSet, CodedFeature};
use taiga_core::spill::{Array, SpillFolder};
use taiga_core::tree::steps::NodeId;

pub use group::ShardGroup;
pub use partial::{Partial, SegmentBins};
use permuted::Permuted;
pub use permuted::Tried;

/// Up to so many rows are searched one by one, where the bins of a histogram would outnumber them.
pub const FEW_ROWS: usize = 48;

/// Rows of up to so many have their statistics once more side by side, where each block of codes wants them in order.
const STATISTICS_ROWS: usize = 1 << 22;

/// The place of a node's rows in a shard's lists.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeRows {
    /// Which of the two lists.
    pub list: u8,
    pub start: usize,
    pub len: usize,
    /// Where the other list has room for them.
    pub spare: usize,
    /// All rows of the shard in order, written to no list.
    pub all: bool,
}

/// The rows of one thread, their codes, and where they are in the tree that grows. Row `r` of the table is in batch
/// `r / BATCH`, which is dealt to shard `batch % shards`, so that sorted tables leave no thread idle.
pub struct Shard {
    /// The table's rows before all shards of this process.
    before: usize,
    /// Whether all rows of the table are this process's.
    whole: bool,
    pub index: usize,
    pub shards: usize,
    pub rows: usize,
    /// The codes, group after group.
    pub groups: Vec<ShardGroup>,
    /// The partial histograms that [dropped groups](Shard::drop_group) have left.
    spare: Vec<Partial>,
    pub target: Array<f32>,
    /// Those of the outputs behind the first, where each has its own.
    pub more_targets: Vec<Array<f32>>,
    pub weight: Option<Array<f32>>,
    /// `[output][row]`, those of a set behind those of another.
    pub scores: Vec<Array<f32>>,
    /// `true` for rows that are not trained on.
    pub held_out: Option<Array<bool>>,
    /// What a row counts in this tree; 0 for one that was not drawn.
    pub bag: Option<Vec<f32>>,
    /// `[output][row]`: the leaf of the output's last tree.
    leaf: Vec<Array<u16>>,
    /// `[output][leaf]`
    leaf_values: Vec<Vec<f32>>,
    /// `[output][row]`: values of the rows' own, in place of those of their leaves; empty where they have none.
    row_values: Vec<Vec<f32>>,
    /// Whether rows note the node that they are in ([`levels`]), in `leaf`, and are not listed.
    by_node: bool,
    /// Empty until rows are to be listed, where that is not [expected](levels::expects_whole_levels).
    pub lists: [Array<u32>; 2],
    pub nodes: Vec<NodeRows>,
    /// Nodes whose rows note that they are in a node, and are in that one's parent again.
    taken_back: Vec<(NodeId, NodeId)>,
    /// How this tree's nodes are searched by the groups' sorted rows, if not by histograms.
    pub presorted: Option<Presorted>,
    /// The nodes of a walk through sorted rows.
    pub slots: NodeSlots,
    /// The first plane of a batch.
    pub first_plane: Vec<u32>,
    /// Planes behind the first one, by row; empty for planes of ones.
    planes: Vec<Vec<u32>>,
    /// `[row][lane]`: the statistics of all outputs, where they share the tree.
    words: Vec<u32>,
    /// The first plane once more, by row, where features are sparse or codes in several blocks.
    row_statistics: Vec<u32>,
    /// Statistics in the order of a list.
    ordered: Vec<u32>,
    /// 1 for each row whose category goes right, else 0.
    in_subset: Vec<u8>,
    gradient: Vec<f32>,
    hessian: Vec<f32>,
    /// The derivatives of a batch of each of the outputs that share a tree.
    of_outputs: Vec<(Vec<f32>, Vec<f32>)>,
    /// The derivatives of all rows, weights included, where the loss is one by group.
    pub given: Option<(Vec<f32>, Vec<f32>)>,
    /// What the loss reads of a row beside its target, `[column][row]`.
    pub columns: Vec<Array<f32>>,
    /// The trees so far, where they may leave the scores again.
    pub kept: Option<KeptTrees>,
    /// The permutations of ordered boosting, whose sets of scores are those behind the first.
    permuted: Vec<Permuted>,
    /// The scores of a tree's outputs, while its leaves' values are tried in their place.
    pub untried: Vec<Array<f32>>,
}

/// The tree that grows, and what its shards share.
pub struct TreeContext<'a> {
    pub output: usize,
    pub quantizer: &'a GradientQuantizer,
    /// Where several outputs share the tree, what there is of each.
    pub shared: Option<&'a SharedTree>,
    pub rounding: Random,
    pub features: &'a [CodedFeature],
    pub groups: &'a [Group],
    pub subsets: &'a [CodeSet],
}

impl TreeContext<'_> {
    /// Returns whether a row's statistics are one word, and all else that it adds to a bin is 1.
    pub fn has_one_word(&self) -> bool {
        self.shared.map_or(self.quantizer.planes[0] == Plane::Both, |shared| shared.lanes.are_one_word())
    }

    /// Returns what a row's word adds to a bin, of rows that have one for each bin.
    pub fn bin_words(&self) -> BinWords {
        self.lanes().map_or(BinWords::Single, |lanes| lanes.bin_words())
    }

    /// Returns the lanes that a bin of partial histograms has side by side; none where each plane has bins of its own.
    pub fn lanes(&self) -> Option<Lanes> {
        self.shared.map(|shared| shared.lanes).or_else(|| Lanes::of_planes(&self.quantizer.planes))
    }

    /// Returns the groups whose features may split.
    pub fn open(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.groups.len()).filter(|g| self.groups[*g].open)
    }
}

/// Returns the rows that a table of `rows` rows gives to shard `index`.
pub fn share(rows: usize, index: usize, shards: usize) -> usize {
    let (full, rest) = (rows / BATCH, rows % BATCH);
    let batches = full / shards + (index < full % shards) as usize;
    batches * BATCH + if index == full % shards { rest } else { 0 }
}

/// Returns the test that sends a row's code left or right.
pub fn code_test(feature: &CodedFeature, border: u32, missing_left: bool) -> CodeTest {
    CodeTest::new(feature.first() + border as usize, missing_left || !feature.missing_bin)
}

/// Returns the targets that an output of any set is fitted to: the first, or one of those behind it.
fn target_of<'t>(first: &'t [f32], more: &'t [Array<f32>], output: usize) -> &'t [f32] {
    (output % (more.len() + 1)).checked_sub(1).map_or(first, |other| &more[other])
}

impl Shard {
    /// Returns an empty shard with room for its share of `rows` rows, without codes, and without [lists](Shard::make_lists) of them. `spill`: where its
    /// rows are to lie, if not in memory.
    pub fn new(rows: usize, of: RowShard<'_>, index: usize, shards: usize, outputs: usize, spill: Option<&SpillFolder>) -> Result<Shard> {
        let own = share(rows, index, shards);
        Ok(Shard {
            before: of.first,
            whole: of.is_whole(),
            index,
            shards,
            rows: own,
            groups: vec![],
            spare: vec![],
            target: Array::default(),
            more_targets: vec![],
            weight: None,
            scores: vec![],
            held_out: None,
            bag: None,
            leaf: (0..outputs).map(|_| Array::zeroed("the leaves of a fit's rows", own, spill)).collect::<Result<_>>()?,
            leaf_values: vec![vec![]; outputs],
            row_values: vec![vec![]; outputs],
            by_node: false,
            lists: Default::default(),
            nodes: vec![],
            taken_back: vec![],
            presorted: None,
            slots: NodeSlots::default(),
            first_plane: vec![0; BATCH.min(own)],
            planes: vec![],
            words: vec![],
            row_statistics: vec![],
            ordered: vec![],
            in_subset: vec![],
            gradient: vec![0.0; BATCH.min(own)],
            hessian: vec![0.0; BATCH.min(own)],
            of_outputs: vec![],
            given: None,
            columns: vec![],
            kept: None,
            permuted: vec![],
            untried: vec![],
        })
    }

    /// Makes room for the lists of its rows.
    ///
    /// # Errors
    /// [`taiga_core::Error::Memory`]; that of a full disk.
    pub fn make_lists(&mut self, spill: Option<&SpillFolder>) -> Result<()> {
        let list = || Array::zeroed("the lists of a fit's rows", self.rows, spill);
        self.lists = [list()?, list()?];
        Ok(())
    }

    /// Returns whether its rows can be listed.
    pub fn has_lists(&self) -> bool {
        self.lists[0].len() == self.rows
    }

    /// This process's row of the first row of local batch `batch`.
    pub fn first_row(&self, batch: usize) -> usize {
        (batch * self.shards + self.index) * BATCH
    }

    /// Returns the table's number of that row, by which random choices are keyed.
    fn number(&self, batch: usize) -> usize {
        self.before + self.first_row(batch)
    }

    /// Returns whether it has all rows of the table.
    pub fn alone(&self) -> bool {
        self.shards == 1 && self.whole
    }

    /// Returns the number of batches.
    pub fn batches(&self) -> usize {
        self.rows.div_ceil(BATCH)
    }

    /// Returns the rows of batch `batch`.
    pub(super) fn rows_of(&self, batch: usize) -> std::ops::Range<usize> {
        batch * BATCH..self.rows.min((batch + 1) * BATCH)
    }

    /// Gives `read` the number of an output among those of its set, and what a loss reads of rows.
    fn read_rows<R>(
        &self,
        loss: &dyn Loss,
        output: usize,
        range: std::ops::Range<usize>,
        read: impl FnOnce(usize, losses::Rows<'_>) -> R,
    ) -> R {
        let (set, output) = (output / loss.outputs(), output % loss.outputs());
        let scores: Vec<&[f32]> = self.scores[set * loss.outputs()..][..loss.outputs()].iter().map(|s| &s[range.clone()]).collect();
        let target = target_of(&self.target, &self.more_targets, output);
        let columns: Vec<&[f32]> = self.columns.iter().map(|c| &c[range.clone()]).collect();
        let weight = self.weight.as_ref().map(|w| &w[range.clone()]);
        read(output, losses::Rows { scores: &scores, target: &target[range], weight, columns: &columns })
    }

    /// Multiplies derivatives of rows by what these were drawn with.
    fn weigh_drawn(&self, range: std::ops::Range<usize>, gradient: &mut [f32], hessian: &mut [f32]) {
        if let Some(bag) = &self.bag {
            for ((bag, g), h) in bag[range].iter().zip(gradient).zip(hessian) {
                *g *= bag;
                *h *= bag;
            }
        }
    }

    /// Writes the derivatives of batch `batch` to `self.gradient` and `self.hessian`, rows not drawn with zeros; returns the
    /// range of rows.
    fn derive(&mut self, loss: &dyn Loss, output: usize, batch: usize, bagged: bool) -> std::ops::Range<usize> {
        let range = self.rows_of(batch);
        let (mut gradient, mut hessian) = (std::mem::take(&mut self.gradient), std::mem::take(&mut self.hessian));
        let (g, h) = (&mut gradient[..range.len()], &mut hessian[..range.len()]);
        match &self.given {
            Some((gradient, hessian)) => {
                g.copy_from_slice(&gradient[range.clone()]);
                h.copy_from_slice(&hessian[range.clone()]);
            }
            None => self.read_rows(loss, output, range.clone(), |output, rows| loss.derivatives(output, rows, g, h)),
        }
        if bagged {
            self.weigh_drawn(range.clone(), g, h);
        }
        (self.gradient, self.hessian) = (gradient, hessian);
        range
    }

    /// Writes the derivatives of batch `batch` of the `outputs` from `first` on, which grow a tree, to `self.of_outputs`, as [`Shard::derive`] does those of
    /// one.
    fn derive_outputs(&mut self, loss: &dyn Loss, (first, outputs): (usize, usize), batch: usize) -> std::ops::Range<usize> {
        let range = self.rows_of(batch);
        let mut all = std::mem::take(&mut self.of_outputs);
        all.resize_with(outputs, || (vec![0.0; self.gradient.len()], vec![0.0; self.hessian.len()]));
        let whole_set = self.given.is_none() && outputs == loss.outputs() && first.is_multiple_of(outputs);
        if whole_set && self.read_rows(loss, first, range.clone(), |_, rows| loss.derivatives_of_all(rows, &mut all)) {
            all.iter_mut().for_each(|(gradient, hessian)| self.weigh_drawn(range.clone(), gradient, hessian));
        } else {
            for (output, (gradient, hessian)) in (first..).zip(&mut all) {
                self.derive(loss, output, batch, true);
                std::mem::swap(gradient, &mut self.gradient);
                std::mem::swap(hessian, &mut self.hessian);
            }
        }
        self.of_outputs = all;
        range
    }

    /// Computes the exact maxima and the sums of the derivatives of the rows drawn, of each of the outputs that grow a tree, which are so many from a first
    /// one on; `least`: their least hessian too.
    pub fn magnitudes(&mut self, loss: &dyn Loss, outputs: (usize, usize), least: bool) -> Vec<Magnitudes> {
        let mut magnitudes: Vec<Magnitudes> = (0..outputs.1).map(|_| Magnitudes::of_none(least)).collect();
        for batch in 0..self.batches() {
            let range = self.derive_outputs(loss, outputs, batch);
            let n = range.len();
            for (magnitudes, (gradient, hessian)) in magnitudes.iter_mut().zip(&self.of_outputs) {
                magnitudes.add_batch(&gradient[..n], &hessian[..n]);
                magnitudes.add_least(&hessian[..n], self.bag.as_ref().map(|bag| &bag[range.clone()]));
            }
        }
        magnitudes
    }

    /// Computes for each batch the sums of the squared gradients and of the hessians of the rows drawn.
    pub fn squares(&mut self, loss: &dyn Loss, output: usize) -> Magnitudes {
        let mut squares = Magnitudes::default();
        for batch in 0..self.batches() {
            let n = self.derive(loss, output, batch, true).len();
            let gradients = self.gradient[..n].iter().fold(0.0, |sum, g| sum + *g as f64 * *g as f64);
            squares.sums.push((gradients, self.hessian[..n].iter().fold(0.0, |sum, h| sum + *h as f64)));
        }
        squares
    }

    /// Calls `visit(row, first row of the table's batch + offset, gradient, hessian)` for the
    /// derivatives of every row before drawing; what it gives becomes the row's bag weight.
    pub fn draw(&mut self, loss: &dyn Loss, output: usize, shared: &[OutputRules], mut visit: impl FnMut(usize, f32, f32) -> f32) {
        let mut bag = self.bag.take().unwrap_or_else(|| vec![0.0; self.rows]);
        for batch in 0..self.batches() {
            let first = self.number(batch);
            let range = match shared {
                [] => self.derive(loss, output, batch, false),
                shared => self.derive_together(loss, output, batch, shared),
            };
            for (i, row) in range.enumerate() {
                let held_out = self.held_out.as_ref().is_some_and(|h| h[row]);
                bag[row] = if held_out { 0.0 } else { visit(first + i, self.gradient[i], self.hessian[i]) };
            }
        }
        self.bag = Some(bag);
    }

    /// Writes the roots of the sums over the outputs from `first` on of their squared derivatives, times what each counts, where
    /// [`Shard::derive`] writes those of one.
    fn derive_together(&mut self, loss: &dyn Loss, first: usize, batch: usize, shared: &[OutputRules]) -> std::ops::Range<usize> {
        let mut sums = vec![(0.0, 0.0); BATCH];
        let mut range = 0..0;
        for (output, rules) in (first..).zip(shared) {
            range = self.derive(loss, output, batch, false);
            for ((g, h), sums) in self.gradient[..range.len()].iter().zip(&self.hessian).zip(&mut sums) {
                sums.0 += rules.importance * (*g as f64 * *g as f64);
                sums.1 += rules.importance * (*h as f64 * *h as f64);
            }
        }
        let root = |sum: f64| sum.sqrt().min(f32::MAX as f64) as f32;
        for ((g, h), sums) in self.gradient[..range.len()].iter_mut().zip(&mut self.hessian).zip(&sums) {
            (*g, *h) = (root(sums.0), root(sums.1));
        }
        range
    }

    /// Returns the rows of a small node.
    pub fn small_node(&self, node: NodeId) -> &[u32] {
        let n = self.nodes[node as usize];
        &self.lists[n.list as usize][n.start..n.start + n.len]
    }

    /// Returns a plane's statistics by row; none for a plane of ones. For groups whose features are listed.
    fn statistics_by_row(&self, p: usize, plane: Plane) -> Option<&[u32]> {
        match plane {
            Plane::UnitHessian | Plane::Count => None,
            _ if p == 0 => Some(&self.row_statistics),
            _ => Some(&self.planes[p - 1]),
        }
    }

    /// Returns the packed statistic of a row's first plane.
    #[inline(always)]
    pub fn statistic(&self, row: u32) -> u32 {
        if let Some(statistic) = self.row_statistics.get(row as usize) {
            return *statistic;
        }
        let block = &self.groups[0].blocks[0];
        let at = (row as usize + 1) * block.stride - STATISTICS;
        let bytes = &block.bytes.as_slice()[at..at + STATISTICS];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    /// Returns the rows of a node that were drawn.
    pub fn node_rows(&self, node: NodeId) -> impl Iterator<Item = usize> {
        let n = self.nodes[node as usize];
        let list = &self.lists[n.list as usize][if n.all { 0..0 } else { n.start..n.start + n.len }];
        (0..if n.all { n.len } else { 0 }).chain(list.iter().map(|r| *r as usize))
    }
}
