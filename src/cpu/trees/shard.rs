//! The rows that one thread owns for a whole fit, and what it does with them.

mod group;
mod levels;
mod partial;
mod replay;

pub(crate) use super::codes::STATISTICS;
use super::feature_groups::{Group, group_of};
use super::gradient_quantizer::{BATCH, BinsMut, GradientQuantizer, Magnitudes, Plane, add_plane};
pub(crate) use super::histogram::{MAX_ROWS, expand};
use super::partition;
use super::partition::{CodeTest, Done, FeatureCodes, Source};
use taiga_core::collective::RowShard;
use taiga_core::error::Result;
use taiga_core::learners::boosting::layout::Home;
use taiga_core::losses::Loss;
use taiga_core::numerics::random::Random;
use taiga_core::quantize::{CodeSet, CodedFeature};
use taiga_core::tree::Tree;
use taiga_core::tree::split::Sums;
use taiga_core::tree::steps::{Division, NodeId};
use taiga_core::{losses, pages};

pub use group::ShardGroup;
pub use partial::Partial;

/// Up to so many rows are searched one by one, where the bins of a histogram would outnumber them.
pub const FEW_ROWS: usize = 48;

/// Rows of up to so many have their statistics once more side by side, where each block of codes wants them in order.
const STATISTICS_ROWS: usize = 1 << 22;

/// Where a node's rows stand in a shard's lists.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeRows {
    /// Which of the two lists.
    pub list: u8,
    pub start: usize,
    pub len: usize,
    /// Where the other list has room for them.
    spare: usize,
    /// All rows of the shard in order, written to no list.
    all: bool,
}

/// A share of the rows. Row `r` of the table is in batch `r / BATCH`, which is dealt to shard
/// `batch % shards`, so that sorted tables leave no thread idle.
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
    pub target: Vec<f32>,
    pub weight: Option<Vec<f32>>,
    /// `[output][row]`, those of a set behind those of another.
    pub scores: Vec<Vec<f32>>,
    /// `true` for rows that are not trained on.
    pub held_out: Option<Vec<bool>>,
    /// What a row counts in this tree; 0 for one that was not drawn.
    pub bag: Option<Vec<f32>>,
    /// `[output][row]`: the leaf of the output's last tree.
    leaf: Vec<Vec<u16>>,
    /// `[output][leaf]`
    leaf_values: Vec<Vec<f32>>,
    /// Whether rows note the node that they are in ([`levels`]), in `leaf`, and are not listed.
    by_node: bool,
    lists: [Vec<u32>; 2],
    pub nodes: Vec<NodeRows>,
    /// Nodes whose rows note that they are in a node, and are in that one's parent again.
    taken_back: Vec<(NodeId, NodeId)>,
    /// Whether this tree's nodes are searched by the groups' sorted rows, without histograms.
    pub few: bool,
    /// The first plane of a batch.
    first_plane: Vec<u32>,
    /// Planes behind the first one, by row; empty for planes of ones.
    planes: Vec<Vec<u32>>,
    /// The first plane once more, by row, where features are sparse or codes in several blocks.
    row_statistics: Vec<u32>,
    /// Statistics in the order of a list.
    ordered: Vec<u32>,
    /// By row, whether its category goes right.
    in_subset: Vec<u8>,
    gradient: Vec<f32>,
    hessian: Vec<f32>,
}

/// The tree that grows.
pub struct TreeContext<'a> {
    pub output: usize,
    pub encoding: &'a GradientQuantizer,
    pub rounding: Random,
    pub features: &'a [CodedFeature],
    pub groups: &'a [Group],
    pub subsets: &'a [CodeSet],
}

impl TreeContext<'_> {
    /// The groups whose features may split.
    fn open(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.groups.len()).filter(|g| self.groups[*g].open)
    }
}

/// The rows that a table of `rows` rows gives to shard `index`.
pub fn share(rows: usize, index: usize, shards: usize) -> usize {
    let (full, rest) = (rows / BATCH, rows % BATCH);
    let batches = full / shards + (index < full % shards) as usize;
    batches * BATCH + if index == full % shards { rest } else { 0 }
}

/// The test that sends a row's code left or right.
pub fn code_test(feature: &CodedFeature, border: u32, missing_left: bool) -> CodeTest {
    CodeTest::new(feature.first() + border as usize, missing_left || !feature.missing_bin)
}

