//! Trees that several outputs share: what there is of each output, and how such a tree begins. Twin of what concerns these trees in
//! `cpu/trees/lanes.rs` and `cpu/trees/tree_steps.rs`.
//!
//! Each output has packed gradients of its own, and a histogram of its own in each node, beside those of the others; they are summed by the
//! kernels of any tree, one output after the other.

use super::CudaTrees;
use super::buffers::{Buffer, Kernels};
use super::feature_groups::HistogramState;
use super::histogram::Plane;
use super::layouts::{GradientQuantizer, HistogramJob, IN_ORDER, LossRows, NodeRows, SharedOutput, SharedOutputs, SplitSearch};
use super::rows::RowData;
use crate::runtime::Queue;
use crate::{grid, launch};
use taiga_core::error::Result;
use taiga_core::learners::boosting::several::HessianUnits;
use taiga_core::learners::boosting::steps::{Begun, OutputRules, TrainingData};
use taiga_core::losses::Loss;
use taiga_core::tree::split::{Scales, Sums};

/// What there is of each output that shares a tree.
pub struct SharedTree {
    /// How the derivatives of each become integers.
    quantizers: Vec<GradientQuantizer>,
    on_device: Buffer<GradientQuantizer>,
    /// What each counts.
    rules: Buffer<SharedOutput>,
    /// Whether all have the same hessians, those of rows that count 1, and the same `l2`.
    unit: bool,
    /// What the outputs' sums together are in units of.
    scales: Scales,
}

impl SharedTree {
    /// Makes room for as many outputs.
    ///
    /// # Errors
    /// [`Error::Device`](taiga_core::Error::Device).
    pub fn new(queue: &Queue, outputs: usize) -> Result<SharedTree> {
        Ok(SharedTree {
            quantizers: vec![],
            on_device: Buffer::new(queue, "scales", outputs)?,
            rules: Buffer::new(queue, "outputs of a tree", outputs)?,
            unit: false,
            scales: Scales { gradient: 1.0, hessian: 1.0 },
        })
    }

    /// Returns the quantizer of each output, and where it is on the device.
    pub fn quantizers(&self) -> Vec<(GradientQuantizer, u64)> {
        (0..self.quantizers.len()).map(|k| (self.quantizers[k], self.address(k))).collect()
    }

    /// Returns where an output's quantizer is on the device.
    fn address(&self, output: usize) -> u64 {
        self.on_device.address + (output * size_of::<GradientQuantizer>()) as u64
    }

    /// Returns what kernels are told, of a group whose histograms of one output have so many numbers.
    pub fn table(&self, slot_size: usize) -> SharedOutputs {
        SharedOutputs {
            outputs: self.rules.address,
            quantizers: self.on_device.address,
            stride: slot_size as u64,
            count: self.quantizers.len() as u32,
            unit: self.unit as u32,
            unit_hessian: self.scales.hessian,
        }
    }

    /// Notes what the outputs of a tree count. `unit`: all hessians are 1.
    fn begin(&mut self, queue: &Queue, quantizers: Vec<GradientQuantizer>, rules: &[OutputRules], unit: bool) -> Result<()> {
        let hessians: Vec<f64> = quantizers.iter().map(|q| q.unit_hessian).collect();
        let units = HessianUnits::new(&hessians);
        let of_output = |(rules, shift): (&OutputRules, &u32)| SharedOutput {
            l1: rules.params.l1,
            l2: rules.params.l2,
            importance: rules.importance,
            smooth: rules.params.categories.smooth,
            category_l2: rules.params.categories.l2,
            shift: *shift,
            unused: 0,
        };
        let table: Vec<SharedOutput> = rules.iter().zip(units.shifts()).map(of_output).collect();
        self.rules.write(queue, &table)?;
        self.unit = unit && rules.iter().all(|r| r.params.l2 == rules[0].params.l2);
        (self.quantizers, self.scales) = (quantizers, units.scales());
        Ok(())
    }
}

/// The sums of the outputs' squared derivatives, by row, and their roots, which rows are drawn by.
pub struct Squares {
    sums: Buffer<[f64; 2]>,
    gradient: Buffer<f32>,
    hessian: Buffer<f32>,
}

impl Squares {
    /// Makes room for those of `rows` rows.
    ///
    /// # Errors
    /// [`Error::Device`](taiga_core::Error::Device).
    pub fn new(queue: &Queue, rows: usize) -> Result<Squares> {
        let what = "squares of derivatives";
        Ok(Squares {
            sums: Buffer::new(queue, what, rows)?,
            gradient: Buffer::new(queue, what, rows)?,
            hessian: Buffer::new(queue, what, rows)?,
        })
    }
}

/// Whether rows are drawn by the derivatives of several outputs together.
pub fn draws_by_squares(data: &TrainingData<'_>) -> bool {
    data.shared > 1 && data.row_sampling.reads_derivatives()
}

