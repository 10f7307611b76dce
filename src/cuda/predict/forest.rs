//! A forest applied on the GPU: what [`taiga_core::learners::forest::Predictor`] computes, with the same bits.

use super::PREDICT;
use super::answers::{ReadRows, RowBlock, RowTests, rows_by};
use crate::columns::codes::{CodeInput, CodePlace, quantize};
use crate::launch;
use crate::runtime::column::bytes_of_mut;
use crate::runtime::device::Gpu;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::queue::{Queue, grid};
use crate::runtime::upload::upload;
use cudarc::driver::CudaSlice;
use std::ops::Range;
use taiga_core::column::Column;
use taiga_core::error::Result;
use taiga_core::learners::forest::Predictor;
use taiga_core::learners::forest::apply::{Reading, Test};

kernel_structs! { ForestNode, ForestTree }

/// A forest on a GPU, to be applied many times, from several threads at once.
pub struct DeviceForest {
    /// What the buffers were made on; it outlives them.
    queue: Queue,
    /// How each feature is read, and its place among those that are read so.
    slots: Vec<(FeatureReading, usize)>,
    /// How many features are read as codes, and as values.
    coded: usize,
    valued: usize,
    nodes: CudaSlice<ForestNode>,
    trees: CudaSlice<ForestTree>,
    tree_count: usize,
    sets: CudaSlice<u64>,
    values: CudaSlice<f64>,
    outputs: usize,
}

/// How the rows' values of a feature come to the kernel.
enum FeatureReading {
    None,
    Codes(Vec<f64>),
    Values,
    Categories(u32),
}

impl DeviceForest {
    /// Copies `predictor`'s forest to `gpu`.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new(gpu: &'static Gpu, predictor: &Predictor) -> Result<Self> {
        let queue = Queue::new(gpu)?;
        let (mut coded, mut valued, mut slots) = (0, 0, vec![]);
        let next = |count: &mut usize| {
            *count += 1;
            *count - 1
        };
        for (f, reading) in predictor.readings().enumerate() {
            slots.push(match reading {
                Reading::None => (FeatureReading::None, 0),
                Reading::Codes => (FeatureReading::Codes(predictor.forest().features[f].borders.clone()), next(&mut coded)),
                Reading::Values => (FeatureReading::Values, next(&mut valued)),
                Reading::Categories(known) => (FeatureReading::Categories(known), next(&mut coded)),
            });
        }
        let node = |(feature, test, children): (usize, Test, [u32; 2])| {
            let slot = slots[feature].1 as u32;
            let (split_by, shift, above, border) = match test {
                Test::Code { shift, above } => (0, shift as u32, above as u32, 0.0),
                Test::Value { border, missing_right } => (1, missing_right as u32, 0, border),
                Test::Set(set) => (2, 0, set, 0.0),
            };
            ForestNode { border, slot, split_by, shift, above, children }
        };
        let nodes: Vec<ForestNode> = predictor.questions().map(node).collect();
        let plant = |pair: &[(usize, usize)]| ForestTree {
            first_node: pair[0].0 as u64,
            first_value: pair[0].1 as u64,
            nodes: (pair[1].0 - pair[0].0) as u32,
            unused: 0,
        };
        let trees: Vec<ForestTree> = predictor.starts().windows(2).map(plant).collect();
        let sets: Vec<u64> = predictor.forest().sets.iter().flat_map(|s| s.words()).collect();
        let placed = DeviceForest {
            slots,
            coded,
            valued,
            nodes: upload(&queue, "a forest", &nodes)?,
            trees: upload(&queue, "a forest", &trees)?,
            tree_count: trees.len(),
            sets: upload(&queue, "a forest", &sets)?,
            values: upload(&queue, "a forest", predictor.leaf_values())?,
            outputs: predictor.forest().outputs(),
            queue,
        };
        placed.queue.synchronize()?;
        Ok(placed)
    }

    /// Walks rows of columns that [`Predictor::bind`] gives: to `out`, or to `leaves`.
    fn walk(&self, queue: &Queue, columns: &[&Column<'_>], out: Option<&CudaSlice<f64>>, leaves: Option<&CudaSlice<u32>>) -> Result<()> {
        let rows = columns.first().map_or(0, |c| c.len());
        let read = self.read(queue, columns, rows)?;
        let kernel = queue.gpu().kernel(PREDICT, "predict_forest")?;
        let (n, trees, outputs) = (rows as u64, self.tree_count as u32, self.outputs as u32);
        let (out, leaves) = (crate::forest::layouts::address_of(queue, out), crate::forest::layouts::address_of(queue, leaves));
        // SAFETY: the arguments are those of `predict_forest`; there are codes and values of all slots, and room for what is
        // written.
        unsafe {
            launch!(queue, kernel, grid(rows.div_ceil(256) as u32, 256, 0);
                &n, &read.codes, &read.values, &self.trees, &trees, &self.nodes, &self.sets, &self.values, &outputs, &out, &leaves)
        }
    }

    fn check(&self, queue: &Queue, rows: usize, written: usize) -> Result<()> {
        queue.check_memory("predicting", (rows * (self.coded + 8 * self.valued + written + 24)) as u64)
    }

    /// [`Predictor::predict`] on the GPU; `columns` as [`Predictor::bind`] gives them.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn predict(&self, queue: &Queue, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        let rows = columns.first().map_or(0, |c| c.len());
        if rows == 0 {
            return Ok(vec![vec![]; self.outputs]);
        }
        self.check(queue, rows, 8 * self.outputs)?;
        let found = queue.alloc::<f64>("predictions", rows * self.outputs)?;
        self.walk(queue, columns, Some(&found), None)?;
        let mut out = vec![0.0; rows * self.outputs];
        queue.download(&found, bytes_of_mut(&mut out))?;
        Ok(out.chunks(rows).map(<[f64]>::to_vec).collect())
    }

    /// [`Predictor::leaves`] on the GPU.
    ///
    /// # Errors
    /// As there.
    pub fn leaves(&self, queue: &Queue, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        let rows = columns.first().map_or(0, |c| c.len());
        if rows == 0 {
            return Ok(vec![]);
        }
        self.check(queue, rows, 4 * self.tree_count)?;
        let found = queue.alloc::<u32>("leaves", rows * self.tree_count)?;
        self.walk(queue, columns, None, Some(&found))?;
        let mut out = vec![0; rows * self.tree_count];
        queue.download(&found, bytes_of_mut(&mut out))?;
        Ok(out)
    }
}

