//! Groups of features on the device: their codes, and the histograms of the tree that grows.
//!
//! A feature has a column of codes, or shares one with others that exclude it ([`Bundles`]), or is sparse ([`SparseFeatures`]): of the
//! latter two its most frequent code is not stored, and is searched as what the others leave of a node.

use super::buffers::{Buffer, Kernels};
use super::bundling::Bundles;
use super::layouts::{ALL_STORED, FeatureInfo, Histograms, LANES, SPARSE_COLUMN, SparseRows};
use super::own_histograms::OwnHistograms;
use super::sparse_features::{SparseCandidates, SparseFeatures};
use crate::columns::codes::{CodeInput, CodePlace, quantize};
use crate::runtime::Queue;
use crate::runtime::error::driver;
use cudarc::driver::CudaSlice;
use taiga_core::error::{Error, Result};
use taiga_core::quantize::{CodeSource, CodedFeature};

/// A node's histogram in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistogramState {
    /// None: the group was opened elsewhere, or no descendant is searched.
    Absent,
    /// In the node's slot.
    HistogramJob,
    /// What the histogram in this slot leaves of the parent's, which the node's slot still holds.
    Rest(u32),
}

/// A group of features: their codes, and the histograms of nodes.
pub struct FeatureGroup {
    /// Its first feature.
    pub first: usize,
    pub features: usize,
    /// How its features share columns, where some do, and which are sparse.
    pub bundles: Option<Bundles>,
    pub sparse: Option<SparseFeatures>,
    /// The column of each feature; `SPARSE_COLUMN` where it has none.
    columns_of: Vec<u32>,
    pub columns: usize,
    /// The most codes that a column has, and the first one's.
    pub bins: usize,
    pub first_bins: usize,
    /// The most codes that a feature has.
    pub most_codes: usize,
    /// Whether a feature is of categories.
    pub categories: bool,
    pub open: bool,
    /// If so, its place among those that are, in the order in which the tree opened them.
    pub place: usize,
    /// `[block][row][32]`
    codes: Option<Buffer<u8>>,
    histograms: Option<Buffer<i64>>,
    /// Numbers of a node's histogram, in the tree that grows; and whether those of sparse features take one each.
    slot_size: usize,
    packed: bool,
    components: usize,
    /// Histograms that a node has side by side: of a tree that several outputs share.
    outputs: usize,
    rows: usize,
    /// Where the histogram of each node of the tree is.
    states: Vec<HistogramState>,
    /// How many slots, from the first on, are zero when what is queued has run.
    clear: usize,
    /// Where the histograms of these rows stand apart from those of all shards, while a tree grows whole.
    pub own: OwnHistograms,
}

/// Features whose codes are lists, or are planned to be.
pub trait SparseMembers {
    /// Whether a feature, counted in the group, is one.
    fn has(&self, feature: usize) -> bool;
}

/// How a group stores its features, beside columns of their own: shared columns, and lists.
pub struct FeatureStorage<L> {
    pub bundles: Option<Bundles>,
    pub sparse: Option<L>,
}

impl<L> Default for FeatureStorage<L> {
    fn default() -> Self {
        FeatureStorage { bundles: None, sparse: None }
    }
}

impl<L: SparseMembers> FeatureStorage<L> {
    /// Whether a feature has a column of its own.
    fn own(&self, feature: usize) -> bool {
        self.bundles.as_ref().is_none_or(|b| b.column(feature).is_none()) && self.sparse.as_ref().is_none_or(|l| !l.has(feature))
    }

    /// The column of each feature: first those of one feature, in order, then the shared ones.
    fn columns(&self, features: usize) -> Vec<u32> {
        let single = (0..features).filter(|f| self.own(*f)).count();
        let mut next = 0..single as u32;
        let column = |f: usize| match self.bundles.as_ref().and_then(|b| b.column(f)) {
            Some(shared) => (single + shared) as u32,
            None if self.own(f) => next.next().unwrap_or(SPARSE_COLUMN),
            None => SPARSE_COLUMN,
        };
        (0..features).map(column).collect()
    }

    /// How many codes each column has.
    fn column_bins(&self, features: &[CodedFeature]) -> Vec<usize> {
        let own = (0..features.len()).filter(|f| self.own(*f)).map(|f| features[f].bins());
        own.chain(self.bundles.iter().flat_map(|b| b.column_codes.iter().copied())).collect()
    }
}

