//! Histograms of two columns.

use super::bins::{AxisParams, Bins, Histogram2dParams};
use super::counter::{Counter, add_counts};
use super::histogram::{BinLookup, Heights, batches, reserve};
use super::locate::Locator;
use super::{each_thread, in_block_order};
use crate::column::{Column, Width};
use crate::error::{Error, Result};

/// A histogram of two columns; cell `i · (bins of y) + j` holds the rows whose x is in bin `i`
/// and whose y is in bin `j`.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram2d {
    pub x_edges: Vec<f64>,
    pub y_edges: Vec<f64>,
    pub heights: Heights,
}

/// Returns the histogram of two columns, equal to `numpy.histogram2d` of the rows in which neither is missing; `weights`, finite,
/// are summed in place of counting rows: in f64, in row order inside blocks of 65,536 rows, then over the blocks.
///
/// Edges are f32 where NumPy's are: for two columns that f32 holds, f32 itself among them, and
/// ends that come from the data.
///
/// # Errors
/// As [`histogram`](super::histogram()), and for too many cells.
pub fn histogram2d(x: &Column<'_>, y: &Column<'_>, weights: Option<&Column<'_>>, params: &Histogram2dParams) -> Result<Histogram2d> {
    params.validate()?;
    let (nx, ny) = (params.x.bins(), params.y.bins());
    let _reserved = reserve(x.len(), nx * ny, nx + ny, weights.is_some(), &format!("a histogram of {nx} by {ny} bins"))?;
    by_steps(x, y, weights.is_some(), params, &mut CpuSteps { x, y, weights })
}

/// The extremes of two columns.
pub type Extremes2d = [(f64, f64); 2];

/// The steps of a histogram of two columns that a device does.
pub trait Steps2d {
    /// Returns the smallest and the largest value of each over the rows in which neither is missing; a zero has no sign.
    fn extremes(&mut self) -> Result<Option<Extremes2d>>;
    /// Returns the rows of each cell.
    fn count(&mut self, x: &Locator, y: &Locator) -> Result<Vec<u64>>;
    /// Returns the weights of each cell, in the order that [`histogram2d`] says.
    fn sum(&mut self, x: &Locator, y: &Locator) -> Result<Vec<f64>>;
}

struct CpuSteps<'a> {
    x: &'a Column<'a>,
    y: &'a Column<'a>,
    weights: Option<&'a Column<'a>>,
}

impl Steps2d for CpuSteps<'_> {
    fn extremes(&mut self) -> Result<Option<Extremes2d>> {
        Ok(extremes(self.x, self.y))
    }

    fn count(&mut self, x_bins: &Locator, y_bins: &Locator) -> Result<Vec<u64>> {
        Ok(BinGrid { x: self.x, y: self.y, x_bins, y_bins }.count())
    }

    fn sum(&mut self, x_bins: &Locator, y_bins: &Locator) -> Result<Vec<f64>> {
        Ok(self.weights.map(|weights| BinGrid { x: self.x, y: self.y, x_bins, y_bins }.sum(weights)).unwrap_or_default())
    }
}

/// Returns a histogram of two columns with the heavy steps done by `steps`, whatever the device.
pub fn by_steps(
    x: &Column<'_>,
    y: &Column<'_>,
    weighted: bool,
    params: &Histogram2dParams,
    steps: &mut impl Steps2d,
) -> Result<Histogram2d> {
    params.validate()?;
    if x.len() != y.len() {
        return Err(Error::Data(format!("columns `{}` and `{}` differ in length: {} and {}", x.name(), y.name(), x.len(), y.len())));
    }
    let needed = params.x.needs_extremes() || params.y.needs_extremes();
    let [x_extremes, y_extremes] = if needed { steps.extremes()? } else { None }.map_or([None; 2], |e| e.map(Some));
    let width = x.width().max(y.width());
    let x_bins = bins(x, &params.x, width, x_extremes)?;
    let y_bins = bins(y, &params.y, width, y_extremes)?;
    let (x_locator, y_locator) = (locator(&x_bins), locator(&y_bins));
    let heights = match weighted {
        false => Heights::Counts(steps.count(&x_locator, &y_locator)?),
        true => Heights::Values(steps.sum(&x_locator, &y_locator)?),
    };
    let heights = if params.density { Heights::Values(density(&heights, &x_bins, &y_bins)) } else { heights };
    Ok(Histogram2d { x_edges: x_bins.edges, y_edges: y_bins.edges, heights })
}

