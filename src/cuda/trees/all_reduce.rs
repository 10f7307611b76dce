//! Adds up what shards of a fit's rows have summed, each on a GPU. Twin of `kernels/trees/all_reduce.cuh`.
//!
//! Where GPUs read each other's memory, histograms are added there, behind barriers of the GPUs' own, so that the host waits for nothing.
//! Else, and where a shard is elsewhere, they go through the host, and when much has gone that way, by NCCL where it is there. What is rare, or few
//! numbers that the host reads anyway, goes through the host too.
//!
//! A GPU may wait for others' launches, and the driver, where it allocates, for a GPU. So between the first and the last launch of a tree
//! that grows whole, or of one sum, nothing is allocated: the shards' threads meet before, and behind a single sum ([`Rendezvous`]).

use super::CudaTrees;
use super::buffers::Buffer;
use super::layouts::{AllReduce, DeviceGroup, HistogramJob, LeafReduce, LeafValues, QuantizerReduce, TreeStart};
use super::rendezvous::{Addresses, Rendezvous};
use crate::runtime::Queue;
use crate::runtime::nccl::Communicator;
use crate::{follow, grid};
use std::ops::Range;
use std::sync::Arc;
use taiga_core::collective::Collective;
use taiga_core::error::Result;

/// The most GPUs of a fit.
pub const MOST_DEVICES: usize = 16;

/// Words of a GPU's signals, and the one that says that the fit is over.
const SIGNALS: usize = MOST_DEVICES + 8;
const ABORTED: usize = MOST_DEVICES + 1;

/// Bytes that a GPU rather reads than that all meet once more.
const MOST_READ: usize = 2 << 20;

/// Threads of a block that meets other GPUs' or adds what they have: REDUCE_THREADS in all_reduce.cuh.
pub(super) const REDUCE_THREADS: u32 = 512;

/// Blocks that wait for other GPUs, at most, where another shard's on the same GPU are to have room.
pub(super) const MOST_BLOCKS: u32 = 48;

/// Bytes that go through the host before a communicator is made: that takes as long.
const MANY_BYTES: usize = 1 << 30;

/// How shards' histograms are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// By loads from each other's memory where GPUs can, and by what is fastest where they can't.
    Any,
    /// For tests: as if they could not, by NCCL from the beginning.
    Nccl,
    /// For tests: as if they could not, and without NCCL.
    Host,
}

/// How histograms are added that lie in memory which this GPU does not read.
pub enum FarSums {
    /// Through the host.
    Host,
    /// The same, until so many bytes more have gone through it.
    HostAtFirst(usize),
    Nccl(Communicator),
}

impl FarSums {
    pub fn new(exchange: Exchange) -> FarSums {
        match exchange {
            Exchange::Any => FarSums::HostAtFirst(MANY_BYTES),
            Exchange::Nccl => FarSums::HostAtFirst(0),
            Exchange::Host => FarSums::Host,
        }
    }

    /// Changes the way when it is time; to be called in all shards at once, before so many bytes are added.
    fn before(&mut self, bytes: usize, queue: &Queue, between: &dyn Collective) -> Result<()> {
        match self {
            FarSums::HostAtFirst(left) if *left >= bytes.max(1) => *left -= bytes,
            FarSums::HostAtFirst(_) => *self = Communicator::connect(queue, between)?.map_or(FarSums::Host, FarSums::Nccl),
            FarSums::Host | FarSums::Nccl(_) => {}
        }
        Ok(())
    }
}

/// What a GPU knows of the others of a fit, which read its memory as it reads theirs.
pub struct Peers {
    pub(super) group: DeviceGroup,
    pub(super) rendezvous: Arc<Rendezvous>,
    signals: Buffer<u32>,
    /// Of the leaves of a tree that grows whole, three for each.
    leaf_sums: Buffer<i64>,
    magnitudes_of: Addresses,
    leaf_sums_of: Addresses,
    /// Those of each GPU's rows, in turns, and the sums of all.
    own_histograms_of: [Addresses; 2],
    histograms_of: Addresses,
}

/// Ends the waiting of a GPU for others.
pub struct AbortSwitch {
    queue: Queue,
    address: u64,
}

impl AbortSwitch {
    /// Tells the GPU that the fit is over: whatever it computes from now on is of no use.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn abort(&self) -> Result<()> {
        self.queue.write_at(&[1u32], self.address)?;
        self.queue.synchronize()
    }
}

