//! Groups of features on the device: their codes, and the histograms of the tree that grows.

use super::memory::{Buffer, Kernels};
use super::tables::{Histograms, LANES};
use crate::backend::cuda::error::driver;
use crate::backend::cuda::{Queue, grid};
use crate::backend::{CodeSource, CodedFeature};
use crate::error::{Error, Result};
use crate::launch;
use crate::quantize::codes::{Quantizer, Scratch};

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
    /// The most bins that one of them has.
    pub bins: usize,
    pub open: bool,
    /// `[block][row][32]`
    codes: Option<Buffer<u8>>,
    histograms: Option<Buffer<i64>>,
    slot_size: usize,
    components: usize,
    rows: usize,
    /// Of each node of the tree.
    states: Vec<State>,
}

/// Rows of a feature whose codes are made at a time.
const PIECE: usize = 1 << 14;

impl Group {
    /// Bytes of the codes of `features` features, those on their way included.
    pub fn code_bytes(rows: usize, features: usize) -> u64 {
        (rows * LANES * features.div_ceil(LANES)) as u64
    }

    /// Numbers in a slot.
    pub fn slot_numbers(features: &[CodedFeature], components: usize) -> usize {
        features.len().div_ceil(LANES) * most_bins(features) * LANES * components
    }

    /// Makes the codes of a group and brings them to the device.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Device`], [`Error::Interrupted`].
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        queue: &Queue,
        kernels: &Kernels,
        first: usize,
        features: &[CodedFeature],
        sources: &[CodeSource<'_>],
        rows: usize,
        components: usize,
        slots: usize,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Group> {
        let (n, blocks) = (features.len(), features.len().div_ceil(LANES));
        let codes = Buffer::new(queue, "codes", blocks * rows * LANES)?;
        let mut staged: Buffer<u8> = Buffer::new(queue, "codes on their way", n.min(LANES) * rows)?;
        let quantizers: Vec<Quantizer> = features.iter().map(|f| Quantizer::new(&f.borders)).collect();
        for block in 0..blocks {
            if interrupted() {
                return Err(Error::Interrupted);
            }
            let own = block * LANES..n.min((block + 1) * LANES);
            let fill = |offset: usize, piece: &mut [u8]| {
                let mut scratch = Scratch::default();
                let mut done = 0;
                while done < piece.len() {
                    let (feature, row) = (own.start + (offset + done) / rows, (offset + done) % rows);
                    let len = (rows - row).min(piece.len() - done).min(PIECE);
                    let out = &mut piece[done..done + len];
                    match sources[feature] {
                        CodeSource::Codes(codes) => out.copy_from_slice(&codes[row..row + len]),
                        CodeSource::Values(column) => {
                            quantizers[feature].codes::<u8>(column, row, len, features[feature].first(), out, 1, &mut scratch);
                        }
                    }
                    done += len;
                }
            };
            queue.upload(&mut staged.slice, own.len() * rows, &fill)?;
            let (rows64, here, zero) = (rows as u64, own.len() as u32, 0u64);
            let address = codes.address + (block * rows * LANES) as u64;
            let config = grid(rows.div_ceil(256) as u32, 256, 0);
            // SAFETY: the arguments are those of `tree_interleave`: `here` columns of `rows` codes, and room
            // for as many rows of 32.
            unsafe { launch!(queue, &kernels.interleave, config; &staged.address, &rows64, &here, &zero, &address) }?;
        }
        let slot_size = Group::slot_numbers(features, components);
        let histograms = Buffer::new(queue, "histograms", slot_size * slots)?;
        let bins = most_bins(features);
        Ok(Group { first, features: n, bins, open: false, codes: Some(codes), histograms: Some(histograms), slot_size, components, rows, states: vec![] })
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

    /// The number of blocks of features.
    pub fn blocks(&self) -> usize {
        self.features.div_ceil(LANES)
    }

    /// The address of a feature's code in row 0; those of the next rows are 32 bytes apart.
    pub fn codes_of(&self, feature: usize) -> u64 {
        let inside = feature - self.first;
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
            features: self.features as u32,
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
        Ok(())
    }

    /// Sets slots to zero.
    pub fn zero(&mut self, queue: &Queue, slots: std::ops::Range<usize>) -> Result<()> {
        let range = slots.start * self.slot_size..slots.end * self.slot_size;
        match &mut self.histograms {
            Some(histograms) if !range.is_empty() => queue.clear(&mut histograms.slice.slice_mut(range)),
            _ => Ok(()),
        }
    }
}

/// The most bins that one of the features has.
fn most_bins(features: &[CodedFeature]) -> usize {
    features.iter().map(CodedFeature::bins).max().unwrap_or(1)
}
