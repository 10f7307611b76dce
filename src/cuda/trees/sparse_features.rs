//! Features that have one code in most rows and exclude no others: their other codes, as lists by row. Twin of
//! `kernels/trees/sparse_features.cuh`.
//!
//! Lists are made on the device, from columns of codes that are there for that alone, some at a time:
//!
//! ```text
//! values ─► codes of 32 columns and more ─► how many rows are off the usual code ─► (row, sparse bin) of each ─┐ next columns
//!                                                       bins by row ◄─ sorted ◄─────────────────────────┘
//! ```

use super::buffers::{Buffer, Kernels};
use super::bundling::Bundles;
use super::feature_groups::{FeatureGroup, SparseMembers};
use super::layouts::{FeatureInfo, LANES, SPARSE, SPARSE_COLUMN, SparseRows, SparseSumParams};
use crate::columns::codes::{CodeInput, CodePlace, quantize};
use crate::runtime::error::driver;
use crate::runtime::{Gpu, Queue, memory};
use crate::{grid, launch};
use cudarc::driver::LaunchConfig;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::bundling;
use taiga_core::learners::boosting::bundling::LEAST_SAVED;
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::parallel::thread_pool::ThreadPool;
use taiga_core::quantize::CodedFeature;
use taiga_core::quantize::codes::{Quantizer, QuantizerScratch};

/// The largest share of rows off the usual code of a feature that is sparse, as the probe sees it, and as it turns out. To sum an
/// entry takes as long as to sum some fifty codes of columns.
const SPARSE_SHARE: f64 = 0.02;
const MOST_SHARE: f64 = 0.04;

/// Bytes of an entry while it is sorted, and of one that is kept.
const SORTED_BYTES: f64 = 20.0;

/// The most entries of a feature whose narrow statistics 32 bits can sum.
const MOST_PACKED: usize = 65_536;

/// Rows that a warp lists at a time (`SPARSE_ROWS_AT_ONCE` of the kernels).
const ROWS_AT_ONCE: usize = 256;

/// The features that may be sparse.
pub struct SparseCandidates {
    /// Counted in the group, ascending, with the code that is not stored.
    features: Vec<(usize, u8)>,
    /// Entries in a row, about.
    entries: f64,
}

impl SparseCandidates {
    /// Finds those of the features that a fit starts with, as some rows show them; none where too few are.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn probe(
        pool: &ThreadPool,
        data: &TrainingData<'_>,
        bundles: Option<&Bundles>,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<SparseCandidates>> {
        if !bundling::worthwhile(data) {
            return Ok(None);
        }
        let shares = |f: usize| bundles.is_some_and(|b| b.column(f).is_some());
        let found = pool.deal(data.features.len(), QuantizerScratch::default, |scratch, f| {
            let feature = &data.features[f];
            if feature.categories || feature.bins() < 2 || shares(f) || interrupted() {
                return None;
            }
            let quantizer = Quantizer::new(&feature.borders);
            let (usual, share) = bundling::most_frequent(&data.sources[f], &quantizer, feature.first(), data.target.len(), scratch);
            (share <= SPARSE_SHARE).then_some((f, usual, share))
        });
        if interrupted() {
            return Err(Error::Interrupted);
        }
        let mut sparse: Vec<(usize, u8, f64)> = found.into_iter().flatten().collect();
        // A block of columns costs the same with fewer of them, and there is one at least: the root's sums are those of a column.
        let shared = bundles.map_or(0, |b| b.column_codes.len());
        let bundled = (0..data.features.len()).filter(|f| shares(*f)).count();
        let columns = data.features.len() - bundled - sparse.len() + shared;
        let room = if columns == 0 { LANES } else { columns.next_multiple_of(LANES) - columns };
        sparse.sort_by(|a, b| a.2.total_cmp(&b.2).then(a.0.cmp(&b.0)));
        sparse.truncate(sparse.len().saturating_sub(room));
        if (sparse.len() as f64) < LEAST_SAVED {
            return Ok(None);
        }
        sparse.sort_by_key(|(f, ..)| *f);
        let entries = sparse.iter().map(|l| l.2).sum();
        Ok(Some(SparseCandidates { features: sparse.into_iter().map(|(f, usual, _)| (f, usual)).collect(), entries }))
    }

    /// The bins that they have at most.
    pub fn bins(&self, features: &[CodedFeature]) -> usize {
        self.features.iter().map(|(f, _)| features[*f].bins() - 1).sum()
    }

    /// Bytes of their lists while they are made, about.
    pub fn bytes(&self, rows: usize) -> u64 {
        (self.entries * rows as f64 * SORTED_BYTES) as u64 + 4 * rows as u64
    }
}

