//! Groups of features on the device: their codes, and the histograms of the tree that grows.
//!
//! A feature has a column of codes, or shares one with others that exclude it ([`Bundles`]): then its most frequent code is
//! not stored, and is searched as what the others leave of a node.

use super::bundles::Bundles;
use super::memory::Buffer;
use super::tables::{Histograms, LANES};
use crate::backend::cuda::Queue;
use crate::backend::cuda::codes::{Place, Source, quantize};
use crate::backend::cuda::error::driver;
use crate::backend::{CodeSource, CodedFeature};
use crate::error::{Error, Result};
use cudarc::driver::CudaSlice;

/// A node's histogram in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// None: the group was opened elsewhere, or no descendant is searched.
    Absent,
    /// In the node's slot.
    Summed,
    /// What the histogram in this slot leaves of the parent's, which the node's slot still holds.
    Rest(u32),
}

/// A group.
pub struct Group {
    /// Its first feature.
    pub first: usize,
    pub features: usize,
    /// How its features share columns, where some do.
    pub bundles: Option<Bundles>,
    pub columns: usize,
    /// The most codes that a column has, and the first one's.
    pub bins: usize,
    pub first_bins: usize,
    /// Whether no feature has more codes than a warp has lanes, and none is of categories.
    pub few: bool,
    pub open: bool,
    /// `[block][row][32]`
    codes: Option<Buffer<u8>>,
    histograms: Option<Buffer<i64>>,
    slot_size: usize,
    components: usize,
    rows: usize,
    /// Of each node of the tree.
    states: Vec<State>,
    /// How many slots, from the first on, are zero when what is queued has run.
    clear: usize,
}

impl Group {
    /// How many codes each column has: those of features that have one, then the shared ones.
    fn column_bins(features: &[CodedFeature], bundles: Option<&Bundles>) -> Vec<usize> {
        let own = Group::own_columns(features, bundles).map(|f| features[f].bins());
        own.chain(bundles.iter().flat_map(|b| b.column_codes.iter().copied())).collect()
    }

    /// Numbers of a node's histogram, in columns of so many codes.
    fn slot_size(column_bins: &[usize], components: usize) -> usize {
        column_bins.len().div_ceil(LANES) * column_bins.iter().copied().max().unwrap_or(1) * LANES * components
    }

    /// Bytes of a group with `slots` histograms, and of three columns of values on their way.
    pub fn bytes(features: &[CodedFeature], bundles: Option<&Bundles>, rows: usize, components: usize, slots: usize) -> u64 {
        let bins = Group::column_bins(features, bundles);
        let codes = rows as u64 * (LANES * bins.len().div_ceil(LANES) + 3 * 8) as u64;
        codes + 8 * Group::slot_size(&bins, components) as u64 * slots as u64
    }

    /// Makes the codes of a group and brings them to the device.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Device`], [`Error::Interrupted`].
    #[allow(clippy::too_many_arguments)]
    pub fn new<'a>(
        queue: &Queue,
        first: usize,
        features: &'a [CodedFeature],
        sources: &[CodeSource<'a>],
        mut bundles: Option<Bundles>,
        rows: usize,
        components: usize,
        slots: usize,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Group> {
        if interrupted() {
            return Err(Error::Interrupted);
        }
        let shared = bundles.as_mut().map_or(vec![], |b| b.codes(rows));
        let source = |f: usize| match sources[f] {
            CodeSource::Values(column) => Source::Values(column, &features[f].borders, features[f].first()),
            CodeSource::Codes(codes) => Source::Codes(codes),
        };
        let own = Group::own_columns(features, bundles.as_ref()).map(source);
        let all = own.chain(shared.iter().map(|codes| Source::Codes(codes)));
        let columns: Vec<(Source<'_>, Place)> = all.enumerate().map(|(i, source)| (source, Group::place(i, rows))).collect();
        Group::filled(queue, first, features, bundles, rows, components, slots, |codes| quantize(queue, &columns, codes).map(drop))
    }

    /// The features that have a column of their own.
    fn own_columns<'b>(features: &[CodedFeature], bundles: Option<&'b Bundles>) -> impl Iterator<Item = usize> + use<'b> {
        (0..features.len()).filter(move |f| bundles.is_none_or(|b| b.shared(*f).is_none()))
    }

    /// Where the codes of column `i` of a group go.
    pub fn place(i: usize, rows: usize) -> Place {
        Place { first: i / LANES * rows * LANES + i % LANES, stride: LANES }
    }