impl FeatureGroup {
    /// The bins of columns of so many codes.
    fn bins_of_columns(column_bins: &[usize]) -> usize {
        column_bins.len().div_ceil(LANES) * column_bins.iter().copied().max().unwrap_or(1) * LANES
    }

    /// Numbers of a node's histogram of so many bins and sparse bins, of which each takes some. The length keeps pairs of numbers at
    /// multiples of 16 bytes.
    fn slot_size((bins, of_bin): (usize, usize), (sparse_bins, of_sparse_bin): (usize, usize)) -> usize {
        (bins * of_bin + sparse_bins * of_sparse_bin).next_multiple_of(2)
    }

    /// Bytes of a group with `slots` histograms, and of three columns of values on their way.
    pub fn bytes(
        features: &[CodedFeature],
        planned: &FeatureStorage<SparseCandidates>,
        rows: usize,
        components: usize,
        slots: usize,
    ) -> u64 {
        let bins = planned.column_bins(features);
        let codes = rows as u64 * (LANES * bins.len().div_ceil(LANES) + 3 * 8) as u64;
        let (sparse_bins, listed_bytes) = planned.sparse.as_ref().map_or((0, 0), |c| (c.bins(features), c.bytes(rows)));
        let slot = FeatureGroup::slot_size((FeatureGroup::bins_of_columns(&bins), components), (sparse_bins, components));
        codes + listed_bytes + 8 * slot as u64 * slots as u64
    }

