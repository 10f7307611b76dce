//! Histograms of one column.

use super::bins::{Bins, HistogramParams};
use super::counter::{Counter, add_counts};
use super::locate::Locator;
use super::{BATCH, BLOCK, PARALLEL_FROM, each_thread, in_block_order, min_max};
use crate::column::Column;
use crate::error::Result;
use crate::memory::{self, Reservation, product};

/// The heights over the bins: counts of rows, or sums of weights.
#[derive(Clone, Debug, PartialEq)]
pub enum Heights {
    /// Rows.
    Counts(Vec<u64>),
    /// Sums of weights, or densities.
    Values(Vec<f64>),
}

/// A histogram: `edges[i] <= x < edges[i + 1]` for bin `i`, and the last bin closed.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// One more than there are bins.
    pub edges: Vec<f64>,
    pub heights: Heights,
}

/// Returns the histogram of `column`, equal to `numpy.histogram` of its values that are not missing; `weights`, finite, are
/// summed in place of counting rows.
///
/// Weights are summed in f64: in row order inside blocks of 65,536 rows, then over the blocks,
/// which for bins of equal width is NumPy's order (of a f64 array that holds NaN where a value is
/// missing), so the sums are equal to the last bit. With `edges` NumPy takes differences of
/// cumulative sums, which round otherwise.
///
/// # Errors
/// For parameters that are not valid, and for a column whose values have no finite range.
///
/// ```
/// use taiga_core::column::Column;
/// use taiga_core::stats::{Heights, HistogramParams, histogram};
/// let column = Column::from_f64("x", &[0.0, 1.0, 1.5, 2.0, f64::NAN]);
/// let mut params = HistogramParams::default();
/// params.axis.bins = Some(2);
/// let found = histogram(&column, None, &params).unwrap();
/// assert_eq!(found.edges, [0.0, 1.0, 2.0]);
/// assert_eq!(found.heights, Heights::Counts(vec![1, 3]));
/// ```
pub fn histogram(column: &Column<'_>, weights: Option<&Column<'_>>, params: &HistogramParams) -> Result<Histogram> {
    params.validate()?;
    let bins = params.axis.bins();
    let _reserved = reserve(column.len(), bins, bins, weights.is_some(), &format!("a histogram of {bins} bins"))?;
    by_steps(column, weights.is_some(), params, &mut CpuSteps { column, weights })
}

/// Reserves what all threads count or sum `cells` cells in, and `edges` edges and what finds a value among them.
///
/// # Errors
/// [`crate::Error::Memory`].
pub(super) fn reserve(rows: usize, cells: usize, edges: usize, weighted: bool, what: &str) -> Result<Reservation> {
    let threads = if rows < PARALLEL_FROM { 1 } else { rayon::current_num_threads() } as u64;
    // Four blocks of rows a thread are summed at a time; counts are of 64 bits in the end, and in one thread of 32 besides.
    let blocks = rows.div_ceil(BLOCK) as u64;
    let of_cell = if weighted { 8 * (4 * threads).min(blocks) + 8 } else { 8 * threads + 4 };
    memory::reserve(
        what,
        memory::sum(&[product(&[cells as u64, of_cell]), 16 * edges as u64]),
        "use fewer bins, or fewer threads (POLARS_MAX_THREADS)",
    )
}

/// The steps of a histogram that a device does.
pub trait Steps {
    /// Returns the smallest and the largest value.
    fn extremes(&mut self) -> Result<Option<(f64, f64)>>;
    /// Returns the rows of each bin.
    fn count(&mut self, bins: &Bins) -> Result<Vec<u64>>;
    /// Returns the weights of each bin, in the order that [`histogram`] says.
    fn sum(&mut self, bins: &Bins) -> Result<Vec<f64>>;
}

struct CpuSteps<'a> {
    column: &'a Column<'a>,
    weights: Option<&'a Column<'a>>,
}

impl Steps for CpuSteps<'_> {
    fn extremes(&mut self) -> Result<Option<(f64, f64)>> {
        Ok(min_max(self.column).map(|m| (m.min.to_f64(), m.max.to_f64())))
    }

    fn count(&mut self, bins: &Bins) -> Result<Vec<u64>> {
        Ok(count(self.column, &bins.locator()))
    }

    fn sum(&mut self, bins: &Bins) -> Result<Vec<f64>> {
        Ok(self.weights.map(|weights| sum(self.column, weights, &bins.locator())).unwrap_or_default())
    }
}

