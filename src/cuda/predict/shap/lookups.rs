//! Tables of trees, and the way of rows to their places in them.

use super::Explained;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::queue::Queue;
use crate::runtime::upload::upload;
use cudarc::driver::CudaSlice;
use std::ops::Range;
use taiga_core::error::Result;
use taiga_core::shap::program::{Bit, LookUp, PatternStep as Step, Program};

kernel_structs! { PatternStep, ShapLookUp }

/// Shared memory of a block that lets several of them run beside each other, and the threads of one: the fewest that are worth it last.
const GOOD_SHARED: usize = 72 << 10;
const THREADS: [usize; 4] = [256, 128, 64, 32];

/// The bytes of the sums of so many threads.
pub(super) fn bytes_of_sums(threads: usize, terms: usize) -> usize {
    8 * threads * terms.max(1)
}

/// Threads of a block whose sums of so many terms stand in shared memory, where there is room.
pub(super) fn threads_with_sums(queue: &Queue, terms: usize) -> Option<usize> {
    let most = queue.gpu().shared_per_block() as usize;
    let good = THREADS.into_iter().find(|t| bytes_of_sums(*t, terms) <= GOOD_SHARED.min(most));
    good.or_else(|| THREADS.into_iter().find(|t| bytes_of_sums(*t, terms) <= most))
}

/// The look-ups of some trees, those of an output after those of another.
pub(super) struct DeviceTables {
    pub lookups: CudaSlice<ShapLookUp>,
    pub first_lookup: CudaSlice<u32>,
    pub steps: CudaSlice<PatternStep>,
    pub places: CudaSlice<u32>,
    pub values: CudaSlice<f64>,
}

impl DeviceTables {
    /// Copies these look-ups of a program; answers to tests begin with the test `first_test`.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new(queue: &Queue, of: &Explained<'_>, program: &Program, range: Range<usize>, first_test: usize) -> Result<Self> {
        let all = &program.lookups[range.clone()];
        let first_value = all.first().map_or(0, |l| l.first_value);
        let end_value = program.lookups.get(range.end).map_or(program.values.len(), |l| l.first_value);
        let (mut lookups, mut first_lookup, mut steps, mut places) = (vec![], vec![0], vec![], vec![]);
        let kernel_step = |lookup: &LookUp, step: &Step| {
            let test = of.first_tests[lookup.tree] + step.test as usize;
            // An answer is a code of 0 or 1.
            let (slot, shift, above) = of.by_codes.as_ref().map_or(((test - first_test) as u32, 0, 0), |tests| tests[test]);
            let change = match step.change {
                Bit::Set => 0,
                Bit::Lead { right } => 2 + right as u8,
            };
            PatternStep { slot, shift, above, bit: step.bit, change }
        };
        for output in 0..program.outputs {
            for lookup in all.iter().filter(|l| l.output == output) {
                lookups.push(ShapLookUp {
                    first_value: (lookup.first_value - first_value) as u64,
                    first_step: steps.len() as u32,
                    steps: lookup.steps.len() as u32,
                    first_pattern: lookup.first_pattern,
                    pitch: lookup.pitch() as u32,
                    first_place: places.len() as u32,
                    terms: lookup.places.len() as u32,
                });
                places.extend(lookup.places.iter().map(|place| *place as u32));
                steps.extend(lookup.steps.iter().map(|step| kernel_step(lookup, step)));
            }
            first_lookup.push(lookups.len() as u32);
        }
        Ok(DeviceTables {
            lookups: upload(queue, "tables", &lookups)?,
            first_lookup: queue.copy_of("tables", &first_lookup)?,
            steps: upload(queue, "tables", &steps)?,
            places: upload(queue, "tables", &places)?,
            values: upload(queue, "tables", &program.values[first_value..end_value])?,
        })
    }
}