impl RowTests for DeviceForest {
    fn gpu(&self) -> &'static Gpu {
        self.queue.gpu()
    }

    fn read(&self, queue: &Queue, columns: &[&Column<'_>], rows: usize) -> Result<ReadRows> {
        let mut codes = queue.alloc::<u8>("codes", self.coded * rows)?;
        let (mut values, mut categories) = (vec![0.0; self.valued * rows], vec![]);
        for ((slot, at), column) in self.slots.iter().zip(columns) {
            match slot {
                FeatureReading::Values => column.read_f64(0, &mut values[at * rows..(at + 1) * rows]),
                FeatureReading::Categories(known) => {
                    let code = |c: &u32| if c < known { *c as u8 + 1 } else { 0 };
                    categories.push((column.category_codes().unwrap_or_default().iter().map(code).collect::<Vec<u8>>(), *at));
                }
                FeatureReading::None | FeatureReading::Codes(_) => {}
            }
        }
        let values = upload(queue, "values", &values)?;
        let numeric = self.slots.iter().zip(columns).filter_map(|((slot, at), column)| match slot {
            FeatureReading::Codes(borders) => Some((CodeInput::Values(column, borders, 1), *at)),
            _ => None,
        });
        let sources = numeric.chain(categories.iter().map(|(codes, at)| (CodeInput::Codes(codes), *at)));
        let sources: Vec<_> = sources.map(|(source, at)| (source, CodePlace { first: at * rows, stride: 1 })).collect();
        quantize(queue, &sources, &mut codes)?;
        Ok(ReadRows { codes, values, stride: rows })
    }

    fn answer(&self, queue: &Queue, read: &ReadRows, block: RowBlock, tests: Range<usize>, out: &mut CudaSlice<u8>) -> Result<()> {
        let kernel = queue.gpu().kernel(PREDICT, "answer_nodes")?;
        let (rows, first, stride) = (block.rows as u64, block.first as u64, read.stride as u64);
        let (first_node, count) = (tests.start as u64, tests.len() as u32);
        // SAFETY: the arguments are those of `answer_nodes`: codes and values of all rows and slots, nodes that are there, and room for an
        // answer to each of them of each row.
        unsafe {
            launch!(queue, kernel, rows_by(block.rows, tests.len());
                &rows, &first, &stride, &read.codes, &read.values, &self.nodes, &self.sets, &first_node, &count, &rows, out)
        }
    }
}
