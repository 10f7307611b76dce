//! Finds the derivatives of Cox's partial likelihood before a tree. Twin of `core/losses/risk_sets.rs`.

use super::buffers::{Buffer, Kernels};
use super::gathered_rows::RowNumbers;
use super::layouts::{RiskRows, RiskTie};
use crate::runtime::Queue;
use crate::{grid, launch};
use taiga_core::error::Result;
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::losses::risk_sets::RiskSets;

/// The table's rows by time on the device: see `RiskRows` in `kernels/trees/risk_sets.cuh`.
pub struct DeviceRiskSets {
    rows: RiskRows,
    /// What `rows` has the addresses of.
    _numbers: [Buffer<u32>; 4],
    _weight: Option<Buffer<f32>>,
    _ties: Buffer<RiskTie>,
    _risk: Buffer<f32>,
    _sums: [Buffer<f64>; 4],
    /// Gradients and hessians of all rows of the table.
    pub derivatives: [RowNumbers; 2],
    /// The tree and the output whose derivatives these are.
    pub derived: Option<(u64, usize)>,
}

/// Returns the ties with the blocks that they start in.
fn ties(sets: &RiskSets) -> Vec<RiskTie> {
    let mut block = 0;
    let of_tie = |tie: &taiga_core::losses::risk_sets::Tie| {
        while sets.blocks[block as usize + 1] <= tie.start {
            block += 1;
        }
        RiskTie { weight: tie.weight, start: tie.start, died: tie.died, end: tie.end, first: tie.stratum.0, last: tie.stratum.1, block }
    };
    sets.ties.iter().map(of_tie).collect()
}

impl DeviceRiskSets {
    /// Bytes on the device.
    pub fn bytes(data: &TrainingData<'_>) -> u64 {
        let Some(sets) = &data.risk_sets else { return 0 };
        // Row, tie, risk and sum by place, weights and two derivatives; each tie and its sums; starts and sums of blocks.
        28 * sets.rows.len() as u64
            + 4 * sets.weight.as_ref().map_or(0, Vec::len) as u64
            + 64 * sets.ties.len() as u64
            + 48 * sets.blocks.len() as u64
    }

    /// Brings the rows to the device, where the loss is Cox's.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new(queue: &Queue, data: &TrainingData<'_>) -> Result<Option<DeviceRiskSets>> {
        let Some(sets) = &data.risk_sets else { return Ok(None) };
        const WHAT: &str = "rows by time";
        let (places, blocks, strata) = (sets.tie.len(), sets.blocks.len() - 1, sets.strata.len() - 1);
        let copy = |values: &[u32]| Buffer::copy_of(queue, WHAT, values);
        let numbers = [copy(&sets.rows)?, copy(&sets.tie)?, copy(&sets.blocks)?, copy(&sets.strata)?];
        let weight = sets.weight.as_ref().map(|w| Buffer::copy_of(queue, WHAT, w)).transpose()?;
        let ties = Buffer::copy_of(queue, WHAT, &ties(sets))?;
        let risk = Buffer::new(queue, WHAT, places)?;
        let room = |n: usize| Buffer::<f64>::new(queue, WHAT, n);
        let sums = [room(places)?, room(blocks)?, room(4 * sets.ties.len())?, room(4 * blocks)?];
        let by_row = || RowNumbers::new(queue, WHAT, &(0..sets.rows.len()));
        let derivatives = [by_row()?, by_row()?];
        let rows = RiskRows {
            rows: sets.rows.len() as u64,
            places: places as u64,
            blocks: blocks as u32,
            strata: strata as u32,
            row: numbers[0].address,
            weight: weight.as_ref().map_or(0, |w| w.address),
            ties: ties.address,
            tie: numbers[1].address,
            starts: numbers[2].address,
            stratum: numbers[3].address,
            scores: 0,
            risk: risk.address,
            at_risk: sums[0].address,
            carry: sums[1].address,
            hazard: sums[2].address,
            hazard_carry: sums[3].address,
            gradient: derivatives[0].address_of(0),
            hessian: derivatives[1].address_of(0),
            middle: sets.middle,
            unused: 0,
        };
        let (_numbers, _weight, _ties, _risk, _sums) = (numbers, weight, ties, risk, sums);
        Ok(Some(DeviceRiskSets { rows, _numbers, _weight, _ties, _risk, _sums, derivatives, derived: None }))
    }

    /// Finds the derivatives at `scores`, which are by row.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn derive(&self, queue: &Queue, kernels: &Kernels, scores: u64) -> Result<()> {
        let rows = RiskRows { scores, ..self.rows };
        let most = queue.gpu().multiprocessors() * 8;
        // A warp a block, and one a stratum.
        let warps = |n: u32| grid(n.div_ceil(8).min(most).max(1), 256, 0);
        let (by_block, by_stratum) = (warps(rows.blocks), warps(rows.strata));
        let by_place = grid((rows.rows.div_ceil(256) as u32).min(most).max(1), 256, 0);
        // SAFETY: the argument is that of the kernels: rows by stratum and time, and room by place, tie, block and row.
        unsafe {
            launch!(queue, &kernels.risk_add, by_block; &rows)?;
            launch!(queue, &kernels.risk_carry, by_stratum; &rows)?;
            launch!(queue, &kernels.risk_complete, by_block; &rows)?;
            launch!(queue, &kernels.risk_hazards, by_block; &rows)?;
            launch!(queue, &kernels.risk_hazard_carry, by_stratum; &rows)?;
            launch!(queue, &kernels.risk_finish, by_place; &rows)
        }
    }
}