    /// Makes the codes of a group and brings them to the device.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Interrupted`].
    #[allow(clippy::too_many_arguments)]
    pub fn new<'a>(
        queue: &Queue,
        kernels: &Kernels,
        first: usize,
        features: &'a [CodedFeature],
        sources: &[CodeSource<'a>],
        planned: FeatureStorage<SparseCandidates>,
        rows: usize,
        components: usize,
        slots: usize,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<FeatureGroup> {
        if interrupted() {
            return Err(Error::Interrupted);
        }
        let source = |f: usize| match sources[f] {
            CodeSource::Values(column) => CodeInput::Values(column, &features[f].borders, features[f].first()),
            CodeSource::Codes(codes) => CodeInput::Codes(codes),
        };
        let FeatureStorage { mut bundles, sparse: candidates } = planned;
        let sparse = match candidates {
            Some(candidates) => SparseFeatures::new(queue, kernels, features, source, &candidates, rows, interrupted)?,
            None => None,
        };
        let shared = bundles.as_mut().map_or(vec![], |b| b.codes(rows));
        let storage = FeatureStorage { bundles, sparse };
        let own = (0..features.len()).filter(|f| storage.own(*f)).map(source);
        let all = own.chain(shared.iter().map(|codes| CodeInput::Codes(codes)));
        let columns: Vec<(CodeInput<'_>, CodePlace)> = all.enumerate().map(|(i, source)| (source, FeatureGroup::place(i, rows))).collect();
        FeatureGroup::filled(queue, first, features, storage, rows, components, slots, |codes| quantize(queue, &columns, codes).map(drop))
    }

    /// Where the codes of column `i` of a group go.
    pub fn place(i: usize, rows: usize) -> CodePlace {
        CodePlace { first: i / LANES * rows * LANES + i % LANES, stride: LANES }
    }

    /// A group whose codes `fill` writes, each column's to its [`FeatureGroup::place`]: those of features that have one, then
    /// the shared ones.
    ///
    /// # Errors
    /// [`Error::Device`], and those of `fill`.
    #[allow(clippy::too_many_arguments)]
    pub fn filled(
        queue: &Queue,
        first: usize,
        features: &[CodedFeature],
        storage: FeatureStorage<SparseFeatures>,
        rows: usize,
        components: usize,
        slots: usize,
        fill: impl FnOnce(&mut CudaSlice<u8>) -> Result<()>,
    ) -> Result<FeatureGroup> {
        let column_bins = storage.column_bins(features);
        let n = column_bins.len();
        let mut codes = Buffer::new(queue, "codes", n.div_ceil(LANES) * rows * LANES)?;
        // The last block's columns that are no features are read along.
        queue.clear(&mut codes.slice)?;
        fill(&mut codes.slice)?;
        let bins = column_bins.iter().copied().max().unwrap_or(1);
        let packed = components == 2 && storage.sparse.as_ref().is_some_and(|l| l.fits_one);
        let sparse_bins = storage.sparse.as_ref().map_or(0, |l| l.bins);
        let slot_size = FeatureGroup::slot_size(
            (FeatureGroup::bins_of_columns(&column_bins), components),
            (sparse_bins, if packed { 1 } else { components }),
        );
        let histograms = Buffer::new(queue, "histograms", slot_size * slots)?;
        Ok(FeatureGroup {
            first,
            features: features.len(),
            columns_of: storage.columns(features.len()),
            bundles: storage.bundles,
            sparse: storage.sparse,
            columns: n,
            bins,
            most_codes: features.iter().map(CodedFeature::bins).max().unwrap_or(1),
            categories: features.iter().any(|f| f.categories),
            first_bins: column_bins.first().copied().unwrap_or(1),
            open: false,
            place: 0,
            codes: Some(codes),
            histograms: Some(histograms),
            slot_size,
            packed,
            components,
            outputs: 1,
            rows,
            states: vec![],
            clear: 0,
            own: OwnHistograms::default(),
        })
    }

    /// Lets nodes have a histogram for each of `outputs` outputs.
    pub fn shared_by(self, outputs: usize) -> FeatureGroup {
        FeatureGroup { outputs, ..self }
    }

    /// Returns how many histograms a node has.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Numbers of a node's histogram of one output.
    pub fn slot_size_of_output(&self) -> usize {
        self.slot_size
    }

    /// Where the histograms are.
    pub fn address(&self) -> u64 {
        self.histograms.as_ref().map_or(0, |h| h.address)
    }

    /// The histograms, one slot behind the other.
    pub fn histograms(&mut self) -> Option<&mut Buffer<i64>> {
        self.histograms.as_mut()
    }

    /// The numbers of the histograms in some slots, counted from the first slot's first.
    pub fn span(&self, slots: std::ops::Range<usize>) -> std::ops::Range<usize> {
        slots.start * self.numbers_of_node()..slots.end * self.numbers_of_node()
    }

    /// Numbers of all histograms of a node.
    fn numbers_of_node(&self) -> usize {
        self.slot_size * self.outputs
    }

    /// Frees what it takes.
    pub fn clear(&mut self) {
        (self.codes, self.histograms, self.own) = (None, None, OwnHistograms::default());
        self.reset(false);
    }

    /// Forgets the last tree.
    pub fn reset(&mut self, open: bool) {
        self.open = open;
        self.states.clear();
    }

    /// The number of blocks of columns.
    pub fn blocks(&self) -> usize {
        self.columns.div_ceil(LANES)
    }

    /// Whether one block of columns is all there is.
    pub fn is_one_block(&self) -> bool {
        self.blocks() == 1 && self.sparse.is_none()
    }

    /// Tells the kernels where a feature's codes are.
    pub fn describe(&self, feature: usize, table: &mut FeatureInfo) {
        let inside = feature - self.first;
        (table.column, table.usual) = (self.columns_of[inside], ALL_STORED);
        if let Some(bundles) = &self.bundles {
            bundles.describe(inside, table);
        }
        if let Some(sparse) = &self.sparse {
            sparse.describe(inside, table);
        }
    }

    /// The address of a feature's code in row 0, those of the next rows being 32 bytes apart; or what stands for it where the
    /// feature is sparse.
    pub fn codes_of(&self, feature: usize) -> u64 {
        let inside = feature - self.first;
        let address = || {
            let column = self.columns_of[inside] as usize;
            self.codes_address() + (column / LANES * self.rows * LANES + column % LANES) as u64
        };
        self.sparse.as_ref().and_then(|l| l.codes_of(inside)).unwrap_or_else(address)
    }

    /// The lists of its sparse features.
    pub fn entries(&self) -> SparseRows {
        self.sparse.as_ref().map_or(SparseRows::default(), SparseFeatures::table)
    }

    fn codes_address(&self) -> u64 {
        self.codes.as_ref().map_or(0, |c| c.address)
    }

    /// What kernels are told that sum rows.
    pub fn table(&self, component: u32) -> Histograms {
        Histograms { slots: self.own.summed().unwrap_or(self.address()), ..self.search_table(component) }
    }

    /// What kernels are told that search.
    pub fn search_table(&self, component: u32) -> Histograms {
        Histograms {
            codes: self.codes_address(),
            rows: self.rows as u64,
            slots: self.address(),
            slot_size: self.numbers_of_node() as u64,
            features: self.columns as u32,
            bins: self.bins as u32,
            components: self.components as u32,
            component,
            first_sparse_bin: self.first_sparse_bin() as u64,
            packed: self.packed as u32,
            unused: 0,
        }
    }

    /// The same for the histograms of one of the outputs.
    pub fn table_of(&self, output: usize, component: u32) -> Histograms {
        let table = self.table(component);
        Histograms { slots: table.slots + 8 * (output * self.slot_size) as u64, ..table }
    }

    /// The bins of all columns.
    fn first_sparse_bin(&self) -> usize {
        self.blocks() * self.bins * LANES
    }

    /// How a tree keeps the bins of sparse features, whose statistics are narrow or not: before its histograms are zeroed. Gives
    /// whether that is another way than the last tree's.
    pub fn keep(&mut self, queue: &Queue, narrow: bool) -> Result<bool> {
        let Some(sparse) = &self.sparse else { return Ok(false) };
        let packed = narrow && self.components == 2 && sparse.fits_one;
        if packed == self.packed {
            return Ok(false);
        }
        let each = if packed { 1 } else { self.components };
        self.slot_size = FeatureGroup::slot_size((self.first_sparse_bin(), self.components), (sparse.bins, each));
        (self.packed, self.clear) = (packed, 0);
        self.reserve(queue, 1, 0)?;
        Ok(true)
    }

    /// Whether sparse bins take one number each.
    pub fn is_packed(&self) -> bool {
        self.packed
    }

    /// A node's histogram.
    pub fn state(&self, node: u32) -> HistogramState {
        self.states.get(node as usize).copied().unwrap_or(HistogramState::Absent)
    }

    /// Notes where a node's histogram is.
    pub fn set_state(&mut self, node: u32, state: HistogramState) {
        if self.states.len() <= node as usize {
            self.states.resize(node as usize + 1, HistogramState::Absent);
        }
        self.states[node as usize] = state;
    }

    /// Makes room for `slots` slots, keeping the first `used`.
    pub fn reserve(&mut self, queue: &Queue, slots: usize, used: usize) -> Result<()> {
        let (need, each) = (slots * self.numbers_of_node(), self.numbers_of_node());
        let Some(histograms) = self.histograms.as_mut().filter(|h| h.slice.len() < need) else { return Ok(()) };
        let have = histograms.slice.len();
        let mut larger: Buffer<i64> = Buffer::new(queue, "histograms", need.max(have * 2))?;
        let kept = (used * each).min(have);
        if kept > 0 {
            let copied = queue.stream().memcpy_dtod(&histograms.slice.slice(..kept), &mut larger.slice.slice_mut(..kept));
            copied.map_err(|e| driver(queue.gpu(), "copying histograms", e))?;
        }
        *histograms = larger;
        self.clear = 0;
        Ok(())
    }

    /// Sets the first `slots` slots to zero for a tree that grows whole on the device, where the one before it has not done so.
    pub fn clear_first(&mut self, queue: &Queue, slots: usize) -> Result<()> {
        if self.own.summed().is_some() {
            let numbers = self.span(0..slots).end;
            return self.own.clear_first(queue, slots, numbers);
        }
        if self.clear < slots { self.zero(queue, 0..slots) } else { Ok(()) }
    }

    /// The same as a kernel does it at the end of such a tree: where they are, and how many words of 16 bytes.
    pub fn clear_behind(&mut self, slots: usize) -> (u64, u64) {
        let words = (slots * self.slot_size / 2) as u64;
        if self.own.summed().is_some() {
            return (self.own.clear_behind(slots), words);
        }
        self.clear = slots;
        (self.address(), words)
    }

    /// Sets slots to zero.
    pub fn zero(&mut self, queue: &Queue, slots: std::ops::Range<usize>) -> Result<()> {
        self.clear = 0;
        let range = self.span(slots);
        match &mut self.histograms {
            Some(histograms) if !range.is_empty() => queue.clear(&mut histograms.slice.slice_mut(range)),
            _ => Ok(()),
        }
    }
}