/// NumPy computes edges from a given range in f64 here, and rounds none.
fn bins(column: &Column<'_>, params: &AxisParams, width: Width, extremes: Option<(f64, f64)>) -> Result<Bins> {
    let own = params.needs_extremes() && extremes.is_some_and(|(first, last)| first != last);
    Bins::new(column, params, if own { width } else { Width::Double }, extremes)
}

/// Values are compared in f64, which is the same test.
fn locator(bins: &Bins) -> Locator {
    if bins.uniform { Locator::uniform(&bins.edges, false) } else { Locator::edges(&bins.edges) }
}

fn density(heights: &Heights, x: &Bins, y: &Bins) -> Vec<f64> {
    let total = match heights {
        Heights::Counts(counts) => counts.iter().sum::<u64>() as f64,
        Heights::Values(values) => super::histogram::pairwise_sum(values),
    };
    let (x, y) = (x.widths(), y.widths());
    let height = |cell: usize| match heights {
        Heights::Counts(counts) => counts[cell] as f64,
        Heights::Values(values) => values[cell],
    };
    (0..x.len() * y.len()).map(|cell| height(cell) / x[cell / y.len()] / y[cell % y.len()] / total).collect()
}

/// Returns the extremes of each column over the rows in which neither is missing.
fn extremes(x: &Column<'_>, y: &Column<'_>) -> Option<Extremes2d> {
    let shares = each_thread(x.len(), |blocks| {
        let mut found = [(f64::INFINITY, f64::NEG_INFINITY); 2];
        let mut read = [vec![], vec![]];
        for (start, len) in blocks.flat_map(batches) {
            let [first, second] = &mut read;
            let (x, y) = (x.borrow_f64(start, len, first), y.borrow_f64(start, len, second));
            for (&x, &y) in x.iter().zip(y) {
                let both = !x.is_nan() & !y.is_nan();
                for ((low, high), value) in found.iter_mut().zip([x, y]) {
                    *low = if both & (value < *low) { value } else { *low };
                    *high = if both & (value > *high) { value } else { *high };
                }
            }
        }
        found
    });
    let mut found = [(f64::INFINITY, f64::NEG_INFINITY); 2];
    for share in shares {
        for ((low, high), (min, max)) in found.iter_mut().zip(share) {
            *low = low.min(min);
            *high = high.max(max);
        }
    }
    // A zero without sign: which zero came first depends on the threads.
    (found[0].0 <= found[0].1).then(|| found.map(|(low, high)| (low + 0.0, high + 0.0)))
}

struct BinGrid<'a> {
    x: &'a Column<'a>,
    y: &'a Column<'a>,
    x_bins: &'a Locator,
    y_bins: &'a Locator,
}

impl BinGrid<'_> {
    fn len(&self) -> usize {
        self.x_bins.bins() * self.y_bins.bins()
    }

    /// Returns the cell of each of rows `start .. start + len`; the number of cells for none.
    fn rows<'s>(&self, lookups: &'s mut [BinLookup; 2], start: usize, len: usize) -> &'s [u32] {
        let [x, y] = lookups;
        x.rows(self.x, self.x_bins, start, len);
        let (bins, other_bins) = (self.x_bins.bins() as u32, self.y_bins.bins() as u32);
        let none = bins * other_bins;
        for (cell, &other) in x.found.iter_mut().zip(y.rows(self.y, self.y_bins, start, len)) {
            *cell = if (*cell < bins) & (other < other_bins) { *cell * other_bins + other } else { none };
        }
        &x.found
    }

    fn count(&self) -> Vec<u64> {
        add_counts(each_thread(self.x.len(), |blocks| {
            let (mut counter, mut lookups) = (Counter::new(self.len()), Default::default());
            for (start, len) in blocks.flat_map(batches) {
                counter.add(self.rows(&mut lookups, start, len));
            }
            counter.finish()
        }))
    }

    fn sum(&self, weights: &Column<'_>) -> Vec<f64> {
        let mut totals = vec![0.0; self.len()];
        in_block_order(
            self.x.len(),
            |rows| {
                let (mut lookups, mut read) = (Default::default(), vec![]);
                let mut sums = vec![0.0; self.len() + 1];
                for (start, len) in batches(rows) {
                    let weights = weights.borrow_f64(start, len, &mut read);
                    for (&cell, w) in self.rows(&mut lookups, start, len).iter().zip(weights) {
                        sums[cell as usize] += w;
                    }
                }
                sums
            },
            |sums| totals.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum),
        );
        totals
    }
}
