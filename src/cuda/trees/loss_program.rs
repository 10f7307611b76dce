//! Finds derivatives row by row before a tree: those of a loss of one's own and of accelerated failure time. Twin of `core/losses/custom`
//! and `core/losses/aft.rs`.

use super::buffers::{Buffer, Kernels};
use super::layouts::LossProgram;
use super::rows::RowData;
use crate::runtime::Queue;
use crate::{grid, launch};
use cudarc::driver::LaunchConfig;
use taiga_core::error::Result;
use taiga_core::losses::Loss;
use taiga_core::symbolic::Program;

/// Rows that a thread takes at a time: PROGRAM_ROWS in program.cuh.
const ROWS: u32 = 4;

/// The most threads of a block that runs a program.
const MOST_THREADS: u32 = 128;

/// Shared memory that every GPU has for a block unasked, in bytes.
const SHARED_MEMORY: u32 = 48 << 10;

/// Returns how a program is launched over so many rows: blocks of as many threads as have room for its registers.
pub fn program_grid(program: &Program, rows: usize) -> LaunchConfig {
    // Behind the registers stand the target and the score.
    let bytes = (program.registers as u32 + 2) * ROWS * size_of::<f32>() as u32;
    let mut threads = MOST_THREADS;
    while threads * bytes > SHARED_MEMORY {
        threads /= 2;
    }
    grid(rows.div_ceil((threads * ROWS) as usize).max(1) as u32, threads, threads * bytes)
}

/// A program on the device, and the derivatives that it finds.
pub struct DeviceProgram {
    grid: LaunchConfig,
    instructions: Buffer<u32>,
    constants: Buffer<f32>,
    program: LossProgram,
    /// By row, weights included.
    pub gradient: Buffer<f32>,
    pub hessian: Buffer<f32>,
}

impl DeviceProgram {
    /// Brings a program to the device, with room for the derivatives of `rows` rows; `columns`: what `source` reads beside the target.
    ///
    /// # Errors
    /// [`Error::Device`](taiga_core::Error::Device).
    fn new(queue: &Queue, source: &Program, rows: usize, columns: u64) -> Result<DeviceProgram> {
        let (words, outputs) = (source.words(), source.output_words());
        // Room for one at least.
        let mut constants: Vec<f32> = source.constants.iter().map(|x| *x as f32).collect();
        constants.resize(constants.len().max(1), 0.0);
        let instructions = Buffer::copy_of(queue, "a loss", &words)?;
        let constants = Buffer::copy_of(queue, "a loss", &constants)?;
        let program = LossProgram {
            instructions: instructions.address,
            constants: constants.address,
            columns,
            count: source.instructions.len() as u32,
            gradient: outputs[0],
            hessian: outputs[1],
            registers: source.registers as u32,
        };
        let room = || Buffer::new(queue, "derivatives", rows);
        Ok(DeviceProgram { grid: program_grid(source, rows), instructions, constants, program, gradient: room()?, hessian: room()? })
    }
}

/// Whether derivatives are found row by row before a tree, and then read.
pub fn is_found_by_row(loss: &dyn Loss) -> bool {
    loss.program().is_some() || loss.of_bounds()
}

impl RowData<'_> {
    /// Finds the derivatives of an output at the scores as they are, where that is done before a tree.
    ///
    /// # Errors
    /// [`Error::Device`](taiga_core::Error::Device).
    pub fn derive_by_row(&mut self, queue: &Queue, kernels: &Kernels, loss: &dyn Loss, output: usize) -> Result<()> {
        if loss.of_bounds() { self.derive_of_bounds(queue, kernels, loss, output) } else { self.run_program(queue, kernels, loss, output) }
    }

    /// Makes room for what [`RowData::derive_by_row`] finds.
    ///
    /// # Errors
    /// [`Error::Device`](taiga_core::Error::Device).
    pub fn reserve_by_row(&mut self, queue: &Queue, loss: &dyn Loss) -> Result<()> {
        let room = || Buffer::new(queue, "derivatives", self.rows);
        if loss.of_bounds() && self.of_bounds.is_none() {
            self.of_bounds = Some([room()?, room()?]);
        }
        if let (Some(program), None) = (loss.program(), &self.program) {
            let columns = self.columns.as_ref().map_or(0, |c| c.address);
            self.program = Some(DeviceProgram::new(queue, program, self.rows, columns)?);
        }
        Ok(())
    }

    /// Finds the derivatives of accelerated failure time at the scores as they are.
    fn derive_of_bounds(&mut self, queue: &Queue, kernels: &Kernels, loss: &dyn Loss, output: usize) -> Result<()> {
        self.reserve_by_row(queue, loss)?;
        let table = self.table(loss, output, false);
        let (Some([gradient, hessian]), Some(columns)) = (&self.of_bounds, &self.columns) else { return Ok(()) };
        let config = grid(self.blocks, 256, 0);
        // SAFETY: the arguments are those of `tree_bounds`: two columns of all rows, room for two numbers of each.
        unsafe { launch!(queue, &kernels.bounds, config; &table, &columns.address, &gradient.address, &hessian.address) }
    }

    /// Finds the derivatives of an output at the scores as they are, where the loss is one's own.
    ///
    /// # Errors
    /// [`Error::Device`](taiga_core::Error::Device).
    fn run_program(&mut self, queue: &Queue, kernels: &Kernels, loss: &dyn Loss, output: usize) -> Result<()> {
        if loss.program().is_none() {
            return Ok(());
        }
        self.reserve_by_row(queue, loss)?;
        let table = self.table(loss, output, false);
        let Some(DeviceProgram { grid, program, gradient, hessian, instructions, constants }) = &self.program else { return Ok(()) };
        debug_assert!(program.instructions == instructions.address && program.constants == constants.address);
        // SAFETY: the arguments are those of `tree_run_program`: a program whose operands are there, room for two numbers of each row;
        // and shared memory for the registers of a block's threads.
        unsafe { launch!(queue, &kernels.run_program, *grid; &table, program, &gradient.address, &hessian.address) }
    }
}