impl Shard {
    /// An empty shard with room for its share of `rows` rows, without codes.
    pub fn new(rows: usize, of: RowShard<'_>, index: usize, shards: usize, outputs: usize) -> Result<Shard> {
        let own = share(rows, index, shards);
        Ok(Shard {
            before: of.first,
            whole: of.is_whole(),
            index,
            shards,
            rows: own,
            groups: vec![],
            target: vec![],
            weight: None,
            scores: vec![],
            held_out: None,
            bag: None,
            leaf: (0..outputs).map(|_| pages::try_filled("the leaves of a fit's rows", 0, own)).collect::<Result<_>>()?,
            leaf_values: vec![vec![]; outputs],
            by_node: false,
            lists: [pages::try_zeroed("the lists of a fit's rows", own)?, pages::try_zeroed("the lists of a fit's rows", own)?],
            nodes: vec![],
            taken_back: vec![],
            few: false,
            first_plane: vec![0; BATCH.min(own)],
            planes: vec![],
            row_statistics: vec![],
            ordered: vec![],
            in_subset: vec![],
            gradient: vec![0.0; BATCH.min(own)],
            hessian: vec![0.0; BATCH.min(own)],
        })
    }

    /// This process's row of the first row of local batch `batch`.
    pub fn first_row(&self, batch: usize) -> usize {
        (batch * self.shards + self.index) * BATCH
    }

    /// The table's number of that row, by which random choices are keyed.
    fn number(&self, batch: usize) -> usize {
        self.before + self.first_row(batch)
    }

    /// Whether it has all rows.
    pub fn alone(&self) -> bool {
        self.shards == 1 && self.whole
    }

    /// The number of batches.
    pub fn batches(&self) -> usize {
        self.rows.div_ceil(BATCH)
    }

    /// Writes the derivatives of batch `batch` to `self.gradient` and `self.hessian`, rows not
    /// drawn with zeros; gives the range of rows.
    fn derive(&mut self, loss: &dyn Loss, output: usize, batch: usize, bagged: bool) -> std::ops::Range<usize> {
        let range = batch * BATCH..self.rows.min((batch + 1) * BATCH);
        let (set, output) = (output / loss.outputs(), output % loss.outputs());
        let scores: Vec<&[f32]> = self.scores[set * loss.outputs()..][..loss.outputs()].iter().map(|s| &s[range.clone()]).collect();
        let rows =
            losses::Rows { scores: &scores, target: &self.target[range.clone()], weight: self.weight.as_ref().map(|w| &w[range.clone()]) };
        let (g, h) = (&mut self.gradient[..range.len()], &mut self.hessian[..range.len()]);
        loss.derivatives(output, rows, g, h);
        if bagged && let Some(bag) = &self.bag {
            for (i, b) in bag[range.clone()].iter().enumerate() {
                g[i] *= b;
                h[i] *= b;
            }
        }
        range
    }

    /// Exact maxima and sums of the derivatives of the rows drawn.
    pub fn magnitudes(&mut self, loss: &dyn Loss, output: usize) -> Magnitudes {
        let mut magnitudes = Magnitudes::default();
        for batch in 0..self.batches() {
            let n = self.derive(loss, output, batch, true).len();
            magnitudes.add_batch(&self.gradient[..n], &self.hessian[..n]);
        }
        magnitudes
    }

    /// Calls `visit(row, first row of the table's batch + offset, gradient, hessian)` for the
    /// derivatives of every row before drawing; what it gives becomes the row's bag weight.
    pub fn draw(&mut self, loss: &dyn Loss, output: usize, mut visit: impl FnMut(usize, f32, f32) -> f32) {
        let mut bag = self.bag.take().unwrap_or_else(|| vec![0.0; self.rows]);
        for batch in 0..self.batches() {
            let first = self.number(batch);
            let range = self.derive(loss, output, batch, false);
            for (i, row) in range.enumerate() {
                let held_out = self.held_out.as_ref().is_some_and(|h| h[row]);
                bag[row] = if held_out { 0.0 } else { visit(first + i, self.gradient[i], self.hessian[i]) };
            }
        }
        self.bag = Some(bag);
    }

