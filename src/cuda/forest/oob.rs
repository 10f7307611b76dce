//! Predictions of the rows that trees were not grown on: `kernels/forest/oob.cuh`.

use super::layouts::{ForestFit, WalkStep};
use super::{FOREST, TreeBatch};
use crate::launch;
use crate::runtime::column::bytes_of_mut;
use crate::runtime::queue::each_row;
use crate::runtime::queue::{Queue, grid};
use crate::runtime::upload::upload;
use cudarc::driver::CudaSlice;
use taiga_core::error::Result;
use taiga_core::learners::forest::codes::Code;
use taiga_core::learners::forest::steps::{OutOfBagSums, Targets};

/// Sums of predictions in fixed point, `[row][output]`, and of each row how many trees said something.
pub struct OutOfBagPredictions {
    sums: CudaSlice<i64>,
    counts: CudaSlice<u32>,
    rows: usize,
    outputs: usize,
}

impl OutOfBagPredictions {
    pub fn new(queue: &Queue, rows: usize, outputs: usize) -> Result<OutOfBagPredictions> {
        let sums = queue.zeros("predictions out of bag", rows * outputs)?;
        Ok(OutOfBagPredictions { sums, counts: queue.zeros("predictions out of bag", rows)?, rows, outputs })
    }

    pub fn read(&self, queue: &Queue) -> Result<OutOfBagSums> {
        let mut out = OutOfBagSums { sums: vec![0; self.rows * self.outputs], counts: vec![0; self.rows] };
        queue.download(&self.sums, bytes_of_mut(&mut out.sums))?;
        queue.download(&self.counts, bytes_of_mut(&mut out.counts))?;
        Ok(out)
    }
}

impl<C: Code> TreeBatch<'_, '_, C> {
    /// Adds what the batch's trees say of the rows that they did not draw; `cuts`: of each
    /// node the code that larger ones go right of, or [`NONE`](super::NONE); `saw_all`: trees that were grown on every row.
    pub fn predict_out_of_bag(
        &self,
        fit: &ForestFit,
        draws: Option<usize>,
        cuts: &[u32],
        saw_all: &[usize],
        out: &mut OutOfBagPredictions,
    ) -> Result<()> {
        let (queue, gpu) = (self.queue, self.queue.gpu());
        let used = cuts.len();
        let (Some(draws), Some(scale)) = (draws, self.work.oob) else { return Ok(()) };
        let mut steps = queue.alloc::<WalkStep>("steps", used)?;
        let mut values = queue.alloc::<i64>("values of leaves", used * out.outputs)?;
        let cuts = upload(queue, "cuts", cuts)?;
        let n = used as u32;
        let kernel = gpu.kernel(FOREST, "forest_steps")?;
        // SAFETY: the arguments are those of the kernel; there is a cut for each node.
        unsafe { launch!(queue, kernel, grid(n.div_ceil(256), 256, 0); fit, &n, &cuts, &mut steps) }?;
        let (centre, unit) = match self.work.targets {
            Targets::Numbers(n) => (n.centre, n.unit),
            _ => (0.0, 1.0),
        };
        let kernel = gpu.kernel(FOREST, "forest_values")?;
        let (scale, middle) = (scale.scale, scale.centre);
        // SAFETY: likewise, with so many values each.
        unsafe {
            launch!(queue, kernel, each_row(queue, used * out.outputs); fit, &n, &scale, &centre, &unit, &middle, &mut values)?;
        }
        let walk = gpu.kernel(FOREST, "forest_walk_out")?;
        let mut counts = queue.alloc::<u32>("draws", self.table.rows)?;
        for tree in (0..self.count).filter(|tree| !saw_all.contains(tree)) {
            self.draw(tree, draws, &mut counts)?;
            let root = tree as u32;
            let shape = grid(self.table.rows.div_ceil(256) as u32, 256, 0);
            // SAFETY: likewise; there are sums for each row.
            unsafe { launch!(queue, walk, shape; fit, &root, &counts, &steps, &values, &mut out.sums, &mut out.counts)? };
        }
        queue.synchronize()
    }
}
