//! What the user says of the bins, and the edges that follow from it: those of NumPy, to the last
//! bit.

use super::locate::Locator;
use crate::column::{Column, Width};
use crate::error::{Error, Result};
use serde::Deserialize;

/// The most bins of a histogram.
pub const MAX_BINS: usize = 1_000_000;
/// The most cells of a histogram of two columns.
pub const MAX_CELLS: usize = 4_000_000;
const DEFAULT_BINS: i64 = 10;

/// The bins of one column: a number of equal ones, or their edges.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AxisParams {
    /// How many, 1 to [`MAX_BINS`]; 10 unless said. Not together with `edges`.
    pub bins: Option<i64>,
    /// The outer edges. None and (0, 0): the smallest and the largest value.
    pub range: Option<(f64, f64)>,
    /// Ascending edges, at least two; equal and infinite ones are allowed.
    pub edges: Option<Vec<f64>>,
}

/// The parameters of a histogram.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HistogramParams {
    pub axis: AxisParams,
    /// Densities, whose integral over all bins is 1, in place of counts.
    pub density: bool,
}

/// The parameters of a histogram of two columns.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Histogram2dParams {
    pub x: AxisParams,
    pub y: AxisParams,
    /// Densities, whose integral over all cells is 1, in place of counts.
    pub density: bool,
}

impl HistogramParams {
    /// # Errors
    /// For a parameter that can't have its value.
    pub fn validate(&self) -> Result<()> {
        self.axis.validate("")
    }
}

impl Histogram2dParams {
    /// # Errors
    /// For a parameter that can't have its value, and for too many cells.
    pub fn validate(&self) -> Result<()> {
        self.x.validate(" of x")?;
        self.y.validate(" of y")?;
        let (x, y) = (self.x.bins(), self.y.bins());
        if x * y > MAX_CELLS {
            return Err(Error::parameter("bins", format!("{x} by {y} bins are more than {MAX_CELLS} cells")));
        }
        Ok(())
    }
}