impl SparseMembers for SparseCandidates {
    fn has(&self, feature: usize) -> bool {
        self.features.binary_search_by_key(&feature, |(f, _)| *f).is_ok()
    }
}

impl SparseMembers for SparseFeatures {
    fn has(&self, feature: usize) -> bool {
        self.features[feature].is_some()
    }
}

/// What a sparse feature stores.
#[derive(Clone, Copy)]
struct SparseBinRange {
    first: u32,
    count: u32,
    usual: u8,
}

/// The sparse features of a group.
pub struct SparseFeatures {
    /// By feature, counted in the group.
    features: Vec<Option<SparseBinRange>>,
    /// How many bins they have together.
    pub bins: usize,
    /// Entries in a row, on the average.
    mean: f64,
    /// Whether a bin's narrow statistics fit one number: 32 bits sum them in each feature.
    pub fits_one: bool,
    starts: Buffer<u32>,
    entries: Buffer<u32>,
}

impl SparseFeatures {
    /// Makes sparse rows of the candidates among a group's features; none where too few are what they seemed.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Interrupted`].
    pub fn new<'a>(
        queue: &Queue,
        kernels: &Kernels,
        features: &[CodedFeature],
        source: impl Fn(usize) -> CodeInput<'a>,
        candidates: &SparseCandidates,
        rows: usize,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<SparseFeatures>> {
        let block = rows * LANES;
        let room = memory::of(queue.gpu())?.free as usize / 8;
        let at_once = LANES * (room / block.max(1)).clamp(1, candidates.features.len().div_ceil(LANES));
        let mut maker = SparseRowsBuilder {
            queue,
            kernels,
            rows,
            bits: u32::BITS - (candidates.bins(features) as u32).leading_zeros(),
            codes: Buffer::zeros(queue, "codes", at_once / LANES * block)?,
            keys: Buffer::new(queue, "lists", (candidates.entries * rows as f64 * 1.1) as usize + 1024)?,
            made: 0,
            bins: 0,
            most: 0,
        };
        let mut sparse = vec![None; features.len()];
        for some in candidates.features.chunks(at_once) {
            if interrupted() {
                return Err(Error::Interrupted);
            }
            let columns: Vec<(CodeInput<'_>, CodePlace)> =
                some.iter().enumerate().map(|(i, (f, _))| (source(*f), FeatureGroup::place(i, rows))).collect();
            quantize(queue, &columns, &mut maker.codes.slice)?;
            maker.list(some, features, &mut sparse)?;
        }
        if (sparse.iter().flatten().count() as f64) < LEAST_SAVED {
            return Ok(None);
        }
        let (bins, mean, fits_one) = (maker.bins as usize, maker.made as f64 / rows.max(1) as f64, maker.most <= MOST_PACKED);
        let (starts, entries) = maker.finish()?;
        Ok(Some(SparseFeatures { features: sparse, bins, mean, fits_one, starts, entries }))
    }

    /// Where a feature's codes are, as kernels are told in place of an address.
    pub fn codes_of(&self, feature: usize) -> Option<u64> {
        let w = self.features[feature]?;
        Some(SPARSE | w.first as u64 | (w.count as u64) << 32 | (w.usual as u64) << 40)
    }

    /// Tells the kernels what a feature stores.
    pub fn describe(&self, feature: usize, table: &mut FeatureInfo) {
        let Some(w) = self.features[feature] else { return };
        (table.column, table.usual, table.low, table.start) = (SPARSE_COLUMN, w.usual as u32, 0, w.first);
    }

    /// The lists, as kernels are told.
    pub fn table(&self) -> SparseRows {
        SparseRows { starts: self.starts.address, bins: self.entries.address }
    }

    /// How rows are added to the bins of their entries, where an entry takes `each` lanes; and with what launch.
    pub fn sparse_sums(&self, gpu: &Gpu, each: u32) -> (SparseSumParams, LaunchConfig) {
        let mean = (self.mean.ceil() as u32).max(1);
        let lanes = (mean.next_power_of_two() * each).clamp(4, 32);
        // Two blocks a multiprocessor, if shared memory holds two sums of each bin.
        let bytes = 8 * self.bins;
        let near = bytes <= (gpu.shared_per_block() / 2 - 1024) as usize;
        let config = match near {
            true => grid(2 * gpu.multiprocessors(), 1024, bytes as u32),
            false => grid(8 * gpu.multiprocessors(), 256, 0),
        };
        (SparseSumParams { entries: self.table(), lanes, near: if near { self.bins as u32 } else { 0 }, mean, unused: 0 }, config)
    }
}

/// Collects the entries of sparse features while their rows are made.
struct SparseRowsBuilder<'q> {
    queue: &'q Queue,
    kernels: &'q Kernels,
    rows: usize,
    /// How many bits of a key are the sparse bin's.
    bits: u32,
    codes: Buffer<u8>,
    keys: Buffer<u64>,
    made: usize,
    bins: u32,
    /// The most entries of a feature.
    most: usize,
}