impl RowData<'_> {
    /// Draws the rows of a tree that the outputs from `first` on share; returns whether all that are drawn count 1.
    fn draw_together(
        &mut self,
        queue: &Queue,
        kernels: &Kernels,
        loss: &dyn Loss,
        (tree, first): (u64, usize),
        rules: &[OutputRules],
    ) -> Result<bool> {
        let Some(squares) = &self.squares else { return self.draw(queue, kernels, loss, tree, first) };
        let (sums, gradient, hessian) = (squares.sums.address, squares.gradient.address, squares.hessian.address);
        self.add_values(queue, kernels)?;
        let config = grid(self.blocks, 256, 0);
        for (k, rules) in rules.iter().enumerate() {
            let table = self.table(loss, first + k, false);
            let (begins, ends) = ((k == 0) as u32, (k + 1 == self.shared) as u32);
            // SAFETY: the arguments are those of `tree_add_squares`: two sums and two roots for each row.
            unsafe { launch!(queue, &kernels.add_squares, config; &table, &rules.importance, &sums, &begins, &ends, &gradient, &hessian) }?;
        }
        let table: LossRows = self.table(loss, first, false).with_derivatives(gradient, hessian);
        self.draw_by(queue, kernels, &table, tree)
    }
}

impl CudaTrees<'_> {
    /// Begins a tree that the outputs from this tree's first one on share: rows drawn, derivatives rounded, the root's histograms.
    ///
    /// # Errors
    /// [`Error::Device`](taiga_core::Error::Device); [`Error::Data`](taiga_core::Error::Data) where derivatives are no longer finite.
    pub(crate) fn begin_shared(&mut self, loss: &dyn Loss, rules: &[OutputRules]) -> Result<Begun> {
        let drawn_unit = self.data.draw_together(&self.queue, &self.kernels, loss, (self.tree, self.output), rules)?;
        let unit = drawn_unit && loss.constant_hessian() && !self.weighted;
        self.find_shared_quantizers(loss, rules, unit)?;
        self.round_shared(loss)?;
        for g in self.open_groups() {
            // Groups of statistics have room for one histogram at first.
            self.groups[g].reserve(&self.queue, 1, 0)?;
            self.groups[g].zero(&self.queue, 0..1)?;
            self.groups[g].set_state(0, HistogramState::HistogramJob);
            self.sum(g, &[HistogramJob { node: 0, slot: 0 }], false)?;
        }
        let scales = self.shared.as_ref().map_or(Scales { gradient: 1.0, hessian: 1.0 }, |shared| shared.scales);
        Ok(Begun::Root { sums: self.shared_total()?, scales })
    }

    /// Finds how the derivatives of each output become integers: statistics are wide of all of them or of none.
    fn find_shared_quantizers(&mut self, loss: &dyn Loss, rules: &[OutputRules], unit: bool) -> Result<()> {
        let Some(shared) = &mut self.shared else { return Ok(()) };
        let (queue, kernels) = (&self.queue, &self.kernels);
        self.data.add_values(queue, kernels)?;
        for k in 0..rules.len() {
            let table = self.data.table(loss, self.output + k, true);
            self.data.queue_quantizer(queue, kernels, &table, (0, 0), unit, shared.address(k))?;
        }
        let (each, outputs) = (shared.on_device.address, rules.len() as u32);
        // SAFETY: the arguments are those of `tree_share_quantizers`: as many quantizers.
        unsafe { launch!(queue, &kernels.share_quantizers, grid(1, 256, 0); &each, &outputs) }?;
        let quantizers = shared.on_device.read(queue, rules.len())?;
        quantizers.iter().try_for_each(RowData::check_finite)?;
        self.quantizer = Some(quantizers[0]);
        shared.begin(queue, quantizers, rules, unit)
    }

    /// Rounds the derivatives of all outputs, and lists the root's rows where some were drawn.
    fn round_shared(&mut self, loss: &dyn Loss) -> Result<()> {
        let hessians = self.planes(self.quantizer()?).contains(&Plane::Limbs { component: 1, hessians: true });
        let Some(shared) = &self.shared else { return Ok(()) };
        let drawn = self.data.bag.is_some();
        let list = if drawn { 0 } else { IN_ORDER };
        let len = if drawn { 0 } else { self.data.rows as u32 };
        self.work.nodes.write(&self.queue, &[NodeRows { len, list, parent: -1, ..NodeRows::default() }])?;
        self.next_slot = 1;
        for k in 0..shared.quantizers.len() {
            let table = self.data.table(loss, self.output + k, true);
            // The rows are listed once.
            let list = if k == 0 { self.lists[0].address } else { 0 };
            let of = (self.tree, k, shared.address(k));
            self.data.queue_round(&self.queue, &self.kernels, &table, of, hessians, list, &self.work.nodes)?;
        }
        Ok(())
    }

    /// The sums of the outputs together over the root's rows, from the bins of the first feature.
    fn shared_total(&mut self) -> Result<Sums> {
        let counted = self.counted(self.quantizer()?);
        let Some(group) = self.groups.iter().find(|g| g.open && g.features > 0) else { return Ok(Sums::default()) };
        let Some(shared) = &self.shared else { return Ok(Sums::default()) };
        let search = SplitSearch { histograms: group.table(0), counted, ..SplitSearch::default() };
        let (table, bins, total) = (shared.table(group.slot_size_of_output()), group.first_bins as u32, self.work.total.address);
        // SAFETY: the arguments are those of `tree_shared_total`: a column's bins in the root's slot of each output, room for the sums.
        unsafe { launch!(self.queue, &self.kernels.shared_total, grid(1, 256, 0); &search, &table, &bins, &total) }?;
        Ok(self.work.total.read(&self.queue, 1)?[0].into())
    }
}