    /// Starts a tree: rounds the derivatives and sums the root's histogram.
    pub fn root(&mut self, loss: &dyn Loss, tree: &TreeContext<'_>) {
        self.groups.iter_mut().for_each(ShardGroup::recycle);
        self.by_node = false;
        let planes = &tree.encoding.planes;
        self.few = self.groups[0].sorted.is_some() && *planes == [Plane::Both];
        let summed = if self.few { 0..0 } else { 0..self.groups.len() };
        let summed = summed.filter(|g| tree.groups[*g].open);
        let mut partials: Vec<(usize, Partial)> = summed.map(|g| (g, self.new_partial(g))).collect();
        self.planes.resize_with(planes.len() - 1, Vec::new);
        for (p, values) in self.planes.iter_mut().enumerate() {
            values.resize(if planes[p + 1] == Plane::Hessian { self.rows } else { 0 }, 0);
        }
        let several = self.groups[0].blocks.len() > 1 && self.rows <= STATISTICS_ROWS;
        let by_row = several || !tree.groups[0].plan.sparse.is_empty();
        self.row_statistics.resize(if by_row { self.rows } else { 0 }, 0);
        let listed = self.bag.is_some();
        let mut drawn = 0;
        let stride = self.groups[0].blocks[0].stride;
        let mut first = std::mem::take(&mut self.first_plane);
        for batch in 0..self.batches() {
            let range = self.derive(loss, tree.output, batch, true);
            let n = range.len();
            let first_row = self.number(batch);
            {
                let mut out: Vec<&mut [u32]> = vec![&mut first[..n]];
                out.extend(self.planes.iter_mut().filter(|p| !p.is_empty()).map(|p| &mut p[range.clone()]));
                tree.encoding.pack(&self.gradient[..n], &self.hessian[..n], tree.rounding, first_row, &mut out);
            }
            let rows = &mut self.groups[0].blocks[0].bytes.as_mut_slice()[range.start * stride..range.end * stride];
            for (row, packed) in rows.chunks_exact_mut(stride).zip(&first[..n]) {
                row[stride - STATISTICS..].copy_from_slice(&packed.to_le_bytes());
            }
            if !self.row_statistics.is_empty() {
                self.row_statistics[range.clone()].copy_from_slice(&first[..n]);
            }
            match &self.bag {
                Some(bag) => {
                    for row in range {
                        self.lists[0][drawn] = row as u32;
                        drawn += (bag[row] != 0.0) as usize;
                    }
                }
                None => {
                    for (g, partial) in &mut partials {
                        self.accumulate(*g, partial, tree, Source::All, 0, range.start, n, Some(&first[..n]));
                    }
                }
            }
        }
        self.nodes.clear();
        self.nodes.push(NodeRows { list: 0, start: 0, len: if listed { drawn } else { self.rows }, spare: 0, all: !listed });
        for (g, mut partial) in partials {
            if listed {
                self.accumulate(g, &mut partial, tree, Source::List, 0, 0, drawn, None);
            }
            self.groups[g].partials.push(partial);
        }
        self.first_plane = first;
        self.groups.iter_mut().filter_map(|g| g.sorted.as_mut()).for_each(|sorted| sorted.reset());
        if self.few {
            tree.open().for_each(|g| self.sort_node(g, 0));
        }
    }

    /// Fills in a node's sorted rows in a group.
    fn sort_node(&mut self, group: usize, node: NodeId) {
        let n = self.nodes[node as usize];
        let drawn = (!n.all).then(|| &self.lists[n.list as usize][n.start..n.start + n.len]);
        if let Some(sorted) = &mut self.groups[group].sorted {
            // A table of few rows is one batch.
            sorted.open(n, drawn, &self.first_plane);
            sorted.note(node);
        }
    }

    /// Parts the sorted rows of a divided node in a group; where that was opened after the node had
    /// been left aside, fills in those of its children.
    fn sort_children(&mut self, group: usize, d: &Division, parent: NodeRows, left: usize) {
        let Some(sorted) = &mut self.groups[group].sorted else { return };
        if !sorted.knows(d.parent) {
            return [d.left, d.right].into_iter().for_each(|node| self.sort_node(group, node));
        }
        let rows = &self.lists[1 - parent.list as usize][parent.start..parent.start + parent.len];
        sorted.divide(parent, rows, left);
        sorted.note(d.left);
        sorted.note(d.right);
    }

    /// Sums the histograms of a group in nodes, one partial for each.
    pub fn open_group(&mut self, group: usize, nodes: &[NodeId], tree: &TreeContext<'_>) {
        if self.few {
            return nodes.iter().for_each(|n| self.sort_node(group, *n));
        }
        self.groups[group].recycle();
        self.list_rows(tree.output, &[]);
        for node in nodes {
            let partial = self.sum_node(group, *node, tree);
            self.groups[group].partials.push(partial);
        }
    }