impl SparseRowsBuilder<'_> {
    /// Appends the entries of some features, whose codes are there.
    fn list(&mut self, some: &[(usize, u8)], features: &[CodedFeature], sparse: &mut [Option<SparseBinRange>]) -> Result<()> {
        let (queue, rows, columns) = (self.queue, self.rows as u64, some.len() as u32);
        let usual: Vec<u8> = some.iter().map(|(_, usual)| *usual).collect();
        let usual_codes = Buffer::copy_of(queue, "codes", &usual)?;
        let counts: Buffer<u64> = Buffer::zeros(queue, "counts", some.len())?;
        let blocks = columns.div_ceil(LANES as u32);
        let most = (8 * queue.gpu().multiprocessors()).div_ceil(blocks).max(1);
        let all = self.rows;
        let by_blocks = |rows_each: usize| LaunchConfig {
            grid_dim: ((all.div_ceil(8 * rows_each) as u32).clamp(1, most), blocks, 1),
            block_dim: (256, 1, 1),
            shared_mem_bytes: 0,
        };
        let (codes, usual_at, counts_at) = (self.codes.address, usual_codes.address, counts.address);
        // SAFETY: the arguments are those of `tree_count_sparse`: blocks of codes of all rows, and of each column a code and a count.
        unsafe { launch!(queue, &self.kernels.count_sparse, by_blocks(16); &codes, &rows, &usual_at, &columns, &counts_at) }?;
        let counts = counts.read(queue, some.len())?;
        let mut first = vec![u32::MAX; some.len()];
        let mut made = self.made;
        for (((f, usual), n), first) in some.iter().zip(&counts).zip(&mut first) {
            let n = *n as usize;
            if n as f64 > MOST_SHARE * self.rows as f64 || made + n >= u32::MAX as usize {
                continue;
            }
            let count = features[*f].bins() as u32 - 1;
            sparse[*f] = Some(SparseBinRange { first: self.bins, count, usual: *usual });
            *first = self.bins;
            self.bins += count;
            self.most = self.most.max(n);
            made += n;
        }
        self.reserve(made)?;
        let first = Buffer::copy_of(queue, "codes", &first)?;
        let next = Buffer::copy_of(queue, "counts", &[self.made as u64])?;
        let (first, next, keys, bits) = (first.address, next.address, self.keys.address, self.bits);
        // SAFETY: the arguments are those of `tree_list_sparse`: as above, of each column its first bin, room for as many entries as
        // were counted behind those that are there.
        unsafe {
            launch!(queue, &self.kernels.list_sparse, by_blocks(ROWS_AT_ONCE); &codes, &rows, &usual_at, &first, &columns, &bits, &next, &keys)
        }?;
        self.made = made;
        Ok(())
    }

    /// Makes room for `n` entries, keeping those that are there.
    fn reserve(&mut self, n: usize) -> Result<()> {
        if n <= self.keys.slice.len() {
            return Ok(());
        }
        let mut larger: Buffer<u64> = Buffer::new(self.queue, "lists", n + n / 4)?;
        if self.made > 0 {
            let copied = self.queue.stream().memcpy_dtod(&self.keys.slice.slice(..self.made), &mut larger.slice.slice_mut(..self.made));
            copied.map_err(|e| driver(self.queue.gpu(), "copying lists", e))?;
        }
        self.keys = larger;
        Ok(())
    }

    /// Where each row's entries begin, and their bins.
    fn finish(self) -> Result<(Buffer<u32>, Buffer<u32>)> {
        let SparseRowsBuilder { queue, kernels, rows, bits, codes, keys, made, .. } = self;
        drop(codes);
        let starts: Buffer<u32> = Buffer::new(queue, "lists", rows + 1)?;
        let bins: Buffer<u32> = Buffer::new(queue, "lists", made.max(1))?;
        let bits_of_row = usize::BITS - rows.leading_zeros();
        let (sorted, _) = queue.sort_keys(keys.slice, made as u32, 0..bits + bits_of_row)?;
        let config = grid(8 * queue.gpu().multiprocessors(), 256, 0);
        let (entries, rows, starts_at, bins_at) = (made as u32, rows as u64, starts.address, bins.address);
        // SAFETY: the arguments are those of `tree_sparse_rows`: `entries` sorted keys and room for as many bins, and for a start
        // of each row and an end.
        unsafe { launch!(queue, &kernels.sparse_rows, config; &sorted, &entries, &rows, &bits, &starts_at, &bins_at) }?;
        Ok((starts, bins))
    }
}