/// The same addresses, so many bytes behind.
fn behind(addresses: Addresses, bytes: usize) -> Addresses {
    addresses.map(|address| address + bytes as u64)
}

impl CudaTrees<'_> {
    /// Lets the GPU read the memory of those that have the other shards, and these its own; to be called for all of them at once. `apart`:
    /// each shard has a GPU of its own.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`]; where another one is gone.
    pub(crate) fn connect(&mut self, rank: usize, apart: bool, rendezvous: Arc<Rendezvous>) -> Result<AbortSwitch> {
        let signals = Buffer::zeros(&self.queue, "signals", SIGNALS)?;
        let switch = AbortSwitch { queue: Queue::new(self.queue.gpu())?, address: signals.address + 4 * ABORTED as u64 };
        // Before others write there.
        self.queue.synchronize()?;
        let magnitudes = self.data.magnitudes.as_ref().map_or(0, |own| own.address);
        let [signals_of, magnitudes_of, ..] = rendezvous.exchange(rank, [signals.address, magnitudes, 0, 0])?;
        self.peers = Some(Peers {
            group: DeviceGroup {
                signals: signals_of,
                rank: rank as u32,
                count: self.of.collective.world() as u32,
                apart: apart as u32,
                unused: 0,
            },
            rendezvous,
            signals,
            leaf_sums: Buffer::new(&self.queue, "sums of leaves", 1)?,
            magnitudes_of,
            leaf_sums_of: [0; MOST_DEVICES],
            own_histograms_of: [[0; MOST_DEVICES]; 2],
            histograms_of: [0; MOST_DEVICES],
        });
        Ok(switch)
    }

    /// Makes room for the sums of leaves, and tells the others where these and a group's histograms are. Waits until all have come, so that
    /// nobody allocates any more when a tree is launched.
    pub(crate) fn share_addresses(&mut self, group: usize, leaves: usize) -> Result<()> {
        let Some(peers) = &mut self.peers else { return Ok(()) };
        peers.leaf_sums.reserve(&self.queue, "sums of leaves", 3 * leaves)?;
        let [even, odd] = self.groups[group].own.addresses();
        let own = [peers.leaf_sums.address, self.groups[group].address(), even, odd];
        let [leaf_sums, histograms, even, odd] = peers.rendezvous.exchange(peers.group.rank as usize, own)?;
        (peers.leaf_sums_of, peers.histograms_of, peers.own_histograms_of) = (leaf_sums, histograms, [even, odd]);
        debug_assert!(peers.signals.address == peers.group.signals[peers.group.rank as usize]);
        Ok(())
    }

    /// Waits until the threads of all GPUs have come here.
    pub(crate) fn meet(&self) -> Result<()> {
        let Some(peers) = &self.peers else { return Ok(()) };
        peers.rendezvous.exchange(peers.group.rank as usize, [0; 4]).map(drop)
    }

    /// Where the sums of leaves go of a tree that grows whole: here, where others' are to be added, or `out`.
    pub(crate) fn own_leaf_sums(&self, out: u64) -> u64 {
        self.peers.as_ref().map_or(out, |peers| peers.leaf_sums.address)
    }

    /// Queues the sums of all shards in slots of a group, behind which a tree begins where `begin` says how.
    pub(crate) fn queue_all_reduce(&self, group: usize, slots: Range<usize>, begin: &TreeStart) -> Result<()> {
        let Some(peers) = &self.peers else { return Ok(()) };
        let span = self.groups[group].span(slots);
        // What a GPU reads that adds everything for itself, beside what it would read and write anyway.
        let shares = (peers.group.count as usize - 2) * 8 * span.len() > MOST_READ;
        let own = peers.own_histograms_of[self.groups[group].own.turn()];
        self.launch_all_reduce(peers.group, (own, peers.histograms_of), shares, span, begin)
    }

    fn launch_all_reduce(
        &self,
        group: DeviceGroup,
        (numbers, sums): (Addresses, Addresses),
        shares: bool,
        span: Range<usize>,
        begin: &TreeStart,
    ) -> Result<()> {
        let reduce = AllReduce {
            group,
            numbers: behind(numbers, 8 * span.start),
            sums: behind(sums, 8 * span.start),
            count: span.len() as u64,
            shares: shares as u32,
            unused: 0,
        };
        let added = if shares { span.len().div_ceil(group.count as usize) } else { span.len() };
        let most = if group.apart != 0 { self.queue.gpu().multiprocessors() } else { MOST_BLOCKS };
        let config = grid((added.div_ceil(2 * REDUCE_THREADS as usize) as u32).clamp(1, most), REDUCE_THREADS, 0);
        // SAFETY: the arguments are those of `tree_all_reduce`: as many numbers on each GPU, which all can reach, and signals; what
        // `tree_start` is given.
        unsafe { follow!(self.queue, &self.kernels.all_reduce, config; &reduce, begin) }
    }

    /// Queues the quantizer of all shards' rows, from the magnitudes that each has found. `guessed`: a root was summed in slot 0 of the first
    /// group by the quantizer of the tree before.
    pub(crate) fn queue_quantizer_of_all(&self, unit: bool, guessed: bool) -> Result<()> {
        let Some(peers) = &self.peers else { return Ok(()) };
        let (slot, root) = (self.groups[0].span(0..1), self.groups[0].table(0).slots);
        let last = self.data.logs[1 - self.data.turn].address;
        let (last, cleared, clears) = if guessed { (last, root, slot.len() as u64 / 2) } else { (0, 0, 0) };
        let reduce = QuantizerReduce {
            group: peers.group,
            magnitudes: peers.magnitudes_of,
            rows: self.of.all as u64,
            out: self.data.log().address,
            last,
            wrong: self.data.wrong.address,
            cleared,
            clears,
            unit: unit as u32,
            unused: 0,
        };
        // SAFETY: the argument is that of `tree_complete_quantizer`: magnitudes of each GPU, room for a quantizer, a slot that is there.
        unsafe { follow!(self.queue, &self.kernels.complete_quantizer, grid(1, 256, 0); &reduce) }
    }

    /// Queues the sums of the leaves of all shards, which go to `out` with zeros behind them up to `numbers`, and the leaves' values.
    pub(crate) fn queue_leaves_of_all(&self, quantizer: u64, out: u64, leaves: usize, numbers: usize, values: &LeafValues) -> Result<()> {
        let Some(peers) = &self.peers else { return Ok(()) };
        let sums = peers.leaf_sums_of;
        let reduce = LeafReduce { group: peers.group, sums, out, leaves: leaves as u32, numbers: numbers as u32 };
        // SAFETY: the arguments are those of `tree_complete_leaves`: sums of as many leaves on each GPU, room for the numbers.
        unsafe { follow!(self.queue, &self.kernels.complete_leaves, grid(1, REDUCE_THREADS, 0); &reduce, &quantizer, values) }
    }

    /// Adds other shards' histograms to those just summed in slots of a group.
    pub(crate) fn complete_histograms(&mut self, group: usize, summed: &[HistogramJob]) -> Result<()> {
        if self.of.is_whole() {
            return Ok(());
        }
        let mut slots: Vec<usize> = summed.iter().map(|job| job.slot as usize).collect();
        slots.sort_unstable();
        let runs = slots.chunk_by(|a, b| a + 1 == *b).map(|run| self.groups[group].span(run[0]..run[0] + run.len()));
        let runs: Vec<Range<usize>> = runs.filter(|run| !run.is_empty()).collect();
        let Some(peers) = &self.peers else { return self.sum_from_afar(group, &runs) };
        let own = [self.groups[group].address(), 0, 0, 0];
        let [numbers, ..] = peers.rendezvous.exchange(peers.group.rank as usize, own)?;
        let begin = TreeStart::default();
        runs.into_iter().try_for_each(|run| self.launch_all_reduce(peers.group, (numbers, numbers), true, run, &begin))?;
        self.meet()
    }

    /// The same where others' memory can't be read.
    fn sum_from_afar(&mut self, group: usize, runs: &[Range<usize>]) -> Result<()> {
        let Some(histograms) = self.groups[group].histograms() else { return Ok(()) };
        self.far_sums.before(runs.iter().map(|run| 8 * run.len()).sum(), &self.queue, self.of.collective)?;
        if let FarSums::Nccl(nccl) = &self.far_sums {
            let numbers: Vec<(u64, usize)> = runs.iter().map(|run| (histograms.address + 8 * run.start as u64, run.len())).collect();
            // SAFETY: each run is a part of the histograms, and all shards have summed the same slots.
            return unsafe { nccl.sum(&self.queue, self.of.collective, &numbers) };
        }
        for run in runs {
            let mut part = histograms.slice.slice_mut(run.clone());
            let mut numbers = self.queue.read(&part)?;
            self.of.collective.sum(&mut numbers)?;
            self.queue.write(&numbers, &mut part)?;
        }
        Ok(())
    }
}