    /// The partial histogram of a node, from its rows.
    fn sum_node(&mut self, group: usize, node: NodeId, tree: &TreeContext<'_>) -> Partial {
        let mut partial = self.new_partial(group);
        let n = self.nodes[node as usize];
        let source = if n.all { Source::All } else { Source::List };
        self.accumulate(group, &mut partial, tree, source, n.list as usize, n.start, n.len, None);
        partial
    }

    /// Carries out the divisions: parts the rows and sums the smaller children's histograms in the
    /// open groups, in order for each division that asks for histograms.
    /// Gives whether each division has any: none does where the rows of both children are so few
    /// that they are searched one by one.
    pub fn divide(&mut self, divisions: &[Division], tree: &TreeContext<'_>) -> Vec<bool> {
        self.groups.iter_mut().for_each(ShardGroup::recycle);
        if self.divides_level(divisions, tree) {
            return self.divide_level(divisions, tree);
        }
        self.list_rows(tree.output, &[]);
        divisions.iter().map(|d| self.divide_one(d, tree)).collect()
    }

    /// Whether nodes of at most [`FEW_ROWS`] rows are searched without histograms: where one shard
    /// has all of a node's rows and can read their codes by feature.
    fn searches_rows(&self, tree: &TreeContext<'_>) -> bool {
        let codes_at_hand = self.groups[0].columns.is_some() && tree.groups[0].plan.sparse.is_empty();
        self.alone() && codes_at_hand && tree.encoding.planes == [Plane::Both]
    }

    /// The rows of a small node.
    pub fn small_node(&self, node: NodeId) -> &[u32] {
        let n = self.nodes[node as usize];
        &self.lists[n.list as usize][n.start..n.start + n.len]
    }

    /// A plane's statistics by row; none for a plane of ones. For groups whose features are listed.
    fn statistics_by_row(&self, p: usize, plane: Plane) -> Option<&[u32]> {
        match plane {
            Plane::UnitHessian | Plane::Count => None,
            _ if p == 0 => Some(&self.row_statistics),
            _ => Some(&self.planes[p - 1]),
        }
    }

    /// The sums over the root's rows. For groups with sparse features.
    pub fn root_sums(&self, encoding: &GradientQuantizer) -> Sums {
        let (mut gradient, mut hessian, mut count) = ([0], [0], [0]);
        let rows: Vec<usize> = self.node_rows(0).collect();
        for rows in rows.chunks(MAX_ROWS) {
            for (p, plane) in encoding.planes.iter().enumerate() {
                let word = match self.statistics_by_row(p, *plane) {
                    Some(statistics) => rows.iter().fold(0, |sum, row| expand(statistics[*row]).wrapping_add(sum)),
                    None => rows.len() as u64,
                };
                add_plane(*plane, &[word], BinsMut { gradient: &mut gradient, hessian: &mut hessian, count: &mut count });
            }
        }
        Sums { gradient: gradient[0], hessian: hessian[0], count: count[0] }
    }

    /// The packed statistic of a row's first plane.
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

