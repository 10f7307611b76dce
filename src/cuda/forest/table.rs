//! What all trees of a forest share on a GPU: codes, targets, weights.

use super::FOREST;
use super::layouts::{CATEGORICAL, ForestFit, address, address_of};
use crate::launch;
use crate::runtime::column::bytes_of;
use crate::runtime::queue::{Queue, grid};
use crate::runtime::upload::upload;
use cudarc::driver::CudaSlice;
use taiga_core::error::Result;
use taiga_core::learners::forest::codes::{Code, Meaning};
use taiga_core::learners::forest::params::{Criterion, Splitter};
use taiga_core::learners::forest::steps::{ForestWork, Targets};

/// Features of a codes' block.
const LANES: usize = 32;

/// Numbers whose `x log2 x` is looked up.
const LOGS: usize = (1 << 16) + 1;

pub struct TrainingTable {
    /// In blocks of 32 features where they are bytes, else feature after feature.
    codes: CudaSlice<u8>,
    bytes: bool,
    classes: Option<CudaSlice<u32>>,
    numbers: Option<(CudaSlice<i64>, CudaSlice<u32>)>,
    weights: Option<CudaSlice<u32>>,
    logs: Option<CudaSlice<f64>>,
    distinct: Option<(CudaSlice<f64>, CudaSlice<u64>)>,
    bins: CudaSlice<u32>,
    first: CudaSlice<u8>,
    pub rows: usize,
    /// The most codes of a feature.
    pub most_bins: usize,
    pub categorical: bool,
}

impl TrainingTable {
    /// Bytes of a table on the device.
    pub fn bytes<C: Code>(work: &ForestWork<'_, C>) -> u64 {
        let (rows, features) = (work.view.stride, work.view.features.len());
        let codes = if size_of::<C>() == 1 { features.next_multiple_of(LANES) + features } else { 4 * features };
        let distinct: usize = match work.view.splitter {
            Splitter::Random => work.view.features.iter().map(|f| 8 * f.bins()).sum(),
            _ => 0,
        };
        (rows * (codes + 16) + distinct) as u64
    }

    /// Brings everything there; `work`'s memory was checked.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new<C: Code>(queue: &Queue, work: &ForestWork<'_, C>) -> Result<TrainingTable> {
        let (rows, features) = (work.view.stride, work.view.features.len());
        let bytes = size_of::<C>() == 1;
        let mut codes = upload(queue, "codes", bytes_of(work.view.codes))?;
        if bytes {
            let mut blocks = queue.alloc::<u8>("codes", features.next_multiple_of(LANES) * rows)?;
            let kernel = queue.gpu().kernel(FOREST, "forest_interleave")?;
            let (n, f) = (rows as u64, features as u32);
            // SAFETY: the arguments are those of `forest_interleave`, of so many rows and features.
            unsafe { launch!(queue, kernel, grid(rows.div_ceil(256) as u32, 256, 0); &n, &f, &codes, &mut blocks) }?;
            codes = blocks;
        }
        let all = work.view.features;
        let bins: Vec<u32> = all.iter().map(|f| f.bins() as u32).collect();
        let first: Vec<u8> = all.iter().map(|f| f.first as u8 | if f.is_categorical() { CATEGORICAL } else { 0 }).collect();
        let (mut classes, mut numbers) = (None, None);
        match work.targets {
            Targets::Two(two) => classes = Some(upload(queue, "classes", two.codes)?),
            Targets::Classes(c) => classes = Some(upload(queue, "classes", c.codes)?),
            Targets::Numbers(n) => {
                numbers = Some((upload(queue, "targets", &n.values)?, upload(queue, "targets", &n.levels)?));
            }
        }
        let weights = work.targets.weights().map(|w| upload(queue, "weights", w)).transpose()?;
        let logs = (work.criterion == Criterion::Entropy).then(|| TrainingTable::logs(queue)).transpose()?;
        let distinct = (work.view.splitter == Splitter::Random).then(|| TrainingTable::distinct(queue, work)).transpose()?;
        Ok(TrainingTable {
            codes,
            bytes,
            classes,
            numbers,
            weights,
            logs,
            distinct,
            bins: queue.copy_of("bins", &bins)?,
            first: queue.copy_of("bins", &first)?,
            rows,
            most_bins: bins.iter().copied().max().unwrap_or(1) as usize,
            categorical: all.iter().any(|f| f.is_categorical()),
        })
    }

    fn logs(queue: &Queue) -> Result<CudaSlice<f64>> {
        let mut logs = queue.alloc::<f64>("logarithms", LOGS)?;
        let (kernel, n) = (queue.gpu().kernel(FOREST, "forest_logs")?, LOGS as u32);
        // SAFETY: the arguments are those of `forest_logs`, with room for as many.
        unsafe { launch!(queue, kernel, grid(n.div_ceil(256), 256, 0); &n, &mut logs) }?;
        Ok(logs)
    }

    /// The values that ranks stand for.
    fn distinct<C: Code>(queue: &Queue, work: &ForestWork<'_, C>) -> Result<(CudaSlice<f64>, CudaSlice<u64>)> {
        let (mut values, mut starts) = (vec![], vec![]);
        for feature in work.view.features {
            starts.push(values.len() as u64);
            if let Meaning::Values(v) = &feature.meaning {
                values.extend_from_slice(v);
            }
        }
        Ok((upload(queue, "distinct values", &values)?, queue.copy_of("distinct values", &starts)?))
    }

    /// What launches share, but for nodes and lists.
    pub fn fit<C: Code>(&self, queue: &Queue, work: &ForestWork<'_, C>) -> ForestFit {
        let codes = address(queue, &self.codes);
        let numbers = self.numbers.as_ref();
        let criterion = match work.criterion {
            Criterion::Entropy => 1,
            Criterion::SquaredError => 2,
            Criterion::Poisson => 3,
            Criterion::Auto | Criterion::Gini => 0,
        };
        let (kind, class_count, unit) = match work.targets {
            Targets::Two(_) => (0, 2, 1.0),
            Targets::Classes(c) => (1, c.classes as u32, 1.0),
            Targets::Numbers(n) => (2, 0, n.gain_factor()),
        };
        ForestFit {
            codes: if self.bytes { codes } else { 0 },
            ranks: if self.bytes { 0 } else { codes },
            bins: address(queue, &self.bins),
            first: address(queue, &self.first),
            rows: self.rows as u64,
            min_data: work.limits.min_data,
            min_gain: work.limits.min_gain,
            classes: address_of(queue, self.classes.as_ref()),
            values: address_of(queue, numbers.map(|n| &n.0)),
            levels: address_of(queue, numbers.map(|n| &n.1)),
            weights: address_of(queue, self.weights.as_ref()),
            logs: address_of(queue, self.logs.as_ref()),
            log_count: if self.logs.is_some() { LOGS as u64 } else { 0 },
            distinct: address_of(queue, self.distinct.as_ref().map(|d| &d.0)),
            distinct_starts: address_of(queue, self.distinct.as_ref().map(|d| &d.1)),
            unit,
            features: work.view.features.len() as u32,
            drawn: work.limits.drawn as u32,
            class_count,
            criterion,
            kind,
            ..ForestFit::default()
        }
    }
}