impl AxisParams {
    /// `of` says which of two columns.
    fn validate(&self, of: &str) -> Result<()> {
        let wrong = |name: &str, message: String| Err(Error::parameter(format!("{name}{of}"), message));
        if let Some((first, last)) = self.range {
            if !first.is_finite() || !last.is_finite() {
                return wrong("range", format!("({first:?}, {last:?}) is not finite"));
            }
            if first > last {
                return wrong("range", format!("({first:?}, {last:?}): the first must not be larger than the second"));
            }
        }
        match &self.edges {
            None => {
                let bins = self.bins.unwrap_or(DEFAULT_BINS);
                if !(1..=MAX_BINS as i64).contains(&bins) {
                    return wrong("bins", format!("{bins} is not between 1 and {MAX_BINS}"));
                }
            }
            Some(edges) => {
                if self.bins.is_some() || self.range.is_some() {
                    return wrong("bins", "a list of edges says all of the bins: leave out `range`".into());
                }
                if !(2..=MAX_BINS + 1).contains(&edges.len()) {
                    return wrong("bins", format!("{} edges; there must be 2 to {}", edges.len(), MAX_BINS + 1));
                }
                if let Some(i) = edges.iter().position(|e| e.is_nan()) {
                    return wrong("bins", format!("edge {i} is NaN"));
                }
                if let Some(i) = edges.windows(2).position(|w| w[0] > w[1]) {
                    return wrong("bins", format!("edges must ascend, and {:?} is followed by {:?}", edges[i], edges[i + 1]));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of bins of parameters that are valid.
    pub fn bins(&self) -> usize {
        self.edges.as_ref().map_or(self.bins.unwrap_or(DEFAULT_BINS) as usize, |edges| edges.len() - 1)
    }

    /// Returns the range that is given: (0, 0) is none.
    fn given_range(&self) -> Option<(f64, f64)> {
        self.range.filter(|range| *range != (0.0, 0.0))
    }

    /// Returns whether the edges depend on the data.
    pub fn needs_extremes(&self) -> bool {
        self.edges.is_none() && self.given_range().is_none()
    }
}

/// The bins of a column: `edges[i] <= x < edges[i + 1]`, the last one closed.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    pub edges: Vec<f64>,
    /// Whether the bins have equal widths, up to rounding.
    pub uniform: bool,
    /// The edges are f32 values.
    pub single: bool,
}

impl Bins {
    /// Returns the bins of `column`, whose smallest and largest value are `extremes` (None where nothing is left; asked for only
    /// where [`AxisParams::needs_extremes`]).
    ///
    /// NumPy's rules: f32 edges for a f32 column (`width` says so: where two columns are binned,
    /// both count); equal ends are moved apart, here by 1 each; 0 to 1 for no values. Edges from
    /// the data of a f32 column are computed in f32, from a given range in f64 and then rounded.
    ///
    /// # Errors
    /// For infinite extremes, and where rounding leaves a bin without width.
    pub fn new(column: &Column<'_>, params: &AxisParams, width: Width, extremes: Option<(f64, f64)>) -> Result<Self> {
        if let Some(edges) = &params.edges {
            return Ok(Bins { edges: edges.clone(), uniform: false, single: false });
        }
        let (single, bins, given) = (width == Width::Single, params.bins(), params.given_range());
        let (first, last) = given.or(extremes).unwrap_or((0.0, 1.0));
        if !first.is_finite() || !last.is_finite() {
            let name = column.name();
            return Err(Error::column(
                name,
                format!(
                    "its values reach from {first:?} to {last:?}, which is no finite range: give range=, or edges as bins=[…], or leave infinite values \
                     out with .filter(pl.col({name:?}).is_finite())"
                ),
            ));
        }
        let edges = if first == last {
            rounded(linspace(first - 1.0, last + 1.0, bins), single)
        } else if single && given.is_none() && extremes.is_some() {
            linspace_f32(first as f32, last as f32, bins)
        } else {
            rounded(linspace(first, last, bins), single)
        };
        // All of them, as vectors: a search that stops early takes longer.
        let ascend = edges.windows(2).fold(true, |so_far, w| so_far & (w[0] < w[1]));
        if !ascend || !(edges[bins] - edges[0]).is_finite() {
            let float = if single { "Float32" } else { "Float64" };
            let which = if given.is_some() { "the range" } else { "its values" };
            return Err(Error::column(
                column.name(),
                format!("{which} from {first:?} to {last:?} can't be cut into {bins} bins of a finite width in {float}"),
            ));
        }
        Ok(Bins { edges, uniform: true, single })
    }

    /// Returns what finds the bins' values.
    pub fn locator(&self) -> Locator {
        if self.uniform { Locator::uniform(&self.edges, self.single) } else { Locator::edges(&self.edges) }
    }

    /// Returns the widths of the bins; of f32 edges in f32, as NumPy has them.
    pub fn widths(&self) -> Vec<f64> {
        let width = |w: &[f64]| if self.single { (w[1] as f32 - w[0] as f32) as f64 } else { w[1] - w[0] };
        self.edges.windows(2).map(width).collect()
    }
}

/// `numpy.linspace(first, last, bins + 1)`, step by step in the float type named.
macro_rules! linspace {
    ($first:expr, $last:expr, $bins:expr, $float:ty) => {{
        let (first, last, bins): ($float, $float, usize) = ($first, $last, $bins);
        let delta = last - first;
        let step = delta / bins as $float;
        let edge = move |i: i32| match i as $float {
            // A step that vanishes beside the smallest float.
            i if step == 0.0 => i / bins as $float * delta + first,
            i => i * step + first,
        };
        // There are at most MAX_BINS.
        (0..bins as i32).map(edge).chain([last]).map(f64::from).collect()
    }};
}

fn linspace(first: f64, last: f64, bins: usize) -> Vec<f64> {
    linspace!(first, last, bins, f64)
}

fn linspace_f32(first: f32, last: f32, bins: usize) -> Vec<f64> {
    linspace!(first, last, bins, f32)
}

fn rounded(edges: Vec<f64>, single: bool) -> Vec<f64> {
    if single { edges.into_iter().map(|e| e as f32 as f64).collect() } else { edges }
}