    fn divide_one(&mut self, d: &Division, tree: &TreeContext<'_>) -> bool {
        let few = self.searches_rows(tree) && self.nodes[d.parent as usize].len <= 2 * FEW_ROWS;
        let parent = self.nodes[d.parent as usize];
        let feature = &tree.features[d.split.feature as usize];
        let mut test = match feature.categories {
            true => CodeTest::new(0, true),
            false => code_test(feature, d.split.border, d.split.missing_left),
        };
        let (from, to) = (parent.list as usize, 1 - parent.list as usize);
        let (start, len, spare) = (parent.start, parent.len, parent.spare);
        let source = if parent.all { Source::All } else { Source::List };
        // Where the rows' one block is read to part them, they are added while their lines are
        // still in the first-level cache.
        let (group, inside) = group_of(tree.groups, d.split.feature as usize);
        if feature.categories {
            self.mark_subset(d, tree);
        }
        let one_block = self.groups[0].columns.is_none() && tree.open().count() == 1 && self.groups[0].blocks.len() == 1;
        let step = if d.histograms && one_block { 256 } else { len.max(1) };
        // The column that parts the rows; none for a listed feature, whose rows are flagged.
        let plan = &tree.groups[group].plan;
        let column = match plan.homes[inside] {
            Home::Column(column) => Some(column),
            Home::Sparse(k) => {
                let sparse = &plan.sparse[k];
                let of_feature = test;
                match (sparse.column, &mut self.groups[group].sparse) {
                    (None, Some(rows)) => {
                        let node = (!parent.all).then(|| &self.lists[from][start..start + len]);
                        test = rows.flag(k, of_feature, node);
                    }
                    _ => test = CodeTest::of(|code| of_feature.right(sparse.code_of(code))),
                }
                sparse.column.map(|(column, _)| column)
            }
        };
        let mut summed = d.histograms && !self.few;
        let mut partials: Vec<(usize, Partial)> = vec![];
        if summed {
            let smaller = |g: &usize| !tree.groups[*g].sums_both(d);
            partials.extend(tree.open().filter(smaller).map(|g| (g, self.new_partial(g))));
        }
        let mut done = Done::default();
        let mut at_row = 0;
        while at_row < len {
            let end = len.min(at_row + step);
            let before = done;
            {
                let (low, high) = self.lists.split_at_mut(1);
                let (source_list, left) = if from == 0 { (&mut low[0], &mut high[0]) } else { (&mut high[0], &mut low[0]) };
                let codes = match (column, &self.groups[group].sparse) {
                    _ if feature.categories => FeatureCodes { bytes: &self.in_subset, stride: 1 },
                    (None, Some(rows)) => rows.flags(),
                    (column, _) => self.groups[group].column(&plan.layout, column.unwrap_or_default()),
                };
                let (source_list, left) = (&mut source_list[start..start + len], &mut left[spare..spare + len]);
                // SAFETY: lists hold nothing but rows of this shard: they are filled in `root` and
                // by `divide` itself.
                unsafe { partition::divide(codes, test, source, source_list, at_row, end, left, &mut done) };
            }
            if few && done.left.max(done.right) <= FEW_ROWS {
                // All rows have been parted: `few` goes with codes by feature, which are read in one step.
                partials.drain(..).for_each(|(g, p)| self.groups[g].spare.push(p));
                summed = false;
            }
            for (g, partial) in &mut partials {
                let (list, first, n) = if d.left_is_smaller {
                    (to, spare + before.left, done.left - before.left)
                } else {
                    (from, start + before.right, done.right - before.right)
                };
                self.accumulate(*g, partial, tree, Source::List, list, first, n, None);
            }
            at_row = end;
        }
        if let (None, Some(rows)) = (column, &mut self.groups[group].sparse) {
            rows.clear();
        }
        // Each child's rows leave the other room in the list where they are not.
        let mut left = NodeRows { list: to as u8, start: spare, len: done.left, spare: start + done.right, all: false };
        let mut right = NodeRows { list: from as u8, start, len: done.right, spare: spare + done.left, all: false };
        if self.few {
            // Sorted rows stand as these do.
            self.join(&mut left, &mut right);
        }
        let last = d.left.max(d.right) as usize;
        if self.nodes.len() <= last {
            self.nodes.resize(last + 1, NodeRows::default());
        }
        (self.nodes[d.left as usize], self.nodes[d.right as usize]) = (left, right);
        if self.few && d.histograms {
            tree.open().for_each(|g| self.sort_children(g, d, parent, done.left));
        }
        partials.into_iter().for_each(|(g, p)| self.groups[g].partials.push(p));
        if summed {
            for g in tree.open().filter(|g| tree.groups[*g].sums_both(d)) {
                for node in [d.left, d.right] {
                    let partial = self.sum_node(g, node, tree);
                    self.groups[g].partials.push(partial);
                }
            }
        }
        summed
    }

    /// Puts the rows of two children into their parent again, at the end of a tree.
    pub fn take_back(&mut self, divisions: &[Division]) {
        for d in divisions {
            if self.by_node {
                self.taken_back.extend([(d.left, d.parent), (d.right, d.parent)]);
                continue;
            }
            let (mut left, mut right) = (self.nodes[d.left as usize], self.nodes[d.right as usize]);
            self.join(&mut left, &mut right);
            self.nodes[d.parent as usize] = NodeRows { len: left.len + right.len, spare: left.spare.min(right.spare), ..left };
        }
    }

    /// Puts the rows of two children one behind the other.
    fn join(&mut self, left: &mut NodeRows, right: &mut NodeRows) {
        if right.list != left.list {
            let (low, high) = self.lists.split_at_mut(1);
            let (source, target) = if left.list == 0 { (&high[0], &mut low[0]) } else { (&low[0], &mut high[0]) };
            target[right.spare..right.spare + right.len].copy_from_slice(&source[right.start..right.start + right.len]);
            *right = NodeRows { list: left.list, start: right.spare, spare: right.start, ..*right };
            // The other list has room for both from where the right one's rows were.
            (left.spare, right.spare) = (right.spare, right.spare + left.len);
        }
    }

