//! Metrics of one's own: means of formulas of a row, and a formula of these means.

use super::graph::{Graph, Input};
use super::parse::{MOST_COLUMNS, parse, parse_mean};
use super::program::Program;
use super::run::{TILE, Tiles};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// A metric of one's own as parameters and models keep it. `means` read the target as `y`, the prediction as `p`, and columns in
/// backticks; `value` reads the means as `m0`, `m1`, ….
///
/// ```
/// use taiga_core::symbolic::CustomMetric;
/// let metric: CustomMetric = serde_json::from_value(serde_json::json!({
///     "name": "relative", "means": ["(y - p) ** 2", "y ** 2"], "value": "sqrt(m0 / m1)",
/// })).unwrap();
/// assert_eq!(metric.compile().unwrap().value_of(&[9.0, 36.0]), 0.5);
/// let constant = CustomMetric { value: "3".into(), ..metric };
/// assert!(constant.compile().unwrap_err().to_string().contains("does not depend on the prediction"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomMetric {
    /// What it is called.
    pub name: String,
    /// What is averaged over rows.
    pub means: Vec<String>,
    /// The metric, of the means.
    pub value: String,
    #[serde(default)]
    pub larger_is_better: bool,
}

/// The longest name of a metric, in bytes.
const LONGEST_NAME: usize = 100;

/// The error of a metric that can't be measured.
fn fault(what: impl std::fmt::Display) -> Error {
    Error::parameter("metric", format!("of the metric of your own: {what}"))
}

/// What formulas of a row call the prediction.
const PREDICTION: &str = "p";

impl CustomMetric {
    /// Reads the formulas and checks that they are of predictions.
    ///
    /// # Errors
    /// [`Error::Parameter`] of `metric`, saying what is wrong and where.
    pub fn compile(&self) -> Result<MetricFormulas> {
        let name = &self.name;
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains(['@', '"', '\n']) || matches!(name.as_str(), "round" | "best") {
            let text = "is not a name: one has 1 to 100 bytes and no @, and is neither \"round\" nor \"best\"";
            return Err(fault(format_args!("{name:?} {text}")));
        }
        if self.means.is_empty() || self.means.len() > MOST_COLUMNS {
            return Err(fault(format_args!("it has {} means; 1 to {MOST_COLUMNS} are measured", self.means.len())));
        }
        let (mut graph, mut columns) = (Graph::default(), vec![]);
        graph.input(Input::Target);
        graph.input(Input::Score);
        let parsed = self.means.iter().map(|mean| parse_mean(mean, PREDICTION, &mut graph, &mut columns).map_err(fault));
        let means = parsed.collect::<Result<Vec<_>>>()?;
        let (mut outer, mut read) = (Graph::default(), (0..means.len()).map(|i| format!("m{i}")).collect());
        outer.input(Input::Target);
        outer.input(Input::Score);
        let value = parse(&self.value, PREDICTION, &mut outer, &mut read).map_err(fault)?;
        let of_rows = [Input::Target, Input::Score].into_iter().any(|input| outer.depends_on(value, input));
        let place = |name: &String| name.strip_prefix('m').and_then(|n| n.parse::<usize>().ok()).filter(|n| *n < means.len());
        let places: Option<Vec<usize>> = read.iter().map(place).collect();
        let Some(places) = places.filter(|_| !of_rows) else {
            return Err(fault("outside of mean() there are no rows: y, p and columns stand inside of it"));
        };
        if graph.is_full() || outer.is_full() {
            return Err(fault("it is too large: simplify it, or give repeated parts a name"));
        }
        let of_prediction =
            |(i, place): (usize, &usize)| graph.depends_on(means[*place], Input::Score) && outer.depends_on(value, Input::Column(i as u16));
        if !places.iter().enumerate().any(of_prediction) {
            return Err(fault("it does not depend on the prediction p"));
        }
        let of_row = Program::new(&graph, &means, None).map_err(fault)?;
        let of_means = Program::new(&outer, &[value], None).map_err(fault)?;
        Ok(MetricFormulas { source: self.clone(), columns, of_row, of_means, places })
    }
}

/// The formulas of a metric, compiled.
#[derive(Clone, Debug)]
pub struct MetricFormulas {
    source: CustomMetric,
    columns: Vec<String>,
    of_row: Program,
    of_means: Program,
    /// Which means the value reads, in the order in which it names them.
    places: Vec<usize>,
}

impl PartialEq for MetricFormulas {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl MetricFormulas {
    /// Returns the formulas as text.
    pub fn source(&self) -> &CustomMetric {
        &self.source
    }

    /// Returns the names of the columns that are read beside target and prediction.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The number of means.
    pub fn means(&self) -> usize {
        self.source.means.len()
    }

    /// Adds up what each mean is of, `weight(row)` times the value of each row. `inputs`: targets, predictions and the columns, of one
    /// length.
    pub fn add_rows(&self, inputs: &[&[f64]], weight: impl Fn(usize) -> f64) -> Vec<f64> {
        let rows = inputs[0].len();
        let (mut sums, mut tiles) = (vec![0.0; self.means()], Tiles::new(&self.of_row));
        for from in (0..rows).step_by(TILE) {
            let part: Vec<&[f64]> = inputs.iter().map(|input| &input[from..rows.min(from + TILE)]).collect();
            for (sum, values) in sums.iter_mut().zip(tiles.run(&self.of_row, &part)) {
                *sum = (from..).zip(values).fold(*sum, |sum, (row, value)| sum + weight(row) * value);
            }
        }
        sums
    }

    /// Computes the metric of the means.
    pub fn value_of(&self, means: &[f64]) -> f64 {
        let read: Vec<[f64; 1]> = self.places.iter().map(|place| [means[*place]]).collect();
        let none: &[f64] = &[0.0];
        let inputs: Vec<&[f64]> = [none, none].into_iter().chain(read.iter().map(|x| &x[..])).collect();
        Tiles::new(&self.of_means).run(&self.of_means, &inputs).next().and_then(|values| values.first()).copied().unwrap_or(f64::NAN)
    }
}