/// Returns a histogram with the heavy steps done by `steps`, whatever the device.
pub fn by_steps(column: &Column<'_>, weighted: bool, params: &HistogramParams, steps: &mut impl Steps) -> Result<Histogram> {
    params.validate()?;
    let extremes = if params.axis.needs_extremes() { steps.extremes()? } else { None };
    let bins = Bins::new(column, &params.axis, column.width(), extremes)?;
    let heights = if weighted { Heights::Values(steps.sum(&bins)?) } else { Heights::Counts(steps.count(&bins)?) };
    let heights = if params.density { Heights::Values(heights.density(&bins.widths())) } else { heights };
    Ok(Histogram { edges: bins.edges, heights })
}

/// Looks values up batch by batch, in buffers that it keeps.
#[derive(Default)]
pub(super) struct BinLookup {
    single: Vec<f32>,
    double: Vec<f64>,
    pub(super) found: Vec<u32>,
}

impl BinLookup {
    /// Returns the bin of each of rows `start .. start + len`; the number of bins for none.
    pub(super) fn rows(&mut self, column: &Column<'_>, locator: &Locator, start: usize, len: usize) -> &[u32] {
        self.found.resize(len, 0);
        if locator.is_single() {
            locator.locate_f32(column.read_f32(start, len, &mut self.single), &mut self.found);
        } else {
            locator.locate_f64(column.borrow_f64(start, len, &mut self.double), &mut self.found);
        }
        &self.found
    }
}

/// Batches of the rows of a block.
pub(super) fn batches(rows: std::ops::Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    let end = rows.end;
    rows.step_by(BATCH).map(move |start| (start, BATCH.min(end - start)))
}

/// Returns the rows of each bin.
fn count(column: &Column<'_>, locator: &Locator) -> Vec<u64> {
    add_counts(each_thread(column.len(), |blocks| {
        let (mut counter, mut lookup) = (Counter::new(locator.bins()), BinLookup::default());
        for (start, len) in blocks.flat_map(batches) {
            counter.add(lookup.rows(column, locator, start, len));
        }
        counter.finish()
    }))
}

/// Returns the weights of each bin.
fn sum(column: &Column<'_>, weights: &Column<'_>, locator: &Locator) -> Vec<f64> {
    let mut totals = vec![0.0; locator.bins()];
    in_block_order(
        column.len(),
        |rows| {
            let (mut lookup, mut read) = (BinLookup::default(), vec![]);
            let mut sums = vec![0.0; locator.bins() + 1];
            for (start, len) in batches(rows) {
                let weights = weights.borrow_f64(start, len, &mut read);
                for (&bin, w) in lookup.rows(column, locator, start, len).iter().zip(weights) {
                    sums[bin as usize] += w;
                }
            }
            sums
        },
        |sums| totals.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum),
    );
    totals
}

impl Heights {
    /// Returns each height over its bin's width (or area) and over their sum.
    fn density(&self, widths: &[f64]) -> Vec<f64> {
        match self {
            Heights::Counts(counts) => {
                let total = counts.iter().sum::<u64>() as f64;
                counts.iter().zip(widths).map(|(&n, width)| n as f64 / width / total).collect()
            }
            Heights::Values(values) => {
                let total = pairwise_sum(values) + 0.0;
                values.iter().zip(widths).map(|(v, width)| v / width / total).collect()
            }
        }
    }
}

/// Computes what `numpy.sum` does: eight sums side by side for up to 128 values, halves beyond.
pub(super) fn pairwise_sum(values: &[f64]) -> f64 {
    let n = values.len();
    if n < 8 {
        return values.iter().fold(-0.0, |sum, x| sum + x);
    }
    if n > 128 {
        let half = n / 2 - n / 2 % 8;
        return pairwise_sum(&values[..half]) + pairwise_sum(&values[half..]);
    }
    let (rows, rest) = values.as_chunks::<8>();
    let mut s = rows[0];
    for row in &rows[1..] {
        for i in 0..8 {
            s[i] += row[i];
        }
    }
    rest.iter().fold(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])), |sum, x| sum + x)
}