    /// Writes 1 for the rows of a division's parent whose category goes right, and 0 for the others.
    fn mark_subset(&mut self, d: &Division, tree: &TreeContext<'_>) {
        let mut marks = std::mem::take(&mut self.in_subset);
        marks.resize(self.rows, 0);
        let (group, inside) = group_of(tree.groups, d.split.feature as usize);
        let plan = &tree.groups[group].plan;
        let subset = &tree.subsets[d.split.border as usize];
        for row in self.node_rows(d.parent) {
            marks[row] = subset.contains(self.groups[group].code(plan, inside, row)) as u8;
        }
        self.in_subset = marks;
    }

    /// The rows of a node that were drawn.
    fn node_rows(&self, node: NodeId) -> impl Iterator<Item = usize> {
        let n = self.nodes[node as usize];
        let list = &self.lists[n.list as usize][if n.all { 0..0 } else { n.start..n.start + n.len }];
        (0..if n.all { n.len } else { 0 }).chain(list.iter().map(|r| *r as usize))
    }

    /// Gives every row its leaf and sums the derivatives of the rows drawn: fixed-point gradient
    /// and hessian, and the count, for each leaf.
    pub fn end_tree(&mut self, loss: &dyn Loss, tree: &TreeContext<'_>, grown: &Tree, leaves: &[NodeId]) -> Vec<((i64, i64), u64)> {
        let mut leaf = std::mem::take(&mut self.leaf[tree.output]);
        let mut leaf_of = vec![0; if self.by_node { self.nodes.len() } else { 0 }];
        for (i, node) in leaves.iter().enumerate() {
            let n = self.nodes[*node as usize];
            if self.by_node {
                leaf_of[*node as usize] = i as u16;
            } else if n.all {
                leaf.fill(i as u16);
            } else {
                for row in &self.lists[n.list as usize][n.start..n.start + n.len] {
                    leaf[*row as usize] = i as u16;
                }
            }
        }
        for (child, parent) in self.taken_back.drain(..) {
            leaf_of[child as usize] = leaf_of[parent as usize];
        }
        self.route_others(grown, tree, &mut leaf);
        let mut sums = vec![(0i64, 0i64); leaves.len()];
        for batch in 0..self.batches() {
            let range = self.derive(loss, tree.output, batch, true);
            let n = range.len();
            if self.by_node {
                leaf[range.clone()].iter_mut().for_each(|l| *l = leaf_of[*l as usize]);
            }
            tree.encoding.add_to_leaves(&self.gradient[..n], &self.hessian[..n], &leaf[range], &mut sums);
        }
        self.leaf[tree.output] = leaf;
        let counts = match self.by_node {
            true => self.count_noted(tree.output, leaves.len()),
            false => leaves.iter().map(|node| self.nodes[*node as usize].len).collect(),
        };
        sums.into_iter().zip(counts.into_iter().map(|n| n as u64)).collect()
    }

    /// Appends the residuals `target - score` of the rows of a node that were drawn, and their
    /// weights where rows have any.
    pub fn residuals(&self, output: usize, node: NodeId, values: &mut Vec<f64>, weights: &mut Vec<f32>) {
        values.extend(self.node_rows(node).map(|row| (self.target[row] - self.scores[output][row]) as f64));
        if self.weight.is_some() || self.bag.is_some() {
            let weight = |row: usize| self.weight.as_ref().map_or(1.0, |w| w[row]) * self.bag.as_ref().map_or(1.0, |b| b[row]);
            weights.extend(self.node_rows(node).map(weight));
        }
    }

    /// Remembers the values of the leaves of an output's last tree.
    pub fn set_leaf_values(&mut self, output: usize, values: &[f32]) {
        self.leaf_values[output].clear();
        self.leaf_values[output].extend_from_slice(values);
    }

    /// Adds the leaf values of each output's last tree to the scores.
    pub fn update_scores(&mut self) {
        for ((scores, leaf), values) in self.scores.iter_mut().zip(&self.leaf).zip(&self.leaf_values) {
            for (s, l) in scores.iter_mut().zip(leaf) {
                *s += values[*l as usize];
            }
        }
    }
}