    /// A group whose codes `fill` writes, each column's to its [`Group::place`]: those of features that have one, then
    /// the shared ones.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Device`], and those of `fill`.
    #[allow(clippy::too_many_arguments)]
    pub fn filled(
        queue: &Queue,
        first: usize,
        features: &[CodedFeature],
        bundles: Option<Bundles>,
        rows: usize,
        components: usize,
        slots: usize,
        fill: impl FnOnce(&mut CudaSlice<u8>) -> Result<()>,
    ) -> Result<Group> {
        let column_bins = Group::column_bins(features, bundles.as_ref());
        let n = column_bins.len();
        let mut codes = Buffer::new(queue, "codes", n.div_ceil(LANES) * rows * LANES)?;
        // The last block's columns that are no features are read along.
        queue.clear(&mut codes.slice)?;
        fill(&mut codes.slice)?;
        let bins = column_bins.iter().copied().max().unwrap_or(1);
        let slot_size = Group::slot_size(&column_bins, components);
        let histograms = Buffer::new(queue, "histograms", slot_size * slots)?;
        Ok(Group {
            first,
            features: features.len(),
            bundles,
            columns: n,
            bins,
            few: features.iter().all(|f| f.bins() <= 32 && !f.categories),
            first_bins: column_bins.first().copied().unwrap_or(1),
            open: false,
            codes: Some(codes),
            histograms: Some(histograms),
            slot_size,
            components,
            rows,
            states: vec![],
            clear: 0,
        })
    }

    /// Frees what it takes.
    pub fn clear(&mut self) {
        (self.codes, self.histograms) = (None, None);
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

    /// The column of a feature, counted in the group.
    pub fn column_of(&self, feature: usize) -> usize {
        self.bundles.as_ref().map_or(feature - self.first, |b| b.columns[feature - self.first])
    }

    /// The address of a feature's code in row 0; those of the next rows are 32 bytes apart.
    pub fn codes_of(&self, feature: usize) -> u64 {
        let inside = self.column_of(feature);
        self.codes_address() + (inside / LANES * self.rows * LANES + inside % LANES) as u64
    }

    fn codes_address(&self) -> u64 {
        self.codes.as_ref().map_or(0, |c| c.address)
    }

    /// What kernels are told.
    pub fn table(&self, component: u32) -> Histograms {
        Histograms {
            codes: self.codes_address(),
            rows: self.rows as u64,
            slots: self.histograms.as_ref().map_or(0, |h| h.address),
            slot_size: self.slot_size as u64,
            features: self.columns as u32,
            bins: self.bins as u32,
            components: self.components as u32,
            component,
        }
    }

    /// A node's histogram.
    pub fn state(&self, node: u32) -> State {
        self.states.get(node as usize).copied().unwrap_or(State::Absent)
    }

    /// Notes where a node's histogram is.
    pub fn set_state(&mut self, node: u32, state: State) {
        if self.states.len() <= node as usize {
            self.states.resize(node as usize + 1, State::Absent);
        }
        self.states[node as usize] = state;
    }

    /// Makes room for `slots` slots, keeping the first `used`.
    pub fn reserve(&mut self, queue: &Queue, slots: usize, used: usize) -> Result<()> {
        let need = slots * self.slot_size;
        let Some(histograms) = self.histograms.as_mut().filter(|h| h.slice.len() < need) else { return Ok(()) };
        let have = histograms.slice.len();
        let mut larger: Buffer<i64> = Buffer::new(queue, "histograms", need.max(have * 2))?;
        let kept = (used * self.slot_size).min(have);
        if kept > 0 {
            let copied = queue.stream().memcpy_dtod(&histograms.slice.slice(..kept), &mut larger.slice.slice_mut(..kept));
            copied.map_err(|e| driver(queue.gpu(), "copying histograms", e))?;
        }
        *histograms = larger;
        self.clear = 0;
        Ok(())
    }

    /// Sets the first `slots` slots to zero for a tree that grows ahead, where the one before it has not done so.
    pub fn clear_first(&mut self, queue: &Queue, slots: usize) -> Result<()> {
        if self.clear < slots { self.zero(queue, 0..slots) } else { Ok(()) }
    }

    /// The same as a kernel does it at the end of such a tree: where they are, and how many words of 16 bytes.
    pub fn clear_behind(&mut self, slots: usize) -> (u64, u64) {
        self.clear = slots;
        (self.histograms.as_ref().map_or(0, |h| h.address), (slots * self.slot_size / 2) as u64)
    }

    /// Sets slots to zero.
    pub fn zero(&mut self, queue: &Queue, slots: std::ops::Range<usize>) -> Result<()> {
        self.clear = 0;
        let range = slots.start * self.slot_size..slots.end * self.slot_size;
        match &mut self.histograms {
            Some(histograms) if !range.is_empty() => queue.clear(&mut histograms.slice.slice_mut(range)),
            _ => Ok(()),
        }
    }
}
